"""What can go wrong, said once: what, where, what to do.

Message, Span, Source -> SymgradError
The place is kept apart from the message, so that every reader prints the same caret.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


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

    def show(self, span: Span) -> str:
        """Return the line of `span` with a caret line below it, indented by four spaces."""
        lines = re.split(r"\r\n|\r|\n", self.text)
        if not 1 <= span.line <= len(lines):
            return ""
        line = lines[span.line - 1]
        width = span.end_column - span.column if span.end_line == span.line else 1
        pad = "".join("\t" if c == "\t" else " " for c in line[: span.column - 1])
        return f"    {line}\n    {pad}{'^' * max(1, width)}"


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
        """Fill in the source text if the raiser knew only the span; return the error itself."""
        if self.source is None:
            self.source = source
        return self

    def __str__(self) -> str:
        place = ""
        picture = ""
        if self.span is not None and self.source is not None:
            place = f"{self.source.filename}:{self.span.line}:{self.span.column}: "
            shown = self.source.show(self.span)
            picture = "\n" + shown if shown else ""
        hint = f"\n{self.hint}" if self.hint else ""
        return f"{place}{self.message}{picture}{hint}"


class LayerSyntaxError(SymgradError, ValueError):
    """The text is not a layer of the language."""


class ShapeError(SymgradError, ValueError):
    """Shapes, ranks or sizes do not fit together."""


class SelectionError(SymgradError, ValueError):
    """`wrt` names something that cannot be selected."""


class ArgumentError(SymgradError, TypeError):
    """A call got the wrong number or kind of arrays."""


class DerivationError(SymgradError, NotImplementedError):
    """The derivative asked for has no closed form here."""


class CodegenError(SymgradError, NotImplementedError):
    """The derivation cannot be turned into code as asked."""


class ValidationError(SymgradError, ArithmeticError):
    """Generated derivatives disagree with finite differences."""


class InternalError(SymgradError, RuntimeError):
    """Our own fault; please report it."""
