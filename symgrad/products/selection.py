"""Forms over all selected Jacobians of one call: sums over parameters, pairs of outputs.

Factored of every (output, θ) -> arrays
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, Literal

import numpy as np

from symgrad.batch import outward
from symgrad.errors import ArgumentError, ShapeError
from symgrad.products.evaluate import filled, handed
from symgrad.products.given import check_positive, vector
from symgrad.products.gram import Pair, gram_of_pairs, gram_of_samples, mirror
from symgrad.products.planned import one_by_one
from symgrad.products.sides import Factored
from symgrad.products.terms import Values
from symgrad.products.vectors import inner

Diagonal = Literal["out", "batch"] | None


@dataclass(frozen=True)
class Selection:
    """Jacobians by (output, θ), outputs outermost."""

    blocks: Mapping[tuple[str, str], Factored]

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The outputs in declared order."""
        return tuple(dict.fromkeys(o for o, _ in self.blocks))

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The arrays θ in declared order."""
        return tuple(dict.fromkeys(p for _, p in self.blocks))

    def of(self, output: str) -> Factored:
        """Return some Jacobian of an output."""
        return self.blocks[output, self.parameters[0]]

    def widened(self) -> Selection:
        """Return the same in double precision."""
        return Selection({key: block.widened() for key, block in self.blocks.items()})

    def with_respect_to(self, parameter: str) -> Factored:
        """Return some Jacobian with respect to a parameter."""
        return self.blocks[self.outputs[0], parameter]

    @cached_property
    def any(self) -> Factored:
        """Some Jacobian."""
        return next(iter(self.blocks.values()))

    @property
    def count(self) -> int:
        """The number of samples."""
        return self.any.count

    @property
    def batch_first(self) -> Selection:
        """The same with the batch axis first in all results."""
        return Selection({k: replace(f, batch_axis=0) for k, f in self.blocks.items()})

    def pairs(self, output: str, other: str, others: Selection) -> list[Pair]:
        """Return the Jacobians of two outputs, θ by θ."""
        return [(self.blocks[output, p], others.blocks[other, p]) for p in self.parameters]

    def vectors(self, name: str, given: Any, *, lead: bool = True) -> list[Values]:
        """Return a checked array `[*lead, B, *out]` for every output, given as one or a tuple."""
        found = []
        for output, value in zip(self.outputs, self.one_an_output(name, given), strict=True):
            jacobian = self.of(output)
            batched = jacobian.batched
            found.append(vector(jacobian, name, value, jacobian.out, batched=batched, lead=lead))
        return found

    def hessians(self, H: Any) -> Sequence[Any]:
        """Return the H of every output: None and names are meant for all."""
        shared = H is None or isinstance(H, str)
        return [H] * len(self.outputs) if shared else self.one_an_output("H", H)

    def one_an_output(self, name: str, given: Any) -> Sequence[Any]:
        """Return what was given for every output.

        Raises ArgumentError if there are several and it is no tuple of as many.
        """
        count = len(self.outputs)
        if count == 1:
            return (given,)
        if not isinstance(given, (tuple, list)) or len(given) != count:
            raise ArgumentError(f"{name} must be a tuple of {count} arrays, one an output")
        return given


def gram(
    own: Selection, other: Selection | None, diagonal: Diagonal, out: Values | None
) -> dict[tuple[str, ...], Values]:
    """Return `J J'ᴴ` of every pair of outputs; of every output with itself for the diagonal out."""
    if diagonal not in (None, "out", "batch"):
        raise ArgumentError(f"diagonal must be None, 'out' or 'batch', got {diagonal!r}")
    right = own if other is None else other
    if other is not None:
        _check_others(own, other, diagonal)
    names = own.outputs
    if out is not None and len(names) > 1:
        raise ArgumentError("gram takes out where there is one output only")
    keys = [(o, q) for o in names for q in names if diagonal != "out" or o == q]
    found: dict[tuple[str, ...], Values] = {}
    for first, second in keys:
        if other is None and (second, first) in found:
            found[first, second] = _transposed(found[second, first], own, diagonal, second)
            continue
        pairs = own.pairs(first, second, right)
        mirrored = other is None and first == second
        found[first, second] = _gram_of_outputs(pairs, diagonal, mirrored, out)
    return found


def _transposed(array: Values, own: Selection, diagonal: Diagonal, output: str) -> Values:
    """Return the conjugate transpose of the pair of outputs the other way round."""
    one = own.of(output)
    batch = int(one.batched and not one.single)
    if diagonal == "batch":
        return one.swapped(array, len(one.out), (0,) * batch)
    return one.swapped(array, len(one.out) + batch)


def _gram_of_outputs(
    pairs: Sequence[Pair], diagonal: Diagonal, mirrored: bool, out: Values | None
) -> Values:
    left, right = pairs[0]
    batch, second = ((f.count,) if f.batched else () for f in (left, right))
    shape = {
        None: (*batch, *left.out, *second, *right.out),
        "out": (*batch, *second, *left.out),
        "batch": (*batch, *left.out, *right.out),
    }[diagonal]
    place = 1 if diagonal == "out" else 1 + len(left.out)
    samples = {0: left} if diagonal == "batch" else {0: left, place: right}

    def fill(total: Values) -> None:
        if diagonal == "batch" or not left.batched:
            forms = [gram_of_samples(*pair, by_out=diagonal == "out") for pair in pairs]
            one_by_one(forms, [total] * len(forms), left.count)
            if mirrored and total.size:
                size = 1 if diagonal == "out" else prod(left.out)
                mirror(total.reshape(-1, size, size))
        else:
            gram_of_pairs(pairs, total, by_out=diagonal == "out", mirrored=mirrored)

    return filled(left, "gram", out, shape, fill, samples=samples)


def _check_others(own: Selection, other: Selection, diagonal: Diagonal) -> None:
    """Raise where two selections have no axes in common."""
    if list(own.blocks) != list(other.blocks):
        raise ArgumentError(
            f"{own.any.layer}: other has Jacobians for {', '.join(map(str, other.blocks))}, "
            f"expected {', '.join(map(str, own.blocks))}"
        )
    for key, mine in own.blocks.items():
        theirs = other.blocks[key]
        if mine.theta != theirs.theta or (diagonal == "out" and mine.out != theirs.out):
            raise ShapeError(
                f"{mine.layer}: {mine.title} has axes {(*mine.out, *mine.theta)}, that of other "
                f"has {(*theirs.out, *theirs.theta)}"
            )
        if mine.dtype != theirs.dtype:
            raise ArgumentError(f"{mine.layer}: J is {mine.dtype}, other is {theirs.dtype}")
        if (diagonal == "batch" or mine.is_input) and mine.count != theirs.count:
            why = "samples meet themselves only" if mine.is_input else "diagonal='batch'"
            raise ShapeError(
                f"{mine.layer}: J has {mine.count} samples, other has {theirs.count} ({why})"
            )


def per_sample_dot(
    own: Selection, other: Selection | None, u: Any, v: Any, out: Values | None = None
) -> Values:
    """Return the inner products of two Jacobians, or of `u J` and `v J'`, for every sample."""
    right = own if other is None else other
    if other is not None:
        _check_others(own, other, "batch")
    first = None if u is None else own.vectors("u", u, lead=False)
    second = first if v is None else right.vectors("v", v, lead=False)
    if first is None and second is not None:
        raise ArgumentError("v is given without u")

    def fill(total: Values) -> None:
        forms = [inner(*pair) for pair in _inner_pairs(own, right, first, second)]
        one_by_one(forms, [total] * len(forms), own.count)

    one = own.any
    shape = (one.count,) if one.batched else ()
    return filled(one, "per_sample_dot", out, shape, fill, samples={0: one})


def _inner_pairs(
    own: Selection, other: Selection, u: Sequence[Values] | None, v: Sequence[Values] | None
) -> Iterator[tuple[Factored, Factored, Values | None, Values | None]]:
    """Yield what meets: with vectors all outputs, which add up in one gradient."""
    for a, first in enumerate(own.outputs):
        for b, second in enumerate(other.outputs):
            if u is None or v is None:
                if first == second:
                    yield from ((*pair, None, None) for pair in own.pairs(first, second, other))
            else:
                yield from ((*pair, u[a], v[b]) for pair in own.pairs(first, second, other))


def norm(own: Selection, u: Any, out: Values | None = None) -> Values:
    """Return the Frobenius norm of every sample's Jacobian, or that of `u J`: `[B]`.

    Squares leave the range long before norms do: they are those of u brought to size one, and are
    computed in double.
    """
    wide, real = own.widened(), np.dtype(own.any.dtype).type(0).real.dtype
    size, scaled = _brought_to_one(own, u)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = per_sample_dot(wide, None, scaled, None)
        lengths = np.sqrt(np.maximum(squares.real, 0)) * size
        return handed(own.any, "norm", out, np.asarray(lengths, real)[()])


def _brought_to_one(own: Selection, u: Any) -> tuple[Any, Any]:
    """Return the largest entry of every sample's u, and u divided by it."""
    if u is None:
        return 1.0, None
    vectors = [v.astype(np.result_type(v, np.float64)) for v in own.vectors("u", u, lead=False)]
    first = 1 if own.any.batched else 0
    largest = [np.abs(v).max(axis=tuple(range(first, v.ndim)), initial=0.0) for v in vectors]
    size = np.max(largest, axis=0)
    size = np.where(np.isfinite(size) & (size > 0), size, 1.0)
    scaled = [v / size.reshape((*size.shape, *(1,) * (v.ndim - first))) for v in vectors]
    shown = [outward(v, range(first), own.any.batch_axis) for v in scaled]
    if own.any.single:
        shown, size = [v[0] for v in scaled], size[0]
    return size, tuple(shown) if len(shown) > 1 else shown[0]


def clipping(own: Selection, u: Any, bound: float) -> list[Values]:
    """Return `u` scaled sample by sample so that no `u J` is longer than `bound`.

    `[B, *out]` for every output, as `Selection.vectors` checks them.
    """
    check_positive("bound", bound)
    lengths = norm(own, u)
    scale = np.ones_like(lengths)
    np.divide(bound, lengths, out=scale, where=lengths > bound)
    if not own.any.batched:
        return [value * scale for value in own.vectors("u", u, lead=False)]
    return [
        value * scale.reshape(-1, *(1,) * (value.ndim - 1))
        for value in own.vectors("u", u, lead=False)
    ]


__all__ = ["Diagonal", "Selection", "clipping", "gram", "norm", "per_sample_dot"]
