"""Some samples of a batch.

Array of all samples -> array of some
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from symgrad.products.terms import Axis
from symgrad.products.traced import Traced


@dataclass(frozen=True, slots=True)
class Rows:
    """The samples from `start` up to `stop`; `label` tells the pieces of one form apart."""

    start: int
    stop: int
    label: int = 0

    @property
    def axis(self) -> Axis:
        """A batch axis for them."""
        return Axis("b", self.stop - self.start, samples=True)

    def of(self, array: Any, axis: int = 0) -> Any:
        """Return those samples of an array whose batch axis is `axis`."""
        if isinstance(array, Traced):
            return array.rows(self.label, self.stop - self.start, axis)
        return array[(slice(None),) * axis + (slice(self.start, self.stop),)]


__all__ = ["Rows"]
