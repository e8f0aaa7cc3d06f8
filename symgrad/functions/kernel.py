"""How a scalar function, or a partial derivative of it, is called in generated code.

name, order -> Kernel
A template where one operation does, else a call of a helper that keeps all digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from symgrad.errors import CodegenError
from symgrad.functions.complex_calls import COMPLEX
from symgrad.functions.sources import HELPERS, closure
from symgrad.functions.table import FUNCTIONS

Order = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """`call` is a template over argument texts; `helpers` is all it needs, in order.

    Argument texts must be atoms (names, element reads, calls, or in parentheses).
    """

    call: str
    helpers: tuple[str, ...] = ()


@cache
def kernel(function: str, order: Order = (), complex: bool = False) -> Kernel:  # noqa: A002
    """Return the call of a function, or of its partial derivative of `order`.

    Raises CodegenError where there is none: abstract functions, derivatives beyond the second,
    and complex numbers where a function is not analytic.
    """
    entry = FUNCTIONS.get(function)
    if entry is None:
        raise CodegenError(f"{function} is abstract: it has no values to compute")
    order = (*order, *(0,) * (len(entry.arguments) - len(order)))
    if complex:
        return _complex_kernel(entry.name, order)
    call = CALLS.get((entry.name, order))
    if call is not None:
        return Kernel(call, closure(tuple(n for n in HELPERS if f"{n}(" in _spaced(call))))
    name = helper_name(entry.name, order)
    if name not in HELPERS:
        raise CodegenError(f"the derivative of order {order} of {entry.name} has no kernel")
    slots = ", ".join(f"{{{n}}}" for n in range(len(entry.arguments)))
    return Kernel(f"{name}({slots})", closure((name,)))


def _spaced(call: str) -> str:
    """Return the call without calls of modules' functions, which are no helpers."""
    return " ".join(word for word in call.replace("(", "( ").split() if "." not in word)


def _complex_kernel(name: str, order: Order) -> Kernel:
    call = COMPLEX.get((name, order))
    if call is None:
        what = name if not any(order) else f"the derivative of {name}"
        raise CodegenError(f"{what} has no complex kernel", hint="pass real arrays")
    return Kernel(call)


def helper_name(function: str, order: Order) -> str:
    """Return the name of the helper for a derivative: tanh_slope, hypot_slope_0, hypot_slope_01."""
    stem = STEMS.get(function, function)
    total = sum(order)
    if not total:
        return stem
    if len(order) == 1:
        return f"{stem}_{'slope' if total == 1 else 'curvature' if total == 2 else total}"
    places = "".join(str(k) * times for k, times in enumerate(order))
    return f"{stem}_slope_{places}"


STEMS: Mapping[str, str] = MappingProxyType(
    {"pow": "power", "prelu": "leaky_relu", "hardtanh": "clip"}
)
"""Functions whose helpers go by another name."""


def _unary(function: str, value: str, *derivatives: str) -> dict[tuple[str, Order], str]:
    return {(function, (n,)): call for n, call in enumerate((value, *derivatives))}


CALLS: Mapping[tuple[str, Order], str] = MappingProxyType(
    {
        **_unary("neg", "(-{0})", "(-1.0)", "0.0"),
        **_unary("not_", "({0} == 0.0)", "0.0"),
        **_unary("identity", "{0}", "1.0", "0.0"),
        **_unary("square", "square({0})", "(2.0 * {0})", "2.0"),
        **_unary("exp", "exp({0})", "exp({0})", "exp({0})"),
        **_unary("expm1", "expm1({0})", "exp({0})", "exp({0})"),
        **_unary("exp2", "np.exp2({0})"),
        **_unary("log2", "np.log2({0})"),
        **_unary("log10", "np.log10({0})"),
        **_unary("sqrt", "np.sqrt({0})"),
        **_unary("cbrt", "np.cbrt({0})"),
        **_unary("abs", "abs({0})", "np.sign({0})", "0.0"),
        **_unary("sign", "np.sign({0})", "0.0", "0.0"),
        **_unary("floor", "np.floor({0})", "0.0", "0.0"),
        **_unary("ceil", "np.ceil({0})", "0.0", "0.0"),
        **_unary("round", "np.rint({0})", "0.0", "0.0"),
        **_unary("sin", "np.sin({0})", "np.cos({0})", "(-np.sin({0}))"),
        **_unary("cos", "np.cos({0})", "(-np.sin({0}))", "(-np.cos({0}))"),
        **_unary("tan", "np.tan({0})"),
        **_unary("arcsin", "np.arcsin({0})"),
        **_unary("arccos", "np.arccos({0})"),
        **_unary("arctan", "np.arctan({0})"),
        **_unary("sinh", "np.sinh({0})", "np.cosh({0})", "np.sinh({0})"),
        **_unary("cosh", "np.cosh({0})", "np.sinh({0})", "np.cosh({0})"),
        **_unary("arcsinh", "np.arcsinh({0})"),
        **_unary("arccosh", "np.arccosh({0})"),
        **_unary("arctanh", "np.arctanh({0})"),
        **_unary("erf", "math.erf({0})"),
        **_unary("erfc", "math.erfc({0})"),
        **_unary("lgamma", "lgamma({0})", "digamma({0})", "digamma_slope({0})"),
        **_unary("softplus", "softplus({0})", "sigmoid({0})", "sigmoid_slope({0})"),
        **_unary("relu", "relu({0})", "relu_slope({0})", "0.0"),
        **_unary("relu6", "relu6({0})", "relu6_slope({0})", "0.0"),
        **_unary("hardsigmoid", "hardsigmoid({0})", "hardsigmoid_slope({0})", "0.0"),
        ("add", (0, 0)): "({0} + {1})",
        ("sub", (0, 0)): "({0} - {1})",
        ("mul", (0, 0)): "({0} * {1})",
        ("div", (0, 0)): "({0} / {1})",
        ("lt", (0, 0)): "({0} < {1})",
        ("le", (0, 0)): "({0} <= {1})",
        ("gt", (0, 0)): "({0} > {1})",
        ("ge", (0, 0)): "({0} >= {1})",
        ("eq", (0, 0)): "({0} == {1})",
        ("ne", (0, 0)): "({0} != {1})",
        ("and_", (0, 0)): "({0} != 0.0 and {1} != 0.0)",
        ("or_", (0, 0)): "({0} != 0.0 or {1} != 0.0)",
        ("where", (0, 0, 0)): "({1} if {0} != 0.0 else {2})",
        ("where", (0, 1, 0)): "(1.0 if {0} != 0.0 else 0.0)",
        ("where", (0, 0, 1)): "(0.0 if {0} != 0.0 else 1.0)",
        ("hypot", (0, 0)): "np.hypot({0}, {1})",
        ("arctan2", (0, 0)): "np.arctan2({0}, {1})",
        ("exp_difference", (1, 0)): "exp_difference({0}, {1})",
        ("exp_difference", (2, 0)): "exp_difference({0}, {1})",
        ("exp_difference", (1, 1)): "exp_difference_slope_1({0}, {1})",
        ("exp_difference", (0, 2)): "exp_difference({0}, {1})",
        ("logaddexp", (0, 2)): "logaddexp_slope_00({0}, {1})",
        ("ratio_or_zero", (2, 0)): "0.0",
        ("hardtanh", (1, 0, 0)): "hardtanh_slope_0({0}, {1}, {2})",
        ("hardtanh", (0, 1, 0)): "hardtanh_slope_1({0}, {1}, {2})",
        ("hardtanh", (0, 0, 1)): "hardtanh_slope_2({0}, {1}, {2})",
        ("hardshrink", (1, 0)): "softshrink_slope_0({0}, {1})",
        ("hardshrink", (0, 1)): "0.0",
        ("threshold", (0, 1, 0)): "0.0",
    }
)
"""Calls that are no helper of their own name; masks may be numbers 0 and 1."""
