"""Kernels keep their digits: values and slopes against mpmath, in the middle and in the tails.

The bound is the language's: 1e-12 of the value, or of the largest term of the textbook sum, plus
one subnormal. Every kernel runs as plain Python; those of one argument also compiled.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numba
import numpy as np
import pytest
from mpmath import mp

from symgrad.functions import FUNCTIONS, HELPERS, PREAMBLE, kernel
from symgrad.proof.exact import exact

TOLERANCE = mp.mpf("1e-12")
SUBNORMAL = mp.mpf(5e-324)
HEAD = "import math\nimport warnings\nimport numpy as np\n"
NAMES = sorted({f.name for f in FUNCTIONS.values()})
UNARY = [n for n in NAMES if len(FUNCTIONS[n].arguments) == 1]
SEVERAL = [n for n in NAMES if len(FUNCTIONS[n].arguments) > 1]

SIZES = (
    *(0.0, 5e-324, 1e-310, 2.3e-308, 1e-200, 1e-100, 1e-20, 1e-9, 1e-4, 0.01, 0.1, 0.3, 0.34, 0.35),
    *(0.49, 0.5, 0.59, 0.61, 0.7, 0.76, 0.9, 0.999999, 1.0, 1.000001, 1.3, 1.46, 1.47, 1.5, 2.0),
    *(2.000001, 2.6, 3.0, 3.7, 4.4, 6.0, 7.5, 9.9, 10.1, 13.0, 15.9, 16.1, 19.0, 20.5, 26.3, 26.6),
    *(29.7, 36.9, 37.6, 38.3, 40.0, 55.0, 99.0, 170.9, 300.0, 371.9, 372.4, 500.0, 700.0, 709.7),
    *(709.9, 710.4, 1023.9, 1024.3, 1073.8, 740.0, 744.9, 746.0, 750.0, 800.0, 1000.0, 1e5),
)
HUGE = (1e10, 1e16, 1e100, 1e160, 1e200, 1e300, 1.7e308)
ALGEBRAIC = frozenset(
    "neg log log2 log10 log1p sqrt cbrt square reciprocal abs sign arctan arcsinh arccosh softsign "
    "identity relu relu6 hardsigmoid hardswish softplus log_sigmoid not_ sin cos".split()
)
"""Functions whose exact values mpmath can give for any double."""
ONLY_POSITIVE = frozenset(("gamma", "lgamma", "digamma"))

TERMS: dict[tuple[str, tuple[int, ...]], Callable[..., Any]] = {
    ("gelu", (1,)): lambda z: abs(z) * mp.npdf(z),
    ("gelu_tanh", (1,)): lambda z: exact("gelu_tanh")(z) / z if z else 1,
    ("silu", (1,)): exact("sigmoid"),
    ("mish", (1,)): lambda z: mp.tanh(exact("softplus")(z)),
    ("digamma", (0,)): lambda z: max(abs(mp.log(z)), 1 / (2 * z)),
    ("gamma", (1,)): lambda z: mp.gamma(z) * max(abs(mp.log(z)), 1 / (2 * z)),
    ("lgamma", (1,)): lambda z: max(abs(mp.log(z)), 1 / (2 * z)),
    ("logaddexp", (0, 0)): lambda a, b: max(abs(a), abs(b)),
    ("celu", (0, 1)): lambda z, alpha: abs(z / alpha),
    ("hardswish", (1,)): lambda z: 0.5,
    ("add", (0, 0)): lambda a, b: max(abs(a), abs(b)),
    ("sub", (0, 0)): lambda a, b: max(abs(a), abs(b)),
    ("softshrink", (0, 0)): lambda z, bound: abs(z),
}
"""The largest term of the textbook sum, where a sum may cancel at points that are no doubles."""


def orders(name: str) -> list[tuple[int, ...]]:
    arity = len(FUNCTIONS[name].arguments)
    units = [tuple(int(n == k) for n in range(arity)) for k in range(arity)]
    return [(0,) * arity, *units]


def namespace() -> dict[str, Any]:
    space: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(HEAD + PREAMBLE + "\n\n".join(HELPERS.values()), space)
    return space


def with_plain_numba(run: Callable[[], Any]) -> Any:
    before = numba.config.DISABLE_JIT
    numba.config.DISABLE_JIT = True
    try:
        return run()
    finally:
        numba.config.DISABLE_JIT = before


PLAIN = with_plain_numba(namespace)


def plain(name: str, order: tuple[int, ...]) -> Callable[..., float]:
    letters = "abc"[: len(order)]
    call = kernel(name, order).call.format(*letters)
    function = eval(f"lambda {', '.join(letters)}: {call}", PLAIN)
    return lambda *args: float(np.errstate(all="ignore")(function)(*map(np.float64, args)))


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mp.workdps(400):
        yield


def wrong(name: str, order: tuple[int, ...], args: tuple[float, ...], found: float) -> str | None:
    """Return a line that says how a result is wrong, or None."""
    points = tuple(map(mp.mpf, args))
    wanted = exact(name, order)(*points)
    if mp.isnan(wanted):
        return None if math.isnan(found) else f"{name}{order}{args}: {found}, not nan"
    if mp.isinf(wanted) or abs(wanted) > mp.mpf(np.finfo(float).max):
        same = math.isinf(found) and (found > 0) == (wanted > 0)
        # the sign of an infinity at a pole is a matter of the side it is seen from
        pole = mp.isinf(wanted) and math.isinf(found)
        return None if same or pole else f"{name}{order}{args}: {found}, not {wanted}"
    terms = TERMS.get((name, order))
    size = max(abs(wanted), abs(terms(*points)) if terms and math.isfinite(found) else 0)
    if not math.isfinite(found) or abs(mp.mpf(found) - wanted) > TOLERANCE * size + SUBNORMAL:
        return f"{name}{order}{args}: {found!r}, not {mp.nstr(wanted, 17)}"
    return None


def points_of(name: str) -> list[float]:
    entry = FUNCTIONS[name]
    sizes = [*SIZES, *(HUGE if name in ALGEBRAIC else ())]
    found = [*sizes, *(-z for z in sizes), *np.linspace(-8, 8, 41)]
    if name == "gamma":
        found = [z for z in found if z < 171.6]
    if name in ONLY_POSITIVE:
        return [z for z in found if z > 0]
    if name == "not_":
        return [0.0, 1.0]
    low, high = _domain(entry)
    return [float(z) for z in found if low <= z <= high]


def _domain(entry: Any) -> tuple[float, float]:
    low, high = entry.domain[0]
    return low, high


@pytest.mark.parametrize("name", UNARY)
def test_values_and_slopes_of_one_argument_are_right_to_the_last_digits(name: str) -> None:
    bad = [
        line
        for order in orders(name)
        for z in points_of(name)
        if (line := wrong(name, order, (z,), plain(name, order)(z))) is not None
    ]
    assert not bad, "\n".join(bad)


PAIRS = (-1e5, -700.0, -30.0, -3.0, -1.0, -0.5, -1e-9, -0.0, 0.0, 1e-9, 0.3, 0.5, 1.0, 2.0, 3.0,
         20.0, 700.0, 1e5)
SCALES = ((1e300, 1e300), (1e200, -1e300), (1e-300, 1e-310), (5e-324, 5e-324), (1e-200, 1e200))


def groups(name: str) -> list[tuple[float, ...]]:
    arity = len(FUNCTIONS[name].arguments)
    if name == "where":
        return [(m, a, b) for m in (0.0, 1.0) for a, b in product((-2.0, math.inf, 3.0), repeat=2)]
    if name in ("and_", "or_"):
        return list(product((0.0, 1.0), repeat=2))
    if name == "pow":
        exponents = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
        found = list(product((0.0, 1e-9, 0.3, 1.0, 2.0, 30.0), exponents))
        # the slope of 0^p in p jumps at p = 0; like PyTorch we say 0
        return [pair for pair in found if pair != (0.0, 0.0)]
    if name in ("elu", "celu"):
        return list(product(PAIRS, (0.3, 1.0, 2.5)))
    if name in ("softshrink", "hardshrink"):
        return list(product(PAIRS, (0.0, 0.5, 2.0)))
    if name in ("clip", "hardtanh"):
        return [(z, low, high) for z in PAIRS for low, high in ((-1.0, 1.0), (0.5, 3.0))]
    if arity == 3:
        return list(product(PAIRS, (-1.0, 0.5), (0.0, 7.0)))
    found = list(product(PAIRS, repeat=2))
    if name == "arctan2":
        # mpmath has no -0, and the slopes are nan at the origin
        found = [pair for pair in found if pair[0] != 0.0]
    scaled = SCALES if name in ("hypot", "arctan2", "maximum", "minimum", "div") else ()
    return [*found, *scaled]


@pytest.mark.parametrize("name", SEVERAL)
def test_values_and_slopes_of_several_arguments_are_right(name: str) -> None:
    bad = [
        line
        for order in orders(name)
        for args in groups(name)
        if (line := wrong(name, order, args, plain(name, order)(*args))) is not None
    ]
    assert not bad, "\n".join(bad)


FOR_NAN = sorted(set(NAMES) - set("lt le gt ge eq ne and_ or_ not_ where pow".split()))
FLAT = frozenset("sign floor ceil round".split())


@pytest.mark.parametrize("name", FOR_NAN)
def test_nan_passes(name: str) -> None:
    entry = FUNCTIONS[name]
    rest = (*(1.0,) * (len(entry.arguments) - 1 - len(entry.defaults)), *entry.defaults)
    assert math.isnan(plain(name, orders(name)[0])(math.nan, *rest))


@pytest.mark.parametrize("name", FOR_NAN)
def test_nothing_raises_at_the_ends_of_the_numbers(name: str) -> None:
    ends = (0.0, -0.0, 5e-324, -5e-324, 1.7e308, -1.7e308, math.inf, -math.inf, math.nan)
    for order in orders(name):
        for args in product(ends, repeat=len(order)):
            plain(name, order)(*args)


@pytest.mark.parametrize("name", ["exp", "expm1", "tanh", "sin", "arctan", "erf", "tanhshrink",
                                  "silu", "gelu", "mish", "log1p", "cbrt", "softsign", "arcsinh"])
def test_the_sign_of_zero_survives(name: str) -> None:
    if name == "exp":
        assert plain(name, (0,))(-0.0) == 1.0
        return
    assert math.copysign(1.0, plain(name, (0,))(-0.0)) == -1.0


@pytest.mark.parametrize(
    ("name", "below", "above"),
    [("exp", 0, math.inf), ("tanh", -1, 1), ("sigmoid", 0, 1), ("softplus", 0, math.inf),
     ("log_sigmoid", -math.inf, 0), ("erf", -1, 1), ("erfc", 2, 0), ("expm1", -1, math.inf),
     ("relu", 0, math.inf), ("hardswish", 0, math.inf), ("hardsigmoid", 0, 1)],
)  # fmt: skip
def test_infinities_give_the_limits(name: str, below: float, above: float) -> None:
    assert plain(name, (0,))(-math.inf) == below
    assert plain(name, (0,))(math.inf) == above


def test_kernels_of_a_difference_of_infinities_give_a_share_of_nothing() -> None:
    for order in ((1, 0), (0, 1)):
        assert plain("logaddexp", order)(-math.inf, -math.inf) == 0.0
    assert plain("logaddexp", (0, 0))(-math.inf, -math.inf) == -math.inf
    assert plain("exp_difference", (0, 0))(-math.inf, -math.inf) == 0.0


def test_every_helper_comes_with_what_it_calls_before_it() -> None:
    for name in NAMES:
        for order in orders(name):
            made = kernel(name, order)
            assert set(made.helpers) <= set(HELPERS)
            space = dict(PLAIN)
            for helper in HELPERS:
                space.pop(helper, None)
            for helper in made.helpers:
                exec(HELPERS[helper], space)
            letters = "abc"[: len(order)]
            numbers = dict.fromkeys(letters, np.float64(0.5))
            with np.errstate(all="ignore"):
                eval(made.call.format(*letters), space, numbers)


@pytest.mark.slow
def test_compiled_kernels_agree_with_plain_ones() -> None:
    space = namespace()
    assert space["_COMPILED"]
    space["inline"] = numba.njit(error_model="numpy", fastmath={"contract"})
    exec("\n\n".join(HELPERS.values()), space)
    cases = [(n, o) for n in UNARY for o in orders(n)]
    bad = []
    for start in range(0, len(cases), 20):
        part = cases[start : start + 20]
        lines = [f"    out[{k}] = {kernel(n, o).call.format('z')}" for k, (n, o) in enumerate(part)]
        exec("def run(z, out):\n" + "\n".join(lines), space)
        run = numba.njit(error_model="numpy", fastmath={"contract"})(space["run"])
        out = np.empty(len(part))
        for z in sorted({z for n, _ in part for z in points_of(n)}):
            run(z, out)
            for (name, order), found in zip(part, out, strict=True):
                line = wrong(name, order, (z,), float(found)) if z in points_of(name) else None
                bad += [line] if line else []
    assert not bad, "\n".join(bad)
