"""Names of arrays with the positions at which they are read: `h_{t-1}`, `W_0`, `x_{:,i}`.

Position, ... -> str
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from symgrad.program import (
    Access,
    Affine,
    Definition,
    Index,
    Lookup,
    Position,
    Program,
    Scalar,
)
from symgrad.reading.closed import Shown
from symgrad.reading.hands import Hand
from symgrad.reading.labels import (
    Stacks,
    indices_in_position,
    labels_of,
    leading,
)
from symgrad.reading.letters import Letters, reading_names
from symgrad.reading.network import axes_of, is_batch
from symgrad.reading.products import indices_in
from symgrad.reading.whole import titled
from symgrad.reading.write import Writer

Written = tuple[str, int]

@dataclass(slots=True)
class LabelledWriter:
    """Chooses the indices that a formula writes, and writes them.

    `titles` are the names that the derivation made; `said` collects the names that were written;
    `pen` writes scalars and positions with this formula's letters.
    """

    program: Program
    hand: Hand
    definitions: Mapping[str, Definition]
    titles: Mapping[str, str]
    stacks: Stacks = field(default_factory=dict)
    said: dict[str, None] = field(default_factory=dict)
    labels: set[Index] = field(default_factory=set)
    marked: bool = False
    taken: frozenset[str] = field(init=False)
    pen: Writer = field(init=False)

    def __post_init__(self) -> None:
        self.taken = reading_names(self.program)
        self.pen = Writer(
            self.program, self.hand, Letters(self.taken), self.definitions, frozenset(self.titles)
        )

    @property
    def letters(self) -> Letters:
        """The letters of this formula."""
        return self.pen.letters

    def begin(self, scalars: Sequence[Scalar], target: Sequence[Index]) -> None:
        """Begin a formula: choose the indices it writes, and name those of its result."""
        self.labels = labels_of(scalars, self.stacks, self.program)
        self.pen.letters = Letters(self.taken)
        for index in target:
            if index in self.labels:
                self.pen.letters.take(index)

    def axes(self, target: Sequence[Index], *, few: bool = False) -> tuple[Index, ...]:
        """Return the axes of a result that are not written; with `few` at most two."""
        if few:
            self.labels |= leading(target, self.labels)
        return tuple(i for i in target if i not in self.labels)

    def labelled(self, name: str, indices: Sequence[Index]) -> str:
        """Write a name with the labels that it has in this formula."""
        at = [Affine.of(i) for i in indices if i.dim.constant != 1 and i != self.program.batch]
        return titled(self.pen, name, self.marks(at))

    def marks(self, at: Sequence[Position]) -> list[str]:
        """Write labels as subscripts, `:` for an axis that stands before one."""
        labels = [self.is_label(p) for p in at]
        last = max((n for n, label in enumerate(labels) if label), default=-1)
        self.marked = self.marked or last >= 0
        return [
            self.pen.position(p) if label else self.hand.every
            for p, label in zip(at[: last + 1], labels, strict=False)
        ]

    def is_label(self, position: Position) -> bool:
        """Whether a position is written: data, a number, a sum, or an index that is a label."""
        inside = indices_in_position(position) - {self.program.batch}
        if isinstance(position, Lookup):
            return bool(inside) and inside <= self.labels
        return position.bare is None or position.bare in self.labels

    def title(self, name: str) -> str:
        """Return the name an array is written by."""
        return self.titles.get(name, name)

    def visible(self, access: Access) -> list[Position]:
        """Return the positions of the axes that are not batch and not of literal length 1."""
        at = [p for p in access.at if not is_batch(p)]
        array = self.program.array(access.array)
        definition = self.definitions.get(access.array)
        dims = list(array.axes) if array is not None else []
        if array is None and definition is not None:
            dims = [i.dim for i in definition.indices if i != self.program.batch]
        if len(dims) != len(at):
            return at
        return [p for p, d in zip(at, dims, strict=True) if d.constant != 1]

    def axes_of(self, atom: Shown) -> list[Index]:
        """Return the indices of a factor that are axes: no batch, no labels, no single places."""
        return axes_of(atom, self.labels)

    def has_axes(self, atom: Shown) -> bool:
        """Whether an expression varies along some axis that is written."""
        return any(
            i != self.program.batch and i.dim.constant != 1 and i not in self.labels
            for i in indices_in(atom)
        )
