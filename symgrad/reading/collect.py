"""Common factors taken out: `y_i δ_ij - y_i y_j` becomes `y_i (δ_ij - y_j)`.

Product, ... -> Summed
Sums over bound indices count as atoms here, so they are taken out like anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from symgrad.program import Apply, Delta, Index, Number, walk
from symgrad.reading.closed import Piece, Shown, Summed
from symgrad.reading.products import (
    Product,
    add_up,
    indices_in,
    like_terms,
    piece_of,
    positive_first,
    without,
)


def collect(products: Sequence[Product]) -> Summed:
    """Return the sum of products with what they share in front."""
    joined = [p for group in _by_bound(products) for p in group]
    flat = like_terms([_sum_as_atom(p) for p in joined])
    return Summed(tuple(_as_piece(p) for p in positive_first(_taken_out(flat))))


def _by_bound(products: Sequence[Product]) -> list[list[Product]]:
    """Join sums over the same indices where their summands share a factor that reads them."""
    groups: dict[tuple[Index, ...], list[Product]] = {}
    for product in products:
        groups.setdefault(product.bound, []).append(product)
    result: list[list[Product]] = []
    for bound, group in groups.items():
        inner = frozenset(bound)
        shared = bool(bound) and any(indices_in(a) & inner for a in _shared(group).over)
        result.append(_taken_out(group) if shared else group)
    return result


def _as_piece(product: Product) -> Piece:
    """Undo `_sum_as_atom` where a product is nothing but one sum and what stands before it."""
    sums = [a for a, p in product.over.items() if _is_lone_sum(a) and p == 1]
    if len(sums) != 1:
        return piece_of(product)
    lone = sums[0]
    assert isinstance(lone, Summed)
    inner = lone.pieces[0]
    outer = product.copy()
    del outer.over[lone]
    return Piece(inner.bound, (*piece_of(outer).factors, *inner.factors))


def _is_lone_sum(atom: Shown) -> bool:
    return isinstance(atom, Summed) and len(atom.pieces) == 1 and bool(atom.pieces[0].bound)


def _sum_as_atom(product: Product) -> Product:
    """Write `outer * sum[bound](inner)` as a product whose last atom is the sum."""
    if not product.bound:
        return product
    bound = frozenset(product.bound)
    outer, inner = Product((), product.number), Product(product.bound)
    for side, out, within in (
        (product.over, outer.over, inner.over),
        (product.under, outer.under, inner.under),
    ):
        for atom, power in side.items():
            (within if indices_in(atom) & bound else out)[atom] = power
    outer.over[Summed((piece_of(inner),))] = 1
    return outer


def _taken_out(products: list[Product]) -> list[Product]:
    if len(products) < 2:
        return products
    common = _shared(products)
    if not common.over and not common.under and common.number == 1:
        return products
    rests = [without(p, common) for p in products]
    place = max((_lead(p, common) for p in products), default=0)
    result = Product(products[0].bound, common.number, {}, common.under)
    rests = [Product((), r.number, r.over, r.under) for r in rests]
    inner = _sum_atom(sorted(rests, key=_length))
    atoms = list(common.over.items())
    if len(atoms) == 1 and any(isinstance(a, Delta) for r in rests for a in r.over):
        place = 1  # y_i(δ_ij - y_j), in whatever order the terms came about
    for atom, power in (*atoms[:place], (inner, 1), *atoms[place:]):
        result.over[atom] = result.over.get(atom, 0) + power
    return [result]


def _shared(products: Sequence[Product]) -> Product:
    """Return the largest product that divides all of them."""
    first = products[0]
    common = Product((), _shared_number(products))
    for atom, power in first.over.items():
        least = min(p.over.get(atom, 0) for p in products)
        if least and power:
            common.over[atom] = least
    for atom in first.under:
        least = min(p.under.get(atom, 0) for p in products)
        if least:
            common.under[atom] = least
    return common


def _shared_number(products: Sequence[Product]) -> Fraction | float:
    sizes: set[Fraction | float] = {max(p.number, -p.number) for p in products}
    number: Fraction | float = sizes.pop() if len(sizes) == 1 else Fraction(1)
    return -number if all(p.number < 0 for p in products) else number


def _lead(product: Product, common: Product) -> int:
    """Return how many shared atoms stand before the first one that is not shared."""
    count = 0
    for atom in product.over:
        if common.over.get(atom, 0) == product.over[atom]:
            count += 1
        elif not isinstance(atom, Delta):
            return count
        elif atom not in common.over:
            return 0
    return 0


def _length(product: Product) -> int:
    """Count what a reader reads: short terms stand first."""
    return sum(
        power * (sum(1 for _ in walk(atom)) if not isinstance(atom, Summed) else 20)
        for side in (product.over, product.under)
        for atom, power in side.items()
        if not isinstance(atom, Delta)
    )


def _sum_atom(rests: Sequence[Product]) -> Shown:
    """Return the sum of what is left, as a scalar if it holds no bound indices."""
    if any(isinstance(a, Summed) for p in rests for a in p.over):
        return Summed(tuple(_as_piece(p) for p in positive_first(like_terms(rests))))
    total = add_up(rests)
    if isinstance(total, Apply) or not isinstance(total, Number):
        return total
    return Summed((Piece((), (total,)),))
