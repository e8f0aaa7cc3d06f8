"""Differentiate a program numerically: central differences, extrapolated, with an error estimate.

Program, arrays, name -> {output: Difference}
The array in question is given a batch axis of its own, so that all steps of all entries are taken
by one evaluation of the reference interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symgrad.program import (
    Access,
    Affine,
    Definition,
    Delta,
    Lookup,
    Position,
    Program,
    Scalar,
    blocks,
    over_body,
    reads,
    rebuild,
)
from symgrad.proof.interpret import batch_size, bind, interpret
from symgrad.proof.run import Functions

Values = NDArray[Any]

STEPS = tuple(2.0 ** -(8 + 2 * k) for k in range(5))
"""Relative steps, each a quarter of the one before; the last two look for kinks."""
SMALLEST_SCALE = 0.125
ROWS = 4096
"""Most samples one evaluation is given."""
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True)
class Difference:
    """A numerical Jacobian `[B, *out, *p]`, its estimated error, and where it has a kink.

    The error is inf where the differences settle on no number; `kinks` marks entries at which the
    two one-sided slopes differ however small the step.
    """

    jacobian: Values
    error: Values
    kinks: Values

    @property
    def settled(self) -> Values:
        """Where the numerical slope may be held against another one."""
        return np.asarray(np.isfinite(self.error) & ~self.kinks)

    @property
    def folded(self) -> Values:
        """Where the function is finite on both sides, with a kink between them."""
        return np.asarray(self.kinks & np.isfinite(self.jacobian))


def differences(
    program: Program,
    arrays: Mapping[str, Any],
    parameter: str,
    *,
    directions: Values | None = None,
    functions: Functions | None = None,
) -> dict[str, Difference]:
    """Return d output / d parameter for every output, by differences in float64.

    With `directions` `[E, *p]` the results are `[B, *out, E]`: slopes along those. Frozen
    definitions keep the value they have at the base point. Errors as for `interpret`.
    """
    bound = bind(program, arrays)
    base = interpret(program, arrays, functions=functions)
    point = _Point(
        program=program,
        spread=spread(program, parameter),
        arrays=bound,
        base=base,
        parameter=parameter,
        batch=batch_size(program, bound),
        functions=functions,
    )
    own = _shape_of(point)
    flat = (
        None
        if directions is None
        else np.asarray(directions, np.float64).reshape(len(directions), own.size)
    )
    count = own.size if flat is None else len(flat)
    pieces = [point.slopes(rows) for rows in _chunks(count, flat, own.size, point.rows_each)]
    shape = own.shape if flat is None else (count,)
    return {
        name: _join([piece[name] for piece in pieces], shape, point, name)
        for name in program.outputs
    }


@dataclass(frozen=True, slots=True)
class _Own:
    shape: tuple[int, ...]
    size: int


def _shape_of(point: _Point) -> _Own:
    """Return the shape of the array without its batch axis, and how many entries that makes."""
    shape = point.arrays[point.parameter].shape[1 if point.owns_batch else 0 :]
    return _Own(shape, int(np.prod(shape, dtype=np.int64)))


def _chunks(count: int, flat: Values | None, size: int, rows_each: int) -> Iterator[Values]:
    """Yield directions `[E, P]`, few enough at a time for one evaluation."""
    most = max(1, min(ROWS // max(1, rows_each), 4_000_000 // max(1, size * rows_each)))
    for start in range(0, count, most):
        stop = min(count, start + most)
        if flat is not None:
            yield flat[start:stop]
        else:
            unit = np.zeros((stop - start, size))
            unit[np.arange(stop - start), np.arange(start, stop)] = 1.0
            yield unit


@dataclass(frozen=True, slots=True)
class _Point:
    """Where the program is differentiated; `spread` has the parameter as a per-sample array."""

    program: Program
    spread: Program
    arrays: dict[str, Values]
    base: dict[str, Values]
    parameter: str
    batch: int | None
    functions: Functions | None

    @property
    def owns_batch(self) -> bool:
        array = self.program.array(self.parameter)
        return array is not None and array.batched

    @property
    def rows_each(self) -> int:
        return 2 * len(STEPS) * (1 if self.batch is None else self.batch)

    def value(self, name: str) -> Values:
        """Return an output at the base point as `[B, *out]` (B = 1 in a layer without inputs)."""
        value = np.asarray(self.base.get(name, self.arrays.get(name)), dtype=np.float64)
        batch = 1 if self.batch is None else self.batch
        definition = self.program.definition(name)
        array = self.program.array(name)
        batched = definition is not None and self.program.batch in definition.indices
        if batched or (array is not None and array.batched):
            return value
        return np.broadcast_to(value, (batch, *value.shape))

    def slopes(self, rows: Values) -> dict[str, Difference]:
        """Return slopes along the directions `rows` [E, P], each `[E, B, *out]`."""
        batch = 1 if self.batch is None else self.batch
        theta = np.asarray(self.arrays[self.parameter], np.float64)
        theta = theta.reshape(batch if self.owns_batch else 1, rows.shape[1])
        touched = np.abs(rows[:, None, :] * theta[None]).max(axis=2, initial=0.0)
        scale = np.maximum(touched, SMALLEST_SCALE) * np.ones((1, batch))
        scale = 2.0 ** np.round(np.log2(scale))
        signed = np.array([sign * step for step in STEPS for sign in (1.0, -1.0)])
        steps = signed[None, :, None] * scale[:, None, :]
        moved = theta[None, None] + steps[..., None] * rows[:, None, None, :]
        values = self.evaluate(moved)
        return {
            name: _extrapolate(
                values[name], self.value(name), scale, np.abs(theta).max(initial=0.0)
            )
            for name in self.program.outputs
        }

    def evaluate(self, moved: Values) -> dict[str, Values]:
        """Return the outputs at parameters `moved` [E, S, B, P], as `[E, S, B, *out]`."""
        entries, steps, batch, _ = moved.shape
        copies = entries * steps
        given: dict[str, Any] = {}
        for array in self.program.arrays:
            value = self.arrays[array.name]
            if array.name == self.parameter:
                own = value.shape[1:] if array.batched else value.shape
                given[array.name] = moved.reshape(copies * batch, *own)
            else:
                given[array.name] = _tiled(value, copies) if array.batched else value
        held = {}
        for definition in self.program.definitions:
            if definition.frozen:
                value = self.base[definition.name]
                batched = self.program.batch in definition.indices
                held[definition.name] = _tiled(value, copies) if batched else value
        found = interpret(self.spread, given, held=held, functions=self.functions)
        results = {}
        for name in self.program.outputs:
            value = np.asarray(found.get(name, given.get(name)), np.float64)
            if self.batched_in_spread(name):
                results[name] = value.reshape(entries, steps, batch, *value.shape[1:])
            else:
                results[name] = np.broadcast_to(value, (entries, steps, batch, *value.shape))
        return results

    def batched_in_spread(self, name: str) -> bool:
        definition = self.spread.definition(name)
        if definition is not None:
            return self.spread.batch in definition.indices
        array = self.spread.array(name)
        return array is not None and array.batched


def _tiled(value: Values, copies: int) -> Values:
    return np.tile(value, (copies, *(1,) * (value.ndim - 1)))


def _extrapolate(values: Values, base: Values, scale: Values, largest: float) -> Difference:
    """Return slopes from values `[E, 2K, B, *out]` at ±steps around `base` `[B, *out]`.

    Neville's table for central differences, whose error is a series in h²; the estimate of an
    entry is the last correction plus what rounding of f and of the step can do.
    """
    per_entry = (*scale.shape, *(1,) * (base.ndim - 1))
    steps = [step * scale.reshape(per_entry) for step in STEPS]
    with np.errstate(all="ignore"):
        up, down = values[:, 0::2], values[:, 1::2]
        central = [(up[:, k] - down[:, k]) / (2 * h) for k, h in enumerate(steps)]
        first = [(16 * fine - rough) / 15 for rough, fine in pairwise(central)]
        second = [(256 * fine - rough) / 255 for rough, fine in pairwise(first)]
        size = np.abs(base).max(axis=tuple(range(1, base.ndim)), initial=0.0)
        size = size.reshape(1, base.shape[0], *(1,) * (base.ndim - 1))
        candidates = [
            (second[k], np.abs(second[k] - first[k + 1]), steps[k + 2]) for k in range(len(second))
        ]
        candidates.append((first[-1], np.abs(first[-1] - central[-1]), steps[-1]))
        best, error = np.zeros_like(central[0]), np.full_like(central[0], np.inf)
        for slope, correction, h in candidates:
            rounding = EPS * (8 * size + np.abs(slope) * largest) / h
            total = np.where(np.isfinite(slope), correction + rounding, np.inf)
            best, error = np.where(total < error, slope, best), np.minimum(error, total)
        gaps = [np.abs(up[:, k] - 2 * base + down[:, k]) / steps[k] for k in (-2, -1)]
        noise = 1e-6 * np.abs(best) + 64 * EPS * size / steps[-1]
        kinks = (gaps[1] > 0.5 * gaps[0]) & (gaps[1] > noise)
        kinks |= ~np.isfinite(gaps[1])
        top = np.abs(best).max(initial=0.0, where=np.isfinite(best))
        vague = error > 1e-4 * (np.abs(best) + 1e-2 * top) + 1e-9 * size
    return Difference(best, np.where(vague, np.inf, error), kinks)


def _join(pieces: list[Difference], shape: tuple[int, ...], point: _Point, name: str) -> Difference:
    """Put chunks `[E, B, *out]` together as `[B, *out, *shape]`, without B where there is none."""
    out = point.value(name).shape
    if not pieces:
        nothing = np.zeros((*out, *shape))
        joined = Difference(nothing, nothing, nothing.astype(bool))
    else:
        joined = Difference(
            *(
                np.moveaxis(np.concatenate([getattr(p, part) for p in pieces]), 0, -1).reshape(
                    (*out, *shape)
                )
                for part in ("jacobian", "error", "kinks")
            )
        )
    if point.batch is not None:
        return joined
    return Difference(joined.jacobian[0], joined.error[0], joined.kinks[0])


def spread(program: Program, parameter: str) -> Program:
    """Return the program with a shared array made per-sample, and all that depends on it.

    Frozen definitions are left alone: they are held at given values.
    """
    array = program.array(parameter)
    if array is None or array.batched:
        return program
    arrays = tuple(
        replace(a, role="input", default=None) if a is array else a for a in program.arrays
    )
    affected = {parameter}
    moved: set[str] = set()
    for unit in blocks(program.definitions):
        for _ in unit:  # what a recurrence reads of earlier steps stands further down
            for definition in unit:
                if not definition.frozen and set(reads(definition)) & affected:
                    moved.add(definition.name)
                    if program.batch not in definition.indices:
                        affected.add(definition.name)
    definitions = [
        _batched(d, program, affected) if d.name in moved else d for d in program.definitions
    ]
    return replace(program, arrays=arrays, definitions=tuple(definitions), conditions=())


def _batched(definition: Definition, program: Program, affected: set[str]) -> Definition:
    """Give a definition the batch index, and the affected arrays it reads too."""

    def position(place: Position) -> Position:
        if isinstance(place, Affine):
            return place
        at = tuple(position(p) for p in place.at)
        return Lookup(place.array, (batch, *at) if place.array in affected else at)

    def change(node: Scalar) -> Scalar:
        if isinstance(node, Access):
            at = tuple(position(p) for p in node.at)
            return Access(node.array, (batch, *at) if node.array in affected else at)
        if isinstance(node, Delta):
            return Delta(position(node.left), position(node.right))
        return node

    batch = Affine.of(program.batch)
    indices = definition.indices
    if program.batch not in indices:
        indices = (program.batch, *indices)
    body = over_body(definition.body, lambda scalar: rebuild(scalar, change))
    return replace(definition, indices=indices, body=body)
