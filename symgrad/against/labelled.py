"""Arrays of a tool whose axes carry indices, and how they are multiplied and summed.

value, indices -> Labelled
Axes are kept only where there is something along them, so that products broadcast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from string import ascii_letters
from typing import Any

import numpy as np

from symgrad.against.tool import Array, Tool
from symgrad.program import Index

Axes = tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Labelled:
    """An array of a tool, or a plain number without axes; `static`: numpy's integers or masks."""

    value: Any
    axes: Axes = ()
    static: bool = False

    @property
    def plain(self) -> bool:
        """Whether it is a number, not an array."""
        return isinstance(self.value, (int, float))


@dataclass(slots=True)
class Algebra:
    """Products and sums of labelled arrays with one tool; `size` is the length of an index."""

    tool: Tool
    size: Callable[[Index], int]
    paths: dict[Any, Any] = field(default_factory=dict)

    def ordered(self, one: Labelled, layout: Sequence[Index]) -> Labelled:
        """Return an array with its axes in the order of a layout."""
        axes = tuple(i for i in layout if i in one.axes)
        if axes == one.axes:
            return one
        turned = tuple(one.axes.index(i) for i in axes)
        has = np if one.static else self.tool.has
        return Labelled(has.transpose(one.value, turned), axes, one.static)

    def aligned(self, one: Labelled, layout: Sequence[Index]) -> Array:
        """Return the array over a whole layout: axes of length 1 where it has none."""
        if one.plain:
            return one.value
        one = self.ordered(one, layout)
        if one.axes == tuple(layout) or not one.axes:
            return one.value
        return one.value[tuple(slice(None) if i in one.axes else None for i in layout)]

    def together(
        self, parts: Sequence[Labelled], layout: Sequence[Index]
    ) -> tuple[Axes, list[Any]]:
        """Return the axes that any part has, in the order of a layout, and all parts over them."""
        axes = tuple(i for i in layout if any(i in part.axes for part in parts))
        return axes, [self.aligned(part, axes) for part in parts]

    def product(self, parts: Sequence[Labelled], layout: Sequence[Index]) -> Labelled:
        """Return the product of parts, element by element."""
        axes, values = self.together(parts, layout)
        total = values[0]
        for value in values[1:]:
            total = total * value
        return Labelled(total, axes)

    def spread(self, one: Labelled, layout: Axes) -> Array:
        """Return an array over all of a layout, repeated where it has no axis."""
        shape = tuple(self.size(i) for i in layout)
        value = self.tool.constant(float(one.value)) if one.plain else self.aligned(one, layout)
        return value if one.axes == layout else self.tool.has.broadcast_to(value, shape)

    def contracted(self, parts: list[Labelled], bound: Sequence[Index], layout: Axes) -> Labelled:
        """Return the sum over bound indices of a product."""
        beside = [part for part in parts if not part.axes]
        parts = [part for part in parts if part.axes]
        lost = [i for i in bound if not any(i in part.axes for part in parts)]
        beside += [Labelled(float(self.size(i))) for i in lost]
        summed = [i for i in bound if any(i in part.axes for part in parts)]
        if not parts:
            return self.product(beside or [Labelled(1.0)], ())
        if not summed:
            found = self.product(parts, layout)
        elif len(parts) == 1:
            places = tuple(parts[0].axes.index(i) for i in summed)
            kept = tuple(i for i in parts[0].axes if i not in summed)
            found = Labelled(self.tool.has.sum(parts[0].value, places), kept)
        elif len(parts) == 2 and self.tool.name == "numpy":
            found = self.multiplied(parts[0], parts[1], summed, layout)
        else:
            found = self.einsum(parts, summed, layout)
        return self.product([found, *beside], layout) if beside else found

    def einsum(self, parts: list[Labelled], summed: Sequence[Index], layout: Axes) -> Labelled:
        """Return a sum of products by the tool's einsum."""
        kept = tuple(i for i in layout if any(i in part.axes for part in parts))
        letters = dict(zip((*kept, *summed), ascii_letters, strict=False))
        words = ["".join(letters[i] for i in axes) for axes in (*(p.axes for p in parts), kept)]
        spec = f"{','.join(words[:-1])}->{words[-1]}"
        values = [part.value for part in parts]
        if self.tool.name != "numpy":
            return Labelled(self.tool.has.einsum(spec, *values), kept)
        key = (spec, *(v.shape for v in values))
        if key not in self.paths:
            shapes = [np.broadcast_to(0.0, v.shape) for v in values]
            self.paths[key] = np.einsum_path(spec, *shapes, optimize="optimal")[0]
        return Labelled(self.tool.has.einsum(spec, *values, self.paths[key]), kept)

    def multiplied(
        self, left: Labelled, right: Labelled, summed: Sequence[Index], layout: Axes
    ) -> Labelled:
        """Return a sum of products of two arrays as numpy's product of (stacks of) matrices."""
        alone = [
            [i for i in summed if i in a.axes and i not in b.axes]
            for a, b in ((left, right), (right, left))
        ]
        left, right = (
            self.contracted([a], gone, a.axes) if gone else a
            for a, gone in zip((left, right), alone, strict=True)
        )
        inner = [i for i in summed if i in left.axes and i in right.axes]
        stack = [i for i in layout if i in left.axes and i in right.axes]
        rows = [i for i in layout if i in left.axes and i not in stack]
        columns = [i for i in layout if i in right.axes and i not in stack]
        if not inner:
            return self.product([left, right], layout)
        lengths = [tuple(self.size(i) for i in group) for group in (stack, rows, columns, inner)]
        a = self.ordered(left, (*stack, *rows, *inner)).value
        b = self.ordered(right, (*stack, *inner, *columns)).value
        reshape = self.reshaped
        a = reshape(a, (*lengths[0], prod(lengths[1]), prod(lengths[3])))
        b = reshape(b, (*lengths[0], prod(lengths[3]), prod(lengths[2])))
        found = reshape(a @ b, (*lengths[0], *lengths[1], *lengths[2]))
        return self.ordered(Labelled(found, (*stack, *rows, *columns)), layout)

    def reshaped(self, array: Array, shape: tuple[int, ...]) -> Array:
        """Return an array in a shape, the same one if it has it."""
        return array if tuple(array.shape) == shape else self.tool.has.reshape(array, shape)


__all__ = ["Algebra", "Axes", "Labelled"]
