"""Second derivatives of every scalar function in mpmath, as closed forms; what is missing is 0.

() -> {function: {order: function of mpf}}
Written as textbooks do; the digits are mpmath's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from mpmath import mp

from symgrad.proof.slopes import sigmoid_slope
from symgrad.proof.values import Function, Real, gelu_inner, selu_alpha, selu_scale


def _below(z: Real, value: Callable[[], Real]) -> Real:
    """Return what a piecewise function is up to its kink at 0, and 0 above."""
    return mp.mpf(0) if z > 0 else value()


def _from(low: int, z: Real, value: Callable[[], Real]) -> Real:
    return mp.nan if z < low else value()


def _of_composed(u: Function, du: Function, ddu: Function) -> Function:
    """Return (z s(u(z)))'' for the sigmoid s."""

    def curvature(z: Real) -> Real:
        slope, bend, half = du(z), ddu(z), mp.tanh(u(z) / 2)
        return sigmoid_slope(u(z)) * (2 * slope + z * bend - z * slope**2 * half)

    return curvature


def _mish(z: Real) -> Real:
    w = mp.exp(z)
    d = w * w + 2 * w + 2
    return 4 * w * (2 * (1 + w) * d + z * (2 + 2 * w - 3 * w**2 - 2 * w**3)) / d**3


def _gamma(z: Real) -> Real:
    return mp.gamma(z) * (mp.digamma(z) ** 2 + mp.psi(1, z))


def _power_mixed(a: Real, p: Real) -> Real:
    if a == 0 and p > 1:
        return mp.mpf(0)
    return 1 / a if p == 0 else a ** (p - 1) * (1 + p * mp.log(a))


def _power(a: Real, p: Real) -> Real:
    if p in (0, 1):
        return mp.mpf(0)
    return p * (p - 1) * (mp.mpf(1) if p == 2 else a ** (p - 2))


def _power_exponent(a: Real, p: Real) -> Real:
    return mp.mpf(0) if a == 0 and p >= 0 else a**p * mp.log(a) ** 2


def _hypot(a: Real, b: Real) -> Real:
    return mp.mpf(0) if a == b == 0 else b * b / mp.hypot(a, b) ** 3


def _hypot_mixed(a: Real, b: Real) -> Real:
    return mp.mpf(0) if a == b == 0 else -a * b / mp.hypot(a, b) ** 3


def _logaddexp(a: Real, b: Real) -> Real:
    if a == b:
        return mp.mpf(0) if mp.isinf(a) else mp.mpf(1) / 4
    return sigmoid_slope(a - b)


def _weight(a: Real, b: Real) -> Real:
    return mp.mpf(0) if a == b == -mp.inf else mp.exp(a - b)


def _arctan2(a: Real, b: Real) -> Real:
    return 2 * a * b / (a * a + b * b) ** 2


def _arctan2_mixed(a: Real, b: Real) -> Real:
    return (a * a - b * b) / (a * a + b * b) ** 2


def _erf(z: Real) -> Real:
    return -4 * z / mp.sqrt(mp.pi) * mp.exp(-z * z)


def _elu(z: Real, alpha: Real = 1) -> Real:
    return _below(z, lambda: alpha * mp.exp(z))


def _selu_factor() -> Real:
    return selu_scale() * selu_alpha()


LEAKY: Mapping[tuple[int, ...], Function] = {
    (1, 1): lambda z, slope=0.01: _below(z, lambda: mp.mpf(1))
}
SILU = _of_composed(lambda z: z, lambda z: mp.mpf(1), lambda z: mp.mpf(0))

SEVERAL: Mapping[str, Mapping[tuple[int, ...], Function]] = {
    "mul": {(1, 1): lambda a, b: mp.mpf(1)},
    "div": {(1, 1): lambda a, b: -1 / b**2, (0, 2): lambda a, b: 2 * a / b**3},
    "pow": {(2, 0): _power, (1, 1): _power_mixed, (0, 2): _power_exponent},
    "exp_difference": {(2, 0): _weight, (1, 1): lambda a, b: -_weight(a, b), (0, 2): _weight},
    "ratio_or_zero": {
        (1, 1): lambda a, b: mp.mpf(0) if b == 0 else -1 / b**2,
        (0, 2): lambda a, b: mp.mpf(0) if b == 0 else 2 * a / b**3,
    },
    "arctan2": {(2, 0): lambda a, b: -_arctan2(a, b), (1, 1): _arctan2_mixed, (0, 2): _arctan2},
    "hypot": {(2, 0): _hypot, (1, 1): _hypot_mixed, (0, 2): lambda a, b: _hypot(b, a)},
    "logaddexp": {
        (2, 0): _logaddexp,
        (1, 1): lambda a, b: -_logaddexp(a, b),
        (0, 2): _logaddexp,
    },
    "leaky_relu": LEAKY,
    "prelu": LEAKY,
    "elu": {(2, 0): _elu, (1, 1): lambda z, alpha=1: _elu(z, mp.mpf(1))},
    "celu": {
        (2, 0): lambda z, alpha=1: _below(z, lambda: mp.exp(z / alpha) / alpha),
        (1, 1): lambda z, alpha=1: _below(z, lambda: -z / alpha**2 * mp.exp(z / alpha)),
        (0, 2): lambda z, alpha=1: _below(z, lambda: z**2 / alpha**3 * mp.exp(z / alpha)),
    },
}
"""Functions of several arguments."""

SINGLE: Mapping[str, Function] = {
    "exp": mp.exp,
    "exp2": lambda z: mp.mpf(2) ** z * mp.log(2) ** 2,
    "expm1": mp.exp,
    "log": lambda z: _from(0, z, lambda: -1 / z**2),
    "log2": lambda z: _from(0, z, lambda: -1 / z**2 / mp.log(2)),
    "log10": lambda z: _from(0, z, lambda: -1 / z**2 / mp.log(10)),
    "log1p": lambda z: _from(-1, z, lambda: -1 / (1 + z) ** 2),
    "sqrt": lambda z: -1 / (4 * z * mp.sqrt(z)),
    "cbrt": lambda z: -2 / (9 * mp.sign(z) * mp.cbrt(abs(z)) ** 5),
    "square": lambda z: mp.mpf(2),
    "reciprocal": lambda z: 2 / z**3,
    "sin": lambda z: -mp.sin(z),
    "cos": lambda z: -mp.cos(z),
    "tan": lambda z: 2 * mp.tan(z) * mp.sec(z) ** 2,
    "arcsin": lambda z: z / mp.sqrt((1 - z) * (1 + z)) ** 3,
    "arccos": lambda z: -z / mp.sqrt((1 - z) * (1 + z)) ** 3,
    "arctan": lambda z: -2 * z / (1 + z * z) ** 2,
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "tanh": lambda z: -2 * mp.tanh(z) * mp.sech(z) ** 2,
    "arcsinh": lambda z: -z / mp.sqrt(1 + z * z) ** 3,
    "arccosh": lambda z: _from(1, z, lambda: -z / mp.sqrt((z - 1) * (z + 1)) ** 3),
    "arctanh": lambda z: mp.nan if abs(z) > 1 else 2 * z / ((1 - z) * (1 + z)) ** 2,
    "erf": _erf,
    "erfc": lambda z: -_erf(z),
    "gamma": _gamma,
    "lgamma": lambda z: mp.psi(1, z),
    "digamma": lambda z: mp.psi(2, z),
    "selu": lambda z: _elu(z, _selu_factor()),
    "gelu": lambda z: (2 - z * z) * mp.npdf(z),
    "gelu_tanh": _of_composed(
        gelu_inner,
        lambda z: 2 * mp.sqrt(2 / mp.pi) * (1 + 3 * mp.mpf("0.044715") * z**2),
        lambda z: 2 * mp.sqrt(2 / mp.pi) * 6 * mp.mpf("0.044715") * z,
    ),
    "silu": SILU,
    "swish": SILU,
    "mish": _mish,
    "softplus": sigmoid_slope,
    "softsign": lambda z: -2 * mp.sign(z) / (1 + abs(z)) ** 3,
    "sigmoid": lambda z: -sigmoid_slope(z) * mp.tanh(z / 2),
    "log_sigmoid": lambda z: -sigmoid_slope(z),
    "tanhshrink": lambda z: 2 * mp.tanh(z) * mp.sech(z) ** 2,
    "hardswish": lambda z: mp.mpf(1) / 3 if -3 < z < 3 else mp.mpf(0),
}
"""Functions of one argument."""

CURVATURES: Mapping[str, Mapping[tuple[int, ...], Function]] = MappingProxyType(
    {**SEVERAL, **{name: {(2,): curvature} for name, curvature in SINGLE.items()}}
)
"""Every second derivative that is not 0 everywhere, by function and order."""
