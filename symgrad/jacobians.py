"""All Jacobians of one call, by name, and the products with all of them together.

Blocks -> Jacobians -> arrays
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from symgrad.arguments import require_mapping
from symgrad.errors import ArgumentError, MissingKeyError, similar
from symgrad.evaluation import Later
from symgrad.memory import within_memory
from symgrad.products import flat
from symgrad.products.flat import Vec
from symgrad.products.kronecker import Kronecker
from symgrad.products.linear import jvp, vjp
from symgrad.products.newton import diagonals, ggn, matvec, roots
from symgrad.products.selection import Diagonal, Selection, clipping, gram, norm, per_sample_dot
from symgrad.products.solve import solve
from symgrad.products.terms import Values
from symgrad.products.variance import variances
from symgrad.structured import Block

Key = Any
SHOWN = 20
"""How many Jacobians `repr` lists."""


class Jacobians(Mapping[Key, Block]):
    """All selected Jacobians of one call: θ -> Block, or (output, θ) -> Block.

    Shapes below have the batch first: `[B, *out, *p]` is the batch, then the axes of the output,
    then those of θ, in C order (the last runs fastest). With `batch_axis=` in `compile` the axis B
    stands there among those that follow it. One sample has none. Leading axes `*lead` stay ahead.

    `value` is the output of the same pass (a tuple for several outputs).
    """

    def __init__(self, value: Later, blocks: dict[tuple[str, str], Block], several: bool) -> None:
        self._value = value
        self._several = several
        self._blocks = {(k if several else k[1]): b for k, b in blocks.items()}
        self._by_pair = blocks

    @property
    def selection(self) -> Selection:
        """What `symgrad.products` takes products with."""
        return Selection({pair: block.factored for pair, block in self._by_pair.items()})

    @property
    def value(self) -> Any:
        """The output of the same pass; a tuple for several outputs."""
        return self._value.get()

    def restricted(self, names: Collection[str]) -> Jacobians:
        """Return those with respect to some arrays, from the same pass."""
        blocks = {pair: b for pair, b in self._by_pair.items() if pair[1] in names}
        return Jacobians(self._value, blocks, self._several)

    def __getitem__(self, key: Key) -> Block:
        try:
            return self._blocks[key]
        except KeyError:
            known = ", ".join(map(repr, list(self._blocks)[:SHOWN]))
            more = ", ..." if len(self) > SHOWN else ""
            kind = "; keys are (output, array)" if self._several else ""
            names = [k for k in self._blocks if isinstance(k, str)]
            near = similar(key, names) if isinstance(key, str) else None
            message = f"no Jacobian for {key!r}{kind}: there are {known}{more}"
            hint = f"did you mean {near!r}?" if near else "compile with it in wrt="
            raise MissingKeyError(message, hint=hint) from None

    def __iter__(self) -> Iterator[Key]:
        return iter(self._blocks)

    def __len__(self) -> int:
        return len(self._blocks)

    def __repr__(self) -> str:
        lines = [repr(block) for block in self._blocks.values()]
        if len(lines) > SHOWN:
            lines[SHOWN - 1 :] = [f"... and {len(lines) - SHOWN + 1} more"]
        return "\n".join(lines)

    def scatter(self, parts: Mapping[str, Any], base: Mapping[str, Any] | None = None) -> Any:
        """Return {θ: array `[*lead, *p]`} with the parts {θ: `[*lead, *part]`} in their places.

        Elsewhere is what `base`, {θ: array}, has there, or zero. Raises ArgumentError for a name
        that is not selected, ShapeError for what does not fit.
        """
        require_mapping("parts", parts)
        found = {}
        for name, part in parts.items():
            if name not in self.selection.parameters:
                known = ", ".join(self.selection.parameters)
                raise ArgumentError(f"nothing called {name!r} is selected; there are {known}")
            placing = self.selection.with_respect_to(name).placing
            found[name] = placing.scatter(part, (base or {}).get(name, 0))
        return found

    # ------------------------------------------------------------ products with vectors

    @within_memory
    def vjp(self, u: Any) -> dict[str, Values]:
        """Return {θ: Σ_b Σ_out u · J, `[*lead, *p]`}; `u` is `[*lead, B, *out]`.

        It is a tuple where there are several outputs. Leading axes are right-hand sides.
        """
        return vjp(self.selection, self._vectors(u), per_sample=False)

    @within_memory
    def per_sample_vjp(self, u: Any) -> dict[str, Values]:
        """Return {θ: Σ_out u · J for every sample, `[*lead, B, *p]`}."""
        return vjp(self.selection, self._vectors(u), per_sample=True)

    vjp_per_sample = per_sample_vjp

    @within_memory
    def jvp(self, tangents: Mapping[str, Any], out: Values | None = None) -> Any:
        """Return J t, `[*lead, B, *out]`, for {θ: tangent `[*lead, *p]`}; missing ones are zero.

        A tuple for several outputs. Leading axes are right-hand sides.
        """
        if out is not None and self._several:
            raise ArgumentError("jvp takes out where there is one output only")
        found = jvp(self.selection, tangents, out)
        return tuple(found) if self._several else found[0]

    @within_memory
    def norm(self, u: Any = None, out: Values | None = None) -> Values:
        """Return every sample's Frobenius norm over all θ and outputs, `[B]`.

        With `u`, `[B, *out]`, the norm of every sample's gradient Σ_out u · J. Nothing of the
        size of J is built. Squares are right up to rounding of the squares of J's terms: where
        terms cancel, a norm below a hundred-millionth of theirs (float64) is noise.
        """
        return norm(self.selection, u, out)

    @within_memory
    def per_sample_dot(
        self,
        other: Jacobians | None = None,
        u: Any = None,
        v: Any = None,
        out: Values | None = None,
    ) -> Values:
        """Return Σ J · J̄' over all θ and outputs, for every sample, `[B]`.

        `other` is this one if left out. With `u` and `v` (`u` if left out), `[B, *out]`, the
        inner products of the gradients Σ_out u · J and Σ_out v · J'.
        """
        return per_sample_dot(self.selection, _theirs(other), u, v, out)

    @within_memory
    def clipped_vjp(self, u: Any, bound: float) -> dict[str, Values]:
        """Return {θ: Σ_b c_b Σ_out u · J_b}, c_b = min(1, bound / |Σ_out u · J_b|).

        The norm is that over all θ: a sum of per-sample gradients none of which is longer than
        `bound`. Raises ArgumentError for a negative bound.
        """
        return vjp(self.selection, clipping(self.selection, u, bound), per_sample=False)

    # ------------------------------------------------------------ matrices

    @within_memory
    def gram(
        self,
        other: Jacobians | None = None,
        diagonal: Diagonal = None,
        out: Values | None = None,
    ) -> Any:
        """Return J J'ᴴ, summed over all θ (the empirical neural tangent kernel).

        `[B, *out, B', *out]`; `diagonal="out"` keeps equal outputs, `[B, B', *out]`,
        `diagonal="batch"` equal samples, `[B, *out, *out]`. Inputs contribute for b = b' only.
        Exactly symmetric (hermitian) if `other` is left out. For several outputs {(output,
        output'): array}, with `diagonal="out"` {output: array}. Raises ShapeError or
        ArgumentError if `other` or `out` does not fit.
        """
        found = gram(self.selection, _theirs(other), diagonal, out)
        if not self._several:
            return next(iter(found.values()))
        return {a: g for (a, _), g in found.items()} if diagonal == "out" else found

    @within_memory
    def ggn(self, H: Any = None, u: Any = None, blocks: str = "all") -> dict[Any, Values]:
        """Return the Gauss-Newton matrix Σ_b J_bᴴ H_b J_b as {(θ, φ): `[*p, *q]`}.

        `blocks="diagonal"` gives {θ: `[*p, *p]`} alone. Where θ or φ is an input, samples stay
        apart: `[B, *p, *q]`. H is None for the identity, an array `[B, *out, *out]`, or a loss by
        name, whose Fisher matrix this is: "mse" (½ Σ (y - t)²; the identity), "cross_entropy"
        (y are logits of classes along the last axis), "poisson" (y is the logarithm of the rate),
        "binary_cross_entropy" (y are logits). Losses are summed over samples and outputs. For
        several outputs it is a tuple, one an output. With `u`, the gradients of the loss
        `[B, *out]`, in its place, this is the empirical Fisher matrix: H = u uᵀ.
        """
        if blocks not in ("all", "diagonal"):
            raise ArgumentError(f"blocks must be 'all' or 'diagonal', got {blocks!r}")
        found = ggn(self.selection, H, u, mixed=blocks == "all")
        return dict(found) if blocks == "all" else {a: g for (a, _), g in found.items()}

    @within_memory
    def ggn_diagonal(self, H: Any = None, u: Any = None) -> dict[str, Values]:
        """Return {θ: the diagonal of Σ_b J_bᴴ H_b J_b, `[*p]`}; inputs `[B, *in]`. See `ggn`."""
        return diagonals(self.selection, H, u)

    @within_memory
    def ggn_matvec(self, v: Mapping[str, Any], H: Any = None, u: Any = None) -> dict[str, Values]:
        """Return {θ: (Σ_b J_bᴴ H_b J_b v)_θ} for {θ: v `[*lead, *p]`}; missing ones are zero.

        See `ggn` for H and u.
        """
        return matvec(self.selection, v, H, u)

    @within_memory
    def sqrt_ggn(self, H: Any = None) -> dict[Key, Values]:
        """Return {θ: S = L_bᴴ J_b, `[B, *out, *p]`} with H = L Lᴴ; for several outputs by pairs.

        Σ_b Σ_out conj(S) S is `ggn(H)`: rows are not scaled by the number of samples. Raises
        ArgumentError for an H that is not positive semidefinite.
        """
        found = roots(self.selection, H)
        return {(k if self._several else k[1]): s for k, s in found.items()}

    @within_memory
    def kfac(self, H: Any = None) -> dict[Key, Kronecker]:
        """Return {θ: Kronecker factors of its block of `ggn(H)`}; for several outputs by pairs.

        See `Block.kfac`. Raises ArgumentError if some J is a sum of products; take the block of
        one θ then: `J["W"].kfac(H)`.
        """
        given = self.selection.hessians(H)
        outputs = self.selection.outputs
        return {
            key: block.kfac(given[outputs.index(pair[0])])
            for (key, block), pair in zip(self._blocks.items(), self._by_pair, strict=True)
        }

    @within_memory
    def functional_variance(
        self, Sigma: Any = None, low_rank: Any = None, out: Values | None = None
    ) -> Any:
        """Return J Σ Jᴴ, `[B, *out, *out]`, what a covariance Σ of the parameters makes of y.

        Sigma is a number (that multiple of the identity) or {θ: Σ_θ} and {(θ, φ): `[*p, *q]`}
        (both orders). Σ_θ is a number, a diagonal `[*p]`, all of it `[*p, *p]`, or a Kronecker
        product: one `[p_k, p_k]` for each axis, or what `kfac(...)[θ].inverse()` returns.
        `low_rank` is {θ: U_θ `[*p, r]`}, one r for all, and adds U Uᴴ. Covariances of inputs have
        a leading batch axis. For several outputs {(output, output'): array}.
        """
        found = variances(self.selection, Sigma, low_rank, out)
        return found if self._several else next(iter(found.values()))

    @within_memory
    def solve(self, r: Any, damping: float = 0.0) -> dict[str, Values]:
        """Return the {θ: δ `[*p]`} that makes |J δ - r|² + damping |δ|² least, r `[B, *out]`.

        It solves (Jᴴ J + damping I) δ = Jᴴ r by the smaller of the parameters' side and that of
        all outputs of all samples. The condition number of J is squared by either. Leading axes
        of `r` are right-hand sides. Raises ArgumentError where δ is not unique: give more damping.
        """
        return solve(self.selection, r, damping)

    # ------------------------------------------------------------ flat vectors and matrices

    @property
    def rows(self) -> dict[str, slice]:
        """The rows of each output among those of one sample, in `matrix` and wherever J is flat."""
        return flat.rows(self.selection)

    @property
    def columns(self) -> dict[str, slice]:
        """The columns of each θ in `matrix`."""
        return flat.columns(self.selection)

    @property
    def flat_columns(self) -> dict[str, slice]:
        """The entries of each θ in flat vectors, and its columns in `to_scipy` and operators.

        Those of `columns`, but inputs have theirs for every sample, one sample after the other.
        """
        return flat.flat_columns(self.selection)

    @within_memory
    def matrix(self, vec: Vec = "C", out: Values | None = None) -> Values:
        """Return J as one matrix for every sample, `[B, out, p]`.

        Rows are the outputs in declared order (`rows`), each flattened; columns are all θ in
        declared order (`columns`), each flattened: the last axis runs fastest with `vec="C"` (row
        by row), the first with `vec="F"` (column by column: ∂y/∂W of W x is xᵀ ⊗ I). Columns of an
        input are those of the sample's own.
        """
        return flat.matrix(self.selection, vec, out)

    def flatten(self, given: Mapping[str, Any], vec: Vec = "C") -> Values:
        """Return {θ: `[*lead, *p]`} as one vector `[*lead, p]`, θ after θ as in `flat_columns`.

        Inputs, `[B, *in]`, go sample by sample. All θ must be there.
        """
        return flat.flatten(self.selection, given, vec)

    def unflatten(self, vector: Any, vec: Vec = "C") -> dict[str, Values]:
        """Return {θ: `[*lead, *p]`} of a vector `[*lead, p]`; views of it where they can be."""
        return flat.unflatten(self.selection, vector, vec)

    def flatten_outputs(self, u: Any, vec: Vec = "C") -> Values:
        """Return `[*lead, B, *out]` (a tuple for several outputs) as one vector `[*lead, B·out]`.

        It goes sample by sample, and within each as `rows`, as the rows of `to_scipy` do.
        """
        return flat.flatten_outputs(self.selection, u, vec)

    def unflatten_outputs(self, vector: Any, vec: Vec = "C") -> Any:
        """Return `[*lead, B, *out]` (a tuple for several outputs) of a vector `[*lead, B·out]`."""
        found = flat.unflatten_outputs(self.selection, vector, vec)
        return tuple(found) if self._several else found[0]

    @within_memory
    def to_scipy(self, format: str = "csr", vec: Vec = "C") -> Any:  # noqa: A002 (scipy's word)
        """Return J as a sparse array of SciPy, `[B·out, p]`, without its structural zeros.

        `format` is "csr", "csc", "coo", "bsr" (in blocks that have no zeros) or another of
        SciPy's. Rows go sample by sample as in `flatten_outputs`, columns as in `flatten`: those
        of an input are block-diagonal, a block for every sample. What is not zero by structure
        (`structure`) is stored, whatever its value; it is made from the factors, never from the
        dense array. Raises MissingExtraError where SciPy is not installed.
        """
        from symgrad.products.sparse import to_scipy

        return to_scipy(self.selection, format, vec)

    def as_linear_operator(self, vec: Vec = "C") -> Any:
        """Return J as a `scipy.sparse.linalg.LinearOperator`, `[B·out, p]`, for lsmr and others.

        Rows and columns are those of `to_scipy`. Products with a matrix take all its columns at
        once. Raises MissingExtraError where SciPy is not installed.
        """
        from symgrad.products.operators import jacobian_operator

        return jacobian_operator(self.selection, vec)

    def ggn_operator(
        self, H: Any = None, u: Any = None, damping: float = 0.0, vec: Vec = "C"
    ) -> Any:
        """Return Σ_b J_bᴴ H_b J_b + damping I as a symmetric `LinearOperator`, `[p, p]`.

        For cg and eigsh; vectors are those of `flatten`. See `ggn` for H and u; an array H must
        be symmetric (hermitian). Raises ArgumentError, MissingExtraError.
        """
        from symgrad.products.operators import ggn_operator

        return ggn_operator(self.selection, H, u, damping, vec)

    def _vectors(self, u: Any) -> list[Values]:
        return self.selection.vectors("u", u)


def _theirs(other: Any) -> Selection | None:
    if other is not None and not isinstance(other, Jacobians):
        raise ArgumentError(f"other must be the Jacobians of a call, got {type(other).__name__}")
    return None if other is None else other.selection
