"""The private functions of a generated module: each runs products and kernels for one form.

Forms -> text of functions, KernelBook
All take the checked arrays and their sizes as tuples and unpack what they use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from symgrad.algebra.declared import expand
from symgrad.algebra.order import needed
from symgrad.algebra.segments import Record, Run
from symgrad.algebra.weights import even_out
from symgrad.dims import Dim
from symgrad.form import Form, Forms, Structured
from symgrad.generation.analytic import real_only
from symgrad.generation.door import size_names
from symgrad.generation.fold import fold
from symgrad.generation.segments import run_lines
from symgrad.generation.shared import Needs, Shared, needs_of, shared
from symgrad.generation.wanted import guarded
from symgrad.generation.write_driver import KernelBook, driver_steps, shape_text, tuple_text
from symgrad.generation.write_kernel import code_name, dim_text, mentions
from symgrad.plan import plan, triangular
from symgrad.program import BATCH, Array, Definition, reads

Steps = list[tuple[tuple[str, ...], list[str]]]


@dataclass(slots=True)
class Drivers:
    """Writes the drivers of one module and collects their kernels."""

    forms: Forms
    book: KernelBook = field(default_factory=KernelBook)
    kept: dict[str, str] = field(default_factory=dict)
    needs: Needs = field(init=False)

    def __post_init__(self) -> None:
        """Ask whether the module may run on complex arrays, and what parameters determine."""
        self.book.analytic = real_only(self.forms) is None
        self.needs = needs_of(self.forms.program)

    def texts(self) -> list[str]:
        """Return all drivers, in the order in which the public functions need them."""
        texts = [self.forward(), self.sweep()]
        for structured in self.forms.structured:
            texts.append(self.expand(structured, structured.dense, "dense"))
            if structured.compact is not None:
                texts.append(self.expand(structured, structured.compact, "compact"))
        texts += [
            self.record(),
            self.back(self.forms.vjp, "_back"),
            self.back(self.forms.vjp_per_sample, "_back_per_sample"),
            self.tangent(),
        ]
        if self.forms.domain is not None:
            texts.append(self.domain(self.forms.domain))
        return [*texts, *self.kept.values()]

    def forward(self) -> str:
        """Return the driver of the outputs alone."""
        results = _results(self.forms.forward)
        steps = self.apart(self.forms.forward.definitions, handed=results, wanted=results)
        lines = [*_flat(steps), self.returned(self.forms.forward)]
        return self.function("_forward", "arrays, sizes, dtype", "Return the outputs.", lines)

    def sweep(self) -> str:
        """Return the driver of the forward pass and all factors, leaving as soon as it may."""
        wanted = {
            p: {a for s in self.forms.structured if s.jacobian.parameter == p for a in s.arrays}
            for p in self.forms.derivation.selection.names
        }
        kept = {a for arrays in wanted.values() for a in arrays} | set(self.forms.program.outputs)
        declared = self.declared()
        done: set[str] = set()
        lines = ["v = {}"]
        found = sorted(kept)
        steps = self.apart(self.forms.factors.definitions, keep=found, handed=found, wanted=found)
        for writes, step in [(declared, []), *steps]:
            lines += step
            lines += [f'v["{name}"] = {code_name(name)}' for name in writes if name in kept]
            done |= set(writes)
            ready = [p for p, arrays in wanted.items() if arrays <= done]
            wanted = {p: arrays for p, arrays in wanted.items() if p not in ready}
            lines += _leave(ready)
        if lines[-1] == "    return v":
            del lines[-2:]
        lines.append("return v")
        title = "Return the arrays that Jacobians are made of; `until` names one to stop at."
        return self.function("_sweep", "arrays, sizes, dtype, until=None", title, lines)

    def expand(self, structured: Structured, definition: Definition, kind: str) -> str:
        """Return the driver that makes a Jacobian dense or compact from its factors."""
        target = code_name(definition.name)
        steps = self.lines((definition,), made=(definition.name,))
        declared = self.declared()
        lines = self.recalled([a for a in structured.arrays if a not in declared], steps)
        shape = shape_text([i.dim for i in definition.indices])
        name = f"d{structured.jacobian.output}/d{structured.jacobian.parameter}"
        made = f'_result("{name}", out, {shape}, dtype, single, arrays)'
        lines.append(f"{target}, copied = {made}")
        lines += steps
        lines.append(f"return _delivered({target}, copied, out, single)")
        title = f"Return {kind} {name}."
        parameters = "arrays, sizes, dtype, v, single, out"
        return self.function(f"_{kind}_{structured.key}", parameters, title, lines)

    def record(self) -> str:
        """Return the driver of the forward pass that keeps what going back needs."""
        kept = tuple(dict.fromkeys((*self.forms.saved, *self.forms.program.outputs)))
        trade = self.forms.trade
        if trade is None:
            outputs = self.forms.program.outputs
            definitions = needed(self.forms.program.definitions, kept)
            lines = _flat(self.apart(definitions, handed=outputs, wanted=kept))
        else:
            lines = self.staged(trade.record)
        entries = ", ".join(f'"{n}": {code_name(n)}' for n in kept)
        lines.append(f"return {{{entries}}}")
        title = "Return the outputs and what the way back reads."
        return self.function("_record", "arrays, sizes, dtype", title, lines)

    def back(self, form: Form, name: str) -> str:
        """Return the backward half of a vector-Jacobian product."""
        own = {d.name for d in self.forms.program.definitions}
        trade = self.forms.trade
        if trade is None:
            going_back = [d for d in form.definitions if d.name not in own]
            results = _results(form)
            steps = self.apart(going_back, form.given, handed=results, wanted=results)
            names = {r.array: r.key[0] for r in form.results}
            several = len(names) > 1
            lines = guarded(steps, names) if several else _flat(steps)
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
        taps = self.forms.trade.taps if self.forms.trade else ()
        shapes = self.shapes(given) | {tap.name: tap.dims for tap in taps}
        for stage in stages:
            if isinstance(stage, Run):
                batch, saved = self.forms.program.batch, self.forms.saved
                lines += run_lines(stage, batch, shapes, self.book, saved)
                shapes |= {part.name: part.dims for part in stage.wholes}
                shapes |= {total.name: total.dims for total in stage.sums}
                shapes |= {tap.name: tap.dims for tap in stage.taps}
            else:
                lines += self.lines(stage, given, more=shapes)
                shapes |= {d.name: tuple(i.dim for i in d.indices) for d in stage}
        return lines

    def tangent(self) -> str:
        """Return the driver of a Jacobian-vector product."""
        form = self.forms.jvp
        results = _results(form)
        steps = _flat(self.apart(form.definitions, form.given, handed=results, wanted=results))
        lines = [
            f'{code_name(a.name)} = tangents["{name}"]'
            for a, name in zip(form.given, self.forms.derivation.selection.names, strict=True)
            if mentions("\n".join(steps), code_name(a.name))
        ]
        lines += [*steps, self.returned(form)]
        title = "Return J applied to tangents."
        return self.function("_tangent", "arrays, sizes, dtype, tangents", title, lines)

    def domain(self, form: Form) -> str:
        """Return the driver that refuses arrays outside the stated domains."""
        lines = self.lines(form.definitions)
        lines += [f"_holds({code_name(r.array)}, {r.key[0]!r})" for r in form.results]
        title = "Refuse arrays for which an `assert` does not hold."
        return self.function("_domain", "arrays, sizes, dtype", title, lines)

    # ------------------------------------------------------------ parts of drivers

    def apart(
        self,
        definitions: Sequence[Definition],
        given: Sequence[Array] = (),
        *,
        handed: Sequence[str],
        wanted: Collection[str],
        keep: Sequence[str] | None = None,
    ) -> Steps:
        """Return the steps of a form; what parameters determine has functions of its own.

        What such a function returns may be kept between calls. `wanted` are the arrays that are
        read after the form, `handed` those that are given to the caller.
        """
        program = self.forms.program
        ways = (self.forms.vjp, self.forms.vjp_per_sample, self.forms.jvp)
        own = {*program.outputs, *(name for form in ways for name in _results(form))}
        prepared, lower = self.prepared(definitions, given), triangular(program.definitions)
        axes = {n for n, dims in self.shapes(given).items() if dims}
        groups, rest = shared(prepared, self.needs, own, wanted, lower, axes)
        shapes = {d.name: tuple(i.dim for i in d.indices) for d in prepared}
        steps: Steps = [
            (group.wanted, [self.recall(group, given, shapes)]) for group in groups if group.wanted
        ]
        return [*steps, *self.planned(rest, given, keep=keep, handed=handed, more=shapes)]

    def recall(
        self, group: Shared, given: Sequence[Array], more: Mapping[str, tuple[Dim, ...]]
    ) -> str:
        """Return the line that takes what parameters determine from an earlier call, or makes it.

        Its function is noted; equal ones are one.
        """
        steps = self.planned(group.definitions, given, handed=group.wanted, more=more)
        lines = _flat(steps)
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

    def steps(
        self,
        definitions: Sequence[Definition],
        given: Sequence[Array] = (),
        made: Sequence[str] = (),
        keep: Sequence[str] | None = None,
        handed: Sequence[str] | None = None,
        more: Mapping[str, tuple[Dim, ...]] | None = None,
    ) -> Steps:
        """Return what each step of a form completes, and its lines; `made` exist already.

        With `keep`, the arrays wanted afterwards, others may be overwritten; with `handed`, those
        given to the caller, others may be views. `more` are the axes of further arrays it reads.
        """
        if more is None:  # a row that is computed again in segments may lie in no whole array
            definitions = self.prepared(definitions, given)
        else:
            definitions = expand(definitions, self.forms.program.declared)
        return self.planned(definitions, given, made, keep, handed, more)

    def prepared(
        self, definitions: Sequence[Definition], given: Sequence[Array]
    ) -> tuple[Definition, ...]:
        """Return definitions as they are planned, functions with stated slopes written out."""
        program = self.forms.program
        definitions = expand(definitions, program.declared)
        values = {d.name: d for d in program.definitions}
        known = {*self.shapes(given), *(d.name for d in definitions)}
        return tuple(even_out(definitions, values, known))

    def planned(
        self,
        definitions: Sequence[Definition],
        given: Sequence[Array] = (),
        made: Sequence[str] = (),
        keep: Sequence[str] | None = None,
        handed: Sequence[str] | None = None,
        more: Mapping[str, tuple[Dim, ...]] | None = None,
    ) -> Steps:
        """Return the steps of prepared definitions, see `steps`."""
        program = self.forms.program
        shapes = {**self.shapes(given), **(more or {})}
        lower = triangular(program.definitions)
        schedule = plan(definitions, program.batch, keep, shapes, handed, lower)
        shapes |= {d.name: tuple(i.dim for i in d.indices) for d in definitions}
        known = [a.name for a in (*self.forms.program.arrays, *given)]
        names = [*known, *(d.name for d in definitions), *self.forms.saved]
        taken = {code_name(n) for n in names}

        def is_batched(name: str) -> bool:
            return shapes[name][:1] == (BATCH,)

        return driver_steps(schedule, self.book, is_batched, {n: n for n in made}, taken)

    def lines(
        self,
        definitions: Sequence[Definition],
        given: Sequence[Array] = (),
        made: Sequence[str] = (),
        handed: Sequence[str] | None = None,
        more: Mapping[str, tuple[Dim, ...]] | None = None,
    ) -> list[str]:
        """Return the lines of all steps of a form."""
        steps = self.steps(definitions, given, made, handed=handed, more=more)
        return _flat(steps)

    def shapes(self, given: Sequence[Array]) -> dict[str, tuple[Dim, ...]]:
        """Return the axes of every array a form may read, the batch axis among them."""
        program = self.forms.program
        found = {
            a.name: (BATCH, *a.axes) if a.batched else a.axes for a in (*program.arrays, *given)
        }
        everything = (*program.definitions, *self.forms.factors.definitions)
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


def _flat(steps: Steps) -> list[str]:
    return [line for _, step in steps for line in step]


def _results(form: Form) -> tuple[str, ...]:
    return tuple(result.array for result in form.results)


def _leave(ready: Sequence[str]) -> list[str]:
    """Return the lines that stop a sweep asked for the parameters that are ready."""
    if not ready:
        return []
    names = ", ".join(f'"{p}"' for p in ready)
    test = f"until == {names}" if len(ready) == 1 else f"until in ({names})"
    return [f"if {test}:", "    return v"]


def _unpacked(names: Sequence[str], text: str) -> str:
    """Return a tuple of those names that the text mentions, `_` for others."""
    shown = [n if mentions(text, n) else "_" for n in names]
    return f"({shown[0]},)" if len(shown) == 1 else ", ".join(shown)


__all__ = ["Drivers"]
