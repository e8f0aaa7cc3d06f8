"""A form is products over axes; samples are taken in pieces, each added where it belongs.

Factored, rows -> Sums -> array
Memory is the result and a bounded workspace: no array has both all samples and all entries of a
Jacobian.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.memory import require_results
from symgrad.products.contract import contract
from symgrad.products.eliminate import eliminate
from symgrad.products.sides import Evaluated, Rows, Side
from symgrad.products.terms import Axis, Product, Values, union
from symgrad.products.tiles import pieces, samples_at_a_time


@dataclass(frozen=True, slots=True)
class Sums:
    """Products that are added up, each summed over all `axes` but those of the result."""

    products: tuple[Product, ...]
    result: tuple[Axis, ...]
    axes: tuple[Axis, ...]

    def add_to(self, total: Values) -> None:
        """Add the sums to an array of the result's shape."""
        for product in self.products:
            contract(product, self.result, self.axes, total.dtype, total)


def times(left: Side, middle: Iterable[Product], right: Side, result: Sequence[Axis]) -> Sums:
    """Return `Σ left · middle · right` over every term of each."""
    products = tuple(a * h * b for h in middle for a in left.products for b in right.products)
    return Sums(products, tuple(result), union(left.axes, right.axes))


ONE = (Product(),)
"""Nothing between two sides."""


def one_by_one(make: Callable[[Rows], Sums], count: int, total: Values) -> None:
    """Add a form to `total`, over pieces of the batch.

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


def handed(done: Evaluated, name: str, out: Values | None, array: Values) -> Values:
    """Return an array, in `out` if it is given and fits."""
    if out is None:
        return array

    def fill(total: Values) -> None:
        total[...] = array

    return filled(done, name, out, np.shape(array), fill, dtype=np.asarray(array).dtype)


def filled(
    done: Evaluated,
    name: str,
    out: Values | None,
    shape: Sequence[int],
    fill: Callable[[Values], None],
    *,
    single: Sequence[int] = (),
    read: Sequence[Values] = (),
    dtype: Any = None,
) -> Values:
    """Return zeros that `fill` added to, in `out` if it is given and fits.

    `shape` has all batch axes; `single` are those of one sample, which results have not. `read`
    are arrays that must not be written into meanwhile. Raises ShapeError or ArgumentError if
    `out` does not fit, TooLargeError if memory cannot hold the result.
    """
    outward = tuple(s for n, s in enumerate(shape) if n not in single)
    arrays = (*read, *(a for a in done.values.values() if isinstance(a, np.ndarray)))
    module, kind = done.module, np.dtype(dtype or done.dtype)
    if out is None:
        require_results(module, name, [outward], kind.itemsize)
    array, copied = module._result(name, out, outward, kind, False, arrays)
    array[...] = 0
    fill(np.expand_dims(array, tuple(single)))
    found: Values = module._delivered(array, copied, out, False)
    return found if out is not None or found.ndim else found[()]
