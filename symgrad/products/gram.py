"""Gram matrices: `J Jᴴ` of all samples with all, of each with itself, or output by output.

Factored, Factored -> array
Summed over a parameter, samples of two batches meet (the neural tangent kernel); an input belongs
to its own sample, and is summed over for b = b' only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from symgrad.products.evaluate import ONE, times
from symgrad.products.planned import Form, Sums, Work, one_by_one
from symgrad.products.pool import share, threads_for
from symgrad.products.rows import Rows
from symgrad.products.sides import Factored
from symgrad.products.terms import Values, union
from symgrad.products.tiles import WORKSPACE, pieces
from symgrad.products.vectors import conjugated

Pair = tuple[Factored, Factored]
CORNER = 256
"""Rows and columns that are mirrored at a time: two such blocks stay in the cache."""
TILE = 2**16
"""Entries of the result that are made at a time: with what they are made of they stay there too."""


def gram_of_samples(left: Factored, right: Factored, *, by_out: bool = False) -> Form:
    """Return `J_b J'_bᴴ`, `[B, *out, *out']`; if `by_out` its diagonal, `[B, *out]`."""

    def make(sides: Sequence[Factored], given: Sequence[Values], rows: Sequence[Rows]) -> Sums:
        one = sides[0].side(rows[0])
        own = one.out if by_out else None
        two = sides[1].side(rows[0], batch=one.batch, theta=one.theta, out=own)
        return times(one, ONE, conjugated(two), union(one.samples, one.out, two.out))

    return Form(("gram of samples", by_out), (left, right), (), make)


def gram_of_pairs(pairs: Sequence[Pair], total: Values, *, by_out: bool, mirrored: bool) -> None:
    """Add `J_b J'_cᴴ` of all pairs, `[B, *out, B', *out']`, or `[B, B', *out]` if `by_out`.

    With `mirrored` half of it is computed; the other half is its mirror image.
    """
    for left, right in pairs:
        if left.is_input:
            _own_samples(left, right, total, by_out=by_out)
    shared = [pair for pair in pairs if not pair[0].is_input]
    if total.size and shared:
        _in_tiles(shared, total, by_out=by_out, mirrored=mirrored)
    elif mirrored and total.size:
        mirror(matrices(total, by_out=by_out))


def _in_tiles(pairs: Sequence[Pair], total: Values, *, by_out: bool, mirrored: bool) -> None:
    """Add what all samples have with all, some with some, on several threads."""
    left, right = pairs[0]
    second = 1 if by_out else 1 + len(left.out)
    forms = [across(*pair, by_out=by_out) for pair in pairs]
    work = Work(forms, [total] * len(forms), along=(0, second))
    own = prod(left.out) if by_out else prod(left.out) * prod(right.out)
    fits = max(int((TILE / max(own, 1)) ** 0.5), 1)
    size = min(fits, work.piece(max(left.count, right.count), 2))

    stack = matrices(total, by_out=by_out) if mirrored else total
    height = stack.shape[-1] // max(left.count, 1)

    def run(tile: tuple[Rows, Rows]) -> None:
        work.add(*tile)
        if mirrored:
            rows, columns = (slice(r.start * height, r.stop * height) for r in tile)
            above = stack[:, rows, columns]
            if rows == columns:
                mirror(above)
            else:
                np.conjugate(above.swapaxes(1, 2), out=stack[:, columns, rows])

    todo = list(_tiles(left.count, right.count, size, mirrored=mirrored))
    share(run, todo, threads_for(todo))


def matrices(total: Values, *, by_out: bool) -> Values:
    """Return a view of the square matrices that a Gram array consists of: `[k, R, R]`."""
    if by_out:
        return np.moveaxis(total.reshape(*total.shape[:2], -1), 2, 0)
    size = prod(total.shape[: total.ndim // 2])
    return total.reshape(1, size, size)


def across(left: Factored, right: Factored, *, by_out: bool) -> Form:
    """Return the form of some samples with some others."""

    def make(sides: Sequence[Factored], given: Sequence[Values], rows: Sequence[Rows]) -> Sums:
        first, others = rows
        one = sides[0].side(first)
        two = conjugated(sides[1].side(others, theta=one.theta, out=one.out if by_out else None))
        kept = () if by_out else one.out
        return times(one, ONE, two, (*one.samples, *kept, *two.samples, *two.out))

    return Form(("gram", by_out), (left, right), (), make)


def _tiles(count: int, other: int, size: int, *, mirrored: bool) -> Iterator[tuple[Rows, Rows]]:
    """Yield the pairs of pieces of both batches; only those up to the diagonal if mirrored."""
    for first in pieces(count, size):
        for others in pieces(other, size):
            if not mirrored or first.start <= others.start:
                yield first, others


def _own_samples(left: Factored, right: Factored, total: Values, *, by_out: bool) -> None:
    """Add the form of an input, whose samples meet themselves only."""
    second = 1 if by_out else 1 + len(left.out)
    axes = list(range(total.ndim))
    axes[second] = 0
    diagonal = np.einsum(total, axes, [n for n in range(total.ndim) if n != second])
    one_by_one([gram_of_samples(left, right, by_out=by_out)], [diagonal], left.count)


def mirror(stack: Values) -> None:
    """Copy the upper half of matrices to the lower one, conjugated, in place: `[k, R, R]`."""
    count, size = len(stack), stack.shape[-1]
    at_a_time = max(1, WORKSPACE // (stack.itemsize * CORNER**2))
    for part in pieces(count, at_a_time):
        matrices = part.of(stack)
        for rows in pieces(size, CORNER):
            below = Rows(rows.start, size)
            for columns in pieces(size - below.start, CORNER):
                beside = Rows(below.start + columns.start, below.start + columns.stop)
                above = beside.of(rows.of(matrices, 1), 2)
                under = rows.of(beside.of(matrices, 1), 2)
                _reflect(above, under, on_diagonal=beside.start == rows.start)


def _reflect(above: Values, under: Values, *, on_diagonal: bool) -> None:
    if not on_diagonal:
        under[...] = above.conj().swapaxes(1, 2)
        return
    diagonal = np.einsum("kii->ki", above).real.copy()
    upper = np.triu(above, 1)
    above[...] = upper + upper.conj().swapaxes(1, 2)
    np.einsum("kii->ki", above)[...] = diagonal


__all__ = ["across", "gram_of_pairs", "gram_of_samples", "mirror"]
