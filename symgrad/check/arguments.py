"""The arguments of array functions: keywords, counts, ranks and shapes, with their errors.

Call, Scope -> Value, Dim
Each error says how the function is called.
"""

from __future__ import annotations

from collections.abc import Callable

from symgrad.check.axes import axes_of
from symgrad.check.context import Context, Scope, shape_text
from symgrad.check.sizes import size_of
from symgrad.check.tree import Value
from symgrad.dims import Dim
from symgrad.errors import LayerSyntaxError, ShapeError, Span
from symgrad.program import Affine
from symgrad.syntax import Call, Expr, Keyword, Sequence

Lower = Callable[[Expr, Scope, Context], Value]

Maker = Callable[[Call, Scope, Context, Lower], Value]

_USES = {
    "dot": "dot(a, b)",
    "outer": "outer(a, b)",
    "trace": "trace(A)",
    "diag": "diag(A)",
    "transpose": "transpose(a, (1, 0))",
    "concatenate": "concatenate([a, b], axis=0)",
    "stack": "stack([a, b], axis=0)",
    "squeeze": "squeeze(a, axis=0)",
    "expand_dims": "expand_dims(a, axis=0)",
    "broadcast_to": "broadcast_to(a, (n, m))",
    "tril": "tril(A, k=0)",
    "triu": "triu(A, k=0)",
    "eye": "eye(n)",
    "pad": "pad(a, ((0, 0), (1, 1)))",
}
"""How each function is called."""


def keywords_of(expr: Call, *allowed: str) -> dict[str, Keyword]:
    """Return the keywords of a call by name; raise LayerSyntaxError for one it has not."""
    for keyword in expr.keywords:
        if keyword.name not in allowed:
            hint = f"{expr.function} takes {', '.join(allowed)}" if allowed else None
            message = f"{expr.function} has no {keyword.name}"
            raise LayerSyntaxError(message, keyword.span, hint=hint)
    return {keyword.name: keyword for keyword in expr.keywords}


def require_count(expr: Call, *counts: int) -> None:
    """Raise LayerSyntaxError unless a call has one of so many arguments."""
    if len(expr.arguments) not in counts:
        wanted = " or ".join(str(n) for n in counts)
        plural = "" if counts == (1,) else "s"
        message = f"{expr.function} takes {wanted} argument{plural}, not {len(expr.arguments)}"
        raise LayerSyntaxError(message, expr.span, hint=_USES[expr.function])


def operands(
    expr: Call, count: int, scope: Scope, context: Context, lower: Lower
) -> tuple[Value, ...]:
    """Return the values of a call with `count` arguments and no keywords."""
    keywords_of(expr)
    require_count(expr, count)
    return tuple(lower(e, scope, context) for e in expr.arguments)


def require_rank(expr: Expr, value: Value, context: Context, *ranks: int) -> None:
    """Raise ShapeError unless a value has one of so many axes."""
    if len(value.axes) not in ranks:
        wanted = " or ".join(str(n) for n in ranks)
        are = "axis is" if ranks == (1,) else "axes are"
        shape = shape_text(value.axes)
        message = f"{context.text(expr)} has shape {shape}, but {wanted} {are} expected"
        raise ShapeError(message, expr.span, hint="A @ b multiplies matrices and vectors")


def require_square(expr: Expr, value: Value, context: Context) -> None:
    """Raise ShapeError unless a value is a square matrix."""
    if len(value.axes) != 2 or value.axes[0] != value.axes[1]:
        message = f"{context.text(expr)} has shape {shape_text(value.axes)}, which is not square"
        raise ShapeError(message, expr.span, hint="declare both axes alike: A: param[n, n]")


def axis_of(expr: Expr, rank: int, scope: Scope, context: Context) -> int:
    """Return the number of the one axis that an expression names."""
    return axes_of(expr, rank, scope, context)[0]


def affine_at(position: object, span: Span) -> Affine:
    """Return a position that is no data; raise ShapeError if it is."""
    if not isinstance(position, Affine):
        hint = "z = ..., then z[t]"
        message = "only a named array is gathered from: give it a name first"
        raise ShapeError(message, span, hint=hint)
    return position


def shape_of(expr: Expr, scope: Scope, context: Context) -> tuple[Dim, ...]:
    """Return the axes that an expression, or a sequence of some, names."""
    items = expr.items if isinstance(expr, Sequence) else (expr,)
    dims = tuple(size_of(item, scope, context) for item in items)
    for dim in dims:
        context.size(dim, "an axis", expr.span)
    return dims
