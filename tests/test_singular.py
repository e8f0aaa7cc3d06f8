"""Matrices that have no inverse are refused by name and sample; badly scaled ones are not."""

import importlib.util

import numpy as np
import pytest
from linear_layers import SOLVE, compiled_plainly

import symgrad as sg

SINGULAR = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]
REFUSED = {
    "inverse": ("A: {role}[n, n]\nY = inv(A)", "in Y = inv(A), A is singular"),
    "solution": ("A: {role}[n, n]\ny = solve(A, ones(n))", "in y = solve(A, "),
    "transposed": ("A: {role}[n, n]\ny = solve(A.T, ones(n))", "in y = solve(A.T, "),
    "log determinant": ("A: {role}[n, n]\nf = logdet(A)", "in f = logdet(A), A is singular"),
    "factor": ("A: {role}[n, n]\nL = cholesky(A)", "is not positive definite"),
}


MATRICES = {"zeros": np.zeros((3, 3)), "ones": np.ones((3, 3)), "rank 2": np.array(SINGULAR)}


@pytest.mark.parametrize("role", ["param", "input"])
@pytest.mark.parametrize(
    ("name", "matrix"),
    [  # the determinant of rank 2 is no zero after rounding, and has a logarithm
        (n, m) for n in REFUSED for m in MATRICES if (n, m) != ("log determinant", "rank 2")
    ],
)
def test_singular_input_is_refused_by_name_and_sample(name, role, matrix):
    text, message = REFUSED[name]
    compiled = compiled_plainly(text.format(role=role), wrt="all")
    bad = MATRICES[matrix]
    arrays = np.stack([bad + 30 * np.eye(3), bad]) if role == "input" else bad
    with pytest.raises(sg.ArgumentError) as caught:
        compiled.forward(A=arrays)
    assert str(caught.value).startswith("layer: in ")
    assert message in str(caught.value)
    assert ("(sample 1)" in str(caught.value)) == (role == "input")


def test_the_place_in_a_stack_is_named():
    compiled = compiled_plainly("A: param[m, n, n]\nY = inv(A)", wrt="all")
    A = np.stack([np.eye(2), np.ones((2, 2))])
    with pytest.raises(sg.ArgumentError, match=r"A is singular at \[1\]"):
        compiled.forward(A)


def test_a_determinant_may_be_zero_but_has_no_slope_there():
    compiled = compiled_plainly("A: input[n, n]\nf = det(A)", wrt="all")
    A = np.stack([np.eye(2), np.ones((2, 2))])
    np.testing.assert_array_equal(compiled.forward(A), [1.0, 0.0])
    with pytest.raises(sg.ArgumentError, match=r"in inv\(A\), A is singular \(sample 1\)"):
        compiled.vjp(A, np.ones(2))


def test_a_standalone_module_raises_its_own_error(tmp_path):
    compiled = sg.compile("A: param[n, n]\nY = inv(A)", wrt="all")
    file = tmp_path / "alone.py"
    file.write_text(compiled.source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("alone", file)
    alone = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(alone)
    assert not issubclass(alone.ArgumentError, sg.SymgradError)
    with pytest.raises(alone.ArgumentError, match="A is singular"):
        alone.forward(np.zeros((2, 2)))


@pytest.mark.parametrize("n", [2, 3, 5, 8, 20])
def test_rank_deficient_matrices_are_refused_though_no_pivot_is_zero(n):
    compiled = compiled_plainly("A: input[n, n]\nb: param[n]\ny = solve(A, b)", wrt="all")
    rng = np.random.default_rng(n)
    for _ in range(50):
        A = rng.normal(size=(n, n - 1)) @ rng.normal(size=(n - 1, n))
        with pytest.raises(sg.ArgumentError, match="singular"):
            compiled.forward(A=A[None], b=np.ones(n))


@pytest.mark.parametrize(
    "A",
    [
        np.diag([1.0, 1e-200, 1e200]),
        1 / (np.arange(8)[:, None] + np.arange(8) + 1.0),
        np.tril(np.ones((6, 6))) * np.logspace(0, 40, 6),
        np.eye(4)[[2, 0, 3, 1]] * 1e-300,
    ],
    ids=["units", "Hilbert", "columns", "permutation"],
)
def test_badly_scaled_matrices_are_solved(A):
    compiled = compiled_plainly(SOLVE, wrt="all")
    x = np.ones(len(A))
    np.testing.assert_allclose(compiled.forward(A=A, b=A @ x), x, rtol=1e-5)


def test_nan_goes_through():
    compiled = compiled_plainly("A: input[n, n]\ny = solve(A, ones(n))", wrt="all")
    A = np.stack([np.eye(2), np.full((2, 2), np.nan)])
    y = compiled.forward(A)
    assert np.all(y[0] == 1)
    assert np.all(np.isnan(y[1]))


def test_log_of_a_negative_determinant_is_nan():
    compiled = compiled_plainly("A: input[n, n]\nf = logdet(A)", wrt="all")
    values = compiled.forward(np.stack([np.diag([2.0, -1.0]), np.diag([2.0, 1.0])]))
    np.testing.assert_allclose(values, [np.nan, np.log(2)])
