"""Read a layer's text; nothing in it is executed.

str -> Layer
A text is a full layer or a one-liner; both end as the same noun, every name in it resolved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from symgrad.errors import LayerSyntaxError, Source, SymgradError
from symgrad.language.characters import Token, fold, scan, translate
from symgrad.language.declarations import given, ordered
from symgrad.language.scope import resolve
from symgrad.language.shorthand import is_one_liner, shorthand
from symgrad.language.statements import read
from symgrad.syntax import Declaration, Layer


def parse(
    text: str,
    *,
    inputs: Mapping[str, str] | None = None,
    params: Mapping[str, str] | None = None,
    consts: Mapping[str, str] | None = None,
    name: str | None = None,
    filename: str = "<layer>",
) -> Layer:
    """Read a full layer or a one-liner; `inputs` and its kin declare beside the text.

    Their values are sizes, `"m n"`, or `""` for a scalar. Raises LayerSyntaxError with the place
    in the user's text, in characters, and what to do about it.
    """
    source = Source(text.removeprefix("\ufeff"), filename)
    try:
        layer = _layer(source, inputs, params, consts)
        resolve(layer)
    except RecursionError:
        hint = "name parts of it in lines of their own"
        message = "this is nested too deeply to be read"
        raise LayerSyntaxError(message, None, source, hint) from None
    except SymgradError as error:
        raise error.located(source) from None
    return replace(layer, name=name or "layer")


def _layer(
    source: Source,
    inputs: Mapping[str, str] | None,
    params: Mapping[str, str] | None,
    consts: Mapping[str, str] | None,
) -> Layer:
    """Read the text in whichever of the two ways it is written."""
    tokens = scan(source)
    stated = given(inputs, params, consts)
    if is_one_liner(tokens):
        return shorthand(source, tokens, stated)
    return read(translate(source, tokens), tokens, _by_appearance(tokens, stated))


def _by_appearance(
    tokens: tuple[Token, ...], stated: tuple[Declaration, ...]
) -> tuple[Declaration, ...]:
    """Order declarations given beside a text: inputs, params, consts, as the text names them."""
    return ordered(stated, tuple(fold(t.text) for t in tokens if t.kind == "name"))
