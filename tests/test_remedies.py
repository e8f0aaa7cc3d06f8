"""Laws of errors about a layer: each has a place and a remedy that can be typed."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.language.synonyms import SYNONYMS
from symgrad.language.vocabulary import FUNCTION_NAMES

VECTORS = "x: input[n]\nw: param[K]\n"

# text with the place marked | what the remedy says
RANGES = {
    "a free index too far": ("y[t] = ⟦x[t + 1]⟧ - x[t]", "range: y[t: n - 1] = ..."),
    "a free index of two": ("y[k, t] = w[k] * ⟦x[t + 1]⟧ * x[t]", "y[k, t: n - 1] = ..."),
    "a bound index too far": ("y = sum[t](x[t] * ⟦x[t + 2]⟧)", "range: sum[t: n - 2](...)"),
    "a range that does not follow": ("y = sum[q, r](⟦x[q + r]⟧)", "range: sum[q: n, r](...)"),
    "a range from nothing": ("y[⟦t⟧] = 3 * t", "range: y[t: n] = ..."),
    "a range of two lengths": ("y[t] = exp(x)[t] * ⟦exp(w)[t]⟧", "range: y[t: n] = ..."),
    "a position below 0": ("y[t] = ⟦x[t - 1]⟧ * x[t]", "p = pad(x, ((1, 0),)), and add 1"),
    "a causal convolution": (
        "y[t] = sum[k](where(t - k >= 0, w[k] * ⟦x[t - k]⟧, 0))",
        "p = pad(x, ((K - 1, 0),)), and add K - 1 to the position",
    ),
    "a stated range too large": ("y[t: 2 * n] = ⟦x[t]⟧", "range: y[t: n] = ..."),
    "no index at all": ("y = x⟦[n]⟧", "none outside is read"),
}


def marked(text):
    """Return a text without its marks, and the line and column of the first."""
    before = text[: text.index("⟦")]
    place = (before.count("\n") + 1, len(before) - before.rfind("\n"))
    return text.replace("⟦", "").replace("⟧", ""), place


@pytest.mark.parametrize("name", RANGES)
def test_an_access_outside_its_axis_says_how_to_state_the_range_or_to_pad(name):
    body, remedy = RANGES[name]
    text, place = marked(VECTORS + body.replace("x⟦[n]⟧", "x[⟦n⟧]"))
    with pytest.raises(sg.ShapeError) as caught:
        sg.derive(text)
    assert remedy in (caught.value.hint or ""), caught.value
    assert (caught.value.span.line, caught.value.span.column) == place


def test_the_remedy_of_a_causal_convolution_is_a_layer():
    text = VECTORS + "p = pad(x, ((K - 1, 0),))\ny[t] = sum[k](w[k] * p[t - k + K - 1])"
    jac = sg.compile(text, "all")
    got = jac.forward([[1.0, 2.0, 3.0]], [1.0, 10.0])
    assert got.tolist() == [[1.0, 12.0, 23.0]]


def test_sizes_that_fit_no_access_are_refused_with_its_place():
    text, place = marked("x: input[n, k]\ny = x[⟦2*k⟧, 0] * x[-1, n]")
    with pytest.raises(sg.ShapeError, match="at all sizes of n, k that were tried") as caught:
        sg.compile(text, "all")
    assert (caught.value.span.line, caught.value.span.column) == place


@pytest.mark.parametrize("text", ["x: input[n]\ny = x[:100]", "x: input[n]\ny = x[40:] * 2"])
def test_a_layer_that_needs_large_sizes_is_checked_at_them(text):
    assert sg.compile(text, "inputs").report is not None


def raised(tree):
    """Yield the calls that make errors of a layer, where they are raised or returned."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("LayerSyntaxError", "ShapeError", "CodegenError"):
                yield node


BESIDE = {
    ("check.py", "dims= names"),
    ("check.py", "cannot be"),
    ("check.py", "message"),
    ("declarations.py", "is declared twice"),
    ("declarations.py", "is not a name"),
    ("declarations.py", "is not a size"),
    ("declarations.py", "message"),
}
"""Errors about what stands beside a layer's text; `message` is the last of a function's binding."""


@pytest.mark.parametrize("package", ["check", "language"])
def test_every_error_about_a_layer_carries_its_place(package):
    for file in sorted((Path(sg.__file__).parent / package).glob("*.py")):
        for call in raised(ast.parse(file.read_text(encoding="utf-8"))):
            placed = len(call.args) > 1 or any(k.arg == "span" for k in call.keywords)
            said = ast.unparse(call.args[0])
            beside = any(file.name == name and words in said for name, words in BESIDE)
            assert placed or beside, f"{file.name}:{call.lineno}: {said} has no place"


FOREIGN = {
    "atan": "arctan?",
    "asin": "arcsin?",
    "acos": "arccos?",
    "atan2": "arctan2?",
    "ln": "log?",
    "pow": "a ** b",
    "power": "a ** b",
    "fabs": "abs?",
    "arcsine": "arcsin?",
    "logistic": "sigmoid?",
    "Sigmoid": "sigmoid?",
    "ReLU": "relu?",
    "LeakyReLU": "leaky_relu?",
    "mm": "A @ b",
    "matmul": "A @ b",
    "clamp": "clip?",
    "tahn": "tanh?",
    "sigmiod": "sigmoid?",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_function_of_another_library_is_translated_wherever_it_is_named(name):
    for text in (f"x: input[n]\ny = {name}(x)", f"{name}(x)"):
        with pytest.raises(sg.LayerSyntaxError, match="unknown") as caught:
            sg.layer(text)
        assert FOREIGN[name] in caught.value.hint
    with pytest.raises(AttributeError, match=re.escape(FOREIGN[name])):
        getattr(sg, name)
    with pytest.raises(sg.LayerSyntaxError, match=re.escape(FOREIGN[name])):
        sg.derive("σ(W x)", functions={"σ": name})


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("np.matmul(x, x)", "write A @ b"),
        ("math.atan(x)", "arctan?"),
        ("x.sum()", "bare name: sum(...)"),
        ("x.t()", "write a.T"),
        ("x.T()", ".T without parentheses"),
        ("np.pi * x", "write pi alone"),
        ("x.shape[0]", "a dim is a number"),
    ],
)
def test_an_attribute_of_another_library_is_translated(expression, said):
    with pytest.raises(sg.LayerSyntaxError) as caught:
        sg.layer(f"x: input[n]\ny = {expression}")
    assert said in caught.value.hint


def test_synonyms_lead_to_the_language_and_are_no_words_of_it():
    plain = {name.replace("_", "") for name in FUNCTION_NAMES}
    assert not plain & set(SYNONYMS)
    assert all(word == word.casefold().replace("_", "") for word in SYNONYMS)
    assert all(to in FUNCTION_NAMES for to in SYNONYMS.values() if to.isidentifier())


@pytest.mark.parametrize(
    ("text", "shapes", "said"),
    [
        ("x: input[5]\ny = x", [(2, 4)], "axis 1 of x has size 4, expected 5"),
        (
            "x: input[n]\nw: param[2*n + 1]\ny = x * w[:n]",
            [(2, 3), (6,)],
            "axis 0 of w has size 6, expected 2*n + 1 = 7, from axis 1 of x",
        ),
        (
            "x: input[n]\nw: param[k]\ny = x[k:]",
            [(2, 3), (4,)],
            "x[k:] reaches outside its axis of length n: a bound at 4 of 3",
        ),
        (
            "x: input[n]\nw: param[k]\ny[t: k] = x[t] * w[t]",
            [(2, 3), (4,)],
            "x[t] reaches outside its axis of length n: positions 0 to 3 of 3",
        ),
    ],
)
def test_a_size_that_does_not_fit_at_the_call_is_told_with_both_numbers(text, shapes, said):
    jac = sg.compile(text, "all", check=False)
    with pytest.raises(sg.ShapeError) as caught:
        jac.forward(*(np.ones(shape) for shape in shapes))
    assert caught.value.message == f"layer: {said}"


SAID = {
    "a letter of another alphabet": ("X: input[n]\ny = ⟦Χ⟧ * x", "unknown", "mean X? Χ looks"),
    "no axes": ("z: input⟦[]⟧\ny = x", "empty brackets", "x: input;"),
    "no indices": ("y = x⟦[]⟧", "empty brackets", "whole by its name"),
    "a mask for an index": ("y = x[⟦x > 0⟧]", "a mask cannot", "where(a > 0, a, 0)"),
    "half a position": ("y[i] = x[⟦i//2⟧]", "not a position", "2*t + k"),
    "a number that is no position": ("y = x[⟦0.5⟧]", "0.5 is not a position", "n - 1 - t"),
    "too many indices": ("y = ⟦x[0, 0]⟧", "x has 1 axis, but 2 are", "1 index at most"),
    "an index of a scalar": ("c: param\ny = ⟦c[0]⟧ * x", "c is a scalar", "the subscript out"),
}


@pytest.mark.parametrize("name", SAID)
def test_a_subscript_that_is_none_says_what_to_write(name):
    body, message, remedy = SAID[name]
    text, place = marked("x: input[n]\n" + body)
    with pytest.raises(sg.SymgradError, match=message) as caught:
        sg.derive(text, "all")
    assert remedy in caught.value.hint
    assert (caught.value.span.line, caught.value.span.column) == place


def test_a_range_that_comes_out_negative_is_told_as_a_size():
    jac = sg.compile("x: input[n]\ny[t: n - 1] = x[t + 1] - x[t]", "all", check=False)
    assert jac.forward(np.ones((2, 1))).shape == (2, 0)
    said = "the range of index t: the length n - 1 comes out as -1, a size cannot be negative"
    with pytest.raises(sg.ShapeError, match=re.escape(said)):
        jac.forward(np.ones((2, 0)))


def test_the_jacobian_of_one_sample_of_scalars_is_an_array():
    J = sg.compile("x: input\na: param\ny = a * x", check=False).jacobian(3, 2)
    assert np.asarray(J["a"]) == 3.0


ROLES = {
    "x ⟦input⟧[n]": "has a colon: x: input[n]",
    "x: ⟦Input⟧[n]": "did you mean input?",
    "x: ⟦parameter⟧[n]": "did you mean param?",
    "x: ⟦weight⟧[n]": "did you mean param?",
    "x: ⟦input(n)⟧": "in brackets: input[n]",
    "x: param[m ⟦n⟧]": "by commas: W: param[m, n]",
    "x: ⟦foo⟧[n]": "roles are declared so",
}


@pytest.mark.parametrize("line", ROLES)
def test_a_declaration_that_is_none_says_how_it_is_written(line):
    text, place = marked(line + "\ny = x")
    with pytest.raises(sg.LayerSyntaxError) as caught:
        sg.layer(text)
    assert ROLES[line] in caught.value.hint
    assert (caught.value.span.line, caught.value.span.column) == place


@pytest.mark.parametrize("text", ["|x|", "x / ‖x‖", "a ⊗ x", "∂x", "⟨a, x⟩", "tanh（x）"])
def test_a_sign_of_mathematics_is_answered_with_a_function(text):
    with pytest.raises(sg.LayerSyntaxError) as caught:
        sg.layer(text)
    assert caught.value.hint
    assert "a line is" not in caught.value.hint
