"""Linear algebra: inv, det, logdet, solve and cholesky, against PyTorch and differences.

Every layer below is held against automatic differentiation in float64, form by form; products
agree to rtol 1e-9 of the largest entry, which leaves seven digits for the matrices' condition.
"""

import numpy as np
import pytest

import symgrad as sg

LAYERS = {
    "inverse of a parameter": (
        "x: input[n]\nA: param[n, n]\ny = inv(A + 3*eye(n)) @ x",
        lambda t, x, A: t.linalg.inv(A + 3 * t.eye(len(A), dtype=A.dtype)) @ x,
    ),
    "inverse of a sample's matrix, transposed": (
        "A: input[n, n]\nb: param[n]\ny = inv(A + 4*eye(n)).T @ b",
        lambda t, A, b: t.linalg.inv(A + 4 * t.eye(len(A), dtype=A.dtype)).T @ b,
    ),
    "the inverse itself": (
        "A: param[n, n]\nY = inv(A + 4*eye(n))",
        lambda t, A: t.linalg.inv(A + 4 * t.eye(len(A), dtype=A.dtype)),
    ),
    "determinant": (
        "A: input[n, n]\na: param\ny = det(a*A + eye(n))",
        lambda t, A, a: t.linalg.det(a * A + t.eye(len(A), dtype=A.dtype)),
    ),
    "log determinant of a parameter": (
        "x: input[n]\nA: param[n, n]\nf = logdet(A @ A.T + eye(n)) + sum(x**2)",
        lambda t, x, A: t.logdet(A @ A.T + t.eye(len(A), dtype=A.dtype)) + (x**2).sum(),
    ),
    "log determinant of a sample's matrix": (
        "X: input[n, m]\nw: param[m]\nf = logdet((X * w) @ X.T + eye(n)*5)",
        lambda t, X, w: t.logdet((X * w) @ X.T + 5 * t.eye(len(X), dtype=X.dtype)),
    ),
    "one matrix, right sides of samples": (
        "b: input[n]\nA: param[n, n]\ny = tanh(solve(A + 3*eye(n), b))",
        lambda t, b, A: t.tanh(t.linalg.solve(A + 3 * t.eye(len(A), dtype=A.dtype), b)),
    ),
    "matrices of samples, one right side": (
        "A: input[n, n]\nb: param[n]\ny = solve(A + 3*eye(n), b)",
        lambda t, A, b: t.linalg.solve(A + 3 * t.eye(len(A), dtype=A.dtype), b),
    ),
    "both of samples, a matrix on the right": (
        "A: input[n, n]\nB: input[n, k]\nc: param[k]\ny = solve((A + 3*eye(n)).T, B) @ c",
        lambda t, A, B, c: t.linalg.solve((A + 3 * t.eye(len(A), dtype=A.dtype)).T, B) @ c,
    ),
    "both parameters": (
        "x: input[k]\nA: param[n, n]\nB: param[n, k]\ny = solve(A + 3*eye(n), B) @ x",
        lambda t, x, A, B: t.linalg.solve(A + 3 * t.eye(len(A), dtype=A.dtype), B) @ x,
    ),
    "a matrix on both sides": (
        "A: input[n, n]\ny = solve(A + 3*eye(n), A)",
        lambda t, A: t.linalg.solve(A + 3 * t.eye(len(A), dtype=A.dtype), A),
    ),
    "Cholesky factor of a parameter": (
        "x: input[n]\nA: param[n, n]\nL = cholesky(A @ A.T + eye(n))\ny = L @ x",
        lambda t, x, A: t.linalg.cholesky(A @ A.T + t.eye(len(A), dtype=A.dtype)) @ x,
    ),
    "Cholesky factor of a sample's matrix": (
        "A: input[n, n]\nL = cholesky(A @ A.T + eye(n))",
        lambda t, A: t.linalg.cholesky(A @ A.T + t.eye(len(A), dtype=A.dtype)),
    ),
    "Cholesky factor of the symmetric part": (
        "x: input[n]\nS: param[n, n]\ny = cholesky(S + 7*eye(n)).T @ x",
        lambda t, x, S: (
            t.linalg.cholesky((S + S.T) / 2 + 7 * t.eye(len(S), dtype=S.dtype)).T @ x
        ),
    ),
    "a stack of matrices": (
        "A: input[m, n, n]\nB: param[n, k]\ny = solve(A + 4*eye(n), B)",
        lambda t, A, B: t.linalg.solve(A + 4 * t.eye(A.shape[-1], dtype=A.dtype), B),
    ),
    "a stack of parameters, all forms": (
        "x: input[n]\nP: param[m, n, n]\nS = einsum('mij,mkj->mik', P, P) + eye(n)\n"
        "y = cholesky(S) @ x + logdet(S)[:, None] + inv(S) @ x",
        lambda t, x, P: (
            (lambda S: t.linalg.cholesky(S) @ x + t.logdet(S)[:, None] + t.linalg.inv(S) @ x)(
                P @ P.mT + t.eye(P.shape[-1], dtype=P.dtype)
            )
        ),
    ),
    "a matrix for each index": (
        "a: input[m]\nA: param[n, n]\ny[i] = logdet(a[i]**2 * A @ A.T + eye(n))",
        lambda t, a, A: t.logdet(
            (a**2)[:, None, None] * (A @ A.T) + t.eye(len(A), dtype=A.dtype)
        ),
    ),
    "without inputs": (
        "A: param[n, n]\nb: param[n]\nK = A @ A.T + eye(n)\n"
        "f = -0.5*dot(b, solve(K, b)) - 0.5*logdet(K)",
        lambda t, A, b: (
            (lambda K: -0.5 * b @ t.linalg.solve(K, b) - 0.5 * t.logdet(K))(
                A @ A.T + t.eye(len(A), dtype=A.dtype)
            )
        ),
    ),
    "solves by a Cholesky factor": (
        "x: input[n]\nA: param[n, n]\nL = cholesky(A @ A.T + eye(n))\n"
        "v = solve(L.T, solve(L, x))\nf = dot(v, x) + 2*sum(log(diag(L)))",
        lambda t, x, A: (
            (lambda L: (
                t.cholesky_solve(x[:, None], L)[:, 0] @ x + 2 * t.log(t.diagonal(L)).sum()
            ))(t.linalg.cholesky(A @ A.T + t.eye(len(A), dtype=A.dtype)))
        ),
    ),
}
SIZES = {"n": 4, "m": 3, "k": 2}


def arrays_for(layer, sizes, batch, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    found = {}
    for made in layer.declarations:
        shape = tuple(d.evaluate(sizes) for d in made.dims)
        shape = (batch, *shape) if made.role == "input" else shape
        found[made.name] = (rng.normal(size=shape) / 2).astype(dtype)
    return found


def torch_truth(torch, function, arrays, inputs, batch):
    """Return outputs `[B, *out]` and Jacobians `{name: [B, *out, *p]}`, sample by sample."""
    values, jacobians = [], {name: [] for name in arrays}
    for sample in range(batch if inputs else 1):
        given = tuple(
            torch.tensor(a[sample] if name in inputs else a) for name, a in arrays.items()
        )
        values.append(function(torch, *given).numpy())
        found = torch.autograd.functional.jacobian(lambda *a: function(torch, *a), given)
        for name, part in zip(arrays, found, strict=True):
            jacobians[name].append(part.numpy())
    if not inputs:
        return values[0], {name: parts[0] for name, parts in jacobians.items()}
    return np.stack(values), {name: np.stack(parts) for name, parts in jacobians.items()}


def agree(actual, expected, rtol=1e-9):
    expected = np.asarray(expected)
    assert np.shape(actual) == expected.shape
    scale = np.max(np.abs(expected), initial=0.0)
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol * scale + 1e-14)


def every_form_agrees(compiled, arrays, value, jacobians, rtol=1e-9):
    """Hold value, Jacobian, both products from the left and the one from the right against J."""
    inputs = {d.name for d in compiled.layer.declarations if d.role == "input"}
    batched = bool(inputs)
    agree(compiled.forward(arrays), value, rtol)
    J = compiled.jacobian(**arrays)
    rng = np.random.default_rng(7)
    u = rng.normal(size=np.shape(value))
    pulled, each = compiled.vjp(arrays, u), compiled.vjp_per_sample(arrays, u)
    total, tangents = 0.0, {}
    for name, expected in jacobians.items():
        agree(J[name].dense(), expected, rtol)
        lead = len(value) if batched else 1
        flat = expected.reshape(lead, int(np.prod(u.shape[batched:])), -1)
        own = expected.shape[u.ndim :]
        rows = np.einsum("bo,bop->bp", u.reshape(lead, -1), flat)
        per_sample = rows.reshape((lead, *own) if batched else own)
        agree(each[name], per_sample, rtol)
        agree(pulled[name], per_sample if name in inputs or not batched else per_sample.sum(0), rtol)
        tangents[name] = rng.normal(size=arrays[name].shape)
        v = tangents[name].reshape(lead if name in inputs else 1, -1)
        total = total + np.einsum("bop,bp->bo", flat, np.broadcast_to(v, (lead, v.shape[1])))
    agree(compiled.jvp(arrays, tangents), total.reshape(np.shape(value)), rtol)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("sizes", [SIZES, {"n": 1, "m": 2, "k": 1}], ids=["4x4", "1x1"])
def test_every_form_agrees_with_pytorch(name, sizes):
    torch = pytest.importorskip("torch")
    text, function = LAYERS[name]
    compiled = sg.compile(text, wrt="all")
    arrays = arrays_for(compiled.layer, sizes, batch=3)
    inputs = {d.name for d in compiled.layer.declarations if d.role == "input"}
    value, jacobians = torch_truth(torch, function, arrays, inputs, 3)
    every_form_agrees(compiled, arrays, value, jacobians)
