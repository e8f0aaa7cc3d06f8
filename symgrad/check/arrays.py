"""Functions of whole arrays that only move positions: transpose, stack, pad, einsum and their kin.

Call, Scope -> Value
What lies outside an array is cut off by a guard, never read.
"""

from __future__ import annotations

from functools import reduce

from symgrad.bounds import at_least
from symgrad.check.arguments import (
    Lower,
    Maker,
    affine_at,
    axis_of,
    keywords_of,
    require_count,
    shape_of,
)
from symgrad.check.axes import axes_of
from symgrad.check.context import Context, Scope, shape_text
from symgrad.check.diagonals import diag, dot, outer, trace
from symgrad.check.einsum import einsum
from symgrad.check.matrix import broadcast, spread, transpose
from symgrad.check.reshape import reshape
from symgrad.check.sizes import as_dim, size_of
from symgrad.check.tree import Node, Positions, Sum, Tree, Value, has_reduction
from symgrad.dims import ONE, Dim
from symgrad.errors import LayerSyntaxError, ShapeError
from symgrad.program import Affine, Delta, Guard, Number
from symgrad.syntax import Call, Expr, Sequence


def array_function(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    """Return the value of an array function."""
    return _MAKERS[expr.function](expr, scope, context, lower)


def _transpose(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    keywords = keywords_of(expr, "axes")
    require_count(expr, 1, 2)
    value = lower(expr.arguments[0], scope, context)
    order = expr.arguments[1] if len(expr.arguments) == 2 else None
    if "axes" in keywords:
        order = keywords["axes"].value
    if order is None:
        return transpose(value, None)
    items = order.items if isinstance(order, Sequence) else (order,)
    rank = len(value.axes)
    axes = [axis_of(item, rank, scope, context) for item in items]
    if sorted(axes) != list(range(rank)):
        hint = f"name each axis, 0 to {rank - 1}, once"
        raise ShapeError("this is no order of the axes", order.span, hint=hint)
    return transpose(value, tuple(axes))


def _listed(expr: Call, scope: Scope, context: Context, lower: Lower) -> tuple[Value, ...]:
    require_count(expr, 1)
    parts = expr.arguments[0]
    if not isinstance(parts, Sequence) or not parts.items:
        hint = f"{expr.function}([a, b])"
        raise LayerSyntaxError(f"{expr.function} asks for a list of arrays", parts.span, hint=hint)
    return tuple(lower(item, scope, context) for item in parts.items)


def _concatenate(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    keywords = keywords_of(expr, "axis")
    values = tuple(_apart(v, context) for v in _listed(expr, scope, context, lower))
    rank = len(values[0].axes)
    axis = axis_of(keywords["axis"].value, rank, scope, context) if keywords else 0
    for value in values:
        if len(value.axes) != rank or rank == 0 or any(
            a != b for n, (a, b) in enumerate(zip(values[0].axes, value.axes, strict=False))
            if n != axis
        ):
            shapes = " and ".join(shape_text(v.axes) for v in (values[0], value))
            message = f"{shapes} cannot be concatenated along axis {axis}"
            raise ShapeError(message, expr.span, hint="all other axes must agree")
    total = reduce(lambda a, b: a + b, (v.axes[axis] for v in values))

    def element(at: Positions) -> Tree:
        trees: list[Tree] = []
        start = Dim.of(0)
        for value in values:
            here = affine_at(at[axis], expr.span) - start
            part = value.element((*at[:axis], here, *at[axis + 1 :]))
            trees.append(Sum((), Node("mul", (Guard(here, value.axes[axis]), part))))
            start = start + value.axes[axis]
        return reduce(lambda a, b: Node("add", (a, b)), trees)

    axes = values[0].axes
    return Value((*axes[:axis], total, *axes[axis + 1 :]), element)


def _apart(value: Value, context: Context) -> Value:
    """Return a value that can be read beside its axes under a guard.

    What becomes a definition of its own must have the value's axes, not those it is read over.
    """
    at = tuple(Affine.of(i) for i in context.fresh(value.axes))
    return context.named(value) if has_reduction(value.element(at)) else value


def _stack(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    keywords = keywords_of(expr, "axis")
    values = _listed(expr, scope, context, lower)
    axes = values[0].axes
    if any(value.axes != axes for value in values):
        shapes = ", ".join(shape_text(v.axes) for v in values)
        hint = "concatenate joins along an axis that is there"
        raise ShapeError(f"stack needs equal shapes, not {shapes}", expr.span, hint=hint)
    rank = len(axes) + 1
    axis = axis_of(keywords["axis"].value, rank, scope, context) if keywords else 0

    def element(at: Positions) -> Tree:
        rest = (*at[:axis], *at[axis + 1 :])
        here = affine_at(at[axis], expr.span)
        if not here.terms and here.offset.constant is not None:
            return values[here.offset.constant].element(rest)
        trees: list[Tree] = [
            Sum((), Node("mul", (Delta(here, Affine.of(n)), value.element(rest))))
            for n, value in enumerate(values)
        ]
        return reduce(lambda a, b: Node("add", (a, b)), trees)

    return Value((*axes[:axis], Dim.of(len(values)), *axes[axis:]), element)


def _squeeze(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    keywords = keywords_of(expr, "axis")
    require_count(expr, 1)
    value = lower(expr.arguments[0], scope, context)
    rank = len(value.axes)
    gone = tuple(n for n, d in enumerate(value.axes) if d == ONE)
    if keywords:
        gone = axes_of(keywords["axis"].value, rank, scope, context)
    for axis in gone:
        if value.axes[axis] != ONE:
            message = f"axis {axis} has length {value.axes[axis]} and cannot be squeezed"
            raise ShapeError(message, expr.span, hint="only axes of literal length 1 can")

    def element(at: Positions) -> Tree:
        rest = list(at)
        return value.element(
            tuple(Affine() if n in gone else rest.pop(0) for n in range(rank))
        )

    return Value(tuple(d for n, d in enumerate(value.axes) if n not in gone), element, value.mask)


def _expand_dims(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    keywords = keywords_of(expr, "axis")
    require_count(expr, 1, 2)
    value = lower(expr.arguments[0], scope, context)
    where = expr.arguments[1] if len(expr.arguments) == 2 else None
    if where is None:
        if not keywords:
            raise LayerSyntaxError("expand_dims needs an axis", expr.span, hint="axis=0")
        where = keywords["axis"].value
    count = len(where.items) if isinstance(where, Sequence) else 1
    rank = len(value.axes) + count
    new = axes_of(where, rank, scope, context)
    axes = list(value.axes)
    for axis in new:
        axes.insert(axis, ONE)

    def element(at: Positions) -> Tree:
        return value.element(tuple(p for n, p in enumerate(at) if n not in new))

    return Value(tuple(axes), element, value.mask)


def _broadcast_to(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    keywords_of(expr)
    require_count(expr, 2)
    value = lower(expr.arguments[0], scope, context)
    axes = shape_of(expr.arguments[1], scope, context)
    target = Value(axes, value.element)
    texts = [context.text(e) for e in reversed(expr.arguments)]
    if broadcast((target, value), expr.span, texts) != axes:
        message = f"{texts[1]} {shape_text(value.axes)} does not broadcast to {shape_text(axes)}"
        raise ShapeError(message, expr.span, hint="only a literal 1 is repeated")
    return Value(axes, lambda at: value.element(spread(value.axes, at)), value.mask)


def _triangle(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    keywords = keywords_of(expr, "k")
    require_count(expr, 1, 2)
    value = lower(expr.arguments[0], scope, context)
    if len(value.axes) < 2:
        hint = "it works on the last two axes"
        raise ShapeError(f"{expr.function} needs a matrix", expr.span, hint=hint)
    shifted = expr.arguments[1] if len(expr.arguments) == 2 else None
    if keywords:
        shifted = keywords["k"].value
    offset = Dim.of(0) if shifted is None else as_dim(shifted, scope, context)
    if offset is None:
        raise LayerSyntaxError("k is a whole number", expr.span, hint="write tril(a, k=1)")
    rows, columns = value.axes[-2:]
    lower_half = expr.function == "tril"
    # the guard's upper bound must never cut: it lies beyond the largest position there is
    most = rows + offset if lower_half else columns - offset
    reach = most if at_least(most - (rows if lower_half else columns)) == "yes" else (
        rows + columns + offset * offset
    )

    def element(at: Positions) -> Tree:
        i, j = affine_at(at[-2], expr.span), affine_at(at[-1], expr.span)
        inside = i - j + offset if lower_half else j - i - offset
        return Sum((), Node("mul", (Guard(inside, reach), value.element(at))))

    return Value(value.axes, element)


def _eye(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    keywords_of(expr)
    require_count(expr, 1, 2)
    axes = tuple(shape_of(e, scope, context)[0] for e in expr.arguments)
    axes = axes * 2 if len(axes) == 1 else axes
    return Value(axes, lambda at: Delta(at[0], at[1]))


def _filled(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    keywords_of(expr)
    value = Number(0 if expr.function == "zeros" else 1)
    axes = tuple(d for e in expr.arguments for d in shape_of(e, scope, context))
    return Value(axes, lambda at: value)


def _pad(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    keywords_of(expr)
    require_count(expr, 2)
    value = _apart(lower(expr.arguments[0], scope, context), context)
    widths = _widths(expr.arguments[1], len(value.axes), scope, context)
    for before, after in widths:
        context.size(before, "the padding", expr.span)
        context.size(after, "the padding", expr.span)

    def element(at: Positions) -> Tree:
        places = tuple(
            affine_at(p, expr.span) - before for p, (before, _) in zip(at, widths, strict=True)
        )
        tree = value.element(places)
        zero = Dim.of(0)
        for n, (before, after) in enumerate(widths):
            if before != zero or after != zero:
                tree = Node("mul", (Guard(places[n], value.axes[n]), tree))
        return Sum((), tree)

    axes = tuple(d + b + a for d, (b, a) in zip(value.axes, widths, strict=True))
    return Value(axes, element)


def _widths(
    expr: Expr, rank: int, scope: Scope, context: Context
) -> tuple[tuple[Dim, Dim], ...]:
    """Read numpy's pad widths: one for all, one pair for all, or a pair for each axis."""
    if not isinstance(expr, Sequence):
        dim = size_of(expr, scope, context)
        return ((dim, dim),) * rank
    if not any(isinstance(item, Sequence) for item in expr.items):
        dims = shape_of(expr, scope, context)
        if len(dims) == 2:
            return ((dims[0], dims[1]),) * rank
    pairs = []
    for item in expr.items:
        dims = shape_of(item, scope, context)
        if len(dims) != 2 or not isinstance(item, Sequence):
            raise ShapeError("padding is given in pairs", item.span, hint="((0, 0), (1, 1))")
        pairs.append((dims[0], dims[1]))
    if len(pairs) == 1:
        pairs = pairs * rank
    if len(pairs) != rank:
        message = f"there are {len(pairs)} pairs of padding for rank {rank}"
        raise ShapeError(message, expr.span, hint="give a pair for each axis")
    return tuple(pairs)


_MAKERS: dict[str, Maker] = {
    "dot": dot,
    "outer": outer,
    "trace": trace,
    "diag": diag,
    "transpose": _transpose,
    "concatenate": _concatenate,
    "stack": _stack,
    "squeeze": _squeeze,
    "expand_dims": _expand_dims,
    "broadcast_to": _broadcast_to,
    "tril": _triangle,
    "triu": _triangle,
    "eye": _eye,
    "zeros": _filled,
    "ones": _filled,
    "pad": _pad,
    "reshape": reshape,
    "einsum": einsum,
}

ARRAY_FUNCTIONS = tuple(_MAKERS)
