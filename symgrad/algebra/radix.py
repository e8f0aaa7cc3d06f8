"""Numbers in mixed radix: what reshapes make of positions, `i*d + j` with 0 <= j < d.

Affine, Delta -> digits, whether ranges coincide, deltas digit by digit
Distinct digits make distinct numbers, so such positions lose nothing: no guard, one write each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.bounds import open_sides
from symgrad.dims import ONE, ZERO, Coefficient, Dim, signed
from symgrad.program import Affine, Delta, Guard, Index, Position


def digits(affine: Affine) -> Dim | None:
    """Return the size d of which a position takes each of 0 .. d - 1 exactly once, if any."""
    if affine.offset != ZERO:
        return None
    weight = ONE
    waiting = [(i, c) for i, c in affine.terms if i.dim != ONE]
    while waiting:
        found = next((pair for pair in waiting if Dim.of(pair[1]) == weight), None)
        if found is None:
            return None
        waiting.remove(found)
        weight = weight * found[0].dim
    return weight


def in_order(number: Affine) -> tuple[Index, ...]:
    """Return the digits of a number, the one that counts most first."""
    weight, waiting, found = ONE, list(number.terms), list[Index]()
    while waiting:
        fits = [pair for pair in waiting if Dim.of(pair[1]) == weight or pair[0].dim == ONE]
        index, _ = pair = min(fits, key=lambda pair: pair[0].dim != ONE)
        waiting.remove(pair)
        found.append(index)
        weight = weight * index.dim
    return tuple(reversed(found))


def guards(index: Index, value: Affine) -> tuple[Guard, ...]:
    """Return the guard that `value` lies in the range of `index`; none where ranges coincide."""
    if digits(value) == index.dim:
        return ()
    return (Guard(value, index.dim),)


def holds(guard: Guard) -> bool:
    """Whether a guard is true of every value of its indices."""
    if not guard.position.terms:
        return False
    return digits(guard.position) == guard.dim or open_sides(guard) == (False, False)


def tiles(positions: Sequence[Position], dims: Sequence[Dim], loops: Sequence[Index]) -> bool:
    """Whether loops reach every element of an array of these dims, each exactly once."""
    seen: list[Index] = []
    for position, dim in zip(positions, dims, strict=True):
        if not isinstance(position, Affine) or digits(position) != dim:
            return False
        seen += [i for i, _ in position.terms]
    return len(seen) == len(loops) and set(seen) == set(loops)


def number_of(delta: Delta) -> tuple[Index, Affine] | None:
    """Return the index whose digits a delta states, with the number that they make."""
    for here, there in ((delta.left, delta.right), (delta.right, delta.left)):
        if not isinstance(here, Affine) or not isinstance(there, Affine):
            continue
        index = here.bare
        if index is None or len(there.terms) < 2 or sum(i.dim != ONE for i, _ in there.terms) < 2:
            continue
        if digits(there) == index.dim:
            return index, there
    return None


def by_digits(delta: Delta) -> tuple[Delta, ...]:
    """Return `δ(i*d + j, p*d + q)` as `δ(i, p) δ(j, q)`, any other delta as it is."""
    if not isinstance(delta.left, Affine) or not isinstance(delta.right, Affine):
        return (delta,)
    difference = delta.left - delta.right
    if difference.offset != ZERO or not difference.terms:
        return (delta,)
    sides: dict[Coefficient, tuple[list[Index], list[Index]]] = {}
    for index, coefficient in difference.terms:
        on_the_right, weight = signed(coefficient)
        sides.setdefault(weight, ([], []))[on_the_right].append(index)
    if any(len(left) != 1 or len(right) != 1 for left, right in sides.values()):
        return (delta,)
    pairs = {weight: (left[0], right[0]) for weight, (left, right) in sides.items()}
    found: list[Delta] = []
    while pairs:
        lowest = next((w for w in pairs if _is_lowest(w, pairs)), None)
        if lowest is None:
            return (delta,)
        left, right = pairs.pop(lowest)
        found.append(Delta(Affine.of(left), Affine.of(right)))
    return tuple(reversed(found))


def _is_lowest(weight: Coefficient, pairs: Mapping[Coefficient, tuple[Index, Index]]) -> bool:
    """Whether all other digits count multiples of what this one can reach."""
    left, right = pairs[weight]
    if len(pairs) > 1 and left.dim != right.dim:
        return False
    reach = Dim.of(weight) * left.dim
    return all(Dim.of(w).divided_by(reach) is not None for w in pairs if w != weight)
