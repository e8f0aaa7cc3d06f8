"""A program: named definitions in index notation, the one form everything downstream reads.

Layer -> check -> Program;  Program -> derive -> Program again
A definition is a sum of terms `sum[bound] product(factors)`, one primitive reduction of a scalar
body, or one primitive function of whole matrices. The batch axis is an ordinary index
(`Program.batch`), first where it occurs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Union

from symgrad.dims import Dim
from symgrad.errors import Source, Span
from symgrad.scalars import (
    BATCH,
    Access,
    Affine,
    Apply,
    Constant,
    Delta,
    Guard,
    Index,
    Lookup,
    Number,
    Place,
    Position,
    Scalar,
    Size,
    Supply,
    affine_of,
    arrays_of,
    indices_of,
    move,
    move_affine,
    positions,
    rebuild,
    substitute,
    walk,
)
from symgrad.syntax import NOWHERE, Role


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
    """A size that symbols could not decide: `0 <= low` and `high <= limit`, tested at the call.

    `exact` asks for `high == limit`.
    """

    low: Dim
    high: Dim
    limit: Dim
    message: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Places along an axis of length `dim`, a constant of the module; negative ones from its end.

    `source` says which item of the part of which array it is, and which of the axes there.
    """

    name: str
    values: tuple[int, ...]
    dim: Dim
    source: tuple[str, int, int]


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
    tables: tuple[Table, ...] = ()
    text: str = ""
    source: Source = field(default=Source(""), compare=False, repr=False)

    def array(self, name: str) -> Array | None:
        """Return the declared array of that name, or None."""
        return next((a for a in self.arrays if a.name == name), None)

    def definition(self, name: str) -> Definition | None:
        """Return the definition of that name, or None."""
        return next((d for d in self.definitions if d.name == name), None)


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


__all__ = [
    "BATCH",
    "Access",
    "Affine",
    "Apply",
    "Array",
    "Body",
    "Check",
    "Condition",
    "Constant",
    "Declared",
    "Definition",
    "Delta",
    "Guard",
    "Index",
    "Lookup",
    "Loop",
    "Number",
    "Place",
    "Position",
    "Primitive",
    "Program",
    "Reduce",
    "Rowwise",
    "Scalar",
    "Size",
    "Supply",
    "Table",
    "Term",
    "affine_of",
    "arrays_of",
    "blocks",
    "indices_of",
    "move",
    "move_affine",
    "over_body",
    "positions",
    "reads",
    "rebuild",
    "scalars_of",
    "substitute",
    "walk",
]
