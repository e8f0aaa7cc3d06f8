"""Products of arrays that are no products of matrices: many short sums, numbers repeated in rows.

Arrays -> array
Large ones of real numbers go through kernels of numba, which are compiled when first needed, if
the generated module is compiled too; all others go through numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

Codes = tuple[int, ...]
Compute = Callable[[Any, Any], Any]

LARGE = 2**15
"""Entries of the larger array from which a kernel is worth being compiled."""


def rowwise(
    first: Codes, second: Codes, result: Codes, sizes: Mapping[int, int], *, kernels: bool
) -> Compute:
    """Return what sums the product of two arrays, whose axes have these codes, to the result."""
    one, two, kept = list(first), list(second), list(result)

    def add(x: Any, y: Any) -> Any:
        return np.asarray(np.einsum(x, one, y, two, kept))

    if not kernels or max(prod(sizes[c] for c in own) for own in (first, second)) < LARGE:
        return add
    if len(first) < len(second):
        turned = _by_kernel(second, first, result, sizes)
        return add if turned is None else lambda x, y: turned(y, x, lambda: add(x, y))
    found = _by_kernel(first, second, result, sizes)
    return add if found is None else lambda x, y: found(x, y, lambda: add(x, y))


def _by_kernel(
    first: Codes, second: Codes, result: Codes, sizes: Mapping[int, int]
) -> Callable[[Any, Any, Callable[[], Any]], Any] | None:
    """Return what does so in one of the ways that there are kernels for, None for other ways.

    The larger array is `[ahead, between, behind]`. The axes between are summed, if the result has
    none of them, or those behind. The smaller one has all, or lacks some that are not summed.
    """
    gone = [c not in result for c in first]
    start = gone.index(True)
    end = len(gone) - gone[::-1].index(True)
    if not all(gone[start:end]):
        return None
    ahead, summed, behind = first[:start], first[start:end], first[end:]
    if result != (*ahead, *behind):
        return None
    shape = tuple(sizes[c] for c in result)
    if behind:  # x[a, s, b] y -> [a, b]
        ways = {first: "between_both", (*ahead, *summed): "between"}
        kernel, groups = ways.get(second), (ahead, summed, behind)
    else:  # x[a, r, s] y[a, s] -> [a, r]
        own = len(second) - len(summed)
        ways = {(*ahead[:own], *summed): "last"}
        kernel, groups = ways.get(second), (ahead[:own], ahead[own:], summed)
    if kernel is None:
        return None
    large = tuple(prod(sizes[c] for c in g) for g in groups)
    small = {"between_both": large, "between": large[:2], "last": (large[0], large[2])}[kernel]
    name = kernel

    def compute(x: Any, y: Any, otherwise: Callable[[], Any]) -> Any:
        plain = x.flags.c_contiguous and y.flags.c_contiguous and x.dtype == y.dtype
        if not plain or x.dtype.kind != "f":
            return otherwise()
        from symgrad.products import kernels

        if not kernels.COMPILED:
            return otherwise()
        out = np.empty((large[0], large[1] if name == "last" else large[2]), x.dtype)
        getattr(kernels, name)(x.reshape(large), y.reshape(small), out)
        return out.reshape(shape)

    return compute


def spread_out(array: Any, shape: Sequence[int]) -> Any:
    """Return a contiguous array of the shape that an array is repeated to."""
    found = np.empty(shape, array.dtype)
    found[...] = array
    return found


__all__ = ["rowwise", "spread_out"]
