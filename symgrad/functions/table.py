"""The function table: what each scalar function of the language takes, means and looks like.

name -> Function
One entry a function; kernels are found by name, sympy is loaded only when a body is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from symgrad.functions.complex_calls import COMPLEX

Body = Callable[..., Any]
"""A function of sympy symbols; sympy has no types."""


@dataclass(frozen=True, slots=True)
class Function:
    """A scalar function: `defaults` belong to the last arguments.

    `kinks` are points (in the first argument, others at their defaults) and the slope stated
    there; `test_range` is where random first arguments are drawn from, inside `domain`.
    """

    name: str
    arguments: tuple[str, ...]
    text: str
    latex: str
    defaults: tuple[float, ...] = ()
    kinks: tuple[tuple[float, float], ...] = ()
    domain: tuple[float, float] = (-float("inf"), float("inf"))
    test_range: tuple[float, float] = (-4.0, 4.0)
    aliases: tuple[str, ...] = ()

    @property
    def complex(self) -> bool:
        """Whether it has a complex kernel."""
        return (self.name, (0,) * len(self.arguments)) in COMPLEX

    @property
    def body(self) -> Body | None:
        """The textbook definition as a function of sympy symbols, None if it is no expression."""
        from symgrad.functions.bodies import BODIES

        return BODIES.get(self.name)

    @property
    def from_value(self) -> Body | None:
        """The slope in the first argument over the value and the arguments, where that is usual."""
        from symgrad.functions.bodies import FROM_VALUE

        return FROM_VALUE.get(self.name)


INFINITY = float("inf")
POSITIVE = (0.0, INFINITY)


def _function(name: str, arguments: str = "z", **fields: Any) -> Function:
    letters = tuple(arguments.split())
    slots = ", ".join(f"{{{n}}}" for n in range(len(letters)))
    written = name.replace("_", r"\_")
    fields.setdefault("text", f"{name}({slots})")
    fields.setdefault("latex", rf"\operatorname{{{written}}}\left({slots}\right)")
    return Function(name, letters, **fields)


def _named(name: str, command: str, **fields: Any) -> Function:
    """Return a function that LaTeX has a command for."""
    return _function(name, latex=rf"{command}\left({{0}}\right)", **fields)


def _sign(name: str, arguments: str, text: str, latex: str) -> Function:
    return _function(name, arguments, text=text, latex=latex)


ARITHMETIC = (
    _sign("add", "a b", "{0} + {1}", "{0} + {1}"),
    _sign("sub", "a b", "{0} - {1}", "{0} - {1}"),
    _sign("mul", "a b", "{0}*{1}", r"{0}\,{1}"),
    _sign("div", "a b", "{0}/{1}", r"\frac{{{0}}}{{{1}}}"),
    _sign("neg", "a", "-{0}", "-{0}"),
    _function("pow", "a p", text="{0}**{1}", latex="{{{0}}}^{{{1}}}", test_range=(0.1, 4.0)),
    _sign("lt", "a b", "{0} < {1}", "{0} < {1}"),
    _sign("le", "a b", "{0} <= {1}", r"{0} \le {1}"),
    _sign("gt", "a b", "{0} > {1}", "{0} > {1}"),
    _sign("ge", "a b", "{0} >= {1}", r"{0} \ge {1}"),
    _sign("eq", "a b", "{0} == {1}", "{0} = {1}"),
    _sign("ne", "a b", "{0} != {1}", r"{0} \ne {1}"),
    _sign("and_", "a b", "{0} & {1}", r"{0} \land {1}"),
    _sign("or_", "a b", "{0} | {1}", r"{0} \lor {1}"),
    _sign("not_", "a", "~{0}", r"\lnot {0}"),
)

ELEMENTWISE = (
    _function("exp", latex="e^{{{0}}}"),
    _function("exp2", latex="2^{{{0}}}"),
    _function("expm1"),
    _named("log", r"\log", domain=POSITIVE, test_range=(0.1, 8.0)),
    _named("log2", r"\log_2", domain=POSITIVE, test_range=(0.1, 8.0)),
    _named("log10", r"\log_{10}".replace("{", "{{").replace("}", "}}"), domain=POSITIVE,
           test_range=(0.1, 8.0)),
    _function("log1p", domain=(-1.0, INFINITY), test_range=(-0.9, 4.0)),
    _function("sqrt", latex=r"\sqrt{{{0}}}", domain=POSITIVE, test_range=(0.1, 8.0)),
    _function("cbrt", latex=r"\sqrt[3]{{{0}}}"),
    _function("square", latex="{{{0}}}^2", text="square({0})"),
    _function("reciprocal", latex=r"\frac{{1}}{{{0}}}", test_range=(0.2, 4.0)),
    _function("abs", latex=r"\left|{0}\right|", kinks=((0.0, 0.0),)),
    _function("sign", kinks=((0.0, 0.0),)),
    _named("sin", r"\sin"),
    _named("cos", r"\cos"),
    _named("tan", r"\tan", test_range=(-1.4, 1.4)),
    _named("arcsin", r"\arcsin", domain=(-1.0, 1.0), test_range=(-0.95, 0.95)),
    _named("arccos", r"\arccos", domain=(-1.0, 1.0), test_range=(-0.95, 0.95)),
    _named("arctan", r"\arctan"),
    _function("arctan2", "a b"),
    _named("sinh", r"\sinh"),
    _named("cosh", r"\cosh"),
    _named("tanh", r"\tanh"),
    _function("arcsinh", latex=r"\operatorname{{arsinh}}\left({0}\right)"),
    _function("arccosh", latex=r"\operatorname{{arcosh}}\left({0}\right)", domain=(1.0, INFINITY),
              test_range=(1.1, 6.0)),
    _function("arctanh", latex=r"\operatorname{{artanh}}\left({0}\right)", domain=(-1.0, 1.0),
              test_range=(-0.95, 0.95)),
    _function("erf"),
    _function("erfc"),
    _named("gamma", r"\Gamma", domain=POSITIVE, test_range=(0.2, 6.0)),
    _function("lgamma", latex=r"\log\Gamma\left({0}\right)", domain=POSITIVE, test_range=(0.2, 6.0)),
    _named("digamma", r"\psi", domain=POSITIVE, test_range=(0.2, 6.0)),
    _function("maximum", "a b", latex=r"\max\left({0}, {1}\right)"),
    _function("minimum", "a b", latex=r"\min\left({0}, {1}\right)"),
    _function("clip", "z low high"),
    _function("where", "mask a b", latex=r"\begin{{cases}} {1} & {0} \\ {2} & \text{{else}} \end{{cases}}"),
    _function("hypot", "a b"),
    _function("logaddexp", "a b"),
    _function("floor", latex=r"\lfloor {0} \rfloor"),
    _function("ceil", latex=r"\lceil {0} \rceil"),
    _function("round"),
    _function("heaviside", "z at_zero", defaults=(0.5,), kinks=((0.0, 0.0),)),
)

ACTIVATIONS = (
    _function("identity", text="{0}", latex="{0}"),
    _function("relu", kinks=((0.0, 0.0),)),
    _function("leaky_relu", "z slope", defaults=(0.01,), kinks=((0.0, 0.01),)),
    _function("prelu", "z a"),
    _function("relu6", kinks=((0.0, 0.0), (6.0, 0.0))),
    _function("elu", "z alpha", defaults=(1.0,)),
    _function("selu", kinks=((0.0, 1.7580993408473766),)),
    _function("celu", "z alpha", defaults=(1.0,)),
    _function("gelu"),
    _function("gelu_tanh"),
    _function("silu", aliases=("swish",)),
    _function("mish"),
    _function("softplus"),
    _function("softsign"),
    _function("sigmoid"),
    _function("log_sigmoid"),
    _function("tanhshrink"),
    _function("softshrink", "z bound", defaults=(0.5,), kinks=((-0.5, 0.0), (0.5, 0.0))),
    _function("hardshrink", "z bound", defaults=(0.5,), kinks=((-0.5, 0.0), (0.5, 0.0))),
    _function("hardtanh", "z low high", defaults=(-1.0, 1.0), kinks=((-1.0, 0.0), (1.0, 0.0))),
    _function("hardsigmoid", kinks=((-3.0, 0.0), (3.0, 0.0))),
    _function("hardswish", kinks=((-3.0, 0.0), (3.0, 1.0))),
    _function("threshold", "z t v"),
)

INTERNAL = (
    _function("exp_difference", "a b", text="exp({0} - {1})", latex="e^{{{0} - {1}}}"),
    _function("ratio_or_zero", "a b", text="{0}/{1}", latex=r"\frac{{{0}}}{{{1}}}"),
)
"""What derivatives of reductions are made of; a layer cannot name them."""

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        name: function
        for function in (*ARITHMETIC, *ELEMENTWISE, *ACTIVATIONS, *INTERNAL)
        for name in (function.name, *function.aliases)
    }
)
"""Every scalar function by its name and its aliases."""
