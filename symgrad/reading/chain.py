"""A product as a path: matrices are its steps, vectors stand on its nodes.

Product -> Parts -> matrix text
What is no path raises Inexpressible, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from symgrad.program import BATCH, Access, Affine, Delta, Index
from symgrad.reading.closed import Shown, Summed
from symgrad.reading.hands import ATOM, MUL
from symgrad.reading.products import Product, indices_in

if TYPE_CHECKING:
    from symgrad.reading.matrix import MatrixWriter

Written = tuple[str, int]


class Inexpressible(Exception):
    """The formula has no matrix form here; the message says why."""


@dataclass(slots=True)
class Step:
    """A matrix between two nodes; None is the identity (a delta)."""

    left: Index
    right: Index
    matrix: Access | None


@dataclass(slots=True)
class Parts:
    """The factors of one product by how many axes they have."""

    scalars: list[tuple[Shown, int]]
    below: list[tuple[Shown, int]]
    nodes: dict[Index, Product]
    steps: list[Step]

    @staticmethod
    def of(product: Product, writer: MatrixWriter) -> Parts:
        """Sort the factors of a product."""
        parts = Parts([], [], {}, [])
        for side, up in ((product.over, True), (product.under, False)):
            for atom, power in side.items():
                axes = _axes(atom)
                if isinstance(atom, Delta) and len(axes) == 2 and up:
                    parts.steps.append(Step(axes[0], axes[1], None))
                elif not axes:
                    (parts.scalars if up else parts.below).append((atom, power))
                elif len(axes) == 1 and not isinstance(atom, Delta):
                    node = parts.nodes.setdefault(axes[0], Product())
                    (node.over if up else node.under)[atom] = power
                elif isinstance(atom, Access) and up and power == 1:
                    parts.steps.append(_step(atom, writer))
                else:
                    raise Inexpressible("a factor has more than two axes, or is no array")
        return parts

    def path(self, target: tuple[Index, ...], writer: MatrixWriter) -> Written | None:
        """Write the path through all steps and nodes; None if there is nothing but scalars."""
        if not self.nodes and not self.steps:
            if any(i.dim.constant != 1 for i in target):
                raise Inexpressible("an axis appears in no factor")
            return None
        axes = tuple(i for i in target if i.dim.constant != 1 or self.touches(i))
        if len(axes) == 2:
            return self.between(axes[0], axes[1], writer)
        if len(axes) == 1:
            return self.vector(axes[0], writer)
        if not axes:
            return self.inner(writer)
        raise Inexpressible(f"it has {len(axes)} axes")

    def touches(self, index: Index) -> bool:
        """Whether any factor reads an index."""
        return index in self.nodes or any(index in (s.left, s.right) for s in self.steps)

    def walk(self, start: Index) -> list[tuple[Step, bool, Index]]:
        """Follow the steps from a node; each with whether it is taken backwards."""
        found: list[tuple[Step, bool, Index]] = []
        here, left = start, list(self.steps)
        while True:
            onward = [s for s in left if here in (s.left, s.right)]
            if not onward:
                break
            if len(onward) > 1:
                raise Inexpressible("its factors do not form a chain")
            step = onward[0]
            left.remove(step)
            back = step.left != here
            here = step.left if back else step.right
            found.append((step, back, here))
        if left:
            raise Inexpressible("its factors do not form one chain")
        return found

    def weight(self, index: Index, writer: MatrixWriter) -> Written | None:
        """Write the vector on a node."""
        node = self.nodes.get(index)
        return None if node is None else writer.elementwise(node, (index,))

    def between(self, first: Index, last: Index, writer: MatrixWriter) -> Written:
        """Write a matrix with rows `first` and columns `last`."""
        left, right = self.weight(first, writer), self.weight(last, writer)
        if not self.steps:
            if left is None or right is None or len(self.nodes) != 2:
                raise Inexpressible("an axis appears in no factor")
            top = writer.closed(left) if left[1] > MUL else writer.hand.group(left[0])
            return f"{top} {writer.transposed(right)}", MUL
        steps = self.walk(first)
        if steps[-1][2] != last:
            raise Inexpressible("its factors do not form a chain between its axes")
        self.all_used(first, [s[2] for s in steps])
        items: list[str] = [writer.diagonal(left[0])] if left else []
        for step, back, node in steps:
            if step.matrix is not None:
                whole = (step.left, step.right)
                written = writer.access(step.matrix, whole)
                items.append(writer.transposed(written) if back else writer.closed(written))
            weight = self.weight(node, writer)
            if weight is not None:
                items.append(writer.diagonal(weight[0]))
        if not items:
            return "I", ATOM
        return (writer.juxtaposed(items), MUL if len(items) > 1 else ATOM)

    def vector(self, first: Index, writer: MatrixWriter) -> Written:
        """Write a vector along `first`."""
        left = self.weight(first, writer)
        steps = self.walk(first)
        self.all_used(first, [s[2] for s in steps])
        if not steps:
            if left is None:
                raise Inexpressible("an axis appears in no factor")
            return left
        end = self.weight(steps[-1][2], writer)
        items: list[str] = []
        for step, back, node in steps:
            if step.matrix is not None:
                written = writer.access(step.matrix, (step.left, step.right))
                items.append(writer.transposed(written) if back else writer.closed(written))
            weight = self.weight(node, writer)
            if weight is not None and node != steps[-1][2]:
                items.append(writer.diagonal(weight[0]))
        if end is None:
            items.append(writer.sign("1", r"\mathbf{1}"))
        else:
            items.append(end[0] if end[1] > MUL else writer.hand.group(end[0]))
        text = writer.juxtaposed(items)
        if left is None:
            return text, MUL
        head = writer.closed(left) if left[1] > MUL else writer.hand.group(left[0])
        inner = writer.hand.group(text) if len(items) > 1 else text
        return head + writer.sign(" ⊙ ", r" \odot ") + inner, MUL

    def inner(self, writer: MatrixWriter) -> Written:
        """Write a number: `uᵀ A v`."""
        ends = [i for i in self.nodes if sum(i in (s.left, s.right) for s in self.steps) <= 1]
        if not ends:
            raise Inexpressible("its sum is no product of vectors")
        node = self.nodes[ends[0]]
        if not self.steps and len(self.nodes) == 1 and len(node.over) == 2 and not node.under:
            row = _row_and_column(node)
            if row is not None:
                return writer.juxtaposed([writer.access(a, (ends[0],))[0] for a in row]), MUL
            one, two = (Product((), Fraction(1), {a: p}) for a, p in node.over.items())
            left = writer.elementwise(one, (ends[0],))
            right = writer.elementwise(two, (ends[0],))
            return f"{writer.transposed(left)} {writer.closed(right)}", MUL
        if not self.steps:
            raise Inexpressible("its sum is no product of two vectors")
        head = writer.transposed(writer.elementwise(node, (ends[0],)))
        rest = Parts([], [], {k: v for k, v in self.nodes.items() if k != ends[0]}, self.steps)
        return f"{head} {rest.vector(ends[0], writer)[0]}", MUL

    def all_used(self, first: Index, passed: Sequence[Index]) -> None:
        """Raise unless every node lies on the path."""
        if any(i != first and i not in passed for i in self.nodes):
            raise Inexpressible("its factors do not form one chain")


def _row_and_column(node: Product) -> tuple[Access, Access] | None:
    """Return the matrix of one row and the vector it multiplies, if that is what the node holds."""
    atoms = [a for a in node.over if isinstance(a, Access)]
    rank = [sum(1 for p in a.at if not is_batch(p)) for a in atoms]
    if sorted(rank) != [1, 2]:
        return None
    return (atoms[0], atoms[1]) if rank == [2, 1] else (atoms[1], atoms[0])


def is_batch(position: object) -> bool:
    bare = position.bare if isinstance(position, Affine) else None
    return bare is not None and bare.dim == BATCH


def _axes(atom: Shown) -> list[Index]:
    if isinstance(atom, Summed):
        raise Inexpressible("it holds an inner sum")
    found = [i for i in indices_in(atom) if i.dim != BATCH and i.dim.constant != 1]
    ordered = sorted(found, key=lambda i: i.serial)
    if isinstance(atom, Access):
        bare = [p.bare for p in atom.at if isinstance(p, Affine) and p.bare in found]
        if len(bare) == len(ordered):
            return [i for i in bare if i is not None]
    return ordered


def _step(access: Access, writer: MatrixWriter) -> Step:
    visible = writer.visible(access)
    bare = [p.bare for p in visible if isinstance(p, Affine) and p.bare is not None]
    if len(bare) != 2 or len(visible) != 2 or bare[0] == bare[1]:
        raise Inexpressible(f"{access.array} is not read as a whole matrix")
    return Step(bare[0], bare[1], access)
