"""How a notation writes each sign: the same formula goes to text and to LaTeX by two hands.

name, strings -> str
A hand joins strings; what stands where is decided by the writer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

ADD, MUL, POWER, ATOM = 1, 2, 3, 4
"""How tightly a written formula holds together."""


class Hand(Protocol):
    """What a notation must be able to write."""

    zero_times: str

    def name(self, name: str) -> str: ...
    def indexed(self, name: str, at: Sequence[str]) -> str: ...
    def element(self, base: str, at: Sequence[str]) -> str: ...
    def inverse(self, name: str, transposed: bool) -> str: ...
    def turned(self, name: str) -> str: ...
    def determinant(self, inner: str, log: bool) -> str: ...
    def join(self, factors: Sequence[tuple[str, str]]) -> str: ...
    def group(self, inner: str) -> str: ...
    def bracket(self, condition: str) -> str: ...
    def power(self, base: str, exponent: str) -> str: ...
    def quotient(self, above: str, below: str, simple: bool) -> str: ...
    def exp(self, exponent: str) -> str: ...
    def sqrt(self, inner: str) -> str: ...
    def absolute(self, inner: str) -> str: ...
    def call(self, function: str, order: Sequence[int], args: Sequence[str]) -> str: ...
    def big(self, sign: str, bound: Sequence[str], body: str) -> str: ...
    def delta(self, left: str, right: str) -> str: ...
    def relation(self, sign: str) -> str: ...
    def number(self, value: int | float) -> str: ...
    def partial(self, output: str, wrt: str, sign: str) -> str: ...


GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "zeta": "ζ",
    "eta": "η", "theta": "θ", "iota": "ι", "kappa": "κ", "lambda": "λ", "lamda": "λ", "mu": "μ",
    "nu": "ν", "xi": "ξ", "rho": "ρ", "sigma": "σ", "tau": "τ", "upsilon": "υ", "phi": "φ",
    "chi": "χ", "psi": "ψ", "omega": "ω", "pi": "π", "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ",
    "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π", "Sigma": "Σ", "Upsilon": "Υ", "Phi": "Φ", "Psi": "Ψ",
    "Omega": "Ω",
}
_LATEX_GREEK = {symbol: f"\\{word}" for word, symbol in GREEK.items() if word != "lamda"} | {
    "ϵ": "\\epsilon", "ε": "\\varepsilon", "ϑ": "\\vartheta", "ς": "\\varsigma", "ϱ": "\\varrho",
}
_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_RELATIONS = {
    "lt": ("<", "<"), "le": ("≤", r"\le"), "gt": (">", ">"), "ge": ("≥", r"\ge"),
    "eq": ("=", "="), "ne": ("≠", r"\ne"), "and_": ("and", r"\land"), "or_": ("or", r"\lor"),
    "not_": ("not", r"\lnot"),
}
_SIGNS = {"sum": ("Σ", r"\sum"), "prod": ("Π", r"\prod"), "max": ("max", r"\max"),
          "min": ("min", r"\min"), "argmax": ("argmax", r"\operatorname{argmax}"),
          "argmin": ("argmin", r"\operatorname{argmin}")}
_LATEX_FUNCTIONS = {
    "log": r"\log", "sin": r"\sin", "cos": r"\cos", "tan": r"\tan", "sinh": r"\sinh",
    "cosh": r"\cosh", "tanh": r"\tanh", "arcsin": r"\arcsin", "arccos": r"\arccos",
    "arctan": r"\arctan", "log2": r"\log_2", "log10": r"\log_{10}", "maximum": r"\max",
    "minimum": r"\min", "gamma": r"\Gamma", "lgamma": r"\log\Gamma", "digamma": r"\psi",
}

_LATEX_WHOLE = {
    "cbrt": r"\sqrt[3]{{{0}}}", "hypot": r"\sqrt{{{{({0})}}^2 + {{({1})}}^2}}",
    "floor": r"\left\lfloor {0} \right\rfloor", "ceil": r"\left\lceil {0} \right\rceil",
}


def split_name(name: str) -> tuple[str, str]:
    """Split `W1` or `beta_2` into base and number; other names have no number."""
    match = re.fullmatch(r"([^\W\d_]+?)_?(\d+)", name)
    if match and (len(match[1]) == 1 or match[1] in GREEK):
        return match[1], match[2]
    return name, ""


class TextHand:
    """Unicode text: `δ_ij (1 - y_i²) x_k`."""

    zero_times = "0"

    def name(self, name: str) -> str:
        """Return the name as the user wrote it."""
        return name

    def indexed(self, name: str, at: Sequence[str]) -> str:
        """Return `x_ij`, or `x_{i,j+k}` where a position is longer than a letter."""
        if not at:
            return name
        if all(len(p) == 1 for p in at):
            return f"{name}_{''.join(at)}"
        return f"{name}_{{{','.join(at)}}}"

    def element(self, base: str, at: Sequence[str]) -> str:
        """Return an element of what is no name: `(S⁻¹)_ij`."""
        return base + self.indexed("", at)

    def inverse(self, name: str, transposed: bool) -> str:
        """Return `S⁻¹`, or `S⁻ᵀ`."""
        return f"{name}⁻ᵀ" if transposed else f"{name}⁻¹"

    def turned(self, name: str) -> str:
        """Return `Sᵀ`."""
        return f"{name}ᵀ"

    def determinant(self, inner: str, log: bool) -> str:
        """Return `det S`, or `log det S`."""
        return f"log det {inner}" if log else f"det {inner}"

    def join(self, factors: Sequence[tuple[str, str]]) -> str:
        """Join factors; a sum in parentheses follows an element or another one directly."""
        text, before = "", ""
        for kind, factor in factors:
            close = kind == "group" and before in ("element", "group")
            text += ("" if not text or close else " ") + factor
            before = kind
        return text

    def group(self, inner: str) -> str:
        """Return it in parentheses."""
        return f"({inner})"

    def bracket(self, condition: str) -> str:
        """Return the Iverson bracket."""
        return f"[{condition}]"

    def power(self, base: str, exponent: str) -> str:
        """Return the power; whole exponents stand as superscripts."""
        if re.fullmatch(r"-?\d+", exponent):
            return base + exponent.translate(_SUPERSCRIPT)
        return f"{base}^{{{exponent}}}" if len(exponent) > 1 else f"{base}^{exponent}"

    def quotient(self, above: str, below: str, simple: bool) -> str:
        """Return `above/below`; `below` is grouped unless it is one thing."""
        return f"{above}/{below}" if simple else f"{above}/({below})"

    def exp(self, exponent: str) -> str:
        """Return `e^c` or `e^{y_j}`."""
        return f"e^{exponent}" if len(exponent) == 1 else f"e^{{{exponent}}}"

    def sqrt(self, inner: str) -> str:
        """Return the square root."""
        return f"√{inner}" if re.fullmatch(r"\w", inner) else f"√({inner})"

    def absolute(self, inner: str) -> str:
        """Return the absolute value."""
        return f"|{inner}|"

    def call(self, function: str, order: Sequence[int], args: Sequence[str]) -> str:
        """Return `σ'(z)`."""
        if len(order) > 1 and any(order):
            mark = "^(" + ",".join(map(str, order)) + ")"
        else:
            mark = "'" * sum(order)
        return f"{function}{mark}({', '.join(args)})"

    def big(self, sign: str, bound: Sequence[str], body: str) -> str:
        """Return `Σ_k body`."""
        return f"{self.indexed(_SIGNS[sign][0], bound)} {body}"

    def delta(self, left: str, right: str) -> str:
        """Return the Kronecker delta."""
        return self.indexed("δ", (left, right))

    def relation(self, sign: str) -> str:
        """Return the sign of a comparison or of logic."""
        return _RELATIONS[sign][0]

    def number(self, value: int | float) -> str:
        """Return the number as Python writes it."""
        if isinstance(value, bool):
            return str(int(value))
        if value in (float("inf"), -float("inf")):
            return "∞" if value > 0 else "-∞"
        if isinstance(value, float) and value == int(value) and abs(value) < 1e15:
            return str(int(value))
        return re.sub(r"e([-+])0*(\d)", lambda m: f"e{m[1].strip('+')}{m[2]}", repr(value))

    def partial(self, output: str, wrt: str, sign: str) -> str:
        """Return `∂y[i]/∂W[j,k]`."""
        return f"{sign}{output}/{sign}{wrt}"


class LatexHand:
    r"""LaTeX: `\delta_{ij} (1 - y_i^2) x_k`."""

    zero_times = "0"

    def name(self, name: str) -> str:
        r"""Return `W`, `\sigma`, `W_{1}` or `\mathrm{scale}`."""
        return self.indexed(name, ())

    def indexed(self, name: str, at: Sequence[str]) -> str:
        """Return `x_i`, `W_{jk}`, `W_{1,jk}`."""
        head, mark, owner = name.partition("^")
        base, number = split_name(head)
        base = latex_word(base) + (f"^{{{self.name(owner)}}}" if mark else "")
        subscript = "".join(at) if all(len(p) == 1 for p in at) else ",".join(at)
        subscript = ",".join(s for s in (number, subscript) if s)
        if not subscript:
            return base
        braces = subscript if len(subscript) == 1 else f"{{{subscript}}}"
        return f"{base}_{braces}"

    def element(self, base: str, at: Sequence[str]) -> str:
        """Return an element of what is no name."""
        subscript = "".join(at) if all(len(p) == 1 for p in at) else ",".join(at)
        return f"{base}_{subscript if len(subscript) == 1 else f'{{{subscript}}}'}"

    def inverse(self, name: str, transposed: bool) -> str:
        """Return `S^{-1}`, or its transpose."""
        return self.power(name, r"-\top" if transposed else "-1")

    def turned(self, name: str) -> str:
        r"""Return `S^\top`."""
        return self.power(name, r"\top")

    def determinant(self, inner: str, log: bool) -> str:
        r"""Return `\det S`, or `\log\det S`."""
        return rf"\log\det {inner}" if log else rf"\det {inner}"

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
        return f"{_SIGNS[sign][1]}_{braces} {body}"

    def delta(self, left: str, right: str) -> str:
        """Return the Kronecker delta."""
        separator = "" if len(left) == len(right) == 1 else ","
        return rf"\delta_{{{left}{separator}{right}}}"

    def relation(self, sign: str) -> str:
        """Return the sign of a comparison or of logic."""
        return _RELATIONS[sign][1]

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

    def partial(self, output: str, wrt: str, sign: str) -> str:
        """Return the derivative as a fraction."""
        mark = r"\partial " if sign == "∂" else "d "
        return rf"\frac{{{mark}{output}}}{{{mark}{wrt}}}"


def latex_word(word: str) -> str:
    r"""Return one letter as it is, Greek as a command, anything longer upright."""
    if word in GREEK:
        return _LATEX_GREEK.get(GREEK[word], word)
    if word in _LATEX_GREEK:
        return _LATEX_GREEK[word]
    if len(word) == 1:
        return word
    escaped = "".join(_LATEX_ESCAPES.get(c, c) for c in word)
    return rf"\mathrm{{{escaped}}}"


_LATEX_ESCAPES = {"_": r"\_", "#": r"\#", "%": r"\%", "&": r"\&", "$": r"\$"} | {
    symbol: rf"\text{{${command}$}}" for symbol, command in _LATEX_GREEK.items()
}


def _tall(inner: str) -> bool:
    return any(mark in inner for mark in (r"\frac", r"\sum", r"\prod", r"\left"))
