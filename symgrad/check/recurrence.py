"""Recurrences: start lines and a block of step lines become one assignment of several arrays.

Start, ..., Assign, ... -> Definitions, Scope
Inside its block an array is read at earlier steps; what lies before step 0 is its start, or zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from symgrad.algebra.order import arrange
from symgrad.bounds import at_least
from symgrad.check.context import Context, Scope, shape_text, stated_form
from symgrad.check.elementwise import is_elementwise
from symgrad.check.lower import lower
from symgrad.check.matrix import broadcast, spread
from symgrad.check.sizes import size_of
from symgrad.check.statements import assigned, twice
from symgrad.check.subscript import lag
from symgrad.check.tree import Named, Node, Positions, Sum, Tree, Value, number
from symgrad.dims import ONE, Dim
from symgrad.errors import InternalError, LayerSyntaxError, ShapeError
from symgrad.language.names import parts
from symgrad.program import Access, Affine, Definition, Delta, Guard, Index
from symgrad.syntax import (
    Assign,
    Binary,
    Call,
    Dots,
    Expr,
    Item,
    Name,
    NewAxis,
    Slice,
    Start,
    Statement,
    Subscript,
    Unary,
)

Axes = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class _Starts:
    """What one array of the block is before step 0: lag -> value over its trailing axes."""

    values: Mapping[int, Value]

    @property
    def axes(self) -> Axes | None:
        """The trailing axes the starts state; None if all are numbers, which fit any."""
        return next((v.axes for v in self.values.values() if v.axes), None)


def block_at(statements: Sequence[Statement], position: int) -> tuple[Assign, ...]:
    """Return the step lines of the recurrence that begins with a line, none if it is no such.

    Consecutive step lines over one `t: T` are one block; start lines do not end it. Without a
    start and without a line that reads itself or a later one they are ordinary lines.
    """
    first = statements[position]
    if not isinstance(first, Assign) or not first.binders or first.binders[0].extent is None:
        return ()
    block: list[Assign] = []
    for other in statements[position:]:
        if isinstance(other, Start):
            continue
        if not isinstance(other, Assign) or not other.binders:
            break
        if other.binders[0] != first.binders[0]:
            break
        block.append(other)
    started = {s.name for s in statements if isinstance(s, Start)}
    for number_, line in enumerate(block):
        later = {one.name for one in block[number_:]}
        if line.name in started or later & _names(line.value):
            return tuple(block)
    return ()


def recurrence(
    block: Sequence[Assign], statements: Sequence[Statement], scope: Scope, context: Context
) -> Scope:
    """Define all arrays of a block and return the scope that sees them.

    Raises ShapeError where a start and a step differ in shape.
    """
    names = [line.name for line in block]
    extent = block[0].binders[0].extent if block[0].binders else None
    if extent is None:
        raise InternalError(f"{names[0]} has no range to run over")
    length = size_of(extent, scope, context)
    starts = {name: _Starts({}) for name in names}
    for statement in statements:
        if isinstance(statement, Start) and statement.name in starts:
            start = _start(statement, scope, context)
            before = starts[statement.name].values
            starts[statement.name] = _Starts({**before, statement.lag: start})
    axes = _axes(block, starts, length, scope, context)
    batched: frozenset[str] = frozenset()
    saved, checks = context.flat.snapshot(), list(context.checks)
    first = len(context.flat.definitions)
    while True:
        made = _defined(block, starts, axes, batched, scope, context)
        found = frozenset(d.name for d in made if context.batch in d.indices)
        if found == batched:
            break
        batched = found
        context.flat.restore(saved)
        context.checks = list(checks)
    flat = context.flat
    steps = {d.name: next(i for i in d.indices if i != context.batch) for d in made}
    flat.definitions[first:] = arrange(flat.definitions[first:], steps, context.supply)
    for name in names:
        value = _array(name, axes[name], starts[name], name in batched, context)
        scope = scope.with_array(name, value)
    return scope


def _start(statement: Start, scope: Scope, context: Context) -> Value:
    """Return what a start line gives, read from a definition of its own unless it is a leaf."""
    line = Assign(statement.name, statement.binders or None, statement.value, statement.span)
    value = assigned(line, scope, context)
    if not isinstance(value, Value) or value.mask:
        hint = f"give numbers: {statement.name}[-{statement.lag}] = ..."
        raise ShapeError(f"the start of {statement.name} is no array of numbers",
                         statement.span, hint=hint)
    return context.named(value, f"{statement.name}_start")


def _axes(
    block: Sequence[Assign],
    starts: Mapping[str, _Starts],
    length: Dim,
    scope: Scope,
    context: Context,
) -> dict[str, Axes]:
    """Return the axes of every array: from its start, else from its terms without the block."""
    known: dict[str, Axes] = {}
    for line in block:
        stated = starts[line.name].axes
        if stated is not None:
            known[line.name] = (length, *stated)
    waiting = [line for line in block if line.name not in known]
    last = False
    while waiting:
        still = []
        for line in waiting:
            found = _inferred(line, block, known, length, scope, context)
            if found is None and last:
                found = (length,)
            if found is None:
                still.append(line)
            else:
                known[line.name] = found
        last = len(still) == len(waiting)
        waiting = still
    return known


def _inferred(
    line: Assign,
    block: Sequence[Assign],
    known: Mapping[str, Axes],
    length: Dim,
    scope: Scope,
    context: Context,
) -> Axes | None:
    """Return the axes of a line as the parts of its right side tell that are known."""
    unknown = frozenset(one.name for one in block if one.name not in known)
    inside = scope
    for one in block:
        own = len(one.binders or ()) - 1
        axes = known.get(one.name) or (length, *(Dim.of(f"#r{n}") for n in range(own)))
        inside = inside.with_array(one.name, replace(_zeros(axes), starts=True))
    inside = replace(inside, steps=frozenset(one.name for one in block))
    told = False

    def read() -> tuple[tuple[Index, ...], Value]:
        nonlocal told
        inner, free = inside, []
        for binder in line.binders or ():
            stated = None if binder.extent is None else size_of(binder.extent, scope, context)
            form = stated_form(line.name, line.binders or (), binder, " = ...")
            index = context.bind(binder, stated, form, bound=False)
            free.append(index)
            inner = inner.with_index(index)
        inner = replace(inner, time=free[0])
        shape = _shape(line.value, unknown, inner, context)
        told = shape is not None
        return tuple(free), Value(shape or (), number(0).element)

    free, value = twice(read, context)
    if not told and len(free) == 1:
        return None
    return (*(i.dim for i in free), *value.axes)


def _shape(
    expr: Expr, unknown: frozenset[str], scope: Scope, context: Context
) -> Axes | None:
    """Return the shape of an expression, as far as it does not depend on unknown arrays."""
    if not unknown & _names(expr):
        return lower(expr, scope, context).axes
    match expr:
        case Binary() if expr.operator in ("+", "-", "*", "/", "**", "⊙"):
            sides = [_shape(e, unknown, scope, context) for e in (expr.left, expr.right)]
        case Unary():
            sides = [_shape(expr.operand, unknown, scope, context)]
        case Call() if is_elementwise(expr.function) or len(expr.arguments) == 1:
            sides = [_shape(e, unknown, scope, context) for e in expr.arguments]
        case Subscript():
            return None
        case _:
            return _tried(expr, scope, context)
    told = [number(0) if axes is None else _zeros(axes) for axes in sides]
    if all(axes is None for axes in sides):
        return None
    texts = [context.text(e) for e in parts(expr) if not isinstance(e, (Slice, Dots, NewAxis))]
    return broadcast(told, expr.span, texts)


def _zeros(axes: Axes) -> Value:
    return Value(axes, number(0).element)


def _tried(expr: Expr, scope: Scope, context: Context) -> Axes | None:
    try:
        axes = lower(expr, scope, context).axes
    except ShapeError:
        return None
    return None if any(n.startswith("#") for dim in axes for n in dim.names) else axes


def _names(expr: Item) -> frozenset[str]:
    """Return every name an expression mentions."""
    found: set[str] = set()
    waiting: list[Item] = [expr]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Name):
            found.add(one.name)
        waiting.extend(parts(one))
    return frozenset(found)


def _defined(
    block: Sequence[Assign],
    starts: Mapping[str, _Starts],
    axes: Mapping[str, Axes],
    batched: frozenset[str],
    scope: Scope,
    context: Context,
) -> list[Definition]:
    """Define the arrays of the block, those in `batched` read with the batch index."""
    inside = scope
    for line in block:
        name = line.name
        inside = inside.with_array(
            name, _array(name, axes[name], starts[name], name in batched, context)
        )
    inside = replace(inside, steps=frozenset(axes))
    made = []
    for line in block:
        context.flat.span = line.span
        value = assigned(line, inside, context)
        if not isinstance(value, Value) or value.mask:
            hint = f"make it numbers: where({line.name}, 1, 0)"
            raise LayerSyntaxError(f"{line.name} is no array of numbers", line.span, hint=hint)
        made.append(_step(line, value, axes[line.name], context))
    return made


def _step(line: Assign, value: Value, axes: Axes, context: Context) -> Definition:
    """Define one array of the block, its step repeated to the block's shape."""
    binders = line.binders or ()
    count = len(binders)
    if value.axes[:count] != axes[:count] or not _fits(value.axes[count:], axes[count:]):
        raise ShapeError(
            f"the step of {line.name} has the shape {shape_text(value.axes[1:])}, "
            f"its start {shape_text(axes[1:])}",
            line.span,
            hint="give both one shape",
        )
    named = tuple(context.supply.fresh(b.name, d) for b, d in zip(binders, axes, strict=False))
    own = (*named, *context.fresh(axes[count:]))
    positions = tuple(Affine.of(i) for i in own)
    rest = spread(value.axes[count:], positions[count:])
    tree = value.element((*positions[:count], *rest))
    return context.flat.define(line.name, own, tree, written=True)


def _fits(own: Axes, wanted: Axes) -> bool:
    """Whether an array with axes `own` repeats to `wanted`."""
    pairs = zip(reversed(own), reversed(wanted), strict=False)
    return len(own) <= len(wanted) and all(a in (b, ONE) for a, b in pairs)


def _array(name: str, axes: Axes, starts: _Starts, batched: bool, context: Context) -> Value:
    """Return an array of the block as a value: its elements, and its start below step 0."""
    first = (Affine.of(context.batch),) if batched else ()

    def element(at: Positions) -> Tree:
        step = at[0] if at else Affine()
        back = lag(step) if isinstance(step, Affine) else 0
        itself = Access(name, (*first, *at))
        if not back or not isinstance(step, Affine):
            return itself
        index = step.terms[0][0]
        tree: Tree = Sum((), Node("mul", (Guard(step, axes[0]), itself)))
        for early, value in sorted(starts.values.items()):
            if early > back:
                continue
            first_step = Affine.of(back - early)
            there: Tree = Delta(Affine.of(index), first_step)
            if at_least(axes[0] - 1 - back + early) != "yes":
                there = Node("mul", (there, Guard(first_step, axes[0])))
            start = Node("mul", (there, value.element(spread(value.axes, at[1:]))))
            tree = Node("add", (tree, Sum((), start)))
        return Named(f"{name}_before" if back == 1 else f"{name}_before{back}", tree)

    return Value(axes, element, plain=True, starts=True)


__all__ = ["block_at", "recurrence"]
