"""The way back through a recurrence, from its last step to its first.

Sweep, Definition, ... -> definitions of adjoints in the sweep
The adjoints are a recurrence themselves, so that they have names before they have terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from symgrad.algebra.order import arrange
from symgrad.program import (
    Access,
    Affine,
    Definition,
    Index,
    Term,
    indices_of,
    reads,
    scalars_of,
    walk,
)

if TYPE_CHECKING:
    from symgrad.algebra.sweep import Sweep


def go_back_in_steps(sweep: Sweep, members: Sequence[Definition], active: frozenset[str]) -> None:
    """Go back through a recurrence: its adjoints are a recurrence that runs the other way.

    Where a member reads an earlier step, the adjoint is known by name before it has terms.
    """
    inside = {d.name for d in members}
    reached = {n for n in inside & active if sweep.pending.get(n)}
    batched = any(sweep.batched[n] for n in inside) or any(
        sweep.program.batch in indices_of(f)
        for n in reached
        for term in sweep.pending[n]
        for f in term.factors
        if sweep.program.batch not in term.bound
    )
    for _ in members:
        new = {n for d in members if d.name in reached for n in reads(d)} & inside & active
        reached |= new
    first = len(sweep.definitions)
    heads: dict[str, Access] = {}
    for member in members:
        if member.name in reached and _looks_back(member, inside):
            free = sweep.free(member.name)
            indices = (*((sweep.program.batch,) if batched else ()), *free)
            name = sweep.names.new(f"{sweep.prefix}_{sweep.tag}{member.name}")
            heads[member.name] = Access(name, tuple(Affine.of(i) for i in indices))
            told = (Term((), (heads[member.name],)),)
            sweep.pass_on(member, told, sweep.local(member, active), sweep.at[member.name])
    steps: dict[str, Index] = {}
    for member in reversed(members):
        arrived = sweep.pending.pop(member.name, []) if member.name in reached else []
        head = heads.get(member.name)
        if head is None and arrived:
            sweep.go_back(member, arrived, active)
        elif head is not None:
            sweep.name_sum("", arrived, sweep.free(member.name), head)
            sweep.owners.append((head.array, member.name))
            steps[head.array] = sweep.at[member.name][0]
    sweep.definitions[first:] = arrange(sweep.definitions[first:], steps, sweep.supply)


def _looks_back(member: Definition, inside: set[str]) -> bool:
    """Whether a member reads others of its recurrence at another step than its own."""
    own = Affine.of(member.loop.index) if member.loop is not None else None
    nodes = (n for s in scalars_of(member.body) for n in walk(s))
    return any(
        isinstance(n, Access) and n.array in inside and own not in n.at for n in nodes
    )
