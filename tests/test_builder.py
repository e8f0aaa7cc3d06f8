"""Layers built in Python are the layers of their texts."""

import numpy as np
import pytest

import symgrad as sg


def arrays():
    return sg.input("x", "n"), sg.param("W", "m n"), sg.param("b", "m")


def test_a_built_layer_equals_the_layer_of_its_text():
    x, W, b = arrays()
    text = "x: input[n]\nW: param[m, n]\nb: param[m]\ny = sigmoid(W @ x + b)"
    assert sg.layer(sg.sigmoid(W @ x + b)) == sg.layer(text)


def test_a_built_layer_parses_back_equal():
    x, W, b = arrays()
    z = (W @ x + b).named("z")
    built = sg.layer((sg.softmax(-z) ** 2, sg.sum(sg.where(z > 0, z, 0.5 * z[::-1]), axis=0)))
    assert sg.layer(str(built)) == built
    assert len(built.output_names) == 2


def test_declared_order_is_inputs_then_params_then_consts_by_appearance():
    x, W, b = arrays()
    r = sg.const("r", "m")
    built = sg.layer(r * (b + W @ x))
    assert [d.name for d in built.declarations] == ["x", "b", "W", "r"]


def test_what_is_used_twice_is_one_definition():
    x = sg.input("x", "n")
    y = x
    for _ in range(40):
        y = sg.tanh(y + y)
    assert len(str(sg.layer(y))) < 5000


def test_a_built_layer_compiles_and_agrees_with_numpy():
    x, W, b = arrays()
    compiled = sg.compile(sg.layer(sg.tanh(W @ x + b), name="built"))
    rng = np.random.default_rng(0)
    xs, Ws, bs = rng.normal(size=(4, 3)), rng.normal(size=(2, 3)), rng.normal(size=2)
    a = np.tanh(xs @ Ws.T + bs)
    right = np.einsum("ij,bi,bk->bijk", np.eye(2), 1 - a**2, xs)
    np.testing.assert_allclose(compiled.jacobian(xs, Ws, bs)["W"].dense(), right, rtol=1e-12)


def test_gathers_slices_and_einsum_are_written_as_in_text():
    t = sg.index("t", "v")
    E = sg.param("E", "v d")
    text = 't: index(v)\nE: param[v, d]\ny = einsum("ij,j->i", E[1:], E[t])'
    assert sg.layer(sg.einsum("ij,j->i", E[1:], E[t])) == sg.layer(text)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: bool(x > 0),
        list,
        np.asarray,
        lambda x: x + np.ones(3),
        lambda x: sg.input("y", 3),
    ],
)
def test_what_expressions_cannot_do_says_what_to_do_instead(make):
    with pytest.raises(sg.ArgumentError) as caught:
        make(sg.input("x", "n"))
    assert caught.value.hint


def test_an_unknown_function_is_an_attribute_error_with_a_suggestion():
    with pytest.raises(AttributeError, match="sigmoid"):
        _ = sg.sigmod


def test_a_chain_feeds_the_first_output_into_the_first_input():
    x, W, b = arrays()
    dense = sg.layer(sg.tanh(W @ x + b), name="dense")
    head = sg.layer("x: input[n]\nV: param[k, n]\ny = V @ x", name="head")
    both = sg.chain(dense, head)
    compiled = sg.compile(both)
    assert compiled.wrt == ("dense_W", "dense_b", "head_V")
    rng = np.random.default_rng(1)
    xs, Ws, bs, Vs = (rng.normal(size=s) for s in ((4, 3), (2, 3), (2,), (5, 2)))
    np.testing.assert_allclose(
        compiled.forward(xs, Ws, bs, Vs), np.tanh(xs @ Ws.T + bs) @ Vs.T, rtol=1e-12
    )


def test_a_layer_used_twice_in_a_chain_is_tied():
    square = sg.layer("x: input[n]\nW: param[n, n]\ny = tanh(W @ x)", name="square")
    assert sg.compile(sg.chain(square, square)).wrt == ("square_W",)
