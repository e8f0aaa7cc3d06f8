"""Products of vectors and what stands on a diagonal: dot, outer, trace and diag.

Call, Scope -> Value
A trace reads one index twice; a diagonal matrix is a delta times its vector.
"""

from __future__ import annotations

from symgrad.check.arguments import Lower, operands, require_rank, require_square
from symgrad.check.context import Context, Scope, shape_text
from symgrad.check.tree import Node, Positions, Sum, Tree, Value
from symgrad.errors import ShapeError
from symgrad.program import Affine, Delta
from symgrad.syntax import Call


def dot(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    """Return the product of two vectors of one length."""
    a, b = operands(expr, 2, scope, context, lower)
    for part, value in zip(expr.arguments, (a, b), strict=True):
        require_rank(part, value, context, 1)
    if a.axes != b.axes:
        first, second = (context.text(e) for e in expr.arguments)
        message = f"{first} {shape_text(a.axes)} and {second} {shape_text(b.axes)} differ in length"
        raise ShapeError(message, expr.span, hint="dot multiplies two vectors of one length")

    def element(at: Positions) -> Tree:
        k = context.inner(a.axes[0])
        here = (Affine.of(k),)
        return Sum((k,), Node("mul", (a.element(here), b.element(here))))

    return Value((), element)


def outer(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    """Return all products of the elements of two vectors."""
    a, b = operands(expr, 2, scope, context, lower)
    for part, value in zip(expr.arguments, (a, b), strict=True):
        require_rank(part, value, context, 1)

    def element(at: Positions) -> Tree:
        return Node("mul", (a.element(at[:1]), b.element(at[1:])))

    return Value((*a.axes, *b.axes), element)


def trace(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    """Return the sum over the diagonal of a square matrix."""
    (a,) = operands(expr, 1, scope, context, lower)
    require_square(expr.arguments[0], a, context)

    def element(at: Positions) -> Tree:
        k = context.inner(a.axes[0])
        return Sum((k,), a.element((Affine.of(k), Affine.of(k))))

    return Value((), element)


def diag(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    """Return the diagonal of a square matrix, or the matrix of a diagonal."""
    (a,) = operands(expr, 1, scope, context, lower)
    if len(a.axes) != 1:
        require_square(expr.arguments[0], a, context)
        return Value(a.axes[:1], lambda at: a.element((at[0], at[0])))

    def element(at: Positions) -> Tree:
        return Sum((), Node("mul", (Delta(at[0], at[1]), a.element(at[:1]))))

    return Value((*a.axes, *a.axes), element)
