"""Definitions that are other arrays under other axes: the driver reshapes, nothing is copied.

Definitions -> {name: array it is a view of}
In C order the element at both positions stands at the same place; then no kernel is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from symgrad.dims import ONE, Dim
from symgrad.generation.nests import job
from symgrad.program import Access, Affine, Definition, Position, indices_of


def views(
    definitions: Sequence[Definition],
    shapes: Mapping[str, tuple[Dim, ...]],
    handed: Collection[str],
) -> dict[str, str]:
    """Return which definitions are views, and of what; what is handed out owns its elements."""
    found: dict[str, str] = {}
    for definition in definitions:
        if definition.name in handed or definition.loop is not None:
            continue
        source = _viewed(definition, shapes)
        if source is not None:
            found[definition.name] = source
    return found


def owners(found: Mapping[str, str]) -> dict[str, str]:
    """Return, for each view, the array that owns its elements."""
    result: dict[str, str] = {}
    for name, source in found.items():
        result[name] = result.get(source, source)
    return result


def _viewed(definition: Definition, shapes: Mapping[str, tuple[Dim, ...]]) -> str | None:
    if not isinstance(definition.body, tuple) or len(definition.body) != 1:
        return None
    work = job(definition, definition.body[0])
    if not work.covers or len(work.factors) != 1:
        return None
    (access,) = work.factors
    if not isinstance(access, Access) or access.array not in shapes:
        return None
    if not set(work.bound) <= set(indices_of(access)):
        return None  # a sum of what its index does not stand in: so many times that
    here = _place(work.at, tuple(i.dim for i in definition.indices))
    there = _place(access.at, shapes[access.array])
    return access.array if here is not None and here == there else None


def _place(at: Sequence[Position], dims: Sequence[Dim]) -> tuple[Affine, Dim] | None:
    """Return where an element stands in C order, and of how many."""
    total, weight = Affine(), ONE
    for position, dim in zip(reversed(at), reversed(dims), strict=True):
        if not isinstance(position, Affine):
            return None
        total, weight = total + position * weight, weight * dim
    return total, weight
