"""Assignments: a name and the value of its right side, in matrix or index style.

Assign, Scope -> Value
A line of index style is read twice: first to see where its indices run, then with ranges known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from symgrad.check.context import Context, Scope, Thing, stated_form
from symgrad.check.lower import lower
from symgrad.check.placing import moved_position, place
from symgrad.check.ranges import Ranges, solve
from symgrad.check.sizes import size_of
from symgrad.check.tree import Fold, Named, Node, Positions, Row, Stop, Sum, Tree, Value, Whole
from symgrad.program import Affine, Index, Position
from symgrad.syntax import Assign, Expr


def assigned(line: Assign, scope: Scope, context: Context) -> Thing:
    """Return the value a line assigns, with the axes of its left side first.

    Raises ShapeError where ranges do not follow or accesses do not fit.
    """
    binders = line.binders or ()

    def read() -> tuple[tuple[Index, ...], Value]:
        inner, free = scope, []
        for binder in binders:
            stated = None if binder.extent is None else size_of(binder.extent, scope, context)
            form = stated_form(line.name, binders, binder, " = ...")
            index = context.bind(binder, stated, form, bound=False)
            free.append(index)
            inner = inner.with_index(index)
        inner = replace(inner, time=free[0] if free and scope.steps else None)
        return tuple(free), lower(line.value, inner, context)

    free, value = twice(read, context)
    for index in free:
        context.size(index.dim, f"the range of index {index.name}", line.span)
    if line.binders is None:
        return value

    def element(at: Positions) -> Tree:
        own, rest = at[: len(free)], at[len(free) :]
        return moved(value.element(rest), dict(zip(free, own, strict=True)))

    return Value((*(i.dim for i in free), *value.axes), element, value.mask)


def conditioned(expr: Expr, scope: Scope, context: Context) -> Value:
    """Return the value of a condition, its bound indices ranged."""

    def read() -> tuple[tuple[Index, ...], Value]:
        return (), lower(expr, scope, context)

    return twice(read, context)[1]


Reading = tuple[tuple[Index, ...], Value]


def twice(read: Callable[[], Reading], context: Context) -> Reading:
    """Read a line once to learn the ranges of its indices, and again with them."""
    saved = context.flat.snapshot()
    checks = list(context.checks)
    spans = dict(context.dim_spans)
    trial = Ranges()
    context.open.append(trial)
    try:
        first = read()
        if not trial.met:
            return first
        first[1].element(tuple(Affine.of(i) for i in context.fresh(first[1].axes)))
    finally:
        context.open.pop()
    solved = solve(trial)
    context.flat.restore(saved)
    context.checks = checks
    context.dim_spans.update(spans)
    context.open.append(Ranges(solved=solved))
    try:
        return read()
    finally:
        context.open.pop()


def moved(tree: Tree, there: Mapping[Index, Position]) -> Tree:
    """Put positions for free indices in a tree."""
    if not there:
        return tree
    match tree:
        case Node():
            return Node(tree.function, tuple(moved(arg, there) for arg in tree.args))
        case Row():
            at = tuple(moved_position(p, there) for p in tree.at)
            return replace(tree, body=moved(tree.body, there), at=at)
        case Whole():
            at = tuple(moved_position(p, there) for p in tree.at)
            return replace(tree, operands=tuple(moved(o, there) for o in tree.operands), at=at)
        case Sum() | Fold():
            return replace(tree, body=moved(tree.body, there))
        case Stop():
            return Stop(moved(tree.body, there))
        case Named():
            return Named(tree.wish, moved(tree.body, there))
        case _:
            return place(tree, there)
