"""A part of an array: where each of its elements stands in the whole.

Array, what a caller wrote -> Region (see `symgrad.parts`)
Slices are affine in the part's index; lists and masks are tables that the index looks up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Union

from symgrad.dims import Dim
from symgrad.program import Affine, Array, Check, Index, Lookup, Position, Program, Table


@dataclass(frozen=True, slots=True)
class Stride:
    """Places along one axis: `start + step * k`, k along `axis` of the part; one place if None."""

    start: Dim
    step: int
    axis: int | None


@dataclass(frozen=True, slots=True)
class Listed:
    """Places along one axis that a table holds, in the order of `axis` of the part."""

    table: str
    axis: int


@dataclass(frozen=True, slots=True)
class Region:
    """A part of `array`: the lengths of its axes, and its place along each axis of the whole.

    `items` is what it was made of as plain values, `text` the same in short: `2:, [0, 3]`.
    """

    array: str
    axes: tuple[Dim, ...]
    at: tuple[Stride | Listed, ...]
    tables: tuple[Table, ...]
    checks: tuple[Check, ...]
    items: tuple[Any, ...]
    text: str

    def places(self, indices: Sequence[Index]) -> tuple[Position, ...]:
        """Return where the element of the part at `indices` stands in the whole."""
        found: list[Position] = []
        for place in self.at:
            if isinstance(place, Listed):
                found.append(Lookup(place.table, (Affine.of(indices[place.axis]),)))
            elif place.axis is None:
                found.append(Affine.of(place.start))
            else:
                found.append(Affine.of(indices[place.axis]) * place.step + place.start)
        return tuple(found)

    def whole(self, array: Array) -> frozenset[int]:
        """Return the axes of the part that are axes of the array from end to end."""
        return frozenset(
            place.axis
            for place, dim in zip(self.at, array.axes, strict=True)
            if isinstance(place, Stride)
            and place.axis is not None
            and (place.start, place.step, self.axes[place.axis]) == (Dim(), 1, dim)
        )


def with_regions(program: Program, regions: Sequence[Region]) -> Program:
    """Return the program with the tables and the checks that selected parts need."""
    tables = tuple(t for r in regions for t in r.tables)
    checks = tuple(c for r in regions for c in r.checks)
    if not tables and not checks:
        return program
    return replace(program, tables=tables, checks=(*program.checks, *checks))


Chosen = Union[Stride, Listed]

__all__ = ["Chosen", "Listed", "Region", "Stride", "with_regions"]
