"""The laws of a program, tested: what `check` hands on never surprises a later stage.

Program -> Program, or an InternalError
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.errors import InternalError
from symgrad.program import (
    BATCH,
    Access,
    Affine,
    Definition,
    Index,
    Lookup,
    Position,
    Primitive,
    Program,
    Rowwise,
    Scalar,
    blocks,
    indices_of,
    positions,
    scalars_of,
    walk,
)


def verify(program: Program) -> Program:
    """Return the program if it obeys its laws.

    Names are unique, every access has a known array and its rank, the order can be run, every
    index is free or bound, reductions hold one access. Raises InternalError otherwise: our fault.
    """
    ranks: dict[str, int] = {}
    for array in program.arrays:
        _require(array.name not in ranks, f"{array.name} is declared twice")
        ranks[array.name] = len(array.axes) + array.batched
    for unit in blocks(program.definitions):
        for made in unit:
            _require(made.name not in ranks, f"{made.name} is defined twice")
            if made.loop is not None:
                ranks[made.name] = len(made.indices)
        for made in unit:
            _verify_definition(made, program.batch, ranks)
            _verify_steps(made, unit, program.batch)
            ranks[made.name] = len(made.indices)
    _verify_primitives(program)
    for name in program.outputs:
        _require(program.definition(name) is not None, f"the output {name} is not defined")
    for condition in program.conditions:
        _verify_scalar(condition.mask, frozenset(condition.indices), ranks, "a condition")
    return program


def _verify_definition(made: Definition, batch: Index, ranks: Mapping[str, int]) -> None:
    free = frozenset(made.indices)
    _require(len(free) == len(made.indices), f"{made.name} has an index twice")
    _require(batch not in made.indices[1:], f"{made.name} has its batch index not first")
    if isinstance(made.body, tuple):
        for term in made.body:
            _verify_bound(made, term.bound)
            for factor in term.factors:
                _verify_scalar(factor, free | frozenset(term.bound), ranks, made.name)
        return
    _verify_bound(made, made.body.bound)
    if isinstance(made.body, Primitive):
        for operand, axes in zip(made.body.operands, made.body.axes, strict=True):
            stack = free - frozenset(made.body.at)
            _verify_scalar(operand, stack | frozenset(axes), ranks, made.name)
        return
    _require(isinstance(made.body.body, Access), f"{made.name} reduces more than an access")
    seen = free | frozenset(made.body.bound)
    if isinstance(made.body, Rowwise):
        _require(set(made.body.at) <= free, f"{made.name} is read where it has no index")
        _require(len(made.body.at) == len(made.body.bound), f"{made.name} has a ragged row")
        seen -= frozenset(made.body.at)
    _verify_scalar(made.body.body, seen, ranks, made.name)


def _verify_steps(made: Definition, unit: Sequence[Definition], batch: Index) -> None:
    """Raise unless a member of a recurrence reads the others where they are known."""
    if made.loop is None:
        return
    own = [i for i in made.indices if i != batch]
    _require(own[:1] == [made.loop.index], f"{made.name} runs along no first index")
    before = [other.name for other in unit[: unit.index(made)]]
    loops = {other.name: other for other in unit}
    for scalar in scalars_of(made.body):
        for node in walk(scalar):
            if isinstance(node, Access) and node.array in loops:
                target = loops[node.array]
                position = node.at[int(batch in target.indices)]
                shift = position - made.loop.index if isinstance(position, Affine) else Affine()
                constant = None if shift.terms else shift.offset.constant
                done = constant is not None and (constant > 0) == made.loop.reverse
                known = (node.array in before) if constant == 0 else done
                _require(known, f"{made.name} reads {node.array} at a step not done yet")


def _verify_primitives(program: Program) -> None:
    """Functions of whole matrices have their own axes last; operands are whole arrays."""
    shapes = {a.name: (BATCH, *a.axes) if a.batched else a.axes for a in program.arrays}
    for made in program.definitions:
        if isinstance(made.body, Primitive):
            own = made.indices[len(made.indices) - len(made.body.at) :]
            _require(own == made.body.at, f"{made.name} has its own axes not last")
            for operand in made.body.operands:
                bare = [p.bare for p in operand.at if isinstance(p, Affine) and p.bare is not None]
                over = tuple(i.dim for i in bare)
                whole = over == shapes[operand.array] and len(set(bare)) == len(bare)
                _require(whole, f"{made.name} reads a part of {operand.array}")
        shapes[made.name] = tuple(i.dim for i in made.indices)


def _verify_bound(made: Definition, bound: tuple[Index, ...]) -> None:
    _require(len(set(bound)) == len(bound), f"{made.name} binds an index twice")
    _require(not set(bound) & set(made.indices), f"{made.name} binds one of its own indices")


def _verify_scalar(
    scalar: Scalar, seen: frozenset[Index], ranks: Mapping[str, int], name: str
) -> None:
    for index in indices_of(scalar):
        _require(index in seen, f"the index {index.name} of {name} is neither free nor bound")
        unknown = any(part.startswith("#q") for part in index.dim.names)
        _require(not unknown, f"the index {index.name} of {name} has no range")
    for node in walk(scalar):
        if isinstance(node, Access):
            _verify_access(node.array, node.at, ranks, name)
        for position in positions(node):
            _verify_position(position, ranks, name)


def _verify_access(
    array: str, at: tuple[Position, ...], ranks: Mapping[str, int], name: str
) -> None:
    _require(array in ranks, f"{name} reads {array} before it is defined")
    _require(ranks[array] == len(at), f"{name} reads {array} with {len(at)} positions")


def _verify_position(position: Position, ranks: Mapping[str, int], name: str) -> None:
    if isinstance(position, Lookup):
        _verify_access(position.array, position.at, ranks, name)
        for inner in position.at:
            _verify_position(inner, ranks, name)


def _require(law: bool, message: str) -> None:
    if not law:
        raise InternalError(f"a program breaks a law: {message}")
