"""Subscripts: positions, slices, new axes, gathers, and what remains of an array.

Subscript, Value -> Value
A position is affine in indices; a slice maps positions; an index array puts data in their place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from symgrad.bounds import at_least
from symgrad.check.context import Context, Scope, Thing, shape_text
from symgrad.check.ranges import Use, bounds
from symgrad.check.sizes import as_dim, size_of
from symgrad.check.tree import Indices, Node, Positions, Tree, Value, position_of
from symgrad.dims import ONE, Dim
from symgrad.errors import ShapeError, Span
from symgrad.program import Affine, Lookup, Position
from symgrad.program import Number as Literal
from symgrad.syntax import (
    Binary,
    Compare,
    Dots,
    Expr,
    Item,
    Name,
    NewAxis,
    Number,
    Slice,
    Subscript,
    Unary,
)

Lower = Callable[[Expr, Scope, Context], Thing]


@dataclass(frozen=True, slots=True)
class _Cut:
    """A slice along one axis: the element at p of the result stands at start + step * p."""

    dim: Dim
    start: Dim
    step: int


@dataclass(frozen=True, slots=True)
class _Whole:
    """An axis that stays as it is."""

    dim: Dim


@dataclass(frozen=True, slots=True)
class _New:
    """An axis of length 1 that the base does not have."""


Entry = _Cut | _Whole | _New | Indices | Affine | Lookup


def subscript(
    expr: Subscript, base: Thing, scope: Scope, context: Context, lower: Lower
) -> Thing:
    """Return the part of `base` a subscript picks.

    Raises ShapeError for too many indices, positions outside, or indices of another vocabulary.
    """
    items = _expanded(expr, len(base.axes), context)
    entries: list[Entry] = []
    axis = 0
    for item in items:
        if isinstance(item, NewAxis):
            entries.append(_New())
            continue
        entries.append(_entry(item, base, axis, expr, scope, context, lower))
        axis += 1
    entries += [_Whole(dim) for dim in base.axes[axis:]]
    if sum(isinstance(e, Indices) for e in entries) > 1:
        hint = "write the positions: y[i] = a[s[i], t[i]]"
        message = "only one index array may stand whole in a subscript"
        raise ShapeError(message, expr.span, hint=hint)
    axes = tuple(dim for entry in entries for dim in _axes(entry))
    if isinstance(base, Indices):
        look, name = base.look, base.name
        return Indices(
            axes, base.vocabulary, lambda at: look(_places(entries, at, expr.span)), name
        )
    if any(isinstance(e, (Lookup, Indices)) for e in entries) and not base.plain:
        base = context.named(base)
    value = base
    plain = value.plain and not any(isinstance(e, _Cut) for e in entries)

    def element(at: Positions) -> Tree:
        return value.element(_places(entries, at, expr.span))

    return Value(axes, element, value.mask, plain)


def _expanded(expr: Subscript, rank: int, context: Context) -> list[Item]:
    """Return the items with `...` written out."""
    taken = sum(not isinstance(item, (Dots, NewAxis)) for item in expr.items)
    if taken > rank:
        base = context.text(expr.base)
        has = "is a scalar" if rank == 0 else f"has {rank} {'axis' if rank == 1 else 'axes'}"
        message = f"{base} {has}, but {taken} {'is' if taken == 1 else 'are'} indexed"
        hint = f"give {rank} {'index' if rank == 1 else 'indices'} at most"
        raise ShapeError(message, expr.span, hint=hint if rank else "leave the subscript out")
    items: list[Item] = []
    for item in expr.items:
        if isinstance(item, Dots):
            items += [Slice(None, None, None, item.span)] * (rank - taken)
        else:
            items.append(item)
    return items


def _axes(entry: Entry) -> tuple[Dim, ...]:
    match entry:
        case _Cut() | _Whole():
            return (entry.dim,)
        case _New():
            return (ONE,)
        case Indices():
            return entry.axes
        case _:
            return ()


def _places(entries: list[Entry], at: Positions, span: Span) -> Positions:
    """Return the base's positions of the element at `at`."""
    places: list[Position] = []
    waiting = list(at)
    for entry in entries:
        match entry:
            case _New():
                waiting.pop(0)
            case _Whole():
                places.append(waiting.pop(0))
            case _Cut():
                here = waiting.pop(0)
                if isinstance(here, Lookup):
                    hint = "name the slice first: z = a[1:], then z[t]"
                    raise ShapeError("a slice is not gathered from", span, hint=hint)
                places.append(here * entry.step + entry.start)
            case Indices():
                count = len(entry.axes)
                places.append(entry.look(tuple(waiting[:count])))
                del waiting[:count]
            case _:
                places.append(entry)
    return tuple(places)


def _entry(
    item: Item,
    base: Thing,
    axis: int,
    expr: Subscript,
    scope: Scope,
    context: Context,
    lower: Lower,
) -> Entry:
    dim = base.axes[axis]
    text = context.text(expr)
    if isinstance(item, Slice):
        return _cut(item, dim, text, scope, context)
    if isinstance(item, (Dots, NewAxis)):
        raise ShapeError("this has no place here", item.span, hint="write a position: x[i]")
    thing = _index_array(item, scope, context, lower)
    if thing is not None:
        if thing.vocabulary != dim:
            raise ShapeError(
                f"{thing.name} holds indices below {thing.vocabulary}, but the axis of "
                f"{context.text(expr.base)} {shape_text(base.axes)} has length {dim}",
                expr.span,
                hint=f"declare {thing.name}: index({dim})",
            )
        return thing if thing.axes else thing.look(())
    place = affine(item, scope, context)
    if not place.terms:
        return Affine((), _literal(item, place.offset, dim, text, scope, context))
    remedy = _remedy(expr.base, axis, context)
    padded = _padded(expr, axis, len(base.axes), context)
    starts = isinstance(base, Value) and base.starts and not axis
    below = lag(place) if starts else 0
    context.use(Use(place, dim, text, expr.span, remedy, below, padded))
    return place


def lag(place: Affine) -> int:
    """Return c of the position `t - c`, 0 of any other."""
    constant = place.offset.constant
    alone = len(place.terms) == 1 and place.terms[0][1] == 1
    return max(0, -constant) if alone and constant is not None else 0


def _remedy(base: Expr, axis: int, context: Context) -> str:
    """Return the declaration of a base with `{}` for the dim of one axis."""
    made = context.layer.declaration(base.name) if isinstance(base, Name) else None
    if made is None or axis >= len(made.dims):
        return ""
    dims = ["{}" if n == axis else str(d) for n, d in enumerate(made.dims)]
    role = made.role if made.vocabulary is None else f"index({made.vocabulary})"
    return f"declare {made.name}: {role}[{', '.join(dims)}]"


def _padded(expr: Subscript, axis: int, rank: int, context: Context) -> str:
    """Return a base with one axis padded, `{}` for the two numbers."""
    pairs = ", ".join("({})" if n == axis else "(0, 0)" for n in range(rank))
    return f"pad({context.text(expr.base)}, ({pairs}{',' if rank == 1 else ''}))"


def _literal(
    item: Expr, place: Dim, dim: Dim, text: str, scope: Scope, context: Context
) -> Dim:
    """Return a position without indices, counted from the end if it is a negative literal."""
    number = place.constant
    if number is not None and number < 0 and _is_literal(item, scope):
        place = dim + place
    context.require(bounds(place, place + 1, dim, text, item.span))
    return place


def _is_literal(item: Expr, scope: Scope) -> bool:
    """Whether it is a number, written here or where a macro was called."""
    if isinstance(item, Unary):
        return _is_literal(item.operand, scope)
    hidden = isinstance(item, Name) and item.name in scope.indices
    thing = scope.arrays.get(item.name) if isinstance(item, Name) and not hidden else None
    if isinstance(thing, Value) and not thing.axes:
        return _is_number(thing.element(()))
    return isinstance(item, Number)


def _is_number(tree: Tree) -> bool:
    inner = tree.args[0] if isinstance(tree, Node) and tree.function == "neg" else tree
    return isinstance(inner, Literal)


def _cut(item: Slice, dim: Dim, text: str, scope: Scope, context: Context) -> Entry:
    """Return what a slice does to an axis; bounds are not clipped."""
    if item.lower is None and item.upper is None and item.step is None:
        return _Whole(dim)
    step = 1
    if item.step is not None:
        stated = size_of(item.step, scope, context).constant
        if not stated:
            hint = "write a[::2] or a[::-1]"
            raise ShapeError("the step of a slice is a whole number", item.step.span, hint=hint)
        step = stated
    lower, upper = (
        None if part is None else _bound(part, dim, scope, context)
        for part in (item.lower, item.upper)
    )
    if step > 0:
        start, stop = lower or Dim.of(0), dim if upper is None else upper
        low, high, length = start, stop, stop - start
        context.require(bounds(start, start, dim, text, item.span))
    else:
        start = dim - 1 if lower is None else lower
        stop = Dim.of(-1) if upper is None else upper
        low, high, length = stop + 1, start + 1, start - stop
    context.require(bounds(low, high, dim, text, item.span))
    context.size(length, text, item.span)
    count = (length + abs(step) - 1) // abs(step)
    return _Cut(count, start, step)


def _bound(part: Expr, dim: Dim, scope: Scope, context: Context) -> Dim:
    bound = size_of(part, scope, context)
    number = bound.constant
    negative = number is not None and number < 0 and at_least(bound) == "no"
    return dim + bound if negative and _is_literal(part, scope) else bound


def _index_array(item: Expr, scope: Scope, context: Context, lower: Lower) -> Indices | None:
    """Return the index array an item is, whole or in part, or None."""
    base = item
    while isinstance(base, Subscript):
        base = base.base
    if not isinstance(base, Name) or base.name in scope.indices:
        return None
    if not isinstance(scope.arrays.get(base.name), Indices):
        return None
    thing = lower(item, scope, context)
    return thing if isinstance(thing, Indices) else None


def position(expr: Expr, scope: Scope, context: Context, lower: Lower) -> Position:
    """Return the position an expression is: affine in indices, or an element of index data."""
    thing = _index_array(expr, scope, context, lower)
    if thing is None:
        return affine(expr, scope, context)
    if thing.axes:
        hint = f"give its position: {thing.name}[i]"
        raise ShapeError(f"{thing.name} is not a single index here", expr.span, hint=hint)
    return thing.look(())


def affine(expr: Expr, scope: Scope, context: Context) -> Affine:
    """Return a position that is affine in indices with integer coefficients."""
    match expr:
        case Name() if expr.name in scope.indices:
            return Affine.of(scope.indices[expr.name])
        case Unary() if expr.operator in "+-":
            inner = affine(expr.operand, scope, context)
            return -inner if expr.operator == "-" else inner
        case Binary() if expr.operator in ("+", "-"):
            left, right = (affine(e, scope, context) for e in (expr.left, expr.right))
            return left + right if expr.operator == "+" else left - right
        case Binary() if expr.operator in ("*", "·"):
            left, right = (affine(e, scope, context) for e in (expr.left, expr.right))
            return _times(left, right, expr.span, context.text(expr))
        case Name():
            thing = scope.arrays.get(expr.name)
            if isinstance(thing, Indices):
                hint = f"positions are computed from indices only; {thing.name} stands alone"
                message = f"there is no arithmetic with the index array {thing.name}"
                raise ShapeError(message, expr.span, hint=hint)
            if isinstance(thing, Value) and thing.axes:
                hint = f"declare it {expr.name}: index(n) to gather with it"
                raise ShapeError(f"{expr.name} is not an index", expr.span, hint=hint)
            passed = position_of(thing.element(())) if isinstance(thing, Value) else None
            if passed is not None:
                return passed
        case Compare():
            hint = "what a mask picks has no fixed length; write where(a > 0, a, 0)"
            raise ShapeError("a mask cannot stand in a subscript", expr.span, hint=hint)
    place = as_dim(expr, scope, context)
    if place is None:
        message = f"{context.text(expr)} is not a position"
        raise ShapeError(message, expr.span, hint=_POSITIONS)
    return Affine((), place)


_POSITIONS = "positions look like t + k, 2*t + k or n - 1 - t"


def _times(left: Affine, right: Affine, span: Span, text: str) -> Affine:
    if not left.terms and not right.terms:
        return Affine((), left.offset * right.offset)
    factor, other = (left, right) if not left.terms else (right, left)
    number = factor.offset.constant
    if factor.terms or number is None:
        message = f"{text} is not affine with whole coefficients"
        raise ShapeError(message, span, hint=_POSITIONS)
    return other * number
