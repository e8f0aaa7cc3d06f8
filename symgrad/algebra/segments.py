"""Definitions along with a recurrence, rewritten for one segment of its steps.

Stages -> Run
In a segment the steps count from 0, arrays hold its steps only, and what is read of the segment
done before comes from a small array that is carried over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Union

from symgrad.algebra.names import Names
from symgrad.algebra.stages import Stages, readings
from symgrad.dims import Dim
from symgrad.errors import InternalError
from symgrad.program import (
    Access,
    Affine,
    Apply,
    Body,
    Definition,
    Delta,
    Guard,
    Index,
    Lookup,
    Place,
    Position,
    Rowwise,
    Scalar,
    Term,
    move_affine,
    over_body,
)


@dataclass(frozen=True, slots=True)
class Clock:
    """How a recurrence of `dim` steps is cut: sizes that generated code computes for a segment."""

    dim: Dim
    start: Dim
    stop: Dim
    steps: Dim
    segment: Dim
    step: Index


@dataclass(frozen=True, slots=True)
class Part:
    """An array `name` of all steps, and `part`, what one segment has of it.

    `dims` are the axes of the array; `axis` is that of the steps.
    """

    name: str
    part: str
    dims: tuple[Dim, ...]
    axis: int
    whole_numbers: bool = False


@dataclass(frozen=True, slots=True)
class Total:
    """A sum over all steps: every segment adds to it."""

    name: str
    dims: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Tap:
    """The step `position` of an array, kept under a name of its own."""

    name: str
    array: str
    axis: int
    dims: tuple[Dim, ...]
    position: Dim


@dataclass(frozen=True, slots=True)
class Carry:
    """The last steps of an array before a segment (or, with `later`, the first behind it).

    `kept` holds them for the starts of all segments, where they are `written` or read again.
    """

    name: str
    array: str
    axis: int
    dims: tuple[Dim, ...]
    length: int
    later: bool
    kept: str | None = None
    written: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """A walk through the segments of a recurrence; `definitions` are what one segment computes.

    `views` are the steps of a segment in arrays that exist; `lag` is the least length of one.
    """

    clock: Clock
    reverse: bool
    definitions: tuple[Definition, ...]
    views: tuple[Part, ...]
    wholes: tuple[Part, ...]
    sums: tuple[Total, ...]
    taps: tuple[Tap, ...]
    carries: tuple[Carry, ...]
    lag: int = 1


Stage = Union[tuple[Definition, ...], Run]
"""What a driver runs in one go: definitions over all steps, or a walk through segments."""

Record = tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class Trade:
    """A forward pass that keeps less, and ways back that compute the rest again.

    `saved` are the arrays handed from one to the other, `taps` those of them that are single steps.
    """

    record: Record
    vjp: Record
    vjp_per_sample: Record
    saved: tuple[str, ...]
    taps: tuple[Tap, ...]


@dataclass(slots=True)
class Cutter:
    """Rewrites definitions for one segment; `shapes` has the axes of all arrays that exist.

    `renamed` says what arrays are called of which more than a segment exists; `least` how many
    steps before a segment are carried at least, of what is `kept` even if nothing here reads it.
    """

    clock: Clock
    stages: Stages
    shapes: Mapping[str, tuple[Dim, ...]]
    names: Names
    renamed: Mapping[str, str]
    least: Mapping[str, int]
    kept: Collection[str]
    axes: dict[str, int] = field(init=False)
    carried: dict[tuple[str, bool], str] = field(default_factory=dict)
    lags: dict[tuple[str, bool], int] = field(init=False)
    views: dict[tuple[str, int], Part] = field(default_factory=dict)

    def __post_init__(self) -> None:
        table = {d.name: d for d in self.stages.along}
        steps = self.stages.steps
        self.axes = {n: table[n].indices.index(i) for n, i in steps.items() if n in table}
        self.lags = {(name, False): self.least[name] for name in self.kept}
        for reading in (r for d in self.stages.along for r in readings(d)):
            step = reading.step(self.axes[reading.array]) if reading.array in self.axes else None
            if step and step[1]:
                key = (reading.array, step[1] > 0)
                least = 0 if key[1] else self.least.get(reading.array, 0)
                self.lags[key] = max(self.lags.get(key, 0), least, abs(step[1]))
        for name, later in self.lags:
            self.carried[name, later] = self.names.new(f"{name}_carried")

    def definitions(self) -> tuple[Definition, ...]:
        """Return what one segment computes."""
        return tuple(self.cut(d) for d in self.stages.along)

    def cut(self, definition: Definition) -> Definition:
        """Return a definition for the steps of one segment."""
        step = self.clock.step
        own = self.stages.steps.get(definition.name)
        indices = tuple(step if i == own else i for i in definition.indices)
        loop = definition.loop and replace(definition.loop, index=step)
        name = self.renamed.get(definition.name, definition.name)
        body: Body
        if isinstance(definition.body, tuple):
            body = tuple(t for term in definition.body for t in self.terms(term, own))
        else:
            body = over_body(definition.body, lambda scalar: self.scalar(scalar, own))
            if isinstance(body, Rowwise) and own in body.at:
                raise InternalError(f"{definition.name} normalizes over its own steps")
        return replace(definition, name=name, indices=indices, body=body, loop=loop)

    def terms(self, term: Term, own: Index | None) -> list[Term]:
        """Return a term for one segment: what it reads of the segment before stands apart."""
        time = own if own is not None else self.time_of(term)
        bound = tuple(self.clock.step if i == time else i for i in term.bound)
        pair = bool(bound) and len(term.factors) == 2
        whole = pair and all(isinstance(f, Access) for f in term.factors)
        choices = [self.factor(f, time, whole) for f in term.factors]
        return [
            Term(bound, tuple(f for part in chosen for f in part)) for chosen in product(*choices)
        ]

    def time_of(self, term: Term) -> Index | None:
        """Return the index by which a sum runs over the steps."""
        for reading in readings(Definition("", (), (term,))):
            step = reading.step(self.axes[reading.array]) if reading.array in self.axes else None
            if step is not None:
                return step[0]
        return None

    def factor(
        self, factor: Scalar, time: Index | None, whole: bool
    ) -> list[tuple[Scalar, ...]]:
        """Return what a factor is in the segment and at its borders, as products."""
        if isinstance(factor, Access) and factor.array not in self.axes and whole:
            return [(self.view(factor, time),)]
        moved = self.scalar(factor, time)
        if not isinstance(factor, Access) or factor.array not in self.axes:
            return [(moved,)]
        axis = self.axes[factor.array]
        position = moved.at[axis] if isinstance(moved, Access) else None
        lag = position.offset.constant if isinstance(position, Affine) else None
        if not isinstance(moved, Access) or not isinstance(position, Affine) or lag is None:
            raise InternalError(f"{factor.array} is read at no step of its segment")
        if not lag:
            return [(moved,)]
        key = (factor.array, lag > 0)
        found: list[tuple[Scalar, ...]] = [(Guard(position, self.clock.steps), moved)]
        for back in range(abs(lag)):
            # the place in the segment from which the carried step `back` is seen
            here = Affine.of(self.clock.steps + back - lag if lag > 0 else -lag - 1 - back)
            place = back if lag > 0 else self.lags[key] - 1 - back
            at = tuple(Affine.of(place) if n == axis else p for n, p in enumerate(moved.at))
            seen = Delta(Affine.of(self.clock.step), here)
            found.append((seen, Access(self.carried[key], at)))
        return found

    def view(self, access: Access, time: Index | None) -> Scalar:
        """Return an element of an array that exists, taken out of the steps of the segment."""
        bare = [n for n, p in enumerate(access.at) if isinstance(p, Affine) and p.bare == time]
        moved = self.scalar(access, time)
        if time is None or len(bare) != 1 or not isinstance(moved, Access):
            return moved
        (axis,) = bare
        key = (access.array, axis)
        if key not in self.views:
            name = self.names.new(f"{access.array}_part")
            self.views[key] = Part(access.array, name, self.shapes[access.array], axis)
        at = tuple(
            Affine.of(self.clock.step) if n == axis else p for n, p in enumerate(moved.at)
        )
        return Access(self.views[key].part, at)

    def scalar(self, scalar: Scalar, time: Index | None) -> Scalar:
        """Return a scalar with the positions of a segment."""
        match scalar:
            case Access():
                name = self.renamed.get(scalar.array, scalar.array)
                return Access(name, self.at(scalar.array, scalar.at, time))
            case Apply():
                return replace(scalar, args=tuple(self.scalar(a, time) for a in scalar.args))
            case Delta():
                return Delta(
                    self.position(scalar.left, time), self.position(scalar.right, time)
                )
            case Guard():
                return Guard(self.affine(scalar.position, time), scalar.dim)
            case Place():
                return Place(self.affine(scalar.affine, time))
            case _:
                return scalar

    def at(
        self, array: str, at: tuple[Position, ...], time: Index | None
    ) -> tuple[Position, ...]:
        """Return the positions in an array: of one that holds a segment they count from it."""
        axis = self.axes.get(array)
        moved = [self.position(p, time) for p in at]
        if axis is not None:
            place = moved[axis]
            if not isinstance(place, Affine):
                raise InternalError(f"{array} is read at no step of its segment")
            moved[axis] = place - self.clock.start
        return tuple(moved)

    def position(self, position: Position, time: Index | None) -> Position:
        """Return a position in the whole of an array."""
        if isinstance(position, Lookup):
            name = self.renamed.get(position.array, position.array)
            return Lookup(name, self.at(position.array, position.at, time))
        return self.affine(position, time)

    def affine(self, affine: Affine, time: Index | None) -> Affine:
        """Return a sum of indices with the step counted from the start of its segment."""
        if time is None:
            return affine
        there = Affine.of(self.clock.step) + self.clock.start
        return move_affine(affine, {time: there})

    def carries(self) -> tuple[tuple[str, Carry], ...]:
        """Return what is carried from one segment to the next, by array."""
        table = {d.name: d for d in self.stages.along}
        found = []
        for (array, later), name in self.carried.items():
            axis, length = self.axes[array], self.lags[array, later]
            dims = [i.dim for i in table[array].indices]
            dims[axis] = Dim.of(length)
            own = self.renamed.get(array, array)
            found.append((array, Carry(name, own, axis, tuple(dims), length, later)))
        return tuple(found)


__all__ = [
    "Carry", "Clock", "Cutter", "Part", "Record", "Run", "Stage", "Tap", "Total", "Trade",
]  # fmt: skip
