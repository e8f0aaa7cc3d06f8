"""Forms of structured Jacobians, planned once for each structure and sizes, then only run.

Forms -> plan, kept -> sums added to totals
What positions are made of data cannot be planned: those forms are worked out in every call.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.products import tiles
from symgrad.products.contract import contract
from symgrad.products.eliminate import eliminate
from symgrad.products.rows import Rows
from symgrad.products.terms import Axis, Product, Values
from symgrad.products.traced import Program, Recorder, Traced
from symgrad.program import BATCH, Affine

if TYPE_CHECKING:
    from symgrad.form import Structured
    from symgrad.products.sides import Factored

KEPT = 256
"""Plans that are kept; the oldest go first."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Products that are added up, each summed over all `axes` but those of the result."""

    products: tuple[Product, ...]
    result: tuple[Axis, ...]
    axes: tuple[Axis, ...]

    def add_to(self, total: Values) -> None:
        """Add the sums to an array of the result's shape."""
        for product in self.products:
            contract(product, self.result, self.axes, total.dtype, total)


Make = Callable[[Sequence[Any], Sequence[Any], Sequence[Rows]], Sums]


@dataclass(frozen=True, slots=True)
class Form:
    """A form by name, of Jacobians and arrays: `make(sides, given, rows)` returns its sums.

    Whatever `make` reads beside those has to be in the name.
    """

    name: Hashable
    sides: tuple[Factored, ...]
    given: tuple[Values, ...]
    make: Make

    @property
    def key(self) -> Hashable:
        """What its plan depends on beside the passes."""
        arrays = tuple((a.shape, a.dtype) for a in self.given)
        return self.name, tuple(id(f.structured) for f in self.sides), arrays

    def sums(self, *rows: Rows) -> Sums:
        """Return its sums for some samples."""
        return self.make(self.sides, self.given, rows)


@dataclass(slots=True)
class Plans:
    """The plans of one compiled layer, by what they depend on.

    A plan holds on to the structures whose identity is part of its key.
    """

    made: dict[Hashable, tuple[Any, Any]] = field(default_factory=dict)
    steady: dict[int, tuple[bool, Structured]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.made)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy nothing of it: plans are made again."""
        return Plans, ()

    def of(self, key: Hashable, held: Sequence[Any], make: Callable[[], Any]) -> Any:
        """Return the plan for a key, made at its first use; threads may make it twice."""
        found = self.made.get(key)
        if found is None:
            found = make(), held
            while len(self.made) >= KEPT:
                self.made.pop(next(iter(tuple(self.made))), None)
            self.made[key] = found
        return found[0]

    def can(self, structured: Structured) -> bool:
        """Whether no position of a Jacobian is data, nor depends on which samples are taken."""
        found = self.steady.get(id(structured))
        if found is None:
            found = _steady(structured), structured
            self.steady[id(structured)] = found
        return found[0]


def _steady(structured: Structured) -> bool:
    deltas = [d for term in structured.terms for d in term.deltas]
    ends = [p for d in (*deltas, *structured.jacobian.filling) for p in (d.left, d.right)]
    affine = [p for p in ends if isinstance(p, Affine)]
    return len(affine) == len(ends) and not any(i.dim == BATCH for p in affine for i, _ in p.terms)


class Work:
    """Forms with the totals that they are added to.

    Where the result of a form begins with samples, some samples have their own place in its
    total, along the axis `along` of each batch.
    """

    def __init__(
        self, forms: Sequence[Form], totals: Sequence[Values], along: Sequence[int] = ()
    ) -> None:
        self.forms, self.totals, self.along = forms, totals, tuple(along)
        sides = [side for form in forms for side in form.sides]
        plans = sides[0].plans
        self._plans = plans if all(plans.can(s.structured) for s in sides) else None
        self._held = [s.structured for s in sides]
        passes = {id(s.done): s.done for s in sides}
        self._passes = list(passes.values())
        number = {one: n for n, one in enumerate(passes)}
        same = {id(t): n for n, t in reversed(list(enumerate(totals)))}
        self._owner = [same[id(t)] for t in totals]
        self._key: Hashable = (
            tuple((f.key, tuple(number[id(s.done)] for s in f.sides)) for f in forms),
            tuple((*p.sizes.values(), p.dtype) for p in self._passes),
            tuple((t.shape, t.dtype, n) for t, n in zip(totals, self._owner, strict=True)),
            self.along,
        )

    def add(self, *rows: Rows) -> None:
        """Add all forms of some samples."""
        if self._plans is None:
            for form, total in zip(self.forms, self.totals, strict=True):
                sums = form.sums(*rows)
                sums.add_to(self._placed(total, sums, rows))
            return
        key = ("add", tuple(r.stop - r.start for r in rows), self._key)
        program: Program = self._plans.of(key, self._held, lambda: self._program(rows))

        def given(name: tuple[Any, ...]) -> Any:
            kind, number, *rest = name
            if kind == "value":
                return np.asarray(self._passes[number].values[rest[0]])
            if kind == "rows":
                return slice(rows[number].start, rows[number].stop)
            return self.totals[number] if kind == "total" else self.forms[number].given[rest[0]]

        program.run(given)

    def piece(self, count: int, batches: int = 1) -> int:
        """Return how many samples to take at a time, of each of so many batches."""
        if self._plans is None:
            return self._piece(count, batches)
        key = ("piece", count, batches, tiles.WORKSPACE, self._key)
        found: int = self._plans.of(key, self._held, lambda: self._piece(count, batches))
        return found

    def _piece(self, count: int, batches: int) -> int:
        one, dtype = (Rows(0, 1),) * batches, self.totals[0].dtype
        sums = [form.sums(*one) for form in self.forms]
        reduced = [eliminate(p, s.result, s.axes, dtype) for s in sums for p in s.products]
        return tiles.samples_at_a_time(reduced, count, dtype.itemsize)

    def _placed(self, total: Any, sums: Sums, rows: Sequence[Rows]) -> Any:
        if sums.result and sums.result[0].samples:
            for some, axis in zip(rows, self.along, strict=False):
                total = some.of(total, axis)
        return total

    def _program(self, rows: Sequence[Rows]) -> Program:
        """Return the plan of so many samples."""
        recorder = Recorder(getattr(self._passes[0].module, "_COMPILED", False))
        passes: dict[int, Any] = {
            id(done): TracedPass(done, _Values(recorder, n, done.values))
            for n, done in enumerate(self._passes)
        }
        traced = [Rows(0, r.stop - r.start, label) for label, r in enumerate(rows)]
        for n, (form, total) in enumerate(zip(self.forms, self.totals, strict=True)):
            sides = [replace(f, done=passes[id(f.done)]) for f in form.sides]
            given = [
                recorder.given(("given", n, k), a.shape, a.dtype) for k, a in enumerate(form.given)
            ]
            sums = form.make(sides, given, traced)
            into = recorder.given(("total", self._owner[n]), total.shape, total.dtype)
            sums.add_to(self._placed(into, sums, traced))
        return recorder.program()


@dataclass(frozen=True, slots=True)
class TracedPass:
    """A pass whose arrays are traced."""

    done: Any
    values: _Values

    def __getattr__(self, name: str) -> Any:
        return getattr(self.done, name)


@dataclass(frozen=True, slots=True)
class _Values:
    """The arrays of a pass by name, traced."""

    recorder: Recorder
    number: int
    real: Any

    def __getitem__(self, name: str) -> Traced:
        array = np.asarray(self.real[name])
        return self.recorder.given(("value", self.number, name), array.shape, array.dtype)


def all_at_once(forms: Sequence[Form], totals: Sequence[Values], count: int) -> None:
    """Add each form of all samples to its total."""
    if forms:
        Work(forms, totals).add(Rows(0, count))


def one_by_one(forms: Sequence[Form], totals: Sequence[Values], count: int) -> None:
    """Add each form to its total, over pieces of the batch.

    If the result of a form begins with the samples' axis, each piece has its own place in its
    total.
    """
    if not forms or not count:
        return
    work = Work(forms, totals, along=(0,))
    for rows in tiles.pieces(count, work.piece(count)):
        work.add(rows)


__all__ = ["Form", "Make", "Plans", "Sums", "Work", "all_at_once", "one_by_one"]
