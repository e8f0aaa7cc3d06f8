"""Sums of products of arrays: pairs in the order numpy finds, each pair by BLAS where it can.

Product, result axes -> array
Sums that have nothing to do with each other are taken apart by the order itself: with
`J = G_bip h_bq` a Gram matrix is `(Σ_p G G)(Σ_q h h)`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from symgrad.products.blas import product as multiplied
from symgrad.products.eliminate import Reduced, eliminate
from symgrad.products.terms import (
    Axis,
    Product,
    Tensor,
    Values,
    aligned,
    lengths,
    spread,
    union,
)
from symgrad.products.traced import as_array, recorder_of

EVERY_ORDER = 5
"""Up to so many arrays every order is tried; more are taken greedily."""

Codes = tuple[tuple[int, ...], ...]


def contract(
    product: Product,
    result: Sequence[Axis],
    axes: Sequence[Axis],
    dtype: Any,
    into: Values | None = None,
) -> Values:
    """Return the product summed over all axes but those of the result, added to `into` if given.

    `axes` are all there are: one that no array has is summed over too.
    """
    if into is None:
        return summed((product,), result, dtype, axes)
    if into.size:
        reduced = eliminate(product, result, axes, dtype)
        _add(into, reduced, _core(reduced, dtype))
    return into


def summed(
    products: Sequence[Product],
    result: Sequence[Axis],
    dtype: Any,
    axes: Sequence[Axis] | None = None,
) -> Values:
    """Return the products added up, each summed over all axes but those of the result."""
    shape = lengths(result)
    reduced = [eliminate(p, result, result if axes is None else axes, dtype) for p in products]
    cores = [_core(r, dtype) for r in reduced] if prod(shape) else []

    def add(*arrays: Values) -> Values:
        total = np.zeros(shape, dtype)
        for one, core, array in zip(reduced, cores, arrays, strict=False):
            _add(total, one, Tensor(array, core.axes))
        return total

    arrays = [core.array for core in cores]
    recorder = recorder_of(*arrays)
    if recorder is None:
        return add(*arrays)
    slots = tuple(recorder.of(a).slot for a in arrays)
    found: Any = recorder.step(("summed", object()), add, slots, shape, dtype)
    return found  # type: ignore[no-any-return]


def placed(
    product: Product, marks: Product, result: Sequence[Axis], axes: Sequence[Axis], dtype: Any
) -> tuple[Reduced, Values, Values | None]:
    """Return where the sum has entries, what they are, and which of them there are at all.

    `marks` has the same deltas, and 1 where there may be entries. Values run along the kept axes
    of what is returned first, whose places say where in the result each belongs, and so does what
    is returned last, None where all are there. Several entries may belong to one place.
    """
    reduced = eliminate(product, result, axes, dtype)
    kept = reduced.kept
    there = eliminate(marks, result, axes, np.intp)
    counts = spread(_core(there, np.intp), kept) if there.tensors else None
    found = spread(_core(reduced, dtype), kept)
    return reduced, found, None if counts is None else counts != 0


def entries(reduced: Reduced, sizes: dict[Axis, int]) -> Iterator[tuple[Axis, ...]]:
    """Yield the axes of every array that a contraction makes or reads, for lengths as given."""
    groups = [t.axes for t in reduced.tensors]
    yield from groups
    yield reduced.kept
    for step, rest in _pairs(groups, reduced.kept, sizes):
        joined = _left([groups[n] for n in step], [groups[n] for n in rest], reduced.kept)
        yield joined
        groups = [groups[n] for n in rest] + [joined]


def _core(reduced: Reduced, dtype: Any) -> Tensor:
    """Return the sum with each of the kept axes once."""
    tensors, kept = list(reduced.tensors), reduced.kept
    present = {a for t in tensors for a in t.axes}
    repeats = prod(a.size for a in reduced.axes if a not in present and a not in kept)
    sizes = {a: a.size for a in reduced.axes}
    for step, rest in _pairs([t.axes for t in tensors], kept, sizes):
        needed = {a for n in rest for a in tensors[n].axes} | set(kept)
        chosen = [tensors[n] for n in step]
        tensors = [tensors[n] for n in rest] + [_together(chosen, needed)]
    if not tensors:
        return Tensor(np.full((), repeats, dtype), ())
    only = _summed(tensors[0], kept)
    return only if repeats == 1 else Tensor(only.array * np.asarray(repeats, dtype), only.axes)


def _pairs(
    groups: Sequence[tuple[Axis, ...]], kept: Sequence[Axis], sizes: dict[Axis, int]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield which arrays are multiplied, and which are left; the product follows those."""
    every = union(*groups, kept)
    number = {a: n for n, a in enumerate(every)}
    present = {a for g in groups for a in g}
    codes = tuple(tuple(number[a] for a in g) for g in groups)
    wanted = tuple(number[a] for a in kept if a in present)
    count = len(groups)
    for step in _order(codes, wanted, tuple(sizes[a] for a in every)):
        yield step, tuple(n for n in range(count) if n not in step)
        count += 1 - len(step)


@lru_cache(maxsize=1024)
def _order(codes: Codes, kept: tuple[int, ...], sizes: tuple[int, ...]) -> Codes:
    """Return numpy's order of contraction for arrays of these axes."""
    if len(codes) < 2:
        return ()
    if len(codes) == 2:
        return ((0, 1),)
    one = np.zeros(())
    arguments: list[Any] = []
    for own in codes:
        # the order is the same for axes of length 0, and numpy divides by their product
        arguments += [np.broadcast_to(one, [max(sizes[c], 1) for c in own]), list(own)]
    kind = "optimal" if len(codes) <= EVERY_ORDER else "greedy"
    path, _ = np.einsum_path(*arguments, list(kept), optimize=kind)
    return tuple(tuple(step) for step in path[1:])


def _left(
    chosen: Sequence[tuple[Axis, ...]], rest: Sequence[tuple[Axis, ...]], kept: Sequence[Axis]
) -> tuple[Axis, ...]:
    """Return the axes of a product of arrays: those that others or the result need."""
    needed = {a for g in rest for a in g} | set(kept)
    return tuple(a for a in union(*chosen) if a in needed)


def _together(chosen: Sequence[Tensor], needed: Collection[Axis]) -> Tensor:
    """Return the product of several arrays, summed over what nobody else needs."""
    first, *others = chosen
    for number, other in enumerate(others, 1):
        later = {a for t in chosen[number + 1 :] for a in t.axes}
        first = _product(first, other, {*needed, *later})
    return first


def _product(x: Tensor, y: Tensor, needed: Collection[Axis]) -> Tensor:
    """Return the product of two arrays: elementwise, as matrices, or as rows times rows."""
    x = _summed(x, {*needed, *y.axes})
    y = _summed(y, {*needed, *x.axes})
    gone = [a for a in x.axes if a in y.axes and a not in needed]
    both = [a for a in x.axes if a in y.axes and a in needed]
    rows = [a for a in x.axes if a not in y.axes]
    columns = [a for a in y.axes if a not in x.axes]
    axes = (*both, *rows, *columns)
    if not gone:
        large, small = (x, y) if len(x.axes) >= len(y.axes) else (y, x)
        axes = union(large.axes, small.axes)
        return Tensor(aligned(large, axes) * aligned(small, axes), axes)
    count, width = prod(lengths(rows)), prod(lengths(columns))
    if (count == 1 or width == 1) and both:
        return _row_by_row(x, y, axes)
    stack, inner = lengths(both), prod(lengths(gone))
    left = _ordered(x, (*both, *rows, *gone)).reshape(*stack, count, inner)
    right = _ordered(y, (*both, *gone, *columns)).reshape(*stack, inner, width)
    return Tensor(_multiplied(left, right).reshape(lengths(axes)), axes)


def _multiplied(left: Any, right: Any) -> Any:
    """Return a product of matrices, or of stacks of them."""
    recorder = recorder_of(left, right)
    if recorder is not None:
        return recorder.matmul(recorder.of(left), recorder.of(right))
    return multiplied(left.shape, right.shape, np.result_type(left, right))(left, right)


def _row_by_row(x: Tensor, y: Tensor, axes: tuple[Axis, ...]) -> Tensor:
    """Return a product that is many short sums: BLAS would be called once for each."""
    every = union(x.axes, y.axes)
    own = [[every.index(a) for a in t] for t in (x.axes, y.axes, axes)]
    return Tensor(as_array(np.einsum(x.array, own[0], y.array, own[1], own[2])), axes)


def _ordered(tensor: Tensor, axes: Sequence[Axis]) -> Values:
    return tensor.array.transpose([tensor.axes.index(a) for a in axes])


def _summed(tensor: Tensor, needed: Collection[Axis]) -> Tensor:
    """Return an array summed over the axes that nobody needs."""
    gone = tuple(n for n, a in enumerate(tensor.axes) if a not in needed)
    if not gone:
        return tensor
    rest = tuple(a for a in tensor.axes if a in needed)
    return Tensor(as_array(tensor.array.sum(axis=gone)), rest)


def _add(total: Any, reduced: Reduced, core: Tensor) -> None:
    """Add the sum at its places: where a delta ties axes of the result, on a diagonal."""
    digits = [a for p in reduced.result for a in p.axes]
    every = union(digits)
    if any(p.values is not None for p in reduced.result):
        _scatter(total, reduced, core)
        return
    view = total if len(digits) == total.ndim else total.reshape(lengths(digits))
    recorder = recorder_of(total)
    if recorder is None and not np.may_share_memory(view, total):
        _scatter(total, reduced, core)  # a part of an array may have no view with other axes
        return
    if len(every) < len(digits):
        codes = [every.index(a) for a in digits]
        view = np.einsum(view, codes, list(range(len(every))))
    if recorder is not None:
        recorder.add(view, aligned(core, every))
        return
    view += aligned(core, every)


def _scatter(total: Any, reduced: Reduced, core: Tensor) -> None:
    """Add the sum at positions that are data."""
    kept = reduced.kept
    at = tuple(aligned(p.written_out, kept) for p in reduced.result)

    def add(into: Values, array: Values) -> None:
        np.add.at(into, at, spread(Tensor(array, core.axes), kept))

    recorder = recorder_of(total)
    if recorder is not None:
        recorder.add(total, core.array, add)
        return
    add(total, core.array)


__all__ = ["contract", "entries", "placed", "summed"]
