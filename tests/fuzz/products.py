"""What must hold of every product with structured Jacobians: it is that of the dense ones.

layer and arrays, Jacobians -> faults
The dense Jacobians are tested elsewhere. Right-hand sides come in twos, so that leading axes are
tested as well; kinds of covariances and losses take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from dense_forms import Dense, hessian_of
from layers import Sample

from .faults import RTOL, Fault, same, say

Law = tuple[str, str, Any, Any]
"""A law's name, where it was tested, what was found and what is right."""
TWO = 2
"""Right-hand sides."""
ADJOINT = 1e-12
"""Of the sum of absolute products: two ways to sum at most a few thousand of them."""


def product_faults(
    one: Sample, J: Any, largest: Mapping[tuple[str, str], float], rng: np.random.Generator
) -> list[Fault]:
    """Return the laws that some product of the layer's Jacobians breaks.

    `largest` are bounds of the terms of every Jacobian, which may cancel.
    """
    dense = Dense(one, J)
    unit = max(1.0, *largest.values()) ** 2
    found = []
    parts_of = (vectors, kernels, partial(samples, largest), curvatures, roots, variances, steps)
    for part in parts_of:
        for law, where, actual, right in part(one, J, dense, rng):
            right = np.reshape(right, np.shape(actual))
            if not same(actual, right, unit=unit):
                found.append(Fault(f"products {law}", f"{where}: {say(actual, right)}"))
    return found


def vectors(one: Sample, J: Any, D: Dense, rng: np.random.Generator) -> Iterator[Law]:
    """J v and u J, several at a time, and that they are adjoint."""
    W = D.whole()
    u, v = cotangents(D, one, rng), tangents(one, rng)
    pushed, pulled = as_tuple(J.jvp(v)), J.vjp(one.given(u))
    images = columns(D, W @ rows_of(v, D).T).values()
    for o, y, right in zip(D.outputs, pushed, images, strict=True):
        yield "jvp", o, y, right
    whole = parts(D, flat_outputs(u) @ W)
    for n, g in pulled.items():
        yield "vjp", n, g, whole[n]
    each = J.per_sample_vjp(one.given(u))
    for n, g in each.items():
        right = sum(
            np.einsum("lbi,bip->lbp", x.reshape(TWO, D.count, -1), D.of[o, n])
            for o, x in zip(D.outputs, u, strict=True)
        )
        yield "per_sample_vjp", n, g, right
    pairs = [(x, y) for x, y in zip(u, pushed, strict=True)], [(pulled[n], v[n]) for n in v]
    left, right = (sum(np.sum(a * b) for a, b in side) for side in pairs)
    size = sum(np.sum(np.abs(a * b)) for side in pairs for a, b in side)
    yield "adjoint", "jvp, vjp", np.float64(abs(left - right) > ADJOINT * (size + 1e-3)), 0.0


def kernels(one: Sample, J: Any, D: Dense, rng: np.random.Generator) -> Iterator[Law]:
    """Gram matrices in all three shapes, with itself and as if with another batch."""
    whole, mirrored = by_pairs(D, J.gram()), by_pairs(D, J.gram(J))
    own = by_pairs(D, J.gram(diagonal="batch"))
    equal = as_mapping(D, J.gram(diagonal="out"))
    for o, q in whole:
        right = D.gram(D, o, q)
        yield "gram", f"{o}, {q}", whole[o, q], right
        yield "gram of another", f"{o}, {q}", mirrored[o, q], right
        yield "gram of samples", f"{o}, {q}", own[o, q], np.einsum("bibj->bij", right)
        if o == q:
            yield "gram of outputs", o, equal[o], np.einsum("bici->bci", right)
            matrix = whole[o, o].reshape(right.shape[0] * right.shape[1], -1)
            yield "gram symmetric", o, matrix - matrix.T, np.zeros(matrix.shape)
            least, most = extremes(matrix)
            yield "gram positive", o, np.float64(least < -1e-9 * max(most, 1e-3)), 0.0


def samples(
    largest: Mapping[tuple[str, str], float], one: Sample, J: Any, D: Dense,
    rng: np.random.Generator,
) -> Iterator[Law]:  # fmt: skip
    """Norms, inner products and clipping of every sample's gradient."""
    u, v = ([x[0] for x in cotangents(D, one, rng)] for _ in range(2))
    ours, theirs = ({n: gradient(D, w, n) for n in D.names} for w in (u, v))
    lengths, others = (np.sqrt(sum((g**2).sum(1) for g in gs.values())) for gs in (ours, theirs))
    size, sizes = np.zeros(D.count), np.zeros(D.count)  # of the terms: they may cancel
    for (o, n), most in largest.items():
        sums = np.abs(u[D.outputs.index(o)].reshape(D.count, -1)).sum(1)
        size += D.of[o, n][0].size * most**2
        sizes += size_of(D, n) * (most * sums) ** 2 * len(D.outputs)
    squares = sum((b**2).sum((1, 2)) for b in D.of.values())
    found = np.reshape(J.norm(), -1)
    yield "norm", "J", excused(found, np.sqrt(squares), size), np.sqrt(squares)
    found = np.reshape(J.norm(one.given(tuple(u))), -1)
    yield "norm", "u J", excused(found, lengths, sizes), lengths
    yield "per_sample_dot", "J, J", J.per_sample_dot(J), squares
    dots = sum((ours[n] * theirs[n]).sum(1) for n in D.names)
    found = np.reshape(J.per_sample_dot(u=one.given(tuple(u)), v=one.given(tuple(v))), -1)
    room = 1e-12 * (lengths * others + sizes)
    yield "per_sample_dot", "u J, v J", np.where(abs(found - dots) <= room, dots, found), dots
    bound = max(0.9 * float(np.median(lengths)), 1e-3 * float(np.sqrt(sizes.max(initial=0))), 1e-3)
    factor = np.minimum(1, bound / np.maximum(lengths, bound / 2))[:, None]
    for n, g in J.clipped_vjp(one.given(tuple(u)), bound).items():
        clipped = ours[n] * factor
        yield "clipped_vjp", n, g, clipped if n in D.inputs else clipped.sum(0)


def excused(found: Any, lengths: Any, squares: Any) -> Any:
    """Return norms, the right ones where their squares are right up to those of the terms."""
    near = np.abs(found**2 - lengths**2) <= RTOL * lengths**2 + 1e-13 * squares
    return np.where(near, lengths, found)


def curvatures(one: Sample, J: Any, D: Dense, rng: np.random.Generator) -> Iterator[Law]:
    """Gauss-Newton matrices, their diagonals and products for one kind of output Hessian."""
    kind, given, u, flat = output_hessian(one, D, rng)
    found, diagonals = J.ggn(given, u), J.ggn_diagonal(given, u)
    for (p, q), array in found.items():
        right = D.ggn(flat, p, q)
        yield f"ggn {kind}", f"{p}, {q}", array, right
        if p == q:
            diagonal = np.diagonal(right, axis1=-2, axis2=-1)
            yield f"ggn_diagonal {kind}", p, diagonals[p], diagonal
    v, W = tangents(one, rng), D.whole()
    image = rows_of(v, D) @ W.T
    curved = sum(
        (block_diagonal(D, h, o, q) @ image.T for (o, q), h in hessian_pairs(flat).items()),
        np.zeros(image.T.shape),
    )
    whole = parts(D, curved.T @ W)
    for n, g in J.ggn_matvec(v, given, u).items():
        yield f"ggn_matvec {kind}", n, g, whole[n]


def roots(one: Sample, J: Any, D: Dense, rng: np.random.Generator) -> Iterator[Law]:
    """A square root of the Gauss-Newton matrix, whose square it must be."""
    flat, given = random_hessians(one, D, rng, definite=True)
    if not all(len(h) for h in flat.values()):
        return
    found = J.sqrt_ggn(given)
    for (o, p), S in zip(D.of, found.values(), strict=True):
        rows = S.reshape(D.of[o, p].shape)
        squares = rows.swapaxes(1, 2) @ rows
        right = D.ggn({o: flat[o]}, p, p)
        yield "sqrt_ggn", f"{o}, {p}", squares if p in D.inputs else squares.sum(0), right


def variances(one: Sample, J: Any, D: Dense, rng: np.random.Generator) -> Iterator[Law]:
    """J Σ Jᵀ for one kind of covariance."""
    kind = rng.choice(["number", "diagonal", "dense", "kronecker", "low rank", "joint"])
    if kind == "joint" and D.inputs:
        kind = "dense"
    given, full = COVARIANCES[kind](D, rng)
    found = J.functional_variance(low_rank=given) if kind == "low rank" else (
        J.functional_variance(given))  # fmt: skip
    for (o, q), array in by_pairs(D, found).items():
        right = sum(D.of[o, a] @ S @ D.of[q, b].swapaxes(1, 2) for (a, b), S in full.items())
        yield f"functional_variance {kind}", f"{o}, {q}", array, right


def steps(one: Sample, J: Any, D: Dense, rng: np.random.Generator) -> Iterator[Law]:
    """Damped least squares, well-conditioned: the damping is as large as the matrix."""
    W, r = D.whole(), cotangents(D, one, rng)
    damping = float((W**2).sum()) + 1e-3
    matrix = W.T @ W + damping * np.eye(W.shape[1])
    right = parts(D, np.linalg.solve(matrix, W.T @ flat_outputs(r).T).T)
    for n, g in J.solve(one.given(r), damping).items():
        yield "solve", n, g, right[n]


# ------------------------------------------------------------ what is given


def cotangents(D: Dense, one: Sample, rng: np.random.Generator) -> tuple[Any, ...]:
    """Return two random u an output."""
    batch = (D.count,) if one.batched else ()
    return tuple(rng.normal(size=(TWO, *batch, *D.out[o])) for o in D.outputs)


def tangents(one: Sample, rng: np.random.Generator) -> dict[str, Any]:
    """Return two random tangents of every θ."""
    return {n: rng.normal(size=(TWO, *np.shape(one.arrays[n]))) for n in one.jac.wrt}


def random_hessians(
    one: Sample, D: Dense, rng: np.random.Generator, *, definite: bool
) -> tuple[dict[str, Any], Any]:
    """Return symmetric H by output, `[B, m, m]`, and as calls take them."""
    flat, given = {}, []
    batch = (D.count,) if one.batched else ()
    for o, shape in D.out.items():
        size = int(np.prod(shape))
        h = rng.normal(size=(D.count, size, size))
        flat[o] = h @ h.swapaxes(1, 2) if definite else h + h.swapaxes(1, 2)
        given.append(flat[o].reshape((*batch, *shape, *shape)))
    return flat, one.given(tuple(given))


def output_hessian(
    one: Sample, D: Dense, rng: np.random.Generator
) -> tuple[str, Any, Any, dict[Any, Any]]:
    """Return a kind of H, the arguments H and u, and `[B, m, m]` by output or pairs of them."""
    losses = ["mse", "poisson", "binary_cross_entropy"]
    losses += ["cross_entropy"] if all(D.out.values()) else []
    tame = all(np.abs(y).max(initial=0.0) < 20 for y in D.value.values())
    kind = str(rng.choice(["identity", "given", "gradients", *(losses if tame else ())]))
    if kind == "identity":
        return kind, None, None, D.identity()
    if kind == "given":
        flat, given = random_hessians(one, D, rng, definite=False)
        return kind, given, None, flat
    if kind == "gradients":
        u = tuple(x[0] for x in cotangents(D, one, rng))
        rows = {o: x.reshape(D.count, -1) for o, x in zip(D.outputs, u, strict=True)}
        pairs = {(a, b): np.einsum("bi,bj->bij", rows[a], rows[b]) for a in rows for b in rows}
        return kind, None, one.given(u), pairs
    return kind, kind, None, {o: hessian_of(kind, D.value[o], D.out[o]) for o in D.outputs}


Given = tuple[Any, dict[tuple[str, str], Any]]
"""A covariance as calls take it, and `[.., P, Q]` by pairs of parameters."""


def number(D: Dense, rng: np.random.Generator) -> Given:
    return 0.5, {(n, n): 0.5 * np.eye(size_of(D, n)) for n in D.names}


def of_each(make: Callable[..., tuple[Any, Any]]) -> Callable[[Dense, np.random.Generator], Given]:
    """Return a kind of covariance that is made θ by θ, from its shape and batch axes."""

    def made(D: Dense, rng: np.random.Generator) -> Given:
        given, full = {}, {}
        for n in D.names:
            batch = (D.count,) if n in D.inputs else ()
            given[n], full[n, n] = make(rng, batch, D.theta[n], size_of(D, n))
        return given, full

    return made


def diagonal(rng: Any, batch: Any, shape: Any, size: int) -> tuple[Any, Any]:
    spread = rng.uniform(size=(*batch, *shape))
    return spread, spread.reshape((*batch, size, 1)) * np.eye(size)


def dense(rng: Any, batch: Any, shape: Any, size: int) -> tuple[Any, Any]:
    whole = rng.normal(size=(*batch, *shape, *shape))
    return whole, whole.reshape(*batch, size, size)


def kronecker(rng: Any, batch: Any, shape: Any, size: int) -> tuple[Any, Any]:
    factors = tuple(rng.normal(size=(*batch, n, n)) for n in shape)
    whole = np.ones((*batch, 1, 1))
    for f in factors:
        n = whole.shape[-1] * f.shape[-1]
        whole = np.einsum("...ij,...kl->...ikjl", whole, f).reshape(*batch, n, n)
    return factors, whole


def joint(D: Dense, rng: np.random.Generator) -> Given:
    given, full = {}, {}
    for a in D.names:
        for b in D.names:
            given[a, b] = rng.normal(size=(*D.theta[a], *D.theta[b]))
            full[a, b] = given[a, b].reshape(size_of(D, a), size_of(D, b))
    return given, full


def low_rank(D: Dense, rng: np.random.Generator) -> Given:
    given, flat = {}, {}
    for n in D.names:
        batch = (D.count,) if n in D.inputs else ()
        given[n] = rng.normal(size=(*batch, *D.theta[n], 2))
        flat[n] = given[n].reshape(*batch, size_of(D, n), 2)
    return given, {(a, b): flat[a] @ np.swapaxes(flat[b], -1, -2) for a in flat for b in flat}


COVARIANCES: dict[str, Callable[[Dense, np.random.Generator], Given]] = {
    "number": number,
    "diagonal": of_each(diagonal),
    "dense": of_each(dense),
    "kronecker": of_each(kronecker),
    "joint": joint,
    "low rank": low_rank,
}


# ------------------------------------------------------------ shapes


def size_of(D: Dense, name: str) -> int:
    """The number of entries of θ."""
    return int(np.prod(D.theta[name]))


def as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def as_mapping(D: Dense, found: Any) -> dict[Any, Any]:
    return found if len(D.outputs) > 1 else {D.outputs[0]: found}


def by_pairs(D: Dense, found: Any) -> dict[tuple[str, str], Any]:
    return found if len(D.outputs) > 1 else {(D.outputs[0], D.outputs[0]): found}


def flat_outputs(u: Sequence[Any]) -> Any:
    """Return vectors of all outputs one behind the other, `[2, rows of J]`."""
    return np.concatenate([x.reshape(TWO, -1) for x in u], axis=1)


def rows_of(v: dict[str, Any], D: Dense) -> Any:
    """Return tangents of all θ one behind the other, `[2, columns of J]`."""
    return np.concatenate([v[n].reshape(TWO, -1) for n in D.names], axis=1)


def parts(D: Dense, whole: Any) -> dict[str, Any]:
    """Return what stands in the columns of every θ, `[2, entries]`."""
    sizes = [size_of(D, n) * (D.count if n in D.inputs else 1) for n in D.names]
    return dict(zip(D.names, np.split(whole, np.cumsum(sizes)[:-1], axis=1), strict=True))


def columns(D: Dense, whole: Any) -> dict[str, Any]:
    """Return what stands in the rows of every output, `[2, entries]`."""
    sizes = [D.count * int(np.prod(D.out[o])) for o in D.outputs]
    return dict(zip(D.outputs, np.split(whole.T, np.cumsum(sizes)[:-1], axis=1), strict=True))


def gradient(D: Dense, u: Sequence[Any], name: str) -> Any:
    """Return every sample's Σ_out u · J, `[B, P]`."""
    return sum(
        np.einsum("bi,bip->bp", x.reshape(D.count, -1), D.of[o, name])
        for o, x in zip(D.outputs, u, strict=True)
    )


def hessian_pairs(H: dict[Any, Any]) -> dict[tuple[str, str], Any]:
    return {(k if isinstance(k, tuple) else (k, k)): h for k, h in H.items()}


def block_diagonal(D: Dense, h: Any, o: str, q: str) -> Any:
    """Return H between two outputs as part of a matrix over all rows of J."""
    sizes = {n: D.count * int(np.prod(D.out[n])) for n in D.outputs}
    starts = dict(zip(sizes, np.cumsum([0, *sizes.values()]), strict=False))
    total = np.zeros((sum(sizes.values()),) * 2)
    middle = np.einsum("bij,bc->bicj", h, np.eye(D.count)).reshape(sizes[o], sizes[q])
    total[starts[o] : starts[o] + sizes[o], starts[q] : starts[q] + sizes[q]] = middle
    return total


def extremes(matrix: Any) -> tuple[float, float]:
    """Return the smallest and the largest eigenvalue, zeros for an empty matrix."""
    values = np.linalg.eigvalsh(matrix)
    return float(values.min(initial=0.0)), float(values.max(initial=0.0))


__all__ = ["product_faults"]
