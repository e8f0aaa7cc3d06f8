"""Declarations: roles, axes and defaults, from a layer's text or from strings beside it.

ast.AnnAssign | {"W": "m n"} -> Declaration
Axes become dims in canonical form here, so that equal polynomials are equal everywhere.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping
from typing import cast

from symgrad.dims import Dim
from symgrad.errors import ArgumentError, LayerSyntaxError, Source, similar
from symgrad.language.characters import Script, fold, scan, translate
from symgrad.language.expressions import constant_value, expression
from symgrad.language.vocabulary import ROLES
from symgrad.syntax import Declaration, Role

_LARGEST = 2**63
_MOST_TERMS = 200
_FORMS = "x: input[n], t: index(v)[T], W: param[m, n], c: const[n]"


def declaration(node: ast.AnnAssign, script: Script) -> Declaration:
    """Read `name: role[dims] = default`."""
    if not isinstance(node.target, ast.Name) or not node.simple:
        raise script.error("a declaration starts with a bare name", node.target, _FORMS)
    role, vocabulary, axes = _annotation(node.annotation, script)
    default = None
    if node.value is not None:
        if role != "const" or axes:
            hint = "only a scalar const has a default: eps: const = 1e-5"
            raise script.error("this declaration has no default", node.value, hint)
        default = _default(node.value, script)
    return Declaration(
        fold(node.target.id),
        role,
        tuple(dim(axis, script) for axis in axes),
        vocabulary,
        default,
        script.span(node),
        tuple(script.span(axis) for axis in axes),
    )


def _annotation(node: ast.expr, script: Script) -> tuple[Role, Dim | None, list[ast.expr]]:
    """Return the role, the vocabulary of an index, and the axes."""
    axes: list[ast.expr] = []
    if isinstance(node, ast.Subscript):
        axes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if not axes:
            raise script.error("an axis is missing", node, "a scalar has no brackets: x: input")
        node = node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "index":
        if len(node.args) != 1 or node.keywords:
            raise script.error("an index states how many values it has", node, "t: index(v)[T]")
        return "index", dim(node.args[0], script), axes
    if not isinstance(node, ast.Name) or node.id not in ROLES:
        raise script.error("a role is expected here", node, _role_hint(node))
    if node.id == "index":
        raise script.error("an index states how many values it has", node, "t: index(v)[T]")
    return cast(Role, node.id), None, axes


_ROLE_WORDS = {
    "input": "in arg argument feature features",
    "param": "parameter weight bias variable",
    "const": "constant buffer hyperparameter",
    "index": "indices int integer token",
}
"""What others call the roles, in small letters."""


def _role_hint(node: ast.expr) -> str:
    """Return how to write the role that was meant."""
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    word = node.func if isinstance(node, ast.Call) else node
    if not isinstance(word, ast.Name):
        return f"roles are declared so: {_FORMS}"
    if called and word.id in ROLES:
        return f"sizes stand in brackets: {word.id}[n]"
    plain = word.id.casefold()
    role = next((r for r, words in _ROLE_WORDS.items() if plain in words.split()), None)
    role = role or similar(word.id, ROLES)
    return f"did you mean {role}?" if role else f"roles are declared so: {_FORMS}"


def _default(node: ast.expr, script: Script) -> int | float:
    made = expression(node, script)
    value = constant_value(made)
    if value is None or not math.isfinite(value):
        raise script.error("a default is a number", node, "eps: const = 1e-5")
    sign, literal = 1, node
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, literal = -1, node.operand
    if isinstance(literal, ast.Constant) and isinstance(literal.value, int):
        return sign * literal.value
    return value


def dim(node: ast.expr, script: Script) -> Dim:
    """Read an axis: a polynomial of dim names with integer coefficients and `//`.

    Raises LayerSyntaxError if it is anything else, or a negative number.
    """
    made = _polynomial(node, script)
    if made.constant is not None and made.constant < 0:
        hint = "a size is 0 or more"
        raise script.error(f"an axis cannot have {made.constant} elements", node, hint)
    return made


def _polynomial(node: ast.expr, script: Script) -> Dim:
    match node:
        case ast.Name():
            return Dim.of(fold(node.id))
        case ast.Constant(value=int(value)) if not isinstance(value, bool) and value < _LARGEST:
            return Dim.of(value)
        case ast.UnaryOp(op=ast.USub()):
            return -_polynomial(node.operand, script)
        case ast.UnaryOp(op=ast.UAdd()):
            return _polynomial(node.operand, script)
        case ast.BinOp():
            made = _combined(node, script)
            if len(made.terms) > _MOST_TERMS or any(abs(c) >= _LARGEST for _, c in made.terms):
                raise script.error("this size is too large", node, "give it a name of its own")
            return made
        case _:
            hint = "sizes are names, integers, and their polynomials: n, 3, h*d, (t - k)//2 + 1"
            raise script.error("a size is expected here", node, hint)


def _combined(node: ast.BinOp, script: Script) -> Dim:
    left, right = _polynomial(node.left, script), _polynomial(node.right, script)
    match node.op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult() | ast.Mod():
            if len(left.terms) * len(right.terms) <= 4 * _MOST_TERMS:
                return left * right
        case ast.FloorDiv():
            if right.constant is None or right.constant <= 0:
                hint = "write (t - k)//2"
                raise script.error("a size is divided by a positive integer only", node.right, hint)
            return left // right.constant
        case ast.Pow():
            power = right.constant
            if power is not None and 0 <= power <= 8 and len(left.terms) <= 3:
                result = Dim.of(1)
                for _ in range(power):
                    result = result * left
                return result
        case ast.Div():
            place = script.operator(node.left, node.right)
            raise script.error("a size is divided by //", place, "write (t - k)//2")
    raise script.error("this is not a size", node, "sizes are polynomials: n, h*d, (t - k)//2 + 1")


def given(
    inputs: Mapping[str, str] | None,
    params: Mapping[str, str] | None,
    consts: Mapping[str, str] | None,
) -> tuple[Declaration, ...]:
    """Return the declarations stated beside a text: `{"W": "m n"}`, "" for a scalar.

    Among inputs, "index(v)" and "index(v)[T]" declare indices, as in a text.

    Raises LayerSyntaxError if two names fold together or a size cannot be read.
    """
    made: dict[str, tuple[str, Declaration]] = {}
    roles: tuple[tuple[Role, Mapping[str, str] | None], ...] = (
        ("input", inputs),
        ("param", params),
        ("const", consts),
    )
    for role, table in roles:
        for written, sizes in _table(role, table):
            name = fold(written)
            if name in made:
                other = made[name][0]
                same = "" if other == written else f" (Python folds {other} and {written} alike)"
                hint = "give each array one role"
                raise LayerSyntaxError(f"{name} is declared twice{same}", hint=hint)
            made[name] = (written, _stated(role, written, sizes))
    return tuple(entry for _, entry in made.values())


def _table(role: Role, table: object) -> Iterator[tuple[str, str]]:
    """Yield the entries of one mapping; raise ArgumentError if it is none."""
    hint = f'as in {role}s={{"W": "m n"}}, "" for a scalar'
    if table is None:
        return
    if not isinstance(table, Mapping):
        message = f"{role}s is of type {type(table).__name__}, expected a mapping"
        raise ArgumentError(message, hint=hint)
    for name, sizes in table.items():
        if not isinstance(name, str) or not isinstance(sizes, str):
            message = f"{role}s holds {name!r}: {sizes!r}, expected a name and its sizes as strings"
            raise ArgumentError(message, hint=hint)
        yield name, sizes


def _stated(role: Role, written: str, sizes: str) -> Declaration:
    name = fold(written)
    if not name.isidentifier():
        hint = "names are Python identifiers"
        if "." in written:
            hint = f"a text calls it {written.replace('.', '_')}"
        raise LayerSyntaxError(f"{written!r} is not a name", hint=hint)
    source = Source(sizes.strip(), f'{role}s["{name}"]')
    if re.match(r"index\b", source.text):
        return _stated_index(role, name, source)
    return Declaration(name, role, sizes_in(source.text, source.filename))


def _stated_index(role: Role, name: str, source: Source) -> Declaration:
    """Read `index(v)[T]` beside a text."""
    form = f'write inputs={{"{name}": "index(v)"}}, or "index(v)[T]" for T indices a sample'
    if role != "input":
        message = f"{source.filename}: indices are per-sample, and are declared among inputs"
        raise LayerSyntaxError(message, hint=form)
    script = translate(source, scan(source))
    try:
        tree = ast.parse(script.code, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    if not isinstance(tree, (ast.Call, ast.Subscript)):
        message = f"{source.filename}: {source.text!r} declares no index"
        raise LayerSyntaxError(message, hint=form)
    stated, vocabulary, axes = _annotation(tree, script)
    return Declaration(name, stated, tuple(dim(a, script) for a in axes), vocabulary)


def sizes_in(text: str, what: str) -> tuple[Dim, ...]:
    """Read sizes given beside a text: between spaces, or between commas if there are any.

    Arithmetic with spaces around its signs, "n - 1", is one size; `what` is what errors call it.
    """
    pieces = text.split()
    if "," in text:
        pieces = text.strip().removesuffix(",").split(",")
    elif any(piece in _SIGNS for piece in pieces):
        pieces = [text]
    return tuple(size(piece, what) for piece in pieces)


_SIGNS = frozenset(("+", "-", "*", "//", "**"))


def size(text: str, what: str) -> Dim:
    """Read one size given beside a text; `what` is what errors call it."""
    source = Source(text.strip(), what)
    script = translate(source, scan(source))
    return dim(_parsed(script), script)


def _parsed(script: Script) -> ast.expr:
    try:
        return ast.parse(script.code, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        hint = 'sizes are separated by spaces, or by commas if they hold any: "t - k + 1, n"'
        raise LayerSyntaxError(
            f"{script.source.filename}: {script.source.text!r} is not a size", hint=hint
        ) from None


def ordered(
    declarations: tuple[Declaration, ...], names: tuple[str, ...]
) -> tuple[Declaration, ...]:
    """Sort declarations: inputs, params, consts, each by first appearance among `names`."""
    first = {name: position for position, name in reversed(tuple(enumerate(names)))}
    rank = {"input": 0, "index": 0, "param": 1, "const": 2}
    return tuple(sorted(declarations, key=lambda d: (rank[d.role], first.get(d.name, len(names)))))
