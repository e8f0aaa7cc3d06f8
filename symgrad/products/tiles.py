"""Samples in pieces: as many at a time as a bounded workspace holds.

Reduced of one sample, batch size -> how many samples at a time
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from symgrad.products.contract import entries
from symgrad.products.eliminate import Reduced
from symgrad.products.rows import Rows

WORKSPACE = 64 * 2**20
"""Bytes that the arrays of one piece may take, one sample at least."""


def samples_at_a_time(trials: Iterable[Reduced], count: int, itemsize: int) -> int:
    """Return how many samples are taken at a time; `trials` are contractions of one sample.

    What has no samples is as large for one as for all of them.
    """
    demands = {d for reduced in trials for d in _demands(reduced, count) if d[1]}
    piece = max(count, 1)
    limit = WORKSPACE // itemsize
    while piece > 1 and max((n * piece**p for n, p in demands), default=0) > limit:
        piece = (piece + 1) // 2
    return piece


def _demands(reduced: Reduced, count: int) -> Iterable[tuple[int, int]]:
    """Yield for every array of a contraction its entries, and how often samples multiply them."""
    sizes = {a: max(count, 1) if a.samples else a.size for a in reduced.axes}
    for axes in entries(reduced, sizes):
        yield prod(a.size for a in axes if not a.samples), sum(a.samples for a in axes)


def pieces(count: int, size: int) -> list[Rows]:
    """Return the rows of every piece, in order; one empty piece of no samples."""
    return [Rows(n, min(n + size, count)) for n in range(0, max(count, 1), size)]


__all__ = ["WORKSPACE", "pieces", "samples_at_a_time"]
