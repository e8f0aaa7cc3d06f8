"""reshape: the same elements in C order under other axes.

Value, axes -> Value
Axes are matched in groups of equal size; only a group that changes is counted through. Splitting
an axis reads it at `i*d + j`, merging axes writes each element at the number its digits make.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from symgrad.check.context import Context, Scope, shape_text
from symgrad.check.sizes import size_of
from symgrad.check.tree import Named, Node, Positions, Sum, Tree, Value, is_leaf
from symgrad.dims import ONE, Dim
from symgrad.errors import LayerSyntaxError, ShapeError, Span
from symgrad.program import Affine, Delta, Index, Position
from symgrad.syntax import Call, Expr, Number, Unary
from symgrad.syntax import Sequence as Listed

Lower = Callable[[Expr, Scope, Context], Value]


def reshape(expr: Call, scope: Scope, context: Context, lower: Lower) -> Value:
    """Return `reshape(a, (n, m))`; one axis may be -1 if the others divide the size of `a`.

    Raises ShapeError where the sizes differ as polynomials.
    """
    if len(expr.arguments) != 2 or expr.keywords:
        hint = "reshape(a, (n, m)), or reshape(a, (n, -1))"
        raise LayerSyntaxError("reshape takes an array and a shape", expr.span, hint=hint)
    inner = expr.arguments[0]
    value = lower(inner, scope, context)
    axes = _target(expr.arguments[1], value, context.text(inner), scope, context)
    while isinstance(inner, Call) and inner.function == "reshape":
        inner = inner.arguments[0]
        value = lower(inner, scope, context)
    groups = _groups(value.axes, axes)
    if all(g.old == g.new for g in groups):
        return value
    merged = _merged(_readable(value, context), groups, expr.span, context)
    return _regrouped(merged, axes, expr.span, context)


def _target(
    expr: Expr, value: Value, text: str, scope: Scope, context: Context
) -> tuple[Dim, ...]:
    """Return the new axes, -1 worked out."""
    items = expr.items if isinstance(expr, Listed) else (expr,)
    total = _size(value.axes)
    stated = [None if _is_open(item) else size_of(item, scope, context) for item in items]
    known = _size([dim for dim in stated if dim is not None])
    if stated.count(None) > 1:
        raise ShapeError("only one axis may be -1", expr.span, hint="state the other sizes")
    for item, dim in zip(items, stated, strict=True):
        if dim is not None:
            context.size(dim, "an axis", item.span)
    rest = total.divided_by(known) if None in stated else ONE
    shape = f"{text} {shape_text(value.axes)}"
    if rest is None:
        message = f"{known} does not divide {total}, the number of elements of {shape}"
        raise ShapeError(message, expr.span, hint="state a shape of as many elements")
    axes = tuple(rest if dim is None else dim for dim in stated)
    if _size(axes) != total:
        message = f"{shape} has {total} elements, but {shape_text(axes)} asks for {_size(axes)}"
        hint = "sizes agree as polynomials: split an axis declared as h*d into (h, d)"
        raise ShapeError(message, expr.span, hint=hint)
    return axes


def _is_open(item: Expr) -> bool:
    return isinstance(item, Unary) and item.operator == "-" and item.operand == Number(1)


def _size(axes: Sequence[Dim]) -> Dim:
    return reduce(lambda a, b: a * b, axes, ONE)


@dataclass(frozen=True, slots=True)
class _Group:
    """Neighbouring axes of the old shape, and those of the new one that hold the same elements."""

    old: tuple[Dim, ...]
    new: tuple[Dim, ...]


def _groups(old: tuple[Dim, ...], new: tuple[Dim, ...]) -> tuple[_Group, ...]:
    """Cut both shapes wherever as many elements lie before the cut."""
    before = {_size(new[:n]): n for n in range(len(new), -1, -1)}
    found: list[_Group] = []
    start, begun = 0, 0
    for stop in range(1, len(old) + 1):
        cut = before.get(_size(old[:stop]))
        if stop == len(old):
            cut = len(new)
        if cut is not None and cut >= begun and (cut > begun or _size(old[start:stop]) == ONE):
            found.append(_Group(old[start:stop], new[begun:cut]))
            start, begun = stop, cut
    if not old:
        found.append(_Group((), new))
    return tuple(found)


def _readable(value: Value, context: Context) -> Value:
    """Return a value whose elements are worth reading one by one: an array, not arithmetic."""
    at = tuple(Affine.of(i) for i in context.fresh(value.axes))
    return value if is_leaf(value.element(at)) else context.named(value)


def _merged(value: Value, groups: Sequence[_Group], span: Span, context: Context) -> Value:
    """Return the value with the axes merged that are to be split at other places."""
    axes: list[Dim] = []
    for group in groups:
        mixed = all(sum(d != ONE for d in side) > 1 for side in (group.old, group.new))
        axes += (_size(group.old),) if mixed and group.old != group.new else group.old
    flat = tuple(axes)
    return value if flat == value.axes else context.named(_regrouped(value, flat, span, context))


def _regrouped(value: Value, axes: tuple[Dim, ...], span: Span, context: Context) -> Value:
    groups = _groups(value.axes, axes)

    def element(at: Positions) -> Tree:
        waiting = list(at)
        places: list[Position] = []
        bound: list[Index] = []
        ties: list[Tree] = []
        for group in groups:
            own, waiting = waiting[: len(group.new)], waiting[len(group.new) :]
            if group.old == group.new:
                places += own
                continue
            number = _number(own, group.new, span)
            large = [n for n, dim in enumerate(group.old) if dim != ONE]
            if len(large) < 2:
                places += [number if n in large else Affine() for n in range(len(group.old))]
                continue
            inner = {n: context.inner(group.old[n], "ijklpq"[n % 6]) for n in large}
            digits = [Affine.of(inner.get(n, 0)) for n in range(len(group.old))]
            bound += inner.values()
            places += digits
            ties.append(Delta(number, _number(digits, group.old, span)))
        tree = value.element(tuple(places))
        if bound:
            tree = Sum(tuple(bound), reduce(lambda a, b: Node("mul", (a, b)), (*ties, tree)))
        return Named("", tree)

    return Value(axes, element, value.mask)


def _number(at: Sequence[Position], axes: Sequence[Dim], span: Span) -> Affine:
    """Return the place of an element in C order."""
    total, weight = Affine(), ONE
    for position, dim in zip(reversed(at), reversed(axes), strict=True):
        if not isinstance(position, Affine):
            hint = "z = reshape(...), then z[t]"
            message = "only a named array is gathered from: give it a name"
            raise ShapeError(message, span, hint=hint)
        total, weight = total + position * weight, weight * dim
    return total
