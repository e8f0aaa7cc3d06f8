"""The end of a sweep: what arrived at a selected array as deltas times arrays.

Sweep, Term, ... -> Term, ...
Each array has fewer axes than the product; what is no outer product is added up to one array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from symgrad.algebra.contract import guarding, reading
from symgrad.algebra.terms import groups_of, is_inner, is_plain, outputs_first, tie
from symgrad.program import Access, Delta, Guard, Index, Scalar, Term, indices_of

if TYPE_CHECKING:
    from symgrad.algebra.sweep import Sweep


def finish(
    sweep: Sweep, name: str, terms: Sequence[Term], theta: tuple[Index, ...]
) -> tuple[Term, ...]:
    """Return the terms at a selected array, each a product of arrays (structure kept)."""
    if not sweep.factored:
        return tuple(sweep.split(f"S_{name}", term, theta) for term in terms)
    simple: list[Term] = []
    for term in terms:
        tied = tie(outputs_first(term, sweep.out), sweep.out, theta)
        simple.append(_product(sweep, name, tied, theta))
    return merged(sweep, f"J_{sweep.tag}{name}", simple, (*sweep.out, *theta))


def _product(sweep: Sweep, name: str, term: Term, theta: tuple[Index, ...]) -> Term:
    """Write a term as deltas times arrays that each have fewer axes than their product."""
    free = (*sweep.out, *theta)
    deltas = tuple(
        f for f in term.factors if isinstance(f, Delta) and not is_inner(f, term.bound)
    )
    rest = tuple(f for f in term.factors if f not in deltas)
    guards = tuple(dict.fromkeys(g for d in deltas for g in reading(d, rest)))
    if not rest:
        return Term((), deltas)
    groups = groups_of(rest)
    union = {i for f in rest for i in indices_of(f)} - set(term.bound)
    sizes = [{i for f in g for i in indices_of(f)} - set(term.bound) for g in groups]
    if term.bound or (len(groups) > 1 and any(s == union for s in sizes)):
        groups = [rest]
    factors: list[Scalar] = []
    for part in groups:
        within = {i for f in part for i in indices_of(f)}
        group = (*part, *(g for g in guarding(rest, within) if g not in part))
        only = group[0]
        alone = len(group) == 1 and not term.bound
        if alone and isinstance(only, Access) and is_plain(only) and sweep.whole(only):
            factors.append(only)
        else:
            wish = f"{'H' if len(groups) > 1 else 'J'}_{sweep.tag}{name}"
            factors.append(sweep.name_sum(wish, [Term(term.bound, group)], free))
    return Term((), (*deltas, *guards, *factors))


def merged(
    sweep: Sweep, wish: str, terms: Sequence[Term], free: Sequence[Index]
) -> tuple[Term, ...]:
    """Add up terms of one structure that are no outer products: they are one array."""
    kept: list[Term] = []
    single: dict[tuple[Scalar, ...], list[Term]] = {}
    for term in terms:
        arrays = [f for f in term.factors if not isinstance(f, Delta | Guard)]
        if len(arrays) > 1:
            kept.append(term)
        else:
            structure = tuple(f for f in term.factors if isinstance(f, Delta | Guard))
            single.setdefault(structure, []).append(Term((), tuple(arrays)))
    for tied, group in single.items():
        if len(group) == 1:
            kept.append(Term((), (*tied, *group[0].factors)))
        else:
            access = sweep.name_sum(wish, group, free)
            kept.append(Term((), (*tied, access)))
    return tuple(kept)
