"""Kronecker factors: what one Jacobian's Gauss-Newton matrix is a product of (KFAC).

Factored, Curvature -> Kronecker
In `J_bipq = G_bip h_bq` the axes p and q of a weight have no factor in common: the sum over
samples of a product becomes the product of a sum and a mean. Exact where one of them is the same
for all samples, as in a single linear layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from symgrad.errors import ArgumentError
from symgrad.memory import within_memory
from symgrad.products.curvature import Curvature
from symgrad.products.evaluate import piece_by_piece
from symgrad.products.given import check_positive
from symgrad.products.planned import Sums
from symgrad.products.sides import Factored, Rows, Side
from symgrad.products.terms import Axis, Product, Values, union


@dataclass(frozen=True, slots=True)
class Kronecker:
    """A matrix `[*p, *p]` as a product of factors, each over some of the axes of θ.

    `axes` are the numbers of those axes; a factor over the axes k, l is `[p_k, p_l, p_k, p_l]`.
    Of W `[m, n]` with factors B `[m, m]` and A `[n, n]` the matrix is B ⊗ A where W is flattened
    row by row (C order), A ⊗ B column by column (F order).
    """

    factors: tuple[Values, ...]
    axes: tuple[tuple[int, ...], ...]

    @within_memory
    def dense(self) -> Values:
        """Return the matrix, `[*p, *p]`. Raises TooLargeError if memory cannot hold it."""
        rank = sum(map(len, self.axes))
        arguments: list[object] = []
        for factor, own in zip(self.factors, self.axes, strict=True):
            arguments += [factor, [*own, *(rank + n for n in own)]]
        found: Values = np.einsum(*arguments, list(range(2 * rank)))  # type: ignore[call-overload]
        return found

    def inverse(self, damping: float = 0.0) -> Kronecker:
        """Return the product of the inverses of `factor + damping · I`.

        Raises ArgumentError for a damping that is no number of at least 0, and where a factor is
        singular.
        """
        check_positive("damping", damping)
        found = []
        for factor in self.factors:
            size = prod(factor.shape[: factor.ndim // 2])
            matrix = factor.reshape(size, size) + damping * np.eye(size, dtype=factor.dtype)
            try:
                found.append(np.linalg.inv(matrix).reshape(factor.shape))
            except np.linalg.LinAlgError:
                hint = "give more damping"
                raise ArgumentError("a Kronecker factor is singular", hint=hint) from None
        return Kronecker(tuple(found), self.axes)


@dataclass(frozen=True, slots=True)
class Group:
    """Axes of θ that have factors in common, by number, with those factors and deltas.

    `out` are the output axes that it alone has; only the group on the output's side has any.
    """

    theta: tuple[int, ...]
    tensors: tuple[int, ...]
    ties: tuple[int, ...]
    out: tuple[int, ...]

    def part(self, product: Product) -> Product:
        """Return the group's own part of a product."""
        return Product(
            tuple(product.tensors[n] for n in self.tensors),
            tuple(product.ties[n] for n in self.ties),
        )


def kfac(jacobian: Factored, H: Curvature) -> Kronecker:
    """Return the Kronecker factors of `Σ_b J_bᴴ H_b J_b`.

    The factor on the output's side is summed over samples, the others are means. Output axes that
    the others read, such as the positions of a convolution, count as samples. Raises
    ArgumentError if the Jacobian is a sum of products.
    """
    _check(jacobian)
    if not jacobian.structured.terms:
        every = tuple(range(len(jacobian.theta)))
        return Kronecker((np.zeros((*jacobian.theta,) * 2, jacobian.done.dtype),), (every,))
    groups, owner = _groups(jacobian.side(Rows(0, min(jacobian.count, 1))))
    shared = [n for n in range(len(jacobian.out)) if n not in groups[owner].out]
    repeats = jacobian.count * prod(jacobian.out[n] for n in shared)
    factors = []
    for number, group in enumerate(groups):
        shape = [jacobian.theta[n] for n in group.theta]
        total = np.zeros((*shape, *shape), jacobian.done.dtype)
        own = H if number == owner else Curvature(plain=True)
        piece_by_piece(_form(jacobian, group, shared, own), jacobian.count, total)
        factors.append(total if number == owner or not repeats else total / repeats)
    return Kronecker(tuple(factors), tuple(g.theta for g in groups))


def _check(jacobian: Factored) -> None:
    terms = len(jacobian.structured.terms)
    if jacobian.is_input or terms > 1:
        why = "is taken for every sample" if jacobian.is_input else f"is a sum of {terms} products"
        raise ArgumentError(
            f"{jacobian.title} {why}, so its Gauss-Newton matrix is no Kronecker product",
            hint="ggn and ggn_matvec take any Jacobian",
        )


def _form(
    jacobian: Factored, group: Group, shared: Sequence[int], H: Curvature
) -> Callable[[Rows], Sums]:
    """Return the form of one factor."""

    def make(rows: Rows) -> Sums:
        first = jacobian.side(rows)
        out = [a if n in shared else Axis(a.name, a.size) for n, a in enumerate(first.out)]
        second = jacobian.side(rows, batch=first.batch, out=out)
        mine = [n for n in range(len(out)) if n in group.out or not H.plain]
        left, right = ([side.out[n] for n in mine] for side in (first, second))
        result = tuple(side.theta[n] for side in (first, second) for n in group.theta)
        ours = [side.out[n] for side in (first, second) for n in (*group.out, *shared)]
        one, two = (group.part(side.products[0]) for side in (first, second))
        products = tuple(
            one.conjugate * h * two for h in H.between(rows, first.samples, left, right)
        )
        return Sums(products, result, union(first.samples, ours, result))

    return make


def _groups(side: Side) -> tuple[tuple[Group, ...], int]:
    """Return the axes of θ in groups without common factors, and which is the output's side."""
    (product,) = side.products
    edges = [{a for p in (t.left, t.right) for a in p.axes} for t in product.ties]
    reads = [set(t.axes) for t in product.tensors]
    classes: list[set[Axis]] = [{a} for a in side.theta] or [set()]
    for edge in edges:
        classes = _joined(classes, edge - set(side.samples), grow=True)
    for edge in reads:
        classes = _joined(classes, edge, grow=False)
    owner = _owner(side, classes, reads)
    where = [
        next((n for n, c in enumerate(classes) if c & edge), owner) for edge in (*edges, *reads)
    ]
    alone = tuple(
        n
        for n, axis in enumerate(side.out)
        if all(w == owner for w, e in zip(where, (*edges, *reads), strict=True) if axis in e)
    )
    groups = []
    for number, axes in enumerate(classes):
        groups.append(
            Group(
                tuple(n for n, a in enumerate(side.theta) if a in axes),
                tuple(n for n, w in enumerate(where[len(edges) :]) if w == number),
                tuple(n for n, w in enumerate(where[: len(edges)]) if w == number),
                alone if number == owner else (),
            )
        )
    return tuple(groups), owner


def _owner(side: Side, classes: Sequence[set[Axis]], reads: Sequence[set[Axis]]) -> int:
    """Return the class on the output's side: tied to an output axis, or alone in reading one."""
    out = set(side.out)
    readers = [{n for n, c in enumerate(classes) if any(c & r and a in r for r in reads)}
               for a in side.out]  # fmt: skip
    tied = [n for n, c in enumerate(classes) if c & out]
    alone = [n for n in range(len(classes)) if {n} in readers]
    return next(iter((*tied, *alone)), 0)


def _joined(classes: Sequence[set[Axis]], edge: set[Axis], *, grow: bool) -> list[set[Axis]]:
    """Return the classes, those that an edge reaches made one, with its own axes if they grow."""
    reached = [c for c in classes if c & edge]
    if not reached:
        return list(classes)
    one = set().union(*reached, edge if grow else set())
    found: list[set[Axis]] = []
    for c in classes:
        if c not in reached:
            found.append(c)
        elif c is reached[0]:
            found.append(one)
    return found


__all__ = ["Kronecker", "kfac"]
