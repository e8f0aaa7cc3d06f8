"""The layers that benchmarks measure, as text.

-> str
"""

from __future__ import annotations

DENSE = """
x: input[n]
W: param[m, n]
b: param[m]
y = tanh(W @ x + b)
"""

MLP = """
x: input[n]
W1: param[h, n]
b1: param[h]
W2: param[k, h]
b2: param[k]
W3: param[m, k]
b3: param[m]
h1 = tanh(W1 @ x + b1)
h2 = tanh(W2 @ h1 + b2)
y = W3 @ h2 + b3
"""

LSTM = """
x: input[n]
h: input[m]
c: input[m]
Wi: param[m, n]
Ui: param[m, m]
bi: param[m]
Wf: param[m, n]
Uf: param[m, m]
bf: param[m]
Wo: param[m, n]
Uo: param[m, m]
bo: param[m]
Wg: param[m, n]
Ug: param[m, m]
bg: param[m]
i = sigmoid(Wi @ x + Ui @ h + bi)
f = sigmoid(Wf @ x + Uf @ h + bf)
o = sigmoid(Wo @ x + Uo @ h + bo)
g = tanh(Wg @ x + Ug @ h + bg)
c1 = f * c + i * g
h1 = o * tanh(c1)
return h1, c1
"""


def residual(blocks: int) -> str:
    """Return a net of residual blocks h + V tanh(U h)."""
    lines = ["h0: input[n]"]
    for k in range(1, blocks + 1):
        lines += [f"U{k}: param[m, n]", f"V{k}: param[n, m]"]
    for k in range(1, blocks + 1):
        lines.append(f"h{k} = h{k - 1} + V{k} @ tanh(U{k} @ h{k - 1})")
    return "\n".join(lines) + "\n"
