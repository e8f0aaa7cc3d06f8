"""Judge a module: its outputs by their definitions, its derivatives by differences.

Forms, module -> Report
What is judged are the functions that users call; a report is kept beside the module it is about.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from symgrad import build as building
from symgrad.arguments import call_arguments
from symgrad.derivation import Derivation
from symgrad.emit import Source
from symgrad.errors import ValidationError
from symgrad.forced import each_way
from symgrad.form import Forms, Structured
from symgrad.judge_products import require_products
from symgrad.judge_twice import compare_twice
from symgrad.program import Program
from symgrad.proof.interpret import evaluate_jacobian, interpret
from symgrad.trial import Trial
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
    report = compare(made, twin, Trial(names, seed))
    report.raise_if_failed(made.program.name)
    write_report(stored, report)
    return report


def compare(made: Forms, module: Any, trial: Trial) -> Report:
    """Compare what a module computes with its oracles.

    Raises ValidationError for a wrong output, for drivers that do not agree, and in an exact trial
    for a product or a compact form that is not that of the dense Jacobians.
    """
    trial = replace(trial, sizes={**_masked(made.program), **trial.sizes})
    judged = _Judged(made, module)
    report = validate(
        made.program,
        judged.jacobians,
        trial.names,
        seed=trial.seed,
        sizes=trial.sizes,
        batch=trial.batch,
        exactly=partial(_in_many_digits, made.derivation, trial.names) if trial.exact else None,
        parts=made.derivation.selection,
    )
    if report.ok:
        judged.require_others()
    if trial.exact and report.ok:
        judged.require_products()
    if made.curvature is None:
        return report
    second = compare_twice(made, module, trial)
    if second is None:
        return replace(report, notes=(*report.notes, UNCOMPARED))
    return replace(report, agreements=(*report.agreements, *second.agreements))


@dataclass(frozen=True, slots=True)
class _Judged:
    """A module that is called at the points of a trial, and what it said there."""

    made: Forms
    module: Any
    seen: list[tuple[Any, Any, dict[str, Any], dict[tuple[str, str], Any]]] = field(
        default_factory=list
    )

    def jacobians(self, arrays: dict[str, Any]) -> dict[tuple[str, str], Any]:
        """Return the dense Jacobians; refuse outputs that are not what the definitions say."""
        program = self.made.program
        several = len(program.outputs) > 1
        positional, keywords = call_arguments(program.arrays, arrays)
        with np.errstate(all="ignore"):
            value = self.module.forward(*positional, **keywords)
            found = self.module.jacobian(*positional, **keywords)
        values = dict(zip(program.outputs, value if several else (value,), strict=True))
        _require_value(program, arrays, values)
        dense = found if several else {(program.outputs[0], k): v for k, v in found.items()}
        self.seen.append((arrays, (positional, keywords), values, dense))
        return dense

    def require_others(self) -> None:
        """Judge by the Jacobians that are right the drivers that run for other sizes."""
        for arrays, _, values, dense in self.seen:
            self.require_ways(arrays, dense)
            self.require_orders(arrays, values, dense)

    def require_ways(self, arrays: dict[str, Any], dense: Mapping[tuple[str, str], Any]) -> None:
        """Refuse drivers of dense Jacobians that do not agree: which one runs depends on the call.

        Those for few samples, those of one Jacobian alone, and those of structured Jacobians.
        """
        program, module = self.made.program, self.module
        given = [arrays.get(a.name, a.default) for a in program.arrays]
        with np.errstate(all="ignore"):
            *call, single = module._door(*given)
            every: list[tuple[str, Any]] = [("_dense", module._sweep(*call))]
            if hasattr(module, "_sweep_dense"):
                every.append(("_direct", module._sweep_dense(*call)))
            for structured in self.made.structured:
                key, title = _key(structured), structured.title
                for kind, v in every:
                    driver = getattr(module, f"{kind}_{structured.key}", None)
                    if driver is not None:
                        found = driver(*call, v, single, None)
                        _require_same(program.name, title, found, dense[key])
                driver = getattr(module, f"_few_{structured.key}", None)
                if driver is not None:
                    found = driver(*call, single, None)
                    _require_same(program.name, f"{title} of few samples", found, dense[key])
            if hasattr(module, "_few"):
                for name, found in module._few(*call, single, {}).items():
                    key = name if isinstance(name, tuple) else (program.outputs[0], name)
                    title = "d{}/d{} of few samples".format(*key)
                    _require_same(program.name, title, found, dense[key])

    def require_orders(
        self, arrays: dict[str, Any], values: Mapping[str, Any], dense: Mapping[Any, Any]
    ) -> None:
        """Refuse orders of products that give other results than those taken for these sizes."""
        blocks = (*values.values(), *dense.values())
        if not all(np.all(np.isfinite(block)) for block in blocks):
            return
        program, several = self.made.program, len(self.made.program.outputs) > 1
        positional, keywords = call_arguments(program.arrays, arrays)
        for which in each_way(self.module):
            with np.errstate(all="ignore"):
                made = self.module.forward(*positional, **keywords)
                found = self.module.jacobian(*positional, **keywords)
            for name, value in zip(program.outputs, made if several else (made,), strict=True):
                _require_same(program.name, f"{name} by {which}", value, values[name])
            for key, block in found.items():
                pair = key if several else (program.outputs[0], key)
                title = "d{}/d{} by {}".format(*pair, which)
                _require_same(program.name, title, block, dense[pair])
            self.require_ways(arrays, dense)

    def require_products(self) -> None:
        """Judge products and compact forms by the first Jacobians that are finite."""
        for arrays, call, values, dense in self.seen:
            if all(np.all(np.isfinite(block)) for block in dense.values()):
                with np.errstate(all="ignore"):
                    require_products(self.made, self.module, arrays, call, values, dense)
                    for _ in each_way(self.module):
                        require_products(self.made, self.module, arrays, call, values, dense)
                return


def _in_many_digits(
    derivation: Derivation, names: Sequence[str], arrays: dict[str, Any]
) -> dict[tuple[str, str], Any]:
    """Return the closed forms of first derivatives, evaluated in 50 digits."""
    return {
        (j.output, j.parameter): evaluate_jacobian(
            derivation, j.output, j.parameter, arrays, precision=50
        )
        for j in derivation.jacobians
        if j.parameter in names and not j.beside
    }


def _masked(program: Program) -> dict[str, int]:
    """Return the dims that the masks of selected parts give a size."""
    pairs = ((c.high.symbol, c.limit.constant) for c in program.checks if c.exact)
    return {name: size for name, size in pairs if name is not None and size is not None}


def _require_value(
    program: Program, arrays: dict[str, Any], values: Mapping[str, Any]
) -> None:
    """Refuse a module whose outputs are not what the definitions say.

    Raises ValidationError naming the output, its place and both numbers.
    """
    right = interpret(program, arrays)
    for output, value in values.items():
        expected = np.broadcast_to(right[output], np.shape(value))
        words = ("", "but its definition gives")
        _require_close(f"{program.name}: {output}", value, expected, words, (1e-11, 1e-12))


def _require_same(layer: str, title: str, found: Any, expected: Any) -> None:
    """Refuse a Jacobian that is not that of another driver.

    Raises ValidationError naming it, its place and both numbers.
    """
    words = (" by one driver", "by another it is")
    _require_close(f"{layer}: {title}", found, expected, words, (1e-9, 1e-300))


def _require_close(
    title: str, found: Any, expected: Any, words: tuple[str, str], floor: tuple[float, float]
) -> None:
    """Refuse numbers that differ by more than 1e-9, a part of the largest one and a bit more."""
    scale = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
    atol = floor[0] * scale + floor[1]
    close = np.isclose(found, expected, rtol=1e-9, atol=atol, equal_nan=True)
    if not np.all(close):
        where = tuple(int(k) for k in np.argwhere(~close)[0])
        raise ValidationError(
            f"{title} at {list(where)} is {found[where]:.12g}{words[0]}, {words[1]} "
            f"{expected[where]:.12g}",
            hint="this is a fault of the generated code, not of your layer; please report it",
        )


def _key(structured: Structured) -> tuple[str, str]:
    return structured.jacobian.output, structured.jacobian.parameter


def write_report(file: Path, report: Report) -> None:
    """Write the measured errors."""
    building.write(file, json.dumps(report.to_json(), indent=1) + "\n")


def report_beside(module: Path) -> Path:
    """Return the file that holds the measured errors of a module."""
    return module.with_suffix(".report.json")
