"""Recursions in matrix style, as they are printed, have the value of the derivative.

Each line of a page is transcribed beside the text it must have.
"""

from __future__ import annotations

import numpy as np
import pytest
from recurrences import FILTER, RNN

import symgrad as sg
from symgrad.check import check
from symgrad.parse import parse

SIZES = {"T": 4, "n": 3, "m": 3, "k": 2}


def arrays_of(text):
    rng = np.random.default_rng(3)
    return {
        a.name: 0.5 * rng.normal(size=(*((1,) if a.batched else ()),
                                       *(d.evaluate(SIZES) for d in a.axes)))
        for a in check(parse(text)).arrays
    }  # fmt: skip


def printed(text):
    return [line.strip() for line in sg.derive(text).text("matrix").splitlines()]


def test_the_recursion_of_an_rnn():
    arrays = arrays_of(RNN)
    x, U, W, b, V = (arrays[n] for n in ("x", "U", "W", "b", "V"))
    x, steps = x[0], range(SIZES["T"])
    h = {-1: np.zeros(3)}
    for t in steps:
        h[t] = np.tanh(U @ h[t - 1] + W @ x[t] + b)
    Gz = {SIZES["T"]: np.zeros((2, 3))}  # "G^z_T = 0"
    for t in reversed(steps):
        Gh = (t == SIZES["T"] - 1) * V + Gz[t + 1] @ U  # "G^h_t = δ_{t,T-1} V + G^z_{t+1} U"
        Gz[t] = Gh @ np.diag(1 - h[t] ** 2)  # "G^z_t = G^h_t diag(D^z_t)"
    g = np.array([0.7, -1.3])
    jac = sg.compile(RNN).jacobian(**arrays)
    found = {
        "U": sum(np.outer(Gz[t].T @ g, h[t - 1]) for t in steps),
        "W": sum(np.outer(Gz[t].T @ g, x[t]) for t in steps),
    }
    for name, value in found.items():
        expected = np.tensordot(g, jac[name].dense()[0], 1)
        np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(sum(Gz[t] for t in steps), jac["b"].dense()[0], atol=1e-13)
    lines = printed(RNN)
    for line in (
        "gᵀ ∂y/∂U = Σ_t (G^z_t)ᵀ g h_{t-1}ᵀ", "gᵀ ∂y/∂W = Σ_t (G^z_t)ᵀ g x_tᵀ",
        "∂y/∂b = Σ_t G^z_t", "D^z_t = 1 - h_t²", "G^h_t = δ_{t,T-1} V + G^z_{t+1} U",
        "G^z_T = 0", "G^z_t = G^h_t diag(D^z_t)",
    ):  # fmt: skip
        assert line in lines


@pytest.mark.parametrize("i", range(3))
def test_the_recursion_of_a_filter_with_matrices(i):
    arrays = arrays_of(FILTER)
    z, A, H, Q, P0 = (arrays[n] for n in ("z", "A", "H", "Q", "P0"))
    z, T = z[0], SIZES["T"]
    m, P, M, S, K = {-1: np.zeros(3)}, {-1: P0 @ P0.T}, {}, {}, {}
    for t in range(T):
        M[t] = A @ P[t - 1] @ A.T + Q @ Q.T
        S[t] = H @ M[t] @ H.T + np.eye(2)
        K[t] = M[t] @ H.T @ np.linalg.inv(S[t])
        P[t] = M[t] - K[t] @ H @ M[t]
        m[t] = A @ m[t - 1] + K[t] @ (z[t] - H @ A @ m[t - 1])
    Gm, Gz2, Gs = {T: np.zeros((3, 3))}, {T: np.zeros((3, 2))}, {T: np.zeros((3, 3))}
    dA, dH, dQ = np.zeros((3, 3)), np.zeros((2, 3)), np.zeros((3, 3))
    for t in reversed(range(T)):
        Gm[t] = (t == T - 1) * np.eye(3) + Gm[t + 1] @ A - Gz2[t + 1] @ H @ A
        Gz2[t] = Gm[t] @ K[t]
        GP = A.T @ Gs[t + 1]
        Gq = -GP @ M[t].T
        GK = np.outer(Gm[t][i], z[t] - H @ A @ m[t - 1]) + Gq @ H.T
        Ginv = H @ M[t].T @ GK
        Gr = GK @ np.linalg.inv(S[t]).T
        GS = -(np.linalg.inv(S[t]).T @ Ginv) @ np.linalg.inv(S[t]).T
        Gv = GS @ H
        GM = GP - H.T @ K[t].T @ GP + Gr @ H + H.T @ Gv
        Gs[t] = GM @ A
        dA += np.outer(Gm[t][i], m[t - 1]) - np.outer(H.T @ Gz2[t][i], m[t - 1])
        dA += GM.T @ A @ P[t - 1] + Gs[t] @ P[t - 1].T
        dH += K[t].T @ Gq - np.outer(Gz2[t][i], A @ m[t - 1]) + Gr.T @ M[t]
        dH += GS.T @ H @ M[t] + Gv @ M[t].T
        dQ += (GM + GM.T) @ Q
    dP0 = (A.T @ Gs[0] + Gs[0].T @ A) @ P0
    jac = sg.compile(FILTER).jacobian(**arrays)
    for name, value in {"A": dA, "H": dH, "Q": dQ, "P0": dP0}.items():
        np.testing.assert_allclose(value, jac[name].dense()[0][i], rtol=1e-10, atol=1e-12)
    lines = printed(FILTER)
    for line in (
        ("∂y_i/∂A = Σ_t (G^m_ti m_{t-1}ᵀ - Hᵀ G^z2_ti m_{t-1}ᵀ + (G^M_ti)ᵀ A P_{t-1}"
         " + G^s_ti P_{t-1}ᵀ)"),
        ("∂y_i/∂H = Σ_t (K_tᵀ G^q_ti - G^z2_ti m_{t-1}ᵀ Aᵀ + (G^r_ti)ᵀ M_t + (G^S_ti)ᵀ H M_t"
         " + G^v_ti M_tᵀ)"),
        "∂y_i/∂Q = Σ_t (G^M_ti + (G^M_ti)ᵀ) Q",
        "∂y_i/∂P0 = (Aᵀ G^s_0i + (G^s_0i)ᵀ A) P0",
        "G^m_t = δ_{t,T-1} I + G^m_{t+1} A - G^z2_{t+1} H A", "G^z2_t = G^m_t K_t",
        "G^P_ti = Aᵀ G^s_{t+1,i}", "G^q_ti = -G^P_ti M_tᵀ",
        "G^K_ti = G^m_ti (z_t - H A m_{t-1})ᵀ + G^q_ti Hᵀ", "G^{S⁻¹}_ti = H M_tᵀ G^K_ti",
        "G^r_ti = G^K_ti S_t⁻ᵀ", "Ω^S_ti = S_t⁻ᵀ G^{S⁻¹}_ti", "G^S_ti = -Ω^S_ti S_t⁻ᵀ",
        "G^v_ti = G^S_ti H", "G^M_ti = G^P_ti - Hᵀ K_tᵀ G^P_ti + G^r_ti H + Hᵀ G^v_ti",
        "G^s_ti = G^M_ti A",
    ):  # fmt: skip
        assert line in lines
