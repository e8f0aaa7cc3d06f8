"""All second derivatives of one call, by pairs of arrays: structured, summed, times tangents.

Checked arrays -> Hessians -> arrays
Nothing is evaluated before it is asked for: a product with tangents needs no block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from symgrad.batch import inserted, place
from symgrad.errors import MissingKeyError
from symgrad.memory import within_memory
from symgrad.products.terms import Values
from symgrad.structured import Block

Pair = tuple[str, ...]


class HessianBlock:
    """The second derivative of one output by two arrays, `[B, *out, *p, *q]`, as factors.

    The batch stands first, then the axes of the output, of θ and of φ, in C order; `layout` says
    which letter is which. There is no batch axis where a single sample was given or the layer has
    no inputs; with `batch_axis=-1` it is the last one.
    """

    def __init__(self, block: Block, *, turned: bool) -> None:
        self._block = block
        self._turned = turned

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the dense array."""
        shape = self._block.shape
        return tuple(shape[n] for n in self._order(len(shape)))

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
        letters = self._block.axes
        return tuple(letters[n] for n in self._order(len(letters)))

    @property
    def layout(self) -> str:
        """What the letters of structure and formula stand for."""
        return self._block.layout

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
            return self._turn(self._block.dense())
        if not isinstance(out, np.ndarray) or out.shape != self.shape:
            return self._block.dense(out)  # which refuses it
        self._block.dense(out.transpose(np.argsort(self._order(out.ndim))))
        return out

    def compact(self, out: Values | None = None) -> Values:
        """Return the entries that are not structurally zero, C in `structure`."""
        return self._block.compact(out)

    def factors(self) -> dict[str, Values]:
        """Return the factor arrays by the names that `formula` uses; copy before writing."""
        return self._block.factors()

    def sum(self, u: Any) -> Values:
        """Return Σ_b Σ_out u · ∂²y, `[*p, *q]`, for u `[B, *out]`.

        Inputs keep their batch axis. Several u stand along leading axes.
        """
        return self._turn(self._block.vjp(u), out=False)

    def per_sample_sum(self, u: Any) -> Values:
        """Return Σ_out u · ∂²y for every sample, `[B, *p, *q]`."""
        return self._turn(self._block.per_sample_vjp(u), out=False, apart=True)

    def norm(self) -> Values:
        """Return the Frobenius norm for every sample, `[B]`."""
        return self._block.norm()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        if copy is False:
            raise ValueError("a structured Hessian becomes an array only by making one")
        dense = np.asarray(self.dense())
        return dense if dtype is None else dense.astype(dtype, copy=False)

    def _turn(self, array: Any, *, out: bool = True, apart: bool = False) -> Values:
        """Return a result of the block with the axes of its two arrays exchanged."""
        found: Values = np.asarray(array)
        return found.transpose(self._order(found.ndim, out=out, apart=apart))

    def _order(self, rank: int, *, out: bool = True, apart: bool = False) -> tuple[int, ...]:
        """Return the axes of a result of the block in the order of this one's.

        `out` says whether it has those of the output, `apart` whether samples are apart in any
        case; axes ahead of all these are right-hand sides.
        """
        jacobian = self._block.factored.structured.jacobian
        if not self._turned:
            return tuple(range(rank))
        p, q = (len(axes) for axes in jacobian.of_both)
        own = p + q + (len(jacobian.out) if out else 0)
        axis = self._block.batch_axis
        sampled = axis is not None and (out or apart or self._block.factored.is_input)
        lead = rank - own - sampled
        numbers = list(range(lead, rank))
        sample = numbers.pop(place(axis or 0, own)) if sampled else 0
        ahead = own - p - q
        turned = [*numbers[:ahead], *numbers[ahead + p :], *numbers[ahead : ahead + p]]
        placed = inserted(turned, sample, axis or 0) if sampled else turned
        return (*range(lead), *placed)


class Hessians(Mapping[Pair, HessianBlock]):
    """All second derivatives of one call: (θ, φ) -> block, (output, θ, φ) for several outputs.

    Each pair is there in both orders. `make` evaluates what blocks are made of, at the first one
    that is asked for; `push` and `add` are the module's `hvp` and `hessian_sum` at the same arrays.
    """

    def __init__(
        self,
        layer: str,
        keys: Mapping[Pair, tuple[Pair, bool]],
        make: Callable[[], Mapping[Pair, Block]],
        push: Callable[[Any, Mapping[str, Any]], dict[str, Values]],
        add: Callable[[Any], dict[Pair, Values]],
    ) -> None:
        self._layer = layer
        self._keys = keys
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
        return HessianBlock(self._blocks[own], turned=turned)

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
