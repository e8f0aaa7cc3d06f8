"""Derivatives with respect to a part of an array: its indices take the place of the array's.

Terms, Region -> Part;  access, Region -> tangent of the part
What the part leaves out is in no loop: places are slices of arrays, or looked up in a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from symgrad.algebra.contract import contract, relocate
from symgrad.program import (
    Access,
    Affine,
    Array,
    Delta,
    Index,
    Lookup,
    Position,
    Scalar,
    Supply,
    Term,
    affine_of,
)
from symgrad.region import Region


@dataclass(frozen=True, slots=True)
class Part:
    """Terms over the indices `theta` of a part, which stand `at` these places in the whole."""

    theta: tuple[Index, ...]
    at: tuple[Position, ...]
    terms: tuple[Term, ...] = ()


def part_of(
    terms: Sequence[Term], array: Array, own: Sequence[Index], region: Region, supply: Supply
) -> Part:
    """Return the terms at an array, with indices `own`, where its part stands."""
    part = indices(array, own, region, supply)
    moves = [(i, p) for i, p in zip(own, part.at, strict=True) if p != Affine.of(i)]
    found = [_moved(term, moves) for term in terms]
    return Part(part.theta, part.at, tuple(t for t in found if t is not None))


def indices(array: Array, own: Sequence[Index], region: Region, supply: Supply) -> Part:
    """Return the indices of a part, those of axes it has whole being the array's `own`."""
    whole = region.whole(array)
    by_axis = {
        place.axis: index
        for place, index in zip(region.at, own, strict=True)
        if place.axis in whole
    }
    theta = tuple(
        by_axis[axis]
        if axis in by_axis
        else supply.fresh("jklpqrstuvw"[axis % 11], dim, partial=True)
        for axis, dim in enumerate(region.axes)
    )
    return Part(theta, region.places(theta))


def _moved(term: Term, moves: Sequence[tuple[Index, Position]]) -> Term | None:
    """Return a term with indices replaced by places; None if it is zero.

    Where a place that is data would stand inside a sum of indices, the index is summed over.
    """
    bound, factors = list(term.bound), list(term.factors)
    for index, place in moves:
        moved = [_tied(f, index, place) or relocate(f, {index: place}) for f in factors]
        if any(f is None for f in moved):
            bound.append(index)
            factors.append(Delta(Affine.of(index), place))
        else:
            factors = [f for f in moved if f is not None]
    return contract(Term(tuple(bound), tuple(factors)))


def _tied(factor: Scalar, index: Index, place: Position) -> Delta | None:
    """Return the delta that ties an index of the array, moved: the place lies in the same range."""
    if isinstance(factor, Delta):
        for here, there in ((factor.left, factor.right), (factor.right, factor.left)):
            if there == Affine.of(index) and here.bare and here.bare.dim == index.dim:
                return Delta(here, place, inside=True)
    return None


def tangent_of(
    access: Access,
    tangent: str,
    array: Array,
    region: Region,
    supply: Supply,
    filled: bool,
) -> tuple[tuple[Index, ...], tuple[Scalar, ...], tuple[Delta, ...]]:
    """Return an element of the tangent of an array of which a part is selected.

    That is a sum over the indices of the part, of factors; `kept` are deltas that are structure:
    they say where the element of the part stands in what reads it. `filled` says that the tangent
    has the shape of the whole, of which the part is read.
    """
    batch = access.at[:1] if array.batched else ()
    at = access.at[len(batch) :]
    own = tuple(supply.fresh("j", d) for d in array.axes)
    part = indices(array, own, region, supply)
    read: dict[Index, Position] = {}
    deltas: list[Delta] = []
    for index, place, there in zip(own, part.at, at, strict=True):
        if place == Affine.of(index):
            read[index] = there
        else:
            same = there.bare is not None and there.bare.dim == index.dim
            deltas.append(Delta(there, place, inside=same))
    wanted = part.at if filled else tuple(map(Affine.of, part.theta))
    positions = (*batch, *(read.get(p.bare, p) if p.bare else p for p in wanted))
    bound = tuple(i for i in part.theta if i not in read)
    return bound, (Access(tangent, positions),), tuple(deltas)


def spent(
    term: Term, deltas: Sequence[Delta], prefer: Sequence[Index]
) -> Term | None:
    """Return a term times deltas that tie a part to its whole; None if it is zero.

    What the term sums over is read from the part; free indices keep their delta: the loop runs
    over the part then.
    """
    summed, kept = set(prefer), []
    bound, factors = list(term.bound), list(term.factors)
    for delta in deltas:
        index = delta.left.bare
        moved = [relocate(f, {index: delta.right}) if index else None for f in factors]
        if index in summed and delta.inside and None not in moved:
            bound = [i for i in bound if i != index]
            factors = [f for f in moved if f is not None]
        elif isinstance(delta.left, Lookup) or summed & _inside(delta.left):
            factors.append(delta)
        else:
            kept.append(delta)
    found = contract(Term(tuple(bound), tuple(factors)), prefer)
    return None if found is None else Term(found.bound, (*found.factors, *kept))


def _inside(position: Position) -> set[Index]:
    return {i for a in affine_of(position) for i, _ in a.terms}


__all__ = ["Part", "indices", "part_of", "spent", "tangent_of"]
