"""Which indices matrix style writes: `h_t = tanh(U h_{t-1} + W x_t)`.

Program -> stacked axes; scalars of a formula -> indices that are labels
An index is a label where no product of matrices can say it: it counts the steps of a recurrence,
stands in a position such as `t - 1`, or would be a third axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from symgrad.program import (
    Access,
    Affine,
    Definition,
    Delta,
    Guard,
    Index,
    Lookup,
    Place,
    Position,
    Program,
    Scalar,
    scalars_of,
    walk,
)

Stacks = Mapping[str, frozenset[int]]
"""For each array the axes, counted from the last, along which it is a stack."""


def stacks_of(program: Program, definitions: Iterable[Definition]) -> Stacks:
    """Return the axes that count steps, and those of stacks that are read element by element."""
    ordered = list(definitions)
    found: dict[str, set[int]] = {}
    for definition in ordered:
        if definition.loop is not None:
            place = definition.indices.index(definition.loop.index) - len(definition.indices)
            found.setdefault(definition.name, set()).add(place)
        for access in _accesses(scalars_of(definition.body)):
            if sum(not is_batch(p, program) for p in access.at) > 2:
                literal = (
                    n - len(access.at)
                    for n, p in enumerate(access.at)
                    if not indices_in_position(p)
                )
                found.setdefault(access.array, set()).update(literal)
    changed = True
    while changed:
        changed = False
        for definition in ordered:
            labels = _bare_at(_accesses(scalars_of(definition.body)), found)
            rank = len(definition.indices)
            places = {n - rank for n, i in enumerate(definition.indices) if i in labels}
            known = found.setdefault(definition.name, set())
            changed = changed or not places <= known
            known |= places
    return {name: frozenset(axes) for name, axes in found.items()}


def labels_of(
    scalars: Sequence[Scalar], stacks: Stacks, program: Program
) -> set[Index]:
    """Return the indices that a formula must write."""
    accesses = list(_accesses(scalars))
    labels = _bare_at(accesses, stacks)
    for node in (n for s in scalars for n in walk(s)):
        match node:
            case Guard(position, _) | Place(position):
                labels |= indices_in_position(position)
            case Access(_, at):
                labels |= {i for p in at if isinstance(p, Affine) and p.bare is None
                           for i in indices_in_position(p)}
            case _:
                pass
    deltas = [n for s in scalars for n in walk(s) if isinstance(n, Delta)]
    for _ in deltas:
        for delta in deltas:
            both = indices_in_position(delta.left) | indices_in_position(delta.right)
            labels |= both if both & labels else set()
    for access in accesses:
        axes = [
            p.bare for p in access.at
            if isinstance(p, Affine) and p.bare is not None and p.bare not in labels
            and p.bare != program.batch and p.bare.dim.constant != 1
        ]
        labels.update(dict.fromkeys(axes[: max(0, len(axes) - 2)]))
    return labels - {program.batch}


def leading(target: Sequence[Index], labels: set[Index]) -> set[Index]:
    """Return the axes of a result that are labels so that two are left."""
    axes = [i for i in target if i not in labels]
    return set(axes[: max(0, len(axes) - 2)])


def indices_in_position(position: Position) -> set[Index]:
    """Return the indices that a position reads."""
    if isinstance(position, Lookup):
        return {i for p in position.at for i in indices_in_position(p)}
    return {index for index, _ in position.terms}


def is_batch(position: Position, program: Program) -> bool:
    """Whether a position is the sample's number."""
    return isinstance(position, Affine) and position.bare == program.batch


def _accesses(scalars: Iterable[Scalar]) -> Iterable[Access]:
    return (n for s in scalars for n in walk(s) if isinstance(n, Access))


def _bare_at(accesses: Iterable[Access], stacks: Mapping[str, Iterable[int]]) -> set[Index]:
    """Return the indices that stand at stacked axes."""
    return {
        i
        for access in accesses
        for n in stacks.get(access.array, ())
        if -n <= len(access.at)
        for i in indices_in_position(access.at[n])
    }


__all__ = ["indices_in_position", "is_batch", "labels_of", "leading", "stacks_of"]
