"""Jacobians as sparse matrices `[B·out, p]`, entry by entry from the factors.

Selection -> entries with their rows and columns -> scipy.sparse array
Deltas say where entries stand: their positions are integers to compute with, and what is zero by
structure (deltas, guards such as those of a convolution, data that is looked up) is never stored.
Rows and columns are ordered as in `symgrad.products.flat`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError
from symgrad.extras import extra
from symgrad.products.contract import placed
from symgrad.products.eliminate import eliminate
from symgrad.products.evaluate import piece_size
from symgrad.products.flat import Vec, flat_columns, length, require_order, rows
from symgrad.products.planned import Sums
from symgrad.products.selection import Selection
from symgrad.products.sides import Factored, Rows, Side
from symgrad.products.support import marked
from symgrad.products.terms import Axis, Place, Product, Tensor, Values, aligned, lengths
from symgrad.products.tiles import pieces

FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")


Marked = tuple[Product, Product]
"""A term, and 1 where it may have entries."""


@dataclass(frozen=True, slots=True)
class Entries:
    """Values with their rows and columns in the whole matrix."""

    values: Values
    rows: Values
    columns: Values


def to_scipy(own: Selection, format: str, vec: Vec) -> Any:  # noqa: A002 (scipy's word)
    """Return all Jacobians as one sparse array `[B·out, p]`; inputs have p of every sample.

    Every entry that is not zero by structure is stored, whatever its value. Raises ArgumentError
    for an unknown format, MissingExtraError without SciPy.
    """
    require_order(vec)
    if format not in FORMATS:
        raise ArgumentError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    sparse = extra("scipy.sparse", "to_scipy")
    shape = (own.count * length(rows(own)), length(flat_columns(own)))
    found = [e for output, name in own.blocks for e in _of_block(own, output, name, vec)]
    kind = np.int32 if max(shape) <= np.iinfo(np.int32).max else np.int64
    values, high, wide = (
        np.concatenate([np.zeros(0, dtype), *parts])
        for dtype, parts in (
            (own.any.dtype, [e.values for e in found]),
            (kind, [e.rows.astype(kind) for e in found]),
            (kind, [e.columns.astype(kind) for e in found]),
        )
    )
    whole = sparse.coo_array((values, (high, wide)), shape=shape).tocsr()  # adds what meets
    return whole.tobsr(blocksize=_blocks(own, vec)) if format == "bsr" else whole.asformat(format)


def _of_block(own: Selection, output: str, name: str, vec: Vec) -> Iterator[Entries]:
    """Yield the entries of one Jacobian, some samples of one term at a time."""
    one = own.blocks[output, name]
    if not one.count:
        return
    side, terms = _terms(one, Rows(0, 1))
    sums = Sums(tuple(product for product, _ in terms), side.axes, side.axes)
    size = piece_size(sums, one.count, one.dtype) if terms else one.count
    for some in pieces(one.count, size):
        side, terms = _terms(one, some)
        for product, marks in terms:
            yield _of_term(own, (output, name), some, side, (product, marks), vec)


def _of_term(
    own: Selection, key: tuple[str, str], some: Rows, side: Side, term: Marked, vec: Vec
) -> Entries:
    """Return the entries of one term."""
    one = own.blocks[key]
    reduced, values, there = placed(*term, side.axes, side.axes, one.dtype)
    place = dict(zip(side.axes, reduced.result, strict=True))

    def number(axes: Sequence[Axis]) -> Values:
        """Return the number whose digits are positions along some axes."""
        found: Values = np.zeros((1,) * len(reduced.kept), np.int64)
        for axis in axes if vec == "C" else axes[::-1]:
            found = found * axis.size + aligned(place[axis].written_out, reduced.kept)
        return found

    def kept(array: Values) -> Values:
        whole = np.broadcast_to(array, lengths(reduced.kept))
        return whole.ravel() if there is None else whole[there]

    sample = some.start + number(side.samples)
    above, beside = rows(own)[key[0]].start, flat_columns(own)[key[1]].start
    high = sample * length(rows(own)) + above + number(side.out)
    wide = beside + number(side.theta)
    if one.is_input:
        wide = wide + sample * prod(one.theta)
    return Entries(kept(values), kept(high), kept(wide))


def _terms(one: Factored, some: Rows) -> tuple[Side, list[Marked]]:
    """Return the terms of a Jacobian with marks; one alone where one of them has no zeros."""
    side, reader = one.read(some)
    marks = marked(one.definitions, one.structured.jacobian.terms, reader)
    if len(marks) < 2 or all(m.ties or m.tensors for m in marks):
        return side, list(zip(side.products, marks, strict=True))
    total = np.zeros(lengths(side.axes), one.dtype)
    Sums(side.products, side.axes, side.axes).add_to(total)
    return side, [(Product((Tensor(total, side.axes),)), Product())]


# ------------------------------------------------------------ blocks


def _blocks(own: Selection, vec: Vec) -> tuple[int, int]:
    """Return the largest blocks that no Jacobian has zeros in, as far as structure tells."""
    high, wide = 0, 0
    for one in own.blocks.values():
        side, terms = _terms(one, Rows(0, min(one.count, 1)))
        for marks in (*(marks for _, marks in terms), Product()):
            reduced = eliminate(marks, side.axes, side.axes, np.intp)
            place = dict(zip(side.axes, reduced.result, strict=True))
            read = Counter(a for p in reduced.result for a in p.axes)
            read.update(a for t in reduced.tensors for a in t.axes)
            high = gcd(high, _free([place[a] for a in side.out], read, vec))
            wide = gcd(wide, _free([place[a] for a in side.theta], read, vec))
    return max(high, 1), max(wide, 1)


def _free(places: Sequence[Place], read: Counter[Axis], vec: Vec) -> int:
    """Return how many entries in a row there are along those fastest axes that nothing ties."""
    count = 1
    for place in reversed(places) if vec == "C" else places:
        if place.bare is None or read[place.bare] > 1:
            break
        count *= place.bare.size
    return count


__all__ = ["FORMATS", "to_scipy"]
