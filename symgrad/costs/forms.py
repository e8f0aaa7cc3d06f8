"""What every form of a compiled layer costs, driver by driver, as its drivers run.

Forms -> Spent of each form
Arrays are taken as the drivers get them, contiguous and of one dtype; doors, which check them, and
what keeps them out of the caller's hands are counted where they copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from symgrad.algebra.segments import Record, Run, Stage
from symgrad.costs.count import Count
from symgrad.costs.spans import Span
from symgrad.costs.steps import Ledger, Runner, walk_segments
from symgrad.dims import ZERO, Dim
from symgrad.form import Form, Forms, Structured
from symgrad.generation.ahead import ahead_of, of_ahead
from symgrad.generation.direct import together
from symgrad.generation.drivers import Drivers, Shapes
from symgrad.generation.drivers_twice import of_form, of_sweep_twice
from symgrad.generation.order import Order
from symgrad.generation.publics import form_names
from symgrad.generation.publics_twice import hessian_functions
from symgrad.generation.segments import run_schedule
from symgrad.generation.wanted import served
from symgrad.generation.words import code_name
from symgrad.program import BATCH, Array, Definition, Table, reads
from symgrad.schedule import Schedule, Step, read_by


@dataclass(frozen=True, slots=True)
class Spent:
    """What one form costs: work, the bytes it allocates, those it hands out, the most at once.

    The most is the largest of `peaks`. Of a recurrence in segments it is a bound. `merged`
    are the lengths of axes that numpy copies to make one axis of several. Not `decided` is which
    ways are taken: then it is the cost of the first ones.
    """

    operations: Count
    calls: Count
    allocated: Dim
    results: Dim
    peaks: tuple[Dim, ...]
    exact: bool
    peak_exact: bool
    merged: frozenset[Dim]
    decided: bool


class Accounts:
    """Adds up the forms of one layer for numbers of `item` bytes, each when it is asked for.

    Of several ways to compute something that is counted which is taken for the sizes `known`.
    """

    def __init__(
        self,
        forms: Forms,
        wrt: Sequence[str],
        item: int,
        known: Mapping[str, int] | None = None,
    ) -> None:
        self.forms = forms
        self.wrt = wrt
        self.item = item
        self.known = dict(known or {})
        self.drivers = Drivers(forms)
        self.batched = any(a.batched for a in forms.program.arrays)
        self.spans: dict[Span, None] = {}
        self._done: dict[str, Spent] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The forms, in the order of a module."""
        jacobians = form_names(self.forms, self.wrt)
        products = ("vjp", "vjp_per_sample", "jvp", "pullback", "pull")
        twice = hessian_functions(self.forms, self.wrt)
        more = () if self.forms.curvature is None else ("hessian", "hvp", "hessian_sum")
        return ("forward", *jacobians, "dense", "jacobian", *products, *twice, *more)

    def of(self, name: str) -> Spent:
        """Return what a form costs."""
        if name not in self._done:
            ledger = Ledger(self.item, self.forms.program.tables, sizes=self.known)
            if self.forms.domain is not None and name != "pull":
                self._alone(ledger, Order(self.forms.domain.definitions))
            self._entry(name)(ledger)
            ledger.mark(ledger.live)
            work = ledger.work
            self._done[name] = Spent(
                work.operations, work.calls, ledger.total, ledger.live, tuple(ledger.marks),
                ledger.total_exact, ledger.peak_exact, frozenset(ledger.merged), ledger.decided,
            )  # fmt: skip
        return self._done[name]

    def sizes(self, known: Mapping[str, int]) -> dict[str, int]:
        """Return sizes with those of the segments that forms asked for so far walk through."""
        return {**known, **{n: s for span in self.spans for n, s in span.sizes(known).items()}}

    def _entry(self, name: str) -> Callable[[Ledger], None]:
        table: dict[str, Callable[[Ledger], None]] = {
            "forward": self.forward,
            "dense": self.dense,
            "jacobian": self.jacobian,
            "vjp": lambda ledger: self.vjp(ledger, self.forms.vjp),
            "vjp_per_sample": lambda ledger: self.vjp(ledger, self.forms.vjp_per_sample),
            "jvp": self.jvp,
            "pullback": self.pullback,
            "pull": lambda ledger: self.back(ledger, self.forms.vjp),
        }
        for form, (parameter, kind) in form_names(self.forms, self.wrt).items():
            blocks = [s for s in self.forms.structured if s.pair == parameter]
            if kind == "dense" and self.drivers.shorter:
                back = self._straight(blocks, joint=False)
            else:
                back = self._of_blocks(blocks, self.drivers.of_sweep(), kind)
            table[form] = self._or_ahead(blocks, back) if kind == "dense" else back
        return table[name] if name in table else self._entry_twice(name)

    def _entry_twice(self, name: str) -> Callable[[Ledger], None]:
        """Return how a form of second derivatives is counted."""
        curvature = self.forms.curvature
        assert curvature is not None
        order = of_sweep_twice(curvature)
        if name in ("hvp", "hessian_sum"):
            form = curvature.hvp if name == "hvp" else curvature.summed
            return lambda ledger: self.alone(ledger, form)
        if name == "hessian":
            return lambda ledger: self.kept(ledger, order)
        pair, kind = hessian_functions(self.forms, self.wrt)[name]
        blocks = [s for s in curvature.structured if s.pair == ", ".join(pair)]
        return self._of_blocks(blocks, order, kind)

    def _of_blocks(
        self, blocks: Sequence[Structured], order: Order, kind: str
    ) -> Callable[[Ledger], None]:
        if kind == "factors":
            return lambda ledger: self.factors(ledger, blocks, order)
        return lambda ledger: self.expanded(ledger, blocks, order, compact=kind == "compact")

    # ------------------------------------------------------------ forms

    def forward(self, ledger: Ledger) -> None:
        """Note the outputs alone."""
        form = self.forms.forward
        runner = self._apart(ledger, self.drivers.of_forward(), [r.array for r in form.results])
        self._handed(ledger, runner, self.forms.forward)

    def jvp(self, ledger: Ledger) -> None:
        """Note a Jacobian-vector product, tangents given for all arrays."""
        form = self.forms.jvp
        runner = self._apart(ledger, self.drivers.of_tangent(), [r.array for r in form.results])
        self._handed(ledger, runner, self.forms.jvp)

    def expanded(
        self, ledger: Ledger, blocks: Sequence[Structured], order: Order, *, compact: bool
    ) -> None:
        """Note dense or compact derivatives, one an output."""
        before, several = ledger.live, len({s.pair for s in blocks}) > 1
        self._sweep(ledger, order, None if several else _arrays_of(blocks))
        swept = ledger.live - before
        for structured in blocks:
            definition = structured.dense
            if compact and structured.compact is not None:
                definition = structured.compact
            made = ledger.size([i.dim for i in definition.indices])
            self._alone(ledger, self.drivers.of_expand(definition), made)
        ledger.drop(swept)

    def dense(self, ledger: Ledger) -> None:
        """Note all dense Jacobians from one pass."""
        blocks = [s for s in self.forms.structured if s.pair in self.wrt]
        if len(self.forms.structured) == 1:
            self._or_ahead(blocks, lambda ledger: self._all_back(ledger, blocks))(ledger)
        else:
            self._all_back(ledger, blocks)

    def _or_ahead(
        self, blocks: Sequence[Structured], back: Callable[[Ledger], None]
    ) -> Callable[[Ledger], None]:
        """Return how a dense Jacobian is counted that tangents may make, where sizes say so."""
        only = blocks[0] if len(blocks) == 1 else None
        way = None if only is None else ahead_of(self.forms, only)
        if only is None or way is None:
            return back

        def note(ledger: Ledger) -> None:
            if way.costs and ledger.way(way.costs) == 0:
                back(ledger)
                return
            size = ledger.size([i.dim for i in only.dense.indices])
            self._alone(ledger, of_ahead(way, only), size)

        return note

    def _all_back(self, ledger: Ledger, blocks: Sequence[Structured]) -> None:
        """Note dense Jacobians from one pass that goes back."""
        if self.drivers.shorter and len(blocks) == len(self.forms.structured):
            self._straight(blocks, joint=True)(ledger)
        else:
            self.expanded(ledger, blocks, self.drivers.of_sweep(), compact=False)

    def _straight(
        self, blocks: Sequence[Structured], *, joint: bool
    ) -> Callable[[Ledger], None]:
        """Return how dense Jacobians are counted that are made where they are asked for."""
        found = self.drivers.direct
        same = together(self.forms, found) if joint else ()

        def note(ledger: Ledger) -> None:
            before, several = ledger.live, len({s.pair for s in blocks}) > 1
            order = self.drivers.of_sweep_dense()
            self._sweep(ledger, order, None if several else order.leaves[blocks[0].pair])
            swept = ledger.live - before
            if same:
                made = [found[s.dense.name] for s in same]
                size = sum((ledger.size([i.dim for i in d.indices]) for d in made), ZERO)
                self._alone(ledger, Order(made, made=[d.name for d in made]), size)
            for structured in (s for s in blocks if s not in same):
                definition = found.get(structured.dense.name, structured.dense)
                size = ledger.size([i.dim for i in definition.indices])
                self._alone(ledger, self.drivers.of_expand(definition), size)
            ledger.drop(swept)

        return note

    def factors(self, ledger: Ledger, blocks: Sequence[Structured], order: Order) -> None:
        """Note the factors of derivatives; factors of ones are one number each."""
        wanted: set[str] = set()
        ones: set[tuple[str, str]] = set()
        for structured in blocks:
            for factor in (f for term in structured.terms for f in term.factors):
                if factor.array is None:
                    ones.add((structured.key, factor.label))
                else:
                    wanted.add(factor.array)
            wanted |= {lookup.array for lookup in structured.positions}
        runner = self._sweep(ledger, order, _arrays_of(blocks)) if wanted else None
        ledger.take(Dim.of(self.item * len(ones)))
        if runner is not None:
            runner.free(wanted)

    def alone(self, ledger: Ledger, form: Form) -> None:
        """Note a form with a driver of its own."""
        wrt, runner = set(self.wrt), self._run(ledger, of_form(form))
        runner.free([result.array for result in form.results if wrt.issuperset(result.key)])

    def kept(
        self, ledger: Ledger, order: Order, copied: Collection[str] | None = None
    ) -> None:
        """Note a pass that structured derivatives keep, their copies of the arrays included."""
        self._copies(ledger, copied)
        self._sweep(ledger, order, None)

    def jacobian(self, ledger: Ledger) -> None:
        """Note the pass that structured Jacobians keep, their own copies of the arrays included."""
        blocks = self.forms.structured
        own = [d for s in blocks for d in (s.dense, s.compact) if d is not None]
        kept = _arrays_of(blocks) | {a for d in own for a in reads(d)}
        kept |= {a.name for a in self.forms.program.arrays if a.role == "index"}
        self.kept(ledger, self.drivers.of_sweep(), kept)
        for name in self.forms.program.outputs:
            self._output(ledger, name, copied=True)

    def vjp(self, ledger: Ledger, form: Form) -> None:
        """Note a vector-Jacobian product."""
        before = ledger.live
        self._record(ledger)
        recorded = ledger.live - before
        self.back(ledger, form)
        ledger.drop(recorded)

    def back(self, ledger: Ledger, form: Form) -> None:
        """Note the way back."""
        trade = self.forms.trade
        if trade is None:
            order = self.drivers.of_back(form)
            handed = [result.array for result in form.results]
            only, cuts = self._wanted(form, order, handed)
            runner = self._apart(ledger, order, handed, only=only, cuts=cuts)
        else:
            stages = trade.vjp if form.name == "vjp" else trade.vjp_per_sample
            runner = self._staged(ledger, stages, form.given)
        runner.free([r.array for r in form.results if r.key[0] in self.wrt])

    def _wanted(
        self, form: Form, order: Order, handed: Sequence[str]
    ) -> tuple[set[int] | None, set[int]]:
        """Return which functions and steps of a way back run for what is selected, None for all.

        And before which of them it is asked what is wanted.
        """
        names = {code_name(r.array): r.key[0] for r in form.results}
        if len(names) == 1:
            return None, set()
        found = served(self.drivers.apart(order, handed), names)
        cuts = {n for n in range(1, len(found)) if found[n] != found[n - 1]}
        if set(self.wrt) == set(names.values()):
            return None, cuts
        return {number for number, of in enumerate(found) if of & set(self.wrt)}, cuts

    def pullback(self, ledger: Ledger) -> None:
        """Note the forward half of a pullback, which keeps what the way back reads."""
        self._copies(ledger)
        self._record(ledger)
        for name in self.forms.program.outputs:
            self._output(ledger, name, copied=name in self.forms.saved)

    # ------------------------------------------------------------ parts of forms

    def _run(self, ledger: Ledger, order: Order, made: Dim = ZERO) -> Runner:
        """Run the steps of a driver into `made` bytes for the caller."""
        schedule, shapes = self.drivers.scheduled(order)
        buffers = {b.name: b for b in schedule.buffers}
        runner = Runner(ledger, buffers, dict.fromkeys(order.made), shapes)
        runner.count(self._counted(schedule.steps))
        ledger.take(made)
        runner.run(schedule.steps)
        return runner

    def _counted(self, steps: Sequence[Step], kept: Sequence[str] = ()) -> list[Table]:
        """Return the tables of places that a driver counts anew: some stand at an axis' end."""
        read = {name for step in steps for name in read_by(step)} | set(kept)
        return [t for t in self.forms.program.tables if t.name in read and min(t.values) < 0]

    def _apart(
        self,
        ledger: Ledger,
        order: Order,
        wanted: Collection[str],
        until: int | None = None,
        only: Collection[int] | None = None,
        cuts: Collection[int] = (),
        left: bool = False,
    ) -> Runner:
        """Run a driver in which what parameters determine has functions of its own.

        `wanted` is read after it; it stops after `until` functions and steps, and runs `only` some;
        steps before and behind `cuts` are no run, or those before which it may be `left`.
        """
        groups, rest, shapes = self.drivers.divided(order, wanted)
        schedule, axes = self.drivers.planned(rest, shapes)
        runner = Runner(ledger, {}, dict.fromkeys(order.made), axes)
        runner.count(self._counted(schedule.steps, order.keep or ()))
        for number, group in enumerate(groups[:until]):
            if only is not None and number not in only:
                continue
            own = Order(group.definitions, order.given, handed=group.wanted)
            made, axes = self.drivers.planned(own, shapes)
            inner = Runner(ledger, {b.name: b for b in made.buffers}, {}, axes)
            inner.count(self._counted(made.steps))
            inner.run(made.steps)
            inner.free(group.wanted)
            runner.receive(inner, group.wanted)
        runner.buffers |= {b.name: b for b in schedule.buffers}
        steps = schedule.steps[: None if until is None else max(until - len(groups), 0)]
        numbered = enumerate(steps, len(groups))
        chosen = [(n, step) for n, step in numbered if only is None or n in only]
        begins = [place for place, (n, _) in enumerate(chosen) if n in cuts]
        own_steps = [step for _, step in chosen]
        if left:
            begins = sorted(runner.apart(own_steps, begins, first=bool(groups)))
        runner.run(own_steps, begins)
        return runner

    def _record(self, ledger: Ledger) -> None:
        """Run the forward pass, of which stays what the way back reads."""
        trade = self.forms.trade
        if trade is None:
            runner = self._apart(ledger, self.drivers.of_record(), self.drivers.recorded())
        else:
            runner = self._staged(ledger, trade.record)
        runner.free(self.drivers.recorded())

    def _staged(self, ledger: Ledger, stages: Record, given: Sequence[Array] = ()) -> Runner:
        """Run a driver that computes things again, stage by stage."""
        runner = Runner(ledger, {}, {}, {})
        batch = self.forms.program.batch
        found: list[tuple[Stage, Schedule, Shapes]] = []
        for stage, shapes in self.drivers.one_by_one(stages, given):
            if isinstance(stage, Run):
                found.append((stage, *run_schedule(stage, batch, shapes)))
            else:
                found.append((stage, *self.drivers.scheduled(Order(stage, given), shapes)))
        runner.count(self._counted([step for _, made, _ in found for step in made.steps]))
        for stage, schedule, shapes in found:
            if isinstance(stage, Run):
                self.spans[Span(stage.clock, stage.lag)] = None
                walk_segments(runner, stage, schedule, shapes)
            else:
                runner.buffers |= {b.name: b for b in schedule.buffers}
                runner.shapes = shapes
                runner.run(schedule.steps)
        return runner

    def _alone(self, ledger: Ledger, order: Order, made: Dim = ZERO) -> None:
        """Run a driver that leaves nothing but `made` bytes."""
        self._run(ledger, order, made).free(())

    def _sweep(
        self, ledger: Ledger, order: Order, wanted: Collection[str] | None
    ) -> Runner:
        """Run a forward pass and all factors, or as far as the arrays `wanted`."""
        steps, done = self._until(order, wanted)
        cuts = {self._until(order, arrays)[0] for arrays in order.leaves.values()}
        runner = self._apart(ledger, order, order.keep or (), steps, cuts=cuts, left=True)
        runner.free([name for name in order.keep or () if name in done])
        return runner

    def _until(self, order: Order, wanted: Collection[str] | None) -> tuple[int, set[str]]:
        """Return after how many functions and steps a sweep stops, and what is complete then."""
        groups, rest, shapes = self.drivers.divided(order, order.keep or ())
        later = self.drivers.planned(rest, shapes)[0].completed
        completed = [*(group.wanted for group in groups), *later]
        done = set(self.drivers.declared())
        for number, names in enumerate(completed):
            if wanted is not None and done.issuperset(wanted):
                return number, done
            done |= set(names)
        return len(completed), done

    def _copies(self, ledger: Ledger, copied: Collection[str] | None = None) -> None:
        """Note copies of the arrays, or of some, so that callers may change theirs."""
        for array in self.forms.program.arrays:
            if array.default is None and (copied is None or array.name in copied):
                axes = (BATCH, *array.axes) if array.batched else array.axes
                ledger.take(ledger.size(axes, whole=array.role == "index"))

    def _output(self, ledger: Ledger, name: str, *, copied: bool) -> None:
        """Note an output that is handed out beside what keeps it."""
        definition = self._definition(name)
        shared = self._is_shared(definition)
        if shared or copied:
            dims = [i.dim for i in definition.indices]
            ledger.take(ledger.size((BATCH, *dims) if shared else dims))

    def _handed(self, ledger: Ledger, runner: Runner, form: Form) -> None:
        """Note what a form hands out, repeated where the batch shares it."""
        table = {d.name: d for d in form.definitions}
        own = [r.array for r in form.results if not self._is_shared(table[r.array])]
        for result in form.results:
            if result.array not in own:
                dims = [i.dim for i in table[result.array].indices]
                ledger.take(ledger.size((BATCH, *dims)))
        runner.free(own)

    def _is_shared(self, definition: Definition) -> bool:
        return self.batched and self.forms.program.batch not in definition.indices

    def _definition(self, name: str) -> Definition:
        found = self.forms.program.definition(name)
        assert found is not None
        return found


def _arrays_of(blocks: Sequence[Structured]) -> set[str]:
    """Return the arrays that some derivatives are made of."""
    return {a for s in blocks for a in s.arrays}


__all__ = ["Accounts", "Spent"]
