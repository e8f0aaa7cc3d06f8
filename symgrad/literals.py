"""Names and numbers of Python as they may stand in a layer, and why anything else may not.

object -> str | syntax.Number
Numbers of numpy are numbers too; a bool, nan or infinity is none.
"""

from __future__ import annotations

import math

import numpy as np

from symgrad import syntax
from symgrad.errors import ArgumentError, LayerSyntaxError, Source
from symgrad.language.characters import fold
from symgrad.language.names import require_free


def string_of(name: object, what: str) -> str:
    """Return a name that is a string; raise ArgumentError for anything else."""
    if not isinstance(name, str):
        raise ArgumentError(f"the name of {what} is of type {kind_of(name)}, expected a string")
    return name


def checked_name(name: str) -> str:
    """Return a name as Python folds it; raise LayerSyntaxError if it cannot be one."""
    folded = fold(string_of(name, "a value"))
    if not folded.isidentifier():
        raise LayerSyntaxError(f"{name!r} is not a name", hint="names are Python identifiers")
    require_free(folded, None, Source(""), "a value")
    return folded


def refusal(value: object) -> tuple[str, str]:
    """Return why something cannot stand in an expression, and what to do about it."""
    if isinstance(value, str):
        hint = 'sizes are written sg.dim("n"), arrays sg.param("W", "m n")'
        return f"the string {value!r} stands in an expression", hint
    if isinstance(value, bool) or value is None:
        hint = "True, False and None are values of keywords only, such as keepdims=True"
        return f"{value} stands in an expression", hint
    if isinstance(value, (list, tuple)):
        hint = "lists stand only as arguments: sg.concatenate([a, b], axis=0)"
        return f"a {kind_of(value)} stands in an expression", hint
    if hasattr(value, "__array__"):
        hint = 'declare it, W = sg.param("W", "m n"), and pass the array when the layer is called'
        return f"an array of type {kind_of(value)} stands in an expression", hint
    return f"a value of type {kind_of(value)} stands in an expression", "numbers are int or float"


def kind_of(value: object) -> str:
    """Return the name of a value's type, for errors."""
    return type(value).__name__


def literal(value: object) -> syntax.Expr:
    """Return a literal; a negative number is a literal behind a minus, as in a text."""
    plain = plain_number(value)
    if math.copysign(1.0, plain) < 0:
        return syntax.Unary("-", syntax.Number(-plain))
    return syntax.Number(plain)


def plain_number(value: object) -> int | float:
    """Return a number as Python's own; raise if it is none or not finite in float64."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ArgumentError(f"{value!r} is of type {kind_of(value)}, expected a number")
    try:
        plain = int(value) if isinstance(value, (int, np.integer)) else float(value)
        finite = math.isfinite(plain)
    except OverflowError:
        finite = False
    if not finite:
        message = "a number of a layer is not finite in float64"
        raise LayerSyntaxError(message, hint="pass it as a const when the layer is called")
    return plain
