"""The function table: every scalar function of the language, by name and by alias.

name -> Function
One entry is all a function is: whoever differentiates, writes, compiles or tests reads it here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from symgrad.functions.activations import ACTIVATIONS
from symgrad.functions.arithmetic import ARITHMETIC, INTERNAL, LOGIC
from symgrad.functions.elementary import ELEMENTWISE
from symgrad.functions.function import Function

ENTRIES: tuple[Function, ...] = (*ARITHMETIC, *LOGIC, *INTERNAL, *ELEMENTWISE, *ACTIVATIONS)

ALIASES: Mapping[str, str] = MappingProxyType({a: f.name for f in ENTRIES for a in f.aliases})
"""Other names of functions, to the ones they have in the table."""

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {name: entry for entry in ENTRIES for name in (entry.name, *entry.aliases)}
)
"""Every function by its name, and by its other names."""
