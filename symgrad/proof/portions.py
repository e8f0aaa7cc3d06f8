"""Differences with respect to a part of an array: steps are taken along its elements alone.

Program, arrays, Region -> {output: Difference}, directions
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.derivation import Selection
from symgrad.errors import InternalError
from symgrad.program import Array, Program
from symgrad.proof.differences import Difference, differences
from symgrad.proof.interpret import bind
from symgrad.proof.rows import Values
from symgrad.proof.run import Functions
from symgrad.proof.sizes import sizes
from symgrad.region import Region
from symgrad.scatter import scattered, shape_of

LARGE = 512
"""Arrays with more entries are tested along random directions."""
DIRECTIONS = 4


@dataclass(frozen=True, slots=True)
class Portion:
    """The elements of an array that are judged: all, or those of a region.

    `filled` says that results have the shape of the whole, with zeros beside the region.
    """

    program: Program
    array: Array
    arrays: Mapping[str, Any]
    region: Region | None
    filled: bool

    @staticmethod
    def of(
        program: Program, name: str, arrays: Mapping[str, Any], selection: Selection
    ) -> Portion:
        """Return what is selected of an array."""
        array = program.array(name)
        if array is None:
            raise InternalError(f"{name} is no array of {program.name}")
        return Portion(program, array, arrays, selection.region(name), selection.filled)

    def directions(self, rng: np.random.Generator) -> Values | None:
        """Return some directions over its elements if those are too many, else None."""
        if np.prod(self.shape, dtype=np.int64) <= LARGE:
            return None
        return rng.standard_normal((DIRECTIONS, *self.shape))

    @property
    def lengths(self) -> dict[str, int]:
        """The sizes of all dims."""
        bound = bind(self.program, self.arrays)
        return sizes(self.program, {n: a.shape for n, a in bound.items()})

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        own = np.shape(self.arrays[self.array.name])[1 if self.array.batched else 0 :]
        return own if self.region is None else shape_of(self.region, self.lengths)

    def placed(self, rows: Values) -> Values:
        """Return rows over its elements as rows over those of the array."""
        if self.region is None:
            return rows
        return scattered(rows, self.region, self.array, self.lengths)

    def slopes(self, rows: Values | None, functions: Functions | None) -> dict[str, Difference]:
        """Return slopes `[B, *out, *p]`, or along `rows` over its elements."""
        name, own = self.array.name, self.shape
        along = rows
        if self.region is not None and rows is None:
            count = int(np.prod(own, dtype=np.int64))
            along = np.eye(count).reshape(count, *own)
        moved = None if along is None else self.placed(along)
        found = differences(
            self.program, self.arrays, name, directions=moved, functions=functions
        )
        if self.region is None or rows is not None:
            return found
        return {output: self.split(one, own) for output, one in found.items()}

    def split(self, one: Difference, own: tuple[int, ...]) -> Difference:
        """Return slopes along its elements with their axes, or with those of the whole."""
        parts = [v.reshape(*v.shape[:-1], *own) for v in (one.jacobian, one.error, one.kinks)]
        return Difference(*(self.placed(v) for v in parts)) if self.filled else Difference(*parts)


__all__ = ["Portion"]
