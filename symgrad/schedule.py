"""What a form does, step by step: products for BLAS, and kernels made of plain loops.

Form -> plan -> Schedule
A kernel is a function over arrays; the steps of a driver stand in the order they run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

from symgrad.dims import Dim
from symgrad.program import Access, Definition, Index, Position, Scalar


@dataclass(frozen=True, slots=True)
class For:
    """A loop over the whole range of an index."""

    index: Index
    body: tuple[Node, ...]


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
class Clear:
    """Set an array, or the part of it at leading positions, to zero."""

    array: str
    at: tuple[Position, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a primitive reduction (max, argmax, logsumexp, softmax, ...)."""

    definition: Definition


Node = Union[For, When, Let, Begin, Add, Store, Clear, Row]


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

    `batch` stand in all three, `rows` in left and target, `columns` in right and target.
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
    text: str = ""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A run of loops that becomes one compiled function.

    `split` says the batch loop is outermost everywhere, so that samples can be shared out.
    """

    nodes: tuple[Node, ...]
    writes: tuple[str, ...]
    reads: tuple[str, ...]
    split: bool
    work: Dim


Step = Union[Product, Kernel]


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps of one form with the buffers they fill."""

    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
