"""Gram matrices: `J Jᴴ` of all samples with all, of each with itself, or output by output.

Factored, Factored -> array
Summed over a parameter, samples of two batches meet (the neural tangent kernel); an input belongs
to its own sample, and is summed over for b = b' only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from symgrad.products.evaluate import ONE, Sums, one_by_one, piece_size, times
from symgrad.products.sides import Factored, Rows
from symgrad.products.terms import Values, union
from symgrad.products.tiles import WORKSPACE, pieces
from symgrad.products.vectors import conjugated

Pair = tuple[Factored, Factored]
CORNER = 256
"""Rows and columns that are mirrored at a time: two such blocks stay in the cache."""


def gram_of_samples(
    left: Factored, right: Factored, total: Values, *, by_out: bool = False
) -> None:
    """Add `J_b J'_bᴴ`, `[B, *out, *out']`; if `by_out` its diagonal, `[B, *out]`."""

    def make(rows: Rows) -> Sums:
        one = left.side(rows)
        own = one.out if by_out else None
        two = right.side(rows, batch=one.batch, theta=one.theta, out=own)
        return times(one, ONE, conjugated(two), union(one.samples, one.out, two.out))

    one_by_one(make, left.count, total)


def gram_of_pairs(pairs: Sequence[Pair], total: Values, *, by_out: bool, mirrored: bool) -> None:
    """Add `J_b J'_cᴴ` of all pairs, `[B, *out, B', *out']`, or `[B, B', *out]` if `by_out`.

    With `mirrored` half of it is computed; the other half is its mirror image.
    """
    for left, right in pairs:
        if left.is_input:
            _own_samples(left, right, total, by_out=by_out)
    shared = [pair for pair in pairs if not pair[0].is_input]
    second = 1 if by_out else 1 + len(pairs[0][0].out)
    for first, others in _tiles(shared, by_out=by_out, mirrored=mirrored, dtype=total.dtype):
        block = others.of(first.of(total), second) if pairs[0][0].batched else total
        for left, right in shared:
            _across(left, right, first, others, by_out=by_out).add_to(block)


def _across(left: Factored, right: Factored, first: Rows, others: Rows, *, by_out: bool) -> Sums:
    """Return the form of some samples with some others."""
    one = left.side(first)
    two = conjugated(right.side(others, theta=one.theta, out=one.out if by_out else None))
    kept = () if by_out else one.out
    return times(one, ONE, two, (*one.samples, *kept, *two.samples, *two.out))


def _tiles(
    pairs: Sequence[Pair], *, by_out: bool, mirrored: bool, dtype: np.dtype
) -> Iterator[tuple[Rows, Rows]]:
    """Yield the pairs of pieces of both batches; only those up to the diagonal if mirrored."""
    if not pairs or not all(f.count for f in pairs[0]):
        return
    count, other = (f.count for f in pairs[0])
    one = Rows(0, 1)
    size = min(
        piece_size(_across(*pair, one, one, by_out=by_out), max(count, other), dtype)
        for pair in pairs
    )
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
    gram_of_samples(left, right, diagonal, by_out=by_out)


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


__all__ = ["gram_of_pairs", "gram_of_samples", "mirror"]
