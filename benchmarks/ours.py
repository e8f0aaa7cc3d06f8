"""What symgrad is asked, form by form.

Setting -> Run
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.workload import Arrays, Quantity, Run, Setting


def ours(setting: Setting, quantity: Quantity) -> Run:
    """Return symgrad's side of a quantity."""
    return FORMS[quantity.form](setting, quantity)


def named(found: Mapping[Any, Any]) -> Arrays:
    """Return arrays by names; pairs of arrays are joined by a comma."""
    return {n if isinstance(n, str) else ",".join(n): np.asarray(a) for n, a in found.items()}


def dense(setting: Setting, quantity: Quantity) -> Run:
    """Write dense Jacobians into arrays that are there."""
    chosen = setting.fixed if quantity.fixed else setting.compiled
    assert chosen is not None
    jac, arrays = chosen, tuple(setting.arrays.values())
    outs = {n: setting.out(n) for n in setting.selected}
    if len(outs) == 1:
        ((name, out),) = outs.items()
        door = jac.module if setting.workload.name == "tiny" else jac
        form = getattr(door, f"jac_{name}")
        return Run(lambda: form(*arrays, out=out), lambda found: {name: found})

    return Run(lambda: jac.dense(*arrays, out=outs), dict)


def compact(setting: Setting, quantity: Quantity) -> Run:
    """Return what is not zero by structure."""
    jac, arrays = setting.compiled, tuple(setting.arrays.values())
    if len(setting.selected) == 1:
        (name,) = setting.selected
        form = getattr(jac, f"jac_{name}_compact")
        return Run(lambda: form(*arrays), lambda found: {name: found})

    def run() -> Arrays:
        J = jac.jacobian(*arrays)
        return {n: J[n].compact() for n in J}

    return Run(run, dict)


def factors(setting: Setting, quantity: Quantity) -> Run:
    """Return the factors of all Jacobians; they are multiplied for the comparison only."""
    jac, arrays = setting.compiled, tuple(setting.arrays.values())

    def run() -> Any:
        J = jac.jacobian(*arrays)
        return J, {n: J[n].factors() for n in J}

    return Run(run, lambda found: {n: block.dense() for n, block in found[0].items()})


def gradient(setting: Setting, quantity: Quantity) -> Run:
    """Return the gradient of the sum of everything, for what a framework's one pass gives."""
    jac, arrays = setting.compiled, tuple(setting.arrays.values())
    u = np.ones_like(jac.forward(*arrays))
    return Run(lambda: jac.vjp(*arrays, u), named)


def gram(setting: Setting, quantity: Quantity) -> Run:
    """Return J Jᵀ over all selected parameters, `[B, out, B, out]`."""
    jac, arrays = setting.compiled, tuple(setting.arrays.values())
    return Run(lambda: jac.jacobian(*arrays).gram(), lambda found: {"K": found})


def tangents(setting: Setting) -> Arrays:
    """Return the vectors that the Gauss-Newton matrix is multiplied by."""
    rng = np.random.default_rng(1)
    return {n: rng.normal(size=setting.arrays[n].shape) for n in setting.selected}


def ggn_matvec(setting: Setting, quantity: Quantity) -> Run:
    """Return Σ_b J_bᵀ J_b v."""
    jac, arrays = setting.compiled, tuple(setting.arrays.values())
    v = tangents(setting)
    return Run(lambda: jac.ggn_matvec(*arrays, v), named)


def ggn_diagonal(setting: Setting, quantity: Quantity) -> Run:
    """Return the diagonal of Σ_b J_bᵀ J_b."""
    jac, arrays = setting.compiled, tuple(setting.arrays.values())
    return Run(lambda: jac.jacobian(*arrays).ggn_diagonal(), named)


def hessian_sum(setting: Setting, quantity: Quantity) -> Run:
    """Return Σ_b ∂²y by all pairs of parameters."""
    jac, arrays = setting.compiled, tuple(setting.arrays.values())
    u = np.ones_like(jac.forward(*arrays))
    return Run(lambda: jac.hessian_sum(*arrays, u), named)


FORMS: Mapping[str, Callable[[Setting, Quantity], Run]] = {
    "dense": dense,
    "compact": compact,
    "factors": factors,
    "gradient": gradient,
    "gram": gram,
    "ggn_matvec": ggn_matvec,
    "ggn_diagonal": ggn_diagonal,
    "hessian_sum": hessian_sum,
}
