"""Loops that write a large result past the caches: lines are not read before they are written.

Writer, loop over the last axis of a result -> lines
Four elements at a time go to memory by non-temporal stores; zeros do so line by line. What is
written into zeros is not: lines that leave the processor twice leave it slowly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from symgrad.dims import Dim
from symgrad.generation.nests import accesses_in
from symgrad.generation.numbers import is_double
from symgrad.program import BATCH, Access, Affine, Index, Number, Position, Scalar
from symgrad.schedule import For, Store

if TYPE_CHECKING:
    from symgrad.generation.write_kernel import Writer

FOUR = 4
"""Elements that one call of `stream` writes: 16 bytes of float32, twice 16 of float64."""


@dataclass(frozen=True, slots=True)
class Target:
    """A result that is written past the caches, and its axes."""

    array: str
    dims: tuple[Dim, ...]

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


STREAMS = '''
NONTEMPORAL = True  # False: every array is written through the caches, no intrinsic is used
_CACHED = 2**23  # bytes up to which results are written through the caches


def _past(array, run, kernel, streaming):
    """Return the kernel for a result: `streaming` if no cache holds it and rows can be streamed.

    `run` is how many elements it streams at a time, 0 if it only clears.
    """
    if not (NONTEMPORAL and _COMPILED) or array.nbytes < _CACHED or array.dtype.kind != "f":
        return kernel
    if run and (run % 4 or array.ctypes.data % 16):
        return kernel
    return streaming


if _COMPILED:
    from llvmlite import ir
    from numba.core import types
    from numba.extending import intrinsic

    def _store(context, builder, kind, array, at, values, align):
        """Store values next to each other, from element `at` on, past the caches."""
        scalar = context.get_value_type(kind.dtype)
        line = ir.Constant(ir.VectorType(scalar, len(values)), ir.Undefined)
        for lane, value in enumerate(values):
            line = builder.insert_element(line, value, ir.Constant(ir.IntType(32), lane))
        place = builder.gep(context.make_array(kind)(context, builder, array).data, [at])
        stored = builder.store(line, builder.bitcast(place, line.type.as_pointer()), align=align)
        once = ir.Constant(ir.IntType(32), 1)
        stored.set_metadata("nontemporal", builder.module.add_metadata([once]))
        return context.get_dummy_value()

    @intrinsic
    def stream(typing, array, at, a, b, c, d):
        """Write four elements of a contiguous array, from element `at` on, past the caches."""

        def generate(context, builder, signature, given):
            kinds = signature.args
            values = [
                context.cast(builder, value, kind, array.dtype)
                for value, kind in zip(given[2:], kinds[2:])
            ]
            return _store(context, builder, kinds[0], given[0], given[1], values, 16)

        return types.void(array, types.intp, a, b, c, d), generate

    @intrinsic
    def _zero(typing, flat, at):
        """Write a cache line of zeros, from `at` on, past the caches."""

        def generate(context, builder, signature, given):
            count = 512 // flat.dtype.bitwidth
            zeros = [ir.Constant(context.get_value_type(flat.dtype), 0.0)] * count
            return _store(context, builder, signature.args[0], *given, zeros, 64)

        return types.void(flat, types.intp), generate

    @loops
    def clear(part):
        """Set contiguous elements to zero, whole cache lines past the caches."""
        flat = part.reshape(-1)
        count = 64 // flat.itemsize
        first = min(-flat.ctypes.data % 64 // flat.itemsize, flat.size)
        last = first + (flat.size - first) // count * count
        for k in range(first):
            flat[k] = 0.0
        for k in range(first, last, count):
            _zero(flat, k)
        for k in range(last, flat.size):
            flat[k] = 0.0

else:

    def stream(array, at, *values):
        """Write four elements of a contiguous array, from element `at` on."""
        array.reshape(-1)[at : at + 4] = values

    def clear(part):
        """Set elements to zero."""
        part[...] = 0.0
'''
"""Needs `loops` and `_COMPILED`; defines `_past`, `stream` and `clear`."""

__all__ = ["STREAMS", "Target", "is_row", "write_row_past"]
