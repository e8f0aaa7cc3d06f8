"""Layers with linear algebra, and what they are in PyTorch, for one sample.

name -> (layer, function of torch and the declared arrays)
"""


import warnings
from dataclasses import replace

import symgrad as sg
from symgrad.build import load


def compiled_plainly(text, **options):
    """Return a compiled layer whose kernels run as plain Python: nothing waits for numba."""
    compiled = sg.compile(text, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return replace(compiled, module=load(compiled.path, plain=True))


def eye(t, like):
    return t.eye(like.shape[-1], dtype=like.dtype)


def gram(t, a):
    return a @ a.mT + eye(t, a)


def all_forms(t, x, p):
    s = gram(t, p)
    return t.linalg.cholesky(s) @ x + t.logdet(s)[:, None] + t.linalg.inv(s) @ x


def log_likelihood(t, a, b):
    k = gram(t, a)
    return -0.5 * b @ t.linalg.solve(k, b) - 0.5 * t.logdet(k)


def by_factor(t, x, a):
    lower = t.linalg.cholesky(gram(t, a))
    solved = t.cholesky_solve(x[:, None], lower)[:, 0]
    return solved @ x + 2 * t.log(t.diagonal(lower)).sum()


def variational(t, x, y, z, ell, amp, mu, root, noise):
    """Return the bound of a sparse variational Gaussian process for one point."""
    def kernel(a, b):
        return amp**2 * t.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(-1) / ell**2)

    k = kernel(z, z) + 1e-6 * eye(t, root)
    lower = t.linalg.cholesky(k)
    a = t.linalg.solve_triangular(lower, kernel(z, x[None]), upper=False)
    v = t.linalg.solve_triangular(lower.T, a, upper=True)[:, 0]
    s = root @ root.T + 0.1 * eye(t, root)
    mean, spread = v @ mu, amp**2 - (a**2).sum() + v @ s @ v
    kl = t.trace(t.linalg.solve(k, s)) + mu @ t.linalg.solve(k, mu) - len(mu)
    kl = 0.5 * (kl + t.logdet(k) - t.logdet(s))
    fit = -0.5 * t.log(2 * t.pi * noise**2) - 0.5 * ((y - mean) ** 2 + spread) / noise**2
    return fit - kl / 100


SOLVE = "A: param[n, n]\nb: param[n]\ny = solve(A, b)"
VARIATIONAL = """\
x: input[d]
y: input
Z: param[m, d]
ell: param
amp: param
mu: param[m]
R: param[m, m]
noise: param
D[i, j] = sum[q]((Z[i, q] - Z[j, q])**2)
K = amp**2 * exp(-0.5*D/ell**2) + 1e-6*eye(m)
k[i] = amp**2 * exp(-0.5*sum[q]((x[q] - Z[i, q])**2)/ell**2)
L = cholesky(K)
a = solve(L, k)
v = solve(L.T, a)
S = R @ R.T + 0.1*eye(m)
mean_f = dot(v, mu)
var_f = amp**2 - dot(a, a) + dot(v, S @ v)
KL = 0.5*(trace(solve(K, S)) + dot(mu, solve(K, mu)) - m + logdet(K) - logdet(S))
fit = -0.5*log(2*pi*noise**2) - 0.5*((y - mean_f)**2 + var_f)/noise**2
bound = fit - KL/100
"""

LAYERS = {
    "inverse of a parameter": (
        "x: input[n]\nA: param[n, n]\ny = inv(A + 3*eye(n)) @ x",
        lambda t, x, A: t.linalg.inv(A + 3 * eye(t, A)) @ x,
    ),
    "inverse of a sample's matrix, transposed": (
        "A: input[n, n]\nb: param[n]\ny = inv(A + 4*eye(n)).T @ b",
        lambda t, A, b: t.linalg.inv(A + 4 * eye(t, A)).T @ b,
    ),
    "the inverse itself": (
        "A: param[n, n]\nY = inv(A + 4*eye(n))",
        lambda t, A: t.linalg.inv(A + 4 * eye(t, A)),
    ),
    "determinant": (
        "A: input[n, n]\na: param\ny = det(a*A + eye(n))",
        lambda t, A, a: t.linalg.det(a * A + eye(t, A)),
    ),
    "log determinant of a parameter": (
        "x: input[n]\nA: param[n, n]\nf = logdet(A @ A.T + eye(n)) + sum(x**2)",
        lambda t, x, A: t.logdet(A @ A.T + eye(t, A)) + (x**2).sum(),
    ),
    "log determinant of a sample's matrix": (
        "X: input[n, m]\nw: param[m]\nf = logdet((X * w) @ X.T + eye(n)*5)",
        lambda t, X, w: t.logdet((X * w) @ X.T + 5 * eye(t, X @ X.T)),
    ),
    "one matrix, right sides of samples": (
        "b: input[n]\nA: param[n, n]\ny = tanh(solve(A + 3*eye(n), b))",
        lambda t, b, A: t.tanh(t.linalg.solve(A + 3 * eye(t, A), b)),
    ),
    "matrices of samples, one right side": (
        "A: input[n, n]\nb: param[n]\ny = solve(A + 3*eye(n), b)",
        lambda t, A, b: t.linalg.solve(A + 3 * eye(t, A), b),
    ),
    "both of samples, a matrix on the right": (
        "A: input[n, n]\nB: input[n, k]\nc: param[k]\ny = solve((A + 3*eye(n)).T, B) @ c",
        lambda t, A, B, c: t.linalg.solve((A + 3 * eye(t, A)).T, B) @ c,
    ),
    "both parameters": (
        "x: input[k]\nA: param[n, n]\nB: param[n, k]\ny = solve(A + 3*eye(n), B) @ x",
        lambda t, x, A, B: t.linalg.solve(A + 3 * eye(t, A), B) @ x,
    ),
    "a matrix on both sides": (
        "A: input[n, n]\ny = solve(A + 3*eye(n), A)",
        lambda t, A: t.linalg.solve(A + 3 * eye(t, A), A),
    ),
    "Cholesky factor of a parameter": (
        "x: input[n]\nA: param[n, n]\nL = cholesky(A @ A.T + eye(n))\ny = L @ x",
        lambda t, x, A: t.linalg.cholesky(A @ A.T + eye(t, A)) @ x,
    ),
    "Cholesky factor of a sample's matrix": (
        "A: input[n, n]\nL = cholesky(A @ A.T + eye(n))",
        lambda t, A: t.linalg.cholesky(A @ A.T + eye(t, A)),
    ),
    "Cholesky factor of the symmetric part": (
        "x: input[n]\nS: param[n, n]\ny = cholesky(S + 7*eye(n)).T @ x",
        lambda t, x, S: (
            t.linalg.cholesky((S + S.T) / 2 + 7 * eye(t, S)).T @ x
        ),
    ),
    "a stack of matrices": (
        "A: input[m, n, n]\nB: param[n, k]\ny = solve(A + 4*eye(n), B)",
        lambda t, A, B: t.linalg.solve(A + 4 * eye(t, A), B),
    ),
    "a stack of parameters, all forms": (
        """\
x: input[n]
P: param[m, n, n]
S = einsum('mij,mkj->mik', P, P) + eye(n)
y = cholesky(S) @ x + logdet(S)[:, None] + inv(S) @ x
""",
        all_forms,
    ),
    "a matrix for each index": (
        "a: input[m]\nA: param[n, n]\ny[i] = logdet(a[i]**2 * A @ A.T + eye(n))",
        lambda t, a, A: t.logdet((a**2)[:, None, None] * (A @ A.T) + eye(t, A)),
    ),
    "without inputs": (
        """\
A: param[n, n]
b: param[n]
K = A @ A.T + eye(n)
f = -0.5*dot(b, solve(K, b)) - 0.5*logdet(K)
""",
        log_likelihood,
    ),
    "solves by a Cholesky factor": (
        """\
x: input[n]
A: param[n, n]
L = cholesky(A @ A.T + eye(n))
v = solve(L.T, solve(L, x))
f = dot(v, x) + 2*sum(log(diag(L)))
""",
        by_factor,
    ),
    "parts of arrays": (
        """\
x: input[n]
A: param[n + 1, n + 1]
b: param[n + 1]
y = solve(A[:n, :n] + 3*eye(n), b[1:]) + inv(A + 4*eye(n + 1))[1:, 1:] @ x
""",
        lambda t, x, A, b: (
            t.linalg.solve(A[:-1, :-1] + 3 * eye(t, A[1:, 1:]), b[1:])
            + t.linalg.inv(A + 4 * eye(t, A))[1:, 1:] @ x
        ),
    ),
    "a sparse variational Gaussian process": (VARIATIONAL, variational),
}
