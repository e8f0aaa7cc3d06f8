"""Derivations of recurrences and of functions of matrices, in every notation and style."""

from __future__ import annotations

import re
from functools import cache

import pytest
from linear_layers import LAYERS
from recurrences import FACTORED, FILTER, GRU, KALMAN, LSTM, RECURRENCES, RNN
from test_explain import explained as explained_anew
from test_reading import check_page

from symgrad.reading.hands import TextHand

PROCESS = """
y: input[n]
A: param[n, n]
K = A @ A.T + eye(n)
f = -0.5*dot(y, solve(K, y)) - 0.5*logdet(K)
"""
explained = cache(explained_anew)
ALL = {**RECURRENCES, **{name: text for name, (text, _) in LAYERS.items()}, "process": PROCESS}


def twice_raised(text: str) -> bool:
    """Whether something has two superscripts or two subscripts, which TeX refuses."""
    script = r"(?:@|\\[a-zA-Z]+|\w)"
    twice = rf"\^{script}(_{script})?\^|(?<!\\)_{script}(\^{script})?_"
    while "{" in text:
        if any(re.search(twice, inner) for inner in re.findall(r"\{([^{}]*)\}", text)):
            return True
        text = re.sub(r"\{[^{}]*\}", "@", text)
    return bool(re.search(twice, text))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("style", ["index", "matrix"])
def test_pages_are_wellformed_in_both_styles(name: str, style: str) -> None:
    explanation = explained(ALL[name])
    check_page(explanation, style)
    for text in (explanation.latex(style), explanation.tex(style)):
        assert text.count("{") == text.count("}")
        assert text.count(r"\left") == text.count(r"\right")
        assert not re.search("⁻|ᵀ|⊙", text)
        assert not twice_raised(text)
    assert explanation.markdown(style).count("$$") % 2 == 0


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("style", ["index", "matrix"])
def test_every_name_of_the_derivation_has_an_equation(name: str, style: str) -> None:
    lines = [s.text for _, steps in explained(ALL[name]).sections(style == "matrix") for s in steps]
    letter = r"([GDSJHΓΔΩ]\^(?:\w*?|\{[^{}]*\})(?:_\d(?=\[))?)(?=[_\[ )+ᵀ,]|$)"
    known = {m[1] for m in (re.match(letter, line) for line in lines) if m}
    read = {n for line in lines for n in re.findall(letter, line.partition(" = ")[2])}
    assert read <= known, read - known
    text = " ".join(lines)
    assert ("Φ_" in text) == any(line.startswith("Φ_ij = [i > j] + δ_ij/2") for line in lines)
    assert "heaviside" not in text
    assert "_before" not in text


@pytest.mark.parametrize(("text", "lines"), [
    (RNN, [
        "gᵀ ∂y/∂U = Σ_t (G^z_t)ᵀ g h_{t-1}ᵀ", "∂y/∂b = Σ_t G^z_t", "gᵀ ∂y/∂V = g h_{T-1}ᵀ",
        "D^z_t = 1 - h_t²", "G^h_t = δ_{t,T-1} V + G^z_{t+1} U", "G^z_T = 0",
        "G^z_t = G^h_t diag(D^z_t)",
    ]),
    (LSTM, [
        "uᵀ ∂y/∂W_j = Σ_t (δ_j3 (G^r_t)ᵀ + δ_j2 (G^v_t)ᵀ + δ_j1 (G^s_t)ᵀ + δ_j0 (G^z_t)ᵀ) u x_tᵀ",
        "G^c_t = G^c_{t+1} diag(f_{t+1}) + G^h_t diag(o_t ⊙ D^c_t)", "D^z_t = i_t ⊙ (1 - i_t)",
    ]),
    (GRU, ["∂y_i/∂h0 = G^h_0i diag(u_0) + G^v_0i diag(r_0) U_2 + G^s_0i U_1 + G^z_0i U_0"]),
    (KALMAN, ["∂y/∂q = Σ_t G^m_t", "∂y/∂p0 = G^m_0"]),
    (FILTER, [
        "∂y_i/∂Q = Σ_t (G^M_ti + (G^M_ti)ᵀ) Q", "G^{S⁻¹}_ti = H M_tᵀ G^K_ti",
        "G^r_ti = G^K_ti S_t⁻ᵀ",
    ]),
    (FACTORED, ["G^z1_t = G^v_t C_t⁻¹", "S^q_ti = C_t diag((C_t⁻¹)_{:,i}) Φ"]),
])
def test_recursions_in_matrix_style(text: str, lines: list[str]) -> None:
    found = explained(text).text("matrix").splitlines()
    assert [line for line in lines if f"  {line}" not in found] == []


@pytest.mark.parametrize(("text", "wrt", "line"), [
    ("S: param[n, n]\nf = logdet(S)", "S", "∂f/∂S = S⁻ᵀ"),
    ("S: param[n, n]\nf = det(S)", "S", "∂f/∂S = S⁻ᵀ f"),
    ("A: param[n, n]\nb: param[n]\ny = solve(A, b)", "A", "gᵀ ∂y/∂A = -A⁻ᵀ g yᵀ"),
    ("A: param[n, n]\nb: param[n]\ny = solve(A.T, b)", "b", "∂y/∂b = A⁻ᵀ"),
    ("X: param[n, n]\nY = inv(X)", "X", "⟨g, ∂Y/∂X⟩ = -Yᵀ g Yᵀ"),
])
def test_functions_of_matrices_in_matrix_style(text: str, wrt: str, line: str) -> None:
    assert explained(text)[wrt].text("matrix") == line


def test_a_head_that_is_an_array_of_the_layer_gives_way() -> None:
    text = explained(FILTER).text()
    assert "Ω^S_tijl = " in text
    assert "S^S" not in text


def test_the_half_of_a_factor_is_a_letter_the_layer_does_not_use() -> None:
    layer = "Φ: param[n, n]\nx: input[n]\ny = cholesky(Φ @ Φ.T) @ x"
    text = explained(layer).text()
    assert "Λ_ij = [i > j] + δ_ij/2" in text
    assert "Λ: 1 below the diagonal, 1/2 on it, 0 above it" in text


def test_numbers_and_scalars_below_a_line_stand_together() -> None:
    lines = explained(LAYERS["a sparse variational Gaussian process"][0]).text("matrix")
    assert "  G^var_f = -1/(2 noise²)\n" in lines
    assert "⊙ noise" not in lines
    assert TextHand().number(int(-1e30)) == "-1e30"
    assert TextHand().number(123456789) == "123456789"
