"""Time every form of a layer at given sizes: median of many calls, one after the other.

Layer, sizes -> Timings
Arrays are random and inside the domains that the layer asserts. Dense arrays are written into ones
that are there; what memory cannot hold is said, not timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from symgrad import api
from symgrad.compiled import Compiled
from symgrad.errors import ShapeError, TooLargeError
from symgrad.memory import within_memory
from symgrad.options import open_sizes, sizes_of, whole
from symgrad.proof.sample import Kind, dim_names, sample
from symgrad.select import Wrt
from symgrad.syntax import Layer
from symgrad.units import in_bytes

LEAST = 5
"""Calls of a form that are timed at least."""

MOMENT, SPIN = 0.003, 0.3
BLOCK = 0.02
"""Seconds that one thing is called in a row before the next has its turn."""


@dataclass(frozen=True, slots=True)
class Timing:
    """A form, the median of its calls in seconds, and the bytes of its arrays.

    `reason` says why there is no time.
    """

    form: str
    seconds: float | None
    size: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Timings:
    """All forms of a layer at some sizes."""

    title: str
    batch: int
    dims: tuple[tuple[str, int], ...]
    forms: tuple[Timing, ...]

    def __str__(self) -> str:
        """Return a table: form, time of a call, bytes of what it gives."""
        sizes = ", ".join(f"{name} = {size}" for name, size in (("B", self.batch), *self.dims))
        width = max(len(one.form) for one in self.forms)
        lines = [f"{self.title}: {sizes}, float64; medians"]
        for one in self.forms:
            taken = one.reason if one.seconds is None else in_seconds(one.seconds)
            lines.append(f"{one.form:<{width}}  {taken:>10}  {in_bytes(one.size):>10}")
        return "\n".join(lines)


@within_memory
def bench(
    subject: Layer | str,
    wrt: Wrt = "params",
    *,
    batch: int = 256,
    dims: Mapping[str, Any] | None = None,
    functions: Mapping[str, Any] | None = None,
    seconds: float = 0.5,
    seed: int = 0,
) -> Timings:
    """Return what a call of each form takes, each called for about `seconds`.

    The kernels are compiled first and not checked. Raises ShapeError if a dim has no size.
    """
    found = placed(subject, wrt, batch=batch, dims=dims, functions=functions, seed=seed)
    timed_forms = tuple(
        _timing(form, call, seconds) for form, call in _calls(found.compiled, found.given)
    )
    return Timings(found.compiled.name, found.batch, found.shown, timed_forms)


@dataclass(frozen=True, slots=True)
class Placed:
    """A layer compiled, and arrays of the sizes that were given; `fixed` are compiled in."""

    compiled: Compiled
    batch: int
    sizes: Mapping[str, int]
    fixed: Mapping[str, str]
    arrays: dict[str, Any]

    @property
    def given(self) -> dict[str, Any]:
        """The arrays that calls pass: all without a default."""
        program = self.compiled.forms.program
        return {a.name: self.arrays[a.name] for a in program.arrays if a.default is None}

    @property
    def shown(self) -> tuple[tuple[str, int], ...]:
        """Names and sizes of the dims."""
        return tuple((name, self.sizes[name]) for name in dim_names(self.compiled.forms.program))


def placed(
    subject: Layer | str,
    wrt: Wrt,
    *,
    batch: int,
    dims: Mapping[str, Any] | None,
    functions: Mapping[str, Any] | None,
    seed: int,
    kind: Kind = "normal",
) -> Placed:
    """Return a layer compiled, not checked, with random arrays inside its domains, see `sample`.

    Raises ShapeError if a dim has no size.
    """
    batch = whole(batch, "batch", 1)
    read = api.layer(subject)
    given = sizes_of(dims, read)
    fixed = api.fixed_sizes(read, given)
    compiled = api.compile(read, wrt, functions=functions, dims=fixed, check=False)
    program = compiled.forms.program
    rest = {name: size for name, size in given.items() if name not in fixed}
    sizes = open_sizes(rest, program)
    names = dim_names(program)
    if missing := [name for name in names if name not in sizes]:
        raise ShapeError(
            f"{compiled.name}: no size is given for {', '.join(missing)}",
            hint=f"give all of them: --dim {missing[0]}=64, or dims={{{missing[0]!r}: 64}}",
        )
    arrays = sample(program, seed, sizes, batch, kind)
    return Placed(compiled, batch, sizes, fixed, arrays)


def _calls(jac: Compiled, arrays: dict[str, Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Return every form by its name, ready to be called."""
    value = jac.forward(**arrays)
    several = isinstance(value, tuple)
    u = tuple(map(np.ones_like, value)) if several else np.ones_like(value)
    given = list(arrays.values())
    yield "forward", lambda: jac.forward(*given)
    yield "jacobian", lambda: jac.jacobian(*given)
    yield "vjp", lambda: jac.vjp(*given, u)
    yield "jvp", lambda: jac.jvp(*given, {name: arrays[name] for name in jac.wrt})
    for name in jac.wrt:
        yield f"jac_{name}(out=)", _Dense(getattr(jac, f"jac_{name}"), given)
        for kind in ("compact", "factors"):
            form = getattr(jac, f"jac_{name}_{kind}", None)
            if form is not None:
                yield f"jac_{name}_{kind}", partial(form, *given)


@dataclass(slots=True)
class _Dense:
    """A dense form that writes into the arrays of its first call."""

    form: Callable[..., Any]
    given: list[Any]
    out: Any = None

    def __call__(self) -> Any:
        if self.out is None:
            self.out = self.form(*self.given)
        return self.form(*self.given, out=self.out)


def _timing(form: str, call: Callable[[], Any], seconds: float) -> Timing:
    try:
        found = call()
    except TooLargeError as error:
        return Timing(form, None, 0, str(error).splitlines()[0])
    return Timing(form, timed(call, seconds), _bytes(found))


def _bytes(found: Any) -> int:
    """Return the bytes of all arrays of a result."""
    if isinstance(found, np.ndarray):
        return found.nbytes
    if isinstance(found, (tuple, list)):
        return sum(map(_bytes, found))
    if not isinstance(found, Mapping):
        return 0
    parts = found.values()
    return sum(_bytes(part.factors() if hasattr(part, "factors") else part) for part in parts)


def timed(call: Callable[[], object], seconds: float = 1.0) -> float:
    """Return the median time of many calls, in seconds, warmed up."""
    call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < LEAST or time.perf_counter() < end:
        times.append(once(call))
    return median(times)


def side_by_side(*runs: Callable[[], object], seconds: float = 0.5) -> list[float]:
    """Return the median time of each in seconds, called in turns in blocks.

    Each is called for about `seconds` in all, at least 9 times, in 3 or more blocks of at least 3
    calls. A block waits for threads of the one before that still spin, and its first third is not
    counted. What takes longer than all of that is called twice, and the second call counts.
    `seconds=0` calls each in one block, to see that it runs.
    """
    times: list[list[float]] = [[] for _ in runs]
    blocks = []
    for place, run in enumerate(runs):
        run()
        first = once(run) if seconds else 0.0
        block = min(300, int(BLOCK / max(first, 1e-9))) if seconds else 3
        blocks.append(max(3, block))
        if seconds and first > seconds:
            times[place], blocks[place] = [first], 0
    rounds = max(3, int(seconds / BLOCK)) if seconds else 1
    spent = [0.0] * len(runs)
    for turn in range(rounds):
        for place, (run, block) in enumerate(zip(runs, blocks, strict=True)):
            if not block or (turn >= 3 and spent[place] > seconds):
                continue
            if seconds:
                settle()
            taken = [once(run) for _ in range(block)]
            spent[place] += sum(taken)
            times[place] += taken[block // 3 :]
    return [median(counted) for counted in times]


def settle() -> None:
    """Wait until no thread of this process computes, or spins for work; not for ever."""
    for _ in range(int(SPIN / MOMENT)):
        before = time.process_time()
        time.sleep(MOMENT)
        if time.process_time() - before < MOMENT / 10:
            return


def once(call: Callable[[], object]) -> float:
    """Return the seconds that one call takes."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def in_seconds(taken: float) -> str:
    """Return a time in a unit that is read at a glance: `12.3 µs`."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if taken * factor >= 1:
            return f"{taken * factor:.3g} {unit}"
    return f"{taken * 1e6:.3g} µs"


__all__ = [
    "Placed",
    "Timing",
    "Timings",
    "bench",
    "in_seconds",
    "once",
    "placed",
    "side_by_side",
    "timed",
]
