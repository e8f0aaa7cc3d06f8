"""What check promises: every construct means what numpy means, one sample at a time."""

# ruff: noqa: PLW0108 - the functions of numpy take arrays by the names the layers give them

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from symgrad.check import check, verify
from symgrad.errors import InternalError, LayerSyntaxError, ShapeError, SymgradError
from symgrad.parse import parse
from symgrad.program import Access, Apply, Number, Reduce, Rowwise, Size, scalars_of, walk
from symgrad.proof.interpret import domains_hold, interpret
from symgrad.show import show

B = 3
SIZES = {"n": 4, "m": 3, "p": 5, "T": 6, "c": 2, "k": 3, "h": 2, "v": 5, "d": 4, "q": 2}
TOLERANCE = 1e-12
"""A few hundred roundings of numbers of order ten."""


def draw(program, seed=0):
    """Return random arrays for a program."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for array in program.arrays:
        shape = tuple(dim.evaluate(SIZES) for dim in array.axes)
        shape = (B, *shape) if array.batched else shape
        if array.vocabulary is not None:
            arrays[array.name] = rng.integers(0, array.vocabulary.evaluate(SIZES), shape)
        elif array.default is None:
            arrays[array.name] = rng.normal(size=shape)
    return arrays


def run(text, **options):
    """Return a program, its arrays and its values."""
    program = check(parse(text), **options)
    arrays = draw(program)
    return program, arrays, interpret(program, arrays)


def per_sample(program, arrays, function):
    """Apply a numpy function of named arrays to each sample."""
    batched = [a.name for a in program.arrays if a.batched]
    rows = []
    for sample in range(B):
        rows.append(
            function(**{n: a[sample] if n in batched else a for n, a in arrays.items()})
        )
    return np.stack(rows)


def agrees(text, function, **options):
    """Assert that the output of a layer is what numpy says, and return the program."""
    program, arrays, values = run(text, **options)
    expected = per_sample(program, arrays, function)
    got = values[program.outputs[0]]
    if program.batch not in program.definition(program.outputs[0]).indices:
        expected = expected[0]
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=TOLERANCE, atol=TOLERANCE)
    assert show(program)
    return program


def softmax(z, axis=-1):
    e = np.exp(z - z.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


DENSE = "x: input[n]\nW: param[m, n]\nb: param[m]\n"
VECTORS = "x: input[n]\nu: param[n]\n"
MATRIX = "x: input[n, m]\n"
TOKENS = "t: index(v)\ns: index(v)[T]\nE: param[v, d]\nW: param[m, d]\nz: input[T, v]\n"

CASES = {
    # products of all ranks
    "1d @ 1d": ("x: input[n]\nu: param[n]\ny = x @ u", lambda x, u: x @ u),
    "2d @ 1d": (DENSE + "y = W @ x + b", lambda x, W, b: W @ x + b),
    "1d @ 2d": ("x: input[m]\nW: param[m, n]\ny = x @ W", lambda x, W: x @ W),
    "2d @ 2d": ("x: input[n, m]\nW: param[m, p]\ny = x @ W", lambda x, W: x @ W),
    "3d @ 2d": ("x: input[T, n, m]\nW: param[m, p]\ny = x @ W", lambda x, W: x @ W),
    "3d @ 3d": ("x: input[T, n, m]\nW: param[T, m, p]\ny = x @ W", lambda x, W: x @ W),
    "stacked with a 1": ("x: input[T, n, m]\nW: param[1, m, p]\ny = x @ W", lambda x, W: x @ W),
    "1d @ 3d": ("x: input[m]\nW: param[T, m, p]\ny = x @ W", lambda x, W: x @ W),
    "3d @ 1d": ("x: input[m]\nW: param[T, p, m]\ny = W @ x", lambda x, W: W @ x),
    "dot product sign": (DENSE + "y = W·x + 2·b", lambda x, W, b: W @ x + 2 * b),
    "transpose": ("x: input[n, m]\nW: param[p, m]\ny = W @ x.T", lambda x, W: W @ x.T),
    # arithmetic
    "broadcast": ("x: input[n, m]\nu: param[m]\ny = x * u - u / 2", lambda x, u: x * u - u / 2),
    "broadcast a 1": ("x: input[n, 1]\nu: param[m]\ny = x + u", lambda x, u: x + u),
    "powers": (VECTORS + "y = -x**2 + 2**u", lambda x, u: -(x**2) + 2**u),
    "pi": (VECTORS + "y = pi * x + u", lambda x, u: np.pi * x + u),
    "dim as a number": (VECTORS + "y = x / sqrt(n) + n*u", lambda x, u: x / 2 + 4 * u),
    "nested sums": (
        DENSE + "y = (W @ x + b) * (W @ x) / 2 - (b - W @ x)",
        lambda x, W, b: (W @ x + b) * (W @ x) / 2 - (b - W @ x),
    ),
    "scaled sum": (
        DENSE + "y = b * (W @ x + b) + (W @ x) / b",
        lambda x, W, b: b * (W @ x + b) + (W @ x) / b,
    ),
    # functions
    "defaults": (
        VECTORS + "y = leaky_relu(x) + hardtanh(u)",
        lambda x, u: np.where(x > 0, x, 0.01 * x) + np.clip(u, -1, 1),
    ),
    "keywords": (
        VECTORS + "y = leaky_relu(x, slope=0.2) + clip(u, 0, high=1)",
        lambda x, u: np.where(x > 0, x, 0.2 * x) + np.clip(u, 0, 1),
    ),
    "array argument": (VECTORS + "y = prelu(x, u)", lambda x, u: np.where(x > 0, x, u * x)),
    "two arguments": (VECTORS + "y = maximum(x, u) + hypot(x, 1)", lambda x, u: (
        np.maximum(x, u) + np.hypot(x, 1)
    )),
    "where": (VECTORS + "y = where(x > 0, x, u)", lambda x, u: np.where(x > 0, x, u)),
    "chain": (VECTORS + "y = where(0 < x < 1, x, u)", lambda x, u: np.where(
        (x > 0) & (x < 1), x, u
    )),
    "masks": (
        VECTORS + "m = (x > u) | ~(u <= 0)\ny = m * x + where(m & (x == x), 1, 0)",
        lambda x, u: ((x > u) | (u > 0)) * x + ((x > u) | (u > 0)),
    ),
    # axes
    "sum of the last axis": (MATRIX + "y = sum(x)", lambda x: x.sum(-1)),
    "sum of everything": (MATRIX + "y = sum(x, axis=None)", lambda x: x.sum()),
    "sum of a tuple": ("x: input[n, m, p]\ny = sum(x, axis=(0, -1))", lambda x: x.sum((0, 2))),
    "keepdims": (MATRIX + "y = x - mean(x, axis=0, keepdims=True)", lambda x: x - x.mean(0)),
    "mean": (MATRIX + "y = mean(x) + mean(x, axis=None)", lambda x: x.mean(-1) + x.mean()),
    "prod": (MATRIX + "y = prod(x, axis=0)", lambda x: x.prod(0)),
    "max": (MATRIX + "y = max(x * x)", lambda x: (x * x).max(-1)),
    "min of all": (MATRIX + "y = min(x, axis=None)", lambda x: x.min()),
    "var": (MATRIX + "y = var(x, ddof=1)", lambda x: x.var(-1, ddof=1)),
    "std": (MATRIX + "y = std(2 * x, axis=0)", lambda x: (2 * x).std(0)),
    "norm": (MATRIX + "y = norm(x)", lambda x: np.sqrt((x * x).sum(-1))),
    "Frobenius": (MATRIX + "y = norm(x, axis=None)", lambda x: np.sqrt((x * x).sum())),
    "normalize": (
        MATRIX + "y = normalize(x + 1)",
        lambda x: (x + 1) / np.sqrt(((x + 1) ** 2).sum(-1, keepdims=True)),
    ),
    "logsumexp": (MATRIX + "y = logsumexp(x, axis=0)", lambda x: np.log(np.exp(x).sum(0))),
    "softmax": (MATRIX + "y = softmax(x)", lambda x: softmax(x)),
    "softmax of columns": (MATRIX + "y = softmax(x, axis=0)", lambda x: softmax(x, 0)),
    "softmax transposed": (MATRIX + "y = softmax(x, axis=0).T", lambda x: softmax(x, 0).T),
    "softmax of all": (
        MATRIX + "y = softmax(x, axis=None)", lambda x: np.exp(x) / np.exp(x).sum()
    ),
    "log_softmax inside": (
        DENSE + "y = exp(log_softmax(W @ x) + b)",
        lambda x, W, b: softmax(W @ x) * np.exp(b),
    ),
    "softmax element": (DENSE + "y = softmax(W @ x)[0]", lambda x, W, b: softmax(W @ x)[0]),
    "cumsum": (MATRIX + "y = cumsum(x, axis=0)", lambda x: x.cumsum(0)),
    # slices
    "slices": ("x: input[T]\ny = x[1:] - x[:-1]", lambda x: x[1:] - x[:-1]),
    "steps": ("x: input[T]\ny = x[::2]", lambda x: x[::2]),
    "backwards": ("x: input[T]\ny = x[::-1]", lambda x: x[::-1]),
    "backwards by two": ("x: input[T]\ny = x[4:0:-2]", lambda x: x[4:0:-2]),
    "dim bounds": ("x: input[n + m]\nu: param[n]\ny = x[:n] * u", lambda x, u: x[:4] * u),
    "dim middle": ("x: input[n + m]\nu: param[m]\ny = x[n: n + m] * u", lambda x, u: x[4:7] * u),
    "dots": ("x: input[T, n, m]\ny = x[..., 0]", lambda x: x[..., 0]),
    "dots in front": ("x: input[T, n, m]\ny = x[0, ..., -1]", lambda x: x[0, :, -1]),
    "new axis": (VECTORS + "y = x[:, None] * u[None, :]", lambda x, u: np.outer(x, u)),
    "partial": (MATRIX + "y = x[1] + x[-1]", lambda x: x[1] + x[-1]),
    "last by dim": (MATRIX + "y = x[n - 1]", lambda x: x[-1]),
    "slice of a slice": ("x: input[T]\ny = x[1:][::2][1]", lambda x: x[3]),
    # index style
    "dense by index": (
        DENSE + "y[i] = sigmoid(sum[k](W[i, k] * x[k]) + b[i])",
        lambda x, W, b: 1 / (1 + np.exp(-(W @ x + b))),
    ),
    "bilinear": (
        ("x: input[n]\nu: input[m]\nA: param[p, n, m]\n"
        "y[i] = sum[j, l](A[i, j, l] * x[j] * u[l])"),
        lambda x, u, A: np.einsum("ijl,j,l->i", A, x, u),
    ),
    "inner sum": (
        "x: input[n]\nA: param[n, n]\ny = sum[i](x[i] * sum[k](A[i, k] * x[k]))",
        lambda x, A: x @ A @ x,
    ),
    "convolution": (
        ("x: input[c, T]\nw: param[q, c, k]\n"
        "y[o, s] = sum[a, r](w[o, a, r] * x[a, s + r])"),
        lambda x, w: np.stack(
            [np.einsum("oar,ar->o", w, x[:, s : s + 3]) for s in range(4)], axis=1
        ),
    ),
    "strided": (
        "x: input[T]\nw: param[k]\ny[s] = sum[r](w[r] * x[2*s + r])",
        lambda x, w: np.array([w @ x[2 * s : 2 * s + 3] for s in range(2)]),
    ),
    "flip": ("x: input[T]\ny[i] = x[T - 1 - i]", lambda x: x[::-1]),
    "diagonal": ("x: input[n, n]\ny[i] = x[i, i]", lambda x: np.diag(x)),
    "stated": ("x: input[T]\ny[t: T - 1] = x[t + 1] - x[t]", lambda x: np.diff(x)),
    "stated bound": (
        "x: input[T]\ny[i: T - 1] = sum[q: 2](x[i + q])", lambda x: x[1:] + x[:-1]
    ),
    "same name twice": (
        MATRIX + "y[i] = sum[k](x[i, k]) * sum[k](x[k, 0])", lambda x: x.sum(1) * x[:, 0].sum()
    ),
    "delta": ("x: input[n]\ny[i, j] = delta(i, j) * x[i]", lambda x: np.diag(x)),
    "delta in a sum": ("x: input[n]\ny[i] = sum[j](delta(i, j) * x[j])", lambda x: x),
    "index as a number": (
        "x: input[n]\ny[i, j] = where(i >= j, x[i] * i, x[j])",
        lambda x: np.where(
            np.arange(4)[:, None] >= np.arange(4), (x * np.arange(4))[:, None], x[None, :]
        ),
    ),
    "mean by index": (MATRIX + "y[i] = mean[k](x[i, k])", lambda x: x.mean(1)),
    "max by index": (MATRIX + "y[i] = max[k](x[i, k] * x[i, k])", lambda x: (x * x).max(1)),
    "logsumexp by index": (
        MATRIX + "y = logsumexp[i, j](x[i, j])", lambda x: np.log(np.exp(x).sum())
    ),
    "prod by index": (MATRIX + "y[j] = prod[i](x[i, j])", lambda x: x.prod(0)),
    "remaining axes": (
        "x: input[T, n]\nW: param[m, n]\nb: param[m]\ny[t] = softmax(W @ x[t] + b)",
        lambda x, W, b: softmax(x @ W.T + b),
    ),
    "matrix body of a sum": (
        "x: input[n]\nA: param[n, m]\ny = sum[k](A[k] * x[k])", lambda x, A: x @ A
    ),
    "index hides a dim": ("x: input[n, m]\ny[n, m] = x[n, m] * n", lambda x: (
        x * np.arange(4)[:, None]
    )),
    # gathers
    "gather a row": (TOKENS + "y = W @ E[t]", lambda t, s, E, W, z: W @ E[t]),
    "gather whole": (TOKENS + "y = E[s]", lambda t, s, E, W, z: E[s]),
    "gather by index": (TOKENS + "y[i] = E[s[i]] * i", lambda t, s, E, W, z: (
        E[s] * np.arange(6)[:, None]
    )),
    "gather columns": (TOKENS + "y = z[:, t]", lambda t, s, E, W, z: z[:, t]),
    "gather labels": (
        TOKENS + "l = log_softmax(z)\ny = -mean[i](l[i, s[i]])",
        lambda t, s, E, W, z: -np.mean(np.log(softmax(z))[np.arange(6), s]),
    ),
    "gather a softmax": (
        TOKENS + "y = log_softmax(z[0] + z[1])[t]",
        lambda t, s, E, W, z: np.log(softmax(z[0] + z[1]))[t],
    ),
    "gather an expression": (TOKENS + "y = (2 * E)[s]", lambda t, s, E, W, z: 2 * E[s]),
    "one hot": (TOKENS + "y[k] = z[0, k] - delta(t, k)", lambda t, s, E, W, z: (
        z[0] - np.eye(5)[t]
    )),
    "slice of indices": (TOKENS + "y = E[s[1:]]", lambda t, s, E, W, z: E[s[1:]]),
    # macros
    "macro": (
        DENSE + "def f(a, c):\n    q = a * c\n    return q + tanh(q)\ny = f(W @ x, b)",
        lambda x, W, b: (W @ x) * b + np.tanh((W @ x) * b),
    ),
    "nested macros": (
        ("x: input[n]\nW: param[n, n]\ndef g(a):\n    return f(f(a))\n"
        "def f(a):\n    return a + tanh(W2(a))\ndef W2(a):\n    return a * n\ny = g(x)"),
        lambda x, W: (x + np.tanh(4 * x)) + np.tanh(4 * (x + np.tanh(4 * x))),
    ),
    "macro by index": (
        ("x: input[n, m]\nb: param[m]\ndef f(a, c):\n    q[i] = a[i] * c[i]\n"
        "    return sum(q) + sum[i](q[i] * a[i])\ny[t] = f(x[t], b)"),
        lambda x, b: (x * b).sum(1) + (x * b * x).sum(1),
    ),
    "argument hides": (
        DENSE + "def f(x):\n    return x * 2\ny = f(b)", lambda x, W, b: 2 * b
    ),
    # arrays
    "dot": (VECTORS + "y = dot(x, u)", lambda x, u: x @ u),
    "outer": (VECTORS + "y = outer(x, u)", lambda x, u: np.outer(x, u)),
    "einsum": (
        'x: input[n]\nA: param[m, n]\ny = einsum("ij,j->i", A, x)', lambda x, A: A @ x
    ),
    "einsum implicit": ('x: input[n, m]\nA: param[m, p]\ny = einsum("ij,jk", x, A)', (
        lambda x, A: x @ A
    )),
    "einsum trace": ('x: input[n, n]\ny = einsum("ii", x)', lambda x: np.trace(x)),
    "einsum diagonal": ('x: input[n, n]\ny = einsum("ii->i", x)', lambda x: np.diag(x)),
    "transpose order": (
        "x: input[T, n, m]\ny = transpose(x, (1, 2, 0))", lambda x: x.transpose(1, 2, 0)
    ),
    "trace": ("x: input[n, n]\ny = trace(x)", lambda x: np.trace(x)),
    "diag of a matrix": ("x: input[n, n]\ny = diag(x)", lambda x: np.diag(x)),
    "diag of a vector": ("x: input[n]\ny = diag(x * 2)", lambda x: np.diag(2 * x)),
    "squeeze": ("x: input[n, 1]\ny = squeeze(x)", lambda x: x[:, 0]),
    "expand_dims": ("x: input[n]\ny = expand_dims(x, axis=0)", lambda x: x[None]),
    "broadcast_to": ("x: input[n]\nu: param[m]\ny = broadcast_to(x, (m, n))", (
        lambda x, u: np.broadcast_to(x, (3, 4))
    )),
    "tril": ("x: input[n, n]\ny = tril(x)", lambda x: np.tril(x)),
    "triu of a product": ("x: input[n, n]\ny = triu(x @ x)", lambda x: np.triu(x @ x)),
    "eye": ("x: input[n, n]\ny = x + eye(n)", lambda x: x + np.eye(4)),
    "zeros and ones": ("x: input[n]\ny = x + ones(n) - zeros((n,))", lambda x: x + 1),
    "stack": (VECTORS + "y = stack([x, u])", lambda x, u: np.stack([x, u])),
    "concatenate": (
        "x: input[n]\nu: param[m]\ny = tanh(concatenate([x, u * 2]))",
        lambda x, u: np.tanh(np.concatenate([x, 2 * u])),
    ),
    "concatenate rows": (
        "x: input[n, m]\nu: param[n, p]\ny = concatenate([x, u], axis=-1)",
        lambda x, u: np.concatenate([x, u], axis=-1),
    ),
    "pad": ("x: input[n, m]\ny = pad(x, ((0, 0), (1, 2)))", lambda x: np.pad(
        x, ((0, 0), (1, 2))
    )),
    "pad and convolve": (
        "x: input[T]\nw: param[k]\np = pad(x, ((0, k - 1),))\ny[t] = sum[r](w[r] * p[t + r])",
        lambda x, w: np.array([w @ np.pad(x, (0, 2))[s : s + 3] for s in range(6)]),
    ),
    # the rest
    "stop_gradient": (
        VECTORS + "y = x + stop_gradient(round(x) - x) * u", lambda x, u: x + (np.rint(x) - x) * u
    ),
    "const": ("x: input[n]\neps: const = 0.5\ny = x + eps", lambda x: x + 0.5),
    "no batch": ("W: param[n, m]\ny = W @ W.T", lambda W: W @ W.T),
    "layer norm with std": (
        "x: input[n]\ng: param[n]\nb: param[n]\ny = g * (x - mean(x)) / std(x) + b",
        lambda x, g, b: g * (x - x.mean()) / x.std() + b,
    ),
    "triangles off the diagonal": (
        "x: input[n, m]\ny = tril(x, 1) + triu(x, k=-1) * 2 + tril(x, -2) + triu(x, 1)",
        lambda x: np.tril(x, 1) + np.triu(x, -1) * 2 + np.tril(x, -2) + np.triu(x, 1),
    ),
    "triangle times vector": ("x: input[n]\nA: param[n, n]\ny = tril(A) @ x", (
        lambda x, A: np.tril(A) @ x
    )),
    "minus a product": (DENSE + "y = -(W @ x) * b - (b - W @ x) * 3 / b", (
        lambda x, W, b: -(W @ x) * b - (b - W @ x) * 3 / b
    )),
    "sum of products of sums": (
        "x: input[n]\nA: param[n, n]\ny = sum[i](-x[i] * sum[k](A[i, k] * x[k]) / (1 + x[i]**2))",
        lambda x, A: -np.sum(x * (A @ x) / (1 + x**2)),
    ),
    "layer norm": (
        "x: input[n]\ng: param[n]\ny = g * (x - mean(x)) / sqrt(var(x) + 1e-5)",
        lambda x, g: g * (x - x.mean()) / np.sqrt(x.var() + 1e-5),
    ),
    "attention": (
        ("x: input[T, n]\nQ: param[d, n]\nK: param[d, n]\n"
        "y = softmax((x @ Q.T) @ (x @ K.T).T / sqrt(d)) @ x"),
        lambda x, Q, K: softmax((x @ Q.T) @ (x @ K.T).T / 2) @ x,
    ),
    "causal attention": (
        "x: input[T, n]\nS[i, j] = where(j <= i, x[i] @ x[j], -1e30)\ny = softmax(S) @ x",
        lambda x: softmax(np.where(np.tri(6) > 0, x @ x.T, -1e30)) @ x,
    ),
    "root mean square": (
        "x: input[n]\ny = x / sqrt(mean(x**2) + 1e-6)",
        lambda x: x / np.sqrt((x**2).mean() + 1e-6),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_construct_means_what_numpy_means(name):
    agrees(*CASES[name])


def cases():
    return sorted((Path(__file__).parent / "cases").glob("*.json"))


def body(program, name):
    return program.definition(name).body


def test_a_dense_layer_is_one_definition_of_two_terms():
    program = check(parse(DENSE + "z = W @ x + b"))
    assert [d.name for d in program.definitions] == ["z"]
    first, second = body(program, "z")
    assert [len(first.bound), len(second.bound)] == [1, 0]
    assert [f.array for f in first.factors] == ["W", "x"]
    assert program.definition("z").indices[0] == program.batch


def test_the_whole_argument_of_a_function_gets_a_name():
    program = check(parse(DENSE + "y = sigmoid(W @ x + b)"))
    assert [d.name for d in program.definitions] == ["z", "y"]
    assert len(body(program, "z")) == 2
    assert not program.definition("z").written


def test_equal_parts_get_one_name():
    program = check(parse(DENSE + "y = tanh(W @ x) * sigmoid(W @ x) + tanh(W @ x)"))
    assert [d.name for d in program.definitions] == ["z", "y"]


def test_a_sum_in_a_sum_is_one_sum():
    program = check(parse("x: input[n, m]\ny = sum[i](sum[j](x[i, j]))"))
    (term,) = body(program, "y")
    assert len(term.bound) == 2


def test_parts_of_parameters_only_have_no_batch_axis():
    program = check(parse(DENSE + "y = tanh(W @ x) * exp(sum(W))"))
    names = {d.name: program.batch in d.indices for d in program.definitions}
    assert sorted(names.values()) == [False, True, True]


def test_reductions_read_one_access():
    program = check(parse("x: input[n, m]\ny = softmax(x * 2) + max(x + 1, axis=0)"))
    for made in program.definitions:
        if isinstance(made.body, Reduce | Rowwise):
            assert isinstance(made.body.body, Access)


def test_variance_leans_on_a_mean_called_mu():
    program = check(parse("x: input[n]\ny = x / sqrt(var(x) + 1e-5)"))
    assert [d.name for d in program.definitions] == ["mu", "v", "y"]


def test_variance_uses_the_mean_the_author_named():
    program = check(parse("x: input[n]\na = mean(x)\nv = var(x)\ny = v + a"))
    assert [d.name for d in program.definitions] == ["a", "v", "y"]


def test_stop_gradient_is_a_frozen_definition():
    program = check(parse(VECTORS + "y = x + stop_gradient(round(x) - x)"))
    assert [d.frozen for d in program.definitions] == [True, False]


def test_a_body_without_sums_stays_as_it_was_written():
    program = check(parse("x: input\na: param\nb: param\nc: param\ny = exp(log(b * a * x) + c)"))
    (term,) = body(program, "y")
    assert term.bound == ()
    assert isinstance(term.factors[0], Apply)
    assert term.factors[0].function == "exp"


def test_no_two_definitions_share_an_index():
    program = check(parse("x: input[n, n]\nz = x @ x\ny[i] = max[k](z[i, k] * x[k, i])"))
    seen = [i for d in program.definitions for i in d.indices if i != program.batch]
    assert len(seen) == len(set(seen))


def test_dims_are_replaced_before_anything_is_compared():
    text = "x: input[n]\nW: param[m, p]\ny = W @ x / sqrt(p)"
    with pytest.raises(ShapeError):
        check(parse(text))
    program = check(parse(text), dims={"p": "n"})
    assert program.array("W").axes == program.array("W").axes[:1] + program.array("x").axes
    program = check(parse("x: input[n]\ny = x / n"), dims={"n": 6})
    numbers = [s for f in scalars_of(body(program, "y")) for s in walk(f)]
    assert Number(6) in numbers
    assert not any(isinstance(s, Size) for s in numbers)


def test_abstract_functions_stay_until_they_are_bound():
    text = DENSE + "z = W @ x + b\ny = σ(z)"
    (term,) = body(check(parse(text)), "y")
    assert term.factors[0].function == "σ"
    (term,) = body(check(parse(text), functions={"σ": "tanh"}), "y")
    assert term.factors[0].function == "tanh"
    bound = check(parse("def f(a):\n    return a * a\n" + text), functions={"σ": "f"})
    (term,) = body(bound, "y")
    assert all(f.array == "z" for f in term.factors)


def test_binding_to_an_unknown_function_offers_a_similar_one():
    with pytest.raises(LayerSyntaxError) as caught:
        check(parse(DENSE + "y = σ(W @ x)"), functions={"σ": "tanhh"})
    assert "did you mean tanh?" in str(caught.value)


def test_a_broken_program_is_our_fault():
    program = check(parse(DENSE + "y = W @ x"))
    verify(program)
    made = program.definitions[0]
    for broken in (
        replace(program, definitions=(made, made)),
        replace(program, arrays=program.arrays[1:]),
        replace(program, outputs=("q",)),
        replace(program, definitions=(replace(made, indices=made.indices[:1]),)),
    ):
        with pytest.raises(InternalError):
            verify(broken)


def test_several_outputs_keep_their_order():
    program = check(parse(DENSE + "z = W @ x\na = tanh(z)\nreturn a, z"))
    assert program.outputs == ("a", "z")


def test_domains_are_conditions_over_every_element():
    program, arrays, _ = run("x: input[n]\na: param\nassert a * x > 0\ny = log(a * x)")
    (condition,) = program.conditions
    assert condition.text == "a * x > 0"
    assert condition.indices[0] == program.batch
    arrays["x"], arrays["a"] = np.abs(arrays["x"]), 2.0
    assert domains_hold(program, arrays) == (True,)
    arrays["a"] = -2.0
    assert domains_hold(program, arrays) == (False,)


def test_what_symbols_cannot_decide_is_checked_at_the_call():
    program = check(parse("x: input[n]\ny = x[2:]"))
    assert next((str(c.low), str(c.high), str(c.limit)) for c in program.checks) == ("2", "2", "n")
    program = check(parse("x: input[T]\nw: param[k]\ny[s] = sum[r](w[r] * x[s + r])"))
    assert any(str(c.low) == "T - k + 1" for c in program.checks)
    assert not check(parse("x: input[n]\ny = x[:n]")).checks


def test_names_never_collide():
    program = check(parse("z: input[s]\nW: param[v, s]\ny = tanh(W @ z)"))
    assert [d.name for d in program.definitions] == ["r", "y"]


ERRORS = {
    "mismatch": (DENSE + "y = W.T @ x", "W.T"),
    "no broadcast": ("x: input[n]\nu: input[m]\ny = x + u", "does not fit"),
    "bare ranges": (
        "x: input[p]\nW: param[m, n]\nz[i] = sum[k](W[i, k] * x[k])",
        "index k runs over n in W[i, k] but over p in x[k]",
    ),
    "too many": ("x: input[n]\ny[i, j] = x[i, j]", "has 1 axis, but 2"),
    "no range": ("x: input[n]\ny[i] = sum[k](x[0]) * i", "range of index"),
    "two unknown": ("x: input[n]\ny[i] = sum[k](x[i + k])", "range of index"),
    "outside": ("x: input[4]\ny = x[5]", "outside"),
    "outside slice": ("x: input[4]\ny = x[:5]", "outside"),
    "below zero": ("x: input[n]\ny[i: n] = x[i - 1]", "below 0"),
    "beyond": ("x: input[n]\ny[i: n] = x[i + 1]", "beyond"),
    "unsolved": ("x: input[h*d]\ny = x * 2", "determines the dim"),
    "unsolved range": ("x: input[n]\ny[t: K] = x[0] * t", "determines the dim K"),
    "unsolved eye": ("x: input[n]\nz = eye(k)\ny = x * sum(z, axis=None)", "the dim k"),
    "vocabulary": ("t: index(v)\nE: param[n, d]\ny = E[t]", "indices below v"),
    "index arithmetic": ("t: index(v)\nx: input[v]\ny = x * t", "not numbers"),
    "index shift": ("t: index(v)\nx: input[v]\ny = x[t + 1]", "arithmetic"),
    "two index arrays": ("t: index(v)[T]\nx: input[v, v]\ny = x[t, t]", "only one index array"),
    "scalar axis": ("x: input\ny = sum(x)", "scalar"),
    "axis": ("x: input[n]\ny = sum(x, axis=1)", "no axis 1"),
    "scalar @": ("x: input[n]\na: param\ny = a @ x", "scalar"),
    "square": ("x: input[n, m]\ny = trace(x)", "not square"),
    "not affine": ("x: input[n]\ny[i, j: n] = x[i * j]", "not affine"),
    "dims": ("x: input[n]\ny = x * 2", "no dim of this layer"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_shape_errors_say_what_and_where(name):
    text, words = ERRORS[name]
    options = {"dims": {"nn": 3}} if name == "dims" else {}
    with pytest.raises(ShapeError) as caught:
        check(parse(text), **options)
    assert words in str(caught.value)
    if name != "dims":
        assert "^" in str(caught.value)
    assert caught.value.hint is not None or name in ("scalar @", "square")


SYNTAX = {
    "max of two": (VECTORS + "y = max(x, u)", "maximum(a, b)"),
    "mask output": (VECTORS + "y = x > u", "mask and cannot be an output"),
    "assert of a number": (VECTORS + "assert x\ny = x", "asks for a comparison"),
    "rebinding": (MATRIX + "y[i] = sum[i](x[i, 0])", "bound already"),
    "join numbers": (VECTORS + "y = where(x & u, 1, 0)", "joins masks"),
    "keyword": (MATRIX + "y = softmax(x, keepdims=True)", "has no keepdims"),
    "arguments": (VECTORS + "y = tanh(x, u)", "takes 1 argument"),
    "missing": (VECTORS + "y = clip(x, 0)", "needs the argument high"),
    "where number": (VECTORS + "y = where(x, x, u)", "asks for a mask"),
}


@pytest.mark.parametrize("name", SYNTAX)
def test_syntax_errors_say_what_to_do(name):
    text, words = SYNTAX[name]
    with pytest.raises(LayerSyntaxError) as caught:
        check(parse(text))
    assert words in str(caught.value)


def test_the_remedy_names_the_declaration():
    with pytest.raises(SymgradError) as caught:
        check(parse("x: input[p]\nW: param[m, n]\nz[i] = sum[k](W[i, k] * x[k])"))
    assert "declare x: input[n], or sum over another index" in str(caught.value)


def test_a_program_prints_in_index_notation():
    program = check(parse("x: input[n]\nW: param[m, n]\na: param[m]\nz = W @ x + a"))
    assert "z[b, i: m] = sum[k: n](W[i, k]*x[b, k]) + a[i]" in show(program)


@pytest.mark.parametrize("path", cases(), ids=lambda path: path.stem)
def test_the_shared_cases_have_the_values_they_should(path):
    case = json.loads(path.read_text())
    program = check(parse(case["layer"]))
    values = interpret(program, case["arrays"])
    for position, expected in case["outputs"].items():
        got = values[program.outputs[int(position)]]
        np.testing.assert_allclose(got, np.array(expected), rtol=1e-9, atol=1e-12)
