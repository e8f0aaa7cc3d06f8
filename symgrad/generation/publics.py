"""The functions a generated module offers: doors around its drivers.

Forms -> text of functions
Every one checks its arrays, runs a driver, and takes the batch axis off again for one sample.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from symgrad.form import Factor, Forms, Structured
from symgrad.generation.ahead import costs_text, or_ahead
from symgrad.generation.captions import caption
from symgrad.generation.direct import direct, is_shorter, together
from symgrad.generation.door import size_names
from symgrad.generation.fold import fold, fold_prose
from symgrad.generation.texts import shape_text, tuple_text
from symgrad.generation.words import mentions
from symgrad.program import Affine, Array, Index, Lookup


def publics(forms: Forms, few: Mapping[str, str], zeroed: Collection[str]) -> list[str]:
    """Return the text of every public function.

    `few` are the drivers for few samples, with the elements of one sample; those in `zeroed` take
    an array that has its zeros already.
    """
    writer = Publics(forms, few, zeroed)
    texts = [writer.forward()]
    for parameter in forms.derivation.selection.names:
        texts += writer.jacobians(parameter)
    texts += [
        writer.jacobian(), writer.vjp("vjp", "_back"),
        writer.vjp("vjp_per_sample", "_back_per_sample"),
        "per_sample_vjp = vjp_per_sample", writer.jvp(), writer.pullback(),
    ]
    return texts


def form_names(forms: Forms, parameters: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the names of the functions that some parameters have, with those and the form."""
    arrays = [a.name for a in forms.program.arrays]
    sparse = {s.jacobian.parameter for s in forms.structured if s.sparse}
    kinds = {"dense": "", "compact": "_compact", "factors": "_factors"}
    return {
        _form_name(p, suffix, arrays): (p, kind)
        for p in parameters
        for kind, suffix in kinds.items()
        if kind != "compact" or p in sparse
    }


def _form_name(parameter: str, suffix: str, arrays: Sequence[str]) -> str:
    return "jac_" + (own_name(parameter + suffix, arrays) if suffix else parameter)


def own_name(wish: str, arrays: Sequence[str]) -> str:
    """Return `wish`, with `_` behind it as often as an array of the layer has that name."""
    while wish in arrays:
        wish += "_"
    return wish


def _noun(structured: Structured) -> str:
    return "second derivative" if structured.jacobian.beside else "Jacobian"


class Publics:
    """Writes public functions; knows the names that the layer's own arrays take away."""

    def __init__(
        self, forms: Forms, few: Mapping[str, str] | None = None, zeroed: Collection[str] = ()
    ) -> None:
        self.forms = forms
        self.zeroed = zeroed
        self.few = few or {}
        self.direct = direct(forms)
        self.shorter = is_shorter(forms, self.direct)
        program = forms.program
        self.arrays = program.arrays
        self.names = [a.name for a in program.arrays]
        self.outputs = program.outputs
        self.several = len(self.outputs) > 1
        self.batched = any(a.batched for a in program.arrays)
        self.inputs = [
            a.name for a in program.arrays
            if a.batched and a.name in forms.derivation.selection.names
        ]  # fmt: skip

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
        """Return a name for our own argument that no array of the layer has."""
        return own_name(wish, self.names)

    def door(self, text: str) -> str:
        """Return the line that checks the arguments and keeps what the text needs."""
        kept = ("arrays", "sizes", "dtype", "single")
        shown = ", ".join(n if mentions(text, n) else "_" for n in kept)
        return f"{shown} = _door({', '.join(self.names)})"

    def function(self, name: str, signature: str, doc: Sequence[str], lines: Sequence[str]) -> str:
        """Return a function's text; it goes through the door first."""
        text = fold_prose("\n".join((doc[0], "", *doc[1:], "")), "    ") if doc[1:] else doc[0]
        text = re.sub(r"^ +\n", "\n", text, flags=re.MULTILINE)
        opened = (self.door("\n".join(lines)), *lines)
        body = (fold(f"    {line}") if line else "" for line in opened)
        return "\n".join((fold(f"def {name}({signature}):"), f'    """{text}"""', *body))

    def shape(self, indices: Sequence[Index]) -> str:
        """Return a shape for a docstring."""
        first = ["B"] if self.batched else []
        return f"[{', '.join((*first, *(str(i.dim) for i in indices)))}]"

    def out_shape(self, output: str) -> str:
        """Return an output's shape as code over the sizes."""
        definition = self.forms.program.definition(output)
        assert definition is not None
        batch = self.forms.program.batch
        own = [i.dim for i in definition.indices if i != batch]
        return shape_text(([batch.dim] if self.batched else []) + own)

    def forward(self) -> str:
        """Return the text of `forward`."""
        shapes = [f"{o}{self.shape(self.own_indices(o))}" for o in self.outputs]
        lines = [self.unbatched("_forward(arrays, sizes, dtype)")]
        lines.append("return outputs" if self.several else "return outputs[0]")
        return self.function("forward", self.parameters(), [f"Return {', '.join(shapes)}."], lines)

    def unbatched(self, outputs: str) -> str:
        """Return the line that takes the batch axis off the outputs where one sample was given."""
        return f"outputs = {f'_unbatched({outputs}, single)' if self.batched else outputs}"

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
        return self.blocks(structured, "_sweep", lambda suffix: self.form_name(parameter, suffix))

    def blocks(
        self, structured: Sequence[Structured], sweep: str, named: Callable[[str], str]
    ) -> list[str]:
        """Return the three functions of the same derivative of every output."""
        texts = [self.expanded(structured, "dense", named(""), sweep)]
        if any(s.sparse for s in structured):
            texts.append(self.expanded(structured, "compact", named("_compact"), sweep))
        return [*texts, self.factors(structured, named("_factors"), sweep)]

    def form_name(self, parameter: str, suffix: str) -> str:
        """Return `jac_W_compact`, moved aside if an array is called `W_compact`."""
        return _form_name(parameter, suffix, self.names)

    def expanded(
        self, structured: Sequence[Structured], kind: str, name: str, sweep: str
    ) -> str:
        """Return the text of a dense or compact derivative's function."""
        doc = []
        for s in structured:
            words = caption(s, 0 if self.batched else None)
            if kind == "dense" or s.compact is None:
                indices = (*s.jacobian.out, *s.jacobian.axes)
                doc.append(f"Return {s.title}, {self.shape(indices)}.")
                doc.append(f"Entry [{', '.join(words.axes)}] = {words.formula}.")
            else:
                indices = (*s.free, *s.untied)
                doc.append(
                    f"Return the entries of {s.title} that are not "
                    f"structurally zero, {self.shape(indices)}."
                )
                doc.append(f"The {_noun(s)} is {words.structure}.")
            doc.append(f"Axes {words.layout}.")
        out = self.own("out")
        drivers = [f"_{'dense' if s.compact is None else kind}_{s.key}" for s in structured]
        if kind == "dense" and sweep == "_sweep" and self.shorter:
            drivers, sweep = [self.driver(s) for s in structured], "_sweep_dense"
        lines = [f'v = {sweep}(arrays, sizes, dtype, "{structured[0].pair}")']
        zeroed, flag = self.own("zeroed"), ""
        if kind == "dense" and not self.several and drivers[0] in self.zeroed:
            flag = f", {zeroed}"
            doc.append(f"With {zeroed}=True, zeros of the structure are not written: out has them,")
            doc.append("as an earlier call left it.")
        if self.several:
            outs = f"outs = _outs({out}, {len(structured)})"
            lines = [outs, "arrays = _unlike_outs(arrays, outs)", *lines]
            common = "arrays, sizes, dtype, v, single"
            calls = [f"    {d}({common}, outs[{n}])," for n, d in enumerate(drivers)]
            lines += ["return (", *calls, ")"]
        else:
            lines.append(f"return {drivers[0]}(arrays, sizes, dtype, v, single, {out}{flag})")
            lines = self.otherwise(structured[0], out, lines) if kind == "dense" else lines
        keywords = [f"{out}=None", *([f"{zeroed}=False"] if flag else [])]
        return self.function(name, self.parameters(keywords=keywords), doc, lines)

    def otherwise(self, structured: Structured, out: str, back: list[str]) -> list[str]:
        """Return the lines of a dense Jacobian that sizes may send another way than `back`."""
        driver = f"_few_{structured.key}"
        few = self.if_few(driver, f"{driver}(arrays, sizes, dtype, single, {out})")
        lines = or_ahead(self.forms, structured, ("", out, ""), back)
        needs = f"{self.few.get(driver, '')} {costs_text(self.forms, structured)}"
        first = self.sizes_line(f"n_B {needs}" if few else needs)
        return [*first, *few[1:], *lines]

    def driver(self, structured: Structured) -> str:
        """Return the driver of a dense Jacobian where nothing else is asked for."""
        kind = "direct" if structured.dense.name in self.direct else "dense"
        return f"_{kind}_{structured.key}"

    def if_few(self, driver: str, call: str) -> list[str]:
        """Return the lines that leave few samples to a driver of their own, if there is one."""
        if driver not in self.few:
            return []
        test = f"n_B * ({self.few[driver]}) < _FEW"
        return [*self.sizes_line(test), f"if {test}:", f"    return {call}"]

    def factors(self, structured: Sequence[Structured], name: str, sweep: str) -> str:
        """Return the text of `jac_θ_factors`."""
        pair = structured[0].pair
        what = _noun(structured[0])
        doc = [f"Return the factors of the {what} with respect to {pair}, by name."]
        tables = []
        for s in structured:
            words = caption(s, 0 if self.batched else None)
            doc.append(f"{s.title} = {words.formula}.")
            entries = []
            for term in s.terms:
                for factor in term.factors:
                    value = self.factor_text(factor)
                    entries.append(f'"{factor.label}": {value}')
            for lookup in s.positions:
                entries.append(f'"{lookup.array}": {self.position_text(lookup)}')
            tables.append("{" + ", ".join(dict.fromkeys(entries)) + "}")
        text = " ".join(tables)
        lines = self.sizes_line(text)
        if mentions(text, "v"):
            lines.insert(0, f'v = {sweep}(arrays, sizes, dtype, "{pair}")')
        if self.several:
            lines += ["return (", *(f"    {t}," for t in tables), ")"]
        else:
            lines.append(f"return {tables[0]}")
        return self.function(name, self.parameters(), doc, lines)

    def factor_text(self, factor: Factor) -> str:
        """Return the expression of one factor; ones and repetitions take no memory."""
        shape = shape_text([i.dim for i in factor.indices])
        if factor.array is None:
            text = f"_ones({shape}, dtype)"
        else:
            text = f'v["{factor.array}"]'
            if factor.spread:
                kept = ", ".join("None" if i in factor.spread else ":" for i in factor.indices)
                text = f"_spread({text}[{kept}], {shape})"
        if self.forms.program.batch in factor.indices:
            return f"_first({text}, single)"
        return text

    def position_text(self, lookup: Lookup) -> str:
        """Return the expression of an array that a delta of the formula looks up."""
        text = f'v["{lookup.array}"]'
        first = lookup.at[0] if lookup.at else None
        batched = isinstance(first, Affine) and first.bare == self.forms.program.batch
        return f"_first({text}, single)" if batched else text

    def jacobian(self) -> str:
        """Return the text of `jacobian`: all dense Jacobians from one pass."""
        out, shapes, calls = self.own("out"), [], []
        joint = together(self.forms, self.direct)
        for s in self.forms.structured:
            key = f'"{s.jacobian.parameter}"'
            if self.several:
                key = f'("{s.jacobian.output}", {key})'
            shapes.append(f"    {key}: {shape_text([i.dim for i in s.dense.indices])},")
            driver = f"{self.driver(s)}(arrays, sizes, dtype, v, single, outs.get({key}))"
            calls.append(f"    {key}: {f'found[{key}]' if s in joint else driver},")
        names = self.forms.derivation.selection.names
        until = f', "{names[0]}"' if len(names) == 1 else ""
        back = [
            f"v = {'_sweep_dense' if self.shorter else '_sweep'}(arrays, sizes, dtype{until})",
            *(["found = _direct(arrays, sizes, dtype, v, single, outs)"] if joint else []),
            "found = {", *calls, "}", f"return _filled(found, {out})"]  # fmt: skip
        needs = [*shapes, *self.few.values()]
        if len(self.forms.structured) == 1:
            only, key = self.forms.structured[0], f'"{names[0]}"'
            call = (f"_filled({{{key}: ", f"outs.get({key})", f"}}, {out})")
            needs.append(costs_text(self.forms, only))
            back = or_ahead(self.forms, only, call, back)
        lines = [
            *self.sizes_line(" ".join(needs)), "shapes = {", *shapes, "}",
            f"outs = _given({out}, shapes, dtype, single, arrays)",
            *self.if_few("_few", f"_filled(_few(arrays, sizes, dtype, single, outs), {out})")[1:],
            *back,
        ]  # fmt: skip
        keys = "(output, θ)" if self.several else "θ"
        doc = [
            "Return all dense Jacobians by name, from one forward pass.",
            f"{out} is a mapping {{{keys}: array}} of all or some of them, which are written into.",
        ]
        return self.function("jacobian", self.parameters(keywords=[f"{out}=None"]), doc, lines)

    def seed_lines(self, u: str) -> list[str]:
        """Return the line that checks `u` (a tuple for several outputs)."""
        shapes = tuple_text([self.out_shape(o) for o in self.outputs])
        return [f"vectors = _cotangents({u}, {shapes}, dtype, single)"]

    def given_shapes(self) -> str:
        """Return the shape of u for a docstring, a tuple for several outputs."""
        shapes = ", ".join(self.shape(self.own_indices(o)) for o in self.outputs)
        return f"a tuple {shapes}" if self.several else shapes

    def sizes_line(self, text: str) -> list[str]:
        """Return the line that unpacks the sizes if the text needs them."""
        shown = [n if mentions(text, n) else "_" for n in size_names(self.forms.program)]
        if set(shown) <= {"_"}:
            return []
        return [f"({shown[0]},) = sizes" if len(shown) == 1 else f"{', '.join(shown)} = sizes"]

    def vjp(self, name: str, driver: str) -> str:
        """Return the text of `vjp` or `vjp_per_sample`."""
        u, wrt = self.own("u"), self.own("wrt")
        per_sample = name != "vjp"
        checks = self.seed_lines(u)
        lines = [
            *self.sizes_line(" ".join(checks)), *checks, *self.only_line(wrt),
            "v = _record(arrays, sizes, dtype)",
            *self.leaving(self.going_back(driver), per_sample),
        ]
        what = "for every sample" if per_sample else "summed over samples"
        doc = [f"Return {{θ: gradient of u . y}}{f', {what}' if self.batched else ''}."]
        doc.append(f"{u} is {self.given_shapes()}; a gradient has the axes of its array.")
        if self.batched and per_sample:
            doc.append("The batch axis stands before them.")
        elif self.inputs:
            doc.append(f"Those of {', '.join(self.inputs)} keep the batch axis.")
        keywords = [f"{wrt}=None"] if self.chooses else []
        if keywords:
            doc.append(f"With `{wrt}` only those of these names; others are not computed.")
        return self.function(name, self.parameters([u], keywords), doc, lines)

    @property
    def chooses(self) -> bool:
        """Whether there are several results of which some may be wanted."""
        return len(self.forms.vjp.results) > 1

    def only_line(self, wrt: str) -> list[str]:
        """Return the line that checks which results are wanted, if there are several."""
        return [f"only = _chosen({wrt})"] if self.chooses else []

    def going_back(self, driver: str) -> str:
        """Return the call of a way back, of the results wanted if there are several."""
        return f"{driver}(arrays, sizes, dtype, v, {'only, ' if self.chooses else ''}*vectors)"

    def leaving(self, call: str, per_sample: bool) -> list[str]:
        """Return the lines that go back, and take the batch axis off where it was added."""
        names = self.forms.derivation.selection.names
        table = {a.name: a for a in self.arrays}
        which = [n for n in names if per_sample or table[n].batched]
        if not which or not self.batched:
            return [f"return {call}"]
        if len(which) == len(names):
            return [
                f"found = {call}",
                "return {n: g[0] for n, g in found.items()} if single else found",
            ]
        taken = tuple_text([f'"{n}"' for n in which])
        first = f"found.update({{n: found[n][0] for n in {taken} if n in found}})"
        return [f"found = {call}", "if single:", f"    {first}", "return found"]

    def tangent_lines(self, tangents: str) -> list[str]:
        """Return the lines that check the tangents and fill in zeros."""
        entries = []
        for name in self.forms.derivation.selection.names:
            array = next(a for a in self.arrays if a.name == name)
            single = "single" if array.batched else "False"
            part = replace(array, axes=self.forms.derivation.selection.axes(array))
            entries.append(f'    "{name}": ({self.array_shape(part)}, {single}),')
        return ["expected = {", *entries, "}", f"t = _tangents({tangents}, dtype, expected)"]

    def array_shape(self, array: Array) -> str:
        """Return the shape of a declared array as code."""
        first = [self.forms.program.batch.dim] if array.batched else []
        return shape_text([*first, *array.axes])

    def jvp(self) -> str:
        """Return the text of `jvp`."""
        tangents = self.own("tangents")
        checks = self.tangent_lines(tangents)
        lines = [
            *self.sizes_line(" ".join(checks)), *checks,
            self.unbatched("_tangent(arrays, sizes, dtype, t)"),
        ]
        lines.append("return outputs" if self.several else "return outputs[0]")
        shapes = ", ".join(f"{o}{self.shape(self.own_indices(o))}" for o in self.outputs)
        doc = [f"Return J t, {shapes}, for tangents {{θ: array like θ}}; missing ones are zero."]
        return self.function("jvp", self.parameters([tangents]), doc, lines)

    def pullback(self) -> str:
        """Return the text of `pullback`."""
        checks = self.seed_lines("u")
        outputs = tuple_text([self.repeated(o) for o in self.outputs])
        going = self.going_back("_back")
        lines = [
            *self.sizes_line(f"{' '.join(checks)} {outputs}"),
            "v = _record(arrays, sizes, dtype)",
            self.unbatched(outputs),
            "",
            f"def pull(u{', *, wrt=None' if self.chooses else ''}):",
            f'    """Return {{θ: gradient of u . y}}; {self.again()}."""',
            *(f"    {x}" for x in (*checks, *self.only_line("wrt"))),
            *(f"    {x}" for x in self.leaving(going, per_sample=False)),
            "",
            f"return {'outputs' if self.several else 'outputs[0]'}, pull",
        ]
        doc = [
            "Return the outputs and a function from u to {θ: gradient of u . y}.",
            f"u is {self.given_shapes()}; a gradient has the axes of its array.",
            "It reads the given arrays: they must not change before it was called.",
        ]
        return self.function("pullback", self.parameters(), doc, lines)

    def again(self) -> str:
        """Say what of the forward pass the way back computes again."""
        if self.forms.trade is None:
            return "no definition is evaluated again"
        return "what `recompute` names is evaluated again"

    def repeated(self, output: str) -> str:
        """Return an output kept by `_record`, repeated where the batch shares it.

        What `pull` reads again is copied: callers may write into what they get.
        """
        definition = self.forms.program.definition(output)
        assert definition is not None
        if self.forms.program.batch in definition.indices or not self.batched:
            return f'v["{output}"]{".copy()" if output in self.forms.saved else ""}'
        return f'_repeated(v["{output}"], n_B)'
