"""Definitions become steps: matrix products where BLAS is best, plain loops elsewhere.

Definitions -> Schedule
Deltas decide where a term writes, so zeros are cleared once and never computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from symgrad.contract import relocate
from symgrad.dims import ONE, Dim
from symgrad.program import (
    Access,
    Affine,
    Definition,
    Delta,
    Guard,
    Index,
    Number,
    Position,
    Reduce,
    Scalar,
    Term,
    affine_of,
    arrays_of,
    indices_of,
    scalars_of,
    substitute,
)
from symgrad.schedule import (
    Add,
    Begin,
    Buffer,
    Clear,
    For,
    Kernel,
    Let,
    Node,
    Product,
    Row,
    Schedule,
    Step,
    Store,
    When,
)


def plan(
    definitions: Sequence[Definition], batch: Index, keep: Sequence[str] | None = None
) -> Schedule:
    """Return the steps that evaluate the definitions in order.

    With `keep`, the arrays wanted afterwards, an element-wise definition may be written over an
    array that nothing reads any more.
    """
    over = {} if keep is None else _in_place(definitions, frozenset(keep))
    planner = Planner(batch)
    for definition in definitions:
        planner.add(definition, over.get(definition.name))
    planner.flush()
    buffers = tuple(replace(_buffer(d), over=over.get(d.name)) for d in definitions)
    return Schedule(buffers, tuple(planner.steps))


def _in_place(definitions: Sequence[Definition], keep: frozenset[str]) -> dict[str, str]:
    """Return which definition takes the place of which array: its only reader, element by element."""
    table = {d.name: d for d in definitions}
    readers: dict[str, list[Definition]] = {}
    for definition in definitions:
        names = [n for s in scalars_of(definition.body) for n in arrays_of(s)]
        for name in dict.fromkeys(names):
            readers.setdefault(name, []).append(definition)
    over: dict[str, str] = {}
    for name, reading in readers.items():
        old = table.get(name)
        if old is None or name in keep or len(reading) != 1 or name in over.values():
            continue
        (new,) = reading
        if new.name in over or not _element_by_element(old, new):
            continue
        over[new.name] = over.get(name, name)
    return over


def _element_by_element(old: Definition, new: Definition) -> bool:
    """Whether `new` reads `old` only at its own position, in a single product."""
    if not isinstance(new.body, tuple) or len(new.body) != 1 or not isinstance(old.body, tuple):
        return False
    (term,) = new.body
    at = tuple(Affine.of(i) for i in new.indices)
    if term.bound or tuple(i.dim for i in old.indices) != tuple(i.dim for i in new.indices):
        return False
    if any(isinstance(f, Delta | Guard) for f in term.factors):
        return False
    return all(a.at == at for f in term.factors for a in _accesses(f) if a.array == old.name)


def _buffer(definition: Definition) -> Buffer:
    body = definition.body
    whole = isinstance(body, Reduce) and body.kind in ("argmax", "argmin")
    dims = tuple(i.dim for i in definition.indices)
    return Buffer(definition.name, dims, "int" if whole else "float")


@dataclass(slots=True)
class Planner:
    """Collects loops until a matrix product or the end interrupts them."""

    batch: Index
    steps: list[Step] = field(default_factory=list)
    pending: list[tuple[Node, ...]] = field(default_factory=list)
    members: list[Definition] = field(default_factory=list)
    slots: int = 0

    def add(self, definition: Definition, over: str | None = None) -> None:
        """Append the steps of one definition, written over the array `over` if there is one."""
        body = definition.body
        if over is not None and isinstance(body, tuple):
            self.queue(definition, self.trees(replace(definition, name=over), body, filled=False))
            return
        if not isinstance(body, tuple):
            at = definition.indices
            if not isinstance(body, Reduce):
                at = tuple(i for i in at if i not in body.at)
            self.queue(definition, _loops(at, (Row(definition),)))
            return
        products = [(t, _product(definition, t)) for t in body]
        first = next((p for _, p in products if p is not None), None)
        if first is not None:
            self.flush()
            done = False
            for _, product in products:
                if product is not None:
                    self.steps.append(replace(product, adds=done))
                    done = True
        rest = tuple(t for t, p in products if p is None)
        if rest or first is None:
            self.queue(definition, self.trees(definition, rest, filled=first is not None))

    def queue(self, definition: Definition, nodes: tuple[Node, ...]) -> None:
        """Put loops behind those that wait."""
        self.pending.append(nodes)
        self.members.append(definition)

    def flush(self) -> None:
        """Turn the waiting loops into kernels: one for samples, one for what they share."""
        for group in _same_outer(self.pending, self.members, self.batch):
            nodes = _fuse(tuple(n for part in group.parts for n in part), self.batch)
            self.steps.append(_kernel(nodes, group.members, self.batch))
        self.pending, self.members = [], []

    def trees(
        self, definition: Definition, terms: Sequence[Term], filled: bool
    ) -> tuple[Node, ...]:
        """Return the loops that write the terms of one definition."""
        jobs = [_job(definition, t) for t in terms]
        jobs.sort(key=lambda job: not job.covers)
        cleared = not filled and not (jobs and jobs[0].covers)
        nodes: list[Node] = []
        written = filled or cleared
        for number, job in enumerate(jobs):
            alone = cleared and not number and _writes_once(job)
            nodes += self.tree(job, "+=" if written and not alone else "=")
            written = True
        batched = self.batch in definition.indices
        split = batched and all(isinstance(n, For) and n.index == self.batch for n in nodes)
        if cleared and split:
            at = (Affine.of(self.batch),)
            return (For(self.batch, (Clear(definition.name, at),)), *nodes)
        return (Clear(definition.name, ()), *nodes) if cleared else tuple(nodes)

    def tree(self, job: Job, operator: str) -> tuple[Node, ...]:
        """Return the loop nest of one term, factors hoisted as far out as they go."""
        order, depth = job.order, job.depth
        inner_is_bound = bool(job.bound) and depth < len(order)
        slot = self.slot() if inner_is_bound else 0
        lets: list[list[int]] = [[] for _ in range(len(order) + 1)]
        nodes_at: list[list[Node]] = [[] for _ in range(len(order) + 1)]
        last: list[Scalar] = []
        opened: set[Index] = set()
        remaining = list(job.factors)
        conditions = list(job.conditions)
        tests: list[list[Scalar]] = [[] for _ in range(len(order) + 1)]
        for level in range(len(order) + 1):
            if level:
                opened.add(order[level - 1])
            ready = [f for f in remaining if _ready(f, opened, level == len(order))]
            enough = bool(level) or not order
            tests[level] = [c for c in conditions if enough and set(indices_of(c)) <= opened]
            conditions = [c for c in conditions if c not in tests[level]]
            remaining = [f for f in remaining if f not in ready]
            if level == len(order):
                last = ready
            elif ready:
                number = self.slot()
                lets[level].append(number)
                nodes_at[level].append(Let(number, tuple(ready)))
        def used(low: int, high: int) -> tuple[int, ...]:
            return tuple(n for level in lets[low:high] for n in level)

        store_op: str = operator
        if inner_is_bound:
            body: tuple[Node, ...] = (Add(slot, used(depth + 1, len(order)), tuple(last)),)
        else:
            body = (Store(job.target, job.at, store_op, used(0, len(order)), tuple(last)),)  # type: ignore[arg-type]
        for level in range(len(order), -1, -1):
            body = (*nodes_at[level], *body)
            if inner_is_bound and level == depth:
                store = Store(job.target, job.at, store_op, (*used(0, depth + 1), slot), ())  # type: ignore[arg-type]
                lead = len(nodes_at[level])
                body = (*body[:lead], Begin(slot), *body[lead:], store)
            if tests[level]:
                body = (When(tuple(tests[level]), body),)
            if level:
                body = (For(order[level - 1], body),)
        return body

    def slot(self) -> int:
        """Return a number for a local variable."""
        self.slots += 1
        return self.slots


def _ready(factor: Scalar, opened: set[Index], innermost: bool) -> bool:
    """Whether a factor is computed at this depth: numbers stay inside, nothing leaves the loops."""
    used = set(indices_of(factor))
    return innermost or (bool(opened) and used <= opened and not isinstance(factor, Number))


def _writes_once(job: Job) -> bool:
    """Whether no element is written twice: every loop is a position of its own in the target."""
    if job.bound and job.depth == len(job.order):
        return False
    loops = set(job.order[: job.depth])
    bare = {p.bare for p in job.at if isinstance(p, Affine)}
    return loops <= bare


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


def _job(definition: Definition, term: Term) -> Job:
    frees = list(definition.indices)
    at: dict[Index, Position] = {i: Affine.of(i) for i in frees}
    factors = [f for f in term.factors if not isinstance(f, Delta | Guard)]
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
        if isinstance(value, Affine) and (value.bare is None or value.bare.dim != index.dim):
            conditions.append(Guard(value, index.dim))
    positions = tuple(at[i] for i in definition.indices)
    moved = {i for p in positions for a in affine_of(p) for i, _ in a.terms}
    bound = tuple(term.bound)
    order, depth = _loop_order(frees, bound, factors, positions, moved)
    depends_on_bound = bool(moved & set(bound))
    if depends_on_bound:
        depth = len(order)
    covers = not conditions and not scattered and not (bound and depth == len(order))
    if bound and conditions and not scattered and depth < len(order):
        covers = all(set(indices_of(c)) & set(bound) for c in conditions)
    return Job(
        definition.name, positions, order, depth, bound, tuple(factors), tuple(conditions), covers
    )


Solved = tuple[
    Index, Position, list[Scalar], list[Scalar], list[Delta], dict[Index, Position]
]


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
        bare = here.bare if isinstance(here, Affine) else None
        inside = {i for a in affine_of(there) for i, _ in a.terms}
        if bare is not None and bare in frees and bare not in inside:
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


def _loop_order(
    frees: Sequence[Index],
    bound: Sequence[Index],
    factors: Sequence[Scalar],
    target: Sequence[Position],
    moved: set[Index],
) -> tuple[tuple[Index, ...], int]:
    """Return the loops from the outside in, and how many stand outside the accumulator.

    The innermost loop is the one along which most arrays lie contiguously.
    """
    if not bound:
        return tuple(frees), len(frees)
    score: dict[Index, int] = {i: 0 for i in (*bound, *frees)}
    lasts = [f.at[-1] for s in factors for f in _accesses(s) if f.at]
    lasts += [target[-1]] if target else []
    for position in lasts:
        if isinstance(position, Affine):
            for index, coefficient in position.terms:
                if abs(coefficient) == 1 and index in score:
                    score[index] += 1
    best = max((*reversed(bound), *reversed(frees)), key=lambda i: score[i])
    if best in bound or not frees:
        rest = [i for i in bound if i != best]
        return (*frees, *rest, best), len(frees)
    others = [i for i in frees if i != best]
    order = (*others, *bound, best)
    return order, len(order)


def _accesses(scalar: Scalar) -> list[Access]:
    from symgrad.program import walk

    return [n for n in walk(scalar) if isinstance(n, Access)]


def _product(definition: Definition, term: Term) -> Product | None:
    """Return the term as a matrix product, or None where loops are better."""
    if not term.bound or len(term.factors) != 2:
        return None
    left, right = term.factors
    if not isinstance(left, Access) or not isinstance(right, Access):
        return None
    sets = [_bare_indices(a) for a in (left, right)]
    if sets[0] is None or sets[1] is None:
        return None
    ours, theirs = sets[0], sets[1]
    free, bound = definition.indices, term.bound
    if set(ours) | set(theirs) != set(free) | set(bound):
        return None
    if not set(bound) <= set(ours) & set(theirs):
        return None
    batch = tuple(i for i in free if i in ours and i in theirs)
    rows = tuple(i for i in free if i in ours and i not in theirs)
    columns = tuple(i for i in free if i in theirs and i not in ours)
    inner = tuple(i for i in ours if i in bound)
    if not rows or not columns:
        if batch or not (rows or columns):
            return None
    text = definition.name
    return Product(
        text, free, left, right, batch, rows, columns, inner, adds=False
    )


def _bare_indices(access: Access) -> tuple[Index, ...] | None:
    found = [p.bare if isinstance(p, Affine) else None for p in access.at]
    if None in found or len(set(found)) != len(found):
        return None
    return tuple(i for i in found if i is not None)


def _loops(indices: Sequence[Index], body: tuple[Node, ...]) -> tuple[Node, ...]:
    for index in reversed(indices):
        body = (For(index, body),)
    return body


@dataclass(slots=True)
class _Group:
    parts: list[tuple[Node, ...]]
    members: list[Definition]
    sampled: bool


def _same_outer(
    parts: Sequence[tuple[Node, ...]], members: Sequence[Definition], batch: Index
) -> list[_Group]:
    """Group neighbours that all loop over samples outermost, or all do not."""
    groups: list[_Group] = []
    for part, member in zip(parts, members, strict=True):
        sampled = bool(part) and all(isinstance(n, For) and n.index == batch for n in part)
        if groups and groups[-1].sampled == sampled:
            groups[-1].parts.append(part)
            groups[-1].members.append(member)
        else:
            groups.append(_Group([part], [member], sampled))
    return groups


def _fuse(nodes: tuple[Node, ...], batch: Index) -> tuple[Node, ...]:
    """Join neighbouring loops: over samples always, inner ones where only the own element is read."""
    result: list[Node] = []
    for node in nodes:
        before = result[-1] if result else None
        if isinstance(node, For) and isinstance(before, For):
            if node.index == batch and before.index == batch:
                result[-1] = For(batch, _fuse((*before.body, *node.body), batch))
                continue
            joined = _join(before, node)
            if joined is not None:
                result[-1] = joined
                continue
        result.append(node)
    return tuple(result)


def _join(first: For, second: For) -> For | None:
    """Return both element-wise nests as one, or None."""
    ours, theirs = _chain(first), _chain(second)
    if ours is None or theirs is None or len(ours[0]) != len(theirs[0]):
        return None
    if any(a.dim != b.dim for a, b in zip(ours[0], theirs[0], strict=True)):
        return None
    mapping = {b: Affine.of(a) for a, b in zip(ours[0], theirs[0], strict=True)}
    moved = tuple(_moved(n, mapping) for n in theirs[1])
    stores = {n.array: n.at for n in ours[1] if isinstance(n, Store)}
    if any(set(ours[0]) - {i for p in at for a in affine_of(p) for i, _ in a.terms}
           for at in stores.values()):
        return None
    for node in moved:
        if isinstance(node, Store) and node.array in stores and stores[node.array] != node.at:
            return None
        for factor in node.factors if isinstance(node, Store | Let) else ():
            for access in _accesses(factor):
                if access.array in stores and stores[access.array] != access.at:
                    return None
            if set(arrays_of(factor)) & set(stores) - {a.array for a in _accesses(factor)}:
                return None
    body: tuple[Node, ...] = (*ours[1], *moved)
    for index in reversed(ours[0]):
        body = (For(index, body),)
    joined = body[0]
    assert isinstance(joined, For)
    return joined


def _chain(node: For) -> tuple[tuple[Index, ...], tuple[Node, ...]] | None:
    """Return the loops and leaves of a perfect element-wise nest, or None."""
    loops = [node.index]
    body = node.body
    while len(body) == 1 and isinstance(body[0], For):
        loops.append(body[0].index)
        body = body[0].body
    if all(isinstance(n, Store | Let) for n in body):
        return tuple(loops), body
    return None


def _moved(node: Node, mapping: dict[Index, Affine]) -> Node:
    match node:
        case Store():
            access = substitute(Access("", node.at), mapping)
            assert isinstance(access, Access)
            factors = tuple(substitute(f, mapping) for f in node.factors)
            return replace(node, at=access.at, factors=factors)
        case Let():
            return replace(node, factors=tuple(substitute(f, mapping) for f in node.factors))
        case _:
            return node


def _kernel(nodes: tuple[Node, ...], members: Sequence[Definition], batch: Index) -> Kernel:
    writes = tuple(dict.fromkeys(d.name for d in members))
    reads: dict[str, None] = {}
    for member in members:
        for scalar in scalars_of(member.body):
            for name in arrays_of(scalar):
                if name not in writes:
                    reads[name] = None
    split = all(isinstance(n, For) and n.index == batch for n in nodes) and bool(nodes)
    work = _work(nodes, batch)
    return Kernel(nodes, writes, tuple(reads), split, work)


def _work(nodes: Sequence[Node], batch: Index) -> Dim:
    """Return how many elements the loops touch for one sample."""
    total = Dim.of(0)
    for node in nodes:
        match node:
            case For():
                inner = _work(node.body, batch)
                total = total + (inner if node.index == batch else inner * node.index.dim)
            case When():
                total = total + _work(node.body, batch)
            case Row():
                row = ONE
                body = node.definition.body
                for index in body.bound if not isinstance(body, tuple) else ():
                    row = row * index.dim
                total = total + row
            case Store() | Add():
                total = total + 1
            case _:
                pass
    return total
