"""Element-wise functions: their parameters, their defaults, and their use on values.

function, values -> Value
Every argument may be an array; numbers that were left out are the language's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from symgrad.check.context import Context
from symgrad.check.matrix import joined
from symgrad.check.tree import Node, Value
from symgrad.errors import LayerSyntaxError
from symgrad.language.vocabulary import ACTIVATIONS, ELEMENTWISE
from symgrad.syntax import Call, Expr

_ALIASES = {"swish": "silu"}
_PARAMETERS: Mapping[str, str] = {
    "arctan2": "a b",
    "maximum": "a b",
    "minimum": "a b",
    "hypot": "a b",
    "logaddexp": "a b",
    "clip": "z low high",
    "where": "mask a b",
    "heaviside": "z at_zero",
    "leaky_relu": "z slope",
    "prelu": "z a",
    "elu": "z alpha",
    "celu": "z alpha",
    "softshrink": "z bound",
    "hardshrink": "z bound",
    "hardtanh": "z low high",
    "threshold": "z t v",
}
_DEFAULTS: Mapping[str, Mapping[str, float]] = {
    "heaviside": {"at_zero": 0.5},
    "leaky_relu": {"slope": 0.01},
    "elu": {"alpha": 1.0},
    "celu": {"alpha": 1.0},
    "softshrink": {"bound": 0.5},
    "hardshrink": {"bound": 0.5},
    "hardtanh": {"low": -1.0, "high": 1.0},
}


@dataclass(frozen=True, slots=True)
class Signature:
    """The names of a function's parameters, and the values of those that may be left out."""

    names: tuple[str, ...]
    defaults: Mapping[str, float]


def is_elementwise(name: str) -> bool:
    """Whether the language has an element-wise function of that name."""
    return name in ELEMENTWISE or name in ACTIVATIONS


def signature(name: str) -> Signature:
    """Return what a function takes."""
    return Signature(tuple(_PARAMETERS.get(name, "z").split()), _DEFAULTS.get(name, {}))


def apply(
    name: str,
    values: tuple[Value, ...],
    expr: Call,
    context: Context,
) -> Value:
    """Return a function of values, broadcast to one shape."""
    if name == "where" and not values[0].mask:
        hint = "compare it: where(a > 0, b, c)"
        raise LayerSyntaxError("where asks for a mask first", expr.arguments[0].span, hint=hint)
    name = _ALIASES.get(name, name)
    if len(values) == 1:
        value = values[0]
        return Value(value.axes, lambda at: Node(name, (value.element(at),)))
    parts: list[Expr] = [*expr.arguments, *(k.value for k in expr.keywords)]
    parts += [expr] * (len(values) - len(parts))
    return joined(name, values, expr, parts, context)
