"""Where the batch axis stands: first inside, where callers asked for it outside.

Array of all samples, batch first <-> the caller's array; each a view of the other
A batch axis moves among the axes that follow it, up to the next batch axis; neighbours move
together. So `[r, B, i, C, j]` with `batch_axis=-1` is `[r, i, B, j, C]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]
T = TypeVar("T")


def place(batch_axis: int, own: int) -> int:
    """Return where the batch axis stands among `own` axes of one sample.

    A position beyond them is that of the nearer end: a result of fewer axes has it there.
    """
    return min(max(batch_axis if batch_axis >= 0 else own + 1 + batch_axis, 0), own)


def inserted(own: Sequence[T], sample: T, batch_axis: int) -> tuple[T, ...]:
    """Return the axes of one sample with that of the batch among them."""
    at = place(batch_axis, len(own))
    return (*own[:at], sample, *own[at:])


def order(rank: int, samples: Sequence[int], batch_axis: int) -> tuple[int, ...]:
    """Return the axes of a batch-first array in the caller's order; `samples` are batch axes."""
    starts = [n for n in samples if n - 1 not in samples]
    found = list(range(starts[0] if starts else rank))
    for start, end in zip(starts, (*starts[1:], rank), strict=False):
        moving = [n for n in samples if start <= n < end]
        own = range(start + len(moving), end)
        at = place(batch_axis, len(own))
        found += [*own[:at], *moving, *own[at:]]
    return tuple(found)


def outward(array: Values, samples: Sequence[int], batch_axis: int) -> Values:
    """Return the caller's view of a batch-first array."""
    if batch_axis == 0:
        return array
    return array.transpose(order(array.ndim, samples, batch_axis))


def inward(array: Values, samples: Sequence[int], batch_axis: int) -> Values:
    """Return the batch-first view of a caller's array; `samples` are batch axes of that view."""
    if batch_axis == 0:
        return array
    return array.transpose(np.argsort(order(array.ndim, samples, batch_axis)))


__all__ = ["inserted", "inward", "order", "outward", "place"]
