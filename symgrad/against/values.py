"""Every scalar function of the language in the words of a tool.

name, tool's functions -> function of its arrays
One expression serves all tools; where a tool has a word of its own for a formula, that is used.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from symgrad.errors import CodegenError

Array = Any
Has = Any
"""A tool's functions, see `symgrad.against.tool`."""

SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
CUBIC, ROOT = 0.044715, 0.7978845608028654
"""Of gelu_tanh: the cubic term, √(2/π)."""

OPERATORS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "add": operator.add,
        "sub": operator.sub,
        "mul": operator.mul,
        "div": operator.truediv,
        "neg": operator.neg,
        "pow": operator.pow,
    }
)
"""They take plain numbers beside arrays."""

ALIKE = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "square", "abs"),
    *("reciprocal", "sign", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "sinh"),
    *("cosh", "tanh", "arcsinh", "arccosh", "arctanh", "erf", "erfc", "gamma", "lgamma"),
    *("digamma", "maximum", "minimum", "hypot", "logaddexp", "floor", "ceil", "round"),
    *("relu", "sigmoid"),
)
"""Functions that tools have under the name of the language."""


def value(name: str, has: Has) -> Callable[..., Array]:
    """Return a function of arrays; raise CodegenError for a name that has none here."""
    if name in ALIKE:
        found: Callable[..., Array] = getattr(has, name)
        return found
    if name not in MADE:
        raise CodegenError(f"the function {name} is not translated")
    return lambda *args: MADE[name](has, *args)


def _compared(compare: Callable[..., Any]) -> Callable[..., Array]:
    return lambda f, a, b: f.number(compare(a, b))


def softplus(f: Has, z: Array) -> Array:
    return f.logaddexp(z, f.zeros_like(z))


def clip(f: Has, z: Array, low: Array, high: Array) -> Array:
    return f.minimum(f.maximum(z, low), high)


def elu(f: Has, z: Array, alpha: Array = 1.0) -> Array:
    return f.where(z > 0, z, alpha * f.expm1(f.minimum(z, f.zeros_like(z))))


def celu(f: Has, z: Array, alpha: Array = 1.0) -> Array:
    return f.where(z > 0, z, alpha * f.expm1(f.minimum(z, f.zeros_like(z)) / alpha))


def leaky_relu(f: Has, z: Array, slope: Array = 0.01) -> Array:
    return f.where(z > 0, z, slope * z)


def hardtanh(f: Has, z: Array, low: Array = -1.0, high: Array = 1.0) -> Array:
    return clip(f, z, f.zeros_like(z) + low, f.zeros_like(z) + high)


def hardsigmoid(f: Has, z: Array) -> Array:
    return hardtanh(f, z + 3, 0.0, 6.0) / 6


def softshrink(f: Has, z: Array, bound: Array = 0.5) -> Array:
    beside = f.where(z < -bound, z + bound, f.zeros_like(z))
    return f.where(z > bound, z - bound, beside)


def hardshrink(f: Has, z: Array, bound: Array = 0.5) -> Array:
    return f.where(f.abs(z) <= bound, f.zeros_like(z), z)


def heaviside(f: Has, z: Array, at_zero: Array = 0.5) -> Array:
    return f.where(z == 0, f.zeros_like(z) + at_zero, f.number(z > 0))


def ratio_or_zero(f: Has, a: Array, b: Array) -> Array:
    return f.where(b == 0, f.zeros_like(a * b), a / f.where(b == 0, f.zeros_like(b) + 1, b))


MADE: Mapping[str, Callable[..., Array]] = MappingProxyType(
    {
        "lt": _compared(operator.lt),
        "le": _compared(operator.le),
        "gt": _compared(operator.gt),
        "ge": _compared(operator.ge),
        "eq": _compared(operator.eq),
        "ne": _compared(operator.ne),
        "and_": lambda f, a, b: f.number((a != 0) & (b != 0)),
        "or_": lambda f, a, b: f.number((a != 0) | (b != 0)),
        "not_": lambda f, a: f.number(a == 0),
        "where": lambda f, mask, a, b: f.where(mask != 0, a, b),
        "clip": clip,
        "heaviside": heaviside,
        "exp_difference": lambda f, a, b: f.exp(a - b),
        "ratio_or_zero": ratio_or_zero,
        "identity": lambda f, z: z,
        "leaky_relu": leaky_relu,
        "prelu": leaky_relu,
        "relu6": lambda f, z: hardtanh(f, z, 0.0, 6.0),
        "elu": elu,
        "selu": lambda f, z: SELU_SCALE * elu(f, z, SELU_ALPHA),
        "celu": celu,
        "gelu": lambda f, z: z * (0.5 * f.erfc(z * -(0.5**0.5))),
        "gelu_tanh": lambda f, z: z * f.sigmoid(2 * ROOT * (z + CUBIC * z**3)),
        "silu": lambda f, z: z * f.sigmoid(z),
        "swish": lambda f, z: z * f.sigmoid(z),
        "mish": lambda f, z: z * f.tanh(softplus(f, z)),
        "softplus": softplus,
        "softsign": lambda f, z: z / (1 + f.abs(z)),
        "log_sigmoid": lambda f, z: -softplus(f, -z),
        "tanhshrink": lambda f, z: z - f.tanh(z),
        "softshrink": softshrink,
        "hardshrink": hardshrink,
        "hardtanh": hardtanh,
        "hardsigmoid": hardsigmoid,
        "hardswish": lambda f, z: z * hardsigmoid(f, z),
        "threshold": lambda f, z, t, v: f.where(z <= t, f.zeros_like(z) + v, z),
    }
)

__all__ = ["OPERATORS", "value"]
