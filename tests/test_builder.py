"""Layers built in Python are the layers of their texts."""

from pathlib import Path

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


BODIES = {
    "-x**2 + 3 - x / 2 * -1": lambda x, A: -(x**2) + 3 - x / 2 * -1,
    "2 - 1.5 * x": lambda x, A: 2 - 1.5 * x,
    "2**x / x": lambda x, A: 2**x / x,
    "-0.0 + x": lambda x, A: -0.0 + x,
    "A @ x - A.T @ x": lambda x, A: A @ x - A.T @ x,
    "where((x > 0) & (x <= 1) | ~(x == 2), x, +x)": lambda x, A: sg.where(
        (x > 0) & (x <= 1) | ~(x == 2), x, +x
    ),
    "A[0] + A[..., -1] + A[:, 1]": lambda x, A: A[0] + A[..., -1] + A[:, 1],
    "x[None, :] * A[::-1, : n]": lambda x, A: x[None, :] * A[::-1, : sg.dim("n")],
    "sum(A, axis=(0, 1), keepdims=True)": lambda x, A: sg.sum(A, axis=(0, 1), keepdims=True),
    "softmax(A, axis=-1)": lambda x, A: sg.softmax(A, axis=-1),
    "concatenate([x, x], axis=0)": lambda x, A: sg.concatenate([x, x], axis=0),
    "pad(A, ((0, 0), (1, n - 1)))": lambda x, A: sg.pad(A, ((0, 0), (1, sg.dim("n") - 1))),
    'einsum("ij,j->i", A, x)': lambda x, A: sg.einsum("ij,j->i", A, x),
    "stop_gradient(round(x)) + abs(x)": lambda x, A: sg.stop_gradient(sg.round(x)) + abs(x),
    "x / sqrt(n) * pi": lambda x, A: x / sg.sqrt(sg.dim("n")) * sg.pi,
    "max(x, axis=None) - min(x)": lambda x, A: sg.max(x, axis=None) - sg.min(x),
    "σ(A @ x)": lambda x, A: sg.abstract("σ")(A @ x),
}


@pytest.mark.parametrize("body", BODIES)
def test_every_form_is_built_as_its_text_is_read(body):
    x, A = sg.input("x", "n"), sg.param("A", "n n")
    built = sg.layer(BODIES[body](x, A))
    declared = {"x": "x: input[n]", "A": "A: param[n, n]"}
    names = [d.name for d in built.declarations]
    assert built == sg.layer("\n".join([*(declared[n] for n in names), f"y = {body}"]))
    assert sg.layer(str(built)) == built


def test_every_function_of_the_language_is_there_and_hides_no_module():
    from symgrad.language.vocabulary import FUNCTION_NAMES

    folder = Path(sg.__file__).parent
    modules = {p.stem for p in folder.glob("*.py")} | {p.name for p in folder.iterdir()}
    for name in set(FUNCTION_NAMES) - {"delta"}:
        assert isinstance(getattr(sg, name), sg.Function)
        assert name in dir(sg)
        assert name not in modules
        assert name not in sg.__all__


def test_an_import_of_everything_leaves_sum_and_its_kin_alone():
    scope = {}
    exec("from symgrad import *", scope)
    for name in ("sum", "max", "min", "abs", "round"):
        assert name not in scope


def test_named_values_keep_their_names_and_stand_once():
    x, W, b = arrays()
    z = (W @ x + b).named("z")
    text = "x: input[n]\nW: param[m, n]\nb: param[m]\nz = W @ x + b\ny = sigmoid(z) * z"
    assert sg.layer(sg.sigmoid(z) * z) == sg.layer(text)
    assert sg.layer((sg.tanh(z), z)).output_names == ("y1", "z")
    assert sg.layer(z).output_names == ("z",)


def test_the_value_behind_a_name_is_the_named_one():
    x, W, b = arrays()
    plain = W @ x + b
    text = "x: input[n]\nW: param[m, n]\nb: param[m]\nz = W @ x + b\ny = z - z"
    assert sg.layer(plain - plain.named("z")) == sg.layer(text)


def test_forty_doublings_are_forty_lines():
    y = sg.input("x", "n")
    for _ in range(40):
        y = y + y
    built = sg.layer(y)
    assert len(built.statements) == 40
    assert sg.layer(str(built)) == built
    assert len(repr(y)) < 100
    compiled = sg.compile(built, "inputs", check=False)
    np.testing.assert_array_equal(compiled.forward(np.ones((1, 2))), np.full((1, 2), 2.0**40))


def test_thousands_of_steps_are_cut_into_lines_that_can_be_read():
    y = sg.input("x", "n")
    for _ in range(3000):
        y = sg.tanh(y)
    built = sg.layer(y)
    assert sg.layer(str(built)) == built
    assert 15 < len(built.statements) < 60


def test_masks_and_gathered_rows_may_be_used_twice():
    x, t, E = sg.input("x", "d"), sg.index("t", "v", "T"), sg.param("E", "v d")
    mask, first = x > 0, t[0]
    y = sg.where(mask, E[first], x) + sg.where(mask, x, E[first])
    compiled = sg.compile(sg.layer(y), check=False)
    xs, ts, Es = np.array([[1.0, -1.0]]), np.array([[2, 0]]), np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(compiled.forward(xs, ts, Es), xs + Es[2])


def test_names_of_its_own_move_aside():
    y, v1 = sg.input("y", "n"), sg.param("v1", "n")
    a = y * v1
    built = sg.layer(a + a)
    assert [s.name for s in built.statements] == ["v2", "out"]


def test_numbers_of_numpy_are_numbers():
    x = sg.input("x", "n")
    text = "x: input[n]\ny = 2.0 * x + 3"
    assert sg.layer(np.float64(2) * x + np.int64(3)) == sg.layer(text)
    assert sg.layer(np.float32(2) * x + 3) == sg.layer(text)


def test_dotted_names_are_written_with_underscores_and_kept():
    x, W = sg.input("x", "n"), sg.param("encoder.0.weight", "m n")
    built = sg.layer(W @ x)
    assert "# name: encoder_0_weight = encoder.0.weight" in str(built)
    assert built.declaration("encoder_0_weight") is not None
    assert sg.layer(str(built)) == built


def test_a_const_has_a_default_and_an_index_a_vocabulary():
    x, eps = sg.input("x", "n"), sg.const("eps", "", default=-1e-5)
    t = sg.index("t", "v + 1", "T")
    E = sg.param("E", "v + 1, n")
    built = sg.layer(sg.sum(E[t] * x, axis=0) + eps)
    lines = "x: input[n]", "t: index(v + 1)[T]", "E: param[v + 1, n]", "eps: const = -1e-05"
    assert all(line in str(built) for line in lines)
    assert sg.layer(str(built)) == built


def test_shape_errors_point_into_the_text_of_a_built_layer():
    x, W = sg.input("x", "k"), sg.param("W", "m n")
    with pytest.raises(sg.ShapeError) as caught:
        sg.derive(sg.layer(sg.tanh(W @ x)))
    assert "y = tanh(W @ x)" in str(caught.value)
    assert "^" in str(caught.value)


REFUSED = {
    "two arrays of one name": (
        sg.LayerSyntaxError,
        lambda x: sg.layer(x + sg.input("x", "n")),
    ),
    "a name that is taken": (
        sg.LayerSyntaxError,
        lambda x: sg.layer((x * 2).named("x") + x),
    ),
    "two values of one name": (
        sg.LayerSyntaxError,
        lambda x: sg.layer((x * 2).named("z") + (x * 3).named("z")),
    ),
    "an array of the name of a size": (sg.LayerSyntaxError, lambda x: sg.layer(x * sg.param("n"))),
    "a size that is none": (sg.LayerSyntaxError, lambda x: sg.param("W", "m *")),
    "a negative size": (sg.LayerSyntaxError, lambda x: sg.param("W", "-3")),
    "a function as a name": (sg.LayerSyntaxError, lambda x: sg.param("gamma")),
    "a word of Python as a name": (sg.LayerSyntaxError, lambda x: sg.param("lambda")),
    "no name at all": (sg.LayerSyntaxError, lambda x: sg.param("a b")),
    "an infinite number": (sg.LayerSyntaxError, lambda x: x * float("inf")),
    "a huge integer": (sg.LayerSyntaxError, lambda x: x * 10**400),
    "a default of an array": (sg.LayerSyntaxError, lambda x: sg.const("c", "n", default=1.0)),
    "an output given twice": (sg.LayerSyntaxError, lambda x: sg.layer((x, x))),
    "a word for an abstract function": (sg.LayerSyntaxError, lambda x: sg.abstract("act")),
    "a chained comparison": (sg.ArgumentError, lambda x: 0 < x < 1),
    "and": (sg.ArgumentError, lambda x: x and x),
    "a loop": (sg.ArgumentError, lambda x: [part for part in x]),  # noqa: C416
    "an array to the left": (sg.ArgumentError, lambda x: np.ones(3) * x),
    "a product with an array": (sg.ArgumentError, lambda x: np.ones((3, 3)) @ x),
    "a comparison with an array": (sg.ArgumentError, lambda x: x == np.ones(3)),
    "an array in a call": (sg.ArgumentError, lambda x: sg.dot(x, np.ones(3))),
    "a function of numpy": (sg.ArgumentError, np.exp),
    "a list in a subscript": (sg.ArgumentError, lambda x: x[[0, 1]]),
    "a truth value": (sg.ArgumentError, lambda x: x + True),
    "a string": (sg.ArgumentError, lambda x: sg.zeros("n") + x),
    "a complex number": (sg.ArgumentError, lambda x: x * 1j),
    "no output": (sg.ArgumentError, lambda x: sg.layer(())),
    "an output that is no expression": (sg.ArgumentError, lambda x: sg.layer((x, 1))),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_place_in_a_layer_is_refused(what):
    error, make = REFUSED[what]
    with pytest.raises(error) as caught:
        make(sg.input("x", "n"))
    assert type(caught.value) is error


def test_a_domain_is_what_a_text_asserts():
    x, a, p = sg.input("x"), sg.param("a"), sg.param("p")
    product = a * x
    built = sg.layer(sg.log(product) * p, domain=[product > 0, (p > 0) & (p < 1)])
    text = "x: input\na: param\np: param\nv1 = a * x\ny = log(v1) * p\n"
    assert built == sg.layer(text + "assert v1 > 0\nassert (p > 0) & (p < 1)")
    jac = sg.compile(built, check_domain=True)
    assert jac.forward(2.0, 1.0, 0.5) == 0.5 * np.log(2.0)
    with pytest.raises(sg.ArgumentError, match="does not hold"):
        jac.forward(-2.0, 1.0, 0.5)
    assert sg.compile(sg.sqrt(a) * x, domain=a >= 0, check=False).forward(2.0, 4.0) == 4.0


def test_what_only_a_domain_computes_is_no_output():
    x, c = sg.input("x", "n"), sg.param("c", "n")
    total = sg.sum(c)
    built = sg.layer(x * c, domain=[total > 0, total < 9])
    assert built.output_names == ("y",)
    assert str(built).endswith("return y\n")
    assert sg.layer(str(built)) == built


@pytest.mark.parametrize("domain", [3, [True], [sg.param("a")], "a > 0", True, [sg.param("a") + 1]])
def test_a_domain_that_compares_nothing_is_refused(domain):
    with pytest.raises(sg.ArgumentError, match="domain") as caught:
        sg.layer(sg.param("a") * 2, domain=domain)
    assert "a > 0" in caught.value.hint
    with pytest.raises(sg.ArgumentError, match="expressions only"):
        sg.layer("tanh(x)", domain=sg.param("a") > 0)
