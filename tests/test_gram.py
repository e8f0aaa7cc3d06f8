"""Gram matrices, norms and inner products against the dense Jacobian; no dense array on the way."""

import tracemalloc

import numpy as np
import pytest
from dense_forms import LAYERS, Dense, layer
from layers import arrays_for, unvalidated

import symgrad as sg
from symgrad.products import tiles
from symgrad.products.contract import entries
from symgrad.products.eliminate import eliminate
from symgrad.products.gram import across
from symgrad.products.rows import Rows

NEAR = {"rtol": 1e-11, "atol": 1e-12}
"""Sums of a few hundred products of order one, in another order."""


@pytest.fixture(scope="module", params=list(LAYERS))
def case(request):
    one = layer(request.param)
    J = one.jac.jacobian(**one.arrays)
    K = one.jac.jacobian(**arrays_for(one.jac, batch=2, seed=9))
    return one, J, K


def by_pairs(one, found):
    outputs = one.jac.forms.program.outputs
    return found if len(outputs) > 1 else {(outputs[0], outputs[0]): found}


def shaped(one, *groups):
    """Return a shape: batch axes vanish where the layer has none."""
    return tuple(n for g in groups for n in g if one.batched or n is not None)


def test_gram_of_all_samples_with_all_is_that_of_the_dense_jacobian(case):
    one, J, _ = case
    D = Dense(one, J)
    batch = (D.count,) if one.batched else ()
    for (o, q), found in by_pairs(one, J.gram()).items():
        assert found.shape == (*batch, *D.out[o], *batch, *D.out[q])
        np.testing.assert_allclose(found.ravel(), D.gram(D, o, q).ravel(), **NEAR)


def test_gram_with_other_samples(case):
    one, J, K = case
    if Dense(one, J).inputs:
        with pytest.raises(sg.ShapeError, match="J has 3 samples, other has 2"):
            J.gram(K)
        names = [n for n in one.jac.wrt if n not in Dense(one, J).inputs]
        if not names:
            return
        jac = one.jac.select(names)
        J, K = (jac.jacobian(**a) for a in (one.arrays, arrays_for(jac, batch=2, seed=9)))
        one = type(one)(one.name, jac, one.arrays)
    D, E = Dense(one, J), Dense(one, K)
    found = by_pairs(one, J.gram(K))
    out = by_pairs(one, J.gram(K, diagonal="out")) if len(D.outputs) == 1 else J.gram(K, "out")
    for (o, q), array in found.items():
        expected = D.gram(E, o, q)
        np.testing.assert_allclose(array.ravel(), expected.ravel(), **NEAR)
        if o == q:
            kept = np.einsum("bici->bci", expected)
            part = out[o] if len(D.outputs) > 1 else out[o, q]
            np.testing.assert_allclose(part.ravel(), kept.ravel(), **NEAR)


def test_gram_of_equal_samples_and_of_equal_outputs_are_parts_of_it(case):
    one, J, _ = case
    D = Dense(one, J)
    batch = (D.count,) if one.batched else ()
    for (o, q), found in by_pairs(one, J.gram(diagonal="batch")).items():
        assert found.shape == (*batch, *D.out[o], *D.out[q])
        expected = np.einsum("bibj->bij", D.gram(D, o, q))
        np.testing.assert_allclose(found.ravel(), expected.ravel(), **NEAR)
    found = J.gram(diagonal="out")
    for o in D.outputs:
        array = found[o] if len(D.outputs) > 1 else found
        assert array.shape == (*batch, *batch, *D.out[o])
        expected = np.einsum("bici->bci", D.gram(D, o, o))
        np.testing.assert_allclose(array.ravel(), expected.ravel(), **NEAR)


def test_gram_sums_over_parameters(case):
    one, J, _ = case
    outputs = one.jac.forms.program.outputs
    for diagonal in (None, "batch"):
        whole = by_pairs(one, J.gram(diagonal=diagonal))
        for o in outputs:
            blocks = [b for k, b in J.items() if (k[0] if isinstance(k, tuple) else o) == o]
            parts = sum(b.gram(diagonal=diagonal) for b in blocks)
            np.testing.assert_allclose(parts, whole[o, o], **NEAR)


def test_gram_is_exactly_symmetric_and_positive_semidefinite(case, monkeypatch):
    one, J, _ = case
    monkeypatch.setattr(tiles, "WORKSPACE", 8 * 100)
    D = Dense(one, J)
    sizes = [D.count * int(np.prod(D.out[o])) for o in D.outputs]
    found = by_pairs(one, J.gram())
    matrix = np.block([
        [found[o, q].reshape(m, n) for q, n in zip(D.outputs, sizes, strict=True)]
        for o, m in zip(D.outputs, sizes, strict=True)
    ])  # fmt: skip
    np.testing.assert_array_equal(matrix, matrix.T)
    values = np.linalg.eigvalsh(matrix)
    assert values.min() >= -1e-12 * max(values.max(), 1)
    for (o, q), array in by_pairs(one, J.gram(diagonal="batch")).items():
        if o == q:
            square = array.reshape(D.count, sizes[0] and -1, int(np.prod(D.out[o])))
            np.testing.assert_array_equal(square, square.swapaxes(1, 2))


@pytest.mark.parametrize("workspace", [1, 8 * 50, 8 * 1000])
def test_pieces_add_up_to_the_whole(case, monkeypatch, workspace):
    one, J, _ = case
    whole = by_pairs(one, J.gram()), J.norm()
    monkeypatch.setattr(tiles, "WORKSPACE", workspace)
    for key, array in by_pairs(one, J.gram()).items():
        np.testing.assert_allclose(array, whole[0][key], **NEAR)
    np.testing.assert_allclose(J.norm(), whole[1], **NEAR)


def test_norms_and_inner_products_of_samples(case):
    one, J, _ = case
    D = Dense(one, J)
    u, v = one.random_u(3), one.random_u(5)
    grads, other = (
        [
            sum(
                np.einsum("bo,bop->bp", w[k].reshape(D.count, -1), D.of[o, p])
                for k, o in enumerate(D.outputs)
            )
            for p in D.names
        ]
        for w in (u, v)
    )
    squares = sum((d**2).sum((1, 2)) for d in D.of.values())
    np.testing.assert_allclose(np.ravel(J.norm()), np.sqrt(squares), **NEAR)
    np.testing.assert_allclose(np.ravel(J.per_sample_dot()), squares, **NEAR)
    lengths = np.sqrt(sum((g**2).sum(1) for g in grads))
    np.testing.assert_allclose(np.ravel(J.norm(one.given(u))), lengths, **NEAR)
    dots = sum((g * h).sum(1) for g, h in zip(grads, other, strict=True))
    found = J.per_sample_dot(u=one.given(u), v=one.given(v))
    np.testing.assert_allclose(np.ravel(found), dots, **NEAR)
    bound = float(np.median(lengths))
    scale = np.minimum(1, bound / lengths)
    for name, grad, found in zip(D.names, grads, J.clipped_vjp(one.given(u), bound).values(),
                                 strict=True):  # fmt: skip
        each = grad * scale[:, None]
        expected = each if name in D.inputs else each.sum(0)
        np.testing.assert_allclose(np.ravel(found), expected.ravel(), **NEAR)


def test_several_right_hand_sides_stand_along_leading_axes(case):
    one, J, _ = case
    several = [one.random_u(s) for s in range(6)]
    stacked = tuple(np.stack(u).reshape(2, 3, *u[0].shape) for u in zip(*several, strict=True))
    for form in ("vjp", "per_sample_vjp"):
        found = getattr(J, form)(one.given(stacked))
        for n, u in enumerate(several):
            for name, g in getattr(J, form)(one.given(u)).items():
                np.testing.assert_allclose(found[name][n // 3, n % 3], g, **NEAR)
    given = [one.tangents(s) for s in range(6)]
    vectors = {
        n: np.stack([t[n] for t in given]).reshape(2, 3, *given[0][n].shape) for n in given[0]
    }
    found = J.jvp(vectors)
    for n, t in enumerate(given):
        for a, b in zip(_tuple(found), _tuple(J.jvp(t)), strict=True):
            np.testing.assert_allclose(a[n // 3, n % 3], b, **NEAR)
    for name in given[0]:
        if len(one.jac.forms.program.outputs) == 1:
            pushed = J[name].jvp(vectors[name])
            np.testing.assert_allclose(pushed[1, 2], J[name].jvp(given[5][name]), **NEAR)


def _tuple(value):
    return value if isinstance(value, tuple) else (value,)


def test_one_sample_without_batch_axis(case):
    one, J, _ = case
    if not one.batched:
        return
    program = one.jac.forms.program
    single = {n: a[1] if program.array(n).batched else a for n, a in one.arrays.items()}
    S = one.jac.jacobian(**single)
    each = by_pairs(one, J.gram(diagonal="batch"))
    for diagonal in (None, "batch"):
        for key, array in by_pairs(one, S.gram(diagonal=diagonal)).items():
            np.testing.assert_allclose(array, each[key][1], **NEAR)
    np.testing.assert_allclose(S.norm(), J.norm()[1], **NEAR)
    u = one.random_u()
    np.testing.assert_allclose(S.norm(one.given(tuple(x[1] for x in u))), J.norm(one.given(u))[1],
                               **NEAR)  # fmt: skip


def test_no_samples(case):
    one, _, _ = case
    if not one.batched:
        return
    J = one.jac.jacobian(**arrays_for(one.jac, batch=0))
    D = Dense(one, J)
    for (o, q), found in by_pairs(one, J.gram()).items():
        assert found.shape == (0, *D.out[o], 0, *D.out[q])
    assert J.norm().shape == (0,)
    u = one.given(one.random_u())
    u = tuple(x[:0] for x in u) if isinstance(u, tuple) else u[:0]
    assert not any(g.any() for g in J.clipped_vjp(u, 1.0).values())


def test_results_are_written_into_out():
    one = layer("mlp")
    J, names = one.jac.jacobian(**one.arrays), ["W1", "b1", "W2", "b2"]
    P = one.jac.select(names).jacobian(**one.arrays)
    u, v = one.random_u()[0], one.tangents()["W1"]
    calls = [
        (P.gram, {}), (P.gram, {"diagonal": "batch"}), (J["W1"].gram, {"diagonal": "out"}),
        (J["W1"].vjp, {"u": u}), (J["W1"].per_sample_vjp, {"u": u}), (J["W1"].jvp, {"v": v}),
        (J["W1"].ggn, {}), (J["W1"].ggn_diagonal, {}), (J["W1"].ggn_matvec, {"v": v}),
        (J["W1"].sqrt_ggn, {"H": "cross_entropy"}), (J["W1"].solve, {"r": u, "damping": 1.0}),
        (J.norm, {}), (J.per_sample_dot, {"u": u}), (J["W1"].clipped_vjp, {"u": u, "bound": 0.1}),
        (J["W1"].norm, {"u": u}), (J["W1"].per_sample_dot, {}), (J["x"].ggn, {"H": "poisson"}),
        (J["W1"].functional_variance, {"low_rank": np.ones((5, 4, 2))}),
        (J.jvp, {"tangents": {"W1": v}}), (P.functional_variance, {"Sigma": 0.5}),
    ]  # fmt: skip
    for form, given in calls:
        expected = form(**given)
        out = np.full(expected.shape, np.nan)
        assert form(**given, out=out) is out
        np.testing.assert_array_equal(out, expected)
        spaced = np.full((*expected.shape, 2), np.nan)[..., 0]
        np.testing.assert_array_equal(form(**given, out=spaced), expected)
        with pytest.raises(sg.ShapeError, match="out has shape"):
            form(**given, out=np.zeros((7, 7)))
        with pytest.raises(sg.ArgumentError, match="float32"):
            form(**given, out=out.astype(np.float32))
    square = layer("residual")
    block = square.jac.jacobian(**square.arrays)["x"]
    u = square.random_u()[0]
    expected = block.vjp(u)
    np.testing.assert_array_equal(block.vjp(u, out=u), expected)


def test_the_sum_over_parameters_comes_apart():
    """(Σ_p G G)(Σ_q h h): no array of the contraction has both p or q and two samples."""
    one = layer("dense", wrt="params", batch=50, sizes={"n": 40, "m": 30})
    block = one.jac.jacobian(**one.arrays)["W"]
    form = across(block.factored, block.factored, by_out=False)
    sums = form.sums(Rows(0, 50), Rows(0, 50))
    reduced = eliminate(sums.products[0], sums.result, sums.axes, float)
    sizes = {a: a.size for a in reduced.axes}
    largest = max(np.prod([a.size for a in axes]) for axes in entries(reduced, sizes))
    assert largest == 50 * 50 * 30  # the result without the zeros of δ_ij
    q = [t.axes[1] for t in reduced.tensors if t.axes[1].size == 40]
    assert all(len(axes) <= 2 for axes in entries(reduced, sizes) if set(axes) & set(q))


@pytest.mark.parametrize("diagonal", ["out", "batch"])
def test_memory_is_the_result_and_a_bounded_workspace(monkeypatch, diagonal):
    monkeypatch.setattr(tiles, "WORKSPACE", 2**20)
    one = layer("mlp", wrt="params", batch=200, sizes={"n": 100, "h": 150, "m": 10})
    J = one.jac.jacobian(**one.arrays)
    assert J["W1"].shape == (200, 10, 150, 100)  # 240 MB, were it built
    tracemalloc.start()
    found = J.gram(diagonal=diagonal)
    J.norm()
    J.clipped_vjp(np.ones((200, 10)), 1.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < found.nbytes + 8 * 2**20


def test_float32_stays_float32():
    one = layer("mlp")
    J = one.jac.jacobian(**{n: a.astype(np.float32) for n, a in one.arrays.items()})
    u = one.random_u()[0].astype(np.float32)
    clipped = J.clipped_vjp(u, 0.1).values()
    results = [J.gram(), J.gram(diagonal="out"), J.norm(), J.norm(u), *clipped, J["W1"].gram()]
    assert {r.dtype for r in results} == {np.dtype(np.float32)}


def test_complex_gram_is_hermitian():
    one = layer("dense")
    rng = np.random.default_rng(0)
    arrays = {n: a + 1j * rng.normal(size=a.shape) for n, a in one.arrays.items()}
    J = one.jac.jacobian(**arrays)
    D = {n: b.dense().reshape(3, 3, -1) for n, b in J.items()}
    own = {"x": np.eye(3)[:, None, :, None], "W": 1, "b": 1}
    expected = sum(np.einsum("bip,cjp->bicj", D[n], D[n].conj()) * own[n] for n in D)
    found = J.gram()
    np.testing.assert_allclose(found, expected, **NEAR)
    matrix = found.reshape(9, 9)
    np.testing.assert_array_equal(matrix, matrix.conj().T)
    np.testing.assert_allclose(J.norm() ** 2, np.einsum("bibi->b", expected).real, **NEAR)


def test_what_does_not_fit_is_refused():
    one = layer("dense")
    J = one.jac.jacobian(**one.arrays)
    other = layer("mlp")
    K = other.jac.jacobian(**other.arrays)
    u = one.random_u()[0]
    for call, said in [
        (lambda: J.gram(K), "expected"),
        (lambda: J.gram(J.value), "other must be the Jacobians of a call"),
        (lambda: J["W"].gram(J), "other must be one Jacobian, got Jacobians"),
        (lambda: J["W"].gram(J["b"]), r"other has Jacobians for \('y', 'b'\)"),
        (lambda: J.gram(diagonal="rows"), "diagonal must be None, 'out' or 'batch'"),
        (lambda: J.clipped_vjp(u, -1.0), "bound must be a number"),
        (lambda: J.per_sample_dot(v=u), "v is given without u"),
        (lambda: J.norm(u[:2]), r"u has shape \(2, 3\)"),
        (lambda: J.jvp({"W": np.ones((2, 3, 4)), "b": np.ones((5, 3))}), "different numbers"),
    ]:
        with pytest.raises(sg.SymgradError, match=said):
            call()


def test_a_gather_ties_samples_by_their_data():
    """Σ_v δ(v, t_b) δ(v, t_c) = δ(t_b, t_c): no array has the vocabulary but the gradient."""
    one = layer("gather", wrt="E", batch=20, sizes={"v": 50_000, "T": 5, "d": 4})
    block = one.jac.jacobian(**one.arrays)["E"]
    u = one.random_u()[0]
    tracemalloc.start()
    gram, lengths, gradient = block.gram(), block.norm(), block.vjp(u)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * gradient.nbytes + 4 * gram.nbytes
    t, w, y = one.arrays["t"], one.arrays["w"], one.jac.forward(**one.arrays)
    slope = (1 - y**2) * w
    same = t[:, :, None, None] == t[None, None]
    expected = np.einsum("bkcl,bki,cli,ij->bkiclj", same, slope, slope, np.eye(4), optimize=True)
    np.testing.assert_allclose(gram, expected, **NEAR)
    np.testing.assert_allclose(lengths, np.sqrt((slope**2).sum((1, 2))), **NEAR)
    total = np.zeros((50_000, 4))
    np.add.at(total, t, u * slope)
    np.testing.assert_allclose(gradient, total, **NEAR)


@pytest.mark.parametrize(
    ("dtype", "size"), [(np.float32, 1e20), (np.float32, 1e-22), (float, 1e160), (float, 1e-200)]
)
def test_norms_and_clipping_neither_overflow_nor_vanish(dtype, size):
    jac = unvalidated("x: input[n]\nW: param[m, n]\ny = W @ x", plain=True)
    J = jac.jacobian(np.ones((2, 3), dtype), np.ones((2, 3), dtype))
    u = np.ones((2, 2), dtype)
    u[0] = size
    length = np.sqrt(6)
    np.testing.assert_allclose(J.norm(u), [length * size, length], rtol=1e-6)
    assert J.norm(u).dtype == dtype
    bound = min(size, 1.0) / 10
    clipped = J.clipped_vjp(u, bound)["W"]
    np.testing.assert_allclose(clipped, 2 * bound / length, rtol=1e-6)
