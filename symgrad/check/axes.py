"""Functions over axes: reductions, softmax and their kin, in matrix and in index style.

Call, Value -> Value
The last axis is meant unless `axis` says otherwise; axes are counted on one sample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from symgrad.check.context import Context, Scope
from symgrad.check.matrix import spread
from symgrad.check.sizes import as_dim
from symgrad.check.tree import (
    Fold,
    Named,
    Node,
    Positions,
    Row,
    Sum,
    Tree,
    Value,
    number,
    over,
)
from symgrad.dims import ONE, Dim
from symgrad.errors import LayerSyntaxError, ShapeError
from symgrad.language.vocabulary import AXIS_FUNCTIONS as _AXIS_FUNCTIONS
from symgrad.language.vocabulary import SHAPE_KEEPING
from symgrad.program import Access, Affine, Guard, Index, Position
from symgrad.syntax import Call, Expr, Flag, Sequence

AXIS_FUNCTIONS = _AXIS_FUNCTIONS
Lower = Callable[[Expr, Scope, Context], Value]


@dataclass(frozen=True, slots=True)
class Along:
    """Which axes a function runs over, and whether they stay with length 1."""

    axes: tuple[int, ...]
    keep: bool
    ddof: int = 0


def over_axes(expr: Call, value: Value, scope: Scope, context: Context, lower: Lower) -> Value:
    """Return a function over axes of a value."""
    name = expr.function
    extra = _positional(expr)
    along = _along(expr, value, scope, context)
    if name == "normalize":
        eps = next((k.value for k in expr.keywords if k.name == "eps"), extra)
        least = number(1e-12) if eps is None else lower(eps, scope, context)
        return _normalized(value, least, along, context)
    if name in ("softmax", "log_softmax"):
        return _rowwise(name, value, along, context)
    if name == "cumsum":
        return _cumulated(value, along, context, expr)
    if name == "var":
        return _variance(value, along, context)
    if name == "std":
        inner = _variance(value, along, context)
        return Value(inner.axes, lambda at: Node("sqrt", (inner.element(at),)))
    return _reduced(name, value, along, context)


def _positional(expr: Call) -> Expr | None:
    """Return normalize's second argument; other functions take one."""
    name = expr.function
    allowed = {"axis"} if name in SHAPE_KEEPING else {"axis", "keepdims"}
    allowed |= {"var": {"ddof"}, "std": {"ddof"}, "normalize": {"eps"}}.get(name, set())
    for keyword in expr.keywords:
        if keyword.name not in allowed:
            hint = f"{name} takes {', '.join(sorted(allowed))}"
            raise LayerSyntaxError(f"{name} has no {keyword.name}", keyword.span, hint=hint)
    if len(expr.arguments) == 1:
        return None
    if name == "normalize" and len(expr.arguments) == 2:
        return expr.arguments[1]
    instead = {"max": "maximum", "min": "minimum"}.get(name)
    hint = f"of two arrays, write {instead}(a, b)" if instead else f"write {name}(a, axis=0)"
    raise LayerSyntaxError(
        f"{name} takes one array; its axis is a keyword",
        expr.span,
        hint=hint,
    )


def _along(expr: Call, value: Value, scope: Scope, context: Context) -> Along:
    """Read axis, keepdims and ddof."""
    rank = len(value.axes)
    axes: tuple[int, ...] = (rank - 1,)
    keep, ddof = False, 0
    stated = False
    for keyword in expr.keywords:
        if keyword.name == "axis":
            stated = True
            axes = axes_of(keyword.value, rank, scope, context)
        elif keyword.name == "keepdims":
            if not isinstance(keyword.value, Flag) or keyword.value.value is None:
                hint = "write keepdims=True"
                raise LayerSyntaxError("keepdims is True or False", keyword.span, hint=hint)
            keep = keyword.value.value
        elif keyword.name == "ddof":
            ddof = _whole(keyword.value, scope, context)
    if rank == 0 and not (stated and not axes):
        text = context.text(expr.arguments[0])
        hint = "it reduces an axis, and a scalar has none"
        raise ShapeError(f"{expr.function}({text}): {text} is a scalar", expr.span, hint=hint)
    return Along(axes, keep, ddof)


def _whole(expr: Expr, scope: Scope, context: Context) -> int:
    dim = as_dim(expr, scope, context)
    if dim is None or dim.constant is None:
        hint = "write a literal: axis=0"
        raise LayerSyntaxError("a whole number is expected here", expr.span, hint=hint)
    return dim.constant


def axes_of(expr: Expr, rank: int, scope: Scope, context: Context) -> tuple[int, ...]:
    """Return the axes an `axis=` value names, in increasing order."""
    if isinstance(expr, Flag):
        if expr.value is not None:
            hint = "write axis=0, axis=(0, 1) or axis=None"
            raise LayerSyntaxError("axis is a number, a tuple or None", expr.span, hint=hint)
        return tuple(range(rank))
    items = expr.items if isinstance(expr, Sequence) else (expr,)
    found: list[int] = []
    for item in items:
        axis = _whole(item, scope, context)
        if not -rank <= axis < rank:
            hint = "axes are counted on one sample, from 0; the batch axis is not counted"
            axes = f"{rank} axis" if rank == 1 else f"{rank} axes"
            message = f"there is no axis {axis} in an array of {axes}"
            raise ShapeError(message, item.span, hint=hint)
        if axis % rank in found:
            hint = "name each axis once"
            raise ShapeError(f"the axis {axis} stands twice", item.span, hint=hint)
        found.append(axis % rank)
    return tuple(sorted(found))


def _bind(value: Value, along: Along, at: Positions, context: Context) -> tuple[
    tuple[Index, ...], Positions
]:
    """Return fresh bound indices and the value's full positions for a result's position."""
    names = ("k", "l", "p", "q", "r")
    bound = tuple(
        context.inner(value.axes[axis], names[n % 5]) for n, axis in enumerate(along.axes)
    )
    table = dict(zip(along.axes, bound, strict=True))
    rest = list(at)
    full: list[Position] = []
    for axis in range(len(value.axes)):
        if axis in table:
            full.append(Affine.of(table[axis]))
            if along.keep:
                rest.pop(0)
        else:
            full.append(rest.pop(0))
    return bound, tuple(full)


def _result_axes(value: Value, along: Along) -> tuple[Dim, ...]:
    if along.keep:
        return tuple(ONE if n in along.axes else d for n, d in enumerate(value.axes))
    return tuple(d for n, d in enumerate(value.axes) if n not in along.axes)


def _count(value: Value, along: Along) -> Dim:
    total = ONE
    for axis in along.axes:
        total = total * value.axes[axis]
    return total


def _reduced(kind: str, value: Value, along: Along, context: Context) -> Value:
    """Return a plain reduction over axes."""
    if kind not in ("sum", "mean"):
        value = _ready(value, along, context)
    count = _count(value, along)

    def element(at: Positions) -> Tree:
        bound, full = _bind(value, along, at, context)
        return _reduction_tree(kind, bound, value.element(full), count)

    return Value(_result_axes(value, along), element)


def _reduction_tree(kind: str, bound: tuple[Index, ...], body: Tree, count: Dim) -> Tree:
    if kind == "sum":
        return Sum(bound, body)
    if kind == "mean":
        return Node("mul", (over(count), Sum(bound, body)))
    return Fold(kind, bound, body)


def reduce_value(kind: str, bound: tuple[Index, ...], body: Value, context: Context) -> Value:
    """Return `kind[bound](body)` of index style; a body with axes is reduced element by element."""
    count = ONE
    for index in bound:
        count = count * index.dim

    def element(at: Positions) -> Tree:
        return _reduction_tree(kind, bound, body.element(at), count)

    return Value(body.axes, element)


def _ready(value: Value, along: Along, context: Context) -> Value:
    """Return the value as plain accesses whose reduced axes stand bare, named if need be."""
    at = tuple(Affine.of(i) for i in context.fresh(value.axes))
    tree = value.element(at)
    if isinstance(tree, Access):
        places = [p.bare for p in tree.at]
        if all(places.count(at[axis].bare) == 1 for axis in along.axes):
            return value
    return context.named(value)


def _rowwise(kind: str, value: Value, along: Along, context: Context) -> Value:
    """Return softmax or log_softmax along axes."""
    value = _ready(value, along, context)

    def element(at: Positions) -> Tree:
        bound, full = _bind(value, Along(along.axes, keep=True), at, context)
        here = tuple(at[axis] for axis in along.axes)
        return Row(kind, bound, value.element(full), here)

    return Value(value.axes, element)


def _variance(value: Value, along: Along, context: Context) -> Value:
    """Return mean((x - mean(x))^2); the mean is a definition of its own."""
    value = value if value.plain else context.named(value)
    kept = Along(along.axes, keep=True)
    mean = context.named(_reduced("mean", value, kept, context), "mu")
    count = _count(value, along) - along.ddof

    def element(at: Positions) -> Tree:
        bound, full = _bind(value, along, at, context)
        middle = mean.element(spread(mean.axes, full))
        square = Node("square", (Node("sub", (value.element(full), middle)),))
        return Named("v", Node("mul", (over(count), Sum(bound, square))))

    return Value(_result_axes(value, along), element)


def _normalized(value: Value, least: Value, along: Along, context: Context) -> Value:
    """Return x / max(norm(x), eps)."""
    value = value if value.plain else context.named(value)
    norm = context.named(_reduced("norm", value, Along(along.axes, keep=True), context), "r")

    def element(at: Positions) -> Tree:
        length = norm.element(spread(norm.axes, at))
        eps = least.element(spread(least.axes, at))
        return Node("div", (value.element(at), Node("maximum", (length, eps))))

    return Value(value.axes, element)


def _cumulated(value: Value, along: Along, context: Context, expr: Call) -> Value:
    """Return the sums of all elements up to each."""
    if len(along.axes) != 1:
        raise ShapeError("cumsum runs along one axis", expr.span, hint="cumsum(a, axis=0)")
    axis = along.axes[0]

    def element(at: Positions) -> Tree:
        k = context.inner(value.axes[axis])
        here = at[axis]
        if not isinstance(here, Affine):
            raise ShapeError("gather from a name", expr.span, hint="assign the cumsum to one")
        inner = value.element((*at[:axis], Affine.of(k), *at[axis + 1 :]))
        return Sum((k,), Node("mul", (Guard(here - k, value.axes[axis]), inner)))

    return Value(value.axes, element)

