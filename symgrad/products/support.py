"""Where the terms of a Jacobian may have entries: what deltas and guards let be, through all names.

Terms, definitions -> Product of marks
Marks are 1 where an entry may be and 0 where it is zero by structure, in arrays over only those
axes that a delta or a guard reads; what there is nothing to say about has none. A delta stays a
delta until marks are added up, so that positions that are data cost no more than their own number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from symgrad.form import lookups_in
from symgrad.products.contract import contract
from symgrad.products.sides import Reader
from symgrad.products.terms import (
    Axis,
    Product,
    Tensor,
    Tie,
    aligned,
    diagonal,
    lengths,
    union,
)
from symgrad.program import (
    Access,
    Apply,
    Definition,
    Delta,
    Guard,
    Number,
    Position,
    Scalar,
    Term,
    arrays_of,
    reads,
)

THROUGH_FIRST = ("neg", "div")
"""Functions that are zero wherever their first argument is."""

NEVER = Tensor(np.zeros((), np.intp), ())
"""Marks of what is zero everywhere."""

@dataclass(frozen=True, slots=True)
class Support:
    """Finds the marks of terms and of the definitions they read; those of one pass are kept."""

    definitions: Mapping[str, Definition]
    reader: Reader
    known: dict[str, tuple[tuple[Axis, ...], Tensor | None]] = field(default_factory=dict)

    def product(self, term: Term, reader: Reader) -> Product:
        """Return the marks of a term, times its deltas."""
        deltas = [f for f in term.factors if isinstance(f, Delta)]
        found = [self.scalar(f, reader) for f in term.factors if not isinstance(f, Delta)]
        known = [d for d in deltas if self.has(d.left, d.right)]
        ties = [Tie(reader.place(d.left), reader.place(d.right)) for d in known]
        return Product(tuple(t for t in found if t is not None), tuple(ties))

    def has(self, *positions: Position) -> bool:
        """Whether the data that positions look up is at hand; that of `argmax` need not be."""
        lookups = [lookup for p in positions for lookup in lookups_in(p)]
        return all(lookup.array in self.reader.done.values for lookup in lookups)

    def scalar(self, scalar: Scalar, reader: Reader) -> Tensor | None:
        """Return the marks of an expression, None where it may be anything everywhere."""
        match scalar:
            case Number():
                return None if scalar.value else NEVER
            case Guard():
                at = reader.integers(scalar.position)
                inside = (at.array >= 0) & (at.array < reader.size(scalar.dim))
                return Tensor(inside.astype(np.intp), at.axes)
            case Delta() if self.has(scalar.left, scalar.right):
                left, right = reader.integers(scalar.left), reader.integers(scalar.right)
                axes = union(left.axes, right.axes)
                same = aligned(left, axes) == aligned(right, axes)
                return Tensor(same.astype(np.intp), axes)
            case Access():
                return self.access(scalar, reader)
            case Apply(function="mul", order=()):
                found = [self.scalar(a, reader) for a in scalar.args]
                return _both([t for t in found if t is not None])
            case Apply(function="add" | "sub", order=()):
                return _either([self.scalar(a, reader) for a in scalar.args])
            case Apply(order=()) if scalar.function in THROUGH_FIRST:
                return self.scalar(scalar.args[0], reader)
            case _:
                return None

    def access(self, access: Access, reader: Reader) -> Tensor | None:
        """Return the marks of an array where it is read."""
        axes, marks = self.definition(access.array)
        if marks is None or not self.has(*access.at):
            return None
        read = dict(zip(axes, access.at, strict=True))
        bare = [i for i in (read[a].bare for a in marks.axes) if i is not None]
        if len(bare) == len(marks.axes):
            return diagonal(Tensor(marks.array, tuple(map(reader.axis, bare))))
        at = [reader.integers(read[a]) for a in marks.axes]
        every = union(*(p.axes for p in at))
        inside = (
            np.clip(aligned(p, every), 0, a.size - 1) for p, a in zip(at, marks.axes, strict=True)
        )
        return Tensor(marks.array[tuple(inside)], every)

    def definition(self, name: str) -> tuple[tuple[Axis, ...], Tensor | None]:
        """Return the axes of a definition and its marks; None for recurrences and all else."""
        if name not in self.known:
            self.known[name] = ((), None)
            made = self.definitions.get(name)
            if made is not None and made.loop is None and isinstance(made.body, tuple):
                reader = self.reader.again()
                axes = tuple(reader.axis(i) for i in made.indices)
                marks = _either([self.term(t, reader) for t in made.body]) if made.body else NEVER
                self.known[name] = (axes, marks)
        return self.known[name]

    def term(self, term: Term, reader: Reader) -> Tensor | None:
        """Return the marks of a term, added up over its bound indices."""
        product = self.product(term, reader)
        if not product.tensors and not product.ties:
            return None
        places = [p for tie in product.ties for p in (tie.left, tie.right)]
        axes = union(*(t.axes for t in product.tensors), *(p.axes for p in places))
        bound = {reader.axis(i) for i in term.bound}
        kept = tuple(a for a in axes if a not in bound)
        return Tensor(np.minimum(contract(product, kept, axes, np.intp), 1), kept)


def _both(found: Sequence[Tensor]) -> Tensor | None:
    """Return marks of a product."""
    if not found:
        return None
    axes = union(*(t.axes for t in found))
    total = np.ones((1,) * len(axes), np.intp)
    for marks in found:
        total = total * aligned(marks, axes)
    return Tensor(np.broadcast_to(total, lengths(axes)), axes)


def _either(found: Sequence[Tensor | None]) -> Tensor | None:
    """Return marks of a sum."""
    axes = union(*(t.axes for t in found if t is not None))
    total = np.zeros((1,) * len(axes), np.intp)
    for marks in found:
        if marks is None:
            return None
        total = np.maximum(total, aligned(marks, axes))
    return Tensor(np.broadcast_to(total, lengths(axes)), axes)


def marked(
    definitions: Mapping[str, Definition], terms: Sequence[Term], reader: Reader
) -> tuple[Product, ...]:
    """Return the marks of every term over the axes of a reader."""
    support = Support(definitions, reader)
    for name in _needed(definitions, terms):
        support.definition(name)
    return tuple(support.product(term, reader) for term in terms)


def _needed(definitions: Mapping[str, Definition], terms: Sequence[Term]) -> list[str]:
    """Return the definitions that terms read, and those that these read, in order."""
    waiting = [n for t in terms for f in t.factors for n in arrays_of(f)]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in definitions and name not in found:
            found.add(name)
            waiting += reads(definitions[name])
    return [n for n in definitions if n in found]


__all__ = ["Support", "marked"]
