"""A Jacobian as it stands in a form: its terms over axes of the form's choosing.

Structured, Pass, rows of the batch -> Factored -> Side
Two sides of one form share the axes that the form ties together and have all others to
themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Protocol

import numpy as np

from symgrad.algebra.radix import digits, in_order
from symgrad.batch import inward, outward
from symgrad.form import FactoredTerm, Structured
from symgrad.products.contract import summed
from symgrad.products.planned import Plans
from symgrad.products.rows import Rows
from symgrad.products.terms import Axis, Place, Product, Tensor, Tie, Values, aligned, union
from symgrad.products.traced import as_array
from symgrad.program import BATCH, Affine, Definition, Index, Position
from symgrad.scatter import Placing


class Evaluated(Protocol):
    """What one forward pass left: sizes, all arrays by name, and the module that made them."""

    @property
    def module(self) -> Any:
        """The generated module."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Lengths of dims."""

    @property
    def values(self) -> Mapping[str, Any]:
        """Arrays."""

    @property
    def dtype(self) -> Any:
        """The dtype of all arrays."""

    @property
    def single(self) -> bool:
        """Whether one sample was given, without batch axis."""


@dataclass(frozen=True, slots=True)
class Side:
    """The terms of a Jacobian and its axes; `batch` is None where there is no batch axis."""

    products: tuple[Product, ...]
    batch: Axis | None
    out: tuple[Axis, ...]
    theta: tuple[Axis, ...]

    @property
    def samples(self) -> tuple[Axis, ...]:
        """The batch axis, if there is one."""
        return () if self.batch is None else (self.batch,)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All axes of the dense array."""
        return (*self.samples, *self.out, *self.theta)


@dataclass(frozen=True, slots=True)
class Factored:
    """A Jacobian that forms take products with: its terms and the pass that evaluated them.

    `layer` is the layer's name; `placing` tells which part of the array it is about (the first
    array of a second derivative); `batch_axis` is where callers have the batch axis in their
    arrays; `definitions` are those of the arrays that terms read, `plans` those made before.
    """

    layer: str
    structured: Structured
    done: Evaluated
    batched: bool
    is_input: bool
    placing: Placing
    batch_axis: int = 0
    definitions: Mapping[str, Definition] = field(default_factory=dict, repr=False)
    plans: Plans = field(default_factory=Plans, repr=False, compare=False)

    @property
    def count(self) -> int:
        """The number of samples; 1 where there is no batch axis."""
        return self.done.sizes["#B"] if self.batched else 1

    @property
    def single(self) -> bool:
        """Whether results have no batch axis although samples do: one was given without."""
        return self.batched and self.done.single

    @property
    def dtype(self) -> Any:
        """The dtype of all arrays."""
        return self.done.dtype

    @property
    def out(self) -> tuple[int, ...]:
        """The lengths of the output's own axes."""
        return tuple(i.dim.evaluate(self.done.sizes) for i in self.structured.jacobian.out)

    @property
    def theta(self) -> tuple[int, ...]:
        """The lengths of the parameter's own axes."""
        return tuple(i.dim.evaluate(self.done.sizes) for i in self.structured.jacobian.axes)

    def widened(self) -> Factored:
        """Return the same in double precision."""
        dtype = np.result_type(self.dtype, np.float64)
        if dtype == self.dtype:
            return self
        done: Any = self.done
        arrays = {n: a.astype(dtype) if a.dtype.kind in "fc" else a for n, a in done.values.items()}
        return replace(self, done=replace(done, values=arrays, dtype=dtype))

    @property
    def title(self) -> str:
        """`dy/dW`."""
        return self.structured.title

    def swapped(self, array: Values, rows: int, samples: Sequence[int] = ()) -> Values:
        """Return the conjugate transpose of matrices with `rows` axes of rows.

        `samples` are the batch axes ahead of those, which the array has where callers see them.
        """
        first, ahead = inward(array, samples, self.batch_axis), len(samples)
        axes = (*range(ahead), *range(ahead + rows, array.ndim), *range(ahead, ahead + rows))
        turned = np.array(first.conj().transpose(axes), order="C")
        return outward(turned, samples, self.batch_axis)

    def side(
        self,
        rows: Rows,
        *,
        batch: Axis | None = None,
        out: Sequence[Axis] | None = None,
        theta: Sequence[Axis] | None = None,
    ) -> Side:
        """Return the Jacobian of some samples over given axes, new ones where none are given.

        Its terms are added up where that costs nothing.
        """
        found, _ = self.read(rows, batch=batch, out=out, theta=theta)
        return _merged(found, self.done.dtype) if _gains(found) else found

    def read(
        self,
        rows: Rows,
        *,
        batch: Axis | None = None,
        out: Sequence[Axis] | None = None,
        theta: Sequence[Axis] | None = None,
    ) -> tuple[Side, Reader]:
        """Return the same, term by term with all deltas, and what reads indices as its axes."""
        jacobian, done = self.structured.jacobian, self.done
        if not self.batched:
            batch = None
        elif batch is None:
            batch = rows.axis
        out = tuple(out) if out is not None else _new(jacobian.out, done)
        theta = tuple(theta) if theta is not None else self.axes()
        named = dict(zip((*jacobian.out, *jacobian.axes), (*out, *theta), strict=True))
        if jacobian.whole:
            inside = (i for i in jacobian.theta if i.partial)
            named.update(zip(inside, theta[0].part, strict=True))
        reader = Reader(done, rows, batch, named)
        terms = self.structured.terms
        terms = tuple(replace(t, deltas=(*jacobian.filling, *t.deltas)) for t in terms)
        products = tuple(reader.product(term) for term in terms)
        return Side(products, batch, out, theta), reader


    def axes(self) -> tuple[Axis, ...]:
        """Return new axes of the parameter; those of a part go along where zeros are filled in."""
        jacobian = self.structured.jacobian
        if not jacobian.whole:
            return _new(jacobian.theta, self.done)
        part = _new([i for i in jacobian.theta if i.partial], self.done)
        return tuple(
            Axis(i.name, i.dim.evaluate(self.done.sizes), part=part) for i in jacobian.whole
        )


def _new(indices: Sequence[Index], done: Evaluated) -> tuple[Axis, ...]:
    return tuple(Axis(i.name, i.dim.evaluate(done.sizes)) for i in indices)


def _gains(found: Side) -> bool:
    """Whether the sum of all terms is no larger than one of their factors.

    Then it costs nothing to add them up first, and what cancels does so before it is squared.
    """
    if len(found.products) < 2:
        return False
    whole = prod(a.size for a in found.axes)
    return any(t.array.size >= whole for p in found.products for t in p.tensors)


def _merged(found: Side, dtype: Any) -> Side:
    """Return the Jacobian with all terms as one array."""
    total = summed(found.products, found.axes, dtype)
    whole = Product((Tensor(total, found.axes),))
    return Side((whole,), found.batch, found.out, found.theta)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads a term with its own axes, for some rows of the batch."""

    done: Evaluated
    rows: Rows
    batch: Axis | None
    named: dict[Index, Axis]

    def again(self) -> Reader:
        """Return a reader of something else in the same pass."""
        return Reader(self.done, self.rows, self.batch, {})

    def product(self, term: FactoredTerm) -> Product:
        """Return one term; factors of ones are left out."""
        tensors = []
        for factor in term.factors:
            if factor.array is None:
                continue
            array = as_array(self.done.values[factor.array])
            for number, index in enumerate(factor.own):
                if index.dim == BATCH:
                    array = self.rows.of(array, number)
            tensors.append(Tensor(array, tuple(self.axis(i) for i in factor.own)))
        ties = tuple(Tie(self.place(d.left), self.place(d.right)) for d in term.deltas)
        return Product(tuple(tensors), ties)

    def axis(self, index: Index) -> Axis:
        """Return the axis that an index runs along."""
        if index.dim == BATCH:
            assert self.batch is not None
            return self.batch
        if index not in self.named:
            self.named[index] = Axis(index.name, index.dim.evaluate(self.done.sizes))
        return self.named[index]

    def place(self, position: Position) -> Place:
        """Return a position: digits stay digits, everything else becomes integers."""
        if isinstance(position, Affine):
            if position.bare is not None and position.bare.dim != BATCH:
                return Place.of(self.axis(position.bare))
            if len(position.terms) > 1 and digits(position) is not None:
                return Place.of(*(self.axis(i) for i in in_order(position)))
        found = self.integers(position)
        return Place(found.axes, found.array)

    def integers(self, position: Position) -> Tensor:
        """Return the values of a position."""
        if not isinstance(position, Affine):
            parts = [self.integers(p) for p in position.at]
            axes = union(*(p.axes for p in parts))
            array = np.asarray(self.done.values[position.array])
            # beside the array other factors are zero
            inside = (
                np.clip(aligned(p, axes), 0, size - 1)
                for p, size in zip(parts, array.shape, strict=True)
            )
            return Tensor(array[tuple(inside)], axes)
        axes = tuple(self.axis(i) for i, _ in position.terms)
        values = np.full((1,) * len(axes), self.size(position.offset))
        for axis, (index, coefficient) in zip(axes, position.terms, strict=True):
            first = self.rows.start if index.dim == BATCH else 0
            steps = Tensor(np.arange(first, first + axis.size), (axis,))
            values = values + self.size(coefficient) * aligned(steps, axes)
        return Tensor(values, axes)

    def size(self, dim: Any) -> int:
        """Return the value of a size or a number."""
        return int(dim) if isinstance(dim, int) else int(dim.evaluate(self.done.sizes))


__all__ = ["Evaluated", "Factored", "Reader", "Rows", "Side"]
