"""Formulas as MathML, which browsers typeset without scripts and without a network.

name, strings -> str
Every method returns a run of complete elements; `_row` makes one element of it.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

from symgrad.reading.hands import GREEK, RELATIONS, SIGNS, TextHand, split_name

_BIG = {"sum": "∑", "prod": "∏"}
_TIMES = '<mo>&#x2062;</mo><mspace width="0.17em"/>'
_APPLY = "<mo>&#x2061;</mo>"
_MINUS = "<mo>−</mo>"
_LETTERS = {"gamma": "Γ", "digamma": "ψ", "maximum": "max", "minimum": "min"}


class MathmlHand:
    """MathML Core: `<msub><mi>x</mi><mi>k</mi></msub>`."""

    barred = True
    ones = '<mn mathvariant="bold">𝟏</mn>'
    identity = "<mi>I</mi>"
    every = "<mo>:</mo>"

    def name(self, name: str) -> str:
        """Return a letter, or an upright word, with its subscripts."""
        return self.indexed(name, ())

    def indexed(self, name: str, at: Sequence[str]) -> str:
        """Return an element of an array."""
        head, mark, owner = name.partition("^")
        letter, parts = split_name(head)
        base = f"<mi>{_escaped(GREEK.get(letter, letter))}</mi>"
        below = _listed([*(_word(p) for p in parts), *at])
        above = _listed([self.name(o) for o in owner.split(",")]) if mark else ""
        if below and above:
            return f"<msubsup>{base}{_row(below)}{_row(above)}</msubsup>"
        if below:
            return f"<msub>{base}{_row(below)}</msub>"
        return f"<msup>{base}{_row(above)}</msup>" if above else base

    def raised(self, head: str, above: Sequence[str], at: Sequence[str]) -> str:
        """Return a letter whose superscript is written already."""
        base, up = self.name(head), _row("<mo>,</mo>".join(above))
        if not at:
            return f"<msup>{_row(base)}{up}</msup>"
        return f"<msubsup>{_row(base)}{_row(_listed(at))}{up}</msubsup>"

    def join(self, factors: Sequence[tuple[str, str]]) -> str:
        """Join factors by invisible products."""
        return _TIMES.join(_row(factor) for _, factor in factors)

    def total(self, signed: Sequence[tuple[bool, str]]) -> str:
        """Return terms joined by their signs."""
        text = ""
        for negative, term in signed:
            text += (_MINUS if negative else "<mo>+</mo>" if text else "") + term
        return text

    def without_minus(self, text: str) -> str | None:
        """Return what stands behind a leading minus, or None if there is none."""
        return text.removeprefix(_MINUS) if text.startswith(_MINUS) else None

    def position(self, text: str) -> str:
        """Return a sum as it stands in a subscript."""
        return text

    def is_group(self, text: str) -> bool:
        """Whether it begins with a parenthesis."""
        return text.startswith("<mrow><mo>(</mo>")

    def group(self, inner: str) -> str:
        """Return it in parentheses."""
        return f"<mrow><mo>(</mo>{inner}<mo>)</mo></mrow>"

    def bracket(self, condition: str) -> str:
        """Return the Iverson bracket."""
        return f"<mrow><mo>[</mo>{condition}<mo>]</mo></mrow>"

    def power(self, base: str, exponent: str) -> str:
        """Return the power."""
        above = exponent if exponent.startswith("<") else f"<mn>{exponent}</mn>"
        return f"<msup>{_row(base)}{_row(above)}</msup>"

    def quotient(self, above: str, below: str, simple: bool) -> str:  # noqa: ARG002
        """Return the fraction; its bar groups what stands below."""
        return f"<mfrac>{_row(above)}{_row(below)}</mfrac>"

    def exp(self, exponent: str) -> str:
        """Return the exponential."""
        return f"<msup><mi>e</mi>{_row(exponent)}</msup>"

    def sqrt(self, inner: str) -> str:
        """Return the square root."""
        return f"<msqrt>{inner}</msqrt>"

    def absolute(self, inner: str) -> str:
        """Return the absolute value."""
        return f"<mrow><mo>|</mo>{inner}<mo>|</mo></mrow>"

    def floor(self, above: str, below: str) -> str:
        """Return the floor of a quotient."""
        return f"<mrow><mo>⌊</mo>{self.quotient(above, below, True)}<mo>⌋</mo></mrow>"

    def call(self, function: str, order: Sequence[int], args: Sequence[str]) -> str:
        """Return a function of its arguments, with primes for a derivative."""
        name = self.name(_LETTERS.get(function, function))
        if len(order) > 1 and any(order):
            mark = f"<mrow><mo>(</mo>{_listed([f'<mn>{n}</mn>' for n in order])}<mo>)</mo></mrow>"
            name = f"<msup>{_row(name)}{mark}</msup>"
        elif any(order):
            name = f"<msup>{_row(name)}<mo>{'′' * sum(order)}</mo></msup>"
        return f"{name}{_APPLY}{self.group('<mo>,</mo>'.join(args))}"

    def big(self, sign: str, bound: Sequence[str], body: str) -> str:
        """Return the sum, product or extremum over `bound`."""
        head = f"<mo>{_BIG[sign]}</mo>" if sign in _BIG else f"<mo>{SIGNS[sign][0]}</mo>"
        return f"<mrow><munder>{head}{_row(_listed(bound))}</munder>{body}</mrow>"

    def delta(self, left: str, right: str) -> str:
        """Return the Kronecker delta."""
        return f"<msub><mi>δ</mi>{_row(_listed([left, right]))}</msub>"

    def relation(self, sign: str) -> str:
        """Return the sign of a comparison or of logic."""
        return f"<mo>{_escaped(RELATIONS[sign][0])}</mo>"

    def compared(self, left: str, sign: str, right: str) -> str:
        """Return a comparison."""
        return f"{left}{self.relation(sign)}{right}"

    def number(self, value: int | float) -> str:
        """Return the number, with powers of ten written out."""
        text = TextHand().number(value)
        negative = text.startswith("-")
        mantissa, mark, exponent = text.removeprefix("-").partition("e")
        written = f"<mn>{mantissa}</mn>"
        if mark:
            ten = f"<msup><mn>10</mn><mn>{exponent.replace('-', '−')}</mn></msup>"
            written = ten if mantissa == "1" else f"{written}<mo>·</mo>{ten}"
        return _MINUS + written if negative else written

    def second(self, output: str, one: str, other: str) -> str:
        """Return the second derivative as a fraction."""
        above = f"<msup><mi>∂</mi><mn>2</mn></msup>{output}"
        below = f"<mi>∂</mi>{one}<mi>∂</mi>{other}"
        return f"<mfrac><mrow>{above}</mrow><mrow>{below}</mrow></mfrac>"

    def partial(self, output: str, wrt: str) -> str:
        """Return the derivative as a fraction."""
        return f"<mfrac><mrow><mi>∂</mi>{output}</mrow><mrow><mi>∂</mi>{wrt}</mrow></mfrac>"

    def held(self, ratio: str, names: Sequence[str]) -> str:
        """Return a derivative with what it holds fixed."""
        bar = f'<mrow>{ratio}<mo stretchy="true">|</mo></mrow>'
        return f"<msub>{bar}{_row('<mo>,</mo>'.join(names))}</msub>"

    def equation(self, left: str, right: str) -> str:
        """Return an equation."""
        return f"{left}<mo>=</mo>{right}"

    def where(self, equation: str, condition: str) -> str:
        """Return an equation with the condition under which it holds."""
        return f'{equation}<mspace width="1em"/><mtext>where </mtext>{condition}'

    def element_of(self, name: str, at: Sequence[str]) -> str:
        """Return an element, as it stands in the head of a result."""
        return self.indexed(name, at)

    def gathered(self, name: str, at: str) -> str:
        """Return the rows of an array that an index array names."""
        return f"{name}<mo>[</mo>{at}<mo>]</mo>"

    def at(self, base: str, at: Sequence[str]) -> str:
        """Return an element of what is no name."""
        return f"<msub>{_row(base)}{_row(_listed(at))}</msub>"

    def inverse(self, name: str, transposed: bool) -> str:
        """Return the inverse, or its transpose."""
        above = f"{_MINUS}<mo>⊤</mo>" if transposed else f"{_MINUS}<mn>1</mn>"
        return f"<msup>{_row(name)}{_row(above)}</msup>"

    def determinant(self, inner: str, log: bool) -> str:
        """Return the determinant, or its logarithm."""
        return f"{f'<mi>log</mi>{_APPLY}' if log else ''}<mi>det</mi>{_APPLY}{inner}"

    def transpose(self, inner: str) -> str:
        """Return the transpose."""
        return f"<msup>{_row(inner)}<mo>⊤</mo></msup>"

    def odot(self, items: Sequence[str]) -> str:
        """Return an element-wise product."""
        return "<mo>⊙</mo>".join(items)

    def matrices(self, items: Sequence[str]) -> str:
        """Return a product of matrices."""
        return self.join([("", item) for item in items])

    def pairing(self, left: str, right: str) -> str:
        """Return the sum of products of all elements of two arrays."""
        return f"<mrow><mo>⟨</mo>{left}<mo>,</mo>{right}<mo>⟩</mo></mrow>"


def prose(text: str) -> str:
    """Return prose as one element."""
    return f"<mtext>{_escaped(text)}</mtext>"


def _row(run: str) -> str:
    """Return a run of elements as one element."""
    return f"<mrow>{run}</mrow>"


def _listed(items: Sequence[str]) -> str:
    """Return subscripts side by side, with commas where one is longer than a letter."""
    short = all(item.count("<") == 2 for item in items)
    return ("" if short else "<mo>,</mo>").join(items)


def _word(part: str) -> str:
    symbol = _escaped(GREEK.get(part, part))
    return f"<mn>{symbol}</mn>" if part.isdigit() else f"<mi>{symbol}</mi>"


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)
