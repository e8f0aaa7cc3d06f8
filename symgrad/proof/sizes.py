"""Solve the dims of a program from the shapes of its arrays.

Program, shapes -> {dim name: size}
A dim is solved where it is the only unknown of an axis and stands linearly; the rest is checked.
"""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.dims import Dim
from symgrad.errors import ShapeError
from symgrad.program import BATCH, Array, Program


def sizes(program: Program, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Return the size of every dim that the shapes determine, the batch under its own name.

    `shapes` holds the batch axis of inputs and indices.
    Raises ShapeError if ranks, axes or solved sizes do not fit.
    """
    axes = [pair for array in program.arrays for pair in _axes(array, shapes[array.name])]
    known: dict[str, int] = {}
    pending = axes
    while True:
        left = []
        for name, dim, size in pending:
            rest = dim.substitute(known)
            if not _solve(name, rest, size, known):
                left.append((name, dim, size))
        if len(left) == len(pending):
            return known
        pending = left


def _axes(array: Array, shape: tuple[int, ...]) -> list[tuple[str, Dim, int]]:
    dims = (BATCH, *array.axes) if array.batched else array.axes
    if len(dims) != len(shape):
        raise ShapeError(
            f"{array.name} has {len(shape)} axes, {len(dims)} expected "
            f"[{', '.join('batch' if d == BATCH else str(d) for d in dims)}]"
        )
    return [(array.name, dim, size) for dim, size in zip(dims, shape, strict=True)]


def _solve(name: str, rest: Dim, size: int, known: dict[str, int]) -> bool:
    """Settle one axis if it can be: compare a number, or solve `c * n + d = size` for n."""
    if rest.constant is not None:
        if rest.constant != size:
            raise ShapeError(f"an axis of {name} has length {size}, {rest.constant} expected")
        return True
    unknown = next((n for n in rest.names if rest == _linear(rest, n)), None)
    if unknown is None or len(rest.names) > 1:
        return False
    factor = _coefficient(rest, unknown)
    offset = (rest - Dim.of(unknown) * factor).constant or 0
    value, remainder = divmod(size - offset, factor)
    if remainder or value < 0:
        raise ShapeError(f"an axis of {name} has length {size}, which no {unknown} >= 0 gives")
    known[unknown] = value
    return True


def _coefficient(dim: Dim, name: str) -> int:
    return next((c for monomial, c in dim.terms if monomial == ((name, 1),)), 0)


def _linear(dim: Dim, name: str) -> Dim:
    """Return the part of `dim` that is a number plus a multiple of `name`."""
    constant = next((c for monomial, c in dim.terms if monomial == ()), 0)
    return Dim.of(name) * _coefficient(dim, name) + constant
