"""Judge a module: its outputs by their definitions, its derivatives by differences.

Forms, module -> Report
What is judged are the functions that users call; a report is kept beside the module it is about.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from symgrad import build as building
from symgrad.arguments import call_arguments
from symgrad.emit import Source
from symgrad.errors import ValidationError
from symgrad.form import Forms
from symgrad.judge_products import require_products
from symgrad.judge_twice import compare_twice
from symgrad.program import Program
from symgrad.proof.interpret import evaluate_jacobian, interpret
from symgrad.validate import Report, validate

UNCOMPARED = "second derivatives were not compared: they are too large at the sizes stated"


def validated(made: Forms, source: Source, seed: int) -> Report:
    """Validate the plain-Python twin of a module, once per text and version; return the report.

    Raises ValidationError naming the parameter if a derivative disagrees.
    """
    file = building.build(source.text, source.name)
    stored = file.with_name(f"{file.stem}.seed{seed}.report.json")
    try:
        return Report.from_json(json.loads(stored.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        twin = building.load(file, plain=True)
    names = made.derivation.selection.active
    report = compare(made, twin, names, seed, 3, {}, exact=False)
    report.raise_if_failed(made.program.name)
    write_report(stored, report)
    return report


def compare(
    made: Forms,
    module: Any,
    names: Sequence[str],
    seed: int,
    batch: int,
    sizes: Mapping[str, int],
    exact: bool,
) -> Report:
    """Compare the outputs and dense Jacobians of a module with their oracles.

    `names` are the arrays whose Jacobians are judged; `exact` adds the closed form in many digits.
    Raises ValidationError for a wrong output.
    """
    derivation = made.derivation
    several = len(made.program.outputs) > 1

    seen: list[tuple[Any, Any, Any, Any]] = []

    def jacobian_of(arrays: dict[str, Any]) -> dict[tuple[str, str], Any]:
        positional, keywords = call_arguments(made.program.arrays, arrays)
        with np.errstate(all="ignore"):
            value = module.forward(*positional, **keywords)
            found = module.jacobian(*positional, **keywords)
        values = value if several else (value,)
        _require_value(made.program, arrays, values)
        first = () if several else (made.program.outputs[0],)
        dense = {(*first, k) if first else k: v for k, v in found.items()}
        seen.append((arrays, (positional, keywords), values, dense))
        return dense

    def exactly(arrays: dict[str, Any]) -> dict[tuple[str, str], Any]:
        return {
            (j.output, j.parameter): evaluate_jacobian(
                derivation, j.output, j.parameter, arrays, precision=50
            )
            for j in derivation.jacobians
            if j.parameter in names and not j.beside
        }

    sizes = {**_masked(made.program), **sizes}
    report = validate(
        made.program,
        jacobian_of,
        names,
        seed=seed,
        sizes=sizes,
        batch=batch,
        exactly=exactly if exact else None,
        parts=derivation.selection,
    )
    if exact and report.ok:
        for given, call, values, dense in seen:
            if all(np.all(np.isfinite(block)) for block in dense.values()):
                outputs = dict(zip(made.program.outputs, values, strict=True))
                with np.errstate(all="ignore"):
                    require_products(made, module, given, call, outputs, dense)
                break
    if made.curvature is None:
        return report
    second = compare_twice(made, module, names, seed, batch, sizes, exact)
    if second is None:
        return replace(report, notes=(*report.notes, UNCOMPARED))
    return replace(report, agreements=(*report.agreements, *second.agreements))


def _masked(program: Program) -> dict[str, int]:
    """Return the dims that the masks of selected parts give a size."""
    pairs = ((c.high.symbol, c.limit.constant) for c in program.checks if c.exact)
    return {name: size for name, size in pairs if name is not None and size is not None}


def _require_value(program: Program, arrays: dict[str, Any], values: Sequence[Any]) -> None:
    """Refuse a module whose outputs are not what the definitions say.

    Raises ValidationError naming the output, its place and both numbers.
    """
    right = interpret(program, arrays)
    for output, value in zip(program.outputs, values, strict=True):
        expected = np.broadcast_to(right[output], np.shape(value))
        scale = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
        close = np.isclose(value, expected, rtol=1e-9, atol=1e-11 * scale + 1e-12, equal_nan=True)
        if not np.all(close):
            where = tuple(int(k) for k in np.argwhere(~close)[0])
            raise ValidationError(
                f"{program.name}: {output} at {list(where)} is {value[where]:.12g}, but its "
                f"definition gives {expected[where]:.12g}",
                hint="this is a fault of the generated code, not of your layer; please report it",
            )


def write_report(file: Path, report: Report) -> None:
    """Write the measured errors."""
    building.write(file, json.dumps(report.to_json(), indent=1) + "\n")


def report_beside(module: Path) -> Path:
    """Return the file that holds the measured errors of a module."""
    return module.with_suffix(".report.json")
