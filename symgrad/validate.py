"""Hold analytic Jacobians against finite differences, and a closed form in many digits.

Program, function of arrays -> Report
The tolerance of each entry is the estimated error of its difference; a kink is reported as a kink.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symgrad.agreement import Agreement
from symgrad.derivation import Selection
from symgrad.errors import ArgumentError, InternalError, ValidationError
from symgrad.program import Program
from symgrad.proof.differences import Difference
from symgrad.proof.interpret import interpret
from symgrad.proof.portions import Portion
from symgrad.proof.run import Functions
from symgrad.proof.sample import Kind, draw_arrays, draw_sizes
from symgrad.proof.trust import note, trusting

Values = NDArray[Any]
Jacobians = Mapping[tuple[str, str], Any]
JacobianOf = Callable[[dict[str, Any]], Jacobians]

METHOD = "central differences with Richardson extrapolation, frozen parts held"
EXACT_METHOD = "closed form in high precision"
RTOL = 1e-7
EXACT_RTOL = 1e-10
SLACK = 10.0
"""How many estimated errors of a difference an entry may be away."""
FLOOR = 1e-13
"""What rounding leaves where slopes of order one cancel; points are drawn of order one."""
EVERYTHING = Selection(())
"""Judges whole arrays."""
KINDS: tuple[Kind, ...] = ("normal", "normal", "positive", "positive", "unit", "unit", "definite")
"""How the numbers of a point are drawn, from the first try to the last."""


@dataclass(frozen=True, slots=True)
class Report:
    """What validation saw: how, where, and for each Jacobian how well it agrees.

    `notes` name what was taken on trust: declared slopes.
    """

    method: str
    seed: int
    sizes: tuple[tuple[tuple[str, int], ...], ...]
    tolerance: float
    agreements: tuple[Agreement, ...]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every Jacobian agrees with every oracle."""
        return all(agreement.ok for agreement in self.agreements)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        points = "; ".join(
            " ".join(f"{name}={size}" for name, size in sizes) or "no dims" for sizes in self.sizes
        )
        several = len({a.oracle for a in self.agreements}) > 1
        rows = [("derivative", "max error", "relative", "at", "entries", "kinks", "")]
        rows += [
            (
                a.title,
                f"{a.max_error:.1e}",
                f"{a.max_relative:.1e}",
                "[" + ",".join(map(str, a.where)) + "]",
                str(a.entries),
                str(a.kinks),
                a.verdict(several),
            )
            for a in self.agreements
        ]
        widths = [max(len(row[k]) for row in rows) for k in range(6)]
        lines = [
            "  ".join((row[0].ljust(widths[0]), *map(str.rjust, row[1:6], widths[1:]), row[6]))
            for row in rows
        ]
        head = f"{self.method} (seed {self.seed}, rtol {self.tolerance:.0e}) at {points}"
        return "\n".join((head, *(line.rstrip() for line in lines), *self.notes))

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain dicts, lists and numbers."""
        return {
            "method": self.method,
            "seed": self.seed,
            "sizes": [dict(sizes) for sizes in self.sizes],
            "tolerance": self.tolerance,
            "ok": self.ok,
            "notes": list(self.notes),
            "agreements": [
                {
                    name: list(value) if isinstance(value, tuple) else value
                    for name in Agreement.__slots__
                    for value in (getattr(agreement, name),)
                }
                for agreement in self.agreements
            ],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Report:
        """Return the report that `to_json` wrote. Raises KeyError or TypeError for other data."""
        agreements = tuple(
            Agreement(**{**entry, "where": tuple(entry["where"])}) for entry in data["agreements"]
        )
        sizes = tuple(tuple(point.items()) for point in data["sizes"])
        notes = tuple(data["notes"])
        return Report(data["method"], data["seed"], sizes, data["tolerance"], agreements, notes)

    def raise_if_failed(self, layer: str) -> None:
        """Raise ValidationError naming the worst derivative, its place and both numbers."""
        wrong = [a for a in self.agreements if not a.ok]
        if not wrong:
            return
        worst = wrong[0]
        others = f" (and {len(wrong) - 1} more derivatives disagree)" if len(wrong) > 1 else ""
        raise ValidationError(
            f"{layer}: {worst.title} at {list(worst.where)} is "
            f"{worst.analytic:.12g}, but {worst.oracle} says {worst.expected:.12g}{others}",
            hint="this is a fault of the derivation, not of your layer; please report it",
        )


def validate(
    program: Program,
    jacobian_of: JacobianOf,
    wrt: Sequence[str],
    *,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    batch: int = 3,
    rtol: float = RTOL,
    points: int = 2,
    exactly: JacobianOf | None = None,
    functions: Functions | None = None,
    parts: Selection = EVERYTHING,
    floor: float = FLOOR,
) -> Report:
    """Compare Jacobians `(output, parameter) -> [B, *out, *p]` with differences at random points.

    Later points have some dims of size 1. `exactly` is a second oracle: the closed form evaluated
    in many digits at the first point. `parts` tells which parts of arrays are judged. Points
    without finite value and slopes are drawn again. Raises ValidationError if there are none,
    or if a Jacobian has the wrong shape.
    """
    notes = tuple(note(one) for one in program.declared)
    program = trusting(program)
    rng = np.random.default_rng(seed)
    chosen: list[tuple[tuple[str, int], ...]] = []
    found: dict[tuple[str, str, str], Agreement] = {}
    for number in range(points):
        dims = draw_sizes(program, rng, sizes or {}, ones=number > 0)
        try:
            point = _settled_point(program, jacobian_of, wrt, rng, dims, batch, functions, parts)
            usable = number == 0 or _all_finite(point)
        except ValidationError:
            if number == 0:
                raise
            usable = False
        if not usable:  # a size of 1 may leave the domain: a standard deviation of one element
            dims = draw_sizes(program, rng, sizes or {}, ones=False)
            point = _settled_point(program, jacobian_of, wrt, rng, dims, batch, functions, parts)
        chosen.append(tuple(dims.items()))
        agreements = [_compare(point, o, p, rtol, floor) for o in program.outputs for p in wrt]
        if exactly is not None and number == 0:
            truth = exactly(point.arrays)
            agreements += [
                _compare_exactly(point, truth, o, p, floor)
                for o in program.outputs for p in wrt
            ]
        for agreement in agreements:
            key = (agreement.oracle, agreement.output, agreement.parameter)
            found[key] = _worse(found.get(key), agreement)
    method = METHOD if exactly is None else f"{METHOD}; {EXACT_METHOD}"
    return Report(method, seed, tuple(chosen), rtol, tuple(found.values()), notes)


@dataclass(frozen=True, slots=True)
class _Point:
    """One set of arrays, the Jacobians to be judged there, and the numerical ones."""

    program: Program
    arrays: dict[str, Any]
    jacobians: dict[tuple[str, str], Values]
    slopes: dict[tuple[str, str], Difference]
    directions: dict[str, Values]


def _all_finite(point: _Point) -> bool:
    return all(bool(np.all(np.isfinite(found))) for found in point.jacobians.values())


def _settled_point(
    program: Program,
    jacobian_of: JacobianOf,
    wrt: Sequence[str],
    rng: np.random.Generator,
    sizes: Mapping[str, int],
    batch: int,
    functions: Functions | None,
    parts: Selection,
) -> _Point:
    """Draw until value and slopes are finite and most differences settle.

    A layer with a kink wherever one looks has no such point; its kinks are reported then.
    """
    fallback: _Point | None = None
    kinked: _Point | None = None
    for kind in KINDS:
        arrays = draw_arrays(program, rng, sizes, batch, kind, functions)
        if not _finite(program, arrays, functions):
            continue
        try:
            point = _differenced(program, arrays, jacobian_of, wrt, rng, functions, parts)
        except ArgumentError:  # a matrix without an inverse: no slope here
            continue
        if all(np.mean(d.settled) > 0.5 for d in point.slopes.values() if d.settled.size):
            return point
        if all(np.any(d.settled) or not d.settled.size for d in point.slopes.values()):
            fallback = fallback or point
        if all(np.any(d.settled | d.folded) or not d.settled.size for d in point.slopes.values()):
            kinked = kinked or point
    for second_best in (fallback, kinked):
        if second_best is not None:
            return second_best
    raise ValidationError(
        f"{program.name}: no test point was found at which values and slopes are finite",
        hint="state where the layer is meant to be used, as in assert a > 0",
    )


def _finite(program: Program, arrays: dict[str, Any], functions: Functions | None) -> bool:
    values = interpret(program, arrays, functions=functions)
    outputs = [values.get(name, arrays.get(name)) for name in program.outputs]
    return all(bool(np.all(np.isfinite(np.asarray(value, np.float64)))) for value in outputs)


def _differenced(
    program: Program,
    arrays: dict[str, Any],
    jacobian_of: JacobianOf,
    wrt: Sequence[str],
    rng: np.random.Generator,
    functions: Functions | None,
    parts: Selection,
) -> _Point:
    """Return the Jacobians to be judged and the numerical ones, along directions if too large."""
    slopes: dict[tuple[str, str], Difference] = {}
    directions: dict[str, Values] = {}
    for parameter in wrt:
        portion = Portion.of(program, parameter, arrays, parts)
        rows = portion.directions(rng)
        if rows is not None:
            directions[parameter] = portion.placed(rows) if parts.filled else rows
        found = portion.slopes(rows, functions)
        slopes.update({(output, parameter): found[output] for output in program.outputs})
    # a copy each: what is judged must not be able to change what it is judged by
    copies = {name: np.array(a) if isinstance(a, np.ndarray) else a for name, a in arrays.items()}
    given = {key: np.asarray(value) for key, value in jacobian_of(copies).items()}
    return _Point(program, arrays, given, slopes, directions)


def _jacobian(point: _Point, output: str, parameter: str) -> Values:
    """Return the Jacobian to be judged, checked for presence and shape."""
    if (output, parameter) not in point.jacobians:
        raise ValidationError(f"the Jacobian of {output} with respect to {parameter} is missing")
    jacobian = point.jacobians[output, parameter]
    difference = point.slopes[output, parameter]
    shape = difference.jacobian.shape
    if parameter in point.directions:
        rows = point.directions[parameter]
        shape = (*shape[:-1], *rows.shape[1:])
    if jacobian.shape != shape:
        raise ValidationError(
            f"the Jacobian of {output} with respect to {parameter} has shape "
            f"{list(jacobian.shape)}, {list(shape)} expected"
        )
    return jacobian


def _compare(
    point: _Point, output: str, parameter: str, rtol: float, floor: float
) -> Agreement:
    """Compare with differences: `|J - D| <= 10 error + rtol (|D| + max|D| / 1000) + 1e-15`."""
    jacobian = _jacobian(point, output, parameter)
    difference = point.slopes[output, parameter]
    if parameter in point.directions:
        rows = point.directions[parameter]
        out = jacobian.shape[: jacobian.ndim - (rows.ndim - 1)]
        jacobian = jacobian.reshape(*out, rows[0].size) @ rows.reshape(len(rows), -1).T
    expected, settled = difference.jacobian, difference.settled
    top = np.abs(expected).max(initial=0.0, where=settled)
    error = np.where(settled, difference.error, 0.0)
    allowed = SLACK * error + rtol * (np.abs(expected) + 1e-3 * top) + floor
    kinks = int(np.sum(difference.kinks))
    return _agreement(
        (output, parameter, "finite differences"), jacobian, expected, allowed, settled, kinks
    )


def _compare_exactly(
    point: _Point, truth: Jacobians, output: str, parameter: str, floor: float
) -> Agreement:
    """Compare with a closed form in many digits, entry by entry relative to its size."""
    jacobian = _jacobian(point, output, parameter)
    expected = np.asarray(truth[output, parameter]).astype(np.float64)
    if expected.shape != jacobian.shape:
        raise InternalError(
            f"the reference Jacobian of {output} with respect to {parameter} has shape "
            f"{list(expected.shape)}, the module's {list(jacobian.shape)}"
        )
    settled = np.isfinite(expected)
    top = np.abs(expected).max(initial=0.0, where=settled)
    allowed = EXACT_RTOL * (np.abs(expected) + 1e-3 * top) + floor
    labels = (output, parameter, EXACT_METHOD)
    return _agreement(labels, jacobian, expected, allowed, settled, 0)


def _agreement(
    labels: tuple[str, str, str],
    jacobian: Values,
    expected: Values,
    allowed: Values,
    settled: Values,
    kinks: int,
) -> Agreement:
    output, parameter, oracle = labels
    with np.errstate(all="ignore"):
        error = np.where(settled, np.abs(jacobian - expected), 0.0)
        error = np.where(np.isnan(error), np.inf, error)
        relative = np.where(error > 0, error / np.abs(expected), 0.0)
        excess = np.where(error > allowed, error / np.maximum(allowed, 1e-300), 0.0)
    if not error.size:
        return Agreement(output, parameter, oracle, 0.0, 0.0, (), 0.0, 0.0, 0, kinks, True)
    worst = int(np.argmax(excess if np.any(excess) else error))
    where = tuple(int(place) for place in np.unravel_index(worst, error.shape))
    top = np.abs(expected).max(initial=0.0, where=settled)
    sizeable = settled & (np.abs(expected) > 1e-3 * top)
    return Agreement(
        output=output,
        parameter=parameter,
        oracle=oracle,
        max_error=float(error.max()),
        max_relative=float(relative.max(initial=0.0, where=sizeable)),
        where=where,
        analytic=float(jacobian[where]),
        expected=float(expected[where]),
        entries=int(np.sum(settled)),
        kinks=kinks,
        ok=not np.any(excess),
    )


def _worse(old: Agreement | None, new: Agreement) -> Agreement:
    """Return the worse of two agreements of the same Jacobian, counting over both."""
    if old is None:
        return new
    keep = old if (not old.ok, old.max_error) >= (not new.ok, new.max_error) else new
    return replace(
        keep,
        entries=old.entries + new.entries,
        kinks=old.kinks + new.kinks,
        max_error=max(old.max_error, new.max_error),
        max_relative=max(old.max_relative, new.max_relative),
    )
