"""PyTorch and JAX: the layer as a function of theirs, and their transformations of it.

Case -> {form: Run}
Jacobians are `vmap(jacrev)` of a function of one sample, gradients one pass forwards and backwards
of a function of the batch; with JAX every call is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from symgrad.against.case import DENSE, FORWARD, GRADIENT, VJP, Arrays, Case, Run
from symgrad.against.tape import Tape, written
from symgrad.against.tool import Tool, tool
from symgrad.against.translate import Translation

Tree = Any


def function(case: Case, here: Tool, *, sample: bool) -> Tape:
    """Return the outputs as a function of arrays by name, of one sample or of a batch."""
    first = {n: a[0] if sample and n in case.inputs else a for n, a in case.arrays.items()}

    def evaluate(writing: Tool, arrays: dict[str, Any]) -> tuple[Any, ...]:
        made = Translation(case.program, writing, case.sizes, sample)
        return made.outputs(made.run(case.program.definitions, arrays))

    return written(here, {n: here.array(a) for n, a in first.items()}, evaluate)


def by_torch(case: Case) -> dict[str, Callable[[], Run]]:
    """Return how each form is made with PyTorch."""
    torch, here = import_module("torch"), tool("torch")
    p, x = _divided(case, here)
    u = tuple(here.array(one) for one in case.u)

    def forward() -> Run:
        batch = function(case, here, sample=False)

        def call() -> Tree:
            with torch.no_grad():
                return batch({**p, **x})

        return Run(call, lambda found: _named(case, found))

    def dense() -> Run:
        rows = _jacobian(case, here, torch.func)
        return Run(lambda: rows(p, x), lambda found: _blocks(case, found))

    def pulled(seeds: tuple[Any, ...] | None) -> Run:
        batch = function(case, here, sample=False)
        leaves = {n: a.clone().requires_grad_() for n, a in p.items()}

        def call() -> Tree:
            found = batch({**leaves, **x})
            ends = [k for k, y in enumerate(found) if y.requires_grad]
            if not ends:
                return [torch.zeros_like(a) for a in leaves.values()]
            given = None if seeds is None else [seeds[k] for k in ends]
            y = [sum(found[k].sum() for k in ends)] if seeds is None else [found[k] for k in ends]
            return torch.autograd.grad(
                y, list(leaves.values()), given, allow_unused=True, materialize_grads=True
            )

        return Run(call, lambda found: dict(zip(p, map(_array, found), strict=True)))

    return {FORWARD: forward, DENSE: dense, VJP: lambda: pulled(u), GRADIENT: lambda: pulled(None)}


def by_jax(case: Case) -> dict[str, Callable[[], Run]]:
    """Return how each form is made with JAX, compiled; call with float64 enabled."""
    jax, here = import_module("jax"), tool("jax")
    p, x = _divided(case, here)
    u = tuple(here.array(one) for one in case.u)

    def run(made: Callable[..., Tree], numbers: Callable[[Tree], Arrays], *more: Tree) -> Run:
        compiled = jax.jit(made)
        return Run(lambda: jax.block_until_ready(compiled(p, x, *more)), numbers)

    def forward() -> Run:
        batch = function(case, here, sample=False)
        return run(lambda p, x: batch({**p, **x}), lambda found: _named(case, found))

    def dense() -> Run:
        return run(_jacobian(case, here, jax), lambda found: _blocks(case, found))

    def pulled() -> Run:
        batch = function(case, here, sample=False)

        def back(p: Tree, x: Tree, u: Tree) -> Tree:
            return jax.vjp(lambda p: batch({**p, **x}), p)[1](u)[0]

        return run(back, _arrays, u)

    def gradient() -> Run:
        batch = function(case, here, sample=False)

        def total(p: Tree, x: Tree) -> Tree:
            return sum(y.sum() for y in batch({**p, **x}))

        return run(jax.grad(total), _arrays)

    return {FORWARD: forward, DENSE: dense, VJP: pulled, GRADIENT: gradient}


def _divided(case: Case, here: Tool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arrays that are differentiated by, and all others."""
    arrays = {n: here.array(a) for n, a in case.arrays.items()}
    p = {n: arrays[n] for n in case.compiled.wrt}
    return p, {n: a for n, a in arrays.items() if n not in p}


def _jacobian(case: Case, here: Tool, transform: Any) -> Callable[[Tree, Tree], Tree]:
    """Return the Jacobians of every output of every sample, by its rows."""
    one = function(case, here, sample=True)
    rows = transform.jacrev(lambda p, x: one({**p, **x}))
    if not case.batched:
        return rows  # type: ignore[no-any-return]
    selected = case.compiled.wrt
    axes = {n: 0 if n in case.inputs else None for n in case.arrays}
    of_p = {n: axes[n] for n in selected}
    of_x = {n: axis for n, axis in axes.items() if n not in of_p}
    return transform.vmap(rows, (of_p, of_x))  # type: ignore[no-any-return]


def _named(case: Case, found: Tree) -> Arrays:
    return dict(zip(case.program.outputs, map(_array, found), strict=True))


def _blocks(case: Case, found: Tree) -> Arrays:
    pairs = zip(case.program.outputs, found, strict=True)
    return {case.keyed(y, n): _array(J) for y, of in pairs for n, J in of.items()}


def _arrays(found: Mapping[str, Any]) -> Arrays:
    return {n: _array(a) for n, a in found.items()}


def _array(tensor: Any) -> Any:
    return np.asarray(tensor.detach() if hasattr(tensor, "detach") else tensor)


__all__ = ["by_jax", "by_torch"]
