"""Arrays and their parts: a part taken out of an array, and put back into one.

array [*lead, *p] <-> [*lead, *part]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symgrad.program import Array, Table
from symgrad.region import Listed, Region, Stride

Values = NDArray[Any]


def shape_of(region: Region, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the shape of a part."""
    return tuple(d.evaluate(sizes) for d in region.axes)


def taken(array: Values, region: Region, sizes: Mapping[str, int]) -> Values:
    """Return the part `[*lead, *part]` of an array `[*lead, *p]`; a view of it where slices do."""
    return array[(..., *places(region, sizes))]


def scattered(
    part: Values, region: Region, array: Array, sizes: Mapping[str, int], base: Any = 0
) -> Values:
    """Return an array `[*lead, *p]` with the part `[*lead, *part]` in its place, `base` elsewhere.

    `base` is an array that fits, which is copied, or a number.
    """
    part = np.asarray(part)
    lead = part.shape[: part.ndim - len(region.axes)]
    whole = tuple(d.evaluate(sizes) for d in array.axes)
    full = np.empty((*lead, *whole), part.dtype)
    full[...] = base
    full[(..., *places(region, sizes))] = part
    return full


def places(region: Region, sizes: Mapping[str, int]) -> tuple[Any, ...]:
    """Return a subscript that takes the part, slices and numbers where they do, else integers."""
    axes = [p.axis for p in region.at if isinstance(p, Stride) and p.axis is not None]
    listed = any(isinstance(p, Listed) for p in region.at)
    if not listed and axes == list(range(len(region.axes))):
        return tuple(_basic(p, region, sizes) for p in region.at if isinstance(p, Stride))
    tables = {t.name: numbers(t, sizes) for t in region.tables}
    return tuple(_grid(p, region, sizes, tables) for p in region.at)


def numbers(table: Table, sizes: Mapping[str, int]) -> NDArray[np.int64]:
    """Return the places that a table holds, counted from the start of their axis."""
    found = np.array(table.values, np.int64)
    return np.where(found < 0, found + table.dim.evaluate(sizes), found)


def _basic(place: Stride, region: Region, sizes: Mapping[str, int]) -> Any:
    start = place.start.evaluate(sizes)
    if place.axis is None:
        return start
    stop = start + place.step * region.axes[place.axis].evaluate(sizes)
    return slice(start, stop if stop >= 0 else None, place.step)


def _grid(
    place: Stride | Listed,
    region: Region,
    sizes: Mapping[str, int],
    tables: Mapping[str, NDArray[np.int64]],
) -> NDArray[np.int64]:
    """Return places along one axis, as an array with all axes of the part."""
    if isinstance(place, Listed):
        along = tables[place.table]
    elif place.axis is None:
        along = np.array([place.start.evaluate(sizes)])
    else:
        count = region.axes[place.axis].evaluate(sizes)
        along = place.start.evaluate(sizes) + place.step * np.arange(count)
    shape = [-1 if n == place.axis else 1 for n in range(len(region.axes))]
    return along.reshape(shape)


__all__ = ["numbers", "places", "scattered", "shape_of", "taken"]
