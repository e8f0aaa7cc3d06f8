"""Laws of plans: what a form is said to cost is what an instrumented module counts."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from instrument import instrumented
from layers import TEXTS, arrays_for, compiled
from recurrences import LSTM, RNN

LAYERS = {
    **{
        name: TEXTS[name]
        for name in "dense mlp conv layernorm softmax embedding two params_only tied shared beside "
        "outer".split()
    },
    "rnn": RNN,
    "masked": "x: input[n]\nA: param[n, n]\ny[i] = sum[j](where(j <= i, A[i, j], 0) * x[j])",
    "strict": "x: input[n]\nA: param[n, n]\ny[i] = tanh(sum[j](where(j < i, A[i, j], 0) * x[j]))",
    "strided": "x: input[2*T]\nK: param[k]\ny[t: T - k + 1] = sum[q](K[q] * x[2*t + q])",
    "tensor": "x: input[n]\nW: param[m, k, n]\nY = tanh(W @ x)\nZ = Y * exp(Y)",
    "gather": "t: index(v)\nz: input[v]\nW: param[v, v]\ny = log_softmax(W @ z)[t]",
    "functions": "x: input[n]\na: param[n]\ny = square(x + a) * (x + a)**3 + where(x > a, x / a, "
    "hypot(x, a)) - maximum(x, 2 * a)",
    "rows": "x: input[n]\nW: param[m, n]\na = W * x\ny = prod(a) + max(a) + logsumexp(a) + norm(a)",
    "constants": "x: input[n]\na: param[n]\ny = pi * x * a / n + 3 * a * 2 - (1 - a)",
    "heads": "x: input[T, h*d]\nW: param[h*d, h*d]\ng: param[h]\nZ = reshape(x @ W, (T, h, d))\n"
    "y[t, d] = sum[h](g[h] * tanh(Z[t, h, d]))",
    "conv2d": "x: input[p, d]\nK: param[c, k, k]\n"
    "y[c, i, j] = sum[a, b](K[c, a, b] * x[i + a, j + b])",
    "padded": "x: input[n]\nK: param[k]\np = pad(x, (k - 1, 0))\n"
    "y[i: n] = sum[q](K[q] * p[i + q])",
    "picked": "x: input[n]\nW: param[m, n]\nz = W @ x\ny = concatenate([z[1:], 2 * z[:1]])",
}
LARGE = {"attention": TEXTS["attention"], "residual": TEXTS["residual"], "lstm": LSTM}
MATRICES = {
    "spd": "x: input[n]\nA: param[n, n]\nS = A @ A.T + eye(n)\ny = cholesky(S) @ x + inv(S) @ x",
    "systems": "x: input[n]\nA: param[n, n]\nS = A @ A.T + eye(n)\n"
    "y = solve(S, x) * logdet(S) + det(S)",
    "triangular": "x: input[n]\nA: param[n, n]\nL = cholesky(A @ A.T + eye(n))\ny = solve(L, x)",
    "samples": "X: input[n, n]\nb: param[n]\nS = X @ X.T + eye(n)\ny = solve(S, b)",
    "steps": "x: input[T, n]\nA: param[n, n]\n"
    "h[t: T] = solve(A @ A.T + 3 * eye(n), h[t - 1] + x[t])",
}
SIZES = (
    (3, {}),
    (5, {"n": 5, "m": 2, "h": 3, "k": 3, "c": 3, "o": 2, "T": 7, "d": 4, "v": 4, "p": 5}),
)
AXES = {"n": 4, "m": 3, "h": 5, "k": 2, "c": 2, "o": 3, "T": 4, "d": 3, "v": 6, "p": 2}


@cache
def counting(text):
    """Compile a layer once for all sizes."""
    return instrumented(compiled(text))


class Measured:
    """Runs forms of an instrumented layer and says what they cost."""

    def __init__(self, text, batch, sizes):
        self.jac, self.meter = counting(text)
        self.arrays = arrays_for(self.jac, batch, sizes=sizes)
        self.dims = {n: s for n, s in {**AXES, **sizes}.items() if n in self.open}
        self.plan = self.jac.plan(batch, self.dims)
        self.y = self.jac.forward(**self.arrays)

    @property
    def open(self):
        arrays = self.jac.forms.program.arrays
        dims = [d for a in arrays for d in (*a.axes, *((a.vocabulary,) if a.vocabulary else ()))]
        return {n for d in dims for n in d.names}

    def call(self, name):
        """Run a form; return its result."""
        jac, arrays = self.jac, self.arrays
        u = tuple(map(np.ones_like, self.y)) if isinstance(self.y, tuple) else np.ones_like(self.y)
        match name:
            case "vjp" | "vjp_per_sample":
                return getattr(jac, name)(*arrays.values(), u)
            case "jvp":
                tangents = {n: np.ones_like(arrays[n]) for n in jac.wrt}
                return jac.jvp(*arrays.values(), tangents)
            case "pull":
                held = jac.pullback(**arrays)
                self.reset()
                return held[1](u), held
            case _:
                return getattr(jac, name)(**arrays)

    def reset(self):
        m = self.meter
        m.operations, m.calls, m.allocated, m.live, m.peak = 0, 0, 0, 0, 0

    def measure(self, name):
        """Return operations, calls, results, workspace and peak of one call."""
        self.reset()
        found = self.call(name)
        m = self.meter
        before = after = 0
        if name in ("jacobian", "pullback"):  # the library's own copies, made before and after
            before = sum(a.nbytes for a in self.arrays.values())
        if name == "jacobian":
            values = found.value if isinstance(found.value, tuple) else (found.value,)
            kept = next(iter(found.values()))._done.values.values()
            after = sum(v.nbytes for v in values if not any(v is k for k in kept))
        live = m.live + before + after
        total = m.allocated + before + after
        peak = max(m.peak + before, live)
        return m.operations, m.calls, live, total - live, peak


@pytest.mark.parametrize("batch_and_sizes", SIZES, ids=["small", "other"])
@pytest.mark.parametrize(
    "name", [*LAYERS, *(pytest.param(n, marks=pytest.mark.slow) for n in LARGE)]
)
def test_a_plan_counts_what_an_instrumented_module_does(name, batch_and_sizes):
    measured = Measured({**LAYERS, **LARGE}[name], *batch_and_sizes)
    for form, cost in measured.plan.items():
        said = (cost.operations, cost.calls, cost.results, cost.workspace, cost.peak)
        found = measured.measure(form)
        assert tuple(map(int, said)) == found, f"{form}\n{cost}"
        assert all(q.sure for q in said), form
        for quantity in said:
            by_hand = max(p.evaluate({"B": batch_and_sizes[0], **measured.dims}) for p in
                          quantity.polynomials)  # fmt: skip
            assert by_hand == int(quantity) if quantity.exact else by_hand >= int(quantity), form


@pytest.mark.parametrize("batch_and_sizes", SIZES, ids=["small", "other"])
@pytest.mark.parametrize("name", MATRICES)
def test_functions_of_matrices_count_as_their_textbook_algorithms(name, batch_and_sizes):
    measured = Measured(MATRICES[name], *batch_and_sizes)
    for form, cost in measured.plan.items():
        found = measured.measure(form)
        assert (int(cost.operations), int(cost.calls)) == found[:2], f"{form}\n{cost}"


def test_polynomials_are_those_a_reader_works_out():
    plan = compiled(TEXTS["dense"], "params").plan()
    said = {name: str(plan[name].operations) for name in ("forward", "vjp", "jvp", "pull")}
    assert said == {
        "forward": "2*B*m*n + B*m",  # a product and a sum
        "vjp": "4*B*m*n + 3*B*m",  # two products, b, the slope times u, the sum for b
        "jvp": "4*B*m*n + 3*B*m",
        "pull": "2*B*m*n + 2*B*m",
    }
    assert str(plan["forward"].calls) == "B*m"
    assert str(plan["jac_W"].results) == "8*B*m*m*n"
    assert str(plan["jac_W_compact"].results) == "8*B*m*n"
    assert plan["vjp"].operations.value is None, "there are no sizes"


def test_triangles_and_ends_are_counted_in_symbols():
    plan = compiled(LAYERS["masked"], "params").plan()
    assert str(plan["forward"].operations) == "B*n*n + B*n"
    assert plan["forward"].operations.exact
    strict = compiled(LAYERS["strict"], "params").plan()
    assert str(strict["forward"].operations) == "B*n*n - B*n"
