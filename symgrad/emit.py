"""A standalone module as text: jinja2 lays out, Python decides.

Forms -> Source
The module imports numpy and numba only; equal layers give equal bytes on every machine. What it
does not use (a helper, an import) is not in it.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from symgrad.form import Forms
from symgrad.functions import HELPERS, PREAMBLE, singles, twins, with_dependencies
from symgrad.generation.analytic import real_only
from symgrad.generation.captions import Caption, caption
from symgrad.generation.door import door_lines, spec_lines
from symgrad.generation.drivers import Drivers
from symgrad.generation.fold import fold, fold_prose
from symgrad.generation.intrinsics import intrinsics
from symgrad.generation.layout import template
from symgrad.generation.publics import publics
from symgrad.generation.publics_twice import publics_twice
from symgrad.generation.words import code_name
from symgrad.program import Array, Table
from symgrad.version import __version__

IMPORTS = {
    "base64": "import base64",
    "contextvars": "import contextvars",
    "ctypes": "import ctypes",
    "math": "import math",
    "os": "import os",
    "sys": "import sys",
    "threading": "import threading",
    "warnings": "import warnings",
    "deque": "from collections import deque",
    "Mapping": "from collections.abc import Mapping",
    "suppress": "from contextlib import suppress",
    "chain": "from itertools import chain",
    "pairwise": "from itertools import pairwise",
    "SimpleQueue": "from queue import SimpleQueue",
    "FunctionType": "from types import FunctionType",
}
"""What generated code may use of the standard library, in the order of its import lines."""


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a generated module, and what readers of its results need to know."""

    name: str
    text: str
    captions: Mapping[tuple[str, ...], Caption]


def emit(
    forms: Forms,
    *,
    docstring: str = "",
    options: Mapping[str, Any] | None = None,
    validation: Mapping[str, Any] | None = None,
) -> Source:
    """Return the module that evaluates all forms."""
    program = forms.program
    first = 0 if any(a.batched for a in program.arrays) else None
    twice = forms.curvature.structured if forms.curvature is not None else ()
    captions = {
        (s.jacobian.output, *s.pair.split(", ")): caption(s, first)
        for s in (*forms.structured, *twice)
    }
    several = len(program.outputs) > 1
    keyed = {_key(pair, several): words for pair, words in captions.items()}
    drivers, door = Drivers(forms), _door(forms)
    driving = drivers.texts()
    offered = [*publics(forms, drivers.few, drivers.zeroed), *publics_twice(forms)]
    aliases = []
    for name in (a.name for a in program.arrays if a.name.startswith("_")):
        offered = [_aside(text, name) for text in offered]
        aliases += [f"{name}_ = {name}"] if f"{name}_(" in "\n".join(offered) else []
    kernels = tuple(drivers.book.functions.values())
    tables = [_table(t) for t in program.tables]
    code = "\n".join((PREAMBLE, *offered, door, *driving, *kernels, *aliases, *tables))
    runtime = template("runtime.py.jinja").render(
        name=_literal(program.name), spec_lines=spec_lines(program),
        real_only=_literal(real_only(forms)),
    )  # fmt: skip
    carried = _carried(drivers, kernels, native=any("_natively(" in text for text in driving))
    names = _names(code)
    helpers = _used(runtime, carried, names)
    names = names.union(*map(_fixed_names, helpers))
    text = template("module.py.jinja").render(
        docstring=_docstring(docstring),
        imports=tuple(line for name, line in IMPORTS.items() if name in names),
        version=_literal(__version__),
        layer=_text(program.text),
        options=_literal({**(options or {}), **parts_of(forms)}),
        wrt=_literal(tuple(forms.derivation.selection.names)),
        shapes=_literal({a.name: _shape_names(a) for a in program.arrays}),
        structure=_literal({k: c.structure for k, c in keyed.items()}),
        factors=_literal({k: c.formula for k, c in keyed.items()}),
        axes=_literal({k: c.layout for k, c in keyed.items()}),
        validation=_literal(dict(validation or {})),
        preamble=PREAMBLE.strip("\n"),
        publics=tuple(offered),
        door=door,
        drivers=tuple(driving),
        kernels=kernels,
        helpers=(*helpers, *aliases, *(("\n".join(tables),) if tables else ())),
    )
    return Source(program.name, text.rstrip("\n") + "\n", captions)


def _folded(helper: str) -> str:
    """Return the text of a helper, its long lines folded."""
    return "\n".join(map(fold, helper.strip("\n").split("\n")))


def _twins_text(found: Mapping[str, Mapping[str, str]]) -> str:
    """Return the table of what kernels call instead for a kind of dtype, but for float64."""
    if not any(found.values()):
        return "_TWINS_OF = {}"
    lines = ["_TWINS_OF = {"]
    for kind, names in found.items():
        entries = [f'        "{name}": {twin},' for name, twin in names.items()]
        lines += [f'    "{kind}": {{', *entries, "    },"] if entries else []
    return "\n".join((*lines, "}"))


def _carried(drivers: Drivers, kernels: Sequence[str], *, native: bool) -> list[str]:
    """Return the functions that kernels call, their twins for other dtypes, and intrinsics.

    `native` says whether there are steps that are compiled as a whole.
    """
    called, analytic = drivers.book.helpers, drivers.book.analytic
    named = _names("\n".join(kernels))
    direct = [h for h in called if h in named]
    tables = {"f": singles(direct), "c": twins(direct) if analytic else {}}
    swapped = [twin for found in tables.values() for twin in found.values()]
    carried = [_folded(HELPERS[h]) for h in with_dependencies((*called, *swapped))]
    if swapped or drivers.pieces.functions:
        carried.append(_twins_text(tables))
    wide, streams = bool(called), drivers.book.streams
    if wide or streams or native:
        carried.append(intrinsics(wide=wide, streams=streams))
    if native:
        carried.append(template("native.py.jinja").render().strip("\n"))
    return carried


def _key(pair: tuple[str, ...], several: bool) -> str | tuple[str, ...]:
    """Return what users call a derivative: θ, or a tuple with the output if there are several."""
    if several:
        return pair
    return pair[1] if len(pair) == 2 else pair[1:]


def parts_of(forms: Forms) -> dict[str, Any]:
    """Return what is selected of which arrays, as options that a module can hold."""
    selection = forms.derivation.selection
    parts = {r.array: r.items for r in selection.regions}
    found: dict[str, Any] = {"parts": parts} if parts else {}
    if selection.filled:
        found |= {"unselected": "zeros", "selected": selection.active}
    return found


def _table(table: Table) -> str:
    """Return the line that makes a table of places."""
    name = code_name(table.name)
    array, item, axis = table.source
    mark = "_" if min(table.values) < 0 else ""
    return fold(f"{mark}{name} = _places({_literal(array)}, {item}, {axis})")


def _door(forms: Forms) -> str:
    """Return the function that checks the arrays."""
    parameters = ", ".join(code_name(a.name) for a in forms.program.arrays)
    lines = door_lines(forms.program, forms.domain is not None)
    return "\n".join((
        fold(f"def _door({parameters}):"),
        '    """Return the checked arrays, their sizes, the dtype, and if one sample was given."""',
        *(fold(f"    {line}") for line in lines),
    ))  # fmt: skip


def _aside(text: str, name: str) -> str:
    """Return a function that calls `name_` where an array called `name` hides a function."""
    return re.sub(rf"(?<!\w){name}\(", f"{name}_(", text)


def _used(runtime: str, helpers: list[str], names: set[str]) -> list[str]:
    """Return those top-level parts of the runtime that code with these names reaches, and helpers.

    A part is a function or an assignment; they keep their order.
    """
    lines = runtime.split("\n")
    parts: dict[str, str] = {}
    for node in ast.parse(runtime).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else node
        name = target.id if isinstance(target, ast.Name) else getattr(target, "name", "")
        parts[name] = "\n".join(lines[node.lineno - 1 : node.end_lineno])
    reached: set[str] = set()
    waiting = names.union(*map(_fixed_names, helpers)) & parts.keys()
    while waiting:
        reached |= waiting
        waiting = {n for w in waiting for n in _fixed_names(parts[w])} & parts.keys() - reached
    kept = [text for name, text in parts.items() if name in reached]
    return [*helpers, *_joined(kept)]


def _joined(parts: Sequence[str]) -> list[str]:
    """Return the parts with neighbouring constants in one."""
    joined: list[str] = []
    for part in parts:
        if joined and not any(p.startswith("def ") for p in (part, joined[-1])):
            joined[-1] += f"\n{part}"
        else:
            joined.append(part)
    return joined


def _names(code: str) -> set[str]:
    """Return the names that code mentions as variables."""
    return {n.id for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Name)}


@lru_cache(maxsize=256)
def _fixed_names(code: str) -> frozenset[str]:
    """Return the same for the helpers, which nearly all modules have in common."""
    return frozenset(_names(code))


def _shape_names(array: Array) -> tuple[str, ...]:
    first = ("B",) if array.batched else ()
    return (*first, *(str(d) for d in array.axes))


def _docstring(text: str) -> str:
    folded = fold_prose(text.strip("\n"))
    return f"{folded}\n" if "\n" in folded else folded


def _text(text: str) -> str:
    """Return a layer's text as a literal that keeps its lines."""
    if '"""' in text or "\\" in text:
        return repr(text)
    return f'"""\\\n{text.rstrip()}\n"""' if text else '""'


def _literal(value: Any, depth: int = 0) -> str:
    """Return a value as Python text, double-quoted; a mapping has a line for each entry."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case tuple() | list():
            items = ", ".join(_literal(v, depth) for v in value)
            if isinstance(value, list):
                return f"[{items}]"
            return f"({items},)" if len(value) == 1 else f"({items})"
        case dict() if value and not depth:
            lines = (f"    {_literal(k)}: {_literal(v, 1)}," for k, v in value.items())
            return "\n".join(("{", *map(fold, lines), "}"))
        case dict():
            items = ", ".join(f"{_literal(k)}: {_literal(v, 1)}" for k, v in value.items())
            return f"{{{items}}}"
        case _:
            return repr(value)


__all__ = ["Source", "emit"]
