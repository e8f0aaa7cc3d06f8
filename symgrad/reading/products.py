"""Products written flat: a number, atoms above the line with powers, atoms below it.

Scalar, ... -> Product -> Scalar, ...
An atom above never cancels against one below: that would change where the formula is defined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from symgrad.program import Apply, Delta, Guard, Index, Number, Scalar, indices_of
from symgrad.reading.closed import Piece, Shown, Summed

Coefficient = Fraction | float
ARITHMETIC = frozenset({"add", "sub", "mul", "div", "neg", "pow"})


@dataclass(slots=True)
class Product:
    """`number * sum[bound] prod over[a]^p / prod under[a]^p`; dicts keep the order of writing."""

    bound: tuple[Index, ...] = ()
    number: Coefficient = Fraction(1)
    over: dict[Shown, int] = field(default_factory=dict)
    under: dict[Shown, int] = field(default_factory=dict)

    def copy(self) -> Product:
        """Return an independent copy."""
        return Product(self.bound, self.number, dict(self.over), dict(self.under))

    @property
    def key(self) -> tuple[object, ...]:
        """What two products must share to be added up."""
        return (self.bound, frozenset(self.over.items()), frozenset(self.under.items()))


def coefficient(value: int | float) -> Coefficient:
    """Return the exact fraction where it is a simple one (0.5 is 1/2), else the float."""
    if isinstance(value, int):
        return Fraction(value)
    if value != value or value in (float("inf"), float("-inf")):
        return value
    exact = Fraction(value)
    return exact if exact.denominator <= 64 else value


def product_of(factors: Iterable[Shown], bound: tuple[Index, ...] = ()) -> Product:
    """Return the flat product of `factors`."""
    product = Product(bound)
    for factor in factors:
        _multiply(product, factor, 1)
    return product


def _multiply(product: Product, factor: Shown, power: int) -> None:
    match factor:
        case Number(value):
            base = coefficient(value)
            if power < 0 and base == 0:
                _put(product, factor, power)
            else:
                product.number = product.number * base**power
        case Apply("mul", args, ()):
            for arg in args:
                _multiply(product, arg, power)
        case Apply("div", (above, below), ()):
            _multiply(product, above, power)
            _multiply(product, below, -power)
        case Apply("neg", (arg,), ()):
            product.number = product.number * (-1) ** power
            _multiply(product, arg, power)
        case Apply("square", (arg,), ()):
            _multiply(product, arg, 2 * power)
        case Apply("reciprocal", (arg,), ()):
            _multiply(product, arg, -power)
        case Apply("identity", (arg,), ()):
            _multiply(product, arg, power)
        case Apply("pow", (arg, Number(exponent)), ()) if _whole(exponent):
            _multiply(product, arg, int(exponent) * power)
        case Apply("pow", (arg, Number(0.5)), ()):
            _put(product, Apply("sqrt", (arg,)), power)
        case Apply("pow", (arg, Number(-0.5)), ()):
            _put(product, Apply("sqrt", (arg,)), -power)
        case _:
            _put(product, factor, power)


def _whole(exponent: int | float) -> bool:
    return abs(exponent) <= 8 and exponent == int(exponent)


def _put(product: Product, atom: Shown, power: int) -> None:
    atom = tidy(atom)
    if isinstance(atom, Number) and not (power < 0 and atom.value == 0):
        product.number = product.number * coefficient(atom.value) ** power
        return
    if isinstance(atom, Apply) and not atom.order and atom.function in _PRODUCTLIKE:
        _multiply(product, atom, power)
        return
    side = product.over if power > 0 else product.under
    side[atom] = 1 if power > 0 and _is_mask(atom) else side.get(atom, 0) + abs(power)


def _is_mask(atom: Shown) -> bool:
    """Whether it is 0 or 1 everywhere, and so its own square."""
    if isinstance(atom, Apply):
        return atom.function in ("lt", "le", "gt", "ge", "eq", "ne") and not atom.order
    return isinstance(atom, Delta | Guard)


_PRODUCTLIKE = frozenset({"mul", "div", "neg", "square", "reciprocal", "identity"})


def tidy(shown: Shown) -> Shown:
    """Return the formula with products inside flattened and sums added up."""
    return shown if isinstance(shown, Summed) else tidy_scalar(shown)


@lru_cache(maxsize=8192)
def tidy_scalar(scalar: Scalar) -> Scalar:
    """Return an equal scalar, with products flattened and like terms of sums added up."""
    if not isinstance(scalar, Apply):
        return scalar
    if not scalar.order and scalar.function in ("add", "sub"):
        return add_up(addends(scalar))
    if not scalar.order and (scalar.function in _PRODUCTLIKE or _is_power(scalar)):
        return scalar_of(product_of((scalar,)))
    args = tuple(tidy_scalar(a) for a in scalar.args)
    return Apply(scalar.function, args, scalar.order)


def _is_power(scalar: Apply) -> bool:
    if scalar.function != "pow":
        return False
    exponent = scalar.args[1]
    return isinstance(exponent, Number) and _whole(exponent.value)


def addends(scalar: Scalar) -> list[Product]:
    """Return the products that a sum of sums adds up."""
    match scalar:
        case Apply("add", args, ()):
            return [p for arg in args for p in addends(arg)]
        case Apply("sub", (left, right), ()):
            return [*addends(left), *(negated(p) for p in addends(right))]
        case Apply("neg", (arg,), ()):
            return [negated(p) for p in addends(arg)]
        case _:
            return [product_of((scalar,))]


def negated(product: Product) -> Product:
    """Return minus the product."""
    result = product.copy()
    result.number = -result.number
    return result


def like_terms(products: Iterable[Product]) -> list[Product]:
    """Add up products that differ only in their number; zeros are dropped."""
    table: dict[tuple[object, ...], Product] = {}
    for product in products:
        seen = table.get(product.key)
        if seen is None:
            table[product.key] = product.copy()
        else:
            seen.number = seen.number + product.number
    return [p for p in table.values() if p.number != 0]


def add_up(products: Sequence[Product]) -> Scalar:
    """Return the sum of products without bound indices as one scalar, a positive one first."""
    kept = positive_first(like_terms(products))
    if not kept:
        return Number(0)
    total = scalar_of(kept[0])
    for product in kept[1:]:
        if product.number < 0:
            total = Apply("sub", (total, scalar_of(negated(product))))
        else:
            total = Apply("add", (total, scalar_of(product)))
    return total


def positive_first(products: list[Product]) -> list[Product]:
    """Return them with a positive one in front where there is one: `1 - y`, not `-y + 1`."""
    first = next((n for n, p in enumerate(products) if p.number > 0), 0)
    return [products[first], *products[:first], *products[first + 1 :]] if products else []


def scalar_of(product: Product) -> Scalar:
    """Return a product without bound indices and inner sums as one scalar."""
    over, under = scalars(product)
    above: Scalar = over[0] if over else Number(1)
    for factor in over[1:]:
        above = Apply("mul", (above, factor))
    if not under:
        return above
    below = under[0]
    for factor in under[1:]:
        below = Apply("mul", (below, factor))
    return Apply("div", (above, below))


def scalars(product: Product) -> tuple[list[Scalar], list[Scalar]]:
    """Return the factors above and below the line, numbers first."""
    over: list[Scalar] = []
    under: list[Scalar] = []
    number = product.number
    if isinstance(number, Fraction):
        if number.numerator != 1:
            over.append(Number(number.numerator))
        if number.denominator != 1:
            under.append(Number(number.denominator))
    elif number != 1:
        over.append(Number(number))
    for side, atoms in ((over, product.over), (under, product.under)):
        for atom, power in atoms.items():
            assert not isinstance(atom, Summed)
            side.append(atom if power == 1 else Apply("pow", (atom, Number(power))))
    return over, under


def times(left: Product, right: Product) -> Product:
    """Return the product of two products; their bound indices must differ."""
    result = Product((*left.bound, *right.bound), left.number * right.number)
    for source in (left, right):
        for atom, power in source.over.items():
            result.over[atom] = result.over.get(atom, 0) + power
        for atom, power in source.under.items():
            result.under[atom] = result.under.get(atom, 0) + power
    return result


def without(product: Product, common: Product) -> Product:
    """Return `product / common`, where common's atoms are all in product."""
    result = Product(product.bound, product.number / common.number)
    for side, taken, kept in (
        (product.over, common.over, result.over),
        (product.under, common.under, result.under),
    ):
        for atom, power in side.items():
            left = power - taken.get(atom, 0)
            if left:
                kept[atom] = left
    return result


@lru_cache(maxsize=65536)
def indices_in(shown: Shown) -> frozenset[Index]:
    """Return the indices free in a shown formula."""
    if not isinstance(shown, Summed):
        return frozenset(indices_of(shown))
    found: set[Index] = set()
    for piece in shown.pieces:
        inner = {i for f in piece.factors for i in indices_in(f)}
        found |= inner - set(piece.bound)
    return frozenset(found)


def piece_of(product: Product) -> Piece:
    """Return the product as a piece: below the line stands one quotient `1 / under`."""
    outer = Product((), product.number, {}, dict(product.under))
    factors: list[Shown] = []
    head = scalar_of(outer)
    if head != Number(1):
        factors.append(head)
    for atom, power in product.over.items():
        if power == 1 or isinstance(atom, Summed):
            factors += [atom] * (power if isinstance(atom, Summed) else 1)
        else:
            factors.append(Apply("pow", (atom, Number(power))))
    return Piece(product.bound, tuple(factors))
