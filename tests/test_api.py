"""Laws of the public face: what a layer may be given as, and how a derivation is asked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg

FULL = '''"""One dense layer."""
x: input[n]
W: param[m, n]
b: param[m]
eps: const = 1e-05

z = W @ x + b
y = tanh(z) + eps
'''
CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))


def signature(layer):
    """Return role, name and shape of every declaration."""
    return [(d.role, d.name, [str(a) for a in d.dims]) for d in layer.declarations]


# ------------------------------------------------------------------ a layer


def test_declarations_beside_a_text_are_those_inside_it():
    beside = sg.layer(
        "tanh(W @ x + b) * c + eps",
        inputs={"x": "n"},
        params={"W": "m n", "b": "m", "c": ""},
        consts={"eps": ""},
        name="dense",
    )
    assert signature(beside) == [
        ("input", "x", ["n"]),
        ("param", "W", ["m", "n"]),
        ("param", "b", ["m"]),
        ("param", "c", []),
        ("const", "eps", []),
    ]
    assert beside.name == "dense"
    assert beside.output_names == ("y",)


def test_sizes_beside_a_text_may_be_polynomials_and_numbers():
    layer = sg.layer("sum(x) * k", inputs={"x": "t - w + 1, 3"}, params={"k": "h*d"})
    assert signature(layer) == [("input", "x", ["t - w + 1", "3"]), ("param", "k", ["d*h"])]


@pytest.mark.parametrize(
    ("sizes", "axes"),
    [("n - 1", ["n - 1"]), ("n,", ["n"]), ("3 n-1", ["3", "n - 1"]), (" h*d ", ["d*h"]), ("", [])],
)
def test_sizes_are_read_alike_beside_a_text_and_in_python(sizes, axes):
    assert signature(sg.layer("x", inputs={"x": sizes})) == [("input", "x", axes)]
    built = sg.layer(sg.input("x", sizes) * 1)
    assert signature(built) == [("input", "x", axes)]


@pytest.mark.parametrize("sizes", ["n - 1 m", "n,,m", "n -", "1.5"])
def test_sizes_that_cannot_be_read_are_refused_alike(sizes):
    with pytest.raises(sg.LayerSyntaxError, match=r"is not a size|a size is expected"):
        sg.layer("x", inputs={"x": sizes})
    with pytest.raises(sg.LayerSyntaxError, match=r"is not a size|a size is expected"):
        sg.input("x", sizes)


def test_declared_order_is_inputs_params_consts_by_first_appearance():
    layer = sg.layer("c * (V @ (W @ x)) + z", params={"W": "m n", "V": "m m"},
                     consts={"c": ""}, inputs={"z": "m", "x": "n"})  # fmt: skip
    assert [d.name for d in layer.declarations] == ["x", "z", "V", "W", "c"]
    x, V, W = np.ones((2, 3)), np.eye(2), np.ones((2, 3))
    compiled = sg.compile(layer, check=False)
    assert np.array_equal(compiled.forward(x, np.zeros((2, 2)), V, W, 2.0), np.full((2, 2), 6.0))


def test_a_string_is_a_path_exactly_if_it_ends_in_sg_and_holds_no_newline(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("dense.sg").write_text(FULL, encoding="utf-8")
    for given in ("dense.sg", str(tmp_path / "dense.sg"), tmp_path / "dense.sg"):
        assert sg.layer(given) == sg.load(given) == sg.layer(FULL, name="dense")
        assert sg.derive(given).text() == sg.derive(FULL).text()
    with pytest.raises(sg.LayerSyntaxError, match="cannot read"):
        sg.layer("none.sg")
    # a newline makes it a text, whatever it ends in
    assert sg.layer("x: input\ny = x # dense.sg").output_names == ("y",)
    Path("dense.txt").write_text(FULL, encoding="utf-8")
    with pytest.raises(sg.LayerSyntaxError):
        sg.layer("dense.txt")
    assert sg.load("dense.txt").output_names == ("y",)


def test_a_file_gives_its_name_and_what_stands_beside_it_counts(tmp_path):
    path = tmp_path / "two words.sg"
    path.write_text("W @ x", encoding="utf-8")
    assert sg.load(path).name == "two_words"
    assert sg.load(path, name="other").name == "other"
    layer = sg.layer(str(path), inputs={"x": "k"}, params={"W": "3 k"})
    assert signature(layer) == [("input", "x", ["k"]), ("param", "W", ["3", "k"])]


def test_a_bom_is_allowed_and_moves_no_column(tmp_path):
    path = tmp_path / "a.sg"
    path.write_bytes(b"\xef\xbb\xbfx: input\ny = x")
    assert sg.load(path) == sg.layer("x: input\ny = x", name="a")
    path.write_bytes(b"\xef\xbb\xbfq = x: input\ny = x")
    with pytest.raises(sg.LayerSyntaxError) as caught:
        sg.load(path)
    assert caught.value.span.column == 6


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_text_of_a_layer_reads_back_as_the_layer(path):
    layer = sg.layer(json.loads(path.read_text())["layer"])
    again = sg.layer(str(layer))
    assert again == layer
    assert str(again) == str(layer)


@pytest.mark.parametrize(
    "text", [FULL, "σ(Wx + b)", "V softmax(Wᵀ x · c)", "y = W1 x ⊙ W2 x", "sum[k](W[i, k] * x[k])"]
)
def test_one_liners_read_back_as_full_layers(text):
    try:
        layer = sg.layer(text)
    except sg.LayerSyntaxError:
        assert "[i" in text, "only the unbound index is refused"
        return
    again = sg.layer(str(layer), name=layer.name)
    assert again == layer
    assert again.assumptions == ()


def test_assumptions_say_what_a_one_liner_left_open():
    layer = sg.layer("σ(Wx + b)")
    assert "x is the input, of shape [n]" in layer.assumptions
    assert "W is a parameter, a matrix of shape [m, n]" in layer.assumptions
    assert "b is a parameter, a vector of shape [m]" in layer.assumptions
    assert any("Wx is read as W x" in line for line in layer.assumptions)
    assert sg.layer(FULL).assumptions == ()


def test_a_layer_is_taken_wherever_its_text_is():
    layer = sg.layer(FULL, name="dense")
    assert sg.layer(layer) is layer
    assert sg.layer(layer, name="other").name == "other"
    assert sg.derive(layer).text() == sg.derive(FULL).text()
    assert sg.compile(layer, check=False).source != ""
    assert sg.check(layer, batch=2).ok
    assert sg.check(FULL, batch=2).ok


# ------------------------------------------------------------------ a derivation


def test_a_derivation_is_asked_by_parameter():
    d = sg.derive(FULL)
    assert list(d) == ["W", "b"]
    assert d["W"].text() in d.text()
    assert "W" in d["W"].text() and "δ_ij" in d["W"].text()
    assert str(d) == d.text()
    kinds = list(dict.fromkeys(step.kind for step in d.steps))
    assert kinds == ["definitions", "local derivatives", "chain rule", "result"]


def test_several_outputs_are_asked_by_output_and_parameter():
    d = sg.derive("x: input[n]\nW: param[m, n]\ny = W @ x\nz = tanh(y)\nreturn z, y")
    assert list(d) == [("z", "W"), ("y", "W")]
    assert d["y", "W"].text() in d.text()
    with pytest.raises(sg.SelectionError, match="outputs z, y"):
        d["W"]


def test_names_are_folded_as_python_folds_them():
    text = "ϕ: input[n]\nµ: param[n]\ny = φ * μ"
    assert sg.derive(text, "ϕ")["ϕ"].text() == sg.derive(text, "φ")["φ"].text()
    assert sg.derive("x: input\ny = ϑ(x)", "x", functions={"θ": "tanh"}).text()


def test_the_two_styles_of_latex_differ_and_are_whole():
    d = sg.derive(FULL)
    index, matrix = d.latex(), d.latex(style="matrix")
    assert index == d.latex(style="index") != matrix
    for text in (index, matrix):
        assert text.count("{") == text.count("}")
        assert text.count(r"\begin{") == text.count(r"\end{")


def test_axes_of_length_one_lose_their_index():
    d = sg.derive("σ(W x + b)", dims={"m": 1})
    assert "δ" not in d["W"].text()
    assert "σ'" in d["W"].text()


def test_dims_may_be_numbers_of_numpy_and_polynomials():
    by_int = sg.derive(FULL, dims={"n": 3}).text()
    assert sg.derive(FULL, dims={"n": np.int64(3)}).text() == by_int
    assert sg.derive(FULL, dims={"n": "3"}).text() == by_int
    compiled = sg.compile(FULL, dims={"n": "2*m"}, check=False)
    assert compiled.forward(np.ones((5, 4)), np.ones((2, 4)), np.ones(2)).shape == (5, 2)
    with pytest.raises(sg.ShapeError):
        compiled.forward(np.ones((5, 3)), np.ones((2, 3)), np.ones(2))


def test_an_abstract_function_is_bound_to_a_function_or_a_macro():
    text = "def f(a):\n    return a * a\nx: input[n]\nw: param[n]\ny = σ(w * x)"
    x, w = np.full((2, 3), 2.0), np.full(3, 0.5)
    square = sg.compile(text, functions={"σ": "f"}, check=False)
    assert np.array_equal(square.forward(x, w), np.ones((2, 3)))
    tanh = sg.compile(text, functions={"σ": "tanh"}, check=False)
    assert np.allclose(tanh.forward(x, w), np.tanh(1.0), rtol=1e-15, atol=0)


def test_a_module_is_never_written_over_a_layer(tmp_path):
    file = tmp_path / "own.sg"
    file.write_text("x: input[n]\ny = tanh(x)\n")
    with pytest.raises(sg.ArgumentError, match="name of a layer"):
        sg.compile(str(file), wrt="inputs", path=str(file))
    assert file.read_text().startswith("x: input")


def test_indices_are_declared_beside_a_text_among_its_inputs():
    layer = sg.layer("log_softmax(W x)[t]", inputs={"x": "d", "t": "index(v)"})
    assert signature(layer) == [
        ("input", "x", ["d"]),
        ("index", "t", []),
        ("param", "W", ["v", "d"]),  # the axis that t gathers from has its vocabulary
    ]
    assert str(layer.declaration("t").vocabulary) == "v"
    rows = sg.layer("E[t]", inputs={"t": "index(2*v)[3, T]"}, params={"E": "2*v, d"})
    assert signature(rows)[0] == ("index", "t", ["3", "T"])
    got = sg.compile(rows, check=False).forward(np.ones((1, 3, 2), int), np.eye(4))
    assert got.shape == (1, 3, 2, 4)


@pytest.mark.parametrize(
    "beside",
    [
        {"inputs": {"t": "index"}},
        {"inputs": {"t": "index(v) T"}},
        {"inputs": {"t": "index(v"}},
        {"params": {"t": "index(v)"}},
    ],
)
def test_an_index_beside_a_text_that_cannot_be_read_is_shown_how_to_write_it(beside):
    with pytest.raises(sg.LayerSyntaxError) as caught:
        sg.layer("E[t]", **beside)
    assert 'inputs={"t": "index(v)"}' in caught.value.hint


@pytest.mark.parametrize("call", [sg.compile, sg.derive, sg.check])
def test_an_unknown_keyword_is_refused_by_the_function_that_was_called(call):
    said = rf"^{call.__name__}\(\) has no argument functoins"
    with pytest.raises(TypeError, match=said) as caught:
        call("tanh(x)", functoins={})
    assert caught.value.hint == "did you mean functions=?"
    with pytest.raises(sg.ArgumentError) as caught:
        call("tanh(x)", foo=1)
    assert "inputs, params, consts, domain, name" in caught.value.hint
    assert "wrt" in caught.value.hint


# ------------------------------------------------------------------ how things show themselves


def test_what_a_prompt_shows_is_short():
    layer = sg.layer(FULL, name="dense")
    assert repr(layer) == 'Layer("dense": x, W, b, eps -> y)'
    jac = sg.compile(layer)
    assert "dense: y wrt W, b" in repr(jac) and "\n" not in repr(jac)
    assert repr(jac.report) == str(jac.report)
    J = jac.jacobian(np.ones((5, 2)), np.ones((3, 2)), np.ones(3))
    assert repr(J["b"]) == "dy/db[b, i, j] of shape (5, 3, 3) = delta(i, j) * J[b, i]"
    assert repr(J).splitlines() == [repr(block) for block in J.values()]


def test_a_long_list_of_jacobians_is_cut():
    names = [f"w{k}" for k in range(30)]
    jac = sg.compile(" + ".join(f"{w} * x" for w in names), inputs={"x": ""}, check=False,
                     params=dict.fromkeys(names, ""))  # fmt: skip
    shown = repr(jac.jacobian(np.ones(2), *[1.0] * 30)).splitlines()
    assert len(shown) == 20
    assert shown[-1] == "... and 11 more"


def test_a_module_is_written_over_modules_only(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("print('mine')\n")
    with pytest.raises(sg.ArgumentError, match=r"mine\.py exists.*\n.*force=True"):
        sg.compile(FULL, path=path, check=False)
    assert path.read_text() == "print('mine')\n"
    assert sg.compile(FULL, path=path, check=False, force=True).path == path
    assert sg.compile(FULL, path=path, check=False, wrt="W").wrt == ("W",)


def test_a_check_takes_what_is_compiled_as_it_is(tmp_path):
    path = tmp_path / "dense_jac.py"
    jac = sg.compile(FULL, path=path, check=False, wrt="all")
    assert {a.parameter for a in sg.check(jac.select("W")).agreements} == {"W"}
    assert {a.parameter for a in sg.check(path, "b").agreements} == {"b"}
    for wrong in ({"functions": {"σ": "tanh"}}, {"params": {"W": "m n"}}):
        with pytest.raises(sg.ArgumentError, match="compiled already"):
            sg.check(jac, **wrong)


def test_the_command_line_takes_no_name_away():
    before = dir(sg)
    import symgrad.cli  # noqa: F401

    assert set(before) <= set(dir(sg))
