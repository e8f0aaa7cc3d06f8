"""The functions of second derivatives that a generated module offers.

Forms -> text of functions
Of each pair of arrays `hess_θ_φ` has the axes of θ first; the other order is a view of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from symgrad.form import Curvature, Forms
from symgrad.generation.publics import Publics, form_names
from symgrad.program import Array

SUFFIXES = ("", "_compact", "_factors")


def publics_twice(forms: Forms) -> list[str]:
    """Return the text of every public function of second derivatives, none without them."""
    if forms.curvature is None:
        return []
    writer = _Twice(forms, forms.curvature)
    texts = []
    for pair, names in hessian_names(forms).items():
        structured = [s for s in forms.curvature.structured if s.pair == pair]
        texts += writer.publics.blocks(structured, "_sweep_twice", names.__getitem__)
    return [*texts, writer.hessian(), writer.hvp(), writer.sums()]


def hessian_names(forms: Forms) -> dict[str, dict[str, str]]:
    """Return the names of the functions of each pair of arrays: {"W, b": {suffix: name}}."""
    if forms.curvature is None:
        return {}
    taken = set(form_names(forms, forms.derivation.selection.names))
    found: dict[str, dict[str, str]] = {}
    for structured in forms.curvature.structured:
        if structured.pair in found:
            continue
        own = {}
        for suffix in SUFFIXES:
            name = f"hess_{structured.pair.replace(', ', '_')}{suffix}"
            while name in taken:
                name += "_"
            taken.add(name)
            own[suffix] = name
        found[structured.pair] = own
    return found


def hessian_functions(
    forms: Forms, parameters: Collection[str]
) -> dict[str, tuple[tuple[str, ...], str]]:
    """Return the functions of pairs of some parameters that a module has.

    They are {name: (pair, "dense", "compact" or "factors")}.
    """
    if forms.curvature is None:
        return {}
    sparse = {s.pair for s in forms.curvature.structured if s.shared}
    return {
        name: (tuple(pair.split(", ")), suffix.removeprefix("_") or "dense")
        for pair, names in hessian_names(forms).items()
        for suffix, name in names.items()
        if set(pair.split(", ")) <= set(parameters)
        if suffix != "_compact" or pair in sparse
    }


def offered(forms: Forms) -> tuple[str, ...]:
    """Return the names of all functions that a module of these forms has."""
    names = forms.derivation.selection.names
    first = ("forward", *form_names(forms, names), "jacobian", "vjp", "vjp_per_sample",
             "per_sample_vjp", "jvp", "pullback")  # fmt: skip
    if forms.curvature is None:
        return first
    return (*first, *hessian_functions(forms, names), "hessian", "hvp", "hessian_sum")


class _Twice:
    """Writes the functions that concern all pairs together."""

    def __init__(self, forms: Forms, curvature: Curvature) -> None:
        self.forms, self.curvature = forms, curvature
        self.publics = Publics(forms)

    def hessian(self) -> str:
        """Return the text of `hessian`: all dense second derivatives from one pass."""
        calls = {
            (s.jacobian.output, *s.pair.split(", ")):
            f"_dense_{s.key}(arrays, sizes, dtype, v, single, None)"
            for s in self.curvature.structured
        }  # fmt: skip
        lines = ["v = _sweep_twice(arrays, sizes, dtype)", "found = {}"]
        for output in self.publics.outputs:
            first = (output,) if self.publics.several else ()
            own = {key[1:]: call for key, call in calls.items() if key[0] == output}
            lines += self.both_orders(own, first)
        lines.append("return found")
        doc = [
            "Return all dense second derivatives by the two arrays, in both orders.",
            "Those of (θ, φ) have the axes of the output, of θ and of φ behind the batch axis.",
        ]
        return self.publics.function("hessian", self.publics.parameters(), doc, lines)

    def hvp(self) -> str:
        """Return the text of `hvp`."""
        writer = self.publics
        u, tangents = writer.own("u"), writer.own("tangents")
        seeds, checks = writer.seed_lines(u), writer.tangent_lines(tangents)
        lines = [
            *writer.sizes_line(" ".join((*seeds, *checks))), *seeds, *checks,
            *writer.leaving("_curved(arrays, sizes, dtype, t, *vectors)", per_sample=False),
        ]  # fmt: skip
        doc = [
            "Return {θ: Σ u · ∂²y/∂θ∂φ · t_φ}, added up over samples, outputs and all φ.",
            "Tangents are {θ: array like θ}; missing ones are zero.",
        ]
        return writer.function("hvp", writer.parameters([u, tangents]), doc, lines)

    def sums(self) -> str:
        """Return the text of `hessian_sum`."""
        writer = self.publics
        u = writer.own("u")
        seeds = writer.seed_lines(u)
        lines = [
            *writer.sizes_line(" ".join(seeds)), *seeds,
            "sums, found = _summed(arrays, sizes, dtype, *vectors), {}",
        ]  # fmt: skip
        pairs = [r.key for r in self.curvature.summed.results]
        apart = [p for p in pairs if any(self.array(n).batched for n in p)]
        if apart and self.publics.batched:
            lines.append("if single:")
            lines += [f"    sums[{_keys(p)}] = sums[{_keys(p)}][0]" for p in apart]
        lines += [*self.both_orders({p: f"sums[{_keys(p)}]" for p in pairs}), "return found"]
        doc = [
            "Return {(θ, φ): Σ u · ∂²y/∂θ∂φ}, added up over samples and outputs, in both orders.",
            "No array that is made has samples and the axes of both θ and φ. Recurrences make some",
            "with samples, the axes of one of them and those of a state.",
        ]
        if apart:
            doc.append("Where θ or φ is an input, samples stay apart.")
        return writer.function("hessian_sum", writer.parameters([u]), doc, lines)

    def both_orders(
        self, values: Mapping[tuple[str, ...], str], first: tuple[str, ...] = ()
    ) -> list[str]:
        """Return the lines that enter each pair and, as a view, its other order."""
        names = self.forms.derivation.selection.names
        lines = []
        for one in names:
            for other in names:
                key, turned = _keys((*first, one, other)), _keys((*first, other, one))
                text = values.get((one, other))
                if text is None:
                    p, q = self.rank(other), self.rank(one)
                    text = f"found[{turned}]"
                    text = f"_exchanged({text}, {p}, {q})" if p and q else text
                lines.append(f"found[{key}] = {text}")
        return lines

    def rank(self, name: str) -> int:
        """Return how many axes what is selected of an array has."""
        return len(self.forms.derivation.selection.axes(self.array(name)))

    def array(self, name: str) -> Array:
        """Return a declared array."""
        return next(a for a in self.publics.arrays if a.name == name)


def _keys(names: Sequence[str]) -> str:
    return ", ".join(f'"{n}"' for n in names)
