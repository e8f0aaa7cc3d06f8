"""The function table: scalar functions, their slopes, and the kernels that compute them.

name -> Function, Kernel;  function, args, place -> partial derivative
Nothing else in the package knows what a function of the language is.
"""

from symgrad.functions.function import Function, Kink
from symgrad.functions.kernels import HELPERS, Kernel, kernel, singles, twins, with_dependencies
from symgrad.functions.partial import partial
from symgrad.functions.preamble import PREAMBLE
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
    "singles",
    "symbols_of",
    "sympy_slope",
    "twins",
    "with_dependencies",
]
