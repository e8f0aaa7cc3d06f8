"""From a layer that is read to the text of its module, stage by stage.

Layer, options -> program_of -> Program;  Forms -> source_of -> Source
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from symgrad import build as building
from symgrad.check import check
from symgrad.declare import with_formulas, with_slopes
from symgrad.emit import Source, emit
from symgrad.explain import explain
from symgrad.form import Forms
from symgrad.options import bindings_of, sizes_of
from symgrad.program import Program
from symgrad.syntax import Layer
from symgrad.validate import Report


def program_of(
    read: Layer, functions: Mapping[str, Any] | None, dims: Mapping[str, int | str] | None
) -> tuple[Program, dict[str, Any]]:
    """Return the program of a layer, and the options as plain values that a module can hold."""
    sizes = sizes_of(dims, read)
    bindings = bindings_of(functions, read)
    program = check(with_formulas(read, bindings), dims=sizes, functions=bindings)
    program = with_slopes(program, bindings)
    plain = {n: str(d) if d.constant is None else d.constant for n, d in sizes.items()}
    named = {n: to if isinstance(to, str) else to.plain() for n, to in bindings.items()}
    return program, {"functions": named, "dims": plain}


def source_of(made: Forms, options: Mapping[str, Any], report: Report | None) -> Source:
    validation: dict[str, Any] = {}
    if report is not None:
        validation = {
            "method": report.method,
            "seed": report.seed,
            "sizes": [dict(s) for s in report.sizes],
            "tolerance": report.tolerance,
        }
        if report.notes:
            validation["notes"] = list(report.notes)
    return emit(made, docstring=_docstring(made), options=options, validation=validation)


def _docstring(made: Forms) -> str:
    """Return the module's docstring: title, and the derivation as text."""
    program = made.program
    title = program.title or f"{program.name}: value and derivatives."
    text = explain(made.derivation).text()
    head = "" if text.startswith(title) else f"{title}\n\n"
    clean = f"{head}{text}\n\n{building.SIGNATURE}"
    return clean.replace("\\", "\\\\").replace('"""', "'''")
