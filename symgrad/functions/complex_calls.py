"""Calls for complex numbers: the analytic functions, as numpy computes them.

(name, order) -> template
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

Order = tuple[int, ...]


def _unary(function: str, value: str, slope: str) -> dict[tuple[str, Order], str]:
    return {(function, (0,)): value, (function, (1,)): slope}


COMPLEX: Mapping[tuple[str, Order], str] = MappingProxyType(
    {
        **_unary("neg", "(-{0})", "(-1.0)"),
        **_unary("identity", "{0}", "1.0"),
        **_unary("exp", "np.exp({0})", "np.exp({0})"),
        **_unary(
            "exp2", "np.exp({0} * 0.6931471805599453)",
            "(0.6931471805599453 * np.exp({0} * 0.6931471805599453))",
        ),
        **_unary("log", "np.log({0})", "(1.0 / {0})"),
        **_unary("log2", "(np.log({0}) * 1.4426950408889634)", "(1.4426950408889634 / {0})"),
        **_unary("log10", "(np.log({0}) * 0.4342944819032518)", "(0.4342944819032518 / {0})"),
        **_unary("sqrt", "np.sqrt({0})", "(0.5 / np.sqrt({0}))"),
        **_unary("square", "({0} * {0})", "(2.0 * {0})"),
        **_unary("reciprocal", "(1.0 / {0})", "(-1.0 / ({0} * {0}))"),
        **_unary("sin", "np.sin({0})", "np.cos({0})"),
        **_unary("cos", "np.cos({0})", "(-np.sin({0}))"),
        **_unary("tan", "np.tan({0})", "(1.0 + np.tan({0}) ** 2)"),
        **_unary("arcsin", "np.arcsin({0})", "(1.0 / np.sqrt(1.0 - {0} * {0}))"),
        **_unary("arccos", "np.arccos({0})", "(-1.0 / np.sqrt(1.0 - {0} * {0}))"),
        **_unary("arctan", "np.arctan({0})", "(1.0 / (1.0 + {0} * {0}))"),
        **_unary("sinh", "np.sinh({0})", "np.cosh({0})"),
        **_unary("cosh", "np.cosh({0})", "np.sinh({0})"),
        **_unary("tanh", "np.tanh({0})", "(1.0 / np.cosh({0}) ** 2)"),
        **_unary("arcsinh", "np.arcsinh({0})", "(1.0 / np.sqrt(1.0 + {0} * {0}))"),
        **_unary(
            "arccosh", "np.arccosh({0})", "(1.0 / (np.sqrt({0} - 1.0) * np.sqrt({0} + 1.0)))"
        ),
        **_unary("arctanh", "np.arctanh({0})", "(1.0 / (1.0 - {0} * {0}))"),
        **_unary("sigmoid", "(0.5 + 0.5 * np.tanh(0.5 * {0}))", "(0.25 / np.cosh(0.5 * {0}) ** 2)"),
        **_unary(
            "silu",
            "({0} * (0.5 + 0.5 * np.tanh(0.5 * {0})))",
            "(0.5 + 0.5 * np.tanh(0.5 * {0}) + 0.25 * {0} / np.cosh(0.5 * {0}) ** 2)",
        ),
        **_unary("tanhshrink", "({0} - np.tanh({0}))", "(np.tanh({0}) ** 2)"),
        ("add", (0, 0)): "({0} + {1})",
        ("sub", (0, 0)): "({0} - {1})",
        ("mul", (0, 0)): "({0} * {1})",
        ("div", (0, 0)): "({0} / {1})",
        ("pow", (0, 0)): "({0} ** {1})",
        ("pow", (1, 0)): "({1} * {0} ** ({1} - 1.0))",
        ("pow", (0, 1)): "({0} ** {1} * np.log({0}))",
    }
)
"""erf and the gamma family would need kernels of their own; piecewise functions are not analytic."""
