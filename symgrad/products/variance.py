"""What an uncertainty of parameters makes of outputs: `J Σ Jᴴ` for every sample.

Factored, Covariance -> array
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError
from symgrad.products.curvature import ties
from symgrad.products.evaluate import filled, piece_by_piece, times
from symgrad.products.given import vector
from symgrad.products.kronecker import Kronecker
from symgrad.products.planned import Sums
from symgrad.products.selection import Selection
from symgrad.products.sides import Factored, Rows, Side
from symgrad.products.terms import Axis, Product, Tensor, Values
from symgrad.products.vectors import conjugated


@dataclass(frozen=True, slots=True)
class Covariance:
    """Σ between θ and φ: arrays over some of the axes of both, δ on the axes without.

    `parts` are arrays with the numbers of their axes in θ and in φ; those of inputs begin with
    the batch axis.
    """

    parts: tuple[tuple[Values, tuple[int, ...], tuple[int, ...]], ...]
    free: tuple[int, ...] = ()
    rank: bool = False

    def between(self, rows: Rows, left: Side, right: Side) -> Product:
        """Return it as a product over the axes of two sides."""
        ranks: dict[int, Axis] = {}
        tensors = []
        for array, ours, theirs in self.parts:
            own = [left.theta[n] for n in ours] + [right.theta[n] for n in theirs]
            if self.rank:
                size = array.shape[-1]
                own.append(ranks.setdefault(size, Axis("r", size)))
            samples = left.samples if array.ndim > len(own) else ()
            tensors.append(Tensor(rows.of(array) if samples else array, (*samples, *own)))
        same = ties([left.theta[n] for n in self.free], [right.theta[n] for n in self.free])
        return Product(tuple(tensors), same)


def covariance(left: Factored, right: Factored, Sigma: Any) -> Covariance:
    """Return Σ between two parameters.

    A number is that multiple of the identity; `[*p]` is a diagonal; `[*p, *q]` is all of it; a
    tuple of one `[p_k, p_k]` for each axis, or a `Kronecker`, is their product. Those of inputs
    have a leading batch axis. Raises ShapeError or ArgumentError for what fits none of them.
    """
    shape, other = left.theta, right.theta
    every = tuple(range(len(shape)))
    batched = left.is_input or right.is_input
    if left.structured.jacobian.parameter != right.structured.jacobian.parameter:
        whole = vector(left, "Sigma", Sigma, (*shape, *other), batched=batched, lead=False)
        return Covariance(((whole, every, tuple(range(len(other)))),))
    if isinstance(Sigma, (tuple, list)):
        Sigma = Kronecker(tuple(Sigma), tuple((n,) for n in every))
    if isinstance(Sigma, Kronecker):
        return _product(left, Sigma)
    if np.ndim(Sigma) == 0:
        number = vector(left, "Sigma", Sigma, (), batched=False, lead=False)
        return Covariance(((number, (), ()),), every)
    own = np.ndim(Sigma) - (batched and not left.single)
    if own == len(shape):
        variances = vector(left, "Sigma", Sigma, shape, batched=batched, lead=False)
        return Covariance(((variances, every, ()),), every)
    whole = vector(left, "Sigma", Sigma, (*shape, *shape), batched=batched, lead=False)
    return Covariance(((whole, every, every),))


def _product(jacobian: Factored, Sigma: Kronecker) -> Covariance:
    """Return a Kronecker product of covariances."""
    count = len(jacobian.theta)
    if sorted(n for own in Sigma.axes for n in own) != list(range(count)) or len(
        Sigma.factors
    ) != len(Sigma.axes):
        raise ArgumentError(
            f"Sigma has {len(Sigma.factors)} Kronecker factors, expected one for each of the "
            f"{count} axes of {jacobian.structured.jacobian.parameter}"
        )
    parts = []
    for factor, axes in zip(Sigma.factors, Sigma.axes, strict=True):
        shape = tuple(jacobian.theta[n] for n in axes)
        batched = jacobian.is_input
        array = vector(jacobian, "Sigma", factor, (*shape, *shape), batched=batched, lead=False)
        parts.append((array, axes, axes))
    return Covariance(tuple(parts))


def low_rank(left: Factored, right: Factored, U: Any, V: Any) -> Covariance:
    """Return `U Vᴴ` between two parameters, `U [*p, r]` and `V [*q, r]`."""
    arrays = []
    for jacobian, value in ((left, U), (right, V)):
        rank = np.shape(U)[-1:]
        own = (*jacobian.theta, *rank)
        batched = jacobian.is_input
        arrays.append(vector(jacobian, "low_rank", value, own, batched=batched, lead=False))
    parts = (
        (arrays[0], tuple(range(len(left.theta))), ()),
        (arrays[1].conj(), (), tuple(range(len(right.theta)))),
    )
    return Covariance(parts, rank=True)


def variance(left: Factored, right: Factored, Sigmas: Sequence[Covariance], total: Values) -> None:
    """Add `J_b Σ J'_bᴴ`, `[B, *out, *out']`."""

    def make(rows: Rows) -> Sums:
        first = left.side(rows)
        second = right.side(rows, batch=first.batch)
        middle = [s.between(rows, first, second) for s in Sigmas]
        result = (*first.samples, *first.out, *second.out)
        return times(first, middle, conjugated(second), result)

    piece_by_piece(make, left.count, total)


def variances(
    own: Selection, Sigma: Any, U: Any, out: Values | None
) -> dict[tuple[str, str], Values]:
    """Return `J Σ Jᴴ`, `[B, *out, *out']`, for every pair of outputs."""
    between = _covariances(own, Sigma, U)
    found = {}
    if out is not None and len(own.outputs) > 1:
        raise ArgumentError("functional_variance takes out where there is one output only")
    for first in own.outputs:
        for second in own.outputs:
            left, right = own.of(first), own.of(second)
            shape = (*((left.count,) if left.batched else ()), *left.out, *right.out)

            def fill(total: Values, first: str = first, second: str = second) -> None:
                for (p, q), Sigmas in between.items():
                    variance(own.blocks[first, p], own.blocks[second, q], Sigmas, total)

            found[first, second] = filled(
                left, "functional_variance", out, shape, fill, samples={0: left}
            )
    return found


def _covariances(own: Selection, Sigma: Any, U: Any) -> dict[tuple[str, str], list[Covariance]]:
    """Return Σ by pairs of parameters."""
    found: dict[tuple[str, str], list[Covariance]] = {}
    for name, key, value in _given(own, "Sigma", Sigma):
        pair = covariance(own.with_respect_to(name), own.with_respect_to(key), value)
        found.setdefault((name, key), []).append(pair)
    factors = [(name, value) for name, _, value in _given(own, "low_rank", U)]
    for name, value in factors:
        for other, second in factors:
            left, right = own.with_respect_to(name), own.with_respect_to(other)
            found.setdefault((name, other), []).append(low_rank(left, right, value, second))
    return found


def _given(own: Selection, what: str, given: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield what is given for pairs of parameters; a number stands for every one."""
    if given is None:
        return
    if not isinstance(given, Mapping):
        if np.ndim(given) or what != "Sigma":
            raise ArgumentError(f"{what} must be a mapping of names to arrays")
        given = dict.fromkeys(own.parameters, given)
    for key, value in given.items():
        first, second = key if isinstance(key, tuple) and len(key) == 2 else (key, key)
        for name in (first, second):
            if name not in own.parameters:
                raise ArgumentError(
                    f"no Jacobian for {name!r} in {what}; there are {', '.join(own.parameters)}"
                )
        yield first, second, value


__all__ = ["variances"]
