"""Pieces of work shared out to threads: numpy lets others run while it computes.

Pieces -> all done
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

Piece = TypeVar("Piece")
_POOLS: dict[tuple[int, int], ThreadPoolExecutor] = {}


def share(run: Callable[[Piece], object], todo: Iterable[Piece], threads: int) -> None:
    """Run every piece, on this thread and on those of the pool; each piece only once."""
    rest = iter(todo)
    if threads < 2:
        for piece in rest:
            run(piece)
        return

    def take() -> None:
        for piece in rest:
            run(piece)

    pool = _pool(threads - 1)
    jobs = [pool.submit(copy_context().run, take) for _ in range(threads - 1)]
    try:
        take()
    finally:
        left = [job for job in jobs if not job.cancel()]
        for job in left:
            job.exception()
    for job in left:
        job.result()


def threads_for(pieces: Sequence[object]) -> int:
    """Return how many threads to use; `SYMGRAD_NUM_THREADS` limits them."""
    wish = os.environ.get("SYMGRAD_NUM_THREADS")
    limit = int(wish) if wish and wish.isdigit() else os.cpu_count() or 1
    return max(1, min(limit, len(pieces)))


def _pool(count: int) -> ThreadPoolExecutor:
    """Return the threads of this process, which a forked one has none of."""
    key = os.getpid(), count
    if key not in _POOLS:
        _POOLS[key] = ThreadPoolExecutor(count, "symgrad-products")
    return _POOLS[key]


__all__ = ["share", "threads_for"]
