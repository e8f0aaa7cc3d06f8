"""Vectors and matrices of a selection: which entry stands where.

{θ: array} <-> vector `[p]`; outputs <-> vector `[B·out]`; Selection -> matrix `[B, out, p]`
Samples run slowest, then outputs or θ in declared order, then the axes of each: with `vec="C"` (row
by row) the last of them runs fastest, with `vec="F"` (column by column) the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Literal

import numpy as np

from symgrad.batch import outward
from symgrad.errors import ArgumentError
from symgrad.products.evaluate import filled, piece_by_piece
from symgrad.products.given import vector
from symgrad.products.linear import leading, tangents
from symgrad.products.planned import Sums
from symgrad.products.selection import Selection
from symgrad.products.sides import Factored, Rows
from symgrad.products.terms import Values

Vec = Literal["C", "F"]


def require_order(vec: str) -> None:
    """Raise ArgumentError for an order there is none of."""
    if vec not in ("C", "F"):
        raise ArgumentError(f"vec must be 'C' (row by row) or 'F' (column by column), got {vec!r}")


# ------------------------------------------------------------ what stands where


def rows(own: Selection) -> dict[str, slice]:
    """Return the rows that every output has among those of one sample."""
    return _slices({o: prod(own.of(o).out) for o in own.outputs})


def columns(own: Selection) -> dict[str, slice]:
    """Return the columns that every θ has for one sample."""
    return _slices({p: prod(own.with_respect_to(p).theta) for p in own.parameters})


def flat_columns(own: Selection) -> dict[str, slice]:
    """Return the entries of a flat vector that every θ has; inputs have them for every sample."""
    ones = {p: own.with_respect_to(p) for p in own.parameters}
    return _slices({p: prod(f.theta) * (f.count if f.is_input else 1) for p, f in ones.items()})


def length(parts: Mapping[str, slice]) -> int:
    """Return how long a vector of these parts is."""
    return max((s.stop for s in parts.values()), default=0)


def _slices(lengths: Mapping[str, int]) -> dict[str, slice]:
    ends = np.cumsum([0, *lengths.values()]).tolist()
    return {n: slice(a, b) for n, a, b in zip(lengths, ends, ends[1:], strict=False)}


def joined(array: Values, own: int, vec: Vec) -> Values:
    """Return an array with its last `own` axes as one."""
    lead = array.ndim - own
    if vec == "F":
        array = array.transpose(*range(lead), *reversed(range(lead, array.ndim)))
    return array.reshape((*array.shape[:lead], prod(array.shape[lead:])))


def parted(array: Values, axis: int, shape: Sequence[int], vec: Vec) -> Values:
    """Return a view in which one axis is several."""
    own = shape if vec == "C" else shape[::-1]
    view = array.reshape((*array.shape[:axis], *own, *array.shape[axis + 1 :]))
    if vec == "C":
        return view
    behind = axis + len(own)
    turned = (*range(axis), *reversed(range(axis, behind)), *range(behind, view.ndim))
    return view.transpose(turned)


# ------------------------------------------------------------ vectors


def flat(own: Selection, given: Mapping[str, Values], vec: Vec) -> Values:
    """Return one vector `[*lead, p]` of batch-first arrays for every θ."""
    parts = []
    for name in own.parameters:
        one, value = own.with_respect_to(name), given[name]
        part = joined(value, len(one.theta), vec)
        parts.append(joined(part, 2, "C") if one.is_input else part)
    return np.concatenate(parts, axis=-1)


def unflat(own: Selection, given: Values, vec: Vec) -> dict[str, Values]:
    """Return batch-first views of a vector `[*lead, p]` for every θ."""
    found = {}
    for name, where in flat_columns(own).items():
        one = own.with_respect_to(name)
        view, axis = given[..., where], given.ndim - 1
        if one.is_input:
            view, axis = parted(view, axis, (one.count, prod(one.theta)), "C"), axis + 1
        found[name] = parted(view, axis, one.theta, vec)
    return found


def flat_outputs(own: Selection, given: Sequence[Values], vec: Vec) -> Values:
    """Return one vector `[*lead, B·out]` of batch-first arrays, one an output."""
    parts = [
        joined(value, len(own.of(o).out), vec)
        for o, value in zip(own.outputs, given, strict=True)
    ]
    every = np.concatenate(parts, axis=-1)
    return joined(every, 2, "C") if own.any.batched else every


def unflat_outputs(own: Selection, given: Values, vec: Vec) -> list[Values]:
    """Return batch-first views of a vector `[*lead, B·out]`, one for each output."""
    axis = given.ndim - 1
    if own.any.batched:
        given, axis = parted(given, axis, (own.count, length(rows(own))), "C"), axis + 1
    return [parted(given[..., where], axis, own.of(o).out, vec) for o, where in rows(own).items()]


def flatten(own: Selection, given: Any, vec: Vec) -> Values:
    """Return {θ: `[*lead, *p]`} as one vector `[*lead, p]`.

    Raises ArgumentError if a θ is missing or unknown, ShapeError for arrays that do not fit.
    """
    require_order(vec)
    if not isinstance(given, Mapping) or set(given) != set(own.parameters):
        got = ", ".join(map(str, given)) if isinstance(given, Mapping) else type(given).__name__
        wanted = f"a mapping with arrays for {', '.join(own.parameters)}"
        raise ArgumentError(f"{own.any.layer}: flatten takes {wanted}; got {got}")
    return flat(own, tangents(own, given), vec)


def unflatten(own: Selection, given: Any, vec: Vec) -> dict[str, Values]:
    """Return {θ: `[*lead, *p]`} of a vector `[*lead, p]`; views of it where they can be."""
    require_order(vec)
    size = length(flat_columns(own))
    checked = vector(own.any, "vector", given, (size,), batched=False, lead=True)
    found = unflat(own, checked, vec)
    for name, value in found.items():
        one = own.with_respect_to(name)
        found[name] = _returned(one, value, checked.ndim - 1) if one.is_input else value
    return found


def flatten_outputs(own: Selection, given: Any, vec: Vec) -> Values:
    """Return what has the outputs' shapes as one vector `[*lead, B·out]`."""
    require_order(vec)
    checked = own.vectors("u", given)
    leading(own, checked)
    return flat_outputs(own, checked, vec)


def unflatten_outputs(own: Selection, given: Any, vec: Vec) -> list[Values]:
    """Return arrays of the outputs' shapes of a vector `[*lead, B·out]`, views where they can."""
    require_order(vec)
    size = own.count * length(rows(own))
    checked = vector(own.any, "vector", given, (size,), batched=False, lead=True)
    found = unflat_outputs(own, checked, vec)
    return [_returned(own.any, y, checked.ndim - 1) if own.any.batched else y for y in found]


def _returned(one: Factored, array: Values, at: int) -> Values:
    """Return a batch-first array, batch behind `at` axes, as callers want it."""
    if one.single:
        return array[(slice(None),) * at + (0,)]
    return outward(array, (at,), one.batch_axis)


# ------------------------------------------------------------ the matrix


def matrix(own: Selection, vec: Vec, out: Values | None) -> Values:
    """Return all Jacobians as one matrix for every sample, `[B, out, p]`."""
    require_order(vec)
    first, high, wide = own.any, rows(own), columns(own)
    batch = (own.count,) if first.batched else ()
    shape = (*batch, length(high), length(wide))

    def fill(total: Values) -> None:
        for (output, name), one in own.blocks.items():
            part = total[..., high[output], wide[name]]
            part = parted(part, len(batch) + 1, one.theta, vec)
            piece_by_piece(_entries(one), one.count, parted(part, len(batch), one.out, vec))

    return filled(first, "matrix", out, shape, fill, samples={0: first})


def _entries(one: Factored) -> Any:
    """Return the form whose result is all of a Jacobian."""

    def make(some: Rows) -> Sums:
        side = one.side(some)
        return Sums(side.products, side.axes, side.axes)

    return make


__all__ = [
    "Vec",
    "columns",
    "flat",
    "flat_columns",
    "flat_outputs",
    "flatten",
    "flatten_outputs",
    "length",
    "matrix",
    "require_order",
    "rows",
    "unflat",
    "unflat_outputs",
    "unflatten",
    "unflatten_outputs",
]
