"""symgrad: layers as mathematics, their Jacobians as formulas and as fast kernels.

text -> layer -> derive | compile
"""

from symgrad.api import check, compile, derive, layer, load, plan, show_stage
from symgrad.builder import (
    Expression,
    Function,
    abstract,
    const,
    dim,
    index,
    input,
    param,
    word,
    words,
)
from symgrad.chain import chain
from symgrad.compiled import Compiled
from symgrad.declare import function
from symgrad.errors import (
    ArgumentError,
    CodegenError,
    DerivationError,
    InternalError,
    LayerSyntaxError,
    MissingExtraError,
    SelectionError,
    ShapeError,
    SymgradError,
    TooLargeError,
    ValidationError,
)
from symgrad.syntax import Layer
from symgrad.validate import Report
from symgrad.version import __version__

__all__ = [
    "ArgumentError",
    "CodegenError",
    "Compiled",
    "DerivationError",
    "Expression",
    "Function",
    "InternalError",
    "Layer",
    "LayerSyntaxError",
    "MissingExtraError",
    "Report",
    "SelectionError",
    "ShapeError",
    "SymgradError",
    "TooLargeError",
    "ValidationError",
    "__version__",
    "abstract",
    "chain",
    "check",
    "compile",
    "const",
    "derive",
    "dim",
    "function",
    "index",
    "input",
    "layer",
    "load",
    "param",
    "plan",
    "show_stage",
]


def __getattr__(name: str) -> Function | Expression:
    """Return a function of the layer language, as in `sg.sigmoid(W @ x + b)`."""
    return word(name)


def __dir__() -> list[str]:
    return sorted({*__all__, *words()})
