"""Python's own parser, with its complaints in the words and at the places of the layer language.

Script -> ast.Module
What Python calls invalid is told as what the author did: a keyword for a name, two neighbours.
"""

from __future__ import annotations

import ast
import keyword
import re
import warnings

from symgrad.errors import LayerSyntaxError
from symgrad.language.characters import Script, Token, scan, span_in
from symgrad.language.expressions import require_shallow

_JOIN_HINT = "neighbours are joined in one-liners only; write W @ x, W * x or W · x"
_LINE_HINT = "a line is `name = expression`, or `name: role[sizes]`"
_HINTS: tuple[tuple[str, str], ...] = (
    ("was never closed", "close it, or leave it out"),
    ("unmatched", "leave it out, or open it before"),
    ("closing parenthesis", "close what was opened last first"),
    ("indent", "all lines start in one column, those of a `def` further right"),
    ("unterminated", "close the string on its line"),
    ("decimal literal", "names do not start with a digit; products are written 2*x"),
    ("hexadecimal literal", "write the number in decimal digits"),
    ("leading zeros", "write the number without leading zeros"),
    ("keyword argument", "values without a name come first, and each name once"),
    ("nested", "name parts of it in lines of their own"),
    ("backslash", "nothing follows a `\\` on its line"),
    ("outside", "it has no place in a layer"),
    ("cannot assign", "the left side is a name, or a name with indices: y[i, j] = ..."),
    ("cannot delete", "it has no place in a layer"),
    ("annotat", "a declaration starts with a bare name: x: input[n]"),
)
_OF_THE_LANGUAGE = frozenset("def return assert None True False and or not".split())
"""Python's words that have a place in a layer, or an error of their own."""


def python_tree(script: Script) -> ast.Module:
    """Parse Python text; its own errors become LayerSyntaxErrors at their place."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(script.code)
    except SyntaxError as error:
        raise keyword_as_name(script) or _translated(error, script) from None
    except (RecursionError, MemoryError):
        hint = "name parts of it in lines of their own"
        message = "this is nested too deeply to be read"
        raise LayerSyntaxError(message, None, script.source, hint) from None
    except ValueError as error:
        raise script.error(f"this is not a layer: {error}", None) from None
    require_shallow(tree, script)
    return tree


def keyword_as_name(script: Script) -> LayerSyntaxError | None:
    """Return the error for the first word of Python that stands where only a name can."""
    source = script.source
    blank = ("space", "comment")
    before: Token | None = None
    tokens = [token for token in scan(source) if token.kind not in blank]
    for token, after in zip(tokens, (*tokens[1:], None), strict=True):
        word = token.text
        if token.kind == "name" and keyword.iskeyword(word):
            declared = _starts_line(before) and after is not None and after.text in (":", "=", "[")
            announced = before is not None and before.text == "def"
            operand = word == "lambda" and (after is None or after.text in _AFTER_NAMES)
            if (declared and word not in ("else", "try", "finally")) or announced or operand:
                span = span_in(source, token.start, token.end)
                message = f"{word} is a word of Python and cannot be a name"
                hint = "write the letter: λ" if word == "lambda" else "choose another name"
                return LayerSyntaxError(message, span, source, hint)
        before = token
    return None


_AFTER_NAMES = frozenset("+ - * / ** @ ) ] , . = == < > <= >= [ & |".split())


def _starts_line(before: Token | None) -> bool:
    return before is None or before.kind == "newline" or before.text == ";"


def _translated(error: SyntaxError, script: Script) -> LayerSyntaxError:
    """Return Python's complaint with a place in the user's text."""
    line = min(max(error.lineno or 1, 1), len(script.code_lines))
    begin = script.code_lines[line - 1]
    stop = script.code_lines[line] if line < len(script.code_lines) else len(script.code)
    start = min(begin + max((error.offset or 1) - 1, 0), stop)
    end = start + 1
    if error.end_lineno == error.lineno and (error.end_offset or 0) > (error.offset or 0):
        end = min(begin + (error.end_offset or 1) - 1, stop)
    message = (error.msg or "invalid syntax").replace("'%'", "'·'").split(" (<")[0]
    if "unexpected indent" in message:
        row = script.code[begin:stop]
        start = begin + len(row) - len(row.lstrip())
        end = start + 1
    hint = next((hint for part, hint in _HINTS if part in message), None)
    if message.startswith("invalid syntax"):
        word = _stray_word(script, begin, stop) or _empty_brackets(script, begin, stop)
        if word is not None:
            return word
        hint = _JOIN_HINT if _stands_between_operands(script.code, start) else _LINE_HINT
        row = script.code[begin:stop]
        if re.match(r"\s*\w+\s+(input|param|const|index)\b", row):
            hint = "a declaration has a colon: x: input[n]"
        elif re.match(r"\s*\w+\s*:\s*(input|param|const|index)\b", row):
            hint = "sizes are separated by commas: W: param[m, n]"
        elif "|" in row:
            hint = "absolute values are written abs(a), norms norm(a); | joins masks"
    span = script.between(start, min(end, len(script.code)))
    return script.error(message, span, hint or _LINE_HINT)


def _stray_word(script: Script, begin: int, stop: int) -> LayerSyntaxError | None:
    """Return the error for the first word of Python on a line that is no word of a layer."""
    for found in re.finditer(r"(?<!\w)[a-z]+(?!\w)", script.code[begin:stop]):
        word = found[0]
        if keyword.iskeyword(word) and word not in _OF_THE_LANGUAGE:
            span = script.between(begin + found.start(), begin + found.end())
            message = f"{word} is a word of Python and not part of the layer language"
            return script.error(message, span, "if it is meant as a name, choose another one")
    return None


def _empty_brackets(script: Script, begin: int, stop: int) -> LayerSyntaxError | None:
    """Return the error for `x: input[]` or `a[]`."""
    found = re.search(r"(?<=[\w)\]])\[\s*\]", script.code[begin:stop])
    if found is None:
        return None
    span = script.between(begin + found.start(), begin + found.end())
    hint = "a scalar has no brackets, x: input; an array is read whole by its name"
    return script.error("empty brackets have no meaning", span, hint)


def _stands_between_operands(code: str, at: int) -> bool:
    """Return whether two operands stand side by side around an offset."""
    around = code[max(0, at - 40) : at + 40]
    return re.search(r"[\w)\]][ \t]+[^\W\d]", around) is not None
