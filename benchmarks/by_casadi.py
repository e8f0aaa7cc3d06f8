"""CasADi: Jacobians of an expression graph of one sample, mapped over the batch.

Setting, Quantity -> {name of the way: Run}
Its matrices are sparse and stand column by column; vectors are rows here.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.machine import cores
from benchmarks.workload import Arrays, Quantity, Run, Setting


def absent() -> str:
    """Return why CasADi takes no part, "" if it does."""
    return "" if find_spec("casadi") else "casadi is not installed"


def ways(setting: Setting, quantity: Quantity) -> dict[str, Run]:
    """Return dense Jacobians of layers whose arrays have two axes at most; nothing for others."""
    single = [a[0] if n in setting.inputs else a for n, a in setting.arrays.items()]
    known = setting.workload.network is not None or setting.workload.sizes.keys() == {"B"}
    if quantity.form != "dense" or not setting.batched or not known:
        return {}
    if any(a.ndim > 2 for a in single):
        return {}
    return {"casadi jacobian": dense(setting)}


def dense(setting: Setting) -> Run:
    """All rows of all samples at once, made dense and brought into our order."""
    casadi = import_module("casadi")
    rows = len(setting.arrays[setting.inputs[0]])
    symbols = {n: symbol(casadi, setting, n) for n in setting.arrays}
    has = SimpleNamespace(tanh=casadi.tanh, exp=casadi.exp, log=casadi.log)
    has.sigmoid = lambda z: 1 / (1 + casadi.exp(-z))
    y = setting.workload.sample(has, symbols)
    columns = [casadi.jacobian(y, symbols[n]) for n in setting.selected]
    one = casadi.Function("one", list(symbols.values()), columns)
    shared = [k for k, n in enumerate(setting.arrays) if n not in setting.inputs]
    mapped = one.map("mapped", "thread", rows, shared, [], {"n_threads": cores()})
    given = [laid_out(setting, n) for n in setting.arrays]
    out = y.shape[1]

    def run() -> Arrays:
        found = mapped(*given)
        parts = found if isinstance(found, tuple) else (found,)
        return {
            n: reordered(part.full(), rows, out, setting, n)
            for n, part in zip(setting.selected, parts, strict=True)
        }

    return Run(run, dict)


def symbol(casadi: Any, setting: Setting, name: str) -> Any:
    """Return a symbol of the shape of one sample's array."""
    shape = setting.arrays[name].shape[name in setting.inputs :]
    return casadi.MX.sym(name, *(shape if len(shape) == 2 else (1, *shape)))


def laid_out(setting: Setting, name: str) -> np.ndarray:
    """Return an array as CasADi takes it: samples side by side."""
    array = setting.arrays[name]
    if name in setting.inputs:
        return array.reshape(1, -1)
    return np.atleast_2d(array)


def reordered(matrix: np.ndarray, rows: int, out: int, setting: Setting, name: str) -> np.ndarray:
    """Return `[B, *out, *p]` of `[out, B·p]`, whose p goes column by column."""
    shape = setting.arrays[name].shape
    apart = matrix.reshape(out, rows, *reversed(shape))
    own = tuple(range(apart.ndim - 1, 1, -1))
    found = apart.transpose(1, 0, *own)
    return found if setting.outs[name].ndim == found.ndim else found[:, 0]
