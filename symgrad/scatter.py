"""Arrays and their parts: a part taken out of an array, and put back into one.

array [*lead, *p] <-> [*lead, *part]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symgrad.errors import ArgumentError, ShapeError
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


@dataclass(frozen=True, slots=True)
class Placing:
    """What is selected of one array, and how long its dims are; without a region all of it is.

    Errors speak of it by the name of the `layer`. Where zeros are `filled` in, parts are whole.
    """

    layer: str
    array: Array
    region: Region | None
    sizes: Mapping[str, int]
    filled: bool = False

    def take(self, array: Any) -> Values:
        """Return a copy of the part `[*lead, *part]` of an array `[*lead, *p]`."""
        own = tuple(d.evaluate(self.sizes) for d in self.array.axes)
        whole = self.checked(self.array.name, array, own)
        return np.array(whole if self.region is None else taken(whole, self.region, self.sizes))

    def scatter(self, part: Any, base: Any = 0) -> Values:
        """Return an array `[*lead, *p]`: the part `[*lead, *part]`, and `base` elsewhere.

        Raises ShapeError for what does not fit, ArgumentError for what is no array of numbers.
        """
        dims = self.array.axes if self.region is None or self.filled else self.region.axes
        shape = tuple(d.evaluate(self.sizes) for d in dims)
        found = self.checked(f"the part of {self.array.name}", part, shape)
        if self.region is None or self.filled:
            return np.array(found)
        if np.ndim(base):
            own = tuple(d.evaluate(self.sizes) for d in self.array.axes)
            base = self.checked(self.array.name, base, own)
            found = found.astype(np.result_type(found, base), copy=False)
        return scattered(found, self.region, self.array, self.sizes, base)

    def checked(self, name: str, value: Any, shape: tuple[int, ...]) -> Values:
        """Return an array whose last axes are `shape`."""
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise ArgumentError(f"{self.layer}: {name} is no array: {error}") from None
        if array.dtype.kind not in "fiubc":
            message = f"{self.layer}: {name} has dtype {array.dtype}, expected numbers"
            raise ArgumentError(message)
        if array.ndim < len(shape) or array.shape[array.ndim - len(shape) :] != shape:
            message = f"{self.layer}: {name} has shape {array.shape}, expected {shape}"
            raise ShapeError(message, hint="axes of samples and others may stand before these")
        return array


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


__all__ = ["Placing", "numbers", "places", "scattered", "shape_of", "taken"]
