"""Sizes and positions written as expressions.

Expr -> Dim
Sizes are polynomials of dims; a macro argument that is a number may stand in them.
"""

from __future__ import annotations

from symgrad.check.context import Context, Scope
from symgrad.check.tree import Value, position_of
from symgrad.dims import Dim
from symgrad.errors import ShapeError
from symgrad.syntax import Binary, Expr, Name, Number, Unary


def size_of(expr: Expr, scope: Scope, context: Context) -> Dim:
    """Return the dim an expression is; raise ShapeError if it is none."""
    dim = as_dim(expr, scope, context)
    if dim is None:
        hint = "sizes are polynomials of dims: n, h*d, (t - k)//2 + 1"
        raise ShapeError(f"{context.text(expr)} is not a size", expr.span, hint=hint)
    return dim


def as_dim(expr: Expr, scope: Scope, context: Context) -> Dim | None:
    """Return the dim an expression is, None if it is none."""
    match expr:
        case Number():
            return Dim.of(expr.value) if isinstance(expr.value, int) else None
        case Name():
            return _named(expr, scope, context)
        case Unary():
            inner = as_dim(expr.operand, scope, context)
            if inner is None or expr.operator == "~":
                return None
            return -inner if expr.operator == "-" else inner
        case Binary():
            left = as_dim(expr.left, scope, context)
            right = as_dim(expr.right, scope, context)
            return None if left is None or right is None else _combined(expr, left, right)
        case _:
            return None


def _named(expr: Name, scope: Scope, context: Context) -> Dim | None:
    if expr.name in scope.indices or expr.name == "pi":
        return None
    thing = scope.arrays.get(expr.name)
    if thing is None:
        return context.dim(expr.name, expr.span)
    if not isinstance(thing, Value) or thing.axes:
        return None
    place = position_of(thing.element(()))
    return None if place is None or place.terms else place.offset


def _combined(expr: Binary, left: Dim, right: Dim) -> Dim | None:
    number = right.constant
    match expr.operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*" | "·":
            return left * right
        case "//" if number is not None and number > 0:
            return left // number
        case "**" if number is not None and 0 <= number <= 8:
            result = Dim.of(1)
            for _ in range(number):
                result = result * left
            return result
        case _:
            return None
