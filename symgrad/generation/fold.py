"""Long lines of generated code are folded at brackets, prose at words.

str -> str of at most 100 columns
The outermost long bracket is opened, its items fill the lines inside; a line without one stays.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

WIDTH = 100
OPENING, CLOSING = "([{", ")]}"


def fold(line: str) -> str:
    """Return one line of code, folded where it is too long and a place to fold is found."""
    if len(line) <= WIDTH:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    text = _bracketed(line.strip())
    group = max(_groups(text), key=lambda g: g[1] - g[0], default=None)
    if group is None:
        return line
    start, end = group
    inner = text[start + 1 : end]
    deeper = indent + "    "
    lines = _filled(_items(inner), deeper)
    return "\n".join((f"{indent}{text[: start + 1]}", *lines, f"{indent}{text[end:]}"))


def fold_prose(text: str, indent: str = "") -> str:
    """Return text with every long line broken at words; what follows hangs deeper by two."""
    folded = []
    for line in text.split("\n"):
        margin = line[: len(line) - len(line.lstrip())]
        hanging = indent + margin + ("  " if margin else "")
        pieces = textwrap.wrap(
            line, WIDTH - len(indent), subsequent_indent=hanging[len(indent) :],
            break_long_words=False, break_on_hyphens=False, drop_whitespace=True,
        )  # fmt: skip
        folded += pieces if len(line) > WIDTH - len(indent) else [line]
    return f"\n{indent}".join(folded)


def _bracketed(text: str) -> str:
    """Return a statement whose bare tuple, on the left or returned, stands in parentheses."""
    match = re.fullmatch(r"((?:\w+, )+\w+) = (\w+)", text)
    if match:
        return f"({match[1]}) = {match[2]}"
    match = re.fullmatch(r"return ((?:\w+, )+\w+)", text)
    return f"return ({match[1]})" if match else text


def _depths(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield position, character and bracket depth outside strings; a bracket counts as inside."""
    depth, quote = 0, ""
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote and text[place - 1] != "\\" else quote
            continue
        if character in "\"'":
            quote = character
        depth += character in OPENING
        yield place, character, depth
        depth -= character in CLOSING


def _groups(text: str) -> list[tuple[int, int]]:
    """Return where the outermost brackets open and close; subscripts are never opened."""
    found, start = [], 0
    for place, character, depth in _depths(text):
        if depth == 1 and character in OPENING:
            start = place
        elif depth == 1 and character in CLOSING and not (
            character == "]" and start and (text[start - 1].isalnum() or text[start - 1] in "_)")
        ):
            found.append((start, place))
    return found


def _items(inner: str) -> list[str]:
    """Return what stands between the commas, commas kept, or what operators join."""
    if " for " in inner and "," not in inner:
        return [inner]
    cuts = [p + 1 for p, c, d in _depths(inner) if c == "," and d == 0]
    if not cuts:
        cuts = _operators(inner)
    ends = [*cuts, len(inner)]
    pieces = [inner[a:b].strip() for a, b in zip([0, *ends], ends, strict=False)]
    return [p for p in pieces if p]


def _operators(text: str) -> list[int]:
    """Return where `+` and `-` stand outside brackets, or `*` and `/` if there are none."""
    outside = [(p, c) for p, c, depth in _depths(text) if c in "+-*/" and depth == 0]
    signs = [(p, c) for p, c in outside if p and text[p - 1] == text[p + 1 : p + 2] == " "]
    return [p for p, c in signs if c in "+-"] or [p for p, _ in signs]


def _filled(items: Sequence[str], indent: str) -> list[str]:
    """Return lines that hold as many items each as fit."""
    lines: list[str] = []
    pieces: list[str] = []
    for item in items:
        too_long = len(indent) + len(item) > WIDTH and not _groups(item)
        ends = [*(_operators(item) if too_long else ()), len(item)]
        pieces += [item[a:b].strip() for a, b in zip([0, *ends], ends, strict=False)]
    for item in pieces:
        if lines and len(lines[-1]) + 1 + len(item) <= WIDTH and "\n" not in lines[-1]:
            lines[-1] += f" {item}"
        else:
            lines.append(fold(indent + item))
    return lines
