"""One evaluation of definitions: the arrays computed so far, each axis an index of its own.

Definition, ... -> {name: array}
A recurrence is run step by step; everything else is computed over all of its range at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import mpmath
import numpy as np

from symgrad.dims import Dim
from symgrad.errors import InternalError, ShapeError
from symgrad.program import (
    Access,
    Affine,
    Apply,
    Constant,
    Definition,
    Delta,
    Guard,
    Index,
    Lookup,
    Number,
    Place,
    Position,
    Primitive,
    Reduce,
    Rowwise,
    Scalar,
    Size,
    Term,
    blocks,
    indices_of,
)
from symgrad.proof.exact import exact
from symgrad.proof.matrices import of_matrices
from symgrad.proof.numeric import numeric
from symgrad.proof.parts import Part, contracted, product, touched
from symgrad.proof.rows import Values, reduce_rows, softmax_rows

Functions = Mapping[str, Callable[..., Any]]

SLOPE_DIGITS = 30
"""Derivative nodes of a float64 evaluation are computed with so many digits, then rounded."""


@dataclass(slots=True)
class Run:
    """One evaluation: sizes of dims and the arrays computed so far."""

    sizes: dict[str, int]
    values: dict[str, Values]
    precision: int | None
    functions: Functions
    fixed: dict[Index, int] = field(default_factory=dict)

    def run(self, definitions: Sequence[Definition], held: Mapping[str, Values]) -> None:
        """Evaluate definitions in order into `values`."""
        with np.errstate(all="ignore"):
            for unit in blocks(definitions):
                for definition in unit:
                    if definition.name in held:
                        self.values[definition.name] = held[definition.name]
                    elif definition.loop is None:
                        self.values[definition.name] = self.definition(definition)
                if unit[0].loop is not None:
                    self.recurrence([d for d in unit if d.name not in held])

    def recurrence(self, members: Sequence[Definition]) -> None:
        """Evaluate the members of a recurrence step by step."""
        loops = [d.loop for d in members if d.loop is not None]
        if not loops:
            return
        for member in members:
            self.values[member.name] = np.array(
                np.broadcast_to(self.numbers(np.nan), self.shape(member.indices))
            )
        steps = range(self.size(loops[0].index.dim))
        for step in reversed(steps) if loops[0].reverse else steps:
            for member, loop in zip(members, loops, strict=True):
                self.fixed = {loop.index: step}
                rest = tuple(i for i in member.indices if i != loop.index)
                batched = member.indices[0] != loop.index
                at: Any = (slice(None), step) if batched else step
                value = self.definition(replace(member, indices=rest))
                self.values[member.name][at] = value[()]
        self.fixed = {}

    def definition(self, definition: Definition) -> Values:
        """Return the value of a definition over its indices."""
        body = definition.body
        if isinstance(body, Reduce):
            return self.reduce(body, definition.indices)
        if isinstance(body, Rowwise):
            return self.rowwise(body, definition.indices)
        if isinstance(body, Primitive):
            return self.primitive(body, definition.indices)
        return self.terms(body, definition.indices)

    def numbers(self, value: Any) -> Values:
        """Return an array as float64, or exactly as mpf."""
        array = np.asarray(value)
        if self.precision is None:
            return array.astype(np.float64)
        return _lift(lambda z: z if isinstance(z, mpmath.mpf) else mpmath.mpf(float(z)))(array)

    def number(self, value: Any, axes: tuple[Index, ...]) -> Values:
        """Return one number as an array of as many axes, all of length 1."""
        return self.numbers(value).reshape((1,) * len(axes))

    def size(self, dim: Dim) -> int:
        """Return a dim as a whole number; raise ShapeError if no array tells it."""
        try:
            return max(0, dim.evaluate(self.sizes))
        except KeyError as missing:
            raise ShapeError(
                f"no array tells the size of {missing.args[0]}",
                hint="give it by dims={...}",
            ) from None

    def shape(self, axes: tuple[Index, ...]) -> tuple[int, ...]:
        """Return the lengths of axes."""
        return tuple(self.size(index.dim) for index in axes)

    def terms(self, terms: tuple[Term, ...], axes: tuple[Index, ...]) -> Values:
        """Return the sum of terms as an array over exactly `axes`."""
        total = np.broadcast_to(self.number(0, axes), self.shape(axes))
        with np.errstate(all="ignore"):
            for term in terms:
                total = total + self.term(term, axes)
        return np.array(total)

    def term(self, term: Term, axes: tuple[Index, ...]) -> Values:
        """Return one term; sums each bound index as soon as all factors that hold it are met."""
        layout = (*axes, *term.bound)
        parts = [self.part(factor, layout) for factor in term.factors]
        bound = list(term.bound)
        while bound:
            index = min(bound, key=lambda i: len(touched(parts, i)))
            bound.remove(index)
            meeting = [part for part in parts if index in part.indices]
            parts = [part for part in parts if index not in part.indices]
            if meeting:
                parts.append(contracted(meeting, index, layout))
            else:
                parts.append(self.whole(self.size(index.dim), layout))
        value = product([self.whole(1, layout), *parts]).value
        return value.reshape(value.shape[: len(axes)])

    def whole(self, value: int, layout: tuple[Index, ...]) -> Part:
        """Return a number as a part that is nowhere zero by structure."""
        number = self.number(value, layout)
        return Part(number, np.ones(number.shape, bool), frozenset())

    def part(self, factor: Scalar, layout: tuple[Index, ...]) -> Part:
        """Return a factor with the places where it is not zero by structure."""
        indices = frozenset(indices_of(factor)) - self.fixed.keys()
        if isinstance(factor, (Delta, Guard)):
            mask = self.mask(factor, layout)
            return Part(self.numbers(mask), mask, indices)
        if isinstance(factor, Apply) and factor.function == "mul" and not any(factor.order):
            return product([self.part(arg, layout) for arg in factor.args])
        value = self.scalar(factor, layout)
        return Part(value, np.ones((1,) * value.ndim, bool), indices)

    def mask(self, scalar: Delta | Guard, layout: tuple[Index, ...]) -> Values:
        """Return where a delta or a guard holds."""
        if isinstance(scalar, Delta):
            same = self.position(scalar.left, layout) == self.position(scalar.right, layout)
            return np.asarray(same)
        place = self.position(scalar.position, layout)
        return np.asarray((place >= 0) & (place < self.size(scalar.dim)))

    def position(self, position: Position, layout: tuple[Index, ...]) -> Values:
        """Return integers over `layout`; axes it does not depend on have length 1."""
        if isinstance(position, Lookup):
            found, _ = self.gather(position.array, position.at, layout)
            return found.astype(np.int64)
        return self.affine(position, layout)

    def affine(self, affine: Affine, layout: tuple[Index, ...]) -> Values:
        """Return an affine position over `layout`."""
        shape = [1] * len(layout)
        offset = affine.offset.evaluate(self.sizes) if affine.offset.terms else 0
        total = np.full(shape, offset, np.int64)
        for index, coefficient in affine.terms:
            weight = Dim.of(coefficient).evaluate(self.sizes)
            if index in self.fixed:
                total = total + weight * self.fixed[index]
                continue
            if index not in layout:
                raise InternalError(f"index {index} is neither free nor bound")
            axis = layout.index(index)
            along = [1] * len(layout)
            along[axis] = -1
            total = total + weight * np.arange(self.size(index.dim)).reshape(along)
        return total

    def gather(
        self, name: str, at: tuple[Position, ...], layout: tuple[Index, ...]
    ) -> tuple[Values, Values]:
        """Return elements of an array, and where the positions are inside it (clamped if not)."""
        if name not in self.values:
            raise InternalError(f"{name} is read before it is defined")
        array = self.values[name]
        if len(at) != array.ndim:
            raise InternalError(
                f"{name} has {array.ndim} axes and is read with {len(at)} positions"
            )
        if not at:
            return array.reshape((1,) * len(layout)), np.ones((1,) * len(layout), bool)
        places = [self.position(position, layout) for position in at]
        inside = np.ones((1,) * len(layout), bool)
        for place, size in zip(places, array.shape, strict=True):
            inside = inside & (place >= 0) & (place < size)
        if array.size == 0:
            return np.zeros(inside.shape, array.dtype), inside
        clamped = [np.clip(p, 0, size - 1) for p, size in zip(places, array.shape, strict=True)]
        found = array[tuple(clamped)]
        return np.asarray(found, array.dtype), np.asarray(inside)

    def scalar(self, scalar: Scalar, layout: tuple[Index, ...]) -> Values:
        """Return a scalar over `layout`, axes it does not depend on having length 1."""
        match scalar:
            case Number():
                return self.number(scalar.value, layout)
            case Constant():
                pi = np.float64(np.pi) if self.precision is None else +mpmath.mp.pi
                return self.number(pi, layout)
            case Size():
                return self.number(scalar.dim.evaluate(self.sizes), layout)
            case Place():
                return self.numbers(self.affine(scalar.affine, layout))
            case Access():
                found, inside = self.gather(scalar.array, scalar.at, layout)
                found = self.numbers(found) if found.dtype == np.int64 else found
                # outside the array is nan: harmless under a guard, visible without one
                return found if np.all(inside) else np.where(inside, found, self.numbers(np.nan))
            case Apply():
                return self.apply(scalar, layout)
            case _:
                return self.numbers(self.mask(scalar, layout))

    def apply(self, node: Apply, layout: tuple[Index, ...]) -> Values:
        """Return a function's value, or its partial derivative, element by element."""
        if node.function == "mul" and not any(node.order):
            return self.part(node, layout).value
        args = [self.scalar(arg, layout) for arg in node.args]
        kernel = None
        if self.precision is None and not any(node.order):
            kernel = self.functions.get(node.function) or numeric(node.function)
        if kernel is not None:
            return np.asarray(kernel(*args), dtype=np.float64)
        function = _lift(exact(node.function, node.order, self.functions))
        if self.precision is not None:
            return function(*args)
        with mpmath.workdps(SLOPE_DIGITS):
            exactly = [_lift(lambda z: mpmath.mpf(float(z)))(arg) for arg in args]
            return function(*exactly).astype(np.float64)

    def reduce(self, body: Reduce, axes: tuple[Index, ...]) -> Values:
        """Return a reduction over all bound axes at once, in C order."""
        full = self.full(body.body, (*axes, *body.bound))
        kept = full.shape[: len(axes)]
        length = int(np.prod(full.shape[len(axes) :], dtype=np.int64))
        return reduce_rows(body.kind, full.reshape((*kept, length)))

    def full(self, scalar: Scalar, layout: tuple[Index, ...]) -> Values:
        """Return a scalar over all of `layout`."""
        with np.errstate(all="ignore"):
            return np.broadcast_to(self.scalar(scalar, layout), self.shape(layout))

    def rowwise(self, body: Rowwise, axes: tuple[Index, ...]) -> Values:
        """Return softmax or log_softmax: the bound axes stand where the positions read stand."""
        reads = dict(zip(body.at, body.bound, strict=True))
        layout = tuple(reads.get(index, index) for index in axes)
        full = self.full(body.body, layout)
        along = tuple(layout.index(index) for index in body.bound)
        last = tuple(range(-len(along), 0))
        moved = np.moveaxis(full, along, last)
        kept = moved.shape[: moved.ndim - len(along)]
        length = int(np.prod(moved.shape[len(kept) :], dtype=np.int64))
        result = softmax_rows(body.kind, moved.reshape((*kept, length)))
        return np.moveaxis(result.reshape(moved.shape), last, along)

    def primitive(self, body: Primitive, axes: tuple[Index, ...]) -> Values:
        """Return a function of whole matrices, one for each place of the other axes."""
        stack = axes[: len(axes) - len(body.at)]
        pairs = zip(body.operands, body.axes, strict=True)
        operands = tuple(self.full(operand, (*stack, *own)) for operand, own in pairs)
        return of_matrices(body.kind, operands, len(body.at))


def _lift(function: Callable[..., Any]) -> Callable[..., Values]:
    """Apply a function of mpf to object arrays element by element, scalars included."""

    def lifted(*args: Values) -> Values:
        spread = np.broadcast_arrays(*args)
        result = np.empty(spread[0].shape, dtype=object)
        for place in np.ndindex(*result.shape):
            result[place] = function(*(arg[place] for arg in spread))
        return result

    return lifted
