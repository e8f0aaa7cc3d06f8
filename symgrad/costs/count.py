"""A number of events as a sum of polynomials, each times the points of guarded loops.

Region, Dim -> Count -> polynomial, number
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from symgrad.costs.points import Region
from symgrad.costs.spans import Span
from symgrad.dims import ZERO, Dim

Regions = tuple[Region | Span, ...]


@dataclass(frozen=True, slots=True)
class Count:
    """`sum of amount * points of every region`, over all segments where a span is among them."""

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

    @property
    def amounts(self) -> tuple[Dim, ...]:
        """The polynomials outside of all spans, in which there are sizes of segments."""
        spans = [any(isinstance(r, Span) for r in regions) for regions, _ in self.parts]
        return tuple(a for (_, a), inside in zip(self.parts, spans, strict=True) if not inside)

    def within(self, span: Span) -> Count:
        """Return what is counted in one segment, over all segments."""
        return Count(tuple(((*regions, span), amount) for regions, amount in self.parts))

    def symbols(self) -> tuple[Dim, bool]:
        """Return it as a polynomial, and whether that is exact or a bound."""
        total, exact = ZERO, True
        for regions, amount in self.parts:
            boxes = [r for r in regions if isinstance(r, Region)]
            for region in boxes:
                twice, sure = region.symbols()
                amount, exact = amount * twice, exact and sure
            amount = amount // 2 ** len(boxes)
            for span in (r for r in regions if isinstance(r, Span)):
                amount, sure = span.total(amount)
                exact = exact and sure
            total = total + amount
        return total, exact

    def number(self, sizes: Mapping[str, int]) -> tuple[int, bool]:
        """Return it for given sizes, and whether it is exact or a bound."""
        total, exact = 0, True
        for regions, amount in self.parts:
            found, sure = _number(regions, amount, sizes)
            total, exact = total + found, exact and sure
        return total, exact


def _number(regions: Regions, amount: Dim, sizes: Mapping[str, int]) -> tuple[int, bool]:
    """Return one part of a count for given sizes, and whether it is exact or a bound."""
    span = next((r for r in regions if isinstance(r, Span)), None)
    if span is not None:
        rest = tuple(r for r in regions if r is not span)
        found = [_number(rest, amount, own) for own in span.each(sizes)]
        return sum(n for n, _ in found), all(sure for _, sure in found)
    total, exact = amount.evaluate(sizes), True
    for region in regions:
        if isinstance(region, Region):
            points, sure = region.number(sizes)
            total, exact = total * points, exact and sure
    return total, exact


NONE = Count()
