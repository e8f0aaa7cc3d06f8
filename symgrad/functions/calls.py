"""The texts of calls: value and slopes of every scalar function.

One line a function; helpers named here are written in `symgrad/functions/numerics`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


def _comparison(sign: str) -> str:
    return f"(1.0 if {{0}} {sign} {{1}} else 0.0)"


ARITHMETIC = {
    "add": ("({0} + {1})", "1.0", "1.0"),
    "sub": ("({0} - {1})", "1.0", "(-1.0)"),
    "mul": ("({0} * {1})", "{1}", "{0}"),
    "div": ("({0} / {1})", "reciprocal({1})", "quotient_slope({0}, {1})"),
    "neg": ("(-{0})", "(-1.0)"),
}

MASKS = {
    "lt": (_comparison("<"), "0.0", "0.0"),
    "le": (_comparison("<="), "0.0", "0.0"),
    "gt": (_comparison(">"), "0.0", "0.0"),
    "ge": (_comparison(">="), "0.0", "0.0"),
    "eq": (_comparison("=="), "0.0", "0.0"),
    "ne": (_comparison("!="), "0.0", "0.0"),
    "and_": ("both({0}, {1})", "0.0", "0.0"),
    "or_": ("either({0}, {1})", "0.0", "0.0"),
    "not_": ("(0.0 if {0} else 1.0)", "0.0"),
    "where": (
        "choose({0}, {1}, {2})",
        "0.0",
        "(1.0 if {0} else 0.0)",
        "(0.0 if {0} else 1.0)",
    ),
}

ELEMENTARY = {
    "pow": ("power({0}, {1})", "power_slope({0}, {1})", "power_exponent_slope({0}, {1})"),
    "exp": ("exp({0})", "exp({0})"),
    "exp2": ("exp2({0})", "exp2_slope({0})"),
    "expm1": ("expm1({0})", "exp({0})"),
    "log": ("log({0})", "log_slope({0})"),
    "log2": ("log2({0})", "log2_slope({0})"),
    "log10": ("log10({0})", "log10_slope({0})"),
    "log1p": ("log1p({0})", "log1p_slope({0})"),
    "sqrt": ("np.sqrt({0})", "np.divide(0.5, np.sqrt({0}))"),
    "cbrt": ("cbrt({0})", "cbrt_slope({0})"),
    "square": ("({0} * {0})", "(2.0 * {0})"),
    "reciprocal": ("reciprocal({0})", "reciprocal_slope({0})"),
    "abs": ("abs({0})", "sign({0})"),
    "sign": ("sign({0})", "0.0"),
    "sin": ("np.sin({0})", "np.cos({0})"),
    "cos": ("np.cos({0})", "(-np.sin({0}))"),
    "tan": ("np.tan({0})", "tan_slope({0})"),
    "arcsin": ("np.arcsin({0})", "arcsin_slope({0})"),
    "arccos": ("np.arccos({0})", "(-arcsin_slope({0}))"),
    "arctan": ("np.arctan({0})", "arctan_slope({0})"),
    "arctan2": (
        "np.arctan2({0}, {1})",
        "arctan2_slope({0}, {1})",
        "arctan2_second_slope({0}, {1})",
    ),
    "sinh": ("sinh({0})", "cosh({0})"),
    "cosh": ("cosh({0})", "sinh({0})"),
    "tanh": ("tanh({0})", "tanh_slope({0})"),
    "arcsinh": ("arcsinh({0})", "arcsinh_slope({0})"),
    "arccosh": ("arccosh({0})", "arccosh_slope({0})"),
    "arctanh": ("arctanh({0})", "arctanh_slope({0})"),
    "erf": ("erf({0})", "erf_slope({0})"),
    "erfc": ("erfc({0})", "(-erf_slope({0}))"),
    "gamma": ("gamma_function({0})", "gamma_slope({0})"),
    "lgamma": ("lgamma({0})", "digamma({0})"),
    "digamma": ("digamma({0})", "trigamma({0})"),
    "maximum": ("maximum({0}, {1})", "maximum_slope({0}, {1})", "maximum_slope({1}, {0})"),
    "minimum": ("minimum({0}, {1})", "minimum_slope({0}, {1})", "minimum_slope({1}, {0})"),
    "clip": (
        "clip({0}, {1}, {2})",
        "inside({0}, {1}, {2})",
        "clip_low_slope({0}, {1}, {2})",
        "clip_high_slope({0}, {1}, {2})",
    ),
    "hypot": ("np.hypot({0}, {1})", "hypot_slope({0}, {1})", "hypot_slope({1}, {0})"),
    "logaddexp": ("logaddexp({0}, {1})", "logaddexp_slope({0}, {1})", "logaddexp_slope({1}, {0})"),
    "floor": ("np.floor({0})", "0.0"),
    "ceil": ("np.ceil({0})", "0.0"),
    "round": ("np.rint({0})", "0.0"),
    "heaviside": ("heaviside({0}, {1})", "0.0", "(1.0 if {0} == 0.0 else 0.0)"),
    "exp_difference": (
        "exp_difference({0}, {1})",
        "exp_difference({0}, {1})",
        "(-exp_difference({0}, {1}))",
    ),
    "ratio_or_zero": (
        "ratio_or_zero({0}, {1})",
        "ratio_or_zero_slope({0}, {1})",
        "ratio_or_zero_divisor_slope({0}, {1})",
    ),
}

ACTIVATIONS = {
    "identity": ("{0}", "1.0"),
    "relu": ("relu({0})", "step_up({0})"),
    "leaky_relu": ("leaky_relu({0}, {1})", "leaky_relu_slope({0}, {1})", "lower_part({0})"),
    "prelu": ("leaky_relu({0}, {1})", "leaky_relu_slope({0}, {1})", "lower_part({0})"),
    "relu6": ("clip({0}, 0.0, 6.0)", "within({0}, 0.0, 6.0)"),
    "elu": ("elu({0}, {1})", "elu_slope({0}, {1})", "elu_alpha_slope({0})"),
    "selu": ("selu({0})", "selu_slope({0})"),
    "celu": ("celu({0}, {1})", "celu_slope({0}, {1})", "celu_alpha_slope({0}, {1})"),
    "gelu": ("gelu({0})", "gelu_slope({0})"),
    "gelu_tanh": ("gelu_tanh({0})", "gelu_tanh_slope({0})"),
    "silu": ("silu({0})", "silu_slope({0})"),
    "swish": ("silu({0})", "silu_slope({0})"),
    "mish": ("mish({0})", "mish_slope({0})"),
    "softplus": ("softplus({0})", "sigmoid({0})"),
    "softsign": ("softsign({0})", "softsign_slope({0})"),
    "sigmoid": ("sigmoid({0})", "sigmoid_slope({0})"),
    "log_sigmoid": ("log_sigmoid({0})", "sigmoid(-{0})"),
    "tanhshrink": ("tanhshrink({0})", "tanhshrink_slope({0})"),
    "softshrink": (
        "softshrink({0}, {1})",
        "above(abs({0}), {1})",
        "softshrink_bound_slope({0}, {1})",
    ),
    "hardshrink": ("hardshrink({0}, {1})", "above(abs({0}), {1})", "0.0"),
    "hardtanh": (
        "clip({0}, {1}, {2})",
        "within({0}, {1}, {2})",
        "at_most({0}, {1})",
        "at_most(-{0}, -{2})",
    ),
    "hardsigmoid": ("hardsigmoid({0})", "(within({0}, -3.0, 3.0) / 6.0)"),
    "hardswish": ("hardswish({0})", "hardswish_slope({0})"),
    "threshold": (
        "threshold({0}, {1}, {2})",
        "above({0}, {1})",
        "0.0",
        "at_most({0}, {1})",
    ),
}

_TABLE = ARITHMETIC | MASKS | ELEMENTARY | ACTIVATIONS

VALUES: Mapping[str, str] = MappingProxyType({name: line[0] for name, line in _TABLE.items()})
"""The call of each function."""

SLOPES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {name: line[1:] for name, line in _TABLE.items()}
)
"""The calls of each function's slopes, one an argument."""

_LEAKY: Mapping[tuple[int, ...], str] = {(1, 1): "at_most({0}, 0.0)"}

CURVATURES: Mapping[str, Mapping[tuple[int, ...], str]] = MappingProxyType(
    {
        "mul": {(1, 1): "1.0"},
        "div": {(1, 1): "reciprocal_slope({1})", (0, 2): "quotient_curvature({0}, {1})"},
        "pow": {
            (2, 0): "power_curvature({0}, {1})",
            (1, 1): "power_mixed({0}, {1})",
            (0, 2): "power_exponent_curvature({0}, {1})",
        },
        "exp_difference": {
            (2, 0): "exp_difference({0}, {1})",
            (1, 1): "(-exp_difference({0}, {1}))",
            (0, 2): "exp_difference({0}, {1})",
        },
        "ratio_or_zero": {
            (1, 1): "ratio_or_zero_mixed({1})",
            (0, 2): "ratio_or_zero_curvature({0}, {1})",
        },
        "arctan2": {
            (2, 0): "(-arctan2_curvature({0}, {1}))",
            (1, 1): "arctan2_mixed({0}, {1})",
            (0, 2): "arctan2_curvature({0}, {1})",
        },
        "hypot": {
            (2, 0): "hypot_curvature({0}, {1})",
            (1, 1): "hypot_mixed({0}, {1})",
            (0, 2): "hypot_curvature({1}, {0})",
        },
        "logaddexp": {
            (2, 0): "logaddexp_curvature({0}, {1})",
            (1, 1): "(-logaddexp_curvature({0}, {1}))",
            (0, 2): "logaddexp_curvature({0}, {1})",
        },
        "leaky_relu": _LEAKY,
        "prelu": _LEAKY,
        "elu": {(2, 0): "elu_curvature({0}, {1})", (1, 1): "lower_exp({0})"},
        "celu": {
            (2, 0): "celu_curvature({0}, {1})",
            (1, 1): "celu_mixed({0}, {1})",
            (0, 2): "celu_alpha_curvature({0}, {1})",
        },
        **{
            name: {(2,): call}
            for name, call in {
                "exp": "exp({0})",
                "expm1": "exp({0})",
                "sin": "(-np.sin({0}))",
                "cos": "(-np.cos({0}))",
                "arccos": "(-arcsin_curvature({0}))",
                "sinh": "sinh({0})",
                "cosh": "cosh({0})",
                "square": "2.0",
                "erfc": "(-erf_curvature({0}))",
                "lgamma": "trigamma({0})",
                "digamma": "tetragamma({0})",
                "softplus": "sigmoid_slope({0})",
                "log_sigmoid": "(-sigmoid_slope({0}))",
                "swish": "silu_curvature({0})",
                "tanhshrink": "(-tanh_curvature({0}))",
                "hardswish": "(within({0}, -3.0, 3.0) / 3.0)",
                **{
                    name: f"{name}_curvature({{0}})"
                    for name in (
                        "exp2 log log2 log10 log1p sqrt cbrt reciprocal tan arcsin arctan tanh "
                        "arcsinh arccosh arctanh erf gamma selu gelu gelu_tanh silu mish softsign "
                        "sigmoid"
                    ).split()
                },
            }.items()
        },
    }
)
"""The calls of second derivatives, by function and order; those not named here are 0."""

COMPLEX = frozenset(
    "add sub mul div neg pow identity square reciprocal exp exp2 expm1 log log2 log10 log1p sqrt "
    "sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh sigmoid log_sigmoid "
    "softplus silu swish mish gelu_tanh tanhshrink exp_difference where".split()
)
"""Functions that are analytic and have complex kernels: the same calls, where a helper that is
made for real arguments has a twin called `complex_` and its name."""
