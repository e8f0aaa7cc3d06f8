"""The partial derivative of a scalar function as a scalar of the program.

function, arguments, place -> Scalar
Operators are differentiated into operators; of any other function the derivative is the function
itself with an order, which its kernel computes to the last digits.
"""

from __future__ import annotations

from fractions import Fraction

from symgrad.functions.slope import vanishes
from symgrad.functions.table import ALIASES, FUNCTIONS
from symgrad.program import Apply, Number, Scalar

LINEAR = frozenset({"add", "sub", "neg", "identity", "where"})
"""Functions whose first derivatives do not depend on what they are differentiated by."""
ZERO, ONE = Number(0), Number(1)


def partial(function: str, args: tuple[Scalar, ...], k: int, order: tuple[int, ...] = ()) -> Scalar:
    """Return d/d args[k] of a function, or of its derivative of `order`, at `args`.

    Abstract functions, which are not in the table, give themselves with the order raised.
    """
    function = ALIASES.get(function, function)
    raised = tuple((order[n] if n < len(order) else 0) + (n == k) for n in range(len(args)))
    if not any(order):
        slope = _operator(function, args, k)
        if slope is not None:
            return slope
    elif function in LINEAR:
        return ZERO
    if function in FUNCTIONS and vanishes(function, raised):
        return ZERO
    return Apply(function, args, raised)


def _operator(function: str, args: tuple[Scalar, ...], k: int) -> Scalar | None:
    """Return the first derivative of what differentiates into operators, else None."""
    match function:
        case "add" | "identity":
            return ONE
        case "sub":
            return Number(1 - 2 * k)
        case "neg":
            return Number(-1)
        case "mul":
            return args[1 - k]
        case "div":
            return _of_quotient(args[0], args[1], k)
        case "pow" if k == 0:
            return _of_power(args[0], args[1])
        case "square":
            return Apply("mul", (Number(2), args[0]))
        case "where":
            return ZERO if k == 0 else Apply("where", (args[0], Number(2 - k), Number(k - 1)))
        case "heaviside" if k == 1:
            return Apply("where", (Apply("eq", (args[0], ZERO)), ONE, ZERO))
        case "exp_difference":
            itself = Apply(function, args)
            return itself if k == 0 else Apply("neg", (itself,))
        case "ratio_or_zero":
            return _of_ratio(args[0], args[1], k)
        case _:
            return None


def _of_quotient(a: Scalar, b: Scalar, k: int) -> Scalar:
    """d(a/b) = 1/b da - (a/b)/b db; b² might leave the range where the slope does not."""
    if k == 0:
        return Apply("div", (ONE, b))
    return Apply("neg", (Apply("div", (Apply("div", (a, b)), b)),))


def _of_ratio(a: Scalar, b: Scalar, k: int) -> Scalar:
    """Return the slopes of a quotient, each 0 where b is."""
    if k == 0:
        return Apply("ratio_or_zero", (ONE, b))
    once = Apply("ratio_or_zero", (a, b))
    return Apply("neg", (Apply("ratio_or_zero", (once, b)),))


def _of_power(base: Scalar, exponent: Scalar) -> Scalar | None:
    """d(x^p)/dx = p x^(p-1) for a number p, without 0 · x^-1 for p = 0 and 0^0 for p = 1."""
    p = _number(exponent)
    if p is None:
        return None
    if p == 0:
        return ZERO
    if p == 1:
        return ONE
    power = base if p == 2 else Apply("pow", (base, _scalar(p - 1)))
    return Apply("mul", (_scalar(p), power))


def _number(scalar: Scalar) -> Fraction | float | None:
    """Return the value of an exponent made of numbers only: `3`, `-2`, `1/3`, `0.5`."""
    match scalar:
        case Number(int() as value):
            return Fraction(value)
        case Number(value):
            return value
        case Apply("neg", (arg,), ()):
            positive = _number(arg)
            return None if positive is None else -positive
        case Apply("div", (above, below), ()):
            a, b = _number(above), _number(below)
            return None if a is None or not b else a / b
        case _:
            return None


def _scalar(value: Fraction | float) -> Scalar:
    """Return a number as a scalar: whole ones and floats plain, fractions as quotients."""
    if isinstance(value, float):
        return Number(value)
    if value.denominator == 1:
        return Number(value.numerator)
    return Apply("div", (Number(value.numerator), Number(value.denominator)))
