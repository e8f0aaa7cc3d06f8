"""Elements of arrays at positions: slices where positions run along an axis, gathers elsewhere.

array, positions -> Labelled
Positions outside an array, which a mask beside them switches off, are moved to its edge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.against.labelled import Axes, Labelled
from symgrad.dims import Dim
from symgrad.program import Affine, Definition, Delta, Guard, Index, Lookup, Position, affine_of

if TYPE_CHECKING:
    from symgrad.against.labelled import Algebra
    from symgrad.against.translate import Translation


class Reading:
    """How an evaluation reads arrays; `fixed` are the indices of the step that is computed."""

    __slots__ = ()

    if TYPE_CHECKING:
        made: Translation
        values: dict[str, Any]
        fixed: dict[Index, int]
        algebra: Algebra
        members: dict[str, Definition]

    def size(self, index: Index) -> int:
        """Return the length of an index."""
        return max(0, index.dim.evaluate(self.made.sizes))

    def mask(self, scalar: Delta | Guard, layout: Axes) -> Labelled:
        """Return where a delta or a guard holds."""
        if isinstance(scalar, Guard):
            place = self.affine(scalar.position, layout)
            limit = scalar.dim.evaluate(self.made.sizes)
            return Labelled((place.value >= 0) & (place.value < limit), place.axes, static=True)
        ends = [self.position(p, layout) for p in (scalar.left, scalar.right)]
        static = all(end.static for end in ends)
        if not static:
            ends = [self.dynamic(end) for end in ends]
        axes = tuple(i for i in layout if any(i in end.axes for end in ends))
        left, right = (self.algebra.aligned(end, axes) for end in ends)
        return Labelled(np.asarray(left == right) if static else left == right, axes, static)

    def dynamic(self, one: Labelled) -> Labelled:
        """Return integers as an array of the tool."""
        return Labelled(self.made.tool.constant(one.value), one.axes) if one.static else one

    def position(self, position: Position, layout: Axes) -> Labelled:
        """Return the integers that a position stands for."""
        if isinstance(position, Lookup):
            return self.read(position.array, position.at, layout)
        return self.affine(position, layout)

    def affine(self, affine: Affine, layout: Axes) -> Labelled:
        """Return the numbers of an affine position: known before any array is."""
        moving, offset = self.moving(affine)
        axes = tuple(i for i in layout if i in moving)
        total = np.full((1,) * len(axes), offset, np.int64)
        for index, coefficient in moving.items():
            along = [1] * len(axes)
            along[axes.index(index)] = -1
            total = total + coefficient * np.arange(self.size(index)).reshape(along)
        return Labelled(total, axes, static=True)

    def moving(self, affine: Affine) -> tuple[dict[Index, int], int]:
        """Return the coefficients of indices that are not fixed, and the rest as a number."""
        offset = affine.offset.evaluate(self.made.sizes) if affine.offset.terms else 0
        moving = {}
        for index, coefficient in affine.terms:
            weight = Dim.of(coefficient).evaluate(self.made.sizes)
            if index in self.fixed:
                offset += weight * self.fixed[index]
            else:
                moving[index] = weight
        return moving, offset

    def read(self, name: str, at: tuple[Position, ...], layout: Axes) -> Labelled:
        """Return elements of an array."""
        array = self.values[name]
        batch = self.made.program.batch
        at = tuple(p for p in at if not (self.made.sample and p.bare == batch))
        if isinstance(array, list):
            array, at = self.unfinished(name, array, at)
        plain, labels, gathered = self.sorted_out(array.shape, at, layout)
        if any(one != slice(None) for one in plain):
            array = array[tuple(plain)]
        if not gathered:
            return Labelled(array, tuple(i for i in labels if i is not None))
        return self.gather(array, labels, gathered, layout)

    def sorted_out(
        self, shape: tuple[int, ...], at: tuple[Position, ...], layout: Axes
    ) -> tuple[list[Any], list[Index | None], list[Labelled]]:
        """Return a number or a slice for each axis, the index along those left, and gathers.

        An axis whose label is None is gathered, by the next of the gathers.
        """
        used = [{i for a in affine_of(p) for i, _ in a.terms} for p in at]
        plain: list[Any] = []
        labels: list[Index | None] = []
        gathered: list[Labelled] = []
        for length, position in zip(shape, at, strict=True):
            if isinstance(position, Affine):
                moving, offset = self.moving(position)
                if not moving:
                    plain.append(min(max(offset, 0), length - 1))
                    continue
                index = next(iter(moving))
                end = offset + self.size(index)
                alone = len(moving) == 1 and sum(index in one for one in used) == 1
                if alone and moving[index] == 1 and offset >= 0 and end <= length:
                    plain.append(slice(None) if end - offset == length else slice(offset, end))
                    labels.append(index)
                    continue
            plain.append(slice(None))
            labels.append(None)
            found = self.position(position, layout)
            if found.static:
                found = Labelled(np.clip(found.value, 0, length - 1), found.axes, static=True)
            gathered.append(found)
        return plain, labels, gathered

    def gather(
        self, array: Any, labels: list[Index | None], gathered: list[Labelled], layout: Axes
    ) -> Labelled:
        """Return what stands at integers along some axes, all of the others."""
        first = [place for place, label in enumerate(labels) if label is None]
        rest = [place for place, label in enumerate(labels) if label is not None]
        if first != list(range(len(first))):
            array = self.made.tool.has.transpose(array, (*first, *rest))
        gather = self.made.tool.has.gather
        axes = tuple(i for i in layout if any(i in one.axes for one in gathered))
        kept = tuple(i for i in labels if i is not None)
        lead = axes or (None,)  # as lists: no number that is data is an index under torch.vmap
        places = []
        for one in gathered:
            place = self.algebra.aligned(self.dynamic(one), axes)
            places.append(place if one.axes else place[(None,) * len(lead)])
        found = gather(array, *places)
        return Labelled(found if axes else found[0], (*axes, *kept))

    def unfinished(
        self, name: str, steps: list[Any], at: tuple[Position, ...]
    ) -> tuple[Any, tuple[Position, ...]]:
        """Return the step of a recurrence that is read, or all that there are, zeros for others."""
        definition = self.members[name]
        axes = self.made.own(definition.indices)
        assert definition.loop is not None
        place = axes.index(definition.loop.index)
        shape = tuple(self.size(i) for i in axes if i != definition.loop.index)
        nothing = self.made.tool.constant(np.zeros(shape))
        position = at[place]
        if isinstance(position, Affine) and not self.moving(position)[0]:
            step = min(max(self.moving(position)[1], 0), len(steps) - 1)
            rest = (*at[:place], *at[place + 1 :])
            return (nothing if steps[step] is None else steps[step]), rest
        whole = [nothing if one is None else one for one in steps]
        return self.made.tool.has.stack(whole, place), at


__all__ = ["Reading"]
