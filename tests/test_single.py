"""Functions for float32 against mpmath: 2e-6 of the value, or of the largest term, one subnormal.

Those that have twins compute in float32 and return it, compiled and as plain Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numba
import numpy as np
import pytest
import test_functions as table
import test_kernels as tails
from layers import unvalidated
from mpmath import mp

from symgrad.functions import FUNCTIONS, HELPERS, kernel, singles
from symgrad.proof.exact import exact

TOLERANCE, SUBNORMAL, LARGEST = mp.mpf("2e-6"), mp.mpf(2) ** -149, float(np.finfo("f4").max)
NAMES = sorted({f.name for f in FUNCTIONS.values()})


def _orders(name: str) -> list[tuple[int, ...]]:
    arity = FUNCTIONS[name].arity
    found = [*tails.orders(arity), *tails.curvatures(arity)]
    return [o for o in found if "single_" in kernel(name, o, single=True).call]


CASES = [(name, order) for name in NAMES for order in _orders(name)]
GRID = (*np.linspace(-12, 12, 97), *np.linspace(-104, 90, 98), 1e-45, 1e-40, -1e-38)
SCALES = ((1e30, 1e30), (1e-30, 1e-35), (1e-45, 1e-45), (1e-20, 1e20))


def points(name: str) -> list[tuple[Any, ...]]:
    """Return arguments that are numbers of float32."""
    if FUNCTIONS[name].arity > 1:
        groups = [*table.groups(name), *(SCALES if name == "div" else ())]
        return [tuple(map(np.float32, g)) for g in groups if max(map(abs, g)) < LARGEST]
    low, high = FUNCTIONS[name].domain[0]
    sizes = [z for z in (*table.points_of(name), *tails.POINTS, *GRID) if abs(z) < LARGEST]
    rounded = sorted({float(np.float32(z)) for z in sizes})
    return [(np.float32(z),) for z in rounded if low <= z <= high]


def call_of(name: str, order: tuple[int, ...]) -> tuple[str, str]:
    letters = ", ".join("abc"[: len(order)])
    return letters, kernel(name, order, single=True).call.format(*letters.split(", "))


def plain(name: str, order: tuple[int, ...]) -> Callable[..., Any]:
    letters, call = call_of(name, order)
    function = eval(f"lambda {letters}: {call}", table.PLAIN)
    return np.errstate(all="ignore")(function)  # type: ignore[no-any-return]


def compiled(name: str, order: tuple[int, ...]) -> Callable[..., Any]:
    letters, call = call_of(name, order)
    space = dict(SPACE)
    exec(f"def run({letters}):\n    return {call}", space)
    return numba.njit(error_model="numpy", fastmath={"contract"})(space["run"])  # type: ignore[no-any-return]


SPACE = table.namespace()


def wrong(name: str, order: tuple[int, ...], args: tuple[Any, ...], found: float) -> bool:
    """Whether a result leaves the bound of the language."""
    given = tuple(mp.mpf(float(a)) for a in args)
    wanted = exact(name, order)(*given)
    if mp.isnan(wanted):
        return not math.isnan(found)
    if abs(wanted) > LARGEST:
        return not math.isinf(found)
    terms = table.TERMS.get((name, order))
    size = max(
        abs(wanted),
        abs(terms(*given)) if terms else 0,
        tails.textbook(name, order, tuple(map(float, args))),
    )
    return not abs(mp.mpf(found) - wanted) <= TOLERANCE * size + SUBNORMAL


RUNS = [(plain, *case) for case in CASES]
RUNS += [(compiled, name, order) for name, order in CASES if sum(order) < 2]


@pytest.mark.parametrize(
    ("made", "name", "order"), RUNS, ids=lambda v: getattr(v, "__name__", str(v))
)
def test_functions_of_float32_keep_their_digits(made: Any, name: str, order: Any) -> None:
    run = made(name, order)
    with mp.workdps(60):
        bad = [args for args in points(name) if wrong(name, order, args, float(run(*args)))]
    assert not bad, [(args, run(*args)) for args in bad[:5]]


@pytest.mark.parametrize("name", NAMES)
def test_twins_return_float32_at_all_ends_of_the_numbers(name: str) -> None:
    ends = [np.float32(z) for z in (0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38, np.inf, -np.inf, np.nan)]
    for order in _orders(name):
        run, call = plain(name, order), kernel(name, order, single=True).call
        whole = call.startswith("single_") and call.count("(") == 1
        for args in product(ends, repeat=len(order)):
            found = run(*args)
            assert not whole or isinstance(found, (np.float32, float)), (order, args)
            value = order == (0,) * len(order) and name not in ("heaviside", "pow")
            if value and len(order) == 1 and math.isnan(args[0]):
                assert math.isnan(found), name


def test_a_twin_calls_nothing_that_has_a_twin() -> None:
    for helper, twin in singles(HELPERS).items():
        assert twin.removeprefix("single_") == helper
        for other in singles(HELPERS):
            assert f" {other}(" not in HELPERS[twin].split('"""')[2], (twin, other)


def test_a_layer_of_float32_calls_the_twins() -> None:
    """The tanh of float32 differs from the double's in the last digits, at some of many points."""
    jac = unvalidated("x: input[n]\na: param\ny = tanh(a * x)")
    x = np.linspace(-3, 3, 1001, dtype="f4")[np.newaxis]
    found = jac.forward(x, np.float32(1))
    assert found.dtype == np.float32
    exactly = np.tanh(x.astype(float)).astype("f4")
    assert (found != exactly).any()
    np.testing.assert_allclose(found, exactly, rtol=5e-7)


def test_a_value_and_its_slope_read_one_argument() -> None:
    """With a store between them the compiler could not share the exponential otherwise."""
    source = unvalidated("x: input\na: param\ny = gelu(a * x)").source
    kernel_text = source.partition("def _fill_J_a(")[2].partition("\n\n")[0]
    assert "c = a0 * x[b]" in kernel_text
    assert "gelu(c)" in kernel_text
    assert "gelu_slope(c)" in kernel_text
