"""Generalised Gauss-Newton matrices: `Σ_b J_bᴴ H_b J_b`, as blocks, diagonals and square roots.

Factored, Curvature -> array
Samples are summed over; those of an input stay apart, since each has its own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from symgrad.errors import ArgumentError
from symgrad.products.curvature import Curvature, ties
from symgrad.products.evaluate import Sums, one_by_one, times
from symgrad.products.sides import Factored, Rows, Side
from symgrad.products.terms import Axis, Product, Tensor, Values, union
from symgrad.products.vectors import conjugated


def ggn_block(left: Factored, right: Factored, H: Curvature, total: Values) -> None:
    """Add `Σ_b J_bᴴ H_b J'_b`, `[*p, *q]`; `[B, *p, *q]` where either is an input."""
    apart = left.is_input or right.is_input

    def make(rows: Rows) -> Sums:
        first = left.side(rows)
        second = right.side(rows, batch=first.batch)
        middle = H.between(rows, first.samples, first.out, second.out)
        kept = first.samples if apart else ()
        return times(conjugated(first), middle, second, (*kept, *first.theta, *second.theta))

    one_by_one(make, left.count, total)


def ggn_diagonal(left: Factored, right: Factored, H: Curvature, total: Values) -> None:
    """Add the diagonal of the above, `[*p]`; `[B, *in]` for an input."""

    def make(rows: Rows) -> Sums:
        first = left.side(rows)
        second = right.side(rows, batch=first.batch, theta=first.theta)
        middle = H.between(rows, first.samples, first.out, second.out)
        kept = first.samples if left.is_input else ()
        return times(conjugated(first), middle, second, (*kept, *first.theta))

    one_by_one(make, left.count, total)


def curved(jacobian: Factored, H: Curvature, right: Factored, y: Values, total: Values) -> None:
    """Add `H_b y_b`, `[*lead, B, *out]`, for `y` in the outputs of `right`."""
    lead = tuple(Axis("r", n) for n in y.shape[: y.ndim - len(right.out) - right.batched])

    def make(rows: Rows) -> Sums:
        batch = rows.axis if jacobian.batched else None
        samples = () if batch is None else (batch,)
        out = tuple(Axis("i", n) for n in jacobian.out)
        other = tuple(Axis("j", n) for n in right.out)
        vector = rows.of(y, len(lead)) if samples else y
        product = Product((Tensor(vector, (*lead, *samples, *other)),))
        middle = H.between(rows, samples, out, other)
        result = (*samples, *lead, *out)
        return Sums(tuple(h * product for h in middle), result, union(result, other))

    one_by_one(
        make, jacobian.count, np.moveaxis(total, len(lead), 0) if jacobian.batched else total
    )


def rooted(jacobian: Factored, H: Curvature, total: Values) -> None:
    """Add `L_bᴴ J_b`, `[B, *out, *p]`, for `H = L Lᴴ`.

    Raises ArgumentError if H is not positive semidefinite.
    """
    root = _root(jacobian, H)

    def make(rows: Rows) -> Sums:
        side = jacobian.side(rows)
        columns = tuple(Axis("k", n) for n in jacobian.out)
        result = (*side.samples, *columns, *side.theta)
        middle = root(rows, side, columns)
        products = tuple(h.conjugate * p for h in middle for p in side.products)
        return Sums(products, result, union(side.axes, columns))

    one_by_one(make, jacobian.count, total)


Root = Callable[[Rows, Side, tuple[Axis, ...]], tuple[Product, ...]]


def _root(jacobian: Factored, H: Curvature) -> Root:
    """Return L as products over the output's axes and those of its columns."""
    if H.array is not None:
        lower = Curvature(array=_psd_root(jacobian, H.array))
        return lambda rows, side, k: lower.between(rows, side.samples, side.out, k)
    roots = None if H.diagonal is None else np.sqrt(H.diagonal)
    straight = Curvature(plain=H.plain, diagonal=roots)
    if H.outer is None or roots is None:
        return lambda rows, side, k: straight.between(rows, side.samples, side.out, k)
    p, q = H.outer[0], roots

    def of_classes(rows: Rows, side: Side, k: tuple[Axis, ...]) -> tuple[Product, ...]:
        # (diag(√p) - p √pᵀ)(diag(√p) - √p pᵀ) = diag(p) - p pᵀ, since Σ p = 1
        first = Tensor(rows.of(p) if side.samples else p, (*side.samples, *side.out))
        second = Tensor(rows.of(q) if side.samples else q, (*side.samples, *k))
        alone = ties(side.out[:-1], k[:-1])
        mixed = Product((first, second), alone)
        return (*straight.between(rows, side.samples, side.out, k), mixed)

    return of_classes


def _psd_root(jacobian: Factored, H: Values) -> Values:
    """Return L with `L Lᴴ = H`, from the eigenvectors of each sample's matrix."""
    count = int(np.prod(jacobian.out))
    matrices = H.reshape(-1, count, count)
    if not np.isfinite(matrices).all():
        raise ArgumentError("H holds entries that are no finite numbers")
    values, vectors = np.linalg.eigh(matrices)
    floor = count * np.finfo(H.dtype).eps * np.abs(values).max(initial=0.0)
    if (values < -floor).any() or not np.allclose(matrices, matrices.conj().swapaxes(1, 2)):
        raise ArgumentError(
            "H is not positive semidefinite, so it has no square root",
            hint="use ggn, ggn_diagonal or ggn_matvec, which take any H",
        )
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0))[:, None, :]).reshape(H.shape))


__all__ = ["curved", "ggn_block", "ggn_diagonal", "rooted"]
