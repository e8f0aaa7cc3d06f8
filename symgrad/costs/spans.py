"""Recurrences that are computed again segment by segment: how many there are, and how long.

Clock, lag -> Span
A segment has about as many steps as the root of all; both numbers are sizes of their own here,
`segment(T)` and `segments(T)`, since no polynomial gives them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isqrt

from symgrad.algebra.segments import Clock
from symgrad.dims import ONE, ZERO, Dim


@dataclass(frozen=True, slots=True)
class Span:
    """A walk through the segments of a recurrence; `lag` is the least length of one."""

    clock: Clock
    lag: int

    @property
    def _words(self) -> str:
        return f"{self.clock.dim}" if self.lag == 1 else f"{self.clock.dim}, {self.lag}"

    @property
    def length(self) -> Dim:
        """The steps of a segment; the last one may have fewer."""
        return Dim.of(f"segment({self._words})")

    @property
    def count(self) -> Dim:
        """The number of segments."""
        return Dim.of(f"segments({self._words})")

    def sizes(self, known: Mapping[str, int]) -> dict[str, int]:
        """Return both numbers, nothing where the number of steps is not known."""
        if not set(self.clock.dim.names) <= set(known):
            return {}
        steps = self.clock.dim.evaluate(known)
        length = max(self.lag, isqrt(max(steps - 1, 0)) + 1)
        return {self.length.names[0]: length, self.count.names[0]: -(-steps // length)}

    def each(self, known: Mapping[str, int]) -> Iterator[dict[str, int]]:
        """Yield the sizes that hold in each segment."""
        clock, (length, _) = self.clock, self.sizes(known).values()
        steps = clock.dim.evaluate(known)
        for start in range(0, steps, length):
            stop = min(start + length, steps)
            own = {clock.start: start, clock.stop: stop, clock.steps: stop - start}
            own[clock.segment] = length
            yield {**known, **{dim.names[0]: size for dim, size in own.items()}}

    def longest(self, dim: Dim) -> Dim:
        """Return a size in the longest segment."""
        names = [d.names[0] for d in (self.clock.steps, self.clock.segment)]
        return dim.substitute(dict.fromkeys(names, self.length))

    def total(self, dim: Dim) -> tuple[Dim, bool]:
        """Return the sum of a size over all segments, and whether that is exact."""
        steps = self.clock.steps.names[0]
        fixed = dim.substitute({steps: ZERO})
        slope = dim.substitute({steps: ONE}) - fixed
        others = {d.names[0] for d in (self.clock.start, self.clock.stop, self.clock.segment)}
        if dim == fixed + slope * self.clock.steps and not others & set(dim.names):
            return fixed * self.count + slope * self.clock.dim, True
        return self.longest(dim) * self.count, False


__all__ = ["Span"]
