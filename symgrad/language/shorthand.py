"""One-liners: neighbours are joined, names split, and what is not declared is assumed.

tokens, declarations beside the text -> Layer
The tokens are rewritten into Python text that knows the user's own places.
"""

from __future__ import annotations

import ast
import keyword
import re
from dataclasses import dataclass, replace

from symgrad.errors import Source
from symgrad.language.assume import assume
from symgrad.language.characters import (
    JOIN,
    TRANSPOSE,
    Piece,
    Token,
    assemble,
    fold,
    is_letter,
    symbol,
)
from symgrad.language.expressions import expression
from symgrad.language.python_tree import python_tree
from symgrad.language.statements import assignment
from symgrad.language.vocabulary import CONSTANTS, FUNCTION_NAMES, REDUCTIONS, RESERVED
from symgrad.syntax import Assign, Declaration, Layer

_PIECES = re.compile(r"[^\W\d_][0-9]*")
_OPENING, _CLOSING = "([{", ")]}"
_BLANK = ("space", "newline", "comment")


@dataclass(frozen=True, slots=True)
class _Line:
    """The tokens of a one-liner that matter, and what its names are known to be."""

    tokens: tuple[Token, ...]
    declared: frozenset[str]
    inputs: frozenset[str]
    operands: frozenset[str]
    indices: frozenset[str]
    keywords: frozenset[int]


def is_one_liner(tokens: tuple[Token, ...]) -> bool:
    """Return whether a text is a single expression or assignment without declarations."""
    depth, lines, fresh = 0, 0, True
    for token in tokens:
        if token.kind == "newline" and depth == 0:
            fresh = True
        if token.kind in _BLANK:
            continue
        if fresh:
            lines, fresh = lines + 1, False
            if token.kind == "string" or _is_statement_word(token.text):
                return False
        if token.kind != "operator":
            continue
        depth += (token.text in _OPENING) - (token.text in _CLOSING)
        if depth <= 0 and token.text in (":", ";", ":=", "->"):
            return False
        if token.text[-1] == "=" and token.text not in ("=", "==", "<=", ">=", "!="):
            return False
    return lines == 1


def _is_statement_word(text: str) -> bool:
    return keyword.iskeyword(text) and text not in ("not", "None", "True", "False", "lambda")


def shorthand(source: Source, tokens: tuple[Token, ...], stated: tuple[Declaration, ...]) -> Layer:
    """Read a one-liner; names not in `stated` get the roles and sizes of the language's rules.

    Raises LayerSyntaxError at the user's own place for what is not of the language.
    """
    used = tuple(token for token in tokens if token.kind not in _BLANK)
    line = _line(used, stated)
    pieces, splits = _rewritten(line)
    script = assemble(source, pieces)
    tree = python_tree(script)
    node = tree.body[0]
    if isinstance(node, ast.Expr):
        taken = {fold(token.text) for token in used} | {made.name for made in stated}
        output = next(n for n in ("y", "out", *(f"y{k}" for k in range(999))) if n not in taken)
        value = expression(node.value, script)
        statement = Assign(output, None, value, script.span(node))
        said = (*splits, f"the output is called {output}")
    elif isinstance(node, ast.Assign):
        made = assignment(node, script)
        if not isinstance(made, Assign):
            raise script.error("a start alone is no layer", node, "write the step too")
        statement, said = made, splits
    else:
        hint = "write y = ..., with the value behind it"
        raise script.error("a one-liner is an expression or an assignment", node, hint)
    return assume(statement, stated, source, said)


def _line(tokens: tuple[Token, ...], stated: tuple[Declaration, ...]) -> _Line:
    indices = _bound_names(tokens)
    words = _keyword_positions(tokens)
    sizes = (name for made in stated for axis in made.dims for name in axis.names)
    declared = frozenset((*(d.name for d in stated), *sizes))
    inputs = frozenset(d.name for d in stated if d.role == "input")
    if "x" not in declared:
        inputs |= {"x"}
    line = _Line(tokens, declared, inputs, frozenset(), indices, words)
    return replace(line, operands=_operands(line))


def _operands(line: _Line) -> frozenset[str]:
    """Return the letters that stand somewhere without a `(` behind them."""
    found: set[str] = set()
    for position in range(len(line.tokens)):
        if position not in line.keywords:
            cut = [fold(part) for part in _cut(line, position)]
            found.update(cut[:-1] if _before(line.tokens, position, "(") else cut)
    return frozenset(found)


def _before(tokens: tuple[Token, ...], position: int, mark: str) -> bool:
    """Return whether `mark` follows the token at a position."""
    return position + 1 < len(tokens) and tokens[position + 1].text == mark


def _keyword_positions(tokens: tuple[Token, ...]) -> frozenset[int]:
    """Return where a name is a keyword's (`axis=`), an attribute, or the assigned name."""
    found = []
    for position, token in enumerate(tokens):
        after_dot = position > 0 and tokens[position - 1].text == "."
        if token.kind == "name" and (_before(tokens, position, "=") or after_dot):
            found.append(position)
    return frozenset(found)


def _bound_names(tokens: tuple[Token, ...]) -> frozenset[str]:
    """Return the indices of the left side and of reductions."""
    found: set[str] = set()
    equals = next((p for p, t in enumerate(tokens) if t.text == "="), 0)
    for position, token in enumerate(tokens[:-1]):
        left = position == 0 and equals > 1
        if tokens[position + 1].text != "[" or not (left or fold(token.text) in REDUCTIONS):
            continue
        for inner in tokens[position + 2 :]:
            if inner.text == "]":
                break
            if inner.kind == "name":
                found.add(fold(inner.text))
    return frozenset(found)


def _rewritten(line: _Line) -> tuple[list[Piece], tuple[str, ...]]:
    """Return Python text with a product sign between neighbours, and how names were split."""
    pieces: list[Piece] = []
    splits: dict[str, None] = {}
    previous: Token | None = None
    reductions = _reduction_ends(line.tokens)
    for position, token in enumerate(line.tokens):
        if previous is not None:
            joined = previous.start not in reductions and _joins(line, previous, position)
            blank = f" {JOIN} " if joined else _gap(previous, token)
            pieces.append(Piece(blank, token.start, token.start))
        cut = _cut(line, position)
        if len(cut) > 1:
            splits[f"{token.text} is read as {' '.join(cut)}"] = None
        at = token.start
        for number, text in enumerate(cut):
            if number:
                pieces.append(Piece(f" {JOIN} ", at, at))
            pieces.append(Piece(text, at, at + len(text)))
            at += len(text)
        if not cut:
            pieces.append(symbol(token))
        previous = token
    return pieces, tuple(splits)


def _gap(previous: Token, token: Token) -> str:
    """Return a space where the user left one, so that words stay apart."""
    return " " if previous.end < token.start else ""


def _reduction_ends(tokens: tuple[Token, ...]) -> frozenset[int]:
    """Return where the `]` of `sum[k]` stand: what follows them is the body."""
    found: list[int] = []
    opened: list[bool] = []
    for position, token in enumerate(tokens):
        if token.text == "[":
            opened.append(position > 0 and fold(tokens[position - 1].text) in REDUCTIONS)
        elif token.text == "]" and opened and opened.pop():
            found.append(token.start)
    return frozenset(found)


def _joins(line: _Line, left: Token, position: int) -> bool:
    """Return whether the token at a position is a factor right behind the operand `left`."""
    right = line.tokens[position]
    if not (_ends_operand(left) and _starts_operand(right)):
        return False
    if right.text != "(" or left.kind != "name":
        return True
    if position - 1 in line.keywords and line.tokens[position - 2].text == ".":
        return True
    return not _is_function(line, position - 1)


def _ends_operand(token: Token) -> bool:
    if token.kind == "name":
        return not keyword.iskeyword(token.text)
    return token.kind == "number" or token.text in (")", "]", TRANSPOSE)


def _starts_operand(token: Token) -> bool:
    if token.kind == "name":
        return not keyword.iskeyword(token.text)
    return token.kind == "number" or token.text == "("


def _is_function(line: _Line, position: int) -> bool:
    """Return whether the name before a `(` is called; else it is a factor."""
    name = fold(line.tokens[position].text)
    if name in FUNCTION_NAMES:
        return True
    if name in line.declared or name in line.indices or name in CONSTANTS:
        return False
    cut = _cut(line, position)
    if len(cut) > 1:
        return False
    if name in line.operands:
        return False
    return not (is_letter(name) and name[0].isupper() and name[0].isascii())


def _cut(line: _Line, position: int) -> tuple[str, ...]:
    """Return the letters an unknown name stands for; the name itself, or () if it is no name."""
    token = line.tokens[position]
    if token.kind != "name":
        return ()
    name = fold(token.text)
    known = name in RESERVED or name in line.declared or name in line.indices
    if known or is_letter(name) or position in line.keywords or keyword.iskeyword(name):
        return (token.text,)
    parts = _PIECES.findall(token.text)
    if "".join(parts) != token.text or not all(is_letter(fold(part)) for part in parts):
        return (token.text,)
    return tuple(parts) if fold(parts[-1]) in line.inputs else (token.text,)
