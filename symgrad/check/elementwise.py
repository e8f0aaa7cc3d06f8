"""Element-wise functions: their parameters, their defaults, and their use on values.

function, values -> Value
Every argument may be an array; numbers that were left out are the function table's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from symgrad.check.context import Context
from symgrad.check.matrix import joined
from symgrad.check.tree import Node, Value
from symgrad.errors import LayerSyntaxError
from symgrad.functions import ALIASES, FUNCTIONS
from symgrad.language.vocabulary import ACTIVATIONS, ELEMENTWISE
from symgrad.syntax import Call, Expr


@dataclass(frozen=True, slots=True)
class Signature:
    """The names of a function's parameters, and the values of those that may be left out."""

    names: tuple[str, ...]
    defaults: Mapping[str, float]


def is_elementwise(name: str) -> bool:
    """Whether the language has an element-wise function of that name."""
    return name in ELEMENTWISE or name in ACTIVATIONS


def signature(name: str) -> Signature:
    """Return what a function takes, as the function table says."""
    entry = FUNCTIONS[name]
    last = entry.arguments[entry.arity - len(entry.defaults) :]
    return Signature(entry.arguments, dict(zip(last, entry.defaults, strict=True)))


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
    name = ALIASES.get(name, name)
    if len(values) == 1:
        value = values[0]
        return Value(value.axes, lambda at: Node(name, (value.element(at),)))
    parts: list[Expr] = [*expr.arguments, *(k.value for k in expr.keywords)]
    parts += [expr] * (len(values) - len(parts))
    return joined(name, values, expr, parts, context)
