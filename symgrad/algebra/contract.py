"""Terms made small: Kronecker deltas solved for bound indices, constants folded, sums counted.

Term -> Term | None
A delta is spent by substitution; what it cannot decide becomes a guard or stays as structure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from symgrad.algebra.radix import by_digits, guards, holds, number_of
from symgrad.dims import ONE, Dim
from symgrad.program import (
    Access,
    Affine,
    Apply,
    Delta,
    Guard,
    Index,
    Lookup,
    Number,
    Place,
    Position,
    Scalar,
    Size,
    Term,
    affine_of,
    indices_of,
)


def contract(term: Term, prefer: Sequence[Index] = ()) -> Term | None:
    """Return `term` with its deltas spent where they can be, or None if it is zero.

    `prefer` are the bound indices to eliminate first; a bound index that nothing reads
    becomes a factor of its dim.
    """
    folded = fold(term.factors)
    if folded is None:
        return None
    bound, factors = list(term.bound), _tidy(folded)
    changed = True
    while changed:
        changed = False
        for position, factor in _deltas_simplest_first(factors):
            step = _spend(factor, bound, prefer)
            if step is None:
                together = _spend_digits(factor, bound, factors)
                if together is not None:
                    bound, factors = together
                    changed = True
                    break
                continue
            if isinstance(step, str):
                return None
            solved, value, cuts = step
            factors.pop(position)
            if solved is not None:
                moved = _substitute_all(factors, solved, value)
                if moved is None:
                    factors.insert(position, factor)
                    continue
                factors = moved
                bound.remove(solved)
            factors = _tidy((*factors, *(g for g in cuts if g not in factors)))
            changed = True
            break
    return _count_unused(Term(tuple(bound), tuple(factors)))


def _tidy(factors: Sequence[Scalar]) -> list[Scalar]:
    """Return the factors with deltas digit by digit, without guards that always hold.

    Two indices with the same digits are the same: `δ(j, i*d + k) δ(l, i*d + k)` holds `δ(j, l)`.
    """
    found: list[Scalar] = []
    known: dict[Affine, Index] = {}
    for factor in factors:
        if isinstance(factor, Delta) and _complexity(factor):
            number = number_of(factor)
            if number is None:
                found += by_digits(factor)
                continue
            first = known.setdefault(number[1], number[0])
            same = first != number[0]
            found.append(Delta(Affine.of(first), Affine.of(number[0])) if same else factor)
        elif not isinstance(factor, Guard) or not holds(factor):
            found.append(factor)
    return found


def fold(factors: Sequence[Scalar]) -> tuple[Scalar, ...] | None:
    """Flatten products and multiply numbers, drop guards that hold; None if it is zero."""
    flat: list[Scalar] = []
    number: int | float = 1
    stack = list(reversed(factors))
    while stack:
        factor = stack.pop()
        match factor:
            case Number(value):
                number = number * value
            case Apply("mul", args, ()):
                stack.extend(reversed(args))
            case Guard(position, dim) if _verdict(position, dim) is not None:
                if not _verdict(position, dim):
                    return None
            case Apply("neg", (arg,), ()):
                number = -number
                stack.append(arg)
            case _:
                flat.append(factor)
    if number == 0:
        return None
    return (Number(number), *flat) if number != 1 else tuple(flat)


def _verdict(position: Affine, dim: Dim) -> bool | None:
    """Say whether `0 <= position < dim` for sure, or None."""
    if position.bare is not None:
        return True if position.bare.dim == dim else None
    place, size = position.offset.constant, dim.constant
    if position.terms or place is None:
        return None
    if place < 0:
        return False
    return None if size is None else place < size


def _deltas_simplest_first(factors: Sequence[Scalar]) -> list[tuple[int, Delta]]:
    found = [(n, f) for n, f in enumerate(factors) if isinstance(f, Delta)]
    return sorted(found, key=lambda pair: _complexity(pair[1]))


def _complexity(delta: Delta) -> int:
    bare = [isinstance(p, Affine) and p.bare is not None for p in (delta.left, delta.right)]
    return 2 - sum(bare)


Step = tuple[Index | None, Position, tuple[Guard, ...]]
Zero = Literal["zero"]


def _spend(delta: Delta, bound: Sequence[Index], prefer: Sequence[Index]) -> Step | Zero | None:
    """Return what to substitute, "zero", or None if the delta must stay."""
    left, right = delta.left, delta.right
    if isinstance(left, Lookup) or isinstance(right, Lookup):
        return _spend_lookup(left, right, bound)
    difference = left - right
    if all(i.dim == ONE and i not in bound for i, _ in difference.terms):
        difference = Affine((), difference.offset)
    if not difference.terms:
        constant = difference.offset.constant
        if constant is None:
            return None
        return (None, Affine(), ()) if constant == 0 else "zero"
    candidates = [(i, c) for i, c in difference.terms if i in bound and c in (1, -1)]
    number = number_of(delta)
    if number is not None:  # digits are never computed from their number
        candidates = [pair for pair in candidates if pair[0] == number[0]]
    candidates.sort(key=lambda pair: (pair[0] not in prefer, pair[0].serial))
    for index, coefficient in candidates:
        value = (Affine.of(index) * coefficient - difference) * coefficient
        others = [i for i, _ in value.terms if i in bound]
        strided = number is None and any(i in prefer for i in others) and index not in prefer
        if strided and value.bare is None:
            continue
        return index, value, guards(index, value) if value.terms else ()
    return None


def _spend_digits(
    delta: Delta, bound: Sequence[Index], factors: Sequence[Scalar]
) -> tuple[list[Index], list[Scalar]] | None:
    """Sum over all digits of a number that are read as that number only, or return None."""
    number = number_of(delta)
    if number is None or any(i not in bound for i, _ in number[1].terms):
        return None
    index, value = number
    lowest = next(i for i, c in value.terms if c == 1 and i.dim != ONE)
    others = [f for f in factors if f != delta]
    moved = _substitute_all(others, lowest, Affine.of(index) - value + lowest)
    gone = {i for i, _ in value.terms}
    if moved is None or any(gone & set(indices_of(f)) for f in moved):
        return None
    return [i for i in bound if i not in gone], _tidy(moved)


def _spend_lookup(left: Position, right: Position, bound: Sequence[Index]) -> Step | Zero | None:
    if left == right:
        return None, Affine(), ()
    for here, there in ((left, right), (right, left)):
        if isinstance(here, Affine) and here.bare in bound and here.bare is not None:
            if here.bare.partial:
                continue
            if here.bare not in {i for a in affine_of(there) for i, _ in a.terms}:
                return here.bare, there, ()
    return None


def _substitute_all(
    factors: Sequence[Scalar], index: Index, value: Position
) -> list[Scalar] | None:
    """Return the factors with `index` replaced, or None where a lookup cannot take its place."""
    moved = []
    for factor in factors:
        result = relocate(factor, {index: value})
        if result is None:
            return None
        moved.append(result)
    return moved


def relocate(scalar: Scalar, mapping: Mapping[Index, Position]) -> Scalar | None:
    """Replace indices by positions; None if a lookup would stand inside a sum of indices."""
    match scalar:
        case Access():
            at = _positions(scalar.at, mapping)
            return None if at is None else Access(scalar.array, at)
        case Apply():
            args = [relocate(a, mapping) for a in scalar.args]
            if any(a is None for a in args):
                return None
            return replace(scalar, args=tuple(a for a in args if a is not None))
        case Delta():
            both = _positions((scalar.left, scalar.right), mapping)
            if both == (scalar.left, scalar.right):
                return scalar
            return None if both is None else Delta(both[0], both[1])
        case Guard():
            one = _positions((scalar.position,), mapping)
            if one is None or not isinstance(one[0], Affine):
                return None
            return Guard(one[0], scalar.dim)
        case Place():
            one = _positions((scalar.affine,), mapping)
            if one is None or not isinstance(one[0], Affine):
                return None
            return Place(one[0])
        case _:
            return scalar


def _positions(
    at: Sequence[Position], mapping: Mapping[Index, Position]
) -> tuple[Position, ...] | None:
    moved = [_position(p, mapping) for p in at]
    if any(p is None for p in moved):
        return None
    return tuple(p for p in moved if p is not None)


def _position(position: Position, mapping: Mapping[Index, Position]) -> Position | None:
    if isinstance(position, Lookup):
        at = _positions(position.at, mapping)
        return None if at is None else Lookup(position.array, at)
    if position.bare is not None:
        return mapping.get(position.bare, position)
    total = Affine((), position.offset)
    for index, coefficient in position.terms:
        value = mapping.get(index, Affine.of(index))
        if not isinstance(value, Affine):
            return None
        total = total + value * coefficient
    return total


def _count_unused(term: Term) -> Term:
    """Turn bound indices that no factor reads into factors of their dims."""
    read = {i for f in term.factors for i in indices_of(f)}
    kept = tuple(i for i in term.bound if i in read)
    sizes: list[Scalar] = []
    for index in term.bound:
        if index not in read and index.dim.constant != 1:
            sizes.append(Size(index.dim))
    return Term(kept, (*term.factors, *sizes))


def guarding(factors: Sequence[Scalar], within: set[Index]) -> tuple[Guard, ...]:
    """Return the guards that concern these indices alone: a part is read only where they hold."""
    return tuple(f for f in factors if isinstance(f, Guard) and set(indices_of(f)) <= within)


def reading(delta: Scalar, factors: Sequence[Scalar]) -> tuple[Guard, ...]:
    """Return the guards without which a delta would read positions beside an array of data."""
    if not isinstance(delta, Delta):
        return ()
    if not isinstance(delta.left, Lookup) and not isinstance(delta.right, Lookup):
        return ()
    return guarding(factors, set(indices_of(delta)))
