"""The layers of the workloads, as text and as functions for PyTorch and JAX.

`xp` are a framework's functions; arrays come by name, of one sample or of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

Given = Mapping[str, Any]


def dense_layer(xp: Any, a: Given) -> Any:
    return xp.tanh(a["x"] @ a["W"].T + a["b"])


def mlp(xp: Any, a: Given) -> Any:
    h1 = xp.tanh(a["x"] @ a["W1"].T + a["b1"])
    h2 = xp.tanh(h1 @ a["W2"].T + a["b2"])
    return h2 @ a["W3"].T + a["b3"]


SIGMOID_MLP = """
x: input[n]
W1: param[h, n]
b1: param[h]
W2: param[m, h]
b2: param[m]
h1 = sigmoid(W1 @ x + b1)
y = W2 @ h1 + b2
"""


def sigmoid_mlp(xp: Any, a: Given) -> Any:
    h1 = xp.sigmoid(a["x"] @ a["W1"].T + a["b1"])
    return h1 @ a["W2"].T + a["b2"]


PRODUCT = """
x: input
a: param
b: param
c: param
y = exp(log(b*a*x) + c)
"""


def product(xp: Any, a: Given) -> Any:
    return xp.exp(xp.log(a["b"] * a["a"] * a["x"]) + a["c"])


CONVOLUTION = """
x: input[c, T]
K: param[o, c, k]
b: param[o]
y[o, t] = tanh(sum[c, q](K[o, c, q] * x[c, t + q]) + b[o])
"""


def convolution(xp: Any, a: Given) -> Any:
    return xp.tanh(xp.conv1d(a["x"], a["K"]) + a["b"][:, None])


ATTENTION = """
X: input[T, n]
Q: param[n, d]
K: param[n, d]
V: param[n, d]
A = softmax((X @ Q) @ (X @ K).T / sqrt(d))
y = A @ (X @ V)
"""


def attention(xp: Any, a: Given) -> Any:
    q, k, v = (a["X"] @ a[n] for n in "QKV")
    return xp.softmax(q @ k.mT / sqrt(q.shape[-1])) @ v


LAYER_NORM = """
X: input[T, n]
g: param[n]
b: param[n]
eps: const
y = g * (X - mean(X, keepdims=True)) / sqrt(var(X, keepdims=True) + eps) + b
"""


def layer_norm(xp: Any, a: Given) -> Any:
    centred = a["X"] - xp.mean(a["X"])
    return a["g"] * centred / xp.sqrt(xp.mean(centred * centred) + a["eps"]) + a["b"]


LSTM = """
x: input[T, n]
W: param[4, m, n]
U: param[4, m, m]
b: param[4, m]
h[-1] = 0
c[-1] = 0
z[t: T] = W @ x[t] + U @ h[t - 1] + b
c[t: T] = sigmoid(z[t, 1]) * c[t - 1] + sigmoid(z[t, 0]) * tanh(z[t, 2])
h[t: T] = sigmoid(z[t, 3]) * tanh(c[t])
y = h[-1]
"""


def lstm(xp: Any, a: Given) -> Any:
    x, W, U, b = (a[n] for n in "xWUb")
    h = c = xp.zeros_like(x[..., 0, :1] * b[0])
    for t in range(x.shape[-2]):
        i, f, g, o = (x[..., t, :] @ W[k].T + h @ U[k].T + b[k] for k in range(4))
        c = xp.sigmoid(f) * c + xp.sigmoid(i) * xp.tanh(g)
        h = xp.sigmoid(o) * xp.tanh(c)
    return h


LOGISTIC = """
x: input[n]
t: input
w: param[n]
z = dot(w, x)
y = softplus(z) - t*z
"""


def logistic(xp: Any, a: Given) -> Any:
    z = a["x"] @ a["w"]
    return xp.logaddexp(z, xp.zeros_like(z)) - a["t"] * z


FACTORISATION = """
T: const[m, n]
V: const[n, k]
U: param[m, k]
E = T - U @ V.T
y = sum(E*E, axis=None)
"""


def factorisation(xp: Any, a: Given) -> Any:
    E = a["T"] - a["U"] @ a["V"].T
    return (E * E).sum()


SMALL_NET = """
x: input[n]
t: input[m]
W1: param[h, n]
b1: param[h]
W2: param[m, h]
b2: param[m]
z = W2 @ tanh(W1 @ x + b1) + b2
y = sum(t)*logsumexp(z) - dot(t, z)
"""


def small_net(xp: Any, a: Given) -> Any:
    z = xp.tanh(a["x"] @ a["W1"].T + a["b1"]) @ a["W2"].T + a["b2"]
    return a["t"].sum(-1) * xp.logsumexp(z) - (a["t"] * z).sum(-1)
