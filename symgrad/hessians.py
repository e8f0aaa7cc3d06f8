"""All second derivatives of one call, by pairs of arrays: structured, summed, times tangents.

Checked arrays -> Hessians -> arrays
Nothing is evaluated before it is asked for: a product with tangents needs no block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.errors import MissingKeyError
from symgrad.memory import within_memory
from symgrad.products.terms import Values
from symgrad.structured import Block

Pair = tuple[str, ...]


class HessianBlock:
    """The second derivative of one output by two arrays, `[B, *out, *p, *q]`, as factors.

    Without a batch axis where a single sample was given or the layer has no inputs.
    """

    def __init__(self, block: Block, ranks: tuple[int, int], *, turned: bool) -> None:
        self._block = block
        self._ranks = ranks
        self._turned = turned

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the dense array."""
        return tuple(self._ordered(self._block.shape))

    @property
    def ndim(self) -> int:
        """The number of axes of the dense array."""
        return self._block.ndim

    @property
    def dtype(self) -> Any:
        """The dtype of all its arrays."""
        return self._block.dtype

    @property
    def structure(self) -> str:
        """What is zero and why, over the letters of `axes`: `delta(i, j) * C[b, i, k]`."""
        return self._block.structure

    @property
    def formula(self) -> str:
        """The sum of products of `factors()` that rebuilds the dense array."""
        return self._block.formula

    @property
    def axes(self) -> tuple[str, ...]:
        """The letters that structure and formula use for the axes of the dense array, in order."""
        return tuple(self._ordered(self._block.axes))

    def __repr__(self) -> str:
        names = self._block.pair.split(", ")
        one, other = names[::-1] if self._turned else names
        axes = ", ".join(self.axes)
        title = f"d²{self._block.output}/d{one} d{other}"
        return f"{title}[{axes}] of shape {self.shape} = {self.formula}"

    def dense(self, out: Values | None = None) -> Values:
        """Return the array `[B, *out, *p, *q]`, written into `out` if it is given.

        Raises ShapeError or ArgumentError if `out` does not fit, TooLargeError if memory cannot
        hold the array.
        """
        if not self._turned:
            return self._block.dense(out)
        if out is None:
            return self._exchanged(self._block.dense(), self._ranks)
        if isinstance(out, np.ndarray) and out.shape == self.shape:
            self._block.dense(self._exchanged(out, self._ranks[::-1]))
            return out
        return self._block.dense(out)  # which refuses it

    def compact(self) -> Values:
        """Return the entries that are not structurally zero, over the letters of `structure`."""
        return self._block.compact()

    def factors(self) -> dict[str, Values]:
        """Return the factor arrays by the names that `formula` uses; copy before writing."""
        return self._block.factors()

    def sum(self, u: Any) -> Values:
        """Return Σ_b Σ_out u · ∂²y, `[*p, *q]`, for u `[B, *out]`.

        Inputs keep their batch axis. Several u stand along leading axes.
        """
        return self._turn(self._block.vjp(u))

    def per_sample_sum(self, u: Any) -> Values:
        """Return Σ_out u · ∂²y for every sample, `[B, *p, *q]`."""
        return self._turn(self._block.per_sample_vjp(u))

    def norm(self) -> Values:
        """Return the Frobenius norm for every sample, `[B]`."""
        return self._block.norm()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        if copy is False:
            raise ValueError("a structured Hessian becomes an array only by making one")
        dense = np.asarray(self.dense())
        return dense if dtype is None else dense.astype(dtype, copy=False)

    def _ordered(self, axes: Sequence[Any]) -> list[Any]:
        """Return what belongs to the axes of the block in the order of this one's."""
        p, q = self._ranks
        ahead = len(axes) - p - q
        one, other = list(axes[ahead : ahead + p]), list(axes[ahead + p :])
        return [*axes[:ahead], *other, *one] if self._turned else list(axes)

    def _turn(self, array: Values) -> Values:
        return self._exchanged(array, self._ranks) if self._turned else array

    @staticmethod
    def _exchanged(array: Values, ranks: tuple[int, int]) -> Values:
        """Return a view with the last axes exchanged: the p ones behind the q ones."""
        array = np.asarray(array)
        ahead, (p, q) = array.ndim - sum(ranks), ranks
        order = (*range(ahead), *range(ahead + p, ahead + p + q), *range(ahead, ahead + p))
        return array.transpose(order)


class Hessians(Mapping[Pair, HessianBlock]):
    """All second derivatives of one call: (θ, φ) -> block, (output, θ, φ) for several outputs.

    Each pair is there in both orders. `make` evaluates what blocks are made of, at the first one
    that is asked for; `push` and `add` are the module's `hvp` and `hessian_sum` at the same arrays.
    """

    def __init__(
        self,
        layer: str,
        keys: Mapping[Pair, tuple[Pair, bool]],
        ranks: Mapping[Pair, tuple[int, int]],
        make: Callable[[], Mapping[Pair, Block]],
        push: Callable[[Any, Mapping[str, Any]], dict[str, Values]],
        add: Callable[[Any], dict[Pair, Values]],
    ) -> None:
        self._layer = layer
        self._keys, self._ranks = keys, ranks
        self._make, self._push, self._add = make, push, add
        self._blocks: Mapping[Pair, Block] | None = None

    @within_memory
    def __getitem__(self, key: Pair) -> HessianBlock:
        if key not in self._keys:
            known = ", ".join(map(repr, list(self._keys)[:12]))
            more = ", ..." if len(self) > 12 else ""
            raise MissingKeyError(
                f"no second derivative for {key!r}: there are {known}{more}",
                hint="compile with both arrays in wrt=",
            )
        if self._blocks is None:
            self._blocks = self._make()
        own, turned = self._keys[key]
        return HessianBlock(self._blocks[own], self._ranks[own], turned=turned)

    def __iter__(self) -> Iterator[Pair]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        pairs = ", ".join(str(key) for key in self._keys)
        return f"Hessians({self._layer}: {pairs})"

    @within_memory
    def hvp(self, u: Any, tangents: Mapping[str, Any]) -> dict[str, Values]:
        """Return {θ: Σ_b Σ_out u · Σ_φ ∂²y/∂θ∂φ t_φ, `[*p]`}; inputs keep their batch axis.

        `u` is `[B, *out]`, a tuple for several outputs; tangents that are missing are zero. It
        costs a few times what a vjp does, and makes no second derivative.
        """
        return self._push(u, tangents)

    @within_memory
    def sum(self, u: Any) -> dict[Pair, Values]:
        """Return {(θ, φ): Σ_b Σ_out u · ∂²y/∂θ∂φ, `[*p, *q]`}, each pair in both orders.

        `u` is `[B, *out]`, a tuple for several outputs. Where θ or φ is an input samples stay
        apart, `[B, *p, *q]`; otherwise no array has a batch axis and the axes of both.
        """
        return self._add(u)


__all__ = ["HessianBlock", "Hessians"]
