"""Generalised Gauss-Newton matrices: `Σ_b J_bᴴ H_b J_b`, as blocks, diagonals and square roots.

Factored, Curvature -> forms
Samples are summed over; those of an input stay apart, since each has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from symgrad.errors import ArgumentError
from symgrad.products.curvature import Curvature, ties
from symgrad.products.evaluate import piece_by_piece, times
from symgrad.products.planned import Form, Sums, one_by_one
from symgrad.products.rows import Rows
from symgrad.products.sides import Factored, Side
from symgrad.products.terms import Axis, Product, Tensor, Values, union
from symgrad.products.vectors import conjugated


def ggn_block(left: Factored, right: Factored, H: Curvature) -> Form:
    """Return `Σ_b J_bᴴ H_b J'_b`, `[*p, *q]`; `[B, *p, *q]` where either is an input."""

    def make(sides: Sequence[Factored], given: Sequence[Values], rows: Sequence[Rows]) -> Sums:
        first = sides[0].side(rows[0])
        second = sides[1].side(rows[0], batch=first.batch)
        middle = H.of(given).between(rows[0], first.samples, first.out, second.out)
        kept = first.samples if any(f.is_input for f in sides) else ()
        return times(conjugated(first), middle, second, (*kept, *first.theta, *second.theta))

    return Form(("ggn", H.kind), (left, right), H.arrays, make)


def ggn_diagonal(left: Factored, right: Factored, H: Curvature) -> Form:
    """Return the diagonal of the above, `[*p]`; `[B, *in]` for an input."""

    def make(sides: Sequence[Factored], given: Sequence[Values], rows: Sequence[Rows]) -> Sums:
        first = sides[0].side(rows[0])
        second = sides[1].side(rows[0], batch=first.batch, theta=first.theta)
        middle = H.of(given).between(rows[0], first.samples, first.out, second.out)
        kept = first.samples if sides[0].is_input else ()
        return times(conjugated(first), middle, second, (*kept, *first.theta))

    return Form(("ggn diagonal", H.kind), (left, right), H.arrays, make)


def curved(jacobian: Factored, H: Curvature, right: Factored, y: Values, total: Values) -> None:
    """Add `H_b y_b`, `[*lead, B, *out]`, for `y` in the outputs of `right`."""
    if H.plain and not H.arrays:
        total += y
        return
    ahead = y.ndim - len(right.out) - right.batched

    def make(sides: Sequence[Factored], given: Sequence[Values], rows: Sequence[Rows]) -> Sums:
        one, two = sides
        vector, some = given[-1], rows[0]
        lead = tuple(Axis("r", n) for n in vector.shape[:ahead])
        samples = (some.axis,) if one.batched else ()
        out = tuple(Axis("i", n) for n in one.out)
        other = tuple(Axis("j", n) for n in two.out)
        part = some.of(vector, ahead) if samples else vector
        product = Product((Tensor(part, (*lead, *samples, *other)),))
        middle = H.of(given[:-1]).between(some, samples, out, other)
        result = (*samples, *lead, *out)
        return Sums(tuple(h * product for h in middle), result, union(result, other))

    into = np.moveaxis(total, ahead, 0) if jacobian.batched else total
    form = Form(("curved", H.kind, ahead), (jacobian, right), (*H.arrays, y), make)
    one_by_one([form], [into], jacobian.count)


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

    piece_by_piece(make, jacobian.count, total)


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
