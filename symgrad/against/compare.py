"""Compare a layer's forms with what other tools give, then time all of them in turns.

Layer, sizes, tools -> Comparison
Nothing is timed before it agrees. What a tool cannot do is said by name, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from textwrap import shorten
from typing import Any

import numpy as np

from symgrad.against.by_numpy import by_numpy
from symgrad.against.case import GRADIENT, VJP, Case, Run, difference, largest, ours
from symgrad.against.frameworks import by_jax, by_torch
from symgrad.against.tool import absent, tools_of
from symgrad.bench import Placed, in_seconds, placed, side_by_side
from symgrad.compose import program_of
from symgrad.errors import ArgumentError, CodegenError, TooLargeError, ValidationError
from symgrad.memory import within_memory
from symgrad.select import Wrt
from symgrad.syntax import Layer

NEAR = 1e-8
"""Of the largest entry: others round sums in another order, and an inverse may lose digits."""

OURS = "symgrad"
WAYS: Mapping[str, Callable[[Case], dict[str, Callable[[], Run]]]] = {
    "numpy": by_numpy,
    "torch": by_torch,
    "jax": by_jax,
}


@dataclass(frozen=True, slots=True)
class Beside:
    """What a tool took for a form, in seconds; `reason` says why there is no time."""

    form: str
    tool: str
    seconds: float | None = None
    difference: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All forms of a layer at some sizes by all tools; `absent` are tools that are not there."""

    title: str
    batch: int
    dims: tuple[tuple[str, int], ...]
    rows: tuple[Beside, ...]
    absent: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return a table: forms down, tools across; then who was left out, and why."""
        sizes = ", ".join(f"{name} = {size}" for name, size in (("B", self.batch), *self.dims))
        tools = list(dict.fromkeys(row.tool for row in self.rows))
        forms = list(dict.fromkeys(row.form for row in self.rows))
        found = {(row.form, row.tool): row for row in self.rows}
        width = max(len(form) for form in ("", *forms))
        lines = [f"{self.title}: {sizes}, float64; medians, taken in turns after all agreed"]
        lines.append(f"{'':<{width}}" + "".join(f"  {name:>9}" for name in tools))
        for form in forms:
            cells = (_cell(found.get((form, name))) for name in tools)
            lines.append(f"{form:<{width}}" + "".join(f"  {cell:>9}" for cell in cells).rstrip())
        lines += [f"skipped: {name}: {why}" for name, why in self.absent.items()]
        lines += [f"skipped: {r.tool}, {r.form}: {r.reason}" for r in self.rows if r.reason]
        return "\n".join(lines)


def _cell(row: Beside | None) -> str:
    return "-" if row is None or row.seconds is None else in_seconds(row.seconds)


@within_memory
def compare(
    subject: Layer | str,
    wrt: Wrt = "params",
    *,
    against: Sequence[str],
    batch: int = 256,
    dims: Mapping[str, Any] | None = None,
    functions: Mapping[str, Any] | None = None,
    seconds: float = 0.5,
    seed: int = 0,
) -> Comparison:
    """Return what each form takes with us and with other tools (`numpy`, `torch`, `jax`).

    Raises ArgumentError for a tool that is not among them or a part of an array among `wrt`,
    ShapeError if a dim has no size, ValidationError where a tool's result differs from ours.
    """
    tools = tools_of(against)
    reasons = {name: why for name in tools if (why := absent(name))}
    found = _finite(subject, wrt, batch=batch, dims=dims, functions=functions, seed=seed)
    case = _case(found, functions)
    there = [name for name in tools if name not in reasons]
    rows = []
    with _doubles(there):
        mine = ours(case)
        others = {name: WAYS[name](case) for name in there}
        scales = {n: largest(a) for n, a in mine[VJP].numbers(mine[VJP].call()).items()}
        for form, run in mine.items():
            have = {name: of[form] for name, of in others.items() if form in of}
            # a sum over all outputs may cancel: softmax has none, of numbers that others round too
            rows += _side(form, run, have, scales if form == GRADIENT else {}, seconds)
    return Comparison(found.compiled.name, batch, found.shown, tuple(rows), reasons)


def _finite(subject: Layer | str, wrt: Wrt, **options: Any) -> Placed:
    """Return a layer with arrays that give finite outputs, positive ones if others do not."""
    found = placed(subject, wrt, **options)
    with np.errstate(all="ignore"):
        value = found.compiled.forward(*found.given.values())
    if all(np.isfinite(y).all() for y in (value if isinstance(value, tuple) else (value,))):
        return found
    return placed(subject, wrt, **options, kind="positive")


def _case(found: Placed, functions: Mapping[str, Any] | None) -> Case:
    """Return what tools get: arrays in float64, and random `u`."""
    compiled = found.compiled
    if compiled.forms.derivation.selection.regions:
        raise ArgumentError(
            "other tools differentiate by whole arrays, not by a part of one",
            hint="select whole arrays: --wrt W",
        )
    program, _ = program_of(compiled.layer, functions, found.fixed)
    kinds = {a.name: np.int64 if a.role == "index" else np.float64 for a in program.arrays}
    arrays = {n: np.asarray(a, kinds[n]) for n, a in found.arrays.items()}
    value = compiled.forward(*found.given.values())
    rng = np.random.default_rng(1)
    u = tuple(
        np.asarray(rng.standard_normal(np.shape(y)))
        for y in (value if isinstance(value, tuple) else (value,))
    )
    return Case(compiled, program, {**found.sizes, "#B": found.batch}, arrays, u)


def _side(
    form: str,
    mine: Run,
    others: Mapping[str, Callable[[], Run]],
    scales: Mapping[str, float],
    seconds: float,
) -> list[Beside]:
    """Return our row and those of others for one form; a form too large for memory has no time."""
    try:
        right = mine.numbers(mine.call())
    except TooLargeError as error:
        return [Beside(form, OURS, reason=_said(error))]
    runs: dict[str, Run] = {}
    apart: dict[str, float] = {}
    failed = []
    for name, make in others.items():
        try:
            run = make()
            found = run.numbers(run.call())
        except Exception as error:  # noqa: BLE001 (whatever a tool raises is its reason)
            failed.append(Beside(form, name, reason=_said(error)))
            continue
        runs[name], apart[name] = run, difference(right, found, scales)
        _require_near(apart[name], form, name)
    times = side_by_side(mine.call, *(run.call for run in runs.values()), seconds=seconds)
    rows = [Beside(form, OURS, times[0])]
    for name, taken in zip(runs, times[1:], strict=True):
        rows.append(Beside(form, name, taken, apart[name]))
    return rows + failed


def _said(error: Exception) -> str:
    """Return the reason why a tool cannot do something, in one line."""
    line = (str(error).strip().splitlines() or [""])[0]
    if not isinstance(error, (CodegenError, TooLargeError)):
        line = f"{type(error).__name__}: {line}".removesuffix(": ")
    return shorten(line, 160, placeholder=" ...")


def _require_near(apart: float, form: str, name: str) -> None:
    """Raise ValidationError if a tool's result is too far from ours."""
    if apart <= NEAR:
        return
    raise ValidationError(
        f"{form}: {name} differs from symgrad by {apart:.2g} of the largest entry, "
        f"{NEAR:g} is allowed: nothing was timed",
        hint="symgrad check LAYER compares ours with finite differences",
    )


@contextmanager
def _doubles(tools: Sequence[str]) -> Iterator[None]:
    """Let JAX compute in float64 for a while, if it takes part."""
    if "jax" not in tools:
        yield
        return
    config = import_module("jax").config
    before = config.jax_enable_x64
    config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        config.update("jax_enable_x64", before)


__all__ = ["Beside", "Comparison", "compare"]
