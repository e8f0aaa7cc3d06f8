"""CasADi: Jacobians of an expression graph of one sample, mapped over the batch.

Setting, Quantity -> {name of the way: Run}
Its matrices stand column by column; vectors are rows here. Results go through its buffers: a
conversion of its own matrices to numpy's takes a thousand times as long as what they hold.
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
    """All rows of all samples at once, dense, written by CasADi into an array of numpy's."""
    casadi = import_module("casadi")
    rows = len(setting.arrays[setting.inputs[0]])
    symbols = {n: symbol(casadi, setting, n) for n in setting.arrays}
    has = SimpleNamespace(tanh=casadi.tanh, exp=casadi.exp, log=casadi.log)
    has.sigmoid = lambda z: 1 / (1 + casadi.exp(-z))
    y = setting.workload.sample(has, symbols)
    columns = [casadi.densify(casadi.jacobian(y, symbols[n])) for n in setting.selected]
    one = casadi.Function("one", list(symbols.values()), columns)
    shared = [k for k, n in enumerate(setting.arrays) if n not in setting.inputs]
    # its map on threads starts one for each of what it maps
    threads = max(k for k in range(1, cores() + 1) if rows % k == 0)
    some = one.map("some", "serial", rows // threads, shared, [])
    mapped = some.map("mapped", "thread", threads, shared, [])
    buffer, evaluate = mapped.buffer()
    given = [laid_out(setting, n) for n in setting.arrays]
    for place, array in enumerate(given):
        buffer.set_arg(place, memoryview(array))
    shapes = [(rows, *reversed(setting.arrays[n].shape), y.shape[1]) for n in setting.selected]
    results = [np.empty(shape) for shape in shapes]
    for place, array in enumerate(results):
        buffer.set_res(place, memoryview(array))

    def run(_alive: object = (given, buffer)) -> Arrays:
        evaluate()
        found = zip(setting.selected, results, strict=True)
        return {n: reordered(array, setting, n) for n, array in found}

    return Run(run, dict)


def symbol(casadi: Any, setting: Setting, name: str) -> Any:
    """Return a symbol of the shape of one sample's array."""
    shape = setting.arrays[name].shape[name in setting.inputs :]
    return casadi.MX.sym(name, *(shape if len(shape) == 2 else (1, *shape)))


def laid_out(setting: Setting, name: str) -> np.ndarray:
    """Return an array as CasADi has it in memory: column by column, sample after sample."""
    array = setting.arrays[name]
    return np.array(array if name in setting.inputs else array.T, order="C")


def reordered(found: np.ndarray, setting: Setting, name: str) -> np.ndarray:
    """Return the view `[B, *out, *p]` of `[B, *p reversed, out]`."""
    own = tuple(range(found.ndim - 2, 0, -1))
    view = found.transpose(0, found.ndim - 1, *own)
    return view if setting.outs[name].ndim == view.ndim else view[:, 0]
