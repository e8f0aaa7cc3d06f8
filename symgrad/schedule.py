"""What a form does, step by step: products for BLAS, calls of LAPACK, and kernels of plain loops.

Form -> plan -> Schedule
A kernel is a function over arrays; the steps of a driver stand in the order they run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

from symgrad.dims import Dim
from symgrad.program import (
    Access,
    Affine,
    Definition,
    Index,
    Lookup,
    Position,
    Scalar,
    arrays_of,
    reads,
)


@dataclass(frozen=True, slots=True)
class For:
    """A loop over the whole range of an index, from its end with `reverse`."""

    index: Index
    body: tuple[Node, ...]
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class When:
    """Run `body` where all conditions (deltas, guards) hold."""

    conditions: tuple[Scalar, ...]
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Let:
    """Keep a product in a local variable; `slot` is its identity, the printer names it."""

    slot: int
    factors: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """Start an accumulator at zero."""

    slot: int


@dataclass(frozen=True, slots=True)
class Add:
    """Add a product to an accumulator; `lets` are local variables among the factors."""

    slot: int
    lets: tuple[int, ...]
    factors: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Store:
    """Write (or add) a product of local variables and factors to one element."""

    array: str
    at: tuple[Position, ...]
    operator: Literal["=", "+="]
    lets: tuple[int, ...]
    factors: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep a function call, or an argument, in a local variable: what follows reads it there.

    `target` is the store that it is the value of, if there is one.
    """

    scalar: Scalar
    target: Store | None = None


@dataclass(frozen=True, slots=True)
class Clear:
    """Set an array, or the part of it at leading positions, to zero."""

    array: str
    at: tuple[Position, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a primitive reduction (max, argmax, logsumexp, softmax, ...)."""

    definition: Definition


@dataclass(frozen=True, slots=True)
class Flat:
    """A loop over all elements of arrays of one shape, whose element-wise nest it was.

    In `body` the `index` counts elements as they lie in memory.
    """

    index: Index
    dims: tuple[Dim, ...]
    body: tuple[Node, ...]


Node = Union[For, Flat, When, Let, Begin, Add, Store, Keep, Clear, Row]


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array a form allocates; `dims` may start with the batch size.

    `over` names an array whose place it takes instead, `view` one it shows under other axes.
    """

    name: str
    dims: tuple[Dim, ...]
    kind: Literal["float", "int"] = "float"
    over: str | None = None
    view: str | None = None


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product for BLAS: index groups of `target = sum over k of left * right`.

    `batch` stand in all three, `rows` in left and target, `columns` in right and target. The
    position of a step of a recurrence (`fixed`) is a number here. `negative` is minus that. Of
    some axes an array may be read, and the target be written, at a part only: see `stretch`. Axes
    that are `covered`, by array and number, are read whole by the index of a part.
    """

    target: str
    target_indices: tuple[Index, ...]
    left: Access
    right: Access
    batch: tuple[Index, ...]
    rows: tuple[Index, ...]
    columns: tuple[Index, ...]
    inner: tuple[Index, ...]
    adds: bool
    fixed: Index | None = None
    negative: bool = False
    target_at: tuple[Position, ...] = ()
    covered: frozenset[tuple[str, int]] = frozenset()

    @property
    def partial(self) -> bool:
        """Whether it writes a part of its target."""
        return any(is_part(p) for p in self.target_at)


def stretch(position: Position) -> Index | None:
    """Return the index that a position runs along an axis with: all of it, a slice, or a list.

    None for a sum of indices, for a fixed place, and for a way backwards.
    """
    if isinstance(position, Lookup):
        only = position.at[0] if len(position.at) == 1 else None
        return only.bare if isinstance(only, Affine) else None
    if len(position.terms) != 1:
        return None
    (index, coefficient), = position.terms
    return index if isinstance(coefficient, int) and coefficient > 0 else None


def is_part(position: Position) -> bool:
    """Whether a position runs over a part of an axis."""
    return position.bare is None or position.bare.partial


@dataclass(frozen=True, slots=True)
class Kernel:
    """A run of loops that becomes one compiled function.

    `split` says the batch loop is outermost everywhere, so that samples can be shared out;
    `fixed` is the step of a recurrence that it is given.
    """

    nodes: tuple[Node, ...]
    writes: tuple[str, ...]
    reads: tuple[str, ...]
    split: bool
    work: Dim
    fixed: Index | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A function of whole matrices that the driver calls: LAPACK by numpy.

    Several definitions solve with one matrix; `lower` says that it is known to be triangular. The
    position of a step of a recurrence (`fixed`) is a number here.
    """

    definitions: tuple[Definition, ...]
    lower: bool = False
    fixed: Index | None = None


@dataclass(frozen=True, slots=True)
class Walk:
    """A recurrence whose steps the driver walks through: `steps` at each value of `index`."""

    index: Index
    reverse: bool
    steps: tuple[Product | Kernel | Call, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Several ways to compute an array, of which the cheapest for the sizes at hand is taken.

    `costs` are multiplications; what a way needs besides is its own.
    """

    target: str
    costs: tuple[Dim, ...]
    ways: tuple[Schedule, ...]


Step = Union[Product, Kernel, Call, Walk, Choice]


def written_by(step: Step) -> tuple[str, ...]:
    """Return the arrays that a step writes, wholly or in part."""
    match step:
        case Kernel():
            return step.writes
        case Product():
            return (step.target,)
        case Call():
            return tuple(d.name for d in step.definitions)
        case Walk():
            return tuple(dict.fromkeys(n for inner in step.steps for n in written_by(inner)))
        case Choice():
            return (step.target,)


def read_by(step: Step) -> tuple[str, ...]:
    """Return the arrays that a step reads, those in which it looks places up among them."""
    match step:
        case Kernel():
            return step.reads
        case Product():
            places = [p.array for p in step.target_at if isinstance(p, Lookup)]
            return (*arrays_of(step.left), *arrays_of(step.right), *places)
        case Call():
            return tuple(n for d in step.definitions for n in reads(d))
        case Walk():
            return tuple(dict.fromkeys(n for inner in step.steps for n in read_by(inner)))
        case Choice():
            own = {made.name for way in step.ways for made in way.buffers}
            read = (n for way in step.ways for inner in way.steps for n in read_by(inner))
            return tuple(dict.fromkeys(n for n in read if n not in own))


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps of one form with the buffers they fill."""

    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]

    @property
    def completed(self) -> tuple[tuple[str, ...], ...]:
        """The arrays that each step completes: those no later step writes."""
        written = [written_by(step) for step in self.steps]
        last = {name: number for number, names in enumerate(written) for name in names}
        return tuple(
            tuple(n for n in names if last[n] == number) for number, names in enumerate(written)
        )
