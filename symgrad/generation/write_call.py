"""Calls of LAPACK as Python text: matrices with their axes where numpy wants them.

Call -> lines
What a matrix is shared by (samples, a stack of right sides, several systems) becomes columns of
one system, so that each matrix is factorised once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from symgrad.dims import ONE, Dim
from symgrad.generation.words import code_name, dim_text
from symgrad.program import BATCH, Access, Affine, Definition, Index, Primitive
from symgrad.schedule import Call

FUNCTIONS = {
    "inv": "_inverse",
    "det": "_determinant",
    "logdet": "_log_determinant",
    "cholesky": "_cholesky",
}


def call_lines(call: Call, step: str = "") -> list[str]:
    """Return the statements that compute the definitions of a call.

    `step` is what the driver calls the step of a recurrence; there is one definition then.
    """
    first = call.definitions[0]
    if call.fixed is not None:
        first, place = _at_step(first, call.fixed, step)
        solves = _body(first).kind == "solve"
        return [f"{place} = {_alone(first) if solves else _of_one(first)}"]
    name, body = code_name(first.name), _body(first)
    if body.kind not in ("solve", "inv"):
        return [f"{name} = {_of_one(first)}"]
    if len(call.definitions) == 1 and not call.lower:
        return [f"{name} = {_of_one(first) if body.kind == 'inv' else _alone(first)}"]
    leading = next((d for d in call.definitions if _body(d).kind == "solve"), first)
    turned = _is_turned(leading)
    systems = [System.of(d, turned) for d in call.definitions]
    if call.lower:
        solved = f"_solve_triangular({_left(leading)}, {systems[0].right}, {not turned})"
        return [f"{name} = {systems[0].shaped(solved)}"]
    names = [code_name(d.name) for d in call.definitions]
    rights = ", ".join(system.right for system in systems)
    lines = [f"{', '.join(names)} = _solve_all({_left(leading)}, ({rights}), {_place(leading)})"]
    for name, system in zip(names, systems, strict=True):
        shaped = system.shaped(name)
        lines += [f"{name} = {shaped}"] if shaped != name else []
    return lines


def _at_step(definition: Definition, fixed: Index, step: str) -> tuple[Definition, str]:
    """Return a definition over the arrays' parts at one step, and the part that it fills."""
    body = _body(definition)

    def part(array: str, at: Sequence[Index | None]) -> str:
        if fixed not in at:
            return array
        return f"{code_name(array)}[{', '.join([':'] * at.index(fixed) + [step])}]"

    operands = []
    for operand in body.operands:
        bare = [p.bare for p in operand.at]
        at = tuple(p for p, i in zip(operand.at, bare, strict=True) if i != fixed)
        operands.append(Access(part(operand.array, bare), at))
    indices = tuple(i for i in definition.indices if i != fixed)
    at_one = replace(definition, indices=indices, body=replace(body, operands=tuple(operands)))
    return at_one, part(definition.name, definition.indices)


def _body(definition: Definition) -> Primitive:
    assert isinstance(definition.body, Primitive)
    return definition.body


def _stack(definition: Definition) -> tuple[Index, ...]:
    return definition.indices[: len(definition.indices) - len(_body(definition).at)]


def _of_one(definition: Definition) -> str:
    """Return the call of a function of one matrix."""
    kind = _body(definition).kind
    place = "" if kind == "det" else f", {_place(definition)}"
    return f"{FUNCTIONS[kind]}({_left(definition)}{place})"


def _alone(definition: Definition) -> str:
    """Return the call that solves one system."""
    system = System.of(definition, _is_turned(definition))
    return system.shaped(f"_solve({_left(definition)}, {system.right}, {_place(definition)})")


def _left(definition: Definition) -> str:
    """Return the matrices of a definition, their rows and columns last."""
    body = _body(definition)
    return _turned(body.operands[0], (*_stack(definition), *body.axes[0]))


@dataclass(frozen=True, slots=True)
class System:
    """The right sides of one definition as columns, and the axes their solution comes with."""

    definition: Definition
    right: str
    made: tuple[Index, ...]
    flat: bool

    @staticmethod
    def of(definition: Definition, turned: bool) -> System:
        """Return the system of a definition; an inverse takes the transpose of a `turned` one."""
        body, stack = _body(definition), _stack(definition)
        if body.kind == "inv":
            made = (*stack, *(reversed(body.at) if _is_turned(definition) != turned else body.at))
            return System(definition, f"_unit({_left(definition)})", made, False)
        (matrix, right), (_, (row, *columns)) = body.operands, body.axes
        ours, theirs = _indices(matrix), _indices(right)
        shared = [i for i in stack if i in ours and i in theirs]
        alone = [i for i in stack if i in ours and i not in theirs]
        more = [i for i in stack if i not in ours]
        order = [i for i in stack if i in ours]
        given = _turned(right, (*shared, row, *more, *columns))
        flat = len(more) + len(columns) != 1
        if alone or flat:
            lead = ["1" if i in alone else dim_text(i.dim) for i in order]
            wide = _product([i.dim for i in (*more, *columns)])
            given = f"{given}.reshape({', '.join((*lead, dim_text(row.dim), wide))})"
        return System(definition, given, (*order, body.at[0], *more, *body.at[1:]), flat)

    def shaped(self, solved: str) -> str:
        """Return a solution with the axes that its definition has."""
        if self.flat:
            solved += f".reshape({', '.join(dim_text(i.dim) for i in self.made)})"
        order = [self.made.index(i) for i in self.definition.indices]
        if order == list(range(len(order))):
            return solved
        turned = ".T" if len(order) == 2 else f".transpose({', '.join(map(str, order))})"
        return f"np.ascontiguousarray({solved}{turned})"


def _place(definition: Definition) -> str:
    """Return what an error says of the place: statement, matrix, whether samples have their own."""
    body = _body(definition)
    names = [o.array for o in body.operands]
    names[0] += ".T" if _is_turned(definition) else ""
    statement = f"{body.kind}({', '.join(names)})"
    if definition.written:
        statement = f"{definition.name} = {statement}"
    batched = any(i.dim == BATCH for i in _indices(body.operands[0]))
    words = (json.dumps(word, ensure_ascii=False) for word in (statement, body.operands[0].array))
    return f"({', '.join(words)}, {batched})"


def _is_turned(definition: Definition) -> bool:
    """Whether the matrix is read with rows and columns exchanged."""
    body = _body(definition)
    places = [_indices(body.operands[0]).index(i) for i in body.axes[0]]
    return places[0] > places[1]


def _indices(access: Access) -> tuple[Index, ...]:
    bare = (p.bare for p in access.at if isinstance(p, Affine))
    return tuple(i for i in bare if i is not None)


def _turned(access: Access, order: Sequence[Index]) -> str:
    """Return an array with its axes in the order given; those it lacks are left out."""
    have = _indices(access)
    places = [have.index(i) for i in order if i in have]
    text = access.array if "[" in access.array else code_name(access.array)
    if places == list(range(len(places))):
        return text
    return f"{text}.T" if len(places) == 2 else f"{text}.transpose({', '.join(map(str, places))})"


def _product(dims: Sequence[Dim]) -> str:
    """Return a product of sizes as Python text."""
    factors = [dim_text(d) for d in dims if d != ONE]
    if len(factors) == 1:
        return factors[0]
    return " * ".join(f if f.isidentifier() else f"({f})" for f in factors) or "1"
