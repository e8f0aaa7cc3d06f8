"""Products of matrices in pieces so small that BLAS starts no threads.

Shapes -> product of arrays of those shapes
Threads of BLAS go on spinning when they are done, and hold up whatever runs next.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Any

import numpy as np

ALONE = 262_144
"""Multiplications up to which OpenBLAS stays on one thread."""
LARGE = 2**26
"""Multiplications from which its threads are worth it."""
LEAST = 8
"""Rows and columns that a piece has at least."""

Multiply = Callable[[Any, Any], Any]


def product(left: tuple[int, ...], right: tuple[int, ...], dtype: Any) -> Multiply:
    """Return what multiplies arrays of these shapes, of matrices or of stacks of them."""
    (m, k), n = left[-2:], right[-1]
    if not ALONE < m * k * n < LARGE:
        return np.matmul
    high, wide = _piece(m, k, n)
    if high * wide * k > ALONE:
        return np.matmul
    shape = (*np.broadcast_shapes(left[:-2], right[:-2]), m, n)

    def multiply(x: Any, y: Any) -> Any:
        out = np.empty(shape, dtype)
        rows, columns = m - m % high, n - n % wide
        _whole(x[..., :rows, :], y[..., :columns], out[..., :rows, :columns], high, wide)
        if columns < n:
            _whole(x[..., :rows, :], y[..., columns:], out[..., :rows, columns:], high, n - columns)
        if rows < m:
            _whole(x[..., rows:, :], y[..., :columns], out[..., rows:, :columns], m - rows, wide)
            if columns < n:
                np.matmul(x[..., rows:, :], y[..., columns:], out=out[..., rows:, columns:])
        return out

    return multiply


def _piece(m: int, k: int, n: int) -> tuple[int, int]:
    """Return the rows and columns of pieces, as many of either as they go, in equal parts."""
    side = max(isqrt(ALONE // max(k, 1)), LEAST)
    high = _part(m, max(side, ALONE // (k * min(n, side))))
    return high, _part(n, max(side, ALONE // (k * high)))


def _part(length: int, most: int) -> int:
    """Return a length of parts: one that divides the whole if none is much shorter."""
    if length <= most:
        return length
    even = max(d for d in range(1, most + 1) if length % d == 0)
    return even if 2 * even >= most else most


def _whole(x: Any, y: Any, out: Any, high: int, wide: int) -> None:
    """Write the product of matrices that pieces of this size make up."""
    (m, k), n = x.shape[-2:], y.shape[-1]
    first, second = m // high, n // wide
    left = x.reshape(*x.shape[:-2], first, 1, high, k)
    right = y.reshape(*y.shape[:-2], k, second, wide)
    right = right.swapaxes(-2, -3)[..., None, :, :, :]
    into = out.reshape(*out.shape[:-2], first, high, second, wide)
    np.matmul(left, right, out=into.swapaxes(-2, -3))


__all__ = ["product"]
