"""Points of loops where conditions on places hold that lists give, each of them tried.

indices, conditions, tables, sizes -> number
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from symgrad.program import Delta, Guard, Index, Lookup, Position, Scalar, Table
from symgrad.scatter import numbers

Grid = Mapping[Index, NDArray[np.int64]]


def tried(
    indices: Sequence[Index],
    conditions: Sequence[Scalar],
    tables: Sequence[Table],
    sizes: Mapping[str, int],
) -> int:
    """Return at how many points of the box of `indices` all conditions hold."""
    shape = [i.dim.evaluate(sizes) for i in indices]
    grid = dict(zip(indices, np.ogrid[tuple(map(slice, shape))], strict=True))
    places = {
        t.name: np.array(t.values) if min(t.values) >= 0 else numbers(t, sizes) for t in tables
    }
    found = np.ones(shape, bool)
    for condition in conditions:
        match condition:
            case Delta():
                ends = (condition.left, condition.right)
                left, right = (_value(end, grid, places, sizes) for end in ends)
                found &= left == right
            case Guard():
                place = _value(condition.position, grid, places, sizes)
                found &= (place >= 0) & (place < condition.dim.evaluate(sizes))
            case _:
                raise ValueError(f"{condition} is no condition on places")
    return int(found.sum())


def _value(
    position: Position,
    grid: Grid,
    places: Mapping[str, NDArray[np.int64]],
    sizes: Mapping[str, int],
) -> NDArray[np.int64]:
    """Return a position at every point."""
    if isinstance(position, Lookup):
        found: NDArray[np.int64] = places[position.array][
            tuple(_value(p, grid, places, sizes) for p in position.at)
        ]
        return found
    total = np.array(position.offset.evaluate(sizes), np.int64)
    for index, coefficient in position.terms:
        number = coefficient if isinstance(coefficient, int) else coefficient.evaluate(sizes)
        total = total + number * grid[index]
    return total


def tables_of(conditions: Sequence[Scalar], tables: Sequence[Table]) -> tuple[Table, ...] | None:
    """Return the tables that conditions look places up in; None where they look up data."""
    names = {n for c in conditions if isinstance(c, Delta) for n in _looked_up(c)}
    found = tuple(t for t in tables if t.name in names)
    return found if len(found) == len(names) else None


def _looked_up(delta: Delta) -> set[str]:
    found: set[str] = set()
    ends: list[Position] = [delta.left, delta.right]
    while ends:
        end = ends.pop()
        if isinstance(end, Lookup):
            found.add(end.array)
            ends += end.at
    return found


__all__ = ["tables_of", "tried"]
