"""The activations of the language, with PyTorch's formulas and PyTorch's slopes at the kinks.

() -> Function, Function, ...
In the cases of a formula the last one takes what no comparison holds for, so nan passes through.
"""

from __future__ import annotations

import sympy
from sympy import And, Float, Piecewise, Rational, exp, log, sqrt, tanh

from symgrad.functions.function import ORDINARY, Function, Interval, Kink, function, kinks

SELU_SCALE = Float("1.0507009873554804934193349852946", 32)
SELU_ALPHA = Float("1.6732632423543772848170429916717", 32)
"""Klambauer et al., Self-Normalizing Neural Networks, 2017."""
CUBIC = Float("0.044715", 32)
"""The cubic term of tanh's approximation to the normal distribution (Hendrycks, Gimpel, 2016)."""
TAILS = (-800.0, -40.0, -20.0, 0.0, 1e-9, 20.0, 40.0, 800.0)
WIDTH: Interval = (0.1, 2.0)


def _leaky(z: sympy.Expr, slope: sympy.Expr) -> sympy.Expr:
    return Piecewise((z, z > 0), (slope * z, True))


def _between(z: sympy.Expr, low: sympy.Expr, high: sympy.Expr) -> sympy.Expr:
    return Piecewise((low, z <= low), (high, z >= high), (z, True))


def _inside(z: sympy.Expr, bound: sympy.Expr) -> sympy.Expr:
    return And(z <= bound, z >= -bound)


def _selu(z: sympy.Expr) -> sympy.Expr:
    return Piecewise((SELU_SCALE * z, z > 0), (SELU_SCALE * SELU_ALPHA * (exp(z) - 1), True))


def _gelu_tanh(z: sympy.Expr) -> sympy.Expr:
    return z * (1 + tanh(sqrt(2 / sympy.pi) * (z + CUBIC * z**3))) / 2


def _hard_sigmoid(z: sympy.Expr) -> sympy.Expr:
    return Piecewise((0, z <= -3), (1, z >= 3), (z / 6 + Rational(1, 2), True))


def _hard_swish(z: sympy.Expr) -> sympy.Expr:
    return Piecewise((0, z <= -3), (z, z >= 3), (z * (z + 3) / 6, True))


RECTIFIERS: tuple[Function, ...] = (
    function("identity", "z", lambda z: z, text="{0}", latex="{0}"),
    function(
        "relu", "z", lambda z: Piecewise((0, z <= 0), (z, True)), kinks=kinks(0.0, 0.0),
    ),
    function(
        "leaky_relu", "z slope", _leaky, defaults=(0.01,),
        kinks=(Kink((0.0, 0.01), (0.01, 0.0)),), test_range=(ORDINARY, WIDTH),
    ),
    function(
        "prelu", "z a", _leaky,
        kinks=(Kink((0.0, 0.25), (0.25, 0.0)),), test_range=(ORDINARY, WIDTH),
    ),
    function("relu6", "z", lambda z: _between(z, 0, 6), kinks=kinks(0.0, 0.0, 6.0),
             test_range=((-3.0, 9.0),)),
    function(
        "hardtanh", "z low high", _between, defaults=(-1.0, 1.0),
        kinks=(
            Kink((-1.0, -1.0, 1.0), (0.0, 1.0, 0.0)),
            Kink((1.0, -1.0, 1.0), (0.0, 0.0, 1.0)),
        ),
        test_range=(ORDINARY, (-1.5, -0.5), (0.5, 1.5)),
    ),
    function("hardsigmoid", "z", _hard_sigmoid, kinks=kinks(0.0, -3.0, 3.0),
             test_range=((-5.0, 5.0),)),
    function(
        "hardswish", "z", _hard_swish, kinks=(*kinks(0.0, -3.0), *kinks(1.0, 3.0)),
        test_range=((-5.0, 5.0),),
    ),
    function(
        "threshold", "z t v", lambda z, t, v: Piecewise((v, z <= t), (z, True)),
        kinks=(Kink((0.5, 0.5, 2.0), (0.0, 0.0, 1.0)),),
    ),
    function(
        "softshrink", "z bound",
        lambda z, bound: Piecewise((0, _inside(z, bound)), (z + bound, z < 0), (z - bound, True)),
        defaults=(0.5,), kinks=tuple(Kink((z, 0.5), (0.0, 0.0)) for z in (-0.5, 0.5)),
        test_range=(ORDINARY, WIDTH),
    ),
    function(
        "hardshrink", "z bound", lambda z, bound: Piecewise((0, _inside(z, bound)), (z, True)),
        defaults=(0.5,), kinks=tuple(Kink((z, 0.5), (0.0, 0.0)) for z in (-0.5, 0.5)),
        test_range=(ORDINARY, WIDTH),
    ),
)  # fmt: skip

UNITS: tuple[Function, ...] = (
    function(
        "elu", "z alpha", lambda z, alpha: Piecewise((z, z > 0), (alpha * (exp(z) - 1), True)),
        from_value=lambda y, z, alpha: Piecewise((1, z > 0), (y + alpha, True)),
        defaults=(1.0,), kinks=(Kink((0.0, 1.5), (1.5, 0.0)),), test_range=(ORDINARY, WIDTH),
        test_points=((-800.0, 1.0), (-1e-9, 1.0), (800.0, 1.0)),
    ),
    function(
        "selu", "z", _selu, kinks=kinks(float(SELU_SCALE * SELU_ALPHA), 0.0),
        test_points=(-800.0, -1e-9, 800.0),
    ),
    function(
        "celu", "z alpha",
        lambda z, alpha: Piecewise((z, z > 0), (alpha * (exp(z / alpha) - 1), True)),
        defaults=(1.0,), kinks=(Kink((0.0, 1.5), (1.0, 0.0)),), test_range=(ORDINARY, WIDTH),
        test_points=((-800.0, 1.0), (-1e-9, 1.0), (800.0, 1.0)),
    ),
    function("gelu", "z", lambda z: z * (1 + sympy.erf(z / sqrt(2))) / 2, test_points=TAILS),
    function("gelu_tanh", "z", _gelu_tanh, test_points=TAILS),
    function(
        "silu", "z", lambda z: z / (1 + exp(-z)), aliases=("swish",),
        test_points=TAILS,
    ),
    function(
        "mish", "z", lambda z: z * tanh(log(1 + exp(z))), test_points=TAILS,
    ),
)  # fmt: skip

SIGMOIDS: tuple[Function, ...] = (
    function("softplus", "z", lambda z: log(1 + exp(z)), test_points=TAILS),
    function("softsign", "z", lambda z: z / (1 + sympy.Abs(z)), test_points=(-1e200, 0.0, 1e9)),
    function(
        "sigmoid", "z", lambda z: 1 / (1 + exp(-z)), from_value=lambda y, z: y * (1 - y),
        test_points=TAILS,
    ),
    function(
        "log_sigmoid", "z", lambda z: -log(1 + exp(-z)), from_value=lambda y, z: 1 - exp(y),
        test_points=TAILS,
    ),
    function(
        "tanhshrink", "z", lambda z: z - tanh(z),
        test_points=(-300.0, -1e-3, 1e-9, 20.0),
    ),
)  # fmt: skip

ACTIVATIONS: tuple[Function, ...] = (*RECTIFIERS, *UNITS, *SIGMOIDS)
