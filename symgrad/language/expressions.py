"""Expressions of the language, read from Python's syntax tree through a whitelist.

ast.expr, Script -> Expr
What is not in the table of readers is refused at its exact place, with a way out.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Literal, cast

from symgrad.language.characters import DOT, Script, fold
from symgrad.language.synonyms import SYNONYMS, remedy
from symgrad.language.vocabulary import CONSTANTS, FUNCTION_NAMES, REDUCTIONS
from symgrad.syntax import (
    Binary,
    Binder,
    Call,
    Compare,
    Dots,
    Expr,
    Flag,
    Item,
    Keyword,
    Name,
    NewAxis,
    Number,
    Reduction,
    Sequence,
    Slice,
    Subscript,
    Text,
    Transposed,
    Unary,
)

BinaryOperator = Literal["+", "-", "*", "/", "**", "@", "//", "&", "|", "·"]
CompareOperator = Literal["<", "<=", ">", ">=", "==", "!="]
UnaryOperator = Literal["-", "+", "~"]

MAX_DEPTH = 200
"""Deepest nesting of an expression; every stage recurses over it."""

_BINARY: dict[type[ast.operator], BinaryOperator] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.FloorDiv: "//",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.Mod: "·",
}
_OTHER_OPERATORS: dict[type[ast.operator], str] = {
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitXor: "^",
}
_UNARY: dict[type[ast.unaryop], UnaryOperator] = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}
_COMPARE: dict[type[ast.cmpop], CompareOperator] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_REFUSED: dict[type[ast.expr], tuple[str, str]] = {
    ast.Lambda: ("lambda is not part of the layer language", "write a macro: def f(a): return ..."),
    ast.IfExp: ("`if` is not part of the layer language", "write where(condition, a, b)"),
    ast.ListComp: ("comprehensions are not part of the layer language", "write y[i] = ..."),
    ast.SetComp: ("comprehensions are not part of the layer language", "write y[i] = ..."),
    ast.DictComp: ("comprehensions are not part of the layer language", "write y[i] = ..."),
    ast.GeneratorExp: ("comprehensions are not part of the layer language", "write sum[k](...)"),
    ast.NamedExpr: ("`:=` is not part of the layer language", "name it in a line: a = ..."),
    ast.Starred: ("`*` before an argument is not part of the layer language", "write them out"),
    ast.JoinedStr: ("f-strings are not part of the layer language", "only einsum takes a string"),
    ast.Dict: ("dictionaries are not part of the layer language", "write one line per name"),
    ast.Set: ("sets are not part of the layer language", "use brackets: [a, b]"),
    ast.Await: ("await is not part of the layer language", "nothing in a layer runs"),
    ast.Yield: ("yield is not part of the layer language", "end with return a, b"),
    ast.YieldFrom: ("yield is not part of the layer language", "end with return a, b"),
    ast.Slice: ("a slice stands only inside a subscript", "write x[1:]"),
}


def expression(node: ast.expr, script: Script) -> Expr:
    """Read one expression.

    Raises LayerSyntaxError at the first part that is not of the language.
    """
    reader = _READERS.get(type(node))
    if reader is None:
        message, hint = _REFUSED.get(
            type(node),
            (f"{type(node).__name__} is not part of the layer language", "leave it out"),
        )
        raise script.error(message, node, hint)
    return reader(node, script)


def require_shallow(tree: ast.AST, script: Script) -> None:
    """Raise if anything is nested deeper than every stage can recurse."""
    level: list[ast.AST] = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    where = next((node for node in level if hasattr(node, "lineno")), None)
    message = f"this is nested more than {MAX_DEPTH} levels deep"
    raise script.error(message, where, "name a part of it in a line of its own")


def _constant(node: ast.expr, script: Script) -> Expr:
    value = cast(ast.Constant, node).value
    if isinstance(value, (bool, type(None))):
        hint = "True, False and None are values of keywords only, such as keepdims=True"
        raise script.error(f"{value} stands only as the value of a keyword", node, hint)
    if isinstance(value, (int, float)):
        number = Number(value, script.span(node))
        _require_finite(number, script)
        return number
    if isinstance(value, complex):
        hint = "for a factor j write 2*j"
        raise script.error("there are no complex numbers in a layer", node, hint)
    if value is Ellipsis:
        raise script.error("`...` stands only inside a subscript", node, "write x[..., 0]")
    hint = 'the only string is einsum\'s first argument: einsum("ij,j->i", A, b)'
    raise script.error("a string has no meaning here", node, hint)


def _name(node: ast.expr, script: Script) -> Expr:
    return Name(fold(cast(ast.Name, node).id), script.span(node))


def _unary(node: ast.expr, script: Script) -> Expr:
    node = cast(ast.UnaryOp, node)
    operator = _UNARY.get(type(node.op))
    if operator is None:
        start = script.stretch(node)[0]
        place = script.between(start, start + len("not"))
        hint = "masks are negated by ~, with parentheses: ~(a > 0)"
        raise script.error("`not` has no meaning for arrays", place, hint)
    made = Unary(operator, expression(node.operand, script), script.span(node))
    _require_finite(made, script)
    return made


def _binary(node: ast.expr, script: Script) -> Expr:
    node = cast(ast.BinOp, node)
    operator = _BINARY.get(type(node.op))
    if operator is None:
        place = script.operator(node.left, node.right)
        mark = _OTHER_OPERATORS.get(type(node.op), "this operator")
        message = f"{mark} is not part of the layer language"
        raise script.error(message, place, "operators are + - * / ** @ and, of masks, & | ~")
    left, right = expression(node.left, script), expression(node.right, script)
    made = Binary(operator, left, right, script.span(node))
    _require_finite(made, script)
    return made


def _boolean(node: ast.expr, script: Script) -> Expr:
    node = cast(ast.BoolOp, node)
    word, mark = ("and", "&") if isinstance(node.op, ast.And) else ("or", "|")
    place = script.operator(node.values[0], node.values[1])
    hint = f"masks are joined by {mark}, with parentheses: (a > 0) {mark} (b > 0)"
    raise script.error(f"`{word}` has no meaning for arrays", place, hint)


def _compare(node: ast.expr, script: Script) -> Expr:
    node = cast(ast.Compare, node)
    parts = [node.left, *node.comparators]
    operators: list[CompareOperator] = []
    for position, op in enumerate(node.ops):
        operator = _COMPARE.get(type(op))
        if operator is None:
            place = script.operator(parts[position], parts[position + 1])
            hint = "comparisons are < <= > >= == !="
            raise script.error("`in` and `is` are not part of the layer language", place, hint)
        operators.append(operator)
    operands = tuple(expression(part, script) for part in parts)
    return Compare(tuple(operators), operands, script.span(node))


def _attribute(node: ast.expr, script: Script) -> Expr:
    node = cast(ast.Attribute, node)
    if node.attr == "T":
        return Transposed(expression(node.value, script), script.span(node))
    stop = script.stretch(node)[1]
    place = script.between(stop - len(node.attr), stop)
    hint = "the only attribute is .T"
    if node.attr in FUNCTION_NAMES:
        hint = f"functions are called by their bare name: {node.attr}(...)"
    elif node.attr.replace("_", "").casefold() in SYNONYMS:
        hint = remedy(node.attr) or hint
    elif node.attr in CONSTANTS:
        hint = f"write {node.attr} alone"
    raise script.error(f"the attribute .{node.attr} is not part of the layer language", place, hint)


def _stray_sequence(node: ast.expr, script: Script) -> Expr:
    hint = "lists and tuples stand only as arguments: concatenate([a, b])"
    raise script.error("a list or tuple has no meaning here", node, hint)


def _call(node: ast.expr, script: Script) -> Expr:
    node = cast(ast.Call, node)
    function = node.func
    if isinstance(function, ast.Subscript):
        return _reduction(node, function, script)
    if isinstance(function, ast.Attribute) and function.attr != "T":
        return _attribute(function, script)
    if not isinstance(function, ast.Name):
        hint = "products are written with a sign: (a + b) * c"
        if isinstance(function, ast.Attribute) and not node.args:
            hint = "write .T without parentheses"
        raise script.error("only a name can be called", function, hint)
    name = fold(function.id)
    arguments = tuple(
        _argument(argument, script, name, position) for position, argument in enumerate(node.args)
    )
    keywords = tuple(_keyword(keyword, script, name) for keyword in node.keywords)
    seen: set[str] = set()
    for keyword, made in zip(node.keywords, keywords, strict=True):
        if made.name in seen:
            raise script.error(f"{made.name}= is given twice", keyword, "give it once")
        seen.add(made.name)
    return Call(name, arguments, keywords, script.span(node))


def _argument(node: ast.expr, script: Script, function: str, position: int) -> Expr:
    """Read a positional argument, which may be a list, a tuple or einsum's pattern."""
    if isinstance(node, (ast.List, ast.Tuple)) and function in FUNCTION_NAMES:
        return _sequence(node, script)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        if function == "einsum" and position == 0:
            return Text(node.value, script.span(node))
    return expression(node, script)


def _sequence(node: ast.List | ast.Tuple, script: Script) -> Expr:
    items = tuple(
        _sequence(item, script)
        if isinstance(item, (ast.List, ast.Tuple))
        else expression(item, script)
        for item in node.elts
    )
    return Sequence(items, "[]" if isinstance(node, ast.List) else "()", script.span(node))


def _keyword(node: ast.keyword, script: Script, function: str) -> Keyword:
    if node.arg is None:
        hint = "write them out"
        raise script.error("`**` before an argument is not part of the layer language", node, hint)
    value = node.value
    made: Expr
    if isinstance(value, ast.Constant) and (value.value is None or isinstance(value.value, bool)):
        made = Flag(value.value, script.span(value))
    else:
        made = _argument(value, script, function, -1)
    return Keyword(fold(node.arg), made, script.span(node))


def _reduction(node: ast.Call, head: ast.Subscript, script: Script) -> Expr:
    """Read `sum[k, q: 2](body)`."""
    if not isinstance(head.value, ast.Name):
        hint = "indices are bound so: sum[k](x[k])"
        raise script.error("only a name can be called", head, hint)
    name = fold(head.value.id)
    if name not in REDUCTIONS:
        hint = f"indices are bound by {', '.join(REDUCTIONS)}"
        raise script.error(f"{name} binds no indices", head, hint)
    if len(node.args) != 1 or node.keywords:
        hint = f"write {name}[k](...)"
        raise script.error(f"{name}[...] takes one expression in parentheses", node, hint)
    binders = tuple(binder(item, script) for item in subscript_parts(head))
    return Reduction(name, binders, expression(node.args[0], script), script.span(node))


def binder(node: ast.expr, script: Script) -> Binder:
    """Read an index, `k` or `q: 2`, of a reduction or of a left side."""
    if isinstance(node, ast.Name):
        return Binder(fold(node.id), None, script.span(node))
    if isinstance(node, ast.Slice) and isinstance(node.lower, ast.Name) and node.step is None:
        extent = None if node.upper is None else expression(node.upper, script)
        if extent is not None:
            return Binder(fold(node.lower.id), extent, script.span(node))
    hint = "an index is a name, with its range if need be: k or q: 2"
    raise script.error("an index is expected here", node, hint)


def subscript_parts(node: ast.Subscript) -> list[ast.expr]:
    """Return what stands between a subscript's brackets, cut at the commas."""
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def _subscript(node: ast.expr, script: Script) -> Expr:
    node = cast(ast.Subscript, node)
    if isinstance(node.value, ast.Name) and fold(node.value.id) in FUNCTION_NAMES:
        name = fold(node.value.id)
        hint = f"write {name}[k](...)" if name in REDUCTIONS else f"call it: {name}(...)"
        raise script.error(f"{name} is a function, not an array", node.value, hint)
    parts = subscript_parts(node)
    if not parts:
        raise script.error("an empty subscript has no meaning", node, "leave it out")
    items = tuple(_item(part, script) for part in parts)
    if sum(isinstance(item, Dots) for item in items) > 1:
        hint = "keep one; it stands for all axes that are left"
        raise script.error("a subscript holds `...` once at most", node, hint)
    return Subscript(expression(node.value, script), items, script.span(node))


def _item(node: ast.expr, script: Script) -> Item:
    """Read one entry of a subscript."""
    if isinstance(node, ast.Constant) and node.value is Ellipsis:
        return Dots(script.span(node))
    if isinstance(node, ast.Constant) and node.value is None:
        return NewAxis(script.span(node))
    if isinstance(node, ast.Slice):
        lower, upper, step = (
            None if part is None else expression(part, script)
            for part in (node.lower, node.upper, node.step)
        )
        return Slice(lower, upper, step, script.span(node))
    return expression(node, script)


def _require_finite(made: Expr, script: Script) -> None:
    """Raise if a constant expression has no finite value in float64."""
    value = constant_value(made)
    if value is not None and not math.isfinite(value):
        hint = "numbers of a layer are finite in float64"
        raise script.error("this constant is not a finite number", made.span, hint)


def constant_value(expr: Expr) -> float | None:
    """Return the float64 value of arithmetic on literals, nan if it has none; else None."""
    match expr:
        case Number():
            return _rounded(expr.value)
        case Name(name="pi"):
            return math.pi
        case Unary(operator="-" | "+"):
            value = constant_value(expr.operand)
            return -value if value is not None and expr.operator == "-" else value
        case Binary():
            left, right = constant_value(expr.left), constant_value(expr.right)
            if left is None or right is None or expr.operator not in _ARITHMETIC:
                return None
            try:
                result = _ARITHMETIC[expr.operator](left, right)
            except (OverflowError, ZeroDivisionError):
                return math.nan
            return result if isinstance(result, float) else math.nan
        case _:
            return None


def _rounded(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


_ARITHMETIC: dict[str, Callable[[float, float], object]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    DOT: lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "**": lambda a, b: a**b,
}

_READERS: dict[type[ast.expr], Callable[[ast.expr, Script], Expr]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.BoolOp: _boolean,
    ast.Compare: _compare,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.Subscript: _subscript,
    ast.List: _stray_sequence,
    ast.Tuple: _stray_sequence,
}
