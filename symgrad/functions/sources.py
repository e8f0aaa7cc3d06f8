"""The text of every scalar kernel, for a generated module to carry.

package scalars -> {name: source}
A kernel is written once, as a function that runs; its text and what it calls are read from it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

MODULES = ("exponential", "logarithm", "circular", "special", "gates", "piecewise")


def _read() -> dict[str, str]:
    """Return the source of each function, its decorator included."""
    found: dict[str, str] = {}
    for module in MODULES:
        text = files("symgrad.functions.scalars").joinpath(f"{module}.py").read_text("utf-8")
        lines = text.splitlines()
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                first = min(d.lineno for d in node.decorator_list)
                found[node.name] = "\n".join(lines[first - 1 : node.end_lineno])
    return found


def _called(source: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the kernels a source calls, each once, in order of appearance."""
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    calls = [n.func for n in ast.walk(function) if isinstance(n, ast.Call)]
    called = [c.id for c in calls if isinstance(c, ast.Name)]
    return tuple(dict.fromkeys(n for n in called if n in names and n != function.name))


HELPERS: Mapping[str, str] = MappingProxyType(_read())
"""Source text of each helper: one top-level function, decorated with `@inline`."""

DEPENDENCIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {name: _called(source, HELPERS) for name, source in HELPERS.items()}
)
"""The helpers a helper calls itself."""


def closure(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names and all they need, each after what it needs."""
    found: dict[str, None] = {}

    def visit(name: str) -> None:
        if name not in found:
            for needed in DEPENDENCIES[name]:
                visit(needed)
            found[name] = None

    for name in names:
        visit(name)
    return tuple(found)
