"""Definitions become steps: matrix products where BLAS is best, plain loops elsewhere.

Definitions -> Schedule
Deltas decide where a term writes, so zeros are cleared once and never computed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from symgrad.algebra.alternatives import Alternative, Alternatives
from symgrad.algebra.radix import holds
from symgrad.dims import Dim
from symgrad.errors import InternalError
from symgrad.generation.fuse import kernels
from symgrad.generation.gather import gather
from symgrad.generation.nests import accesses_in, job, nest, writes_once
from symgrad.generation.views import owners, views
from symgrad.program import (
    Access,
    Affine,
    Body,
    Definition,
    Delta,
    Guard,
    Index,
    Lookup,
    Loop,
    Number,
    Position,
    Primitive,
    Reduce,
    Rowwise,
    Term,
    arrays_of,
    over_body,
    reads,
    substitute,
)
from symgrad.schedule import (
    Buffer,
    Call,
    Choice,
    Clear,
    For,
    Kernel,
    Node,
    Product,
    Row,
    Schedule,
    Step,
    Walk,
    is_part,
    stretch,
)

TINY = 64
"""Multiplications, known when compiling, up to which loops win over BLAS: 2 to 5 times."""


def plan(
    definitions: Sequence[Definition],
    batch: Index,
    keep: Sequence[str] | None = None,
    shapes: Mapping[str, tuple[Dim, ...]] | None = None,
    handed: Sequence[str] | None = None,
    lower: frozenset[str] = frozenset(),
    filled: Collection[str] = (),
    ways: Alternatives | None = None,
    *,
    loops: bool = False,
) -> Schedule:
    """Return the steps that evaluate the definitions in order.

    Those in `filled` are added to what their arrays hold already. With `loops` there are no matrix
    products for BLAS.
    `shapes` has the axes of arrays that are not among them: a product takes whole arrays only.
    With `keep`, the arrays wanted afterwards, an element-wise definition may be written over an
    array that nothing reads any more. With `handed`, the arrays given to a caller, others may be
    views of the arrays that they reshape. `lower` names lower triangular arrays made elsewhere.
    Of the definitions in `ways` that way is taken which is the cheapest when they run.
    """
    own = {d.name: tuple(i.dim for i in d.indices) for d in definitions}
    lower |= triangular(definitions)
    known = {**(shapes or {}), **own}
    seen = {} if handed is None else views(definitions, known, handed)
    shared = {*seen, *seen.values(), *owners(seen).values()}
    over = {} if keep is None else _in_place(definitions, frozenset(keep) | shared)
    planner = Planner(batch, known, owners(seen), loops=loops)
    for group in gather(definitions, lower):
        body = group[0].body
        if group[0].loop is not None:
            planner.recurrence(group)
        elif group[0].name in (ways or {}):
            planner.choose(group[0].name, (ways or {})[group[0].name])
        elif isinstance(body, Primitive):
            planner.call(Call(group, body.operands[0].array in lower))
        else:
            name = group[0].name
            planner.add(group[0], over.get(name), name in filled)
    planner.flush()
    buffers = tuple(
        replace(_buffer(d), over=over.get(d.name), view=seen.get(d.name)) for d in definitions
    )
    return Schedule(buffers, tuple(planner.steps))


def triangular(definitions: Sequence[Definition]) -> frozenset[str]:
    """Return the arrays that are known to be lower triangular: Cholesky factors."""
    return frozenset(
        d.name for d in definitions if isinstance(d.body, Primitive) and d.body.kind == "cholesky"
    )


def _in_place(definitions: Sequence[Definition], keep: frozenset[str]) -> dict[str, str]:
    """Return which definition takes the place of which array, as its only reader."""
    table = {d.name: d for d in definitions}
    readers: dict[str, list[Definition]] = {}
    for definition in definitions:
        for name in reads(definition):
            readers.setdefault(name, []).append(definition)
    over: dict[str, str] = {}
    for name, reading in readers.items():
        old = table.get(name)
        if old is None or name in keep or len(reading) != 1 or name in over.values():
            continue
        (new,) = reading
        if new.name in over or not _element_by_element(old, new):
            continue
        over[new.name] = name
    return over


def _element_by_element(old: Definition, new: Definition) -> bool:
    """Whether `new` reads `old` only at its own position, in a single product."""
    if old.loop is not None or new.loop is not None:
        return False
    if not isinstance(new.body, tuple) or len(new.body) != 1 or not isinstance(old.body, tuple):
        return False
    (term,) = new.body
    at = tuple(Affine.of(i) for i in new.indices)
    if term.bound or tuple(i.dim for i in old.indices) != tuple(i.dim for i in new.indices):
        return False
    if any(isinstance(f, Delta | Guard) for f in term.factors):
        return False
    return all(a.at == at for f in term.factors for a in accesses_in(f) if a.array == old.name)


def _buffer(definition: Definition) -> Buffer:
    body = definition.body
    whole = isinstance(body, Reduce) and body.kind in ("argmax", "argmin")
    dims = tuple(i.dim for i in definition.indices)
    return Buffer(definition.name, dims, "int" if whole else "float")


@dataclass(slots=True)
class Planner:
    """Collects loops until a matrix product or the end interrupts them."""

    batch: Index
    shapes: Mapping[str, tuple[Dim, ...]]
    views: Mapping[str, str]
    steps: list[Step] = field(default_factory=list)
    pending: list[tuple[Node, ...]] = field(default_factory=list)
    members: list[Definition] = field(default_factory=list)
    slots: int = 0
    fixed: Index | None = None
    loops: bool = False

    def recurrence(self, unit: Sequence[Definition]) -> None:
        """Append the steps of a recurrence: what all steps share first, then step by step.

        Where no step needs BLAS, the walk through the steps is a loop of the kernel.
        """
        loop = unit[0].loop
        if loop is None:
            raise InternalError(f"{unit[0].name} is no recurrence")
        names = frozenset(d.name for d in unit)
        walked = []
        for member in unit:
            before, rest = _apart(member, names)
            if before:
                self.add(replace(member, body=before, loop=None))
            walked.append((at_step(member, rest, loop.index), bool(before)))
        self.flush()
        inner = Planner(
            self.batch,
            self.shapes,
            self.views,
            slots=self.slots,
            fixed=loop.index,
            loops=self.loops,
        )
        for member, filled in walked:
            if isinstance(member.body, Primitive):
                inner.call(Call((member,), fixed=loop.index))
            else:
                inner.add(member, filled=filled)
        inner.flush()
        self.slots = inner.slots
        self.steps.append(_walk(inner.steps, loop, self.batch))

    def add(self, definition: Definition, over: str | None = None, filled: bool = False) -> None:
        """Append the steps of one definition, written over the array `over` if there is one.

        An array that is `filled` holds a part of the sum already.
        """
        body = definition.body
        if definition.name in self.views:
            self.queue(definition, ())
            return
        if over is not None and isinstance(body, tuple):
            self.queue(definition, self.trees(replace(definition, name=over), body, filled=False))
            return
        if not isinstance(body, tuple):
            at = definition.indices
            if isinstance(body, Rowwise):
                at = tuple(i for i in at if i not in body.at)
            at = tuple(i for i in at if i != self.fixed)
            self.queue(definition, _loops(at, (Row(definition),)))
            return
        products = [(t, self.product(definition, t)) for t in body]
        found = [p for _, p in products if p is not None]
        if found:
            found.sort(key=lambda p: p.partial)
            if found[0].partial and not filled:
                self.queue(definition, (Clear(definition.name, ()),))
            self.flush()
            for number, product in enumerate(found):
                self.steps.append(replace(product, adds=filled or number > 0))
        rest = tuple(t for t, p in products if p is None)
        if rest or not found:
            self.queue(definition, self.trees(definition, rest, filled or bool(found)))

    def call(self, call: Call) -> None:
        """Append a call, once all it reads is there."""
        self.flush()
        self.steps.append(call)

    def choose(self, name: str, ways: Sequence[Alternative]) -> None:
        """Append a choice between the schedules of several ways to one array."""
        self.flush()
        made = tuple(plan(way.definitions, self.batch, shapes=self.shapes) for way in ways)
        self.steps.append(Choice(name, tuple(way.cost for way in ways), made))

    def product(self, definition: Definition, term: Term) -> Product | None:
        """Return a term as a product of two whole arrays, or None."""
        found = None if self.loops else _product(definition, term, self.fixed)
        if found is None or _is_tiny(found, self.batch):
            return None
        covered: set[tuple[str, int]] = set()
        for access in (found.left, found.right):
            whole = self.shapes.get(access.array, ())
            for number, (position, dim) in enumerate(zip(access.at, whole, strict=False)):
                bare = position.bare
                if bare is None or bare == self.fixed:
                    continue
                if bare.dim == dim:
                    covered.add((access.array, number))
                elif not is_part(position):
                    return None  # a part of an array
        return replace(found, covered=frozenset(covered))

    def queue(self, definition: Definition, nodes: tuple[Node, ...]) -> None:
        """Put loops behind those that wait."""
        self.pending.append(nodes)
        self.members.append(definition)

    def flush(self) -> None:
        """Turn the waiting loops into kernels: one for samples, one for what they share."""
        self.steps += kernels(self.pending, self.members, self.batch, self.views, self.fixed)
        self.pending, self.members = [], []

    def trees(
        self, definition: Definition, terms: Sequence[Term], filled: bool
    ) -> tuple[Node, ...]:
        """Return the loops that write the terms of one definition."""
        jobs = [job(definition, t, self.fixed) for t in terms]
        jobs.sort(key=lambda one: not one.covers)
        cleared = not filled and not (jobs and jobs[0].covers)
        nodes: list[Node] = []
        written = filled or cleared
        for number, one in enumerate(jobs):
            alone = cleared and not number and writes_once(one)
            nodes += nest(one, "+=" if written and not alone else "=", self.slot, self.fixed)
            written = True
        batched = self.batch in definition.indices
        split = batched and all(isinstance(n, For) and n.index == self.batch for n in nodes)
        step = (Affine.of(self.fixed),) if self.fixed is not None else ()
        if cleared and batched and (split or step):
            at = (Affine.of(self.batch), *step)
            return (For(self.batch, (Clear(definition.name, at),)), *nodes)
        return (Clear(definition.name, step), *nodes) if cleared else tuple(nodes)

    def slot(self) -> int:
        """Return a number for a local variable."""
        self.slots += 1
        return self.slots


def _apart(member: Definition, names: frozenset[str]) -> tuple[tuple[Term, ...], Body]:
    """Split off the terms of a recurrence that all steps can have at once, if there are sums."""
    if not isinstance(member.body, tuple):
        return (), member.body
    inside = [t for t in member.body if any(names & set(arrays_of(f)) for f in t.factors)]
    outside = tuple(t for t in member.body if t not in inside)
    if not any(t.bound for t in outside):
        return (), member.body
    return outside, tuple(inside)


def at_step(member: Definition, body: Body, step: Index) -> Definition:
    """Return a member of a recurrence with `body`, its step called like all others'."""
    if member.loop is None or member.loop.index == step:
        return replace(member, body=body)
    there = {member.loop.index: Affine.of(step)}
    indices = tuple(step if i == member.loop.index else i for i in member.indices)
    moved = over_body(body, lambda scalar: substitute(scalar, there))
    return replace(member, indices=indices, body=moved, loop=replace(member.loop, index=step))


def _walk(steps: Sequence[Step], loop: Loop, batch: Index) -> Step:
    """Return the walk through the steps: inside the kernel if there is only one."""
    only = steps[0]
    if len(steps) > 1 or not isinstance(only, Kernel):
        inside = tuple(s for s in steps if not isinstance(s, Walk | Choice))
        return Walk(loop.index, loop.reverse, inside)
    if not only.split:
        nodes: tuple[Node, ...] = (For(loop.index, only.nodes, loop.reverse),)
    else:
        inner = tuple(n for one in only.nodes if isinstance(one, For) for n in one.body)
        nodes = (For(batch, (For(loop.index, inner, loop.reverse),)),)
    return replace(only, nodes=nodes, work=only.work * loop.index.dim, fixed=None)


def _is_tiny(product: Product, batch: Index) -> bool:
    """Whether a product of each sample is known to be so small that loops are faster than BLAS."""
    sizes = [i.dim.constant for i in (*product.target_indices, *product.inner) if i != batch]
    known = [size for size in sizes if size is not None]
    return len(known) == len(sizes) and prod(known) <= TINY


def _product(definition: Definition, term: Term, fixed: Index | None = None) -> Product | None:
    """Return the term as a matrix product, or None where loops are better."""
    negative = bool(term.factors) and term.factors[0] == Number(-1)
    factors = term.factors[1:] if negative else term.factors
    deltas = [f for f in factors if isinstance(f, Delta)]
    factors = tuple(f for f in factors if not isinstance(f, Delta))
    placed = _placed(definition, term.bound, deltas, fixed)
    if not term.bound or len(factors) != 2 or placed is None:
        return None
    left, right = factors
    if not (isinstance(left, Access) and isinstance(right, Access)):
        return None
    sets = [_stretches(a, fixed) for a in (left, right)]
    if sets[0] is None or sets[1] is None:
        return None
    ours, theirs = (tuple(i for i in found if i) for found in sets if found is not None)
    at = tuple(p for i, p in zip(definition.indices, placed, strict=True) if i != fixed)
    free = tuple(i for i in map(stretch, at) if i is not None)
    bound = tuple(i for i in term.bound if i not in free)
    if set(ours) | set(theirs) != set(free) | set(bound):
        return None
    if not bound or not set(bound) <= set(ours) & set(theirs):
        return None
    batch = tuple(i for i in free if i in ours and i in theirs)
    rows = tuple(i for i in free if i in ours and i not in theirs)
    columns = tuple(i for i in free if i in theirs and i not in ours)
    inner = tuple(i for i in ours if i in bound)
    if not rows or not columns:
        if batch or not (rows or columns):
            return None
    where = at if deltas else ()
    return Product(
        definition.name, free, left, right, batch, rows, columns, inner, False, fixed, negative,
        where,
    )  # fmt: skip


def _placed(
    definition: Definition,
    bound: Sequence[Index],
    deltas: Sequence[Delta],
    fixed: Index | None,
) -> tuple[Position, ...] | None:
    """Return where a term writes: deltas may put it at a part of some axes. None for others."""
    at: dict[Index, Position] = {i: Affine.of(i) for i in definition.indices}
    if deltas and fixed is not None:
        return None
    for delta in deltas:
        for here, there in ((delta.left, delta.right), (delta.right, delta.left)):
            along = stretch(there)
            bare = here.bare
            if bare in at and bare != fixed and at[bare].bare == bare and along in bound:
                if isinstance(there, Lookup) and (along is None or not along.partial):
                    continue  # data may name a place twice: those are added one by one
                known = delta.inside and here is delta.left
                if isinstance(there, Lookup):
                    known = known or not bare.partial  # a place in all of the axis
                elif not known:
                    known = holds(Guard(there, bare.dim))
                if known:
                    at[bare] = there
                    break
        else:
            return None
    along_all = [stretch(p) for p in at.values()]
    once = len(set(along_all)) == len(along_all) and _taken(at.values()) < 2
    return tuple(at.values()) if once else None


def _taken(at: Iterable[Position]) -> int:
    """Return how many axes are read or written at places that a list gives."""
    return sum(isinstance(p, Lookup) for p in at)


def _stretches(access: Access, fixed: Index | None) -> tuple[Index | None, ...] | None:
    """Return the index along each axis, None for steps; None if there are other positions."""
    found: list[Index | None] = []
    for position in access.at:
        along = stretch(position)
        if isinstance(position, Affine) and [i for i, _ in position.terms] == [fixed]:
            found.append(None)
        elif along is None or along in found or (is_part(position) and not along.partial):
            return None
        else:
            found.append(along)
    lists = _taken(access.at)  # numpy puts the axes of several lists, or of one and steps, together
    return tuple(found) if not lists or (lists == 1 and None not in found) else None


def _loops(indices: Sequence[Index], body: tuple[Node, ...]) -> tuple[Node, ...]:
    for index in reversed(indices):
        body = (For(index, body),)
    return body
