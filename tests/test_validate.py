"""Validation: right slopes pass, wrong ones are named, kinks are kinks, domains are respected."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hand_built import B, K, dense, n, program, read, slope_of_dense

from symgrad.dims import Dim
from symgrad.errors import ValidationError
from symgrad.program import (
    Affine,
    Apply,
    Array,
    Check,
    Condition,
    Definition,
    Index,
    Number,
    Reduce,
    Term,
)
from symgrad.proof.differences import differences
from symgrad.proof.interpret import evaluate_jacobian
from symgrad.proof.sample import draw_sizes, sample
from symgrad.validate import Report, validate

PARAMETERS = ("W", "b", "x")


def dense_slopes(arrays, scale=1.0):
    x, W, b = arrays["x"], arrays["W"], arrays["b"]
    s = 1 / np.cosh(x @ W.T + b) ** 2
    eye = np.eye(len(b))
    return {
        ("y", "W"): scale * np.einsum("ip,bi,bq->bipq", eye, s, x),
        ("y", "b"): np.einsum("ip,bi->bip", eye, s),
        ("y", "x"): np.einsum("bi,ik->bik", s, W),
    }


def scalar_layer(body, *, conditions=(), role="param", frozen=None):
    """Return y = body(x) with x[n] an array of the given role."""
    x = Array("x", role, (n,))
    definitions = [] if frozen is None else [frozen]
    definitions.append(Definition("y", (K,) if role == "param" else (B, K), body))
    return program((x,), definitions, conditions=conditions)


def test_right_slopes_pass_and_the_report_says_where_it_looked():
    report = validate(dense(), dense_slopes, PARAMETERS)
    assert report.ok, str(report)
    assert len(report.sizes) == 2
    assert max(a.max_relative for a in report.agreements) < 1e-8
    assert "dy/dW" in str(report)
    assert json.loads(json.dumps(report.to_json()))["ok"] is True
    report.raise_if_failed("dense")


def test_same_seed_same_report_other_seed_other_sizes():
    assert validate(dense(), dense_slopes, ("W",)) == validate(dense(), dense_slopes, ("W",))
    other = [validate(dense(), dense_slopes, ("W",), seed=s).sizes for s in range(6)]
    assert len(set(other)) > 1


def test_some_later_point_has_an_axis_of_length_one():
    sizes = [validate(dense(), dense_slopes, ("b",), seed=s).sizes[1] for s in range(6)]
    assert any(size == 1 for point in sizes for _, size in point)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("error", [1.1, 1 + 1e-5, 0.0, np.nan, np.inf])
def test_a_wrong_slope_is_refused_by_name(error):
    report = validate(dense(), lambda a: dense_slopes(a, error), PARAMETERS)
    assert [a.parameter for a in report.agreements if not a.ok] == ["W"]
    with pytest.raises(ValidationError, match=r"dense: dy/dW at \[\d, \d, \d, \d\] is .* says "):
        report.raise_if_failed("dense")


def test_a_transposed_jacobian_is_refused_for_its_shape():
    def wrong(arrays):
        return {("y", "W"): np.swapaxes(dense_slopes(arrays)["y", "W"], 2, 3)}

    with pytest.raises(ValidationError, match="has shape"):
        validate(dense(), wrong, ("W",), sizes={"n": 4, "m": 3})


def test_the_closed_form_in_many_digits_sees_a_lost_digit_that_differences_cannot():
    def sloppy(arrays):
        return {("y", "W"): dense_slopes(arrays)["y", "W"] * (1 + 1e-9)}

    def closed(arrays):
        form = evaluate_jacobian(slope_of_dense(), "y", "W", arrays, precision=50)
        return {("y", "W"): form}

    assert validate(dense(), sloppy, ("W",)).ok
    assert not validate(dense(), sloppy, ("W",), exactly=closed).ok
    assert validate(dense(), dense_slopes, ("W",), exactly=closed).ok


def test_large_arrays_are_tested_along_random_directions():
    sizes = {"n": 40, "m": 20}
    assert validate(dense(), dense_slopes, PARAMETERS, sizes=sizes, points=1).ok

    def wrong(arrays):
        J = dense_slopes(arrays)
        J["y", "W"][1, 2, 2, 3] *= 1.01
        return J

    report = validate(dense(), wrong, PARAMETERS, sizes=sizes, points=1)
    assert [a.parameter for a in report.agreements if not a.ok] == ["W"]


def test_a_kink_exactly_hit_is_reported_as_a_kink():
    layer = scalar_layer((Term((), (Apply("relu", (read("x", K),)),)),))
    found = differences(layer, {"x": np.array([0.0, 1.0, -2.0])}, "x")["y"]
    np.testing.assert_array_equal(found.kinks, np.diag([True, False, False]))
    np.testing.assert_allclose(found.jacobian[1:], [[0, 1, 0], [0, 0, 0]], atol=1e-12)
    assert np.all(found.settled == ~found.kinks)


def test_kinks_seen_only_through_a_product_are_kinks():
    x, r = Array("x", "input", (n,)), Array("r", "const", (), default=0.0)
    y = Definition(
        "y", (B, K), (Term((), (Apply("abs", (Apply("mul", (read("r"), read("x", B, K))),)),)),)
    )
    layer = program((x, r), (y,))
    found = differences(layer, {"x": np.ones((2, 3))}, "r")["y"]
    assert np.all(found.kinks)


def test_ties_in_max_are_kinks():
    layer = program(
        (Array("x", "input", (n,)),), (Definition("y", (B,), Reduce("max", (K,), read("x", B, K))),)
    )
    found = differences(layer, {"x": np.array([[1.0, 1.0, 0.0]])}, "x")["y"]
    np.testing.assert_array_equal(found.kinks, [[True, True, False]])


def test_differences_of_smooth_layers_are_good_to_nine_digits():
    a = sample(dense(), seed=3)
    truth = dense_slopes(a)
    for name in PARAMETERS:
        found = differences(dense(), a, name)["y"]
        assert not np.any(found.kinks)
        np.testing.assert_allclose(found.jacobian, truth["y", name], atol=1e-9)
        assert np.all(np.abs(found.jacobian - truth["y", name]) <= 10 * found.error)


def test_a_domain_that_normals_miss_is_found_with_positives():
    layer = scalar_layer((Term((), (Apply("log", (read("x", K),)),)),))
    report = validate(layer, lambda a: {("y", "x"): np.diag(1 / a["x"])}, ("x",))
    assert report.ok, str(report)


def test_an_asserted_domain_is_respected():
    low = Condition((K,), Apply("lt", (Number(0), read("x", K))), "0 < x")
    high = Condition((K,), Apply("lt", (read("x", K), Number(1))), "x < 1")
    layer = scalar_layer((Term((), (Apply("arctanh", (read("x", K),)),)),), conditions=(low, high))
    for seed in range(5):
        x = sample(layer, seed)["x"]
        assert np.all((x > 0) & (x < 1))
    assert validate(layer, lambda a: {("y", "x"): np.diag(1 / (1 - a["x"] ** 2))}, ("x",)).ok


def test_an_impossible_domain_is_an_error_that_asks_for_help():
    never = Condition((K,), Apply("lt", (read("x", K), read("x", K))), "x < x")
    layer = scalar_layer((Term((), (read("x", K),)),), conditions=(never,))
    with pytest.raises(ValidationError, match="x < x"):
        sample(layer)


def test_a_layer_that_is_finite_nowhere_asks_for_an_assert():
    square = Apply("square", (read("x", K),))
    body = Apply("log", (Apply("neg", (square,)),))
    layer = scalar_layer((Term((), (body,)),))
    with pytest.raises(ValidationError, match="assert a > 0"):
        validate(layer, lambda a: {("y", "x"): np.zeros((len(a["x"]),) * 2)}, ("x",))


def test_frozen_definitions_are_held():
    # y = x + stop_gradient(round(x) - x) has slope 1 everywhere
    rounded = Apply("sub", (Apply("round", (read("x", K),)), read("x", K)))
    frozen = Definition("s", (K,), (Term((), (rounded,)),), frozen=True)
    body = (Term((), (read("x", K),)), Term((), (read("s", K),)))
    layer = scalar_layer(body, frozen=frozen)
    assert validate(layer, lambda a: {("y", "x"): np.eye(len(a["x"]))}, ("x",)).ok


def test_scalar_parameters_may_be_python_numbers_and_defaults_are_used():
    arrays = (Array("x", "input", ()), Array("c", "param", ()), Array("e", "const", (), None, 0.5))
    product = Apply("mul", (read("c"), Apply("add", (read("x", B), read("e")))))
    layer = program(arrays, (Definition("y", (B,), (Term((), (product,)),)),))
    found = differences(layer, {"x": np.array([1.0, 2.0]), "c": 3.0}, "c")["y"]
    np.testing.assert_allclose(found.jacobian, [1.5, 2.5], rtol=1e-10)
    assert sample(layer)["e"] == 0.5


def test_sizes_respect_derived_dims_and_checks():
    t, k = Dim.of("t"), Dim.of("k")
    s, q = Index("s", t - k + 1, 50), Index("q", k, 51)
    place = Affine.of(s) + Affine.of(q)
    arrays = (Array("x", "input", (t,)), Array("w", "param", (k,)))
    y = Definition("y", (B, s), (Term((q,), (read("w", q), read("x", B, place))),))
    layer = program(arrays, (y,), checks=(Check(Dim.of(0), Dim.of(3), k, "k is at least 3"),))
    for seed in range(20):
        sizes = draw_sizes(layer, np.random.default_rng(seed), {}, ones=bool(seed % 2))
        assert sizes["t"] >= sizes["k"] >= 3

    def slopes(a):
        windows = np.lib.stride_tricks.sliding_window_view(a["x"], len(a["w"]), axis=1)
        return {("y", "w"): windows}

    assert validate(layer, slopes, ("w",)).ok


def test_an_output_of_parameters_only_is_repeated_over_the_batch():
    arrays = (Array("x", "input", (n,)), Array("c", "param", ()))
    y = Definition("y", (), (Term((), (Apply("square", (read("c"),)),)),))
    layer = program(arrays, (y,))
    report = validate(layer, lambda a: {("y", "c"): np.full(3, 2 * a["c"])}, ("c",))
    assert report.ok, str(report)


def test_a_report_is_frozen_and_prints_its_failures():
    report = validate(dense(), lambda a: dense_slopes(a, 2.0), ("W",))
    assert isinstance(report, Report)
    assert not report.ok
    assert "WRONG at [" in str(report)
    with pytest.raises(AttributeError):
        report.seed = 1


def test_ties_that_move_together_are_right():
    # minimum(x[0], x[0]) ties, yet moves smoothly: nothing here may be called wrong
    arrays = (Array("x", "input", (n,)), Array("r", "const", (), None, 0.0))
    kinked = Apply("relu", (Apply("mul", (read("r"), read("x", B, K))),))
    y = Definition("y", (B, K), (Term((), (kinked,)), Term((), (read("x", B, K),))))
    first = Index("first", Dim.of(1), 60)
    clipped = Apply("minimum", (read("x", B, K), read("x", B, first)))
    z = Definition("z", (B, K), (Term((first,), (clipped,)),))
    layer = program(arrays, (y, z), ("y", "z"))

    def slopes(a):
        x = a["x"]
        eye = np.broadcast_to(np.eye(x.shape[1]), (*x.shape, x.shape[1]))
        wins = (x < x[:, :1]).astype(float) + 0.5 * (x == x[:, :1])
        loses = np.zeros_like(eye)
        loses[:, :, 0] = 1 - wins
        return {("y", "x"): eye, ("z", "x"): wins[:, :, None] * eye + loses}

    report = validate(layer, slopes, ("x",), sizes={"n": 3})
    assert report.ok, str(report)


@pytest.mark.parametrize(
    "options", [{"batch": 0}, {"sizes": {"n": 0}}, {"sizes": {"n": 1, "m": 1}}]
)
def test_empty_batches_and_axes_are_valid_points(options):
    assert validate(dense(), dense_slopes, PARAMETERS, **options).ok
