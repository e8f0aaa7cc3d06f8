"""Slopes of the table's functions with numpy, from the formulas that the table states.

name, order, value, arguments -> array
Textbook forms in terms of the value are taken where there are any, as one does by hand.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType
from typing import Any

import numpy as np
import sympy

from symgrad.errors import CodegenError
from symgrad.functions.slope import symbols_of, sympy_slope
from symgrad.functions.table import FUNCTIONS

Array = Any
VALUE = sympy.Symbol("y", real=True)


def slope(name: str, order: tuple[int, ...], has: Any) -> tuple[bool, Callable[..., Array]]:
    """Return whether the value is needed, and a function of it (or None) and of the arguments."""
    if name not in FUNCTIONS:
        raise CodegenError(f"the function {name} is not translated")
    entry, symbols = FUNCTIONS[name], symbols_of(name)
    from_value = entry.from_value if order[0] == 1 and sum(order) == 1 else None
    formula = sympy_slope(name, order) if from_value is None else from_value(VALUE, *symbols)

    def of(y: Array, *args: Array) -> Array:
        given = {**dict(zip(symbols, args, strict=False)), VALUE: y}
        known = symbols[len(args) :]
        fixed = entry.defaults[len(entry.defaults) - len(known) :] if known else ()
        given |= dict(zip(known, fixed, strict=True))
        return evaluated(formula, given, has)

    return from_value is not None, of


def evaluated(formula: Any, given: Mapping[Any, Array], has: Any) -> Array:
    """Return the numbers of a sympy expression, node by node; nothing is printed or executed."""
    if formula in given:
        return given[formula]
    if formula.is_number and not formula.has(sympy.Function):
        return float(formula)
    if isinstance(formula, sympy.Piecewise):
        return _cases(formula, given, has)
    kind = type(formula)
    if kind is sympy.polygamma:
        return has.polygamma(int(formula.args[0]), evaluated(formula.args[1], given, has))
    if kind not in NODES and kind.__name__ not in NAMES:
        raise CodegenError(f"a slope has {kind.__name__}, which is not translated")
    args = [evaluated(arg, given, has) for arg in formula.args]
    if kind in NODES:
        return NODES[kind](args)
    return getattr(has, NAMES[kind.__name__])(*args)


def _cases(formula: Any, given: Mapping[Any, Array], has: Any) -> Array:
    """Return the value of the first case that holds, place by place."""
    total: Array = np.nan
    for branch, condition in reversed(formula.args):
        found = evaluated(branch, given, has)
        if condition is sympy.true:
            total = found
        else:
            total = has.where(evaluated(condition, given, has), found, total)
    return total


NODES: Mapping[Any, Callable[[list[Array]], Array]] = MappingProxyType(
    {
        sympy.Add: lambda a: reduce(operator.add, a),
        sympy.Mul: lambda a: reduce(operator.mul, a),
        sympy.Pow: lambda a: a[0] ** a[1],
        sympy.Gt: lambda a: a[0] > a[1],
        sympy.Ge: lambda a: a[0] >= a[1],
        sympy.Lt: lambda a: a[0] < a[1],
        sympy.Le: lambda a: a[0] <= a[1],
        sympy.Eq: lambda a: a[0] == a[1],
        sympy.Ne: lambda a: a[0] != a[1],
        sympy.And: lambda a: reduce(operator.and_, a),
        sympy.Or: lambda a: reduce(operator.or_, a),
        sympy.Not: lambda a: ~a[0],
    }
)

NAMES: Mapping[str, str] = MappingProxyType(
    {
        **{n: n for n in "exp log sin cos tan sinh cosh tanh erf erfc gamma sign floor".split()},
        "Abs": "abs",
        "loggamma": "lgamma",
        "ceiling": "ceil",
        "atan2": "arctan2",
        **{f"a{n}": f"arc{n}" for n in "sin cos tan sinh cosh tanh".split()},
    }
)
"""Classes of sympy, and the words of tools for them."""


__all__ = ["slope"]
