"""Medians of many calls; several things are timed in turns, in one run.

calls -> seconds
"""

from __future__ import annotations

from collections.abc import Callable

from symgrad.bench import side_by_side, timed

Call = Callable[[], object]

__all__ = ["Call", "side_by_side", "timed"]
