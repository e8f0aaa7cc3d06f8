"""einsum: a pattern of letters read as a sum of products.

"ij,j->i", Value, Value -> Value
A letter that the output lacks is summed over; one that stands twice runs along a diagonal.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from symgrad.check.context import Context, Scope, shape_text
from symgrad.check.tree import Node, Positions, Sum, Tree, Value
from symgrad.dims import Dim
from symgrad.errors import CodegenError, LayerSyntaxError, ShapeError
from symgrad.program import Affine, Position
from symgrad.syntax import Call, Expr, Text

Lower = Callable[[Expr, Scope, Context], Value]


def einsum(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    """Return the value of einsum; without `->` the output is numpy's."""
    if expr.keywords or len(expr.arguments) < 2 or not isinstance(expr.arguments[0], Text):
        hint = 'einsum("ij,j->i", A, b)'
        raise LayerSyntaxError("einsum takes a pattern and arrays", expr.span, hint=hint)
    pattern = expr.arguments[0]
    values = tuple(lower(e, scope, context) for e in expr.arguments[1:])
    groups, output = _read(pattern)
    dims = _dims(expr, groups, values, context)
    for letter in output:
        if letter not in dims:
            message = f"the output letter {letter} stands in no array"
            raise ShapeError(message, pattern.span, hint=f"its letters are {', '.join(dims)}")
    bound_letters = tuple(letter for letter in dims if letter not in output)

    def element(at: Positions) -> Tree:
        bound = {c: context.supply.fresh(c, dims[c]) for c in bound_letters}
        table: dict[str, Position] = dict(zip(output, at, strict=True))
        table.update({c: Affine.of(i) for c, i in bound.items()})
        trees = [
            v.element(tuple(table[c] for c in group))
            for v, group in zip(values, groups, strict=True)
        ]
        product: Tree = reduce(lambda a, b: Node("mul", (a, b)), trees)
        return Sum(tuple(bound.values()), product) if bound else product

    return Value(tuple(dims[c] for c in output), element)


def _read(pattern: Text) -> tuple[tuple[str, ...], str]:
    """Return the letters of each array and of the output."""
    text = pattern.value.replace(" ", "")
    if "..." in text:
        hint = "write a letter for each axis"
        raise CodegenError("`...` in einsum is not supported yet", pattern.span, hint=hint)
    left, arrow, output = text.partition("->")
    groups = tuple(left.split(","))
    if not all(c.isalpha() for c in "".join(groups) + output):
        hint = "one letter for each axis: ij,j->i"
        raise LayerSyntaxError("this is no pattern of einsum", pattern.span, hint=hint)
    if not arrow:
        every = "".join(groups)
        output = "".join(sorted(c for c in set(every) if every.count(c) == 1))
    if len(set(output)) != len(output):
        hint = "diag(v) makes a diagonal"
        message = "the output of einsum has distinct letters"
        raise LayerSyntaxError(message, pattern.span, hint=hint)
    return groups, output


def _dims(
    expr: Call, groups: tuple[str, ...], values: tuple[Value, ...], context: Context
) -> dict[str, Dim]:
    """Return the dim of each letter, in order of appearance."""
    if len(groups) != len(values):
        message = f"the pattern speaks of {len(groups)} arrays, {len(values)} are given"
        hint = "its letters stand in groups, one an array: ij,j->i"
        raise ShapeError(message, expr.span, hint=hint)
    dims: dict[str, Dim] = {}
    for group, value, part in zip(groups, values, expr.arguments[1:], strict=True):
        text = context.text(part)
        if len(group) != len(value.axes):
            message = f"{text} {shape_text(value.axes)} has not the {len(group)} axes of {group!r}"
            raise ShapeError(message, part.span, hint="write one letter for each axis")
        for letter, dim in zip(group, value.axes, strict=True):
            if dims.setdefault(letter, dim) != dim:
                message = f"the letter {letter} runs over {dims[letter]} but over {dim} in {text}"
                hint = "give axes of different lengths different letters"
                raise ShapeError(message, part.span, hint=hint)
    return dims
