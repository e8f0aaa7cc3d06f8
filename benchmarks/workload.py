"""What is measured: a layer, its arrays, what is asked of it, and what must be reached.

Workload, sizes -> Setting -> {peer: Run}
A Run is a call and what turns its result into plain arrays, so that peers can be compared first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import symgrad as sg

Arrays = dict[str, np.ndarray]
Sample = Callable[[Any, Mapping[str, Any]], Any]
"""A framework's functions and the arrays by name -> the output; of one sample or of a batch."""

FRAMEWORK = "best framework"
YARDSTICK = "torch forward + backward"
LIMIT = "write limit"
OURS = "symgrad"
BY_HAND = "numpy by hand"

FRAMEWORKS = ("torch.func", "torch.compile", "jax", "BackPACK", "casadi")


@dataclass(frozen=True, slots=True)
class Run:
    """A call, and what makes arrays `{name: array}` of what it returns."""

    call: Callable[[], Any]
    numbers: Callable[[Any], Arrays]


@dataclass(frozen=True, slots=True)
class Target:
    """How many times faster than `against` something must be; `huge`: with huge pages.

    `against` is a peer, the best of several (FRAMEWORK), or "" for a time in seconds. With `either`
    the better of this quantity and of that one, which stands before it, is judged.
    """

    against: str
    times: float
    huge: bool = False
    either: str = ""


@dataclass(frozen=True, slots=True)
class Network:
    """Layers W @ h + b, an activation after each but the last, or after that too."""

    activation: str
    layers: tuple[tuple[str, str], ...]
    final: bool = False


@dataclass(frozen=True, slots=True)
class Quantity:
    """One form of the derivatives, and what it is compared with.

    `fixed` compiles for these sizes alone; `by_hand` is the same with numpy alone.
    """

    name: str
    form: str
    by_hand: Callable[[Setting], Run] | None = None
    targets: tuple[Target, ...] = ()
    fixed: bool = False
    limited: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """A layer at certain sizes (`B` are the samples; without it a single sample is passed).

    `small` are sizes for a quick run where those of `shrunk` do not fit each other; `without` are
    frameworks that are left out, with the reason.
    """

    name: str
    title: str
    layer: str
    sizes: Mapping[str, int]
    sample: Sample
    quantities: tuple[Quantity, ...]
    wrt: tuple[str, ...] | str = "params"
    order: int = 1
    positive: bool = False
    network: Network | None = None
    small: Mapping[str, int] | None = None
    dtype: str = "float64"
    without: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Setting:
    """A workload compiled, with arrays in declared order; results are written into `outs`."""

    workload: Workload
    compiled: sg.Compiled
    arrays: Arrays
    fixed: sg.Compiled | None
    outs: Arrays = field(default_factory=dict)

    @property
    def batched(self) -> bool:
        """Whether arrays of inputs have a batch axis."""
        return bool(self.inputs) and "B" in self.workload.sizes

    @property
    def inputs(self) -> tuple[str, ...]:
        """The per-sample arrays."""
        return tuple(a.name for a in self.compiled.forms.program.arrays if a.batched)

    @property
    def selected(self) -> tuple[str, ...]:
        """What is differentiated by."""
        return self.compiled.wrt

    def out(self, name: str) -> np.ndarray:
        """Return the array `[B, *out, *p]` that results for θ are written into, always the same."""
        if name not in self.outs:
            y = np.asarray(self.compiled.forward(*self.arrays.values()))
            shape = (*y.shape, *self.arrays[name].shape)
            self.outs[name] = np.full(shape, np.nan, y.dtype)
        return self.outs[name]


def setting(workload: Workload, *, quick: bool = False) -> Setting:
    """Return a workload compiled, with seeded arrays."""
    sizes = dict(workload.sizes)
    if quick:
        sizes = dict(workload.small or shrunk(sizes))
    compiled = sg.compile(workload.layer, workload.wrt, order=workload.order, check=False)
    fixed = None
    if any(q.fixed for q in workload.quantities):
        dims = {n: s for n, s in sizes.items() if n != "B"}
        fixed = sg.compile(workload.layer, workload.wrt, dims=dims, check=False)
    return Setting(workload, compiled, arrays(workload, compiled, sizes), fixed)


def shrunk(sizes: Mapping[str, int]) -> dict[str, int]:
    """Return sizes of at most six, neighbours unequal, so that exchanged axes are noticed."""
    return {name: min(size, 3 + k % 4) for k, (name, size) in enumerate(sizes.items())}


def arrays(workload: Workload, compiled: sg.Compiled, sizes: Mapping[str, int]) -> Arrays:
    """Return random arrays that fit: normal, parameters by the root of what they sum over."""
    rng = np.random.default_rng(0)
    found = {}
    for array in compiled.forms.program.arrays:
        shape = tuple(dim.evaluate(sizes) for dim in array.axes)
        if array.batched and "B" in sizes:
            shape = (sizes["B"], *shape)
        drawn = rng.normal(size=shape)
        if array.role == "param" and shape:
            drawn = drawn / np.sqrt(shape[-1])
        if workload.positive:
            drawn = np.abs(drawn) + 0.5
        found[array.name] = np.asarray(drawn, workload.dtype)
    return found
