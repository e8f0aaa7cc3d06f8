"""Linear algebra: inv, det, logdet, solve and cholesky, against PyTorch and differences.

Every layer below is held against automatic differentiation in float64, form by form; products
agree to rtol 1e-9 of the largest entry, which leaves seven digits for the matrices' condition.
"""

from collections import Counter

import mpmath
import numpy as np
import pytest
from linear_layers import LAYERS, SOLVE, VARIATIONAL, compiled_plainly

import symgrad as sg
from symgrad.proof.matrices import of_matrices

SIZES = {"n": 4, "m": 3, "k": 2, "d": 2}
ONES = {"n": 1, "m": 2, "k": 1, "d": 1}


def arrays_for(layer, sizes, batch, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    found = {}
    for made in layer.declarations:
        shape = tuple(d.evaluate(sizes) for d in made.dims)
        shape = (batch, *shape) if made.role == "input" else shape
        found[made.name] = (rng.normal(size=shape) / 2).astype(dtype)
    return found


def torch_truth(torch, function, arrays, inputs, batch):
    """Return outputs `[B, *out]` and Jacobians `{name: [B, *out, *p]}`, sample by sample."""
    values, jacobians = [], {name: [] for name in arrays}
    for sample in range(batch if inputs else 1):
        given = tuple(
            torch.tensor(a[sample] if name in inputs else a) for name, a in arrays.items()
        )
        values.append(function(torch, *given).numpy())
        found = torch.autograd.functional.jacobian(lambda *a: function(torch, *a), given)
        for name, part in zip(arrays, found, strict=True):
            jacobians[name].append(part.numpy())
    if not inputs:
        return values[0], {name: parts[0] for name, parts in jacobians.items()}
    return np.stack(values), {name: np.stack(parts) for name, parts in jacobians.items()}


def agree(actual, expected, rtol=1e-9):
    expected = np.asarray(expected)
    assert np.shape(actual) == expected.shape
    scale = np.max(np.abs(expected), initial=0.0)
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol * scale + 1e-14)


def every_form_agrees(compiled, arrays, value, jacobians, rtol=1e-9):
    """Hold value, Jacobian, both products from the left and the one from the right against J."""
    inputs = {d.name for d in compiled.layer.declarations if d.role == "input"}
    batched = bool(inputs)
    agree(compiled.forward(arrays), value, rtol)
    J = compiled.jacobian(**arrays)
    rng = np.random.default_rng(7)
    u = rng.normal(size=np.shape(value))
    pulled, each = compiled.vjp(arrays, u), compiled.vjp_per_sample(arrays, u)
    total, tangents = 0.0, {}
    for name, expected in jacobians.items():
        agree(J[name].dense(), expected, rtol)
        lead = len(value) if batched else 1
        flat = expected.reshape(lead, int(np.prod(u.shape[batched:])), -1)
        own = expected.shape[u.ndim :]
        rows = np.einsum("bo,bop->bp", u.reshape(lead, -1), flat)
        per_sample = rows.reshape((lead, *own) if batched else own)
        agree(each[name], per_sample, rtol)
        whole = per_sample if name in inputs or not batched else per_sample.sum(0)
        agree(pulled[name], whole, rtol)
        tangents[name] = rng.normal(size=arrays[name].shape)
        v = tangents[name].reshape(lead if name in inputs else 1, -1)
        total = total + np.einsum("bop,bp->bo", flat, np.broadcast_to(v, (lead, v.shape[1])))
    agree(compiled.jvp(arrays, tangents), total.reshape(np.shape(value)), rtol)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("sizes", [SIZES, ONES], ids=["4x4", "1x1"])
def test_every_form_agrees_with_pytorch(name, sizes):
    torch = pytest.importorskip("torch")
    text, function = LAYERS[name]
    compiled = compiled_plainly(text, wrt="all")
    arrays = arrays_for(compiled.layer, sizes, batch=3)
    inputs = {d.name for d in compiled.layer.declarations if d.role == "input"}
    value, jacobians = torch_truth(torch, function, arrays, inputs, 3)
    every_form_agrees(compiled, arrays, value, jacobians)


@pytest.mark.slow  # numba takes its time for every form of so long a layer
def test_numba_kernels_agree_too():
    torch = pytest.importorskip("torch")
    compiled = sg.compile(VARIATIONAL, wrt="all")
    arrays = arrays_for(compiled.layer, SIZES, batch=3)
    function = LAYERS["a sparse variational Gaussian process"][1]
    value, jacobians = torch_truth(torch, function, arrays, {"x", "y"}, 3)
    every_form_agrees(compiled, arrays, value, jacobians, rtol=1e-8)


@pytest.mark.parametrize("name", LAYERS)
def test_compiling_holds_every_slope_against_differences_and_the_closed_form(name):
    report = sg.check(compiled_plainly(LAYERS[name][0], wrt="all"))
    assert report.ok
    assert {a.oracle for a in report.agreements} == {
        "finite differences", "closed form in high precision"
    }


def test_points_without_a_value_are_drawn_again():
    report = sg.compile("S: input[n, n]\nL = cholesky(S)", wrt="all").report
    assert report is not None
    assert report.ok
    assert report.agreements[0].entries > 0


def test_a_layer_that_is_singular_everywhere_is_refused_with_the_reason():
    with pytest.raises(sg.ValidationError, match="values and slopes are finite"):
        sg.compile("x: input[n]\nf = det(outer(x, x))", wrt="all", dims={"n": 3})


# ------------------------------------------------------------------ sizes, dtypes, digits


def test_matrices_of_size_zero():
    text = """\
A: input[n, n]
b: param[n, k]
Y = solve(A, b)
f = logdet(A) + det(A) + sum(inv(A), axis=None) + sum(cholesky(A), axis=None)
return Y, f
"""
    compiled = compiled_plainly(text, wrt="all")
    A, b = np.zeros((3, 0, 0)), np.zeros((0, 2))
    Y, f = compiled.forward(A=A, b=b)
    assert Y.shape == (3, 0, 2)
    np.testing.assert_array_equal(f, [1.0, 1.0, 1.0])
    assert compiled.jacobian(A=A, b=b)["f", "A"].dense().shape == (3, 0, 0)
    assert compiled.vjp({"A": A, "b": b}, (Y, f))["b"].shape == (0, 2)


def test_a_part_of_an_array_gets_a_name():
    compiled = compiled_plainly("A: param[5, 5]\nb: param[5]\ny = solve(A[:3, :3], b[:3])", wrt="b")
    np.testing.assert_allclose(compiled.forward(2 * np.eye(5), np.arange(5.0)), [0, 0.5, 1])


def test_a_right_side_without_columns():
    compiled = compiled_plainly("A: param[n, n]\nB: input[n, k]\nY = solve(A, B)", wrt="all")
    assert compiled.forward(A=np.eye(2), B=np.zeros((3, 2, 0))).shape == (3, 2, 0)


def test_one_sample_without_its_batch_axis():
    compiled = compiled_plainly("A: input[n, n]\nb: param[n]\ny = solve(A, b)", wrt="all")
    np.testing.assert_allclose(compiled.forward(2 * np.eye(2), np.ones(2)), [0.5, 0.5])


@pytest.mark.parametrize("name", LAYERS)
def test_float32_stays_float32(name):
    compiled = compiled_plainly(LAYERS[name][0], wrt="all")
    arrays = arrays_for(compiled.layer, SIZES, batch=3)
    single = {n: a.astype(np.float32) for n, a in arrays.items()}
    value = compiled.forward(single)
    assert value.dtype == np.float32
    agree(value, compiled.forward(arrays), rtol=2e-3)
    u = np.ones(np.shape(value))
    right = compiled.vjp(arrays, u)
    for wrt, found in compiled.vjp(single, u.astype(np.float32)).items():
        assert found.dtype == np.float32
        agree(found, right[wrt], rtol=2e-2)


def test_ill_conditioned_systems_keep_the_digits_that_they_have():
    """The condition is 1e8: half of the digits may go, in adjoint solves and in inverses."""
    rng = np.random.default_rng(3)
    n = 8
    left, right = (np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(2))
    A = left * np.logspace(0, -8, n) @ right.T
    b, u = A @ rng.normal(size=n), A.T @ rng.normal(size=n)
    exactly = np.frompyfunc(lambda z: mpmath.mpf(float(z)), 1, 1)
    with mpmath.workdps(50):
        y = of_matrices("solve", (exactly(A), exactly(b)), 1).astype(float)
        w = of_matrices("solve", (exactly(A.T), exactly(u)), 1).astype(float)
    compiled = compiled_plainly(SOLVE, wrt="all")
    pulled, J = compiled.vjp({"A": A, "b": b}, u), compiled.jacobian(A=A, b=b)
    for found in (pulled, J.vjp(u)):
        assert np.abs(found["b"] - w).max() <= 1e-8 * np.abs(w).max()
        expected = -np.outer(w, y)
        assert np.abs(found["A"] - expected).max() <= 1e-8 * np.abs(expected).max()
    residual = A.T @ pulled["b"] - u
    assert np.abs(residual).max() <= 1e-14 * np.abs(A).max() * np.abs(w).max()


def test_triangular_systems_are_solved_by_substitution():
    """An error of one rounding a row, whatever the condition: no elimination, no pivots."""
    text = "S: param[n, n]\nb: input[n]\ny = solve(cholesky(S).T, solve(cholesky(S), b))"
    module = compiled_plainly(text, wrt="all").module
    n = 70
    L = np.tril(-np.ones((n, n)), -1) + np.eye(n)
    rng = np.random.default_rng(0)
    b = rng.normal(size=(3, n))
    solved = module._solve_triangular(L, b.T, True).T
    expected = np.array(b)
    for k in range(n):
        expected[:, k] = b[:, k] + expected[:, :k].sum(1)
    np.testing.assert_allclose(solved, expected, rtol=1e-12)
    solved = module._solve_triangular(L.T, b.T, False).T
    for k in reversed(range(n)):
        expected[:, k] = b[:, k] + expected[:, k + 1 :].sum(1)
    np.testing.assert_allclose(solved, expected, rtol=1e-12)


# ------------------------------------------------------------------ how much is computed


def calls(monkeypatch, function):
    """Return how often each function of np.linalg is called by a function."""
    counted = Counter()

    def counting(name, inner):
        def run(*args, **kwargs):
            counted[name] += 1
            return inner(*args, **kwargs)

        return run

    with monkeypatch.context() as patch:
        for name in ("inv", "det", "slogdet", "solve", "cholesky"):
            patch.setattr(np.linalg, name, counting(name, getattr(np.linalg, name)))
        function()
    return dict(counted)


def test_what_the_batch_shares_is_factorised_once_a_call(monkeypatch):
    """K: Cholesky and one LU forwards, one LU backwards for two solutions and the inverse."""
    compiled = compiled_plainly(VARIATIONAL, wrt="params")
    arrays = arrays_for(compiled.layer, SIZES, batch=7)
    forwards = {"cholesky": 1, "solve": 1, "slogdet": 2}
    assert calls(monkeypatch, lambda: compiled.forward(arrays)) == forwards
    _, pull = compiled.pullback(**arrays)
    backwards = {"solve": 1, "inv": 1}  # K; and S of the log determinant
    assert calls(monkeypatch, lambda: pull(np.ones(7))) == backwards


def test_equal_factorisations_are_one(monkeypatch):
    text = """\
x: input[n]
A: param[n, n]
K = A @ A.T + eye(n)
L = cholesky(K)
M = cholesky(K)
y = cholesky(K) @ x + L @ x + M @ x + inv(K) @ x + inv(K).T @ x + logdet(K) + logdet(K)
"""
    compiled = compiled_plainly(text, wrt="all")
    arrays = arrays_for(compiled.layer, SIZES, batch=3)
    once = {"cholesky": 1, "inv": 1, "slogdet": 1}
    assert calls(monkeypatch, lambda: compiled.forward(arrays)) == once
    held = []
    assert calls(monkeypatch, lambda: held.append(compiled.jacobian(**arrays))) == once
    (J,) = held
    assert calls(monkeypatch, lambda: [J.value, *(b.factors() for b in J.values())]) == {}
    _, pull = compiled.pullback(**arrays)
    assert calls(monkeypatch, lambda: pull(np.ones((3, 4)))) == {}


def test_samples_matrices_are_one_call(monkeypatch):
    compiled = compiled_plainly("A: input[n, n]\nb: param[n]\ny = solve(A, b)", wrt="all")
    A = np.stack([np.eye(3) * k for k in range(1, 6)])
    assert calls(monkeypatch, lambda: compiled.forward(A, np.ones(3))) == {"solve": 1}


def test_one_matrix_takes_all_samples_as_columns(monkeypatch):
    compiled = compiled_plainly("b: input[n]\nA: param[n, n]\ny = solve(A, b)", wrt="all")
    shapes = []
    solve = np.linalg.solve

    def seen(a, b):
        shapes.append((a.shape, b.shape))
        return solve(a, b)

    monkeypatch.setattr(np.linalg, "solve", seen)
    compiled.forward(b=np.ones((9, 3)), A=np.eye(3))
    assert shapes == [((3, 3), (3, 11))]  # nine samples, and two columns that test for rank


# ------------------------------------------------------------------ formulas


@pytest.mark.parametrize(
    ("text", "wrt", "index", "matrix"),
    [
        ("S: param[n, n]\nf = logdet(S)", "S", "∂f/∂S[i,j] = (S⁻¹)_ji", "∂f/∂S = S⁻ᵀ"),
        ("S: param[n, n]\nf = det(S)", "S", "∂f/∂S[i,j] = f (S⁻¹)_ji", "∂f/∂S = S⁻ᵀ f"),
        (SOLVE, "b", "∂y[i]/∂b[j] = (A⁻¹)_ij", "∂y/∂b = A⁻¹"),
        (SOLVE, "A", "∂y[i]/∂A[j,k] = -(A⁻¹)_ij y_k", None),
        ("X: param[n, n]\nY = inv(X)", "X", "∂Y[i,j]/∂X[k,l] = -Y_ik Y_lj", None),
    ],
)
def test_closed_forms_read_like_a_textbook(text, wrt, index, matrix):
    formula = sg.derive(text, wrt="all")[wrt]
    assert formula.text() == index
    if matrix is not None:
        assert formula.text("matrix") == matrix


def test_functions_nobody_named_are_written_where_they_are_read():
    page = sg.derive("S: param[n, n]\nb: input[n]\ny = cholesky(S) @ b + logdet(S)", "all").text()
    assert "∂chol(S)_ij/∂S_kl = 1/2 Σ_p chol(S)_ip Φ_pj(" in page
    assert "Φ_ij = [i > j] + δ_ij/2" in page
    assert "(chol(S)⁻¹)_pk" in page
    assert "∂y_i/∂b_j |{chol(S), log det S} = chol(S)_ij" in page
    stacked = sg.derive("K: param[m, n, n]\ny: input[n]\nf = solve(K, y) @ y + logdet(K)", "all")
    assert stacked["y"].text() == "∂f[i]/∂y[j] = (K_i⁻¹ y)_j + Σ_k y_k (K_i⁻¹)_kj"
    assert "∂log det K_i/∂K_jkl = δ_ij (K_i⁻¹)_lk" in stacked.text()


def test_latex():
    derived = sg.derive("S: param[n, n]\nb: input[n]\nf = logdet(S) + dot(b, solve(S, b))", "all")
    assert "(S^{-1})_{ji}" in derived["S"].latex()
    page = derived.tex()
    assert r"\log\det S" in page
    assert "S^{-1} b" in page
    assert r"\operatorname{chol}(S)" in sg.derive("S: param[n, n]\nL = cholesky(S)", "all").tex()


# ------------------------------------------------------------------ what is no linear algebra


@pytest.mark.parametrize(
    ("line", "error", "message"),
    [
        ("y = inv(x)", sg.ShapeError, "x has shape [n], which is not square"),
        ("y = logdet(W)", sg.ShapeError, "W has shape [n, m], which is not square"),
        ("y = solve(A, W.T)", sg.ShapeError, "of shape [m, n] does not fit A of shape [n, n]"),
        ("y = solve(A)", sg.LayerSyntaxError, "solve takes 2 arguments, not 1"),
        ("y = cholesky(A, x)", sg.LayerSyntaxError, "cholesky takes 1 argument, not 2"),
        ("y = det(A, axis=0)", sg.LayerSyntaxError, "det has no axis"),
    ],
)
def test_misuse_is_explained(line, error, message):
    with pytest.raises(error) as caught:
        sg.derive(f"x: input[n]\nW: param[n, m]\nA: param[n, n]\n{line}", wrt="all")
    assert message in str(caught.value)
    assert "^" in str(caught.value)
