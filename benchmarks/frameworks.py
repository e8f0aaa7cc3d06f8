"""PyTorch and JAX: what their transformations of a function give, as their users write it.

Setting, Quantity -> {name of the way: Run}
Every way is written once: torch.func and jax call their transformations by the same names.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.machine import cores
from benchmarks.ours import tangents
from benchmarks.workload import YARDSTICK, Quantity, Run, Setting

Tree = Any


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework: its functions of arrays, its transformations, and how its calls are compiled.

    `ready` waits for what is computed in the background; `has` are the functions that layers use.
    """

    name: str
    has: Any
    transform: Any
    array: Callable[[np.ndarray], Any]
    compile: Callable[[Callable[..., Any]], Callable[..., Any]]
    ready: Callable[[Any], Any]


def absent(name: str, *, quick: bool) -> str:
    """Return why a framework takes no part, "" if it does."""
    library = "jax" if name == "jax" else "torch"
    if find_spec(library) is None:
        return f"{library} is not installed"
    if name == "torch.compile":
        if quick:
            return "left out of quick runs: it compiles for seconds"
        if not (shutil.which("g++") or shutil.which("clang++")):
            return "no C++ compiler was found"
    return ""


def framework(name: str) -> Framework:
    """Return an installed framework; its calls use all cores, in the precision of the arrays."""
    if name == "jax":
        return _jax()
    torch = import_module("torch")
    torch.set_num_threads(cores())
    compiled = name == "torch.compile"
    if compiled:
        torch.compiler.reset()  # or what is compiled for the ninth time is run as it is, silently
    return Framework(
        name,
        has_of_torch(torch),
        torch.func,
        torch.tensor,
        (lambda f: torch.compile(f, dynamic=False, fullgraph=True)) if compiled else (lambda f: f),
        lambda found: found,
    )


def has_of_torch(torch: Any) -> Any:
    """Return PyTorch's functions under the names that layers use."""
    names = "tanh exp log sqrt sigmoid stack logaddexp".split()
    return SimpleNamespace(
        **{n: getattr(torch, n) for n in names},
        softmax=lambda z: torch.softmax(z, -1),
        logsumexp=lambda z: torch.logsumexp(z, -1),
        mean=lambda z: torch.mean(z, -1, keepdim=True),
        zeros_like=torch.zeros_like,
        conv1d=torch.nn.functional.conv1d,
    )


def _jax() -> Framework:
    jax = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    jnp, lax, nn = (import_module(f"jax.{name}") for name in ("numpy", "lax", "nn"))
    special = import_module("jax.scipy.special")

    def conv1d(x: Any, K: Any) -> Any:
        alone = x[None] if x.ndim == 2 else x
        layout = ("NCH", "OIH", "NCH")
        found = lax.conv_general_dilated(alone, K, (1,), "VALID", dimension_numbers=layout)
        return found[0] if x.ndim == 2 else found

    names = "tanh exp log sqrt stack logaddexp".split()
    has = SimpleNamespace(
        **{n: getattr(jnp, n) for n in names},
        sigmoid=nn.sigmoid,
        softmax=lambda z: nn.softmax(z, -1),
        logsumexp=lambda z: special.logsumexp(z, -1),
        mean=lambda z: jnp.mean(z, -1, keepdims=True),
        zeros_like=jnp.zeros_like,
        conv1d=conv1d,
    )
    return Framework("jax", has, jax, jnp.asarray, jax.jit, jax.block_until_ready)


def ways(one: Framework, setting: Setting, quantity: Quantity) -> dict[str, Run]:
    """Return the ways in which a framework computes a quantity; none for its own forms."""
    arrays = {n: one.array(a) for n, a in setting.arrays.items()}
    p = {n: arrays[n] for n in setting.selected}
    # everything is an argument: of what a compiler is told as a constant it makes the result
    x = {n: a for n, a in arrays.items() if n not in p}

    def sample(p: Tree, x: Tree) -> Tree:
        return setting.workload.sample(one.has, {**p, **x})

    runs = {}
    for way, make in WAYS.get(quantity.form, {}).items():
        function = make(one, setting, sample)
        if function is None:
            continue
        call = one.compile(function)
        runs[f"{one.name} {way}"] = Run(lambda call=call: one.ready(call(p, x)), plain)
    return runs


def plain(found: Tree) -> dict[str, np.ndarray]:
    """Return arrays by names; those of nested mappings are joined by a comma."""
    if not isinstance(found, Mapping):
        return {"K": array_of(found)}
    flat = {}
    for name, value in found.items():
        if isinstance(value, Mapping):
            flat.update({f"{name},{other}": array_of(a) for other, a in value.items()})
        else:
            flat[name] = array_of(value)
    return flat


def array_of(tensor: Any) -> np.ndarray:
    """Return a tensor as an array, without a copy where that can be."""
    return np.asarray(tensor.detach() if hasattr(tensor, "detach") else tensor)


# ------------------------------------------------------------ the ways

Function = Callable[[Tree, Tree], Tree]


def jacobian(one: Framework, setting: Setting, sample: Function) -> Function:
    """Every sample's Jacobian by its rows."""
    rows = one.transform.jacrev(sample)
    if not setting.batched:
        return rows
    others = [n for n in setting.arrays if n not in setting.selected]
    axes = {n: 0 if n in setting.inputs else None for n in others}
    return one.transform.vmap(rows, (None, axes))


def pushed(one: Framework, setting: Setting, sample: Function) -> Function | None:
    """One pass forwards for each parameter, where all are numbers."""
    if any(setting.arrays[n].ndim for n in setting.selected):
        return None

    def columns(p: Tree, x: Tree) -> Tree:
        found = {}
        for name in p:
            only = {n: one.has.zeros_like(v) + (1.0 if n == name else 0.0) for n, v in p.items()}
            found[name] = one.transform.jvp(lambda p: sample(p, x), (p,), (only,))[1]
        return found

    return columns


def kernel(one: Framework, setting: Setting, sample: Function) -> Function:
    """J Jᵀ of the dense Jacobians."""
    whole = jacobian(one, setting, sample)

    def gram(p: Tree, x: Tree) -> Tree:
        total = 0
        for J in whole(p, x).values():
            rows, outputs = J.shape[:2]
            flat = J.reshape(rows * outputs, -1)
            total = total + (flat @ flat.T).reshape(rows, outputs, rows, outputs)
        return total

    return gram


def pushed_and_pulled(one: Framework, setting: Setting, sample: Function) -> Function:
    """Jᵀ (J v) of the whole batch: one pass forwards, one backwards."""
    v = {n: one.array(t) for n, t in tangents(setting).items()}

    def product(p: Tree, x: Tree) -> Tree:
        _, back = one.transform.vjp(lambda p: sample(p, x), p)
        _, forth = one.transform.jvp(lambda p: sample(p, x), (p,), (v,))
        pulled = back(forth)
        return pulled[0] if isinstance(pulled, tuple) else pulled

    return product


def squared(one: Framework, setting: Setting, sample: Function) -> Function:
    """The sum of squares of the dense Jacobians."""
    whole = jacobian(one, setting, sample)

    def diagonal(p: Tree, x: Tree) -> Tree:
        return {n: (J * J).sum((0, 1)) for n, J in whole(p, x).items()}

    return diagonal


def twice(one: Framework, setting: Setting, sample: Function) -> Function:
    """The Hessian of the sum over all samples."""
    return one.transform.hessian(lambda p, x: sample(p, x).sum())


WAYS: Mapping[str, Mapping[str, Callable[[Framework, Setting, Function], Function | None]]] = {
    "dense": {"vmap(jacrev)": jacobian, "jvp": pushed},
    "gram": {"J Jᵀ": kernel},
    "ggn_matvec": {"jvp, vjp": pushed_and_pulled},
    "ggn_diagonal": {"Σ J²": squared},
    "hessian_sum": {"hessian": twice},
}


def yardstick(setting: Setting) -> dict[str, Run]:
    """Return PyTorch's gradient of the sum of all outputs by the selected parameters."""
    torch = import_module("torch")
    torch.set_num_threads(cores())
    tensors = {n: torch.tensor(a) for n, a in setting.arrays.items()}
    p = {n: tensors[n].requires_grad_() for n in setting.selected}
    has = has_of_torch(torch)

    def run() -> Tree:
        y = setting.workload.sample(has, tensors)
        return torch.autograd.grad(y, list(p.values()), torch.ones_like(y))

    return {YARDSTICK: Run(run, lambda found: plain(dict(zip(p, found, strict=True))))}
