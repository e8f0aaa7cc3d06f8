"""What the letters and signs mean that a derivation makes, said only for those it uses.

Derivation, its steps -> Caption, ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from symgrad.derivation import Derivation
from symgrad.reading.closed import ClosedForm
from symgrad.reading.hands import TextHand
from symgrad.reading.lines import derivative
from symgrad.reading.masks import LETTERS
from symgrad.reading.steps import HANDS, Page, Step

_MADE = {
    "G": "total derivative of the output with respect to the array in its superscript, its "
    "deltas left out",
    "K": "derivative of the array before the comma in its superscript with respect to the one "
    "behind it, its deltas left out",
    "D": "factor of the derivatives for the array in its superscript, named because it has "
    "fewer indices and is computed once",
    "S": "sum inside the derivatives for the array in its superscript, named because it has "
    "fewer indices and is computed once",
    "J": "derivative of the output with respect to the array in its superscript, its deltas "
    "left out",
    "H": "one of the factors of the derivative with respect to the array in its superscript",
    **dict.fromkeys(LETTERS, "1 below the diagonal, 1/2 on it, 0 above it"),
    "argmax": "position where the maximum in its superscript is first attained",
    "argmin": "position where the minimum in its superscript is first attained",
    "rest": "product of all factors of the array in its superscript but the one at the last "
    "index",
}
SHOWN = 12
"""How many places of a part of an array are listed."""
_SIGNS = (
    ("diag(", ("diag(v)", r"\operatorname{diag}(v)"), "diagonal matrix with v on its diagonal"),
    ("onehot(", ("onehot(t)", r"\operatorname{onehot}(t)"),
     "vector with 1 at position t and 0 elsewhere, for an array t one such row for each element"),
    ("𝟏", ("𝟏", r"\mathbf{1}"), "vector of ones"),
    ("⊙", ("⊙", r"\odot"), "element-wise product"),
    ("⟨", ("⟨a, b⟩", r"\left\langle a, b \right\rangle"), "sum of the products of all elements"),
)
_MARKED = (
    "in matrix style the part of an array A at position t of its first axis, of its second; a "
    "vector is a column"
)


@dataclass(frozen=True, slots=True)
class Caption:
    """A symbol in each notation, and what it means."""

    text: str
    latex: str
    mathml: str
    words: str


def captions(derivation: Derivation, steps: Sequence[Step]) -> tuple[Caption, ...]:
    """Return the captions of the arrays that the derivation made, and of its two kinds of ∂."""
    found: list[Caption] = []
    page = Page.of(derivation)
    local = any(s.kind == "local derivatives" and "|{" in s.text for s in steps)
    if local:
        found.append(_same("∂", r"\partial", "in a local derivative holds fixed what stands behind "
                           "its bar; in a result it goes through everything and holds the other "
                           "declared arrays fixed"))
    printed = {s.text.partition(" = ")[0].split("_")[0] for s in steps if s.kind == "chain rule"}
    for head, words in _MADE.items():
        made = [d.name for d in derivation.adjoints if d.name.partition("_")[0] == head]
        made = [n for n in made if page.name(n, TextHand()).split("_")[0] in printed]
        if made:
            text, latex, mathml = ([page.name(n, hand) for n in made] for hand in HANDS)
            found.append(Caption(
                ", ".join(text), ", ".join(latex), "<mo>,</mo>".join(mathml), words
            ))
    for table in derivation.program.tables:
        name = [hand.name(table.name) for hand in HANDS]
        shown = ", ".join(map(str, table.values[:SHOWN])) + ", ..." * (len(table.values) > SHOWN)
        words = f"the places {shown} of {table.source[0]} that are selected"
        found.append(Caption(name[0], name[1], name[2], words))
    results = " ".join(s.text for s in steps if s.kind == "result")
    if "'(" in results:
        found.append(_same("f'", "f'", "derivative of the function f"))
    if "^(" in results:
        found.append(_same("f^(1,0)", "f^{(1,0)}", "derivative of the function f in its first "
                           "argument, f^(0,1) in its second"))
    return tuple(found)


def layout_captions(forms: Sequence[ClosedForm]) -> tuple[Caption, ...]:
    """Return what says how the entries of a result stand in an array, told of the largest one."""
    form = max(forms, key=lambda f: len(f.out) + len(f.theta), default=None)
    if form is None or len(form.out) + len(form.theta) < 2:
        return ()
    text, latex, mathml = (derivative(form, hand) for hand in HANDS)
    parts = [
        f"{'axis' if len(axes) == 1 else 'axes'} of {name}"
        for name, axes in ((form.output, form.out), (form.parameter, form.theta)) if axes
    ]
    batched = any(a.batched for a in form.program.arrays)
    first = ["batch"] if batched else []
    words = f"as an array: {', then '.join((*first, *parts))}, in C order (the last runs fastest)"
    return (Caption(text, latex, mathml, words),)


def rows_and_columns(forms: Sequence[ClosedForm]) -> tuple[Caption, ...]:
    """Return what says which way a matrix of matrix style lies, told of the first there is."""
    for form in forms:
        printed = ([i for i in axes if i.dim.constant != 1] for axes in (form.out, form.theta))
        if all(len(axes) == 1 for axes in printed):
            names = (form.output, form.parameter)
            text, latex, mathml = (hand.partial(*map(hand.name, names)) for hand in HANDS)
            words = f"a row for each entry of {form.output}, a column for each of {form.parameter}"
            return (Caption(text, latex, mathml, f"in matrix style {words}"),)
    return ()


def matrix_captions(
    lines: Sequence[str], cotangent: str | None, marked: bool
) -> tuple[Caption, ...]:
    """Return the captions of the signs of matrix style, and of the cotangent if there is one.

    `marked` says that arrays are read at positions.
    """
    found: list[Caption] = []
    if cotangent is not None:
        found.append(_same(cotangent, cotangent, "any array of the shape of the output (the "
                           "cotangent); the product with it has the shape of the parameter"))
    right = " ".join(lines)
    found += [_same(*symbol, words) for mark, symbol, words in _SIGNS if mark in right]
    if marked:
        text, latex, mathml = (
            [h.indexed("A", [h.name("t")]), h.indexed("A", [h.every, h.name("t")])] for h in HANDS
        )
        symbols = (", ".join(text), ", ".join(latex), "<mo>,</mo>".join(mathml))
        found.append(Caption(*symbols, _MARKED))
    return tuple(found)


def _same(text: str, latex: str, words: str) -> Caption:
    return Caption(text, latex, f"<mtext>{text}</mtext>", words)
