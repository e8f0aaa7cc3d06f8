"""Functions for float32: their texts, made of those for float64 by casting every number.

sources by name -> sources of twins by name
In numba a float32 times a number of Python is a double, so each number stands in `np.float32`.
What needs other constants is written out in `numerics/single.py`; its numbers are cast as well.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

PREFIX = "single_"

SAME = frozenset(
    "quarter_less sinh cosh arcsinh arccosh arctanh cbrt cbrt_slope arcsin_slope "
    "arctan_slope arcsinh_slope arccosh_slope arctanh_slope "
    "exp exp2 exp2_slope tanh tanh_slope tanhshrink_slope sigmoid sigmoid_slope at_ends log "
    "log_slope log2 log2_slope log10 log10_slope log1p log1p_slope softplus log_sigmoid logaddexp "
    "logaddexp_slope exp_difference silu silu_slope mish mish_slope gelu_tanh gelu_tanh_slope elu "
    "elu_slope elu_alpha_slope selu selu_slope erf_slope erfc gelu gelu_slope reciprocal "
    "reciprocal_slope softsign softsign_slope power power_slope exp2_curvature log_curvature "
    "log2_curvature log10_curvature log1p_curvature tanh_curvature erf_curvature "
    "sigmoid_curvature softsign_curvature logaddexp_curvature lower_exp elu_curvature "
    "selu_curvature".split()
)
"""Functions whose formula is right in float32 too; all others but those of `numerics/single.py`
compute in float64: what is rare, and second derivatives whose zeros take many digits."""


def single_texts(sources: Mapping[str, str]) -> dict[str, str]:
    """Return the functions for float32, each under its name with `single_` before it."""
    twins = SAME | {n.removeprefix(PREFIX) for n in sources if n.startswith(PREFIX)}
    found = {}
    for name in dict.fromkeys(n.removeprefix(PREFIX) for n in sources):
        if name in twins:
            text = sources.get(PREFIX + name) or sources[name].replace("def ", f"def {PREFIX}", 1)
            found[PREFIX + name] = _cast(text, twins)
    return found


def _cast(text: str, twins: frozenset[str]) -> str:
    """Return a function's text with its numbers cast, and with what it calls by their twins."""
    lines = text.split("\n")
    tree = ast.parse(text)
    kept = {a for n in ast.walk(tree) if _keeps_numbers(n) for a in ast.iter_child_nodes(n)}
    for node in sorted(ast.walk(tree), key=_place, reverse=True):
        number = isinstance(node, (ast.Constant, ast.Attribute))
        new = None if number and node in kept else _replacement(node, twins)
        if new is not None and isinstance(node, ast.expr):
            row, start, end = node.lineno - 1, node.col_offset, node.end_col_offset
            lines[row] = f"{lines[row][:start]}{new}{lines[row][end:]}"
    return "\n".join(lines)


def _keeps_numbers(node: ast.AST) -> bool:
    """Whether numbers in a node may stay doubles: a comparison, or a call of np.double."""
    if isinstance(node, ast.Compare):
        numbers = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
        return all(isinstance(v, int | float) and float(v).is_integer() for v in numbers)
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "np.double"


def _place(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _replacement(node: ast.AST, twins: frozenset[str]) -> str | None:
    """Return what stands in a node's place in the twin, None for the same."""
    match node:
        case ast.Constant(value=float(value)):
            return f"np.float32({value!r})"
        case ast.Attribute(value=ast.Name(id="np"), attr="float64"):
            return "np.float32"
        case ast.Attribute(value=ast.Name(id="np"), attr="nan" | "inf" as name):
            return f"np.float32(np.{name})"
        case ast.Name(id=name) if name in twins:
            return PREFIX + name
    return None
