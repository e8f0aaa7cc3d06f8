"""Values and partial derivatives of every scalar function in mpmath, to any precision.

name, order -> function of mpf
Finite differences cannot see a relative digit lost in saturation; a closed form evaluated here can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import mpmath
from mpmath import mp

from symgrad.errors import InternalError
from symgrad.proof.curvatures import CURVATURES

Real = Any
"""An mpf; mpmath has no types."""
Function = Callable[..., Real]


def exact(
    name: str, order: tuple[int, ...] = (), functions: Mapping[str, Function] | None = None
) -> Function:
    """Return a function, or its partial derivative of `order`, as a total function of mpf.

    `functions` gives values of abstract functions. Outside the real domain the result is nan.
    Raises InternalError for a name that is not in the language.
    """
    bound = (functions or {}).get(name)
    value = bound or VALUES.get(name)
    if value is None:
        raise InternalError(f"the reference interpreter knows no function {name}")
    if not any(order):
        return _total(value, passes_nan=name in SEES_NAN)
    if sum(order) == 2 and bound is None:
        value = CURVATURES.get(name, {}).get(order, _zero)
        return _total(value, passes_nan=name in SEES_NAN)
    first = next(place for place, times in enumerate(order) if times)
    slopes = SLOPES.get(name, ()) if bound is None else ()
    if first < len(slopes):
        value = slopes[first]
        order = tuple(t - (place == first) for place, t in enumerate(order))
    return _total(_differentiated(value, order), passes_nan=name in SEES_NAN)


def _differentiated(f: Function, order: tuple[int, ...]) -> Function:
    """Return the partial derivative of f by mpmath's own differences, at raised precision."""
    if not any(order):
        return f

    def slope(*args: Real) -> Real:
        padded = (*order, *(0,) * (len(args) - len(order)))
        if any(mp.isinf(arg) for arg in args):
            return mp.nan
        if len(args) == 1:
            return mp.diff(f, args[0], padded[0])
        return mp.diff(f, tuple(args), padded)

    return slope


def _total(f: Function, *, passes_nan: bool) -> Function:
    """Make f return nan, or inf at a pole, where mpmath raises or turns complex."""

    def total(*args: Real) -> Real:
        if not passes_nan and any(mp.isnan(arg) for arg in args):
            return mp.nan
        try:
            result = f(*args)
        except ZeroDivisionError:
            return mp.inf
        except ValueError:
            return mp.nan
        return mp.nan if isinstance(result, mpmath.mpc) else mp.mpf(result)

    return total


def _zero(*_: Real) -> Real:
    return mp.mpf(0)


def _one(*_: Real) -> Real:
    return mp.mpf(1)


def _truth(compare: Callable[..., bool]) -> Function:
    return lambda *args: mp.mpf(1 if compare(*args) else 0)


def _div(a: Real, b: Real) -> Real:
    if b == 0:
        return mp.nan if a == 0 or mp.isnan(a) else mp.sign(a) * mp.inf
    return a / b


def _pow(a: Real, p: Real) -> Real:
    if p == 0:
        return mp.mpf(1)
    if a == 0:
        return mp.nan if mp.isnan(p) else mp.mpf(0) if p > 0 else mp.inf
    return a**p


def _pow_slope(a: Real, p: Real) -> Real:
    return mp.mpf(0) if p == 0 else p * _pow(a, p - 1)


def _pow_exponent_slope(a: Real, p: Real) -> Real:
    return mp.mpf(0) if a == 0 and p > 0 else _pow(a, p) * mp.log(a)


def _log(z: Real) -> Real:
    return -mp.inf if z == 0 else mp.log(z)


def _cbrt(z: Real) -> Real:
    return mp.sign(z) * mp.cbrt(abs(z))


def _log1p(z: Real) -> Real:
    return -mp.inf if z == -1 else mp.log1p(z)


def _arctanh(z: Real) -> Real:
    return mp.sign(z) * mp.inf if abs(z) == 1 else mp.atanh(z)


def _lgamma(z: Real) -> Real:
    return mp.log(abs(mp.gamma(z))) if z <= 0 else mp.loggamma(z)


def _sigmoid(z: Real) -> Real:
    e = mp.exp(-abs(z))
    return 1 / (1 + e) if z >= 0 else e / (1 + e)


def _sigmoid_slope(z: Real) -> Real:
    e = mp.exp(-abs(z))
    return e / (1 + e) ** 2


def _softplus(z: Real) -> Real:
    return max(z, mp.mpf(0)) + mp.log1p(mp.exp(-abs(z)))


def _normal_cdf(z: Real) -> Real:
    return mp.erfc(-z / mp.sqrt(2)) / 2


def _normal_pdf(z: Real) -> Real:
    return mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi)


def _gelu_inner(z: Real) -> Real:
    return 2 * mp.sqrt(2 / mp.pi) * (z + mp.mpf("0.044715") * z**3)


def _gelu_tanh_slope(z: Real) -> Real:
    u = _gelu_inner(z)
    du = 2 * mp.sqrt(2 / mp.pi) * (1 + 3 * mp.mpf("0.044715") * z**2)
    return _sigmoid(u) + z * _sigmoid_slope(u) * du


def _mish_slope(z: Real) -> Real:
    s = _softplus(z)
    return mp.tanh(s) + z * mp.sech(s) ** 2 * _sigmoid(z)


def _selu_scale() -> Real:
    return mp.mpf("1.0507009873554804934193349852946")


def _selu_alpha() -> Real:
    return mp.mpf("1.6732632423543772848170429916717")


def _selu(z: Real) -> Real:
    return _selu_scale() * (z if z > 0 else _selu_alpha() * mp.expm1(z))


def _selu_slope(z: Real) -> Real:
    return _selu_scale() * (1 if z > 0 else _selu_alpha() * mp.exp(z))


def _elu(z: Real, alpha: Real = 1) -> Real:
    return z if z > 0 else alpha * mp.expm1(z)


def _celu(z: Real, alpha: Real = 1) -> Real:
    return z if z > 0 else alpha * mp.expm1(z / alpha)


def _celu_alpha_slope(z: Real, alpha: Real = 1) -> Real:
    return mp.mpf(0) if z > 0 else mp.expm1(z / alpha) - z / alpha * mp.exp(z / alpha)


def _clip(z: Real, low: Real = -1, high: Real = 1) -> Real:
    return min(max(z, low), high)


def _softshrink(z: Real, bound: Real = 0.5) -> Real:
    return z - bound if z > bound else z + bound if z < -bound else mp.mpf(0)


def _softshrink_bound_slope(z: Real, bound: Real = 0.5) -> Real:
    return -1 if z > bound else 1 if z < -bound else 0


def _hardsigmoid(z: Real) -> Real:
    return _clip(z + 3, mp.mpf(0), mp.mpf(6)) / 6


def _hardswish_slope(z: Real) -> Real:
    return 0 if z <= -3 else 1 if z >= 3 else z / 3 + mp.mpf(1) / 2


def _logaddexp(a: Real, b: Real) -> Real:
    high, low = max(a, b), min(a, b)
    return high if mp.isinf(high) else high + mp.log1p(mp.exp(low - high))


def _logaddexp_slope(a: Real, b: Real) -> Real:
    if a == b == -mp.inf:
        return mp.mpf(0)
    return mp.mpf(1) / 2 if a == b else _sigmoid(a - b)


def _exp_difference(a: Real, b: Real) -> Real:
    return mp.mpf(0) if a == b == -mp.inf else mp.exp(a - b)


def _hypot_slope(a: Real, b: Real) -> Real:
    return mp.mpf(0) if a == b == 0 else a / mp.hypot(a, b)


def _share(wins: Callable[[Real, Real], bool]) -> Function:
    return lambda a, b: mp.mpf(1) / 2 if a == b else mp.mpf(1 if wins(a, b) else 0)


COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne", "and_", "or_", "not_")

VALUES: Mapping[str, Function] = MappingProxyType(
    {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "div": _div,
        "neg": lambda a: -a,
        "pow": _pow,
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
        "cbrt": _cbrt,
        "square": lambda z: z * z,
        "reciprocal": lambda z: _div(mp.mpf(1), z),
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
        "heaviside": lambda z, at_zero=0.5: at_zero if z == 0 else _one() if z > 0 else _zero(),
        "exp_difference": _exp_difference,
        "ratio_or_zero": lambda a, b: _zero() if b == 0 else a / b,
        "identity": lambda z: z,
        "relu": lambda z: max(z, mp.mpf(0)),
        "leaky_relu": lambda z, slope=0.01: z if z > 0 else slope * z,
        "prelu": lambda z, slope: z if z > 0 else slope * z,
        "relu6": lambda z: _clip(z, mp.mpf(0), mp.mpf(6)),
        "elu": _elu,
        "selu": _selu,
        "celu": _celu,
        "gelu": lambda z: z * _normal_cdf(z),
        "gelu_tanh": lambda z: z * _sigmoid(_gelu_inner(z)),
        "silu": lambda z: z * _sigmoid(z),
        "swish": lambda z: z * _sigmoid(z),
        "mish": lambda z: z * mp.tanh(_softplus(z)),
        "softplus": _softplus,
        "softsign": lambda z: z / (1 + abs(z)),
        "sigmoid": _sigmoid,
        "log_sigmoid": lambda z: -_softplus(-z),
        "tanhshrink": lambda z: z - mp.tanh(z),
        "softshrink": _softshrink,
        "hardshrink": lambda z, bound=0.5: _zero() if abs(z) <= bound else z,
        "hardtanh": _clip,
        "hardsigmoid": _hardsigmoid,
        "hardswish": lambda z: z * _hardsigmoid(z),
        "threshold": lambda z, t, v: v if z <= t else z,
    }
)

SLOPES: Mapping[str, tuple[Function, ...]] = MappingProxyType(
    {
        "add": (_one, _one),
        "sub": (_one, lambda a, b: mp.mpf(-1)),
        "mul": (lambda a, b: b, lambda a, b: a),
        "div": (lambda a, b: _div(mp.mpf(1), b), lambda a, b: _div(-a, b * b)),
        "neg": (lambda a: mp.mpf(-1),),
        "pow": (_pow_slope, _pow_exponent_slope),
        **dict.fromkeys(COMPARISONS, (_zero, _zero)),
        "where": (
            _zero,
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
        "cbrt": (lambda z: 1 / (3 * _cbrt(z) ** 2),),
        "square": (lambda z: 2 * z,),
        "reciprocal": (lambda z: -1 / (z * z),),
        "abs": (mp.sign,),
        **dict.fromkeys(("sign", "floor", "ceil", "round"), (_zero,)),
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
        "heaviside": (_zero, lambda z, at_zero=0.5: 1 if z == 0 else 0),
        "exp_difference": (_exp_difference, lambda a, b: -_exp_difference(a, b)),
        "ratio_or_zero": (
            lambda a, b: 0 if b == 0 else 1 / b,
            lambda a, b: 0 if b == 0 else -a / (b * b),
        ),
        "identity": (_one,),
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
        "gelu": (lambda z: _normal_cdf(z) + z * _normal_pdf(z),),
        "gelu_tanh": (_gelu_tanh_slope,),
        **{name: (lambda z: _sigmoid(z) + z * _sigmoid_slope(z),) for name in ("silu", "swish")},
        "mish": (_mish_slope,),
        "softplus": (_sigmoid,),
        "softsign": (lambda z: 1 / (1 + abs(z)) ** 2,),
        "sigmoid": (_sigmoid_slope,),
        "log_sigmoid": (lambda z: _sigmoid(-z),),
        "tanhshrink": (lambda z: mp.tanh(z) ** 2,),
        "softshrink": (lambda z, bound=0.5: 1 if abs(z) > bound else 0, _softshrink_bound_slope),
        "hardshrink": (lambda z, bound=0.5: 1 if abs(z) > bound else 0, _zero),
        "hardtanh": (
            lambda z, low=-1, high=1: 1 if low < z < high else 0,
            lambda z, low=-1, high=1: 1 if z <= low else 0,
            lambda z, low=-1, high=1: 1 if z >= high else 0,
        ),
        "hardsigmoid": (lambda z: mp.mpf(1) / 6 if -3 < z < 3 else 0,),
        "hardswish": (_hardswish_slope,),
        "threshold": (
            lambda z, t, v: 1 if z > t else 0,
            _zero,
            lambda z, t, v: 0 if z > t else 1,
        ),
    }
)

SEES_NAN = frozenset((*COMPARISONS, "where", "pow"))
"""Functions that give a number although an argument may be nan."""
