"""The three conversations symgrad must answer, and further cases: every value as it was given.

Values given to six places are held to half a unit of the sixth; formulas in exact arithmetic to
a few units of roundoff.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import symgrad as sg

GIVEN = {"rtol": 0, "atol": 5e-7}  # half a unit of the last place given
EXACT = {"rtol": 1e-13, "atol": 1e-14}  # a few roundings of numbers near one


def same(actual, expected, tolerance=EXACT):
    """Compare shape and values."""
    assert np.shape(actual) == np.shape(expected)
    np.testing.assert_allclose(np.asarray(actual), expected, **tolerance)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


# ---------------------------------------------- 1. a model with respect to its weights

X = np.array([[0.5, -1.0, 2.0]])
W = np.array([[0.2, -0.4, 0.1]])
B = np.array([0.3])


def test_linear_layer_with_one_output_has_slope_x_and_one():
    J = sg.compile("W x + b").jacobian(X, W, B)
    same(J["W"], [[[[0.5, -1.0, 2.0]]]])
    same(J["b"], [[[1.0]]])


def test_sigmoid_layer_has_the_values_worked_out_by_hand():
    jac = sg.compile("sigmoid(W x + b)")
    J = jac.jacobian(X, W, B)
    same(W @ X[0] + B, [1.0])
    same(J.value, [[1 / (1 + np.exp(-1))]])
    same(J["b"], [[[0.196612]]], GIVEN)
    same(J["W"], [[[[0.098306, -0.196612, 0.393224]]]], GIVEN)


def test_abstract_and_bound_sigma_give_the_same_numbers():
    bound = sg.compile("σ(W x + b)", functions={"σ": "sigmoid"}).jacobian(X, W, B)
    plain = sg.compile("sigmoid(W x + b)").jacobian(X, W, B)
    same(bound["W"], plain["W"].dense())


def test_weights_input_and_sum_are_three_different_things(rng):
    x, w, b = rng.normal(size=(3, 3)), rng.normal(size=(2, 3)), rng.normal(size=2)
    jac = sg.compile("sigmoid(W x + b)", wrt="all")
    J = jac.jacobian(x, w, b)
    slope = (y := jac.forward(x, w, b)) * (1 - y)
    same(J["W"], np.einsum("ij,bi,bk->bijk", np.eye(2), slope, x))
    same(J["x"], np.einsum("bi,ij->bij", slope, w))
    ones = np.ones((3, 2))
    same(jac.vjp(x, w, b, ones)["W"], slope.T @ x)
    same(J.vjp(ones)["W"], slope.T @ x)
    same(jac.gradient(x, w, b, sum=True)["W"], slope.T @ x)
    same(J["W"].dense().sum(axis=(0, 1)), slope.T @ x)


def test_square_batch_is_not_taken_for_its_transpose(rng):
    x, w, b = rng.normal(size=(3, 3)), rng.normal(size=(1, 3)), rng.normal(size=1)
    J = sg.compile("sigmoid(W x + b)").jacobian(x, w, b)
    for n in range(3):
        alone = sg.compile("sigmoid(W x + b)").jacobian(x[n], w, b)
        same(J["W"].dense()[n], alone["W"].dense())


def test_gradient_of_a_vector_answers_the_question():
    with pytest.raises(sg.ShapeError) as caught:
        sg.compile("sigmoid(W x + b)").gradient(X, W, B)
    sentence = "y has shape [m]; a gradient needs a scalar: use jacobian, or sum=True"
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("text", "wrt", "formula"),
    [
        ("W x + b", "W", "∂y/∂W = x"),
        ("W x + b", "b", "∂y/∂b = 1"),
        ("σ(W x + b)", "W", "∂y/∂W = x σ'(Wx + b)"),
        ("σ(W x + b)", "b", "∂y/∂b = σ'(Wx + b)"),
        ("σ(Wx+b)", "W", "∂y/∂W = x σ'(Wx + b)"),
    ],
)
def test_formula_for_one_output_is_the_one_written_by_hand(text, wrt, formula):
    d = sg.derive(text, dims={"m": 1})
    assert d[wrt].text("matrix") == formula
    assert formula in [line.strip() for line in d.text().splitlines()]


def test_formula_for_several_outputs_has_its_delta():
    d = sg.derive("σ(W x + b)")
    assert d["W"].text() == "∂y[i]/∂W[j,k] = δ_ij σ'(Σ_l W_il x_l + b_i) x_k"
    assert d["b"].text() == "∂y[i]/∂b[j] = δ_ij σ'(Σ_k W_ik x_k + b_i)"


# ---------------------------------------------- 2. selected parameters

MODEL = "x: input\na: param\nb: param\nc: param\n{}y = exp(log(b * a * x) + {})\n"
PLAIN, STOPPED = MODEL.format("", "c"), MODEL.format("", "stop_gradient(c)")
POSITIVE = MODEL.format("assert a*b*x > 0\n", "c")
POINT = {"x": np.array([1.0]), "a": 1.0, "b": 2.0, "c": 3.0}
SLOPES = {"a": 40.171074, "b": 20.085537, "c": 40.171074}


@pytest.mark.parametrize(
    ("wrt", "names"),
    [
        ("params", "abc"),
        (["a", "b"], "ab"),
        (["*", "!c", "!x"], "ab"),
        ("c", "c"),
        (["[ab]"], "ab"),
    ],
)
def test_selection_gives_its_members_and_nothing_else(wrt, names):
    compiled, selected = sg.compile(PLAIN, wrt=wrt), sg.compile(PLAIN, wrt="all").select(wrt)
    for jac in (compiled, selected):
        J = jac.jacobian(**POINT)
        assert sorted(J) == list(names)
        same(J.value, [40.171074], GIVEN)
        for name in names:
            same(J[name], [SLOPES[name]], GIVEN)
        gradient = jac.gradient(**POINT)
        assert sorted(gradient) == list(names)
        for name in names:
            same(gradient[name], SLOPES[name], GIVEN)


def test_everything_but_c_keeps_the_input_if_all_is_asked_for():
    J = sg.compile(PLAIN, wrt=["*", "!c"]).jacobian(**POINT)
    assert sorted(J) == ["a", "b", "x"]
    same(J["x"], [40.171074], GIVEN)


def test_what_is_not_selected_is_nowhere():
    jac = sg.compile(PLAIN, wrt=["a", "b"])
    assert jac.wrt == ("a", "b")
    assert not [name for name in vars(jac.module) if re.search(r"(^|_)c(_|$)", name)]
    assert "c" not in jac.module.WRT
    assert "c" not in jac.module.STRUCTURE
    assert "c" not in jac.vjp(**POINT, u=np.ones(1))
    _, pull = jac.pullback(**POINT)
    assert sorted(pull(np.ones(1))) == ["a", "b"]
    with pytest.raises(KeyError):
        jac.jacobian(**POINT)["c"]
    with pytest.raises(AttributeError):
        jac.jac_c  # noqa: B018
    with pytest.raises(sg.SelectionError):
        jac.select("c")


def test_selecting_compiles_nothing():
    jac = sg.compile(PLAIN)
    assert jac.select(["a"]).module is jac.module


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_stopped_parameter_is_present_and_zero(dtype):
    jac = sg.compile(STOPPED)
    point = {name: np.asarray(value, dtype) for name, value in POINT.items()}
    J = jac.jacobian(**point)
    assert sorted(J) == ["a", "b", "c"]
    for zero, shape in ((J["c"].dense(), (1,)), (jac.gradient(**point)["c"], ())):
        assert zero.dtype == dtype
        assert zero.shape == shape
        assert not zero.any()
    same(J["a"], [dtype(SLOPES["a"])], {"rtol": 1e-6})


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_stopped_array_has_a_zero_of_its_own_shape(rng, dtype):
    text = "x: input[n]\nW: param[m, n]\nc: param[m, n]\ny = (W + stop_gradient(c)) @ x\n"
    jac = sg.compile(text)
    x, w, c = (rng.normal(size=s).astype(dtype) for s in ((4, 3), (2, 3), (2, 3)))
    zero = jac.jacobian(x, w, c)["c"].dense()
    assert (zero.shape, zero.dtype, zero.any()) == ((4, 2, 2, 3), dtype, False)
    zero = jac.vjp(x, w, c, np.ones((4, 2), dtype))["c"]
    assert (zero.shape, zero.dtype, zero.any()) == ((2, 3), dtype, False)


def test_simplified_slope_says_where_it_holds():
    line = "∂y/∂a = b x e^c"
    asserted = [s.strip() for s in sg.derive(POSITIVE).text().splitlines()]
    assert line in asserted
    assert asserted[asserted.index("Domain") + 1] == "a b x > 0"
    assert sg.derive(POSITIVE)["a"].text() == line
    assert "a b x > 0" in str(sg.derive(POSITIVE)["a"])
    plain = [s.strip() for s in sg.derive(PLAIN).text().splitlines()]
    assert line not in plain
    assert f"{line}  where a b x > 0" in plain


def test_outside_the_domain_nothing_is_made_up():
    jac = sg.compile(PLAIN)
    with np.errstate(invalid="ignore"):
        J = jac.jacobian(**{**POINT, "a": -1.0})
        assert np.isnan(J.value).all()
        assert np.isnan(J["a"].dense()).all()


def test_straight_through_estimator_and_reversed_gradient():
    through = sg.compile("x: input\nk: param\ny = k * (x + stop_gradient(round(x) - x))\n", wrt="x")
    J = through.jacobian(np.array([0.3, 1.8]), 3.0)
    same(J.value, [0.0, 6.0])
    same(J["x"], [3.0, 3.0])
    reverse = sg.compile("x: input\ny = 2 * stop_gradient(x) - x\n", wrt="x")
    J = reverse.jacobian(np.array([0.3, 1.8]))
    same(J.value, [0.3, 1.8])
    same(J["x"], [-1.0, -1.0])


def test_parameter_shared_by_all_terms_of_a_sum_gets_the_sum(rng):
    """A kernel's scale, as the Gaussian process has it: dy/ds = Σ_i q_i k_i."""
    text = (
        "x: input[d]\nc: const[m, d]\ns: param\nq: param[m]\n"
        "k[i] = exp(s - sum[a]((x[a] - c[i, a])**2))\ny = dot(k, q)\n"
    )
    x, c, q = rng.normal(size=(4, 2)), rng.normal(size=(3, 2)), rng.normal(size=3)
    J = sg.compile(text, wrt="s").jacobian(x, c, 0.3, q)
    same(J["s"], J.value)


def test_pullbacks_chain_by_hand(rng):
    first = sg.compile("tanh(W x)", wrt="all")
    second = sg.compile(
        "y = dot(v, x)",
        wrt="all",
    )
    x, w, v = rng.normal(size=(4, 3)), rng.normal(size=(2, 3)), rng.normal(size=2)
    h, pull_first = first.pullback(x=x, W=w)
    _, pull_second = second.pullback(x=h, v=v)
    back = pull_first(pull_second(np.ones(4))["x"])
    slope = v * (1 - h**2)
    same(back["W"], slope.T @ x)
    same(back["x"], slope @ w)


# ---------------------------------------------- 3. tensor outputs


def test_linear_map_on_a_batch(rng):
    x, w, b = rng.normal(size=(5, 6)), rng.normal(size=(3, 6)), rng.normal(size=3)
    J = sg.compile("W x + b").jacobian(x, w, b)
    assert J["W"].shape == (5, 3, 3, 6)
    assert J["b"].shape == (5, 3, 3)
    same(J["W"], np.einsum("ij,bk->bijk", np.eye(3), x))
    same(J["b"], np.broadcast_to(np.eye(3), (5, 3, 3)))


def test_linear_map_on_the_last_axis(rng):
    text = "x: input[t, p]\nW: param[m, p]\nb: param[m]\ny = x @ W.T + b\n"
    x, w, b = rng.normal(size=(5, 4, 6)), rng.normal(size=(3, 6)), rng.normal(size=3)
    J = sg.compile(text).jacobian(x, w, b)
    assert J["W"].shape == (5, 4, 3, 3, 6)
    same(J["W"], np.einsum("ij,btk->btijk", np.eye(3), x))
    same(J["b"], np.broadcast_to(np.eye(3), (5, 4, 3, 3)))


def test_two_layers_with_relu(rng):
    text = (
        "x: input[p]\nW1: param[h, p]\nb1: param[h]\nW2: param[m, h]\nb2: param[m]\n"
        "y = W2 @ relu(W1 @ x + b1) + b2\n"
    )
    x, W1, b1 = rng.normal(size=(15, 10)), rng.normal(size=(7, 10)), rng.normal(size=7)
    W2, b2 = rng.normal(size=(5, 7)), rng.normal(size=5)
    J = sg.compile(text).jacobian(x, W1, b1, W2, b2)
    z = x @ W1.T + b1
    on = np.einsum("ch,nh->nch", W2, z > 0)
    same(J["W1"], np.einsum("nch,nd->nchd", on, x))
    same(J["b1"], on)
    same(J["W2"], np.einsum("ce,nh->nceh", np.eye(5), np.maximum(z, 0)))
    same(J["b2"], np.broadcast_to(np.eye(5), (15, 5, 5)))


# ---------------------------------------------- more cases


def test_no_cross_sample_block(rng):
    w, b, x = np.array([[2.0, -1.0], [0.0, 1.0]]), rng.normal(size=2), rng.normal(size=(4, 2))
    J = sg.compile("W x + b", wrt="inputs").jacobian(x, w, b)
    same(J["x"], np.broadcast_to(w, (4, 2, 2)))


def test_function_of_a_product():
    M, x = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.1, -0.2]])
    J = sg.compile("exp(M x)", wrt="x").jacobian(x=x, M=M)
    same(J["x"], [[[0.740818, 1.481636], [1.819592, 2.426123]]], GIVEN)
    same(J["x"], np.exp(M @ x[0])[None, :, None] * M)


def test_layer_used_twice():
    w, b, x = np.array([[0.5, -0.3], [0.2, 0.8]]), np.array([0.1, -0.2]), np.array([[1.0, -1.0]])
    jac = sg.compile(
        "x: input[n]\nW: param[n, n]\nb: param[n]\n"
        "z = W @ x + b\ny = W @ relu(z) + b\nreturn z, y\n"
    )
    J = jac.jacobian(x, w, b)
    same(J.value[0], [[0.9, -0.8]])
    same(J.value[1], [[0.55, -0.02]])
    same(J["y", "W"], [[[[1.4, -0.5], [0.0, 0.0]], [[0.2, -0.2], [0.9, 0.0]]]])
    same(J["y", "b"], [[[1.5, 0.0], [0.2, 1.0]]])


@pytest.mark.parametrize(
    "statement", ["y = E @ E[t]", "y[u] = sum[k](E[u, k] * E[t, k])"], ids=["matrix", "index"]
)
def test_tied_embedding_and_output(statement):
    E = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    J = sg.compile(f"t: index(v)\nE: param[v, d]\n{statement}\n").jacobian(np.array([1]), E)
    same(J.value, [[11.0, 25.0, 39.0]])
    same(J["E"].dense()[0, 0], [[3.0, 4.0], [1.0, 2.0], [0.0, 0.0]])
    same(J["E"].dense()[0, 1], [[0.0, 0.0], [6.0, 8.0], [0.0, 0.0]])
    same(J["E"].dense()[0, 2], [[0.0, 0.0], [5.0, 6.0], [3.0, 4.0]])


def test_row_major_vec_is_identity_kron_x(rng):
    x = np.array([1.0, 2.0])
    J = sg.compile("W x").jacobian(x, rng.normal(size=(2, 2)))
    row_major = J["W"].dense().reshape(2, 4)
    same(row_major, [[1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 1.0, 2.0]])
    same(row_major, np.kron(np.eye(2), x[None]))


def test_where_the_transpose_lands(rng):
    d = sg.derive("a = tanh(W x)", wrt="all")
    assert d["x"].text("matrix") == "∂a/∂x = diag(1 - a²) W"
    assert d["W"].text() == "∂a[i]/∂W[j,k] = δ_ij (1 - a_i²) x_k"
    assert d["W"].text("matrix") == "gᵀ ∂a/∂W = (g ⊙ (1 - a²)) xᵀ"
    printed = d.text()
    for formula in (d["x"].text("matrix"), d["W"].text(), d["W"].text("matrix")):
        assert formula in printed
    x, w, g = rng.normal(size=(1, 3)), rng.normal(size=(2, 3)), rng.normal(size=(1, 2))
    jac = sg.compile("a = tanh(W x)", wrt="all")
    J, slope = jac.jacobian(x=x, W=w), 1 - np.tanh(w @ x[0]) ** 2
    same(J["x"].dense()[0], np.diag(slope) @ w)
    same(J["W"].dense()[0], np.einsum("ij,i,k->ijk", np.eye(2), slope, x[0]))
    same(jac.vjp({"x": x, "W": w}, g)["W"], np.outer(g[0] * slope, x[0]))
    same(np.einsum("bi,bijk->jk", g, J["W"].dense()), np.outer(g[0] * slope, x[0]))
