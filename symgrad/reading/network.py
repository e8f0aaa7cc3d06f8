"""A product of arrays as a network: indices are nodes, vectors stand on them, matrices join them.

Product, target indices -> Summand
Summed indices are taken out one by one: a leaf by a matrix times a vector, an index between two
others by a matrix product. What this cannot take out raises Inexpressible, with the reason.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from symgrad.program import BATCH, Access, Affine, Delta, Index, Lookup, Position
from symgrad.reading.blocks import (
    Block,
    Diag,
    Inexpressible,
    Leaf,
    Odot,
    Summand,
    chain,
    odot,
    transposed,
    write_block,
)
from symgrad.reading.closed import Shown, Summed
from symgrad.reading.hands import ATOM
from symgrad.reading.layout import place
from symgrad.reading.products import Product, indices_in

if TYPE_CHECKING:
    from symgrad.reading.arrays import MatrixWriter

Written = tuple[str, int]


@dataclass(slots=True)
class Network:
    """The factors of one product by the axes they have.

    With `broadcast` a number stands for the vector filled with it, as in a sum with vectors.
    """

    writer: MatrixWriter
    target: tuple[Index, ...]
    broadcast: bool = False
    front: list[Written] = field(default_factory=list)
    scalars: list[Written] = field(default_factory=list)
    below: list[Written] = field(default_factory=list)
    nodes: dict[Index, list[Block]] = field(default_factory=dict)
    edges: dict[tuple[Index, Index], list[Block]] = field(default_factory=dict)

    def summand(self, product: Product) -> Summand:
        """Return a product as one term of a sum of blocks."""
        number = product.number
        self.sort(product)
        self.take_out([i for i in self.nodes_in_order() if i not in self.target])
        front, scalars, block = tuple(self.front), tuple(self.scalars), self.whole()
        if block is None and scalars and not front:
            block, scalars = Leaf(*scalars[0]), scalars[1:]
        size = max(number, -number)
        if self.below and isinstance(size, Fraction) and size.denominator != 1:
            self.below.insert(0, (self.writer.hand.number(size.denominator), ATOM))
            size = Fraction(size.numerator)
        written = self.writer.number(size)
        return Summand(number < 0, written, front, scalars, tuple(self.below), block)

    def sort(self, product: Product) -> None:
        """Put every factor where its axes are."""
        pairs: dict[tuple[Index, ...], Product] = {}
        for side, up in ((product.over, True), (product.under, False)):
            for atom, power in sorted(side.items(), key=lambda f: place(f[0]) > 0):
                axes = self.writer.axes_of(atom)
                if isinstance(atom, Delta) and up and axes:
                    self.delta(atom, axes)
                elif not axes:
                    written = self.writer.scalar(atom, power)
                    labelled = bool(indices_in(atom) & self.writer.labels)
                    above = self.front if labelled else self.scalars
                    (above if up else self.below).append(written)
                elif len(axes) > 2:
                    what = atom.array if isinstance(atom, Access) else "a factor"
                    raise Inexpressible(f"{what} is read along {len(axes)} axes at once")
                else:
                    inner = pairs.setdefault(tuple(axes), Product())
                    (inner.over if up else inner.under)[atom] = power
        for key, inner in pairs.items():
            blocks = self.elementwise(inner, key)
            if len(key) == 1:
                self.nodes.setdefault(key[0], []).extend(blocks)
            else:
                self.edges.setdefault((key[0], key[1]), []).extend(blocks)

    def elementwise(self, inner: Product, axes: tuple[Index, ...]) -> list[Block]:
        """Return the blocks of one node or edge; a quotient is one block."""
        if inner.under:
            return [Leaf(*self.writer.elementwise(inner, axes))]
        blocks: list[Block] = []
        for atom, power in inner.over.items():
            block: Block = self.writer.block(atom, axes)
            if power == 1 or len(axes) == 2:
                blocks += [block] * power
            else:
                base = write_block(block, self.writer.hand)
                blocks.append(Leaf(*self.writer.raised(base, power)))
        return blocks

    def delta(self, delta: Delta, axes: list[Index]) -> None:
        """Place a Kronecker delta: an identity, or unit vectors at positions that are data."""
        left, right = delta.left, delta.right
        if isinstance(left, Lookup):
            left, right = right, left
        bare = left.bare
        if bare is None:
            raise Inexpressible("a delta ties positions that are no plain indices")
        other = right.bare
        if other is not None and len(axes) == 2:
            self.edges.setdefault((bare, other), []).append(Diag(None))
            return
        written = Leaf(self.writer.unit(right), ATOM)
        outer = [i for i in axes if i != bare]
        if not outer:
            self.nodes.setdefault(bare, []).append(written)
        elif len(outer) == 1:
            self.edges.setdefault((outer[0], bare), []).append(written)
        else:
            raise Inexpressible("a delta has more than two axes")

    def nodes_in_order(self) -> list[Index]:
        """Return all indices, each once."""
        found = dict.fromkeys(self.nodes)
        for left, right in self.edges:
            found.update({left: None, right: None})
        return list(found)

    def around(self, index: Index) -> dict[Index, Block]:
        """Return the matrices at an index, with it as their columns, by what their rows are."""
        found: dict[Index, list[Block]] = {}
        for (left, right), blocks in self.edges.items():
            if right == index:
                found.setdefault(left, []).extend(blocks)
            elif left == index:
                found.setdefault(right, []).extend(transposed(b) for b in blocks)
        return {other: self.joined(blocks) for other, blocks in found.items()}

    def joined(self, blocks: list[Block]) -> Block:
        """Return the element-wise product of matrices; none with an identity in it."""
        if len(blocks) > 1 and any(isinstance(b, Diag) for b in blocks):
            raise Inexpressible("only the diagonal of a matrix is read")
        return odot(blocks, vectors=False)

    def take_out(self, waiting: list[Index]) -> None:
        """Sum over every index that is no axis of the result."""
        while waiting:
            degree = {i: len(self.around(i)) for i in waiting}
            rank = {1: 0, 2: 1, 0: 2}
            index = min(waiting, key=lambda i: rank.get(degree[i], 3))
            if degree[index] > 2:
                raise Inexpressible("a summed index joins three matrices")
            waiting.remove(index)
            near = self.around(index)
            self.edges = {k: b for k, b in self.edges.items() if index not in k}
            weight = self.nodes.pop(index, [])
            if not near:
                self.scalars.append(self.inner(weight))
                continue
            (first, one), *more = near.items()
            if not more:
                column = odot(weight, vectors=True) if weight else self.ones()
                self.nodes.setdefault(first, []).append(chain(one, column))
                continue
            second, two = more[0]
            product = chain(one, *diagonal(weight), transposed(two))
            if (second, first) in self.edges:
                self.edges[second, first].append(transposed(product))
            else:
                self.edges.setdefault((first, second), []).append(product)

    def inner(self, weight: list[Block]) -> Written:
        """Return the sum of a vector's elements: `uᵀ v`."""
        flat = odot(weight, vectors=True)
        items = flat.items if isinstance(flat, Odot) else (self.ones(), flat)
        row = next((b for b in items if isinstance(b, Leaf) and b.row), None)
        first = items[0] if row is None else row
        rest = list(items)
        rest.remove(first)
        turned = transposed(first) if row is None else first
        return write_block(chain(turned, odot(rest, vectors=True)), self.writer.hand)

    def ones(self) -> Block:
        """Return the vector of ones."""
        return Leaf(self.writer.hand.ones, ATOM)

    def whole(self) -> Block | None:
        """Return what is left on the axes of the result; None if nothing is."""
        if not self.target:
            return None
        weights = [
            odot(self.nodes[i], vectors=True) if self.nodes.get(i) else None for i in self.target
        ]
        if len(self.target) == 1:
            return weights[0] or (None if self.broadcast else self.ones())
        rows, columns = self.target
        blocks = self.around(columns)
        if rows not in blocks:
            return chain(weights[0] or self.ones(), transposed(weights[1] or self.ones()))
        edge = blocks[rows]
        if edge == Diag(None):
            both = [w for w in weights if w is not None]
            return Diag(odot(both, vectors=True)) if both else Diag(None)
        left, right = (() if w is None else (Diag(w),) for w in weights)
        return chain(*left, edge, *right)


def diagonal(weight: list[Block]) -> list[Block]:
    """Return the diagonal matrix of a node's vectors, if there are any."""
    return [Diag(odot(weight, vectors=True))] if weight else []


def axes_of(atom: Shown, labels: Collection[Index] = ()) -> list[Index]:
    """Return the indices of a factor that are neither batch, labels, nor of literal length 1."""
    if isinstance(atom, Summed):
        raise Inexpressible("it holds an inner sum")
    free = (i for i in indices_in(atom) if i not in labels)
    found = [i for i in free if i.dim != BATCH and i.dim.constant != 1]
    ordered = sorted(found, key=lambda i: i.serial)
    if isinstance(atom, Access):
        bare = [p.bare for p in atom.at if isinstance(p, Affine) and p.bare in found]
        if len(bare) == len(ordered):
            return [i for i in bare if i is not None]
    return ordered


def is_batch(position: Position) -> bool:
    """Whether a position is the sample's number."""
    bare = position.bare
    return bare is not None and bare.dim == BATCH

