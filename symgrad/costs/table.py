"""A plan as a table: plain text, or rich's on a terminal.

Plan -> text | rich.Table
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from symgrad.costs.plan import SHOWN
from symgrad.units import in_bytes, in_numbers

if TYPE_CHECKING:
    from symgrad.costs.plan import Plan, Quantity


RESULTS = "results of products with structured Jacobians J, whose workspace is bounded"


def text(plan: Plan) -> str:
    """Return the plan as lines: a form, and below it what it costs."""
    lines = [heading(plan)]
    for name, cost in plan.items():
        lines += ["", name]
        for word in SHOWN:
            quantity = getattr(cost, word)
            value = shown(word, quantity)
            lines.append(f"  {word:<10}  {quantity}{f'  =  {value}' if value else ''}")
    lines += ["", RESULTS]
    width = max(map(len, plan.matrices))
    for name, quantity in plan.matrices.items():
        value = shown("bytes", quantity)
        lines.append(f"  {name:<{width}}  {quantity}{f'  =  {value}' if value else ''}")
    return "\n".join(lines)


def table(plan: Plan) -> Any:
    """Return the plan as a table of rich."""
    from rich.table import Table

    made = Table(title=heading(plan), title_justify="left", show_lines=False)
    for word in ("form", "", "polynomial"):
        made.add_column(word, no_wrap=word != "polynomial", overflow="fold")
    made.add_column("value", justify="right", no_wrap=True)
    for name, cost in plan.items():
        for place, word in enumerate(SHOWN):
            quantity = getattr(cost, word)
            last = place == len(SHOWN) - 1
            first = "" if place else name
            made.add_row(first, word, str(quantity), shown(word, quantity), end_section=last)
    for name, quantity in plan.matrices.items():
        made.add_row(f"J.{name}", "results", str(quantity), shown("bytes", quantity))
    return made


def heading(plan: Plan) -> str:
    """Return the line above a plan: its layer, its sizes and the dtype."""
    sizes = [f"{plan.letter} = {plan.batch}"] if plan.batch is not None else []
    sizes += [f"{name} = {size}" for name, size in plan.dims.items()]
    return f"{plan.title}: {', '.join((*sizes, str(plan.dtype)))}"


def shown(word: str, quantity: Quantity) -> str:
    """Return a value in units that are read at a glance; "" for none, and for a plain number."""
    if quantity.value is None or str(quantity) == str(quantity.value):
        return ""
    number = in_numbers if word in ("operations", "calls") else in_bytes
    return number(quantity.value) if quantity.sure else f"at most {number(quantity.value)}"


__all__ = ["table", "text"]
