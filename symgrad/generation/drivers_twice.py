"""The private functions of second derivatives in a generated module.

Drivers, Curvature -> text of functions
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from symgrad.form import Curvature, Form
from symgrad.generation.order import Order
from symgrad.generation.sweeps import sweep_text
from symgrad.generation.words import code_name, mentions

if TYPE_CHECKING:
    from symgrad.generation.drivers import Drivers


def drivers_twice(drivers: Drivers, curvature: Curvature) -> list[str]:
    """Return the drivers of second derivatives."""
    title = "Return the arrays that second derivatives are made of, up to those of one."
    texts = [sweep_text(drivers, of_sweep_twice(curvature), "_sweep_twice", title)]
    for structured in curvature.structured:
        texts.append(drivers.expand(structured, structured.dense, "dense"))
        if structured.compact is not None:
            texts.append(drivers.expand(structured, structured.compact, "compact"))
    return [*texts, _curved(drivers, curvature.hvp), _summed(drivers, curvature.summed)]


def of_sweep_twice(curvature: Curvature) -> Order:
    """Return what the sweep of second derivatives computes."""
    kept = sorted({a for s in curvature.structured for a in s.arrays})
    wanted: dict[str, frozenset[str]] = {}
    for s in curvature.structured:
        wanted[s.pair] = wanted.get(s.pair, frozenset()) | set(s.arrays)
    return Order(curvature.factors.definitions, keep=kept, handed=kept, leaves=wanted)


def of_form(form: Form) -> Order:
    """Return what a driver of one form computes, all of it from the declared arrays on."""
    return Order(form.definitions, form.given, handed=[r.array for r in form.results])


def _curved(drivers: Drivers, form: Form) -> str:
    """Return the driver of second derivatives times u and tangents."""
    own = drivers.forms.derivation.selection.names
    vectors = form.given[: len(form.given) - len(own)]
    steps = drivers.lines(of_form(form))
    lines = [
        f'{code_name(a.name)} = tangents["{name}"]'
        for a, name in zip(form.given[len(vectors) :], own, strict=True)
        if mentions("\n".join(steps), code_name(a.name))
    ]
    results = ", ".join(f'"{r.key[0]}": {code_name(r.array)}' for r in form.results)
    lines += [*steps, f"return {{{results}}}"]
    names = ", ".join(code_name(a.name) for a in vectors)
    title = "Return {θ: gradient of u . J t}."
    return drivers.function("_curved", f"arrays, sizes, dtype, tangents, {names}", title, lines)


def _summed(drivers: Drivers, form: Form) -> str:
    """Return the driver of second derivatives added up over samples and outputs."""
    entries = (
        "(" + ", ".join(f'"{n}"' for n in r.key) + f"): {code_name(r.array)}" for r in form.results
    )
    lines = [*drivers.lines(of_form(form)), f"return {{{', '.join(entries)}}}"]
    names = ", ".join(code_name(a.name) for a in form.given)
    title = "Return {(θ, φ): second derivative of u . y}."
    return drivers.function("_summed", f"arrays, sizes, dtype, {names}", title, lines)
