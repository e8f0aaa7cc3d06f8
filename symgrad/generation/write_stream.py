"""Loops that write a large result past the caches: lines are not read before they are written.

Writer, loop over the last axis of a result -> lines
Four elements at a time go to memory by non-temporal stores; zeros do so line by line. What is
written into zeros is not: lines that leave the processor twice leave it slowly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from symgrad.dims import Dim
from symgrad.generation.nests import accesses_in
from symgrad.generation.numbers import is_double
from symgrad.program import (
    BATCH,
    Access,
    Affine,
    Index,
    Lookup,
    Number,
    Position,
    Scalar,
    positions,
)
from symgrad.schedule import Clear, Flat, For, Kernel, Node, Store, When

if TYPE_CHECKING:
    from symgrad.generation.write_kernel import Writer

FOUR = 4
"""Elements that one call of `stream` writes: 16 bytes of float32, twice 16 of float64."""


@dataclass(frozen=True, slots=True)
class Target:
    """A result that is written past the caches, and its axes.

    `zeroed` says that the driver knows whether it has its zeros already.
    """

    array: str
    dims: tuple[Dim, ...]
    zeroed: bool = False

    def owns(self, array: str, at: Sequence[Position]) -> bool:
        """Whether a part at leading positions is a row, or more than one."""
        return array == self.array and len(at) < len(self.dims)


def is_row(target: Target, node: For) -> bool:
    """Whether a loop writes whole rows of a target, each element once, from plain products."""
    if node.reverse or len(node.body) != 1 or node.index.dim == BATCH or len(target.dims) < 2:
        return False
    store = node.body[0]
    if not isinstance(store, Store) or store.array != target.array or store.operator != "=":
        return False
    *ahead, last = store.at
    if last.bare != node.index or node.index.dim != target.dims[-1]:
        return False
    if any(isinstance(p, Affine) and node.index in dict(p.terms) for p in ahead):
        return False
    return all(_moves_along(f, node.index) for f in store.factors)


def is_scatter(kernel: Kernel, array: str) -> bool:
    """Whether a kernel clears an array and then writes elements of it, each at once."""
    found = list(_leaves(kernel.nodes))
    stores = [n for n in found if isinstance(n, Store) and n.array == array]
    cleared = any(isinstance(n, Clear) and n.array == array for n in found)
    return cleared and bool(stores) and all(n.operator == "=" for n in stores)


def is_steady(nodes: Sequence[Node], array: str) -> bool:
    """Whether data has no say in which elements of an array are written."""
    for node in nodes:
        match node:
            case For(_, body) | Flat(_, _, body):
                if not is_steady(body, array):
                    return False
            case When(conditions, body):
                chosen = any(isinstance(p, Lookup) for c in conditions for p in positions(c))
                if chosen or not is_steady(body, array):
                    return False
            case Store() if node.array == array and any(isinstance(p, Lookup) for p in node.at):
                return False
            case _:
                pass
    return True


def _leaves(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        if isinstance(node, For | Flat | When):
            yield from _leaves(node.body)
        else:
            yield node


def _moves_along(factor: Scalar, index: Index) -> bool:
    """Whether a factor is an element that the index, if it stands in it, names by itself."""
    if isinstance(factor, Number):
        return True
    if not isinstance(factor, Access) or is_double(factor) or len(accesses_in(factor)) != 1:
        return False
    places = [p for p in factor.at if not isinstance(p, Affine) or index in dict(p.terms)]
    return all(p.bare == index for p in places)


def write_row_past(writer: Writer, node: For, depth: int) -> None:
    """Write the loop over a row, four elements at a time."""
    store = node.body[0]
    assert isinstance(store, Store)
    assert writer.past is not None
    at, name = writer.fresh("at"), writer.variable(node.index)
    place = ""
    for position, dim in zip(store.at[:-1], writer.past.dims[:-1], strict=True):
        text, size = writer.position(position), writer.size(dim)
        ahead = f"({place})" if " + " in place else place
        wide = f"({size})" if " " in size else size
        place = f"{ahead} * {wide} + {text}" if place else text
    size = writer.size(node.index.dim)
    place = f"({place})" if " " in place else place
    writer.line(depth, f"{at} = {place} * {f'({size})' if ' ' in size else size}")
    writer.line(depth, f"for {name} in range(0, {size}, {FOUR}):")
    values = []
    for step in range(FOUR):
        writer.variables[node.index] = f"{name} + {step}" if step else name
        values.append(writer.product(store.lets, store.factors, "stored"))
    if len(set(values)) == 1:
        values = values[:1] * FOUR
    texts = (writer.name(store.array), f"{at} + {name}", *values)
    writer.line(depth + 1, f"stream({', '.join(texts)})")
    writer.taken -= {at, name}
    del writer.variables[node.index]


__all__ = ["Target", "is_row", "is_scatter", "is_steady", "write_row_past"]
