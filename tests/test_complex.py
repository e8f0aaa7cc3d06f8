"""Complex arrays: analytic functions take them, the others refuse them by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import Any

import mpmath
import numpy as np
import pytest
from layers import unvalidated
from mpmath import mp

import symgrad as sg
from symgrad.errors import CodegenError
from symgrad.functions import FUNCTIONS, HELPERS, kernel

ANALYTIC = sorted({f.name for f in FUNCTIONS.values() if f.complex} - {"where"})
PARTS = (0.0, 1e-9, 0.01, 0.3, 1.1, 2.0, 3.7, 12.0, 30.0)
POINTS = tuple(
    complex(s * x, t * y) for x in PARTS for y in PARTS for s in (1, -1) for t in (1, -1)
)

EXACT: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "pow": lambda a, b: a**b,
    "identity": lambda z: z,
    "square": lambda z: z * z,
    "reciprocal": lambda z: 1 / z,
    "exp": mp.exp,
    "exp2": lambda z: mp.mpf(2) ** z,
    "expm1": mp.expm1,
    "log": mp.log,
    "log2": lambda z: mp.log(z) / mp.log(2),
    "log10": lambda z: mp.log(z) / mp.log(10),
    "log1p": mp.log1p,
    "sqrt": mp.sqrt,
    "sin": mp.sin,
    "cos": mp.cos,
    "tan": mp.tan,
    "arcsin": mp.asin,
    "arccos": mp.acos,
    "arctan": mp.atan,
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "tanh": mp.tanh,
    "arcsinh": mp.asinh,
    "arccosh": mp.acosh,
    "arctanh": mp.atanh,
    "sigmoid": lambda z: 1 / (1 + mp.exp(-z)),
    "log_sigmoid": lambda z: -mp.log(1 + mp.exp(-z)),
    "softplus": lambda z: mp.log(1 + mp.exp(z)),
    "silu": lambda z: z / (1 + mp.exp(-z)),
    "mish": lambda z: z * mp.tanh(mp.log(1 + mp.exp(z))),
    "gelu_tanh": lambda z: z / (1 + mp.exp(-2 * mp.sqrt(2 / mp.pi) * (z + CUBIC * z**3))),
    "tanhshrink": lambda z: z - mp.tanh(z),
    "exp_difference": lambda a, b: mp.exp(a - b),
}
CUBIC = mp.mpf("0.044715")


def space() -> dict[str, Any]:
    found: dict[str, Any] = {"np": np, "inline": lambda f: f}
    exec("\n\n".join(HELPERS.values()), found)
    return found


SPACE = space()


def complex_kernel(name: str, order: tuple[int, ...]) -> Callable[..., complex]:
    letters = "ab"[: len(order)]
    call = kernel(name, order, complex=True).call.format(*letters)
    return eval(f"lambda {', '.join(letters)}: {call}", SPACE)  # type: ignore[no-any-return]


def orders(name: str) -> list[tuple[int, ...]]:
    arity = FUNCTIONS[name].arity
    units = [tuple(int(n == k) for n in range(arity)) for k in range(arity)]
    pairs = combinations_with_replacement(units, 2)
    return [(0,) * arity, *units, *(tuple(map(sum, zip(*p, strict=True))) for p in pairs)]


def arguments(name: str) -> list[tuple[complex, ...]]:
    """Return arguments off the branch cuts and the singular points of a function."""
    if FUNCTIONS[name].arity == 2:
        return [(a, b) for a in POINTS[5::29] for b in POINTS[3::31] if a and b and abs(b) < 20]
    cut = name in ("arctan", "arcsinh")
    # the phase of a large cube has lost its digits
    most = 13 if name == "gelu_tanh" else math.inf
    return [(z,) for z in POINTS if z.imag and (z.real or not cut) and abs(z) < most]


@pytest.mark.parametrize("name", ANALYTIC)
def test_complex_kernels_keep_twelve_digits(name: str) -> None:
    bad = []
    with mp.workdps(60), np.errstate(all="ignore"):
        for order in orders(name):
            run = complex_kernel(name, order)
            for args in arguments(name):
                points = tuple(map(mp.mpc, args))
                value = EXACT[name](*points)
                wanted = mp.diff(EXACT[name], points, order) if any(order) else value
                if abs(wanted) > mp.mpf("1e300"):
                    continue
                # a slope may vanish where its terms, of the size of value over argument, do not
                size = abs(value)
                for point, times in zip(points, order, strict=True):
                    size /= abs(point) ** times
                found = run(*map(np.complex128, args))
                gap = abs(mp.mpc(found) - wanted)
                bound = mp.mpf("2e-12") * max(size, abs(wanted)) + mp.mpf(5e-324)
                if mp.isnan(gap) or gap > bound:
                    bad.append((order, args, found, mpmath.nstr(wanted, 12)))
    assert bad == []


def test_every_helper_of_an_analytic_function_is_made_for_complex_arguments() -> None:
    for name in (*ANALYTIC, "where"):
        for order in orders(name):
            called = kernel(name, order, complex=True).helpers
            assert all(h.startswith("complex_") or h == "choose" for h in called), (name, order)


@pytest.mark.parametrize("name", sorted({f.name for f in FUNCTIONS.values() if not f.complex}))
def test_functions_that_are_not_analytic_have_no_complex_kernel(name: str) -> None:
    with pytest.raises(CodegenError, match=f"{name} has no complex kernel"):
        kernel(name, (), complex=True)


TEXT = """
x: input[n]
W: param[m, n]
b: param[m]
s: param
z = W @ x + b
h = sigmoid(z) * exp(-s * z) + where(1 > 0, log1p(z / 3) ** 2, 0)
y = tanh(h) * softmax(z) + logsumexp(z) / 2 + s ** h * exp(mean(x)) + arctan(h) / sqrt(2 + s)
"""


def by_numpy(x: Any, W: Any, b: Any, s: Any) -> Any:
    z = x @ W.T + b
    e = np.exp(z)
    h = np.exp(-s * z) / (1 + np.exp(-z)) + np.log(1 + z / 3) ** 2
    total = e.sum(-1, keepdims=True)
    rest = s**h * np.exp(x.mean(-1, keepdims=True)) + np.arctan(h) / np.sqrt(2 + s)
    return np.tanh(h) * e / total + np.log(total) / 2 + rest


@pytest.fixture(scope="module", params=[False, True], ids=["compiled", "plain"])
def jac(request: pytest.FixtureRequest) -> Any:
    return unvalidated(TEXT, wrt="all", plain=request.param)


@pytest.fixture
def arrays() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    shapes = {"x": (5, 4), "W": (3, 4), "b": (3,), "s": ()}
    return {
        n: np.asarray(0.5 * (rng.normal(size=s) + 1j * rng.normal(size=s)))
        for n, s in shapes.items()
    }


def test_complex_layers_are_evaluated(jac: Any, arrays: dict[str, Any]) -> None:
    y = jac.forward(**arrays)
    assert y.dtype == np.complex128
    np.testing.assert_allclose(y, by_numpy(**arrays), rtol=1e-12)
    small = {n: a.astype(np.complex64) for n, a in arrays.items()}
    assert jac.forward(**small).dtype == np.complex64
    np.testing.assert_allclose(jac.forward(**small), y, rtol=1e-5)


@pytest.mark.parametrize("name", ["x", "W", "b", "s"])
@pytest.mark.parametrize("step", [1e-6, 1e-6j], ids=["along", "across"])
def test_jacobians_satisfy_cauchy_and_riemann(
    jac: Any, arrays: dict[str, Any], name: str, step: complex
) -> None:
    """Differences along the real and along the imaginary axis are one and the same derivative."""
    J = jac.jacobian(**arrays)[name].dense()
    assert J.dtype == np.complex128
    shape = arrays[name].shape[1:] if name == "x" else arrays[name].shape
    for at in np.ndindex(shape):
        place = (slice(None), *at) if name == "x" else at
        above, below = arrays[name].copy(), arrays[name].copy()
        above[place] += step
        below[place] -= step
        ends = [by_numpy(**(arrays | {name: a})) for a in (above, below)]
        np.testing.assert_allclose(J[(..., *at)], (ends[0] - ends[1]) / (2 * step), atol=1e-8)


def test_products_use_the_jacobian_without_conjugation(jac: Any, arrays: dict[str, Any]) -> None:
    rng = np.random.default_rng(5)
    u, t = (rng.normal(size=s) + 1j * rng.normal(size=s) for s in ((5, 3), (3, 4)))
    J = jac.jacobian(**arrays)
    W = J["W"].dense()
    summed, per_sample = np.einsum("bi,bijk->jk", u, W), np.einsum("bi,bijk->bjk", u, W)
    order = tuple(arrays.values())
    near = {"rtol": 1e-10, "atol": 1e-12}
    np.testing.assert_allclose(jac.vjp(*order, u)["W"], summed, **near)
    np.testing.assert_allclose(J["W"].vjp(u), summed, **near)
    np.testing.assert_allclose(jac.pullback(*order)[1](u)["W"], summed, **near)
    np.testing.assert_allclose(jac.module.vjp_per_sample(*order, u)["W"], per_sample, **near)
    forward = np.einsum("bijk,jk->bi", W, t)
    np.testing.assert_allclose(jac.jvp(*order, {"W": t}), forward, **near)
    np.testing.assert_allclose(J["W"].jvp(t), forward, **near)
    norms = np.sqrt((np.abs(W) ** 2).sum((1, 2, 3)))
    assert J["W"].norm().dtype == np.float64
    np.testing.assert_allclose(J["W"].norm(), norms, **near)


def test_a_complex_step_is_the_slope_along_the_real_axis(jac: Any, arrays: dict[str, Any]) -> None:
    real = {n: np.abs(a) for n, a in arrays.items()}
    J = jac.jacobian(**real)["b"].dense()
    for k in range(3):
        stepped = real | {"b": real["b"] + 1e-100j * (np.arange(3) == k)}
        np.testing.assert_allclose(J[:, :, k], jac.forward(**stepped).imag / 1e-100, rtol=1e-11)


def test_one_complex_array_makes_the_result_complex(jac: Any, arrays: dict[str, Any]) -> None:
    real = {n: np.abs(a) for n, a in arrays.items()}
    assert jac.forward(**real).dtype == np.float64
    assert jac.forward(**(real | {"s": 1j})).dtype == np.complex128
    single = {n: a.astype(np.float32) for n, a in real.items()}
    assert jac.forward(**(single | {"s": 1j})).dtype == np.complex64
    assert jac.forward(**(single | {"x": real["x"] + 0j})).dtype == np.complex128
    assert jac.jac_W(**(single | {"s": 1j}), out=np.empty((5, 3, 3, 4), np.complex64)).any()


REFUSED = {
    "erf": "erf(x)",
    "gamma": "gamma(x * x + 1)",
    "lgamma": "lgamma(x * x + 1)",
    "digamma": "digamma(x * x + 1)",
    "relu": "relu(x) + tanh(x)",
    "abs": "abs(x)",
    "gelu": "exp(gelu(x))",
    "maximum": "maximum(x, 0.5)",
    "norm": "x / norm(x)",
    "max": "x - max(x)",
    "a comparison": "where(x > 0, x, 2 * x)",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_analytic_is_refused_by_name(name: str) -> None:
    jac = unvalidated(f"x: input[n]\na: param\ny = a * ({REFUSED[name]})")
    x = np.ones((2, 3))
    words = f"x has dtype complex64.*complex64 is not possible here: {name} has no complex kernel"
    for form in (jac.forward, jac.jacobian, jac.module.jac_a):
        with pytest.raises(
            sg.ArgumentError if form != jac.module.jac_a else TypeError, match=words
        ):
            form(x.astype(np.complex64), 1.0)
    with pytest.raises(sg.ArgumentError, match="a has dtype complex128"):
        jac.forward(x, 1j)


def test_a_domain_that_is_checked_wants_real_arrays() -> None:
    text = "x: input[n]\na: param\nassert a > 0\ny = a * exp(x)"
    x = np.ones((2, 3)) + 1j
    assert unvalidated(text).forward(x, 1.0).dtype == np.complex128
    with pytest.raises(sg.ArgumentError, match="a comparison has no complex kernel"):
        unvalidated(text, check_domain=True).forward(x, 1.0)


def test_masks_of_indices_and_gathers_take_complex_arrays() -> None:
    text = (
        "t: index(n)\nx: input[n]\nW: param[n, n]\n"
        "A[i, j] = where(i >= j, W[i, j], 0)\ny = tril(A) @ x * x[t] + prod(x)"
    )
    jac = unvalidated(text)
    rng = np.random.default_rng(2)
    x, W = (rng.normal(size=s) + 1j * rng.normal(size=s) for s in ((2, 3), (3, 3)))
    t = np.array([2, 0])
    wanted = x @ np.tril(W).T * x[[0, 1], t][:, None] + x.prod(-1)[:, None]
    np.testing.assert_allclose(jac.forward(t, x, W), wanted, rtol=1e-12)
    J = jac.jac_W(t, x, W)
    mask = np.tril(np.ones((3, 3)))
    wanted = np.einsum("ij,jk,bk,b->bijk", np.eye(3), mask, x, x[[0, 1], t])
    np.testing.assert_allclose(J, np.einsum("ij,bk,b,ik->bijk", np.eye(3), x, x[[0, 1], t], mask))


def test_real_arrays_want_real_vectors() -> None:
    jac = unvalidated("x: input[n]\na: param\ny = a * exp(x)")
    with pytest.raises(sg.ArgumentError, match="u has dtype complex128, expected real"):
        jac.vjp(np.ones((2, 3)), 1.0, np.ones((2, 3)) * 1j)


def test_a_real_layer_carries_nothing_for_complex_arrays() -> None:
    assert "complex_" not in unvalidated("x: input[n]\na: param\ny = a * gelu(exp(x))").source
    assert "_typed" not in unvalidated("x: input[n]\na: param\ny = a * x").source


def test_jacobians_agree_with_jax_in_holomorphic_mode(jac: Any, arrays: dict[str, Any]) -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy

    def layer(W: Any, x: Any) -> Any:
        z = W @ x + arrays["b"]
        s = arrays["s"]
        h = jax.nn.sigmoid(z) * jnp.exp(-s * z) + jnp.log1p(z / 3) ** 2
        e = jnp.exp(z)
        rest = s**h * jnp.exp(x.mean()) + jnp.arctan(h) / jnp.sqrt(2 + s)
        return jnp.tanh(h) * e / e.sum() + jnp.log(e.sum()) / 2 + rest

    found = jac.jacobian(**arrays)["W"].dense()
    for sample, x in enumerate(arrays["x"]):
        expected = jax.jacrev(lambda W, x=x: layer(W, x), holomorphic=True)(arrays["W"])
        np.testing.assert_allclose(found[sample], expected, rtol=1e-9, atol=1e-11)
