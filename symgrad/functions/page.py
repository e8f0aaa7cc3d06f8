"""The function table as a page of markdown: `python -m symgrad.functions > docs/functions.md`.

() -> text
Everything on it is read from the table, so it says what symgrad does.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import sympy
from sympy.printing.str import StrPrinter

from symgrad.functions.activations import ACTIVATIONS
from symgrad.functions.arithmetic import ARITHMETIC, LOGIC
from symgrad.functions.elementary import ELEMENTWISE
from symgrad.functions.function import Function, Interval
from symgrad.functions.slope import symbols_of, sympy_slope, vanishes

INTRODUCTION = """\
# Functions

<!-- Written by `python -m symgrad.functions > docs/functions.md`; a test compares. -->

Every scalar function of the language, as the function table has it. Numbers in a signature are
defaults; an extra argument may be an array, and is then differentiated. In a derivative `y` is the
value of the function. Outside its domain a function is nan. A kink shows the derivative there, one
for each argument if there are several. Second derivatives are exact too; 0 means that they vanish
everywhere, kinks included.

Complex arrays (complex64, complex128) may be given to layers whose functions all say yes; masks of
indices (`i >= j`) are welcome there. Of the functions over axes, `max`, `min`, `norm` and
`normalize` want real arrays; `var` and `std` square without conjugation.
"""
HEADINGS = (
    "function", "domain", "derivative", "at kinks", "complex", "second derivative",
)  # fmt: skip
WORDS = {
    "Abs": "abs", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh",
    "atan": "arctan", "atan2": "arctan2", "atanh": "arctanh", "ceiling": "ceil",
    "loggamma": "lgamma",
}  # fmt: skip
"""sympy's names of functions that the language calls differently."""


OPERATORS = {
    "add": "a + b", "sub": "a - b", "mul": "a * b", "div": "a / b", "neg": "-a", "pow": "a ** b",
    "lt": "a < b", "le": "a <= b", "gt": "a > b", "ge": "a >= b", "eq": "a == b", "ne": "a != b",
    "and_": "a & b", "or_": "a | b", "not_": "~a",
}  # fmt: skip
"""Functions that the language writes as operators."""


def page() -> str:
    """Return the page, one table a kind of function."""
    where = tuple(f for f in LOGIC if f.name == "where")
    sections = (
        ("Element-wise", (*ELEMENTWISE, *where)),
        ("Activations", ACTIVATIONS),
        ("Operators", tuple(f for f in (*ARITHMETIC, *LOGIC) if f.name in OPERATORS)),
    )
    tables = (f"## {title}\n\n{rows(functions)}\n" for title, functions in sections)
    return "\n".join((INTRODUCTION, *tables))


def rows(functions: Sequence[Function]) -> str:
    """Return a table of functions in markdown."""
    lines = [" | ".join(HEADINGS), " | ".join("---" for _ in HEADINGS)]
    lines += [" | ".join(_cells(f)) for f in functions]
    return "\n".join(f"| {line} |" for line in lines)


def _cells(function: Function) -> tuple[str, ...]:
    orders = [tuple(int(n == k) for n in range(function.arity)) for k in range(function.arity)]
    twice = [tuple(map(sum, zip(u, v, strict=True))) for u in orders for v in orders]
    flat = all(vanishes(function.name, order) for order in twice)
    return (
        _code(signature(function)),
        _domain(function),
        _derivatives(function, orders),
        _kinks(function),
        "yes" if function.complex else "no",
        "0" if flat else "yes",
    )


def signature(function: Function) -> str:
    """Return how a function is called, an operator how it is written."""
    if function.name in OPERATORS:
        return OPERATORS[function.name]
    plain = function.arity - len(function.defaults)
    values = ("", *(f"={v:g}" for v in function.defaults))
    shown = [
        f"{name}{values[n - plain + 1] if n >= plain else ''}"
        for n, name in enumerate(function.arguments)
    ]
    names = (function.name, *function.aliases)
    return ", ".join(f"{name}({', '.join(shown)})" for name in names)


def _domain(function: Function) -> str:
    bounded = [
        _interval(name, span)
        for name, span in zip(function.arguments, function.domain, strict=True)
        if span != (-inf, inf)
    ]
    return ", ".join(bounded) or "everywhere"


def _interval(name: str, span: Interval) -> str:
    low, high = span
    below = "" if low == -inf else f"{low:g} ≤ "
    above = "" if high == inf else f" ≤ {high:g}"
    return f"{below}{name}{above}"


def _derivatives(function: Function, orders: Sequence[tuple[int, ...]]) -> str:
    slopes: list[Any] = [sympy_slope(function.name, order) for order in orders]
    if function.from_value is not None:
        y = sympy.Symbol("y", real=True)
        slopes[0] = function.from_value(y, *symbols_of(function.name))
    texts = [_Words().doprint(slope) for slope in slopes]
    if len(texts) == 1:
        return _code(texts[0])
    pairs = zip(function.arguments, texts, strict=True)
    return "; ".join(f"{name}: {_code(text)}" for name, text in pairs)


def _kinks(function: Function) -> str:
    found = []
    for kink in function.kinks:
        slopes, at = (", ".join(f"{v:g}" for v in values) for values in (kink.slopes, kink.at))
        several = function.arity > 1
        found.append(f"({slopes}) at ({at})" if several else f"{slopes} at {at}")
    return "; ".join(found)


def _code(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"


class _Words(StrPrinter):  # type: ignore[misc]
    """Writes formulas in the words of the language."""

    def _print_Function(self, expr: Any) -> str:
        name = type(expr).__name__
        arguments = self.stringify(expr.args, ", ")
        if name == "polygamma":
            order = int(expr.args[0])
            return f"digamma{chr(39) * order}({self._print(expr.args[1])})"
        return f"{WORDS.get(name, name)}({arguments})"

    def _print_Abs(self, expr: Any) -> str:
        return f"abs({self._print(expr.args[0])})"

    def _print_Piecewise(self, expr: Any) -> str:
        *cases, last = expr.args
        texts = [f"{self._print(value)} if {self._print(where)}" for value, where in cases]
        rest = "" if last[1] is not sympy.true else f"{self._print(last[0])}"
        return f"({' else '.join((*texts, rest))})"

    def _print_Float(self, expr: Any) -> str:
        return f"{float(expr):.6g}"

    def _print_ExprCondPair(self, expr: Any) -> str:
        return str(self._print(expr.args[0]))

    def _print_Equality(self, expr: Any) -> str:
        return f"{self._print(expr.lhs)} == {self._print(expr.rhs)}"

    def _print_Unequality(self, expr: Any) -> str:
        return f"{self._print(expr.lhs)} != {self._print(expr.rhs)}"
