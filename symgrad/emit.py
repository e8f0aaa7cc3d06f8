"""A standalone module as text: jinja2 lays out, Python decides.

Forms -> Source
The module imports numpy and numba only; equal layers give equal bytes on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from symgrad.captions import Caption, caption
from symgrad.door import door_lines, spec_lines
from symgrad.forms import Form, Forms, Structured
from symgrad.functions import HELPERS, PREAMBLE
from symgrad.layout import template
from symgrad.plan import plan
from symgrad.program import Array, Definition
from symgrad.version import __version__
from symgrad.write_driver import KernelBook, driver_steps, shape_text
from symgrad.write_kernel import code_name


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a generated module, and what readers of its results need to know."""

    name: str
    text: str
    captions: Mapping[tuple[str, str], Caption]


def emit(forms: Forms, *, docstring: str = "", options: Mapping[str, Any] | None = None, validation: Mapping[str, Any] | None = None) -> Source:
    """Return the module that evaluates all forms."""
    emitter = Emitter(forms)
    drivers = emitter.drivers()
    program = forms.program
    has_batch = any(a.batched for a in program.arrays)
    captions = {
        (s.jacobian.output, s.jacobian.parameter): caption(s, has_batch) for s in forms.structured
    }
    several = len(program.outputs) > 1
    def keyed(field_name: str) -> dict[Any, str]:
        return {
            (k if several else k[1]): getattr(c, field_name) for k, c in captions.items()
        }

    runtime = template("runtime.py.jinja").render(
        name=repr(program.name), spec_lines=spec_lines(program), uses_index=True
    )
    helpers = tuple(HELPERS[h].strip("\n") for h in emitter.book.helpers)
    text = template("module.py.jinja").render(
        name=program.name,
        docstring=docstring.strip("\n") + "\n" if "\n" in docstring else docstring,
        version=repr(__version__),
        layer=_literal(program.text),
        wrt=repr(tuple(forms.derivation.selection.names)),
        shapes=_table({a.name: _shape_names(a) for a in program.arrays}),
        structure=_table(keyed("structure")),
        factors=_table(keyed("formula")),
        options=_table(dict(options or {})),
        validation=_table(dict(validation or {})),
        preamble=PREAMBLE.strip("\n"),
        spec_lines=(),
        door_parameters=", ".join(code_name(a.name) for a in program.arrays),
        door_lines=door_lines(program, forms.domain is not None),
        drivers=tuple(drivers),
        publics=tuple(emitter.publics()),
        kernels=tuple(emitter.book.functions.values()),
        helpers=(*helpers, runtime.strip("\n")),
        several_note="",
    )
    return Source(program.name, text.rstrip("\n") + "\n", captions)


def _shape_names(array: Array) -> tuple[str, ...]:
    first = ("B",) if array.batched else ()
    return (*first, *(str(d) for d in array.axes))


def _literal(text: str) -> str:
    if '"""' in text or "\\" in text:
        return repr(text)
    return f'"""\\\n{text.rstrip()}\n"""' if text else '""'


def _table(entries: Mapping[Any, Any]) -> str:
    if not entries:
        return "{}"
    lines = "".join(f"    {key!r}: {value!r},\n" for key, value in entries.items())
    return "{\n" + lines + "}"


@dataclass(slots=True)
class Emitter:
    """Writes the drivers and the public functions of one module."""

    forms: Forms
    book: KernelBook = field(default_factory=KernelBook)

    def is_batched(self, form_definitions: Sequence[Definition], given: Sequence[Array]) -> Callable[[str], bool]:
        """Return a test for arrays that have the batch axis first."""
        batch = self.forms.program.batch
        table = {a.name: a.batched for a in (*self.forms.program.arrays, *given)}
        everything = (*self.forms.program.definitions, *self.forms.derivation.adjoints, *form_definitions)
        table.update({d.name: batch in d.indices for d in everything})
        return lambda name: table[name]

    @property
    def sizes(self) -> tuple[str, ...]:
        """Return the sizes every driver gets, the batch size first."""
        names = {n for a in self.forms.program.arrays for d in a.axes for n in d.names}
        names |= {n for a in self.forms.program.arrays if a.vocabulary for n in a.vocabulary.names}
        first = ("n_B",) if any(a.batched for a in self.forms.program.arrays) else ()
        return (*first, *(f"n_{n}" for n in sorted(names)))

    def opening(self, uses: str) -> list[str]:
        """Return the lines that unpack arrays and sizes, those only that `uses` mentions."""
        arrays = [code_name(a.name) for a in self.forms.program.arrays]
        lines = []
        if any(_mentions(uses, a) for a in arrays):
            lines.append(_unpack(arrays, uses) + " = arrays")
        if any(_mentions(uses, s) for s in self.sizes):
            lines.append(_unpack(self.sizes, uses) + " = sizes")
        return lines

    def body(
        self, definitions: Sequence[Definition], given: Sequence[Array] = (), made: Sequence[str] = ()
    ) -> list[tuple[tuple[str, ...], list[str]]]:
        """Return the steps of definitions as lines."""
        schedule = plan(definitions, self.forms.program.batch)
        return driver_steps(
            schedule, self.book, self.is_batched(definitions, given), {n: n for n in made}
        )

    def drivers(self) -> list[str]:
        """Return all private functions that run products and kernels."""
        texts = [self.forward(), self.sweep()]
        for structured in self.forms.structured:
            texts.append(self.expand(structured, structured.dense, "dense"))
            if structured.compact is not None:
                texts.append(self.expand(structured, structured.compact, "compact"))
        texts.append(self.record())
        texts.append(self.back(self.forms.vjp, "_back"))
        texts.append(self.back(self.forms.vjp_per_sample, "_back_per_sample"))
        texts.append(self.tangent())
        if self.forms.domain is not None:
            texts.append(self.domain(self.forms.domain))
        return texts

    def domain(self, form: Form) -> str:
        """Return the driver that refuses arrays outside the stated domains."""
        lines = [x for _, step in self.body(form.definitions) for x in step]
        for result in form.results:
            lines.append(f"_holds({code_name(result.array)}, {result.key[0]!r})")
        return self.function(
            "_domain", "arrays, sizes, dtype", "Refuse arrays for which an `assert` does not hold.", lines
        )

    def forward(self) -> str:
        """Return the driver of the outputs alone."""
        lines = [x for _, step in self.body(self.forms.forward.definitions) for x in step]
        lines.append(f"return {_returned(self.repeated(r.array) for r in self.forms.forward.results)}")
        return self.function("_forward", "arrays, sizes, dtype", "Return the outputs.", lines)

    def repeated(self, output: str) -> str:
        """Return an output's expression; what the batch shares is repeated for every sample."""
        program = self.forms.program
        definition = program.definition(output)
        assert definition is not None
        if program.batch in definition.indices or "n_B" not in self.sizes:
            return output
        return f"np.repeat({output}[np.newaxis], n_B, axis=0)"

    def sweep(self) -> str:
        """Return the driver of the forward pass and all factors, leaving as soon as it may."""
        wanted = {
            p: {a for s in self.forms.structured if s.jacobian.parameter == p for a in s.arrays}
            for p in self.forms.derivation.selection.names
        }
        declared = {a.name for a in self.forms.program.arrays}
        missing = {p: set(w) - declared for p, w in wanted.items()}
        shared = {f for w in wanted.values() for f in w} | set(self.forms.program.outputs)
        lines = ["v = {}"]
        for name in (a.name for a in self.forms.program.arrays):
            if name in shared:
                lines.append(f'v["{name}"] = {code_name(name)}')
        done: set[str] = set()
        left = dict(missing)
        lines += self._leave([p for p, w in left.items() if not w])
        left = {p: w for p, w in left.items() if w}
        for writes, step in self.body(self.forms.factors.definitions):
            lines += step
            done |= set(writes)
            for name in writes:
                if name in shared:
                    lines.append(f'v["{name}"] = {code_name(name)}')
            ready = [p for p, w in left.items() if w <= done]
            lines += self._leave(ready)
            left = {p: w for p, w in left.items() if p not in ready}
        if lines[-1] == "    return v":
            del lines[-2:]
        lines.append("return v")
        title = "Return the arrays that Jacobians are made of; `until` names one to stop at."
        return self.function("_sweep", "arrays, sizes, dtype, until=None", title, lines)

    @staticmethod
    def _leave(ready: Sequence[str]) -> list[str]:
        if not ready:
            return []
        test = f"until == {ready[0]!r}" if len(ready) == 1 else f"until in {tuple(ready)!r}"
        return [f"if {test}:", "    return v"]

    def expand(self, structured: Structured, definition: Definition, kind: str) -> str:
        """Return the driver that makes a Jacobian dense or compact from its factors."""
        name = definition.name
        steps = [x for _, step in self.body((definition,), made=(name,)) for x in step]
        text = "\n".join(steps)
        lines = [f'{code_name(a)} = v["{a}"]' for a in structured.arrays if _mentions(text, code_name(a)) and a not in
                 {x.name for x in self.forms.program.arrays}]
        shape = shape_text([i.dim for i in definition.indices])
        lines.append(f"{code_name(name)}, copied = _result(out, {shape}, dtype, single)")
        lines += steps
        lines.append(f"return _delivered({code_name(name)}, copied, out, single)")
        key = self.key(structured)
        return self.function(
            f"_{kind}_{key}", "arrays, sizes, dtype, v, single, out", f"Return {kind} d{structured.jacobian.output}/d{structured.jacobian.parameter}.", lines
        )

    def key(self, structured: Structured) -> str:
        """Return the part of a driver's name that tells Jacobians apart."""
        jacobian = structured.jacobian
        if len(self.forms.program.outputs) > 1:
            return f"{jacobian.output}_{jacobian.parameter}"
        return jacobian.parameter

    def record(self) -> str:
        """Return the driver of the forward pass that keeps what going back needs."""
        wanted = [*self.forms.saved, *self.forms.program.outputs]
        from symgrad.forms import needed

        definitions = needed(self.forms.program.definitions, wanted)
        lines = [x for _, step in self.body(definitions) for x in step]
        kept = ", ".join(f'"{n}": {code_name(n)}' for n in dict.fromkeys(wanted))
        lines.append(f"return {{{kept}}}")
        return self.function(
            "_record", "arrays, sizes, dtype", "Return the outputs and what the way back reads.", lines
        )

    def back(self, form: Form, name: str) -> str:
        """Return the backward half of a vector-Jacobian product."""
        own = {d.name for d in self.forms.program.definitions}
        definitions = [d for d in form.definitions if d.name not in own]
        steps = [x for _, step in self.body(definitions, form.given) for x in step]
        text = "\n".join(steps)
        lines = [f'{code_name(a)} = v["{a}"]' for a in self.forms.saved if _mentions(text, code_name(a))]
        lines += steps
        results = ", ".join(f'"{r.key[0]}": {code_name(r.array)}' for r in form.results)
        lines.append(f"return {{{results}}}")
        given = ", ".join(code_name(a.name) for a in form.given)
        return self.function(
            name, f"arrays, sizes, dtype, v, {given}", "Return {θ: gradient of u . y} from what was recorded.", lines
        )

    def tangent(self) -> str:
        """Return the driver of a Jacobian-vector product."""
        form = self.forms.jvp
        steps = [x for _, step in self.body(form.definitions, form.given) for x in step]
        names = self.forms.derivation.selection.names
        lines = [
            f'{code_name(a.name)} = t["{n}"]' for a, n in zip(form.given, names, strict=True)
            if _mentions("\n".join(steps), code_name(a.name))
        ]
        lines += steps
        lines.append(f"return {_returned(self.repeated_tangent(r.array) for r in form.results)}")
        return self.function("_tangent", "arrays, sizes, dtype, t", "Return J t.", lines)

    def repeated_tangent(self, name: str) -> str:
        """Return a tangent's expression, repeated where its output is."""
        definition = next(d for d in self.forms.jvp.definitions if d.name == name)
        name = code_name(name)
        if self.forms.program.batch in definition.indices or "n_B" not in self.sizes:
            return name
        return f"np.repeat({name}[np.newaxis], n_B, axis=0)"

    def function(self, name: str, parameters: str, title: str, lines: Sequence[str]) -> str:
        """Return a function's text; arrays and sizes are unpacked as far as the lines use them."""
        opening = self.opening("\n".join(lines))
        body = "\n".join(f"    {line}" for line in (*opening, *lines))
        return f'def {name}({parameters}):\n    """{title}"""\n{body}'

    def publics(self) -> list[str]:
        """Return the public functions."""
        from symgrad.publics import publics

        return publics(self.forms)


def _mentions(text: str, name: str) -> bool:
    import re

    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def _unpack(names: Sequence[str], uses: str) -> str:
    shown = [n if _mentions(uses, n) else "_" for n in names]
    return f"({shown[0]},)" if len(shown) == 1 else ", ".join(shown)


def _returned(values: Any) -> str:
    found = list(values)
    return f"({found[0]},)" if len(found) == 1 else ", ".join(found)


__all__ = ["Emitter", "Source", "emit"]
