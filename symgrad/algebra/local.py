"""What differentiating one definition gives.

Partial, Local: the nouns of `partials` and `primitives`
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from symgrad.program import Access, Definition, Index, Scalar


@dataclass(frozen=True, slots=True)
class Partial:
    """d definition / d access = sum over `bound` of the product of `factors`."""

    access: Access
    bound: tuple[Index, ...]
    factors: tuple[Scalar, ...]


NewName = Callable[[str], str]


@dataclass(slots=True)
class Local:
    """What differentiating one definition gives: partials, and definitions they lean on."""

    partials: tuple[Partial, ...]
    supports: tuple[Definition, ...] = ()
