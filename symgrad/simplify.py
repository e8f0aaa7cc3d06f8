"""Closed forms for readers: adjoints written out, slopes in textbook shape, factors taken out.

Derivation -> ClosedForm, ...
No step changes where a formula is defined, except under a condition that the layer asserts or
that the closed form states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from symgrad.algebra.contract import fold, relocate
from symgrad.derivation import Derivation, Jacobian
from symgrad.program import (
    Affine,
    Apply,
    Definition,
    Delta,
    Index,
    Number,
    Position,
    Program,
    Scalar,
    Supply,
    Term,
    arrays_of,
    indices_of,
    rebuild,
    scalars_of,
    walk,
)
from symgrad.reading.closed import ClosedForm, Restricted, Summed
from symgrad.reading.collect import collect
from symgrad.reading.domains import assumed_monomials, needed_positive, under
from symgrad.reading.facts import use_facts
from symgrad.reading.inline import inline
from symgrad.reading.matching import Meanings
from symgrad.reading.products import (
    Product,
    like_terms,
    product_of,
    scalar_of,
    scalars,
    tidy_scalar,
)
from symgrad.reading.slopes import write_slopes


def closed_forms(derivation: Derivation) -> tuple[ClosedForm, ...]:
    """Return the closed form of every Jacobian, in the derivation's order."""
    meanings = Meanings.of(derivation.program)
    supply = Supply(derivation.serial)
    selected = [j for j in derivation.jacobians if j.selected]
    forms = [closed_form(derivation, j, meanings, supply) for j in selected]
    made = {d.name: d for form in forms for d in form.named}
    tidied = {n: _tidied(d, derivation.program, meanings, supply) for n, d in made.items()}
    return tuple(
        replace(form, named=tuple(tidied[d.name] for d in form.named), serial=supply.serial)
        for form in forms
    )


def _tidied(
    definition: Definition, program: Program, meanings: Meanings, supply: Supply
) -> Definition:
    """Return an adjoint with its slopes in textbook shape and values by their names."""
    if not isinstance(definition.body, tuple):
        return definition
    products = [p for t in definition.body for p in flat(t, program, meanings)]
    products = same_sums(use_facts(products, meanings), supply)
    return replace(definition, body=_terms(finish(products, meanings, ())))


def closed_form(
    derivation: Derivation, jacobian: Jacobian, meanings: Meanings, supply: Supply
) -> ClosedForm:
    """Return one Jacobian as a formula fit for a paper."""
    adjoints = {d.name: d for d in derivation.adjoints}
    terms = inline(jacobian.terms, adjoints, supply)
    products = [p for t in terms for p in flat(t, derivation.program, meanings)]
    products = same_sums(use_facts(products, meanings), supply)
    assumed = assumed_monomials(derivation.program)
    main = finish(products, meanings, assumed)
    restricted: list[Restricted] = []
    for condition in needed_positive(products, meanings, assumed):
        there = finish(products, meanings, (*assumed, condition))
        if len(there) and _size(there) < _size(main):
            shown = collect(there)
            restricted.append(Restricted(_positive(condition), shown, _terms(there)))
    final = _terms(main)
    return ClosedForm(
        derivation.program,
        jacobian.output,
        jacobian.parameter,
        jacobian.out,
        jacobian.theta,
        final,
        collect(main),
        _still_read(final, derivation.adjoints),
        tuple(restricted),
        supply.serial,
        jacobian.at,
        jacobian.beside,
        jacobian.split,
    )


def flat(term: Term, program: Program, meanings: Meanings) -> list[Product]:
    """Return a term as products, without indices of literal length 1."""
    single = {
        i: Affine.of(0)
        for i in {*term.bound, *(i for f in term.factors for i in indices_of(f))}
        if i.dim.constant == 1
    }
    factors = [f for f in (relocate(g, dict(single)) for g in term.factors) if f is not None]
    folded = fold([f for f in factors if not _is_one(f)])
    if folded is None:
        return []
    bound = tuple(i for i in term.bound if i not in single)
    renamed = [meanings.renamed(f) for f in folded]
    return [product_of((write_slopes(tidy_scalar(f), meanings) for f in renamed), bound)]


def _is_one(scalar: Scalar) -> bool:
    return isinstance(scalar, Delta) and scalar.left == scalar.right


def same_sums(products: Sequence[Product], supply: Supply) -> list[Product]:
    """Let sums over equal ranges share their bound indices, so that equal terms are seen."""
    pool: dict[tuple[object, int], Index] = {}
    done: list[Product] = []
    for product in products:
        if not product.bound:
            done.append(product)
            continue
        seen: dict[object, int] = {}
        mapping: dict[Index, Position] = {}
        for index in product.bound:
            count = seen.get(index.dim, 0)
            seen[index.dim] = count + 1
            shared = pool.setdefault((index.dim, count), supply.like(index))
            mapping[index] = Affine.of(shared)
        over, under_ = scalars(product)
        factors = [relocate(f, mapping) for f in over]
        below = [relocate(f, mapping) for f in under_]
        result = product_of([f for f in factors if f is not None], tuple(
            p.bare for p in mapping.values() if isinstance(p, Affine) and p.bare is not None
        ))
        for factor in below:
            if factor is not None:
                result = _divided(result, factor)
        done.append(result)
    return like_terms(done)


def _divided(product: Product, factor: Scalar) -> Product:
    quotient = product_of((Apply("div", (Number(1), factor)),))
    result = product.copy()
    result.number = result.number * quotient.number
    for atom, power in quotient.over.items():
        result.over[atom] = result.over.get(atom, 0) + power
    for atom, power in quotient.under.items():
        result.under[atom] = result.under.get(atom, 0) + power
    return result


def finish(
    products: Sequence[Product], meanings: Meanings, positive: tuple[Product, ...]
) -> list[Product]:
    """Return the products simplified where `positive` are known to be so, values by their names."""
    reduced = [_reduced(under(p, positive, meanings)) for p in products]
    return like_terms([_named(p, meanings) for p in reduced])


def _reduced(product: Product) -> Product:
    """Cancel `s/s^4` to `1/s^3`: what stays below the line keeps the domain."""
    shared = [a for a, n in product.under.items() if n > 1 and a in product.over]
    if not shared:
        return product
    result = product.copy()
    for atom in shared:
        least = min(result.over[atom], result.under[atom] - 1)
        result.under[atom] -= least
        result.over[atom] -= least
        if not result.over[atom]:
            del result.over[atom]
    return result


def _named(product: Product, meanings: Meanings) -> Product:
    """Read values by their names: `exp(z[i])` is `y[i]`."""

    def change(node: Scalar) -> Scalar:
        if not isinstance(node, Apply):
            return node
        part = meanings.softmax_of(node)
        named = None if part is None else meanings.named_softmax(part)
        return named or meanings.value_of(node) or node

    result = Product(product.bound, product.number)
    for side, out in ((product.over, result.over), (product.under, result.under)):
        for atom, power in side.items():
            new = atom if isinstance(atom, Summed) else rebuild(atom, change)
            out[new] = out.get(new, 0) + power
    return result


def _terms(products: Sequence[Product]) -> tuple[Term, ...]:
    found: list[Term] = []
    for product in products:
        over, below = scalars(product)
        factors = (*over, *(Apply("div", (Number(1), f)) for f in below))
        found.append(Term(product.bound, factors))
    return tuple(found)


def _size(products: Sequence[Product]) -> int:
    return sum(
        power * sum(1 for _ in walk(atom))
        for p in products
        for side in (p.over, p.under)
        for atom, power in side.items()
        if not isinstance(atom, Summed)
    )


def _positive(product: Product) -> Scalar:
    return Apply("gt", (scalar_of(product), Number(0)))


def _still_read(
    terms: Sequence[Term], adjoints: Sequence[Definition]
) -> tuple[Definition, ...]:
    """Return the adjoints the terms read, directly or through another, in order."""
    wanted = {n for t in terms for f in t.factors for n in arrays_of(f)}
    known = {d.name: d for d in adjoints}
    waiting = [n for n in wanted if n in known]
    while waiting:  # the adjoints of a recurrence read each other
        body = known[waiting.pop()].body
        new = {n for s in scalars_of(body) for n in arrays_of(s)} - wanted
        wanted |= new
        waiting += [n for n in new if n in known]
    return tuple(d for d in adjoints if d.name in wanted)
