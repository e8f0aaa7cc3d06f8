"""Second derivatives: every form against differences of Jacobians and against every other."""

import copy
import pickle
import re
from collections import Counter

import numpy as np
import pytest
from layers import SIZES, TEXTS, arrays_for, compiled, unvalidated
from recurrences import RECURRENCES

import symgrad as sg
from symgrad import cli
from symgrad.errors import ArgumentError, MissingKeyError, SelectionError, ShapeError

LAYERS = {**TEXTS, **{n: RECURRENCES[n] for n in ("rnn", "kalman", "two_lags", "max_pooled")}}
DENSE = "x: input[n]\nW: param[m, n]\nb: param[m]\ny = tanh(W @ x + b)"
LOGISTIC = "x: input[n]\nw: param[n]\ny = sigmoid(w @ x)"


@pytest.fixture(scope="module", params=LAYERS)
def layer(request):
    return compiled(LAYERS[request.param], order=2, name="layer")


class Case:
    """A layer with arrays, and everything about it as dense arrays with a batch axis."""

    def __init__(self, jac, batch, dtype=np.float64):
        self.jac, self.batch = jac, batch
        self.arrays = {
            n: (0.6 * a).astype(dtype) if a.dtype.kind in "fc" else a
            for n, a in arrays_for(jac, batch).items()
        }
        program = jac.forms.program
        self.outputs = program.outputs
        self.several = len(self.outputs) > 1
        self.batched = any(a.batched for a in program.arrays)
        self.inputs = {a.name for a in program.arrays if a.role == "input"}
        self.samples = self.batched and batch is not None
        value = jac.forward(**self.arrays)
        self.values = dict(zip(self.outputs, value if self.several else (value,), strict=True))
        rng = np.random.default_rng(3)
        self.vectors = {o: rng.normal(size=np.shape(y)) for o, y in self.values.items()}
        self.tangents = {n: rng.normal(size=np.shape(self.arrays[n])) for n in jac.wrt}
        self.H = jac.hessian(**self.arrays)

    @property
    def u(self):
        return tuple(self.vectors.values()) if self.several else self.vectors[self.outputs[0]]

    def own(self, name):
        """The shape of one array of one sample."""
        shape = np.shape(self.arrays[name])
        return shape[1:] if name in self.inputs and self.samples else shape

    def key(self, output, *names):
        return (output, *names) if self.several else names

    def triples(self):
        return [(o, p, q) for o in self.outputs for p in self.jac.wrt for q in self.jac.wrt]

    def per_sample(self, p, q):
        """Σ_out u · ∂²y as `[B, p, q]` with flat axes."""
        total = 0.0
        for output in self.outputs:
            u = self.vectors[output]
            count = u.shape[0] if self.samples else 1
            size = int(np.prod(self.own(p))), int(np.prod(self.own(q)))
            block = np.asarray(self.H[self.key(output, p, q)])
            flat = block.reshape(count, int(u.size / max(count, 1)), *size)
            total = total + np.einsum("bo,bopq->bpq", u.reshape(flat.shape[:2]), flat)
        return total

    def summed(self, p, q):
        found = self.per_sample(p, q)
        apart = self.samples and {p, q} & self.inputs
        shape = (*self.own(p), *self.own(q))
        return found.reshape((len(found), *shape)) if apart else found.sum(0).reshape(shape)

    def pushed(self, p):
        total = np.zeros(np.shape(self.arrays[p]))
        for q in self.jac.wrt:
            per_sample = self.per_sample(p, q)
            tangent = self.tangents[q].reshape(
                len(per_sample) if q in self.inputs and self.samples else 1, per_sample.shape[2]
            )
            found = np.einsum("bpq,bq->bp", per_sample, np.broadcast_to(
                tangent, (len(per_sample), per_sample.shape[2])))  # fmt: skip
            apart = p in self.inputs and self.samples
            total += (found if apart else found.sum(0)).reshape(total.shape)
        return total


def close(value, expected, digits=1e-10):
    scale = np.max(np.abs(expected), initial=1.0)
    assert np.shape(value) == np.shape(expected)
    np.testing.assert_allclose(value, expected, rtol=0, atol=digits * scale)


def test_blocks_are_the_differences_of_jacobians(layer):
    case, step = Case(layer, 3), 1e-5
    for output, p, q in case.triples():
        block = np.asarray(case.H[case.key(output, p, q)])
        at_p = (output, p) if case.several else p
        array, apart = case.arrays[q], q in case.inputs
        columns = []
        for at in np.ndindex(case.own(q)):
            ends = []
            for sign in (1, -1):
                moved = np.array(array)
                moved[(slice(None), *at) if apart else at] += sign * step
                J = layer.jacobian(**{**case.arrays, q: moved})
                ends.append(np.asarray(J[at_p]))
            columns.append((ends[0] - ends[1]) / (2 * step))
        close(block, np.stack(columns, -1).reshape(block.shape), digits=2e-8)


@pytest.mark.parametrize("batch", [3, None, 1, 0])
def test_every_pair_is_there_in_both_orders_and_symmetric(layer, batch):
    case = Case(layer, batch)
    for output, p, q in case.triples():
        y = np.shape(case.values[output])
        block, turned = (case.H[case.key(output, *pair)] for pair in ((p, q), (q, p)))
        assert block.shape == (*y, *case.own(p), *case.own(q))
        dense, ahead = np.asarray(block), len(y)
        k = len(case.own(q))
        order = (*range(ahead), *range(ahead + k, dense.ndim), *range(ahead, ahead + k))
        close(dense, np.asarray(turned).transpose(order))
        out = np.empty(block.shape)
        assert block.dense(out=out) is out
        assert np.array_equal(out, dense)


@pytest.mark.parametrize("batch", [3, None, 0])
def test_sums_and_products_with_tangents_are_those_of_the_blocks(layer, batch):
    case = Case(layer, batch)
    sums, pushed = case.H.sum(case.u), case.H.hvp(case.u, case.tangents)
    assert set(sums) == {(p, q) for p in layer.wrt for q in layer.wrt}
    assert set(pushed) == set(layer.wrt)
    for p in layer.wrt:
        close(pushed[p], case.pushed(p))
        for q in layer.wrt:
            close(sums[p, q], case.summed(p, q))
    for output, p, q in case.triples():
        if not case.several:
            close(case.H[case.key(output, p, q)].sum(case.u), case.summed(p, q))


def test_the_formula_rebuilds_the_block_from_its_factors():
    jac = compiled(DENSE, "all", order=2)
    H = Case(jac, 3).H
    for key in (("W", "W"), ("W", "b"), ("b", "W"), ("W", "x"), ("x", "x")):
        block = H[key]
        found = sum(
            rebuilt(part, block) for part in block.formula.split(" + ")
        )  # fmt: skip
        close(np.broadcast_to(found, block.shape), np.asarray(block))


def rebuilt(term, block):
    """Return one product of a formula over the axes of the dense array."""
    total = np.ones((1,) * block.ndim)
    sizes = dict(zip(block.axes, block.shape, strict=True))
    for part in term.split(" * "):
        name, inside = part.split("(") if "(" in part else part.split("[")
        letters = inside[:-1].split(", ")
        array = np.eye(sizes[letters[0]]) if name == "delta" else block.factors()[name]
        order = sorted(letters, key=block.axes.index)
        array = array.transpose([letters.index(n) for n in order])
        total = total * array.reshape([sizes[a] if a in letters else 1 for a in block.axes])
    return total


def test_structures_leave_out_what_is_zero():
    H = Case(compiled(DENSE, "all", order=2), 3).H
    assert H["W", "W"].structure == "delta(i, j) * delta(i, l) * C[b, i, k, p]"
    assert H["W", "W"].compact().shape == (3, SIZES["m"], SIZES["n"], SIZES["n"])
    assert H["W", "W"].formula == "delta(i, j) * delta(i, l) * G[b, i] * h[b, k] * f[b, p]"
    assert H["b", "W"].axes == ("b", "i", "l", "j", "k")
    assert H["W", "b"].axes == ("b", "i", "j", "k", "l")
    assert "d²y/db dW[b, i, l, j, k]" in repr(H["b", "W"])


def test_a_product_with_tangents_makes_no_block():
    jac = compiled(DENSE, "params", order=2)
    called = []
    sweep = jac.module._sweep_twice
    jac.module._sweep_twice = lambda *a: called.append(a) or sweep(*a)
    try:
        case = Case(jac, 3)
        case.H.hvp(case.u, case.tangents)
        case.H.sum(case.u)
        assert not called
        case.H["W", "b"].dense()
        case.H["W", "W"].dense()
        assert len(called) == 1
    finally:
        jac.module._sweep_twice = sweep


def test_sums_of_a_logistic_regression_are_one_product():
    jac = compiled(LOGISTIC, "params", order=2)
    driver = jac.source[jac.source.index("def _summed(") :]
    driver = driver[: driver.index("\n\n\n")]
    for steps in re.findall(r"_steps_\d+", driver):
        driver += jac.source[jac.source.index(f"def {steps}(") :].partition("\n\n\n")[0]
    products = [line for line in driver.splitlines() if "_matmul(" in line or "np.matmul" in line]
    assert len(products) == 2  # w x, and X^T (D X)
    rng = np.random.default_rng(0)
    X, w, u = rng.normal(size=(7, 4)), rng.normal(size=4), rng.normal(size=7)
    y = 1 / (1 + np.exp(-X @ w))
    D = np.diag(u * y * (1 - y) * (1 - 2 * y))
    close(jac.hessian(X, w).sum(u)["w", "w"], X.T @ D @ X)
    close(jac.hessian_sum(X, w, u)["w", "w"], X.T @ D @ X)


SUMMED = {
    **TEXTS,
    "net": "x: input[n]\nW: param[m, n]\nV: param[k, m]\ny = V @ tanh(W @ x)",
    "solves": "x: input[n]\nS: param[m, m]\nW: param[m, n]\ny = solve(S @ S.T + eye(m), W @ x)",
    "scores": "x: input[n]\nW: param[m, n]\nA: param[k, m]\ny = softmax(A @ tanh(W @ x))",
    "whitened": "x: input[n]\nL: param[n, n]\ny = sum(solve(L.T @ L + eye(n), x) ** 2)",
}


@pytest.mark.parametrize("name", SUMMED)
def test_no_array_of_a_sum_has_samples_and_the_axes_of_both(name):
    forms = unvalidated(SUMMED[name], order=2).forms
    batch, summed = forms.program.batch, forms.curvature.summed
    arrays = {a.name: a for a in forms.program.arrays}
    pairs = [r for r in summed.results if all(arrays[n].axes for n in r.key)]
    for definition in (d for d in summed.definitions if batch in d.indices):
        own = Counter(i.dim for i in definition.indices)
        for pair in pairs:
            assert Counter(i.dim for i in pair.indices) - own, (definition.name, pair.key)


def test_inputs_are_differentiated_by_sample():
    jac = compiled("x: input[n]\nw: param[n]\ny = sin(dot(w, x))", ["x", "w"], order=2)
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(3, 4)), rng.normal(size=4)
    H = jac.hessian(x, w)
    z = x @ w
    mixed = np.cos(z)[:, None, None] * np.eye(4) - np.sin(z)[:, None, None] * np.einsum(
        "bi,j->bij", x, w
    )
    close(H["w", "x"].dense(), mixed)
    close(H.sum(np.ones(3))["w", "x"], mixed)
    close(H.sum(np.ones(3))["x", "w"], mixed.transpose(0, 2, 1))


@pytest.mark.parametrize(
    ("name", "axis"), [("dense", -1), ("dense", 1), ("softmax", 1), ("two", -1)]
)
def test_the_batch_axis_stands_where_it_was_asked_for(name, axis):
    first, moved = (compiled(TEXTS[name], order=2, batch_axis=a) for a in (0, axis))
    case = Case(first, 3)
    arrays = {
        n: np.moveaxis(a, 0, axis) if n in case.inputs else a for n, a in case.arrays.items()
    }
    H = moved.hessian(**arrays)
    us = tuple(np.moveaxis(u, 0, axis) for u in case.vectors.values())
    tangents = {
        n: np.moveaxis(t, 0, axis) if n in case.inputs else t for n, t in case.tangents.items()
    }
    u = us if case.several else us[0]
    for key in case.H:
        expected = np.moveaxis(case.H[key].dense(), 0, axis)
        close(H[key].dense(), expected)
        assert H[key].shape == expected.shape
        out = np.empty(expected.shape)
        close(H[key].dense(out=out), expected)
        assert H[key].axes.index("b") == (expected.ndim - 1 if axis == -1 else axis)
    sums, pushed = H.sum(u), H.hvp(u, tangents)
    for p in first.wrt:
        apart = p in case.inputs
        close(pushed[p], np.moveaxis(case.pushed(p), 0, axis) if apart else case.pushed(p))
        for q in first.wrt:
            apart = bool({p, q} & case.inputs)
            whole = case.summed(p, q)
            close(sums[p, q], np.moveaxis(whole, 0, axis) if apart else whole)
            if not case.several:
                close(H[p, q].sum(u), sums[p, q])


def test_stopped_gradients_stay_stopped():
    jac = compiled("x: input\na: param\ny = a**2 * stop_gradient(exp(a * x))", order=2)
    x, a = np.array([0.3, -0.2]), np.float64(0.7)
    close(jac.hessian(x, a)["a", "a"].dense(), 2 * np.exp(a * x))


@pytest.mark.parametrize("name", ["dense", "softmax", "mlp", "two"])
def test_float32_stays_float32(name):
    jac = compiled(TEXTS[name], order=2)
    exact, single = Case(jac, 3), Case(jac, 3, np.float32)
    sums = single.H.sum(single.u)
    assert all(np.asarray(a).dtype == np.float32 for a in sums.values())
    assert all(np.asarray(a).dtype == np.float32 for a in single.H.hvp(single.u, {}).values())
    for key in single.H:
        assert single.H[key].dense().dtype == np.float32
        close(single.H[key].dense(), exact.H[key].dense(), digits=1e-5)


def test_analytic_layers_have_complex_hessians():
    jac = compiled("x: input[n]\nw: param[n]\ny = exp(dot(w, x)) + w[0]**3", order=2)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3))
    w = rng.normal(size=3) + 1j * rng.normal(size=3)
    expected = np.exp(x @ w)[:, None, None] * np.einsum("bi,bj->bij", x, x)
    expected[:, 0, 0] += 6 * w[0]
    close(jac.hessian(x, w)["w", "w"].dense(), expected)


def test_parts_of_arrays_have_second_derivatives():
    parts = {"W": np.s_[1:, ::2], "b": [2, 0]}
    part, whole = (unvalidated(DENSE, wrt=w, plain=True, order=2) for w in (parts, "params"))
    rng = np.random.default_rng(0)
    arrays = rng.normal(size=(4, 5)), rng.normal(size=(3, 5)), rng.normal(size=3)
    u = rng.normal(size=(4, 3))
    H, F = part.hessian(*arrays), whole.hessian(*arrays)
    close(H["W", "b"].dense(), F["W", "b"].dense()[:, :, 1:, ::2][..., [2, 0]])
    close(H["b", "W"].dense(), F["b", "W"].dense()[:, :, [2, 0]][..., 1:, ::2])
    close(H.sum(u)["b", "W"], F.sum(u)["b", "W"][[2, 0]][..., 1:, ::2])
    full = np.zeros((3, 5))
    full[1:, ::2] = 1
    close(H.hvp(u, {"W": np.ones((2, 3))})["b"], F.hvp(u, {"W": full})["b"][[2, 0]])
    assert sg.check(part).ok
    text = sg.derive(DENSE, {"W": np.s_[1:, :]}, order=2)["W", "W"].text()
    assert text.startswith("∂²y[i]/∂W[j+1,k]∂W[l+1,p] = ")


@pytest.mark.parametrize(
    "text",
    [
        "x: input[n]\nW: param[m, n]\ny = softmax(W @ x)",
        "x: input[n]\nW: param[m, n]\nA: param[k, m]\ny = A @ tanh(W @ x)",
        "x: input[n]\nW: param[m, n]\nA: param[m, m]\ny = softmax(A @ (W @ x))",
        "x: input[n]\nW: param[m, n]\nA: param[m, m]\ny = solve(A, tanh(W @ x))",
    ],
)
@pytest.mark.parametrize("part", [np.s_[1:], np.s_[1:, ::2], [2, 0]])
def test_parts_beside_axes_of_the_output_are_validated_and_right(text, part):
    some = sg.compile(text, wrt={"W": part}, order=2)  # differences of the part's Jacobians
    assert some.report.ok
    whole = unvalidated(text, wrt=["W"], order=2)
    rng = np.random.default_rng(1)
    sizes = {"m": 3, "n": 4, "k": 2}
    arrays = [rng.normal(size=[sizes[d.strip()] for d in line.split("[")[1][:-1].split(",")])
              for line in text.splitlines()[:-1]]  # fmt: skip
    arrays[0] = rng.normal(size=(5, 4))
    found, full = some.hessian(*arrays)["W", "W"], whole.hessian(*arrays)["W", "W"]
    at = part if isinstance(part, tuple) else (part, slice(None))
    ahead = (slice(None),) * 2
    close(found.dense(), full.dense()[(*ahead, *at)][(*ahead, *(slice(None),) * 2, *at)])


def test_select_keeps_pairs_of_what_is_selected():
    jac = compiled(TEXTS["mlp"], "params", order=2)
    case = Case(jac, 3)
    part = jac.select(["W1", "b2"])
    H = part.hessian(**case.arrays)
    assert set(H) == {(p, q) for p in part.wrt for q in part.wrt}
    assert set(H.sum(case.u)) == set(H)
    assert set(H.hvp(case.u, {"b2": np.ones(SIZES["m"])})) == {"W1", "b2"}
    with pytest.raises(MissingKeyError, match="no second derivative"):
        H["W1", "W2"]
    with pytest.raises(ArgumentError, match="no tangent for 'W2'"):
        H.hvp(case.u, {"W2": np.ones((SIZES["m"], SIZES["h"]))})


def test_hessians_do_not_follow_later_changes_of_the_arrays():
    jac = compiled(DENSE, "params", order=2)
    case = Case(jac, 3)
    before = jac.hessian(**case.arrays)
    expected = case.H["W", "W"].dense()
    for array in case.arrays.values():
        array += 1.0
    close(before["W", "W"].dense(), expected)


def test_the_module_offers_the_same():
    jac = compiled(DENSE, "params", order=2)
    case, module = Case(jac, 3), jac.module
    found = module.hessian(*case.arrays.values())
    assert list(found) == [("W", "W"), ("W", "b"), ("b", "W"), ("b", "b")]
    for key, block in found.items():
        close(block, case.H[key].dense())
    out = np.empty(found["W", "b"].shape)
    assert jac.hess_W_b(**case.arrays, out=out) is out
    close(out, found["W", "b"])
    close(jac.hess_W_W_compact(**case.arrays), case.H["W", "W"].compact())
    assert set(jac.hess_W_b_factors(**case.arrays)) == {"G", "h"}
    assert module.OPTIONS["order"] == 2
    assert ("W", "b") in module.STRUCTURE


def test_names_of_functions_of_pairs_never_collide():
    jac = compiled("a: param\na_b: param\nb: param\ny = a * a_b * b + a_b**2", order=2)
    values = {"a": 1.0, "a_b": 2.0, "b": 3.0}
    names = [n for n in dir(jac.module) if n.startswith("hess_") and not n.endswith("factors")]
    assert len(names) == 6
    H = jac.hessian(**values)
    close(H["a", "a_b"].dense(), 3.0)
    close(H["a_b", "a_b"].dense(), 2.0)
    close(H["a", "b"].dense(), 2.0)


def test_first_order_layers_say_what_to_do():
    jac = unvalidated(DENSE)
    arrays = arrays_for(jac)
    for call in (jac.hessian, lambda **a: jac.hvp(*a.values(), 1, {})):
        with pytest.raises(ArgumentError, match="order=2"):
            call(**arrays)
    with pytest.raises(ArgumentError, match="order=3 is not supported"):
        sg.compile(DENSE, order=3)
    assert "hess" not in jac.source


def test_blocks_too_large_are_refused_when_they_are_asked_for():
    jac = unvalidated("x: input[n]\nW: param[m, n]\ny = tanh(W @ tanh(W.T @ tanh(W @ x)))",
                      plain=True, order=2)  # fmt: skip
    x, W = np.broadcast_to(0.1, (2, 3000)), np.broadcast_to(0.1, (3000, 3000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("symgrad.second_pass.own_copies", list)
        H = jac.hessian(x, W)  # nothing is evaluated yet
    with pytest.raises(sg.TooLargeError, match=r"H\.sum"):
        H["W", "W"]


def test_a_dense_block_too_large_names_what_to_use():
    jac = unvalidated(DENSE, plain=True, order=2)
    x, W = np.broadcast_to(0.1, (200, 400)), np.broadcast_to(0.1, (400, 400))
    H = jac.hessian(x, W, np.zeros(400))
    with pytest.raises(sg.TooLargeError, match=r"(?s)d²y/dW dW as an array .*H\.sum"):
        H["W", "W"].dense()


def test_wrong_vectors_are_refused_by_name():
    case = Case(compiled(DENSE, "params", order=2), 3)
    with pytest.raises(ShapeError, match="u has shape"):
        case.H.sum(np.ones((2, 2)))
    with pytest.raises(ShapeError, match="tangents"):
        case.H.hvp(case.u, {"b": np.ones(9)})


def test_validation_compares_second_derivatives():
    jac = unvalidated(DENSE, order=2)
    report = sg.check(jac)
    titles = [a.title for a in report.agreements]
    assert {"d²y/dW dW", "d²y/dW db", "d²y/db dW", "d²y/db db"} <= set(titles)
    assert report.ok


def test_validation_finds_a_wrong_second_derivative():
    jac = unvalidated(DENSE, plain=True, order=2)
    dense = jac.module._dense_y_W_b

    def wrong(*args):
        block = dense(*args)
        block[0, 0] += 1.0
        return block

    jac.module._dense_y_W_b = wrong
    with pytest.raises(sg.ValidationError, match="hessian_sum of W, b"):
        sg.check(jac)


def test_a_module_of_second_order_is_checked_from_its_file(tmp_path):
    path = tmp_path / "dense_jac.py"
    sg.compile(DENSE, order=2, path=path, check=False)
    report = sg.check(path)
    assert "d²y/db db" in [a.title for a in report.agreements]


def test_copies_and_pickles_keep_second_derivatives():
    jac = unvalidated(DENSE, order=2)
    again = pickle.loads(pickle.dumps(jac))
    case = Case(again, 3)
    close(copy.copy(jac).hessian(**case.arrays)["b", "b"].dense(), case.H["b", "b"].dense())


# ------------------------------------------------------------------ to read


def test_softmax_reads_as_in_the_textbook():
    d = sg.derive("z: input[n]\ny = softmax(z)", "all", order=2)
    assert d["z", "z"].text() == (
        "∂²y[i]/∂z[j]∂z[k] = y_i(δ_ij δ_ik - δ_ik y_j - δ_jk y_j - δ_ij y_k + 2 y_j y_k)"
    )
    assert r"\frac{\partial^2 y_i}{\partial z_j \, \partial z_k}" in d["z", "z"].latex()


def test_slopes_of_second_order_are_written_out():
    d = sg.derive(LOGISTIC, order=2)
    assert d["w", "w"].text() == "∂²y/∂w[i]∂w[j] = y x_i x_j(1 - 2 y)(1 - y)"
    assert "∂²y/∂w∂w = (x xᵀ) y (1 - 2 y) (1 - y)" in d.text()
    d = sg.derive(DENSE, order=2)
    assert d["b", "b"].text() == "∂²y[i]/∂b[j]∂b[k] = -2 δ_ij δ_ik y_i(1 - y_i²)"
    assert "∂²(gᵀ y)/∂b∂b = -2 diag(g ⊙ y ⊙ (1 - y²))" in d.text()


def test_a_pair_is_read_in_either_order():
    d = sg.derive(DENSE, order=2)
    assert d["b", "W"].text() == "∂²y[i]/∂b[j]∂W[k,l] = -2 δ_ik δ_ij x_l y_i(1 - y_i²)"
    assert d.keys() == ("W", "b", ("W", "W"), ("W", "b"), ("b", "b"))
    with pytest.raises(SelectionError, match="order=2"):
        sg.derive(DENSE)["W", "b"]
    two = sg.derive(TEXTS["two"], order=2)
    assert two["s", "a", "W"].text().startswith("∂²s/∂a∂W[i,j] = ")


def test_what_second_derivatives_lean_on_is_named_and_explained():
    text = sg.derive(TEXTS["tied"], order=2).text()
    assert "K^{Gs,s}_ij = W_ij D^{Gs,s}_j" in text
    assert "K^{z,s}, K^{Gs,s}: derivative of the array before the comma" in text
    assert "K^{Jw,z}_i = D^{Jw,z} x_i" in sg.derive(LOGISTIC, order=2).text()
    two = "x: input[n]\nW: param[m, n]\nh = tanh(W @ x)\ny = softmax(h)\ns = sum(h)\nreturn y, s"
    assert "K^{G(y.z),h}_ijk" in sg.derive(two, order=2).text()


def test_the_command_line_takes_an_order(capsys, tmp_path):
    assert cli.main(["derive", "sigmoid(w @ x)", "--order", "2"]) == 0
    assert "∂²y/∂w[i]∂w[j] = y x_i x_j(1 - 2 y)(1 - y)" in capsys.readouterr().out
    file = tmp_path / "logistic.py"
    assert cli.main(["compile", "sigmoid(w @ x)", "--order", "2", "-o", str(file)]) == 0
    assert "d²y/dw dw" in capsys.readouterr().out
    assert "def hess_w_w(" in file.read_text(encoding="utf-8")
    assert cli.main(["show", "sigmoid(w @ x)", "--stage", "derive", "--order", "2"]) == 0
    assert "d²y/dw dw[i: n, j: n]" in capsys.readouterr().out
    assert cli.main(["derive", "sigmoid(w @ x)", "--order", "3"]) == 2


def test_every_format_holds_second_derivatives():
    d = sg.derive(DENSE, order=2)
    assert "<msup><mi>∂</mi><mn>2</mn></msup>" in d.html()
    assert r"\partial^2" in d.tex()
    assert r"\partial^2" in d.markdown()


@pytest.mark.parametrize("part", [np.s_[1], np.s_[1, 0], np.s_[1:, [0, -1]], np.s_[:, 2]])
def test_second_derivatives_of_a_part_have_its_axes(part):
    parts = {"W": part, "b": [0, -1], "x": True}
    jac, whole = compiled(DENSE, parts, order=2), compiled(DENSE, "all", order=2)
    arrays = list(arrays_for(whole, 3).values())
    u = np.random.default_rng(0).normal(size=(3, SIZES["m"]))
    H = jac.hessian(*arrays)
    sums, every = jac.hessian_sum(*arrays, u), whole.hessian_sum(*arrays, u)
    places = {"W": (part,) if not isinstance(part, tuple) else part, "b": ([0, -1],)}
    W, b = places["W"], places["b"]
    square = every["W", "W"][W]  # [*part, m, n]
    lead = square.ndim - 2
    taken = np.array([row[W] for row in square.reshape(-1, *square.shape[lead:])])
    close(sums["W", "W"], taken.reshape(sums["W", "W"].shape))
    mixed = every["W", "b"][W][..., b[0]]
    close(sums["W", "b"], mixed)
    close(H["W", "b"].sum(u), mixed)
    close(sums["b", "W"], np.moveaxis(mixed, -1, 0))
    close(H["b", "W"].sum(u), sums["b", "W"])
    close(sums["x", "W"], np.moveaxis(sums["W", "x"], -1, 1))
    found = jac.module.hessian(*arrays)
    close(found["b", "W"], H["b", "W"].dense())


@pytest.mark.parametrize("part", [np.s_[:2, [1, -1]], np.s_[[-1, 0], 1:], np.s_[[0, 2]]])
@pytest.mark.parametrize("name", ["tied", "shared", "outer", "mlp"])
def test_second_derivatives_of_places_that_lists_give_stay_inside_the_part(name, part):
    jac = compiled(TEXTS[name], "params", order=2, name="whole")
    theta = jac.wrt[0]
    rank = len(jac.forms.program.array(theta).axes)
    own = part[:rank] if isinstance(part, tuple) else (part,)
    some = compiled(TEXTS[name], {theta: own}, order=2, name="some")
    arrays = list(arrays_for(jac, 3).values())
    u = np.random.default_rng(0).normal(size=jac.forward(*arrays).shape)
    every = jac.hessian_sum(*arrays, u)[theta, theta]
    shape = some.take({theta: arrays[list(jac.forms.program.arrays).index(
        jac.forms.program.array(theta))]})[theta].shape  # fmt: skip
    rows = every[own].reshape(-1, *every.shape[rank:])
    expected = np.array([row[own] for row in rows]).reshape(*shape, *shape)
    close(some.hessian_sum(*arrays, u)[theta, theta], expected)
    close(some.hessian(*arrays)[theta, theta].sum(u), expected)
    t = np.random.default_rng(1).normal(size=shape)
    close(some.hvp(*arrays, u, {theta: t})[theta], np.tensordot(expected, t, len(shape)))


@pytest.mark.parametrize("part", [np.s_[0], np.s_[0, 1], np.s_[1:]])
def test_parts_of_inputs_keep_the_batch_axis_where_it_was_asked_for(part):
    text = "x: input[n, m]\nw: param[n]\ny = tanh(w[:, None] * x) @ x.T"
    first, last = (
        compiled(text, {"x": part, "w": True}, order=2, batch_axis=axis) for axis in (0, -1)
    )
    rng = np.random.default_rng(0)
    x, w, u = rng.normal(size=(5, 2, 3)), rng.normal(size=2), rng.normal(size=(5, 2, 2))
    moved = [np.moveaxis(x, 0, -1), w, np.moveaxis(u, 0, -1)]
    tangents = {"x": rng.normal(size=first.vjp(x, w, u)["x"].shape), "w": rng.normal(size=2)}
    turned = {"x": np.moveaxis(tangents["x"], 0, -1), "w": tangents["w"]}
    close(last.vjp(*moved)["x"], np.moveaxis(first.vjp(x, w, u)["x"], 0, -1))
    close(last.jvp(*moved[:2], turned), np.moveaxis(first.jvp(x, w, tangents), 0, -1))
    pushed, expected = last.hvp(*moved, turned), first.hvp(x, w, u, tangents)
    close(pushed["w"], expected["w"])
    close(pushed["x"], np.moveaxis(expected["x"], 0, -1))
    sums, theirs = last.hessian_sum(*moved), first.hessian_sum(x, w, u)
    for pair, found in sums.items():
        close(found, np.moveaxis(theirs[pair], 0, -1) if "x" in pair else theirs[pair])


@pytest.mark.parametrize("text", [
    "x: input[n]\nA: param[n, n]\ny = inv(A) @ x * det(A)",
    "x: input[n]\nA: param[n, n]\ny = solve(A, A @ x)",
    "x: input\nw: param\ny = tanh(w * x) / tanh(w * x)",
])  # fmt: skip
def test_second_derivatives_that_cancel_are_no_faults(text):
    assert sg.check(sg.compile(text, order=2)).ok


def test_empty_parts_have_empty_second_derivatives():
    jac = sg.compile(DENSE, {"W": np.s_[1:1, :], "b": np.s_[::2]}, order=2)
    assert jac.report.ok
