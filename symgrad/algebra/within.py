"""What a stated domain allows kernels to leave out: exp(log(u) + c) is u e^c where u > 0.

Definitions, Program -> Definitions
Without the assertion nothing of the kind is done: outside the domain the result is nan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from symgrad.program import Apply, Definition, Number, Program, Scalar, Term
from symgrad.reading.domains import assumed_monomials, is_positive
from symgrad.reading.products import Product, product_of


def within(definitions: Sequence[Definition], program: Program) -> tuple[Definition, ...]:
    """Return definitions that are equal on the domain that the layer asserts."""
    positive = assumed_monomials(program)
    if not positive:
        return tuple(definitions)
    return tuple(
        replace(d, body=tuple(_term(t, positive) for t in d.body))
        if isinstance(d.body, tuple)
        else d
        for d in definitions
    )


def _term(term: Term, positive: Sequence[Product]) -> Term:
    """Return a product in which logarithms are taken out of exponentials, and slopes cancel."""
    taken: list[Scalar] = []
    rest: list[Scalar] = []
    for factor in term.factors:
        own, left = _apart(factor, positive)
        taken += own
        rest += left
    for base in tuple(taken):
        slope = Apply("log", (base,), (1,))
        if slope in rest:
            rest.remove(slope)
            taken.remove(base)
    return Term(term.bound, (*rest, *taken) or (Number(1),))


def _apart(
    scalar: Scalar, positive: Sequence[Product]
) -> tuple[list[Scalar], list[Scalar]]:
    """Return what stands in logarithms in an exponential, and what is left of it."""
    if not isinstance(scalar, Apply):
        return [], [scalar]
    if scalar.function != "exp":
        args = tuple(_whole(a, positive) for a in scalar.args)
        return [], [Apply(scalar.function, args, scalar.order)]
    added = _addends(scalar.args[0])
    taken = [a.args[0] for a in added if _is_log(a, positive) and isinstance(a, Apply)]
    if not taken:
        return [], [scalar]
    others = [a for a in added if not _is_log(a, positive)]
    if not others:
        return taken, []
    total = others[0]
    for other in others[1:]:
        total = Apply("add", (total, other))
    return taken, [Apply("exp", (total,))]


def _whole(scalar: Scalar, positive: Sequence[Product]) -> Scalar:
    """Return a scalar that stands in another one."""
    taken, rest = _apart(scalar, positive)
    first, *others = (*rest, *taken)
    for other in others:
        first = Apply("mul", (first, other))
    return first


def _addends(scalar: Scalar) -> list[Scalar]:
    match scalar:
        case Apply("add", (left, right), ()):
            return [*_addends(left), *_addends(right)]
        case Apply("sub", (left, right), ()):
            return [*_addends(left), *(Apply("neg", (r,)) for r in _addends(right))]
        case _:
            return [scalar]


def _is_log(scalar: Scalar, positive: Sequence[Product]) -> bool:
    match scalar:
        case Apply("log", (base,), ()):
            return is_positive(product_of((base,)), positive)
    return False


__all__ = ["within"]
