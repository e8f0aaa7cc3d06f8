"""symgrad: layers as mathematics, their Jacobians as formulas and as fast kernels.

text -> layer -> derive | compile
"""

from symgrad.api import check, compile, derive, layer, load, show_stage
from symgrad.compiled import Compiled
from symgrad.errors import (
    ArgumentError,
    CodegenError,
    DerivationError,
    InternalError,
    LayerSyntaxError,
    SelectionError,
    ShapeError,
    SymgradError,
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
    "InternalError",
    "Layer",
    "LayerSyntaxError",
    "Report",
    "SelectionError",
    "ShapeError",
    "SymgradError",
    "ValidationError",
    "__version__",
    "check",
    "compile",
    "derive",
    "layer",
    "load",
    "show_stage",
]
