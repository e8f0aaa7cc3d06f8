"""Drivers of what Jacobians are made of: they may be left as soon as they have what is asked for.

Order -> text of a function
Stages that take samples one by one are one run, which is left at a stage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from symgrad.generation.order import Order
from symgrad.generation.pieces import Stages, Written, joined, stopping
from symgrad.generation.words import code_name

if TYPE_CHECKING:
    from symgrad.generation.drivers import Drivers


def sweep_text(drivers: Drivers, order: Order, name: str, title: str) -> str:
    """Return a driver of the arrays to keep that may stop as soon as it has some of them."""
    kept, wanted = order.keep or (), dict(order.leaves)
    declared = drivers.declared()
    done: set[str] = set()
    stages: list[tuple[list[Written], list[str]]] = []
    run: list[Written] = []
    for step in [Written(declared), *drivers.apart(order, kept)]:
        run.append(step)
        done |= set(step.complete)
        ready = [p for p, arrays in wanted.items() if arrays <= done]
        wanted = {p: arrays for p, arrays in wanted.items() if p not in ready}
        if ready:
            stages.append((run, ready))
            run = []
    lines = ["v = {}", *_left(drivers, joined([*stages, (run, [])]), kept)]
    if lines[-1] == "    return v":
        del lines[-2:]
    lines.append("return v")
    return drivers.function(name, "arrays, sizes, dtype, until=None", title, lines)


def _left(drivers: Drivers, groups: Iterable[Stages], kept: Collection[str]) -> list[str]:
    """Return the lines of a sweep that may be left after each stage; `v` has what is kept."""
    lines: list[str] = []
    for group in groups:
        steps = group[0][0]
        if len(group) > 1:
            steps = stopping([own for own, _ in group])
            entries = (f'"{p}": {n}' for n, (_, ready) in enumerate(group) for p in ready)
            lines.append(f"stage = {{{', '.join(entries)}}}.get(until, {len(group)})")
        lines += drivers.pieces.lines(steps)
        for own, ready in group:
            found = [n for step in own for n in step.complete if n in kept]
            lines += [*(f'v["{n}"] = {code_name(n)}' for n in found), *_leave(ready)]
    return lines


def _leave(ready: Sequence[str]) -> list[str]:
    """Return the lines that stop a sweep asked for the parameters that are ready."""
    if not ready:
        return []
    names = ", ".join(f'"{p}"' for p in ready)
    test = f"until == {names}" if len(ready) == 1 else f"until in ({names})"
    return [f"if {test}:", "    return v"]


__all__ = ["sweep_text"]
