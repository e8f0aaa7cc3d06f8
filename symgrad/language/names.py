"""Which names a layer introduces, and whether it may: reserved words, doubles, sizes.

Layer -> dims, arrays
A dim, an array and a macro never share a name.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator

from symgrad.errors import LayerSyntaxError, Source, Span
from symgrad.language.characters import fold
from symgrad.language.vocabulary import CONSTANTS, FUNCTION_NAMES, GREEK, ROLES, SIZE_ARGUMENTS
from symgrad.syntax import (
    Assign,
    Binary,
    Binder,
    Call,
    Compare,
    Declaration,
    Domain,
    Expr,
    Item,
    Layer,
    Name,
    Reduction,
    Sequence,
    Slice,
    Subscript,
    Transposed,
    Unary,
)


def require_free(name: str, span: Span | None, source: Source, what: str) -> None:
    """Raise LayerSyntaxError if the language or Python owns a name."""
    if name in CONSTANTS:
        message, hint = f"{name} is the constant π", "choose another name"
    elif name in FUNCTION_NAMES:
        message, hint = f"{name} is a function of the language", "choose another name"
    elif name in ROLES:
        message, hint = f"{name} is a role word of the language", "choose another name"
    elif keyword.iskeyword(name):
        message, hint = f"{name} is a word of Python", "choose another name"
    else:
        return
    if name in GREEK:
        hint = f"write the letter: {GREEK[name]}"
    raise LayerSyntaxError(f"{message} and cannot name {what}", span, source, hint)


def array_names(layer: Layer) -> tuple[str, ...]:
    """Return declared and assigned names; raise if one is reserved or taken twice."""
    taken: dict[str, str] = {}
    for made in layer.declarations:
        span = name_span(layer.source, made)
        require_free(made.name, span, layer.source, "an array")
        _take(made.name, "declared", span, layer.source, taken)
    for statement in layer.statements:
        if isinstance(statement, Assign):
            require_free(statement.name, statement.name_span, layer.source, "an array")
            _take(statement.name, "assigned", statement.name_span, layer.source, taken)
    for macro in layer.macros:
        span = _after_def(macro.span, macro.name)
        require_free(macro.name, span, layer.source, "a macro")
        _take(macro.name, "a macro", span, layer.source, taken)
    return tuple(name for name, how in taken.items() if how != "a macro")


def _take(name: str, how: str, span: Span, source: Source, taken: dict[str, str]) -> None:
    before = taken.get(name)
    if before is None:
        taken[name] = how
        return
    message = f"{name} is {how}, but it is {before} already"
    if before == how:
        message = f"{name} is {how} twice"
    written = _spelling(source, span)
    if written is not None and written != name and fold(written) == name:
        message += f" (Python folds {written} and {name} alike)"
    raise LayerSyntaxError(message, span, source, "give it a name of its own")


def _spelling(source: Source, span: Span) -> str | None:
    lines = re.split(r"\r\n|\r|\n", source.text)
    if not 1 <= span.line <= len(lines):
        return None
    found = re.compile(r"\w+").match(lines[span.line - 1], span.column - 1)
    return found[0] if found else None


def _after_def(span: Span, name: str) -> Span:
    """Return where a macro's name stands, behind `def `."""
    if not span.line:
        return span
    return Span(span.line, span.column + 4, span.line, span.column + 4 + len(name))


def name_span(source: Source, declaration: Declaration) -> Span:
    """Return where a declaration's name stands; nowhere if it was given beside the text."""
    span = declaration.span
    if not span.line:
        return span
    width = len(_spelling(source, span) or declaration.name)
    return Span(span.line, span.column, span.line, span.column + width)


def dim_names(layer: Layer, arrays: tuple[str, ...]) -> tuple[str, ...]:
    """Return all dims, declared or brought in by ranges, shapes and slice bounds.

    Raises LayerSyntaxError if one is reserved, or names an array or macro too.
    """
    dims: dict[str, None] = {}
    others = {name: ("an array", _place(layer, name)) for name in arrays}
    others |= {m.name: ("a macro", _after_def(m.span, m.name)) for m in layer.macros}
    for made in layer.declarations:
        for position, axis in enumerate(made.dims):
            span = made.dim_spans[position] if position < len(made.dim_spans) else made.span
            for name in axis.names:
                _take_dim(name, span, layer, others, dims)
        for name in made.vocabulary.names if made.vocabulary is not None else ():
            _take_dim(name, made.span, layer, others, dims)
    for found in _stated_sizes(layer):
        _take_dim(found.name, found.span, layer, others, dims)
    return tuple(dims)


def _take_dim(
    name: str,
    span: Span,
    layer: Layer,
    others: dict[str, tuple[str, Span]],
    dims: dict[str, None],
) -> None:
    require_free(name, span, layer.source, "a dim")
    if name in others:
        hint = "sizes of axes have names of their own"
        what, place = others[name]
        message = f"{name} is {what} and cannot name a dim too"
        if (place.line, place.column) > (span.line, span.column):
            message, span = f"{name} is a dim and cannot name {what} too", place
        raise LayerSyntaxError(message, span, layer.source, hint)
    dims[name] = None


def _place(layer: Layer, name: str) -> Span:
    """Return where an array gets its name."""
    declared = layer.declaration(name)
    if declared is not None:
        return name_span(layer.source, declared)
    lines = (s for s in layer.statements if isinstance(s, Assign) and s.name == name)
    return next(line.name_span for line in lines)


def _stated_sizes(layer: Layer) -> Iterator[Name]:
    """Yield the names that stand where only sizes do."""
    for statement in layer.statements:
        if isinstance(statement, Domain):
            yield from _sizes(statement.condition, frozenset())
            continue
        binders = statement.binders or ()
        free = frozenset(b.name for b in binders)
        yield from _extents(binders)
        yield from _sizes(statement.value, free)
    for macro in layer.macros:
        local = frozenset((*macro.arguments, *(line.name for line in macro.body)))
        for line in macro.body:
            free = local | frozenset(b.name for b in line.binders or ())
            yield from (n for n in _extents(line.binders or ()) if n.name not in local)
            yield from _sizes(line.value, free)
        yield from _sizes(macro.result, local)


def _extents(binders: tuple[Binder, ...]) -> Iterator[Name]:
    for made in binders:
        if made.extent is not None:
            yield from _names(made.extent, frozenset())


def _sizes(expr: Item, bound: frozenset[str]) -> Iterator[Name]:
    """Yield names in slice bounds, stated ranges and size arguments; `bound` are indices."""
    if isinstance(expr, Slice):
        for part in (expr.lower, expr.upper, expr.step):
            if part is not None:
                yield from _names(part, bound)
    elif isinstance(expr, Reduction):
        for found in _extents(expr.binders):
            if found.name not in bound:
                yield found
        bound = bound | frozenset(b.name for b in expr.binders)
    elif isinstance(expr, Call) and expr.function in SIZE_ARGUMENTS:
        for argument in expr.arguments[SIZE_ARGUMENTS[expr.function] :]:
            yield from _names(argument, bound)
    for child in parts(expr):
        yield from _sizes(child, bound)


def _names(expr: Item, bound: frozenset[str]) -> Iterator[Name]:
    """Yield the names in a size, as far as it is arithmetic."""
    if isinstance(expr, Name):
        if expr.name not in bound:
            yield expr
    elif isinstance(expr, (Unary, Binary, Sequence)):
        for child in parts(expr):
            yield from _names(child, bound)


def parts(expr: Item) -> tuple[Item, ...]:
    """Return an expression's direct parts, in reading order."""
    match expr:
        case Unary():
            return (expr.operand,)
        case Binary():
            return (expr.left, expr.right)
        case Compare():
            return expr.operands
        case Call():
            return (*expr.arguments, *(k.value for k in expr.keywords))
        case Reduction():
            return (*(b.extent for b in expr.binders if b.extent is not None), expr.body)
        case Subscript():
            return (expr.base, *expr.items)
        case Transposed():
            return (expr.base,)
        case Sequence():
            return expr.items
        case Slice():
            found: tuple[Expr | None, ...] = (expr.lower, expr.upper, expr.step)
            return tuple(part for part in found if part is not None)
        case _:
            return ()
