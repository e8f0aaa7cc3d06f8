"""Products with vectors: J v, u J for all samples or each, squares and inner products.

Factored, vectors -> forms
Vectors may have leading axes, one for every right-hand side; results have them too.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.products.evaluate import times
from symgrad.products.planned import Form, Sums
from symgrad.products.rows import Rows
from symgrad.products.sides import Factored, Side
from symgrad.products.terms import Axis, Product, Tensor, Values, union


def push(jacobian: Factored, v: Values) -> Form:
    """Return J v: `[*lead, *p]` (inputs: `[*lead, B, *in]`) to `[*lead, B, *out]`."""

    def make(sides: Sequence[Factored], given: Sequence[Values], rows: Sequence[Rows]) -> Sums:
        side = sides[0].side(rows[0])
        own = (*side.samples, *side.theta) if sides[0].is_input else side.theta
        lead = _lead(given[0], len(own))
        vector = Tensor(given[0], (*lead, *own))
        return _with_vector(side, vector, (*lead, *side.samples, *side.out))

    return Form("push", (jacobian,), (v,), make)


def pull(jacobian: Factored, u: Values, *, per_sample: bool) -> Form:
    """Return u J: `[*lead, B, *out]` to `[*lead, *p]`, or `[*lead, B, *p]` for every sample."""

    def make(sides: Sequence[Factored], given: Sequence[Values], rows: Sequence[Rows]) -> Sums:
        side = sides[0].side(rows[0])
        own = (*side.samples, *side.out)
        lead = _lead(given[0], len(own))
        kept = side.samples if per_sample else ()
        return _with_vector(side, Tensor(given[0], (*lead, *own)), (*lead, *kept, *side.theta))

    return Form(("pull", per_sample), (jacobian,), (u,), make)


def inner(left: Factored, right: Factored, u: Values | None, v: Values | None) -> Form:
    """Return the inner products of the rows of two Jacobians, sample by sample: `[B]`.

    Of `u J` and `v J'` if `u` and `v`, `[B, *out]`, are given; the right side is conjugated.
    """

    def make(sides: Sequence[Factored], given: Sequence[Values], rows: Sequence[Rows]) -> Sums:
        some = rows[0]
        first = sides[0].side(some)
        own = None if given else first.out
        second = sides[1].side(some, batch=first.batch, theta=first.theta, out=own)
        vectors = Product(
            tuple(
                Tensor(some.of(x) if side.batch is not None else x, (*side.samples, *side.out))
                for side, x in zip((first, second), given, strict=False)
            )
        )
        return times(first, (vectors,), conjugated(second), first.samples)

    vectors = () if u is None or v is None else (u, v.conj())
    return Form("inner", (left, right), vectors, make)


def conjugated(side: Side) -> Side:
    """Return the complex conjugate of a Jacobian."""
    products = tuple(p.conjugate for p in side.products)
    return Side(products, side.batch, side.out, side.theta)


def _lead(vector: Values, own: int) -> tuple[Axis, ...]:
    """Return axes for the right-hand sides of a vector."""
    return tuple(Axis(f"r{n}", s) for n, s in enumerate(vector.shape[: vector.ndim - own]))


def _with_vector(side: Side, vector: Tensor, result: Sequence[Axis]) -> Sums:
    products = tuple(p * Product((vector,)) for p in side.products)
    return Sums(products, tuple(result), union(side.axes, vector.axes))


__all__ = ["conjugated", "inner", "pull", "push"]
