"""Functions of whole matrices: inverse, determinant, linear systems, Cholesky factor.

Call, Scope -> Value
They act on the trailing two axes of one sample's array; the axes before them are a stack.
"""

from __future__ import annotations

from collections.abc import Callable

from symgrad.check.context import Context, Scope, shape_text
from symgrad.check.matrix import broadcast, spread
from symgrad.check.tree import Positions, Tree, Value, Whole
from symgrad.dims import Dim
from symgrad.errors import LayerSyntaxError, ShapeError
from symgrad.program import Affine, Index
from symgrad.syntax import Call, Expr

Lower = Callable[[Expr, Scope, Context], Value]


def linear_algebra(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    """Return the value of a function of whole matrices.

    Raises LayerSyntaxError for wrong arguments and ShapeError for what is no (stack of) square
    matrices, or a right side that does not fit.
    """
    count = 2 if expr.function == "solve" else 1
    use = "solve(A, b)" if count == 2 else f"{expr.function}(A)"
    if expr.keywords:
        message = f"{expr.function} has no {expr.keywords[0].name}"
        raise LayerSyntaxError(message, expr.keywords[0].span, hint=use)
    if len(expr.arguments) != count:
        plural = "" if count == 1 else "s"
        message = f"{expr.function} takes {count} argument{plural}, not {len(expr.arguments)}"
        raise LayerSyntaxError(message, expr.span, hint=use)
    values = tuple(lower(e, scope, context) for e in expr.arguments)
    _require_square(expr, values[0], context)
    if expr.function == "solve":
        return _solve(expr, values[0], values[1], context)
    return _of_one(expr.function, values[0], context)


def _require_square(expr: Call, value: Value, context: Context) -> None:
    axes = value.axes
    if len(axes) < 2 or axes[-1] != axes[-2]:
        text = context.text(expr.arguments[0])
        shape = shape_text(axes)
        message = f"{expr.function}({text}): {text} has shape {shape}, which is not square"
        hint = "the last two axes must be alike: declare A: param[n, n]"
        raise ShapeError(message, expr.arguments[0].span, hint=hint)


def _matrix(axes: tuple[Dim, ...], context: Context) -> tuple[Index, ...]:
    return tuple(context.inner(d, "kl"[n]) for n, d in enumerate(axes))


def _read(value: Value, stack: Positions, axes: tuple[Index, ...]) -> Tree:
    """Return an operand's element, its stack at broadcast positions, its matrix over `axes`."""
    over = spread(value.axes[: len(value.axes) - len(axes)], stack)
    return value.element((*over, *(Affine.of(i) for i in axes)))


def _of_one(kind: str, value: Value, context: Context) -> Value:
    stack, own = value.axes[:-2], value.axes[-2:]
    dims = () if kind in ("det", "logdet") else own

    def element(at: Positions) -> Tree:
        axes = _matrix(own, context)
        inner = _read(value, at[: len(stack)], axes)
        return Whole(kind, (inner,), (axes,), at[len(stack) :], dims)

    return Value((*stack, *dims), element)


def _solve(expr: Call, matrix: Value, right: Value, context: Context) -> Value:
    """Return the solution of `A y = b`; as in numpy, b of one axis is a vector, else a matrix."""
    a, b = (context.text(e) for e in expr.arguments)
    dims = right.axes if len(right.axes) == 1 else right.axes[-2:]
    if not dims or dims[0] != matrix.axes[-1]:
        raise ShapeError(
            f"solve({a}, {b}): {b} of shape {shape_text(right.axes)} does not fit {a} of shape "
            f"{shape_text(matrix.axes)}",
            expr.arguments[1].span,
            hint="the right side is a vector [n], or [..., n, k] with k columns: b[:, None]",
        )
    stacks = (
        Value(matrix.axes[:-2], matrix.element),
        Value(right.axes[: len(right.axes) - len(dims)], right.element),
    )
    stack = broadcast(stacks, expr.span, (a, b))

    def element(at: Positions) -> Tree:
        here = at[: len(stack)]
        axes = (_matrix(matrix.axes[-2:], context), _matrix(dims, context))
        operands = (_read(matrix, here, axes[0]), _read(right, here, axes[1]))
        return Whole("solve", operands, axes, at[len(stack) :], dims)

    return Value((*stack, *dims), element)
