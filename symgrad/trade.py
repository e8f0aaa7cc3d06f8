"""Memory for time: definitions that the way back computes again instead of finding them stored.

Forms, names -> Forms
A definition outside recurrences is computed again from what is stored. A recurrence is cut into
segments of about the square root of its steps: the forward pass keeps what each segment starts
from, and the way back runs one segment at a time, forward and then backward.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from symgrad.algebra.apart import divided, part_of, tap_of, tapped
from symgrad.algebra.names import Names
from symgrad.algebra.order import arrange, needed
from symgrad.algebra.segments import (
    Carry,
    Clock,
    Cutter,
    Record,
    Run,
    Stage,
    Tap,
    Total,
    Trade,
)
from symgrad.algebra.stages import Stages, readings, stages
from symgrad.dims import Dim
from symgrad.errors import CodegenError
from symgrad.form import Form, Forms
from symgrad.program import Definition, Index, Program, Supply, blocks, reads


def trade(forms: Forms, names: Sequence[str]) -> Forms:
    """Return the forms with vector-Jacobian products that compute the definitions `names` again.

    For a recurrence of T steps, cut into segments of S = ceil(sqrt(T)) steps (or its longest lag),
    memory is at most a windows of S steps for each of its a arrays, forward and back, one window
    more while one is replaced, one for the operand of a product, and ceil(T/S) copies of the c
    arrays that a step reads of steps before: 8 B m ((a + 2) S + c ceil(T/S) + c) bytes where each
    has m numbers for each of B samples, beside arguments, outputs and results. All recurrences
    that can run in one loop share it.

    Kept whole all the same: outputs; what a definition that is not among `names` stores or reads
    at all steps; what something before the way back needs at all steps (the winner of a maximum
    over the steps, softmax over the steps); what passes between recurrences that cannot share a
    loop. Jacobians and their factors, `jvp` and the plain forward pass stay as they are. Raises
    CodegenError where a recurrence cannot be cut into segments.
    """
    if not names:
        return forms
    made = _Trader(forms, frozenset(names)).trade()
    return replace(forms, saved=made.saved, trade=made)


@dataclass(slots=True)
class _Trader:
    """Finds out together what forward keeps and what the ways back read of it."""

    forms: Forms
    chosen: frozenset[str]
    names: Names = field(init=False)
    shared: Names = field(init=False)
    used: set[str] = field(default_factory=set)
    cut: tuple[Dim, Dim, Dim, Dim] = field(init=False)
    supply: Supply = field(init=False)
    groups: tuple[tuple[str, ...], ...] = field(init=False)
    wholes: set[str] = field(init=False)
    taps: dict[tuple[str, Dim], Tap] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    lags: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        program = self.forms.program
        self.groups = _groups(program, self.chosen)
        self.wholes = set(program.outputs)
        self.lags = self.longest()
        self.restart()

    def restart(self) -> None:
        """Forget what was made: names and indices are handed out anew."""
        forms = self.forms
        self.shared = Names(forms.program)
        for form in (forms.vjp, forms.vjp_per_sample):
            self.shared.taken |= {d.name for d in form.definitions} | {a.name for a in form.given}
        self.shared.taken |= {d.name for d in forms.derivation.adjoints}
        start, stop, steps, segment = (
            Dim.of(self.shared.new(wish)) for wish in ("start", "stop", "steps", "segment")
        )
        self.cut = (start, stop, steps, segment)
        self.supply = Supply(forms.serial)
        self.taps, self.kept, self.used = {}, {}, set()

    def scope(self) -> None:
        """Begin a pass: its own arrays may be called like those of another pass."""
        self.names = Names(self.forms.program)
        self.names.taken |= self.shared.taken

    def common(self, wish: str) -> str:
        """Return a name by which both passes know an array: it is new to all of them."""
        self.used |= self.names.taken
        everywhere = Names(self.forms.program)
        everywhere.taken |= self.used | self.shared.taken
        name = everywhere.new(wish)
        for names in (self.names, self.shared):
            names.taken.add(name)
        return name

    def longest(self) -> dict[str, int]:
        """Return how many steps back the members of the recurrences are read anywhere."""
        axes = self.axes({n for group in self.groups for n in group})
        found: dict[str, int] = {}
        forms = self.forms
        for form in (forms.vjp.definitions, forms.vjp_per_sample.definitions):
            for reading in (r for d in (*forms.program.definitions, *form) for r in readings(d)):
                step = reading.step(axes[reading.array]) if reading.array in axes else None
                if step is not None:
                    found[reading.array] = max(found.get(reading.array, 0), -step[1])
        return found

    def axes(self, names: Iterable[str]) -> dict[str, int]:
        """Return which axis of each member of a recurrence is that of its steps."""
        table = self.own
        loops = {n: table[n].loop for n in names}
        return {n: table[n].indices.index(i.index) for n, i in loops.items() if i is not None}

    @property
    def own(self) -> dict[str, Definition]:
        """The definitions of the forward pass."""
        return {d.name: d for d in self.forms.program.definitions}

    @property
    def windowed(self) -> set[str]:
        """The members of recurrences of which only segments are stored."""
        return {n for group in self.groups for n in group} - self.wholes

    def trade(self) -> Trade:
        """Return both passes; what is found to be needed whole is kept whole, once for both."""
        while True:
            known = len(self.wholes)
            backs = [self.back(f) for f in (self.forms.vjp, self.forms.vjp_per_sample)]
            if len(self.wholes) == known:
                break
            self.restart()
        read = [n for found, _ in backs for n in found]
        stored = tuple(dict.fromkeys(n for n in read if n in self.own))
        record = self.record(stored)
        lags = {r.clock.dim: r.lag for s in (record, *(b for _, b in backs)) for r in _runs(s)}
        for found in (record, *(b for _, b in backs)):
            for run in _runs(found):
                lags[run.clock.dim] = max(lags[run.clock.dim], run.lag)
        passes = [_even(found, lags) for found in (record, *(b for _, b in backs))]
        taps = tuple(self.taps.values())
        saved = (*stored, *(t.name for t in taps), *self.kept.values())
        return Trade(passes[0], passes[1], passes[2], saved, taps)

    # ------------------------------------------------------------ the way back

    def back(self, form: Form) -> tuple[tuple[str, ...], Record]:
        """Return the forward arrays a way back reads, and its stages."""
        self.scope()
        rest = self.wanted(form)
        own = self.own
        ahead = frozenset(d.name for d in rest) & own.keys()
        read = tuple(n for d in rest for n in reads(d) if n in own and n not in ahead)
        results = {r.array for r in form.results}
        shapes = self.shapes(form, rest)
        found: list[Stage] = []
        for number in reversed(range(len(self.groups))):
            members = self.members(number, form, rest)
            if not members:
                continue
            others = (n for n in range(len(self.groups)) if n != number)
            apart = {name for other in others for name in self.members(other, form, rest)}
            sorted_ = stages(rest, members, ahead=ahead, apart=apart)
            whole = sorted_.wholes & own.keys() - self.wholes
            if whole:
                self.wholes |= whole
                return (), ()
            self.refuse(sorted_, number)
            run, behind = self.run(sorted_, shapes, results, ahead, back=True)
            found += [sorted_.before, run]
            rest = behind
        return read, tuple(s for s in (*found, rest) if s)

    def wanted(self, form: Form) -> tuple[Definition, ...]:
        """Return what a way back computes: forward definitions again, then the adjoints."""
        own = self.own
        again = (self.chosen | self.windowed) - self.wholes
        forward = [self.tapped(d) for n, d in own.items() if n in again]
        adjoints = [self.tapped(d) for d in form.definitions if d.name not in own]
        ends = [*(n for d in adjoints for n in reads(d)), *(r.array for r in form.results)]
        inside = {d.name for d in needed((*forward, *adjoints), ends)}
        kept = self.rearranged([d for d in forward if d.name in inside])
        return (*kept, *(d for d in adjoints if d.name in inside))

    def members(
        self, number: int, form: Form, rest: Sequence[Definition]
    ) -> dict[str, Index]:
        """Return the members of a recurrence among `rest` and of its adjoint, by their steps."""
        group = frozenset(self.groups[number])
        forward = {n: loop.index for n in group - self.wholes if (loop := self.own[n].loop)}
        adjoint = {name for name, owner in form.owners if owner in group}
        loops = {d.loop.block for d in rest if d.loop and d.name in adjoint}
        found: dict[str, Index] = {}
        for definition in rest:
            if definition.name in forward:
                found[definition.name] = forward[definition.name]
            elif definition.loop is not None and definition.loop.block in loops:
                found[definition.name] = definition.loop.index
        return found

    def rearranged(self, definitions: Sequence[Definition]) -> list[Definition]:
        """Return forward definitions whose recurrences may have lost members that are whole."""
        found: list[Definition] = []
        for unit in blocks(definitions):
            steps = {d.name: d.loop.index for d in unit if d.loop}
            found += arrange(unit, steps, self.supply) if steps else unit
        return found

    def tapped(self, definition: Definition) -> Definition:
        """Return a definition that reads single steps of a recurrence where they are kept."""
        return tapped(definition, self.axes(self.windowed), self.tap)

    def tap(self, array: str, axis: int, position: Dim) -> str:
        """Return the name under which one step of a member is kept."""
        key = (array, position)
        if key not in self.taps:
            dims = tuple(i.dim for i in self.own[array].indices)
            self.taps[key] = tap_of(self.common, array, axis, dims, position)
        return self.taps[key].name

    # ------------------------------------------------------------ the forward pass

    def record(self, stored: Sequence[str]) -> Record:
        """Return the stages of the forward pass that stores what the ways back read."""
        self.scope()
        program = self.forms.program
        keep = {*stored, *program.outputs}
        sources = (*(t.array for t in self.taps.values()), *self.kept)
        rest = needed(program.definitions, [*keep, *sources])
        found: list[Stage] = []
        for number, group in enumerate(self.groups):
            members = _steps(d for d in rest if d.name in group)
            if not members:
                continue
            apart = {n for other in self.groups for n in other if other != group}
            sorted_ = stages(rest, members, apart=apart, keep=keep)
            self.refuse(sorted_, number)
            shapes = self.shapes(self.forms.vjp, rest)
            run, behind = self.run(sorted_, shapes, keep)
            found += [sorted_.before, run]
            rest = behind
        return tuple(s for s in (*found, rest) if s)

    # ------------------------------------------------------------ both

    def run(
        self,
        found: Stages,
        shapes: Mapping[str, tuple[Dim, ...]],
        keep: Iterable[str],
        ahead: frozenset[str] = frozenset(),
        back: bool = False,
    ) -> tuple[Run, tuple[Definition, ...]]:
        """Return the walk through the segments, and the definitions behind it."""
        along, behind = divided(found, self.names)
        table = {d.name: d for d in along}
        axes = {n: table[n].indices.index(i) for n, i in found.steps.items() if n in table}
        taps = {} if back else {key: t for key, t in self.taps.items() if key[0] in axes}
        behind = self.reading(behind, table, axes, taps)
        wanted = (found.wholes | set(keep)) - ahead
        wholes = [n for n in axes if n in wanted]
        sums = [d for d in along if d.name not in axes]
        renamed = {n: self.names.new(f"{n}_part") for n in wholes}
        kept = () if back else tuple(n for n in self.kept if n in table)
        clock = self.clock(next(iter(found.steps.values())).dim)
        staged = replace(found, along=along)
        cutter = Cutter(clock, staged, shapes, self.names, renamed, self.lags, kept)
        definitions = cutter.definitions()
        carries = tuple(self.carry(c, n, back) for n, c in cutter.carries())
        run = Run(
            clock,
            back,
            definitions,
            tuple(cutter.views.values()),
            tuple(part_of(table[n], renamed[n], axes[n]) for n in wholes),
            tuple(Total(d.name, tuple(i.dim for i in d.indices)) for d in sums),
            tuple(replace(t, array=renamed.get(t.array, t.array)) for t in taps.values()),
            carries,
            max((c.length for c in carries), default=1),
        )
        return run, behind

    def reading(
        self,
        behind: Sequence[Definition],
        table: Mapping[str, Definition],
        axes: Mapping[str, int],
        taps: dict[tuple[str, Dim], Tap],
    ) -> tuple[Definition, ...]:
        """Return what comes behind a walk as it reads single steps; `taps` grows by those."""

        def tap(array: str, axis: int, position: Dim) -> str:
            key = (array, position)
            if key not in taps:
                dims = tuple(i.dim for i in table[array].indices)
                taps[key] = tap_of(self.names.new, array, axis, dims, position)
            return taps[key].name

        return tuple(tapped(d, axes, tap) for d in behind)

    def clock(self, dim: Dim) -> Clock:
        """Return the sizes of a walk through so many steps, and an index of its own."""
        start, stop, steps, segment = self.cut
        return Clock(dim, start, stop, steps, segment, self.supply.fresh("s", steps))

    def carry(self, carry: Carry, array: str, back: bool) -> Carry:
        """Say where a carried array is kept: what forward had before a segment is read again."""
        if carry.later:
            return carry
        if back and array not in self.kept:
            self.kept[array] = self.common(f"{array}_kept")
        return replace(carry, kept=self.kept.get(array), written=not back)

    def refuse(self, found: Stages, number: int) -> None:
        """Raise CodegenError where something along with a recurrence waits for its end."""
        if found.conflict:
            name = next(n for n in self.groups[number] if self.own[n].written)
            definition = self.own[name]
            raise CodegenError(
                f"recompute: the recurrence of {name} cannot be cut into segments",
                definition.span,
                self.forms.program.source,
                hint=f"leave {name} out of recompute",
            )

    def shapes(
        self, form: Form, more: Sequence[Definition]
    ) -> dict[str, tuple[Dim, ...]]:
        """Return the axes of all arrays, the batch axis among them."""
        program = self.forms.program
        batch = (program.batch.dim,)
        found = {
            a.name: (*(batch if a.batched else ()), *a.axes)
            for a in (*program.arrays, *form.given)
        }
        everything = (*program.definitions, *form.definitions, *more)
        return found | {d.name: tuple(i.dim for i in d.indices) for d in everything}


def _steps(definitions: Iterable[Definition]) -> dict[str, Index]:
    """Return the index of the steps of each member of a recurrence."""
    return {d.name: d.loop.index for d in definitions if d.loop is not None}


def _runs(record: Record) -> list[Run]:
    return [stage for stage in record if isinstance(stage, Run)]


def _even(record: Record, lags: Mapping[Dim, int]) -> Record:
    """Give all walks over one number of steps segments of one length."""
    return tuple(
        replace(s, lag=lags[s.clock.dim]) if isinstance(s, Run) else s for s in record
    )


def _groups(program: Program, chosen: frozenset[str]) -> tuple[tuple[str, ...], ...]:
    """Return the recurrences that are cut; those that can run together step by step are one."""
    found: list[tuple[str, ...]] = []
    for unit in blocks(program.definitions):
        names = tuple(d.name for d in unit)
        if unit[0].loop is None or not chosen & set(names):
            continue
        before = found[-1] if found else ()
        if before and _together(program, (*before, *names)):
            found[-1] = (*before, *names)
        else:
            found.append(names)
    return tuple(found)


def _together(program: Program, names: tuple[str, ...]) -> bool:
    """Whether recurrences can be walked in one loop."""
    loops = [d.loop for d in program.definitions if d.name in names]
    if len({loop.index.dim for loop in loops if loop}) != 1:
        return False
    found = stages(program.definitions, _steps(d for d in program.definitions if d.name in names))
    return not found.conflict


__all__ = ["trade"]
