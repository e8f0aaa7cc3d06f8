"""What numpy copies to make the operands of a matrix product, one after the other.

Access, groups of indices -> Copies
The copies are those of the driver's text: of places that a list gives, of slices with steps, which
BLAS does not take, and of axes that become one and do not follow one another in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from symgrad.dims import ONE, ZERO, Dim
from symgrad.program import Access, Affine, Index, Lookup, Position
from symgrad.schedule import stretch


@dataclass(frozen=True, slots=True)
class Copies:
    """How often so many `elements` are copied, each time from the copy before.

    Where one of the lengths `spare` is one at the call, numpy may copy less often.
    """

    elements: Dim = ZERO
    times: int = 0
    spare: tuple[Dim, ...] = ()

    @property
    def kept(self) -> Dim:
        """The elements that are there in the end."""
        return self.elements if self.times else ZERO

    @property
    def total(self) -> Dim:
        """All elements that are copied."""
        return self.elements * self.times

    @property
    def most(self) -> Dim:
        """The most elements at once: a copy is there until the next one is made of it."""
        return self.elements * min(self.times, 2)


def copies(
    access: Access,
    shape: Sequence[Dim],
    batch: Sequence[Index],
    groups: Sequence[Sequence[Index]],
    cut: int | None = None,
) -> Copies:
    """Return the copies of an operand: an array of this `shape`, each group one axis.

    Nothing before the axis `cut` follows it in memory.
    """
    wanted = (*batch, *(i for group in groups for i in group))
    axes = [
        _Axis(index, place, number == cut or index is None or index.dim != whole, whole)
        for number, (index, place, whole) in enumerate(
            zip(map(stretch, access.at), access.at, shape, strict=True)
        )
    ]
    long = tuple(a.index for a in axes if a.index in wanted and a.index and a.index.dim != ONE)
    listed = [a.index for a in axes if isinstance(a.place, Lookup)]
    memory = _view(axes, long)
    if listed:  # numpy puts the places of a list before all other axes
        memory = _Memory(tuple(sorted(long, key=lambda i: i not in listed)))
    times = 0
    if any(a.steps for a in axes if a.index in wanted):
        times += memory.axes != long or bool(memory.breaks) or not memory.dense
        memory = _Memory(long)
    times += not all(map(memory.one_axis, groups))
    elements = ONE
    for index in wanted:
        elements = elements * index.dim
    spare = _spare(axes, long) if times else ()
    return Copies(elements, times + bool(listed), spare)


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis of an array that is read along an index (None: at one place), `part` of it or all."""

    index: Index | None
    place: Position
    part: bool
    whole: Dim

    @property
    def steps(self) -> bool:
        """Whether it is read in steps."""
        return isinstance(self.place, Affine) and self.place.terms[0][1] != 1


@dataclass(frozen=True, slots=True)
class _Memory:
    """Axes longer than one in the order they lie in memory; `breaks` are those that do not follow.

    An axis follows the one before it if that steps over all of it; `dense` says the same of single
    elements and the last axis.
    """

    axes: tuple[Index, ...]
    breaks: frozenset[Index] = frozenset()
    dense: bool = True

    def one_axis(self, group: Sequence[Index]) -> bool:
        """Whether indices are one axis without being copied."""
        at = [self.axes.index(i) for i in group if i in self.axes]
        return all(b == a + 1 and self.axes[b] not in self.breaks for a, b in pairwise(at))


def _view(axes: Sequence[_Axis], long: tuple[Index, ...]) -> _Memory:
    """Return how the axes of a view lie."""
    breaks, broken = set(), False
    for axis in axes:
        broken = broken or axis.part
        if axis.index in long and axis.index is not None:
            breaks |= {axis.index} if broken and axis.index != long[0] else set()
            broken = axis.steps
        elif axis.whole != ONE:
            broken = True  # the step of a recurrence is taken out
    return _Memory(long, frozenset(breaks), dense=not broken)


def _spare(axes: Sequence[_Axis], long: Collection[Index]) -> tuple[Dim, ...]:
    """Return what is one where numpy may copy less: lengths, and how much a part leaves out + 1."""
    read = [(a.index, a) for a in axes if a.index in long and a.index is not None]
    left_out = [axis.whole - index.dim + 1 for index, axis in read if axis.part]
    return (*(index.dim for index, _ in read), *left_out)


__all__ = ["Copies", "copies"]
