"""A program: named definitions in index notation, the one form everything downstream reads.

Layer -> check -> Program;  Program -> derive -> Program again
A definition is a sum of terms `sum[bound] product(factors)`, one primitive reduction of a scalar
body, or one primitive function of whole matrices. The batch axis is an ordinary index
(`Program.batch`), first where it occurs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Union

from symgrad.dims import ZERO, Coefficient, Dim, plain
from symgrad.errors import Source, Span
from symgrad.syntax import NOWHERE, Role

BATCH = Dim.of("#B")
"""The batch size; not an identifier, so no dim of a user can be called that."""


@dataclass(frozen=True, slots=True)
class Index:
    """A position along an axis; `serial` is its identity, `name` only its wish."""

    name: str
    dim: Dim
    serial: int

    def __str__(self) -> str:
        return self.name


@dataclass(slots=True)
class Supply:
    """Hands out indices with serial numbers never used before in one compilation."""

    serial: int = 1

    def fresh(self, name: str, dim: Dim) -> Index:
        """Return a new index."""
        self.serial += 1
        return Index(name, dim, self.serial)


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
    """Kronecker delta of two positions."""

    left: Position
    right: Position


@dataclass(frozen=True, slots=True)
class Guard:
    """Iverson bracket: 1 where `0 <= position < dim`, else 0."""

    position: Affine
    dim: Dim


Scalar = Union[Number, Constant, Size, Place, Access, Apply, Delta, Guard]


@dataclass(frozen=True, slots=True)
class Term:
    """`sum over bound of the product of factors`; no factor holds a sum."""

    bound: tuple[Index, ...]
    factors: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Reduce:
    """A reduction that is no sum: its arguments over `bound`; argmax and argmin give integers.

    norm is the 2-norm; the first winner takes all in max and min.
    """

    kind: Literal["prod", "max", "min", "argmax", "argmin", "logsumexp", "norm"]
    bound: tuple[Index, ...]
    body: Scalar


@dataclass(frozen=True, slots=True)
class Rowwise:
    """softmax or log_softmax of `body` along `bound`, read at the position `at` (one per bound)."""

    kind: Literal["softmax", "log_softmax"]
    bound: tuple[Index, ...]
    body: Scalar
    at: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Primitive:
    """A function of whole matrices, differentiated by a rule of its own; stacks along other axes.

    Each operand reads an array at distinct bare indices; `axes` says which of them, for each
    operand, are its rows and columns. `at` are the result's own axes, the last of the definition.
    """

    kind: Literal["inv", "det", "logdet", "solve", "cholesky"]
    operands: tuple[Access, ...]
    axes: tuple[tuple[Index, ...], ...]
    at: tuple[Index, ...]

    @property
    def bound(self) -> tuple[Index, ...]:
        """The indices that run over the operands' matrices."""
        return tuple(i for axes in self.axes for i in axes)


Body = Union[tuple[Term, ...], Reduce, Rowwise, Primitive]


@dataclass(frozen=True, slots=True)
class Loop:
    """Membership in a recurrence: the members of one `block` run together, step by step.

    `index` is the member's own first index after the batch; at each step a member may read the
    others of its block at steps done before, and at the same step those that stand before it.
    With `reverse` the last step is the first.
    """

    block: int
    index: Index
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """`name[indices] = body`; the empty tuple of terms is zero.

    `frozen` stops every derivative through it (`stop_gradient`); `written` says the user named it;
    neighbours of one `loop.block` are one recurrence.
    """

    name: str
    indices: tuple[Index, ...]
    body: Body
    written: bool = True
    frozen: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    loop: Loop | None = None


@dataclass(frozen=True, slots=True)
class Array:
    """A declared array: `axes` without the batch axis; `batched` is true of inputs and indices."""

    name: str
    role: Role
    axes: tuple[Dim, ...]
    vocabulary: Dim | None = None
    default: int | float | None = None

    @property
    def batched(self) -> bool:
        """Whether calls pass it with a leading batch axis."""
        return self.role in ("input", "index")


@dataclass(frozen=True, slots=True)
class Check:
    """A size that symbols could not decide: `0 <= low` and `high <= limit`, tested at the call."""

    low: Dim
    high: Dim
    limit: Dim
    message: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Condition:
    """A domain: `mask` must hold for every value of `indices`."""

    indices: tuple[Index, ...]
    mask: Scalar
    text: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Declared:
    """An abstract function with a stated slope: formulas over one access, `argument`."""

    name: str
    argument: Access
    value: Scalar
    slope: Scalar


@dataclass(frozen=True, slots=True)
class Program:
    """A typed layer: arrays in declared order, definitions in an order that can be run."""

    name: str
    title: str
    arrays: tuple[Array, ...]
    definitions: tuple[Definition, ...]
    outputs: tuple[str, ...]
    batch: Index
    serial: int
    checks: tuple[Check, ...] = ()
    conditions: tuple[Condition, ...] = ()
    declared: tuple[Declared, ...] = ()
    text: str = ""
    source: Source = field(default=Source(""), compare=False, repr=False)

    def array(self, name: str) -> Array | None:
        """Return the declared array of that name, or None."""
        return next((a for a in self.arrays if a.name == name), None)

    def definition(self, name: str) -> Definition | None:
        """Return the definition of that name, or None."""
        return next((d for d in self.definitions if d.name == name), None)


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


def scalars_of(body: Body) -> tuple[Scalar, ...]:
    """Return the scalars a body is made of."""
    match body:
        case tuple():
            return tuple(factor for term in body for factor in term.factors)
        case Primitive():
            return body.operands
        case _:
            return (body.body,)


def blocks(definitions: Sequence[Definition]) -> Iterator[tuple[Definition, ...]]:
    """Yield the definitions in order: each alone, or all members of a recurrence together."""
    waiting: list[Definition] = []
    for definition in definitions:
        block = definition.loop.block if definition.loop else None
        before = waiting[0].loop.block if waiting and waiting[0].loop else None
        if waiting and (block is None or block != before):
            yield tuple(waiting)
            waiting = []
        waiting.append(definition)
    if waiting:
        yield tuple(waiting)


def reads(definition: Definition) -> tuple[str, ...]:
    """Return the names of all arrays a definition reads, lookups included."""
    found: dict[str, None] = {}
    for scalar in scalars_of(definition.body):
        for name in arrays_of(scalar):
            found[name] = None
    return tuple(found)


def over_body(body: Body, change: Callable[[Scalar], Scalar]) -> Body:
    """Apply `change` to every scalar a body is made of; an access must stay one in a primitive."""
    match body:
        case tuple():
            return tuple(Term(t.bound, tuple(change(f) for f in t.factors)) for t in body)
        case Primitive():
            changed = [change(operand) for operand in body.operands]
            return replace(body, operands=tuple(a for a in changed if isinstance(a, Access)))
        case _:
            return replace(body, body=change(body.body))
