"""Gauss-Newton forms over all selected Jacobians.

Selection, H -> arrays
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from symgrad.batch import outward
from symgrad.errors import ArgumentError
from symgrad.evaluation import Evaluation
from symgrad.memory import require_results
from symgrad.products.curvature import Curvature, curvature
from symgrad.products.evaluate import filled, opened
from symgrad.products.ggn import curved, ggn_block, ggn_diagonal, rooted
from symgrad.products.gram import mirror
from symgrad.products.linear import pushed, tangents, vjp
from symgrad.products.planned import one_by_one
from symgrad.products.selection import Selection
from symgrad.products.sides import Factored
from symgrad.products.terms import Values

Meeting = tuple[int, int, Curvature]
"""Two outputs by number and the Hessian between them."""


def meetings(own: Selection, H: Any, u: Any) -> list[Meeting]:
    """Return the output Hessians: of every output, or of all pairs where gradients u add up.

    Raises ArgumentError if both H and u are given.
    """
    if u is None:
        given = own.hessians(H)
        return [(n, n, curvature(own.of(o), given[n])) for n, o in enumerate(own.outputs)]
    if H is not None:
        raise ArgumentError("give H or u, not both: with u, H is u uᵀ")
    vectors = own.vectors("u", u, lead=False)
    return [
        (a, b, Curvature(outer=(first.conj(), second)))
        for a, first in enumerate(vectors)
        for b, second in enumerate(vectors)
    ]


def ggn(
    own: Selection, H: Any, u: Any, *, mixed: bool, out: Values | None = None
) -> dict[tuple[str, str], Values]:
    """Return `Σ_b J_bᴴ H_b J_b`, `[*p, *q]` for (θ, φ); only (θ, θ) unless `mixed`."""
    between = meetings(own, H, u)
    found: dict[tuple[str, str], Values] = {}
    pairs = [(p, q) for p in own.parameters for q in (own.parameters if mixed else (p,))]
    if out is None:
        shapes = [_shape(own, *pair)[0] for pair in pairs]
        require_results(own.any.done.module, "ggn", shapes, own.any.dtype.itemsize)
    for first, second in pairs:
        if (second, first) in found and symmetric(H):
            found[first, second] = _swapped(own, found[second, first], second, first)
        else:
            found[first, second] = _block(own, between, first, second, symmetric(H), out)
    return found


def symmetric(H: Any) -> bool:
    """Whether an output Hessian is sure to be symmetric; arrays need not be."""
    return H is None or isinstance(H, str)


def _block(
    own: Selection,
    between: Sequence[Meeting],
    first: str,
    second: str,
    sure: bool,
    out: Values | None,
) -> Values:
    left = own.with_respect_to(first)
    shape, apart = _shape(own, first, second)

    def fill(total: Values) -> None:
        forms = [
            ggn_block(own.blocks[own.outputs[a], first], own.blocks[own.outputs[b], second], H)
            for a, b, H in between
        ]
        one_by_one(forms, [total] * len(forms), left.count)
        if sure and first == second and total.size:
            mirror(total.reshape(-1, prod(left.theta), prod(left.theta)))

    return filled(left, "ggn", out, shape, fill, samples={0: left} if apart else None)


def _shape(own: Selection, first: str, second: str) -> tuple[tuple[int, ...], bool]:
    """Return the shape of one block, and whether its samples stay apart: those of an input do."""
    left, right = own.with_respect_to(first), own.with_respect_to(second)
    apart = left.is_input or right.is_input
    return (*((left.count,) if apart else ()), *left.theta, *right.theta), apart


def _swapped(own: Selection, array: Values, first: str, second: str) -> Values:
    one = own.with_respect_to(first)
    ahead = array.ndim - len(one.theta) - len(own.with_respect_to(second).theta)
    return one.swapped(array, len(one.theta), (0,) * ahead)


def diagonals(own: Selection, H: Any, u: Any, out: Values | None = None) -> dict[str, Values]:
    """Return the diagonal of `Σ_b J_bᴴ H_b J_b`, `[*p]` for every θ; `[B, *in]` for inputs."""
    between = meetings(own, H, u)
    forms, totals, found = [], [], {}
    for name in own.parameters:
        one = own.with_respect_to(name)
        shape = (one.count, *one.theta) if one.is_input else one.theta
        samples = {0: one} if one.is_input else None
        found[name] = opened(one, "ggn_diagonal", out, shape, samples=samples)
        for a, b, middle in between:
            left, right = own.blocks[own.outputs[a], name], own.blocks[own.outputs[b], name]
            forms.append(ggn_diagonal(left, right, middle))
            totals.append(found[name].total)
    one_by_one(forms, totals, own.count)
    return {name: one.result() for name, one in found.items()}


def matvec(own: Selection, v: Any, H: Any, u: Any) -> dict[str, Values]:
    """Return `Σ_b J_bᴴ H_b J_b v` for every θ: by drivers, or by factors, what is cheaper."""
    given, between = tangents(own, v), meetings(own, H, u)
    driven = _driven(own, given)
    if driven is None:
        found = vjp(own, through(own, given, between), per_sample=False)
    else:
        images = driven.push(given, own.any.done.sizes)
        gradients = driven.pull(own.parameters, curved_by(own, images, between))
        found = {name: _seen(own.with_respect_to(name), g) for name, g in gradients.items()}
    if own.any.dtype.kind != "c":
        return found
    return {name: g.conj() for name, g in found.items()}


def _driven(own: Selection, given: Mapping[str, Values]) -> Evaluation | None:
    """Return what runs the drivers of the pass, where they suit and there is one vector."""
    done = own.any.done
    if not isinstance(done.values, Evaluation):
        return None
    shapes = {}
    for name in own.parameters:
        one = own.with_respect_to(name)
        shapes[name] = (*((one.count,) if one.is_input else ()), *one.theta)
    if any(value.shape != shapes[name] for name, value in given.items()):
        return None  # several right-hand sides
    return done.values if done.values.suits(shapes, own.outputs, done.sizes) else None


def _seen(one: Factored, array: Values) -> Values:
    """Return a gradient as callers see it."""
    if one.is_input:
        return array[0] if one.single else outward(array, (0,), one.batch_axis)
    return array if array.ndim else array[()]


def through(
    own: Selection, given: Mapping[str, Values], between: Sequence[Meeting]
) -> list[Values]:
    """Return the conjugate of `H_b J_b v`, `[*lead, B, *out]` for every output."""
    return curved_by(own, pushed(own, given), between)


def curved_by(
    own: Selection, images: Sequence[Values], between: Sequence[Meeting]
) -> list[Values]:
    """Return the conjugate of `H_b y_b` for `y` in every output."""
    results = [np.zeros_like(y) for y in images]
    for a, b, H in between:
        left, right = own.of(own.outputs[a]), own.of(own.outputs[b])
        curved(left, H, right, images[b], results[a])
    return [y.conj() if y.dtype.kind == "c" else y for y in results]


def roots(own: Selection, H: Any, out: Values | None = None) -> dict[tuple[str, str], Values]:
    """Return `L_bᴴ J_b`, `[B, *out, *p]`, with `H = L Lᴴ`, for every output and θ."""
    found = {}
    if out is None:
        shapes = [
            (*((f.count,) if f.batched else ()), *f.out, *f.theta) for f in own.blocks.values()
        ]
        require_results(own.any.done.module, "sqrt_ggn", shapes, own.any.dtype.itemsize)
    for a, _, between in meetings(own, H, None):
        output = own.outputs[a]
        for name in own.parameters:
            one = own.blocks[output, name]
            shape = (*((one.count,) if one.batched else ()), *one.out, *one.theta)

            def fill(total: Values, one: Factored = one, H: Curvature = between) -> None:
                rooted(one, H, total)

            found[output, name] = filled(one, "sqrt_ggn", out, shape, fill, samples={0: one})
    return found


__all__ = ["Meeting", "diagonals", "ggn", "matvec", "meetings", "roots", "through"]
