"""Jacobians as factors: every product is taken with the factors, nothing dense until asked for.

One forward pass -> Jacobians -> arrays
Every product is a formula over the factors, see `symgrad.products`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.batch import inserted, outward
from symgrad.errors import ArgumentError
from symgrad.form import Structured
from symgrad.generation.captions import Caption, caption, is_sample
from symgrad.memory import require_results, within_memory
from symgrad.passes import Pass
from symgrad.products.curvature import curvature
from symgrad.products.evaluate import handed, taken
from symgrad.products.flat import Vec, matrix
from symgrad.products.kronecker import Kronecker, kfac
from symgrad.products.linear import jvp, vjp
from symgrad.products.newton import diagonals, ggn, matvec, roots
from symgrad.products.selection import Diagonal, Selection, clipping, gram, norm, per_sample_dot
from symgrad.products.sides import Factored
from symgrad.products.solve import solve
from symgrad.products.terms import Values
from symgrad.products.variance import variances
from symgrad.program import Index

Make = Callable[[Structured, Pass], Factored]


class Block:
    """The Jacobian of one output with respect to one array, `[B, *out, *p]`, as factors.

    The batch stands first, then the axes of the output, then those of θ, in C order: `layout`
    says which letter is which. There is no batch axis where a single sample was given or the
    layer has no inputs; with `batch_axis=-1` it is the last of `[*out, *p, B]`, and likewise in
    all arrays below that have one: where they say `[B, ...]` it stands where `batch_axis` says.
    """

    def __init__(
        self, structured: Structured, words: Caption, done: Pass, batch_axis: int | None, make: Make
    ) -> None:
        """Note what it is made of; `make` tells it what products are taken with, if one is."""
        self._structured, self._words, self._done = structured, words, done
        self._batch_axis = batch_axis
        self._make = make
        self._found: Factored | None = None

    @property
    def factored(self) -> Factored:
        """What `symgrad.products` takes products with."""
        if self._found is None:
            self._found = self._make(self._structured, self._done)
        return self._found

    def __getstate__(self) -> dict[str, Any]:
        """Pickle what it is made of in place of who makes it, who is not asked again."""
        return {**self.__dict__, "_found": self.factored, "_make": Factored}

    @property
    def pair(self) -> str:
        """The array it is by; of a second derivative both: `W, b`."""
        return self._structured.pair

    @property
    def output(self) -> str:
        """The output it is of."""
        return self._structured.jacobian.output

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the dense array."""
        jacobian = self._structured.jacobian
        own = tuple(self._size(i) for i in (*jacobian.out, *jacobian.axes))
        if self.batch_axis is None:
            return own
        return inserted(own, self._done.sizes["#B"], self.batch_axis)

    @property
    def ndim(self) -> int:
        """The number of axes of the dense array."""
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        """The dtype of all its arrays."""
        return self._done.dtype

    @property
    def structure(self) -> str:
        """What is zero and why: `delta(i, j) * C[b, i, k]`, with C the array `compact()`."""
        return self._caption.structure

    @property
    def formula(self) -> str:
        """The sum of products of `factors()` that rebuilds the dense array."""
        return self._caption.formula

    @property
    def axes(self) -> tuple[str, ...]:
        """The letters that structure and formula use for the axes of the dense array."""
        return self._caption.axes

    @property
    def layout(self) -> str:
        """What the axes are, in order: `[b, i, j, k]: batch, then axis of y, then axes of W, ...`.

        C order: the last runs fastest where the array is flattened.
        """
        return self._caption.layout

    @property
    def batch_axis(self) -> int | None:
        """Where the batch axis stands, None where results have none."""
        return self._batch_axis

    @property
    def _caption(self) -> Caption:
        as_compiled = self.batch_axis == (0 if self.factored.batched else None)
        return self._words if as_compiled else caption(self._structured, self.batch_axis)

    @property
    def _title(self) -> str:
        return self._structured.title

    def __repr__(self) -> str:
        axes = ", ".join(self.axes)
        return f"{self._title}[{axes}] of shape {self.shape} = {self.formula}"

    def dense(self, out: Values | None = None) -> Values:
        """Return the array `[B, *out, *p]` in C order, written into `out` if it is given.

        Raises ShapeError or ArgumentError if `out` does not fit, TooLargeError if memory cannot
        hold the array.
        """
        return self._expand("dense", out)

    def compact(self, out: Values | None = None) -> Values:
        """Return the entries that are not structurally zero, C in `structure`.

        `[B, *out, *(axes of θ that no delta ties)]`; the dense array if there are no zeros.
        """
        kind = "dense" if self._structured.compact is None else "compact"
        return self._expand(kind, out)

    def factors(self) -> dict[str, Values]:
        """Return the factor arrays by the names that `formula` uses, with the axes it gives them.

        They are what this Jacobian is made of, not copies: copy them before writing into them.
        """
        found, values = {}, self._done.values
        for factor, has_batch in self._structured.factors:
            if factor.array is None:
                shape = tuple(self._size(i) for i in factor.indices)
                array = np.broadcast_to(np.ones((), self._done.dtype), shape)
            else:
                array = np.asarray(values[factor.array])
            if factor.array is not None and factor.spread:
                kept = tuple(None if i in factor.spread else slice(None) for i in factor.indices)
                shape = tuple(self._size(i) for i in factor.indices)
                array = np.broadcast_to(array[kept], shape)
            found[factor.label] = self._outward(array) if has_batch else array
        for lookup in self._structured.positions:
            array = np.asarray(values[lookup.array])
            batched = bool(lookup.at) and is_sample(lookup.at[0])
            found[lookup.array] = self._outward(array) if batched else array
        return found

    def _outward(self, array: Values) -> Values:
        """Return an array of all samples with the batch axis as callers have it, if at all."""
        if self.batch_axis is None:
            return array[0]  # type: ignore[no-any-return]
        return outward(array, (0,), self.batch_axis)

    def __getitem__(self, key: object) -> Values:
        raise ArgumentError(
            f"{self._title} is structured and has no entries to index",
            hint="make an array of it first: .dense()[...], or np.asarray(...)",
        )

    __iter__ = None
    """Without it Python would iterate by `__getitem__`."""

    def __getattr__(self, name: str) -> Any:
        message = f"a structured Jacobian has no {name!r}"
        if not name.startswith("_") and hasattr(np.ndarray, name):
            message += f"; an array has: .dense().{name}, or np.asarray(...).{name}"
        raise AttributeError(message)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        if copy is False:
            raise ValueError("a structured Jacobian becomes an array only by making one")
        dense = np.asarray(self.dense())  # of one sample of scalars it is a number
        return dense if dtype is None else dense.astype(dtype, copy=False)

    def take(self, array: Any) -> Values:
        """Return the selected part `[*lead, *part]` of an array like θ, `[*lead, *p]`; a copy.

        Raises ShapeError for an array that is not like θ.
        """
        return self.factored.placing.take(array)

    def scatter(self, part: Any, base: Any = 0) -> Values:
        """Return an array `[*lead, *p]` with `part`, `[*lead, *part]`, in its place in θ.

        Elsewhere it is `base`, a number or an array like θ. Raises ShapeError for what does not
        fit.
        """
        return self.factored.placing.scatter(part, base)

    # ------------------------------------------------------------ products with vectors

    @within_memory
    def jvp(self, v: Any, out: Values | None = None) -> Values:
        """Return J v: `[*p]` (inputs: `[B, *in]`) to `[B, *out]`.

        Several vectors stand along leading axes of `v`; the result has them too.
        """
        return jvp(self.alone, {self._parameter: v}, out, label="v")[0]

    @within_memory
    def vjp(self, u: Any, out: Values | None = None) -> Values:
        """Return Σ_b Σ_out u · J: `[B, *out]` to `[*p]`; inputs keep their batch axis.

        Several vectors stand along leading axes of `u`; the result has them too.
        """
        return self._pulled(u, out, per_sample=False)

    @within_memory
    def per_sample_vjp(self, u: Any, out: Values | None = None) -> Values:
        """Return Σ_out u · J for every sample: `[*lead, B, *out]` to `[*lead, B, *p]`."""
        return self._pulled(u, out, per_sample=True)

    vjp_per_sample = per_sample_vjp

    @within_memory
    def norm(self, u: Any = None, out: Values | None = None) -> Values:
        """Return the Frobenius norm for every sample, or the norm of Σ_out u · J: `[B]`."""
        return norm(self.alone, u, out)

    @within_memory
    def per_sample_dot(
        self, other: Block | None = None, u: Any = None, v: Any = None, out: Values | None = None
    ) -> Values:
        """Return Σ J · J̄' over all axes but the batch, `[B]`; `other` is this one if left out.

        With `u` and `v` (`u` if left out), `[B, *out]`, those of the gradients Σ_out u · J and
        Σ_out v · J'.
        """
        return per_sample_dot(self.alone, _theirs(other), u, v, out)

    @within_memory
    def clipped_vjp(self, u: Any, bound: float, out: Values | None = None) -> Values:
        """Return Σ_b c_b Σ_out u · J, `[*p]`, with c_b = min(1, bound / |Σ_out u · J_b|)."""
        scaled = clipping(self.alone, u, bound)
        return vjp(self.alone, scaled, per_sample=False, out=out)[self._parameter]

    # ------------------------------------------------------------ matrices

    @within_memory
    def gram(
        self,
        other: Block | None = None,
        diagonal: Diagonal = None,
        out: Values | None = None,
    ) -> Values:
        """Return J J'ᴴ, summed over the parameter: `[B, *out, B', *out']`.

        `diagonal="out"` keeps equal outputs only, `[B, B', *out]`; `diagonal="batch"` equal
        samples, `[B, *out, *out']`. Inputs contribute for b = b'. Exactly symmetric (hermitian)
        if `other` is left out. Raises ShapeError if `other` does not fit.
        """
        return next(iter(gram(self.alone, _theirs(other), diagonal, out).values()))

    @within_memory
    def ggn(self, H: Any = None, u: Any = None, out: Values | None = None) -> Values:
        """Return Σ_b Jᴴ H J, `[*p, *p]`; `[B, *in, *in]` for inputs. `Jacobians.ggn` tells H, u."""
        name = self._parameter
        return ggn(self.alone, H, u, mixed=False, out=out)[name, name]

    @within_memory
    def ggn_diagonal(self, H: Any = None, u: Any = None, out: Values | None = None) -> Values:
        """Return the diagonal of Σ_b Jᴴ H J, `[*p]`; `[B, *in]` for inputs."""
        return diagonals(self.alone, H, u, out)[self._parameter]

    @within_memory
    def ggn_matvec(self, v: Any, H: Any = None, u: Any = None, out: Values | None = None) -> Values:
        """Return Σ_b Jᴴ H J v: `[*p]` to `[*p]`, with leading axes for several vectors."""
        found = matvec(self.alone, {self._parameter: v}, H, u)[self._parameter]
        return handed(self.factored, "ggn_matvec", out, found)

    @within_memory
    def sqrt_ggn(self, H: Any = None, out: Values | None = None) -> Values:
        """Return S = Lᴴ J, `[B, *out, *p]`, with H = L Lᴴ: Σ_b Σ_out S̄ S is `ggn(H)`."""
        return next(iter(roots(self.alone, H, out).values()))

    @within_memory
    def kfac(self, H: Any = None) -> Kronecker:
        """Return Kronecker factors of `ggn(H)` for a weight used in a matrix product.

        For W of `W @ x` these are `[m, m]`, summed over samples, and `[n, n]`, a mean: their
        product, rows first, is `ggn(H)` where one is the same for all samples. Axes of θ that
        have factors in common share one factor; positions along which a weight is shared count as
        samples. Raises ArgumentError if J is a sum of products.
        """
        return kfac(self.factored, curvature(self.factored, H))

    @within_memory
    def functional_variance(
        self, Sigma: Any = None, low_rank: Any = None, out: Values | None = None
    ) -> Values:
        """Return J Σ Jᴴ, `[B, *out, *out]`; `Jacobians.functional_variance` tells what Σ may be."""
        name = self._parameter
        variance, factor = (None if x is None else {name: x} for x in (Sigma, low_rank))
        return next(iter(variances(self.alone, variance, factor, out).values()))

    @within_memory
    def solve(self, r: Any, damping: float = 0.0, out: Values | None = None) -> Values:
        """Return the δ `[*p]` that makes |J δ - r|² + damping |δ|² least, for r `[B, *out]`."""
        found = solve(self.alone, r, damping)[self._parameter]
        return handed(self.factored, "solve", out, found)

    @within_memory
    def matrix(self, vec: Vec = "C", out: Values | None = None) -> Values:
        """Return `[B, out, p]`, outputs and θ flattened: the last axis of each runs fastest.

        With `vec="F"` (column-major) the first does, as in `u.ravel(order="F")`.
        """
        return matrix(self.alone, vec, out)

    @within_memory
    def to_scipy(self, format: str = "csr", vec: Vec = "C") -> Any:  # noqa: A002 (scipy's word)
        """Return a sparse array `[B·out, p]` (inputs: `[B·out, B·in]`) without structural zeros.

        Sample by sample, rows and columns as in `matrix`; `Jacobians.to_scipy` tells the rest.
        """
        from symgrad.products.sparse import to_scipy

        return to_scipy(self.alone, format, vec)

    def as_linear_operator(self, vec: Vec = "C") -> Any:
        """Return a `scipy.sparse.linalg.LinearOperator` with the rows and columns of `to_scipy`."""
        from symgrad.products.operators import jacobian_operator

        return jacobian_operator(self.alone, vec)

    @property
    def _parameter(self) -> str:
        return self._structured.jacobian.parameter

    @property
    def alone(self) -> Selection:
        """Itself as a selection of one."""
        return Selection({(self._structured.jacobian.output, self._parameter): self.factored})

    def _pulled(self, u: Any, out: Values | None, *, per_sample: bool) -> Values:
        given = self.alone.vectors("u", u)
        return vjp(self.alone, given, per_sample=per_sample, out=out)[self._parameter]

    def _size(self, index: Index) -> int:
        return index.dim.evaluate(self._done.sizes)

    def _expand(self, kind: str, out: Values | None) -> Values:
        done = self._done
        if out is None and kind == "dense":
            form = "second" if self._structured.jacobian.beside else kind
            require_results(done.module, form, [self.shape], done.dtype.itemsize, self._title)
        driver = getattr(done.module, f"_{kind}_{self._structured.key}")
        common = (done.arrays, done.size_tuple, done.dtype, done.values, done.single)
        if not self._batch_axis:
            plain: Values = driver(*common, out)
            return plain
        jacobian, theta = self._structured.jacobian, self._structured.jacobian.theta
        kept = theta if kind == "dense" else self._structured.untied
        shape = (self.factored.count, *(self._size(i) for i in (*jacobian.out, *kept)))
        first: Values = driver(*common, taken(self.factored, out, shape, (0,)))
        return self._outward(first) if out is None else out


def _theirs(other: Any) -> Selection | None:
    if other is not None and not isinstance(other, Block):
        raise ArgumentError(f"other must be one Jacobian, got {type(other).__name__}")
    return None if other is None else other.alone
