"""Make a module take one way wherever it may choose, to test that one.

module -> way after way
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from symgrad.algebra.ways import MOST


@contextmanager
def forced(module: Any, way: int) -> Iterator[None]:
    """Take the way of this number, or the last one where there are fewer, in all choices."""
    space = vars(module)
    before = space["_FORCED"]
    space["_FORCED"] = way
    try:
        yield
    finally:
        space["_FORCED"] = before


def each_way(module: Any) -> Iterator[str]:
    """Yield what each way is called while it is forced; nothing if there is nothing to choose."""
    for way in range(MOST) if hasattr(module, "_cheapest") else ():
        with forced(module, way):
            yield f"way {way + 1}"


__all__ = ["each_way", "forced"]
