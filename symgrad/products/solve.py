"""Damped least squares, by the smaller of the parameters' side and that of the outputs.

Selection, residuals -> δ
`(JᴴJ + λI)⁻¹ Jᴴ r = Jᴴ (J Jᴴ + λI)⁻¹ r`: Levenberg-Marquardt and natural gradients on the left,
minSR on the right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError
from symgrad.products.given import check_positive
from symgrad.products.linear import leading, vjp
from symgrad.products.newton import ggn
from symgrad.products.selection import Selection, gram
from symgrad.products.terms import Values


def solve(own: Selection, r: Any, damping: float) -> dict[str, Values]:
    """Return the δ that makes `|J δ - r|² + damping |δ|²` least, for every θ."""
    check_positive("damping", damping)
    residuals = own.vectors("r", r)
    lead = leading(own, residuals)
    by_parameters = [own.with_respect_to(p) for p in own.parameters]
    width = sum(prod(f.theta) for f in by_parameters)
    height = sum(prod(y.shape[len(lead) :]) for y in residuals)
    if height <= width or any(f.is_input for f in by_parameters):
        blocks = gram(own.batch_first, None, None, None)
        matrix = _assembled(blocks, own.outputs, residuals, len(lead))
        return _back(own, _solved(matrix, residuals, damping, len(lead)))
    right = _back(own, residuals)
    matrix = _assembled(
        ggn(own, None, None, mixed=True), own.parameters, list(right.values()), len(lead)
    )
    found = _solved(matrix, list(right.values()), damping, len(lead))
    return dict(zip(right, found, strict=True))


def _back(own: Selection, given: Sequence[Values]) -> dict[str, Values]:
    """Return `Jᴴ y` for every θ."""
    found = vjp(own, [y.conj() for y in given], per_sample=False)
    return {name: g.conj() for name, g in found.items()}


def _assembled(
    blocks: Mapping[Any, Values], names: Sequence[str], like: Sequence[Values], lead: int
) -> Values:
    """Return the matrix of all blocks; rows are flattened in C order, name after name."""
    sizes = [prod(v.shape[lead:]) for v in like]
    if len(names) == 1:
        return blocks[names[0], names[0]].reshape(sizes[0], sizes[0])
    return np.block(
        [
            [blocks[a, b].reshape(m, n) for b, n in zip(names, sizes, strict=True)]
            for a, m in zip(names, sizes, strict=True)
        ]
    )


def _solved(matrix: Values, given: Sequence[Values], damping: float, lead: int) -> list[Values]:
    """Return the solution of `(A + damping I) x = right`, in the parts that the right side has.

    Raises ArgumentError if the matrix is not positive definite.
    """
    np.einsum("ii->i", matrix)[...] += matrix.dtype.type(damping)
    if not _definite(matrix):
        raise ArgumentError(
            f"the Jacobian has dependent rows or columns: with damping={damping} the system of "
            f"{len(matrix)} equations has no unique solution",
            hint="give a larger damping",
        )
    sizes = [prod(v.shape[lead:]) for v in given]
    counts = prod(given[0].shape[:lead])
    right = np.concatenate([v.reshape(counts, n) for v, n in zip(given, sizes, strict=True)], 1)
    found = np.linalg.solve(matrix, right.T).T
    parts = np.split(found, np.cumsum(sizes)[:-1], axis=1)
    return [p.reshape(v.shape) for p, v in zip(parts, given, strict=True)]


def _definite(matrix: Values) -> bool:
    """Whether a matrix is positive definite beyond rounding."""
    if not np.isfinite(matrix).all():
        return True  # nan in, nan out: J itself is to blame, not the damping
    try:
        pivots = np.einsum("ii->i", np.linalg.cholesky(matrix)).real ** 2
    except np.linalg.LinAlgError:
        return False
    largest = np.einsum("ii->i", matrix).real.max(initial=0.0)
    return bool((pivots > len(matrix) * np.finfo(matrix.dtype).eps * largest).all())


__all__ = ["solve"]
