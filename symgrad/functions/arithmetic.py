"""The operators of the language as functions: arithmetic, comparisons, masks.

() -> Function, Function, ...
A mask is 0 or 1, and its slope is 0 everywhere.
"""

from __future__ import annotations

import sympy

from symgrad.functions.function import EVERYWHERE, POSITIVE, Body, Function, Kink, function

ZERO_OR_ONE = (0.0, 1.0)
AWAY_FROM_ZERO = (0.2, 3.0)


def _bracket(condition: Body) -> Body:
    """Return the Iverson bracket of a condition."""
    return lambda *args: sympy.Piecewise((1, condition(*args)), (0, True))


def _comparison(name: str, condition: Body, sign: str, latex: str) -> Function:
    return function(
        name,
        "a b",
        _bracket(condition),
        text=f"({{0}} {sign} {{1}})",
        latex=f"({{0}} {latex} {{1}})",
    )


ARITHMETIC: tuple[Function, ...] = (
    function("add", "a b", lambda a, b: a + b, text="{0} + {1}", latex="{0} + {1}"),
    function("sub", "a b", lambda a, b: a - b, text="{0} - {1}", latex="{0} - {1}"),
    function("mul", "a b", lambda a, b: a * b, text="{0} {1}", latex="{0} {1}"),
    function(
        "div", "a b", lambda a, b: a / b,
        text="{0}/{1}", latex=r"\frac{{{0}}}{{{1}}}",
        test_range=((-3.0, 3.0), AWAY_FROM_ZERO),
    ),
    function("neg", "a", lambda a: -a, text="-{0}", latex="-{0}"),
    function(
        "pow", "a b", lambda a, b: a**b,
        text="{0}^{1}", latex="{{{0}}}^{{{1}}}",
        domain=((0.0, POSITIVE[1]), EVERYWHERE),
        kinks=(Kink((0.0, 1.0), (1.0, 0.0)), Kink((0.0, 2.0), (0.0, 0.0))),
        test_range=(AWAY_FROM_ZERO, (-3.0, 3.0)),
    ),
)  # fmt: skip

LOGIC: tuple[Function, ...] = (
    _comparison("lt", lambda a, b: a < b, "<", "<"),
    _comparison("le", lambda a, b: a <= b, "≤", r"\le"),
    _comparison("gt", lambda a, b: a > b, ">", ">"),
    _comparison("ge", lambda a, b: a >= b, "≥", r"\ge"),
    _comparison("eq", sympy.Eq, "=", "="),
    _comparison("ne", sympy.Ne, "≠", r"\ne"),
    function(
        "and_", "a b", _bracket(lambda a, b: sympy.And(sympy.Ne(a, 0), sympy.Ne(b, 0))),
        text="({0} and {1})", latex=r"({0} \land {1})", test_range=(ZERO_OR_ONE,) * 2,
    ),
    function(
        "or_", "a b", _bracket(lambda a, b: sympy.Or(sympy.Ne(a, 0), sympy.Ne(b, 0))),
        text="({0} or {1})", latex=r"({0} \lor {1})", test_range=(ZERO_OR_ONE,) * 2,
    ),
    function(
        "not_", "a", _bracket(lambda a: sympy.Eq(a, 0)),
        text="(not {0})", latex=r"(\lnot {0})", test_range=(ZERO_OR_ONE,),
    ),
    function(
        "where", "mask a b", lambda mask, a, b: sympy.Piecewise((a, sympy.Ne(mask, 0)), (b, True)),
        latex=r"\operatorname{{where}}({0}, {1}, {2})",
        test_range=(ZERO_OR_ONE, (-3.0, 3.0), (-3.0, 3.0)),
    ),
)  # fmt: skip

INTERNAL: tuple[Function, ...] = (
    function(
        "exp_difference", "a b", lambda a, b: sympy.exp(a - b), from_value=lambda y, a, b: y,
        text="exp({0} - {1})", latex="e^{{{0} - {1}}}",
        kinks=(Kink((-float("inf"), -float("inf")), (0.0, 0.0)),),
    ),
    function(
        "ratio_or_zero", "a b", lambda a, b: sympy.Piecewise((0, sympy.Eq(b, 0)), (a / b, True)),
        text="{0}/{1}", latex=r"\frac{{{0}}}{{{1}}}",
        kinks=(Kink((0.0, 0.0), (0.0, 0.0)),),
        test_range=((-3.0, 3.0), AWAY_FROM_ZERO),
    ),
)  # fmt: skip
"""What slopes of logsumexp and norm are made of: exp(a - b), 0 for a = -inf; a/b, 0 for b = 0."""
