"""Where positions lie: their least and greatest value, and what of a guard says something.

Affine, Guard -> sizes, comparisons
Sizes are at least zero; what follows from that alone is decided here, everything else is open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from symgrad.dims import Dim, Floor, signed
from symgrad.program import Affine, Guard, Index

Verdict = Literal["yes", "no", "open"]


def at_least(dim: Dim, low: int = 0) -> Verdict:
    """Say whether `dim >= low` for all sizes, for none, or for some."""
    rest = _without_floors(dim - low)
    constant = next((c for monomial, c in rest.terms if monomial == ()), 0)
    others = [c for monomial, c in rest.terms if monomial != ()]
    if constant >= 0 and all(c > 0 for c in others):
        return "yes"
    if constant < 0 and all(c < 0 for c in others) and rest == dim - low:
        return "no"
    return "open"


def _without_floors(dim: Dim) -> Dim:
    """Return a bound from below: `-c*d*(n//d) >= -c*n`."""
    total = Dim()
    for monomial, coefficient in dim.terms:
        atom = monomial[0][0] if len(monomial) == 1 and monomial[0][1] == 1 else ""
        if isinstance(atom, Floor) and coefficient < 0 and coefficient % atom.denominator == 0:
            total = total + atom.numerator * (coefficient // atom.denominator)
        else:
            total = total + Dim(((monomial, coefficient),))
    return total


def extremes(affine: Affine, found: Mapping[Index, Dim] | None = None) -> tuple[Dim, Dim]:
    """Return the least and the greatest value of a position; `found` has dims that replace."""
    low = high = affine.offset
    for index, coefficient in affine.terms:
        last = ((found or {}).get(index, index.dim) - 1) * coefficient
        low, high = (low + last, high) if signed(coefficient)[0] else (low, high + last)
    return low, high


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left >= right`, `left > right` or `left < right`; minus signs are on the other side."""

    left: Affine
    sign: Literal["ge", "gt", "lt"]
    right: Affine


def open_sides(guard: Guard) -> tuple[bool, bool]:
    """Return whether a guard's lower and its upper bound can fail at all."""
    low, high = extremes(guard.position)
    return at_least(low) != "yes", at_least(guard.dim - 1 - high) != "yes"


def one_sided(guard: Guard) -> Comparison | None:
    """Return a guard as one comparison, None if both its bounds say something, or neither."""
    lower, upper = open_sides(guard)
    if lower == upper:
        return None
    if upper:
        left, right = _sides(guard.position)
        return Comparison(left, "lt", right + guard.dim)
    if guard.position.offset == Dim.of(-1):
        return Comparison(_sides(guard.position)[0], "gt", _sides(guard.position + 1)[1])
    left, right = _sides(guard.position)
    return Comparison(left, "ge", right)


def last_stop(guard: Guard, index: Index) -> Affine | None:
    """Return before which position an index must stay for a guard to hold, if that is all of it."""
    if dict(guard.position.terms).get(index) != -1 or open_sides(guard) != (True, False):
        return None
    return guard.position + index + 1


def _sides(affine: Affine) -> tuple[Affine, Affine]:
    """Return what is added, and what is taken away."""
    left, right = Affine(), Affine()
    for index, coefficient in affine.terms:
        negative, size = signed(coefficient)
        if negative:
            right = right + Affine.of(index) * size
        else:
            left = left + Affine.of(index) * size
    number = affine.offset.constant
    if number is not None and number < 0:
        return left, right + -number
    return left + affine.offset, right
