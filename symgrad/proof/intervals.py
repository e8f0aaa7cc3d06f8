"""Read from a layer's asserts between which numbers each declared array lies.

Program -> {name: (low, high)}
Only comparisons of a whole array with numbers tell; anything else is left to trying.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from symgrad.program import Access, Apply, Number, Program, Scalar

Interval = tuple[float, float]
_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def intervals(program: Program) -> dict[str, Interval]:
    """Return the interval of each declared array that an assert compares with a number."""
    found: dict[str, Interval] = {}
    for condition in program.conditions:
        for part in _conjuncts(condition.mask):
            for name, low, high in _bound(part):
                if program.array(name) is not None:
                    before = found.get(name, (-inf, inf))
                    found[name] = (max(before[0], low), min(before[1], high))
    return found


def _conjuncts(mask: Scalar) -> Iterator[Scalar]:
    """Yield the parts of a mask that must all hold."""
    if isinstance(mask, Apply) and mask.function == "and_":
        for part in mask.args:
            yield from _conjuncts(part)
    else:
        yield mask


def _bound(part: Scalar) -> Iterator[tuple[str, float, float]]:
    """Yield the array that a comparison bounds, and its bounds."""
    if not isinstance(part, Apply) or part.function not in _FLIPPED or len(part.args) != 2:
        return
    left, right = part.args
    for one, other, function in (
        (left, right, part.function),
        (right, left, _FLIPPED[part.function]),
    ):
        number = _number(other)
        if isinstance(one, Access) and number is not None:
            below = function in ("lt", "le")
            yield (one.array, -inf, number) if below else (one.array, number, inf)


def _number(scalar: Scalar) -> float | None:
    match scalar:
        case Number(value):
            return float(value)
        case Apply("neg", (Number(value),), ()):
            return -float(value)
        case _:
            return None
