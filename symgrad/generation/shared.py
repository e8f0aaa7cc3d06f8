"""Definitions that some parameters and constants alone determine: they may be kept between calls.

Definitions -> Shared, ..., the rest
Those that the same arrays determine are one group; systems with one matrix stay together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from symgrad.algebra.order import needed
from symgrad.generation.gather import gather
from symgrad.program import (
    BATCH,
    Definition,
    Program,
    Size,
    affine_of,
    blocks,
    positions,
    reads,
    scalars_of,
    walk,
)


@dataclass(frozen=True, slots=True)
class Shared:
    """Definitions that the declared arrays `needs` determine; `wanted` is read outside of them."""

    needs: tuple[str, ...]
    definitions: tuple[Definition, ...]
    wanted: tuple[str, ...]


Needs = Mapping[str, frozenset[str] | None]
"""Which declared arrays determine an array; None where samples or vectors do too."""


def needs_of(program: Program) -> dict[str, frozenset[str] | None]:
    """Return what determines the arrays and the definitions of a program."""
    found: dict[str, frozenset[str] | None] = {t.name: frozenset() for t in program.tables}
    found |= {a.name: None if a.batched else frozenset((a.name,)) for a in program.arrays}
    for unit in blocks(program.definitions):
        needs = _together(unit, found)
        found |= dict.fromkeys((d.name for d in unit), needs)
    return found


def shared(
    definitions: Sequence[Definition],
    known: Needs,
    own: Collection[str],
    wanted: Collection[str],
    lower: frozenset[str],
    axes: Collection[str],
) -> tuple[tuple[Shared, ...], tuple[Definition, ...]]:
    """Return groups in an order that can be run, and what is left in its order.

    `known` has what determines arrays made elsewhere. Arrays in `own` belong to one call: they are
    handed out, and left. `wanted` are read after the definitions. `axes` are the arrays made
    elsewhere that are no single numbers.
    """
    needs = dict(known)
    for unit in gather(definitions, lower):
        together = None if any(d.name in own for d in unit) else _together(unit, needs)
        needs |= dict.fromkeys((d.name for d in unit), together)
    light = _light(definitions, needs, {a for a in known if a not in axes})
    groups: dict[frozenset[str], list[Definition]] = {}
    for definition in definitions:
        found = needs[definition.name]
        if found is not None and definition.name not in light:
            groups.setdefault(found, []).append(definition)
    order = {a: n for n, a in enumerate(known)}
    made = []
    for key, group in sorted(groups.items(), key=lambda pair: len(pair[0])):
        everything = needed((*light.values(), *group), [d.name for d in group])
        names = tuple(sorted(key, key=order.__getitem__))
        made.append(Shared(names, everything, _wanted(group, definitions, wanted)))
    rest = tuple(d for d in definitions if needs[d.name] is None or d.name in light)
    read = {n for d in rest if d.name not in light for n in reads(d)} | set(wanted)
    kept = [d.name for d in rest if d.name not in light or d.name in read]
    return tuple(made), needed(rest, kept)


def _light(
    definitions: Sequence[Definition], needs: Needs, scalars: set[str]
) -> dict[str, Definition]:
    """Return single numbers made of single numbers: they are not worth being kept."""
    found: dict[str, Definition] = {}
    for definition in definitions:
        body = definition.body
        plain = isinstance(body, tuple) and not any(t.bound for t in body)
        alone = not definition.indices and needs[definition.name] is not None
        if alone and plain and all(n in found or n in scalars for n in reads(definition)):
            found[definition.name] = definition
    return found


def _together(unit: Sequence[Definition], known: Needs) -> frozenset[str] | None:
    """Return what determines definitions that are computed together."""
    names = {d.name for d in unit}
    total: frozenset[str] = frozenset()
    for definition in unit:
        if _sampled(definition):
            return None
        for name in reads(definition):
            if name in names:
                continue
            needs = known.get(name)
            if needs is None:
                return None
            total |= needs
    return total


def _sampled(definition: Definition) -> bool:
    """Whether a definition runs over samples, or counts them."""
    body = definition.body
    bound = [t.bound for t in body] if isinstance(body, tuple) else [body.bound]
    if any(i.dim == BATCH for indices in (definition.indices, *bound) for i in indices):
        return True
    nodes = [n for s in scalars_of(body) for n in walk(s)]
    dims = [n.dim for n in nodes if isinstance(n, Size)]
    dims += [a.offset for n in nodes for p in positions(n) for a in affine_of(p)]
    return any(name in BATCH.names for dim in dims for name in dim.names)


def _wanted(
    group: Sequence[Definition], definitions: Iterable[Definition], wanted: Collection[str]
) -> tuple[str, ...]:
    names = {d.name for d in group}
    outside = {n for d in definitions if d.name not in names for n in reads(d)}
    return tuple(d.name for d in group if d.name in outside or d.name in wanted)


__all__ = ["Needs", "Shared", "needs_of", "shared"]
