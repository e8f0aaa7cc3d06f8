"""The orders in which a long product may be summed, those that no other order makes useless.

Term -> Way, ...
Sizes are symbols, so the cheapest order of `A_ij B_jk C_kl` is known when the product runs: each
way says what it costs as a polynomial of sizes. A library finds the best order for given sizes, and
is asked for sizes of every proportion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from math import log, prod
from typing import Any

from symgrad.bounds import at_least
from symgrad.dims import ONE, ZERO, Dim
from symgrad.program import Delta, Guard, Scalar, Term, indices_of

MOST = 3
"""Ways that are kept."""
WIN = 2
"""A way is kept if it is so many times cheaper than all others for some sizes."""
LONGEST = 12
"""Factors up to which orders are looked for."""
EXACT = 5
"""Factors up to which the library tries every order; above, it builds them up from parts."""
LEVELS = (32, 2, 1024)
"""Sizes that the library is asked about, the common one first."""
ELEMENT = 8
"""Multiplications of a matrix product in the time of one element of a loop."""
ASKED = 243
"""How many proportions of sizes the library is asked about, if there are so many."""


@dataclass(frozen=True, slots=True)
class Way:
    """Which two groups of factors are multiplied next, until one is left, and what that costs.

    Groups stand in the order they were made; two that are joined leave, their product comes last.
    The cost is the number of multiplications.
    """

    joins: tuple[tuple[int, int], ...]
    cost: Dim


def ways(term: Term) -> tuple[Way, ...]:
    """Return the orders worth having for some sizes; the first is that for equal ones.

    None if a factor has a sum of its own, or positions that are compared are summed over.
    """
    bound = frozenset(term.bound)
    structure = [f for f in term.factors if isinstance(f, Delta | Guard)]
    values = values_of(term)
    if not 3 <= len(values) <= LONGEST or any(bound & set(indices_of(f)) for f in structure):
        return ()
    sets = [frozenset(indices_of(f)) for f in values]
    indices = tuple(dict.fromkeys(i for f in values for i in indices_of(f)))
    counts = {i: sum(i in s for s in sets) for i in bound}
    if not bound or any(count < 2 for count in counts.values()):
        return ()
    number = {i: n for n, i in enumerate(indices)}
    inputs = tuple(tuple(sorted(number[i] for i in s)) for s in sets)
    left = tuple(number[i] for i in indices if i not in bound)
    return _ways(inputs, left, tuple(i.dim for i in indices))


def is_open(term: Term) -> bool:
    """Whether sizes decide in which order a product is best summed."""
    return len(ways(term)) > 1


def values_of(term: Term) -> tuple[Scalar, ...]:
    """Return the factors that have an order: those with indices, but for deltas and guards."""
    return tuple(f for f in term.factors if not isinstance(f, Delta | Guard) and indices_of(f))


@cache
def _ways(
    inputs: tuple[tuple[int, ...], ...], output: tuple[int, ...], dims: tuple[Dim, ...]
) -> tuple[Way, ...]:
    """Return the ways of factors whose axes are numbers of `dims`."""
    points = list(points_of(tuple(dict.fromkeys(n for d in dims for n in d.names))))
    found: dict[tuple[tuple[int, int], ...], None] = {}
    for sizes in points:
        lengths = {n: max(d.evaluate(sizes), 1) for n, d in enumerate(dims)}
        found[_asked(inputs, output, lengths)] = None
    candidates = [Way(joins, _cost(joins, inputs, output, dims)) for joins in found]
    return _undominated(_best(candidates, points))


def points_of(names: Sequence[str]) -> Iterator[dict[str, int]]:
    """Yield sizes of every proportion; of many names, those where up to two differ from all."""
    common, *others = LEVELS
    if len(LEVELS) ** len(names) <= ASKED:
        for levels in product(LEVELS, repeat=len(names)):
            yield dict(zip(names, levels, strict=True))
        return
    yield dict.fromkeys(names, common)
    for one in names:
        yield from ({**dict.fromkeys(names, common), one: level} for level in others)
    for pair in combinations(names, 2):
        for levels in product(others, repeat=2):
            yield {**dict.fromkeys(names, common), **dict(zip(pair, levels, strict=True))}


def _asked(
    inputs: Sequence[Sequence[int]], output: Sequence[int], sizes: Mapping[int, int]
) -> tuple[tuple[int, int], ...]:
    """Return the order that the library finds best for given sizes."""
    from opt_einsum import paths

    finder: Any = paths.optimal if len(inputs) <= EXACT else paths.DynamicProgramming()
    path = finder([frozenset(i) for i in inputs], frozenset(output), dict(sizes))
    return tuple((min(pair), max(pair)) for pair in path)


def _cost(
    joins: Sequence[tuple[int, int]],
    inputs: Sequence[Sequence[int]],
    output: Sequence[int],
    dims: Sequence[Dim],
) -> Dim:
    """Return the multiplications of an order."""
    total, groups = ZERO, [frozenset(i) for i in inputs]
    for left, right in joins:
        second, first = groups.pop(right), groups.pop(left)
        together = first | second
        total = total + prod((dims[n] for n in sorted(together)), start=ONE)
        groups.append(together & frozenset(output).union(*groups))
    return total


def _best(candidates: Sequence[Way], points: Sequence[Mapping[str, int]]) -> list[Way]:
    """Return the first way and those that save most beside it, in the mean over proportions.

    One is added only if it wins by a factor somewhere.
    """
    kept, rest = [candidates[0]], list(candidates[1:])
    costs = {way: [max(way.cost.evaluate(sizes), 1) for sizes in points] for way in candidates}
    while rest and len(kept) < MOST:
        least = [min(costs[way][n] for way in kept) for n in range(len(points))]
        rest = [w for w in rest if any(a >= WIN * b for a, b in zip(least, costs[w], strict=True))]
        saved = [
            round(sum(log(max(a / b, 1)) for a, b in zip(least, costs[w], strict=True)), 6)
            for w in rest
        ]
        if rest:
            kept.append(rest.pop(saved.index(max(saved))))
    return kept


def _undominated(found: Sequence[Way]) -> tuple[Way, ...]:
    """Return the ways than which no other is at most as dear for all sizes."""
    kept: list[Way] = []
    for way in found:
        if any(at_most(other.cost, way.cost) for other in kept):
            continue
        kept = [other for other in kept if not at_most(way.cost, other.cost)]
        kept.append(way)
    return tuple(kept)


def at_most(cost: Dim, other: Dim) -> bool:
    """Whether a cost is never more than another one, all sizes being one or more."""
    difference = other - cost
    more = {name: Dim.of(name) + 1 for name in difference.names}
    return at_least(difference) == "yes" or at_least(difference.substitute(more)) == "yes"


__all__ = ["ELEMENT", "Way", "at_most", "is_open", "points_of", "values_of", "ways"]
