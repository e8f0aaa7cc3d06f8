"""What generated code calls things: arrays, sizes, and which words are its own.

name, dim -> text
"""

from __future__ import annotations

import re

from symgrad.dims import Dim
from symgrad.functions import HELPERS

RESERVED = frozenset(
    "np math os warnings numba range abs max min float int bool len tuple type arrays sizes dtype "
    "v t tangents until single out copied total largest value best shift scale ratio product b_ "
    "found only loops sums inline forward jacobian vjp jvp pullback print number stream clear "
    "wide way stage some".split()
)
"""Words of generated code that arrays must not be called in drivers and kernels."""

CALLED = frozenset(
    "np math range abs max min float int bool len number stream clear wide".split()
) | {*HELPERS}
"""What kernels call: no loop variable and no local may hide it."""


def code_name(name: str) -> str:
    """Return what generated code calls an array: its own name, moved aside if code needs that.

    Two arrays never get one name: `t` becomes `t_`, and a `t_` of the layer `t__`.
    """
    stem = name.rstrip("_")
    aside = stem in RESERVED or stem in HELPERS or stem.startswith(("n_", "_"))
    return f"{name}_" if aside else name


def dim_text(dim: Dim) -> str:
    """Return a dim as integer arithmetic over `n_` names."""
    text = re.sub(r"(?<!\w)n_(#B|B_*)(?!\w)", lambda m: size_name(m[1]), dim.render("n_"))
    return text.replace("*", " * ").replace("//", " // ")


def size_name(dim: str) -> str:
    """Return what generated code calls a size: `n_m`; `n_B` is the batch, a dim `B` is `n_B_`."""
    if dim == "#B":
        return "n_B"
    return f"n_{dim}_" if dim.rstrip("_") == "B" else f"n_{dim}"


def mentions(text: str, name: str) -> bool:
    """Return whether code reads a variable; strings and attributes do not count."""
    code = re.sub(r"\"[^\"]*\"|'[^']*'", "", text)
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", code) is not None


__all__ = ["CALLED", "RESERVED", "code_name", "dim_text", "mentions", "size_name"]
