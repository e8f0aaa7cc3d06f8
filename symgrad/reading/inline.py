"""Adjoints written out in the formulas that read them, as long as that stays short.

Jacobian terms, adjoint definitions -> Term, ...
A net of many layers keeps its named adjoints; one layer becomes one formula.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.algebra.contract import contract, relocate
from symgrad.program import (
    Access,
    Affine,
    Apply,
    Definition,
    Index,
    Position,
    Primitive,
    Scalar,
    Supply,
    Term,
    arrays_of,
    walk,
)
from symgrad.reading.masks import LETTERS

TERMS, SUMS, NODES = 12, 4, 160
"""A closed formula has at most this many terms, bound indices in one term, and nodes."""


class TooLong(Exception):
    """The formula would be longer than anyone reads."""


def inline(
    terms: Sequence[Term], adjoints: Mapping[str, Definition], supply: Supply
) -> tuple[Term, ...]:
    """Return `terms` with every adjoint written out, or only the short ones if that is too long.

    The adjoints of a recurrence keep their names: written out they would never end. Functions of
    whole matrices stay what they are, `(S⁻¹)_ij`, and so does the lower half `Φ_ij`.
    """
    adjoints = {
        n: d
        for n, d in adjoints.items()
        if d.loop is None and not isinstance(d.body, Primitive) and n not in LETTERS
    }
    try:
        return expand(terms, adjoints, supply, frozenset(adjoints))
    except TooLong:
        pass
    short = frozenset(name for name, d in adjoints.items() if _is_short(d, adjoints))
    try:
        return expand(terms, adjoints, supply, short)
    except TooLong:
        return tuple(terms)


def _is_short(definition: Definition, adjoints: Mapping[str, Definition]) -> bool:
    """Whether it is one product without a sum that reads at most one other adjoint."""
    body = definition.body
    if not isinstance(body, tuple) or len(body) != 1 or body[0].bound:
        return False
    read = [n for f in body[0].factors for n in arrays_of(f) if n in adjoints]
    return len(read) <= 1


def expand(
    terms: Sequence[Term], adjoints: Mapping[str, Definition], supply: Supply, which: frozenset[str]
) -> tuple[Term, ...]:
    """Return `terms` with the adjoints in `which` written out; raise TooLong past the limits."""
    done: list[Term] = []
    waiting = list(reversed(terms))
    while waiting:
        term = waiting.pop()
        place = next((n for n, f in enumerate(term.factors) if _reads(f, which)), None)
        if place is None:
            done.append(term)
        else:
            waiting += reversed(_write_out(term, place, adjoints, supply, which))
        _measure(done, waiting)
    return tuple(done)


def _reads(factor: Scalar, which: frozenset[str]) -> bool:
    return any(isinstance(n, Access) and n.array in which for n in walk(factor))


def _measure(done: Sequence[Term], waiting: Sequence[Term]) -> None:
    if len(done) + len(waiting) > TERMS:
        raise TooLong
    for term in waiting[-1:]:
        if len(term.bound) > SUMS or sum(1 for f in term.factors for _ in walk(f)) > NODES:
            raise TooLong


def _write_out(
    term: Term,
    place: int,
    adjoints: Mapping[str, Definition],
    supply: Supply,
    which: frozenset[str],
) -> list[Term]:
    """Return the terms that one factor's adjoint stands for, each contracted."""
    factor = term.factors[place]
    if isinstance(factor, Apply):
        return [_inside(term, place, factor, adjoints, which)]
    assert isinstance(factor, Access)
    definition = adjoints[factor.array]
    body = definition.body
    if not isinstance(body, tuple):
        raise TooLong
    mapping: dict[Index, Position] = dict(zip(definition.indices, factor.at, strict=True))
    found: list[Term] = []
    for inner in body:
        fresh = {i: supply.like(i) for i in inner.bound}
        both: dict[Index, Position] = mapping | {i: Affine.of(f) for i, f in fresh.items()}
        moved = [relocate(f, both) for f in inner.factors]
        if any(f is None for f in moved):
            raise TooLong
        kept = tuple(f for f in moved if f is not None)
        factors = (*term.factors[:place], *kept, *term.factors[place + 1 :])
        contracted = contract(Term((*term.bound, *fresh.values()), factors))
        if contracted is not None:
            found.append(contracted)
    return found


def _inside(
    term: Term,
    place: int,
    factor: Apply,
    adjoints: Mapping[str, Definition],
    which: frozenset[str],
) -> Term:
    """Write out adjoints read inside a function: they must be single products without sums."""
    return Term(
        term.bound,
        (
            *term.factors[:place],
            _scalar_inside(factor, adjoints, which),
            *term.factors[place + 1 :],
        ),
    )


def _scalar_inside(
    scalar: Scalar, adjoints: Mapping[str, Definition], which: frozenset[str]
) -> Scalar:
    if isinstance(scalar, Apply):
        args = tuple(_scalar_inside(a, adjoints, which) for a in scalar.args)
        return Apply(scalar.function, args, scalar.order)
    if not isinstance(scalar, Access) or scalar.array not in which:
        return scalar
    definition = adjoints[scalar.array]
    body = definition.body
    if not isinstance(body, tuple) or len(body) != 1 or body[0].bound or not body[0].factors:
        raise TooLong
    mapping: dict[Index, Position] = dict(zip(definition.indices, scalar.at, strict=True))
    product: Scalar | None = None
    for factor in body[0].factors:
        moved = relocate(factor, mapping)
        if moved is None:
            raise TooLong
        product = moved if product is None else Apply("mul", (product, moved))
    assert product is not None
    return product
