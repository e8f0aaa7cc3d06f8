"""Values and partial derivatives of every scalar function in mpmath, to any precision.

name, order -> function of mpf
Finite differences cannot see a relative digit lost in saturation; a closed form evaluated here can.
"""

from __future__ import annotations

from collections.abc import Mapping

import mpmath
from mpmath import mp

from symgrad.errors import InternalError
from symgrad.proof.curvatures import CURVATURES
from symgrad.proof.slopes import COMPARISONS, SLOPES
from symgrad.proof.values import VALUES, Function, Real, zero


def exact(
    name: str, order: tuple[int, ...] = (), functions: Mapping[str, Function] | None = None
) -> Function:
    """Return a function, or its partial derivative of `order`, as a total function of mpf.

    `functions` gives values of abstract functions. Outside the real domain the result is nan.
    Raises InternalError for a name that is not in the language.
    """
    bound = (functions or {}).get(name)
    value = bound or VALUES.get(name)
    if value is None:
        raise InternalError(f"the reference interpreter knows no function {name}")
    if not any(order):
        return _total(value, passes_nan=name in SEES_NAN)
    if sum(order) == 2 and bound is None:
        value = CURVATURES.get(name, {}).get(order, zero)
        return _total(value, passes_nan=name in SEES_NAN)
    first = next(place for place, times in enumerate(order) if times)
    slopes = SLOPES.get(name, ()) if bound is None else ()
    if first < len(slopes):
        value = slopes[first]
        order = tuple(t - (place == first) for place, t in enumerate(order))
    return _total(_differentiated(value, order), passes_nan=name in SEES_NAN)


def _differentiated(f: Function, order: tuple[int, ...]) -> Function:
    """Return the partial derivative of f by mpmath's own differences, at raised precision."""
    if not any(order):
        return f

    def slope(*args: Real) -> Real:
        padded = (*order, *(0,) * (len(args) - len(order)))
        if any(mp.isinf(arg) for arg in args):
            return mp.nan
        if len(args) == 1:
            return mp.diff(f, args[0], padded[0])
        return mp.diff(f, tuple(args), padded)

    return slope


def _total(f: Function, *, passes_nan: bool) -> Function:
    """Make f return nan, or inf at a pole, where mpmath raises or turns complex."""

    def total(*args: Real) -> Real:
        if not passes_nan and any(mp.isnan(arg) for arg in args):
            return mp.nan
        try:
            result = f(*args)
        except ZeroDivisionError:
            return mp.inf
        except ValueError:
            return mp.nan
        return mp.nan if isinstance(result, mpmath.mpc) else mp.mpf(result)

    return total


SEES_NAN = frozenset((*COMPARISONS, "where", "pow"))
"""Functions that give a number although an argument may be nan."""
