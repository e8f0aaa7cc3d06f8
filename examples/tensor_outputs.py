"""The Jacobian of every element of a tensor output, without a loss, in one pass.

U = Linear(6 → 3) on a batch of 5: ∂U/∂W has shape [5, 3, 3, 6]. One call gives it, beside a loop of
one backward pass an element (PyTorch's where it is installed, else our own vjp), and beside
BackPACK's two routes where BackPACK is installed. All agree, and all are timed.
"""

import time
import warnings
from importlib.util import find_spec

import numpy as np

import symgrad as sg

TORCH = find_spec("torch") is not None
BACKPACK = TORCH and find_spec("backpack") is not None

TWO_LAYERS = '''
"""Two layers with a ReLU between them."""
x: input[p]
W1: param[h, p]
b1: param[h]
W2: param[m, h]
b2: param[m]

z = W1 @ x + b1
a = relu(z)
y = W2 @ a + b2
'''


def timed(work, repeats=20):
    """Return what `work` returns and its best time in microseconds; compilation is not counted."""
    result = work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return result, 1e6 * min(times)


def line(what, microseconds):
    """Print one line of the table of times."""
    print(f"   {what:52}{microseconds:10.0f} µs")


def loop_with_vjp(jac, arrays, shape):
    """Return {θ: dense Jacobian} from one vjp an element of the output."""
    found = {name: [] for name in jac.wrt}
    for position in np.ndindex(*shape):
        u = np.zeros(shape)
        u[position] = 1.0
        for name, gradient in jac.vjp(arrays, u).items():
            found[name].append(gradient)
    return {n: np.reshape(g, (*shape, *np.shape(g[0]))) for n, g in found.items()}


def loop_with_torch(model, arrays, names, shape):
    """Return {θ: dense Jacobian} from one backward pass of PyTorch an element of the output."""
    import torch

    tensors = {n: torch.tensor(a, requires_grad=n in names) for n, a in arrays.items()}
    y = model(**tensors)
    found = {name: [] for name in names}
    for element in y.reshape(-1):
        gradients = torch.autograd.grad(element, [tensors[n] for n in names], retain_graph=True)
        for name, gradient in zip(names, gradients, strict=True):
            found[name].append(gradient.numpy())
    return {n: np.reshape(g, (*shape, *np.shape(g[0]))) for n, g in found.items()}


def beside_a_loop(text, arrays, model):
    """Compute all Jacobians in one pass and element by element; print shapes and times."""
    jac = sg.compile(text)
    J, structured = timed(lambda: jac.jacobian(arrays))
    dense, all_dense = timed(
        lambda: {n: block.dense() for n, block in jac.jacobian(arrays).items()}
    )
    shape = J.value.shape
    if TORCH:
        loop, looped = timed(lambda: loop_with_torch(model, arrays, jac.wrt, shape), repeats=3)
    else:
        loop, looped = timed(lambda: loop_with_vjp(jac, arrays, shape), repeats=3)
    for parameter, block in J.items():
        assert np.allclose(dense[parameter], loop[parameter], rtol=1e-10, atol=1e-12)
        print(f"   ∂y/∂{parameter:3} {block.shape!s:18} = {block.structure}")
    if TORCH:
        line("one forward and backward pass of PyTorch", timed(lambda: one_pass(model, arrays))[1])
    line("symgrad, structured (value and all Jacobians)", structured)
    line("symgrad, all dense", all_dense)
    line(f"a loop of {np.prod(shape)} backward passes ({'PyTorch' if TORCH else 'vjp'})", looped)
    return dense


def one_pass(model, arrays):
    """Run PyTorch's forward pass and one backward pass of the sum."""
    import torch

    model(**{n: torch.tensor(a, requires_grad=True) for n, a in arrays.items()}).sum().backward()


def beside_backpack(arrays, dense):
    """Compute ∂U/∂W by BackPACK's two routes; an output [b, t, m] is flattened first."""
    if not BACKPACK:
        print("   BackPACK is not installed: its two routes are left out")
        return
    import torch
    from backpack import backpack, extend
    from backpack.extensions import BatchGrad, SqrtGGNExact

    warnings.filterwarnings("ignore", message=".*full backward hook.*")
    X, W, b = (torch.tensor(arrays[n]) for n in ("x", "W", "b"))
    linear = torch.nn.Linear(*reversed(W.shape)).double()
    linear.weight.data, linear.bias.data = W, b
    net = extend(torch.nn.Sequential(linear, torch.nn.Flatten()))
    loss = extend(torch.nn.MSELoss(reduction="sum"))

    def one_output_after_another():
        """Per-sample gradients of each output in turn: one pass an output, not an element."""
        rows = []
        for i in range(net(X).shape[1]):
            with backpack(BatchGrad()):
                net(X)[:, i].sum().backward()
            rows.append(linear.weight.grad_batch)
        return torch.stack(rows, dim=1).numpy()

    def root_of_ggn():
        """The loss Σ U² has Hessian 2 I: its GGN's root is √2 J, with outputs before samples."""
        with backpack(SqrtGGNExact()):
            U = net(X)
            loss(U, torch.zeros_like(U)).backward()
        return (linear.weight.sqrt_ggn_exact.transpose(0, 1) / 2**0.5).numpy()

    for title, route in (
        ("BackPACK, per-sample gradients of each output", one_output_after_another),
        ("BackPACK, root of the GGN, transposed, over √2", root_of_ggn),
    ):
        found, took = timed(route)
        assert np.allclose(found.reshape(dense.shape), dense, rtol=1e-10, atol=1e-12)
        line(title, took)


def linear(**arrays):
    """PyTorch's side of `W x + b`."""
    return arrays["x"] @ arrays["W"].T + arrays["b"]


def two_layers(x, W1, b1, W2, b2):
    """PyTorch's side of the two layers."""
    return (x @ W1.T + b1).relu() @ W2.T + b2


def main():
    rng = np.random.default_rng(0)
    arrays = {n: rng.normal(size=s) for n, s in {"x": (5, 6), "W": (3, 6), "b": (3,)}.items()}
    print("1. U = W x + b, output [b, m] = [5, 3]")
    J = beside_a_loop("W x + b", arrays, linear)
    assert (J["W"].shape, J["b"].shape) == ((5, 3, 3, 6), (5, 3, 3))
    assert np.array_equal(J["W"], np.einsum("ij,bk->bijk", np.eye(3), arrays["x"]))
    beside_backpack(arrays, J["W"])

    print("\n2. the same map at each of 4 places, output [b, n, m] = [5, 4, 3]")
    arrays["x"] = rng.normal(size=(5, 4, 6))
    text = "x: input[t, p]\nW: param[m, p]\nb: param[m]\ny = x @ W.T + b\n"
    J = beside_a_loop(text, arrays, linear)
    assert (J["W"].shape, J["b"].shape) == ((5, 4, 3, 3, 6), (5, 4, 3, 3))
    assert np.array_equal(J["W"], np.einsum("ij,btk->btijk", np.eye(3), arrays["x"]))
    beside_backpack(arrays, J["W"])

    print("\n3. two layers, 10-7-5 with ReLU, 15 samples")
    sizes = {"x": (15, 10), "W1": (7, 10), "b1": (7,), "W2": (5, 7), "b2": (5,)}
    arrays = {n: rng.normal(size=s) for n, s in sizes.items()}
    J = beside_a_loop(TWO_LAYERS, arrays, two_layers)
    x, W2 = arrays["x"], arrays["W2"]
    z = x @ arrays["W1"].T + arrays["b1"]
    on = np.einsum("ch,nh->nch", W2, z > 0)  # W2[c, h] 1[z_nh > 0]
    assert np.allclose(J["W1"], np.einsum("nch,nd->nchd", on, x))
    assert np.allclose(J["b1"], on)
    assert np.allclose(J["W2"], np.einsum("ce,nh->nceh", np.eye(5), np.maximum(z, 0)))
    assert np.allclose(J["b2"], np.broadcast_to(np.eye(5), (15, 5, 5)))
    print("   W2[c,h] 1[z_nh > 0] x[n,d] and its three companions by hand: confirmed")
    print("\nAll agree.")


if __name__ == "__main__":
    main()
