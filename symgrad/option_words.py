"""What the options of the command line say: selections, bindings, sizes, formats.

words -> values that the library takes
A word that says nothing is an ArgumentError with an example.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from symgrad.errors import ArgumentError

if TYPE_CHECKING:
    from symgrad.explain import Explanation


class Style(StrEnum):
    """How a formula names what it multiplies."""

    INDEX = "index"
    MATRIX = "matrix"


class Format(StrEnum):
    """What a derivation is written as; `tex` is a whole document, `latex` a part of one."""

    TEXT = "text"
    LATEX = "latex"
    TEX = "tex"
    MARKDOWN = "markdown"
    HTML = "html"


def wrt_of(options: list[str] | None) -> str | list[str]:
    """Return the selection: one word as it is, several as a list."""
    names = names_of(options)
    if not names:
        return "params"
    return names[0] if len(names) == 1 else names


def names_of(options: list[str] | None) -> list[str] | None:
    """Return the names that options give, separated by commas; None if there is no option.

    Commas in brackets separate nothing: `W[2:, :]` is one name with a part.
    """
    if options is None:
        return None
    names = [name.strip() for option in options for name in _split(option)]
    return [name for name in names if name]


def _split(option: str) -> list[str]:
    """Return the pieces of an option between commas outside brackets."""
    pieces, depth = [""], 0
    for character in option:
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            pieces.append("")
        else:
            pieces[-1] += character
    return pieces


def _pairs(options: list[str] | None, option_name: str, example: str) -> dict[str, str]:
    """Split NAME=VALUE options, which commas may also join."""
    pairs: dict[str, str] = {}
    for option in options or ():
        for part in option.split(","):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            if not (name and equals and value):
                raise ArgumentError(
                    f"{option_name} {part!r} is not NAME=VALUE",
                    hint=f"write {option_name} {example}",
                )
            if pairs.setdefault(name, value) != value:
                raise ArgumentError(f"{option_name} gives {name} twice: {pairs[name]} and {value}")
    return pairs


def bindings_of(options: list[str] | None) -> dict[str, str]:
    """Return --set as functions by name."""
    return _pairs(options, "--set", "σ=tanh")


def sizes_of(options: list[str] | None) -> dict[str, int]:
    """Return --dim as sizes by name."""
    sizes: dict[str, int] = {}
    for name, value in _pairs(options, "--dim", "m=1").items():
        if not (value.isascii() and value.isdigit()):
            raise ArgumentError(
                f"--dim {name}={value}: a size is a whole number, 0 or more",
                hint=f"write --dim {name}=3",
            )
        sizes[name] = int(value)
    return sizes


def warm_of(warm: bool, dtypes: list[str] | None) -> tuple[str, ...]:
    """Return the dtypes that kernels are to be compiled for, none without --warm."""
    from symgrad.warm import dtypes_of

    if dtypes is not None and not warm:
        raise ArgumentError("--dtype says what --warm compiles for", hint="give both, or none")
    return dtypes_of(dtypes or warm)


def format_of(output: Path | None) -> Format:
    """Return the format that the ending of a file stands for."""
    endings = {".tex": Format.TEX, ".md": Format.MARKDOWN, ".html": Format.HTML}
    return endings.get(output.suffix, Format.TEXT) if output else Format.TEXT


def written(derivation: Explanation, form: Format, style: Style) -> str:
    """Return a derivation in a format."""
    letters: Literal["index", "matrix"] = "matrix" if style is Style.MATRIX else "index"
    match form:
        case Format.TEXT:
            return derivation.text(style=letters)
        case Format.LATEX:
            return derivation.latex(style=letters)
        case Format.TEX:
            return derivation.tex(style=letters)
        case Format.MARKDOWN:
            return derivation.markdown(style=letters)
        case Format.HTML:
            return derivation.html(style=letters)


def comment(words: str, form: Format) -> str:
    """Return words as a remark at the end of a file of that format."""
    match form:
        case Format.TEXT:
            return f"\n{words}"
        case Format.LATEX | Format.TEX:
            return f"% {words}"
        case Format.MARKDOWN | Format.HTML:
            return f"\n<!-- {words} -->"
