"""Partial derivatives of the table's functions as sympy expressions.

name, order -> sympy expression
sympy does the scalar calculus here, over finite reals; a jump counts for nothing, so no delta
function comes out, and every case of a piecewise formula keeps its condition.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import sympy

from symgrad.errors import InternalError
from symgrad.functions.table import ALIASES, FUNCTIONS

LARGEST = 120
"""Formulas with more nodes than this are left to the cheaper simplifications."""


@lru_cache(maxsize=4096)
def symbols_of(name: str) -> tuple[Any, ...]:
    """Return the real symbols that slopes of a function are written in, one per argument."""
    return tuple(sympy.Symbol(a, real=True) for a in FUNCTIONS[name].arguments)


@lru_cache(maxsize=4096)
def sympy_slope(name: str, order: tuple[int, ...] = ()) -> Any:
    """Return the partial derivative of a function over `symbols_of(name)`, in its shortest form.

    Raises InternalError for a name that is not in the table.
    """
    return _each_case(_derivative(ALIASES.get(name, name), order))


def vanishes(name: str, order: tuple[int, ...]) -> bool:
    """Tell whether a partial derivative is zero everywhere, kinks included."""
    return bool(_derivative(ALIASES.get(name, name), order) == 0)


@lru_cache(maxsize=4096)
def _derivative(name: str, order: tuple[int, ...]) -> Any:
    """Return the derivative as sympy leaves it, differentiated once more than the one before."""
    if name not in FUNCTIONS:
        raise InternalError(f"the function table has no {name}")
    symbols = symbols_of(name)
    if not any(order):
        return FUNCTIONS[name].body(*symbols)
    place = max(n for n, times in enumerate(order) if times)
    before = tuple(t - (n == place) for n, t in enumerate(order))
    return differentiate(_derivative(name, before), symbols[place])


def differentiate(expr: Any, symbol: Any) -> Any:
    """Return d expr / d symbol, where steps (sign, floor, ceiling) are flat."""
    steps = sorted(expr.atoms(sympy.sign, sympy.floor, sympy.ceiling), key=sympy.default_sort_key)
    flat = {step: sympy.Dummy(real=True) for step in steps}
    slope = sympy.diff(expr.xreplace(flat), symbol)
    return slope.xreplace({dummy: step for step, dummy in flat.items()})


def _each_case(expr: Any) -> Any:
    if isinstance(expr, sympy.Piecewise):
        return sympy.Piecewise(*((_shortest(value), where) for value, where in expr.args))
    return _shortest(expr)


def _shortest(expr: Any) -> Any:
    """Return the shortest of a few equal forms; the first of those equally short."""
    expr = _without_signs(expr)
    forms = [expr, sympy.factor_terms(expr), sympy.powsimp(expr)]
    if sum(1 for _ in sympy.preorder_traversal(expr)) <= LARGEST:
        forms += [sympy.together(expr), sympy.cancel(expr)]
        forms.append(sympy.factor_terms(forms[-1]))
    return min(forms, key=_length)


def _without_signs(expr: Any) -> Any:
    """Use z sign(z) = |z|."""
    for step in sorted(expr.atoms(sympy.sign), key=sympy.default_sort_key):
        expr = expr.subs(step.args[0] * step, sympy.Abs(step.args[0]))
    return expr


def _length(expr: Any) -> int:
    return sum(1 for _ in sympy.preorder_traversal(expr))
