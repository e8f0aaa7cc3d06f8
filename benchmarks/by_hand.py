"""The same numbers by numpy alone, as somebody who has worked out the formulas writes them.

Setting -> Run
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from benchmarks.ours import tangents
from benchmarks.workload import Arrays, Run, Setting

SLOPES: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": lambda y: 1 - y * y,
    "sigmoid": lambda y: y * (1 - y),
}
"""Slopes by the value of the activation."""


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


VALUES: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {"tanh": np.tanh, "sigmoid": sigmoid}


def on_diagonal(out: np.ndarray, letters: str) -> np.ndarray:
    """Fill with zeros, and return the view of a diagonal: `"biik->bik"`."""
    out[...] = 0
    return np.einsum(letters, out)


# ------------------------------------------------------------ one dense layer


def dense_layer(setting: Setting) -> Run:
    """dY/dW of tanh(W x + b) into an array."""
    x, W, b = (setting.arrays[n] for n in ("x", "W", "b"))
    out = setting.out("W")

    def run() -> np.ndarray:
        slope = SLOPES["tanh"](np.tanh(x @ W.T + b))
        if x.ndim == 1:
            on_diagonal(out, "iik->ik")[...] = slope[:, None] * x
        else:
            on_diagonal(out, "biik->bik")[...] = slope[:, :, None] * x[:, None, :]
        return out

    return Run(run, lambda found: {"W": found})


def dense_layer_compact(setting: Setting) -> Run:
    """What of dY/dW is not zero, `[b, m, n]`, into an array."""
    x, W, b = (setting.arrays[n] for n in ("x", "W", "b"))
    out = np.empty((len(x), *W.shape), x.dtype)

    def run() -> np.ndarray:
        slope = SLOPES["tanh"](np.tanh(x @ W.T + b))
        return np.multiply(slope[:, :, None], x[:, None, :], out=out)

    return Run(run, lambda found: {"W": found})


def dense_layer_factors(setting: Setting) -> Run:
    """The two factors of dY/dW, slopes and inputs; they are multiplied for the comparison only."""
    x, W, b = (setting.arrays[n] for n in ("x", "W", "b"))

    def run() -> tuple[np.ndarray, np.ndarray]:
        return SLOPES["tanh"](np.tanh(x @ W.T + b)), x

    def numbers(found: tuple[np.ndarray, np.ndarray]) -> Arrays:
        slope, h = found
        out = np.empty((*slope.shape, *W.shape), x.dtype)
        on_diagonal(out, "biik->bik")[...] = slope[:, :, None] * h[:, None, :]
        return {"W": out}

    return Run(run, numbers)


# ------------------------------------------------------------ networks, from their factors


def sensitivities(setting: Setting) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return h_l, the input of every layer, and G_l = ∂y/∂z_l `[B, out, width]` but of the last.

    The last layer has no activation: its G is the identity.
    """
    network = setting.workload.network
    assert network is not None
    a = setting.arrays
    slope, value = SLOPES[network.activation], VALUES[network.activation]
    h = [a["x"]]
    for W, b in network.layers[:-1]:
        h.append(value(h[-1] @ a[W].T + a[b]))
    last = a[network.layers[-1][0]]
    G = [last[None] * slope(h[-1])[:, None, :]]
    for place in range(len(h) - 2, 0, -1):
        W = a[network.layers[place][0]]
        G.insert(0, (G[0] @ W) * slope(h[place])[:, None, :])
    return h, G


def factors(setting: Setting) -> Run:
    """The factors; they are multiplied for the comparison only."""
    return Run(lambda: sensitivities(setting), lambda found: expanded(setting, found, {}))


def network_dense(setting: Setting) -> Run:
    """Dense Jacobians of the selected parameters into arrays."""
    outs = {n: setting.out(n) for n in setting.selected}
    return Run(lambda: expanded(setting, sensitivities(setting), outs), dict)


def expanded(
    setting: Setting, found: tuple[list[np.ndarray], list[np.ndarray]], outs: Arrays
) -> Arrays:
    """Return dense Jacobians made of factors, written into `outs` where it has them."""
    h, G = found
    network = setting.workload.network
    assert network is not None
    rows, made = h[0].shape[0], {}
    m = setting.arrays[network.layers[-1][1]].shape[0]
    for place, (W, b) in enumerate(network.layers):
        last = place == len(G)
        for name in (W, b):
            if name not in setting.selected:
                continue
            shape = (rows, m, *setting.arrays[name].shape)
            out = outs[name] if name in outs else np.empty(shape, h[0].dtype)
            match last, name == W:
                case True, True:
                    on_diagonal(out, "biik->bik")[...] = h[place][:, None, :]
                case True, False:
                    on_diagonal(out, "bii->bi")[...] = 1
                case False, True:
                    np.multiply(G[place][..., None], h[place][:, None, None, :], out=out)
                case _:
                    out[...] = G[place]
            made[name] = out
    return made


def tangent_kernel(setting: Setting) -> Run:
    """J Jᵀ as Σ_l (G_l·G_l')(h_l·h_l' + 1)."""

    def run() -> np.ndarray:
        h, G = sensitivities(setting)
        rows, m = G[0].shape[:2]
        K = np.zeros((rows, m, rows, m))
        on_diagonal(K, "bici->bci")[...] = (h[-1] @ h[-1].T + 1)[:, :, None]
        for before, back in zip(h, G, strict=False):
            flat = back.reshape(rows * m, -1)
            inner = (flat @ flat.T).reshape(K.shape)
            inner *= (before @ before.T + 1)[:, None, :, None]
            K += inner
        return K

    return Run(run, lambda found: {"K": found})


def curvature_product(setting: Setting) -> Run:
    """Jᵀ (J v): tangents forwards, the result backwards."""
    network, a = setting.workload.network, setting.arrays
    assert network is not None
    slope, value = SLOPES[network.activation], VALUES[network.activation]
    v = tangents(setting)

    def run() -> Arrays:
        h, pushed = [a["x"]], np.zeros_like(a["x"])
        for place, (W, b) in enumerate(network.layers):
            z = h[-1] @ a[W].T + a[b]
            pushed = pushed @ a[W].T + h[-1] @ v[W].T + v[b]
            if place < len(network.layers) - 1:
                h.append(value(z))
                pushed = pushed * slope(h[-1])
        back, found = pushed, {}
        for place in range(len(h) - 1, -1, -1):
            W, b = network.layers[place]
            found[W], found[b] = back.T @ h[place], back.sum(0)
            if place:
                back = (back @ a[W]) * slope(h[place])
        return found

    return Run(run, dict)


def curvature_diagonal(setting: Setting) -> Run:
    """Σ_b Σ_i J² as (Σ_i G²)ᵀ h²."""
    network = setting.workload.network
    assert network is not None

    def run() -> Arrays:
        h, G = sensitivities(setting)
        m = G[0].shape[1]
        squares = [np.einsum("bij,bij->bj", g, g) for g in G] + [np.ones((h[0].shape[0], m))]
        found = {}
        for (W, b), square, before in zip(network.layers, squares, h, strict=True):
            found[W], found[b] = square.T @ (before * before), square.sum(0)
        return found

    return Run(run, dict)


# ------------------------------------------------------------ scalars


def as_written(setting: Setting) -> Run:
    """d/da and d/db of y = exp(log(b a x) + c), which are y/a and y/b."""
    x, a, b, c = (setting.arrays[n] for n in "xabc")
    outs = {n: setting.out(n) for n in "ab"}

    def run() -> Arrays:
        y = np.multiply(x, a * b)
        np.log(y, out=y)
        y += c
        np.exp(y, out=y)
        np.divide(y, a, out=outs["a"])
        np.divide(y, b, out=outs["b"])
        return outs

    return Run(run, dict)


def with_domain(setting: Setting) -> Run:
    """The same where b a x > 0: b x eᶜ and a x eᶜ."""
    x, a, b, c = (setting.arrays[n] for n in "xabc")
    outs = {n: setting.out(n) for n in "ab"}

    def run() -> Arrays:
        scale = np.exp(c)
        np.multiply(x, b * scale, out=outs["a"])
        np.multiply(x, a * scale, out=outs["b"])
        return outs

    return Run(run, dict)


# ------------------------------------------------------------ layers of sequences


def convolution(setting: Setting) -> Run:
    """Tanh of a convolution: windows of x times slopes, on the diagonal of the channels."""
    x, K, b = (setting.arrays[n] for n in ("x", "K", "b"))
    outs = {n: setting.out(n) for n in ("K", "b")}

    def run() -> Arrays:
        windows = np.lib.stride_tricks.sliding_window_view(x, K.shape[-1], axis=-1)
        z = np.einsum("ocq,bctq->bot", K, windows, optimize=True) + b[:, None]
        slope = SLOPES["tanh"](np.tanh(z))
        part = windows.transpose(0, 2, 1, 3)
        diagonal = on_diagonal(outs["K"], "botocq->botcq")
        np.multiply(slope[..., None, None], part[:, None], out=diagonal)
        on_diagonal(outs["b"], "boto->bot")[...] = slope
        return outs

    return Run(run, dict)


def attention(setting: Setting) -> Run:
    """One head: P = ∂y/∂scores, then the scores' factors."""
    X, Q, K, V = (setting.arrays[n] for n in ("X", "Q", "K", "V"))
    outs = {n: setting.out(n) for n in ("Q", "K", "V")}

    def run() -> Arrays:
        q, k, v = X @ Q, X @ K, X @ V
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(Q.shape[1])
        A = np.exp(scores - scores.max(-1, keepdims=True))
        A /= A.sum(-1, keepdims=True)
        y = A @ v
        P = A[:, :, None, :] * (v.transpose(0, 2, 1)[:, None] - y[..., None])
        P /= np.sqrt(Q.shape[1])
        of_q, of_k = P @ k[:, None], P @ X[:, None]
        np.multiply(X[:, :, None, :, None], of_q[:, :, :, None, :], out=outs["Q"])
        np.multiply(of_k[..., None], q[:, :, None, None, :], out=outs["K"])
        on_diagonal(outs["V"], "btjlj->btjl")[...] = (A @ X)[:, :, None, :]
        return outs

    return Run(run, dict)


def layer_norm(setting: Setting) -> Run:
    """Normalised rows and ones, each on a diagonal."""
    X = setting.arrays["X"]
    outs = {n: setting.out(n) for n in ("g", "b")}

    def run() -> Arrays:
        centred = X - X.mean(-1, keepdims=True)
        scale = np.sqrt((centred * centred).mean(-1, keepdims=True) + setting.arrays["eps"])
        on_diagonal(outs["g"], "btjj->btj")[...] = centred / scale
        on_diagonal(outs["b"], "btjj->btj")[...] = 1
        return outs

    return Run(run, dict)


# ------------------------------------------------------------ summed Hessians


def logistic_hessian(setting: Setting) -> Run:
    """Xᵀ diag(s(1 - s)) X."""
    x, w = setting.arrays["x"], setting.arrays["w"]

    def run() -> np.ndarray:
        s = sigmoid(x @ w)
        return (x * (s * (1 - s))[:, None]).T @ x

    return Run(run, lambda found: {"w,w": found})


def factorisation_hessian(setting: Setting) -> Run:
    """2 δ_ik (Vᵀ V)_jl."""
    U, V = setting.arrays["U"], setting.arrays["V"]

    def run() -> np.ndarray:
        found = np.zeros((*U.shape, *U.shape))
        np.einsum("ijil->ijl", found)[...] = 2 * (V.T @ V)
        return found

    return Run(run, lambda found: {"U,U": found})
