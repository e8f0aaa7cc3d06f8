"""Sums of products row by row, in numba: one pass over the larger array.

x, y, out -> out, written
Importing this module imports numba; nothing does before an array is large enough.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
if COMPILED:
    try:
        from numba import njit
    except ImportError:
        COMPILED = False

Function = TypeVar("Function", bound=Callable[..., Any])
REORDERED = {"contract", "reassoc", "nsz"}
"""Sums may be taken in another order; nan and inf stay what they are."""


def kernel(function: Function) -> Function:
    """Return a function compiled at its first call, once for all processes."""
    if not COMPILED:
        return function
    made = njit(cache=True, nogil=True, fastmath=REORDERED, error_model="numpy")(function)
    return cast("Function", made)


@kernel
def between_both(x: Any, y: Any, out: Any) -> None:
    """Write `Σ_s x[a, s, b] y[a, s, b]`."""
    for a in range(x.shape[0]):
        row = out[a]
        row[:] = 0
        for s in range(x.shape[1]):
            one, two = x[a, s], y[a, s]
            for b in range(row.shape[0]):
                row[b] += one[b] * two[b]


@kernel
def between(x: Any, y: Any, out: Any) -> None:
    """Write `Σ_s x[a, s, b] y[a, s]`."""
    for a in range(x.shape[0]):
        row = out[a]
        row[:] = 0
        for s in range(x.shape[1]):
            one, number = x[a, s], y[a, s]
            for b in range(row.shape[0]):
                row[b] += one[b] * number


@kernel
def last(x: Any, y: Any, out: Any) -> None:
    """Write `Σ_s x[a, r, s] y[a, s]`."""
    for a in range(x.shape[0]):
        two = y[a]
        for r in range(x.shape[1]):
            one = x[a, r]
            total = one.dtype.type(0)
            for s in range(two.shape[0]):
                total += one[s] * two[s]
            out[a, r] = total


__all__ = ["COMPILED", "between", "between_both", "last"]
