"""Calls of LAPACK as Python text: matrices with their axes where numpy wants them.

Definition -> lines
What a matrix is shared by (samples, a stack of right sides) becomes columns of one system, so
that each matrix is factorised once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from symgrad.dims import ONE, Dim
from symgrad.generation.write_kernel import code_name, dim_text
from symgrad.program import BATCH, Access, Affine, Definition, Index, Primitive

FUNCTIONS = {
    "inv": "_inverse",
    "det": "_determinant",
    "logdet": "_log_determinant",
    "solve": "_solve",
    "cholesky": "_cholesky",
}


def call_lines(definition: Definition, exists: bool) -> list[str]:
    """Return the statement that computes a primitive; an array that `exists` is filled."""
    body = definition.body
    assert isinstance(body, Primitive)
    value = _solution(definition, body) if body.kind == "solve" else _of_one(definition, body)
    return [f"{code_name(definition.name)}{'[...]' if exists else ''} = {value}"]


def _of_one(definition: Definition, body: Primitive) -> str:
    (operand,), (axes,) = body.operands, body.axes
    stack = definition.indices[: len(definition.indices) - len(body.at)]
    place = "" if body.kind == "det" else f", {_place(definition, body)}"
    return f"{FUNCTIONS[body.kind]}({_turned(operand, (*stack, *axes))}{place})"


def _solution(definition: Definition, body: Primitive) -> str:
    """Return `solve` with the right sides of one matrix as its columns."""
    (matrix, right), (rows, (row, *columns)) = body.operands, body.axes
    stack = definition.indices[: len(definition.indices) - len(body.at)]
    ours, theirs = _indices(matrix), _indices(right)
    shared = [i for i in stack if i in ours and i in theirs]
    alone = [i for i in stack if i in ours and i not in theirs]
    more = [i for i in stack if i not in ours]
    left = _turned(matrix, (*shared, *alone, *rows))
    given = _turned(right, (*shared, row, *more, *columns))
    if alone or len(more) + len(columns) != 1:
        wide = _product([i.dim for i in (*more, *columns)])
        ones = ["1"] * len(alone)
        shape = [*(dim_text(i.dim) for i in shared), *ones, dim_text(row.dim), wide]
        given = f"{given}.reshape({', '.join(shape)})"
    text = f"_solve({left}, {given}, {_place(definition, body)})"
    made = (*shared, *alone, body.at[0], *more, *body.at[1:])
    if len(more) + len(columns) != 1:
        text += f".reshape({', '.join(dim_text(i.dim) for i in made)})"
    order = [made.index(i) for i in definition.indices]
    if order == list(range(len(order))):
        return text
    turned = f"{text}.T" if len(order) == 2 else f"{text}.transpose({', '.join(map(str, order))})"
    return f"np.ascontiguousarray({turned})"


def _place(definition: Definition, body: Primitive) -> str:
    """Return what an error says of the place: statement, matrix, whether samples have their own."""
    names = [f"{o.array}.T" if _is_turned(o, a) else o.array for o, a in
             zip(body.operands, body.axes, strict=True)]
    call = f"{body.kind}({', '.join(names)})"
    statement = f"{definition.name} = {call}" if definition.written else call
    batched = any(i.dim == BATCH for i in _indices(body.operands[0]))
    words = (json.dumps(word, ensure_ascii=False) for word in (statement, body.operands[0].array))
    return f"({', '.join(words)}, {batched})"


def _is_turned(operand: Access, axes: Sequence[Index]) -> bool:
    places = [_indices(operand).index(i) for i in axes]
    return len(places) == 2 and places[0] > places[1]


def _indices(access: Access) -> tuple[Index, ...]:
    bare = (p.bare for p in access.at if isinstance(p, Affine))
    return tuple(i for i in bare if i is not None)


def _turned(access: Access, order: Sequence[Index]) -> str:
    """Return an array with its axes in the order given; those it lacks are left out."""
    have = _indices(access)
    places = [have.index(i) for i in order if i in have]
    text = code_name(access.array)
    if places == list(range(len(places))):
        return text
    return f"{text}.T" if len(places) == 2 else f"{text}.transpose({', '.join(map(str, places))})"


def _product(dims: Sequence[Dim]) -> str:
    """Return a product of sizes as Python text."""
    factors = [dim_text(d) for d in dims if d != ONE]
    if len(factors) == 1:
        return factors[0]
    return " * ".join(f if f.isidentifier() else f"({f})" for f in factors) or "1"
