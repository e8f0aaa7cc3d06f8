"""Dense Jacobians by tangents: their drivers, and the lines that choose them.

Drivers -> text of functions;  Forms -> lines
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from symgrad.form import Ahead, Forms, Structured
from symgrad.generation.order import Order
from symgrad.generation.texts import shape_text
from symgrad.generation.words import code_name, dim_text

if TYPE_CHECKING:
    from symgrad.generation.drivers import Drivers


def ahead_of(forms: Forms, structured: Structured) -> Ahead | None:
    """Return the way ahead to a dense Jacobian, if there is one."""
    if structured.jacobian.beside:
        return None
    return next((a for a in forms.ahead if a.key == structured.key), None)


def of_ahead(way: Ahead, structured: Structured) -> Order:
    """Return what the driver of a way ahead computes."""
    return Order(way.definitions, made=(structured.dense.name,))


def ahead_texts(drivers: Drivers) -> list[str]:
    """Return the drivers of dense Jacobians by tangents."""
    texts = []
    for structured in drivers.forms.structured:
        way = ahead_of(drivers.forms, structured)
        if way is None:
            continue
        target = code_name(structured.dense.name)
        shape = shape_text([i.dim for i in structured.dense.indices])
        made = f'_result("{structured.title}", out, {shape}, dtype, single, arrays)'
        lines = [
            f"{target}, copied = {made}",
            *drivers.lines(of_ahead(way, structured)),
            f"return _delivered({target}, copied, out, single)",
        ]
        name, title = f"_ahead_{structured.key}", f"Return dense {structured.title} by tangents."
        texts.append(drivers.function(name, "arrays, sizes, dtype, single, out", title, lines))
    return texts


def costs_text(forms: Forms, structured: Structured) -> str:
    """Return the multiplications of both ways as code, empty where nothing is to choose."""
    way = ahead_of(forms, structured)
    return "" if way is None else ", ".join(map(dim_text, way.costs))


def or_ahead(
    forms: Forms, structured: Structured, call: tuple[str, str, str], back: list[str]
) -> list[str]:
    """Return the lines of a dense Jacobian: those going back, or the way ahead if it is cheaper.

    `call` is what stands before the call of the other driver, its `out`, and what stands behind.
    """
    if ahead_of(forms, structured) is None:
        return back
    before, out, behind = call
    driver = f"_ahead_{structured.key}(arrays, sizes, dtype, single, {out})"
    line = f"return {before}{driver}{behind}"
    costs = costs_text(forms, structured)
    return [f"if _cheapest({costs}) == 1:", f"    {line}", *back] if costs else [line]


__all__ = ["ahead_of", "ahead_texts", "costs_text", "of_ahead", "or_ahead"]
