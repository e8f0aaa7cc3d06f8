"""Tuples and shapes as Python text.

names, dims -> text
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.dims import Dim
from symgrad.generation.words import dim_text


def tuple_text(names: Sequence[str]) -> str:
    """Return a tuple of expressions as Python text."""
    return f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"


def shape_text(dims: Sequence[Dim]) -> str:
    """Return a shape as Python text."""
    return tuple_text([dim_text(d) for d in dims]) if dims else "()"


__all__ = ["shape_text", "tuple_text"]
