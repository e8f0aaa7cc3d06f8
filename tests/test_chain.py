"""A chain computes what its layers compute in turn, under names that tell them apart."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.dims import Dim
from symgrad.rewrite import size_expression
from symgrad.unify import unify
from symgrad.write import write_expression

DENSE = "x: input[n]\nW: param[m, n]\nb: param[m]\nz = W @ x + b\ny = tanh(z)"
rng = np.random.default_rng(0)


def values(layer, *arrays):
    return sg.compile(layer, "all", check=False).forward(*arrays)


def dims_of(layer, name):
    return [str(axis) for axis in layer.declaration(name).dims]


def aliases_of(layer):
    return {alias.name: alias.original for alias in layer.aliases}


def test_parts_are_named_after_their_layers_and_a_repeat_is_numbered():
    both = sg.chain(sg.layer(DENSE, name="dense"), sg.layer(DENSE, name="dense"))
    names = [d.name for d in both.declarations]
    assert names == ["dense_x", "dense_W", "dense_b", "dense_2_W", "dense_2_b"]
    assert aliases_of(both)["dense_2_W"] == "dense_2.W"
    assert both.output_names == ("dense_2_y",)


def test_sizes_at_the_joint_become_one_and_others_stay_apart():
    both = sg.chain(sg.layer(DENSE, name="a"), sg.layer(DENSE, name="b"))
    assert dims_of(both, "a_W") == ["m", "n"]
    assert dims_of(both, "b_W") == ["m_2", "m"]


def test_a_number_at_the_joint_is_the_size_before_it():
    both = sg.chain(sg.layer(DENSE, name="a"), sg.layer("x: input[6]\ny = sum(x)", name="b"))
    assert dims_of(both, "a_W") == ["6", "n"]


def test_a_chain_parses_back_equal():
    for parts in ((DENSE, DENSE), (DENSE,), ("W x + b", "sigmoid(x)")):
        both = sg.chain(*parts)
        assert sg.layer(str(both)) == both


def test_a_chain_computes_its_layers_in_turn():
    both = sg.chain(sg.layer(DENSE, name="a"), sg.layer(DENSE, name="b"))
    x, W, b = rng.normal(size=(4, 3)), rng.normal(size=(5, 3)), rng.normal(size=5)
    V, c = rng.normal(size=(2, 5)), rng.normal(size=2)
    right = np.tanh(np.tanh(x @ W.T + b) @ V.T + c)
    np.testing.assert_allclose(values(both, x, W, b, V, c), right, rtol=1e-12)


def test_a_layer_used_twice_is_tied_and_its_slope_is_the_sum_of_both_uses():
    layer = sg.layer("x: input[n]\nW: param[m, n]\ny = W @ x", name="linear")
    both = sg.chain(layer, layer)
    assert [d.name for d in both.declarations] == ["linear_x", "linear_W"]
    assert dims_of(both, "linear_W") == ["n", "n"]
    x, W = rng.normal(size=(3, 4)), rng.normal(size=(4, 4))
    J = np.asarray(sg.compile(both, check=False).jacobian(x, W)["linear_W"])
    # y = W W x: dy_i/dW_jk = delta_ij (W x)_k + W_ij x_k
    right = np.einsum("ij,bk->bijk", np.eye(4), x @ W.T) + np.einsum("ij,bk->bijk", W, x)
    np.testing.assert_allclose(J, right, rtol=1e-12, atol=1e-14)


def test_a_layer_between_two_uses_of_another_ties_sizes_through_it():
    outer, inner = sg.layer(DENSE, name="outer"), sg.layer(DENSE, name="inner")
    three = sg.chain(outer, inner, outer)
    assert dims_of(three, "outer_W") == ["m", "n"]
    assert dims_of(three, "inner_W") == ["n", "m"]


def test_equal_texts_are_not_tied():
    assert len(sg.chain(DENSE, DENSE).declarations) == 5


def test_an_array_declared_in_python_ties_the_layers_that_use_it():
    E, t, x = sg.param("E", "v d"), sg.index("t", "v"), sg.input("x", "d")
    both = sg.chain(sg.layer(E[t], name="embed"), sg.layer(E @ x, name="logits"))
    assert [d.name for d in both.declarations] == ["embed_t", "embed_E"]
    table = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    compiled = sg.compile(both, check=False)
    at = np.array([1])
    np.testing.assert_array_equal(compiled.forward(at, table), [[11.0, 25.0, 39.0]])
    J = np.asarray(compiled.jacobian(at, table)["embed_E"])
    np.testing.assert_array_equal(J[0, 0], [[3, 4], [1, 2], [0, 0]])
    np.testing.assert_array_equal(J[0, 1], [[0, 0], [6, 8], [0, 0]])


def test_a_size_computed_by_one_layer_is_one_of_the_next():
    conv = "x: input[t]\nw: param[k]\nout[s] = sum[q](w[q] * x[s + q])"
    head = "x: input[n]\nV: param[m, n]\ny[j] = sum[k](V[j, k] * x[k]) / n"
    both = sg.chain(sg.layer(conv, name="conv"), sg.layer(head, name="head"))
    assert dims_of(both, "head_V") == ["m", "t - k + 1"]
    x, w, V = rng.normal(size=(2, 7)), rng.normal(size=3), rng.normal(size=(4, 5))
    h = np.stack([np.convolve(row, w[::-1], "valid") for row in x])
    np.testing.assert_allclose(values(both, x, w, V), h @ V.T / 5, rtol=1e-12)


def test_an_index_that_has_the_name_of_a_size_before_it_steps_aside():
    first = sg.layer("x: input[n]\nW: param[m, n]\ny = W @ x", name="a")
    second = sg.layer("x: input[p]\nU: param[q, p]\ny[m] = sum[n](U[m, n] * x[n]) / p", name="b")
    x, W, U = rng.normal(size=(2, 3)), rng.normal(size=(4, 3)), rng.normal(size=(5, 4))
    right = x @ W.T @ U.T / 4
    np.testing.assert_allclose(values(sg.chain(first, second), x, W, U), right, rtol=1e-12)


def test_macros_of_two_layers_with_one_name_stay_two():
    first = "x: input[n]\ndef f(x): return 2 * x\ny = f(x)"
    second = "x: input[n]\ndef f(n_2): return n_2 + 1\ny = f(x)"
    x = rng.normal(size=(2, 3))
    both = sg.chain(first, second)
    np.testing.assert_allclose(values(both, x), 2 * x + 1, rtol=1e-12)


def test_an_abstract_function_is_the_same_in_all_layers():
    both = sg.chain("σ(W x)", "σ(V x)")
    x, W, V = rng.normal(size=(2, 3)), rng.normal(size=(4, 3)), rng.normal(size=(5, 4))
    compiled = sg.compile(both, "all", functions={"σ": "tanh"}, check=False)
    right = np.tanh(np.tanh(x @ W.T) @ V.T)
    np.testing.assert_allclose(compiled.forward(x, W, V), right, rtol=1e-12)


def test_only_the_first_output_is_fed_and_the_last_layer_names_the_outputs():
    first = "x: input[n]\na = 2 * x\ny = x\nreturn a, y"
    second = "x: input[k]\nz: input[k]\ny = x + z\nq = x * z\nreturn y, q"
    both = sg.chain(first, second)
    assert both.output_names == ("layer_2_y", "layer_2_q")
    x, z = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    y, q = values(both, x, z)
    np.testing.assert_allclose(y, 2 * x + z)
    np.testing.assert_allclose(q, 2 * x * z)


def test_inputs_come_first_then_params_then_consts():
    first = "c: const[n]\nW: param[m, n]\nx: input[n]\neps: const = 1e-5\ny = W @ (c * x) + eps"
    second = "b: param[n]\ns: input\nx: input[n]\ny = s * x + b"
    roles = [d.role for d in sg.chain(second, first).declarations]
    assert roles == ["input", "input", "param", "param", "const", "const"]
    assert sg.chain(second, first).declaration("layer_2_eps").default == 1e-5


def test_asserts_come_along_under_the_new_names():
    assert "assert layer_2_a > 0" in str(
        sg.chain(DENSE, "x: input[n]\na: param\nassert a > 0\ny = a * x")
    )


def test_a_chain_of_chains_keeps_the_whole_path_of_a_name():
    body = sg.chain(sg.layer(DENSE, name="a"), sg.layer(DENSE, name="b"), name="body")
    whole = sg.chain(body, sg.layer(DENSE, name="head"))
    assert aliases_of(whole)["body_b_W"] == "body.b.W"
    assert dims_of(whole, "head_W")[1] == dims_of(whole, "body_b_W")[0]


@pytest.mark.parametrize(
    ("parts", "error", "said"),
    [
        ((), sg.ArgumentError, "at least one"),
        (("x: input[5]\ny = x", "x: input[6]\ny = x"), sg.ShapeError, "5 is not 6"),
        ((DENSE, "x: input[p, q]\ny = x"), sg.ShapeError, r"y\[m\].*x\[p, q\]"),
        ((DENSE, "x: input\ny = 2 * x"), sg.ShapeError, "the scalar x"),
        ((DENSE, "t: index(v)\nE: param[v]\ny = E[t]"), sg.ArgumentError, "has no input"),
    ],
)
def test_layers_that_do_not_fit_are_refused_by_name(parts, error, said):
    with pytest.raises(error, match=said) as caught:
        sg.chain(*parts)
    assert caught.value.hint


def test_two_names_that_would_be_written_alike_are_refused():
    first, second = sg.layer(DENSE, name="a_b"), sg.layer(DENSE.replace("W", "b_W"), name="a")
    with pytest.raises(sg.LayerSyntaxError, match=r"a_b\.W and a\.b_W"):
        sg.chain(first, second)


def test_equations_of_sizes_are_solved_for_what_stands_alone():
    n, m, k = Dim.of("n"), Dim.of("m"), Dim.of("k")
    assert unify([(n, m)]) == {"m": n}
    assert unify([(n - k + 1, m), (m, k)]) == {"m": Dim.of("k"), "n": 2 * k - 1}
    for left, right in ((Dim.of(2), Dim.of(3)), (2 * n, Dim.of(3)), (n, n + 1)):
        with pytest.raises(ValueError):
            unify([(left, right)])


def test_a_size_is_written_as_expressions_write_it():
    n, k = Dim.of("n"), Dim.of("k")
    for size in (n - k + 1, 2 * n * k - 3, (n - k) // 2 + 1, k * k, Dim.of(0), Dim.of(7), -n):
        text = write_expression(size_expression(size))
        assert sg.layer(f"x: input[n, k]\ny = sum(x) * ({text})") is not None
        assert eval(text, {"n": 11, "k": 4}) == size.evaluate({"n": 11, "k": 4})


def test_a_layer_stays_tied_through_a_chain_of_chains():
    a, b = sg.layer(DENSE, name="a"), sg.layer(DENSE, name="b")
    inner = sg.chain(a, b, name="inner")
    for parts, params in (
        ((inner, a), ["inner_a_W", "inner_a_b", "inner_b_W", "inner_b_b"]),
        ((a, inner), ["a_W", "a_b", "inner_b_W", "inner_b_b"]),
        ((inner, inner), ["inner_a_W", "inner_a_b", "inner_b_W", "inner_b_b"]),
        ((sg.chain(inner, b, name="outer"), a), None),
    ):
        whole = sg.chain(*parts)
        found = [d.name for d in whole.declarations if d.role == "param"]
        assert params is None or found == params
        assert len(found) == 4


def test_a_nested_tie_computes_what_the_layers_compute_in_turn():
    a, b = sg.layer(DENSE, name="a"), sg.layer(DENSE, name="b")
    whole = sg.chain(sg.chain(a, b, name="inner"), a)
    x, W, c = rng.normal(size=(4, 3)), rng.normal(size=(5, 3)), rng.normal(size=5)
    V, d = rng.normal(size=(3, 5)), rng.normal(size=3)
    twice = np.tanh(np.tanh(np.tanh(x @ W.T + c) @ V.T + d) @ W.T + c)
    np.testing.assert_allclose(values(whole, x, W, c, V, d), twice, rtol=1e-12)


def test_an_array_of_python_stays_tied_through_a_chain_of_chains():
    W = sg.param("W", "n n")
    first = sg.layer(W @ sg.input("x", "n"), name="first")
    second = sg.layer(sg.tanh(W @ sg.input("x", "n")), name="second")
    whole = sg.chain(sg.chain(first, second, name="inner"), first)
    assert [d.name for d in whole.declarations] == ["inner_first_x", "inner_first_W"]
