"""Write a layer's text again, in full-layer form with the fewest parentheses.

Layer -> str
`parse(write(layer)) == layer`, spans and comments aside.
"""

from __future__ import annotations

from symgrad.syntax import (
    Assign,
    Binary,
    Binder,
    Call,
    Compare,
    Declaration,
    Domain,
    Dots,
    Expr,
    Flag,
    Item,
    Layer,
    Macro,
    Name,
    NewAxis,
    Number,
    Reduction,
    Sequence,
    Slice,
    Start,
    Statement,
    Subscript,
    Text,
    Transposed,
    Unary,
)

_COMPARE, _OR, _AND, _SUM, _PRODUCT, _UNARY, _POWER, _POSTFIX = range(8)
_LEVELS = {
    "|": _OR,
    "&": _AND,
    "+": _SUM,
    "-": _SUM,
    "*": _PRODUCT,
    "/": _PRODUCT,
    "//": _PRODUCT,
    "@": _PRODUCT,
    "·": _PRODUCT,
    "**": _POWER,
}


def write(layer: Layer) -> str:
    """Return the layer as text that parses to an equal layer."""
    head = [quoted_title(layer.title)] if layer.title else []
    head += [f"# name: {alias.name} = {alias.original}" for alias in layer.aliases]
    head += [write_declaration(made) for made in layer.declarations]
    body = [write_statement(statement) for statement in layer.statements]
    if layer.outputs:
        body.append(f"return {', '.join(layer.outputs)}")
    sections = [head, *(_macro(macro) for macro in layer.macros), body]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def quoted_title(title: str) -> str:
    """Return a title as a docstring."""
    text = title.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if text.endswith('"'):
        text = text[:-1] + '\\"'
    return f'"""{"".join(_visible(c) for c in text)}"""'


def _visible(character: str) -> str:
    """Return a character, escaped if a text file may not keep it."""
    if character.isprintable() or character in "\n\t":
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def write_declaration(made: Declaration) -> str:
    """Return one declaration: `name: role[dims] = default`."""
    role = made.role if made.vocabulary is None else f"{made.role}({made.vocabulary})"
    axes = f"[{', '.join(str(axis) for axis in made.dims)}]" if made.dims else ""
    default = "" if made.default is None else f" = {made.default!r}"
    return f"{made.name}: {role}{axes}{default}"


def write_statement(statement: Statement) -> str:
    """Return one statement on one line."""
    match statement:
        case Assign():
            left = statement.name + _left(statement.binders)
            return f"{left} = {write_expression(statement.value)}"
        case Start():
            places = [f"-{statement.lag}", *(_binder(b) for b in statement.binders)]
            return f"{statement.name}[{', '.join(places)}] = {write_expression(statement.value)}"
        case Domain():
            return f"assert {write_expression(statement.condition)}"


def _left(binders: tuple[Binder, ...] | None) -> str:
    return "" if binders is None else f"[{', '.join(_binder(b) for b in binders)}]"


def _binder(binder: Binder) -> str:
    if binder.extent is None:
        return binder.name
    return f"{binder.name}: {write_expression(binder.extent)}"


def _macro(macro: Macro) -> list[str]:
    lines = [f"def {macro.name}({', '.join(macro.arguments)}):"]
    lines += [f"    {write_statement(line)}" for line in macro.body]
    return [*lines, f"    return {write_expression(macro.result)}"]


def write_expression(expr: Item) -> str:
    """Return an expression, or an entry of a subscript, on one line."""
    match expr:
        case Number():
            return repr(expr.value)
        case Name():
            return expr.name
        case Unary() | Binary() | Compare():
            return _operation(expr)
        case Text():
            return _quoted(expr.value)
        case Sequence():
            return _sequence(expr)
        case _:
            return _bracketed(expr)


def _operation(expr: Unary | Binary | Compare) -> str:
    match expr:
        case Unary():
            return expr.operator + _at_least(_UNARY, expr.operand)
        case Compare():
            text = _at_least(_OR, expr.operands[0])
            for operator, operand in zip(expr.operators, expr.operands[1:], strict=True):
                text += f" {operator} {_at_least(_OR, operand)}"
            return text
        case Binary(operator="**"):
            return f"{_at_least(_POSTFIX, expr.left)}**{_at_least(_UNARY, expr.right)}"
        case Binary():
            level = _LEVELS[expr.operator]
            left, right = _at_least(level, expr.left), _at_least(level + 1, expr.right)
            return f"{left} {expr.operator} {right}"


def _bracketed(expr: Item) -> str:
    """Return an expression whose parts stand between brackets or commas."""
    match expr:
        case Call():
            words = [write_expression(argument) for argument in expr.arguments]
            words += [f"{word.name}={write_expression(word.value)}" for word in expr.keywords]
            return f"{expr.function}({', '.join(words)})"
        case Reduction():
            binders = ", ".join(_binder(b) for b in expr.binders)
            return f"{expr.function}[{binders}]({write_expression(expr.body)})"
        case Subscript():
            items = ", ".join(write_expression(item) for item in expr.items)
            return f"{_base(expr.base)}[{items}]"
        case Transposed():
            return f"{_base(expr.base)}.T"
        case Slice():
            return _slice(expr)
        case _:
            return _word(expr)


def _word(expr: Item) -> str:
    if isinstance(expr, Dots):
        return "..."
    if isinstance(expr, Flag):
        return str(expr.value)
    if isinstance(expr, NewAxis):
        return "None"
    raise TypeError(f"{type(expr).__name__} is no expression")


def _base(expr: Expr) -> str:
    """Return what a subscript or `.T` follows; `2.T` would be a malformed number."""
    if isinstance(expr, Number):
        return f"({expr.value!r})"
    return _at_least(_POSTFIX, expr)


def _slice(expr: Slice) -> str:
    parts = [
        "" if part is None else write_expression(part)
        for part in (expr.lower, expr.upper, expr.step)
    ]
    return ":".join(parts if expr.step is not None else parts[:2])


def _sequence(expr: Sequence) -> str:
    inner = ", ".join(write_expression(item) for item in expr.items)
    if expr.brackets == "[]":
        return f"[{inner}]"
    return f"({inner},)" if len(expr.items) == 1 else f"({inner})"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{"".join(_visible(c) for c in escaped)}"'


def _level(expr: Expr) -> int:
    """Return how tightly the outermost operation of an expression binds."""
    match expr:
        case Compare():
            return _COMPARE
        case Binary():
            return _LEVELS[expr.operator]
        case Unary():
            return _UNARY
        case Number():
            return _UNARY if repr(expr.value).startswith("-") else _POSTFIX
        case _:
            return _POSTFIX


def _at_least(level: int, expr: Expr) -> str:
    """Return an expression, in parentheses if it binds less tightly than `level`."""
    text = write_expression(expr)
    return text if _level(expr) >= level else f"({text})"
