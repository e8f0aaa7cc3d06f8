"""The output Hessian of a loss, `H [B, *out, *out]`: given, named, or made of gradients.

H, u, output -> Curvature -> products between two sides
Named losses are never written out: a diagonal stays one, and that of the cross-entropy is a
diagonal less a product of probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, ShapeError, similar
from symgrad.evaluation import Evaluation
from symgrad.products.given import checked
from symgrad.products.rows import Rows
from symgrad.products.sides import Factored
from symgrad.products.terms import Axis, Place, Product, Tensor, Tie, Values, diagonal


@dataclass(frozen=True, slots=True)
class Curvature:
    """`H_bij = δ_ij + δ_ij d_bi + δ_rest f_bi g_bj + a_bij`, whichever parts there are.

    `plain` is the identity, `diagonal` d `[B, *out]`, `outer` f and g of the same shape, along
    the last `width` axes of the output (all if None; δ on the others), `array` a.
    """

    plain: bool = False
    diagonal: Values | None = None
    outer: tuple[Values, Values] | None = None
    width: int | None = None
    array: Values | None = None

    @property
    def arrays(self) -> tuple[Values, ...]:
        """All arrays there are."""
        every = (self.diagonal, *(self.outer or ()), self.array)
        return tuple(a for a in every if a is not None)

    @property
    def kind(self) -> tuple[object, ...]:
        """Which parts there are."""
        has = (self.diagonal is not None, self.outer is not None, self.array is not None)
        return self.plain, self.width, *has

    def of(self, arrays: Sequence[Values]) -> Curvature:
        """Return the same with other arrays."""
        rest = iter(arrays)
        diagonal = None if self.diagonal is None else next(rest)
        outer = None if self.outer is None else (next(rest), next(rest))
        array = None if self.array is None else next(rest)
        return Curvature(self.plain, diagonal, outer, self.width, array)

    def between(
        self, rows: Rows, samples: Sequence[Axis], left: Sequence[Axis], right: Sequence[Axis]
    ) -> tuple[Product, ...]:
        """Return it as products over the axes of two sides."""

        def over(array: Values, axes: Sequence[Axis]) -> Tensor:
            return diagonal(Tensor(rows.of(array) if samples else array, (*samples, *axes)))

        found = []
        if self.plain:
            found.append(Product((), ties(left, right)))
        if self.diagonal is not None:
            found.append(Product((over(self.diagonal, left),), ties(left, right)))
        if self.outer is not None:
            alone = 0 if self.width is None else len(left) - self.width
            factors = tuple(
                over(f, axes) for f, axes in zip(self.outer, (left, right), strict=True)
            )
            found.append(Product(factors, ties(left[:alone], right[:alone])))
        if self.array is not None:
            found.append(Product((over(self.array, (*left, *right)),)))
        return tuple(found)


def ties(left: Sequence[Axis], right: Sequence[Axis]) -> tuple[Tie, ...]:
    """Return deltas of axes pair by pair."""
    return tuple(Tie(Place.of(a), Place.of(b)) for a, b in zip(left, right, strict=True))


def mse(y: Values, _: Factored) -> Curvature:
    """Half the squared error, ½ Σ (y - t)²: `H = I`."""
    return Curvature(plain=True)


def poisson(y: Values, _: Factored) -> Curvature:
    """Counts of rate exp(y): `H = diag(exp y)`; the output is the logarithm of the rate."""
    return Curvature(diagonal=np.exp(y))


def binary_cross_entropy(y: Values, _: Factored) -> Curvature:
    """Coins of probability sigmoid(y): `H = diag(σ (1 - σ))`; outputs are logits."""
    small = np.exp(-np.abs(y))
    return Curvature(diagonal=small / (1 + small) ** 2)


def cross_entropy(y: Values, jacobian: Factored) -> Curvature:
    """Classes along the last axis of the output, of probabilities p = softmax(y).

    `H = diag(p) - p pᵀ`; outputs are logits.
    """
    if not jacobian.out:
        name = jacobian.structured.jacobian.output
        raise ShapeError(
            f"cross_entropy needs logits of classes along the last axis; {name} is a scalar",
            hint="for two classes there is binary_cross_entropy",
        )
    p = np.exp(y - y.max(axis=-1, keepdims=True)) if y.size else y
    p = p / p.sum(axis=-1, keepdims=True)
    return Curvature(diagonal=p, outer=(-p, p), width=1)


LOSSES: dict[str, Callable[[Values, Factored], Curvature]] = {
    "mse": mse,
    "cross_entropy": cross_entropy,
    "poisson": poisson,
    "binary_cross_entropy": binary_cross_entropy,
}


def curvature(jacobian: Factored, H: Any) -> Curvature:
    """Return the output Hessian of one output: None, a loss by name, or `[B, *out, *out]`.

    Raises ArgumentError for an unknown name, ShapeError for an array that does not fit.
    """
    if H is None:
        return Curvature(plain=True)
    if isinstance(H, str):
        if H not in LOSSES:
            near = similar(H, LOSSES)
            meant = f"did you mean {near}?" if near else f"there are {', '.join(LOSSES)}"
            raise ArgumentError(f"no loss is called {H!r}; {meant}")
        if jacobian.done.dtype.kind == "c" and H != "mse":
            raise ArgumentError(f"{H} is a loss of real outputs; this layer ran with complex ones")
        return LOSSES[H](output_of(jacobian), jacobian)
    return Curvature(array=checked(jacobian, "H", H, (*jacobian.out, *jacobian.out)))


def output_of(jacobian: Factored) -> Values:
    """Return the output `[B, *out]` of the same pass."""
    values, name = jacobian.done.values, jacobian.structured.jacobian.output
    value = np.asarray(values.output(name) if isinstance(values, Evaluation) else values[name])
    whole = (jacobian.count, *jacobian.out) if jacobian.batched else jacobian.out
    return np.broadcast_to(value, whole)


__all__ = ["LOSSES", "Curvature", "curvature", "output_of", "ties"]
