"""Products and sums of matrices as a tree: `(W2ᵀ g ⊙ (1 - h²)) xᵀ`.

Block -> str
A column is a matrix of one column; a sum takes out the factors that its terms share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Union

from symgrad.reading.hands import ADD, ATOM, MUL, ODOT, POWER, Hand

Written = tuple[str, int]


class Inexpressible(Exception):
    """The formula has no matrix form here; the message says why."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array, or an element-wise expression of arrays, already written.

    `row` says that a vector is declared as a matrix of one row; `transpose` is how its transpose
    is written where that has a sign of its own, `K⁻ᵀ`.
    """

    text: str
    tight: int
    turned: bool = False
    row: bool = False
    transpose: str | None = None


@dataclass(frozen=True, slots=True)
class Diag:
    """The diagonal matrix of a column; of none, the identity."""

    column: Block | None


@dataclass(frozen=True, slots=True)
class Chain:
    """A product of matrices."""

    items: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Odot:
    """An element-wise product of blocks of one shape, of vectors or of matrices."""

    items: tuple[Block, ...]
    vectors: bool


@dataclass(frozen=True, slots=True)
class Turned:
    """The transpose of what stands in parentheses."""

    block: Block


@dataclass(frozen=True, slots=True)
class Summand:
    """A term: a sign, scalars above and below the line, and a block; no block stands for 1.

    Those in `front`, such as `δ_{t,T-1}` or `r_t`, stand before the block, others behind it.
    """

    negative: bool
    number: Written | None
    front: tuple[Written, ...]
    scalars: tuple[Written, ...]
    below: tuple[Written, ...]
    block: Block | None


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum of blocks of one shape; scalars broadcast."""

    items: tuple[Summand, ...]


Block = Union[Leaf, Diag, Chain, Odot, Turned, Sum]


def chain(*blocks: Block) -> Block:
    """Return the product of matrices, flat and without identities."""
    flat: list[Block] = []
    for block in blocks:
        flat += block.items if isinstance(block, Chain) else [block]
    kept = [b for b in flat if b != Diag(None)]
    if not kept:
        return Diag(None)
    return kept[0] if len(kept) == 1 else Chain(tuple(kept))


def odot(blocks: Sequence[Block], *, vectors: bool) -> Block:
    """Return the element-wise product, what was multiplied out before in front.

    A product of matrices stands as the one of the two transposes that reads shorter.
    """
    flat: list[Block] = []
    for block in blocks:
        if isinstance(block, Turned) and isinstance(block.block, Odot):
            flat += [transposed(b) for b in block.block.items]
        else:
            flat += block.items if isinstance(block, Odot) else [block]
    if len(flat) == 1:
        return flat[0]
    other = [] if vectors else [transposed(b) for b in flat]
    turned = bool(other) and _transposes(other) < _transposes(flat)
    ordered = sorted(other if turned else flat, key=lambda b: not isinstance(b, Chain))
    product = Odot(tuple(ordered), vectors)
    return Turned(product) if turned else product


def _transposes(blocks: Sequence[Block]) -> int:
    return sum(
        _transposes(b.items) if isinstance(b, Chain | Odot) else
        isinstance(b, Turned) or (isinstance(b, Leaf) and b.turned)
        for b in blocks
    )


def transposed(block: Block) -> Block:
    """Return the transpose, with products of matrices turned around."""
    match block:
        case Leaf():
            return replace(block, turned=not block.turned)
        case Diag():
            return block
        case Chain(items):
            return chain(*(transposed(b) for b in reversed(items)))
        case Turned(inner):
            return inner
        case Odot((Chain() as first, *others), True):
            return chain(transposed(first), Diag(odot(others, vectors=True)))
        case Odot() | Sum():
            return Turned(block)


def added(items: Sequence[Summand]) -> Block | None:
    """Return a sum with the blocks that all terms share in front, behind, or beside it."""
    alone = items[0]
    plain = not (alone.negative or alone.number or alone.front or alone.scalars or alone.below)
    if len(items) == 1 and plain:
        return alone.block
    blocks = [s.block for s in items]
    if len(items) > 1 and all(isinstance(b, Chain) for b in blocks):
        chains = [b.items for b in blocks if isinstance(b, Chain)]
        if all(c[-1] == chains[0][-1] for c in chains):
            rest = added(_with(items, [chain(*c[:-1]) for c in chains]))
            return chain(_present(rest), chains[0][-1])
        if all(c[0] == chains[0][0] for c in chains):
            rest = added(_with(items, [chain(*c[1:]) for c in chains]))
            return chain(chains[0][0], _present(rest))
    if len(items) > 1 and None not in blocks:
        parts = [b.items if isinstance(b, Odot) else (b,) for b in blocks if b is not None]
        shared = next((b for b in parts[0] if all(b in p for p in parts[1:])), None)
        if shared is not None and not isinstance(shared, Diag):
            vectors = all(b.vectors for b in blocks if isinstance(b, Odot))
            rest = added(_with(items, [_without(p, shared, vectors) for p in parts]))
            return shared if rest is None else odot([shared, rest], vectors=vectors)
    return Sum(tuple(items))


def _present(block: Block | None) -> Block:
    assert block is not None
    return block


def _with(items: Sequence[Summand], blocks: Sequence[Block | None]) -> list[Summand]:
    return [replace(s, block=b) for s, b in zip(items, blocks, strict=True)]


def _without(items: tuple[Block, ...], shared: Block, vectors: bool) -> Block | None:
    place = items.index(shared)
    rest = (*items[:place], *items[place + 1 :])
    return odot(rest, vectors=vectors) if rest else None


def write_block(block: Block, hand: Hand) -> Written:
    """Return the block written, and how tightly it holds together."""
    match block:
        case Leaf(text, tight, turned):
            if not turned:
                return text, tight
            if block.transpose is not None:
                return block.transpose, POWER
            return hand.transpose(text if tight == ATOM else hand.group(text)), POWER
        case Diag(None):
            return hand.identity, ATOM
        case Diag(column):
            assert column is not None
            return hand.call("diag", (), [write_block(column, hand)[0]]), ATOM
        case Chain(items):
            return hand.matrices([_grouped(b, hand, MUL) for b in items]), MUL
        case Turned(inner):
            return hand.transpose(_grouped(inner, hand, POWER)), POWER
        case Odot(items):
            first, *others = items
            head = _grouped(first, hand, ADD)
            return hand.odot([head, *(_grouped(b, hand, MUL) for b in others)]), ODOT
        case Sum(items):
            return write_sum(items, hand)


def _grouped(block: Block, hand: Hand, limit: int) -> str:
    text, tight = write_block(block, hand)
    return text if tight > limit else hand.group(text)


def write_sum(items: Sequence[Summand], hand: Hand) -> Written:
    """Return signed terms written, a positive one first; one term alone is no sum."""
    items = sorted(items, key=lambda s: s is not next((t for t in items if not t.negative), None))
    written = [(s.negative, write_summand(s, hand)) for s in items]
    if len(written) == 1 and not written[0][0]:
        return written[0][1]
    return hand.total([(n, hand.group(t) if n and h == ADD else t) for n, (t, h) in written]), ADD


def write_summand(summand: Summand, hand: Hand) -> Written:
    """Return a term without its sign: its number, its block, its scalars, what is below."""
    block = [] if summand.block is None else [write_block(summand.block, hand)]
    number = [summand.number] if summand.number else []
    parts = [*number, *summand.front, *block, *summand.scalars]
    if len(parts) <= 1:
        top = parts[0] if parts else (hand.number(1), ATOM)
    else:
        # a product of matrices at the end needs no parentheses: nothing follows it
        last = parts[-1] if block and not summand.scalars else None
        pieces = [t if h > MUL or (h == MUL and (t, h) == last) else hand.group(t)
                  for t, h in parts]
        top = hand.join([("", piece) for piece in pieces]), MUL
    if not summand.below:
        return top
    lone = len(summand.below) == 1
    below = [t if lone or h > MUL else hand.group(t) for t, h in summand.below]
    under = hand.join([("", b) for b in below])
    above = top[0] if top[1] > ODOT or hand.barred else hand.group(top[0])
    return hand.quotient(above, under, lone and summand.below[0][1] >= POWER), MUL
