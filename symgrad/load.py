"""Layers from files.

path -> Layer
What a file holds is read as UTF-8 text, and nothing in it is executed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from symgrad import build as building
from symgrad.errors import ArgumentError, LayerSyntaxError, Span
from symgrad.errors import Source as SourceText
from symgrad.parse import parse
from symgrad.syntax import Layer


def is_path(text: object) -> bool:
    """Whether a string is a path and no text: it ends in `.sg` and holds no newline.

    Raises ArgumentError for what is no string.
    """
    if not isinstance(text, str):
        kind = type(text).__name__
        hint = 'as in sg.layer("tanh(W @ x + b)"), or sg.load("dense.sg")'
        raise ArgumentError(f"a layer is a text or a path, not of type {kind}", hint=hint)
    return text.endswith(".sg") and "\n" not in text


def load(
    path: str | os.PathLike[str],
    *,
    inputs: Mapping[str, str] | None = None,
    params: Mapping[str, str] | None = None,
    consts: Mapping[str, str] | None = None,
    name: str | None = None,
) -> Layer:
    """Read a layer from a `.sg` file (UTF-8); its name is the file's unless given.

    Raises LayerSyntaxError if the file cannot be read or is no layer.
    """
    try:
        file = Path(path)
    except TypeError:
        kind = type(path).__name__
        message = f"a path is a string, not of type {kind}"
        raise ArgumentError(message, hint='sg.load("dense.sg")') from None
    try:
        data = file.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "a text that ends in .sg is taken for a path"
        raise LayerSyntaxError(f"cannot read {file}: {reason}", hint=hint) from None
    return parse(
        _decoded(data, str(file)),
        inputs=inputs,
        params=params,
        consts=consts,
        name=name or building.file_stem(file.stem),
        filename=str(file),
    )


def _decoded(data: bytes, filename: str) -> str:
    """Return a file's bytes as text; raise LayerSyntaxError at the first that is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8").removeprefix("\ufeff")
        source = SourceText(before + "\ufffd", filename)
        rows = source.lines
        span = Span(len(rows), len(rows[-1]), len(rows), len(rows[-1]) + 1)
        message = f"this is not UTF-8 text: byte 0x{data[error.start]:02x}"
        raise LayerSyntaxError(message, span, source, "save the file as UTF-8") from None
