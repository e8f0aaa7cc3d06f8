"""What is known about sums: a mean's deviations add up to zero, a softmax adds up to one.

Product, Meanings -> Product, ...
A fact is used only if it removes the sum; it must bind every index of its definition.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.program import Access, Affine, Apply, Index, Rowwise, Size
from symgrad.reading.closed import Shown, Summed
from symgrad.reading.matching import Meanings
from symgrad.reading.products import Product, addends, indices_in, like_terms, times

TERMS = 24


def use_facts(products: Sequence[Product], meanings: Meanings) -> list[Product]:
    """Return equal products with the sums gone that a definition knows the value of."""
    done: list[Product] = []
    waiting = list(reversed(products))
    while waiting and len(done) + len(waiting) <= TERMS:
        product = waiting.pop()
        for index in product.bound:
            known = _sum_over(product, index, meanings)
            if known is not None:
                waiting += reversed(known)
                break
        else:
            done.append(product)
    return [*done, *reversed(waiting)]


def _sum_over(product: Product, index: Index, meanings: Meanings) -> list[Product] | None:
    """Return `sum over index` of a product without that sum, or None if nothing is known."""
    outer = Product(tuple(i for i in product.bound if i != index), product.number)
    inner = _within(product, index, outer)
    parts = _distributed(inner, index)
    if parts is None:
        return None
    found: list[Product] = []
    for part in parts:
        value = _value(part, index, meanings)
        if value is None:
            return None
        found.append(value)
    return [times(outer, value) for value in like_terms(found)]


def _within(product: Product, index: Index, outer: Product) -> Product:
    """Return the factors of a product that depend on an index; the others are put into `outer`."""
    inner = Product()
    for side, out, within in (
        (product.over, outer.over, inner.over),
        (product.under, outer.under, inner.under),
    ):
        for atom, power in side.items():
            (within if index in indices_in(atom) else out)[atom] = power
    return inner


def _distributed(inner: Product, index: Index) -> list[Product] | None:
    """Multiply out the one factor that is a sum; None if there are several."""
    sums = [a for a in inner.over if _is_sum(a)]
    if not sums:
        return [inner]
    if len(sums) > 1 or inner.over[sums[0]] != 1 or not isinstance(sums[0], Apply):
        return None
    rest = Product((), inner.number, {a: p for a, p in inner.over.items() if a != sums[0]},
                   inner.under)
    return [times(part, rest) for part in addends(sums[0])]


def _is_sum(atom: Shown) -> bool:
    return isinstance(atom, Apply) and atom.function in ("add", "sub") and not atom.order


def _value(part: Product, index: Index, meanings: Meanings) -> Product | None:
    """Return `sum over index` of one product, by its dim, a definition, or softmax."""
    outer = Product((), part.number)
    inner = _within(part, index, outer)
    if not inner.over and not inner.under:
        return times(outer, Product((), part.number / part.number, {Size(index.dim): 1}))
    known = meanings.sum_of(inner, index) or _whole_softmax(inner, index, meanings)
    return None if known is None else times(outer, known)


def _whole_softmax(inner: Product, index: Index, meanings: Meanings) -> Product | None:
    """Return 1 if the product is one softmax summed along its axis."""
    if len(inner.over) != 1 or inner.under:
        return None
    atom, power = next(iter(inner.over.items()))
    if isinstance(atom, Summed) or power != 1:
        return None
    part = meanings.softmax_of(atom)
    if part is not None:
        whole = part.place == Affine.of(index) and index.dim == part.bound.dim
        return Product() if whole and index not in indices_in(part.body) else None
    if not isinstance(atom, Access):
        return None
    access = atom
    definition = meanings.program.definition(access.array)
    if definition is None or not isinstance(definition.body, Rowwise):
        return None
    body = definition.body
    if body.kind != "softmax" or len(body.at) != 1:
        return None
    place = definition.indices.index(body.at[0])
    along = access.at[place] == Affine.of(index) and index.dim == body.at[0].dim
    elsewhere = any(
        index in indices_in(Access(access.array, (p,)))
        for n, p in enumerate(access.at)
        if n != place
    )
    return Product() if along and not elsewhere else None
