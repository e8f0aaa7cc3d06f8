"""einsum: a pattern of letters read as a sum of products.

"...ij,j->...i", Value, Value -> Value
A letter that the output lacks is summed over; one that stands twice runs along a diagonal.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from symgrad.check.context import Context, Scope, shape_text
from symgrad.check.matrix import broadcast
from symgrad.check.tree import Node, Positions, Sum, Tree, Value
from symgrad.dims import ONE, Dim
from symgrad.errors import InternalError, LayerSyntaxError, ShapeError
from symgrad.program import Affine, Position
from symgrad.syntax import Call, Expr, Text

_DOTS = "."
"""What `...` is while a pattern is read."""
_ONE = "1"
"""Stands for an axis of length 1 that `...` repeats."""
_FIRST = 0xE000
"""The first of the characters that stand for the axes of `...`: letters of no alphabet."""

Lower = Callable[[Expr, Scope, Context], Value]


def einsum(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    """Return the value of einsum; without `->` the output is numpy's.

    `...` stands for axes of one sample that are left over; they broadcast, and come where the
    output has its `...` (first, if it does not say).
    """
    if expr.keywords or len(expr.arguments) < 2 or not isinstance(expr.arguments[0], Text):
        hint = 'einsum("ij,j->i", A, b)'
        raise LayerSyntaxError("einsum takes a pattern and arrays", expr.span, hint=hint)
    pattern = expr.arguments[0]
    values = tuple(lower(e, scope, context) for e in expr.arguments[1:])
    groups, output = _read(pattern)
    groups, output = _without_dots(expr, groups, output, values, context)
    dims = _dims(expr, groups, values, context)
    for letter in output:
        if letter not in dims:
            message = f"the output letter {letter} stands in no array"
            letters = ", ".join(c for c in dims if c.isalpha())
            raise ShapeError(message, pattern.span, hint=f"its letters are {letters}")
    bound_letters = tuple(letter for letter in dims if letter not in output and letter != _ONE)

    def element(at: Positions) -> Tree:
        bound = {c: context.supply.fresh(c, dims[c]) for c in bound_letters}
        table: dict[str, Position] = dict(zip(output, at, strict=True))
        table.update({c: Affine.of(i) for c, i in bound.items()})
        trees = [
            v.element(tuple(Affine() if c == _ONE else table[c] for c in group))
            for v, group in zip(values, groups, strict=True)
        ]
        product: Tree = reduce(lambda a, b: Node("mul", (a, b)), trees)
        return Sum(tuple(bound.values()), product) if bound else product

    return Value(tuple(dims[c] for c in output), element)


def _read(pattern: Text) -> tuple[tuple[str, ...], str]:
    """Return the letters of each array and of the output; a `...` is written `.`."""
    text = pattern.value.replace(" ", "")
    odd = _DOTS in text.replace("...", "")
    text = text.replace("...", _DOTS)
    left, arrow, output = text.partition("->")
    groups = tuple(left.split(","))
    if odd or not all(c.isalpha() or c == _DOTS for c in "".join(groups) + output):
        hint = "one letter for each axis: ij,j->i"
        raise LayerSyntaxError("this is no pattern of einsum", pattern.span, hint=hint)
    if any(part.count(_DOTS) > 1 for part in (*groups, output)):
        hint = "it stands for all axes that have no letter: ...ij,...j->...i"
        message = "an array of the pattern has `...` once at most"
        raise LayerSyntaxError(message, pattern.span, hint=hint)
    if not arrow:
        every = "".join(groups)
        dots = _DOTS if _DOTS in every else ""
        output = dots + "".join(sorted(c for c in set(every) - {_DOTS} if every.count(c) == 1))
    if len(set(output)) != len(output):
        hint = "diag(v) makes a diagonal"
        message = "the output of einsum has distinct letters"
        raise LayerSyntaxError(message, pattern.span, hint=hint)
    return groups, output


def _without_dots(
    expr: Call, groups: tuple[str, ...], output: str, values: tuple[Value, ...], context: Context
) -> tuple[tuple[str, ...], str]:
    """Return the letters with letters of their own in place of `...`."""
    texts = [context.text(part) for part in expr.arguments[1:]]
    pairs = zip(groups, values, strict=False)
    left_over = [Value(_left_over(group, value), _nowhere) for group, value in pairs]
    axes = broadcast(left_over, expr.span, texts[: len(left_over)])
    if axes and _DOTS not in output:
        hint = f"write where they go: ->...{output}"
        message = "the output of einsum lacks the axes that `...` stands for"
        raise LayerSyntaxError(message, expr.arguments[0].span, hint=hint)
    letters = "".join(chr(_FIRST + n) for n in range(len(axes)))
    made: list[str] = []
    for group, part in zip(groups, left_over, strict=False):
        own = letters[len(letters) - len(part.axes) :]
        over = axes[len(axes) - len(part.axes) :]
        dots = "".join(
            _ONE if one == ONE != whole else c
            for c, one, whole in zip(own, part.axes, over, strict=True)
        )
        made.append(group.replace(_DOTS, dots))
    return (*made, *groups[len(made) :]), output.replace(_DOTS, letters)


def _left_over(group: str, value: Value) -> tuple[Dim, ...]:
    """Return the axes of an array that have no letter in its group."""
    if _DOTS not in group:
        return ()
    count = max(0, len(value.axes) + 1 - len(group))
    return value.axes[group.index(_DOTS) :][:count]


def _nowhere(at: Positions) -> Tree:
    raise InternalError("the axes of `...` alone have no elements")


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
