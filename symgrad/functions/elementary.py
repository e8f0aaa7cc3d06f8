"""The element-wise functions of the language that are not activations.

() -> Function, Function, ...
Each is its textbook formula; where one has a kink, the formula's cases put the point on the side
whose slope the language promises.
"""

from __future__ import annotations

from math import inf

import sympy

from symgrad.functions.function import (
    EVERYWHERE,
    POSITIVE,
    Function,
    Interval,
    Kink,
    function,
    kinks,
)

UNIT: Interval = (-1.0, 1.0)
INSIDE: Interval = (-0.9, 0.9)
ABOVE_ZERO: Interval = (0.2, 3.0)
TIE = (0.5, 0.5)

EXPONENTIAL: tuple[Function, ...] = (
    function(
        "exp", "z", sympy.exp, from_value=lambda y, z: y,
        text="e^{0}", latex="e^{{{0}}}", test_points=(-745.0, -100.0, 0.0, 700.0),
    ),
    function(
        "exp2", "z", lambda z: sympy.Integer(2) ** z,
        from_value=lambda y, z: y * sympy.log(2),
        text="2^{0}", latex="2^{{{0}}}", test_points=(-1000.0, 0.0, 1000.0),
    ),
    function(
        "expm1", "z", lambda z: sympy.exp(z) - 1, from_value=lambda y, z: y + 1,
        test_points=(-800.0, -1e-10, 0.0, 1e-10, 700.0),
    ),
    function(
        "log", "z", sympy.log, latex=r"\log({0})",
        domain=(POSITIVE,), test_range=(ABOVE_ZERO,), test_points=(1e-300, 1.0, 1e300),
    ),
    function(
        "log2", "z", lambda z: sympy.log(z) / sympy.log(2), latex=r"\log_2({0})",
        domain=(POSITIVE,), test_range=(ABOVE_ZERO,), test_points=(1e-300, 1.0, 8.0),
    ),
    function(
        "log10", "z", lambda z: sympy.log(z) / sympy.log(10),
        latex=r"\log_{{10}}({0})",
        domain=(POSITIVE,), test_range=(ABOVE_ZERO,), test_points=(1e-300, 1.0, 1000.0),
    ),
    function(
        "log1p", "z", lambda z: sympy.log(1 + z), text="log(1 + {0})",
        latex=r"\log(1 + {0})", domain=((-1.0, inf),), test_range=((-0.9, 3.0),),
        test_points=(-1e-10, 0.0, 1e-10, 1e300),
    ),
    function(
        "logaddexp", "a b", lambda a, b: sympy.log(sympy.exp(a) + sympy.exp(b)),
        from_value=lambda y, a, b: sympy.exp(a - y),
        kinks=(Kink((-inf, -inf), (0.0, 0.0)),),
        test_points=((800.0, -800.0), (-800.0, -801.0), (1000.0, 1000.0)),
    ),
)  # fmt: skip

THIRD = sympy.Rational(1, 3)


def _cube_root(z: sympy.Expr) -> sympy.Expr:
    return sympy.Piecewise((-((-z) ** THIRD), z < 0), (z**THIRD, True))


POWERS: tuple[Function, ...] = (
    function(
        "sqrt", "z", sympy.sqrt, from_value=lambda y, z: 1 / (2 * y),
        text="√({0})", latex=r"\sqrt{{{0}}}",
        domain=((0.0, inf),), test_range=(ABOVE_ZERO,), test_points=(1e-300, 1e300),
    ),
    function(
        "cbrt", "z", _cube_root,
        from_value=lambda y, z: 1 / (3 * y**2), latex=r"\sqrt[3]{{{0}}}",
        test_points=(-8.0, 1e-300, 1e300),
    ),
    function(
        "square", "z", lambda z: z**2,
        text="{0}^2", latex="{{{0}}}^2", test_points=(0.0,),
    ),
    function(
        "reciprocal", "z", lambda z: 1 / z, from_value=lambda y, z: -(y**2),
        text="1/{0}", latex=r"\frac{{1}}{{{0}}}", test_range=(ABOVE_ZERO,),
        test_points=(-1e150, 1e-150),
    ),
    function(
        "hypot", "a b",
        lambda a, b: sympy.Piecewise(
            (0, sympy.And(sympy.Eq(a, 0), sympy.Eq(b, 0))), (sympy.sqrt(a**2 + b**2), True)
        ),
        from_value=lambda y, a, b: sympy.Piecewise((0, sympy.Eq(y, 0)), (a / y, True)),
        latex=r"\sqrt{{{0}^2 + {1}^2}}",
        kinks=(Kink((0.0, 0.0), (0.0, 0.0)),),
        test_points=((1e200, 1e200), (1e-200, 1e-200)),
    ),
)  # fmt: skip

CIRCULAR: tuple[Function, ...] = (
    function("sin", "z", sympy.sin, latex=r"\sin({0})"),
    function("cos", "z", sympy.cos, latex=r"\cos({0})"),
    function(
        "tan", "z", sympy.tan, from_value=lambda y, z: 1 + y**2,
        latex=r"\tan({0})", test_range=((-1.4, 1.4),),
    ),
    function(
        "arcsin", "z", sympy.asin, latex=r"\arcsin({0})", domain=(UNIT,),
        test_range=(INSIDE,), test_points=(0.999999999999,),
    ),
    function(
        "arccos", "z", sympy.acos, latex=r"\arccos({0})", domain=(UNIT,),
        test_range=(INSIDE,), test_points=(0.999999999999,),
    ),
    function(
        "arctan", "z", sympy.atan, latex=r"\arctan({0})", test_points=(1e200, -1e8)
    ),
    function(
        "arctan2", "a b", sympy.atan2, test_range=((-3.0, 3.0), ABOVE_ZERO),
        test_points=((1e200, 1e200), (1e-200, 1e-200), (1.0, -2.0)),
    ),
)  # fmt: skip

HYPERBOLIC: tuple[Function, ...] = (
    function("sinh", "z", sympy.sinh, latex=r"\sinh({0})", test_points=(700.0, 1e-9)),
    function("cosh", "z", sympy.cosh, latex=r"\cosh({0})", test_points=(700.0, 1e-9)),
    function(
        "tanh", "z", sympy.tanh, from_value=lambda y, z: 1 - y**2,
        latex=r"\tanh({0})", test_points=(-300.0, -20.0, 0.0, 1e-9, 20.0, 300.0, 800.0),
    ),
    function(
        "arcsinh", "z", sympy.asinh, test_points=(-1e8, 1e-9, 1e200)
    ),
    function(
        "arccosh", "z", sympy.acosh, domain=((1.0, inf),),
        test_range=((1.2, 3.0),), test_points=(1.000000000001, 1e200),
    ),
    function(
        "arctanh", "z", sympy.atanh, domain=(UNIT,),
        test_range=(INSIDE,), test_points=(0.999999999999, 1e-9),
    ),
)  # fmt: skip

SPECIAL: tuple[Function, ...] = (
    function("erf", "z", sympy.erf, test_points=(-6.0, 1e-9, 20.0)),
    function("erfc", "z", sympy.erfc, test_points=(-6.0, 1e-9, 20.0, 26.0)),
    function(
        "gamma", "z", sympy.gamma, from_value=lambda y, z: y * sympy.digamma(z),
        latex=r"\Gamma({0})", domain=(POSITIVE,), test_range=(ABOVE_ZERO,),
        test_points=(1e-9, 1.0, 1.4616321449683623, 170.0),
    ),
    function(
        "lgamma", "z", sympy.loggamma, from_value=lambda y, z: sympy.digamma(z),
        latex=r"\log\Gamma({0})", domain=(POSITIVE,),
        test_range=(ABOVE_ZERO,), test_points=(1e-9, 1.0, 2.0, 1.4616321449683623, 1e10),
    ),
    function(
        "digamma", "z", sympy.digamma, latex=r"\psi({0})", domain=(POSITIVE,),
        test_range=(ABOVE_ZERO,), test_points=(1e-9, 1.4616321449683623, 1e10),
    ),
)  # fmt: skip


def _sign(z: sympy.Expr) -> sympy.Expr:
    return sympy.Piecewise((-1, z < 0), (0, sympy.Eq(z, 0)), (1, True))


def _nearest(z: sympy.Expr) -> sympy.Expr:
    """Return the nearest whole number, ties to the even one."""
    half = sympy.Rational(1, 2)
    even = 2 * sympy.floor(z / 2 + half / 2)
    tie = sympy.Eq(z - sympy.floor(z), half)
    return sympy.Piecewise((even, tie), (sympy.floor(z + half), True))


def _clip(z: sympy.Expr, low: sympy.Expr, high: sympy.Expr) -> sympy.Expr:
    """Return z between the bounds, for low <= high; the kernel gives high where they cross."""
    return sympy.Piecewise((low, z < low), (high, z > high), (z, True))


PIECEWISE: tuple[Function, ...] = (
    function("abs", "z", sympy.Abs, text="|{0}|", latex="|{0}|", kinks=kinks(0.0, 0.0)),
    function("sign", "z", _sign, kinks=kinks(0.0, 0.0)),
    function(
        "floor", "z", sympy.floor, text="⌊{0}⌋", latex=r"\lfloor {0} \rfloor",
        kinks=kinks(0.0, -1.0, 2.0),
    ),
    function(
        "ceil", "z", sympy.ceiling, text="⌈{0}⌉", latex=r"\lceil {0} \rceil",
        kinks=kinks(0.0, -1.0, 2.0),
    ),
    function("round", "z", _nearest, kinks=kinks(0.0, -0.5, 1.5, 2.5)),
    function(
        "heaviside", "z at_zero",
        lambda z, at_zero: sympy.Piecewise((0, z < 0), (1, z > 0), (at_zero, True)),
        defaults=(0.5,), kinks=(Kink((0.0, 0.5), (0.0, 1.0)),),
    ),
    function(
        "maximum", "a b",
        lambda a, b: sympy.Piecewise((a, a > b), (b, b > a), (a / 2 + b / 2, True)),
        latex=r"\max({0}, {1})", kinks=(Kink((1.0, 1.0), TIE), Kink((-2.0, -2.0), TIE)),
    ),
    function(
        "minimum", "a b",
        lambda a, b: sympy.Piecewise((a, a < b), (b, b < a), (a / 2 + b / 2, True)),
        latex=r"\min({0}, {1})", kinks=(Kink((1.0, 1.0), TIE), Kink((-2.0, -2.0), TIE)),
    ),
    function(
        "clip", "z low high", _clip, domain=(EVERYWHERE,) * 3,
        kinks=(
            Kink((-1.0, -1.0, 2.0), (1.0, 0.0, 0.0)),
            Kink((2.0, -1.0, 2.0), (1.0, 0.0, 0.0)),
        ),
        test_range=((-3.0, 3.0), (-1.5, -0.5), (0.5, 1.5)),
        test_points=((0.0, 2.0, 1.0), (3.0, 2.0, 1.0)),
    ),
)  # fmt: skip

ELEMENTWISE: tuple[Function, ...] = (
    *EXPONENTIAL, *POWERS, *CIRCULAR, *HYPERBOLIC, *SPECIAL, *PIECEWISE,
)  # fmt: skip
