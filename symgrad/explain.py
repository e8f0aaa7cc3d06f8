"""A derivation to read: definitions, local derivatives, chain rule, result, matrix style.

Derivation -> Explanation
What the printed lines use is defined in them or said under "Notation".
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from symgrad.derivation import Derivation
from symgrad.errors import ArgumentError, SelectionError
from symgrad.reading.arrays import MatrixForm
from symgrad.reading.blocks import Inexpressible
from symgrad.reading.closed import ClosedForm, exchanged
from symgrad.reading.hands import Hand, TextHand
from symgrad.reading.latex import LatexHand
from symgrad.reading.letters import taken_names
from symgrad.reading.lines import conditions, declarations, domains, equation
from symgrad.reading.masks import with_halves
from symgrad.reading.mathml import prose
from symgrad.reading.matrix import jacobian_matrix, named_matrices, read_matrices, vjp_matrix
from symgrad.reading.notation import (
    Caption,
    captions,
    layout_captions,
    matrix_captions,
    rows_and_columns,
)
from symgrad.reading.pages import html_page, markdown_page, tex_escape, tex_page
from symgrad.reading.recurrences import Beginning, beginnings, earlier_values, stepwise
from symgrad.reading.steps import (
    HANDS,
    Page,
    Step,
    derivation_steps,
    supports,
)
from symgrad.simplify import closed_forms

Style = Literal["index", "matrix"]
LONG = 200
"""More named adjoints, counted for each result, are written in matrix style on request only."""

def require_style(style: str) -> None:
    """Refuse a style there is none of. Raises ArgumentError."""
    if style not in ("index", "matrix"):
        raise ArgumentError(f"there is no style {style!r}", hint='use "index" or "matrix"')


@dataclass(frozen=True, slots=True)
class Formula:
    """One derivative in closed form; prints as text."""

    form: ClosedForm
    _forms: dict[str, MatrixForm | str] = field(default_factory=dict, compare=False, repr=False)
    _named: dict[str, tuple[str, ...]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def key(self) -> tuple[str, ...]:
        """The output and the array or arrays it is by."""
        names = (self.form.output, self.form.parameter, self.form.beside)
        return tuple(n for n in names if n)

    def text(self, style: Style = "index") -> str:
        """Return the formula as Unicode text."""
        return self._written(TextHand(), style)

    def latex(self, style: Style = "index") -> str:
        """Return the formula as LaTeX, without delimiters."""
        return self._written(LatexHand(), style)

    def _written(self, hand: Hand, style: Style) -> str:
        require_style(style)
        matrix = self.matrix(hand) if style == "matrix" else None
        return equation(self.form, hand) if matrix is None else matrix

    def matrix(self, hand: Hand) -> str | None:
        """Return the formula in matrix style, as a vjp where the Jacobian has too many axes."""
        found = self._found(hand)
        if isinstance(found, str):
            return None
        if self.form.beside:
            return self._second(found, hand)
        ratio = hand.partial(found.output, found.parameter)
        if not found.pulled:
            return hand.equation(ratio, found.right)
        g = hand.name(cotangent(self.form))
        if sum(1 for i in self.form.out if i.dim.constant != 1) == 1:
            return hand.equation(hand.join([("", hand.transpose(g)), ("", ratio)]), found.right)
        return hand.equation(hand.pairing(g, ratio), found.right)

    def _second(self, found: MatrixForm, hand: Hand) -> str:
        """Return a second derivative, of the pairing with a cotangent where y is no number."""
        output = found.output
        if found.pulled:
            g = hand.name(cotangent(self.form))
            scalar = sum(1 for i in self.form.out if i.dim.constant != 1) == 1
            pair = hand.join([("", hand.transpose(g)), ("", output)])
            output = hand.group(pair) if scalar else hand.pairing(g, output)
        other = hand.name(self.form.beside)
        return hand.equation(hand.second(output, found.parameter, other), found.right)

    def named(self, hand: Hand) -> tuple[str, ...]:
        """Return what the names of the derivation stand for that matrix style reads here."""
        key = type(hand).__name__
        if key not in self._named:
            self._named[key] = named_matrices(self.form, hand)
        return self._named[key]

    def _found(self, hand: Hand) -> MatrixForm | str:
        """Return the matrix form, searched for once in each notation, or why there is none."""
        key = type(hand).__name__
        if key not in self._forms:
            with suppress(Inexpressible):
                self._forms[key] = jacobian_matrix(self.form, hand)
                return self._forms[key]
            try:
                self._forms[key] = vjp_matrix(self.form, hand, cotangent(self.form))
            except Inexpressible as reason:
                self._forms[key] = str(reason)
        return self._forms[key]

    @property
    def marked(self) -> bool:
        """Whether matrix style writes positions here: `h_{t-1}`."""
        found = self._found(TextHand())
        return not isinstance(found, str) and found.marked

    @property
    def pulled(self) -> bool:
        """Whether matrix style needs a cotangent here."""
        found = self._found(TextHand())
        return not isinstance(found, str) and found.pulled

    @property
    def reason(self) -> str | None:
        """Why there is no matrix style here, or None."""
        found = self._found(TextHand())
        return found if isinstance(found, str) else None

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
    starts: tuple[Beginning, ...] = ()

    @property
    def title(self) -> str:
        """The layer's title, or its name."""
        return self.derivation.program.title or self.derivation.program.name or "Derivation"

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps in order: definitions, local derivatives, chain rule, result."""
        return derivation_steps(self.derivation, self.forms, self.starts)

    @cached_property
    def formulas(self) -> tuple[Formula, ...]:
        """One formula for each output and selected array."""
        return tuple(Formula(form) for form in self.forms)

    def __getitem__(self, key: str | tuple[str, ...]) -> Formula:
        outputs = self.derivation.program.outputs
        given = (key,) if isinstance(key, str) else tuple(key)
        wanted = tuple(unicodedata.normalize("NFKC", name) for name in given)
        if wanted[0] not in outputs:
            if len(outputs) > 1:
                raise SelectionError(
                    f"the layer has outputs {', '.join(outputs)}",
                    hint=f"say which: d[{', '.join(map(repr, (outputs[0], *wanted)))}]",
                )
            wanted = (outputs[0], *wanted)
        for formula in self.formulas:
            if formula.key == wanted:
                return formula
            if formula.form.beside and formula.key == (wanted[0], *wanted[:0:-1]):
                return Formula(exchanged(formula.form))
        known = ", ".join(dict.fromkeys(f.parameter for f in self.forms))
        names = " and ".join(wanted[1:])
        hint = f"derived were: {known}"
        if len(wanted) > 2 and not any(f.beside for f in self.forms):
            hint = "second derivatives are among them with order=2"
        raise SelectionError(f"nothing was derived with respect to {names}", hint=hint)

    def __iter__(self) -> Iterator[str | tuple[str, ...]]:
        return iter(self.keys())

    def keys(self) -> tuple[str | tuple[str, ...], ...]:
        """Return what `[...]` takes, in order."""
        found = [f.key for f in self.formulas]
        if len(self.derivation.program.outputs) > 1:
            return tuple(found)
        return tuple(k[1] if len(k) == 2 else k[1:] for k in found)

    def text(self, style: Style = "index") -> str:
        """Return the whole derivation as Unicode text."""
        lines = [self.title, ""]
        for heading, steps in self._styled(style):
            lines += [heading, *(f"  {step.text}" for step in steps), ""]
        notes = [f"  {c.text}: {c.words}" for c in self.notation()]
        return "\n".join([*lines, *(["Notation", *notes] if notes else [])]).rstrip()

    def latex(self, style: Style = "index") -> str:
        """Return the results as LaTeX with what they lean on: one equation, or an aligned block."""
        require_style(style)
        hand = LatexHand()
        lines = [self._latex_line(formula, style) for formula in self.formulas]
        lines += [line for formula in self.formulas for line in domains(formula.form, hand)]
        matrices = [f.form for f in self.formulas if style == "matrix" and f.reason is None]
        lines += [line for form in matrices for line in self._leant_on(form)]
        inner = [f.form for f in self.formulas if style == "index" or f.reason is not None]
        lines += [step.latex for step in supports(self._page, inner)]
        if style == "matrix" and any(f.pulled for f in self.formulas):
            g = hand.name(cotangent(self.forms[0]))
            lines.append(rf"{g} & \text{{: any array of the shape of the output}}")
        lines += declarations(self.derivation.program, hand)
        given = conditions(self.derivation.program, hand)
        lines += [rf"\text{{given }} & {text}" for text in given]
        return aligned(dict.fromkeys(lines))

    def _leant_on(self, form: ClosedForm) -> list[str]:
        """Return what a formula in matrix style leans on, a definition without one as it is."""
        hand = LatexHand()
        read = read_matrices(form, hand, cotangent(form))
        own = [
            line or self._page.definition(d).latex
            for d in self.derivation.program.definitions
            for name, line in read.items() if name == d.name
        ]
        return [*own, *named_matrices(form, hand)]

    def _latex_line(self, formula: Formula, style: Style) -> str:
        """Return one result; what has no matrix form says so behind it."""
        written = formula.latex(style)
        if style == "index" or formula.reason is None:
            return written
        return rf"{written} \quad \text{{(index style: {tex_escape(formula.reason)})}}"

    @cached_property
    def _page(self) -> Page:
        return Page.of(self.derivation)

    def sections(self, with_reasons: bool = False) -> list[tuple[str, list[Step]]]:
        """Return the steps under their headings, empty ones left out.

        Under "In matrix style" stand the results that have one; `with_reasons` also says there
        why another has none.
        """
        found: dict[str, list[Step]] = {}
        for step in (*self.steps, *self._matrix_steps(with_reasons)):
            found.setdefault(step.kind, []).append(step)
        return [(kind[:1].upper() + kind[1:], steps) for kind, steps in found.items()]

    def _matrix_steps(self, with_reasons: bool) -> list[Step]:
        """Return the results in matrix style; of a deep net only if it is asked for.

        Each result leans on all adjoints above it, so they are long where there are many.
        """
        kind: Literal["in matrix style"] = "in matrix style"
        if not with_reasons and sum(len(f.form.named) for f in self.formulas) > LONG:
            return []
        steps: dict[Step, None] = {}
        for formula in self.formulas:
            written = [formula.matrix(hand) for hand in HANDS]
            if written[0] is not None:
                steps[Step(kind, *(w or "" for w in written))] = None
            elif with_reasons:
                note = f"(index style: {formula.reason})"
                mathml = f'{equation(formula.form, HANDS[2])}<mspace width="2em"/>' + prose(note)
                latex = self._latex_line(formula, "matrix")
                steps[Step(kind, f"{formula.text()}    {note}", latex, mathml)] = None
        for formula in self.formulas:
            if formula.reason is None:
                lines = zip(*(formula.named(h) for h in HANDS), strict=True)
                steps.update({Step(kind, *line): None for line in lines})
        return list(steps)

    def notation(self) -> tuple[Caption, ...]:
        """Return what the letters and signs mean that the derivation made, only those used."""
        matrix = [s.text for s in self._matrix_steps(False)]
        if not matrix:
            return (*layout_captions(self.forms), *captions(self.derivation, self.steps))
        pulled = next((cotangent(f.form) for f in self.formulas if f.pulled), None)
        return (
            *layout_captions(self.forms),
            *captions(self.derivation, self.steps),
            *rows_and_columns([f.form for f in self.formulas if f.reason is None and not f.pulled]),
            *matrix_captions(matrix, pulled, any(f.marked for f in self.formulas)),
        )

    def markdown(self, style: Style = "index") -> str:
        """Return the whole derivation as Markdown with LaTeX in `$$`.

        As in `text`, matrix style also says which results have none, and why.
        """
        return markdown_page(self.title, self._styled(style), self.notation())

    def html(self, style: Style = "index") -> str:
        """Return the whole derivation as one HTML page, with its formulas in MathML."""
        return html_page(self.title, self._styled(style), self.notation())

    def tex(self, style: Style = "index") -> str:
        """Return the whole derivation as a LaTeX document."""
        return tex_page(self.title, self._styled(style), self.notation())

    def _styled(self, style: Style) -> list[tuple[str, list[Step]]]:
        require_style(style)
        return self.sections(with_reasons=style == "matrix")

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text()

    def _repr_latex_(self) -> str:
        return f"$$\n{self.latex()}\n$$"

    def _repr_html_(self) -> str:
        return html_page(self.title, self.sections(), self.notation(), whole=False)

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
    program = derivation.program
    starts = beginnings(program, earlier_values(program))
    read = with_halves(stepwise(derivation))
    return Explanation(read, closed_forms(read), starts)
