"""A layer at some sizes, with arrays to evaluate it at: what every tool gets.

Layer, sizes -> Case;  a Run is a call and what makes arrays by name of its result
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.compiled import Compiled
from symgrad.memory import require
from symgrad.program import Program
from symgrad.structured import Block

Arrays = dict[str, Any]

FORWARD, DENSE, VJP, GRADIENT = "forward", "dense Jacobians", "vjp", "gradient of the sum"
COMPACT, FACTORS = "compact Jacobians", "factors"

NOTHING = 1e-6
"""Entries that are all smaller may be zeros that rounding has made of sums that cancel."""

PEAK, LESS = 4, "fewer samples: --batch 16"
"""Dense arrays that are there at once: ours, numpy's, those of a framework, and its copies."""


@dataclass(frozen=True, slots=True)
class Run:
    """A call, and what makes arrays `{name: array}` of what it returns."""

    call: Callable[[], Any]
    numbers: Callable[[Any], Arrays]


@dataclass(frozen=True, slots=True)
class Case:
    """A compiled layer, its program as written, arrays by name, and `u`, one an output."""

    compiled: Compiled
    program: Program
    sizes: Mapping[str, int]
    arrays: Arrays
    u: tuple[Any, ...]

    @property
    def batched(self) -> bool:
        """Whether arrays have a batch axis."""
        return any(a.batched for a in self.program.arrays)

    @property
    def inputs(self) -> frozenset[str]:
        """The arrays of which every sample has its own."""
        return frozenset(a.name for a in self.program.arrays if a.batched)

    @property
    def dense_bytes(self) -> int:
        """The bytes of all dense Jacobians together."""
        own = [
            self.arrays[n].size // (len(self.arrays[n]) if n in self.inputs else 1)
            for n in self.compiled.wrt
        ]
        return 8 * sum(int(one.size) for one in self.u) * int(sum(own))

    def keyed(self, output: str, name: str) -> str:
        """Return the name that a Jacobian goes by: `W`, or `y, W` where there are more outputs."""
        return name if len(self.program.outputs) == 1 else f"{output}, {name}"


def ours(case: Case) -> dict[str, Run]:
    """Return our forms; compact Jacobians and factors are ours alone."""
    jac = case.compiled
    given = [case.arrays[a.name] for a in jac.forms.program.arrays if a.default is None]
    several = len(case.program.outputs) > 1
    u = case.u if several else case.u[0]
    outs: dict[Any, Any] = {}

    def dense() -> dict[Any, Any]:
        if not outs:
            require(jac.module, PEAK * case.dense_bytes, "a comparison of dense Jacobians", LESS)
            outs.update(jac.dense(*given))
        return jac.dense(*given, out=outs)

    def blocks(form: Callable[[Block], Any]) -> Callable[[], dict[Any, Any]]:
        def run() -> dict[Any, Any]:
            J = jac.jacobian(*given)
            return {key: form(J[key]) for key in J}

        return run

    def outputs(found: Any) -> Arrays:
        return dict(zip(case.program.outputs, found if several else (found,), strict=True))

    return {
        FORWARD: Run(lambda: jac.forward(*given), outputs),
        DENSE: Run(dense, _named),
        VJP: Run(lambda: jac.vjp(*given, u), _named),
        GRADIENT: Run(lambda: jac.gradient(*given, sum=True), _named),
        COMPACT: Run(blocks(Block.compact), _named),
        FACTORS: Run(blocks(Block.factors), _named),
    }


def _named(found: Mapping[Any, Any]) -> Arrays:
    return {k if isinstance(k, str) else ", ".join(k): v for k, v in found.items()}


def difference(right: Arrays, found: Arrays, least: Mapping[str, float] | None = None) -> float:
    """Return the largest difference of arrays of the same names, relative to the largest entry.

    `least` holds numbers that such an entry is taken to be at least, for sums that cancel. Names,
    shapes or places of nan and inf that differ are an infinite difference.
    """
    if right.keys() != found.keys():
        return np.inf
    worst = 0.0
    for name, array in right.items():
        expected, other = np.asarray(array), np.asarray(found[name])
        if expected.shape != other.shape:
            return np.inf
        scale = max(largest(expected), (least or {}).get(name, 0.0), NOTHING)
        for one, two in zip(_pieces(expected), _pieces(other), strict=True):
            worst = max(worst, _apart(one, two) / scale)
    return worst


def largest(array: Any) -> float:
    """Return the largest absolute value of what is finite."""
    return float(np.abs(array[np.isfinite(array)]).max(initial=0))


def _apart(one: Any, two: Any) -> float:
    with np.errstate(invalid="ignore"):
        same = (one == two) | (np.isnan(one) & np.isnan(two))
        apart = np.where(same, 0.0, np.abs(one - two)).max(initial=0)
    return float(apart) if np.isfinite(apart) else np.inf


def _pieces(array: Any) -> list[Any]:
    """Return an array in pieces, so that differences of large ones need no room."""
    if not array.ndim:
        return [array]
    rows = max(1, (1 << 22) * len(array) // max(array.size, 1))
    return [array[k : k + rows] for k in range(0, len(array), rows)]


__all__ = ["Case", "Run", "difference", "largest", "ours"]
