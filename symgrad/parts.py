"""Parts of arrays as callers write them: slices, numbers, lists of numbers, masks.

Program, name, np.s_[2:, [0, 3]] -> Region
They mean what they mean in numpy, but no bound is clipped and no place is taken twice.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import index
from typing import Any, SupportsIndex, Union

import numpy as np
from numpy.typing import NDArray

from symgrad.bounds import at_least
from symgrad.dims import ONE, ZERO, Dim
from symgrad.errors import SelectionError
from symgrad.packed import Plain, packed, unpacked
from symgrad.program import Array, Check, Table
from symgrad.region import Chosen, Listed, Region, Stride

Item = Union[slice, int, NDArray[np.int64], NDArray[np.bool_]]
SHOWN = 8
"""How many numbers of a list an error or a caption shows."""


def region(array: Array, part: object, new_name: Callable[[str], str]) -> Region | None:
    """Return the part of an array that a subscript takes; None if it is all of it.

    `part` is a slice, a number, a list of numbers or a mask, a tuple of them, the text of a
    subscript, or True for all. Raises SelectionError for what is no part of this array.
    """
    items = _items(array, part)
    if all(isinstance(i, slice) and i == slice(None) for i in items):
        return None
    reader = _Reader(array, items, new_name)
    return reader.region()


def subscript(text: str) -> tuple[object, ...]:
    """Return what the text of a subscript means: `2:, [0, 3]`; it is read, never executed.

    Raises SelectionError for any other text.
    """
    try:
        found = _literal(ast.parse(f"_[{text}]", mode="eval").body)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        hint = "as in W[2:, [0, 3]]"
        raise SelectionError(f"wrt: [{text}] is no part of an array", hint=hint) from None
    return found if isinstance(found, tuple) else (found,)


def _literal(node: ast.expr) -> Any:
    """Return the value of a literal in a subscript; raise ValueError for anything else."""
    match node:
        case ast.Subscript(ast.Name("_"), inside):
            return _literal(inside)
        case ast.Slice(lower, upper, step):
            return slice(*(None if n is None else _literal(n) for n in (lower, upper, step)))
        case ast.Tuple(elements):
            return tuple(_literal(e) for e in elements)
        case ast.List(elements):
            return [_literal(e) for e in elements]
        case ast.UnaryOp(ast.USub(), ast.Constant(int(value))) if not isinstance(value, bool):
            return -value
        case ast.Constant(int(value)):
            return value
        case ast.Constant(value) if value is ...:
            return value
    raise ValueError


# ------------------------------------------------------------ items, one for each stretch of axes


def _items(array: Array, part: object) -> list[Item]:
    """Return the items of a subscript with `...` and what is left out written out."""
    if isinstance(part, str):
        part = subscript(part)
    if part is True or (isinstance(part, np.bool_) and part):
        part = ...
    given = part if isinstance(part, tuple) else (part,)
    read = [_item(array, one) for one in given]
    dots = [n for n, one in enumerate(read) if one is ...]
    if len(dots) > 1:
        raise _wrong(array, "has two '...'", "write ... once")
    taken = sum(_rank(one) for one in read)
    missing = len(array.axes) - taken
    if missing < 0:
        has = "is a scalar" if not array.axes else f"has {len(array.axes)} axes"
        raise _wrong(array, f"takes {taken} axes, but {array.name} {has}", "give fewer")
    place = dots[0] if dots else len(read)
    full: list[Any] = [*read[:place], *[slice(None)] * missing, *read[place + bool(dots) :]]
    return full


def _item(array: Array, one: object) -> Any:
    """Return one item: `...`, a slice, an int, or an array of numbers or of truth values."""
    match one:
        case str():
            found = subscript(one)
            if len(found) != 1:
                raise _wrong(array, f"holds {one!r}", "give a tuple of one item an axis")
            return _item(array, found[0])
        case dict():
            return unpacked(one)
        case slice():
            return one
        case None:
            raise _wrong(array, "holds None", "a part has no new axes")
    if one is ...:
        return one
    if isinstance(one, SupportsIndex) and not isinstance(one, (bool, np.ndarray)):
        return index(one)
    return _numbers(array, one)


def _numbers(array: Array, one: object) -> Any:
    """Return a list or a mask as an array; raise SelectionError for anything else."""
    hint = "give slices, numbers, lists of numbers or masks: np.s_[2:, [0, 3]]"
    try:
        found = np.asarray(one)
    except (ValueError, TypeError):
        raise _wrong(array, f"holds {_short(one)}", hint) from None
    if found.dtype.kind == "b" and found.ndim:
        return found
    if found.dtype.kind in "iu" and found.ndim == 1 and found.size:
        return found.astype(np.int64)
    if found.dtype.kind in "iu" and found.ndim > 1:
        hint = "give one list for each axis, as in np.s_[[0, 1], [2, 3]]"
        raise _wrong(array, f"holds numbers with {found.ndim} axes", hint)
    if found.ndim and not found.size:
        raise _wrong(array, "takes nothing", "name a place, or leave the array out of wrt")
    raise _wrong(array, f"holds {_short(one)}", hint)


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 and "\n" not in shown else f"a {type(value).__name__}"


def _rank(item: object) -> int:
    """Return how many axes of the array an item is about."""
    if item is ...:
        return 0
    mask = isinstance(item, np.ndarray) and item.dtype.kind == "b"
    return item.ndim if isinstance(item, np.ndarray) and mask else 1


def _wrong(array: Array, what: str, hint: str) -> SelectionError:
    return SelectionError(f"wrt: the part of {array.name} {what}", hint=hint)


# ------------------------------------------------------------ items become places


@dataclass(slots=True)
class _Place:
    """The places along one axis: a stride of some length, or numbers."""

    stride: Stride | None
    count: Dim | None
    numbers: NDArray[np.int64] | None
    source: tuple[str, int, int]
    advanced: bool


class _Reader:
    """Makes a region of the items of one subscript."""

    def __init__(
        self, array: Array, items: Sequence[Item], new_name: Callable[[str], str]
    ) -> None:
        self.array = array
        self.items = items
        self.new_name = new_name
        self.checks: list[Check] = []
        self.text = ", ".join(_text(i) for i in items)

    def region(self) -> Region:
        """Return the region."""
        places = [p for n, item in enumerate(self.items) for p in self.places(n, item)]
        length = self.length(places)
        first = self.first(places)
        axes: list[Dim] = []
        at: list[Chosen] = []
        tables: list[Table] = []
        joint: int | None = None
        if first == 0:
            joint = 0
            axes.append(length)
        for number, place in enumerate(places):
            if place.advanced and first is not None:
                if number == first and joint is None:
                    joint = len(axes)
                    axes.append(length)
                at.append(self.joined(place, number, joint, length, tables))
            elif place.count is None:
                at.append(place.stride or Stride(ZERO, 1, None))
            else:
                assert place.stride is not None
                at.append(Stride(place.stride.start, place.stride.step, len(axes)))
                axes.append(place.count)
        self.once(at, tables)
        return Region(
            self.array.name, tuple(axes), tuple(at), tuple(tables), tuple(self.checks),
            tuple(_plain(i) for i in self.items), self.text,
        )  # fmt: skip

    def places(self, number: int, item: Item) -> list[_Place]:
        """Return the places of one item, one for each axis it is about."""
        axis = sum(_rank(i) for i in self.items[:number])
        source = (self.array.name, number, 0)
        if isinstance(item, slice):
            stride, count = self.cut(item, self.array.axes[axis])
            return [_Place(stride, count, None, source, advanced=False)]
        if isinstance(item, int):
            start = self.counted(item, self.array.axes[axis])
            return [_Place(Stride(start, 1, None), None, None, source, advanced=True)]
        if item.dtype.kind != "b":
            numbers = item.astype(np.int64)
            self.inside(numbers, self.array.axes[axis])
            return [_Place(None, None, numbers, source, advanced=True)]
        found = []
        for own, (size, numbers) in enumerate(zip(item.shape, np.nonzero(item), strict=True)):
            self.same(size, axis + own)
            place = (self.array.name, number, own)
            found.append(_Place(None, None, numbers, place, advanced=True))
        if not item.any():
            raise _wrong(self.array, "is a mask of nothing", "leave the array out of wrt")
        return found

    def length(self, places: Sequence[_Place]) -> Dim:
        """Return the length of the axis that all lists make together."""
        sizes = sorted({len(p.numbers) for p in places if p.numbers is not None} - {1})
        if len(sizes) > 1:
            hint = "lists of several axes are taken together, as numpy does"
            both = " and ".join(map(str, sizes))
            raise _wrong(self.array, f"has lists of {both} numbers", hint)
        return Dim.of(sizes[0]) if sizes else ONE

    def first(self, places: Sequence[_Place]) -> int | None:
        """Return before which axis the lists' axis stands, None if there are no lists.

        As in numpy: where the first stands if they are neighbours, numbers among them, else ahead.
        """
        if all(p.numbers is None for p in places):
            return None
        where = [n for n, p in enumerate(places) if p.advanced]
        return where[0] if where[-1] - where[0] + 1 == len(where) else 0

    def joined(
        self, place: _Place, number: int, joint: int | None, length: Dim, tables: list[Table]
    ) -> Chosen:
        """Return the places of a list: a stride where its numbers are one, else a table."""
        dim = self.array.axes[number]
        if place.numbers is None:
            return place.stride or Stride(ZERO, 1, None)
        assert joint is not None
        numbers = [_from_start(int(n), dim) for n in place.numbers]
        alike = min(numbers) >= 0 or max(numbers) < 0
        ahead = dim if max(numbers) < 0 else ZERO
        steps = {b - a for a, b in pairwise(numbers)}
        if len(numbers) == 1:
            step, axis = 1, joint if length == ONE else None
            return Stride(ahead + numbers[0], step, axis)
        if alike and len(steps) == 1 and steps != {0}:
            return Stride(ahead + numbers[0], steps.pop(), joint)
        stated = tuple(int(n) for n in place.numbers)  # as the module reads them in its options
        table = Table(self.new_name(f"at_{self.array.name}"), stated, dim, place.source)
        tables.append(table)
        return Listed(table.name, joint)

    def once(self, at: Sequence[Chosen], tables: Sequence[Table]) -> None:
        """Refuse a place that is taken twice."""
        joint = {p.axis for p in at if isinstance(p, Listed)}
        if not joint:
            return
        known = {t.name: [_from_start(n, t.dim) for n in t.values] for t in tables}
        length = len(next(iter(known.values())))
        columns = [
            known[p.table] if isinstance(p, Listed) else [k * p.step for k in range(length)]
            for p in at
            if p.axis in joint
        ]
        rows = list(zip(*columns, strict=True))
        if len(set(rows)) < len(rows):
            twice = next(row for row in rows if rows.count(row) > 1)
            shown = ", ".join(map(str, twice))
            raise _wrong(self.array, f"takes the place {shown} twice", "give each place once")

    # -------------------------------------------------------- sizes

    def cut(self, item: slice, dim: Dim) -> tuple[Stride, Dim]:
        """Return the stride of a slice and its length; bounds are not clipped."""
        start, stop, step = (self.bound(b) for b in (item.start, item.stop, item.step))
        step = 1 if step is None else step
        if step == 0:
            raise _wrong(self.array, "has a slice of step 0", "write 2::3, or ::-1")
        begin = self.counted_from(start, dim, ZERO if step > 0 else dim - 1)
        end = self.counted_from(stop, dim, dim if step > 0 else Dim.of(-1))
        low, high = (begin, end) if step > 0 else (end + 1, begin + 1)
        count = (high - low + abs(step) - 1) // abs(step)
        self.require(low, high, dim)
        if at_least(count) == "no":
            hint = "bounds are not clipped: stay inside the axis"
            what = f"{_text(item)} has {count} elements of an axis of length {dim}"
            raise _wrong(self.array, what, hint)
        if at_least(count) == "open":
            message = f"the part {self.array.name}[{self.text}] of wrt"
            self.checks.append(Check(count, ZERO, ONE, message))
        return Stride(begin, step, None), count

    def bound(self, value: object) -> int | None:
        """Return a bound of a slice."""
        if value is None:
            return None
        if isinstance(value, SupportsIndex):
            return index(value)
        raise _wrong(self.array, f"has a slice with {_short(value)}", "bounds are whole numbers")

    def counted_from(self, value: int | None, dim: Dim, otherwise: Dim) -> Dim:
        if value is None:
            return otherwise
        return dim + value if value < 0 else Dim.of(value)

    def counted(self, value: int, dim: Dim) -> Dim:
        """Return a number as a place, counted from the end if it is negative."""
        place = self.counted_from(value, dim, ZERO)
        self.require(place, place + 1, dim)
        return place

    def inside(self, numbers: NDArray[np.int64], dim: Dim) -> None:
        """Ask that all numbers of a list lie in the axis."""
        least, most = int(numbers.min()), int(numbers.max())
        if least < 0:
            self.require(dim + least, dim + min(most, -1) + 1, dim)
        if most >= 0:
            self.require(Dim.of(max(least, 0)), Dim.of(most + 1), dim)

    def require(self, low: Dim, high: Dim, dim: Dim) -> None:
        """Refuse places outside an axis, at the call if symbols cannot tell."""
        verdicts = (at_least(low), at_least(dim - high))
        if "no" in verdicts:
            where = f"reaches from {low} to {high - 1}" if high != low else f"begins at {low}"
            hint = "bounds are not clipped: stay inside the axis"
            raise _wrong(self.array, f"{where} of an axis of length {dim}", hint)
        if "open" in verdicts:
            self.checks.append(
                Check(low, high, dim, f"the part {self.array.name}[{self.text}] of wrt")
            )

    def same(self, size: int, axis: int) -> None:
        """Ask that a mask is as long as its axis."""
        dim = self.array.axes[axis]
        if dim.constant == size:
            return
        if dim.constant is not None:
            hint = f"give a mask of shape ({', '.join(map(str, self.array.axes))})"
            raise _wrong(self.array, f"is a mask of {size} for an axis of length {dim}", hint)
        message = f"the mask of {self.array.name} in wrt is for {size} places along axis {axis}"
        self.checks.append(Check(ZERO, dim, Dim.of(size), message, exact=True))


def _from_start(number: int, dim: Dim) -> int:
    """Return a place counted from the start of an axis, as it is where its length is open."""
    return number if dim.constant is None else number % dim.constant


def _text(item: Item) -> str:
    """Return an item as it is written, long ones in short."""
    if isinstance(item, slice):
        bounds = ["" if b is None else str(b) for b in (item.start, item.stop)]
        return ":".join((*bounds, str(item.step)) if item.step is not None else bounds)
    if isinstance(item, int):
        return str(item)
    if item.dtype.kind == "b":
        return "mask"
    shown = [str(n) for n in item[:SHOWN]] + ["..."] * (len(item) > SHOWN)
    return f"[{', '.join(shown)}]"


def _plain(item: Item) -> Plain:
    """Return an item as a value that a module can hold."""
    if isinstance(item, slice):
        return _text(item)
    return item if isinstance(item, int) else packed(item)


__all__ = ["region", "subscript"]
