"""Products and sums of factors that are exactly zero where a delta or a guard is.

value, support -> value, support
What is masked never meets what it masks, so that nan and inf outside a guard do no harm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.program import Index
from symgrad.proof.rows import Values


@dataclass(frozen=True, slots=True)
class Part:
    """A factor, or a product of some: its value where `support`, exactly zero elsewhere."""

    value: Values
    support: Values
    indices: frozenset[Index]

    def times(self, other: Part) -> Part:
        """Return the product, exactly zero where either is."""
        support = self.support & other.support
        zero = np.zeros((), self.value.dtype)
        value = np.where(support, self.value * other.value, zero)
        return Part(value, support, self.indices | other.indices)

    def summed(self, index: Index, axis: int) -> Part:
        """Return the sum over an index, whose axis is kept with length 1."""
        value = np.add.reduce(self.value, axis=axis, keepdims=True)
        support = np.any(self.support, axis=axis, keepdims=True)
        return Part(value, support, self.indices - {index})


def touched(parts: list[Part], index: Index) -> frozenset[Index]:
    """Return the indices of all parts that hold an index."""
    empty: frozenset[Index] = frozenset()
    return empty.union(*(part.indices for part in parts if index in part.indices))


def product(parts: list[Part]) -> Part:
    """Return the product of all parts."""
    total = parts[0]
    for part in parts[1:]:
        total = total.times(part)
    return total


def contracted(parts: list[Part], index: Index, layout: tuple[Index, ...]) -> Part:
    """Return the sum over an index; two unmasked float factors never meet in one large array."""
    plain = all(part.support.size == 1 and part.support.all() for part in parts)
    if len(parts) != 2 or not plain or parts[0].value.dtype == object:
        return product(parts).summed(index, layout.index(index))
    kept = [place for place, i in enumerate(layout) if i != index and i in touched(parts, index)]
    operands: list[Any] = []
    for part in parts:
        own = [place for place, i in enumerate(layout) if i in part.indices]
        alone = tuple(slice(None) if place in own else 0 for place in range(len(layout)))
        operands += [part.value[alone], own]
    value = np.einsum(*operands, kept, optimize=True)
    shape = [1] * len(layout)
    for place, size in zip(kept, value.shape, strict=True):
        shape[place] = size
    return Part(value.reshape(shape), parts[0].support, touched(parts, index) - {index})
