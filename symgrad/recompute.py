"""Memory for time: definitions that the way back computes again instead of finding them stored.

Forms, names -> Trade
A definition outside recurrences is computed again from what is stored. A recurrence is cut into
segments of about the square root of its steps: the forward pass keeps what each segment starts
from, and the way back runs one segment at a time, forward and then backward.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from symgrad.algebra.order import arrange
from symgrad.algebra.segments import (
    Carry,
    Clock,
    Cutter,
    Part,
    Record,
    Run,
    Stage,
    Tap,
    Trade,
)
from symgrad.algebra.stages import Stages, readings, stages
from symgrad.derive import Names
from symgrad.dims import Dim
from symgrad.errors import CodegenError, SelectionError, similar
from symgrad.forms import Form, Forms, needed
from symgrad.program import (
    Access,
    Affine,
    Definition,
    Index,
    Lookup,
    Position,
    Program,
    Reduce,
    Scalar,
    Supply,
    Term,
    arrays_of,
    blocks,
    reads,
    rebuild,
)

def recomputed(program: Program, wanted: object) -> tuple[str, ...]:
    """Return the definitions that `recompute=` names, with the unnamed parts of their lines.

    `wanted` is a name, a glob, or a sequence of them. Raises SelectionError for what names no
    definition.
    """
    chosen: set[str] = set()
    helpers = _helpers(program)
    for pattern in _patterns(wanted):
        for name in _matches(pattern, program):
            chosen |= {name, *helpers.get(name, ())}
    return tuple(d.name for d in program.definitions if d.name in chosen)


def _helpers(program: Program) -> dict[str, tuple[str, ...]]:
    """Return, for every definition of the user, those made for its line: they stand before it."""
    found: dict[str, tuple[str, ...]] = {}
    waiting: list[str] = []
    for definition in program.definitions:
        if definition.written:
            found[definition.name] = tuple(waiting)
            waiting = []
        else:
            waiting.append(definition.name)
    return found


def _patterns(wanted: object) -> tuple[str, ...]:
    if wanted is None:
        return ()
    patterns = (wanted,) if isinstance(wanted, str) else wanted
    if isinstance(patterns, Mapping) or not isinstance(patterns, Iterable):
        message = f"recompute is {wanted!r}, expected names of definitions"
        raise SelectionError(message, hint='as in recompute=["h"]')
    found = tuple(patterns)
    for pattern in found:
        if not isinstance(pattern, str):
            message = f"recompute holds {pattern!r}, expected names of definitions"
            raise SelectionError(message, hint='as in recompute=["h"]')
    return tuple(unicodedata.normalize("NFKC", p) for p in found)


def _matches(pattern: str, program: Program) -> tuple[str, ...]:
    names = tuple(d.name for d in program.definitions)
    written = tuple(d.name for d in program.definitions if d.written)
    listed = f"the layer defines {', '.join(written)}"
    if pattern in names:
        return (pattern,)
    array = program.array(pattern)
    if array is not None:
        message = f"recompute: {pattern} is declared as {array.role}: it is passed, not computed"
        raise SelectionError(message, hint=listed)
    if any(c in pattern for c in "*?["):
        found = tuple(n for n in written if fnmatchcase(n, pattern))
        if found:
            return found
    near = similar(pattern, written)
    meant = f"; did you mean {near}?" if near else ""
    raise SelectionError(f"recompute: no definition matches {pattern!r}{meant}", hint=listed)


def trade(forms: Forms, names: Sequence[str]) -> Forms:
    """Return the forms with a vector-Jacobian product that computes the definitions `names` again.

    Jacobians and their factors, `jvp` and the plain forward pass stay as they are. Raises
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
        self.taps, self.kept = {}, {}

    def scope(self) -> None:
        """Begin a pass: names of its own arrays may be those of another pass."""
        self.names = Names(self.forms.program)
        self.names.taken |= self.shared.taken

    def common(self, wish: str) -> str:
        """Return a name that both passes know an array by."""
        self.shared.taken |= self.names.taken
        name = self.shared.new(wish)
        self.names.taken.add(name)
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
        own = self.own
        again = (self.chosen | self.windowed) - self.wholes
        adjoints = [self.tapped(d) for d in form.definitions if d.name not in own]
        forward = {n: self.tapped(own[n]) for n in own if n in again}
        inside = {d.name for d in needed((*forward.values(), *adjoints), [
            *(n for d in adjoints for n in reads(d)), *(r.array for r in form.results),
        ])}  # fmt: skip
        again_ = [d for d in forward.values() if d.name in inside]
        rest = (*self.rearranged(again_), *(d for d in adjoints if d.name in inside))
        read = tuple(n for d in rest for n in reads(d) if n in own and n not in inside)
        ahead = frozenset(forward) & inside
        found: list[Stage] = []
        results = {r.array for r in form.results}
        for number in reversed(range(len(self.groups))):
            members = self.members(number, form, rest)
            if not members:
                continue
            apart = {
                n for other in range(len(self.groups)) if other != number
                for n in self.members(other, form, rest)
            }  # fmt: skip
            sorted_ = stages(rest, members, ahead=ahead, apart=apart)
            whole = sorted_.wholes & own.keys() - self.wholes
            if whole:
                self.wholes |= whole
                return (), ()
            self.refuse(sorted_, number)
            shapes = self.shapes(form, rest)
            run, behind = self.run(sorted_, shapes, results, ahead, back=True)
            found += [sorted_.before, run]
            rest = behind
        return read, tuple(s for s in (*found, rest) if s)

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
        return _tapped(definition, self.axes(self.windowed), self.tap)

    def tap(self, array: str, axis: int, position: Dim) -> str:
        """Return the name under which one step of a member is kept."""
        key = (array, position)
        if key not in self.taps:
            dims = tuple(i.dim for i in self.own[array].indices)
            self.taps[key] = _tap(self.common, array, axis, dims, position)
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
        first = next(iter(found.steps.values()))
        start, stop, steps, segment = self.cut
        step = self.supply.fresh("s", steps)
        time = Clock(first.dim, start, stop, steps, segment, step)
        along, behind = _divided(found, self.names)
        table = {d.name: d for d in along}
        taps: dict[tuple[str, Dim], Tap] = {}
        axes = {n: table[n].indices.index(i) for n, i in found.steps.items() if n in table}

        def tap(array: str, axis: int, position: Dim) -> str:
            key = (array, position)
            if key not in taps and key in self.taps and not back:
                taps[key] = self.taps[key]
            if key not in taps:
                dims = tuple(i.dim for i in table[array].indices)
                taps[key] = _tap(self.names.new, array, axis, dims, position)
            return taps[key].name

        behind = tuple(_tapped(d, axes, tap) for d in behind)
        if not back:
            for (array, position), one in self.taps.items():
                if array in axes:
                    taps[array, position] = one
        sums = [d.name for d in along if d.name not in found.steps]
        wholes = [n for n in found.steps if n in table and (n in found.wholes or n in keep)]
        wholes = [n for n in wholes if n not in ahead]
        renamed = {n: self.names.new(f"{n}_part") for n in (*wholes, *sums)}
        kept = () if back else tuple(n for n in self.kept if n in table)
        staged = replace(found, along=along)
        cutter = Cutter(time, staged, shapes, self.names, renamed, self.lags, kept)
        definitions = cutter.definitions()
        carries = tuple(self.carry(c, n, back) for n, c in cutter.carries())
        run = Run(
            time,
            back,
            definitions,
            tuple(cutter.views.values()),
            tuple(_part(table[n], renamed[n], axes[n]) for n in wholes),
            tuple(_part(table[n], renamed[n], None) for n in sums),
            tuple(replace(t, array=renamed.get(t.array, t.array)) for t in taps.values()),
            carries,
            max((c.length for c in carries), default=1),
        )
        return run, behind

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


def _divided(
    found: Stages, names: Names
) -> tuple[tuple[Definition, ...], tuple[Definition, ...]]:
    """Take sums over steps apart: what is added up along with them, and what comes behind."""
    along, added, behind = [], [], []
    for definition in found.along:
        body = definition.body
        inside = tuple(range(len(body)) if isinstance(body, tuple) else ())
        if isinstance(body, tuple) and definition.name not in found.steps:
            inside = tuple(n for n in inside if _reads_any(body[n], found.steps))
        if not isinstance(body, tuple) or len(inside) == len(body):
            along.append(definition)
            continue
        part, rest = _parted(definition, inside, names)
        along.append(part)
        added.append(rest)
    for definition in found.behind:
        if definition.name not in found.terms:
            behind.append(definition)
            continue
        part, rest = _parted(definition, found.terms[definition.name], names)
        along.append(part)
        behind.append(rest)
    return tuple(along), (*added, *behind)


def _reads_any(term: Term, names: Iterable[str]) -> bool:
    return bool({a for f in term.factors for a in arrays_of(f)} & set(names))


def _parted(
    definition: Definition, inside: Sequence[int], names: Names
) -> tuple[Definition, Definition]:
    """Return some terms of a sum as a definition of their own, and the sum that reads it."""
    body = definition.body
    assert isinstance(body, tuple)
    name = names.new(f"{definition.name}_steps")
    access = Access(name, tuple(Affine.of(i) for i in definition.indices))
    rest = tuple(term for n, term in enumerate(body) if n not in inside)
    part = replace(definition, name=name, body=tuple(body[n] for n in inside))
    return part, replace(definition, body=(Term((), (access,)), *rest))


def _part(definition: Definition, part: str, axis: int | None) -> Part:
    dims = tuple(i.dim for i in definition.indices)
    body = definition.body
    whole = isinstance(body, Reduce) and body.kind in ("argmax", "argmin")
    return Part(definition.name, part, dims, axis, whole)


def _tap(
    name: Callable[[str], str], array: str, axis: int, dims: tuple[Dim, ...], position: Dim
) -> Tap:
    place = "first" if position.constant == 0 else "last" if position + 1 == dims[axis] else "at"
    rest = tuple(d for n, d in enumerate(dims) if n != axis)
    return Tap(name(f"{array}_{place}"), array, axis, rest, position)


def _tapped(definition: Definition, axes: Mapping[str, int], tap: Callable[[str, int, Dim], str]) -> Definition:
    """Replace reads at single steps by reads of arrays that hold those steps."""

    def position(one: Position) -> Position:
        if not isinstance(one, Lookup):
            return one
        inner = tuple(position(p) for p in one.at)
        name, at = placed(one.array, inner)
        return Lookup(name, at)

    def placed(array: str, at: tuple[Position, ...]) -> tuple[str, tuple[Position, ...]]:
        axis = axes.get(array)
        if axis is None:
            return array, at
        where = at[axis]
        if not isinstance(where, Affine) or where.terms:
            return array, at
        return tap(array, axis, where.offset), (*at[:axis], *at[axis + 1 :])

    def change(node: Scalar) -> Scalar:
        if isinstance(node, Access):
            return Access(*placed(node.array, tuple(position(p) for p in node.at)))
        return node

    def moved(scalar: Scalar) -> Scalar:
        return rebuild(scalar, change)

    if isinstance(definition.body, tuple):
        terms = tuple(
            Term(t.bound, tuple(moved(f) for f in t.factors)) for t in definition.body
        )
        return replace(definition, body=terms)
    return replace(definition, body=replace(definition.body, body=moved(definition.body.body)))


__all__ = ["recomputed", "trade"]
