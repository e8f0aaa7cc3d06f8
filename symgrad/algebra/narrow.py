"""Adjoints of which only a part is read are computed for that part alone.

Definitions, terms that read them -> Definitions, terms
Where all readers take the same slice or list along an axis, the axis becomes the part's, and what
the definition reads is narrowed in its turn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

from symgrad.algebra.contract import contract, relocate
from symgrad.program import (
    Access,
    Affine,
    Definition,
    Index,
    Lookup,
    Position,
    Scalar,
    Supply,
    Term,
    over_body,
    rebuild,
    scalars_of,
    substitute,
    walk,
)

Readers = list[tuple[Term, ...]]


def narrow(
    definitions: Sequence[Definition],
    readers: Sequence[tuple[Term, ...]],
    kept: Collection[str],
    supply: Supply,
) -> tuple[tuple[Definition, ...], Readers]:
    """Return definitions, and sums of terms behind them, that read no more than they need.

    Definitions in `kept` keep their axes; so do recurrences and what is no sum of terms.
    """
    made, behind = list(definitions), list(readers)
    for number in range(len(made) - 1, -1, -1):
        definition = made[number]
        if definition.name in kept or definition.loop or not isinstance(definition.body, tuple):
            continue
        for axis, index in enumerate(definition.indices):
            others = [d for d in made if d.name != definition.name]
            scalars = [s for d in others for s in scalars_of(d.body)]
            scalars += [f for terms in behind for t in terms for f in t.factors]
            place = _only_place(definition.name, axis, scalars)
            small = None if place is None else _narrowed(made[number], index, place, supply)
            if small is None:
                continue
            made = [_reading(d, definition.name, axis) for d in made]
            made[number] = small
            behind = [_terms(terms, definition.name, axis) for terms in behind]
    return _without_copies(made, behind, kept)


def _without_copies(
    made: Sequence[Definition], behind: Readers, kept: Collection[str]
) -> tuple[tuple[Definition, ...], Readers]:
    """Return definitions without those that are another one, element by element."""
    table = {d.name: d for d in made}
    same: dict[str, str] = {}
    for definition in made:
        source = _copied(definition, table)
        if source is not None and definition.name not in kept and definition.loop is None:
            same[definition.name] = same.get(source, source)

    def change(node: Scalar) -> Scalar:
        return Access(same[node.array], node.at) if _is_copy(node, same) else node

    left = [d for d in made if d.name not in same]
    left = [replace(d, body=over_body(d.body, lambda s: rebuild(s, change))) for d in left]
    behind = [
        tuple(Term(t.bound, tuple(rebuild(f, change) for f in t.factors)) for t in terms)
        for terms in behind
    ]
    return tuple(left), behind


def _is_copy(node: Scalar, same: Collection[str]) -> TypeGuard[Access]:
    return isinstance(node, Access) and node.array in same


def _copied(definition: Definition, table: Mapping[str, Definition]) -> str | None:
    """Return the definition that another one is a copy of, None for most."""
    body = definition.body
    if not isinstance(body, tuple) or len(body) != 1 or len(body[0].factors) != 1:
        return None
    (only,) = body[0].factors
    source = table.get(only.array) if isinstance(only, Access) else None
    if source is None or body[0].bound or not isinstance(only, Access):
        return None
    own = tuple(Affine.of(i) for i in definition.indices)
    dims = [i.dim for i in source.indices] == [i.dim for i in definition.indices]
    return source.name if only.at == own and dims else None


def _only_place(name: str, axis: int, scalars: Sequence[Scalar]) -> Position | None:
    """Return where along an axis an array is read, if that is one and the same part of it."""
    found: set[tuple[object, ...]] = set()
    place: Position | None = None
    for scalar in scalars:
        for node in walk(scalar):
            if isinstance(node, Access) and node.array == name:
                place = node.at[axis]
                index = _along(place)
                if index is None:
                    return None
                there = Affine.of(Index("", index.dim, 0))
                found.add((substitute(Access("", (place,)), {index: there}),))
    return place if len(found) == 1 else None


def _along(place: Position) -> Index | None:
    """Return the index of a part that a position runs along an axis with."""
    if isinstance(place, Lookup):
        only = place.at[0] if len(place.at) == 1 else None
        bare = only.bare if isinstance(only, Affine) else None
    else:
        bare = place.terms[0][0] if len(place.terms) == 1 else None
    return bare if bare is not None and bare.partial else None


def _narrowed(
    definition: Definition, index: Index, place: Position, supply: Supply
) -> Definition | None:
    """Return a definition over a part of one of its axes, None if that cannot be written."""
    old = _along(place)
    if old is None or not isinstance(definition.body, tuple):
        return None
    new = supply.fresh(index.name, old.dim, partial=True)
    moved = substitute(Access("", (place,)), {old: Affine.of(new)})
    assert isinstance(moved, Access)
    terms = []
    for term in definition.body:
        factors = [relocate(f, {index: moved.at[0]}) for f in term.factors]
        if any(f is None for f in factors):
            return None
        found = contract(Term(term.bound, tuple(f for f in factors if f is not None)))
        terms += [] if found is None else [found]
    indices = tuple(new if i == index else i for i in definition.indices)
    return replace(definition, indices=indices, body=tuple(terms))


def _reading(definition: Definition, name: str, axis: int) -> Definition:
    """Return a definition that reads an array by the index of its part along an axis."""
    if not isinstance(definition.body, tuple):
        return definition
    return replace(definition, body=_terms(definition.body, name, axis))


def _terms(terms: tuple[Term, ...], name: str, axis: int) -> tuple[Term, ...]:
    def change(node: Scalar) -> Scalar:
        if not isinstance(node, Access) or node.array != name:
            return node
        index = _along(node.at[axis])
        assert index is not None
        at = (*node.at[:axis], Affine.of(index), *node.at[axis + 1 :])
        return Access(name, at)

    return tuple(Term(t.bound, tuple(rebuild(f, change) for f in t.factors)) for t in terms)


__all__ = ["narrow"]
