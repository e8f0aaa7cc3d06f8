"""A number of events as a sum of polynomials, each times the points of guarded loops.

Region, Dim -> Count -> polynomial, number
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from symgrad.costs.points import Region
from symgrad.dims import ZERO, Dim

Regions = tuple[Region, ...]


@dataclass(frozen=True, slots=True)
class Count:
    """`sum of amount * points of every region`."""

    parts: tuple[tuple[Regions, Dim], ...] = ()

    @staticmethod
    def of(amount: Dim | int, regions: Regions = ()) -> Count:
        """Return so many for every point of the regions."""
        amount = Dim.of(amount)
        return Count(((regions, amount),)) if amount != ZERO else Count()

    @staticmethod
    def sum(counts: Iterable[Count]) -> Count:
        """Return what several counts are together."""
        table: dict[Regions, Dim] = {}
        for count in counts:
            for regions, amount in count.parts:
                table[regions] = table.get(regions, ZERO) + amount
        return Count(tuple((r, a) for r, a in table.items() if a != ZERO))

    def __add__(self, other: Count) -> Count:
        return Count.sum((self, other))

    def symbols(self) -> tuple[Dim, bool]:
        """Return it as a polynomial, and whether that is exact or a bound."""
        total, exact = ZERO, True
        for regions, amount in self.parts:
            for region in regions:
                twice, sure = region.symbols()
                amount, exact = amount * twice, exact and sure
            total = total + amount // 2 ** len(regions)
        return total, exact

    def number(self, sizes: Mapping[str, int]) -> tuple[int, bool]:
        """Return it for given sizes, and whether that is exact or a bound."""
        total, exact = 0, True
        for regions, amount in self.parts:
            found = amount.evaluate(sizes)
            for region in regions:
                points, sure = region.number(sizes)
                found, exact = found * points, exact and sure
            total += found
        return total, exact


NONE = Count()
