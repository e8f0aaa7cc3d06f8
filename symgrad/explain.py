"""A derivation to read: definitions, local derivatives, chain rule, result.

Derivation -> Explanation
A local ∂ says what it holds fixed; G^z is the total derivative with respect to z; the result's
∂ goes through everything and holds the other declared arrays fixed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from symgrad.derivation import Derivation
from symgrad.errors import ArgumentError, SelectionError
from symgrad.reading.chain import Inexpressible
from symgrad.reading.closed import ClosedForm
from symgrad.reading.hands import Hand, LatexHand, TextHand
from symgrad.reading.letters import taken_names
from symgrad.reading.matrix import jacobian_matrix, vjp_matrix
from symgrad.reading.pages import html_page, markdown_page, tex_page
from symgrad.reading.recurrences import stepwise
from symgrad.reading.steps import Step, conditions, derivation_steps, domains, equation
from symgrad.simplify import closed_forms

Style = Literal["index", "matrix"]
NOTE = (
    "A local derivative ∂ holds fixed what stands behind its bar. G^z is the total derivative of "
    "the output with respect to z, its deltas left out. In the result ∂ goes through everything "
    "and holds the other declared arrays fixed."
)


def require_style(style: str) -> None:
    """Refuse a style there is none of. Raises ArgumentError."""
    if style not in ("index", "matrix"):
        raise ArgumentError(f"there is no style {style!r}", hint='use "index" or "matrix"')


@dataclass(frozen=True, slots=True)
class Formula:
    """One derivative in closed form; prints as text."""

    form: ClosedForm

    def text(self, style: Style = "index") -> str:
        """Return the formula as Unicode text."""
        return self._written(TextHand(), style)

    def latex(self, style: Style = "index") -> str:
        """Return the formula as LaTeX, without delimiters."""
        return self._written(LatexHand(), style)

    def _written(self, hand: Hand, style: Style) -> str:
        require_style(style)
        if style == "index":
            return equation(self.form, hand)
        matrix = self.matrix(hand)
        return matrix if matrix is not None else equation(self.form, hand)

    def matrix(self, hand: Hand) -> str | None:
        """Return the formula in matrix style, as a vjp where the Jacobian has too many axes."""
        form = self.form
        output, parameter = hand.name(form.output), hand.name(form.parameter)
        left = hand.partial(output, parameter, "∂")
        try:
            return f"{left} = {jacobian_matrix(form, hand)}"
        except Inexpressible:
            pass
        try:
            g = cotangent(form)
            product = vjp_matrix(form, hand, g)
        except Inexpressible:
            return None
        latex = isinstance(hand, LatexHand)
        if sum(1 for i in form.out if i.dim.constant != 1) == 1:
            pulled = rf"{hand.name(g)}^\top {left}" if latex else f"{g}ᵀ {left}"
        else:
            pulled = rf"\left\langle {g}, {left} \right\rangle" if latex else f"⟨{g}, {left}⟩"
        return f"{pulled} = {product}"

    @property
    def reason(self) -> str | None:
        """Why there is no matrix style here, or None."""
        try:
            jacobian_matrix(self.form, TextHand())
        except Inexpressible as first:
            try:
                vjp_matrix(self.form, TextHand(), cotangent(self.form))
            except Inexpressible as second:
                return f"{first}; {second}"
        return None

    def __str__(self) -> str:
        matrix = self.matrix(TextHand())
        lines = [self.text(), *domains(self.form, TextHand())]
        given = conditions(self.form.program, TextHand())
        if matrix is not None:
            lines.append(matrix)
        lines += [f"  given {text}" for text in given]
        return "\n".join(dict.fromkeys(lines))

    def __repr__(self) -> str:
        return str(self)

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex()}$"


def cotangent(form: ClosedForm) -> str:
    """Return a name for the cotangent that the layer does not use."""
    taken = taken_names(form.program)
    return next(n for n in ("g", "u", "v", "ȳ", "cotangent") if n not in taken)


@dataclass(frozen=True)
class Explanation:
    """The closed forms of a layer's derivatives and how they came about."""

    derivation: Derivation
    forms: tuple[ClosedForm, ...] = field(repr=False)

    @property
    def title(self) -> str:
        """The layer's title, or its name."""
        return self.derivation.program.title or self.derivation.program.name or "Derivation"

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps in order: definitions, local derivatives, chain rule, result."""
        return derivation_steps(self.derivation, self.forms)

    @cached_property
    def formulas(self) -> tuple[Formula, ...]:
        """One formula for each output and selected array."""
        return tuple(Formula(form) for form in self.forms)

    def __getitem__(self, key: str | tuple[str, str]) -> Formula:
        outputs = self.derivation.program.outputs
        pair = (outputs[0], key) if isinstance(key, str) else key
        wanted = tuple(unicodedata.normalize("NFKC", name) for name in pair)
        if isinstance(key, str) and len(outputs) > 1:
            raise SelectionError(
                f"the layer has outputs {', '.join(outputs)}",
                hint=f"say which: d[{outputs[0]!r}, {key!r}]",
            )
        for formula in self.formulas:
            if (formula.form.output, formula.form.parameter) == wanted:
                return formula
        known = ", ".join(dict.fromkeys(f.parameter for f in self.forms))
        raise SelectionError(
            f"nothing was derived with respect to {wanted[-1]}", hint=f"derived were: {known}"
        )

    def __iter__(self) -> Iterator[str | tuple[str, str]]:
        return iter(self.keys())

    def keys(self) -> tuple[str | tuple[str, str], ...]:
        """Return what `[...]` takes, in order."""
        if len(self.derivation.program.outputs) == 1:
            return tuple(f.parameter for f in self.forms)
        return tuple((f.output, f.parameter) for f in self.forms)

    def text(self, style: Style = "index") -> str:
        """Return the whole derivation as Unicode text."""
        require_style(style)
        lines = [self.title, ""]
        for heading, steps in self.sections():
            lines.append(heading)
            lines += [f"  {step.text}" for step in steps]
            lines.append("")
        if style == "matrix":
            lines += self._matrix_lines(with_reasons=True)
        else:
            lines += self._matrix_lines(with_reasons=False)
        return "\n".join([*lines, NOTE])

    def _matrix_lines(self, with_reasons: bool) -> list[str]:
        lines: list[str] = []
        for formula in self.formulas:
            written = formula.matrix(TextHand())
            if written is not None:
                lines.append(f"  {written}")
            elif with_reasons:
                lines.append(f"  {formula.text()}    (index style: {formula.reason})")
        return ["In matrix style", *lines, ""] if lines else []

    def latex(self, style: Style = "index") -> str:
        """Return the results as LaTeX: one equation, or an aligned block of several."""
        lines = [formula.latex(style) for formula in self.formulas]
        lines += [
            line for formula in self.formulas for line in domains(formula.form, LatexHand())
        ]
        given = conditions(self.derivation.program, LatexHand())
        lines += [rf"\text{{given }} & {text}" for text in given]
        return aligned(dict.fromkeys(lines))

    def sections(self) -> list[tuple[str, list[Step]]]:
        """Return the steps under their headings, empty ones left out."""
        found: dict[str, list[Step]] = {}
        for step in self.steps:
            found.setdefault(step.kind, []).append(step)
        return [(kind.capitalize(), steps) for kind, steps in found.items()]

    def markdown(self) -> str:
        """Return the whole derivation as Markdown with LaTeX in `$$`."""
        return markdown_page(self.title, self.sections(), NOTE)

    def html(self) -> str:
        """Return the whole derivation as one HTML page."""
        return html_page(self.title, self.sections(), NOTE)

    def tex(self) -> str:
        """Return the whole derivation as a LaTeX document."""
        return tex_page(self.title, self.sections(), NOTE)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text()

    def _repr_latex_(self) -> str:
        return f"$$\n{self.latex()}\n$$"

    def _repr_html_(self) -> str:
        return html_page(self.title, self.sections(), NOTE, whole=False)

    def _repr_mimebundle_(self, **_wanted: object) -> dict[str, str]:
        return {
            "text/plain": self.text(),
            "text/markdown": self.markdown(),
            "text/latex": self._repr_latex_(),
            "text/html": self._repr_html_(),
        }


def aligned(lines: Iterable[str]) -> str:
    """Return equations one below the other, aligned at their first `=`."""
    rows = list(lines)
    if len(rows) == 1:
        return rows[0]
    at_sign = [row if "&" in row else row.replace(" = ", " &= ", 1) for row in rows]
    joined = " \\\\\n".join(f"  {row}" for row in at_sign)
    return f"\\begin{{aligned}}\n{joined}\n\\end{{aligned}}"


def explain(derivation: Derivation) -> Explanation:
    """Return the derivation with its closed forms; steps are written when they are read."""
    read = stepwise(derivation)
    return Explanation(read, closed_forms(read))
