"""Systems with one matrix become one call, so that each matrix is factorised once.

Definitions -> groups of definitions, in an order that can be run
Two solutions wait for each other unless one needs the other; all else keeps its order.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from symgrad.program import Affine, Definition, Primitive, arrays_of, blocks, scalars_of

Group = tuple[Definition, ...]


def gather(
    definitions: Sequence[Definition], lower: frozenset[str] = frozenset()
) -> tuple[Group, ...]:
    """Return the definitions, those together that solve with the same matrix.

    Matrices in `lower` are triangular: there is nothing to be factorised, nothing waits.
    A recurrence stays together.
    """
    members = {n: list(unit) for n, unit in enumerate(blocks(definitions))}
    home: dict[str, int] = {d.name: n for n, unit in members.items() for d in unit}
    for number, (definition, *_) in list(members.items()):
        matrix = _matrix(definition)
        if matrix is None or matrix[0] in lower:
            continue
        for first in range(number):
            joins = first in members and _fits(definition, members[first])
            if joins and first not in _ancestors(number, members, home):
                members[first] += members.pop(number)
                home[definition.name] = first
                break
    return _in_order(members, home)


def _matrix(definition: Definition) -> tuple[str, tuple[object, ...]] | None:
    """Return which matrix a definition solves with, rows first, None for others."""
    body = definition.body
    if not isinstance(body, Primitive) or body.kind not in ("solve", "inv") or definition.loop:
        return None
    operand, axes = body.operands[0], body.axes[0]
    bare = [p.bare for p in operand.at if isinstance(p, Affine)]
    places: list[object] = [bare.index(i) for i in axes]
    stack = [i for i in definition.indices if i in bare]
    return operand.array, (*places, *(bare.index(i) for i in stack))


def _fits(definition: Definition, group: Sequence[Definition]) -> bool:
    """Whether a definition solves with the matrix of a group; an inverse may be transposed."""
    ours = _matrix(definition)
    for other in group:
        theirs = _matrix(other)
        if ours is None or theirs is None or ours[0] != theirs[0]:
            return False
        either = any(_is_inverse(d) for d in (definition, other))
        places = {ours[1][:2], ours[1][1::-1]} if either else {ours[1][:2]}
        if theirs[1][:2] not in places or theirs[1][2:] != ours[1][2:]:
            return False
    return True


def _is_inverse(definition: Definition) -> bool:
    return isinstance(definition.body, Primitive) and definition.body.kind == "inv"


def _needs(group: Sequence[Definition], home: Mapping[str, int]) -> set[int]:
    names = (n for d in group for s in scalars_of(d.body) for n in arrays_of(s))
    return {home[name] for name in names if name in home}


def _ancestors(
    number: int, members: Mapping[int, Sequence[Definition]], home: Mapping[str, int]
) -> set[int]:
    """Return the groups that a group needs, directly or through others."""
    found: set[int] = set()
    waiting = [number]
    while waiting:
        new = _needs(members[waiting.pop()], home) - found
        found |= new
        waiting += new
    return found


def _in_order(
    members: Mapping[int, list[Definition]], home: Mapping[str, int]
) -> tuple[Group, ...]:
    """Return the groups so that each comes after what it needs, otherwise as they stood."""
    needs = {n: _needs(group, home) - {n} for n, group in members.items()}
    readers: dict[int, list[int]] = {n: [] for n in members}
    for number, needed in needs.items():
        for one in sorted(needed):
            readers[one].append(number)
    ready = [n for n, needed in needs.items() if not needed]
    heapq.heapify(ready)
    ordered: list[Group] = []
    while ready:
        number = heapq.heappop(ready)
        ordered.append(tuple(members[number]))
        for reader in readers[number]:
            needs[reader].discard(number)
            if not needs[reader]:
                heapq.heappush(ready, reader)
    return tuple(ordered)
