"""A form is products over axes; samples are taken in pieces, each added where it belongs.

Factored, rows -> Sums -> array
Memory is the result and a bounded workspace: no array has both all samples and all entries of a
Jacobian.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from symgrad.batch import inward, order, outward
from symgrad.errors import ShapeError
from symgrad.memory import require_results
from symgrad.products.eliminate import eliminate
from symgrad.products.planned import Sums
from symgrad.products.rows import Rows
from symgrad.products.sides import Factored, Side
from symgrad.products.terms import Axis, Product, Values, union
from symgrad.products.tiles import pieces, samples_at_a_time


def times(left: Side, middle: Iterable[Product], right: Side, result: Sequence[Axis]) -> Sums:
    """Return `Σ left · middle · right` over every term of each."""
    products = tuple(a * h * b for h in middle for a in left.products for b in right.products)
    return Sums(products, tuple(result), union(left.axes, right.axes))


ONE = (Product(),)
"""Nothing between two sides."""

SMALL = 2**20
"""Entries of a result up to which memory is not asked for its size."""


def piece_by_piece(make: Callable[[Rows], Sums], count: int, total: Values) -> None:
    """Add a form to `total`, over pieces of the batch, worked out anew.

    `make` gives the form of some samples; if its result begins with their axis, each piece has
    its own place.
    """
    if not count:
        return
    size = piece_size(make(Rows(0, 1)), count, total.dtype)
    for rows in pieces(count, size):
        sums = make(rows)
        own = bool(sums.result) and sums.result[0].samples
        sums.add_to(rows.of(total) if own else total)


def piece_size(one: Sums, count: int, dtype: Any) -> int:
    """Return how many samples to take at a time, from the form of one sample."""
    reduced = [eliminate(p, one.result, one.axes, dtype) for p in one.products]
    return samples_at_a_time(reduced, count, np.dtype(dtype).itemsize)


def handed(one: Factored, name: str, out: Values | None, array: Values) -> Values:
    """Return an array, in `out` if it is given and fits."""
    if out is None:
        return array

    def fill(total: Values) -> None:
        total[...] = array

    return filled(one, name, out, np.shape(array), fill, dtype=np.asarray(array).dtype)


def filled(
    one: Factored,
    name: str,
    out: Values | None,
    shape: Sequence[int],
    fill: Callable[[Values], None],
    *,
    samples: Mapping[int, Factored] | None = None,
    read: Sequence[Values] = (),
    dtype: Any = None,
) -> Values:
    """Return zeros that `fill` added to, in `out` if it is given and fits; see `opened`."""
    found = opened(one, name, out, shape, samples=samples, read=read, dtype=dtype)
    fill(found.total)
    return found.result()


@dataclass(frozen=True, slots=True)
class Opened:
    """Zeros to add to, `total`, with all batch axes; `result` hands them to the caller."""

    total: Values
    one: Factored
    out: Values | None
    given: tuple[Any, ...]
    moved: tuple[int, ...]

    def result(self) -> Values:
        """Return the array as callers see it, theirs if they gave one."""
        if self.out is not None:
            self.one.done.module._delivered(*self.given, False)
            return self.out
        array = self.given[0]
        if self.one.batch_axis and self.moved:
            array = outward(array, self.moved, self.one.batch_axis)
        found: Values = array if array.ndim else array[()]
        return found


def opened(
    one: Factored,
    name: str,
    out: Values | None,
    shape: Sequence[int],
    *,
    samples: Mapping[int, Factored] | None = None,
    read: Sequence[Values] = (),
    dtype: Any = None,
) -> Opened:
    """Return zeros to add to, in `out` if it is given and fits.

    `shape` has all batch axes, `samples` says which those are and whose. The result has them where
    `batch_axis` says, and none of one sample. `read` are arrays that must not be written into
    meanwhile. Raises ShapeError or ArgumentError if `out` does not fit, TooLargeError if memory
    cannot hold the result.
    """
    if out is None and not samples and prod(shape) <= SMALL:
        array = np.zeros(shape, dtype or one.dtype)
        return Opened(array, one, None, (array, None, None), ())
    batches = {n: f for n, f in (samples or {}).items() if f.batched}
    single = tuple(n for n, f in batches.items() if f.single)
    moved = tuple(n - sum(s < n for s in single) for n in batches if n not in single)
    inner = tuple(s for n, s in enumerate(shape) if n not in single)
    given = taken(one, out, inner, moved)
    module, dtype = one.done.module, np.dtype(dtype or one.dtype)
    arrays: tuple[Any, ...] = ()
    if out is None:
        require_results(module, name, [inner], dtype.itemsize)
    else:
        arrays = (*read, *(a for a in one.done.values.values() if isinstance(a, np.ndarray)))
    array, copied = module._result(name, given, inner, dtype, False, arrays)
    array[...] = 0
    total = np.expand_dims(array, single) if single else array
    return Opened(total, one, out, (array, copied, given), moved)


def taken(one: Factored, out: Any, inner: Sequence[int], moved: Sequence[int]) -> Any:
    """Return the batch-first view, of shape `inner`, of the array that a caller wants filled.

    `moved` are its batch axes. What is no array stays as it is. Raises ShapeError if it does not
    fit.
    """
    if not isinstance(out, np.ndarray):
        return out
    shape = tuple(inner[n] for n in order(len(inner), moved, one.batch_axis))
    if out.shape != shape:
        raise ShapeError(f"{one.layer}: out has shape {out.shape}, expected {shape}")
    return inward(out, moved, one.batch_axis)
