"""What the machine can do at best: fill memory, multiply matrices.

arrays -> a call that writes all their bytes
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise

import numba
import numpy as np

from benchmarks.machine import cores
from benchmarks.timing import timed

VALUE = 1.5
"""What is written; not zero, so that no zero page is ever handed out instead."""

LINE = 64
"""Bytes of a cache line, and of a store."""


def filling(arrays: Sequence[np.ndarray]) -> tuple[str, Callable[[], object]]:
    """Return what writes VALUE into all bytes of contiguous arrays, and what it is called.

    Stores go past the caches where numba compiles; one thread writes or all do, as is faster here.
    """
    store = stores()
    if store is None:
        return "np.fill", lambda: [array.fill(VALUE) for array in arrays]
    spans = [_lines(array.reshape(-1)) for array in arrays]
    pool = _pool()

    def fill(threads: int) -> None:
        for ends, begin, lines, bits in spans:
            for end in ends:
                end.fill(VALUE)
            if threads == 1:
                store(begin, lines, bits)
                continue
            cuts = [lines * k // threads for k in range(threads + 1)]
            done = [pool.submit(store, begin + a * LINE, b - a, bits) for a, b in pairwise(cuts)]
            for piece in done:
                piece.result()

    best = min((1, cores()), key=lambda threads: timed(partial(fill, threads), 0))
    name = "non-temporal fill" + (f" by {best} threads" if best > 1 else "")
    return name, partial(fill, best)


def _lines(flat: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], int, int, int]:
    """Return both ends outside whole cache lines, and the address, number and bits of the lines."""
    head = min(flat.size, -flat.ctypes.data % LINE // flat.itemsize)
    step = LINE // flat.itemsize
    lines = (flat.size - head) // step
    pattern = np.full(8 // flat.itemsize, VALUE, flat.dtype)
    begin = flat.ctypes.data + head * flat.itemsize
    return (flat[:head], flat[head + lines * step :]), begin, lines, int(pattern.view(np.int64)[0])


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores())


@cache
def stores() -> Callable[[int, int, int], None] | None:
    """Return a kernel that writes `lines` cache lines of 64 bits at an aligned address.

    None where numba compiles nothing: an intrinsic has no Python in it.
    """
    if numba.config.DISABLE_JIT:
        return None
    from llvmlite import ir
    from numba.core import types
    from numba.extending import intrinsic

    @intrinsic
    def stream(context, address, bits):
        def generate(context, builder, signature, arguments):
            at, value = arguments
            vector = ir.VectorType(ir.IntType(64), 8)
            line = ir.Constant(vector, ir.Undefined)
            for lane in range(8):
                line = builder.insert_element(line, value, ir.Constant(ir.IntType(32), lane))
            stored = builder.store(line, builder.inttoptr(at, vector.as_pointer()), align=LINE)
            once = ir.Constant(ir.IntType(32), 1)
            stored.set_metadata("nontemporal", builder.module.add_metadata([once]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    @numba.njit("void(int64, int64, int64)", nogil=True)
    def store(address, lines, bits):
        for k in range(lines):
            stream(address + 64 * k, bits)

    return store


def measured(seconds: float = 0.5, size: int = 1024, megabytes: int = 128) -> dict[str, float]:
    """Return gigabytes a second of filling, GFLOP/s of a product of square matrices."""
    target = np.empty(megabytes << 17)
    name, fill = filling([target])
    a = np.ones((size, size))
    out = np.empty_like(a)
    rates = {f"{name}, GB/s": target.nbytes / timed(fill, seconds) / 1e9}
    product = timed(lambda: np.matmul(a, a, out=out), seconds)
    rates["gemm float64, GFLOP/s"] = 2 * size**3 / product / 1e9
    return rates
