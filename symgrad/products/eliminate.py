"""Deltas are no arrays: each renames, splits or reads an axis, so that zeros cost nothing.

Product, result places -> Reduced
`Σ_p δ(p, e) f(p) = f(e)`: wherever an axis stands alone on one side of a delta, the other side
takes its place, in arrays, in other deltas and in the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from symgrad.products.terms import (
    Axis,
    Place,
    Product,
    Tensor,
    Tie,
    aligned,
    diagonal,
    lengths,
    union,
)


@dataclass(frozen=True, slots=True)
class Reduced:
    """Arrays alone: their product, summed over all `axes` that no place of `result` has."""

    tensors: tuple[Tensor, ...]
    result: tuple[Place, ...]
    axes: tuple[Axis, ...]

    @property
    def kept(self) -> tuple[Axis, ...]:
        """The axes that are not summed over."""
        return union(*(p.axes for p in self.result))


def eliminate(
    product: Product, result: Sequence[Axis], axes: Sequence[Axis], dtype: Any
) -> Reduced:
    """Return the product without deltas; `axes` are all there are, those of the result too."""
    tied = [place.axes for tie in product.ties for place in (tie.left, tie.right)]
    state = Reduced(
        product.tensors,
        tuple(Place.of(a) for a in result),
        union(axes, result, *(t.axes for t in product.tensors), *tied),
    )
    waiting = list(product.ties)
    while waiting:
        tie = min(waiting, key=_difficulty)
        waiting.remove(tie)
        axis, place = _solved(tie)
        if axis is None:
            state = _with(state, _equal(tie, dtype))
            continue
        place, inside = _within(axis, place, dtype)
        waiting = [Tie(_moved(t.left, axis, place), _moved(t.right, axis, place)) for t in waiting]
        tensors = tuple(_read(t, axis, place) for t in state.tensors)
        places = tuple(_moved(p, axis, place) for p in state.result)
        rest = tuple(a for a in state.axes if a is not axis)
        state = Reduced((*tensors, *inside), places, union(rest, place.axes))
    return state


def _difficulty(tie: Tie) -> int:
    """Return 0 for a mere renaming, 1 for digits, 2 for data, 3 for what stays an array."""
    axis, place = _solved(tie)
    if axis is None:
        return 3
    return 2 if place.values is not None else len(place.axes) > 1


def _solved(tie: Tie) -> tuple[Axis | None, Place]:
    """Return an axis and the place that a delta puts it at; None where neither side is one."""
    left, right = tie.left.bare, tie.right.bare
    if left is not None and right is not None:
        small, large = (left, right) if left.size <= right.size else (right, left)
        if small.size == large.size:
            return right, tie.left
        return large, Place((small,), np.arange(small.size))
    for axis, place in ((left, tie.right), (right, tie.left)):
        if axis is not None and axis not in place.axes:
            if place.values is None and prod(lengths(place.axes)) != axis.size:
                return axis, Place(place.axes, place.written_out.array)
            return axis, place
    return None, tie.left


def _within(axis: Axis, place: Place, dtype: Any) -> tuple[Place, tuple[Tensor, ...]]:
    """Return the place with no position outside the axis, and zeros where there were any."""
    values = place.values
    if values is None:
        return place, ()
    inside = (values >= 0) & (values < axis.size)
    if inside.all():
        return place, ()
    mask = Tensor(inside.astype(dtype), place.axes)
    return Place(place.axes, np.where(inside, values, 0)), (mask,)


def _equal(tie: Tie, dtype: Any) -> Tensor | None:
    """Return a delta as zeros and ones; None for one that always holds."""
    if tie.left.bare is not None and tie.left.bare is tie.right.bare:
        return None
    left, right = tie.left.written_out, tie.right.written_out
    axes = union(left.axes, right.axes)
    return Tensor((aligned(left, axes) == aligned(right, axes)).astype(dtype), axes)


def _with(state: Reduced, tensor: Tensor | None) -> Reduced:
    if tensor is None:
        return state
    return Reduced((*state.tensors, tensor), state.result, state.axes)


def _moved(place: Place, axis: Axis, to: Place) -> Place:
    """Return a place with an axis replaced."""
    if axis not in place.axes:
        return place
    if place.bare is axis:
        return to
    if place.values is None and to.values is None:
        own = [n for a in place.axes for n in (to.axes if a is axis else (a,))]
        if len(set(own)) == len(own):
            return Place(tuple(own))
    found = _read(place.written_out, axis, to)
    return Place(found.axes, found.array)


def _read(tensor: Tensor, axis: Axis, at: Place) -> Tensor:
    """Return an array read at a place along one of its axes."""
    if axis not in tensor.axes:
        return tensor
    number = tensor.axes.index(axis)
    before, after = tensor.axes[:number], tensor.axes[number + 1 :]
    axes = (*before, *at.axes, *after)
    if at.values is None:
        return diagonal(Tensor(tensor.array.reshape(lengths(axes)), axes))
    if len(set(axes)) == len(axes):
        return Tensor(np.take(tensor.array, at.values, axis=number), axes)
    every = union(axes)
    grid = [
        aligned(Place.of(a).written_out if a is not axis else at.written_out, every)
        for a in tensor.axes
    ]
    return Tensor(tensor.array[tuple(grid)], every)


__all__ = ["Reduced", "eliminate"]
