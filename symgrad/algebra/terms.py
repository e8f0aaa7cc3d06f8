"""Predicates and forms of terms: what is structure, what is a plain array, what belongs together.

Term, indices -> Term
Deltas name the output's index first, and positions they tie are read by the output's index.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.program import (
    BATCH,
    Access,
    Affine,
    Delta,
    Index,
    Lookup,
    Scalar,
    Term,
    indices_of,
    substitute,
)


def is_inner(factor: Scalar, bound: Sequence[Index]) -> bool:
    """Whether a factor is read at an index that is summed over."""
    return any(i in bound for i in indices_of(factor))


def is_plain(access: Access) -> bool:
    """Whether its positions are distinct bare indices."""
    bare = [p.bare for p in access.at]
    return None not in bare and len(set(bare)) == len(bare)


def is_simple(term: Term) -> bool:
    """Whether a term is deltas times at most one plain array, without a sum."""
    rest = [f for f in term.factors if not isinstance(f, Delta)]
    plain = all(isinstance(f, Access) and is_plain(f) for f in rest)
    return not term.bound and len(rest) <= 1 and plain


def is_structural(factor: Scalar, out: Sequence[Index], at: Sequence[Index]) -> bool:
    """Whether it is a delta between free indices or data of the sample: structure, not value."""
    if not isinstance(factor, Delta):
        return False
    free = set(out) | set(at)
    used = set(indices_of(factor))
    lookup = isinstance(factor.left, Lookup) or isinstance(factor.right, Lookup)
    return (lookup and not used - free - _batches(factor)) or used <= free


def _batches(factor: Scalar) -> set[Index]:
    return {i for i in indices_of(factor) if i.dim == BATCH}


def outputs_first(term: Term, out: Sequence[Index]) -> Term:
    """Write deltas with the output's index on the left: delta(i, j), i of the output."""

    def turned(factor: Scalar) -> Scalar:
        if (
            isinstance(factor, Delta)
            and factor.right.bare in out
            and factor.left.bare not in out
        ):
            return Delta(factor.right, factor.left)
        return factor

    return Term(term.bound, tuple(turned(f) for f in term.factors))


def tie(term: Term, out: Sequence[Index], at: Sequence[Index]) -> Term:
    """Read tied positions by the output's index: delta(i, j) c[j] becomes delta(i, j) c[i].

    A part of an array is left as it is: positions of the output may lie beside it.
    """
    mapping: dict[Index, Affine] = {}
    for factor in term.factors:
        if not isinstance(factor, Delta):
            continue
        left, right = factor.left.bare, factor.right.bare
        for here, there in ((left, right), (right, left)):
            if here not in at or there not in out or here is None or there is None:
                continue
            if not here.partial:
                mapping.setdefault(here, Affine.of(there))
    if not mapping:
        return term
    factors = tuple(f if isinstance(f, Delta) else substitute(f, mapping) for f in term.factors)
    return Term(term.bound, factors)


def groups_of(factors: Sequence[Scalar]) -> list[tuple[Scalar, ...]]:
    """Group factors of one term: numbers and functions join the first array with their indices."""
    arrays: list[list[Scalar]] = [[f] for f in factors if isinstance(f, Access) and is_plain(f)]
    for factor in factors:
        if isinstance(factor, Access) and is_plain(factor):
            continue
        used = set(indices_of(factor))
        home = next((g for g in arrays if used <= set(indices_of(g[0]))), None)
        if home is None:
            arrays.append([factor])
        else:
            home.append(factor)
    return [tuple(g) for g in arrays]
