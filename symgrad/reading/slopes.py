"""Slopes as the textbook writes them: `1 - y²` where `y = tanh(z)` has a name.

Apply with an order -> Scalar
sympy differentiates one body over opaque real symbols; a form in terms of the value is taken
where it is the shorter one. For reading only: kernels use forms that stay exact in saturation.
"""

from __future__ import annotations

from functools import lru_cache

import sympy

from symgrad.algebra.partials import multiply, scalar_partials
from symgrad.functions import FUNCTIONS
from symgrad.program import Access, Apply, Constant, Number, Scalar, rebuild, walk
from symgrad.reading.matching import Meanings
from symgrad.reading.products import tidy_scalar

LONGEST = 14
"""A slope with more nodes than this keeps its name: `gelu'(z)`."""


def write_slopes(scalar: Scalar, meanings: Meanings) -> Scalar:
    """Return the scalar with slopes, first and second, of known functions written if short."""

    def change(node: Scalar) -> Scalar:
        if isinstance(node, Apply) and sum(node.order) in (1, 2):
            return _slope(node, meanings)
        return node

    if not any(isinstance(n, Apply) and n.order for n in walk(scalar)):
        return scalar
    return tidy_scalar(rebuild(scalar, change))


def _slope(node: Apply, meanings: Meanings) -> Scalar:
    value: Scalar | None = meanings.value_of(Apply(node.function, node.args))
    named = value is not None
    if value is None:
        value = Apply(node.function, node.args)
    longest = LONGEST * sum(node.order)
    best: tuple[int, Scalar] = (longest + 3 * _unnamed(node, meanings), node)
    places = tuple(n for n, times in enumerate(node.order) for _ in range(times))
    known = _forms(node.function, places[0], len(node.args), named)
    if len(places) == 2:
        known = _twice(node.function, places, len(node.args), known)
    for form in known:
        candidate = _fill(form, value, node.args)
        if len(places) == 2:
            candidate = write_slopes(candidate, meanings)
        cost = _cost(candidate) + 3 * _unnamed(candidate, meanings)
        best = min(best, (cost, candidate), key=lambda pair: pair[0])
    return best[1]


@lru_cache(maxsize=4096)
def _forms(function: str, place: int, arity: int, named: bool) -> tuple[Scalar, ...]:
    """Return a function's slope over the arguments `#0, #1, ..` and its value `#y`."""
    if (function, place) in _BY_HAND:
        return (_BY_HAND[function, place],)
    entry = FUNCTIONS.get(function)
    if entry is None:
        return ()
    symbols = [sympy.Symbol(f"#{n}", real=True) for n in range(arity)]
    y = sympy.Symbol("#y", real=True)
    found: list[Scalar | None] = []
    from_value = getattr(entry, "from_value", None)
    if from_value is not None and place == 0:
        found.append(from_sympy(from_value(y, *symbols)))
    if entry.body is not None:
        found.append(_body_slope(entry.body(*symbols), symbols[place]))
    found.append(_BY_VALUE.get((function, place)))
    return tuple(form for form in found if form is not None)


@lru_cache(maxsize=4096)
def _twice(
    function: str, places: tuple[int, int], arity: int, once: tuple[Scalar, ...]
) -> tuple[Scalar, ...]:
    """Return a second derivative over `#0, #1, ..` and `#y`; `once` are forms of the first."""
    first, second = places
    if (function, first) in _BY_HAND:
        return (_slope_of(once[0], once[0], second),)
    entry = FUNCTIONS.get(function)
    if entry is None:
        return ()
    symbols = [sympy.Symbol(f"#{n}", real=True) for n in range(arity)]
    y = sympy.Symbol("#y", real=True)
    found: list[Scalar | None] = []
    if entry.from_value is not None and places == (0, 0):
        slope = entry.from_value(y, *symbols)
        curved = sympy.diff(slope, y) * slope + sympy.diff(slope, symbols[0])
        found += [from_sympy(_ones_first(sympy.factor(curved))), from_sympy(curved)]
    found.append(_body_slope(sympy.diff(entry.body(*symbols), symbols[first]), symbols[second]))
    return tuple(form for form in found if form is not None)


def _ones_first(product: sympy.Expr) -> sympy.Expr:
    """Write `(y - 1)(2 y - 1)` as `(1 - y)(1 - 2 y)`."""
    sign, factors = 1, []
    for factor in sympy.Mul.make_args(product):
        negative = factor.is_Add and factor.as_coeff_Add()[0].is_negative
        sign *= -1 if negative else 1
        factors.append(sympy.expand_mul(-factor) if negative else factor)
    return sympy.Mul(sign, *factors)


def _slope_of(form: Scalar, once: Scalar, place: int) -> Scalar:
    """Return d form / d `#place`, where `#y` has the slope `once`."""
    total: Scalar = Number(0)
    for access, slope in scalar_partials(form, lambda name: name in (f"#{place}", "#y")).items():
        inner = slope if access.array != "#y" else multiply(slope, once)
        total = inner if total == Number(0) else Apply("add", (total, inner))
    return total


def slope_formula(
    function: str, arity: int, place: int = 0
) -> tuple[tuple[Access, ...], Scalar] | None:
    """Return a function's arguments as letters and its slope in one of them, or None."""
    forms = _forms(function, place, arity, False)
    if not forms:
        return None
    args = tuple(Access(letter) for letter in ("z", "a", "p", "q")[:arity])
    value = Apply(function, args)
    shortest = min((_fill(form, value, args) for form in forms), key=_cost)
    return args, shortest


_BY_VALUE: dict[tuple[str, int], Scalar] = {
    ("relu", 0): Apply("where", (Apply("gt", (Access("#y"), Number(0))), Number(1), Number(0))),
}
"""Slopes in terms of the value that no algebra finds: relu(z) > 0 exactly where z > 0."""
_A, _B = Access("#0"), Access("#1")
_HALF_TIE = Apply("div", (Apply("eq", (_A, _B)), Number(2)))
_BY_HAND: dict[tuple[str, int], Scalar] = {
    ("abs", 0): Apply("sign", (_A,)),
    ("hypot", 0): Apply("ratio_or_zero", (_A, Apply("hypot", (_A, _B)))),
    ("hypot", 1): Apply("ratio_or_zero", (_B, Apply("hypot", (_A, _B)))),
    ("gamma", 0): Apply("mul", (Apply("gamma", (_A,)), Apply("digamma", (_A,)))),
    ("lgamma", 0): Apply("digamma", (_A,)),
    ("softplus", 0): Apply("sigmoid", (_A,)),
    ("log_sigmoid", 0): Apply("sigmoid", (Apply("neg", (_A,)),)),
    ("logaddexp", 0): Apply("sigmoid", (Apply("sub", (_A, _B)),)),
    ("logaddexp", 1): Apply("sigmoid", (Apply("sub", (_B, _A)),)),
    ("pow", 0): Apply("mul", (_B, Apply("pow", (_A, Apply("sub", (_B, Number(1))))))),
    ("pow", 1): Apply("mul", (Apply("pow", (_A, _B)), Apply("log", (_A,)))),
    ("maximum", 0): Apply("add", (Apply("gt", (_A, _B)), _HALF_TIE)),
    ("maximum", 1): Apply("add", (Apply("lt", (_A, _B)), _HALF_TIE)),
    ("minimum", 0): Apply("add", (Apply("lt", (_A, _B)), _HALF_TIE)),
    ("minimum", 1): Apply("add", (Apply("gt", (_A, _B)), _HALF_TIE)),
}
"""Slopes sympy writes with a step function, a quotient that is not there, or not at all."""


def _body_slope(body: sympy.Expr, symbol: sympy.Symbol) -> Scalar | None:
    slope = sympy.diff(body, symbol)
    if slope.has(sympy.Derivative, sympy.DiracDelta, sympy.Heaviside, sympy.Subs):
        return None
    best: Scalar | None = None
    for candidate in (slope, sympy.factor_terms(slope), sympy.powsimp(slope)):
        form = from_sympy(candidate)
        if form is not None and (best is None or _cost(form) < _cost(best)):
            best = form
    return best


def _fill(form: Scalar, value: Scalar, args: tuple[Scalar, ...]) -> Scalar:
    def change(node: Scalar) -> Scalar:
        if isinstance(node, Access) and node.array.startswith("#"):
            return value if node.array == "#y" else args[int(node.array[1:])]
        return node

    return tidy_scalar(rebuild(form, change))


def _unnamed(scalar: Scalar, meanings: Meanings) -> int:
    """Count elements that are written in place, because nobody named them."""
    arrays = [n.array for n in walk(scalar) if isinstance(n, Access)]
    return sum(1 for name in arrays if name in meanings.unwritten)


def _cost(scalar: Scalar) -> int:
    """Count what a reader reads; a comparison counts less than the nodes it has."""
    cost = 0
    for node in walk(scalar):
        cost += 0 if isinstance(node, Number) and node.value in (0, 1) else 1
    return cost


_FUNCTIONS: dict[object, str] = {
    sympy.exp: "exp", sympy.log: "log", sympy.sin: "sin", sympy.cos: "cos", sympy.tan: "tan",
    sympy.sinh: "sinh", sympy.cosh: "cosh", sympy.tanh: "tanh", sympy.asin: "arcsin",
    sympy.acos: "arccos", sympy.atan: "arctan", sympy.asinh: "arcsinh", sympy.acosh: "arccosh",
    sympy.atanh: "arctanh", sympy.erf: "erf", sympy.erfc: "erfc", sympy.Abs: "abs",
    sympy.sign: "sign", sympy.gamma: "gamma", sympy.loggamma: "lgamma", sympy.digamma: "digamma",
}
_RELATIONS: dict[object, str] = {
    sympy.StrictLessThan: "lt", sympy.LessThan: "le", sympy.StrictGreaterThan: "gt",
    sympy.GreaterThan: "ge", sympy.Equality: "eq", sympy.Unequality: "ne",
}


def from_sympy(expr: sympy.Basic) -> Scalar | None:
    """Return a sympy expression as a scalar, symbols as accesses; None if it has no such form."""
    if isinstance(expr, sympy.Symbol):
        return Access(expr.name)
    if expr is sympy.pi:
        return Constant("pi")
    if isinstance(expr, sympy.Integer):
        return Number(int(expr))
    if isinstance(expr, sympy.Float):
        return Number(float(expr))
    if isinstance(expr, sympy.Rational):
        return Apply("div", (Number(int(expr.p)), Number(int(expr.q))))
    if isinstance(expr, sympy.Piecewise):
        return _cases(expr)
    if isinstance(expr, sympy.Pow):
        return _power(expr)
    name = _FUNCTIONS.get(expr.func) or _RELATIONS.get(expr.func)
    args = [from_sympy(a) for a in _ordered(expr)]
    if any(a is None for a in args):
        return None
    known = tuple(a for a in args if a is not None)
    if name is not None:
        return Apply(name, known)
    if isinstance(expr, sympy.Add | sympy.Mul | sympy.And | sympy.Or):
        joint = {sympy.Add: "add", sympy.Mul: "mul", sympy.And: "and_", sympy.Or: "or_"}[expr.func]
        total = known[0]
        for arg in known[1:]:
            total = Apply(joint, (total, arg))
        return total
    return None


def _ordered(expr: sympy.Basic) -> tuple[sympy.Basic, ...]:
    """Return arguments in an order that does not depend on hashes, numbers first."""
    if isinstance(expr, sympy.Add | sympy.Mul | sympy.And | sympy.Or):
        return tuple(sorted(expr.args, key=lambda a: (not a.is_number, sympy.default_sort_key(a))))
    return tuple(expr.args)


def _power(expr: sympy.Pow) -> Scalar | None:
    base, exponent = from_sympy(expr.base), from_sympy(expr.exp)
    if base is None or exponent is None:
        return None
    if expr.base is sympy.E:
        return Apply("exp", (exponent,))
    if expr.exp == sympy.Rational(1, 2):
        return Apply("sqrt", (base,))
    if expr.exp == sympy.Rational(-1, 2):
        return Apply("reciprocal", (Apply("sqrt", (base,)),))
    if isinstance(expr.exp, sympy.Integer) and expr.exp < 0:
        below: Scalar = base if expr.exp == -1 else Apply("pow", (base, Number(-int(expr.exp))))
        return Apply("div", (Number(1), below))
    return Apply("pow", (base, exponent))


def _cases(expr: sympy.Piecewise) -> Scalar | None:
    """Return nested choices; the last case is taken as the rest."""
    total: Scalar | None = None
    for value, condition in reversed(expr.args):
        case = from_sympy(value)
        if case is None:
            return None
        if total is None:
            total = case
            continue
        mask = from_sympy(condition)
        if mask is None:
            return None
        total = Apply("where", (mask, case, total))
    return total
