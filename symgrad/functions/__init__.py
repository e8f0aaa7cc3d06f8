"""The function table (first draft): scalar functions, their slopes and kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from symgrad.program import Access, Apply, Number, Scalar  # noqa: F401


@dataclass(frozen=True, slots=True)
class Kernel:
    call: str
    helpers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    arguments: tuple[str, ...]
    defaults: tuple[float, ...] = ()
    body: Any = None
    from_value: Any = None
    latex: Any = None
    text: Any = None


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
_ARITH = ("add", "sub", "mul", "div", "neg")
FUNCTIONS: dict[str, Any] = {
    n: Function(n, ("z",) if "{1}" not in c else ("a", "b", "c")[: 3 if "{2}" in c else 2]) for n, c in _V.items()
} | {n: Function(n, ("a", "b") if n != "neg" else ("a",)) for n in _ARITH}


def partial(function: str, args: tuple[Scalar, ...], k: int, order: tuple[int, ...] = ()) -> Scalar:
    if not order:
        match function:
            case "add":
                return Number(1)
            case "sub":
                return Number(1 if k == 0 else -1)
            case "neg":
                return Number(-1)
            case "mul":
                return args[1 - k]
            case "div":
                if k == 0:
                    return Apply("div", (Number(1), args[1]))
                return Apply("neg", (Apply("div", (args[0], Apply("mul", (args[1], args[1])))),))
            case "pow" if isinstance(args[1], Number) and k == 0:
                p = args[1].value
                return Apply("mul", (Number(p), args[0] if p == 2 else Apply("pow", (args[0], Number(p - 1)))))
            case "identity":
                return Number(1)
            case "where":
                return Number(0) if k == 0 else Apply("where", (args[0], Number(k == 1), Number(k == 2)))
            case "lt" | "le" | "gt" | "ge" | "eq" | "ne" | "and_" | "or_" | "not_" | "round" | "floor":
                return Number(0)
    unit = tuple(int(i == k) for i in range(len(args)))
    return Apply(function, args, tuple(a + b for a, b in zip(order or (0,) * len(args), unit)))


def kernel(function: str, order: tuple[int, ...] = (), complex: bool = False) -> Kernel:
    call = _D[function] if order else _V[function]
    return Kernel(call, (function,) if function in HELPERS else ())
