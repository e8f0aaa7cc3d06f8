"""Compare a workload's peers with each other, then time them side by side.

Workloads -> Report
A disagreement is an error. A peer that is not there is named, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np

from benchmarks import by_backpack, by_casadi, frameworks
from benchmarks.limits import VALUE, filling
from benchmarks.machine import huge_pages
from benchmarks.ours import gradient, ours
from benchmarks.timing import side_by_side
from benchmarks.workload import (
    BY_HAND,
    FRAMEWORK,
    FRAMEWORKS,
    LIMIT,
    OURS,
    YARDSTICK,
    Arrays,
    Quantity,
    Run,
    Setting,
    Target,
    Workload,
    setting,
)

NEAR = {"float64": 1e-9, "float32": 1e-3}
"""Of the largest entry: sums of thousands of products in another order, a hundred-fold."""

NO_FORM = "has no such form"

PIECE = 1 << 22
"""Entries that are compared at once, so that differences of large arrays need no room."""


class Disagreement(Exception):
    """Two peers computed different numbers."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one peer took; `times` is that in units of ours, `difference` relative to the largest.

    `reason` says why there is no time.
    """

    workload: str
    quantity: str
    peer: str
    seconds: float | None = None
    times: float | None = None
    difference: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target, what was measured, and whether that is enough; None if it was not measured."""

    workload: str
    quantity: str
    asked: str
    measured: str
    met: bool | None
    remark: str = ""


def measure(
    workloads: Iterable[Workload],
    *,
    quick: bool = False,
    seconds: float = 0.5,
    told: Callable[[str], None] = lambda line: None,
) -> tuple[list[Row], list[Verdict]]:
    """Return what all peers took for all workloads, and the targets judged."""
    rows: list[Row] = []
    verdicts: list[Verdict] = []
    for workload in workloads:
        told(f"{workload.name}: {workload.title}")
        placed = setting(workload, quick=quick)
        before: dict[str, list[Row]] = {}
        for quantity in workload.quantities:
            found = side(placed, quantity, quick=quick, seconds=seconds)
            rows += found
            verdicts += [judged(workload, quantity, aim, found, before) for aim in quantity.targets]
            before[quantity.name] = found
    return rows, verdicts


def side(placed: Setting, quantity: Quantity, *, quick: bool, seconds: float) -> list[Row]:
    """Return the rows of one quantity: ours first, absent peers last."""
    mine = ours(placed, quantity)
    runs, reasons = others(placed, quantity, quick=quick)
    differences, failed = compared(mine, runs, NEAR[placed.workload.dtype], placed, quantity)
    reasons |= failed
    for name in failed:
        del runs[name]
    if quantity.limited and quantity.form == "dense":
        name, fill = filling(list(placed.outs.values()))
        runs[LIMIT] = Run(fill, dict)
        fill()
        if not all((out == VALUE).all() for out in placed.outs.values()):
            raise Disagreement(f"{placed.workload.name}: {name} left something out")
    times = side_by_side(mine.call, *(run.call for run in runs.values()), seconds=seconds)
    keys = (placed.workload.name, quantity.name)
    rows = [Row(*keys, OURS, times[0], 1.0, 0.0)]
    for name, taken in zip(runs, times[1:], strict=True):
        rows.append(Row(*keys, name, taken, taken / times[0], differences.get(name)))
    return rows + [Row(*keys, name, reason=why) for name, why in reasons.items()]


def others(
    placed: Setting, quantity: Quantity, *, quick: bool
) -> tuple[dict[str, Run], dict[str, str]]:
    """Return the peers that compute a quantity, and why others do not."""
    runs: dict[str, Run] = {}
    reasons: dict[str, str] = {}
    if quantity.by_hand is not None:
        runs[BY_HAND] = quantity.by_hand(placed)
    else:
        reasons[BY_HAND] = "none was written"
    for name in ("torch.func", "torch.compile", "jax"):
        why = placed.workload.without.get(name) or frameworks.absent(name, quick=quick)
        if why:
            reasons[name] = why
        else:
            runs |= frameworks.ways(frameworks.framework(name), placed, quantity)
    for name, module in (("BackPACK", by_backpack), ("casadi", by_casadi)):
        why = module.absent()
        if why:
            reasons[name] = why
        else:
            runs |= module.ways(placed, quantity)
    if find_spec("torch"):
        runs |= frameworks.yardstick(placed)
    else:
        reasons[YARDSTICK] = "torch is not installed"
    for name in FRAMEWORKS:
        if name not in reasons and not any(made.startswith(name) for made in runs):
            reasons[name] = NO_FORM
    return runs, reasons


def compared(
    mine: Run, runs: dict[str, Run], near: float, placed: Setting, quantity: Quantity
) -> tuple[dict[str, float], dict[str, str]]:
    """Return each peer's largest difference from ours, and the peers that could not run.

    Only torch.compile may fail: which functions it takes depends on the C++ compiler.
    """
    right = {n: np.array(a) for n, a in mine.numbers(mine.call()).items()}
    differences: dict[str, float] = {}
    failed: dict[str, str] = {}
    for name, run in runs.items():
        expected = right
        if name == YARDSTICK:
            pulled = gradient(placed, quantity)
            expected = pulled.numbers(pulled.call())
        try:
            found = run.numbers(run.call())
        except Exception as error:
            if not name.startswith("torch.compile"):
                raise
            failed[name] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            continue
        where = f"{placed.workload.name}, {quantity.name}: {name}"
        differences[name] = difference(expected, found, where)
        if not differences[name] <= near:
            raise Disagreement(f"{where} differs from ours by {differences[name]:.2g}")
    return differences, failed


def difference(right: Arrays, found: Arrays, where: str) -> float:
    """Return the largest difference of all arrays, each relative to its largest entry."""
    if right.keys() != found.keys():
        raise Disagreement(f"{where} has {sorted(found)}, ours are {sorted(right)}")
    worst = 0.0
    for name, array in right.items():
        other = found[name]
        if other.shape != array.shape:
            raise Disagreement(f"{where}: {name} is {other.shape}, ours is {array.shape}")
        largest = float(np.abs(array).max(initial=0)) or 1.0
        ahead = max(1, PIECE * len(array) // max(array.size, 1)) if array.ndim else 1
        pieces = (slice(k, k + ahead) for k in range(0, len(array), ahead)) if array.ndim else [()]
        for piece in pieces:
            apart = np.abs(array[piece] - other[piece]).max(initial=0)
            worst = float(np.maximum(worst, apart / largest))  # nan stays
    return worst


# ------------------------------------------------------------ targets


def judged(
    workload: Workload,
    quantity: Quantity,
    aim: Target,
    rows: list[Row],
    before: Mapping[str, list[Row]] | None = None,
) -> Verdict:
    """Return whether a target is met; `before` are the rows of quantities of the workload so far.

    Of two quantities the better is judged, each by the peer that was timed beside it.
    """
    if aim.either:
        alone = replace(aim, either="")
        pair = [judged(workload, replace(quantity, name=name), alone, own)
                for name, own in ((aim.either, (before or {})[aim.either]), (quantity.name, rows))]
        best = next((one for one in pair if one.met), pair[-1])
        told = f"{aim.either}: {pair[0].measured}; {quantity.name}: {pair[1].measured}"
        return replace(best, quantity=f"{aim.either} or {quantity.name}", measured=told)
    keys = (workload.name, quantity.name)
    if not aim.against:
        taken = rows[0].seconds or 0.0
        words = (f"<= {aim.times * 1e6:.3g} µs", f"{taken * 1e6:.3g} µs")
        return Verdict(*keys, *words, taken <= aim.times)
    wanted = FRAMEWORKS if aim.against == FRAMEWORK else (aim.against,)
    there = [r for r in rows if r.seconds is not None and r.peer.startswith(wanted)]
    asked = f"{aim.times:.3g} x as fast as {aim.against}" + (", huge pages" if aim.huge else "")
    if not there:
        why = next((r.reason for r in rows if r.peer.startswith(wanted)), "there is none")
        return Verdict(*keys, asked, "-", None, why)
    best = min(there, key=lambda r: r.times or 0.0)
    missing = {r.peer for r in rows if r.peer.startswith(wanted) and r.reason.endswith("installed")}
    remarks = [f"without {', '.join(sorted(missing))}"] if missing else []
    if aim.huge and not huge_pages():
        remarks.append("without huge pages")
    measured = f"{best.times:.3g} x {best.peer}"
    return Verdict(*keys, asked, measured, (best.times or 0) >= aim.times, "; ".join(remarks))


def absences(rows: Iterable[Row]) -> dict[str, str]:
    """Return the peers that are nowhere, and why."""
    there = {row.peer for row in rows if row.seconds is not None}
    found: dict[str, str] = {}
    for row in rows:
        if row.reason not in ("", NO_FORM) and not any(name.startswith(row.peer) for name in there):
            found[row.peer] = row.reason
    return found
