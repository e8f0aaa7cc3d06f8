"""Law of writing: what is written reads back as the same layer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symgrad.dims import Dim
from symgrad.parse import parse
from symgrad.syntax import (
    Alias,
    Assign,
    Binary,
    Binder,
    Call,
    Compare,
    Declaration,
    Expr,
    Flag,
    Keyword,
    Layer,
    Name,
    Number,
    Reduction,
    Sequence,
    Slice,
    Subscript,
    Transposed,
    Unary,
)
from symgrad.write import write

DECLARED = (
    Declaration("x", "input", (Dim.of("n"),)),
    Declaration("W", "param", (Dim.of("m"), Dim.of("n"))),
    Declaration("t", "index", (Dim.of("T"),), Dim.of("v")),
    Declaration("eps", "const", (), None, -1e-5),
)


def _numbers() -> st.SearchStrategy[Expr]:
    floats = st.floats(0, 1e6, allow_nan=False, allow_infinity=False)
    return st.builds(Number, st.one_of(st.integers(0, 99), floats))


def _grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    operators = st.sampled_from(["+", "-", "*", "@", "&", "|", "·"])
    comparisons = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
    plain = st.one_of(
        st.builds(Unary, st.sampled_from(["-", "+", "~"]), inner),
        st.builds(Binary, operators, inner, inner),
        st.builds(Binary, st.sampled_from(["/", "**"]), inner, st.sampled_from([Name("x")])),
        st.builds(Binary, st.just("**"), st.sampled_from([Name("W")]), inner),
        st.builds(Transposed, inner),
        st.builds(lambda a, b: Call("exp", (a,), (Keyword("axis", b),)), inner, inner),
        st.builds(lambda a: Call("sum", (a,), (Keyword("keepdims", Flag(True)),)), inner),
        st.builds(lambda a, b: Call("stack", (Sequence((a, b), "[]"),)), inner, inner),
        st.builds(lambda a: Call("stack", (Sequence((a,)),)), inner),
    )
    compares = st.one_of(  # a flatmap would make new strategies in each draw, which takes a minute
        st.builds(Compare, st.tuples(*[comparisons] * n), st.tuples(*[inner] * (n + 1)))
        for n in (1, 2, 3)
    )
    reads = st.builds(
        lambda a, lower, step: Subscript(a, (Slice(lower, None, step), Name("n"))),
        inner,
        st.one_of(st.none(), st.just(Unary("-", Number(1)))),
        st.one_of(st.none(), st.just(Number(2))),
    )
    sums = st.builds(
        lambda a: Reduction("sum", (Binder("k"), Binder("q", Number(2))), a), inner
    ).filter(lambda made: "[k" not in str(write_body(made.body)))
    return st.one_of(plain, compares, reads, sums)


def write_body(expr: Expr) -> str:
    """Return an expression's text."""
    return write(Layer(DECLARED, (Assign("y", None, expr),)))


EXPRESSIONS = st.recursive(
    st.one_of(_numbers(), st.sampled_from([Name("x"), Name("W"), Name("n"), Name("pi")])),
    _grow,
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS, st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12))
def test_any_layer_reads_back_as_itself(expr: Expr, title: str) -> None:
    from symgrad.language.expressions import MAX_DEPTH  # a deeper one is refused, by design

    assert MAX_DEPTH > 12
    layer = Layer(DECLARED, (Assign("y", None, expr),), title=" ".join(title.split()))
    assert parse(write(layer)) == layer


@pytest.mark.parametrize(
    "text",
    [
        '"""A \\"quoted\\" \\\\title"""\nx: input[n]\ny = x',
        '"""Two\n\n    lines"""\nx: input[n]\ny = x',
        "# name: w_1 = layers.0.w\nw_1: input[n]\ny = w_1",
        "x: input[(2*t - k)//2 + 1, h*d]\nt_: index(v + 1)[T]\ny = x",
        "x: input[T]\nh[-2] = 1\nh[-1] = 2\nh[t: T] = h[t - 1] + h[t - 2] + x[t]\ny = h[T - 1]",
        "x: input\ndef f(a, b):\n    c = a * b\n    return c + a\n\ny = f(x, 2)\nassert 0 < x < 1",
        "x: input[n]\ny[i: n - 1] = x[i + 1] - x[i]\nz = (-x)**2 - -x**2 + 2**-x\nreturn z, y",
        "x: input\neps: const = 1e-05\nk: const = 3\ny = x * eps - (x - k) - (x / (eps / k))",
        "x: input[n]\ny = ~(x > 0) & (x < 1) | ((x < 1) == (x > 2))",
        'x: input[n]\ny = einsum("i,i->", x, x) + sum(x, axis=None)',
    ],
)
def test_written_text_is_a_fixed_point(text: str) -> None:
    layer = parse(text)
    assert parse(write(layer)) == layer
    assert write(parse(write(layer))) == write(layer)


def test_parentheses_are_the_fewest() -> None:
    text = "x: input[n]\n\ny = (x + 1) * x - (x - 2) / -x**2 * (-x)**(x + 1)\n"
    assert write(parse(text)) == text


def test_aliases_and_titles_stand_first() -> None:
    layer = Layer(
        (Declaration("a_b", "input", ()),),
        (Assign("y", None, Name("a_b")),),
        title='say "hi"',
        aliases=(Alias("a_b", "a.b"),),
    )
    assert write(layer) == '"""say "hi\\""""\n# name: a_b = a.b\na_b: input\n\ny = a_b\n'
    assert parse(write(layer)) == layer
