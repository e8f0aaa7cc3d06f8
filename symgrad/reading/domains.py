"""Rewrites that hold only on a part of the numbers: exp(log(u) + c) is u e^c where u > 0.

Product, positive products -> Product
Nothing here is done without the condition being asserted or stated.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from symgrad.program import Access, Affine, Apply, Number, Program, Scalar, substitute, walk
from symgrad.reading.closed import Shown, Summed
from symgrad.reading.matching import Meanings
from symgrad.reading.products import Product, add_up, addends, product_of


def assumed_monomials(program: Program) -> tuple[Product, ...]:
    """Return the products that the layer asserts to be positive."""
    found: list[Product] = []
    for condition in program.conditions:
        found += _positives(condition.mask)
    return tuple(found)


def _positives(mask: Scalar) -> list[Product]:
    match mask:
        case Apply("and_", args, ()):
            return [p for a in args for p in _positives(a)]
        case Apply(("gt" | "ge") as sign, (left, Number(bound)), ()):
            holds = bound >= 0 and (sign == "gt" or bound > 0)
            return [product_of((left,))] if holds else []
        case Apply(("lt" | "le") as sign, (Number(bound), right), ()):
            holds = bound >= 0 and (sign == "lt" or bound > 0)
            return [product_of((right,))] if holds else []
        case _:
            return []


def is_positive(product: Product, positive: Sequence[Product]) -> bool:
    """Whether it is one of the products known to be positive, or made of such."""
    if product.number <= 0 or product.bound:
        return False
    if any(_proportional(product, p) for p in positive):
        return True
    single = {atom for p in positive if (atom := _lone(p)) is not None}
    atoms = [*product.over.items(), *product.under.items()]
    return bool(atoms) and all(a in single or (n % 2 == 0 and a in single) for a, n in atoms)


def _lone(product: Product) -> Shown | None:
    if product.number > 0 and not product.under and list(product.over.values()) == [1]:
        return next(iter(product.over))
    return None


def _proportional(left: Product, right: Product) -> bool:
    return right.number > 0 and (left.over, left.under) == (right.over, right.under)


def under(product: Product, positive: Sequence[Product], meanings: Meanings) -> Product:
    """Return the product simplified, given products that are known to be positive."""
    if not positive:
        return product
    nonzero = {a for p in positive for a in (*p.over, *p.under)}
    result = Product(product.bound, product.number)
    for side, sign in ((product.over, 1), (product.under, -1)):
        for atom, power in side.items():
            new = _without_log(atom, positive, meanings)
            for source, same in ((new.over, sign), (new.under, -sign)):
                for inner, count in source.items():
                    target = result.over if same > 0 else result.under
                    target[inner] = target.get(inner, 0) + count * power
            result.number = result.number * new.number ** (sign * power)
    for atom in list(result.under):
        if atom in result.over and atom in nonzero:
            _cancel(result, atom)
    return result


def _cancel(product: Product, atom: Shown) -> None:
    least = min(product.over[atom], product.under[atom])
    for side in (product.over, product.under):
        side[atom] -= least
        if not side[atom]:
            del side[atom]


def _without_log(atom: Shown, positive: Sequence[Product], meanings: Meanings) -> Product:
    """Return `exp(log(u) + c)` as `u e^c` if u is positive; an element by its definition."""
    if isinstance(atom, Summed):
        return Product((), Fraction(1), {atom: 1})
    body = _meaning(atom, meanings)
    if body is None:
        return Product((), Fraction(1), {atom: 1})
    logs, rest = _split(body)
    if not logs or not all(is_positive(u, positive) for u in logs):
        return Product((), Fraction(1), {atom: 1})
    factors: list[Scalar] = []
    result = product_of(factors)
    for u in logs:
        result.number = result.number * u.number
        result.over |= {a: result.over.get(a, 0) + n for a, n in u.over.items()}
        result.under |= {a: result.under.get(a, 0) + n for a, n in u.under.items()}
    if rest:
        result.over[Apply("exp", (add_up(rest),))] = 1
    return result



def _meaning(atom: Scalar, meanings: Meanings) -> Apply | None:
    """Return the exponential that an atom is, or is defined as, if a logarithm stands in it."""
    if isinstance(atom, Access):
        for definition, body in meanings.values.get("exp", ()):
            if definition.name == atom.array:
                mapping = dict(zip(definition.indices, atom.at, strict=True))
                affine = {i: p for i, p in mapping.items() if isinstance(p, Affine)}
                moved = substitute(body, affine)
                return moved if isinstance(moved, Apply) and _has_log(moved) else None
        return None
    if isinstance(atom, Apply) and atom.function == "exp" and not atom.order and _has_log(atom):
        return atom
    return None


def _has_log(scalar: Scalar) -> bool:
    return any(isinstance(n, Apply) and n.function == "log" and not n.order for n in walk(scalar))


def _split(body: Apply) -> tuple[list[Product], list[Product]]:
    """Return the arguments of the logarithms in an exponent, and the rest of it."""
    logs: list[Product] = []
    rest: list[Product] = []
    for addend in addends(body.args[0]):
        atom = _lone(addend)
        if isinstance(atom, Apply) and atom.function == "log" and addend.number == 1:
            logs.append(product_of((atom.args[0],)))
        else:
            rest.append(addend)
    return logs, rest


def needed_positive(
    products: Sequence[Product], meanings: Meanings, positive: Sequence[Product]
) -> list[Product]:
    """Return what would have to be positive for a logarithm to meet its exponential."""
    found: list[Product] = []
    for product in products:
        for atom in (*product.over, *product.under):
            body = None if isinstance(atom, Summed) else _meaning(atom, meanings)
            for u in _split(body)[0] if body is not None else []:
                known = is_positive(u, positive) or any(_proportional(u, f) for f in found)
                if not known:
                    found.append(u)
    return found
