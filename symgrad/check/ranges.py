"""The ranges of indices, from where they stand; and whether every access fits.

uses of indices -> {index: dim}
Bare uses must agree and give the range; affine ones must then fit. What symbols leave open is
checked at the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from symgrad.bounds import at_least, extremes
from symgrad.dims import ONE, ZERO, Dim, signed
from symgrad.errors import ShapeError, Span
from symgrad.program import Affine, Check, Index


@dataclass(frozen=True, slots=True)
class Use:
    """A position along an axis; `remedy` is the declaration that would do, `{}` for its dim.

    It may lie `below` steps before 0: there a recurrence has its start.
    `padded` is the base with its axis padded, `{}` for the two numbers.
    """

    affine: Affine
    axis: Dim
    text: str
    span: Span
    remedy: str = ""
    below: int = 0
    padded: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """An index met while reading a statement, and its stated range if it has one.

    `form` is how its range would be stated, `{}` for it: `y[i, t: {}] = ...`, `sum[q: {}](...)`.
    """

    index: Index
    stated: Dim | None
    span: Span
    form: str
    bound: bool = True

    @property
    def verb(self) -> str:
        """What an author does with such an index."""
        return "sum over" if self.bound else "use"


@dataclass(slots=True)
class Ranges:
    """One statement's indices in the order they are met; a second reading knows their dims."""

    met: list[Known] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    ties: list[tuple[Index, Index | Dim]] = field(default_factory=list)
    solved: tuple[Dim, ...] | None = None

    def owns(self, index: Index) -> bool:
        """Whether the index was met in this statement."""
        return any(known.index == index for known in self.met)

    def next_dim(self, stated: Dim | None) -> Dim:
        """Return the dim of the next index that is met: unknown in a first reading."""
        if self.solved is not None:
            return self.solved[len(self.met)]
        return Dim.of(f"#q{len(self.met)}") if stated is None else stated


def solve(ranges: Ranges) -> tuple[Dim, ...]:
    """Return the dim of each index, in the order they were met.

    Raises ShapeError where bare uses disagree or nothing gives a range.
    """
    found: dict[Index, Dim] = {}
    for known in ranges.met:
        if known.stated is not None:
            found[known.index] = known.stated
            continue
        dim = _from_bare(known, ranges.uses)
        if dim is not None:
            found[known.index] = dim
    waiting = [known for known in ranges.met if known.index not in found]
    while waiting:
        done = []
        for known in waiting:
            dim = _from_affine(known, ranges, found) or _from_ties(known, ranges, found)
            if dim is not None:
                found[known.index] = dim
                done.append(known)
        if not done:
            raise _no_range(waiting[0], ranges)
        waiting = [known for known in waiting if known not in done]
    return tuple(found[known.index] for known in ranges.met)


def _from_bare(known: Known, uses: list[Use]) -> Dim | None:
    first: Use | None = None
    for use in uses:
        if use.affine.bare != known.index:
            continue
        if first is None:
            first = use
        elif first.axis != use.axis:
            name = known.index.name
            raise ShapeError(
                f"index {name} runs over {first.axis} in {first.text} "
                f"but over {use.axis} in {use.text}",
                use.span,
                hint=f"{use.remedy.format(first.axis)}, or {known.verb} another index"
                if use.remedy
                else f"{known.verb} another index, or state its range: "
                f"{known.form.format(first.axis)}",
            )
    return first.axis if first is not None else None


def _from_affine(known: Known, ranges: Ranges, found: dict[Index, Dim]) -> Dim | None:
    """Return the largest range that fits all affine uses in which it is the only unknown."""
    candidates: list[Dim] = []
    for use in ranges.uses:
        table = dict(use.affine.terms)
        if known.index not in table:
            continue
        unknown = [i for i in table if i != known.index and ranges.owns(i) and i not in found]
        if unknown:
            return None
        low, high = extremes(
            Affine(tuple((i, c) for i, c in use.affine.terms if i != known.index),
                   use.affine.offset), found)
        step = table[known.index]
        if not isinstance(step, int):
            return None
        room = use.axis - 1 - high if step > 0 else low
        candidates.append(room // abs(step) + 1)
    if not candidates:
        return None
    best = candidates[0]
    for other in candidates[1:]:
        if at_least(best - other) == "yes":
            best = other
        elif at_least(other - best) != "yes":
            raise _no_range(known, ranges)
    return best


def _from_ties(known: Known, ranges: Ranges, found: dict[Index, Dim]) -> Dim | None:
    """Return the range of what a delta compares an index with, if nothing else tells."""
    if any(known.index in dict(use.affine.terms) for use in ranges.uses):
        return None
    for index, other in ranges.ties:
        if index != known.index:
            continue
        if isinstance(other, Dim):
            return other
        if other in found or not ranges.owns(other):
            return found.get(other, other.dim)
    return None


def _no_range(known: Known, ranges: Ranges) -> ShapeError:
    name = known.index.name
    use = next((u for u in ranges.uses if known.index in dict(u.affine.terms)), None)
    where = f" from {use.text} alone" if use is not None else ""
    return ShapeError(
        f"the range of index {name} does not follow{where}",
        use.span if use is not None else known.span,
        hint=f"state its range: {known.form.format(use.axis if use is not None else 'n')}",
    )


def fit(use: Use, met: Sequence[Known] = ()) -> list[Check]:
    """Return what must be checked at the call for a position to stay inside its axis.

    Raises ShapeError if it cannot. The indices of `use` know their dims; `met` are those whose
    range may be stated.
    """
    index = use.affine.bare
    if index is not None and index.dim == use.axis:
        return []
    low, high = extremes(use.affine)
    shift = use.below
    hint = _way_out(use, low, high, met)
    return bounds(low + shift, high + 1 + shift, use.axis + shift, use.text, use.span, hint)


def _way_out(use: Use, low: Dim, high: Dim, met: Sequence[Known]) -> str:
    """Return what to do about a position that leaves its axis: a smaller range, or padding."""
    ways: list[str] = []
    below = never(low)
    table = dict(use.affine.terms)
    spare = low if below else use.axis - 1 - high
    for known in met:
        negative, step = signed(table.get(known.index, 0) or 1)
        if known.index not in table or negative != below or not isinstance(step, int):
            continue
        least = known.index.dim + spare // step
        if least.constant is None or least.constant > 1:
            ways.append(f"state a smaller range: {known.form.format(least)}")
            break
    if use.padded and below:
        made = use.padded.format(f"{-low}, 0")
        ways.append(f"pad it first, p = {made}, and add {-low} to the position")
    elif use.padded:
        ways.append(f"pad it first, p = {use.padded.format(f'0, {-spare}')}")
    return ", or ".join(ways) or _SMALLER


_SMALLER = "positions count from 0, and none outside is read; change the bounds"


def never(dim: Dim) -> bool:
    """Whether a dim is negative as soon as all sizes are 2 or more.

    A layer whose accesses fit at size 1 only is a mistake, and said to be one early.
    """
    return at_least(dim.substitute({name: Dim.of(name) + 2 for name in dim.names})) == "no"


def bounds(
    low: Dim, high: Dim, limit: Dim, text: str, span: Span, hint: str = _SMALLER
) -> list[Check]:
    """Return the check `0 <= low` and `high <= limit` if it is open; raise if it must fail."""
    if never(low) or never(limit - high):
        missed = f"position {low} is below 0" if never(low) else (
            f"position {high - 1} is beyond its last, {limit - 1}")
        message = f"{text} reaches outside its axis of length {limit}: {missed}"
        raise ShapeError(message, span, hint=hint)
    if at_least(low) == "yes" and at_least(limit - high) == "yes":
        return []
    return [Check(low, high, limit, f"{text} reaches outside its axis of length {limit}", span)]


def not_negative(dim: Dim, what: str, span: Span) -> list[Check]:
    """Return the check that a size is no less than zero, if that is open."""
    verdict = at_least(dim)
    if verdict == "no":
        raise ShapeError(f"{what} would have the length {dim}", span, hint="change the bounds")
    return [] if verdict == "yes" else [
        Check(dim, ZERO, ONE, f"{what}: the length {dim}", span)
    ]
