"""Between callers, who may have the batch axis anywhere, and a module, where it is first.

Caller's arrays -> arrays of the module -> caller's results
Whether there is a batch axis is told by the number of axes, never by sizes; everything is a view.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.batch import inserted, inward, outward
from symgrad.derivation import Selection
from symgrad.errors import ArgumentError, ShapeError
from symgrad.program import BATCH, Index, Program


@dataclass(frozen=True, slots=True)
class Turn:
    """Turns arrays of a layer whose callers have the batch axis at `axis`; 0 changes nothing."""

    program: Program
    axis: int
    selection: Selection = Selection(())

    def arguments(self, layer: str, given: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with the batch axis of inputs first.

        Raises ShapeError for a wrong number of axes.
        """
        found = dict(given)
        for array in self.program.arrays if self.axis else ():
            if not array.batched:
                continue
            value, rank = given[array.name], len(array.axes)
            if np.ndim(value) not in (rank, rank + 1):
                axes = ", ".join(inserted([str(d) for d in array.axes], "B", self.axis))
                raise ShapeError(
                    f"{layer}: {array.name} has shape {np.shape(value)}, expected "
                    f"({axes}{',' * (not rank)}), or one sample without its batch axis B"
                )
            found[array.name] = self.inward(value, rank)
        return found

    def vectors(self, u: Any) -> Any:
        """Return what is given for the outputs, one array or a tuple, with the batch axis first."""
        names = self.program.outputs
        if not self.axis:
            return u
        if len(names) == 1:
            return self.inward(u, len(self.own(names[0])))
        if not isinstance(u, (tuple, list)) or len(u) != len(names):
            return u  # the module says what is wrong
        return tuple(self.inward(x, len(self.own(o))) for o, x in zip(names, u, strict=True))

    def tangents(self, given: Any) -> Any:
        """Return tangents with the batch axis of inputs first."""
        if not self.axis or not isinstance(given, Mapping):
            return given
        batched = [a for a in self.program.arrays if a.batched]
        ranks = {a.name: len(self.selection.axes(a)) for a in batched}
        return {n: self.inward(t, ranks[n]) if n in ranks else t for n, t in given.items()}

    def outputs(self, value: Any) -> Any:
        """Return the module's outputs, one or a tuple, as callers want them."""
        names = self.program.outputs
        if not self.axis:
            return value
        if len(names) == 1:
            return self.output(names[0], value)
        return tuple(self.output(o, y) for o, y in zip(names, value, strict=True))

    def output(self, name: str, value: Any) -> Any:
        """Return one output as callers want it."""
        return self.placed(value, len(self.own(name)))

    def gradients(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return gradients as callers want them: some have a batch axis."""
        if not self.axis:
            return dict(found)
        return {n: self.placed(g, self.rank(n)) for n, g in found.items()}

    def second(self, found: Mapping[tuple[str, ...], Any]) -> dict[tuple[str, ...], Any]:
        """Return sums of second derivatives, by pairs, as callers want them."""
        return {pair: self.placed(h, sum(map(self.rank, pair))) for pair, h in found.items()}

    def rank(self, name: str) -> int:
        """Return how many axes what is selected of an array has in one sample."""
        array = self.program.array(name)
        assert array is not None
        return len(self.selection.axes(array))

    def run(self, form: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call the module; say that its errors speak of arrays with the batch axis first."""
        if not self.axis:
            return form(*args, **kwargs)
        try:
            return form(*args, **kwargs)
        except ShapeError as error:
            hint = (
                "in this message the batch axis is first; "
                f"in your arrays it is where batch_axis={self.axis} says"
            )
            raise ShapeError(error.message, hint=hint) from None

    def own(self, output: str) -> tuple[Index, ...]:
        """Return the axes of an output of one sample."""
        definition = self.program.definition(output)
        assert definition is not None
        return tuple(i for i in definition.indices if i.dim != BATCH)

    def inward(self, value: Any, rank: int) -> Any:
        """Return an array of `rank` axes and that of the batch with the latter first."""
        if not self.axis or np.ndim(value) != rank + 1:
            return value  # one sample; or a mistake, which the module explains
        return inward(np.asarray(value), (0,), self.axis)

    def placed(self, value: Any, rank: int) -> Any:
        """Return a result of `rank` axes with the batch axis, if it has one, as callers want it."""
        return outward(value, (0,), self.axis) if self.axis and np.ndim(value) > rank else value


def require_axis(program: Program, axis: int) -> None:
    """Raise ArgumentError for a batch axis that some input or output cannot have."""
    turn = Turn(program, axis)
    ranks = {a.name: len(a.axes) for a in program.arrays if a.batched}
    if ranks:
        ranks.update({o: len(turn.own(o)) for o in program.outputs})
    for name, rank in ranks.items():
        if not -rank - 1 <= axis <= rank:
            has = f"{rank} {'axis' if rank == 1 else 'axes'} and that of the batch"
            raise ArgumentError(
                f"batch_axis={axis} does not exist in {name}, which has {has}",
                hint="-1 is the last axis of every array, 0 the first",
            )


__all__ = ["Turn", "require_axis"]
