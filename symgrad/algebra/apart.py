"""What outlasts the segments of a recurrence: sums over its steps, single steps, whole arrays.

Stages -> Definitions along with the recurrence, Definitions behind it
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from symgrad.algebra.names import Names
from symgrad.algebra.segments import Part, Tap
from symgrad.algebra.stages import Stages
from symgrad.dims import Dim
from symgrad.program import (
    Access,
    Affine,
    Definition,
    Lookup,
    Position,
    Reduce,
    Scalar,
    Term,
    arrays_of,
    over_body,
    rebuild,
)


def divided(
    found: Stages, names: Names
) -> tuple[tuple[Definition, ...], tuple[Definition, ...]]:
    """Take sums over steps apart: what is added up along with them, and what comes behind."""
    along, added, behind = [], [], []
    for definition in found.along:
        body = definition.body
        inside = tuple(range(len(body)) if isinstance(body, tuple) else ())
        if isinstance(body, tuple) and definition.name not in found.steps:
            inside = tuple(n for n in inside if _reads_any(body[n], found.steps))
        if not isinstance(body, tuple) or len(inside) == len(body):
            along.append(definition)
            continue
        part, rest = _parted(definition, inside, names)
        along.append(part)
        added.append(rest)
    for definition in found.behind:
        if definition.name not in found.terms:
            behind.append(definition)
            continue
        part, rest = _parted(definition, found.terms[definition.name], names)
        along.append(part)
        behind.append(rest)
    return tuple(along), (*added, *behind)


def _reads_any(term: Term, names: Iterable[str]) -> bool:
    return bool({a for f in term.factors for a in arrays_of(f)} & set(names))


def _parted(
    definition: Definition, inside: Sequence[int], names: Names
) -> tuple[Definition, Definition]:
    """Return some terms of a sum as a definition of their own, and the sum that reads it."""
    body = definition.body
    assert isinstance(body, tuple)
    name = names.new(f"{definition.name}_steps")
    access = Access(name, tuple(Affine.of(i) for i in definition.indices))
    rest = tuple(term for n, term in enumerate(body) if n not in inside)
    part = replace(definition, name=name, body=tuple(body[n] for n in inside))
    return part, replace(definition, body=(Term((), (access,)), *rest))


def part_of(definition: Definition, part: str, axis: int) -> Part:
    """Return what segments give of an array, under the name `part`."""
    dims = tuple(i.dim for i in definition.indices)
    body = definition.body
    whole = isinstance(body, Reduce) and body.kind in ("argmax", "argmin")
    return Part(definition.name, part, dims, axis, whole)


def tap_of(
    name: Callable[[str], str], array: str, axis: int, dims: tuple[Dim, ...], position: Dim
) -> Tap:
    """Return one step of an array under a name of its own, which `name` hands out."""
    place = "first" if position.constant == 0 else "last" if position + 1 == dims[axis] else "at"
    rest = tuple(d for n, d in enumerate(dims) if n != axis)
    return Tap(name(f"{array}_{place}"), array, axis, rest, position)


def tapped(
    definition: Definition, axes: Mapping[str, int], tap: Callable[[str, int, Dim], str]
) -> Definition:
    """Replace reads at single steps by reads of arrays that hold those steps."""

    def position(one: Position) -> Position:
        if not isinstance(one, Lookup):
            return one
        inner = tuple(position(p) for p in one.at)
        name, at = placed(one.array, inner)
        return Lookup(name, at)

    def placed(array: str, at: tuple[Position, ...]) -> tuple[str, tuple[Position, ...]]:
        axis = axes.get(array)
        if axis is None:
            return array, at
        where = at[axis]
        if not isinstance(where, Affine) or where.terms:
            return array, at
        return tap(array, axis, where.offset), (*at[:axis], *at[axis + 1 :])

    def change(node: Scalar) -> Scalar:
        if isinstance(node, Access):
            return Access(*placed(node.array, tuple(position(p) for p in node.at)))
        return node

    def moved(scalar: Scalar) -> Scalar:
        return rebuild(scalar, change)

    return replace(definition, body=over_body(definition.body, moved))


__all__ = ["divided", "part_of", "tap_of", "tapped"]
