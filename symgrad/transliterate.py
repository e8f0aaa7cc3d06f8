"""Say mathematics in the characters an output can hold.

str, encoding -> transliterate -> str
Only what the encoding lacks is replaced, by what one would type instead: δ -> delta, ∂ -> d.
"""

from __future__ import annotations

import codecs
import unicodedata
from typing import TextIO

_TYPED = {
    "∂": "d", "∇": "grad ", "∑": "sum", "∏": "prod", "√": "sqrt", "∞": "inf",
    "·": "*", "⋅": "*", "⊙": "*", "×": "x", "−": "-", "′": "'", "″": "''",
    "→": "->", "↦": "->", "⇒": "=>", "←": "<-", "≤": "<=", "≥": ">=", "≠": "!=", "≈": "~",
    "∈": " in ", "‖": "||", "⊗": "(x)", "⌊": "floor(", "⌋": ")", "⌈": "ceil(", "⌉": ")",
    "⟨": "<", "⟩": ">", "…": "...", "–": "-", "—": "-", "“": '"', "”": '"', "‘": "'", "’": "'",
    "✓": "ok", "✗": "x", "•": "*", "─": "-", "│": "|", "ϵ": "epsilon", "ℓ": "l",
    "\u0302": "_hat", "\u0304": "_bar", "\u0303": "_tilde", "\u0307": "_dot",
}  # fmt: skip

_SCRIPT = {"<super>": "^", "<sub>": "_"}


def transliterate(text: str, encoding: str = "ascii") -> str:
    """Return `text` with every character that `encoding` cannot hold written out."""
    return text.encode(encoding, "symgrad-ascii").decode(encoding)


def tolerate(stream: TextIO) -> None:
    """Let a text stream write out what its encoding cannot hold, instead of raising."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:  # a stream that a caller put in place may be anything
        reconfigure(errors="symgrad-ascii")


def _typed(character: str) -> str:
    """Return the ASCII one would type for one character."""
    if character.isascii():
        return character
    if character in _TYPED:
        return _TYPED[character]
    match unicodedata.name(character, "").split():
        case ["GREEK", "SMALL", "LETTER", *_, letter]:
            return letter.lower().replace("lamda", "lambda")
        case ["GREEK", "CAPITAL", "LETTER", *_, letter]:
            return letter.capitalize().replace("Lamda", "Lambda")
    if unicodedata.combining(character):
        return ""
    tag, _, codes = unicodedata.decomposition(character).partition(" ")
    if tag in _SCRIPT:
        return _SCRIPT[tag] + _spelled(codes)
    if tag:
        return _spelled(codes if tag.startswith("<") else f"{tag} {codes}")
    return f"\\u{ord(character):04x}"


def _spelled(codes: str) -> str:
    return "".join(_typed(chr(int(code, 16))) for code in codes.split())


def _written_out(error: UnicodeError) -> tuple[str, int]:
    """Answer a codec: the replacement, and where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_typed, error.object[error.start : error.end])), error.end


codecs.register_error("symgrad-ascii", _written_out)
