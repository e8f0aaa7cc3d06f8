"""What `wrt` selects, and that what it leaves out costs nothing."""

import ast
from itertools import combinations

import numpy as np
import pytest
from layers import TEXTS, arrays_for, compiled, sample
from recurrences import RECURRENCES

import symgrad as sg
from symgrad.errors import SelectionError

TEXT = """
x: input[n]
t: index(v)
W_in: param[m, n]
W_out: param[m]
c: param
r: const[m]
E: param[v, m]
y = W_out * tanh(W_in @ x + E[t]) + c * r
"""


@pytest.fixture(scope="module")
def jac():
    return compiled(TEXT)


@pytest.mark.parametrize(
    ("wrt", "expected"),
    [
        ("params", ("W_in", "W_out", "c", "E")),
        ("inputs", ("x",)),
        ("all", ("x", "W_in", "W_out", "c", "E")),
        ("c", ("c",)),
        ("W_*", ("W_in", "W_out")),
        (["c", "W_in"], ("W_in", "c")),
        (["*", "!c"], ("x", "W_in", "W_out", "E")),
        (["!c"], ("W_in", "W_out", "E")),
        (["params", "!W_*", "x"], ("x", "c", "E")),
    ],
)
def test_selection_is_in_declared_order(jac, wrt, expected):
    assert jac.select(wrt).wrt == expected
    narrow = compiled(TEXT, wrt)
    assert narrow.wrt == narrow.module.WRT == expected
    J = narrow.jacobian(arrays_for(narrow))
    assert tuple(J) == tuple(narrow.module.jacobian(*arrays_for(narrow).values())) == expected


@pytest.mark.parametrize(
    ("wrt", "words"),
    [
        ("W_inn", "did you mean W_in"),
        ("Q*", "no array matches"),
        ("r", "const"),
        ("t", "index array"),
        ([], "empty"),
        (["c", "!c"], "selects nothing"),
        ([3], "expected names"),
    ],
)
def test_wrong_selections_are_named(jac, wrt, words):
    for call in (jac.select, lambda w: sg.compile(TEXT, w)):
        with pytest.raises(SelectionError, match=words):
            call(wrt)


def test_select_refuses_what_was_not_compiled():
    with pytest.raises(SelectionError):
        compiled(TEXT, ["c"]).select("W_in")


def statements(text):
    """Return all statements of the functions below the constants, as text without positions."""
    tree = ast.parse(text)
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    return {
        ast.unparse(node) for f in functions for node in ast.walk(f)
        if isinstance(node, ast.stmt) and not isinstance(node, (ast.FunctionDef, ast.For, ast.If))
    }  # fmt: skip


def test_no_line_serves_what_is_not_selected():
    """Only b needs cos(b·x): a alone needs nothing of it, and its module never mentions d_b."""
    text = "x: input[n]\na: param[n]\nb: param[n]\np = exp(a * x)\nq = sin(b * x)\ny = p * q"
    both, only_a, only_b = (compiled(text, w, name="s").source for w in (["a", "b"], ["a"], ["b"]))
    for text_, other in ((only_a, "b"), (only_b, "a")):
        names = {n.name for n in ast.parse(text_).body if isinstance(n, ast.FunctionDef)}
        assert not [n for n in names if n.endswith(f"_{other}") or f"jac_{other}" in n]
        words = {n.id for n in ast.walk(ast.parse(text_)) if isinstance(n, ast.Name)}
        assert not words & {f"{p}_{other}" for p in ("d", "t", "J", "C", "G")}
    slope = [s for s in statements(both) if "cos(" in s]
    assert slope
    assert not [s for s in statements(only_a) if "cos(" in s]
    assert [s for s in statements(only_b) if "cos(" in s]
    assert len(only_a) < len(both)
    assert len(only_b) < len(both)


def test_forward_does_not_depend_on_the_selection():
    text = "x: input[n]\na: param[n]\nb: param[n]\ny = exp(a * x) * sin(b * x)"

    def forward(wrt):
        tree = ast.parse(compiled(text, wrt).source)
        return ast.unparse(next(n for n in tree.body if getattr(n, "name", "") == "_forward"))

    assert forward(["a"]) == forward(["b"]) == forward("all")


def test_parameters_behind_stop_gradient_are_present_and_exactly_zero():
    text = "x: input[n]\nW: param[m, n]\nc: param[m]\nq: param[k]\ny = W @ x + stop_gradient(c)**2"
    for dtype in (np.float64, np.float32):
        jac = compiled(text)
        arrays = arrays_for(jac, dtype=dtype)
        J = jac.jacobian(arrays)
        for name, shape in (("c", (3, 3, 3)), ("q", (3, 3, 2))):
            block = J[name]
            own = arrays[name].shape
            assert block.structure == f"0: y does not depend on {name}"
            zeros = {
                shape: [block.dense(), block.compact(), np.asarray(block),
                        getattr(jac, f"jac_{name}")(arrays),
                        jac.module.jacobian(*arrays.values())[name]],
                own: [block.vjp(np.ones((3, 3))), J.vjp(np.ones((3, 3)))[name],
                      jac.vjp(arrays, np.ones((3, 3)))[name],
                      jac.pullback(arrays)[1](np.ones((3, 3)))[name]],
                (3, *own): [block.per_sample_vjp(np.ones((3, 3))),
                            jac.per_sample_vjp(arrays, np.ones((3, 3)))[name]],
                (3, 3): [block.jvp(np.ones(own)), jac.jvp(arrays, {name: np.ones(own)})],
                (3,): [block.norm()],
            }  # fmt: skip
            for expected, found in zeros.items():
                for array in found:
                    assert array.shape == expected
                    assert array.dtype == dtype
                    assert not array.any()
            assert block.shape == shape
            assert block.factors() == getattr(jac, f"jac_{name}_factors")(arrays) == {}
            assert block.formula == "0"


def test_select_compiles_nothing():
    one = sample("dense", plain=False, wrt="all")
    one.jac.jacobian(**one.arrays)["W"].dense()
    one.jac.vjp(one.arrays, np.ones((3, 3)))

    def signatures():
        return {
            name: tuple(map(str, value.signatures))
            for name, value in vars(one.jac.module).items() if hasattr(value, "signatures")
        }  # fmt: skip

    before = signatures()
    narrow = one.jac.select(["W"])
    J = narrow.jacobian(**one.arrays)
    assert list(J) == ["W"]
    assert list(narrow.vjp(one.arrays, np.ones((3, 3)))) == ["W"]
    J["W"].dense()
    assert signatures() == before
    assert narrow.module is one.jac.module


def test_select_hides_the_forms_of_other_parameters():
    one = sample("dense").jac.select("W")
    assert callable(one.jac_W)
    with pytest.raises(AttributeError, match="with respect to W"):
        one.jac_b  # noqa: B018
    with pytest.raises(sg.ArgumentError, match="no tangent for 'b'"):
        one.jvp(arrays_for(one), {"b": np.ones(3)})


DOTTED = """
# name: dense_W = dense.W
# name: dense_b = dense.b
# name: head_W = head.W
x: input[n]
dense_W: param[m, n]
dense_b: param[m]
head_W: param[k, m]
y = head_W @ tanh(dense_W @ x + dense_b)
"""


@pytest.mark.parametrize(
    ("wrt", "expected"),
    [
        ("dense.W", ("dense_W",)),
        ("dense.*", ("dense_W", "dense_b")),
        (["*.W"], ("dense_W", "head_W")),
        (["!dense.*"], ("head_W",)),
        (["head.W", "dense_b"], ("dense_b", "head_W")),
    ],
)
def test_dotted_names_select_what_they_stand_for(wrt, expected):
    assert tuple(sg.compile(DOTTED, wrt, check=False).wrt) == expected
    assert tuple(compiled(DOTTED).select(wrt).wrt) == expected
    assert sg.derive(DOTTED, wrt)[expected[0]]


def test_the_parts_of_a_chain_are_selected_by_their_dotted_names():
    first, second = sg.layer("W x + b", name="dense"), sg.layer("W x", name="head")
    jac = sg.compile(sg.chain(first, second), ["dense.*", "!dense.x"], check=False)
    assert jac.wrt == ("dense_W", "dense_b")


@pytest.mark.parametrize(
    ("text", "wrt", "message", "hint"),
    [
        ("tanh(x)", "params", "selects nothing", 'input x; say wrt="inputs"'),
        ("c: param\ny = c * c", "inputs", "selects nothing", 'param c; say wrt="params"'),
        (TEXT, "W_in,c", "no array is called", 'wrt=["W_in", "c"]'),
        (TEXT, "W_in c", "no array is called", 'wrt=["W_in", "c"]'),
        (DOTTED, "dens.W", "did you mean dense.W", "dense_W"),
    ],
)
def test_a_selection_that_fails_says_what_to_write(text, wrt, message, hint):
    with pytest.raises(SelectionError, match=message) as caught:
        sg.derive(text, wrt)
    assert hint in caught.value.hint


MLP = TEXTS["mlp"]


def allocated(jac, call):
    """Return the shapes of all arrays that the drivers of a module allocate in a call."""
    module, shapes = jac.module, []
    numpy = module.np

    class Counting:
        def __getattr__(self, name):
            return getattr(numpy, name)

        def empty(self, shape, dtype=float):
            shapes.append(shape)
            return numpy.empty(shape, dtype)

    module.np = Counting()
    try:
        call()
    finally:
        module.np = numpy
    return shapes


@pytest.mark.parametrize("form", ["vjp", "gradient", "pullback"])
def test_gradients_that_a_selection_leaves_out_are_not_computed(form):
    """Of a gradient of W2 alone nothing is allocated that only W1 needs, and the other way round.

    x has 4 numbers, the hidden layer 5, the output 3.
    """
    jac = compiled(MLP)
    arrays = arrays_for(jac)
    u = np.ones((3, 3))
    calls = {
        "vjp": lambda one: one.vjp(arrays, u),
        "gradient": lambda one: one.gradient(arrays, sum=True),
        "pullback": lambda one: one.pullback(arrays)[1](u),
    }
    whole = calls[form](jac)
    forward = [(3, 5), (3, 5), (3, 3)]
    expected = {
        "W2": [*forward, (3, 5)],
        "b2": [*forward, (3,)],
        "W1": [*forward, (3, 5), (3, 5), (5, 4)],
        "b1": [*forward, (3, 5), (3, 5), (5,)],
    }
    for name, shapes in expected.items():
        one, found = jac.select(name), {}
        made = allocated(one, lambda one=one, found=found: found.update(calls[form](one)))
        assert sorted(made) == sorted(shapes)
        assert list(found) == [name]
        np.testing.assert_array_equal(found[name], whole[name])


def test_every_selection_gives_what_the_whole_gives():
    """Over all pairs of arrays, of layers of every kind: what is skipped was not needed."""
    for name, text in {**TEXTS, **RECURRENCES}.items():
        jac = compiled(text, name=name)
        arrays = {n: abs(a) for n, a in arrays_for(jac).items()}
        value = jac.forward(arrays)
        u = tuple(np.cos(y) for y in value) if isinstance(value, tuple) else np.cos(value)
        for form in ("vjp", "vjp_per_sample"):
            whole = getattr(jac, form)(arrays, u)
            for pair in combinations(jac.wrt, min(2, len(jac.wrt))):
                found = getattr(jac.select(list(pair)), form)(arrays, u)
                assert list(found) == list(pair)
                for n in pair:
                    np.testing.assert_array_equal(found[n], whole[n])


def test_a_module_computes_the_gradients_that_are_named():
    jac = compiled(MLP, "all")
    arrays = list(arrays_for(jac).values())
    u = np.ones((3, 3))
    assert list(jac.module.vjp(*arrays, u, wrt="b1")) == ["b1"]
    assert list(jac.module.vjp_per_sample(*arrays, u, wrt=["W2", "x"])) == ["x", "W2"]
    single = [a[0] if n == 0 else a for n, a in enumerate(arrays)]
    assert jac.module.vjp(*single, u[0], wrt=("x",))["x"].shape == (4,)
    assert list(jac.module.pullback(*arrays)[1](u, wrt=["W1"])) == ["W1"]
    with pytest.raises(jac.module.ArgumentError, match="no gradient for 'W3'"):
        jac.module.vjp(*arrays, u, wrt="W3")
