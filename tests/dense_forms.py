"""Every product form from dense Jacobians, written out: the reference of the structured ones."""

from __future__ import annotations

import numpy as np
from layers import TEXTS, sample
from recurrences import RECURRENCES

LAYERS = {
    **TEXTS,
    "gather": "t: index(v)[T]\nE: param[v, d]\nw: param[d]\ny = tanh(E[t] * w)",
    "lookup": "t: index(v)\nx: input[n]\nW: param[v, n]\ny = sin(W[t] * x) * sum(x)",
    "merge": "x: input[n*m]\nW: param[n, m]\ny = tanh(reshape(W, (n*m,)) * x)",
    "split": "x: input[n, m]\nw: param[n*m]\ny = tanh(reshape(w, (n, m)) * x)",
    "tensor": "x: input[n]\nW: param[m, k, n]\nA: param[m, k]\ny = tanh(W @ x + A) * A",
    "padded": "t: index(v)[T]\nE: param[v, d]\ny = pad(E[t], 1)",
    "shifted": "x: input[n]\nw: param[n]\ny = pad(w * x, 2)[1:] * pad(w, 2)[:-1]",
    "every other": "x: input[n]\nw: param[2*n]\ny = w[::2] * x + w[1::2] * w[::2]",
    "rnn": RECURRENCES["rnn"],
    "tokens": RECURRENCES["tokens"],
    "stacked": RECURRENCES["stacked"],
}


def layer(name, **options):
    """Return a layer of the table with arrays."""
    return sample(name, text=LAYERS[name], **options)


class Dense:
    """Dense Jacobians by (output, θ) with a batch axis and flat axes: `[B, m, p]`."""

    def __init__(self, one, J):
        program = one.jac.forms.program
        self.outputs, self.names = program.outputs, one.jac.wrt
        self.inputs = {n for n in self.names if program.array(n).batched}
        values = J.value if isinstance(J.value, tuple) else (J.value,)
        self.value = dict(zip(self.outputs, values, strict=True))
        first = 1 if one.batched else 0
        self.out = {o: v.shape[first:] for o, v in self.value.items()}
        self.count = values[0].shape[0] if first else 1
        self.theta, self.of = {}, {}
        for key, block in J.items():
            o, p = key if isinstance(key, tuple) else (self.outputs[0], key)
            self.theta[p] = block.shape[first + len(self.out[o]) :]
            flat = (self.count, int(np.prod(self.out[o])), int(np.prod(self.theta[p])))
            self.of[o, p] = block.dense().reshape(flat)

    def identity(self):
        return {
            o: np.tile(np.eye(int(np.prod(s))), (self.count, 1, 1)) for o, s in self.out.items()
        }

    def gram(self, other, o, q):
        """`[B, m, B', m']`; inputs for equal samples only."""
        total = np.zeros((self.count, self.of[o, self.names[0]].shape[1],
                          other.count, other.of[q, self.names[0]].shape[1]))  # fmt: skip
        for p in self.names:
            product = np.einsum("bip,cjp->bicj", self.of[o, p], other.of[q, p])
            if p in self.inputs:
                product *= np.eye(self.count, other.count)[:, None, :, None]
            total += product
        return total

    def ggn(self, H, p, q):
        """`[P, Q]`, or `[B, P, Q]` where one is an input; H by output, or by pairs of outputs."""
        pairs = {(k if isinstance(k, tuple) else (k, k)): h for k, h in H.items()}
        each = sum(
            self.of[a, p].swapaxes(1, 2) @ h @ self.of[b, q] for (a, b), h in pairs.items()
        )
        return each if {p, q} & self.inputs else each.sum(0)

    def whole(self):
        """All of J as one matrix: rows are all outputs of all samples, inputs have own columns."""
        rows = []
        for o in self.outputs:
            columns = []
            for p in self.names:
                block = self.of[o, p]
                if p in self.inputs:
                    block = np.einsum("bip,bc->bicp", block, np.eye(self.count))
                columns.append(block.reshape(block.shape[0] * block.shape[1], -1))
            rows.append(np.concatenate(columns, axis=1))
        return np.concatenate(rows)


def hessian_of(loss, y, shape):
    """Return `[B, m, m]` of a loss by the mathematics of its name."""
    flat = y.reshape(-1, int(np.prod(shape)))
    if loss == "mse":
        return np.stack([np.eye(len(r)) for r in flat])
    if loss == "poisson":
        return np.stack([np.diag(np.exp(r)) for r in flat])
    if loss == "binary_cross_entropy":
        return np.stack([np.diag(1 / (2 + np.exp(r) + np.exp(-r))) for r in flat])
    rows = y.reshape(len(flat), -1, shape[-1])
    found = np.zeros((len(flat), *2 * (rows.shape[1], shape[-1])))
    for b, t in np.ndindex(rows.shape[:2]):
        p = np.exp(rows[b, t]) / np.exp(rows[b, t]).sum()
        found[b, t, :, t, :] = np.diag(p) - np.outer(p, p)
    return found.reshape(len(flat), *2 * (flat.shape[1],))
