"""Gauss-Newton forms, Kronecker factors, variances and least squares against dense ones."""

import numpy as np
import pytest
from dense_forms import LAYERS, Dense, hessian_of, layer
from layers import arrays_for, sample

import symgrad as sg
from symgrad.products import tiles
from symgrad.products.kronecker import Kronecker

NEAR = {"rtol": 1e-10, "atol": 1e-11}
"""Sums of a few thousand products of order one, in another order."""


@pytest.fixture(scope="module", params=list(LAYERS))
def case(request):
    one = layer(request.param)
    J = one.jac.jacobian(**one.arrays)
    return one, J, Dense(one, J)


def random_hessians(one, D, seed=0):
    """Return symmetric H by output: as the call takes them, and `[B, m, m]`."""
    rng = np.random.default_rng(seed)
    given, flat = [], {}
    for o, shape in D.out.items():
        size = int(np.prod(shape))
        h = rng.normal(size=(D.count, size, size))
        flat[o] = h + h.swapaxes(1, 2)
        batch = (D.count,) if one.batched else ()
        given.append(flat[o].reshape(*batch, *shape, *shape))
    return (tuple(given) if len(given) > 1 else given[0]), flat


def gradients(one, D):
    """Return u as the call takes it, and H = u uᵀ for all pairs of outputs."""
    u = one.random_u()
    flat = {o: x.reshape(D.count, -1) for o, x in zip(D.outputs, u, strict=True)}
    pairs = {(a, b): np.einsum("bi,bj->bij", flat[a], flat[b]) for a in flat for b in flat}
    return one.given(u), pairs


def close(found, expected):
    np.testing.assert_allclose(np.ravel(found), np.ravel(expected), **NEAR)


def agree(one, J, D, H, flat, u=None):
    """Compare every form of the Gauss-Newton matrix with the dense one."""
    found = J.ggn(H, u)
    names = list(one.jac.wrt)
    assert list(found) == [(p, q) for p in names for q in names]
    for (p, q), array in found.items():
        apart = bool({p, q} & D.inputs)
        assert array.shape == (*((D.count,) if apart else ()), *D.theta[p], *D.theta[q])
        close(array, D.ggn(flat, p, q))
    own, diagonals = J.ggn(H, u, blocks="diagonal"), J.ggn_diagonal(H, u)
    assert list(own) == list(diagonals) == names
    for p in names:
        np.testing.assert_array_equal(own[p], found[p, p])
        expected = np.diagonal(D.ggn(flat, p, p), axis1=-2, axis2=-1)
        assert diagonals[p].shape == one.arrays[p].shape
        close(diagonals[p], expected)
    v = one.tangents()
    image = J.ggn_matvec(v, H, u)
    for p in names:
        total = 0.0
        for q in names:
            block = D.ggn(flat, p, q)
            t = v[q].reshape(-1, block.shape[-1])
            product = np.einsum("...pq,...q->...p", block, t if q in D.inputs else t[0])
            total = total + (product if p in D.inputs or product.ndim == 1 else product.sum(0))
        close(image[p], total)


def test_identity(case):
    agree(*case, None, case[2].identity())


def test_a_given_output_hessian(case):
    agree(*case, *random_hessians(case[0], case[2]))


def test_gradients_make_the_empirical_fisher_matrix(case):
    one, J, D = case
    u, pairs = gradients(one, D)
    agree(one, J, D, None, pairs, u)


@pytest.mark.parametrize("loss", ["mse", "cross_entropy", "poisson", "binary_cross_entropy"])
def test_losses_by_name(case, loss):
    one, J, D = case
    if loss == "cross_entropy" and not all(D.out.values()):
        with pytest.raises(sg.ShapeError, match="cross_entropy needs logits"):
            J.ggn(loss)
        return
    flat = {o: hessian_of(loss, D.value[o], D.out[o]) for o in D.outputs}
    agree(one, J, D, loss, flat)
    for (o, p), S in zip(D.of, J.sqrt_ggn(loss).values(), strict=True):
        rows = S.reshape(D.count, -1, D.of[o, p].shape[2])
        squares = np.einsum("bop,boq->bpq", rows, rows)
        close(squares if p in D.inputs else squares.sum(0), D.ggn({o: flat[o]}, p, p))


def test_a_root_of_a_given_hessian(case):
    one, J, D = case
    _, flat = random_hessians(one, D)
    flat = {o: h @ h for o, h in flat.items()}
    first = (D.count,) if one.batched else ()
    given = tuple(h.reshape(*first, *D.out[o], *D.out[o]) for o, h in flat.items())
    found = J.sqrt_ggn(one.given(given))
    assert list(found) == list(J)
    for (o, p), S in zip(D.of, found.values(), strict=True):
        assert S.shape == (*first, *D.out[o], *D.theta[p])
        rows = S.reshape(D.count, -1, D.of[o, p].shape[2])
        squares = np.einsum("bop,boq->bpq", rows, rows)
        close(squares if p in D.inputs else squares.sum(0), D.ggn({o: flat[o]}, p, p))


def test_pieces_add_up_to_the_whole(case, monkeypatch):
    one, J, D = case
    H, flat = random_hessians(one, D)
    monkeypatch.setattr(tiles, "WORKSPACE", 8)
    agree(one, J, D, H, flat)


def test_blocks_are_symmetric(case):
    _, J, D = case
    for (p, q), array in J.ggn().items():
        rows, columns = (int(np.prod(D.theta[n])) for n in (p, q))
        other = J.ggn()[q, p].reshape(-1, columns, rows)
        np.testing.assert_array_equal(array.reshape(-1, rows, columns), other.swapaxes(1, 2))


def test_variances_of_outputs(case):
    _one, J, D = case
    rng = np.random.default_rng(1)
    kinds = {"diagonal": {}, "dense": {}, "kronecker": {}, "low": {}}
    full = {kind: {} for kind in kinds}
    for p in D.names:
        shape, size = D.theta[p], int(np.prod(D.theta[p]))
        batch = (D.count,) if p in D.inputs else ()
        kinds["diagonal"][p] = rng.uniform(size=(*batch, *shape))
        full["diagonal"][p] = kinds["diagonal"][p].reshape(*batch, size, 1) * np.eye(size)
        kinds["dense"][p] = rng.normal(size=(*batch, *shape, *shape))
        full["dense"][p] = kinds["dense"][p].reshape(*batch, size, size)
        factors = [rng.normal(size=(*batch, n, n)) for n in shape]
        kinds["kronecker"][p] = tuple(factors)
        whole = np.ones((*batch, 1, 1))
        for f in factors:
            n = whole.shape[-1] * f.shape[-1]
            whole = np.einsum("...ij,...kl->...ikjl", whole, f).reshape(*batch, n, n)
        full["kronecker"][p] = whole
        kinds["low"][p] = rng.normal(size=(*batch, *shape, 2))
    outputs = D.outputs
    for kind, given in kinds.items():
        found = (
            J.functional_variance(low_rank=given) if kind == "low" else J.functional_variance(given)
        )
        found = found if len(outputs) > 1 else {(outputs[0], outputs[0]): found}
        for (o, q), array in found.items():
            if kind == "low":
                U = {p: x.reshape(-1, D.of[o, p].shape[2], 2) for p, x in given.items()}
                first, second = (
                    sum(np.einsum("bip,bpr->bir", D.of[n, p], np.broadcast_to(
                        U[p], (D.count, *U[p].shape[1:]))) for p in U)
                    for n in (o, q)
                )  # fmt: skip
                expected = np.einsum("bir,bjr->bij", first, second)
            else:
                expected = sum(
                    D.of[o, p] @ full[kind][p] @ D.of[q, p].swapaxes(1, 2) for p in D.names
                )
            close(array, expected)


@pytest.mark.parametrize("damping", [0.1, 3.0])
def test_damped_least_squares(case, damping):
    one, J, D = case
    if D.inputs:
        names = [n for n in one.jac.wrt if n not in D.inputs]
        if names:
            J = one.jac.select(names).jacobian(**one.arrays)
    else:
        names = list(D.names)
    if not names:
        return
    r = one.random_u()
    whole = np.concatenate(
        [
            np.concatenate([D.of[o, p].reshape(-1, D.of[o, p].shape[2]) for p in names], 1)
            for o in D.outputs
        ]
    )
    right = np.concatenate([x.ravel() for x in r])
    expected = np.linalg.solve(whole.T @ whole + damping * np.eye(whole.shape[1]), whole.T @ right)
    found = J.solve(one.given(r), damping)
    assert {n: g.shape for n, g in found.items()} == {n: np.shape(one.arrays[n]) for n in names}
    both = np.concatenate([np.ravel(g) for g in found.values()])
    np.testing.assert_allclose(both, expected, rtol=1e-8, atol=1e-9)
    two = J.solve(one.given(tuple(np.stack([x, 2 * x]) for x in r)), damping)
    for n, g in found.items():
        np.testing.assert_allclose(two[n][1], 2 * g, rtol=1e-8, atol=1e-9)


def test_both_sides_of_least_squares_agree():
    for batch in (2, 40):  # 6 outputs or 120, against 15 parameters
        one = layer("dense", wrt="params", batch=batch)
        J = one.jac.jacobian(**one.arrays)
        D, r = Dense(one, J), one.random_u()[0]
        whole = np.concatenate([D.of["y", p].reshape(3 * batch, -1) for p in ("W", "b")], 1)
        expected = np.linalg.solve(whole.T @ whole + 0.5 * np.eye(15), whole.T @ r.ravel())
        close(np.concatenate([g.ravel() for g in J.solve(r, 0.5).values()]), expected)


def test_each_input_solves_for_itself():
    one = layer("mlp")
    block = one.jac.jacobian(**one.arrays)["x"]
    r, A = one.random_u()[0], block.dense()
    expected = [np.linalg.solve(a.T @ a + np.eye(4), a.T @ y) for a, y in zip(A, r, strict=True)]
    close(block.solve(r, 1.0), expected)


def test_kronecker_factors_of_a_linear_layer_are_exact():
    linear = "x: input[n]\nW: param[m, n]\nb: param[m]\ny = W @ x + b"
    sequence = "x: input[T, n]\nW: param[m, n]\nb: param[m]\ny = x @ W.T + b"
    image = "x: input[c, T]\nK: param[o, c, k]\ny[o, t] = sum[c, q](K[o, c, q] * x[c, t + q])"
    for text, name in ((linear, "W"), (linear, "b"), (sequence, "W"), (image, "K")):
        one = sample_of(text)
        J = one.jac.jacobian(**one.arrays)
        found = J[name].kfac()
        close(found.dense(), J[name].ggn())
        sizes = {"W": [(3, 3), (4, 4)], "b": [(3, 3)], "K": [(3, 3), (2, 2, 2, 2)]}
        assert [f.shape for f in found.factors] == sizes[name]
    one = sample_of(linear)
    J = one.jac.jacobian(**one.arrays)
    h = np.random.default_rng(0).normal(size=(3, 3))
    H = np.broadcast_to(h + h.T, (3, 3, 3))
    close(J["W"].kfac(H).dense(), J["W"].ggn(H))
    close(J["W"].kfac("mse").factors[1], one.arrays["x"].T @ one.arrays["x"] / 3)


def sample_of(text):
    return sample("layer", text=text, wrt="params")


def test_kronecker_factors_are_the_textbook_ones():
    """A hidden layer: Σ_b g gᵀ of gradients back to it, and the mean of its inputs' products."""
    one = layer("mlp")
    J = one.jac.jacobian(**one.arrays)
    G = J["b1"].dense()
    for H, h in ((None, np.tile(np.eye(3), (3, 1, 1))),
                 ("cross_entropy", hessian_of("cross_entropy", J.value, (3,)))):  # fmt: skip
        output, inputs = J["W1"].kfac(H).factors
        close(output, np.einsum("bip,bij,bjq->pq", G, h, G))
        close(inputs, one.arrays["x"].T @ one.arrays["x"] / 3)
    with pytest.raises(sg.ArgumentError, match="is taken for every sample"):
        J.kfac()
    assert list(one.jac.select("params").jacobian(**one.arrays).kfac()) == ["W1", "b1", "W2", "b2"]


def test_positions_that_share_a_weight_count_as_samples():
    one = sample_of("x: input[T, n]\nW: param[m, n]\ny = x @ W.T")
    J, x = one.jac.jacobian(**one.arrays), one.arrays["x"]
    h = hessian_of("cross_entropy", J.value, (4, 3)).reshape(3, 4, 3, 4, 3)
    given = np.random.default_rng(0).normal(size=(3, 4, 3, 4, 3))
    for H, each in (("cross_entropy", h), (given, given)):
        output, inputs = J["W"].kfac(H).factors
        close(output, np.einsum("btitj->ij", each))
        close(inputs, np.einsum("btn,btm->nm", x, x) / 12)
    both = sample_of("x: input[n]\nu: param[m, k]\ny[i, j] = sum[q](u[i, q]) * x[j]")
    K = both.jac.jacobian(**both.arrays)
    close(K["u"].kfac().dense(), K["u"].ggn())


def test_a_sum_of_products_has_no_kronecker_factors():
    one = layer("tied")
    J = one.jac.jacobian(**one.arrays)
    with pytest.raises(sg.ArgumentError, match="dy/dW is a sum of 2 products"):
        J["W"].kfac()


def test_kronecker_factors_of_a_parameter_that_is_not_used_are_zero():
    one = layer("two", wrt="params")
    found = one.jac.jacobian(**one.arrays).kfac()
    assert list(found) == [("y", "W"), ("y", "a"), ("s", "W"), ("s", "a")]
    assert found["y", "a"].dense().shape == ()
    assert not found["y", "a"].dense()


def test_an_inverse_of_kronecker_factors_is_a_covariance():
    one = layer("dense", wrt="params")
    J = one.jac.jacobian(**one.arrays)
    posterior = {n: k.inverse(0.1) for n, k in J.kfac().items()}
    assert isinstance(posterior["W"], Kronecker)
    found = J.functional_variance(posterior)
    close(found, J.functional_variance({n: k.dense() for n, k in posterior.items()}))
    left, right = (f + 0.1 * np.eye(len(f)) for f in J["W"].kfac().factors)
    close(posterior["W"].dense().reshape(12, 12), np.linalg.inv(np.kron(left, right)))


def test_covariances_between_parameters_and_numbers():
    one = layer("mlp", wrt="params")
    J = one.jac.jacobian(**one.arrays)
    D = Dense(one, J)
    whole = np.concatenate([D.of["y", p] for p in D.names], 2)
    sizes = np.cumsum([0, *(D.of["y", p].shape[2] for p in D.names)])
    root = np.random.default_rng(0).normal(size=(sizes[-1], sizes[-1]))
    joint = root @ root.T
    given = {
        (p, q): joint[sizes[i] : sizes[i + 1], sizes[j] : sizes[j + 1]].reshape(
            *D.theta[p], *D.theta[q]
        )
        for i, p in enumerate(D.names)
        for j, q in enumerate(D.names)
    }
    close(J.functional_variance(given), whole @ joint @ whole.swapaxes(1, 2))
    close(J.functional_variance(0.5), 0.5 * J.gram(diagonal="batch"))
    close(J.functional_variance({"W1": 0.5}), 0.5 * J["W1"].gram(diagonal="batch"))
    both = J.functional_variance(0.5, {"b1": root[:5, :2]})
    close(both, J.functional_variance(0.5) + J.functional_variance(low_rank={"b1": root[:5, :2]}))


def test_one_sample_without_batch_axis(case):
    one, _J, D = case
    if not one.batched:
        return
    program = one.jac.forms.program
    single = {n: a[1] if program.array(n).batched else a for n, a in one.arrays.items()}
    S = one.jac.jacobian(**single)
    T = one.jac.jacobian(**{n: a[1:2] if program.array(n).batched else a for n, a in
                            one.arrays.items()})  # fmt: skip
    H, _ = random_hessians(one, D)
    one_H = tuple(h[1] for h in H) if isinstance(H, tuple) else H[1]
    two_H = tuple(h[1:2] for h in H) if isinstance(H, tuple) else H[1:2]
    for (p, q), block in S.ggn(one_H).items():
        assert block.shape == (*D.theta[p], *D.theta[q])
        close(block, T.ggn(two_H)[p, q])
    for p, values in S.ggn_diagonal(one_H).items():
        assert values.shape == D.theta[p]
        close(values, T.ggn_diagonal(two_H)[p])
    close_all(S.functional_variance(0.1), T.functional_variance(0.1))
    r = one.random_u()
    alone = S.solve(one.given(tuple(x[1] for x in r)), 1.0)
    for name, delta in T.solve(one.given(tuple(x[1:2] for x in r)), 1.0).items():
        close(alone[name], delta)


def close_all(found, expected):
    for key in found if isinstance(found, dict) else (None,):
        close(found if key is None else found[key], expected if key is None else expected[key])


def test_no_samples():
    one = layer("two")
    J = one.jac.jacobian(**arrays_for(one.jac, batch=0))
    for H in (None, "mse", (np.zeros((0, 3, 3)), np.zeros(0))):
        assert not any(g.any() for g in J.ggn_diagonal(H).values())
        assert J.ggn(H)["W", "x"].shape == (0, 3, 4, 4)
    found = J.solve((np.zeros((0, 3)), np.zeros(0)), 1.0)
    assert {n: g.shape for n, g in found.items()} == {"x": (0, 4), "W": (3, 4), "a": ()}


def test_float32_stays_float32():
    one = layer("mlp", wrt="params")
    J = one.jac.jacobian(**{n: a.astype(np.float32) for n, a in one.arrays.items()})
    v = {n: t.astype(np.float32) for n, t in one.tangents().items()}
    found = [
        *J.ggn("cross_entropy").values(), *J.ggn_diagonal("poisson").values(),
        *J.ggn_matvec(v, "binary_cross_entropy").values(), *J.sqrt_ggn("cross_entropy").values(),
        J.functional_variance(0.1), *J.solve(J.value, 0.1).values(), *J.kfac()["W1"].factors,
    ]  # fmt: skip
    assert {f.dtype for f in found} == {np.dtype(np.float32)}


def test_complex_ggn_is_hermitian():
    one = layer("dense", wrt="params")
    rng = np.random.default_rng(0)
    arrays = {n: a + 1j * rng.normal(size=a.shape) for n, a in one.arrays.items()}
    J = one.jac.jacobian(**arrays)
    D = {n: b.dense().reshape(9, -1) for n, b in J.items()}
    for (p, q), block in J.ggn().items():
        close(block, D[p].conj().T @ D[q])
    v = {n: rng.normal(size=a.shape) + 1j for n, a in arrays.items() if n != "x"}
    image = J.ggn_matvec(v)
    for p, rows in D.items():
        close(image[p], sum(rows.conj().T @ D[q] @ v[q].ravel() for q in D))
    r = rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))
    whole = np.concatenate([D["W"], D["b"]], 1)
    expected = whole.conj().T @ np.linalg.solve(whole @ whole.conj().T + np.eye(9), r.ravel())
    close(np.concatenate([g.ravel() for g in J.solve(r, 1.0).values()]), expected)
    with pytest.raises(sg.ArgumentError, match="poisson is a loss of real outputs"):
        J.ggn("poisson")


def test_a_saturated_softmax_loses_nothing_in_the_logistic_hessian():
    one = sample_of("x: input[n]\nw: param[n]\ny = dot(w, x)")
    J = one.jac.jacobian(np.array([[40.0, 0, 0, 0], [-40.0, 0, 0, 0]]), np.array([1.0, 0, 0, 0]))
    found = J.ggn_diagonal("binary_cross_entropy")["w"][0]
    np.testing.assert_allclose(found, 2 * 1600 * np.exp(-40.0), rtol=1e-14)


def test_what_does_not_fit_is_refused():
    one = layer("dense", wrt="params")
    J = one.jac.jacobian(**one.arrays)
    for call, said in [
        (lambda: J.ggn("cross_entrpy"), "did you mean cross_entropy"),
        (lambda: J.ggn(np.eye(3)), r"H has shape \(3, 3\), expected \(3, 3, 3\)"),
        (lambda: J.ggn(None, J.value, blocks="rows"), "blocks must be 'all' or 'diagonal'"),
        (lambda: J.ggn("mse", J.value), "give H or u, not both"),
        (lambda: J.ggn_matvec({"Q": 1.0}), "no tangent for 'Q'"),
        (lambda: J.sqrt_ggn(-np.tile(np.eye(3), (3, 1, 1))), "not positive semidefinite"),
        (lambda: J.functional_variance({"W": np.ones((3, 3))}), "Sigma has shape"),
        (lambda: J.functional_variance({"Q": 1.0}), "no Jacobian for 'Q' in Sigma"),
        (lambda: J.functional_variance({"W": (np.eye(3),)}), "Kronecker factors, expected one"),
        (lambda: J.functional_variance(np.ones(3)), "must be a mapping"),
        (lambda: J.solve(J.value, -1.0), "damping must be a number"),
        (lambda: J.solve(np.ones((2, 3))), r"r has shape \(2, 3\)"),
        (lambda: J["b"].solve(J.value * np.nan, "x"), "damping must be a number"),
    ]:
        with pytest.raises(sg.SymgradError, match=said):
            call()
    twice = sample_of("x: input\na: param\nb: param\ny = (a + b) * x")
    K = twice.jac.jacobian(**twice.arrays)
    with pytest.raises(sg.ArgumentError, match="dependent rows or columns"):
        K.solve(K.value)
