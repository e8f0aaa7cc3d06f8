"""Formulas as LaTeX.

name, strings -> str
Letters are italic, words upright; `Θ_out` is a letter with an upright subscript.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.reading.hands import (
    GREEK,
    LATEX_GREEK,
    RELATIONS,
    SIGNS,
    LineHand,
    TextHand,
    short,
    split_name,
)

_LATEX_FUNCTIONS = {
    "exp": r"\exp", "log": r"\log",
    "sin": r"\sin", "cos": r"\cos", "tan": r"\tan", "sinh": r"\sinh",
    "cosh": r"\cosh", "tanh": r"\tanh", "arcsin": r"\arcsin", "arccos": r"\arccos",
    "arctan": r"\arctan", "log2": r"\log_2", "log10": r"\log_{10}", "maximum": r"\max",
    "minimum": r"\min", "gamma": r"\Gamma", "lgamma": r"\log\Gamma", "digamma": r"\psi",
}

_LATEX_WHOLE = {
    "cbrt": r"\sqrt[3]{{{0}}}", "hypot": r"\sqrt{{{{({0})}}^2 + {{({1})}}^2}}",
    "floor": r"\left\lfloor {0} \right\rfloor", "ceil": r"\left\lceil {0} \right\rceil",
}


class LatexHand(LineHand):
    r"""LaTeX: `\delta_{ij} (1 - y_i^2) x_k`."""

    barred = True
    ones = r"\mathbf{1}"
    identity = "I"
    every = ":"

    def name(self, name: str) -> str:
        r"""Return `W`, `\sigma`, `W_{1}` or `\mathrm{scale}`."""
        return self.indexed(name, ())

    def indexed(self, name: str, at: Sequence[str]) -> str:
        """Return `x_i`, `W_{jk}`, `W_{1,jk}`."""
        head, mark, owner = name.partition("^")
        base, parts = split_name(head)
        above = ",".join(self.name(o) for o in owner.split(",")) if mark else ""
        base = latex_word(base) + (f"^{{{above}}}" if mark else "")
        subscript = ("" if short(at) else ",").join(at)
        subscript = ",".join(s for s in (*map(latex_word, parts), subscript) if s)
        if not subscript:
            return base
        braces = subscript if len(subscript) == 1 else f"{{{subscript}}}"
        return f"{base}_{braces}"

    def raised(self, head: str, above: Sequence[str], at: Sequence[str]) -> str:
        """Return a letter whose superscript is written already."""
        base = f"{self.name(head)}^{{{','.join(above)}}}"
        return self.at(base, at) if at else base

    def join(self, factors: Sequence[tuple[str, str]]) -> str:
        """Join factors by spaces."""
        return " ".join(factor for _, factor in factors)

    def group(self, inner: str) -> str:
        """Return it in parentheses that grow where it is tall."""
        return rf"\left({inner}\right)" if _tall(inner) else f"({inner})"

    def bracket(self, condition: str) -> str:
        """Return the Iverson bracket."""
        return rf"\left[{condition}\right]" if _tall(condition) else f"[{condition}]"

    def power(self, base: str, exponent: str) -> str:
        """Return the power; a base that has a superscript already is braced."""
        if "^" in base and not base.endswith(")"):
            base = f"{{{base}}}"
        return f"{base}^{exponent}" if len(exponent) == 1 else f"{base}^{{{exponent}}}"

    def quotient(self, above: str, below: str, simple: bool) -> str:  # noqa: ARG002
        """Return the fraction; its bar groups what stands below."""
        return rf"\frac{{{above}}}{{{below}}}"

    def exp(self, exponent: str) -> str:
        """Return the exponential."""
        return f"e^{exponent}" if len(exponent) == 1 else f"e^{{{exponent}}}"

    def sqrt(self, inner: str) -> str:
        """Return the square root."""
        return rf"\sqrt{{{inner}}}"

    def absolute(self, inner: str) -> str:
        """Return the absolute value."""
        return rf"\left|{inner}\right|"

    def call(self, function: str, order: Sequence[int], args: Sequence[str]) -> str:
        r"""Return `\sigma'(z)`."""
        if not sum(order) and function in _LATEX_WHOLE:
            return _LATEX_WHOLE[function].format(*args)
        name = _LATEX_FUNCTIONS.get(function)
        if name is None:
            word = latex_word(function)
            name = rf"\operatorname{{{word[8:-1]}}}" if word.startswith(r"\mathrm") else word
        if len(order) > 1 and any(order):
            mark = "^{(" + ",".join(map(str, order)) + ")}"
        else:
            mark = "'" * sum(order)
        return f"{name}{mark}{self.group(', '.join(args))}"

    def big(self, sign: str, bound: Sequence[str], body: str) -> str:
        """Return the sum, product or extremum over `bound`."""
        below = ", ".join(bound)
        braces = below if len(below) == 1 else f"{{{below}}}"
        return f"{SIGNS[sign][1]}_{braces} {body}"

    def delta(self, left: str, right: str) -> str:
        """Return the Kronecker delta."""
        separator = "" if len(left) == len(right) == 1 else ","
        return rf"\delta_{{{left}{separator}{right}}}"

    def relation(self, sign: str) -> str:
        """Return the sign of a comparison or of logic."""
        return RELATIONS[sign][1]

    def number(self, value: int | float) -> str:
        """Return the number, with powers of ten written out."""
        text = TextHand().number(value)
        if "∞" in text:
            return text.replace("∞", r"\infty")
        if "e" in text:
            mantissa, exponent = text.split("e")
            ten = f"10^{{{exponent}}}"
            return ten if mantissa == "1" else rf"{mantissa} \cdot {ten}"
        return text

    def second(self, output: str, one: str, other: str) -> str:
        """Return the second derivative as a fraction."""
        return rf"\frac{{\partial^2 {output}}}{{\partial {one} \, \partial {other}}}"

    def partial(self, output: str, wrt: str) -> str:
        """Return the derivative as a fraction."""
        return rf"\frac{{\partial {output}}}{{\partial {wrt}}}"

    def is_group(self, text: str) -> bool:
        """Whether it begins with a parenthesis."""
        return text.startswith(("(", r"\left("))

    def floor(self, above: str, below: str) -> str:
        """Return the floor of a quotient."""
        return rf"\lfloor {self.quotient(above, below, True)} \rfloor"

    def held(self, ratio: str, names: Sequence[str]) -> str:
        """Return a derivative with what it holds fixed."""
        return rf"\left.{ratio}\right|_{{{', '.join(names)}}}"

    def where(self, equation: str, condition: str) -> str:
        """Return an equation with the condition under which it holds."""
        return rf"{equation}\quad\text{{where }} {condition}"

    def element_of(self, name: str, at: Sequence[str]) -> str:
        """Return an element, as it stands in the head of a result."""
        return self.indexed(name, at)

    def at(self, base: str, at: Sequence[str]) -> str:
        """Return an element of what is no name."""
        position = ("" if short(at) else ",").join(at)
        return f"{base}_{position}" if len(position) == 1 else f"{base}_{{{position}}}"

    def inverse(self, name: str, transposed: bool) -> str:
        r"""Return `S^{-1}`, or its transpose."""
        return self.power(name, r"-\top" if transposed else "-1")

    def determinant(self, inner: str, log: bool) -> str:
        r"""Return `\det S`, or `\log\det S`."""
        return rf"\log\det {inner}" if log else rf"\det {inner}"

    def transpose(self, inner: str) -> str:
        """Return the transpose; a name that has a superscript already is braced."""
        braced = "^" in inner and not inner.endswith(")")
        return rf"{{{inner}}}^\top" if braced else rf"{inner}^\top"

    def odot(self, items: Sequence[str]) -> str:
        """Return an element-wise product."""
        return r" \odot ".join(items)

    def matrices(self, items: Sequence[str]) -> str:
        """Return a product of matrices."""
        return " ".join(items)

    def pairing(self, left: str, right: str) -> str:
        """Return the sum of products of all elements of two arrays."""
        return rf"\left\langle {left}, {right} \right\rangle"


def latex_word(word: str) -> str:
    r"""Return one letter as it is, Greek as a command, anything longer upright."""
    if word in GREEK:
        return LATEX_GREEK.get(GREEK[word], word)
    if word in LATEX_GREEK:
        return LATEX_GREEK[word]
    if len(word) == 1 or word.isdigit():
        return word
    escaped = "".join(_LATEX_ESCAPES.get(c, c) for c in word)
    return rf"\mathrm{{{escaped}}}"


_LATEX_ESCAPES = {"_": r"\_", "#": r"\#", "%": r"\%", "&": r"\&", "$": r"\$"} | {
    symbol: rf"\text{{${command}$}}" for symbol, command in LATEX_GREEK.items()
}


def _tall(inner: str) -> bool:
    return any(mark in inner for mark in (r"\frac", r"\sum", r"\prod", r"\left"))
