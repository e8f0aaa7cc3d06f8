"""Matrix style: broadcasting, products, transposes, comparisons.

Value, Value -> Value
Two axes match if they are the same dim; only a literal 1 is repeated.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.check.context import Context, shape_text
from symgrad.check.tree import Node, Positions, Sum, Tree, Value
from symgrad.dims import ONE, Dim
from symgrad.errors import LayerSyntaxError, ShapeError, Span
from symgrad.program import Affine
from symgrad.syntax import Binary, Compare, Expr, Unary

_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "·": "mul", "/": "div", "**": "pow"}
_MASKS = {"&": "and_", "|": "or_"}
_COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


def elementwise(expr: Binary, left: Value, right: Value, context: Context) -> Value:
    """Return an element-wise operation of two values."""
    if expr.operator in _MASKS:
        for part, value in ((expr.left, left), (expr.right, right)):
            if not value.mask:
                message = f"`{expr.operator}` joins masks, and this is a number"
                raise LayerSyntaxError(message, part.span, hint="compare it: (a > 0)")
        return joined(_MASKS[expr.operator], (left, right), expr, (expr.left, expr.right), context)
    function = _ARITHMETIC[expr.operator]
    return joined(function, (left, right), expr, (expr.left, expr.right), context)


def joined(
    function: str,
    values: Sequence[Value],
    expr: Expr,
    parts: Sequence[Expr],
    context: Context,
) -> Value:
    """Apply a scalar function to values that broadcast to one shape."""
    axes = broadcast(values, expr.span, [context.text(p) for p in parts])
    mask = function in (*_MASKS.values(), *_COMPARISONS.values(), "not_")

    def element(at: Positions) -> Tree:
        return Node(function, tuple(v.element(spread(v.axes, at)) for v in values))

    return Value(axes, element, mask)


def broadcast(values: Sequence[Value], span: Span, texts: Sequence[str]) -> tuple[Dim, ...]:
    """Return the shape values broadcast to; raise ShapeError if they do not."""
    axes: tuple[Dim, ...] = ()
    for value, text in zip(values, texts, strict=True):
        joint = _joint(axes, value.axes)
        if joint is None:
            before = f"{texts[0]} of shape {shape_text(axes)}"
            message = f"{text} of shape {shape_text(value.axes)} does not fit {before}"
            axis = next(
                (a, b)
                for a, b in zip(reversed(axes), reversed(value.axes), strict=False)
                if a != b and ONE not in (a, b)
            )
            hint = f"the axes {axis[0]} and {axis[1]} differ; only a literal 1 is repeated"
            raise ShapeError(message, span, hint=hint)
        axes = joint
    return axes


def _joint(left: tuple[Dim, ...], right: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
    """Return the shape two shapes broadcast to, None if they do not fit."""
    rank = max(len(left), len(right))
    first = (*((ONE,) * (rank - len(left))), *left)
    second = (*((ONE,) * (rank - len(right))), *right)
    result = []
    for a, b in zip(first, second, strict=True):
        if a != b and ONE not in (a, b):
            return None
        result.append(b if a == ONE else a)
    return tuple(result)


def spread(axes: tuple[Dim, ...], at: Positions) -> Positions:
    """Return where in a value of `axes` the element at `at` of a broadcast result stands."""
    own = at[len(at) - len(axes) :]
    return tuple(Affine() if d == ONE else p for d, p in zip(axes, own, strict=True))


def negate(value: Value) -> Value:
    """Return minus a value."""
    return Value(value.axes, lambda at: Node("neg", (value.element(at),)))


def invert(expr: Unary, value: Value) -> Value:
    """Return where a mask does not hold."""
    if not value.mask:
        hint = "compare it: ~(a > 0)"
        raise LayerSyntaxError("`~` negates a mask, and this is a number", expr.span, hint=hint)
    return Value(value.axes, lambda at: Node("not_", (value.element(at),)), mask=True)


def compare(expr: Compare, values: tuple[Value, ...], context: Context) -> Value:
    """Return the mask of a comparison; a chain means all its pairs."""
    masks = [
        joined(_COMPARISONS[op], values[n : n + 2], expr, expr.operands[n : n + 2], context)
        for n, op in enumerate(expr.operators)
    ]
    result = masks[0]
    for mask in masks[1:]:
        result = joined("and_", (result, mask), expr, (expr, expr), context)
    return result


def transpose(value: Value, order: tuple[int, ...] | None) -> Value:
    """Return the value with its axes in another order, reversed by default."""
    rank = len(value.axes)
    order = tuple(reversed(range(rank))) if order is None else order

    def element(at: Positions) -> Tree:
        there = dict(zip(order, at, strict=True))
        return value.element(tuple(there[n] for n in range(rank)))

    axes = tuple(value.axes[n] for n in order)
    return Value(axes, element, value.mask, value.plain)


def matmul(expr: Binary, left: Value, right: Value, context: Context) -> Value:
    """Return numpy's matmul of two values."""
    a, b = context.text(expr.left), context.text(expr.right)
    if not left.axes or not right.axes:
        message = f"{a if not left.axes else b} is a scalar and has no place in @"
        raise ShapeError(message, expr.span, hint="multiply it by *")
    inner = right.axes[-2] if len(right.axes) > 1 else right.axes[0]
    if left.axes[-1] != inner:
        raise ShapeError(
            f"{a} @ {b}: the last axis of {a} {shape_text(left.axes)} is {left.axes[-1]}, "
            f"but {b} {shape_text(right.axes)} has {inner} there",
            expr.span,
            hint="transpose one by .T, or declare the axes alike",
        )
    rows, columns = left.axes[-2:-1], right.axes[-1:] if len(right.axes) > 1 else ()
    stacks = (Value(left.axes[:-2], left.element), Value(right.axes[:-2], right.element))
    stack = broadcast(stacks, expr.span, (a, b))

    def element(at: Positions) -> Tree:
        k = context.inner(inner)
        here = Affine() if inner == ONE else Affine.of(k)
        over, rest = at[: len(stack)], at[len(stack) :]
        row, column = rest[: len(rows)], rest[len(rows) :]
        x = left.element((*spread(left.axes[:-2], over), *row, here))
        near = (here, *column) if len(right.axes) > 1 else (here,)
        y = right.element((*spread(right.axes[:-2], over), *near))
        product = Node("mul", (x, y))
        return product if inner == ONE else Sum((k,), product)

    return Value((*stack, *rows, *columns), element)
