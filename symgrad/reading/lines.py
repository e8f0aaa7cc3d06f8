"""Single lines: results, the domains they hold on, what a layer asserts or declares.

ClosedForm, Program -> str
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.program import Affine, Apply, Position, Program
from symgrad.reading.cases import condition
from symgrad.reading.closed import ClosedForm
from symgrad.reading.hands import Hand
from symgrad.reading.latex import LatexHand
from symgrad.reading.letters import Letters, reading_names
from symgrad.reading.write import Writer


def equation(form: ClosedForm, hand: Hand) -> str:
    """Return `∂y_i/∂W_jk = ...` in index style."""
    writer = form_writer(form, hand)
    return hand.equation(_left(form, writer), writer.shown(form.shown))


def derivative(form: ClosedForm, hand: Hand) -> str:
    """Return the left side of a result: `∂y_i/∂W_jk`."""
    return _left(form, form_writer(form, hand))


def _left(form: ClosedForm, writer: Writer) -> str:
    hand = writer.hand

    def element(name: str, places: Sequence[Position]) -> str:
        return hand.element_of(name, [writer.position(p) for p in places])

    out = [Affine.of(i) for i in form.out if i.dim.constant != 1]
    own, others = form.places
    output, parameter = element(form.output, out), element(form.parameter, own)
    if not form.beside:
        return hand.partial(output, parameter)
    return hand.second(output, parameter, element(form.beside, others))


def domains(form: ClosedForm, hand: Hand) -> tuple[str, ...]:
    """Return the simpler forms that hold on a part of the numbers, each with its condition."""
    lines = []
    for case in form.restricted:
        writer = form_writer(form, hand)
        simple = hand.equation(_left(form, writer), writer.shown(case.shown))
        lines.append(hand.where(simple, condition(writer, case.condition)))
    return tuple(lines)


def conditions(program: Program, hand: Hand) -> tuple[str, ...]:
    """Return the domains that a layer asserts."""
    definitions = {d.name: d for d in program.definitions}
    lines = []
    for asserted in program.conditions:
        free = [i for i in asserted.indices if i != program.batch]
        letters = Letters.of(program, free, reading_names(program))
        writer = Writer(program, hand, letters, definitions)
        lines.append(condition(writer, asserted.mask))
    return tuple(lines)


def declarations(program: Program, hand: Hand) -> tuple[str, ...]:
    """Return the values of functions whose slopes are stated, and those slopes."""
    word = "declared, not derived"
    mark = rf" \quad\text{{({word})}}" if isinstance(hand, LatexHand) else f" ({word})"
    lines = []
    for one in program.declared:
        writer = Writer(program, hand, Letters.of(program), {})
        for order, formula, note in (((), one.value, ""), ((1,), one.slope, mark)):
            left = writer.shown(Apply(one.name, (one.argument,), order))
            lines.append(f"{left} = {writer.shown(formula)}{note}")
    return tuple(lines)


def form_writer(form: ClosedForm, hand: Hand) -> Writer:
    """Return a writer whose letters suit a closed form."""
    free = [i for i in (*form.out, *form.theta) if i.dim.constant != 1]
    definitions = {d.name: d for d in (*form.program.definitions, *form.named)}
    letters = Letters.of(form.program, free, reading_names(form.program))
    return Writer(form.program, hand, letters, definitions, frozenset(d.name for d in form.named))
