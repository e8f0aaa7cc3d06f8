"""Jacobians and Gauss-Newton matrices as linear operators for the solvers of SciPy.

Selection -> scipy.sparse.linalg.LinearOperator
Rows and columns are those of `symgrad.products.sparse`; the columns of a matrix are right-hand
sides, which all go through the factors at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError
from symgrad.extras import extra
from symgrad.products.flat import (
    Vec,
    flat,
    flat_columns,
    flat_outputs,
    length,
    require_order,
    rows,
    unflat,
    unflat_outputs,
)
from symgrad.products.given import check_positive
from symgrad.products.linear import pulled, pushed
from symgrad.products.newton import Meeting, meetings, through
from symgrad.products.selection import Selection
from symgrad.products.terms import Values

Linear = Callable[[Values], Values]
"""`[n, k]` to `[m, k]`."""


def jacobian_operator(own: Selection, vec: Vec) -> Any:
    """Return J, `[B·out, p]`: `matvec` is jvp, `rmatvec` Jᴴ u, the vjp conjugated.

    Raises MissingExtraError without SciPy.
    """
    require_order(vec)

    def forwards(X: Values) -> Values:
        return flat_outputs(own, pushed(own, unflat(own, X.T, vec)), vec).T

    def backwards(Y: Values) -> Values:
        found = pulled(own, unflat_outputs(own, Y.T.conj(), vec))
        return flat(own, found, vec).conj().T

    shape = (own.count * length(rows(own)), length(flat_columns(own)))
    return _operator("as_linear_operator", own, shape, forwards, backwards)


def ggn_operator(own: Selection, H: Any, u: Any, damping: float, vec: Vec) -> Any:
    """Return `Σ_b J_bᴴ H_b J_b + damping I`, `[p, p]`, for a hermitian H.

    Raises ArgumentError for another H, MissingExtraError without SciPy.
    """
    require_order(vec)
    check_positive("damping", damping)
    between = meetings(own, H, u)
    _require_hermitian(own, between)

    def product(X: Values) -> Values:
        found = pulled(own, through(own, unflat(own, X.T, vec), between))
        back: Values = flat(own, found, vec).conj().T
        back += own.any.dtype.type(damping) * X
        return back

    size = length(flat_columns(own))
    return _operator("ggn_operator", own, (size, size), product, product)


def _operator(
    what: str, own: Selection, shape: tuple[int, int], forwards: Linear, backwards: Linear
) -> Any:
    dtype = own.any.dtype
    forwards, backwards = _typed(forwards, dtype), _typed(backwards, dtype)
    return extra("scipy.sparse.linalg", what).LinearOperator(
        shape,
        matvec=lambda x: forwards(x.reshape(-1, 1))[:, 0],
        rmatvec=lambda y: backwards(y.reshape(-1, 1))[:, 0],
        matmat=forwards,
        rmatmat=backwards,
        dtype=dtype,
    )


def _typed(product: Linear, dtype: Any) -> Linear:
    """Return a product that computes in one dtype; complex vectors are two real ones."""

    def call(X: Values) -> Values:
        X = np.asarray(X)
        if X.dtype.kind == "c" and dtype.kind != "c":
            return call(X.real) + 1j * call(X.imag)
        return product(X.astype(dtype, copy=False))

    return call


def _require_hermitian(own: Selection, between: list[Meeting]) -> None:
    for a, _, H in between:
        if H.array is None:
            continue
        rank = len(own.of(own.outputs[a]).out)
        first = H.array.ndim - 2 * rank
        axes = (*range(first), *range(first + rank, H.array.ndim), *range(first, first + rank))
        if not np.allclose(H.array, H.array.transpose(axes).conj(), equal_nan=True):
            raise ArgumentError(
                "H is not symmetric (hermitian), so neither is its Gauss-Newton matrix",
                hint="give (H + Hᴴ)/2, or use ggn_matvec, which takes any H",
            )


__all__ = ["ggn_operator", "jacobian_operator"]
