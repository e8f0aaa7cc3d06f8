"""Layers of every kind with arrays that fit them, and what is the same for every layer."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, replace

import numba
import numpy as np
import pytest

import symgrad as sg
from symgrad import build

SIZES = {"n": 4, "m": 3, "h": 5, "k": 2, "c": 2, "o": 3, "T": 4, "d": 3, "v": 6, "p": 2}

TEXTS = {
    "dense": "x: input[n]\nW: param[m, n]\nb: param[m]\ny = tanh(W @ x + b)",
    "mlp": """
x: input[n]
W1: param[h, n]
b1: param[h]
W2: param[m, h]
b2: param[m]
a = sigmoid(W1 @ x + b1)
y = W2 @ a + b2""",
    "conv": "x: input[c, T]\nK: param[o, c, k]\nb: param[o]\n"
    "y[o, t] = tanh(sum[c, q](K[o, c, q] * x[c, t + q]) + b[o])",
    "attention": """
X: input[T, d]
Wq: param[d, k]
Wk: param[d, k]
Wv: param[d, k]
A = softmax((X @ Wq) @ (X @ Wk).T / sqrt(k))
Y = A @ (X @ Wv)""",
    "layernorm": "x: input[n]\ng: param[n]\nb: param[n]\neps: const = 1e-5\n"
    "y = g * (x - mean(x)) / sqrt(var(x) + eps) + b",
    "softmax": "x: input[n]\nW: param[m, n]\ny = softmax(W @ x)",
    "embedding": "t: index(v)[T]\nE: param[v, d]\nW: param[m, d]\n"
    "z = E[t]\ny = tanh(mean(z.T) @ W.T)",
    "two": "x: input[n]\nW: param[m, n]\na: param\ny = sin(W @ x)\ns = a * sum(y)\nreturn y, s",
    "params_only": "S: param[m, m]\nw: param[m]\ny = tanh(S @ w)",
    "scalars": "x: input\na: param\nb: param\ny = exp(a * x) + b",
    "consts": "x: input[n]\nw: param[n]\nr: const[n]\nalpha: const = 0.5\n"
    "y = alpha * w * x + r * w**2",
    "tied": "x: input[n]\nW: param[n, n]\nz = tanh(W @ x)\ny = W @ z + x",
    "shared": "x: input[n]\nA: param[m, m]\nw: param[m]\nC = A @ A.T\ny = x * (w @ C @ w)",
    "beside": "x: input[n]\nw: param[m]\nV: param[n]\nk = tanh(w)\ny = dot(V, x)\nreturn k, y",
    "residual": "x: input[n]\nW0: param[n, n]\nW1: param[n, n]\nW2: param[n, n]\n"
    "h1 = x + tanh(W0 @ x)\nh2 = h1 + tanh(W1 @ h1)\nh3 = h2 + tanh(W2 @ h2)",
    "pool": "x: input[n]\nW: param[m, n]\n"
    "y[i] = max[k](W[i, k] * x[k])\nz = logsumexp(y) * norm(y)",
    "outer": "x: input[n]\nu: param[m]\ny = outer(u, x) * sum(x)",
}


@dataclass(frozen=True)
class Sample:
    """A compiled layer that runs as plain Python, and arrays for all but consts with values."""

    name: str
    jac: sg.Compiled
    arrays: dict

    @property
    def batched(self):
        return any(a.batched for a in self.jac.forms.program.arrays)

    @property
    def outputs(self):
        """The outputs as a tuple."""
        value = self.jac.forward(**self.arrays)
        return value if isinstance(value, tuple) else (value,)

    @property
    def positional(self):
        return list(self.arrays.values())

    def given(self, u):
        """A tuple of vectors as the layer wants it."""
        return u if len(u) > 1 else u[0]

    def random_u(self, seed=3):
        rng = np.random.default_rng(seed)
        return tuple(rng.normal(size=y.shape).astype(y.dtype) for y in self.outputs)

    def tangents(self, seed=4):
        rng = np.random.default_rng(seed)
        return {n: rng.normal(size=np.shape(self.arrays[n])) for n in self.jac.wrt}

    def keys(self):
        names = self.jac.forms.program.outputs
        return [((o, p) if len(names) > 1 else p) for o in names for p in self.jac.wrt]


def compiled(text, wrt="all", plain=True, **options):
    """Compile without validation; `plain` runs the kernels as Python."""
    jac = sg.compile(text, wrt, check=False, **options)
    return replace(jac, module=build.load(jac.path, plain=True)) if plain else jac


def with_steps(source, text):
    """Return code of a module with the functions of pieces that it runs."""
    names = dict.fromkeys(re.findall(r"_steps_\d+", text))
    steps = (source[source.index(f"def {n}(") :].partition("\n\n\n")[0] for n in names)
    return "\n".join((text, *steps))


def arrays_for(jac, batch=3, seed=0, dtype=np.float64, sizes=None):
    """Return random arrays in declared order, without the consts that have values."""
    rng = np.random.default_rng(seed)
    table = {**SIZES, **(sizes or {})}
    found = {}
    for array in jac.forms.program.arrays:
        if array.default is not None:
            continue
        shape = tuple(d.evaluate(table) for d in array.axes)
        if array.batched and batch is not None:
            shape = (batch, *shape)
        if array.vocabulary is not None:
            found[array.name] = rng.integers(0, array.vocabulary.evaluate(table), size=shape)
        else:
            found[array.name] = np.asarray(rng.normal(size=shape)).astype(dtype)
    return found


def sample(name, batch=3, seed=0, plain=True, sizes=None, text=None, **options):
    """Return a layer of the table with arrays."""
    jac = compiled(text or TEXTS[name], plain=plain, name=name, **options)
    return Sample(name, jac, arrays_for(jac, batch, seed, sizes=sizes))


def differences(one, theta, step=1e-5):
    """Return central differences of all outputs with respect to one array, samples kept apart."""
    array = one.arrays[theta]
    is_input = one.jac.forms.program.array(theta).batched
    own = array.shape[1:] if is_input else array.shape
    results = []
    for at in np.ndindex(own):

        def moved(sign, at=at):
            changed = np.array(array, float)
            changed[(slice(None), *at) if is_input else at] += sign * step
            return replace(one, arrays={**one.arrays, theta: changed}).outputs

        results.append([(a - b) / (2 * step) for a, b in zip(moved(1), moved(-1), strict=True)])
    stacked = []
    for k, y in enumerate(one.outputs):
        columns = np.stack([r[k] for r in results], -1) if results else np.zeros((*y.shape, 0))
        stacked.append(columns.reshape(*y.shape, *own))
    return stacked


def unvalidated(text, *, plain=False, **options):
    """Compile without validation; with `plain` the module runs as plain Python."""
    if not plain:
        return sg.compile(text, check=False, **options)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        patch.setattr(numba.config, "DISABLE_JIT", True)
        return sg.compile(text, check=False, **options)
