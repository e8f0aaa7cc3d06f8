"""Definitions with other indices, and what is left of them without the letters.

Definition, {index: index} -> Definition
Two definitions of one key differ in names only, so that one of them is enough.
"""

from __future__ import annotations

from symgrad.algebra.renaming import INNER, renamed
from symgrad.program import Body, Definition, Index, indices_of, scalars_of


def free_in(body: Body) -> tuple[Index, ...]:
    """Return the indices of a body that nothing in it binds."""
    if not isinstance(body, tuple):
        read = dict.fromkeys(i for s in scalars_of(body) for i in indices_of(s))
        return tuple(i for i in read if i not in body.bound)
    found = {i: None for t in body for f in t.factors for i in indices_of(f) if i not in t.bound}
    return tuple(found)


def key_of(made: Definition, batch: Index) -> tuple[object, ...]:
    """Return what two definitions have in common if they differ in names only."""
    canonical = {
        i: Index("", i.dim, -n - 1) for n, i in enumerate(made.indices) if i != batch
    }
    plain = renamed(made, canonical, None)
    return (plain.indices, plain.body, plain.frozen)


__all__ = ["INNER", "free_in", "key_of", "renamed"]
