"""Definitions in an order that can be run: what reads itself at other steps becomes a recurrence.

Definitions in any order -> Definitions, recurrences as blocks
Members of a cycle run together, step by step; everything else runs over all steps at once,
before or behind them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

from symgrad.errors import InternalError
from symgrad.program import (
    Access,
    Affine,
    Definition,
    Index,
    Loop,
    Position,
    Supply,
    positions,
    reads,
    scalars_of,
    walk,
)


def needed(definitions: Sequence[Definition], wanted: Iterable[str]) -> tuple[Definition, ...]:
    """Return those definitions that `wanted` depends on, in the same order."""
    table = {d.name: d for d in definitions}
    marked: set[str] = set()
    stack = list(wanted)
    while stack:
        name = stack.pop()
        if name in table and name not in marked:
            marked.add(name)
            stack += reads(table[name])
    return tuple(d for d in definitions if d.name in marked)


def arrange(
    definitions: Sequence[Definition], steps: Mapping[str, Index], supply: Supply
) -> tuple[Definition, ...]:
    """Return the definitions in an order that can be run, close to the given one.

    `steps` names the index along which some member of every recurrence runs. Raises InternalError
    where a cycle is no recurrence.
    """
    table = {d.name: d for d in definitions}
    place = {d.name: n for n, d in enumerate(definitions)}
    below = {d.name: [n for n in reads(d) if n in table] for d in definitions}
    groups = _components(list(table), below)
    made: dict[str, Sequence[Definition]] = {}
    for group in groups:
        first = group[0]
        if len(group) == 1 and first not in below[first]:
            made[first] = (replace(table[first], loop=None),)
        else:
            members = [table[n] for n in sorted(group, key=place.__getitem__)]
            made[members[0].name] = _block(members, steps, supply)
    home = {name: min(group, key=place.__getitem__) for group in groups for name in group}
    after = {
        lead: {home[n] for d in unit for n in below[d.name]} - {lead} for lead, unit in made.items()
    }
    return tuple(d for lead in _topological(after, place) for d in made[lead])


def _components(names: Sequence[str], below: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the strongly connected components (Tarjan, without recursion)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []
    for root in names:
        if root in number:
            continue
        work = [(root, iter(below[root]))]
        number[root] = low[root] = len(number)
        stack.append(root)
        while work:
            name, rest = work[-1]
            child = next(rest, None)
            if child is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == number[name]:
                    cut = stack.index(name)
                    found.append(stack[cut:])
                    del stack[cut:]
            elif child not in number:
                number[child] = low[child] = len(number)
                stack.append(child)
                work.append((child, iter(below[child])))
            elif child in stack:
                low[name] = min(low[name], number[child])
    return found


def _topological(after: Mapping[str, set[str]], place: Mapping[str, int]) -> list[str]:
    """Return the names, each behind those it needs, otherwise in their given order."""
    waiting = {name: set(needed) for name, needed in after.items()}
    users: dict[str, list[str]] = {}
    for name, needed in after.items():
        for other in needed:
            users.setdefault(other, []).append(name)
    ready = [(place[name], name) for name, needed in waiting.items() if not needed]
    heapify(ready)
    result: list[str] = []
    while ready:
        _, name = heappop(ready)
        result.append(name)
        for user in users.get(name, ()):
            waiting[user].discard(name)
            if not waiting[user]:
                heappush(ready, (place[user], user))
    return result


def _block(
    members: Sequence[Definition], steps: Mapping[str, Index], supply: Supply
) -> tuple[Definition, ...]:
    """Return the members of one recurrence with their loops, in the order of one step."""
    own = _step_indices(members, steps)
    table = {d.name: d for d in members}
    offsets: dict[tuple[str, str], set[int]] = {}
    for member in members:
        for access in _accesses(member, table):
            shift = _shift(access, table[access.array], own, member)
            offsets.setdefault((member.name, access.array), set()).add(shift)
    shifts = {s for found in offsets.values() for s in found if s}
    if not shifts or (min(shifts) < 0 < max(shifts)):
        raise InternalError(f"{members[0].name} depends on itself, and is no recurrence")
    supply.serial += 1
    place = {d.name: n for n, d in enumerate(members)}
    after = {
        d.name: {b for (a, b), found in offsets.items() if a == d.name and 0 in found}
        for d in members
    }
    order = _topological(after, place)
    if len(order) != len(members):
        raise InternalError(f"{members[0].name} depends on itself within one step")
    reverse = max(shifts) > 0
    block = supply.serial
    return tuple(replace(table[n], loop=Loop(block, own[n], reverse)) for n in order)


def _step_indices(
    members: Sequence[Definition], steps: Mapping[str, Index]
) -> dict[str, Index]:
    """Return each member's index along which the recurrence runs, from those known."""
    table = {d.name: d for d in members}
    own = {name: index for name, index in steps.items() if name in table}
    changed = True
    while changed:
        changed = False
        for member in members:
            for access in _accesses(member, table):
                here, there = own.get(member.name), own.get(access.array)
                if here is None and there is not None:
                    position = access.at[table[access.array].indices.index(there)]
                    own[member.name] = _only(position, member)
                    changed = True
    if len(own) < len(members):
        lost = next(d.name for d in members if d.name not in own)
        raise InternalError(f"{lost} depends on itself, and no index says in which order")
    return own


def _accesses(member: Definition, table: Mapping[str, Definition]) -> list[Access]:
    nodes = (n for s in scalars_of(member.body) for n in walk(s))
    for scalar in scalars_of(member.body):
        for node in walk(scalar):
            for position in positions(node):
                if not isinstance(position, Affine) and position.array in table:
                    raise InternalError(f"{member.name} reads data of its own recurrence")
    return [n for n in nodes if isinstance(n, Access) and n.array in table]


def _only(position: Position, member: Definition) -> Index:
    """Return the one index of a position, free in the member."""
    if isinstance(position, Affine) and len(position.terms) == 1:
        index, coefficient = position.terms[0]
        if coefficient == 1 and index in member.indices:
            return index
    raise InternalError(f"{member.name} reads its recurrence at no step of its own")


def _shift(
    access: Access, target: Definition, own: Mapping[str, Index], member: Definition
) -> int:
    """Return how many steps later than its own a member reads (negative: earlier)."""
    position = access.at[target.indices.index(own[target.name])]
    if _only(position, member) != own[member.name] or not isinstance(position, Affine):
        raise InternalError(f"{member.name} reads its recurrence along another index")
    constant = position.offset.constant
    if constant is None:
        raise InternalError(f"{member.name} reads its recurrence at a step of unknown distance")
    return constant


__all__ = ["arrange"]
