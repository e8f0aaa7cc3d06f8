"""Whether the shapes of the declared arrays determine every dim of a program.

Program -> Program, or the error that names the dim
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from symgrad.dims import Dim
from symgrad.errors import ShapeError, Span
from symgrad.program import (
    BATCH,
    Guard,
    Index,
    Place,
    Program,
    Size,
    affine_of,
    positions,
    scalars_of,
    walk,
)


def require_solvable(program: Program, spans: Mapping[str, Span]) -> Program:
    """Return the program; raise ShapeError for the first dim that no array determines."""
    known = determined(tuple(axis for array in program.arrays for axis in array.axes))
    for dim in _dims(program):
        for name in dim.names:
            if name not in known and dim != BATCH:
                raise ShapeError(
                    f"no declared shape determines the dim {name}",
                    spans.get(name),
                    hint=f'give it by dims={{"{name}": 4}}, or declare an array with that axis',
                )
    return program


def determined(axes: tuple[Dim, ...]) -> frozenset[str]:
    """Return the dims that can be solved one by one from the axes."""
    known: set[str] = set()
    changed = True
    while changed:
        changed = False
        for axis in axes:
            rest = [name for name in axis.names if name not in known]
            if len(rest) == 1 and _linear(axis, rest[0]):
                known.add(rest[0])
                changed = True
    return frozenset(known)


def _linear(axis: Dim, name: str) -> bool:
    """Whether a dim stands alone in its term, to the first power, and nowhere else."""
    holding = [m for m, _ in axis.terms if name in Dim(((m, 1),)).names]
    return bool(holding) and all(
        any(atom == name and power == 1 for atom, power in m)
        and sum(name in ((a,) if isinstance(a, str) else a.numerator.names) for a, _ in m) == 1
        for m in holding
    )


def _dims(program: Program) -> Iterator[Dim]:
    """Yield every dim of a program: of arrays, indices, sizes and positions."""
    for array in program.arrays:
        yield from array.axes
        if array.vocabulary is not None:
            yield array.vocabulary
    for made in program.definitions:
        bound: tuple[Index, ...]
        if isinstance(made.body, tuple):
            bound = tuple(i for term in made.body for i in term.bound)
        else:
            bound = made.body.bound
        for index in (*made.indices, *bound):
            yield index.dim
        for scalar in scalars_of(made.body):
            for node in walk(scalar):
                if isinstance(node, Size | Guard):
                    yield node.dim
                if isinstance(node, Place):
                    yield node.affine.offset
                for position in positions(node):
                    for affine in affine_of(position):
                        yield affine.offset
    for open_check in program.checks:
        yield from (open_check.low, open_check.high, open_check.limit)
