"""How a notation writes each sign: one formula goes to text, LaTeX and MathML by three hands.

name, strings -> str
A hand joins strings; what stands where is decided by the writer.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

ADD, ODOT, MUL, POWER, ATOM = 1, 2, 3, 4, 5
"""How tightly a written formula holds together; ODOT is an element-wise product of arrays."""


class Hand(Protocol):
    """What a notation must be able to write.

    `barred` says that a fraction has a bar, which groups what stands above and below it;
    `ones` is the vector of ones, `identity` the identity matrix, `every` stands
    for all positions of an axis.
    """

    barred: bool
    ones: str
    identity: str
    every: str

    def name(self, name: str) -> str: ...
    def indexed(self, name: str, at: Sequence[str]) -> str: ...
    def raised(self, head: str, above: Sequence[str], at: Sequence[str]) -> str: ...
    def join(self, factors: Sequence[tuple[str, str]]) -> str: ...
    def total(self, signed: Sequence[tuple[bool, str]]) -> str: ...
    def without_minus(self, text: str) -> str | None: ...
    def position(self, text: str) -> str: ...
    def is_group(self, text: str) -> bool: ...
    def group(self, inner: str) -> str: ...
    def bracket(self, condition: str) -> str: ...
    def power(self, base: str, exponent: str) -> str: ...
    def quotient(self, above: str, below: str, simple: bool) -> str: ...
    def exp(self, exponent: str) -> str: ...
    def sqrt(self, inner: str) -> str: ...
    def absolute(self, inner: str) -> str: ...
    def floor(self, above: str, below: str) -> str: ...
    def call(self, function: str, order: Sequence[int], args: Sequence[str]) -> str: ...
    def big(self, sign: str, bound: Sequence[str], body: str) -> str: ...
    def delta(self, left: str, right: str) -> str: ...
    def relation(self, sign: str) -> str: ...
    def compared(self, left: str, sign: str, right: str) -> str: ...
    def number(self, value: int | float) -> str: ...
    def partial(self, output: str, wrt: str) -> str: ...
    def second(self, output: str, one: str, other: str) -> str: ...
    def held(self, ratio: str, names: Sequence[str]) -> str: ...
    def equation(self, left: str, right: str) -> str: ...
    def where(self, equation: str, condition: str) -> str: ...
    def element_of(self, name: str, at: Sequence[str]) -> str: ...
    def gathered(self, name: str, at: str) -> str: ...
    def at(self, base: str, at: Sequence[str]) -> str: ...
    def inverse(self, name: str, transposed: bool) -> str: ...
    def determinant(self, inner: str, log: bool) -> str: ...
    def transpose(self, inner: str) -> str: ...
    def odot(self, items: Sequence[str]) -> str: ...
    def matrices(self, items: Sequence[str]) -> str: ...
    def pairing(self, left: str, right: str) -> str: ...


GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "zeta": "ζ",
    "eta": "η", "theta": "θ", "iota": "ι", "kappa": "κ", "lambda": "λ", "lamda": "λ", "mu": "μ",
    "nu": "ν", "xi": "ξ", "rho": "ρ", "sigma": "σ", "tau": "τ", "upsilon": "υ", "phi": "φ",
    "chi": "χ", "psi": "ψ", "omega": "ω", "pi": "π", "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ",
    "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π", "Sigma": "Σ", "Upsilon": "Υ", "Phi": "Φ", "Psi": "Ψ",
    "Omega": "Ω",
}
LATEX_GREEK = {symbol: f"\\{word}" for word, symbol in GREEK.items() if word != "lamda"} | {
    "ϵ": "\\epsilon", "ε": "\\varepsilon", "ϑ": "\\vartheta", "ς": "\\varsigma", "ϱ": "\\varrho",
}
_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
RELATIONS = {
    "lt": ("<", "<"), "le": ("≤", r"\le"), "gt": (">", ">"), "ge": ("≥", r"\ge"),
    "eq": ("=", "="), "ne": ("≠", r"\ne"), "and_": ("and", r"\land"), "or_": ("or", r"\lor"),
    "not_": ("not", r"\lnot"),
}
SIGNS = {"sum": ("Σ", r"\sum"), "prod": ("Π", r"\prod"), "max": ("max", r"\max"),
          "min": ("min", r"\min"), "argmax": ("argmax", r"\operatorname{argmax}"),
          "argmin": ("argmin", r"\operatorname{argmin}")}


def split_name(name: str) -> tuple[str, tuple[str, ...]]:
    """Split `W1`, `beta_2` or `Θ_out` into a letter and its subscripts; a word has none."""
    head, *rest = name.split("_")
    match = re.fullmatch(r"([^\W\d_]+?)(\d+)", head)
    letter, number = (match[1], [match[2]]) if match else (head, [])
    parts = (*number, *rest)
    if (len(letter) == 1 or letter in GREEK) and all(parts):
        return letter, parts
    return name, ()


def short(at: Sequence[str]) -> bool:
    """Whether positions stand side by side without commas: each is a letter or a digit."""
    return all(len(p) == 1 and p != ":" for p in at)


class LineHand(ABC):
    """What text and LaTeX write alike, terms and signs on one line."""

    @abstractmethod
    def relation(self, sign: str) -> str:
        """Return the sign of a comparison or of logic."""

    def total(self, signed: Sequence[tuple[bool, str]]) -> str:
        """Return terms joined by their signs."""
        return plus_and_minus(signed)

    def without_minus(self, text: str) -> str | None:
        """Return what stands behind a leading minus, or None if there is none."""
        return text[1:] if text.startswith("-") else None

    def position(self, text: str) -> str:
        """Return a sum as it stands in a subscript."""
        return text.replace(" + ", "+").replace(" - ", "-")

    def compared(self, left: str, sign: str, right: str) -> str:
        """Return a comparison."""
        return f"{left} {self.relation(sign)} {right}"

    def equation(self, left: str, right: str) -> str:
        """Return an equation."""
        return f"{left} = {right}"

    def gathered(self, name: str, at: str) -> str:
        """Return `E[t]`, the rows of an array that an index array names."""
        return f"{name}[{at}]"


class TextHand(LineHand):
    """Unicode text: `δ_ij (1 - y_i²) x_k`."""

    barred = False
    ones = "𝟏"
    identity = "I"
    every = ":"

    def name(self, name: str) -> str:
        """Return the name as the user wrote it; `G^{L,z}` is braced where it is longer."""
        head, mark, owner = name.partition("^")
        return f"{head}^{{{owner}}}" if mark and "," in owner else name

    def indexed(self, name: str, at: Sequence[str]) -> str:
        """Return `x_ij`, `x_{i,j+k}` where a position is longer than a letter, or `W_out[i,j]`."""
        name = self.name(name)
        if not at:
            return name
        if "_" in name:
            return self.element_of(name, at)
        if short(at):
            return f"{name}_{''.join(at)}"
        return f"{name}_{{{','.join(at)}}}"

    def raised(self, head: str, above: Sequence[str], at: Sequence[str]) -> str:
        """Return `G^{S⁻¹}_ij`, whose superscript is written already."""
        base = f"{head}^{{{','.join(above)}}}"
        return self.at(base, at) if at else base

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
        return f"{self.indexed(SIGNS[sign][0], bound)} {body}"

    def delta(self, left: str, right: str) -> str:
        """Return the Kronecker delta."""
        return self.indexed("δ", (left, right))

    def relation(self, sign: str) -> str:
        """Return the sign of a comparison or of logic."""
        return RELATIONS[sign][0]

    def number(self, value: int | float) -> str:
        """Return the number as Python writes it."""
        if isinstance(value, bool):
            return str(int(value))
        if isinstance(value, int) and 10**15 <= abs(value) < 10**300 and int(float(value)) == value:
            value = float(value)
        if value in (float("inf"), -float("inf")):
            return "∞" if value > 0 else "-∞"
        if isinstance(value, float) and value == int(value) and abs(value) < 1e15:
            return str(int(value))
        return re.sub(r"e([-+])0*(\d)", lambda m: f"e{m[1].strip('+')}{m[2]}", repr(value))

    def second(self, output: str, one: str, other: str) -> str:
        """Return `∂²y[i]/∂W[j,k]∂b[l]`."""
        return f"∂²{output}/∂{one}∂{other}"

    def partial(self, output: str, wrt: str) -> str:
        """Return `∂y[i]/∂W[j,k]`."""
        return f"∂{output}/∂{wrt}"

    def is_group(self, text: str) -> bool:
        """Whether it stands in parentheses; an element of it, `(S⁻¹)_ij`, does not."""
        return text.startswith("(") and text.endswith(")")

    def floor(self, above: str, below: str) -> str:
        """Return the floor of a quotient."""
        return f"⌊({above})/{below}⌋"

    def held(self, ratio: str, names: Sequence[str]) -> str:
        """Return a derivative with what it holds fixed."""
        return f"{ratio} |{{{', '.join(names)}}}"

    def where(self, equation: str, condition: str) -> str:
        """Return an equation with the condition under which it holds."""
        return f"{equation}  where {condition}"

    def element_of(self, name: str, at: Sequence[str]) -> str:
        """Return `y[i,j]`, as it stands in the head of a result."""
        return name + (f"[{','.join(at)}]" if at else "")

    def at(self, base: str, at: Sequence[str]) -> str:
        """Return an element of what is no name: `softmax(z)_i`, `(S⁻¹)_ij`."""
        return f"{base}_{''.join(at)}" if short(at) else f"{base}_{{{','.join(at)}}}"

    def inverse(self, name: str, transposed: bool) -> str:
        """Return `S⁻¹`, or `S⁻ᵀ`."""
        return f"{name}⁻ᵀ" if transposed else f"{name}⁻¹"

    def determinant(self, inner: str, log: bool) -> str:
        """Return `det S`, or `log det S`."""
        return f"log det {inner}" if log else f"det {inner}"

    def transpose(self, inner: str) -> str:
        """Return the transpose; `(G^z)ᵀ`, because a superscript is there already."""
        return f"({inner})ᵀ" if re.fullmatch(r"\w+\^(\w+|\{.*\})(_\{.*\})?", inner) else f"{inner}ᵀ"

    def odot(self, items: Sequence[str]) -> str:
        """Return an element-wise product."""
        return " ⊙ ".join(items)

    def matrices(self, items: Sequence[str]) -> str:
        """Return a product of matrices; single letters touch, as in `Wx`, but not in `u vᵀ`."""
        tight = all(len(i.rstrip("ᵀ")) == 1 and i[0].isalpha() for i in items)
        tight = tight and not items[-1].endswith("ᵀ")
        return ("" if tight else " ").join(items)

    def pairing(self, left: str, right: str) -> str:
        """Return the sum of products of all elements of two arrays."""
        return f"⟨{left}, {right}⟩"


def plus_and_minus(signed: Sequence[tuple[bool, str]]) -> str:
    """Return terms joined by their signs."""
    text = ""
    for negative, term in signed:
        lead = "-" if negative else "" if not text else "+"
        text += f" {lead} {term}" if text else f"{lead}{term}"
    return text
