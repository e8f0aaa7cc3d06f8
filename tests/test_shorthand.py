"""Laws of one-liners: joining, splitting, and what is assumed."""

from __future__ import annotations

import pytest

from symgrad.errors import LayerSyntaxError
from symgrad.parse import parse

READ = [
    ("σ(Wx + b)", "x: input[n] | W: param[m, n] | b: param[m] | y = σ(W @ x + b)"),
    (
        "W2 tanh(W1 x + b1) + b2",
        (
            "x: input[n] | W2: param[m, h1] | W1: param[h1, n] | b1: param[h1] | b2: param[m]"
            " | y = W2 @ tanh(W1 @ x + b1) + b2"
        ),
    ),
    ("W(x + b)", "x: input[n] | W: param[m, n] | b: param[n] | y = W @ (x + b)"),
    ("z = Wᵀ·x", "x: input[n] | W: param[n, m] | z = W.T @ x"),
    ("2x + 1", "x: input[n] | y = 2 * x + 1"),
    ("x ⊙ b", "x: input[n] | b: param[n] | y = x * b"),
    ("f(x) + f", "x: input[n] | f: param[n] | y = f @ x + f"),
    ("f(x)", "x: input[n] | y = f(x)"),
    ("bax", "x: input[n] | b: param[h1] | a: param[h1] | y = b @ a * x"),
    ("xᵀ A x", "x: input[n] | A: param[n, n] | y = x.T @ A @ x"),
    ("W σ(V x)", "x: input[n] | W: param[m, h1] | V: param[h1, n] | y = W @ σ(V @ x)"),
    (
        "y[i] = sum[k](W[i, k] x[k]) + b[i]",
        "x: input[n] | W: param[m, n] | b: param[m] | y[i] = sum[k](W[i, k] * x[k]) + b[i]",
    ),
    ("mean(x) x", "x: input[n] | y = mean(x) * x"),
    ("softmax(W x, axis=-1)", "x: input[n] | W: param[m, n] | y = softmax(W @ x, axis=-1)"),
    ("einsum('ij,j->i', W, x)", None),
]


@pytest.mark.parametrize(("text", "wanted"), READ)
def test_a_one_liner_says_what_its_full_layer_says(text: str, wanted: str | None) -> None:
    layer = parse(text)
    lines = [line for line in str(layer).splitlines() if line]
    if wanted is not None:
        assert " | ".join(lines) == wanted
    assert parse(str(layer)) == layer


def test_every_assumption_is_told() -> None:
    said = parse("σ(Wx + b)").assumptions
    assert said == (
        "x is the input, of shape [n]",
        "W is a parameter, a matrix of shape [m, n]",
        "b is a parameter, a vector of shape [m]",
        "σ is a function applied element-wise",
        "Wx is read as W x",
        "the output is called y",
    )


def test_what_is_declared_beside_the_text_is_not_assumed() -> None:
    layer = parse("c W x / sqrt(n)", inputs={"x": "n"}, params={"W": "m n"}, consts={"c": ""})
    assert str(layer).endswith("y = c * W @ x / sqrt(n)\n")
    assert layer.assumptions == ("the output is called y",)


def test_a_full_layer_assumes_nothing() -> None:
    assert parse("x: input[n]\ny = x").assumptions == ()


@pytest.mark.parametrize(
    ("text", "column", "width"),
    [
        ("σ(Wx + ββ)", 8, 2),
        ("W x and b", 5, 3),
        ("Wᵀx + sigmod(x)", 7, 6),
        ("  W x + qqq", 9, 3),
        ("W tanh x", 3, 4),
        ("Wx + 9**9**9", 6, 7),
        ("Wx.shape", 4, 5),
        ("W x +", 6, 0),
    ],
)
def test_carets_point_into_the_users_own_text(text: str, column: int, width: int) -> None:
    with pytest.raises(LayerSyntaxError) as caught:
        parse(text)
    span = caught.value.span
    assert span is not None
    assert (span.line, span.column, span.end_column - span.column) == (1, column, width)


def test_a_full_layer_joins_nothing() -> None:
    with pytest.raises(LayerSyntaxError):
        parse("x: input[n]\nW: param[m, n]\ny = W x")


def test_sizes_avoid_names_in_use() -> None:
    layer = parse("W x + n")
    assert [str(d.dims[0]) for d in layer.declarations if d.name == "x"] == ["h1"]
