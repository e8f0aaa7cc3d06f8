"""BackPACK: networks of PyTorch's own modules, extended by what it computes in a backward pass.

Setting, Quantity -> {name of the way: Run}
Dense Jacobians are per-sample gradients of one output after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from benchmarks.frameworks import plain
from benchmarks.machine import cores
from benchmarks.ours import tangents
from benchmarks.workload import Arrays, Quantity, Run, Setting


def absent() -> str:
    """Return why BackPACK takes no part, "" if it does."""
    for library in ("torch", "backpack"):
        if find_spec(library) is None:
            return f"{library} is not installed"
    return ""


def ways(setting: Setting, quantity: Quantity) -> dict[str, Run]:
    """Return what BackPACK does for a quantity; nothing for what is no network."""
    make = WAYS.get(quantity.form)
    if setting.workload.network is None or make is None or not setting.batched:
        return {}
    return {f"BackPACK {NAMES[quantity.form]}": make(setting)}


def extended(setting: Setting) -> tuple[Any, dict[str, Any]]:
    """Return the network as modules, and its parameters by our names."""
    torch, backpack = import_module("torch"), import_module("backpack")
    torch.set_num_threads(cores())
    network = setting.workload.network
    assert network is not None
    modules: list[Any] = []
    parameters: dict[str, Any] = {}
    activation = {"tanh": torch.nn.Tanh, "sigmoid": torch.nn.Sigmoid}[network.activation]
    for place, (W, b) in enumerate(network.layers):
        weight, bias = (torch.tensor(setting.arrays[n]) for n in (W, b))
        linear = torch.nn.Linear(*reversed(weight.shape), dtype=weight.dtype)
        for name, parameter, value in ((W, linear.weight, weight), (b, linear.bias, bias)):
            parameter.data = value
            parameter.requires_grad_(name in setting.selected)
            parameters[name] = parameter
        modules.append(linear)
        if network.final or place < len(network.layers) - 1:
            modules.append(activation())
    chosen = {n: parameters[n] for n in setting.selected}
    return backpack.extend(torch.nn.Sequential(*modules)), chosen


def rows(setting: Setting) -> Run:
    """Per-sample gradients of every output, stacked."""
    torch, backpack = import_module("torch"), import_module("backpack")
    extensions = import_module("backpack.extensions")
    model, parameters = extended(setting)
    x = torch.tensor(setting.arrays["x"])
    outs = {n: torch.from_numpy(setting.out(n)) for n in parameters}

    def run() -> Arrays:
        y = model(x)
        for place in range(y.shape[1]):
            again = place < y.shape[1] - 1
            with backpack.backpack(extensions.BatchGrad(), retain_graph=again):
                y[:, place].sum().backward(retain_graph=again)
            for name, parameter in parameters.items():
                outs[name][:, place] = parameter.grad_batch
                parameter.grad = None
        return outs

    return Run(run, plain)


def half_of_squares(setting: Setting) -> tuple[Any, dict[str, Any], Callable[[], tuple[Any, Any]]]:
    """Return the model, its parameters, and a call: a loss whose Hessian is twice the identity."""
    torch, backpack = import_module("torch"), import_module("backpack")
    model, parameters = extended(setting)
    loss = backpack.extend(torch.nn.MSELoss(reduction="sum"))
    x = torch.tensor(setting.arrays["x"])
    target = torch.zeros_like(model(x)).detach()

    def evaluate() -> tuple[Any, Any]:
        y = model(x)
        return loss(y, target), y

    return model, parameters, evaluate


def diagonal(setting: Setting) -> Run:
    """The exact diagonal of the GGN."""
    backpack, extensions = import_module("backpack"), import_module("backpack.extensions")
    _, parameters, evaluate = half_of_squares(setting)

    def run() -> dict[str, Any]:
        with backpack.backpack(extensions.DiagGGNExact()):
            evaluate()[0].backward()
        found = {}
        for name, parameter in parameters.items():
            found[name] = parameter.diag_ggn_exact / 2
            parameter.grad = None
        return found

    return Run(run, plain)


def matvec(setting: Setting) -> Run:
    """The product of the GGN with a vector, by its R-operator."""
    torch = import_module("torch")
    product = import_module("backpack.hessianfree.ggnvp").ggn_vector_product
    model, parameters, evaluate = half_of_squares(setting)
    v = {n: torch.tensor(t) for n, t in tangents(setting).items()}

    def run() -> dict[str, Any]:
        loss, y = evaluate()
        found = product(loss, y, model, [v[n] for n in parameters])
        return {n: a / 2 for n, a in zip(parameters, found, strict=True)}

    return Run(run, plain)


WAYS: Mapping[str, Callable[[Setting], Run]] = {
    "dense": rows,
    "ggn_diagonal": diagonal,
    "ggn_matvec": matvec,
}
NAMES = {"dense": "BatchGrad", "ggn_diagonal": "DiagGGNExact", "ggn_matvec": "ggn_vector_product"}
