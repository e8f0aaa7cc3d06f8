"""The words of the layer language: every name it reserves, by the kind of thing it is.

() -> tuples of names
All are reserved from the first day, whether a later stage knows them yet or not.
"""

from __future__ import annotations

ELEMENTWISE: tuple[str, ...] = tuple(
    "exp exp2 expm1 log log2 log10 log1p sqrt cbrt square reciprocal abs sign sin cos tan arcsin "
    "arccos arctan arctan2 sinh cosh tanh arcsinh arccosh arctanh erf erfc gamma lgamma digamma "
    "maximum minimum clip where hypot logaddexp floor ceil round heaviside".split()
)

ACTIVATIONS: tuple[str, ...] = tuple(
    "identity relu leaky_relu prelu relu6 elu selu celu gelu gelu_tanh silu swish mish softplus "
    "softsign sigmoid log_sigmoid tanhshrink softshrink hardshrink hardtanh hardsigmoid hardswish "
    "threshold".split()
)

AXIS_FUNCTIONS: tuple[str, ...] = tuple(
    "sum mean prod max min var std norm logsumexp softmax log_softmax cumsum normalize".split()
)

SHAPE_KEEPING: tuple[str, ...] = ("softmax", "log_softmax", "cumsum", "normalize")
"""Those of AXIS_FUNCTIONS that do not reduce their axis."""

ARRAY_FUNCTIONS: tuple[str, ...] = tuple(
    "dot outer trace diag transpose reshape concatenate stack squeeze expand_dims broadcast_to pad "
    "tril triu eye zeros ones einsum".split()
)

LINEAR_ALGEBRA: tuple[str, ...] = tuple("inv det logdet solve cholesky".split())

REDUCTIONS: tuple[str, ...] = tuple("sum prod max min mean logsumexp".split())
"""Functions that bind indices in index style: `sum[k](...)`."""

ROLES: tuple[str, ...] = ("input", "param", "const", "index")

SPECIAL: tuple[str, ...] = ("stop_gradient", "delta")

CONSTANTS: tuple[str, ...] = ("pi", "π")

FUNCTION_NAMES: tuple[str, ...] = (
    *ELEMENTWISE,
    *ACTIVATIONS,
    *AXIS_FUNCTIONS,
    *ARRAY_FUNCTIONS,
    *LINEAR_ALGEBRA,
    *SPECIAL,
)

RESERVED: frozenset[str] = frozenset((*FUNCTION_NAMES, *ROLES, *CONSTANTS))
"""Names that no array, dim, index or macro may have."""

PART_TWO: frozenset[str] = frozenset((*LINEAR_ALGEBRA, "cumsum"))
"""Functions that need a hand-written rule instead of a scalar body."""

SIZE_ARGUMENTS: dict[str, int] = {
    "eye": 0,
    "zeros": 0,
    "ones": 0,
    "reshape": 1,
    "broadcast_to": 1,
    "pad": 1,
}
"""Functions with sizes among their arguments, and the first argument that is one."""

GREEK: dict[str, str] = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "zeta": "ζ",
    "eta": "η", "theta": "θ", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ",
    "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω",
}  # fmt: skip
"""Letters to offer where a letter's name is taken."""
