"""What a broken law is, and when two arrays count as equal.

found, right -> whether they agree, or where they do not
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

RTOL = 1e-9
"""Between forms: each is a rearranged sum of at most a few thousand products."""


@dataclass(frozen=True)
class Fault:
    """A law by its stable name, so that a layer can be made small while it breaks the same one."""

    law: str
    detail: str


def same(a: Any, b: Any, rtol: float = RTOL, unit: float = 1.0) -> bool:
    """Whether two arrays agree, up to `rtol` of their own and the largest entries.

    `unit` is the size of what was added up, which may have cancelled.
    """
    a, b = np.asarray(a, float), np.asarray(b, float)
    if a.shape != b.shape:
        return False
    bound = rtol * (np.abs(b) + np.abs(b).max(initial=0.0) + 1e-3 * unit)
    return bool(np.all(np.abs(a - b) <= bound))


def say(a: Any, b: Any) -> str:
    """Return where two arrays differ most."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    if a.shape != b.shape:
        return f"shape {a.shape}, expected {b.shape}"
    with np.errstate(all="ignore"):
        error = np.abs(a - b)
    where = np.unravel_index(int(np.argmax(np.where(np.isnan(error), np.inf, error))), a.shape)
    return f"at {tuple(map(int, where))}: {a[where]!r}, expected {b[where]!r}"


__all__ = ["RTOL", "Fault", "same", "say"]
