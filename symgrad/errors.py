"""What can go wrong, said once: what, where, what to do.

Message, Span, Source -> SymgradError
The place is kept apart from the message, so that every reader prints the same caret.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass

WIDEST = 100
"""Longer lines are shown only around the place in question."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the user's text; lines and columns count from 1, columns in characters."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Source:
    """A user's text and the name under which errors speak of it."""

    text: str
    filename: str = "<layer>"

    @property
    def lines(self) -> list[str]:
        """The lines of the text, cut at the ends of lines that Python knows."""
        return re.split(r"\r\n|\r|\n", self.text)

    def show(self, span: Span) -> str:
        """Return the line of `span` with a caret line below it, indented by four spaces."""
        lines = self.lines
        if not 1 <= span.line <= len(lines):
            return ""
        line = lines[span.line - 1]
        end = span.end_column if span.end_line == span.line else len(line.rstrip()) + 1
        width = end - span.column
        if len(line) > WIDEST:
            line, begin, width = _excerpt(line, span.column - 1, width)
            return f"    {line}\n    {' ' * begin}{'^' * max(1, width)}"
        pad = "".join("\t" if c == "\t" else " " for c in line[: span.column - 1])
        return f"    {line}\n    {pad}{'^' * max(1, width)}"


def _excerpt(line: str, begin: int, width: int) -> tuple[str, int, int]:
    """Return a stretch of a long line around a place, where the place begins in it, its width."""
    first = max(0, min(begin - WIDEST // 3, len(line) - WIDEST))
    last = first + WIDEST
    before, behind = "..." if first else "", "..." if last < len(line) else ""
    shown = line[first:last].replace("\t", " ")
    return f"{before}{shown}{behind}", begin - first + len(before), min(width, last - begin)


def similar(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like a wrong one, if any is."""
    names = sorted(set(known))
    for candidate in names:
        if candidate.casefold() == name.casefold() != "":
            return candidate
    for candidate in names:
        if len(name) > 2 and sorted(candidate) == sorted(name):  # two letters changed places
            return candidate
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return near[0] if near else None


class SymgradError(Exception):
    """Base of all errors symgrad raises on purpose."""

    def __init__(
        self,
        message: str,
        span: Span | None = None,
        source: Source | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.source = source
        self.hint = hint

    def located(self, source: Source) -> SymgradError:
        """Fill in the source text if the raiser knew only the span; return the error itself.

        What was declared beside a text has no place in it.
        """
        if self.source is None:
            self.source = source
        if self.span is not None and not self.span.line:
            self.span = None
        return self

    def __str__(self) -> str:
        place = ""
        picture = ""
        if self.span is not None and self.source is not None:
            place = f"{self.source.filename}:{self.span.line}:{self.span.column}: "
            shown = self.source.show(self.span)
            picture = "\n" + shown if shown else ""
        elif self.source is not None and not self.source.filename.startswith("<"):
            place = f"{self.source.filename}: "
        hint = f"\n{self.hint}" if self.hint else ""
        return f"{place}{self.message}{picture}{hint}"


class LayerSyntaxError(SymgradError, ValueError):
    """The text is not a layer of the language."""


class ShapeError(SymgradError, ValueError):
    """Shapes, ranks or sizes do not fit together."""


class SelectionError(SymgradError, ValueError):
    """`wrt` names something that cannot be selected."""


class MissingKeyError(SelectionError, KeyError):
    """A result has nothing under a key."""


class ArgumentError(SymgradError, TypeError):
    """A call got the wrong number or kind of arrays."""


class TooLargeError(SymgradError, MemoryError):
    """An array is larger than the memory there is."""


class MissingExtraError(SymgradError, ImportError):
    """A library is not installed that the result asked for belongs to."""


class DerivationError(SymgradError, NotImplementedError):
    """The derivative asked for has no closed form here."""


class CodegenError(SymgradError, NotImplementedError):
    """The derivation cannot be turned into code as asked."""


class ValidationError(SymgradError, ArithmeticError):
    """Generated derivatives disagree with finite differences."""


class InternalError(SymgradError, RuntimeError):
    """Our own fault; please report it."""
