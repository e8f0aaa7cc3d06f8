"""What a contraction is made of: axes of known length, arrays over them, deltas between places.

Structured Jacobian, vectors -> Product
An axis is itself, whatever its name: the two sides of `J Jᵀ` have axes of their own, and an axis
that both have is one they share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """An index with its length; two axes are equal only if they are the same.

    `samples` says that it runs along the batch. Of an array of which a part is selected, `part`
    are the axes of the part.
    """

    name: str
    size: int
    samples: bool = False
    part: tuple[Axis, ...] = ()


@dataclass(frozen=True, slots=True)
class Tensor:
    """An array and its axes."""

    array: Values
    axes: tuple[Axis, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A position: the number whose digits are `axes`, or what the integers `values` say at them."""

    axes: tuple[Axis, ...]
    values: Values | None = None

    @staticmethod
    def of(*axes: Axis) -> Place:
        """Return the position along one axis, or the number that the axes are digits of."""
        return Place(axes)

    @property
    def bare(self) -> Axis | None:
        """The axis that this position is, or None."""
        return self.axes[0] if self.values is None and len(self.axes) == 1 else None

    @property
    def written_out(self) -> Tensor:
        """The position as integers."""
        if self.values is not None:
            return Tensor(self.values, self.axes)
        shape = lengths(self.axes)
        return Tensor(np.arange(prod(shape)).reshape(shape), self.axes)


@dataclass(frozen=True, slots=True, eq=False)
class Tie:
    """A Kronecker delta of two positions."""

    left: Place
    right: Place


@dataclass(frozen=True, slots=True)
class Product:
    """Arrays times deltas."""

    tensors: tuple[Tensor, ...] = ()
    ties: tuple[Tie, ...] = ()

    def __mul__(self, other: Product) -> Product:
        return Product((*self.tensors, *other.tensors), (*self.ties, *other.ties))

    @property
    def conjugate(self) -> Product:
        """The complex conjugate; the product itself where it is real."""
        tensors = tuple(
            Tensor(t.array.conj(), t.axes) if t.array.dtype.kind == "c" else t for t in self.tensors
        )
        return Product(tensors, self.ties)


def lengths(axes: Iterable[Axis]) -> tuple[int, ...]:
    """Return the shape of an array with these axes."""
    return tuple(a.size for a in axes)


def union(*groups: Iterable[Axis]) -> tuple[Axis, ...]:
    """Return all axes of all groups, each once, in order of first appearance."""
    return tuple(dict.fromkeys(a for group in groups for a in group))


def aligned(tensor: Tensor, axes: Sequence[Axis]) -> Values:
    """Return the array with `axes` in this order, of length 1 where it has none of its own."""
    order = sorted(range(len(tensor.axes)), key=lambda n: axes.index(tensor.axes[n]))
    shape = [a.size if a in tensor.axes else 1 for a in axes]
    return tensor.array.transpose(order).reshape(shape)


def spread(tensor: Tensor, axes: Sequence[Axis]) -> Values:
    """Return the array with `axes` in this order, repeated along those it has not."""
    return np.broadcast_to(aligned(tensor, axes), lengths(axes))


def diagonal(tensor: Tensor) -> Tensor:
    """Return the entries where axes that occur twice agree; a view."""
    every = union(tensor.axes)
    if len(every) == len(tensor.axes):
        return tensor
    codes = [every.index(a) for a in tensor.axes]
    return Tensor(np.einsum(tensor.array, codes, list(range(len(every)))), every)


__all__ = [
    "Axis",
    "Place",
    "Product",
    "Tensor",
    "Tie",
    "aligned",
    "diagonal",
    "lengths",
    "spread",
    "union",
]
