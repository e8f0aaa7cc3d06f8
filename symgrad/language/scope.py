"""What every name in a layer refers to, and that it may be seen from there.

Layer -> Layer, or the error that names the stranger
Later stages trust names: each is an array, macro argument, dim, index, function or constant.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from symgrad.errors import LayerSyntaxError, Source, Span, similar
from symgrad.language.characters import is_letter
from symgrad.language.names import array_names, dim_names, parts, require_free
from symgrad.language.synonyms import look_alike, remedy
from symgrad.language.vocabulary import FUNCTION_NAMES
from symgrad.syntax import (
    Assign,
    Binary,
    Binder,
    Call,
    Domain,
    Item,
    Layer,
    Macro,
    Name,
    Number,
    Reduction,
    Slice,
    Start,
    Statement,
    Subscript,
)


@dataclass(frozen=True, slots=True)
class _Scope:
    """What can be seen from one place of a layer."""

    source: Source
    dims: frozenset[str]
    macros: Mapping[str, Macro]
    arrays: frozenset[str]
    later: frozenset[str] = frozenset()
    indices: tuple[str, ...] = ()
    block: frozenset[str] = frozenset()
    time: str | None = None
    macro: str | None = None
    in_subscript: bool = False

    def error(self, message: str, span: Span, hint: str | None = None) -> LayerSyntaxError:
        """Return a syntax error in this layer's text."""
        return LayerSyntaxError(message, span, self.source, hint)


def resolve(layer: Layer) -> Layer:
    """Check every name of a layer and return it.

    Raises LayerSyntaxError at the first name that is unknown, reserved, taken or used too early.
    """
    arrays = array_names(layer)
    dims = frozenset(dim_names(layer, arrays))
    macros = {macro.name: macro for macro in layer.macros}
    declared = frozenset(d.name for d in layer.declarations)
    scope = _Scope(layer.source, dims, macros, declared, frozenset(arrays) - declared)
    _require_known_aliases(layer, arrays)
    consts = frozenset(d.name for d in layer.declarations if d.role == "const")
    for macro in layer.macros:
        _visit_macro(macro, scope, consts, frozenset(arrays))
    _require_no_recursion(layer)
    _visit_statements(layer.statements, scope)
    return layer


def _require_known_aliases(layer: Layer, arrays: tuple[str, ...]) -> None:
    for alias in layer.aliases:
        if alias.name not in arrays:
            message = f"the line `# name: {alias.name} = {alias.original}` names no array"
            hint = _question(alias.name, arrays) or "declare it, or leave the line out"
            raise LayerSyntaxError(message, alias.span, layer.source, hint)


def _visit_statements(statements: tuple[Statement, ...], scope: _Scope) -> None:
    stepped = _steps_of(statements)
    for position, statement in enumerate(statements):
        match statement:
            case Domain():
                _visit(statement.condition, scope)
            case Start():
                _visit_start(statement, scope, statements[:position], stepped)
            case Assign():
                block = _block_around(statements, position)
                _visit_assign(statement, replace(scope, block=block))
                seen = frozenset((statement.name,))
                scope = replace(scope, arrays=scope.arrays | seen, later=scope.later - seen)


def _steps_of(statements: tuple[Statement, ...]) -> frozenset[str]:
    """Return the names assigned by a line with a stated range, which may be a recurrence."""
    return frozenset(s.name for s in statements if isinstance(s, Assign) and _step_range(s))


def _step_range(statement: Assign) -> Binder | None:
    """Return the binder `t: T` a step line starts with."""
    if statement.binders and statement.binders[0].extent is not None:
        return statement.binders[0]
    return None


def _block_around(statements: tuple[Statement, ...], position: int) -> frozenset[str]:
    """Return the names of the consecutive step lines over one range around a line."""
    here = statements[position]
    mine = _step_range(here) if isinstance(here, Assign) else None
    if mine is None:
        return frozenset()
    names = [here.name] if isinstance(here, Assign) else []
    for side in (reversed(statements[:position]), iter(statements[position + 1 :])):
        for other in side:
            if isinstance(other, Start):
                continue
            if not isinstance(other, Assign) or _step_range(other) != mine:
                break
            names.append(other.name)
    return frozenset(names)


def _visit_start(
    start: Start, scope: _Scope, before: tuple[Statement, ...], stepped: frozenset[str]
) -> None:
    if start.name in scope.arrays:
        hint = f"start lines of {start.name} stand before its step"
        raise scope.error(f"{start.name} has its value already", start.span, hint)
    if start.name not in stepped:
        hint = f"write the step below: {start.name}[t: T] = ..."
        raise scope.error(f"{start.name} has a start but no step", start.span, hint)
    for other in before:
        if isinstance(other, Start) and (other.name, other.lag) == (start.name, start.lag):
            message = f"the start {start.name}[-{start.lag}] is given twice"
            raise scope.error(message, start.span, "give each lag once")
    _visit(start.value, _with_binders(start.binders, scope))


def _visit_assign(statement: Assign, scope: _Scope) -> None:
    inner = _with_binders(statement.binders or (), scope)
    step = _step_range(statement)
    _visit(statement.value, replace(inner, time=step.name if step else None))


def _with_binders(binders: tuple[Binder, ...], scope: _Scope) -> _Scope:
    """Return the scope in which the indices are seen."""
    names: list[str] = []
    for binder in binders:
        require_free(binder.name, binder.span, scope.source, "an index")
        if binder.name in scope.indices or binder.name in names:
            hint = "give the inner one another name"
            raise scope.error(f"the index {binder.name} is bound already", binder.span, hint)
        if binder.extent is not None:
            _visit(binder.extent, scope)
        names.append(binder.name)
    return replace(scope, indices=(*scope.indices, *names))


def _visit(expr: Item, scope: _Scope) -> None:
    """Check the names below an expression."""
    match expr:
        case Name():
            _visit_name(expr, scope)
        case Call():
            _visit_call(expr, scope)
        case Reduction():
            outer = replace(scope, in_subscript=False)
            _visit(expr.body, _with_binders(expr.binders, outer))
        case Subscript():
            if not _is_lagged(expr, scope):
                _visit(expr.base, scope)
            inner = replace(scope, in_subscript=True)
            for item in expr.items:
                _visit(item, inner)
        case Slice():
            for part in parts(expr):
                _visit(part, replace(scope, in_subscript=False))
        case _:
            for part in parts(expr):
                _visit(part, scope)


def _is_lagged(expr: Subscript, scope: _Scope) -> bool:
    """Return whether it is `h[t - c, ...]` of an array of the block around it."""
    first = expr.items[0]
    return (
        isinstance(expr.base, Name)
        and expr.base.name in scope.block
        and expr.base.name not in scope.indices
        and isinstance(first, Binary)
        and first.operator == "-"
        and isinstance(first.left, Name)
        and first.left.name == scope.time
        and isinstance(first.right, Number)
        and isinstance(first.right.value, int)
        and first.right.value > 0
    )


def _visit_name(expr: Name, scope: _Scope) -> None:
    name = expr.name
    if name in scope.indices or name in scope.arrays or name in scope.dims or name == "pi":
        return
    if name in scope.later:
        raise _too_early(expr, scope)
    if name in FUNCTION_NAMES:
        raise scope.error(f"{name} is a function", expr.span, f"call it: {name}(...)")
    if name in scope.macros:
        raise scope.error(f"{name} is a macro", expr.span, f"call it: {name}(...)")
    known = (*scope.indices, *scope.arrays, *scope.dims)
    twin = look_alike(name, known)
    guess = _question(name, known)
    if twin is not None:
        letters = ", ".join(unicodedata.name(c).lower() for c in name if c not in twin)
        guess = f"did you mean {twin}? {name} looks like it, but has a {letters}"
    if scope.in_subscript:
        message = f"the index {name} is neither free on the left nor bound by a reduction"
        hint = f"write sum[{name}](...), or y[{name}] = ... on the left"
        raise scope.error(message, expr.span, guess or hint)
    hint = f"declare it, {name}: param[...], or assign it above"
    if "_" in name and is_letter(name.replace("_", "")):
        hint = f"{hint}; in one-liners digits follow the letter: {name.replace('_', '')}"
    if scope.macro is not None:
        hint = f"{scope.macro} sees its arguments, locals, dims and consts; pass {name} to it"
    raise scope.error(f"the name {name} is unknown here", expr.span, guess or hint)


def _too_early(expr: Name, scope: _Scope) -> LayerSyntaxError:
    name = expr.name
    if name in scope.block:
        hint = f"a recurrence sees earlier steps: {name}[{scope.time} - 1]"
    elif scope.indices:
        hint = f"move its line up; a recurrence states its range: {name}[t: T] = ..."
    else:
        hint = "move its line up"
    return scope.error(f"{name} is used before it is assigned", expr.span, hint)


def _visit_call(call: Call, scope: _Scope) -> None:
    _require_callable(call, scope)
    inner = replace(scope, in_subscript=False)
    for part in parts(call):
        _visit(part, inner)


def _require_callable(call: Call, scope: _Scope) -> None:
    name, span = call.function, call.span
    if name in FUNCTION_NAMES:
        return
    hint = f"products are written {name} @ (...) or {name} * (...)"
    if name in scope.indices:
        raise scope.error(f"{name} is an index here and cannot be called", span, hint)
    if name in scope.arrays or name in scope.later:
        raise scope.error(f"{name} is an array and cannot be called", span, hint)
    if name in scope.macros:
        _require_arity(call, scope.macros[name], scope)
        return
    if name in scope.dims:
        raise scope.error(f"{name} is a dim and cannot be called", span, hint)
    if not is_letter(name) or name == "pi":
        hint = remedy(name, (*FUNCTION_NAMES, *scope.macros)) or "write a macro: def ..."
        raise scope.error(f"the function {name} is unknown", _head(call), hint)
    if len(call.arguments) != 1 or call.keywords:
        message = f"the abstract function {name} takes one argument"
        raise scope.error(message, span, f"for more, write a macro: def {name}(a, b): ...")


def _head(call: Call) -> Span:
    """Return where a call's function name stands."""
    span = call.span
    return Span(span.line, span.column, span.line, span.column + len(call.function))


def _require_arity(call: Call, macro: Macro, scope: _Scope) -> None:
    if call.keywords:
        message = f"the macro {macro.name} takes its arguments by position"
        raise scope.error(message, call.keywords[0].span, "leave the keyword out")
    wanted, got = len(macro.arguments), len(call.arguments)
    if wanted != got:
        plural = "" if wanted == 1 else "s"
        message = f"the macro {macro.name} takes {wanted} argument{plural}, not {got}"
        raise scope.error(message, call.span, f"{macro.name}({', '.join(macro.arguments)})")


def _visit_macro(
    macro: Macro, outer: _Scope, consts: frozenset[str], arrays: frozenset[str]
) -> None:
    """Check a macro's body: it sees arguments, locals, dims, consts and other macros."""
    locals_ = tuple(line.name for line in macro.body)
    for name in (*macro.arguments, *locals_):
        spans = [line.name_span for line in macro.body if line.name == name]
        span = spans[0] if spans else macro.span
        require_free(name, span, outer.source, "a value")
        if name in outer.dims:
            hint = "give it another name"
            raise outer.error(f"{name} is a dim and cannot name a value too", span, hint)
    scope = replace(
        outer,
        arrays=consts | frozenset(macro.arguments),
        later=frozenset(locals_) - frozenset(macro.arguments),
        macro=macro.name,
    )
    taken = set(macro.arguments)
    for position, line in enumerate(macro.body):
        if line.name in taken:
            raise scope.error(f"{line.name} is assigned twice", line.name_span, "name it anew")
        taken.add(line.name)
        _visit_assign(line, replace(scope, block=_block_around(macro.body, position)))
        seen = frozenset((line.name,))
        scope = replace(scope, arrays=scope.arrays | seen, later=scope.later - seen)
    _visit(macro.result, scope)


def _require_no_recursion(layer: Layer) -> None:
    """Raise if a macro calls itself, directly or through others."""
    calls = {macro.name: tuple(_calls(macro)) for macro in layer.macros}
    done: set[str] = set()
    for macro in layer.macros:
        path: list[tuple[str, int]] = [(macro.name, 0)]
        while path:
            name, position = path[-1]
            if position == len(calls[name]) or name in done:
                done.add(name)
                path.pop()
                continue
            path[-1] = (name, position + 1)
            call = calls[name][position]
            if call.function not in calls:
                continue
            names = [step for step, _ in path]
            if call.function in names:
                cycle = (*names[names.index(call.function) :], call.function)
                message = f"the macro {call.function} calls itself: {' -> '.join(cycle)}"
                hint = "macros are inlined and may not recurse"
                raise LayerSyntaxError(message, call.span, layer.source, hint)
            path.append((call.function, 0))


def _calls(macro: Macro) -> list[Call]:
    """Return all calls in a macro's body."""
    found: list[Call] = []
    waiting: list[Item] = [macro.result, *(line.value for line in macro.body)]
    while waiting:
        expr = waiting.pop()
        if isinstance(expr, Call):
            found.append(expr)
        waiting.extend(parts(expr))
    return found


def _question(name: str, known: Iterable[str]) -> str | None:
    """Return the question whether the nearest known name was meant, or None."""
    near = similar(name, known)
    return f"did you mean {near}?" if near else None
