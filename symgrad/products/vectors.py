"""Products with vectors: J v, u J for all samples or each, squares and inner products.

Factored, vectors -> arrays
Vectors may have leading axes, one for every right-hand side; results have them too.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.products.contract import contract
from symgrad.products.evaluate import Sums, one_by_one, times
from symgrad.products.sides import Factored, Rows, Side
from symgrad.products.terms import Axis, Product, Tensor, Values, union


def push(jacobian: Factored, v: Values, total: Values) -> None:
    """Add J v: `[*lead, *p]` (inputs: `[*lead, B, *in]`) to `[*lead, B, *out]`."""
    side = jacobian.side(Rows(0, jacobian.count))
    own = (*side.samples, *side.theta) if jacobian.is_input else side.theta
    lead = _lead(v, len(own))
    _with_vector(side, Tensor(v, (*lead, *own)), (*lead, *side.samples, *side.out), total)


def pull(jacobian: Factored, u: Values, total: Values, *, per_sample: bool) -> None:
    """Add u J: `[*lead, B, *out]` to `[*lead, *p]`, or `[*lead, B, *p]` for every sample."""
    side = jacobian.side(Rows(0, jacobian.count))
    own = (*side.samples, *side.out)
    lead = _lead(u, len(own))
    kept = side.samples if per_sample else ()
    _with_vector(side, Tensor(u, (*lead, *own)), (*lead, *kept, *side.theta), total)


def inner(
    left: Factored, right: Factored, u: Values | None, v: Values | None, total: Values
) -> None:
    """Add the inner products of the rows of two Jacobians, sample by sample: `[B]`.

    Of `u J` and `v J'` if `u` and `v`, `[B, *out]`, are given; the right side is conjugated.
    """

    def make(rows: Rows) -> Sums:
        first = left.side(rows)
        own = first.out if u is None and v is None else None
        second = right.side(rows, batch=first.batch, theta=first.theta, out=own)
        vectors = Product(
            tuple(
                Tensor(rows.of(x) if side.batch is not None else x, (*side.samples, *side.out))
                for side, x in ((first, u), (second, None if v is None else v.conj()))
                if x is not None
            )
        )
        return times(first, (vectors,), conjugated(second), first.samples)

    one_by_one(make, left.count, total)


def conjugated(side: Side) -> Side:
    """Return the complex conjugate of a Jacobian."""
    products = tuple(p.conjugate for p in side.products)
    return Side(products, side.batch, side.out, side.theta)


def _lead(vector: Values, own: int) -> tuple[Axis, ...]:
    """Return axes for the right-hand sides of a vector."""
    return tuple(Axis(f"r{n}", s) for n, s in enumerate(vector.shape[: vector.ndim - own]))


def _with_vector(side: Side, vector: Tensor, result: Sequence[Axis], total: Values) -> None:
    axes = union(side.axes, vector.axes)
    for product in side.products:
        contract(product * Product((vector,)), result, axes, total.dtype, total)


__all__ = ["conjugated", "inner", "pull", "push"]
