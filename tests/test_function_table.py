"""The function table holds the whole language, and its derivatives are those of its values."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import mpmath
import pytest
import sympy
from mpmath import mp

from symgrad.functions.function import Function
from symgrad.functions.kernels import kernel
from symgrad.functions.page import page
from symgrad.functions.partial import partial
from symgrad.functions.slope import symbols_of, sympy_slope, vanishes
from symgrad.functions.table import ALIASES, ENTRIES, FUNCTIONS
from symgrad.program import Access, Apply, Number, Scalar, walk
from symgrad.proof.exact import exact

LANGUAGE = (
    "exp exp2 expm1 log log2 log10 log1p sqrt cbrt square reciprocal abs sign sin cos tan arcsin "
    "arccos arctan arctan2 sinh cosh tanh arcsinh arccosh arctanh erf erfc gamma lgamma digamma "
    "maximum minimum clip where hypot logaddexp floor ceil round heaviside "
    "identity relu leaky_relu prelu relu6 elu selu celu gelu gelu_tanh silu swish mish softplus "
    "softsign sigmoid log_sigmoid tanhshrink softshrink hardshrink hardtanh hardsigmoid hardswish "
    "threshold"
).split()
OPERATORS = "add sub mul div neg pow lt le gt ge eq ne and_ or_ not_".split()
INTERNAL = "exp_difference ratio_or_zero".split()
DEFAULTS = {
    "heaviside": (0.5,),
    "leaky_relu": (0.01,),
    "elu": (1.0,),
    "celu": (1.0,),
    "softshrink": (0.5,),
    "hardshrink": (0.5,),
    "hardtanh": (-1.0, 1.0),
}

DIGITS = 30
CLOSE = mp.mpf(10) ** -15
"""Closed forms at 30 digits lose a few of them; differences of mpmath keep about half."""
POINTS = 4

each = pytest.mark.parametrize("entry", ENTRIES, ids=lambda f: f.name)
NOT_A_FORMULA = ("pow",)
"""a^(b-1) b at a = 0 is the business of operators and kernels, not of sympy."""


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mp.workdps(DIGITS):
        yield


def points(entry: Function) -> list[tuple[float, ...]]:
    rng = random.Random(entry.name)
    drawn = [tuple(rng.uniform(*span) for span in entry.test_range) for _ in range(POINTS)]
    if entry.test_range[0] == (0.0, 1.0):
        masks = entry.arity if entry.name != "where" else 1
        return [(*(float(round(v)) for v in p[:masks]), *p[masks:]) for p in drawn]
    return drawn


def units(entry: Function) -> list[tuple[int, ...]]:
    return [tuple(int(n == k) for n in range(entry.arity)) for k in range(entry.arity)]


def at(expr: sympy.Expr, entry: Function, point: tuple[float, ...], **more: object) -> mpmath.mpf:
    values = dict(zip(symbols_of(entry.name), map(sympy.Float, point), strict=True))
    values |= {sympy.Symbol(n, real=True): sympy.Float(v, DIGITS) for n, v in more.items()}
    number = sympy.sympify(expr).subs(values).evalf(DIGITS)
    if number in (sympy.zoo, sympy.oo):
        return mp.inf
    return mp.mpf(sympy.Float(number, DIGITS)._mpf_)


def close(found: mpmath.mpf, wanted: mpmath.mpf) -> bool:
    if mp.isinf(wanted):
        return bool(mp.isinf(found))
    return bool(abs(found - wanted) <= CLOSE * max(1, abs(wanted)))


def evaluate(scalar: Scalar, values: dict[str, mpmath.mpf]) -> mpmath.mpf:
    match scalar:
        case Number(value):
            return mp.mpf(value)
        case Access(name):
            return values[name]
        case Apply(function, args, order):
            return exact(function, order)(*(evaluate(a, values) for a in args))
    raise AssertionError(scalar)


def arguments(entry: Function) -> tuple[Access, ...]:
    return tuple(Access(name) for name in entry.arguments)


def test_the_table_is_the_language() -> None:
    assert sorted(FUNCTIONS) == sorted([*LANGUAGE, *OPERATORS, *INTERNAL])
    assert dict(ALIASES) == {"swish": "silu"}
    assert FUNCTIONS["swish"] is FUNCTIONS["silu"]


def test_defaults_are_those_of_the_language() -> None:
    assert {f.name: f.defaults for f in ENTRIES if f.defaults} == DEFAULTS


def test_the_checker_takes_the_arguments_that_the_table_has() -> None:
    from symgrad.check.elementwise import signature

    for name in LANGUAGE:
        read = signature(name)
        assert tuple(read.names) == FUNCTIONS[name].arguments, name
        assert tuple(read.defaults.values()) == FUNCTIONS[name].defaults, name


@each
def test_fields_that_go_by_arguments_have_one_for_each(entry: Function) -> None:
    assert len(entry.domain) == len(entry.test_range) == entry.arity
    assert all(len(k.at) == len(k.slopes) == entry.arity for k in entry.kinks)
    assert all(len(p) == entry.arity for p in entry.test_points)
    for (low, high), (first, last) in zip(entry.domain, entry.test_range, strict=True):
        assert low <= first < last <= high


@each
def test_templates_show_every_argument(entry: Function) -> None:
    names = [f"<{n}>" for n in range(entry.arity)]
    for template in (entry.text, entry.latex):
        written = template.format(*names)
        assert all(name in written for name in names)
        assert written.count("{") == written.count("}")


@each
def test_the_body_is_the_function(entry: Function) -> None:
    for point in points(entry):
        assert close(at(sympy_slope(entry.name), entry, point), exact(entry.name)(*point)), point


@each
def test_the_slope_of_the_body_is_the_slope(entry: Function) -> None:
    for order in units(entry):
        for point in points(entry):
            found = at(sympy_slope(entry.name, order), entry, point)
            assert close(found, exact(entry.name, order)(*point)), (order, point)


@each
def test_second_derivatives_are_slopes_of_slopes(entry: Function) -> None:
    for order in [
        tuple(a + b for a, b in zip(u, v, strict=True)) for u in units(entry) for v in units(entry)
    ]:
        place = next(n for n, times in enumerate(order) if times)
        once = tuple(t - (n == place) for n, t in enumerate(order))
        for point in points(entry)[:2]:
            found = at(sympy_slope(entry.name, order), entry, point)
            unit = tuple(int(n == place) for n in range(entry.arity))
            wanted = mp.diff(exact(entry.name, once), point, unit)
            assert abs(found - wanted) <= mp.mpf(10) ** -10 * max(1, abs(wanted)), (order, point)


@each
def test_a_second_derivative_has_a_kernel_exactly_if_it_is_not_zero(entry: Function) -> None:
    for u, v in product(units(entry), repeat=2):
        order = tuple(a + b for a, b in zip(u, v, strict=True))
        assert (kernel(entry.name, order).call == "0.0") == vanishes(entry.name, order), order


@each
def test_slopes_are_ordinary_expressions(entry: Function) -> None:
    strange = (
        sympy.DiracDelta,
        sympy.Heaviside,
        sympy.Derivative,
        sympy.Subs,
        sympy.zoo,
        sympy.nan,
    )
    twice = [tuple(2 * t for t in order) for order in units(entry)]
    for order in (*units(entry), *twice):
        assert not sympy.sympify(sympy_slope(entry.name, order)).has(*strange)


@each
def test_kinks_have_the_slopes_that_are_stated(entry: Function) -> None:
    for kink in entry.kinks:
        for order, stated in zip(units(entry), kink.slopes, strict=True):
            assert close(exact(entry.name, order)(*map(mp.mpf, kink.at)), mp.mpf(stated)), kink
            if entry.name not in NOT_A_FORMULA and all(mp.isfinite(v) for v in kink.at):
                slope = sympy_slope(entry.name, order)
                assert close(at(slope, entry, kink.at), mp.mpf(stated)), (kink, slope)


@pytest.mark.parametrize(
    ("name", "point", "slope"),
    [
        ("relu", (0,), 0),
        ("abs", (0,), 0),
        ("hardtanh", (-1, -1, 1), 0),
        ("hardtanh", (1, -1, 1), 0),
        ("clip", (-1, -1, 1), 1),
        ("clip", (1, -1, 1), 1),
        ("hardswish", (3,), 1),
        ("hardswish", (-3,), 0),
        ("hardsigmoid", (3,), 0),
        ("hardsigmoid", (-3,), 0),
        ("relu6", (0,), 0),
        ("relu6", (6,), 0),
        ("softshrink", (0.5, 0.5), 0),
        ("softshrink", (-0.5, 0.5), 0),
        ("hardshrink", (0.5, 0.5), 0),
        ("hardshrink", (-0.5, 0.5), 0),
        ("hypot", (0, 0), 0),
        ("ratio_or_zero", (0, 0), 0),
        ("maximum", (2, 2), 0.5),
        ("minimum", (2, 2), 0.5),
        ("leaky_relu", (0, 0.25), 0.25),
        ("prelu", (0, 0.25), 0.25),
        ("elu", (0, 1.5), 1.5),
        ("celu", (0, 1.5), 1),
        ("threshold", (1, 1, 5), 0),
    ],
)
def test_the_derivative_at_a_kink_is_the_one_of_the_language(name, point, slope) -> None:
    entry = FUNCTIONS[name]
    assert close(at(sympy_slope(name, units(entry)[0]), entry, point), mp.mpf(slope))


@each
def test_partial_is_the_derivative_of_the_value(entry: Function) -> None:
    args = arguments(entry)
    for k, unit in enumerate(units(entry)):
        slope = partial(entry.name, args, k)
        for point in points(entry):
            values = {a.array: mp.mpf(v) for a, v in zip(args, point, strict=True)}
            value = exact(entry.name)
            wanted = mp.mpf(0) if vanishes(entry.name, unit) else mp.diff(value, point, unit)
            if entry.name == "heaviside" and k == 1:
                wanted = mp.mpf(0)
            assert close(evaluate(slope, values), wanted), (k, point)


@each
def test_partial_of_a_partial_raises_the_order_or_is_zero(entry: Function) -> None:
    args = arguments(entry)
    for unit in units(entry):
        for k in range(entry.arity):
            raised = tuple(t + (n == k) for n, t in enumerate(unit))
            found = partial(entry.name, args, k, unit)
            if vanishes(entry.name, raised):
                assert found == Number(0)
            else:
                assert found == Apply(entry.name, args, raised)


def test_what_is_flat_has_the_slope_zero() -> None:
    flat = "sign floor ceil round lt le gt ge eq ne and_ or_ not_".split()
    for name in flat:
        args = arguments(FUNCTIONS[name])
        assert all(partial(name, args, k) == Number(0) for k in range(len(args)))
    for name, k in (("where", 0), ("heaviside", 0), ("hardshrink", 1), ("threshold", 1)):
        assert partial(name, arguments(FUNCTIONS[name]), k) == Number(0)


def test_operators_are_differentiated_into_operators() -> None:
    operators = "add sub mul div neg where identity square exp_difference ratio_or_zero".split()
    for name in operators:
        args = arguments(FUNCTIONS[name])
        for k in range(len(args)):
            nodes = [n for n in walk(partial(name, args, k)) if isinstance(n, Apply)]
            assert not any(n.order for n in nodes)


@pytest.mark.parametrize("p", [0, 1, 2, 3, 2.0, 1.5, 7, 0.5, -1, -2])
def test_a_power_of_a_number_has_its_slope_at_zero_too(p: float) -> None:
    slope = partial("pow", (Access("a"), Number(p)), 0)
    assert not any(isinstance(n, Apply) and n.order for n in walk(slope))
    for a in (0.0, 0.7):
        wanted = mp.mpf(0) if p == 0 else p * exact("pow")(mp.mpf(a), mp.mpf(p) - 1)
        assert close(evaluate(slope, {"a": mp.mpf(a)}), wanted)


def test_small_powers_are_the_shortest_scalars() -> None:
    a = Access("a")
    assert partial("pow", (a, Number(0)), 0) == Number(0)
    assert partial("pow", (a, Number(1)), 0) == Number(1)
    assert partial("pow", (a, Number(2)), 0) == Apply("mul", (Number(2), a))
    assert partial("square", (a,), 0) == Apply("mul", (Number(2), a))


def test_an_exponent_may_be_a_quotient_or_have_a_sign() -> None:
    a = Access("a")
    third = Apply("div", (Number(1), Number(3)))
    rest = Apply("div", (Number(-2), Number(3)))
    assert partial("pow", (a, third), 0) == Apply("mul", (third, Apply("pow", (a, rest))))
    minus = Apply("neg", (Number(2),))
    wanted = Apply("mul", (Number(-2), Apply("pow", (a, Number(-3)))))
    assert partial("pow", (a, minus), 0) == wanted


def test_a_power_of_a_variable_is_left_to_its_kernel() -> None:
    args = (Access("a"), Access("b"))
    assert partial("pow", args, 0) == Apply("pow", args, (1, 0))
    assert partial("pow", args, 1) == Apply("pow", args, (0, 1))


def test_a_quotient_has_a_slope_wherever_a_double_holds_it() -> None:
    slope = partial("div", (Access("a"), Access("b")), 1)
    assert not any(isinstance(n, Apply) and n.function == "mul" for n in walk(slope))


def test_abstract_functions_have_orders_that_add_up() -> None:
    z, w = Access("z"), Access("w")
    assert partial("σ", (z,), 0) == Apply("σ", (z,), (1,))
    assert partial("σ", (z,), 0, (1,)) == Apply("σ", (z,), (2,))
    assert partial("f", (z, w), 1, (1, 0)) == Apply("f", (z, w), (1, 1))


@each
def test_the_slope_over_the_value_is_the_slope(entry: Function) -> None:
    if entry.from_value is None:
        return
    y = sympy.Symbol("y", real=True)
    form = entry.from_value(y, *symbols_of(entry.name))
    for point in points(entry):
        found = at(form, entry, point, y=exact(entry.name)(*point))
        assert close(found, exact(entry.name, units(entry)[0])(*point)), (form, point)


def test_the_page_of_functions_is_the_one_in_the_documentation() -> None:
    committed = Path(__file__).parents[1] / "docs" / "functions.md"
    assert committed.read_text(encoding="utf-8") == page(), (
        "write it again: python -m symgrad.functions > docs/functions.md"
    )


def test_the_page_of_functions_has_a_row_for_every_function() -> None:
    first = [line.split("|")[1] for line in page().splitlines() if line.startswith("| `")]
    assert len(first) == len(ENTRIES) - len(INTERNAL)
    for name in LANGUAGE:
        assert any(f"{name}(" in cell for cell in first), name
