"""Values of every scalar function in mpmath, as mathematics defines them on the real line.

name -> function of mpf
Written apart from the function table, which is judged by them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from mpmath import mp

Real = Any
"""An mpf; mpmath has no types."""

Function = Callable[..., Real]


def zero(*_: Real) -> Real:
    """Return 0, whatever the arguments."""
    return mp.mpf(0)


def one(*_: Real) -> Real:
    """Return 1, whatever the arguments."""
    return mp.mpf(1)


def _truth(compare: Callable[..., bool]) -> Function:
    return lambda *args: mp.mpf(1 if compare(*args) else 0)


def divided(a: Real, b: Real) -> Real:
    """Return a / b, at a pole the infinity of a's sign."""
    if b == 0:
        return mp.nan if a == 0 or mp.isnan(a) else mp.sign(a) * mp.inf
    return a / b


def power(a: Real, p: Real) -> Real:
    """Return a**p, by its limit where a is 0."""
    if p == 0:
        return mp.mpf(1)
    if a == 0:
        return mp.nan if mp.isnan(p) else mp.mpf(0) if p > 0 else mp.inf
    return a**p


def _log(z: Real) -> Real:
    return -mp.inf if z == 0 else mp.log(z)


def cbrt(z: Real) -> Real:
    """Return the real cube root."""
    return mp.sign(z) * mp.cbrt(abs(z))


def _log1p(z: Real) -> Real:
    return -mp.inf if z == -1 else mp.log1p(z)


def _arctanh(z: Real) -> Real:
    return mp.sign(z) * mp.inf if abs(z) == 1 else mp.atanh(z)


def _lgamma(z: Real) -> Real:
    return mp.log(abs(mp.gamma(z))) if z <= 0 else mp.loggamma(z)


def sigmoid(z: Real) -> Real:
    """Return 1 / (1 + exp(-z))."""
    e = mp.exp(-abs(z))
    return 1 / (1 + e) if z >= 0 else e / (1 + e)


def softplus(z: Real) -> Real:
    """Return log(1 + exp(z))."""
    return max(z, mp.mpf(0)) + mp.log1p(mp.exp(-abs(z)))


def normal_cdf(z: Real) -> Real:
    """Return the distribution function of the standard normal."""
    return mp.erfc(-z / mp.sqrt(2)) / 2


def gelu_inner(z: Real) -> Real:
    """Return what gelu_tanh takes the sigmoid of."""
    return 2 * mp.sqrt(2 / mp.pi) * (z + mp.mpf("0.044715") * z**3)


def selu_scale() -> Real:
    """Return the scale of selu."""
    return mp.mpf("1.0507009873554804934193349852946")


def selu_alpha() -> Real:
    """Return the alpha of selu."""
    return mp.mpf("1.6732632423543772848170429916717")


def _selu(z: Real) -> Real:
    return selu_scale() * (z if z > 0 else selu_alpha() * mp.expm1(z))


def _elu(z: Real, alpha: Real = 1) -> Real:
    return z if z > 0 else alpha * mp.expm1(z)


def _celu(z: Real, alpha: Real = 1) -> Real:
    return z if z > 0 else alpha * mp.expm1(z / alpha)


def _clip(z: Real, low: Real = -1, high: Real = 1) -> Real:
    return min(max(z, low), high)


def _softshrink(z: Real, bound: Real = 0.5) -> Real:
    return z - bound if z > bound else z + bound if z < -bound else mp.mpf(0)


def _hardsigmoid(z: Real) -> Real:
    return _clip(z + 3, mp.mpf(0), mp.mpf(6)) / 6


def _logaddexp(a: Real, b: Real) -> Real:
    high, low = max(a, b), min(a, b)
    return high if mp.isinf(high) else high + mp.log1p(mp.exp(low - high))


def exp_difference(a: Real, b: Real) -> Real:
    """Return exp(a - b), 0 where both are -inf."""
    return mp.mpf(0) if a == b == -mp.inf else mp.exp(a - b)


VALUES: Mapping[str, Function] = MappingProxyType(
    {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "div": divided,
        "neg": lambda a: -a,
        "pow": power,
        "lt": _truth(lambda a, b: a < b),
        "le": _truth(lambda a, b: a <= b),
        "gt": _truth(lambda a, b: a > b),
        "ge": _truth(lambda a, b: a >= b),
        "eq": _truth(lambda a, b: a == b),
        "ne": _truth(lambda a, b: a != b),
        "and_": _truth(lambda a, b: a != 0 and b != 0),
        "or_": _truth(lambda a, b: a != 0 or b != 0),
        "not_": _truth(lambda a: a == 0),
        "where": lambda mask, a, b: a if mask != 0 else b,
        "exp": mp.exp,
        "exp2": lambda z: mp.mpf(2) ** z,
        "expm1": mp.expm1,
        "log": _log,
        "log2": lambda z: _log(z) / mp.log(2),
        "log10": lambda z: _log(z) / mp.log(10),
        "log1p": _log1p,
        "sqrt": mp.sqrt,
        "cbrt": cbrt,
        "square": lambda z: z * z,
        "reciprocal": lambda z: divided(mp.mpf(1), z),
        "abs": abs,
        "sign": mp.sign,
        "sin": mp.sin,
        "cos": mp.cos,
        "tan": mp.tan,
        "arcsin": mp.asin,
        "arccos": mp.acos,
        "arctan": mp.atan,
        "arctan2": mp.atan2,
        "sinh": mp.sinh,
        "cosh": mp.cosh,
        "tanh": mp.tanh,
        "arcsinh": mp.asinh,
        "arccosh": mp.acosh,
        "arctanh": _arctanh,
        "erf": mp.erf,
        "erfc": mp.erfc,
        "gamma": mp.gamma,
        "lgamma": _lgamma,
        "digamma": mp.digamma,
        "maximum": max,
        "minimum": min,
        "clip": _clip,
        "hypot": mp.hypot,
        "logaddexp": _logaddexp,
        "floor": mp.floor,
        "ceil": mp.ceil,
        "round": mp.nint,
        "heaviside": lambda z, at_zero=0.5: at_zero if z == 0 else one() if z > 0 else zero(),
        "exp_difference": exp_difference,
        "ratio_or_zero": lambda a, b: zero() if b == 0 else a / b,
        "identity": lambda z: z,
        "relu": lambda z: max(z, mp.mpf(0)),
        "leaky_relu": lambda z, slope=0.01: z if z > 0 else slope * z,
        "prelu": lambda z, slope: z if z > 0 else slope * z,
        "relu6": lambda z: _clip(z, mp.mpf(0), mp.mpf(6)),
        "elu": _elu,
        "selu": _selu,
        "celu": _celu,
        "gelu": lambda z: z * normal_cdf(z),
        "gelu_tanh": lambda z: z * sigmoid(gelu_inner(z)),
        "silu": lambda z: z * sigmoid(z),
        "swish": lambda z: z * sigmoid(z),
        "mish": lambda z: z * mp.tanh(softplus(z)),
        "softplus": softplus,
        "softsign": lambda z: z / (1 + abs(z)),
        "sigmoid": sigmoid,
        "log_sigmoid": lambda z: -softplus(-z),
        "tanhshrink": lambda z: z - mp.tanh(z),
        "softshrink": _softshrink,
        "hardshrink": lambda z, bound=0.5: zero() if abs(z) <= bound else z,
        "hardtanh": _clip,
        "hardsigmoid": _hardsigmoid,
        "hardswish": lambda z: z * _hardsigmoid(z),
        "threshold": lambda z, t, v: v if z <= t else z,
    }
)
