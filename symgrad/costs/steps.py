"""What the steps of a driver do and what they allocate, in the order they run.

Schedule -> Ledger
A buffer lives until its driver returns; what a single statement needs besides is gone after it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from symgrad.algebra.segments import Run
from symgrad.bounds import at_least
from symgrad.costs.arithmetic import Work, work
from symgrad.costs.count import Count
from symgrad.costs.lapack import cholesky, factorisation, substitution, symmetric_part
from symgrad.costs.operands import Copies, copies
from symgrad.costs.spans import Span
from symgrad.dims import ONE, ZERO, Dim
from symgrad.generation.write_driver import takes_samples
from symgrad.generation.write_product import is_layered, is_stack, oriented
from symgrad.program import BATCH, Access, Definition, Index, Lookup, Primitive, Table, indices_of
from symgrad.schedule import Buffer, Call, Choice, Kernel, Product, Schedule, Step, Walk, written_by

INTEGER = 8
"""Bytes of an integer."""


@dataclass(slots=True)
class Ledger:
    """Collects work and allocations; `item` is the size of a number in bytes.

    `live` are the bytes there are at the moment, `marks` what they were before something was freed,
    `total` all that were ever allocated; what is not exact is a bound. `merged` are the lengths of
    axes that are copied to become one, `touched` what single statements allocate; `tables` hold the
    places of parts. `sizes` decide between ways; without those that do it is not `decided`.
    """

    item: int
    tables: tuple[Table, ...] = ()
    work: Work = field(default_factory=Work)
    live: Dim = ZERO
    total: Dim = ZERO
    marks: list[Dim] = field(default_factory=list)
    peak_exact: bool = True
    total_exact: bool = True
    merged: set[Dim] = field(default_factory=set)
    touched: dict[Dim, None] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    decided: bool = True

    def way(self, costs: Sequence[Dim]) -> int:
        """Return which of several ways is taken, the first one if sizes that decide are missing."""
        if all(name in self.sizes for cost in costs for name in cost.names):
            values = [cost.evaluate(self.sizes) for cost in costs]
            return values.index(min(values))
        self.decided = False
        return 0

    def take(self, size: Dim) -> None:
        """Allocate."""
        self.live, self.total = self.live + size, self.total + size

    def drop(self, size: Dim) -> None:
        """Free what was allocated."""
        self.mark(self.live)
        self.live = self.live - size

    def touch(self, size: Dim, times: Dim = ONE, heights: Sequence[Dim] = ()) -> None:
        """Allocate for one statement, which runs so many times.

        Not all of it is there at once where `heights` are given: the largest is the most.
        """
        if size != ZERO:
            self.total = self.total + size * times
            for height in heights or (size,):
                self.mark(self.live + height)
                self.touched[height] = None

    def do(self, operations: Dim, calls: Dim = ZERO) -> None:
        """Note work."""
        self.work += Work(Count.of(operations), Count.of(calls))

    def size(self, dims: Sequence[Dim], *, whole: bool = False) -> Dim:
        """Return the bytes of an array, of integers if `whole`."""
        return volume(dims) * (INTEGER if whole else self.item)

    def mark(self, size: Dim) -> None:
        """Keep a height unless another one is at least as high for all sizes."""
        if any(at_least(other - size) == "yes" for other in self.marks):
            return
        self.marks = [m for m in self.marks if at_least(size - m) != "yes"]
        self.marks.append(size)


def volume(dims: Sequence[Dim]) -> Dim:
    """Return the number of elements."""
    total = ONE
    for dim in dims:
        total = total * dim
    return total


@dataclass(slots=True)
class Runner:
    """Runs steps on a ledger; `homes` says in which allocation each array lies, None for others.

    `cut` are arrays that are stretches of others along an axis, so that nothing before that axis
    follows it in memory. `left` are bytes of the last segment of a recurrence, `shapes` the axes of
    all arrays that products read.
    """

    ledger: Ledger
    buffers: dict[str, Buffer]
    homes: dict[str, str | None]
    shapes: Mapping[str, tuple[Dim, ...]]
    cut: Mapping[str, int] = field(default_factory=dict)
    left: Dim = ZERO

    def run(self, steps: Sequence[Step], cuts: Collection[int] = ()) -> None:
        """Run steps one after the other, allocating what they write first.

        Neighbours that take samples one by one are one run, but for `cuts` before some of them.
        """
        run: list[Step] = []
        for number, step in enumerate(steps):
            alone = not takes_samples(step, self._is_batched)
            if alone or number in cuts:
                self.each(run)
                run = []
            run.append(step)
            if alone:
                self.each(run)
                run = []
        self.each(run)

    def apart(self, steps: Sequence[Step], leaves: Collection[int], *, first: bool) -> set[int]:
        """Return before which steps a run ends that may be left there; `first` has been no run.

        Stages between such places are one run if both take samples one by one throughout.
        """
        bounds = sorted({0, *leaves, len(steps)})
        joins = [self._one_by_one(steps[a:b]) for a, b in pairwise(bounds)]
        if first and joins and 0 not in leaves:
            joins[0] = False
        inner = zip(bounds[1:-1], pairwise(joins), strict=True)
        return {place for place, both in inner if not all(both)}

    def _one_by_one(self, steps: Sequence[Step]) -> bool:
        """Whether steps all take samples one by one, and do something."""
        found = [s for s in steps if not isinstance(s, Kernel) or s.nodes]
        return bool(found) and all(takes_samples(s, self._is_batched) for s in steps)

    def each(self, steps: Sequence[Step]) -> None:
        """Run steps as one: all that they write is allocated first."""
        for name in (n for step in steps for n in written_by(step)):
            if name not in self.homes:
                self.allocate(self.buffers[name])
        for step in steps:
            self._step(step, ())

    def _is_batched(self, name: str) -> bool:
        return self.shapes[name][:1] == (BATCH,)

    def free(self, kept: Collection[str]) -> None:
        """Free all allocations but those in which some array of `kept` lies."""
        held = {self.homes.get(name) for name in kept}
        self.ledger.drop(self.left)
        self.left = ZERO
        for home in self.allocations():
            if home not in held:
                self.ledger.drop(self.bytes_of(home))
                self.homes[home] = None

    def receive(self, other: Runner, names: Collection[str]) -> None:
        """Own the arrays that another runner leaves under these names."""
        for name in names:
            home = other.homes.get(name)
            self.buffers[name] = other.buffers[name]
            self.homes[name] = home
            if home is not None:
                self.buffers[home] = other.buffers[home]
                self.homes[home] = home

    def count(self, tables: Sequence[Table]) -> None:
        """Count places from the start of their axes: new integers, made of a mask and a sum."""
        for table in tables:
            length = Dim.of(len(table.values))
            self.allocate(Buffer(table.name, (length,), "int"))
            self.ledger.touch(length * (INTEGER + 1))

    def allocations(self) -> tuple[str, ...]:
        """Return the arrays that have a place of their own."""
        return tuple(name for name, home in self.homes.items() if home == name)

    def bytes_of(self, name: str) -> Dim:
        """Return the bytes of an array."""
        made = self.buffers[name]
        return self.ledger.size(made.dims, whole=made.kind == "int")

    def allocate(self, made: Buffer) -> None:
        """Make an array, unless it takes the place of another one or shows it."""
        self.buffers[made.name] = made
        source = made.over or made.view
        if source is not None:
            self.homes[made.name] = self.homes.get(source)
            return
        self.homes[made.name] = made.name
        self.ledger.take(self.bytes_of(made.name))

    def _step(self, step: Step, walked: tuple[Index, ...]) -> None:
        times = volume([i.dim for i in walked])
        match step:
            case Kernel():
                self.ledger.work += work(step.nodes, walked, self.ledger.tables)
            case Product():
                self._product(step, times)
            case Call():
                for definition in step.definitions:
                    self._call(definition, step, times)
            case Walk():
                for inner in step.steps:
                    self._step(inner, (*walked, step.index))
            case Choice():
                way = step.ways[self.ledger.way(step.costs)]
                self.buffers |= {b.name: b for b in way.buffers}
                self.run(way.steps)

    # ------------------------------------------------------------ matrix products

    def _product(self, product: Product, times: Dim) -> None:
        """Note `2 m k n` operations, and what numpy allocates on the way."""
        p = oriented(product)
        target = volume([i.dim for i in p.target_indices])
        self.ledger.do(2 * target * volume([i.dim for i in p.inner]) * times)
        if p.adds or p.partial:
            self.ledger.do(target * times)
        if is_layered(p):
            return
        left = Copies() if is_stack(p) else self._copied(p.left, p.batch, (p.rows, p.inner))
        right = self._copied(p.right, p.batch, (p.inner, p.columns))
        read = target * any(isinstance(place, Lookup) for place in p.target_at)
        made = target * _between(p)
        heights = (read + left.most, read + left.kept + right.most,
                   read + left.kept + right.kept + made)  # fmt: skip
        item = self.ledger.item
        total = (read + left.total + right.total + made) * item
        self.ledger.touch(total, times, [height * item for height in heights])

    def _copied(
        self, access: Access, batch: Sequence[Index], groups: Sequence[Sequence[Index]]
    ) -> Copies:
        """Return the copies of an operand, having noted where a length of one spares some."""
        cut = self.cut.get(access.array)
        found = copies(access, self.shapes[access.array], batch, groups, cut)
        self.ledger.merged.update(found.spare)
        return found

    # ------------------------------------------------------------ functions of matrices

    def _call(self, definition: Definition, call: Call, times: Dim) -> None:
        """Note a function of whole matrices; definitions of one call share a factorisation."""
        body = definition.body
        assert isinstance(body, Primitive)
        own = [i for i in definition.indices if i != call.fixed]
        if call.fixed is not None:
            self.ledger.touch(self.ledger.size([i.dim for i in own]), times)
        stack = own[: len(own) - len(body.at)]
        read = indices_of(body.operands[0])
        count = volume([i.dim for i in stack if i in read]) * times
        n = body.axes[0][0].dim
        first = definition is call.definitions[0]
        lu = factorisation(n) * count if first and not call.lower else ZERO
        match body.kind:
            case "cholesky":
                self.ledger.do((cholesky(n) + symmetric_part(n)) * count, n * count)
            case "det":
                self.ledger.do((factorisation(n) + n) * count)
            case "logdet":
                self.ledger.do((factorisation(n) + n) * count, n * count)
            case _:
                columns = volume([i.dim for i in own if i != body.at[0]]) * times
                self.ledger.do(lu + columns * _column(n, triangular=call.lower))


def walk_segments(
    outer: Runner, run: Run, schedule: Schedule, shapes: Mapping[str, tuple[Dim, ...]]
) -> None:
    """Run a recurrence segment by segment, every one like a short recurrence of its own.

    The arrays of a segment are there until those of the next one take their names.
    """
    span, ledger = Span(run.clock, run.lag), outer.ledger
    for made in _outlasting(run, span):
        outer.allocate(made)
    buffers = {b.name: b for b in schedule.buffers}
    cut = {view.part: view.axis for view in run.views if view.axis}
    homes: dict[str, str | None] = dict.fromkeys(t.name for t in run.sums)
    inner = Runner(Ledger(ledger.item, ledger.tables), buffers, homes, shapes, cut)
    for step in schedule.steps:
        inner.each((step,))
    one = inner.ledger
    total, exact = span.total(one.total)
    ledger.total, ledger.peak_exact = ledger.total + total, False
    spared = run.clock.steps in one.merged  # where a segment is one step
    ledger.total_exact = ledger.total_exact and exact and not spared
    beside = dict.fromkeys((*one.touched, *map(inner.bytes_of, inner.allocations())))
    for height in (*one.marks, *(one.live + size for size in beside)):
        ledger.mark(ledger.live + span.longest(height))
    ledger.merged |= {span.longest(dim) for dim in one.merged}
    ledger.work += Work(one.work.operations.within(span), one.work.calls.within(span))
    ledger.live = ledger.live + span.longest(one.live)
    outer.left = outer.left + span.longest(one.live)


def _outlasting(run: Run, span: Span) -> list[Buffer]:
    """Return the arrays that outlast a segment."""
    found = []
    for carry in run.carries:
        if carry.written or not carry.kept:
            found.append(Buffer(carry.name, carry.dims))
            found += [Buffer(carry.kept, (span.count, *carry.dims))] if carry.kept else []
    found += [Buffer(w.name, w.dims, "int" if w.whole_numbers else "float") for w in run.wholes]
    found += [Buffer(total.name, total.dims) for total in run.sums]
    return [*found, *(Buffer(tap.name, tap.dims) for tap in run.taps)]


def _column(n: Dim, *, triangular: bool) -> Dim:
    """Return the operations of solving for one right side, the matrix factorised."""
    back = substitution(n, unit=False)
    return back if triangular else substitution(n, unit=True) + back


def _between(p: Product) -> int:
    """Return how many arrays like the target lie between the product and its target."""
    if p.partial:
        return 1
    straight = p.target_indices == (*p.batch, *p.rows, *p.columns)
    sides = (p.columns,) if is_stack(p) else (p.rows, p.columns)
    if p.fixed is not None:
        straight = straight and all(len(g) <= 1 for g in sides)
        if straight and not p.adds and not p.negative:
            return 0
    elif straight:
        return 1 if p.adds else 0
    return 2 if p.negative and not p.adds else 1


__all__ = ["Ledger", "Runner", "volume", "walk_segments"]
