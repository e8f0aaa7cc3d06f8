"""The characters of a layer: tokens, the language's own symbols, and where each came from.

Source -> tokens -> Script
A script is Python text with, for every character, the place in the user's text it stands for.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from symgrad.errors import LayerSyntaxError, Source, Span

Kind = Literal["name", "number", "string", "comment", "newline", "space", "operator"]

DOT, HADAMARD, TRANSPOSE = "·", "⊙", "ᵀ"
JOIN = "%"
"""Stands for `·` in Python text: `%` is not in the language and binds like `*`."""

_DOTS = "·\u0387⋅∙"
_LONGEST_NUMBER = 4000
"""Python refuses to read integers of more digits; more than 309 are no double anyway."""
_NEWLINE = re.compile(r"\r\n|\r|\n")
_SPACE = re.compile(r"(?:[ \t\f]|\\(?:\r\n|\r|\n))+")
_COMMENT = re.compile(r"#[^\r\n]*")
_NUMBER = re.compile(
    r"0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|"
    r"(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?"
)
_STRING = re.compile(
    r"(?i:[rbuf]|br|rb|fr|rf)?"
    r"(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"
    r"\"(?:\\.|[^\"\\\r\n])*\"|'(?:\\.|[^'\\\r\n])*')",
    re.DOTALL,
)
_OPERATOR = re.compile(r"\*\*=?|//=?|->|:=|<<=?|>>=?|[-+*/%@&|^=!<>]=|\.\.\.|.", re.DOTALL)

_SUBSCRIPTS = {chr(0x2080 + d): str(d) for d in range(10)}
_POWERS = {"¹": "1", "²": "2", "³": "3", "⁰": "0"} | {chr(0x2074 + d): str(4 + d) for d in range(6)}
_HINTS = {
    "−": "write the hyphen: a - b",
    "–": "write the hyphen: a - b",
    "×": "write a * b (element-wise) or A @ B (matrices)",
    "∗": "write a * b",
    "÷": "write a / b",
    "^": "powers are written a ** b",
    "%": "the language has no remainder; products are *, @ or ·",
    "′": "derivatives are derived, not written; choose another name",
    "‘": "strings take straight quotes",
    "’": "strings take straight quotes",
    "“": "strings take straight quotes",
    "”": "strings take straight quotes",
    "≤": "write <=",
    "≥": "write >=",
    "≠": "write !=",
    "√": "write sqrt(a)",
    "∑": "write sum[k](...)",
    "∏": "write prod[k](...)",
    "∞": "there is no infinity in a layer",
    "∂": "derivatives are derived, not written",
    "∇": "derivatives are derived, not written",
    "‖": "write norm(a)",
    "∥": "write norm(a)",
    "⊗": "write outer(a, b)",
    "∘": "write f(g(a)); element-wise products are a * b",
    "⟨": "write dot(a, b)",
    "⟩": "write dot(a, b)",
    "…": "write three dots: ...",
    "½": "write 0.5",
    "（": "write the plain (",
    "）": "write the plain )",
    "，": "write the plain comma",
    "$": "names are Python identifiers",
    "?": "names are Python identifiers",
    "!": "masks are negated by ~",
}


@dataclass(frozen=True, slots=True)
class Token:
    """A stretch of the user's text; `start` and `end` are offsets in it."""

    kind: Kind
    text: str
    start: int

    @property
    def end(self) -> int:
        """Offset just behind it."""
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Piece:
    """Python text that stands for the user's characters `start:end`."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Script:
    """Python text to be parsed, and the place in the user's text of each of its characters."""

    source: Source
    code: str
    origin: tuple[int, ...]
    code_lines: tuple[int, ...]
    user_lines: tuple[int, ...]

    def offset(self, line: int, byte: int) -> int:
        """Return the offset in `code` of a place as `ast` gives it."""
        start = self.code_lines[line - 1]
        stop = self.code_lines[line] if line < len(self.code_lines) else len(self.code)
        row = self.code[start:stop]
        return start + (byte if row.isascii() else len(row.encode()[:byte].decode()))

    def between(self, start: int, end: int) -> Span:
        """Return the user's span for the stretch `start:end` of `code`."""
        first = self.origin[min(start, len(self.code))]
        last = self.origin[end - 1] + 1 if start < end <= len(self.code) else first
        return spread(self.user_lines, first, max(first, last))

    def span(self, node: ast.AST) -> Span:
        """Return where the user wrote a node."""
        return self.between(*self.stretch(node))

    def stretch(self, node: ast.AST) -> tuple[int, int]:
        """Return a node's first offset in `code` and the one behind its last."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end_line = getattr(node, "end_lineno", None) or line
        end_column = getattr(node, "end_col_offset", None) or column
        return self.offset(line, column), self.offset(end_line, end_column)

    def operator(self, left: ast.AST, right: ast.AST) -> Span:
        """Return where the operator between two neighbouring nodes stands."""
        start, stop = self.stretch(left)[1], self.stretch(right)[0]
        found = re.search(r"[^\s()\\]+(?:\s+(?:in|not)\b)?", self.code[start:stop])
        if found is None:
            return self.between(start, stop)
        return self.between(start + found.start(), start + found.end())

    def error(
        self, message: str, where: ast.AST | Span | None, hint: str | None = None
    ) -> LayerSyntaxError:
        """Return a syntax error at a node or span of the user's text."""
        span = self.span(where) if isinstance(where, ast.AST) else where
        return LayerSyntaxError(message, span, self.source, hint)


def scan(source: Source) -> tuple[Token, ...]:
    """Cut the text into tokens that cover it without gaps.

    Raises LayerSyntaxError at a character that has no place in a layer.
    """
    text = source.text
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        kind, end = _next(text, at)
        token = Token(kind, text[at:end], at)
        if kind == "operator":
            _refuse_odd(source, token)
        elif kind == "number" and len(token.text) > _LONGEST_NUMBER:
            span = span_in(source, at, end)
            hint = "numbers of a layer are finite in float64"
            raise LayerSyntaxError("this number has too many digits", span, source, hint)
        tokens.append(token)
        at = end
    return tuple(tokens)


def _next(text: str, at: int) -> tuple[Kind, int]:
    """Return the kind of the token at an offset, and where it ends."""
    patterns: tuple[tuple[Kind, re.Pattern[str]], ...] = (
        ("newline", _NEWLINE),
        ("space", _SPACE),
        ("comment", _COMMENT),
        ("string", _STRING),
        ("number", _NUMBER),
    )
    for kind, pattern in patterns:
        found = pattern.match(text, at)
        if found:
            return kind, found.end()
    end = at
    while end < len(text) and _in_name(text[end], first=end == at):
        end += 1
    if end > at:
        return "name", end
    found = _OPERATOR.match(text, at)
    return "operator", found.end() if found else at + 1


def _in_name(character: str, *, first: bool) -> bool:
    if character == TRANSPOSE or character in _DOTS:
        return False
    return (character if first else "a" + character).isidentifier()


def _refuse_odd(source: Source, token: Token) -> None:
    """Raise at characters that only look like the language's."""
    mark = token.text[0]
    hint: str | None = None
    if mark in _SUBSCRIPTS:
        hint = f"digits follow a name on the line: {_name_before(source, token)}{_SUBSCRIPTS[mark]}"
    elif mark in _POWERS:
        hint = f"powers are written with **: {_name_before(source, token)}**{_POWERS[mark]}"
    elif mark in _HINTS and token.text != "!=":
        hint = _HINTS[mark]
    elif mark == "'" and token.start and _in_name(source.text[token.start - 1], first=False):
        hint = _HINTS["′"]
    elif mark == "\0" or 0xD800 <= ord(mark) <= 0xDFFF:
        hint = "a layer is UTF-8 text"
    if hint is not None:
        shown = mark if mark.isprintable() else f"U+{ord(mark):04X}"
        message = f"the character {shown} is not part of the layer language"
        raise LayerSyntaxError(message, span_in(source, token.start, token.start + 1), source, hint)


def _name_before(source: Source, token: Token) -> str:
    start = token.start
    while start and _in_name(source.text[start - 1], first=False):
        start -= 1
    return source.text[start : token.start] or "x"


def translate(source: Source, tokens: tuple[Token, ...]) -> Script:
    """Return a full layer as Python text: symbols replaced, common indentation removed."""
    margin = _common_margin(tokens)
    pieces = []
    fresh, depth = True, 0
    for token in tokens:
        cut = margin if fresh and depth == 0 and token.kind == "space" else 0
        pieces.append(Piece("", token.start, token.start + cut))
        pieces.append(symbol(token, cut))
        depth += (token.text in "([{") - (token.text in ")]}") if token.kind == "operator" else 0
        fresh = token.kind == "newline"
    return assemble(source, pieces)


def _common_margin(tokens: tuple[Token, ...]) -> int:
    """Return the indentation of the first line that holds a statement."""
    previous: Token | None = None
    for token in tokens:
        if token.kind in ("space", "newline", "comment"):
            previous = token
            continue
        return len(previous.text) if previous is not None and previous.kind == "space" else 0
    return 0


def symbol(token: Token, cut: int = 0) -> Piece:
    """Return the Python text of one token, without its first `cut` characters."""
    text = token.text[cut:]
    if token.kind == "operator":
        if text in _DOTS:
            text = JOIN
        elif text == HADAMARD:
            text = " * "
        elif text == TRANSPOSE:
            text = " .T "
    return Piece(text, token.start + cut, token.end)


def assemble(source: Source, pieces: Iterable[Piece]) -> Script:
    """Join pieces into a script that remembers where each character came from."""
    code: list[str] = []
    origin: list[int] = []
    made = tuple(pieces)
    for piece in made:
        code.append(piece.text)
        if len(piece.text) == piece.end - piece.start:
            origin.extend(range(piece.start, piece.end))
        else:
            origin.extend([piece.start] * len(piece.text))
    text = "".join(code)
    end = max((piece.end for piece in made), default=0)
    return Script(source, text, (*origin, end), line_starts(text), line_starts(source.text))


def line_starts(text: str) -> tuple[int, ...]:
    """Return the offset of every line's first character."""
    return (0, *(found.end() for found in _NEWLINE.finditer(text)))


def spread(lines: tuple[int, ...], start: int, end: int) -> Span:
    """Return the span of the offsets `start:end` in a text with these line starts."""
    first, last = bisect_right(lines, start) - 1, bisect_right(lines, end) - 1
    return Span(first + 1, start - lines[first] + 1, last + 1, end - lines[last] + 1)


def span_in(source: Source, start: int, end: int) -> Span:
    """Return the span of the offsets `start:end` of a source."""
    return spread(line_starts(source.text), start, end)


def fold(name: str) -> str:
    """Return a name as Python reads it (NFKC), with `π` as `pi`."""
    folded = unicodedata.normalize("NFKC", name)
    return "pi" if folded == "π" else folded


def is_letter(name: str) -> bool:
    """Return whether a name is one Latin or Greek letter, digits allowed behind it."""
    if not name or not name[0].isalpha() or not all(c in "0123456789" for c in name[1:]):
        return False
    return unicodedata.name(name[0], "").startswith(("LATIN", "GREEK"))
