"""Draw arrays a program can be run on: small distinct sizes, random numbers inside its domains.

Program, seed -> {name: array}
Normal numbers first; arrays in a violated domain are drawn again, positive, then in (0, 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from symgrad.dims import Dim
from symgrad.errors import ShapeError, ValidationError
from symgrad.program import (
    BATCH,
    Array,
    Check,
    Program,
    Size,
    affine_of,
    arrays_of,
    positions,
    reads,
    scalars_of,
    walk,
)
from symgrad.proof.interpret import domains_hold
from symgrad.proof.intervals import Interval, intervals
from symgrad.proof.run import Functions

Values = NDArray[Any]
Kind = Literal["normal", "positive", "unit", "definite"]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Values]

POOL = (3, 4, 2, 5, 6, 7, 8, 9, 10, 11)
TRIES = 40


def sample(
    program: Program,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    batch: int = 3,
    kind: Kind = "normal",
    functions: Functions | None = None,
) -> dict[str, Any]:
    """Return arrays for every declared name: inputs `[B, *in]`, scalars as 0-d arrays or floats.

    Dims not in `sizes` get small sizes of their own. `kind` is the distribution to begin with:
    `normal` (matrices scaled by 1/sqrt of the last axis), `positive`, `unit` for (0, 1), or
    `definite`: positive, and square matrices positive definite.
    Raises ValidationError if no point inside the asserted domains is found.
    """
    rng = np.random.default_rng(seed)
    chosen = draw_sizes(program, rng, sizes or {})
    return draw_arrays(program, rng, chosen, batch, kind, functions)


def draw_sizes(
    program: Program, rng: np.random.Generator, given: Mapping[str, int], *, ones: bool = False
) -> dict[str, int]:
    """Return a size for every dim such that every axis and every range has at least one element.

    With `ones`, some of the sizes not given are 1 if conditions allow it.
    Raises ShapeError if no sizes are found.
    """
    names = dim_names(program)
    free = [name for name in names if name not in given]
    reach = _reach(program)
    for attempt in range(400):
        width = min(len(POOL), len(free) + 1 + attempt // 40)
        pool = [int(size) for size in rng.permutation(POOL[:width])]
        chosen = {name: int(given[name]) for name in names if name in given}
        for place, name in enumerate(free):
            chosen[name] = pool[place % len(pool)]
            if ones and attempt < 200 and rng.random() < 0.5:
                chosen[name] = 1
            if attempt >= 20 and rng.random() < 0.5:
                chosen[name] += reach
        if fits(program, chosen, least=1 if attempt < 300 else 0):
            return chosen
    raise _nothing_fits(program, names)


def _reach(program: Program) -> int:
    """Return the largest number in the checks: `x[:100]` needs more than small sizes."""
    dims = (d for check in program.checks for d in (check.low, check.high, check.limit))
    return max((abs(number) for dim in dims for _, number in dim.terms), default=0)


def _nothing_fits(program: Program, names: tuple[str, ...]) -> ShapeError:
    """Return the error that says which access stays inside its array at no size tried."""
    sizes = ", ".join(names)
    hint = f'give sizes that fit: dims={{"{names[0]}": ...}}' if names else None
    for check in program.checks:
        if not any(_holds(check, dict.fromkeys(names, size)) for size in range(1, len(POOL))):
            message = f"{check.message} at all sizes of {sizes} that were tried"
            return ShapeError(message, check.span, program.source, hint)
    message = f"no sizes of {sizes} that were tried fit the layer"
    return ShapeError(message, None, program.source, hint)


def _holds(check: Check, chosen: Mapping[str, int]) -> bool:
    high, limit = check.high.evaluate(chosen), check.limit.evaluate(chosen)
    inside = check.low.evaluate(chosen) >= 0 and high <= limit
    return inside and (high == limit or not check.exact)


def fits(program: Program, chosen: Mapping[str, int], least: int = 1) -> bool:
    """Tell whether every axis and range has at least `least` elements and every check holds."""
    dims = (d for d in _dims(program) if d != BATCH)
    if any(dim.evaluate(chosen) < least for dim in dims):
        return False
    return all(_holds(check, chosen) for check in program.checks)


def dim_names(program: Program) -> tuple[str, ...]:
    """Return every dim name of a program, each once, declared arrays first."""
    found: dict[str, None] = {}
    sources = [*_dims(program), *_offsets(program)]
    sources += [d for check in program.checks for d in (check.low, check.high, check.limit)]
    for dim in sources:
        for name in dim.names:
            found[name] = None
    return tuple(name for name in found if name not in BATCH.names)


def _dims(program: Program) -> Iterator[Dim]:
    for array in program.arrays:
        yield from array.axes
        if array.vocabulary is not None:
            yield array.vocabulary
    for definition in program.definitions:
        body = definition.body
        bound = [t.bound for t in body] if isinstance(body, tuple) else [body.bound]
        for indices in (definition.indices, *bound):
            yield from (index.dim for index in indices)


def _offsets(program: Program) -> Iterator[Dim]:
    """Yield dims that occur as numbers or inside positions only."""
    for definition in program.definitions:
        for scalar in scalars_of(definition.body):
            for node in walk(scalar):
                if isinstance(node, Size):
                    yield node.dim
                for position in positions(node):
                    yield from (affine.offset for affine in affine_of(position))


def draw_arrays(
    program: Program,
    rng: np.random.Generator,
    sizes: Mapping[str, int],
    batch: int,
    kind: Kind = "normal",
    functions: Functions | None = None,
) -> dict[str, Any]:
    """Return arrays of the given sizes inside the asserted domains.

    Raises ValidationError if none are found.
    """
    kinds: dict[str, str] = {array.name: kind for array in program.arrays}
    ways = [way for way in DRAWS if way != kind]
    between = intervals(program)
    violated: list[int] = []
    for attempt in range(TRIES):
        arrays = {
            array.name: _draw(array, rng, sizes, batch, kinds[array.name], between)
            for array in program.arrays
        }
        held = domains_hold(program, arrays, functions=functions)
        violated = [place for place, holds in enumerate(held) if not holds]
        if not violated:
            return arrays
        for place in violated:
            for name in _declared_in(program, place):
                bounded = name in between and not attempt % 2
                kinds[name] = "between" if bounded else ways[attempt % len(ways)]
    texts = ", ".join(program.conditions[place].text for place in violated)
    raise ValidationError(
        f"no test point satisfies assert {texts}",
        program.conditions[violated[0]].span,
        program.source,
        hint="state the domain array by array, as in assert a > 0",
    )


def _declared_in(program: Program, place: int) -> tuple[str, ...]:
    """Return the declared arrays a condition depends on, through definitions too."""
    names = list(arrays_of(program.conditions[place].mask))
    seen: dict[str, None] = {}
    while names:
        name = names.pop(0)
        if name in seen:
            continue
        seen[name] = None
        definition = program.definition(name)
        if definition is not None:
            names += reads(definition)
    return tuple(name for name in seen if program.definition(name) is None)


def _draw(
    array: Array,
    rng: np.random.Generator,
    sizes: Mapping[str, int],
    batch: int,
    kind: str,
    between: Mapping[str, Interval],
) -> Any:
    if array.default is not None:
        return array.default
    shape = tuple(dim.evaluate(sizes) for dim in array.axes)
    if array.batched:
        shape = (batch, *shape)
    if array.role == "index":
        assert array.vocabulary is not None
        return rng.integers(0, array.vocabulary.evaluate(sizes), size=shape)
    if kind == "between":
        return _inside(rng, shape, between[array.name])
    values = DRAWS[kind](rng, shape)
    if kind == "normal" and array.role != "input" and len(shape) > 1:
        values = values / np.sqrt(max(1, shape[-1]))
    return np.asarray(values)


def _inside(rng: np.random.Generator, shape: tuple[int, ...], interval: Interval) -> Values:
    """Draw well inside an interval; an open end is a unit, or as far as the other, away."""
    low, high = interval
    if not isfinite(low) and not isfinite(high):
        return np.asarray(rng.standard_normal(shape))
    reach = 2 * max(1.0, abs(low if isfinite(low) else high))
    low = low if isfinite(low) else high - reach
    high = high if isfinite(high) else low + reach
    return np.asarray(low + (high - low) * rng.uniform(0.1, 0.9, shape))


def _definite(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
    if len(shape) < 2 or shape[-1] != shape[-2]:
        return np.asarray(rng.uniform(0.2, 2.0, shape))
    root = rng.standard_normal(shape)
    return np.asarray(root @ np.swapaxes(root, -1, -2) / shape[-1] + np.eye(shape[-1]))


DRAWS: Mapping[str, Draw] = MappingProxyType(
    {
        "normal": lambda rng, shape: np.asarray(rng.standard_normal(shape)),
        "positive": lambda rng, shape: np.asarray(rng.uniform(0.2, 2.0, shape)),
        "unit": lambda rng, shape: np.asarray(rng.uniform(0.1, 0.9, shape)),
        "negative": lambda rng, shape: np.asarray(rng.uniform(-2.0, -0.2, shape)),
        "above": lambda rng, shape: np.asarray(rng.uniform(1.2, 3.0, shape)),
        "centred": lambda rng, shape: np.asarray(rng.uniform(-0.9, 0.9, shape)),
        "definite": _definite,
    }
)
"""Ways to draw numbers, in the order in which a violated domain tries them."""
