"""The value of every scalar function in float64, written without the function table.

name, arrays -> array
An oracle must not share code with what it judges: these are plain numpy, `math` and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]

SELU_SCALE = 1.0507009873554804934193349852946
SELU_ALPHA = 1.6732632423543772848170429916717


def numeric(function: str) -> Callable[..., Values] | None:
    """Return the float64 kernel of a function of the language, or None if it has none."""
    return KERNELS.get(function)


def _each(scalar: Callable[[float], float]) -> Callable[[Values], Values]:
    """Lift a function of one float; what `math` refuses becomes nan or inf as in IEEE."""

    def guarded(z: float) -> float:
        try:
            return scalar(z)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return np.vectorize(guarded, otypes=[np.float64])


def _digamma(z: float) -> float:
    """Return ψ(z) for z > 0: step up to 10, then the asymptotic series; else by reflection."""
    if math.isnan(z) or z == math.inf:
        return z
    if z <= 0:
        if z == math.floor(z):
            return math.nan
        return _digamma(1 - z) - math.pi / math.tan(math.pi * z)
    shift = 0.0
    while z < 10:
        shift -= 1 / z
        z += 1
    w = 1 / (z * z)
    coefficients = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
    series = 0.0
    for c in reversed(coefficients):
        series = (series + c) * w
    return shift + math.log(z) - 0.5 / z - series


_erf = _each(math.erf)
_erfc = _each(math.erfc)


def _sigmoid(z: Values) -> Values:
    e = np.exp(-np.abs(z))
    return np.where(z >= 0, 1 / (1 + e), e / (1 + e))


def _softplus(z: Values) -> Values:
    return np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z)))


def _gelu(z: Values) -> Values:
    return z * 0.5 * _erfc(-z / math.sqrt(2))


def _gelu_tanh(z: Values) -> Values:
    # 0.5 (1 + tanh u) = sigmoid(2u), which keeps its digits for u -> -inf
    return z * _sigmoid(2 * math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))


def _elu(z: Values, alpha: Any = 1.0) -> Values:
    return np.where(z > 0, z, alpha * np.expm1(np.minimum(z, 0)))


def _celu(z: Values, alpha: Any = 1.0) -> Values:
    return np.where(z > 0, z, alpha * np.expm1(np.minimum(z, 0) / alpha))


def _leaky_relu(z: Values, slope: Any = 0.01) -> Values:
    return np.where(z > 0, z, slope * z)


def _clip(z: Values, low: Any, high: Any) -> Values:
    return np.asarray(np.minimum(np.maximum(z, low), high))


def _hardtanh(z: Values, low: Any = -1.0, high: Any = 1.0) -> Values:
    return _clip(z, low, high)


def _softshrink(z: Values, bound: Any = 0.5) -> Values:
    return np.where(z > bound, z - bound, np.where(z < -bound, z + bound, 0 * z))


def _hardshrink(z: Values, bound: Any = 0.5) -> Values:
    return np.where(np.abs(z) <= bound, 0.0, z)


def _hardsigmoid(z: Values) -> Values:
    return _clip(z + 3, 0.0, 6.0) / 6


def _logaddexp(a: Values, b: Values) -> Values:
    return np.asarray(np.logaddexp(a, b))


def _truth(compare: Callable[..., Any]) -> Callable[..., Values]:
    return lambda *args: np.asarray(compare(*args), dtype=np.float64)


ARITHMETIC: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.divide,
        "neg": np.negative,
        "pow": np.power,
        "lt": _truth(np.less),
        "le": _truth(np.less_equal),
        "gt": _truth(np.greater),
        "ge": _truth(np.greater_equal),
        "eq": _truth(np.equal),
        "ne": _truth(np.not_equal),
        "and_": _truth(lambda a, b: (a != 0) & (b != 0)),
        "or_": _truth(lambda a, b: (a != 0) | (b != 0)),
        "not_": _truth(lambda a: a == 0),
        "where": lambda mask, a, b: np.where(mask != 0, a, b),
    }
)

FROM_NUMPY = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "square"),
    *("reciprocal", "abs", "sign", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2"),
    *("sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "maximum", "minimum", "hypot"),
    *("floor", "ceil"),
)

ELEMENTARY: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        **{name: getattr(np, name) for name in FROM_NUMPY},
        "erf": _erf,
        "erfc": _erfc,
        "gamma": _each(math.gamma),
        "lgamma": _each(math.lgamma),
        "digamma": _each(_digamma),
        "clip": _clip,
        "logaddexp": _logaddexp,
        "round": np.rint,
        "exp_difference": lambda a, b: np.where((a == b) & (a == -np.inf), 0.0, np.exp(a - b)),
        "ratio_or_zero": lambda a, b: np.where(b == 0, 0 * a, a / np.where(b == 0, 1, b)),
        "heaviside": lambda z, at_zero=0.5: np.heaviside(z, at_zero),
    }
)

ACTIVATIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "identity": lambda z: z,
        "relu": lambda z: np.maximum(z, 0),
        "leaky_relu": _leaky_relu,
        "prelu": _leaky_relu,
        "relu6": lambda z: _clip(z, 0.0, 6.0),
        "elu": _elu,
        "selu": lambda z: SELU_SCALE * _elu(z, SELU_ALPHA),
        "celu": _celu,
        "gelu": _gelu,
        "gelu_tanh": _gelu_tanh,
        "silu": lambda z: z * _sigmoid(z),
        "swish": lambda z: z * _sigmoid(z),
        "mish": lambda z: z * np.tanh(_softplus(z)),
        "softplus": _softplus,
        "softsign": lambda z: z / (1 + np.abs(z)),
        "sigmoid": _sigmoid,
        "log_sigmoid": lambda z: -_softplus(-z),
        "tanhshrink": lambda z: z - np.tanh(z),
        "softshrink": _softshrink,
        "hardshrink": _hardshrink,
        "hardtanh": _hardtanh,
        "hardsigmoid": _hardsigmoid,
        "hardswish": lambda z: z * _hardsigmoid(z),
        "threshold": lambda z, t, v: np.where(z <= t, v, z),
    }
)

KERNELS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {**ARITHMETIC, **ELEMENTARY, **ACTIVATIONS}
)
