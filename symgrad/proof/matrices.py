"""Functions of whole matrices: the reference for inv, det, logdet, solve and cholesky.

kind, stacks of matrices, float64 or mpf -> stack of results
What has no value (a singular matrix, one that is not positive definite) is nan, matrix by matrix.
"""

from __future__ import annotations

import contextlib
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from symgrad.errors import InternalError

Values = NDArray[Any]
mp = mpmath.mp


def of_matrices(kind: str, operands: tuple[Values, ...], rank: int) -> Values:
    """Return `kind` of every matrix of a stack; the last `rank` axes of the result are its own.

    `operands` have equal stacks in front; det and logdet have rank 0, a right side its own axes.
    """
    matrices = operands[0]
    right = operands[1] if len(operands) > 1 else None
    stack = matrices.shape[:-2]
    own = right.shape[len(stack) :] if right is not None else matrices.shape[-2:][:rank]
    if right is not None and len(own) == 1:
        right = right[..., np.newaxis]
    whole = _exactly_each if matrices.dtype == object else _floats
    try:
        return whole(kind, matrices, right).reshape((*stack, *own))
    except np.linalg.LinAlgError:
        return _one_by_one(kind, matrices, right).reshape((*stack, *own))


def _one_by_one(kind: str, matrices: Values, right: Values | None) -> Values:
    """Return results where there are any, nan elsewhere."""
    found = []
    for place in np.ndindex(*matrices.shape[:-2]):
        columns = None if right is None else right[place]
        try:
            found.append(_floats(kind, matrices[place], columns))
        except np.linalg.LinAlgError:
            found.append(np.full((matrices if right is None else right).shape[-2:], np.nan))
    return np.asarray(found)


def _floats(kind: str, matrices: Values, right: Values | None) -> Values:
    """Return the results of a stack in float64; raise LinAlgError if a matrix has none."""
    with np.errstate(all="ignore"):
        match kind:
            case "inv":
                return np.linalg.inv(matrices)
            case "det":
                return np.asarray(np.linalg.det(matrices))
            case "logdet":
                sign, value = np.linalg.slogdet(matrices)
                return np.where(sign > 0, value, np.nan)
            case "cholesky":
                return np.linalg.cholesky((matrices + np.swapaxes(matrices, -1, -2)) / 2)
            case "solve" if right is not None:
                return np.linalg.solve(matrices, right)
            case _:
                raise InternalError(f"the reference interpreter knows no {kind}")


def _exactly_each(kind: str, matrices: Values, right: Values | None) -> Values:
    stack = matrices.shape[:-2]
    shape = (() if "det" in kind else matrices.shape[-2:]) if right is None else right.shape[-2:]
    result = np.full((*stack, *shape), mp.nan, object)
    for place in np.ndindex(*stack):
        columns = None if right is None else right[place]
        with contextlib.suppress(ZeroDivisionError, ValueError):
            result[place] = _exactly(kind, matrices[place], columns)
    return result


def _exactly(kind: str, matrix: Values, right: Values | None) -> Any:
    """Return the result in mpmath's numbers; raise ZeroDivisionError or ValueError without one."""
    n = len(matrix)
    if kind == "cholesky":
        return _cholesky((matrix + matrix.T) / 2)
    if kind in ("det", "logdet"):
        det = _eliminated(matrix, np.empty((n, 0), object))[0]
        return det if kind == "det" else mp.log(det) if det > 0 else mp.nan
    unit = np.array([[mp.mpf(i == j) for j in range(n)] for i in range(n)], object).reshape(n, n)
    return _eliminated(matrix, unit if right is None else right)[1]


def _eliminated(matrix: Values, right: Values) -> tuple[Any, Values]:
    """Return the determinant and the solution, by Gauss's elimination with pivots."""
    n = len(matrix)
    a, b = matrix.copy(), right.copy()
    det = mp.mpf(1)
    for k in range(n):
        p = max(range(k, n), key=lambda i: abs(a[i, k]))
        if p != k:
            a[[k, p]], b[[k, p]], det = a[[p, k]], b[[p, k]], -det
        det = det * a[k, k]
        if a[k, k] == 0:
            if right.size:
                raise ZeroDivisionError
            return mp.mpf(0), b
        for i in range(k + 1, n):
            ratio = a[i, k] / a[k, k]
            a[i], b[i] = a[i] - ratio * a[k], b[i] - ratio * b[k]
    for k in reversed(range(n)):
        b[k] = (b[k] - sum((a[k, j] * b[j] for j in range(k + 1, n)), b[k] * 0)) / a[k, k]
    return det, b


def _cholesky(matrix: Values) -> Values:
    n = len(matrix)
    lower = np.array([[mp.mpf(0)] * n for _ in range(n)], object).reshape(n, n)
    for j in range(n):
        square = matrix[j, j] - mp.fsum(lower[j, k] ** 2 for k in range(j))
        if not square > 0:
            raise ValueError
        lower[j, j] = mp.sqrt(square)
        for i in range(j + 1, n):
            inner = mp.fsum(lower[i, k] * lower[j, k] for k in range(j))
            lower[i, j] = (matrix[i, j] - inner) / lower[j, j]
    return lower
