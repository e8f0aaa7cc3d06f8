"""How each scalar function and each of its slopes is written in generated code.

function, order -> Kernel
A call is a format string over argument texts; what it calls stands in `HELPERS`, which is read
from the modules in `numerics` as text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from symgrad.errors import CodegenError
from symgrad.functions.calls import COMPLEX, CURVATURES, SLOPES, VALUES
from symgrad.functions.single import PREFIX, single_texts

SOURCES = tuple(
    "exponential hyperbolic units gaussian gammas powers piecewise curvatures analytic".split()
)
SINGLE_SOURCES = ("single",)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A format string over argument texts, and the helpers it needs, dependencies first."""

    call: str
    helpers: tuple[str, ...] = ()


@cache
def kernel(
    function: str,
    order: tuple[int, ...] = (),
    complex: bool = False,  # noqa: A002
    single: bool = False,
) -> Kernel:
    """Return the code of a function, or of its partial derivative of `order`.

    That for `complex` or `single` (float32) arguments calls the helpers made for those.

    The call is safe inside any expression if its arguments are. Raises CodegenError for a
    function or an order that has no kernel.
    """
    if complex and function not in COMPLEX:
        raise CodegenError(
            f"{function} has no complex kernel",
            hint="pass real arrays (float32 or float64), or use another function",
        )
    call = _call(function, order)
    if complex or single:
        found = (twins if complex else singles)(_called(call.format(*("z",) * 4)))
        for helper, twin in found.items():
            call = re.sub(rf"(?<!\w){helper}\(", f"{twin}(", call)
    return Kernel(call, _with_dependencies(call))


def twins(helpers: Iterable[str]) -> dict[str, str]:
    """Return those helpers that are made for real arguments with their twins for complex ones."""
    return {h: f"complex_{h}" for h in helpers if f"complex_{h}" in HELPERS}


def singles(helpers: Iterable[str]) -> dict[str, str]:
    """Return those helpers that have twins for float32, with their twins."""
    return {h: f"{PREFIX}{h}" for h in helpers if f"{PREFIX}{h}" in HELPERS}


def with_dependencies(helpers: Iterable[str]) -> tuple[str, ...]:
    """Return helpers and what they call, each once, what is called first."""
    return tuple(dict.fromkeys(n for name in helpers for n in _dependencies(name)))


def _call(function: str, order: tuple[int, ...]) -> str:
    value = VALUES.get(function)
    if value is None:
        raise CodegenError(
            f"there is no kernel for the function {function}",
            hint="bind it: functions={...}, a def, or sg.function(value=..., slope=...)",
        )
    if not any(order):
        return value
    if sum(order) == 1:
        place = order.index(1)
        slopes = SLOPES[function]
        if place < len(slopes):
            return slopes[place]
    if sum(order) == 2:
        return CURVATURES.get(function, {}).get(order, "0.0")
    raise CodegenError(
        f"there is no kernel for the derivative of order {order} of {function}",
        hint="write the function out in terms of others, as a def",
    )


def _helper_sources() -> dict[str, str]:
    """Return the text of every helper: those for float64 and complex128, then those for float32."""
    found = _sources(SOURCES)
    return found | single_texts(found | _sources(SINGLE_SOURCES))


def _sources(modules: Iterable[str]) -> dict[str, str]:
    """Read every function of some `numerics`, with its decorator, in the order of the files."""
    found = {}
    folder = files("symgrad.functions").joinpath("numerics")
    for name in modules:
        text = folder.joinpath(f"{name}.py").read_text(encoding="utf-8")
        lines = text.splitlines()
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                first = node.decorator_list[0].lineno
                found[node.name] = "\n".join(lines[first - 1 : node.end_lineno])
    return found


HELPERS: Mapping[str, str] = MappingProxyType(_helper_sources())
"""Sources of helper functions by name."""


def _called(text: str) -> tuple[str, ...]:
    """Return the helpers called in a text, each once, in order of appearance."""
    names = (
        node.func.id
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    )
    return tuple(dict.fromkeys(name for name in names if name in HELPERS))


@cache
def _dependencies(helper: str) -> tuple[str, ...]:
    """Return what a helper needs, dependencies first, itself last."""
    needed = [inner for name in _called(HELPERS[helper]) for inner in _dependencies(name)]
    return tuple(dict.fromkeys((*needed, helper)))


def _with_dependencies(call: str) -> tuple[str, ...]:
    return with_dependencies(_called(call.format(*("z",) * 4)))
