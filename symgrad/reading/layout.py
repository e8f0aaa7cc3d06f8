"""What stands where in a product: fractions, sums in parentheses, deltas, scalar functions.

Product -> its parts in the order of writing
The writer asks here and only joins strings.
"""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.algebra.contract import contract
from symgrad.dims import ONE
from symgrad.program import (
    BATCH,
    Access,
    Affine,
    Apply,
    Constant,
    Delta,
    Index,
    Number,
    Scalar,
    Size,
    Term,
    substitute,
    walk,
)
from symgrad.reading.closed import Piece, Shown, Summed
from symgrad.reading.products import Product, indices_in, product_of, scalar_of


def moved_piece(term: Term, mapping: Mapping[Index, Affine]) -> Piece | None:
    """Return a term at other positions, its deltas contracted again; None if it is zero there."""
    moved: Term | None = Term(term.bound, tuple(substitute(f, mapping) for f in term.factors))
    if mapping and moved is not None and any(isinstance(f, Delta) for f in moved.factors):
        moved = contract(moved)
    return None if moved is None else Piece(moved.bound, moved.factors)


def one_term(scalar: Scalar) -> bool:
    return isinstance(scalar, Apply) and scalar.function not in ("add", "sub", "where")


def opposite(mask: Scalar) -> Scalar:
    if isinstance(mask, Apply) and mask.function in ("and_", "or_"):
        joint = "or_" if mask.function == "and_" else "and_"
        return Apply(joint, tuple(opposite(a) for a in mask.args))
    if isinstance(mask, Apply) and mask.function == "not_":
        return mask.args[0]
    flip = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
    if isinstance(mask, Apply) and mask.function in flip:
        return Apply(flip[mask.function], mask.args)
    return Apply("not_", (mask,))


def size(scalar: Scalar) -> int:
    return sum(1 for _ in walk(scalar))


def split_by(product: Product, bound: frozenset[Index]) -> tuple[Product, Product]:
    """Return the factors outside a sum and those that read its indices."""
    outer, inner = Product((), product.number), Product()
    for side, out, within in (
        (product.over, outer.over, inner.over),
        (product.under, outer.under, inner.under),
    ):
        for atom, power in side.items():
            (within if indices_in(atom) & bound else out)[atom] = power
    return outer, inner


def with_ratios(product: Product) -> Product:
    """Write `ratio_or_zero(a, b)` as the fraction it is where b is not 0."""
    if not any(isinstance(a, Apply) and a.function == "ratio_or_zero" for a in product.over):
        return product
    factors: list[Shown] = [scalar_of(Product((), product.number, {}, product.under))]
    for atom, power in product.over.items():
        if isinstance(atom, Apply) and atom.function == "ratio_or_zero":
            atom = Apply("div", atom.args)
        factors += [atom] * power
    return product_of(factors, product.bound)


def number_parts(product: Product) -> tuple[list[tuple[Shown, int]], list[tuple[Shown, int]]]:
    scalar = scalar_of(Product((), product.number))
    match scalar:
        case Apply("div", (above, below), ()):
            over: list[tuple[Shown, int]] = [] if above == Number(1) else [(above, 1)]
            return over, [(below, 1)]
        case Number(1):
            return ([(scalar, 1)], []) if not product.over and not product.under else ([], [])
        case _:
            return [(scalar, 1)], []


def powers(side: Mapping[Shown, int]) -> list[tuple[Shown, int]]:
    return list(side.items())


def is_group(factor: tuple[Shown, int]) -> bool:
    """Whether it stands in parentheses and holds a delta: set behind a fraction, not on it."""
    return isinstance(factor[0], Summed) or (is_sum(factor[0]) and has_delta(factor[0]))


def is_sum(shown: Shown) -> bool:
    return isinstance(shown, Apply) and shown.function in ("add", "sub") and not shown.order


def has_delta(shown: Shown) -> bool:
    if isinstance(shown, Summed):
        return any(has_delta(f) for p in shown.pieces for f in p.factors)
    return any(isinstance(node, Delta) for node in walk(shown))


def place(shown: Shown) -> int:
    """Return where a factor stands: numbers, deltas, scalars, then as derived, then functions."""
    if isinstance(shown, Number) or _is_constant(shown):
        return 0
    if isinstance(shown, Delta):
        return 1
    if isinstance(shown, Access | Apply) and all(i.dim in (BATCH, ONE) for i in indices_in(shown)):
        return 2 if isinstance(shown, Access) else 4
    return 3


def _is_constant(shown: Shown) -> bool:
    """Whether nothing in it varies: numbers, π, sizes, and functions of them."""
    if isinstance(shown, Summed):
        return False
    return all(isinstance(node, Number | Constant | Size | Apply) for node in walk(shown))
