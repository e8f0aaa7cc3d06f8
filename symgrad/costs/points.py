"""How often the inside of loops is reached that is guarded: points of a box that obey conditions.

indices, conditions -> polynomial of sizes | number
Symbols are exact for axes that have an element at least; numbers always. What data decides, and
what no symbols decide, is counted as if it always held, and said to be a bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from symgrad.bounds import at_least, extremes
from symgrad.costs.places import tables_of, tried
from symgrad.dims import ONE, Coefficient, Dim
from symgrad.program import (
    Affine,
    Delta,
    Guard,
    Index,
    Lookup,
    Scalar,
    Table,
    affine_of,
    indices_of,
)

LARGEST = 2**22
"""Points that are looked at one by one; of a larger box all are counted, as a bound."""


@dataclass(frozen=True, slots=True)
class Region:
    """The points of the box of `indices` where all `conditions` hold; they tie the indices.

    All that they look up is in `tables`, or some of it is data if there are none.
    """

    indices: tuple[Index, ...]
    conditions: tuple[Scalar, ...]
    tables: tuple[Table, ...] = ()

    def symbols(self) -> tuple[Dim, bool]:
        """Return twice the number of points, or of those of the box, and whether it is exact.

        Twice, since triangles are halves: n (n + 1)/2.
        """
        lengths = [i.dim.constant for i in self.indices]
        settled = all(min(t.values) >= 0 for t in self.tables) and None not in lengths
        if self.tables and settled and self._small([n or 0 for n in lengths]):
            return Dim.of(2 * tried(self.indices, self.conditions, self.tables, {})), True
        left, sure = _without_data(self)
        found = _counted(left.indices, left.conditions)
        return (2 * _box(left.indices), False) if found is None else (found, sure)

    def number(self, sizes: Mapping[str, int]) -> tuple[int, bool]:
        """Return the number of points for given sizes, or a bound, and whether it is exact."""
        if self.tables and self._small([i.dim.evaluate(sizes) for i in self.indices]):
            return tried(self.indices, self.conditions, self.tables, sizes), True
        left, sure = _without_data(self)
        found, exact = _looked_at(left, [i.dim.evaluate(sizes) for i in left.indices], sizes)
        return found, exact and sure

    def _small(self, lengths: Sequence[int]) -> bool:
        return prod(lengths) <= LARGEST


def regions(
    indices: Sequence[Index], conditions: Sequence[Scalar], tables: Sequence[Table] = ()
) -> tuple[Dim, tuple[Region, ...]]:
    """Return how often a loop nest runs its inside: a factor, and regions that multiply it.

    Each region has the indices that conditions tie to one another. `tables` hold the places of
    parts; what is looked up elsewhere is data.
    """
    groups: list[tuple[list[Index], list[Scalar]]] = []
    for condition in conditions:
        own = [i for i in indices if i in indices_of(condition)]
        joined = [g for g in groups if set(g[0]) & set(own)]
        rest = [g for g in groups if g not in joined]
        merged = [i for i in indices if i in own or any(i in g[0] for g in joined)]
        groups = [*rest, (merged, [*(c for g in joined for c in g[1]), condition])]
    tied = {i for group, _ in groups for i in group}
    free = _box([i for i in indices if i not in tied])
    return free, tuple(
        Region(tuple(g), tuple(dict.fromkeys(c)), tables_of(c, tables) or ()) for g, c in groups
    )


def _box(indices: Sequence[Index]) -> Dim:
    total = ONE
    for index in indices:
        total = total * index.dim
    return total


def _depends_on_data(condition: Scalar) -> bool:
    ends = (condition.left, condition.right) if isinstance(condition, Delta) else ()
    return any(isinstance(end, Lookup) for end in ends)


def _without_data(region: Region) -> tuple[Region, bool]:
    """Return a region without the deltas of data, and whether it has as many points.

    A delta like `δ(k, t[b])` leaves one k for each b: exactly one, if all of k may be looked up.
    """
    indices, sure = list(region.indices), True
    conditions = [c for c in region.conditions if not _depends_on_data(c)]
    for delta in (c for c in region.conditions if isinstance(c, Delta) and _depends_on_data(c)):
        gone = _chosen(delta, indices)
        sure = sure and gone is not None and _always(delta, gone)
        if gone is not None:
            indices.remove(gone)
    used = {i for c in conditions for i in indices_of(c)}
    dropped = used - set(indices)
    kept = tuple(c for c in conditions if not dropped & set(indices_of(c)))
    return Region(tuple(indices), kept), sure and not dropped


def _chosen(delta: Delta, indices: Sequence[Index]) -> Index | None:
    """Return an index of which data leave one position at most, None if they tell none."""
    for data, place in ((delta.left, delta.right), (delta.right, delta.left)):
        if isinstance(data, Lookup) and isinstance(place, Affine):
            inside = {i for a in affine_of(data) for i, _ in a.terms}
            for index, coefficient in reversed(place.terms):
                if index in indices and index not in inside and isinstance(coefficient, int):
                    return index
    return None


def _always(delta: Delta, index: Index) -> bool:
    """Whether data always choose some position: looked up is what the index runs over."""
    return index in (delta.left.bare, delta.right.bare) and not index.partial


# ---------------------------------------------------------------- in symbols


def _counted(indices: Sequence[Index], conditions: Sequence[Scalar]) -> Dim | None:
    """Return twice the number of points, None where symbols do not decide it."""
    if not conditions:
        return 2 * _box(indices)
    if len(conditions) != 1:
        return None
    (condition,) = conditions
    if isinstance(condition, Guard):
        return _within(indices, condition)
    if not isinstance(condition, Delta) or _depends_on_data(condition):
        return None
    left, right = condition.left, condition.right
    if not isinstance(left, Affine) or not isinstance(right, Affine):
        return None
    difference = left - right
    for index, coefficient in difference.terms:
        if coefficient in (1, -1):
            other = (difference - Affine(((index, coefficient),))) * -int(coefficient)
            rest = [i for i in indices if i != index]
            if not other.terms and not rest:
                return _within((), Guard(other, index.dim))
            return _within(rest, Guard(other, index.dim))
    return None


def _within(indices: Sequence[Index], guard: Guard) -> Dim | None:
    """Return twice the number of points where `0 <= position < dim`."""
    low, high = extremes(guard.position)
    if _holds(low) and _holds(guard.dim - 1 - high):
        return 2 * _box(indices)
    for index, coefficient in guard.position.terms:
        if coefficient in (1, -1):
            found = _along(index, coefficient, [i for i in indices if i != index], guard)
            if found is not None:
                return found
    return None


def _along(
    index: Index, coefficient: Coefficient, others: Sequence[Index], guard: Guard
) -> Dim | None:
    """Return twice the number of points, from the stretch of one index that the others leave."""
    rest = guard.position - Affine(((index, coefficient),))
    if coefficient == 1:
        first, last = -rest, -rest + (guard.dim - 1)
    else:
        first, last = rest - (guard.dim - 1), rest
    end = Affine.of(index.dim - 1)
    if _holds(extremes(-first)[0]):
        first = Affine()
    elif not _holds(extremes(first)[0]):
        return None
    if _holds(extremes(last - end)[0]):
        last = end
    elif not _holds(extremes(end - last)[0]):
        return None
    length = last - first + 1
    lengths = {guard.dim, index.dim, *(i.dim for i in others)}
    known = not length.terms and length.offset in lengths  # no axis is shorter than nothing
    return _summed(length, others) if known or _holds(extremes(length)[0]) else None


def _summed(length: Affine, indices: Sequence[Index]) -> Dim:
    """Return twice the sum of an affine expression over a box."""
    total = 2 * length.offset * _box(indices)
    for index, coefficient in length.terms:
        triangle = index.dim * (index.dim - 1)
        total = total + triangle * coefficient * _box([i for i in indices if i != index])
    return total


def _holds(dim: Dim) -> bool:
    """Whether a size is never negative, if all sizes are one at least."""
    return at_least(dim.substitute({n: Dim.of(n) + 1 for n in dim.names})) == "yes"


# ---------------------------------------------------------------- in numbers


def _looked_at(
    region: Region, lengths: Sequence[int], sizes: Mapping[str, int]
) -> tuple[int, bool]:
    """Return the number of points: one index by the stretch it may run, the others one by one."""
    if not prod(lengths):
        return 0, True
    sides = [side for c in region.conditions for side in _sides(c)]
    free = _longest(region.indices, lengths, sides)
    shape = [1 if n == free else length for n, length in enumerate(lengths)]
    if prod(shape) > LARGEST:
        return prod(lengths), False
    grid = dict(zip(region.indices, np.ogrid[tuple(slice(n) for n in shape)], strict=True))
    low = np.zeros(shape, np.int64)
    high = np.full(shape, 0 if free is None else lengths[free] - 1, np.int64)
    index = None if free is None else region.indices[free]
    for side in sides:  # side >= 0
        value = np.full(shape, side.offset.evaluate(sizes), np.int64)
        slope = 0
        for one, coefficient in side.terms:
            number = coefficient if isinstance(coefficient, int) else coefficient.evaluate(sizes)
            if one == index:
                slope = number
            else:
                value = value + number * grid[one]
        if slope == 1:
            low = np.maximum(low, -value)
        elif slope == -1:
            high = np.minimum(high, value)
        else:
            high = np.where(value >= 0, high, -1)
    return int(np.maximum(high - low + 1, 0).sum()), True


def _longest(
    indices: Sequence[Index], lengths: Sequence[int], sides: Sequence[Affine]
) -> int | None:
    """Return the longest index that stands everywhere with a factor of 1, -1 or none."""
    able = [
        n
        for n, index in enumerate(indices)
        if all(dict(side.terms).get(index, 0) in (0, 1, -1) for side in sides)
    ]
    return max(able, key=lambda n: lengths[n], default=None)


def _sides(condition: Scalar) -> Iterator[Affine]:
    """Yield what a condition says is not negative."""
    match condition:
        case Guard():
            yield condition.position
            yield -condition.position + (condition.dim - 1)
        case Delta(Affine() as left, Affine() as right):
            yield left - right
            yield right - left
        case _:
            raise ValueError(f"{condition} is no condition on indices")


__all__ = ["Region", "regions"]
