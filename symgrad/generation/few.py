"""Dense Jacobians of few samples of a small layer: one kernel does it all.

Drivers, Jacobians -> text of a driver
Steps apart, each a call of numpy or of a kernel, cost more than what they compute there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from symgrad.algebra.alternatives import at_once
from symgrad.algebra.order import needed
from symgrad.dims import Dim
from symgrad.form import Structured
from symgrad.generation.order import Order
from symgrad.generation.texts import shape_text
from symgrad.generation.words import code_name, dim_text
from symgrad.plan import plan
from symgrad.program import Primitive
from symgrad.schedule import Kernel

if TYPE_CHECKING:
    from symgrad.generation.drivers import Drivers

MOST = 14
"""Definitions of a layer and its Jacobians: longer ones have more to do than to call."""

ALL = "_few"
"""The driver of all dense Jacobians."""


def few(drivers: Drivers) -> tuple[list[str], dict[str, str]]:
    """Return the drivers of small layers, and by name the elements of one sample, as code."""
    blocks = drivers.forms.structured
    texts: list[str] = []
    works: dict[str, str] = {}
    if len(drivers.forms.factors.definitions) + len(blocks) > MOST:
        return texts, works
    several = len(drivers.forms.program.outputs) > 1
    for structured in () if several else blocks:
        whole = _whole(drivers, [structured])
        if whole is not None:
            name = f"{ALL}_{structured.key}"
            texts.append(_one(drivers, name, structured, whole))
            works[name] = dim_text(whole.work)
    every = len(blocks) > 1 and (several or len(works) == len(blocks))
    whole = _whole(drivers, blocks) if every else None
    if whole is not None:
        texts.append(_all(drivers, blocks, whole))
        works[ALL] = dim_text(whole.work)
    return texts, works


@dataclass(frozen=True, slots=True)
class _Whole:
    """The statement of a kernel that makes results of declared arrays, its elements of a sample."""

    line: str
    work: Dim


def _whole(drivers: Drivers, blocks: Sequence[Structured]) -> _Whole | None:
    """Return the one kernel of some Jacobians; None if it takes more."""
    results = [s.dense.name for s in blocks]
    dense = tuple(s.dense for s in blocks)
    definitions = needed((*drivers.forms.factors.definitions, *dense), results)
    if any(d.loop is not None or isinstance(d.body, Primitive) for d in definitions):
        return None
    order = drivers.prepared(Order(definitions, made=results))
    order = replace(order, definitions=at_once(order.definitions, drivers.shapes(())))
    axes = {d.name: tuple(i.dim for i in d.indices) for d in order.definitions}
    shapes = {**drivers.shapes(()), **axes}
    made = plan(order.definitions, drivers.forms.program.batch, shapes=shapes, loops=True)
    only = made.steps[0] if len(made.steps) == 1 else None
    if not isinstance(only, Kernel) or not only.split:
        return None
    whole = {b.name for b in made.buffers if b.kind == "int"}
    scratch = {n: axes[n][1:] for n in only.writes if n not in results}
    return _Whole(drivers.book.alone(only, results, scratch, whole), only.work)


def _one(drivers: Drivers, name: str, structured: Structured, whole: _Whole) -> str:
    """Return the driver of one dense Jacobian."""
    target = code_name(structured.dense.name)
    lines = [
        f"{target}, copied = {_made(structured, 'out')}",
        whole.line,
        f"return _delivered({target}, copied, out, single)",
    ]
    title = f"Return dense {structured.title} of few samples."
    return drivers.function(name, "arrays, sizes, dtype, single, out", title, lines)


def _all(drivers: Drivers, blocks: Sequence[Structured], whole: _Whole) -> str:
    """Return the driver of all dense Jacobians, by name."""
    several = len(drivers.forms.program.outputs) > 1
    lines, entries = [], []
    for number, structured in enumerate(blocks, 1):
        jacobian, target = structured.jacobian, code_name(structured.dense.name)
        own = f'"{jacobian.parameter}"'
        key = f'("{jacobian.output}", {own})' if several else own
        out = f"out_{number}"
        lines.append(f"{out} = outs.get({key})")
        lines.append(f"{target}, copied_{number} = {_made(structured, out)}")
        entries.append(f"    {key}: _delivered({target}, copied_{number}, {out}, single),")
    lines += [whole.line, "return {", *entries, "}"]
    title = "Return all dense Jacobians of few samples."
    return drivers.function(ALL, "arrays, sizes, dtype, single, outs", title, lines)


def _made(structured: Structured, out: str) -> str:
    shape = shape_text([i.dim for i in structured.dense.indices])
    return f'_result("{structured.title}", {out}, {shape}, dtype, single, arrays)'


__all__ = ["few"]
