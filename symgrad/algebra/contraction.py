"""Long products summed in a good order: pairs of factors first, so that loops stay shallow.

Term -> the inner sum that is worth a name, or None
`Σ_jk A_ij B_jk C_kl` is two matrix products, never a nest of four loops. Sizes are symbols: all
count as one large number, and the same term always gives the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

from symgrad.algebra.contract import guarding
from symgrad.program import Access, Apply, Delta, Guard, Index, Scalar, Term, indices_of, walk

LARGE = 100
"""What a dim of unknown size counts as."""
ALL = 5
"""Up to so many factors every order is tried."""
WORTH = 4
"""A sum gets an array of its own if all loops together become so many times shorter."""


@dataclass(frozen=True, slots=True)
class Group:
    """Factors that are multiplied, and the indices left after their own sums."""

    factors: tuple[Scalar, ...]
    indices: frozenset[Index]
    summed: tuple[Index, ...] = ()


def repeated_functions(term: Term) -> tuple[Apply, ...]:
    """Return the functions in a product that would be evaluated again and again for one number.

    `Σ_k W_ik tanh(z_bk)` takes tanh for every i; named, it is a product of matrices.
    """
    if any(isinstance(f, Delta | Guard) for f in term.factors):
        return ()
    every = frozenset(i for f in term.factors for i in indices_of(f))
    factors = [one for f in term.factors for one in _multiplied(f)]
    found = (f for f in factors if isinstance(f, Apply) and _reads_plainly(f))
    repeated = (f for f in found if _loops(every - set(indices_of(f))) >= WORTH)
    return tuple(dict.fromkeys(repeated))


def _multiplied(scalar: Scalar) -> Iterator[Scalar]:
    """Yield what a product in a scalar is made of."""
    if isinstance(scalar, Apply) and scalar.function == "mul" and not scalar.order:
        for inner in scalar.args:
            yield from _multiplied(inner)
    else:
        yield scalar


def _reads_plainly(scalar: Scalar) -> bool:
    """Whether a scalar reads arrays at indices alone, no entry beside them and none by data."""
    nodes = list(walk(scalar))
    plain = all(p.bare is not None for n in nodes if isinstance(n, Access) for p in n.at)
    return plain and bool(indices_of(scalar)) and not any(isinstance(n, Delta) for n in nodes)


def inner_sum(term: Term) -> tuple[Term, tuple[Scalar, ...]] | None:
    """Return the sum over some of the factors to be named first, and the factors left.

    None if the loops over all indices at once are as good.
    """
    bound = frozenset(term.bound)
    structure = tuple(f for f in term.factors if isinstance(f, Delta | Guard))
    values = [f for f in term.factors if f not in structure and indices_of(f)]
    if not bound or len(values) < 2 or any(bound & set(indices_of(f)) for f in structure):
        return None
    groups = [Group((f,), frozenset(indices_of(f))) for f in values]
    loops = _loops(frozenset(i for g in groups for i in g.indices))
    first, total = _lonely(groups, bound)
    if first is None and len(groups) > 2:
        first, total = _ordered(groups, bound)
    if first is None or total * WORTH > loops:
        return None
    within = {i for f in first.factors for i in indices_of(f)}
    factors = (*first.factors, *guarding(structure, within))
    rest = tuple(f for f in term.factors if f not in first.factors)
    return Term(first.summed, factors), rest


def _lonely(groups: Sequence[Group], bound: frozenset[Index]) -> tuple[Group | None, int]:
    """Return a factor with a bound index that no other factor has, and the steps of its sum."""
    for group in groups:
        others = {i for g in groups if g is not group for i in g.indices}
        own = group.indices & bound - others
        if own and others - group.indices:
            summed = tuple(sorted(own, key=lambda i: i.serial))
            return Group(group.factors, group.indices - own, summed), _loops(group.indices)
    return None, 0


def _ordered(groups: Sequence[Group], bound: frozenset[Index]) -> tuple[Group | None, int]:
    """Return the first pair that sums something, and how many steps all loops together take."""
    if len(groups) == 1:
        return None, 0
    best: tuple[Group | None, int] | None = None
    for left, right, joined in _candidates(groups, bound):
        rest = [joined if g is left else g for g in groups if g is not right]
        later, steps = _ordered(rest, bound)
        total = steps + _loops(left.indices | right.indices)
        if best is None or total < best[1]:
            best = (joined if joined.summed else later), total
    assert best is not None
    return best


def _candidates(
    groups: Sequence[Group], bound: frozenset[Index]
) -> list[tuple[Group, Group, Group]]:
    """Return the pairs to try: all of a few groups, of many the one that shrinks them most."""
    pairs = [(a, b, _joined(a, b, groups, bound)) for a, b in combinations(groups, 2)]
    if len(groups) <= ALL:
        return pairs

    def grown(pair: tuple[Group, Group, Group]) -> tuple[int, int]:
        left, right, joined = (_loops(g.indices) for g in pair)
        return joined - left - right, _loops(pair[0].indices | pair[1].indices)

    return [min(pairs, key=grown)]


def _joined(left: Group, right: Group, groups: Sequence[Group], bound: frozenset[Index]) -> Group:
    """Return the product of two groups, summed over what no other group has."""
    others = {i for g in groups if g is not left and g is not right for i in g.indices}
    together = left.indices | right.indices
    summed = together & bound - others
    own = (*left.summed, *right.summed, *sorted(summed, key=lambda i: i.serial))
    return Group((*left.factors, *right.factors), together - summed, own)


def _loops(indices: frozenset[Index]) -> int:
    return prod(LARGE if i.dim.constant is None else max(i.dim.constant, 1) for i in indices)
