"""One term as a loop nest: deltas decide where it writes, factors move as far out as they go.

Definition, Term -> job -> Job -> nest -> Nodes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from symgrad.algebra.contract import relocate
from symgrad.algebra.radix import guards, holds, tiles
from symgrad.bounds import at_least, extremes, last_stop
from symgrad.program import (
    BATCH,
    Access,
    Affine,
    Definition,
    Delta,
    Guard,
    Index,
    Lookup,
    Number,
    Position,
    Scalar,
    Term,
    affine_of,
    indices_of,
    walk,
)
from symgrad.schedule import Add, Begin, For, Let, Node, Store, When

Operator = Literal["=", "+="]


@dataclass(frozen=True, slots=True)
class Job:
    """One term, ready to be looped over; `depth` counts the loops outside the accumulator."""

    target: str
    at: tuple[Position, ...]
    order: tuple[Index, ...]
    depth: int
    bound: tuple[Index, ...]
    factors: tuple[Scalar, ...]
    conditions: tuple[Scalar, ...]
    covers: bool


def job(definition: Definition, term: Term, fixed: Index | None = None) -> Job:
    """Return how a term is looped over; the step `fixed` of a recurrence is a number."""
    at: dict[Index, Position] = {i: Affine.of(i) for i in definition.indices}
    frees = [i for i in definition.indices if i != fixed]
    factors: list[Scalar] = [f for f in term.factors if not isinstance(f, Delta | Guard)]
    conditions: list[Scalar] = [f for f in term.factors if isinstance(f, Guard)]
    deltas = [f for f in term.factors if isinstance(f, Delta)]
    scattered = False
    while deltas:
        delta = deltas.pop(0)
        solved = _solve(delta, frees, factors, conditions, deltas, at)
        if solved is None:
            conditions.append(delta)
            continue
        index, value, factors, conditions, deltas, at = solved
        scattered = True
        frees.remove(index)
        at[index] = value
        if isinstance(value, Affine) and not (delta.inside and delta.right == value):
            conditions += guards(index, value)
    positions = tuple(at[i] for i in definition.indices)
    moved = {i for p in positions for a in affine_of(p) for i, _ in a.terms}
    pins = _pins(conditions, {*frees, *term.bound})
    apart = moved | {i for index, inside in pins if index in frees for i in inside}
    loose = [i for i in term.bound if i in apart]  # their sums are taken where they write
    scattered = scattered or bool(loose)
    frees = _in_place(definition.indices, at, frees, loose)
    bound = tuple(i for i in term.bound if i not in apart)
    order, depth = _loop_order(frees, bound, factors, positions, scattered=bool(loose))
    order = _pinned_last(order, depth, pins)
    conditions = [c for c in conditions if not isinstance(c, Guard) or not holds(c)]
    tiled = tiles(positions, [i.dim for i in definition.indices], order)
    once = not scattered and not (bound and depth == len(order))
    covers = not conditions and (once or tiled)
    if bound and conditions and not scattered and depth < len(order):
        covers = all(set(indices_of(c)) & set(bound) for c in conditions)
    return Job(
        definition.name, positions, order, depth, bound, tuple(factors), tuple(conditions), covers
    )


Solved = tuple[Index, Position, list[Scalar], list[Scalar], list[Delta], dict[Index, Position]]


def _solve(
    delta: Delta,
    frees: Sequence[Index],
    factors: Sequence[Scalar],
    conditions: Sequence[Scalar],
    deltas: Sequence[Delta],
    at: dict[Index, Position],
) -> Solved | None:
    """Return a free index whose position the delta gives, with everything else moved there."""
    choices: list[tuple[Index, Position]] = []
    for here, there in ((delta.left, delta.right), (delta.right, delta.left)):
        bare = here.bare
        inside = {i for a in affine_of(there) for i, _ in a.terms}
        beside = bare is not None and bare.partial and isinstance(there, Lookup)
        if bare is not None and bare in frees and bare not in inside and not beside:
            choices.append((bare, there))
    choices.sort(key=lambda choice: -list(frees).index(choice[0]))
    for index, value in choices:
        mapping = {index: value}
        moved = [relocate(f, mapping) for f in factors]
        tests = [relocate(c, mapping) for c in conditions]
        others = [relocate(d, mapping) for d in deltas]
        places = {i: _place(p, mapping) for i, p in at.items()}
        if None in moved or None in tests or None in others or None in places.values():
            continue
        return (
            index,
            value,
            [m for m in moved if m is not None],
            [t for t in tests if t is not None],
            [d for d in others if isinstance(d, Delta)],
            {i: p for i, p in places.items() if p is not None},
        )
    return None


def _place(position: Position, mapping: dict[Index, Position]) -> Position | None:
    moved = relocate(Access("", (position,)), mapping)
    return moved.at[0] if isinstance(moved, Access) else None


Pins = tuple[tuple[Index, frozenset[Index]], ...]
"""Indices that data gives, each with those that the data is read at."""


def _pins(conditions: Sequence[Scalar], loops: set[Index]) -> Pins:
    found: list[tuple[Index, frozenset[Index]]] = []
    for delta in conditions:
        if not isinstance(delta, Delta):
            continue
        for data, place in ((delta.left, delta.right), (delta.right, delta.left)):
            if isinstance(data, Lookup) and isinstance(place, Affine):
                inside = frozenset(i for a in affine_of(data) for i, _ in a.terms)
                here = [i for i, c in place.terms if isinstance(c, int) and i in loops - inside]
                found += [(here[-1], inside)] if here else []
    return tuple(found)


def _in_place(
    axes: Sequence[Index], at: Mapping[Index, Position], frees: Sequence[Index],
    loose: Sequence[Index],
) -> list[Index]:
    """Return the loops that write: those of places that a delta gives stand where their axis is."""
    found: dict[Index, None] = {}
    for axis in axes:
        inside = [i for a in affine_of(at[axis]) for i, _ in a.terms]
        found.update(dict.fromkeys(i for i in inside if i in loose or i in frees))
    found.update(dict.fromkeys(i for i in loose if i not in found))
    ahead = [i for i in axes[:1] if i in found and i.dim == BATCH]
    return [*ahead, *(i for i in found if i not in ahead)]


def _pinned_last(order: tuple[Index, ...], depth: int, pins: Pins) -> tuple[Index, ...]:
    """Return the loops with those that data gives inside those that the data is read at."""
    result = list(order)
    for index, inside in pins:
        place = result.index(index)
        segment = range(depth) if place < depth else range(depth, len(result))
        last = max((n for n in segment if result[n] in inside), default=-1)
        if last > place:
            result.insert(last, result.pop(place))
    return tuple(result)


def _loop_order(
    frees: Sequence[Index],
    bound: Sequence[Index],
    factors: Sequence[Scalar],
    target: Sequence[Position],
    *,
    scattered: bool,
) -> tuple[tuple[Index, ...], int]:
    """Return the loops from the outside in, and how many stand outside the accumulator.

    The innermost loop is the one along which most arrays lie contiguously.
    """
    if not bound and not scattered:
        return tuple(frees), len(frees)
    score: dict[Index, int] = dict.fromkeys((*bound, *frees), 0)
    lasts = [f.at[-1] for s in factors for f in accesses_in(s) if f.at]
    lasts += [target[-1]] if target else []
    for position in lasts:
        if isinstance(position, Affine):
            for index, coefficient in position.terms:
                if coefficient in (1, -1) and index in score:
                    score[index] += 1
    best = max((*reversed(bound), *reversed(frees)), key=lambda i: score[i])
    if best in bound or not frees:
        rest = [i for i in bound if i != best]
        return (*frees, *rest, best), len(frees)
    others = [i for i in frees if i != best]
    order = (*others, *bound, best)
    return order, len(order)


def accesses_in(scalar: Scalar) -> list[Access]:
    return [n for n in walk(scalar) if isinstance(n, Access)]


def nest(
    job_: Job, operator: Operator, new_slot: Callable[[], int], fixed: Index | None = None
) -> tuple[Node, ...]:
    """Return the loop nest of one term, factors hoisted as far out as they go."""
    order, depth = job_.order, job_.depth
    inner_is_bound = bool(job_.bound) and depth < len(order)
    slot = new_slot() if inner_is_bound else 0
    lets: list[list[int]] = [[] for _ in range(len(order) + 1)]
    nodes_at: list[list[Node]] = [[] for _ in range(len(order) + 1)]
    last: list[Scalar] = []
    opened: set[Index] = set()
    known = {fixed}
    remaining = list(job_.factors)
    conditions = list(job_.conditions)
    tests: list[list[Scalar]] = [[] for _ in range(len(order) + 1)]
    for level in range(len(order) + 1):
        if level:
            opened.add(order[level - 1])
        ready = [f for f in remaining if _ready(f, opened, level == len(order), fixed)]
        enough = bool(level) or not order
        tests[level] = [c for c in conditions if enough and set(indices_of(c)) - known <= opened]
        conditions = [c for c in conditions if c not in tests[level]]
        remaining = [f for f in remaining if f not in ready]
        if level == len(order):
            last = ready
        elif ready:
            number = new_slot()
            lets[level].append(number)
            nodes_at[level].append(Let(number, tuple(ready)))

    def used(low: int, high: int) -> tuple[int, ...]:
        return tuple(n for level in lets[low:high] for n in level)

    if inner_is_bound:
        body: tuple[Node, ...] = (Add(slot, used(depth + 1, len(order)), tuple(last)),)
    else:
        body = (Store(job_.target, job_.at, operator, used(0, len(order)), tuple(last)),)
    for level in range(len(order), -1, -1):
        body = (*nodes_at[level], *body)
        if inner_is_bound and level == depth:
            store = Store(job_.target, job_.at, operator, (*used(0, depth + 1), slot), ())
            lead = len(nodes_at[level])
            body = (*body[:lead], Begin(slot), *body[lead:], store)
        if tests[level]:
            body = (When(tuple(tests[level]), body),)
        if level:
            body = (For(order[level - 1], body),)
    return body


def _ready(
    factor: Scalar, opened: set[Index], innermost: bool, fixed: Index | None
) -> bool:
    """Whether a factor is computed at this depth: numbers stay inside, nothing leaves the loops."""
    used = set(indices_of(factor)) - {fixed}
    return innermost or (bool(opened) and used <= opened and not isinstance(factor, Number))


def writes_once(job: Job) -> bool:
    """Whether no element is written twice: every loop is a position of its own in the target."""
    if job.bound and job.depth == len(job.order):
        return False
    loops = set(job.order[: job.depth])
    bare = {p.bare for p in job.at if isinstance(p, Affine)}
    return loops <= bare


@dataclass(frozen=True, slots=True)
class Pinned:
    """A loop of which one step at most is run: where `data` is `place`, in which its index stands.

    `inside` says that the index needs no test of its range there.
    """

    data: Lookup
    place: Affine
    inside: bool
    body: tuple[Node, ...]


def pinned(loop: For) -> Pinned | None:
    """Return the one step of a loop that data chooses, None if a loop has more.

    A delta like `δ(k + 2, t[b])` around the whole body gives k.
    """
    inner = loop.body[0] if len(loop.body) == 1 else None
    if not isinstance(inner, When):
        return None
    for condition in inner.conditions:
        if not isinstance(condition, Delta):
            continue
        for data, place in ((condition.left, condition.right), (condition.right, condition.left)):
            if not isinstance(data, Lookup) or not isinstance(place, Affine):
                continue
            within = {i for a in affine_of(data) for i, _ in a.terms}
            known = dict(place.terms).get(loop.index)
            if loop.index in within or not isinstance(known, int):
                continue
            rest = tuple(c for c in inner.conditions if c != condition)
            body = (When(rest, inner.body),) if rest else inner.body
            inside = place.bare is not None and not place.bare.partial
            return Pinned(data, place, inside, body)
    return None


Trimmed = tuple[Affine | None, bool, tuple[Node, ...]]


def trimmed(loop: For) -> Trimmed:
    """Return where a loop stops early, whether that is inside its range, and the body to run.

    A guard like `j <= i` around the whole body of a loop over j is the loop's bound.
    """
    inner = loop.body[0] if len(loop.body) == 1 else None
    if not isinstance(inner, When):
        return None, True, loop.body
    for condition in inner.conditions:
        stop = last_stop(condition, loop.index) if isinstance(condition, Guard) else None
        if stop is not None:
            rest = tuple(c for c in inner.conditions if c != condition)
            inside = at_least(loop.index.dim - extremes(stop)[1]) == "yes"
            return stop, inside, (When(rest, inner.body),) if rest else inner.body
    return None, True, loop.body
