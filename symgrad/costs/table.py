"""A plan as a table: plain text, or rich's on a terminal.

Plan -> text | rich.Table
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from symgrad.costs.plan import SHOWN

if TYPE_CHECKING:
    from symgrad.costs.plan import Plan, Quantity

BYTES = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
NUMBERS = ("k", "M", "G", "T", "P", "E")


def text(plan: Plan) -> str:
    """Return the plan as lines: a form, and below it what it costs."""
    lines = [heading(plan)]
    for name, cost in plan.items():
        lines += ["", name]
        for word in SHOWN:
            quantity = getattr(cost, word)
            value = shown(word, quantity)
            lines.append(f"  {word:<10}  {quantity}{f'  =  {value}' if value else ''}")
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


def in_numbers(value: int) -> str:
    """Return a count in thousands, millions, ...: `2.1 M`."""
    return _scaled(value, 1000, NUMBERS) or str(value)


def in_bytes(value: int) -> str:
    """Return a number of bytes in multiples of 1024: `64.0 KiB`."""
    return _scaled(value, 1024, BYTES) or f"{value} bytes"


def _scaled(value: int, base: int, units: tuple[str, ...]) -> str:
    """Return a value in the largest unit of which it has one; "" if it has none of any."""
    power = 0
    while power < len(units) and value >= base ** (power + 1):
        power += 1
    return f"{value / base**power:,.1f} {units[power - 1]}" if power else ""


__all__ = ["in_bytes", "table", "text"]
