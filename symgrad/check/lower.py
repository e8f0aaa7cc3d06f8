"""Expressions read as values: what each node of the syntax means.

Expr, Scope -> Value
Matrix style and index style end as the same thing, an element at a position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from symgrad.check.arrays import ARRAY_FUNCTIONS, array_function
from symgrad.check.axes import AXIS_FUNCTIONS, over_axes, reduce_value
from symgrad.check.context import Context, Scope, Thing, stated_form
from symgrad.check.elementwise import apply, is_elementwise, signature
from symgrad.check.linear import linear_algebra
from symgrad.check.matrix import compare, elementwise, invert, matmul, negate, transpose
from symgrad.check.sizes import as_dim, size_of
from symgrad.check.subscript import affine, lag, position, subscript
from symgrad.check.tree import (
    Indices,
    Node,
    Positions,
    Stop,
    Tree,
    Value,
    constant,
    is_leaf,
    number,
    position_of,
    size,
)
from symgrad.errors import LayerSyntaxError, ShapeError, Span
from symgrad.language.names import parts
from symgrad.language.vocabulary import LINEAR_ALGEBRA
from symgrad.program import Access, Affine, Constant, Delta, Place
from symgrad.syntax import (
    Binary,
    Call,
    Compare,
    Dots,
    Expr,
    Item,
    Macro,
    Name,
    NewAxis,
    Number,
    Reduction,
    Slice,
    Subscript,
    Transposed,
    Unary,
)


def lower(expr: Expr, scope: Scope, context: Context) -> Value:
    """Return the value of an expression.

    Raises ShapeError where shapes do not fit, LayerSyntaxError where something has no meaning.
    """
    thing = lower_thing(expr, scope, context)
    if isinstance(thing, Indices):
        raise ShapeError(
            f"{thing.name} holds indices, which are not numbers to compute with",
            expr.span,
            hint=f"use it in a subscript, E[{thing.name}], or declare {thing.name}: input",
        )
    return thing


def lower_thing(expr: Expr, scope: Scope, context: Context) -> Thing:
    """Return the value of an expression, which may be an array of indices."""
    match expr:
        case Number():
            return number(expr.value)
        case Name():
            return _name(expr, scope, context)
        case Unary():
            return _unary(expr, scope, context)
        case Binary():
            return _binary(expr, scope, context)
        case Compare():
            values = tuple(lower(e, scope, context) for e in expr.operands)
            return compare(expr, values, context)
        case Transposed():
            return transpose(lower(expr.base, scope, context), None)
        case Subscript():
            return _subscript(expr, scope, context)
        case Reduction():
            return _reduction(expr, scope, context)
        case Call():
            return _call(expr, scope, context)
        case _:
            hint = "lists, strings and flags are arguments: concatenate([a, b])"
            message = "this stands only where a function asks for it"
            raise LayerSyntaxError(message, expr.span, hint=hint)


def _name(expr: Name, scope: Scope, context: Context) -> Thing:
    if expr.name in scope.indices:
        return constant(Place(Affine.of(scope.indices[expr.name])))
    if expr.name in scope.steps:
        raise _not_stepwise(expr.name, expr.span, scope)
    if expr.name in scope.arrays:
        return scope.arrays[expr.name]
    if expr.name == "pi":
        return constant(Constant("pi"))
    return constant(size(context.dim(expr.name, expr.span)))


def _unary(expr: Unary, scope: Scope, context: Context) -> Value:
    if expr.operator == "-" and isinstance(expr.operand, Number):
        return number(-expr.operand.value)
    value = lower(expr.operand, scope, context)
    if expr.operator == "+":
        return value
    return negate(value) if expr.operator == "-" else invert(expr, value)


def _binary(expr: Binary, scope: Scope, context: Context) -> Value:
    if expr.operator == "//":
        dim = as_dim(expr, scope, context)
        if dim is None:
            hint = "numbers are divided by /; floor(a / b) rounds down"
            raise LayerSyntaxError("`//` divides sizes only", expr.span, hint=hint)
        return constant(size(dim))
    left, right = lower(expr.left, scope, context), lower(expr.right, scope, context)
    scalar = not left.axes or not right.axes
    if expr.operator == "@" or (expr.operator == "·" and not scalar):
        return matmul(expr, left, right, context)
    return elementwise(expr, left, right, context)


def _subscript(expr: Subscript, scope: Scope, context: Context) -> Thing:
    if isinstance(expr.base, Name) and expr.base.name in scope.steps:
        _require_step(expr, expr.base.name, scope, context)
        scope = replace(scope, steps=scope.steps - {expr.base.name})
    base = lower_thing(expr.base, scope, context)
    return subscript(expr, base, scope, context, lower_thing)


def _require_step(expr: Subscript, name: str, scope: Scope, context: Context) -> None:
    """Raise unless an array of the recurrence is read at a step of its own: `[t]`, `[t - c]`."""
    first = expr.items[0]
    if isinstance(first, (Slice, Dots, NewAxis)) or scope.time is None:
        raise _not_stepwise(name, expr.span, scope)
    place = affine(first, scope, context)
    if place.bare != scope.time and not (lag(place) and place.terms[0][0] == scope.time):
        raise _not_stepwise(name, expr.span, scope)


def _not_stepwise(name: str, span: Span, scope: Scope) -> ShapeError:
    step = scope.time.name if scope.time is not None else "t"
    return ShapeError(
        f"inside its recurrence {name} is seen only at single steps",
        span,
        hint=f"write {name}[{step}] or {name}[{step} - 1]",
    )


def _reduction(expr: Reduction, scope: Scope, context: Context) -> Value:
    inner, bound = scope, []
    for binder in expr.binders:
        if binder.name in inner.indices:
            hint = "give the inner one another name"
            message = f"the index {binder.name} is bound already"
            raise LayerSyntaxError(message, binder.span, hint=hint)
        stated = None if binder.extent is None else size_of(binder.extent, scope, context)
        form = stated_form(expr.function, expr.binders, binder, "(...)")
        index = context.bind(binder, stated, form)
        context.size(index.dim, f"the range of index {index.name}", binder.span)
        bound.append(index)
        inner = inner.with_index(index)
    body = lower(expr.body, inner, context)
    return reduce_value(expr.function, tuple(bound), body, context)


def _call(expr: Call, scope: Scope, context: Context) -> Value:
    name = expr.function
    if name in context.macros:
        return _macro(context.macros[name], expr, scope, context)
    if name == "stop_gradient":
        return _stop(lower(_only(expr), scope, context))
    if name == "delta":
        return _delta(expr, scope, context)
    if name in AXIS_FUNCTIONS:
        value = lower(_first(expr), scope, context)
        return over_axes(expr, value, scope, context, lower)
    if name in ARRAY_FUNCTIONS:
        return array_function(expr, scope, context, lower)
    if name in LINEAR_ALGEBRA:
        return linear_algebra(expr, scope, context, lower)
    if is_elementwise(name):
        return _elementwise(expr, scope, context)
    value = lower(_only(expr), scope, context)
    bound = context.functions.get(name, name)
    if bound in context.macros:
        return _inline(context.macros[bound], (value,), expr, context)
    if bound != name and is_elementwise(bound):
        return _filled(bound, {}, [value], expr, context)
    return apply(name, (value,), expr, context)


def _first(expr: Call) -> Expr:
    if not expr.arguments:
        hint = f"write {expr.function}(a)"
        raise LayerSyntaxError(f"{expr.function} needs an argument", expr.span, hint=hint)
    return expr.arguments[0]


def _only(expr: Call) -> Expr:
    if len(expr.arguments) != 1 or expr.keywords:
        hint = f"write {expr.function}(a)"
        raise LayerSyntaxError(f"{expr.function} takes one argument", expr.span, hint=hint)
    return expr.arguments[0]


def _elementwise(expr: Call, scope: Scope, context: Context) -> Value:
    values = [lower(e, scope, context) for e in expr.arguments]
    given = {k.name: (lower(k.value, scope, context), k.span) for k in expr.keywords}
    return _filled(expr.function, given, values, expr, context)


def _filled(
    function: str,
    keywords: Mapping[str, tuple[Value, Span]],
    values: Sequence[Value],
    expr: Call,
    context: Context,
) -> Value:
    """Return an element-wise function of values, its defaults filled in."""
    parameters = signature(function)
    hint = f"{function}({', '.join(parameters.names)})"
    if len(values) > len(parameters.names):
        plural = "" if len(parameters.names) == 1 else "s"
        message = f"{function} takes {len(parameters.names)} argument{plural}, not {len(values)}"
        raise LayerSyntaxError(message, expr.span, hint=hint)
    given = dict(zip(parameters.names, values, strict=False))
    for name, (value, span) in keywords.items():
        if name not in parameters.names or name in given:
            raise LayerSyntaxError(f"{function} has no free argument {name}", span, hint=hint)
        given[name] = value
    for name in parameters.names:
        if name not in given and name not in parameters.defaults:
            raise LayerSyntaxError(f"{function} needs the argument {name}", expr.span, hint=hint)
    ordered = [given.get(n) or number(parameters.defaults[n]) for n in parameters.names]
    return apply(function, tuple(ordered), expr, context)


def _stop(value: Value) -> Value:
    def element(at: Positions) -> Tree:
        tree = value.element(at)
        return Stop(tree) if _reads(tree) else tree

    return Value(value.axes, element, value.mask)


def _reads(tree: Tree) -> bool:
    """Whether a tree depends on any array."""
    if isinstance(tree, Node):
        return any(_reads(arg) for arg in tree.args)
    return isinstance(tree, Access) or not is_leaf(tree)


def _delta(expr: Call, scope: Scope, context: Context) -> Value:
    if len(expr.arguments) != 2 or expr.keywords:
        raise LayerSyntaxError("delta takes two indices", expr.span, hint="delta(i, j)")
    left, right = (position(e, scope, context, lower_thing) for e in expr.arguments)
    for one, other in ((left, right), (right, left)):
        index = one.bare
        if index is not None:
            context.tie(index, other)
    return constant(Delta(left, right))


def _macro(macro: Macro, expr: Call, scope: Scope, context: Context) -> Value:
    things = tuple(lower_thing(e, scope, context) for e in expr.arguments)
    if len(things) != len(macro.arguments):
        message = f"the macro {macro.name} takes {len(macro.arguments)} arguments"
        hint = f"{macro.name}({', '.join(macro.arguments)})"
        raise LayerSyntaxError(message, expr.span, hint=hint)
    return _inline(macro, things, expr, context)


def _inline(macro: Macro, things: tuple[Thing, ...], expr: Call, context: Context) -> Value:
    """Return a macro's result; arguments read more than once and locals get definitions."""
    from symgrad.check.statements import assigned

    inner = Scope(dict(context.constants))
    for name, thing in zip(macro.arguments, things, strict=True):
        if isinstance(thing, Value) and _uses(macro, name) > 1 and _is_work(thing, context):
            thing = context.named(thing, name)
        inner = inner.with_array(name, thing)
    for line in macro.body:
        value = assigned(line, inner, context)
        work = isinstance(value, Value) and _is_work(value, context)
        if isinstance(value, Value) and work and not value.plain:
            value = context.named(value, line.name)
        inner = inner.with_array(line.name, value)
    return lower(macro.result, inner, context)


def _is_work(value: Value, context: Context) -> bool:
    """Whether an element takes arithmetic to compute, so that it is worth a name."""
    at = tuple(Affine.of(i) for i in context.fresh(value.axes))
    tree = value.element(at)
    return position_of(tree) is None and not is_leaf(tree)


def _uses(macro: Macro, name: str) -> int:
    """Return how often a macro reads an argument."""
    total = 0
    waiting: list[Item] = [macro.result, *(line.value for line in macro.body)]
    while waiting:
        expr = waiting.pop()
        total += isinstance(expr, Name) and expr.name == name
        waiting.extend(parts(expr))
    return total
