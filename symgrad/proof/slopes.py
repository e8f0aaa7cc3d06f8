"""First partial derivatives of every scalar function in mpmath, by closed forms.

name -> a function of mpf for each argument
At a kink they take the value that the language's conventions give it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from mpmath import mp

from symgrad.proof.values import (
    Function,
    Real,
    cbrt,
    divided,
    exp_difference,
    gelu_inner,
    normal_cdf,
    one,
    power,
    selu_alpha,
    selu_scale,
    sigmoid,
    softplus,
    zero,
)


def _pow_slope(a: Real, p: Real) -> Real:
    return mp.mpf(0) if p == 0 else p * power(a, p - 1)


def _pow_exponent_slope(a: Real, p: Real) -> Real:
    return mp.mpf(0) if a == 0 and p > 0 else power(a, p) * mp.log(a)


def sigmoid_slope(z: Real) -> Real:
    """Return the slope of the sigmoid."""
    e = mp.exp(-abs(z))
    return e / (1 + e) ** 2


def _normal_pdf(z: Real) -> Real:
    return mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi)


def _gelu_tanh_slope(z: Real) -> Real:
    u = gelu_inner(z)
    du = 2 * mp.sqrt(2 / mp.pi) * (1 + 3 * mp.mpf("0.044715") * z**2)
    return sigmoid(u) + z * sigmoid_slope(u) * du


def _mish_slope(z: Real) -> Real:
    s = softplus(z)
    return mp.tanh(s) + z * mp.sech(s) ** 2 * sigmoid(z)


def _selu_slope(z: Real) -> Real:
    return selu_scale() * (1 if z > 0 else selu_alpha() * mp.exp(z))


def _celu_alpha_slope(z: Real, alpha: Real = 1) -> Real:
    return mp.mpf(0) if z > 0 else mp.expm1(z / alpha) - z / alpha * mp.exp(z / alpha)


def _softshrink_bound_slope(z: Real, bound: Real = 0.5) -> Real:
    return -1 if z > bound else 1 if z < -bound else 0


def _hardswish_slope(z: Real) -> Real:
    return 0 if z <= -3 else 1 if z >= 3 else z / 3 + mp.mpf(1) / 2


def _logaddexp_slope(a: Real, b: Real) -> Real:
    if a == b == -mp.inf:
        return mp.mpf(0)
    return mp.mpf(1) / 2 if a == b else sigmoid(a - b)


def _hypot_slope(a: Real, b: Real) -> Real:
    return mp.mpf(0) if a == b == 0 else a / mp.hypot(a, b)


def _share(wins: Callable[[Real, Real], bool]) -> Function:
    return lambda a, b: mp.mpf(1) / 2 if a == b else mp.mpf(1 if wins(a, b) else 0)


COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne", "and_", "or_", "not_")

SLOPES: Mapping[str, tuple[Function, ...]] = MappingProxyType(
    {
        "add": (one, one),
        "sub": (one, lambda a, b: mp.mpf(-1)),
        "mul": (lambda a, b: b, lambda a, b: a),
        "div": (lambda a, b: divided(mp.mpf(1), b), lambda a, b: divided(-a, b * b)),
        "neg": (lambda a: mp.mpf(-1),),
        "pow": (_pow_slope, _pow_exponent_slope),
        **dict.fromkeys(COMPARISONS, (zero, zero)),
        "where": (
            zero,
            lambda mask, a, b: mp.mpf(1 if mask != 0 else 0),
            lambda mask, a, b: mp.mpf(0 if mask != 0 else 1),
        ),
        "exp": (mp.exp,),
        "exp2": (lambda z: mp.mpf(2) ** z * mp.log(2),),
        "expm1": (mp.exp,),
        "log": (lambda z: mp.nan if z < 0 else 1 / z,),
        "log2": (lambda z: mp.nan if z < 0 else 1 / (z * mp.log(2)),),
        "log10": (lambda z: mp.nan if z < 0 else 1 / (z * mp.log(10)),),
        "log1p": (lambda z: mp.nan if z < -1 else 1 / (1 + z),),
        "sqrt": (lambda z: 1 / (2 * mp.sqrt(z)),),
        "cbrt": (lambda z: 1 / (3 * cbrt(z) ** 2),),
        "square": (lambda z: 2 * z,),
        "reciprocal": (lambda z: -1 / (z * z),),
        "abs": (mp.sign,),
        **dict.fromkeys(("sign", "floor", "ceil", "round"), (zero,)),
        "sin": (mp.cos,),
        "cos": (lambda z: -mp.sin(z),),
        "tan": (lambda z: mp.sec(z) ** 2,),
        "arcsin": (lambda z: 1 / mp.sqrt((1 - z) * (1 + z)),),
        "arccos": (lambda z: -1 / mp.sqrt((1 - z) * (1 + z)),),
        "arctan": (lambda z: 1 / (1 + z * z),),
        "arctan2": (lambda a, b: a * 0 + b / (a * a + b * b), lambda a, b: -a / (a * a + b * b)),
        "sinh": (mp.cosh,),
        "cosh": (mp.sinh,),
        "tanh": (lambda z: mp.sech(z) ** 2,),
        "arcsinh": (lambda z: 1 / mp.sqrt(1 + z * z),),
        "arccosh": (lambda z: mp.nan if z < 1 else 1 / mp.sqrt((z - 1) * (z + 1)),),
        "arctanh": (lambda z: mp.nan if abs(z) > 1 else 1 / ((1 - z) * (1 + z)),),
        "erf": (lambda z: 2 / mp.sqrt(mp.pi) * mp.exp(-z * z),),
        "erfc": (lambda z: -2 / mp.sqrt(mp.pi) * mp.exp(-z * z),),
        "gamma": (lambda z: mp.gamma(z) * mp.digamma(z),),
        "lgamma": (mp.digamma,),
        "digamma": (lambda z: mp.psi(1, z),),
        "maximum": (_share(lambda a, b: a > b), _share(lambda a, b: b > a)),
        "minimum": (_share(lambda a, b: a < b), _share(lambda a, b: b < a)),
        "clip": (
            lambda z, low, high: 1 if low <= z <= high else 0,
            lambda z, low, high: 1 if z < low < high else 0,
            lambda z, low, high: 1 if z > high or low > high else 0,
        ),
        "hypot": (_hypot_slope, lambda a, b: _hypot_slope(b, a)),
        "logaddexp": (_logaddexp_slope, lambda a, b: _logaddexp_slope(b, a)),
        "heaviside": (zero, lambda z, at_zero=0.5: 1 if z == 0 else 0),
        "exp_difference": (exp_difference, lambda a, b: -exp_difference(a, b)),
        "ratio_or_zero": (
            lambda a, b: 0 if b == 0 else 1 / b,
            lambda a, b: 0 if b == 0 else -a / (b * b),
        ),
        "identity": (one,),
        "relu": (lambda z: 1 if z > 0 else 0,),
        **{
            name: (
                lambda z, slope=0.01: 1 if z > 0 else slope,
                lambda z, slope=0.01: min(z, mp.mpf(0)),
            )
            for name in ("leaky_relu", "prelu")
        },
        "relu6": (lambda z: 1 if 0 < z < 6 else 0,),
        "elu": (
            lambda z, alpha=1: 1 if z > 0 else alpha * mp.exp(z),
            lambda z, alpha=1: 0 if z > 0 else mp.expm1(z),
        ),
        "selu": (_selu_slope,),
        "celu": (lambda z, alpha=1: 1 if z > 0 else mp.exp(z / alpha), _celu_alpha_slope),
        "gelu": (lambda z: normal_cdf(z) + z * _normal_pdf(z),),
        "gelu_tanh": (_gelu_tanh_slope,),
        **{name: (lambda z: sigmoid(z) + z * sigmoid_slope(z),) for name in ("silu", "swish")},
        "mish": (_mish_slope,),
        "softplus": (sigmoid,),
        "softsign": (lambda z: 1 / (1 + abs(z)) ** 2,),
        "sigmoid": (sigmoid_slope,),
        "log_sigmoid": (lambda z: sigmoid(-z),),
        "tanhshrink": (lambda z: mp.tanh(z) ** 2,),
        "softshrink": (lambda z, bound=0.5: 1 if abs(z) > bound else 0, _softshrink_bound_slope),
        "hardshrink": (lambda z, bound=0.5: 1 if abs(z) > bound else 0, zero),
        "hardtanh": (
            lambda z, low=-1, high=1: 1 if low < z < high else 0,
            lambda z, low=-1, high=1: 1 if z <= low else 0,
            lambda z, low=-1, high=1: 1 if z >= high else 0,
        ),
        "hardsigmoid": (lambda z: mp.mpf(1) / 6 if -3 < z < 3 else 0,),
        "hardswish": (_hardswish_slope,),
        "threshold": (
            lambda z, t, v: 1 if z > t else 0,
            zero,
            lambda z, t, v: 0 if z > t else 1,
        ),
    }
)
