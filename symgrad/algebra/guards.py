"""Masks of places as guards: a guarded term is skipped, never multiplied by zero.

mask -> Guard | Delta, ... | None
Affine comparisons of indices, and what `&` and `~` make of them, are guards; other masks stay.
"""

from __future__ import annotations

from symgrad.bounds import extremes
from symgrad.dims import Dim
from symgrad.program import Affine, Apply, Delta, Guard, Number, Place, Scalar, Size

OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


def guards_of(mask: Scalar, holds: bool = True) -> tuple[Guard | Delta, ...] | None:
    """Return the guards whose product is a mask, or its negation where not `holds`; else None."""
    if not isinstance(mask, Apply) or any(mask.order):
        return None
    if mask.function == "not_":
        return guards_of(mask.args[0], not holds)
    if mask.function == ("and_" if holds else "or_"):
        parts = [guards_of(arg, holds) for arg in mask.args]
        if any(part is None for part in parts):
            return None
        return tuple(guard for part in parts for guard in part or ())
    sides = [_place(arg) for arg in mask.args]
    if mask.function not in OPPOSITE or sides[0] is None or sides[1] is None:
        return None
    return _compared(mask.function if holds else OPPOSITE[mask.function], sides[0], sides[1])


def branch(scalar: Scalar) -> tuple[tuple[Guard | Delta, ...], Scalar] | None:
    """Return `where(mask, a, 0)` or `where(mask, 0, a)` as guards and a; None for all else."""
    if not isinstance(scalar, Apply) or scalar.function != "where" or any(scalar.order):
        return None
    mask, yes, no = scalar.args
    if no == Number(0):
        guards, kept = guards_of(mask), yes
    elif yes == Number(0):
        guards, kept = guards_of(mask, holds=False), no
    else:
        return None
    return None if guards is None else (guards, kept)


def _compared(sign: str, left: Affine, right: Affine) -> tuple[Guard | Delta, ...] | None:
    difference = left - right if sign in ("ge", "gt", "eq") else right - left
    if not difference.terms or sign == "ne":
        return None
    if sign == "eq":
        return (Delta(left, right),)
    position = difference - 1 if sign in ("gt", "lt") else difference
    return (Guard(position, extremes(position)[1] + 1),)


def _place(scalar: Scalar) -> Affine | None:
    """Return a number that is computed from indices and sizes alone as a position."""
    match scalar:
        case Place(affine):
            return affine
        case Size(dim):
            return Affine.of(dim)
        case Number(int() as value):
            return Affine.of(value)
        case Apply("neg", (arg,), ()):
            inner = _place(arg)
            return None if inner is None else -inner
        case Apply(("add" | "sub" | "mul") as function, (left, right), ()):
            a, b = _place(left), _place(right)
            return None if a is None or b is None else _combined(function, a, b)
        case _:
            return None


def _combined(function: str, left: Affine, right: Affine) -> Affine | None:
    if function != "mul":
        return left + right if function == "add" else left - right
    factor, other = (left, right) if not left.terms else (right, left)
    number = factor.offset.constant
    if not other.terms:
        return Affine((), Dim.of(factor.offset) * other.offset) if not factor.terms else None
    return None if factor.terms or number is None else other * number
