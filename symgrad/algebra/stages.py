"""Which definitions run along with a recurrence segment by segment, and which before or behind it.

Definitions, recurrences -> Stages
What reads the steps of a recurrence one by one, or adds something up over them, needs no more of
it than a few neighbouring steps at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from symgrad.dims import Dim
from symgrad.program import (
    Access,
    Affine,
    Definition,
    Index,
    Lookup,
    Position,
    Scalar,
    blocks,
    positions,
    reads,
    scalars_of,
    walk,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """One element that a definition reads; `factor` says it stands alone in a product."""

    array: str
    at: tuple[Position, ...]
    term: int
    bound: tuple[Index, ...]
    factor: bool

    def step(self, axis: int) -> tuple[Index, int] | None:
        """Return the index and the constant it is read at along an axis, None if otherwise."""
        position = self.at[axis]
        if not isinstance(position, Affine) or len(position.terms) != 1:
            return None
        (index, coefficient), offset = position.terms[0], position.offset.constant
        return (index, offset) if coefficient == 1 and offset is not None else None

    def fixed(self, axis: int) -> Dim | None:
        """Return the one place along an axis that is read, None if it is no single one."""
        position = self.at[axis]
        alone = isinstance(position, Affine) and not position.terms
        return position.offset if alone and isinstance(position, Affine) else None


def readings(definition: Definition) -> Iterator[Reading]:
    """Yield every element a definition reads, those that are positions included."""
    body = definition.body
    if not isinstance(body, tuple):
        for scalar in scalars_of(body):
            yield from _within(scalar, 0, body.bound, alone=False)
        return
    for number, term in enumerate(body):
        for factor in term.factors:
            yield from _within(factor, number, term.bound, alone=True)


def _within(
    scalar: Scalar, term: int, bound: tuple[Index, ...], alone: bool
) -> Iterator[Reading]:
    for node in walk(scalar):
        if isinstance(node, Access):
            yield Reading(node.array, node.at, term, bound, alone and node is scalar)
        for position in positions(node):
            yield from _looked_up(position, term, bound)


def _looked_up(position: Position, term: int, bound: tuple[Index, ...]) -> Iterator[Reading]:
    if isinstance(position, Lookup):
        yield Reading(position.array, position.at, term, bound, factor=False)
        for inner in position.at:
            yield from _looked_up(inner, term, bound)


@dataclass(frozen=True, slots=True)
class Stages:
    """Definitions before, along with and behind a recurrence, each in an order that can be run.

    `steps` has the step's index of all that is made step by step; the rest of `along` are sums.
    `terms` numbers those terms of definitions behind it that can be added up along with it.
    `wholes` are arrays of `along` or of `apart` that something needs whole; `conflict` says that
    something along with the recurrence waits for its end.
    """

    before: tuple[Definition, ...]
    along: tuple[Definition, ...]
    behind: tuple[Definition, ...]
    steps: dict[str, Index]
    terms: dict[str, tuple[int, ...]]
    wholes: frozenset[str]
    conflict: bool


def stages(
    definitions: Sequence[Definition],
    members: Mapping[str, Index],
    *,
    ahead: Collection[str] = (),
    apart: Collection[str] = (),
    keep: Collection[str] = (),
) -> Stages:
    """Return what runs along with the recurrences `members`, all of one length, by their steps.

    `ahead` names forward definitions where the others go back; `apart` the members of recurrences
    that run elsewhere; `keep` what is wanted whole anyway.
    """
    sorting = _Sorting(definitions, members, frozenset(ahead), frozenset(apart))
    sorting.needs(frozenset(keep))
    sorting.users()
    return sorting.result()


@dataclass(slots=True)
class _Sorting:
    definitions: Sequence[Definition]
    members: Mapping[str, Index]
    ahead: frozenset[str]
    apart: frozenset[str]
    table: dict[str, Definition] = field(init=False)
    steps: dict[str, Index] = field(init=False)
    stage: dict[str, str] = field(init=False)
    needed: set[str] = field(init=False)
    wholes: set[str] = field(default_factory=set)
    terms: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.table = {d.name: d for d in self.definitions}
        self.steps = dict(self.members)
        self.stage = dict.fromkeys(self.members, "along")
        self.needed = self.ancestors()

    @property
    def dim(self) -> Dim:
        """The number of steps."""
        return next(iter(self.steps.values())).dim

    def ancestors(self) -> set[str]:
        """Return what the members need; members of other recurrences among it are to be whole."""
        found: set[str] = set()
        waiting = list(self.members)
        while waiting:
            for name in reads(self.table[waiting.pop()]):
                if name in self.apart:
                    self.wholes.add(name)
                elif name in self.table and name not in found and name not in self.members:
                    found.add(name)
                    waiting.append(name)
        return found

    def needs(self, keep: frozenset[str]) -> None:
        """Sort what the members need: along with them if they alone read it, step by step."""
        for definition in reversed(self.definitions):
            name = definition.name
            if name not in self.needed:
                continue
            index = None if name in keep or definition.loop else self.wanted(definition)
            own = None if index is None else self.way(definition)
            if index is not None and own in ((), (index,)):
                self.steps[name] = index
                self.stage[name] = "along"
            else:
                self.stage[name] = "before"

    def wanted(self, definition: Definition) -> Index | None:
        """Return the index by which members and what they need read it, None if otherwise."""
        axes: set[int] = set()
        for reader in self.definitions:
            if reader.name not in self.members and reader.name not in self.needed:
                continue
            for reading in readings(reader):
                if reading.array != definition.name:
                    continue
                own = self.steps.get(reader.name)
                steps = [reading.step(axis) for axis in range(len(reading.at))]
                fits = {
                    axis for axis, step in enumerate(steps)
                    if step and step[0] == own and self.reaches(reader.name, reading, step[1])
                }  # fmt: skip
                axes = axes & fits if axes else fits
                if not axes:
                    return None
        found = [definition.indices[axis] for axis in sorted(axes)]
        return next((index for index in found if index.dim == self.dim), None)

    def reaches(self, reader: str, reading: Reading, lag: int) -> bool:
        """Whether an element so many steps away is at hand when it is read.

        Values are at hand of the steps done before; on the way back those of members also of
        steps before the segment, which the forward pass kept.
        """
        if not lag:
            return True
        if not reading.factor:
            return False
        back = bool(self.ahead) or self.reverse
        if not back:
            return lag < 0
        if reading.array not in self.ahead:
            return lag > 0
        early = lag < 0 and reading.array in self.members
        return early if reader in self.ahead else early or lag > 0

    @property
    def reverse(self) -> bool:
        """Whether some recurrence runs from its end."""
        loops = (self.table[name].loop for name in self.members)
        return any(loop.reverse for loop in loops if loop)

    def way(self, definition: Definition) -> tuple[Index | None, ...] | None:
        """Return by which index a definition has steps: its own, or None if it is a sum over them.

        Empty if it reads none; None if it reads them otherwise than one by one.
        """
        found: set[Index | None] = set()
        terms: dict[int, Index] = {}
        for reading in readings(definition):
            own = self.steps.get(reading.array)
            if own is None:
                continue
            step = reading.step(self.table[reading.array].indices.index(own))
            if step is None or step[0].dim != self.dim:
                return None
            if not self.reaches(definition.name, reading, step[1]):
                return None
            if terms.setdefault(reading.term, step[0]) != step[0]:
                return None
            bound = step[0] in reading.bound
            if bound and not isinstance(definition.body, tuple):
                return None
            found.add(None if bound else step[0])
        return tuple(found) if len(found) < 2 else None

    def users(self) -> None:
        """Sort all other definitions: along if they can be, behind if they wait for the end."""
        for unit in blocks(self.definitions):
            names = {d.name for d in unit}
            if names & self.stage.keys():
                continue
            read = {n for d in unit for n in reads(d)} - names
            below = read & self.table.keys()
            late = any(self.stage[n] == "behind" or self.adds_up(n) for n in below)
            stage = "along" if any(self.stage[n] == "along" for n in below) else "before"
            if late or (names | read) & self.apart:
                stage = "behind"
            elif stage == "along":
                way = None if unit[0].loop else self.way(unit[0])
                stage = "along" if way else "behind"
                if way and way[0] is not None:
                    self.steps[unit[0].name] = way[0]
            self.stage.update(dict.fromkeys(names, stage))
            if stage == "behind":
                self.partly(unit[0])

    def partly(self, definition: Definition) -> None:
        """Note which terms of a definition behind are sums that can be taken along."""
        body = definition.body
        if definition.loop or not isinstance(body, tuple) or definition.name in self.apart:
            return
        found = []
        for number, term in enumerate(body):
            alone = replace(definition, body=(term,))
            below = set(reads(alone))
            known = below & self.table.keys()
            late = any(self.stage[n] == "behind" or self.adds_up(n) for n in known)
            if not late and not below & self.apart and self.way(alone) == (None,):
                found.append(number)
        if found:
            self.terms[definition.name] = tuple(found)

    def adds_up(self, name: str) -> bool:
        """Whether an array is complete only after the last step."""
        return self.stage[name] == "along" and name not in self.steps

    def result(self) -> Stages:
        """Return the definitions by stage, and what is needed whole."""
        conflict = False
        for definition in self.definitions:
            stage = self.stage[definition.name]
            local = stage == "along" and self.way(definition) is not None
            taken = self.terms.get(definition.name, ())
            for reading in readings(definition):
                own = self.steps.get(reading.array)
                if own is None or local or reading.term in taken:
                    continue
                axis = self.table[reading.array].indices.index(own)
                if stage == "behind" and reading.fixed(axis) is not None:
                    continue
                self.wholes.add(reading.array)
                conflict |= stage != "behind" and reading.array not in self.ahead
        parts = (
            tuple(d for d in self.definitions if self.stage[d.name] == stage)
            for stage in ("before", "along", "behind")
        )
        before, along, behind = parts
        wholes = frozenset(self.wholes)
        return Stages(before, along, behind, self.steps, self.terms, wholes, conflict)
