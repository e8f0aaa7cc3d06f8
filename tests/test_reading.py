"""What a derivation prints is what a mathematician would write, and says what its letters mean."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from typing import Literal

import pytest
from test_explain import explained
from test_reading_matrix import NETS
from test_simplify import DENSE, LAYERS

from symgrad.explain import Explanation
from symgrad.reading.latex import LatexHand

KEEPDIMS = (
    "x: input[n]\na: param[n]\nμ = mean(x, keepdims=True)\n"
    "v = mean((x - μ)**2, keepdims=True)\ny = a * (x - μ) / sqrt(v + 1e-5)\n"
)
ALL = {**LAYERS, **NETS, "keepdims": KEEPDIMS}


@pytest.mark.parametrize(("text", "key", "line"), [
    # the deviations from a mean add up to zero, whatever shape the mean keeps
    (KEEPDIMS, "x",
     "∂y[i]/∂x[j] = a_i/√(v + 1e-5) (δ_ij - 1/n - (x_i - μ)(x_j - μ)/(n (v + 1e-5)))"),
    # a softmax adds up to one, however it is written
    (NETS["mixture"], "l", "∂f/∂l[i] = softmax(s)_i - softmax(l)_i"),
    (NETS["gaussians"], "l", "∂y/∂l[i] = softmax(s)_i - e^{w_i}"),
    # exp(z - logsumexp z) is softmax, by its name where it has one
    (NETS["cross entropy"], "b", "∂L/∂b[i] = softmax(z)_i - δ_it"),
    (NETS["log softmax"], "b", "∂L/∂b[i] = softmax(z)_i - δ_it"),
    (NETS["cross entropy"].replace("L =", "p = softmax(z)\nL =") + "return L, p\n", ("L", "b"),
     "∂L/∂b[i] = p_i - δ_it"),
    # slopes with a name of their own
    ("y = softplus(W x)", "W", "∂y[i]/∂W[j,k] = δ_ij sigmoid(Σ_l W_il x_l) x_k"),
    ("z: input\na: param\ny = logaddexp(z, a)\n", "a", "∂y/∂a = sigmoid(a - z)"),
    ("z: input\na: param\ny = hypot(z, a)\n", "a", "∂y/∂a = a/y"),
    # no root and square of it
    (NETS["normalized"], "x", "∂y[i]/∂x[j] = (W_ij - x_j/(Σ_l x_l²) Σ_k W_ik x_k)/√(Σ_k x_k²)"),
    # numbers, deltas, scalars, functions
    ("x: input[n]\ns: param\ny = s**2 * exp(-s * x)\n", "s",
     "∂y[i]/∂s = 2 s e^{-s x_i} - s² e^{-s x_i} x_i"),
    # a mask is its own square
    ("x: input[n]\nw: param[n]\nz = w * x\ny[t: n//2] = max[q: 2](z[2*t + q])\n", "w", None),
])
def test_results_stand_in_textbook_form(
    text: str, key: str | tuple[str, str], line: str | None
) -> None:
    formula = explained(text)[key]
    if line is not None:
        assert formula.text() == line
    assert not re.search(r"\][²³⁴]", formula.text())


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("style", ["index", "matrix"])
def test_no_parentheses_stand_twice(name: str, style: str) -> None:
    text = explained(ALL[name]).text(style)
    for start in re.finditer(r"\(\(", text):
        depth, at = 0, start.start() + 1
        for at in range(start.start() + 1, len(text)):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            if not depth:
                break
        assert text[at + 1] != ")", text[start.start() : at + 2]


def test_no_index_is_called_e_beside_exponentials() -> None:
    text = "x: input[n]\nW: param[m, n]\ny[e] = exp(sum[k](W[e, k] * x[k]))\n"
    assert "_e" not in explained(text).text()
    assert "y_e" in explained("x: input[n]\nw: param[n]\ny[e] = w[e] * x[e]\n").text()


def test_a_dim_called_e_does_not_stand_beside_eulers_number() -> None:
    text = explained(NETS["attention"]).text()
    assert "exp(z_ij)" in text and "e^" not in text


def test_a_bound_letter_has_one_range_in_a_formula() -> None:
    text = explained("x: input[n]\nW: param[m, n]\nL = log(sum(exp(W @ x)))\n").text()
    line = next(s for s in text.splitlines() if "∂L/∂W" in s and "Σ" in s)
    outer, inner = re.findall(r"Σ_(\w)", line)[-2:]
    assert outer != inner


@pytest.mark.parametrize("name", ALL)
def test_every_letter_of_the_derivation_is_explained(name: str) -> None:
    explanation = explained(ALL[name])
    chain = [s.text for s in explanation.steps if s.kind == "chain rule"]
    made = {line.partition(" = ")[0].split("_")[0] for line in chain}
    notes = {n for c in explanation.notation() for n in re.split(", (?![^{]*})", c.text)}
    assert made <= notes
    words = explanation.text().split("Notation")[-1]
    for sign in ("diag(", "onehot(", "⊙", "𝟏", "⟨"):
        used = any(sign in s.text for kind, steps in explanation.sections()
                   if kind == "In matrix style" for s in steps)
        assert used == (sign in words)
    assert len(explanation.notation()) == len({c.words for c in explanation.notation()})


def test_a_product_explains_the_rest_and_a_maximum_its_place() -> None:
    assert "rest^y: product of all factors" in explained(
        "x: input[n]\nw: param[n]\ny = prod(w * x)\n"
    ).text()
    assert "argmax^y: position where the maximum" in explained(NETS["extremum"]).text()


def test_names_of_two_outputs_are_a_superscript() -> None:
    text = explained(DENSE + "L = sum(tanh(z))\np = softmax(z)\nreturn L, p\n").text()
    assert "G^{L,z}" in text and "G^L_z" not in text


@pytest.mark.parametrize(("text", "pieces"), [
    ("y = gelu(W x)", [r"\operatorname{gelu}'(z) &= \frac{1"]),
    ("x: input[n]\nw: param[n]\ny = prod(w * x)\n", [r"\mathrm{rest}^{y}_k &= \prod"]),
    (NETS["extremum"], [r"\mathrm{argmax}^{y} &= \operatorname{argmax}_k s_k"]),
    (NETS["cross entropy"], [r"z_i &= \sum_k W_{ik} x_k + b_i"]),
    (NETS["deep"], [r"G^{z}_{ij} &="]),
    (LAYERS["tanh"], [r"y_i &= \tanh(z_i)"]),
])
def test_latex_defines_what_it_uses(text: str, pieces: list[str]) -> None:
    latex = explained(text).latex()
    assert all(piece in latex for piece in pieces), latex


def test_latex_defines_every_name_on_its_right_sides() -> None:
    for name, text in ALL.items():
        explanation = explained(text)
        made = {d.name for d in explanation.derivation.adjoints}
        latex = explanation.latex()
        for letter in ("G", "S", "D", "J", "H"):
            used = set(re.findall(rf"(?<![a-zA-Z]){letter}\^\{{[^}}]*\}}", latex))
            defined = set(re.findall(rf"^  ({letter}\^\{{[^}}]*\}})[^=]*&= ", latex, re.MULTILINE))
            assert not made or used <= defined, (name, used - defined)


@pytest.mark.parametrize(("name", "latex"), [
    ("Θ_out", r"\Theta_{\mathrm{out}}"), ("W_in_2", r"W_{\mathrm{in},2}"),
    ("W1_out", r"W_{1,\mathrm{out}}"), ("theta_0", r"\theta_0"), ("x_μ", r"x_{\mu}"),
    ("encoder_0_weight", r"\mathrm{encoder\_0\_weight}"),
])
def test_names_with_underscores_are_letters_with_subscripts(name: str, latex: str) -> None:
    assert LatexHand().name(name) == latex


def test_text_keeps_indices_apart_from_names_with_underscores() -> None:
    assert "Θ_out[i,k]" in explained("x: input[n]\nΘ_out: param[m, n]\ny = Θ_out @ x\n").text()


class Tags(HTMLParser):
    """Checks that every tag is closed where it was opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


MATH = "{http://www.w3.org/1998/Math/MathML}"
TOKENS = {f"{MATH}{tag}" for tag in ("mi", "mn", "mo", "mtext", "mspace")}
ARITY = {"mfrac": 2, "msub": 2, "msup": 2, "msubsup": 3, "munder": 2}


def check_page(explanation: Explanation, style: Literal["index", "matrix"]) -> None:
    """Require that a page is well-formed, and every line a formula in MathML."""
    page = explanation.html(style)
    tags = Tags()
    tags.feed(page.removeprefix("<!DOCTYPE html>"))
    assert not tags.open
    root = ET.fromstring(page.removeprefix("<!DOCTYPE html>"))
    formulas = list(root.iter(f"{MATH}math"))
    lines = sum(len(steps) for _, steps in explanation.sections(style == "matrix"))
    assert len(formulas) == lines + len(explanation.notation())
    for formula in formulas:
        assert len(formula)
        for node in formula.iter():
            children = len(node)
            if node.tag in TOKENS:
                assert not children
            else:
                assert not (node.text or "").strip(), node.text
            assert not (node.tail or "").strip() or node is formula, node.tail
            assert ARITY.get(node.tag.removeprefix(MATH), children) == children
    assert "<script" not in page and "src=" not in page and "href=" not in page


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("style", ["index", "matrix"])
def test_html_typesets_every_line_in_wellformed_mathml(name: str, style: str) -> None:
    check_page(explained(ALL[name]), style)


def test_html_of_a_dense_layer_holds_its_result() -> None:
    page = explained(LAYERS["tanh"]).html()
    assert "<mfrac><mrow><mi>∂</mi><msub><mi>y</mi>" in page
    assert "<msup><mrow><msub><mi>y</mi><mrow><mi>i</mi></mrow></msub></mrow>" in page


@pytest.mark.parametrize("call", [
    "gelu(z)", "gelu_tanh(z)", "silu(z)", "mish(z)", "hardswish(z)", "celu(a, z)",
    "softshrink(a, z)", "elu(z, a)",
])
def test_a_slope_that_is_named_is_defined(call: str) -> None:
    explanation = explained(f"a: input\nz: param\ny = {call}\n")
    named = re.findall(r"(\w+(?:'|\^\([01],[01]\)))\(", explanation["z"].text())
    for name in named:
        assert re.search(rf"^  {re.escape(name)}\(z(, a)?\) = ", explanation.text(), re.MULTILINE)
        assert explanation.latex().count("= ") > 1
