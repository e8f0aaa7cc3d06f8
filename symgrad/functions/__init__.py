"""The function table: scalar functions, their slopes, and the kernels that compute them.

name -> Function, Kernel;  function, args, place -> partial derivative
Nothing else in the package knows what a function of the language is.
"""

from __future__ import annotations

from dataclasses import dataclass

from symgrad.functions.function import Function, Kink
from symgrad.functions.partial import partial
from symgrad.functions.slope import symbols_of, sympy_slope
from symgrad.functions.table import ALIASES, FUNCTIONS

__all__ = [
    "ALIASES",
    "FUNCTIONS",
    "HELPERS",
    "PREAMBLE",
    "Function",
    "Kernel",
    "Kink",
    "kernel",
    "partial",
    "symbols_of",
    "sympy_slope",
]


@dataclass(frozen=True, slots=True)
class Kernel:
    call: str
    helpers: tuple[str, ...] = ()


PREAMBLE = '''try:
    import numba

    _COMPILED = not numba.config.DISABLE_JIT
    loops = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
    sums = numba.njit(
        cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"}
    )
    inline = numba.njit(error_model="numpy", fastmath={"contract"})
except ImportError:
    _COMPILED = False

    def loops(function):
        """Leave a kernel as it is: without numba it runs as plain Python."""
        return function

    sums = inline = loops

if not _COMPILED:
    warnings.warn("numba is absent or switched off: kernels run slowly", RuntimeWarning, stacklevel=2)
'''
_V = {
    "exp": "math.exp({0})", "log": "math.log({0})", "sqrt": "math.sqrt({0})", "sin": "math.sin({0})",
    "cos": "math.cos({0})", "tanh": "math.tanh({0})", "abs": "abs({0})", "square": "{0} * {0}",
    "identity": "{0}", "pow": "{0} ** {1}", "where": "({1} if {0} else {2})",
    "lt": "({0} < {1})", "le": "({0} <= {1})", "gt": "({0} > {1})", "ge": "({0} >= {1})",
    "eq": "({0} == {1})", "ne": "({0} != {1})", "and_": "({0} and {1})", "or_": "({0} or {1})",
    "not_": "(not {0})", "round": "np.round({0})", "floor": "math.floor({0})",
    "sigmoid": "(1.0 / (1.0 + math.exp(-{0})))", "relu": "max(0.0, {0})",
    "softplus": "math.log1p(math.exp({0}))", "gelu": "(0.5 * {0} * (1.0 + math.erf({0} / math.sqrt(2.0))))",
    "silu": "({0} / (1.0 + math.exp(-{0})))", "exp_difference": "exp_difference({0}, {1})",
    "ratio_or_zero": "ratio_or_zero({0}, {1})", "maximum": "max({0}, {1})",
}
_D = {
    "exp": "math.exp({0})", "log": "(1.0 / {0})", "sqrt": "(0.5 / math.sqrt({0}))", "sin": "math.cos({0})",
    "cos": "(-math.sin({0}))", "tanh": "(1.0 - math.tanh({0}) ** 2)", "abs": "np.sign({0})",
    "square": "(2.0 * {0})", "identity": "1.0", "relu": "(1.0 if {0} > 0.0 else 0.0)",
    "sigmoid": "(math.exp(-{0}) / (1.0 + math.exp(-{0})) ** 2)", "softplus": "(1.0 / (1.0 + math.exp(-{0})))",
    "gelu": "(0.5 * (1.0 + math.erf({0} / math.sqrt(2.0))) + {0} * math.exp(-0.5 * {0} * {0}) / math.sqrt(2.0 * math.pi))",
    "silu": "((1.0 + math.exp(-{0}) + {0} * math.exp(-{0})) / (1.0 + math.exp(-{0})) ** 2)",
}
HELPERS = {
    "exp_difference": "@inline\ndef exp_difference(a, b):\n    return 0.0 if a == -np.inf else math.exp(a - b)",
    "ratio_or_zero": "@inline\ndef ratio_or_zero(a, b):\n    return 0.0 if b == 0.0 else a / b",
}


def kernel(function: str, order: tuple[int, ...] = (), complex: bool = False) -> Kernel:
    call = _D[function] if order else _V[function]
    return Kernel(call, (function,) if function in HELPERS else ())
