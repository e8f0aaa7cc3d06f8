"""Scalars in index notation: indices, the positions they make, and expressions read at them.

Index -> Position -> Scalar
Vocabulary: all of it is handed on by `program`, where definitions are made of scalars.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Union

from symgrad.dims import ZERO, Coefficient, Dim, plain

BATCH = Dim.of("#B")
"""The batch size; not an identifier, so no dim of a user can be called that."""


@dataclass(frozen=True, slots=True)
class Index:
    """A position along an axis; `serial` is its identity, `name` only its wish.

    One that is `partial` runs over a part of an axis: other positions there are beside its range.
    """

    name: str
    dim: Dim
    serial: int
    partial: bool = False

    def __str__(self) -> str:
        return self.name


@dataclass(slots=True)
class Supply:
    """Hands out indices with serial numbers never used before in one compilation."""

    serial: int = 1

    def fresh(self, name: str, dim: Dim, *, partial: bool = False) -> Index:
        """Return a new index."""
        self.serial += 1
        return Index(name, dim, self.serial, partial)

    def like(self, index: Index) -> Index:
        """Return a new index that runs as another one does."""
        return self.fresh(index.name, index.dim, partial=index.partial)


@dataclass(frozen=True, slots=True)
class Affine:
    """`sum of coefficient * index + offset`; terms sorted by serial, no zeros.

    Sizes among the coefficients are products of lengths of axes, so they are never negative.
    """

    terms: tuple[tuple[Index, Coefficient], ...] = ()
    offset: Dim = ZERO

    @staticmethod
    def of(value: Affine | Index | Dim | int) -> Affine:
        """Return the position an index, a dim or a number stands for."""
        if isinstance(value, Affine):
            return value
        if isinstance(value, Index):
            return Affine(((value, 1),))
        return Affine((), Dim.of(value))

    def __add__(self, other: Affine | Index | Dim | int) -> Affine:
        right = Affine.of(other)
        table: dict[Index, Coefficient] = dict(self.terms)
        for index, coefficient in right.terms:
            table[index] = plain(table.get(index, 0) + coefficient)
        kept = sorted(((i, c) for i, c in table.items() if c), key=lambda pair: pair[0].serial)
        return Affine(tuple(kept), self.offset + right.offset)

    def __mul__(self, factor: Coefficient) -> Affine:
        factor = plain(factor)
        if not factor:
            return Affine()
        return Affine(tuple((i, plain(c * factor)) for i, c in self.terms), self.offset * factor)

    def __neg__(self) -> Affine:
        return self * -1

    def __sub__(self, other: Affine | Index | Dim | int) -> Affine:
        return self + (-Affine.of(other))

    @property
    def bare(self) -> Index | None:
        """The index this position is, or None."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and self.offset == ZERO:
            return self.terms[0][0]
        return None


@dataclass(frozen=True, slots=True)
class Lookup:
    """A position that is data: the value of an integer array at some positions."""

    array: str
    at: tuple[Position, ...]

    @property
    def bare(self) -> Index | None:
        """None, for data is no index."""
        return None


Position = Union[Affine, Lookup]


@dataclass(frozen=True, slots=True)
class Number:
    """A literal number."""

    value: int | float


@dataclass(frozen=True, slots=True)
class Constant:
    """A named number: `pi`."""

    name: Literal["pi"]


@dataclass(frozen=True, slots=True)
class Size:
    """A dim used as a number."""

    dim: Dim


@dataclass(frozen=True, slots=True)
class Place:
    """An index expression used as a number."""

    affine: Affine


@dataclass(frozen=True, slots=True)
class Access:
    """One element of an array: an input, parameter, const, or an earlier definition."""

    array: str
    at: tuple[Position, ...] = ()


@dataclass(frozen=True, slots=True)
class Apply:
    """A scalar function of scalars, or, with `order`, its partial derivative of that order.

    Arithmetic: add sub mul div neg pow; comparisons lt le gt ge eq ne; masks and_ or_ not_;
    `where(mask, a, b)`; everything else by its name in the function table; abstract functions by
    their letter. `order=(1,)` of `tanh` is tanh'.
    """

    function: str
    args: tuple[Scalar, ...]
    order: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Delta:
    """Kronecker delta of two positions.

    `inside` says that the right one is known to lie in the range of the left one, a bare index.
    """

    left: Position
    right: Position
    inside: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Guard:
    """Iverson bracket: 1 where `0 <= position < dim`, else 0."""

    position: Affine
    dim: Dim


Scalar = Union[Number, Constant, Size, Place, Access, Apply, Delta, Guard]


def affine_of(position: Position) -> Iterator[Affine]:
    """Yield every affine in a position, inside lookups too."""
    if isinstance(position, Affine):
        yield position
    else:
        for inner in position.at:
            yield from affine_of(inner)


def walk(scalar: Scalar) -> Iterator[Scalar]:
    """Yield `scalar` and everything scalar below it, parents first."""
    yield scalar
    if isinstance(scalar, Apply):
        for arg in scalar.args:
            yield from walk(arg)


def positions(scalar: Scalar) -> Iterator[Position]:
    """Yield the positions that stand in this node itself (not below it)."""
    match scalar:
        case Access():
            yield from scalar.at
        case Delta():
            yield scalar.left
            yield scalar.right
        case Guard():
            yield scalar.position
        case Place():
            yield scalar.affine
        case _:
            return


def indices_of(scalar: Scalar) -> tuple[Index, ...]:
    """Return all indices in it, each once, by serial."""
    found: dict[Index, None] = {}
    for node in walk(scalar):
        for position in positions(node):
            for affine in affine_of(position):
                for index, _ in affine.terms:
                    found[index] = None
    return tuple(sorted(found, key=lambda index: index.serial))


def arrays_of(scalar: Scalar) -> tuple[str, ...]:
    """Return the names of all arrays it reads, lookups included, each once, in order."""
    found: dict[str, None] = {}

    def visit(position: Position) -> None:
        if isinstance(position, Lookup):
            found[position.array] = None
            for inner in position.at:
                visit(inner)

    for node in walk(scalar):
        if isinstance(node, Access):
            found[node.array] = None
        for position in positions(node):
            visit(position)
    return tuple(found)


def move(position: Position, mapping: Mapping[Index, Affine]) -> Position:
    """Replace indices by affines in a position."""
    if isinstance(position, Lookup):
        return Lookup(position.array, tuple(move(p, mapping) for p in position.at))
    return move_affine(position, mapping)


def move_affine(affine: Affine, mapping: Mapping[Index, Affine]) -> Affine:
    """Replace indices by affines in an affine."""
    if not any(index in mapping for index, _ in affine.terms):
        return affine
    total = Affine((), affine.offset)
    for index, coefficient in affine.terms:
        total = total + mapping.get(index, Affine.of(index)) * coefficient
    return total


def substitute(scalar: Scalar, mapping: Mapping[Index, Affine]) -> Scalar:
    """Replace indices by affines everywhere in a scalar."""
    match scalar:
        case Access():
            return Access(scalar.array, tuple(move(p, mapping) for p in scalar.at))
        case Apply():
            return replace(scalar, args=tuple(substitute(a, mapping) for a in scalar.args))
        case Delta():
            return Delta(move(scalar.left, mapping), move(scalar.right, mapping))
        case Guard():
            return Guard(move_affine(scalar.position, mapping), scalar.dim)
        case Place():
            return Place(move_affine(scalar.affine, mapping))
        case _:
            return scalar


def rebuild(scalar: Scalar, change: Callable[[Scalar], Scalar]) -> Scalar:
    """Apply `change` to every node, children first."""
    if isinstance(scalar, Apply):
        scalar = replace(scalar, args=tuple(rebuild(a, change) for a in scalar.args))
    return change(scalar)
