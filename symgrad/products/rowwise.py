"""Products of arrays that are no products of matrices: many short sums, numbers repeated in rows.

Arrays -> array
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Codes = tuple[int, ...]


def rowwise(
    first: Codes, second: Codes, result: Codes, sizes: Mapping[int, int]
) -> Callable[[Any, Any], Any]:
    """Return what sums the product of two arrays, whose axes have these codes, to the result."""
    one, two, kept = list(first), list(second), list(result)

    def add(x: Any, y: Any) -> Any:
        return np.asarray(np.einsum(x, one, y, two, kept))

    return add


def spread_out(array: Any, shape: tuple[int, ...]) -> Any:
    """Return a contiguous array of the shape that an array is repeated to."""
    return np.array(np.broadcast_to(array, shape), order="C")


__all__ = ["rowwise", "spread_out"]
