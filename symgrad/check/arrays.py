"""Functions of whole arrays that only move positions: diag, stack, pad, einsum and their kin.

Call, Scope -> Value
What lies outside an array is cut off by a guard, never read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from symgrad.bounds import at_least
from symgrad.check.axes import axes_of
from symgrad.check.context import Context, Scope, shape_text
from symgrad.check.einsum import einsum
from symgrad.check.matrix import broadcast, spread, transpose
from symgrad.check.reshape import reshape
from symgrad.check.sizes import as_dim, size_of
from symgrad.check.tree import Node, Positions, Sum, Tree, Value, has_reduction
from symgrad.dims import ONE, Dim
from symgrad.errors import LayerSyntaxError, ShapeError, Span
from symgrad.program import Affine, Delta, Guard, Number
from symgrad.syntax import Call, Expr, Keyword, Sequence

Lower = Callable[[Expr, Scope, Context], Value]
Maker = Callable[[Call, Scope, Context, Lower], Value]


def array_function(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    """Return the value of an array function."""
    return _MAKERS[expr.function](expr, scope, context, lower)


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


def _keywords(expr: Call, *allowed: str) -> dict[str, Keyword]:
    for keyword in expr.keywords:
        if keyword.name not in allowed:
            hint = f"{expr.function} takes {', '.join(allowed)}" if allowed else None
            message = f"{expr.function} has no {keyword.name}"
            raise LayerSyntaxError(message, keyword.span, hint=hint)
    return {keyword.name: keyword for keyword in expr.keywords}


def _count(expr: Call, *counts: int) -> None:
    if len(expr.arguments) not in counts:
        wanted = " or ".join(str(n) for n in counts)
        plural = "" if counts == (1,) else "s"
        message = f"{expr.function} takes {wanted} argument{plural}, not {len(expr.arguments)}"
        raise LayerSyntaxError(message, expr.span, hint=_USES[expr.function])


def _values(
    expr: Call, count: int, scope: Scope, context: Context, lower: Lower
) -> tuple[Value, ...]:
    _keywords(expr)
    _count(expr, count)
    return tuple(lower(e, scope, context) for e in expr.arguments)


def _of_rank(expr: Expr, value: Value, context: Context, *ranks: int) -> None:
    if len(value.axes) not in ranks:
        wanted = " or ".join(str(n) for n in ranks)
        are = "axis is" if ranks == (1,) else "axes are"
        shape = shape_text(value.axes)
        message = f"{context.text(expr)} has shape {shape}, but {wanted} {are} expected"
        raise ShapeError(message, expr.span, hint="A @ b multiplies matrices and vectors")


def _dot(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    a, b = _values(expr, 2, scope, context, lower)
    for part, value in zip(expr.arguments, (a, b), strict=True):
        _of_rank(part, value, context, 1)
    if a.axes != b.axes:
        first, second = (context.text(e) for e in expr.arguments)
        message = f"{first} {shape_text(a.axes)} and {second} {shape_text(b.axes)} differ in length"
        raise ShapeError(message, expr.span, hint="dot multiplies two vectors of one length")

    def element(at: Positions) -> Tree:
        k = context.inner(a.axes[0])
        here = (Affine.of(k),)
        return Sum((k,), Node("mul", (a.element(here), b.element(here))))

    return Value((), element)


def _outer(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    a, b = _values(expr, 2, scope, context, lower)
    for part, value in zip(expr.arguments, (a, b), strict=True):
        _of_rank(part, value, context, 1)

    def element(at: Positions) -> Tree:
        return Node("mul", (a.element(at[:1]), b.element(at[1:])))

    return Value((*a.axes, *b.axes), element)


def _square(expr: Expr, value: Value, context: Context) -> None:
    if len(value.axes) != 2 or value.axes[0] != value.axes[1]:
        message = f"{context.text(expr)} has shape {shape_text(value.axes)}, which is not square"
        raise ShapeError(message, expr.span, hint="declare both axes alike: A: param[n, n]")


def _trace(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    (a,) = _values(expr, 1, scope, context, lower)
    _square(expr.arguments[0], a, context)

    def element(at: Positions) -> Tree:
        k = context.inner(a.axes[0])
        return Sum((k,), a.element((Affine.of(k), Affine.of(k))))

    return Value((), element)


def _diag(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    (a,) = _values(expr, 1, scope, context, lower)
    if len(a.axes) != 1:
        _square(expr.arguments[0], a, context)
        return Value(a.axes[:1], lambda at: a.element((at[0], at[0])))

    def element(at: Positions) -> Tree:
        return Sum((), Node("mul", (Delta(at[0], at[1]), a.element(at[:1]))))

    return Value((*a.axes, *a.axes), element)


def _transpose(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    keywords = _keywords(expr, "axes")
    _count(expr, 1, 2)
    value = lower(expr.arguments[0], scope, context)
    order = expr.arguments[1] if len(expr.arguments) == 2 else None
    if "axes" in keywords:
        order = keywords["axes"].value
    if order is None:
        return transpose(value, None)
    items = order.items if isinstance(order, Sequence) else (order,)
    rank = len(value.axes)
    axes = [_axis(item, rank, scope, context) for item in items]
    if sorted(axes) != list(range(rank)):
        hint = f"name each axis, 0 to {rank - 1}, once"
        raise ShapeError("this is no order of the axes", order.span, hint=hint)
    return transpose(value, tuple(axes))


def _axis(expr: Expr, rank: int, scope: Scope, context: Context) -> int:
    return axes_of(expr, rank, scope, context)[0]


def _listed(expr: Call, scope: Scope, context: Context, lower: Lower) -> tuple[Value, ...]:
    _count(expr, 1)
    parts = expr.arguments[0]
    if not isinstance(parts, Sequence) or not parts.items:
        hint = f"{expr.function}([a, b])"
        raise LayerSyntaxError(f"{expr.function} asks for a list of arrays", parts.span, hint=hint)
    return tuple(lower(item, scope, context) for item in parts.items)


def _concatenate(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    keywords = _keywords(expr, "axis")
    values = tuple(_apart(v, context) for v in _listed(expr, scope, context, lower))
    rank = len(values[0].axes)
    axis = _axis(keywords["axis"].value, rank, scope, context) if keywords else 0
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
            here = _affine(at[axis], expr.span) - start
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


def _affine(position: object, span: Span) -> Affine:
    if not isinstance(position, Affine):
        hint = "z = ..., then z[t]"
        message = "only a named array is gathered from: give it a name first"
        raise ShapeError(message, span, hint=hint)
    return position


def _stack(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    keywords = _keywords(expr, "axis")
    values = _listed(expr, scope, context, lower)
    axes = values[0].axes
    if any(value.axes != axes for value in values):
        shapes = ", ".join(shape_text(v.axes) for v in values)
        hint = "concatenate joins along an axis that is there"
        raise ShapeError(f"stack needs equal shapes, not {shapes}", expr.span, hint=hint)
    rank = len(axes) + 1
    axis = _axis(keywords["axis"].value, rank, scope, context) if keywords else 0

    def element(at: Positions) -> Tree:
        rest = (*at[:axis], *at[axis + 1 :])
        here = _affine(at[axis], expr.span)
        if not here.terms and here.offset.constant is not None:
            return values[here.offset.constant].element(rest)
        trees: list[Tree] = [
            Sum((), Node("mul", (Delta(here, Affine.of(n)), value.element(rest))))
            for n, value in enumerate(values)
        ]
        return reduce(lambda a, b: Node("add", (a, b)), trees)

    return Value((*axes[:axis], Dim.of(len(values)), *axes[axis:]), element)


def _squeeze(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    keywords = _keywords(expr, "axis")
    _count(expr, 1)
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
    keywords = _keywords(expr, "axis")
    _count(expr, 1, 2)
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


def _shape(expr: Expr, scope: Scope, context: Context) -> tuple[Dim, ...]:
    items = expr.items if isinstance(expr, Sequence) else (expr,)
    dims = tuple(size_of(item, scope, context) for item in items)
    for dim in dims:
        context.size(dim, "an axis", expr.span)
    return dims


def _broadcast_to(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    _keywords(expr)
    _count(expr, 2)
    value = lower(expr.arguments[0], scope, context)
    axes = _shape(expr.arguments[1], scope, context)
    target = Value(axes, value.element)
    texts = [context.text(e) for e in reversed(expr.arguments)]
    if broadcast((target, value), expr.span, texts) != axes:
        message = f"{texts[1]} {shape_text(value.axes)} does not broadcast to {shape_text(axes)}"
        raise ShapeError(message, expr.span, hint="only a literal 1 is repeated")
    return Value(axes, lambda at: value.element(spread(value.axes, at)), value.mask)


def _triangle(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    keywords = _keywords(expr, "k")
    _count(expr, 1, 2)
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
        i, j = _affine(at[-2], expr.span), _affine(at[-1], expr.span)
        inside = i - j + offset if lower_half else j - i - offset
        return Sum((), Node("mul", (Guard(inside, reach), value.element(at))))

    return Value(value.axes, element)


def _eye(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    _keywords(expr)
    _count(expr, 1, 2)
    axes = tuple(_shape(e, scope, context)[0] for e in expr.arguments)
    axes = axes * 2 if len(axes) == 1 else axes
    return Value(axes, lambda at: Delta(at[0], at[1]))


def _filled(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    _keywords(expr)
    value = Number(0 if expr.function == "zeros" else 1)
    axes = tuple(d for e in expr.arguments for d in _shape(e, scope, context))
    return Value(axes, lambda at: value)


def _pad(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    _keywords(expr)
    _count(expr, 2)
    value = _apart(lower(expr.arguments[0], scope, context), context)
    widths = _widths(expr.arguments[1], len(value.axes), scope, context)
    for before, after in widths:
        context.size(before, "the padding", expr.span)
        context.size(after, "the padding", expr.span)

    def element(at: Positions) -> Tree:
        places = tuple(
            _affine(p, expr.span) - before for p, (before, _) in zip(at, widths, strict=True)
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
        dims = _shape(expr, scope, context)
        if len(dims) == 2:
            return ((dims[0], dims[1]),) * rank
    pairs = []
    for item in expr.items:
        dims = _shape(item, scope, context)
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
    "dot": _dot,
    "outer": _outer,
    "trace": _trace,
    "diag": _diag,
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
