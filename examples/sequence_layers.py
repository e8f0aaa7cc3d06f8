"""Are recurrences and attention layers of the library, or something I can write down myself?

An LSTM and causal attention with several heads, each a few lines of mathematics. Gradients are held
against PyTorch's own layers where it is installed, else against finite differences. The derivative
of a recurrence is a recurrence that runs the other way: nothing is unrolled, so one module serves
all lengths.
"""

from importlib.util import find_spec

import numpy as np

import symgrad as sg

TORCH = find_spec("torch") is not None

LSTM = '''
"""A long short-term memory; the four gates stand below each other as in PyTorch."""
x: input[T, n]
W: param[4, m, n]
U: param[4, m, m]
b: param[4, m]

h[-1] = 0
c[-1] = 0
z[t: T] = W @ x[t] + U @ h[t - 1] + b
c[t: T] = sigmoid(z[t, 1]) * c[t - 1] + sigmoid(z[t, 0]) * tanh(z[t, 2])
h[t: T] = sigmoid(z[t, 3]) * tanh(c[t])
'''

ATTENTION = '''
"""Causal attention with h heads of d numbers each."""
x: input[T, n]
Q: param[h, d, n]
K: param[h, d, n]
V: param[h, d, n]
W: param[n, h, d]

q = einsum("hdn,tn->htd", Q, x)
k = einsum("hdn,tn->htd", K, x)
v = einsum("hdn,tn->htd", V, x)
score[a, t, s] = where(s <= t, dot(q[a, t], k[a, s]) / sqrt(d), -1e9)
y = einsum("nhd,hts,hsd->tn", W, softmax(score), v)
'''


def arrays(rng, **shapes):
    """Return random arrays of these shapes."""
    return {n: rng.normal(size=s) / np.sqrt(s[-1]) for n, s in shapes.items()}


def lstm_of_torch(torch, p):
    """Return PyTorch's LSTM of these parameters, and its gradients under our names."""
    _, m, n = p["W"].shape
    layer = torch.nn.LSTM(n, m, batch_first=True).double()
    with torch.no_grad():
        layer.weight_ih_l0.copy_(torch.tensor(p["W"].reshape(4 * m, n)))
        layer.weight_hh_l0.copy_(torch.tensor(p["U"].reshape(4 * m, m)))
        layer.bias_ih_l0.copy_(torch.tensor(p["b"].ravel()))
        layer.bias_hh_l0.zero_()
    ours = {"W": layer.weight_ih_l0, "U": layer.weight_hh_l0, "b": layer.bias_ih_l0}
    return lambda x: layer(x)[0], ours


def attention_of_torch(torch, p):
    """Return attention by PyTorch's kernel, and its gradients under our names."""
    ours = {n: torch.tensor(a, requires_grad=True) for n, a in p.items()}

    def layer(x):
        q, k, v = (torch.einsum("hdn,btn->bhtd", ours[n], x) for n in "QKV")
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return torch.einsum("nhd,bhtd->btn", ours["W"], mixed)

    return layer, ours


def compare(title, text, of_torch, x, p):
    """Compute value and gradients of Σ u · y; hold them against PyTorch, or against differences."""
    jac = sg.compile(sg.layer(text, name=title))
    y, pull = jac.pullback(x, p)
    u = np.random.default_rng(1).normal(size=y.shape)
    gradients = pull(u)
    for n, g in gradients.items():
        print(f"   ∂(u·y)/∂{n} {g.shape!s:12} {np.linalg.norm(g):10.4f}")
    if not TORCH:
        assert sg.check(jac).ok
        print("   PyTorch is not installed: confirmed by finite differences")
        return
    import torch

    layer, ours = of_torch(torch, p)
    value = layer(torch.tensor(x))
    value.backward(torch.tensor(u))
    assert np.allclose(y, value.detach(), rtol=1e-9, atol=1e-12)
    for n, g in gradients.items():
        assert np.allclose(g, ours[n].grad.reshape(g.shape), rtol=1e-9, atol=1e-10)
    print("   value and gradients are PyTorch's")


def main():
    rng = np.random.default_rng(0)
    print("1. LSTM, 3 sequences of 500 steps")
    steps = sg.derive(LSTM, wrt="U").text().splitlines()
    print(*(line for line in steps if line.strip().startswith(("G^h_t", "∂h[t,i]"))), sep="\n")
    x = rng.normal(size=(3, 500, 5))
    p = arrays(rng, W=(4, 8, 5), U=(4, 8, 8), b=(4, 8))
    compare("lstm", LSTM, lstm_of_torch, x, p)

    print("2. attention, 3 sequences of 50 tokens, 4 heads")
    x = rng.normal(size=(3, 50, 24))
    p = arrays(rng, Q=(4, 6, 24), K=(4, 6, 24), V=(4, 6, 24), W=(24, 4, 6))
    compare("attention", ATTENTION, attention_of_torch, x, p)


if __name__ == "__main__":
    main()
