"""Sparse matrices and linear operators against the dense Jacobian; SciPy solves with them."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from dense_forms import LAYERS
from layers import arrays_for, compiled, sample

import symgrad as sg
from symgrad.products import tiles

sparse = pytest.importorskip("scipy.sparse")
linalg = pytest.importorskip("scipy.sparse.linalg")

NEAR = {"rtol": 1e-12, "atol": 1e-13}
"""Sums of some dozen products of order one, in another order."""

MORE = {
    "offset": "x: input[n]\nw: param[k]\ny[i] = sum[q](w[q] * x[i + q])",
    "masked": "x: input[n]\nA: param[n, n]\ny[i] = sum[j](where(i >= j, A[i, j], 0) * x[j])",
    "labels": "t: index(v)\nz: input[v]\nb: param[v]\ny = log_softmax(z + b)[t] + b[t]",
    "strided": "x: input[2*n]\nw: param[2*n]\ny = x[::2] * w[::2] * w[1::2]",
    "bag": "t: index(v)[T]\nE: param[v, d]\ny[i] = sum[s](E[t[s], i])",
    "twice": "x: input[n]\nW: param[n, n]\ny = W @ x + W.T @ x",
    "bias": "x: input[n]\nb: param[n]\ny = x + b",
    "unused": "x: input[n]\na: param[m]\ny = x * stop_gradient(sum(a))",
}
EVERY = {**LAYERS, **MORE}


@pytest.fixture(scope="module", params=list(EVERY))
def case(request):
    one = sample(request.param, text=EVERY[request.param])
    return one, one.jac.jacobian(**one.arrays)


def whole(one, J, vec="C", names=None):
    """Return the dense `[B·out, p]`, inputs block-diagonal, from `matrix` of every sample."""
    M = J.matrix(vec)
    M = M if one.batched else M[None]
    count, high, _ = M.shape
    parts = []
    for name in names or one.jac.wrt:
        columns = M[:, :, J.columns[name]]
        if one.jac.forms.program.array(name).batched:
            apart = np.einsum("bij,bc->bicj", columns, np.eye(count))
            parts.append(apart.reshape(count * high, -1))
        else:
            parts.append(columns.reshape(count * high, -1))
    return np.concatenate(parts, 1)


@pytest.mark.parametrize("vec", ["C", "F"])
def test_the_sparse_matrix_is_the_dense_one(case, vec):
    one, J = case
    expected = whole(one, J, vec)
    found = J.to_scipy(vec=vec)
    assert found.format == "csr"
    assert found.dtype == expected.dtype
    assert found.has_canonical_format
    np.testing.assert_allclose(found.toarray(), expected, **NEAR)
    for key, block in J.items():
        rows = whole(one, J, vec, [key[1] if isinstance(key, tuple) else key])
        if isinstance(key, tuple):
            high = max(s.stop for s in J.rows.values())
            rows = rows.reshape(-1, high, rows.shape[1])[:, J.rows[key[0]]]
            rows = rows.reshape(-1, rows.shape[2])
        np.testing.assert_allclose(block.to_scipy(vec=vec).toarray(), rows, **NEAR)
        v = np.random.default_rng(1).normal(size=rows.shape[1])
        np.testing.assert_allclose(block.as_linear_operator(vec) @ v, rows @ v, **NEAR)


@pytest.mark.parametrize("kind", ["csc", "coo", "bsr", "dok", "lil"])
def test_formats_hold_the_same_entries(case, kind):
    _, J = case
    csr = J.to_scipy()
    found = J.to_scipy(kind)
    assert found.format == kind
    assert found.nnz == csr.nnz
    np.testing.assert_array_equal(found.toarray(), csr.toarray())
    turned = J.to_scipy(kind, vec="F")
    np.testing.assert_array_equal(turned.toarray(), J.to_scipy(vec="F").toarray())


def some_entries(one, key, draws=8):
    """Return which entries of a dense Jacobian are not zero for some values of the arrays."""
    found = 0
    for seed in range(draws):
        drawn = arrays_for(one.jac, seed=100 + seed)
        floats = {n: a for n, a in drawn.items() if a.dtype.kind == "f"}
        found = found + (one.jac.jacobian(**{**one.arrays, **floats})[key].dense() != 0)
    return found != 0


def test_exactly_the_entries_that_can_differ_from_zero_are_stored(case):
    one, J = case
    total = 0
    for key, block in J.items():
        own = block.to_scipy()
        if one.name == "pool":  # its positions are data: where each sample's largest elements are
            assert own.nnz == np.count_nonzero(block.dense())
        elif one.name == "stacked":  # what the last step of a recurrence leaves out is not seen
            assert own.nnz >= some_entries(one, key).sum()
        else:
            assert own.nnz == some_entries(one, key).sum()
        total += own.nnz
    assert J.to_scipy().nnz == total


def test_a_bias_and_a_weight_have_one_entry_and_one_row_an_output():
    one = sample("dense")
    J = one.jac.jacobian(**one.arrays)
    assert J["b"].to_scipy().nnz == 3 * 3
    assert J["W"].to_scipy().nnz == 3 * 3 * 4
    assert J["x"].to_scipy().nnz == 3 * 3 * 4
    assert J["x"].to_scipy().shape == (9, 12)
    assert J["W"].to_scipy("bsr").blocksize == (1, 4)
    assert J["W"].to_scipy("bsr", vec="F").blocksize == (1, 1)
    assert J["x"].to_scipy("bsr").blocksize == (3, 4)
    assert J.to_scipy("bsr").blocksize == (1, 1)


def test_entries_that_happen_to_be_zero_are_stored():
    jac = compiled("x: input[n]\nw: param[n]\ny = relu(w * x)")
    found = jac.jacobian(-np.ones((2, 3)), np.ones(3))["w"].to_scipy()
    assert found.nnz == 6
    assert not found.data.any()


def test_nothing_dense_is_made_on_the_way():
    one = sample("dense", batch=4, sizes={"n": 300, "m": 400})
    found = one.jac.jacobian(**one.arrays)["W"].to_scipy()  # the dense array takes 1.5 GB
    assert found.shape == (1600, 120_000)
    assert found.nnz == 4 * 400 * 300
    assert found.indices.dtype == np.int32


def test_samples_in_pieces_give_the_same_matrix(case, monkeypatch):
    _, J = case
    expected = J.to_scipy().toarray()
    monkeypatch.setattr(tiles, "WORKSPACE", 8)
    np.testing.assert_array_equal(J.to_scipy().toarray(), expected)


@pytest.mark.parametrize("vec", ["C", "F"])
def test_the_operator_is_the_dense_matrix(case, vec):
    one, J = case
    M, A = whole(one, J, vec), J.as_linear_operator(vec)
    rng = np.random.default_rng(0)
    assert (A.shape, A.dtype) == (M.shape, M.dtype)
    v, u = rng.normal(size=(M.shape[1], 3)), rng.normal(size=(M.shape[0], 3))
    np.testing.assert_allclose(A.matvec(v[:, 0]), M @ v[:, 0], **NEAR)
    np.testing.assert_allclose(A.matvec(v[:, :1]), M @ v[:, :1], **NEAR)
    np.testing.assert_allclose(A.rmatvec(u[:, 0]), M.T @ u[:, 0], **NEAR)
    np.testing.assert_allclose(A @ v, M @ v, **NEAR)
    np.testing.assert_allclose(A.rmatmat(u), M.T @ u, **NEAR)
    np.testing.assert_allclose(A.T @ u, M.T @ u, **NEAR)
    np.testing.assert_allclose((A.H @ A) @ v, M.T @ (M @ v), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(A @ (v + 2j * v), M @ (v + 2j * v), **NEAR)


@pytest.mark.parametrize("vec", ["C", "F"])
def test_the_gauss_newton_operator_is_the_dense_matrix(case, vec):
    one, J = case
    M = whole(one, J, vec)
    v = np.random.default_rng(0).normal(size=(M.shape[1], 2))
    expected = M.T @ (M @ v) + 0.3 * v
    G = J.ggn_operator(damping=0.3, vec=vec)
    near = {"rtol": 1e-10, "atol": 1e-11}
    np.testing.assert_allclose(G @ v, expected, **near)
    np.testing.assert_allclose(G.rmatvec(v[:, 0]), expected[:, 0], **near)
    u = one.random_u()
    g = np.zeros(M.shape[1])
    flat = J.flatten_outputs(one.given(u), vec).reshape(one.outputs[0].shape[0] if one.batched
                                                        else 1, -1)  # fmt: skip
    rows = M.reshape(*flat.shape, -1)
    found = J.ggn_operator(u=one.given(u), vec=vec) @ v[:, 0]
    for b, own in enumerate(flat):
        gradient = own @ rows[b]
        g += gradient * (gradient @ v[:, 0])
    np.testing.assert_allclose(found, g, **near)


@pytest.mark.parametrize("axis", [0, -1])
def test_the_batch_axis_changes_no_row_and_no_column(axis):
    one = sample("two")
    arrays = {**one.arrays, "x": np.moveaxis(one.arrays["x"], 0, axis)}
    J, K = one.jac.jacobian(**one.arrays), replace(one.jac, batch_axis=axis).jacobian(**arrays)
    np.testing.assert_array_equal(K.to_scipy().toarray(), J.to_scipy().toarray())
    v = np.random.default_rng(0).normal(size=J.to_scipy().shape[1])
    np.testing.assert_allclose(K.as_linear_operator() @ v, J.as_linear_operator() @ v, **NEAR)
    np.testing.assert_allclose(K.ggn_operator() @ v, J.ggn_operator() @ v, **NEAR)
    vector = K.flatten({n: K.unflatten(v)[n] for n in one.jac.wrt})
    np.testing.assert_array_equal(vector, v)


@pytest.mark.parametrize("name", ["dense", "two", "conv", "embedding", "scalars", "tokens", "tied"])
def test_one_sample_has_its_own_rows(name):
    one = sample(name, text=EVERY[name], batch=None)
    J = one.jac.jacobian(**one.arrays)
    M = J.matrix()
    A = J.as_linear_operator()
    v = np.random.default_rng(0).normal(size=M.shape[1])
    np.testing.assert_allclose(J.to_scipy().toarray(), M, **NEAR)
    np.testing.assert_allclose(A @ v, M @ v, **NEAR)
    np.testing.assert_allclose(A.rmatvec(M @ v), M.T @ (M @ v), **NEAR)
    np.testing.assert_allclose(J.ggn_operator() @ v, M.T @ (M @ v), **NEAR)


def test_float32_stays_and_complex_is_adjoint():
    one = sample("dense")
    small = {n: a.astype(np.float32) for n, a in one.arrays.items()}
    J = one.jac.jacobian(**small)
    A = J.as_linear_operator()
    assert {J.to_scipy().dtype, A.dtype, J.ggn_operator().dtype} == {np.dtype(np.float32)}
    assert (A @ np.ones(A.shape[1])).dtype == np.float32
    turned = {n: a * np.exp(0.5j) for n, a in one.arrays.items()}
    J = one.jac.jacobian(**turned)
    M, A = whole(one, J), J.as_linear_operator()
    rng = np.random.default_rng(0)
    v = rng.normal(size=(M.shape[1], 2)) + 1j * rng.normal(size=(M.shape[1], 2))
    u = rng.normal(size=(M.shape[0], 2)) + 1j * rng.normal(size=(M.shape[0], 2))
    np.testing.assert_allclose(J.to_scipy().toarray(), M, **NEAR)
    np.testing.assert_allclose(A @ v, M @ v, **NEAR)
    np.testing.assert_allclose(A.H @ u, M.conj().T @ u, **NEAR)
    np.testing.assert_allclose(A.rmatvec(u[:, 0]), M.conj().T @ u[:, 0], **NEAR)
    np.testing.assert_allclose(A.T @ u, M.T @ u, **NEAR)
    G = M.conj().T @ M
    np.testing.assert_allclose(J.ggn_operator() @ v, G @ v, **NEAR)
    np.testing.assert_allclose(J.ggn_operator().H @ v, G @ v, **NEAR)


@pytest.mark.parametrize(("batch", "sizes"), [(0, {}), (3, {"m": 0}), (3, {"n": 0})])
def test_nothing_gives_matrices_without_entries_or_rows(batch, sizes):
    one = sample("dense")
    J = one.jac.jacobian(**arrays_for(one.jac, batch, sizes=sizes))
    shape = (batch * J.rows["y"].stop, J.flat_columns["b"].stop)
    A = J.as_linear_operator()
    assert A.shape == shape
    assert (A @ np.ones(shape[1])).shape == shape[:1]
    if all(shape):
        for kind in ("csr", "csc", "coo", "bsr"):
            assert J.to_scipy(kind).shape == shape
    else:
        assert J.to_scipy().shape == shape
        assert J.to_scipy().nnz == 0


# ------------------------------------------------------------ solvers


@pytest.fixture(scope="module")
def fit():
    """A net with more rows than columns, its residuals and damping."""
    jac = compiled(LAYERS["mlp"], "params")
    arrays = arrays_for(jac, batch=40)
    J = jac.jacobian(**arrays)
    return J, np.random.default_rng(7).normal(size=J.value.shape), 0.1


@pytest.mark.parametrize("vec", ["C", "F"])
def test_lsmr_finds_the_damped_least_squares_step(fit, vec):
    J, r, damping = fit
    b = J.flatten_outputs(r, vec)
    found = linalg.lsmr(
        J.as_linear_operator(vec), b, damp=np.sqrt(damping), atol=1e-13, btol=1e-13, maxiter=2000
    )[0]
    expected = J.solve(r, damping)
    for name, array in J.unflatten(found, vec).items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("vec", ["C", "F"])
def test_cg_solves_the_normal_equations(fit, vec):
    J, r, damping = fit
    M = J.matrix(vec).reshape(-1, J.columns["b2"].stop)
    b = M.T @ J.flatten_outputs(r, vec)
    found, left = linalg.cg(J.ggn_operator(damping=damping, vec=vec), b, rtol=1e-12, maxiter=2000)
    assert left == 0
    expected = np.linalg.solve(M.T @ M + damping * np.eye(len(b)), b)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


def test_cg_takes_the_natural_gradient_step_of_a_fisher_matrix(fit):
    J, r, _ = fit
    g = J.flatten(J.vjp(r))
    found, left = linalg.cg(J.ggn_operator("cross_entropy", damping=0.2), g, rtol=1e-12)
    assert left == 0
    F = J.ggn("cross_entropy")
    sizes = {n: s.stop - s.start for n, s in J.columns.items()}
    dense = np.block([[F[p, q].reshape(sizes[p], sizes[q]) for q in J] for p in J])
    expected = np.linalg.solve(dense + 0.2 * np.eye(len(g)), g)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


def test_eigsh_finds_the_largest_curvatures(fit):
    J, _, _ = fit
    M = J.matrix().reshape(-1, J.columns["b2"].stop)
    found = linalg.eigsh(J.ggn_operator(), k=4, return_eigenvectors=False)
    np.testing.assert_allclose(np.sort(found), np.linalg.eigvalsh(M.T @ M)[-4:], rtol=1e-9)


def test_svds_finds_the_largest_singular_values(fit):
    J, _, _ = fit
    M = J.matrix().reshape(-1, J.columns["b2"].stop)
    found = linalg.svds(J.as_linear_operator(), k=3, return_singular_vectors=False)
    expected = np.linalg.svd(M, compute_uv=False)[:3]
    np.testing.assert_allclose(np.sort(found)[::-1], expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["embedding", "conv", "mlp"])
def test_spsolve_solves_sparse_normal_equations(name):
    one = sample(name, batch=6, wrt="params")
    J = one.jac.jacobian(**one.arrays)
    A = J.to_scipy("csc")
    b = np.random.default_rng(1).normal(size=A.shape[0])
    normal = (A.T @ A + 0.5 * sparse.identity(A.shape[1], format="csc")).tocsc()
    found = linalg.spsolve(normal, A.T @ b)
    expected = J.solve(J.unflatten_outputs(b), 0.5)
    for theta, array in J.unflatten(found).items():
        np.testing.assert_allclose(array, expected[theta], rtol=1e-9, atol=1e-11)


def test_solvers_reach_inputs_too():
    one = sample("dense")
    J = one.jac.jacobian(**one.arrays)
    r = np.random.default_rng(2).normal(size=(3, 3))
    found = linalg.lsmr(J.as_linear_operator(), r.ravel(), damp=0.5, atol=1e-13, btol=1e-13)[0]
    expected = J.solve(r, 0.25)
    for name, array in J.unflatten(found).items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-8, atol=1e-9)


# ------------------------------------------------------------ what is refused


def test_what_no_operator_can_be_is_refused():
    one = sample("dense")
    J = one.jac.jacobian(**one.arrays)
    with pytest.raises(sg.ArgumentError, match="format must be one of bsr, coo, csc, csr"):
        J.to_scipy("dense")
    H = np.random.default_rng(0).normal(size=(3, 3, 3))
    with pytest.raises(sg.ArgumentError, match="H is not symmetric"):
        J.ggn_operator(H)
    with pytest.raises(sg.ArgumentError, match="damping must be a number that is not negative"):
        J.ggn_operator(damping=-1.0)
    with pytest.raises(sg.ArgumentError, match="no loss is called 'mes'; did you mean mse"):
        J.ggn_operator("mes")


def test_without_scipy_the_error_names_the_extra(monkeypatch):
    one = sample("dense")
    J = one.jac.jacobian(**one.arrays)
    for module in ("scipy", "scipy.sparse", "scipy.sparse.linalg"):
        monkeypatch.setitem(sys.modules, module, None)
    for form, name in (
        (J.to_scipy, "to_scipy"), (J["W"].to_scipy, "to_scipy"),
        (J.as_linear_operator, "as_linear_operator"), (J.ggn_operator, "ggn_operator"),
    ):  # fmt: skip
        said = rf"(?s){name} needs scipy.*symgrad\[scipy\]"
        with pytest.raises(sg.MissingExtraError, match=said):
            form()
    assert issubclass(sg.MissingExtraError, (ImportError, sg.SymgradError))
    assert J.matrix().shape == (3, 3, 19)


def test_importing_symgrad_and_taking_products_imports_no_scipy():
    code = (
        "import sys, numpy as np, symgrad as sg\n"
        "jac = sg.compile('W x + b', check=False)\n"
        "J = jac.jacobian(np.ones((2, 3)), np.ones((4, 3)), np.ones(4))\n"
        "J.matrix(), J.gram()\n"
        "assert 'scipy.sparse' not in sys.modules\n"
        "assert 'symgrad.products.sparse' not in sys.modules\n"
        "J.to_scipy()\n"
        "assert 'scipy.sparse' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
