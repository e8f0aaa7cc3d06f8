"""reshape: the same elements in C order under other axes, in every form and under every oracle."""

import numpy as np
import pytest
from fuzz.laws import faults

import symgrad as sg
from symgrad.algebra.contract import contract
from symgrad.algebra.radix import by_digits, digits, holds, tiles
from symgrad.dims import Dim
from symgrad.program import Access, Affine, Delta, Guard, Index, Term

HEADS = """
x: input[t, e]
Wq: param[h*d, e]
Wk: param[h*d, e]
Wv: param[h*d, e]
Wo: param[h*d, o]
g: param[h, d]
q = transpose(reshape(x @ Wq.T, (t, h, d)), (1, 0, 2)) * g[:, None]
k = transpose(reshape(x @ Wk.T, (t, h, d)), (1, 0, 2))
v = transpose(reshape(x @ Wv.T, (t, h, d)), (1, 0, 2))
A[a, i, j] = sum[c](q[a, i, c] * k[a, j, c]) / sqrt(d)
P = softmax(A)
y = reshape(transpose(P @ v, (1, 0, 2)), (t, -1)) @ Wo
"""

LAYERS = {
    "split a parameter": "x: input[n, m]\nw: param[n*m]\ny = tanh(reshape(w, (n, m)) * x)",
    "merge a parameter": "x: input[n*m]\nW: param[n, m]\ny = tanh(reshape(W, (n*m,)) * x)",
    "merge an input": "x: input[n, m]\nw: param[n*m]\ny = sin(reshape(x, (-1,)) * w)",
    "three axes": "x: input[n, m, k]\ny = reshape(x, (n*m*k,))**2",
    "regroup": "x: input[n*m, k]\nW: param[n, m*k]\ny = tanh(reshape(x, (n, m*k))) * W",
    "regroup under one name": (
        "x: input[a*c, b]\nu: param[a]\nw: param[b, c]\n"
        "z = reshape(x, (a, c*b))\ny[i, j] = exp(z[i, j] * u[i])"
    ),
    "inside a reshape": (
        "x: input[n, m*k]\nv: param[m]\nz = reshape(reshape(x, (n, m, k)), (n*m, k))\ny = z**3"
    ),
    "there and back": (
        "x: input[n, m]\nw: param[n, m]\na = x * w\nb = reshape(a, (n*m,))\n"
        "c = reshape(b, (n, m))\ny = sin(c)"
    ),
    "read in part": "x: input[n*m]\nw: param[m]\nz = reshape(x, (n, m))\ny = z[0] * w",
    "transposed": "x: input[n, m]\nw: param[m*n]\ny = reshape(x.T, (m*n,)) * sigmoid(w)",
    "an axis of one": "x: input[n, m]\nw: param[n]\ny = reshape(x, (1, n, 1, m)) * reshape(w, (n, 1))",
    "softmax of groups": (
        "x: input[n*m]\nw: param[n, m]\np = softmax(reshape(x, (n, m)) * w)\ny = reshape(p, (n*m,))"
    ),
    "largest of groups": "x: input[n*m]\nw: param[n, m]\ny = max(reshape(x, (n, m)) * w)",
    "fixed groups": "x: input[2*n]\nw: param[2]\ny = reshape(x, (n, 2)) @ w",
    "a sum of dims": "x: input[n + 1, m]\nw: param[(n + 1)*m]\ny = reshape(x, (-1,)) * tanh(w)",
    "pooling": "x: input[2*n, 2*m]\nw: param\ny = max(reshape(x, (n, 2, m, 2)), axis=(1, 3)) * w",
    "shared only": "W: param[n, m]\nx: input[m*n]\ns = exp(reshape(W, (n*m,)))\ny = dot(s, x)",
    "no input": "W: param[n, m]\ny = reshape(tanh(W), (m*n,))[::-1]",
    "pixel shuffle": (
        "x: input[c*r*s, n, m]\nw: param[r, s]\nu: param[c]\n"
        "z = reshape(x, (c, r, s, n, m))\n"
        "y = reshape(transpose(z, (0, 3, 1, 4, 2)), (c, n*r, m*s))**2"
    ),
    "gathered": "t: index(n*m)[k]\nE: param[n, m]\nx: input[k]\ne = reshape(E, (-1,))\ny = e[t] * x",
    "both ways of a matrix": "x: input[n*m]\nW: param[n, m]\ny = reshape(W @ reshape(x, (m, n)), (-1,))",
    "a mask": "x: input[n, m]\nw: param[n*m]\nz = reshape(x > 0, (n*m,))\ny = where(z, w, 2*w)",
    "heads": HEADS,
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_form_agrees_with_every_oracle(name, seed):
    assert faults(LAYERS[name], "all", seed, explained=True) == []
