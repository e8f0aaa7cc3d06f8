"""The functions a generated module offers: doors around its drivers.

Forms -> text of functions
Every one checks its arrays, runs a driver, and takes the batch axis off again for one sample.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.captions import caption
from symgrad.forms import Factor, Forms, Structured
from symgrad.program import Array, Index


def publics(forms: Forms) -> list[str]:
    """Return the text of every public function."""
    writer = Publics(forms)
    texts = [writer.forward()]
    for parameter in forms.derivation.selection.names:
        texts += writer.jacobians(parameter)
    texts += [
        writer.jacobian(), writer.vjp("vjp", "_back"),
        writer.vjp("vjp_per_sample", "_back_per_sample"),
        "per_sample_vjp = vjp_per_sample", writer.jvp(), writer.pullback(),
    ]
    return texts


class Publics:
    """Writes public functions; knows the names that the layer's own arrays take away."""

    def __init__(self, forms: Forms) -> None:
        self.forms = forms
        program = forms.program
        self.arrays = program.arrays
        self.names = [a.name for a in program.arrays]
        self.outputs = program.outputs
        self.several = len(self.outputs) > 1
        self.batched = any(a.batched for a in program.arrays)

    def parameters(self, more: Sequence[str] = (), keywords: Sequence[str] = ()) -> str:
        """Return the signature: arrays, further positional ones, then keywords and defaults."""
        plain = [a.name for a in self.arrays if a.default is None]
        defaults = [f"{a.name}={a.default!r}" for a in self.arrays if a.default is not None]
        positional = [*plain, *more]
        if more:
            positional.append("/")
        keyword_only = [*keywords, *defaults]
        if keyword_only:
            positional.append("*")
        return ", ".join((*positional, *keyword_only))

    def own(self, wish: str) -> str:
        """Return a name for our own argument or variable that no array of the layer has."""
        while wish in self.names:
            wish += "_"
        return wish

    def door(self) -> str:
        """Return the line that checks the arguments."""
        return f"arrays, sizes, dtype, single = _door({', '.join(self.names)})"

    def function(self, name: str, signature: str, doc: Sequence[str], lines: Sequence[str]) -> str:
        """Return a function's text."""
        text = doc[0] if len(doc) == 1 else doc[0] + "\n\n    " + "\n    ".join(doc[1:]) + "\n    "
        body = "\n".join(f"    {line}" for line in lines)
        return f'def {name}({signature}):\n    """{text}"""\n{body}'

    def shape(self, indices: Sequence[Index]) -> str:
        """Return a shape for a docstring."""
        first = ["B"] if self.batched else []
        return f"[{', '.join((*first, *(str(i.dim) for i in indices)))}]"

    def out_shape(self, output: str) -> str:
        """Return an output's shape as code over the sizes."""
        from symgrad.write_driver import shape_text

        definition = self.forms.program.definition(output)
        assert definition is not None
        batch = self.forms.program.batch
        own = [i.dim for i in definition.indices if i != batch]
        return shape_text(([batch.dim] if self.batched else []) + own)

    def result_text(self, expressions: Sequence[str]) -> str:
        """Return one expression, or a tuple of one an output."""
        return ", ".join(expressions)

    def forward(self) -> str:
        """Return the text of `forward`."""
        shapes = [f"{o}{self.shape(self.own_indices(o))}" for o in self.outputs]
        lines = [self.door(), "outputs = _forward(arrays, sizes, dtype)"]
        if self.batched:
            lines += ["if single:", "    outputs = tuple(y[0] for y in outputs)"]
        lines.append("return outputs" if self.several else "return outputs[0]")
        return self.function("forward", self.parameters(), [f"Return {', '.join(shapes)}."], lines)

    def own_indices(self, output: str) -> tuple[Index, ...]:
        """Return an output's indices without the batch."""
        definition = self.forms.program.definition(output)
        assert definition is not None
        return tuple(i for i in definition.indices if i != self.forms.program.batch)

    def of(self, parameter: str) -> list[Structured]:
        """Return the Jacobians of all outputs with respect to one array."""
        return [s for s in self.forms.structured if s.jacobian.parameter == parameter]

    def jacobians(self, parameter: str) -> list[str]:
        """Return `jac_θ`, `jac_θ_compact` where there are zeros, and `jac_θ_factors`."""
        structured = self.of(parameter)
        texts = [self.expanded(parameter, structured, "dense", self.form_name(parameter, ""))]
        if all(s.compact is not None for s in structured):
            name = self.form_name(parameter, "_compact")
            texts.append(self.expanded(parameter, structured, "compact", name))
        texts.append(self.factors(parameter, structured))
        return texts

    def form_name(self, parameter: str, suffix: str) -> str:
        """Return `jac_W_compact`, moved aside if an array is called `W_compact`."""
        name = f"jac_{parameter}{suffix}"
        taken = {f"jac_{n}" for n in self.names} if suffix else set()
        while name in taken:
            name += "_"
        return name

    def key(self, structured: Structured) -> str:
        """Return the part of a driver's name that tells Jacobians apart."""
        jacobian = structured.jacobian
        return f"{jacobian.output}_{jacobian.parameter}" if self.several else jacobian.parameter

    def expanded(
        self, parameter: str, structured: Sequence[Structured], kind: str, name: str
    ) -> str:
        """Return the text of a dense or compact Jacobian's function."""
        doc = []
        for s in structured:
            words = caption(s, self.batched)
            if kind == "dense":
                indices = (*s.jacobian.out, *s.jacobian.theta)
                doc.append(f"Return d{s.jacobian.output}/d{parameter}, {self.shape(indices)}.")
                doc.append(f"Entry [{', '.join(words.axes)}] = {words.formula}.")
            else:
                indices = (*s.jacobian.out, *s.untied)
                doc.append(
                    f"Return the entries of d{s.jacobian.output}/d{parameter} that are not "
                    f"structurally zero, {self.shape(indices)}."
                )
                doc.append(f"The Jacobian is {words.structure}.")
        out = self.own("out")
        lines = [self.door(), f'v = _sweep(arrays, sizes, dtype, "{parameter}")']
        if self.several:
            count = len(structured)
            lines.append(f"outs = (None,) * {count} if {out} is None else {out}")
            calls = [
                f"_{kind}_{self.key(s)}(arrays, sizes, dtype, v, single, outs[{n}])"
                for n, s in enumerate(structured)
            ]
            lines += ["return (", *(f"    {c}," for c in calls), ")"]
        else:
            key = self.key(structured[0])
            lines.append(f"return _{kind}_{key}(arrays, sizes, dtype, v, single, {out})")
        return self.function(name, self.parameters(keywords=[f"{out}=None"]), doc, lines)

    def factors(self, parameter: str, structured: Sequence[Structured]) -> str:
        """Return the text of `jac_θ_factors`."""
        doc = [f"Return the factors of the Jacobian with respect to {parameter}, by name."]
        tables = []
        for s in structured:
            words = caption(s, self.batched)
            doc.append(f"d{s.jacobian.output}/d{parameter} = {words.formula}.")
            entries = []
            for term in s.terms:
                for factor in term.factors:
                    value = self.factor_text(factor)
                    entries.append(f'"{factor.label}": {value}')
            tables.append("{" + ", ".join(entries) + "}")
        lines = [self.door(), f'v = _sweep(arrays, sizes, dtype, "{parameter}")']
        used = " ".join(tables)
        if "n_" in used:
            sizes = [n for n in self.size_names()]
            shown = ", ".join(sizes) + ("," if len(sizes) == 1 else "")
            lines.append(f"{shown} = sizes")
        if self.several:
            lines += ["return (", *(f"    {t}," for t in tables), ")"]
        else:
            lines.append(f"return {tables[0]}")
        return self.function(self.form_name(parameter, "_factors"), self.parameters(), doc, lines)

    def size_names(self) -> list[str]:
        """Return the sizes in the order the door gives them."""
        from symgrad.emit import Emitter

        return list(Emitter(self.forms).sizes)

    def factor_text(self, factor: Factor) -> str:
        """Return the expression of one factor; ones and repetitions take no memory."""
        from symgrad.write_driver import shape_text

        shape = shape_text([i.dim for i in factor.indices])
        if factor.array is None:
            text = f"_ones({shape}, dtype)"
        else:
            text = f'v["{factor.array}"]'
            if factor.spread:
                kept = ", ".join("None" if i in factor.spread else ":" for i in factor.indices)
                text = f"np.broadcast_to({text}[{kept}], {shape})"
        if self.forms.program.batch in factor.indices:
            return f"({text}[0] if single else {text})"
        return text

    def jacobian(self) -> str:
        """Return the text of `jacobian`: all dense Jacobians from one pass."""
        lines = [self.door(), "v = _sweep(arrays, sizes, dtype)", "return {"]
        for s in self.forms.structured:
            jacobian = s.jacobian
            key = f'("{jacobian.output}", "{jacobian.parameter}")' if self.several else f'"{jacobian.parameter}"'
            lines.append(f"    {key}: _dense_{self.key(s)}(arrays, sizes, dtype, v, single, None),")
        lines.append("}")
        doc = ["Return all dense Jacobians by name, from one forward pass."]
        return self.function("jacobian", self.parameters(), doc, lines)

    def seeds(self) -> list[str]:
        """Return the names of the given vectors, one an output."""
        if not self.several:
            return [self.own("u")]
        return [self.own(f"u_{o}") for o in self.outputs]

    def seed_lines(self, u: str) -> list[str]:
        """Return the line that checks `u` (a tuple for several outputs)."""
        shapes = "".join(f"{self.out_shape(o)}, " for o in self.outputs).rstrip(" ")
        return [f"vectors = _cotangents({u}, ({shapes}), dtype, single)"]

    def sizes_line(self, text: str) -> list[str]:
        """Return the line that unpacks the sizes if the text needs them."""
        names = self.size_names()
        if not names or not any(n in text for n in names):
            return []
        return [f"{', '.join(names)}{',' if len(names) == 1 else ''} = sizes"]

    def vjp(self, name: str, driver: str) -> str:
        """Return the text of `vjp` or `vjp_per_sample`."""
        u = self.own("u")
        per_sample = name != "vjp"
        checks = self.seed_lines(u)
        lines = [
            self.door(), *self.sizes_line(" ".join(checks)), *checks,
            "v = _record(arrays, sizes, dtype)",
            f"found = {driver}(arrays, sizes, dtype, v, *vectors)",
        ]
        lines += self.leaving(per_sample)
        what = "for every sample" if per_sample else "summed over samples and outputs"
        doc = [f"Return {{θ: gradient of u . y}}, {what} (inputs keep the batch axis)."]
        return self.function(name, self.parameters([u]), doc, lines)

    def leaving(self, per_sample: bool) -> list[str]:
        """Return the lines that take the batch axis off where one sample was given."""
        if not self.batched:
            return ["return found"]
        names = self.forms.derivation.selection.names
        table = {a.name: a for a in self.arrays}
        which = [n for n in names if per_sample or table[n].batched]
        if not which:
            return ["return found"]
        if len(which) == len(names):
            return ["return {n: g[0] for n, g in found.items()} if single else found"]
        return [
            "if single:",
            f"    found.update({{n: found[n][0] for n in {tuple(which)!r}}})",
            "return found",
        ]

    def tangent_lines(self, tangents: str) -> list[str]:
        """Return the lines that check the tangents and fill in zeros."""
        entries = []
        for name in self.forms.derivation.selection.names:
            array = next(a for a in self.arrays if a.name == name)
            single = "single" if array.batched else "False"
            entries.append(f'    "{name}": ({self.array_shape(array)}, {single}),')
        return [f"t = _tangents({tangents}, dtype, {{", *entries, "})"]

    def array_shape(self, array: Array) -> str:
        """Return the shape of a declared array as code."""
        from symgrad.write_driver import shape_text

        first = [self.forms.program.batch.dim] if array.batched else []
        return shape_text([*first, *array.axes])

    def jvp(self) -> str:
        """Return the text of `jvp`."""
        tangents = self.own("tangents")
        checks = self.tangent_lines(tangents)
        lines = [
            self.door(), *self.sizes_line(" ".join(checks)), *checks,
            "outputs = _tangent(arrays, sizes, dtype, t)",
        ]
        if self.batched:
            lines += ["if single:", "    outputs = tuple(y[0] for y in outputs)"]
        lines.append("return outputs" if self.several else "return outputs[0]")
        doc = ["Return J t for tangents {θ: array like θ}; missing ones are zero."]
        return self.function("jvp", self.parameters([tangents]), doc, lines)

    def pullback(self) -> str:
        """Return the text of `pullback`."""
        checks = self.seed_lines("u")
        outputs = ", ".join(self.repeated(o) for o in self.outputs)
        lines = [
            self.door(),
            *self.sizes_line(" ".join(checks) + outputs),
            "v = _record(arrays, sizes, dtype)",
            f"outputs = ({outputs},)",
        ]
        if self.batched:
            lines += ["if single:", "    outputs = tuple(y[0] for y in outputs)"]
        lines += [
            "",
            "def pull(u):",
            '    """Return {θ: gradient of u . y}; no definition is evaluated again."""',
            *(f"    {x}" for x in checks),
            f"    found = _back(arrays, sizes, dtype, v, *vectors)",
            *(f"    {x}" for x in self.leaving(False)),
            "",
            f"return {'outputs' if self.several else 'outputs[0]'}, pull",
        ]
        doc = ["Return the outputs and a function from u to {θ: gradient of u . y}."]
        return self.function("pullback", self.parameters(), doc, lines).replace("\n    \n", "\n\n")

    def repeated(self, output: str) -> str:
        """Return an output kept by `_record`, repeated where the batch shares it."""
        definition = self.forms.program.definition(output)
        assert definition is not None
        if self.forms.program.batch in definition.indices or not self.batched:
            return f'v["{output}"]'
        return f'_repeated(v["{output}"], n_B)'
