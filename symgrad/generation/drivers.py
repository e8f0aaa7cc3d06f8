"""The private functions of a generated module: each runs products and kernels for one form.

Forms -> text of functions, KernelBook
All take the checked arrays and their sizes as tuples and unpack what they use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from symgrad.algebra.alternatives import alternatives, in_pairs
from symgrad.algebra.declared import expand
from symgrad.algebra.segments import Record, Run, Stage
from symgrad.algebra.weights import even_out
from symgrad.algebra.within import within
from symgrad.dims import Dim
from symgrad.form import Form, Forms, Structured
from symgrad.generation.ahead import ahead_texts
from symgrad.generation.analytic import real_only
from symgrad.generation.direct import direct, direct_text, is_shorter, together
from symgrad.generation.door import size_names
from symgrad.generation.drivers_twice import drivers_twice
from symgrad.generation.few import few
from symgrad.generation.fold import fold
from symgrad.generation.kernel_book import KernelBook
from symgrad.generation.order import Order
from symgrad.generation.orders import Orders, results_of
from symgrad.generation.pieces import PieceBook, Written
from symgrad.generation.segments import run_lines
from symgrad.generation.shared import Needs, Shared, needs_of, shared
from symgrad.generation.sweeps import sweep_text
from symgrad.generation.texts import shape_text, tuple_text
from symgrad.generation.wanted import guarded
from symgrad.generation.words import code_name, dim_text, mentions
from symgrad.generation.write_driver import driver_steps
from symgrad.generation.write_stream import Target
from symgrad.plan import plan, triangular
from symgrad.program import BATCH, Array, Definition, reads
from symgrad.schedule import Schedule

Steps = list[Written]
Shapes = dict[str, tuple[Dim, ...]]


@dataclass(slots=True)
class Drivers(Orders):
    """Writes the drivers of one module and collects their kernels."""

    forms: Forms
    book: KernelBook = field(default_factory=KernelBook)
    kept: dict[str, str] = field(default_factory=dict)
    needs: Needs = field(init=False)
    pieces: PieceBook = field(init=False)
    few: dict[str, str] = field(default_factory=dict)
    direct: dict[str, Definition] = field(init=False)
    shorter: bool = field(init=False)
    zeroed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Ask whether the module may run on complex arrays, and what parameters determine."""
        self.book.analytic = real_only(self.forms) is None
        self.needs = needs_of(self.forms.program)
        self.pieces = PieceBook(size_names(self.forms.program))
        self.direct = direct(self.forms)
        self.shorter = is_shorter(self.forms, self.direct)

    def texts(self) -> list[str]:
        """Return all drivers, in the order in which the public functions need them."""
        texts = [self.forward(), self.sweep()]
        for structured in self.forms.structured:
            texts.append(self.expand(structured, structured.dense, "dense"))
            if structured.compact is not None:
                texts.append(self.expand(structured, structured.compact, "compact"))
        texts += [*self.straight(), *ahead_texts(self)]
        texts += [
            self.record(),
            self.back(self.forms.vjp, "_back"),
            self.back(self.forms.vjp_per_sample, "_back_per_sample"),
            self.tangent("_tangent", self.of_tangent()),
        ]
        if self.forms.trade is None:
            texts.append(self.tangent("_onward", self.of_onward(), self.recorded()))
        if self.forms.curvature is not None:
            texts += drivers_twice(self, self.forms.curvature)
        if self.forms.domain is not None:
            texts.append(self.domain(self.forms.domain))
        drivers, self.few = few(self)
        texts += drivers
        return [*texts, *self.kept.values(), *self.pieces.functions.values()]

    def forward(self) -> str:
        """Return the driver of the outputs alone."""
        results = results_of(self.forms.forward)
        steps = self.apart(self.of_forward(), results)
        lines = [*self.pieces.lines(steps), self.returned(self.forms.forward)]
        return self.function("_forward", "arrays, sizes, dtype", "Return the outputs.", lines)

    def sweep(self) -> str:
        """Return the driver of the forward pass and all factors, leaving as soon as it may."""
        title = "Return the arrays that Jacobians are made of; `until` names one to stop at."
        return sweep_text(self, self.of_sweep(), "_sweep", title)

    def straight(self) -> list[str]:
        """Return the drivers of Jacobians that are made where they are asked for."""
        if not self.shorter:
            return []
        title = "Return the arrays that dense Jacobians are made of; `until` names one to stop at."
        texts = [sweep_text(self, self.of_sweep_dense(), "_sweep_dense", title)]
        for structured in self.forms.structured:
            definition = self.direct.get(structured.dense.name)
            if definition is not None:
                texts.append(self.expand(structured, definition, "direct"))
        joint = together(self.forms, self.direct)
        return [*texts, *([direct_text(self, joint)] if joint else [])]

    def expand(self, structured: Structured, definition: Definition, kind: str) -> str:
        """Return the driver that makes a Jacobian dense or compact from arrays of the sweep."""
        arrays = reads(definition) if kind == "direct" else structured.arrays
        target = code_name(definition.name)
        steps = self.lines(self.of_expand(definition))
        declared = self.declared()
        lines = self.recalled([a for a in dict.fromkeys(arrays) if a not in declared], steps)
        shape = shape_text([i.dim for i in definition.indices])
        name = structured.title
        steady, own = self.book.scatters.get(definition.name), f"_{kind}_{structured.key}"
        parameters, fresh = "arrays, sizes, dtype, v, single, out", ""
        if steady is not None:
            fresh = ", np.zeros"
            parameters += ", zeroed=False" if steady else ""
            self.zeroed |= {own} if steady else set()
        made = f'_result("{name}", out, {shape}, dtype, single, arrays{fresh})'
        lines.append(f"{target}, copied = {made}")
        if steady is not None:
            ahead = "zeroed or " if steady else ""
            lines.append(f"zeroed = {ahead}out is None or copied is not None")
        lines += steps
        lines.append(f"return _delivered({target}, copied, out, single)")
        title = f"Return {'dense' if kind == 'direct' else kind} {name}."
        return self.function(own, parameters, title, lines)

    def record(self) -> str:
        """Return the driver of the forward pass that keeps what going back needs."""
        kept, trade = self.recorded(), self.forms.trade
        if trade is None:
            lines = self.pieces.lines(self.apart(self.of_record(), kept))
        else:
            lines = self.staged(trade.record)
        entries = ", ".join(f'"{n}": {code_name(n)}' for n in kept)
        lines.append(f"return {{{entries}}}")
        title = "Return the outputs and what the way back reads."
        return self.function("_record", "arrays, sizes, dtype", title, lines)

    def back(self, form: Form, name: str) -> str:
        """Return the backward half of a vector-Jacobian product."""
        trade = self.forms.trade
        if trade is None:
            steps = self.apart(self.of_back(form), results_of(form))
            names = {r.array: r.key[0] for r in form.results}
            several = len(names) > 1
            write = self.pieces.lines
            lines = guarded(steps, names, write) if several else write(steps)
        else:
            stages, several = (trade.vjp if form.name == "vjp" else trade.vjp_per_sample), False
            lines = self.staged(stages, form.given)
        lines = [*self.recalled(self.forms.saved, lines), *lines]
        entries = ", ".join(f'"{r.key[0]}": {code_name(r.array)}' for r in form.results)
        value = "{n: found[n] for n in WRT if _wanted(only, n)}" if several else f"{{{entries}}}"
        if trade is not None and len(form.results) > 1:
            lines.append(f"found = {value}")
            value = "{n: g for n, g in found.items() if _wanted(only, n)}"
        lines.append(f"return {value}")
        given = ", ".join(code_name(a.name) for a in form.given)
        title = "Return {θ: gradient of u . y} from what was recorded."
        parameters = f"arrays, sizes, dtype, v, {self.only}{given}"
        return self.function(name, parameters, title, lines)

    @property
    def only(self) -> str:
        """Return the parameter that names the results wanted, if there are several."""
        return "only, " if len(self.forms.vjp.results) > 1 else ""

    def staged(self, stages: Record, given: Sequence[Array] = ()) -> list[str]:
        """Return the lines of definitions and of walks through segments, one after the other."""
        lines: list[str] = []
        for stage, shapes in self.one_by_one(stages, given):
            if isinstance(stage, Run):
                batch, saved = self.forms.program.batch, self.forms.saved
                lines += run_lines(stage, batch, shapes, self.book, saved)
            else:
                lines += self.lines(Order(stage, given), shapes)
        return lines

    def one_by_one(
        self, stages: Record, given: Sequence[Array] = ()
    ) -> Iterator[tuple[Stage, Shapes]]:
        """Yield stages in order, each with the axes of all arrays that exist before it."""
        taps = self.forms.trade.taps if self.forms.trade else ()
        shapes = self.shapes(given) | {tap.name: tap.dims for tap in taps}
        for stage in stages:
            yield stage, shapes
            if isinstance(stage, Run):
                shapes = shapes | {part.name: part.dims for part in stage.wholes}
                shapes |= {total.name: total.dims for total in stage.sums}
                shapes |= {tap.name: tap.dims for tap in stage.taps}
            else:
                shapes = shapes | {d.name: tuple(i.dim for i in d.indices) for d in stage}

    def tangent(self, name: str, order: Order, recorded: Collection[str] = ()) -> str:
        """Return the driver of a Jacobian-vector product, from what was recorded if anything."""
        form = self.forms.jvp
        steps = self.pieces.lines(self.apart(order, results_of(form)))
        lines = self.recalled(recorded, steps)
        lines += [
            f'{code_name(a.name)} = tangents["{name}"]'
            for a, name in zip(form.given, self.forms.derivation.selection.names, strict=True)
            if mentions("\n".join(steps), code_name(a.name))
        ]
        lines += [*steps, self.returned(form)]
        title, v = "Return J applied to tangents", ""
        if recorded:
            title, v = f"{title}, from what was recorded", "v, "
        return self.function(name, f"arrays, sizes, dtype, {v}tangents", f"{title}.", lines)

    def domain(self, form: Form) -> str:
        """Return the driver that refuses arrays outside the stated domains."""
        lines = self.lines(Order(form.definitions))
        lines += [f"_holds({code_name(r.array)}, {r.key[0]!r})" for r in form.results]
        title = "Refuse arrays for which an `assert` does not hold."
        return self.function("_domain", "arrays, sizes, dtype", title, lines)

    # ------------------------------------------------------------ what each driver computes

    def schedule(self, order: Order, more: Mapping[str, tuple[Dim, ...]] | None = None) -> Schedule:
        """Return the steps of a driver; `more` are the axes of further arrays it reads."""
        return self.scheduled(order, more)[0]

    def scheduled(
        self, order: Order, more: Mapping[str, tuple[Dim, ...]] | None = None
    ) -> tuple[Schedule, Shapes]:
        """Return the steps of a driver, and the axes of all arrays that stand in them."""
        if more is None:  # a row that is computed again in segments may lie in no whole array
            return self.planned(self.prepared(order))
        program = self.forms.program
        definitions = within(expand(order.definitions, program.declared), program)
        definitions = in_pairs(definitions, {*self.shapes(order.given), *more})
        return self.planned(replace(order, definitions=definitions), more)

    def prepared(self, order: Order) -> Order:
        """Return what to compute as it is planned, functions with stated slopes written out."""
        program = self.forms.program
        definitions = within(expand(order.definitions, program.declared), program)
        values = {d.name: d for d in program.definitions}
        known = {*self.shapes(order.given), *(d.name for d in definitions)}
        return replace(order, definitions=in_pairs(even_out(definitions, values, known), known))

    def apart(self, order: Order, wanted: Collection[str]) -> Steps:
        """Return the steps of a form; what parameters determine has functions of its own.

        What such a function returns may be kept between calls. `wanted` are the arrays that are
        read after the form.
        """
        groups, rest, shapes = self.divided(order, wanted)
        steps: Steps = [
            Written(tuple(group.wanted), (), (self.recall(group, order.given, shapes),))
            for group in groups
        ]
        return [*steps, *self.written(rest, *self.planned(rest, shapes))]

    def divided(
        self, order: Order, wanted: Collection[str]
    ) -> tuple[list[Shared], Order, Shapes]:
        """Return the groups that parameters determine, the rest, and the axes of them all."""
        program, order = self.forms.program, self.prepared(order)
        ways = (self.forms.vjp, self.forms.vjp_per_sample, self.forms.jvp)
        own = {*program.outputs, *(name for form in ways for name in results_of(form))}
        axes = {n for n, dims in self.shapes(order.given).items() if dims}
        lower = triangular(program.definitions)
        groups, rest = shared(order.definitions, self.needs, own, wanted, lower, axes)
        shapes = {d.name: tuple(i.dim for i in d.indices) for d in order.definitions}
        return [g for g in groups if g.wanted], replace(order, definitions=rest), shapes

    def recall(
        self, group: Shared, given: Sequence[Array], more: Mapping[str, tuple[Dim, ...]]
    ) -> str:
        """Return the line that takes what parameters determine from an earlier call, or makes it.

        Its function is noted; equal ones are one.
        """
        order = Order(group.definitions, given, handed=group.wanted)
        lines = self.pieces.lines(self.written(order, *self.planned(order, more)))
        names = [code_name(n) for n in group.wanted]
        target = ", ".join(names)
        lines.append(f"return {target}")
        text = "\n".join(lines)
        inside = {d.name for d in group.definitions}
        read = dict.fromkeys(n for d in group.definitions for n in reads(d) if n not in inside)
        others = [code_name(n) for n in read if n not in self.declared()]
        parameters = ", ".join(("arrays", "sizes", "dtype", *others))
        title = f"Return what {', '.join(group.needs) or 'sizes'} alone determine."
        if len(group.needs) == 1:
            title = title.replace("determine", "determines")
        body = self.function("_shared", parameters, title, lines)
        if body not in self.kept:
            wish = number = f"_shared_{group.wanted[-1]}"
            count = 1
            while any(t.startswith(f"def {number}(") for t in self.kept.values()):
                count += 1
                number = f"{wish}_{count}"
            self.kept[body] = self.function(number, parameters, title, lines)
        name = self.kept[body].removeprefix("def ").partition("(")[0]
        sizes = [n for n in size_names(self.forms.program) if mentions(text, n)]
        key = tuple_text([*sizes, "dtype"])
        needs = tuple_text([f'"{n}"' for n in group.needs]) if group.needs else "()"
        return f"{target} = _kept({needs}, {key}, {name}, {parameters})"

    def planned(
        self, order: Order, more: Mapping[str, tuple[Dim, ...]] | None = None
    ) -> tuple[Schedule, Shapes]:
        """Return the steps of what is prepared, and the axes of all arrays that stand in them."""
        program, definitions = self.forms.program, order.definitions
        shapes = {**self.shapes(order.given), **(more or {})}
        lower = triangular(program.definitions)
        ways = alternatives(definitions, shapes)
        everything = [d for found in ways.values() for way in found for d in way.definitions]
        shapes |= {d.name: tuple(i.dim for i in d.indices) for d in (*everything, *definitions)}
        schedule = plan(
            definitions, program.batch, order.keep, shapes, order.handed, lower, ways=ways
        )
        return schedule, shapes

    # ------------------------------------------------------------ parts of drivers

    def steps(self, order: Order, more: Mapping[str, tuple[Dim, ...]] | None = None) -> Steps:
        """Return what each step of a driver completes, and its lines."""
        return self.written(order, *self.scheduled(order, more))

    def written(self, order: Order, schedule: Schedule, shapes: Shapes) -> Steps:
        """Return what each step of a schedule completes, and its lines."""
        known = [a.name for a in (*self.forms.program.arrays, *order.given)]
        names = [*known, *(b.name for b in schedule.buffers), *self.forms.saved]
        taken = {code_name(n) for n in names}

        def is_batched(name: str) -> bool:
            return shapes[name][:1] == (BATCH,)

        self.book.shapes = shapes
        past = None
        if order.made:
            past = Target(order.made[0], shapes[order.made[0]], order.zeroed)
        made = {n: n for n in order.made}
        return driver_steps(schedule, self.book, is_batched, made, taken, past)

    def lines(
        self, order: Order, more: Mapping[str, tuple[Dim, ...]] | None = None
    ) -> list[str]:
        """Return the lines of all steps of a driver."""
        return self.pieces.lines(self.steps(order, more))

    def shapes(self, given: Sequence[Array]) -> dict[str, tuple[Dim, ...]]:
        """Return the axes of every array a form may read, the batch axis among them."""
        program = self.forms.program
        found = {
            a.name: (BATCH, *a.axes) if a.batched else a.axes for a in (*program.arrays, *given)
        }
        curvature = self.forms.curvature
        second = () if curvature is None else curvature.factors.definitions
        everything = (*program.definitions, *self.forms.factors.definitions, *second)
        found |= {t.name: (Dim.of(len(t.values)),) for t in program.tables}
        return found | {d.name: tuple(i.dim for i in d.indices) for d in everything}

    def declared(self) -> tuple[str, ...]:
        """Return the names of the arrays that are there from the start."""
        program = self.forms.program
        return (*(a.name for a in program.arrays), *(t.name for t in program.tables))

    def recalled(self, names: Iterable[str], steps: Sequence[str]) -> list[str]:
        """Return the lines that take arrays out of `v`, those only that the steps read."""
        text = "\n".join(steps)
        return [f'{code_name(n)} = v["{n}"]' for n in names if mentions(text, code_name(n))]

    def returned(self, form: Form) -> str:
        """Return the line that hands out the results, repeated where the batch shares them."""
        table = {d.name: d for d in form.definitions}
        has_batch = any(a.batched for a in self.forms.program.arrays)
        values = []
        for result in form.results:
            name = code_name(result.array)
            alone = has_batch and self.forms.program.batch not in table[result.array].indices
            values.append(f"_repeated({name}, n_B)" if alone else name)
        return f"return ({values[0]},)" if len(values) == 1 else f"return {', '.join(values)}"

    def function(self, name: str, parameters: str, title: str, lines: Sequence[str]) -> str:
        """Return a function's text; arrays and sizes are unpacked as far as the lines use them."""
        text = "\n".join(lines)
        arrays = [code_name(a.name) for a in self.forms.program.arrays]
        tables = [t for t in self.forms.program.tables if mentions(text, code_name(t.name))]
        ends = [(code_name(t.name), dim_text(t.dim)) for t in tables if min(t.values) < 0]
        counted = [f"{table} = _counted(_{table}, {size})" for table, size in ends]
        text = "\n".join((*counted, text))
        opening = [
            f"{_unpacked(names, text)} = {group}"
            for names, group in ((arrays, "arrays"), (size_names(self.forms.program), "sizes"))
            if any(mentions(text, n) for n in names)
        ]
        body = (fold(f"    {line}") for line in (*opening, *counted, *lines))
        return "\n".join((fold(f"def {name}({parameters}):"), f'    """{title}"""', *body))


def _unpacked(names: Sequence[str], text: str) -> str:
    """Return a tuple of those names that the text mentions, `_` for others."""
    shown = [n if mentions(text, n) else "_" for n in names]
    return f"({shown[0]},)" if len(shown) == 1 else ", ".join(shown)


__all__ = ["Drivers"]
