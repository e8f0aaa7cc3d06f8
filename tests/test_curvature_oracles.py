"""Kernels, Gauss-Newton matrices and per-sample gradients against PyTorch's own libraries.

torch.func always; BackPACK and curvlinops where they are installed. One MLP and one network with a
two-dimensional convolution, in float64.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
from layers import Sample, arrays_for, compiled

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

NEAR = {"rtol": 1e-10, "atol": 1e-10}
"""Sums of at most a few thousand products of order one, in another order."""
SAMPLES = 5
USED_ONCE = ("W1", "b1", "W2", "b2", "V")
"""Parameters that each sample meets once: for these alone all libraries mean the same by KFAC."""
LOSSES = ("mse", "cross_entropy", "poisson", "binary_cross_entropy")


def mlp():
    """Return PyTorch's side of the MLP; its parameters come in the order of the layer's."""
    return torch.nn.Sequential(torch.nn.Linear(6, 7), torch.nn.Sigmoid(), torch.nn.Linear(7, 4))


def conv():
    """Return PyTorch's side of the convolutional network."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(2, 3, (3, 2)), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(48, 4)
    )


NETWORKS = {
    "mlp": (mlp, """
x: input[6]
W1: param[7, 6]
b1: param[7]
W2: param[4, 7]
b2: param[4]
y = W2 @ sigmoid(W1 @ x + b1) + b2
"""),
    "conv": (conv, """
x: input[2, 6, 5]
K: param[3, 2, 3, 2]
c: param[3]
V: param[4, 48]
b2: param[4]
a[o, i, j] = tanh(sum[k, p, q](K[o, k, p, q] * x[k, i + p, j + q]) + c[o])
y = V @ reshape(a, (48,)) + b2
"""),
}  # fmt: skip


@dataclass(frozen=True)
class Network:
    """A layer and the same network in PyTorch."""

    one: Sample
    net: torch.nn.Module

    @cached_property
    def J(self):
        return self.one.jac.jacobian(**self.one.arrays)

    @property
    def names(self):
        """The parameters in order, those of PyTorch too."""
        return self.one.jac.wrt

    @property
    def x(self):
        return torch.tensor(self.one.arrays["x"])

    @property
    def labels(self):
        return torch.arange(SAMPLES) % 4

    @property
    def params(self):
        return {n: p.detach() for n, p in self.net.named_parameters()}

    def value(self, params, x):
        """Return the output of one sample."""
        return torch.func.functional_call(self.net, params, (x[None],))[0]

    @cached_property
    def rows(self):
        """The Jacobian by reverse mode, `[B, 4, P]`."""
        of_each = torch.func.vmap(torch.func.jacrev(self.value), (None, 0))(self.params, self.x)
        return torch.cat([j.flatten(2) for j in of_each.values()], 2).numpy()

    def vector(self, seed):
        """Return {θ: random array}, and the same for PyTorch."""
        rng = np.random.default_rng(seed)
        v = {n: rng.normal(size=self.one.arrays[n].shape) for n in self.names}
        theirs = zip(self.params, v.values(), strict=True)
        return v, {n: torch.tensor(a) for n, a in theirs}

    def matrix(self, blocks):
        """Return all blocks {(θ, φ): array} as one matrix."""
        sizes = {n: self.one.arrays[n].size for n in self.names}
        return np.block(
            [[blocks[a, b].reshape(sizes[a], sizes[b]) for b in self.names] for a in self.names]
        )


@pytest.fixture(scope="module", params=list(NETWORKS))
def network(request):
    build, text = NETWORKS[request.param]
    jac = compiled(text, wrt="params", name=request.param)
    arrays = arrays_for(jac, batch=SAMPLES)
    net = build().double()
    for ours, theirs in zip(jac.wrt, net.parameters(), strict=True):
        theirs.data = torch.tensor(arrays[ours])
    return Network(Sample(request.param, jac, arrays), net)


def close(found, expected):
    np.testing.assert_allclose(np.ravel(found), np.ravel(expected), **NEAR)


def flat(arrays):
    """Return arrays one behind the other."""
    return np.concatenate([np.ravel(a) for a in arrays.values()])


def loss_of(name, y, label):
    """Return a loss of one sample, as PyTorch has it."""
    f, ones = torch.nn.functional, torch.ones_like(y)
    return {
        "mse": lambda: f.mse_loss(y, ones, reduction="sum") / 2,
        "cross_entropy": lambda: f.cross_entropy(y, label),
        "poisson": lambda: f.poisson_nll_loss(y, ones, reduction="sum"),
        "binary_cross_entropy": lambda: f.binary_cross_entropy_with_logits(
            y, ones, reduction="sum"
        ),
    }[name]()


def hessians(network, loss):
    """Return the Hessian of a loss with respect to every sample's output, `[B, 4, 4]`."""
    of_one = torch.func.hessian(lambda y, label: loss_of(loss, y, label))
    return torch.func.vmap(of_one)(torch.tensor(network.J.value), network.labels).numpy()


def loss_gradients(network, loss):
    """Return the gradients of a loss with respect to the outputs, `[B, 4]`."""
    of_one = torch.func.grad(lambda y, label: loss_of(loss, y, label))
    return torch.func.vmap(of_one)(torch.tensor(network.J.value), network.labels).numpy()


def per_sample_gradients(network, loss):
    """Return every sample's gradient with respect to all parameters, `[B, P]`."""

    def of_one(params, x, label):
        return loss_of(loss, network.value(params, x), label)

    found = torch.func.vmap(torch.func.grad(of_one), (None, 0, 0))(
        network.params, network.x, network.labels
    )
    return torch.cat([g.flatten(1) for g in found.values()], 1).numpy()


# ------------------------------------------------------------ torch.func


def test_values_agree(network):
    close(network.J.value, network.net(network.x).detach())


def test_tangent_kernels_agree(network):
    J, rows = network.J, network.rows
    kernel = np.einsum("bip,cjp->bicj", rows, rows)
    close(J.gram(), kernel)
    close(J.gram(diagonal="out"), np.einsum("bici->bci", kernel))
    close(J.gram(diagonal="batch"), np.einsum("bibj->bij", kernel))
    part = network.one.jac.jacobian(**(network.one.arrays | {"x": network.one.arrays["x"][:2]}))
    close(J.gram(part), kernel[:, :, :2])


@pytest.mark.parametrize("loss", LOSSES)
def test_gauss_newton_forms_agree(network, loss):
    J, rows, H = network.J, network.rows, hessians(network, loss)
    whole = np.einsum("bip,bij,bjq->pq", rows, H, rows)
    close(network.matrix(J.ggn(loss)), whole)
    close(network.matrix(J.ggn(H)), whole)
    close(flat(J.ggn_diagonal(loss)), np.diag(whole))
    roots = [S.reshape(SAMPLES * 4, -1) for S in J.sqrt_ggn(loss).values()]
    root = np.concatenate(roots, axis=1)
    close(root.T @ root, whole)


@pytest.mark.parametrize("loss", LOSSES)
def test_gauss_newton_products_agree_with_forward_and_reverse_mode(network, loss):
    def outputs(params):
        return torch.func.functional_call(network.net, params, (network.x,))

    def total(y):
        pairs = zip(y, network.labels, strict=True)
        return sum(loss_of(loss, row, label) for row, label in pairs)

    for seed in range(2):
        v, theirs = network.vector(seed)
        y, tangent = torch.func.jvp(outputs, (network.params,), (theirs,))
        _, curved = torch.func.jvp(torch.func.grad(total), (y,), (tangent,))
        (expected,) = torch.func.vjp(outputs, network.params)[1](curved)
        close(flat(network.J.ggn_matvec(v, loss)), flat(expected))


@pytest.mark.parametrize("loss", LOSSES)
def test_per_sample_gradients_agree(network, loss):
    J, u, gradients = network.J, loss_gradients(network, loss), per_sample_gradients(network, loss)
    found = J.per_sample_vjp(u).values()
    close(np.concatenate([g.reshape(SAMPLES, -1) for g in found], axis=1), gradients)
    lengths = np.linalg.norm(gradients, axis=1)
    close(J.norm(u), lengths)
    close(network.matrix(J.ggn(u=u)), gradients.T @ gradients)  # the empirical Fisher matrix
    v = network.one.random_u()[0]
    others = np.einsum("bi,bip->bp", v, network.rows)
    close(J.per_sample_dot(u=u, v=v), (gradients * others).sum(axis=1))
    bound = float(np.median(lengths))
    scale = np.minimum(1, bound / lengths)
    close(flat(J.clipped_vjp(u, bound)), scale @ gradients)


def test_variances_and_steps_agree(network):
    J, rows = network.J, network.rows
    size = rows.shape[2]
    spread, _ = network.vector(0)
    variance = {n: s**2 for n, s in spread.items()}
    close(J.functional_variance(variance), (rows * flat(variance)) @ rows.swapaxes(1, 2))
    r = network.one.random_u()[0]
    stacked = rows.reshape(-1, size)
    expected = np.linalg.solve(stacked.T @ stacked + np.eye(size), stacked.T @ r.ravel())
    close(flat(J.solve(r, 1.0)), expected)
    v, theirs = network.vector(1)
    _, tangent = torch.func.jvp(
        lambda p: torch.func.functional_call(network.net, p, (network.x,)),
        (network.params,), (theirs,),
    )  # fmt: skip
    close(J.jvp(v), tangent)


# ------------------------------------------------------------ BackPACK


def with_backpack(network, *names):
    """Return the parameters of a copy of the network, with BackPACK's quantities of a loss."""
    extensions = pytest.importorskip("backpack.extensions")
    from copy import deepcopy

    from backpack import backpack, extend

    net = extend(deepcopy(network.net))
    loss = extend(torch.nn.CrossEntropyLoss(reduction="sum"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with backpack(*(getattr(extensions, n)() for n in names)):
            loss(net(network.x), network.labels).backward()
    return list(net.parameters())


def test_backpack_agrees_on_the_diagonal_and_the_root_of_the_gauss_newton_matrix(network):
    theirs = with_backpack(network, "DiagGGNExact", "SqrtGGNExact", "GGNMP")
    J = network.J
    for found, p in zip(J.ggn_diagonal("cross_entropy").values(), theirs, strict=True):
        close(found, p.diag_ggn_exact)
    root = torch.cat([p.sqrt_ggn_exact.flatten(2) for p in theirs], 2).flatten(0, 1).numpy()
    close(network.matrix(J.ggn("cross_entropy")), root.T @ root)
    for seed in range(2):
        v, _ = network.vector(seed)
        for name, p in zip(network.names, theirs, strict=True):
            one = p.ggnmp(torch.tensor(v[name])[None])[0]
            close(J[name].ggn_matvec(v[name], "cross_entropy"), one.detach())


def test_backpack_agrees_on_per_sample_gradients_and_their_norms(network):
    theirs = with_backpack(network, "BatchGrad", "BatchL2Grad", "SumGradSquared")
    J, u = network.J, loss_gradients(network, "cross_entropy")
    for name, p in zip(network.names, theirs, strict=True):
        close(J[name].per_sample_vjp(u), p.grad_batch)
        close(J[name].norm(u) ** 2, p.batch_l2)
        close(J[name].ggn_diagonal(u=u), p.sum_grad_squared)


def test_backpack_agrees_on_kronecker_factors(network):
    """KFLR, exact in the loss; factors are scaled differently, so their products are compared."""
    theirs = dict(zip(network.names, with_backpack(network, "KFLR"), strict=True))
    for name in USED_ONCE:
        if name in theirs:
            factors = [f.numpy() for f in theirs[name].kflr]
            whole = factors[0] if len(factors) == 1 else np.kron(*factors)
            close(network.J[name].kfac("cross_entropy").dense(), whole)


# ------------------------------------------------------------ curvlinops


def operator(network, kind, **options):
    """Return a matrix of curvlinops for the summed cross-entropy."""
    curvlinops = pytest.importorskip("curvlinops")
    made = getattr(curvlinops, kind)(
        network.net, torch.nn.CrossEntropyLoss(reduction="sum"), list(network.net.parameters()),
        [(network.x, network.labels)], **options,
    )  # fmt: skip
    return (made @ torch.eye(made.shape[1], dtype=torch.float64)).detach().numpy()


def test_curvlinops_agrees_on_gauss_newton_and_empirical_fisher_matrices(network):
    close(network.matrix(network.J.ggn("cross_entropy")), operator(network, "GGNLinearOperator"))
    u = loss_gradients(network, "cross_entropy")
    close(network.matrix(network.J.ggn(u=u)), operator(network, "EFLinearOperator"))


def test_curvlinops_agrees_on_kronecker_factors(network):
    whole = operator(network, "KFACLinearOperator", fisher_type="type-2")
    place = 0
    for name, block in network.J.items():
        size = network.one.arrays[name].size
        own = whole[place : place + size, place : place + size]
        if name in USED_ONCE:
            close(block.kfac("cross_entropy").dense(), own)
        place += size
