"""The reference interpreter, on programs built by hand."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hand_built import B, K, Q, dense, dense_arrays, k, n, program, read, slope_of_dense, t

from symgrad.dims import Dim
from symgrad.errors import ArgumentError, InternalError, ShapeError
from symgrad.program import (
    Access,
    Affine,
    Array,
    Definition,
    Delta,
    Guard,
    Index,
    Lookup,
    Number,
    Place,
    Reduce,
    Rowwise,
    Size,
    Term,
)
from symgrad.proof.exact import exact
from symgrad.proof.interpret import evaluate_jacobian, interpret
from symgrad.proof.numeric import KERNELS
from symgrad.proof.slopes import SLOPES
from symgrad.proof.values import VALUES


def test_a_dense_layer_is_what_numpy_says():
    a = dense_arrays()
    y = interpret(dense(), a)["y"]
    np.testing.assert_allclose(y, np.tanh(a["x"] @ a["W"].T + a["b"]), rtol=1e-14)


def test_high_precision_agrees_and_keeps_its_digits():
    a = dense_arrays()
    y = interpret(dense(), a, precision=50)["y"]
    assert isinstance(y[0, 0], mpmath.mpf)
    np.testing.assert_allclose(y.astype(float), interpret(dense(), a)["y"], rtol=1e-14)


def test_held_definitions_replace_computed_ones():
    a = dense_arrays()
    z = np.full((3, 2), 0.5)
    np.testing.assert_allclose(interpret(dense(), a, held={"z": z})["y"], np.tanh(z))


def test_a_guard_protects_an_access_outside_the_array():
    x = Array("x", "input", (n,))
    place = Affine.of(Q) - 1
    y = Definition("y", (B, Q), (Term((), (Guard(place, n), read("x", B, place))),))
    a = {"x": np.array([[1.0, np.inf, 3.0]])}
    np.testing.assert_array_equal(interpret(program((x,), (y,)), a)["y"], [[0.0, 1.0, np.inf]])


def test_without_a_guard_an_access_outside_shows_as_nan():
    x = Array("x", "input", (n,))
    y = Definition("y", (B, Q), (Term((), (read("x", B, Affine.of(Q) + 1),)),))
    assert np.isnan(interpret(program((x,), (y,)), {"x": np.ones((1, 2))})["y"][0, 1])


def test_a_convolution_reads_affine_positions_and_solves_its_dims():
    x, w = Array("x", "input", (t,)), Array("w", "param", (k,))
    s, q = Index("s", t - k + 1, 10), Index("q", k, 11)
    y = Definition(
        "y", (B, s), (Term((q,), (read("w", q), read("x", B, Affine.of(s) + Affine.of(q)))),)
    )
    a = {"x": np.arange(12.0).reshape(2, 6) ** 2, "w": np.array([1.0, -2.0, 3.0])}
    expected = np.stack([np.correlate(row, a["w"], "valid") for row in a["x"]])
    np.testing.assert_allclose(interpret(program((x, w), (y,)), a)["y"], expected)


def test_a_lookup_gathers_rows():
    v, d = Dim.of("v"), Dim.of("d")
    T, D = Index("t", Dim.of("T"), 20), Index("d", d, 21)
    arrays = (Array("t", "index", (Dim.of("T"),), vocabulary=v), Array("E", "param", (v, d)))
    row = Lookup("t", (Affine.of(B), Affine.of(T)))
    y = Definition("y", (B, T, D), (Term((), (Access("E", (row, Affine.of(D))),)),))
    E, at = np.random.default_rng(0).normal(size=(5, 2)), np.array([[0, 4, 4], [1, 2, 0]])
    np.testing.assert_array_equal(interpret(program(arrays, (y,)), {"t": at, "E": E})["y"], E[at])


@pytest.mark.parametrize("precision", [None, 30])
def test_reductions_and_rowwise_bodies(precision):
    x = Array("x", "input", (n,))
    at = Index("p", n, 30)
    body = read("x", B, K)
    kinds = ("prod", "max", "min", "argmax", "argmin", "logsumexp", "norm")
    definitions = [Definition(kind, (B,), Reduce(kind, (K,), body)) for kind in kinds]
    definitions.append(Definition("softmax", (B, at), Rowwise("softmax", (K,), body, (at,))))
    definitions.append(
        Definition("log_softmax", (B, at), Rowwise("log_softmax", (K,), body, (at,)))
    )
    v = np.array([[1.0, -2.0, 1.0], [800.0, 0.5, 799.0]])
    layer = program((x,), definitions, ("prod",))
    got = interpret(layer, {"x": v}, precision=precision)
    got = {name: value.astype(float) for name, value in got.items()}
    lse = v.max(1) + np.log(np.exp(v - v.max(1, keepdims=True)).sum(1))
    np.testing.assert_allclose(got["prod"], v.prod(1))
    np.testing.assert_array_equal(got["argmax"], [0, 0])
    np.testing.assert_array_equal(got["argmin"], [1, 1])
    np.testing.assert_allclose(got["max"], v.max(1))
    np.testing.assert_allclose(got["norm"], np.linalg.norm(v, axis=1))
    np.testing.assert_allclose(got["logsumexp"], lse)
    np.testing.assert_allclose(got["softmax"], np.exp(v - lse[:, None]), atol=1e-300)
    np.testing.assert_allclose(got["log_softmax"], v - lse[:, None])


def test_an_empty_sum_is_zero_and_an_empty_max_is_refused():
    x = Array("x", "input", (n,))
    total = Definition("y", (B,), (Term((K,), (read("x", B, K),)),))
    largest = Definition("y", (B,), Reduce("max", (K,), read("x", B, K)))
    empty = {"x": np.zeros((2, 0))}
    np.testing.assert_array_equal(interpret(program((x,), (total,)), empty)["y"], [0.0, 0.0])
    with pytest.raises(ShapeError, match="max over an empty axis"):
        interpret(program((x,), (largest,)), empty)


def test_sizes_places_deltas_and_unused_bound_indices_count():
    x = Array("x", "input", (n,))
    terms = (
        Term((K,), (Delta(Affine.of(K), Affine.of(Q)), Place(Affine.of(K)), Size(n))),
        Term((K,), (Number(1),)),
    )
    y = Definition("y", (Q,), terms)
    got = interpret(program((x,), (y,)), {"x": np.zeros((1, 3))})["y"]
    np.testing.assert_array_equal(got, [3.0, 6.0, 9.0])


def test_missing_unknown_and_misshapen_arrays_are_named():
    a = dense_arrays()
    with pytest.raises(ArgumentError, match="needs the array b"):
        interpret(dense(), {"x": a["x"], "W": a["W"]})
    with pytest.raises(ArgumentError, match="no array c"):
        interpret(dense(), {**a, "c": 1.0})
    with pytest.raises(ShapeError, match="an axis of W has length 3, 4 expected"):
        interpret(dense(), {**a, "W": np.zeros((2, 3))})
    with pytest.raises(InternalError, match="knows no function nonsense"):
        interpret(dense("nonsense"), a)


def test_abstract_functions_are_bound_by_the_caller():
    a = dense_arrays()
    y = interpret(dense("σ"), a, functions={"σ": lambda z: z * z})
    np.testing.assert_allclose(y["y"], y["z"] ** 2)


@pytest.mark.parametrize("precision", [None, 50])
def test_a_jacobian_is_evaluated_densely_from_its_terms(precision):
    a = dense_arrays()
    J_W = evaluate_jacobian(slope_of_dense(), "y", "W", a, precision=precision).astype(float)
    s = 1 / np.cosh(a["x"] @ a["W"].T + a["b"]) ** 2
    expected = np.einsum("ip,bi,bq->bipq", np.eye(2), s, a["x"])
    np.testing.assert_allclose(J_W, expected, rtol=1e-13)


def test_both_tables_hold_the_same_functions_and_every_function_has_slopes():
    assert set(KERNELS) == set(VALUES)
    assert set(SLOPES) == set(VALUES)


POINTS = {1: [(0.3,), (0.7,)], 2: [(0.3, 0.8), (0.9, 0.45)], 3: [(0.3, 0.2, 0.8)]}
OUTSIDE = {"arccosh": 1.0}


def arity(name):
    return 3 if name in ("where", "clip", "hardtanh", "threshold") else len(SLOPES[name])


@pytest.mark.parametrize("name", sorted(VALUES))
def test_float_and_exact_values_agree(name):
    for point in POINTS[1 if name == "not_" else arity(name)]:
        for sign in (1, -1):
            args = [sign * (z + OUTSIDE.get(name, 0)) for z in point]
            with np.errstate(all="ignore"):
                got = float(KERNELS[name](*(np.asarray(z) for z in args)))
            expected = float(exact(name)(*map(mpmath.mpf, args)))
            if math.isnan(expected):
                assert math.isnan(got)
            else:
                assert got == pytest.approx(expected, rel=1e-14, abs=1e-300)


@pytest.mark.parametrize("name", sorted(VALUES))
def test_slopes_agree_with_differences_in_many_digits(name):
    count = 1 if name == "not_" else arity(name)
    for point in POINTS[count]:
        args = [mpmath.mpf(z) + OUTSIDE.get(name, 0) for z in point]
        for place in range(count):
            order = tuple(int(k == place) for k in range(count))
            with mpmath.workdps(40):
                slope = exact(name, order)(*args)
                tiny = mpmath.mpf(10) ** -15
                up = [z + tiny * o for z, o in zip(args, order, strict=True)]
                down = [z - tiny * o for z, o in zip(args, order, strict=True)]
                numeric = (exact(name)(*up) - exact(name)(*down)) / (2 * tiny)
            assert float(slope) == pytest.approx(float(numeric), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize(
    ("name", "at", "slope"),
    [
        ("relu", 0, 0),
        ("abs", 0, 0),
        ("hardtanh", 1, 0),
        ("hardtanh", -1, 0),
        ("hardswish", 3, 1),
        ("softshrink", 0.5, 0),
        ("sigmoid", -800, math.exp(-400) ** 2),
        ("tanh", 20, 4 * math.exp(-40)),
    ],
)
def test_slopes_at_kinks_and_tails_are_those_of_the_language(name, at, slope):
    with mpmath.workdps(50):
        got = float(exact(name, (1,))(mpmath.mpf(at)))
    assert got == pytest.approx(slope, rel=1e-12, abs=0)
