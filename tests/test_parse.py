"""Laws of the front end: what is read, and where and how the rest is refused."""

from __future__ import annotations

import pytest

from symgrad.dims import Dim
from symgrad.errors import LayerSyntaxError, SymgradError
from symgrad.language.vocabulary import FUNCTION_NAMES, ROLES
from symgrad.parse import parse
from symgrad.syntax import (
    Alias,
    Assign,
    Binary,
    Binder,
    Domain,
    Name,
    Number,
    Reduction,
    Start,
    Transposed,
)

HEAD = "x: input[n]\nW: param[m, n]\nb: param[m]\n"

EXPRESSIONS = [
    "W @ x + b",
    "W[0, :] * x",
    "W[..., None, 1:-1:2]",
    "W.T[-1]",
    "where((x > 0) & ~(x >= 2) | (0 < x < 1), x, -x)",
    "sum(W, axis=(0, -1), keepdims=True)",
    "sum(W, axis=None)",
    "einsum('ij,j->i', W, x)",
    "concatenate([b, b], axis=0)",
    "reshape(W, (n * m,))",
    "pad(x, ((0, k - 1),))",
    "sum[i, j: m](W[j, i])",
    "max[k](x[k])",
    "b / sqrt(n) + pi * π",
    "σ(x) + f2(x)",
    "W · x ⊙ b",
    "Wᵀ @ b",
    "2**-1 * (-x)**2",
    "zeros(q) + eye(3)[0]",
    "x[: n - 1]",
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_every_construct_of_the_language_is_read(text: str) -> None:
    assert parse(f"{HEAD}y = {text}").output_names == ("y",)


def test_declarations_hold_role_axes_vocabulary_and_default() -> None:
    layer = parse(
        "x: input\nt: index(v)[T]\ns: index(v)\nW: param[h*d, (n - 1)//2 + 1, 3]\n"
        "eps: const = -1e-5\ny = x + eps"
    )
    roles = [(d.name, d.role, len(d.dims)) for d in layer.declarations]
    assert roles == [
        ("x", "input", 0),
        ("t", "index", 1),
        ("s", "index", 0),
        ("W", "param", 3),
        ("eps", "const", 0),
    ]
    assert layer.declarations[1].vocabulary == Dim.of("v")
    assert layer.declarations[3].dims[1] == (Dim.of("n") - 1) // 2 + 1
    assert layer.declarations[4].default == -1e-5


def test_statements_of_every_kind_become_their_nouns() -> None:
    layer = parse(
        '\ufeff"""A title."""\n# name: W = a.W\nx: input[T, n]\nW: param[n, n]\ns: param[n]\n'
        "def f(a):\n    c = 2*a\n    return c\n"
        "assert s > 0\nh[-1, i] = s[i]\nh[t: T, i] = f(h[t - 1, i]) + sum[k](W[i, k]*x[t, k])\n"
        "y = W.T @ h[T - 1]\nreturn y, h"
    )
    assert layer.title == "A title."
    assert layer.aliases == (Alias("W", "a.W"),)
    assert layer.outputs == ("y", "h")
    assert layer.macros[0].arguments == ("a",)
    domain, start, step, last = layer.statements
    assert isinstance(domain, Domain)
    assert isinstance(start, Start) and (start.lag, start.binders) == (1, (Binder("i"),))
    assert isinstance(step, Assign) and step.binders == (Binder("t", Name("T")), Binder("i"))
    assert isinstance(step.value, Binary) and isinstance(step.value.right, Reduction)
    assert isinstance(last, Assign) and isinstance(last.value, Binary)
    assert last.value.left == Transposed(Name("W"))


def test_a_block_sees_later_arrays_at_earlier_steps_only() -> None:
    head = "x: input[T]\n"
    parse(head + "h[t: T] = c[t - 1] + x[t]\nc[-1] = 1\nc[t: T] = h[t] * c[t - 2]\n")
    with pytest.raises(LayerSyntaxError, match="used before") as caught:
        parse(head + "h[t: T] = c[t] + x[t]\nc[t: T] = h[t]\n")
    assert caught.value.hint is not None and "c[t - 1]" in caught.value.hint


def test_names_fold_as_python_folds_them() -> None:
    assert parse("ϕ: input\ny = φ").declarations[0].name == "φ"
    with pytest.raises(LayerSyntaxError, match="twice"):
        parse("y = φ", inputs={"φ": ""}, params={"ϕ": ""})


def test_an_index_hides_a_dim_and_an_array() -> None:
    parse("x: input[n]\nW: param[n]\ny[n] = x[n] * n\nz[W] = x[W]")


def test_declarations_beside_the_text_come_in_declared_order() -> None:
    layer = parse(
        "z = c * (W @ x)\ny = z + b",
        consts={"c": ""},
        params={"b": "m", "W": "m n"},
        inputs={"x": "n"},
    )
    assert [d.name for d in layer.declarations] == ["x", "W", "b", "c"]


def test_a_bad_name_beside_the_text_has_no_place_in_it() -> None:
    with pytest.raises(LayerSyntaxError, match="exp is a function") as caught:
        parse("W x", inputs={"exp": "n"})
    assert caught.value.span is None


def test_sizes_with_spaces_are_cut_at_commas() -> None:
    layer = parse("x[0, 0]", inputs={"x": "t - k + 1, h*d"})
    assert layer.declarations[0].dims == (Dim.of("t") - "k" + 1, Dim.of("h") * "d")


PLACES = [
    ("γγ = W @ x + (ααα and b)", 19, 3, "&"),
    ("y = x or b", 7, 2, "|"),
    ("y = not b", 5, 3, "~"),
    ("y = αβγ + x", 5, 3, "declare"),
    ("y = sigmod(x)", 5, 6, "sigmoid"),
    ("y = 'αα' + x", 5, 4, "einsum"),
    ("y = x − b", 7, 1, "hyphen"),
    ("y = x × b", 7, 1, "a * b"),
    ("y = x²", 6, 1, "x**2"),
    ("y = x₁", 6, 1, "x1"),
    ("y = x′", 6, 1, None),
    ("y = x ^ 2", 7, 1, "**"),
    ("y = x % 2", 7, 1, None),
    ("y = lambda a: a", 5, 11, "def"),
    ("y = x if b else x", 5, 13, "where"),
    ("y = [i for i in x]", 5, 14, None),
    ("y = x.shape", 7, 5, "a dim is a number"),
    ("y = np.tanh(x)", 8, 4, "tanh("),
    ("y = (z := x)", 6, 6, None),
    ("y = exp(*x)", 9, 2, None),
    ("y = f'{x}'", 5, 6, None),
    ("y += 1", 1, 6, "new name"),
    ("import os", 1, 9, None),
    ("for i in x: y = i", 1, 17, None),
    ("y = 9**9**9", 5, 7, None),
    ("y = αα(1e999)", 8, 5, None),
    ("y = x + 1/0", 9, 3, None),
    ("y = 2j", 5, 2, None),
    ("y = True", 5, 4, None),
    ("y = x + (1, 2)", 9, 6, None),
    ("y = W(x)", 5, 4, "@"),
    ("y = y + 1", 5, 1, None),
    ("gamma = x", 1, 5, "γ"),
    ("input = x", 1, 5, None),
    ("π = x", 1, 1, None),
    ("n = x", 1, 1, None),
    ("x = W", 1, 1, None),
    ("y = sum[k](W[i, k])", 14, 1, "sum[i]"),
    ("y[i] = sum[i](W[i, i])", 12, 1, None),
    ("y[i, i] = W[i, i]", 6, 1, "delta"),
    ("h[-1] = b", 1, 9, "step"),
    ("h[0] = b", 3, 1, "h[-1]"),
    ("a = c = x", 5, 1, None),
    ("q: param[-1]", 10, 2, None),
    ("q: param[n/2]", 11, 1, "//"),
    ("q: param[n.m]", 10, 3, None),
    ("q: param = 3", 12, 1, "const"),
    ("q: weight[n]", 4, 6, None),
    ("assert x > 0, 'a'", 15, 3, None),
    ("y = W x + b", 7, 1, "one-liners"),
]


@pytest.mark.parametrize(("line", "column", "width", "word"), PLACES)
def test_what_is_not_of_the_language_is_refused_at_its_place(
    line: str, column: int, width: int, word: str | None
) -> None:
    text = f"{HEAD}{line}\nlast = x\n"
    with pytest.raises(LayerSyntaxError) as caught:
        parse(text, filename="a.sg")
    error = caught.value
    assert error.span is not None
    assert (error.span.line, error.span.column) == (4, column), str(error)
    assert error.span.end_column - error.span.column == width, str(error)
    assert f"a.sg:4:{column}: " in str(error)
    assert f"\n    {' ' * (column - 1)}{'^' * width}" in str(error)
    if word is not None:
        assert error.hint is not None and word in error.hint


def test_carets_stand_right_behind_tabs() -> None:
    with pytest.raises(LayerSyntaxError) as caught:
        parse(f"{HEAD}y =\tβ\t+ qq")
    assert "\n       \t^" in str(caught.value)
    assert caught.value.span is not None and caught.value.span.column == 5


@pytest.mark.parametrize(
    "text",
    [
        "",
        "y =",
        "y = " + "(" * 300 + "x" + ")" * 300,
        HEAD + "y = " + "-" * 5000 + "x",
        HEAD + "y = x" + " + x" * 5000,
        HEAD + "y = x" + ".T" * 400,
        HEAD + "y = 1" + "0" * 400,
        HEAD + "y = 1" + "0" * 5000,
        HEAD + "y = 1\x00",
        HEAD + "y = 1\ud800",
        HEAD + 'y = """abc',
        HEAD + "y = x[k",
        HEAD + "def f(a): return f(a)\ny = f(x)",
        HEAD + "def f(a): return g(a)\ndef g(a): return f(a)\ny = f(x)",
        HEAD + "def f(a): return a * W\ny = f(x)",
        HEAD + "def f(a, a): return a\ny = f(x, x)",
        HEAD + "def f(a=1): return a\ny = f(x)",
        HEAD + "def f(a): return a\ny = f(x, x)",
        HEAD + "y = x\nreturn y, y",
        HEAD + "y = x\nreturn y\nz = x",
        HEAD + "y = x\nreturn y + 1",
        HEAD + "# name: q = a.q\ny = x",
        HEAD + "# name: x = a\n# name: b = a\ny = x",
        HEAD + "h[-1] = b\nh[-1] = b\nh[t: n] = h[t - 1]",
        HEAD + "𝐝𝐞𝐟 = x",
    ],
)
def test_bad_texts_end_in_one_clean_error(text: str) -> None:
    with pytest.raises(LayerSyntaxError):
        parse(text)


@pytest.mark.parametrize("word", sorted({*FUNCTION_NAMES, *ROLES}))
def test_words_of_the_language_name_nothing_else(word: str) -> None:
    for text in (f"{word}: input\ny = {word}", f"x: input[{word}]\ny = x", f"x: input\n{word} = x"):
        with pytest.raises(SymgradError):
            parse(text)


def test_numbers_keep_their_value() -> None:
    layer = parse("x: input\ny = x + 1e-05")
    (line,) = layer.statements
    assert isinstance(line, Assign) and isinstance(line.value, Binary)
    assert line.value.right == Number(1e-5)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_count_alike_for_every_newline(newline: str) -> None:
    with pytest.raises(LayerSyntaxError) as caught:
        parse(newline.join(["    x: input[n]", "    z = x", "    y = zz"]))
    assert caught.value.span is not None
    assert (caught.value.span.line, caught.value.span.column) == (3, 9)


LAYERS = [
    """\
x: input[t, e]
Wq: param[d, e]
Wk: param[d, e]
Wv: param[d, e]
q = x @ Wq.T
k = x @ Wk.T
v = x @ Wv.T
A = softmax(q @ k.T / sqrt(d), axis=-1)
y = A @ v
""",
    """\
u: input[n]
v: input[k]
A: param[m, n, k]
b: param[m]
y[i] = sum[p](sum[q](A[i, p, q] * u[p] * v[q])) + b[i]
""",
    """\
x: input[c, t]
w: param[o, c, k]
b: param[o]
y[f, s] = relu(sum[p](sum[q](w[f, p, q] * x[p, s + q])) + b[f])
""",
    """\
x: input[n]
W: param[m, n]
b: param[m]
z = W @ x + b
y = gelu(z)
""",
    """\
x: input[n]
W: param[m, n]
b: param[m]
z = W @ x + b
y = identity(z)
""",
    """\
x: input[n]
W: param[m, n]
b: param[m]
z = W @ x + b
y = relu(z)
""",
    """\
x: input[n]
W: param[m, n]
b: param[m]
z = W @ x + b
y = sigmoid(z)
""",
    """\
x: input[n]
W: param[m, n]
b: param[m]
z = W @ x + b
y = silu(z)
""",
    """\
x: input[n]
W: param[m, n]
b: param[m]
z = W @ x + b
y = softplus(z)
""",
    """\
x: input[n]
W: param[m, n]
b: param[m]
z = W @ x + b
y = tanh(z)
""",
    """\
t: index(v)
E: param[v, d]
W: param[v, d]
y = W @ E[t]
""",
    """\
x: input[n]
W: param[m, n]
b: param[m]
y = W @ x + b
""",
    """\
x: input[n]
g: param[n]
b: param[n]
mu = mean(x)
v = var(x)
y = g * (x - mu) / sqrt(v + 1e-5) + b
""",
    """\
x: input[n]
W1: param[h, n]
b1: param[h]
W2: param[m, h]
b2: param[m]
a = tanh(W1 @ x + b1)
y = W2 @ a + b2
""",
    """\
x: input[n]
y[i, j] = x[i] * x[j]
""",
    """\
x: input[T, n]
U: param[m, m]
W: param[m, n]
b: param[m]
V: param[k, m]
h[t: T] = tanh(U @ h[t - 1] + W @ x[t] + b)
y = V @ h[T - 1]
""",
    """\
x: input[t, n]
W: param[m, n]
b: param[m]
y = tanh(x @ W.T + b)
""",
    """\
x: input[n]
W: param[m, n]
b: param[m]
y = softmax(W @ x + b)
""",
    """\
x: input
a: param
b: param
c: param
y = exp(log(b * a * x) + c)
""",
    """\
x: input
a: param
b: param
c: param
y = exp(log(b * a * x) + stop_gradient(c))
""",
    """\
x: input[n]
W: param[n, n]
b: param[n]
a = relu(W @ x + b)
y = W @ a + b
""",
]


@pytest.mark.parametrize("text", LAYERS)
def test_known_layers_read_back_as_themselves(text: str) -> None:
    layer = parse(text)
    assert parse(str(layer)) == layer
