"""Bound arrays: what they alone determine is computed once, and nothing else changes."""

import copy
import pickle

import numpy as np
import pytest
from layers import TEXTS, arrays_for, compiled
from linear_layers import VARIATIONAL
from test_linear_algebra import SIZES, calls
from test_linear_algebra import arrays_for as matrices_for

import symgrad as sg
from symgrad.errors import ArgumentError, ShapeError

FACTOR = """
x: input[n]
A: param[n, n]
w: param[n]
K = A @ A.T + eye(n)
L = cholesky(K)
y = (L @ x) * w + inv(K) @ x
"""


def drawn(jac, seed=0):
    return arrays_for(jac, seed=seed)


def same(ours, theirs):
    """Hold arrays, or tuples of them, against each other."""
    pairs = ((x if isinstance(x, tuple) else (x,)) for x in (ours, theirs))
    for one, other in zip(*pairs, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture(scope="module")
def factor():
    return compiled(FACTOR)


@pytest.mark.parametrize("name", [*TEXTS, "factor"])
def test_every_form_is_that_of_the_layer(name):
    jac = compiled(TEXTS.get(name, FACTOR))
    arrays = drawn(jac)
    shared = {n: a for n, a in arrays.items() if not jac.forms.program.array(n).batched}
    rest = {n: a for n, a in arrays.items() if n not in shared}
    bound = jac.bind(**shared)
    value = jac.forward(arrays)
    u = tuple(np.cos(y) for y in value) if isinstance(value, tuple) else np.cos(value)
    tangents = {n: np.sin(arrays[n]) for n in jac.wrt}
    for _ in range(2):  # what was kept gives the same again
        same(bound.forward(rest), value)
        same(bound.jvp(rest, tangents), jac.jvp(arrays, tangents))
        J, K = bound.jacobian(**rest), jac.jacobian(arrays)
        for key in K:
            np.testing.assert_array_equal(J[key].dense(), K[key].dense())
        _, pull = bound.pullback(*rest.values())
        for found, expected in (
            (bound.vjp(rest, u), jac.vjp(arrays, u)),
            (bound.vjp_per_sample(rest, u), jac.vjp_per_sample(arrays, u)),
            (bound.gradient(rest, sum=True), jac.gradient(arrays, sum=True)),
            (pull(u), jac.vjp(arrays, u)),
        ):
            assert list(found) == list(expected)
            for theta in found:
                np.testing.assert_array_equal(found[theta], expected[theta])
        for theta in jac.wrt:
            same(getattr(bound, f"jac_{theta}")(rest), getattr(jac, f"jac_{theta}")(arrays))


def test_matrices_are_factorised_once_for_all_calls(monkeypatch, factor):
    """Forward once, for the way back once: later calls do no linear algebra but products."""
    arrays = drawn(factor)
    x, A, w = arrays.values()
    once = {"cholesky": 1, "inv": 1}
    assert calls(monkeypatch, lambda: factor.forward(arrays)) == once
    bound = factor.bind(A=A)
    assert calls(monkeypatch, lambda: bound.forward(x=x, w=w)) == once
    assert calls(monkeypatch, lambda: (bound.forward(x + 1, w), bound.forward(x, -w))) == {}
    u = np.ones_like(x)
    bound.vjp(x, w, u)
    np.asarray(bound.jacobian(x, w)["A"])
    bound.jvp(x, w, {"A": A})
    assert calls(monkeypatch, lambda: bound.vjp(x + 1, w, u)) == {}
    assert calls(monkeypatch, lambda: bound.vjp_per_sample(x + 1, w, 2 * u)) == {}
    assert calls(monkeypatch, lambda: bound.gradient(x + 1, w, sum=True)) == {}
    assert calls(monkeypatch, lambda: np.asarray(bound.jacobian(x, w)["A"])) == {}
    assert calls(monkeypatch, lambda: bound.jvp(x=x, w=w, tangents={"A": A})) == {}
    _, pull = bound.pullback(x, w)
    assert calls(monkeypatch, lambda: (pull(u), pull(3 * u))) == {}


def test_what_other_arrays_determine_too_is_computed_at_every_call(monkeypatch, factor):
    """With w bound alone nothing can be kept of A: it is factorised every time."""
    x, A, w = drawn(factor).values()
    bound = factor.bind(w=w)
    for _ in range(2):
        assert calls(monkeypatch, lambda: bound.forward(x, A)) == {"cholesky": 1, "inv": 1}
    np.testing.assert_array_equal(bound.forward(x, 2 * A), factor.forward(x, 2 * A, w))


def test_a_sparse_gaussian_process_keeps_its_kernel_matrix(monkeypatch):
    """With the kernel's parameters bound, steps on mu and R factorise S alone, and solve with K."""
    jac = compiled(VARIATIONAL)
    arrays = matrices_for(jac.layer, SIZES, batch=7)
    held = {n: arrays[n] for n in ("Z", "ell", "amp", "noise")}
    moved = {n: a for n, a in arrays.items() if n not in held}
    bound = jac.bind(**held)
    assert calls(monkeypatch, lambda: jac.forward(arrays))["cholesky"] == 1
    np.testing.assert_array_equal(bound.forward(moved), jac.forward(arrays))
    again = calls(monkeypatch, lambda: bound.forward({**moved, "mu": 2 * moved["mu"]}))
    assert "cholesky" not in again
    assert again["slogdet"] == 1


def test_changes_of_the_callers_arrays_change_nothing(factor):
    x, A, w = drawn(factor).values()
    expected = factor.forward(x, A, w)
    given = {"A": A.copy(), "w": w.copy()}
    bound = factor.bind(**given)
    for array in given.values():
        array[...] = 0
    np.testing.assert_array_equal(bound.forward(x), expected)
    given["A"][...] = 1
    np.testing.assert_array_equal(bound.forward(x), expected)
    with pytest.raises(ValueError, match="read-only"):
        bound.arrays["A"][...] = 0


def test_results_may_be_changed_without_changing_later_ones():
    arrays = "S: param[n, n]\nw: param[n]\n"
    jac = compiled(f"{arrays}K = S @ S.T + eye(n)\ny = inv(K)\nz = y @ w\nreturn y, z")
    S, w = np.eye(3) * 2, np.ones(3)
    bound = jac.bind(S=S)
    first = bound.forward(w)
    expected = [a.copy() for a in first]
    for array in first:
        array[...] = 7
    for ours, theirs in zip(bound.forward(w), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_same_holds_at_other_sizes_and_dtypes(factor):
    """What is kept is that of the last sizes and dtype: other ones are computed anew."""
    x, A, w = drawn(factor).values()
    bound = factor.bind(A=A.astype(np.float32))
    for batch in (x[:1], x, x[:0], x[0]):
        for dtype in (np.float32, np.float64):
            given = batch.astype(dtype), w.astype(dtype)
            found = bound.forward(*given)
            assert found.dtype == dtype
            expected = factor.forward(given[0], A.astype(np.float32), given[1])
            np.testing.assert_array_equal(found, expected)


def test_bound_layers_do_not_disturb_each_other(factor):
    x, A, w = drawn(factor).values()
    one, two = factor.bind(A=A), factor.bind(A=2 * A)
    for _ in range(2):
        np.testing.assert_array_equal(one.forward(x, w), factor.forward(x, A, w))
        np.testing.assert_array_equal(two.forward(x, w), factor.forward(x, 2 * A, w))
    again = one.bind(w=w)
    np.testing.assert_array_equal(again.forward(x), factor.forward(x, A, w))
    np.testing.assert_array_equal(again.bind(A=3 * A).forward(x), factor.forward(x, 3 * A, w))


def test_inputs_and_consts_may_be_bound():
    jac = compiled(TEXTS["consts"])
    arrays = drawn(jac)
    bound = jac.bind(x=arrays["x"], alpha=2.0)
    rest = {n: a for n, a in arrays.items() if n != "x"}
    np.testing.assert_array_equal(bound.forward(rest), jac.forward(arrays, alpha=2.0))
    assert list(bound.vjp(rest, np.ones((3, 4)))) == list(jac.wrt)


def test_a_layer_without_anything_to_keep_is_bound_all_the_same():
    jac = compiled("x: input[n]\nw: param[n]\ny = w * x")
    assert "_BOUND" not in jac.source
    np.testing.assert_array_equal(jac.bind(w=np.ones(3)).forward(np.ones((2, 3))), np.ones((2, 3)))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda jac: jac.bind(B=1), ArgumentError, "no array is called B"),
        (lambda jac: jac.bind(w=np.ones((2, 2))), ShapeError, r"shape \(2, 2\), expected \[n\]"),
        (lambda jac: jac.bind(w=np.ones(4)).forward(1, 2, 3), ArgumentError, "takes 2 arrays"),
        (lambda jac: jac.bind(w=np.ones(4)).forward(1, 2, w=3), ArgumentError, "is bound already"),
        (lambda jac: jac.bind(w=np.ones(4)).forward(1, 2, x=3), ArgumentError, "x is given twice"),
        (lambda jac: jac.bind(w=np.ones(4)).forward(np.ones(4)), ArgumentError, "A is missing"),
        (lambda jac: jac.bind(w=np.ones(4)).vjp(), ArgumentError, "u is missing"),
        (lambda jac: jac.bind(w=np.ones(3)).forward(np.ones(4), np.eye(4)), ShapeError, "0 of w"),
    ],
)
def test_wrong_arrays_are_refused(factor, call, error, words):
    with pytest.raises((error, getattr(factor.module, error.__name__)), match=words):
        call(factor)


def test_parts_of_bound_arrays_are_differentiated():
    jac = compiled(FACTOR, {"A": np.s_[1:, 0]})
    arrays = drawn(jac)
    bound = jac.bind(A=arrays["A"])
    rest = {n: a for n, a in arrays.items() if n != "A"}
    for _ in range(2):
        found = bound.vjp(rest, np.ones((3, 4)))["A"]
        np.testing.assert_array_equal(found, jac.vjp(arrays, np.ones((3, 4)))["A"])
    assert sg.check(jac).ok


def test_a_bound_layer_is_pickled_and_copied(factor):
    x, A, w = drawn(factor).values()
    bound = factor.bind(A=A)
    bound.forward(x, w)
    for again in (copy.copy(bound), copy.deepcopy(bound), pickle.loads(pickle.dumps(bound))):
        np.testing.assert_allclose(again.forward(x, w), bound.forward(x, w), rtol=1e-12)
