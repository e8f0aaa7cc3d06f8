"""Definitions become steps: matrix products where BLAS is best, plain loops elsewhere.

Definitions -> Schedule
Deltas decide where a term writes, so zeros are cleared once and never computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from symgrad.dims import Dim
from symgrad.generation.fuse import kernels
from symgrad.generation.nests import accesses_in, job, nest, writes_once
from symgrad.generation.views import owners, views
from symgrad.program import (
    Access,
    Affine,
    Definition,
    Delta,
    Guard,
    Index,
    Reduce,
    Term,
    arrays_of,
    scalars_of,
)
from symgrad.schedule import (
    Buffer,
    Clear,
    For,
    Node,
    Product,
    Row,
    Schedule,
    Step,
)


def plan(
    definitions: Sequence[Definition],
    batch: Index,
    keep: Sequence[str] | None = None,
    shapes: Mapping[str, tuple[Dim, ...]] | None = None,
    handed: Sequence[str] | None = None,
) -> Schedule:
    """Return the steps that evaluate the definitions in order.

    `shapes` has the axes of arrays that are not among them: a product takes whole arrays only.
    With `keep`, the arrays wanted afterwards, an element-wise definition may be written over an
    array that nothing reads any more. With `handed`, the arrays given to a caller, others may be
    views of the arrays that they reshape.
    """
    own = {d.name: tuple(i.dim for i in d.indices) for d in definitions}
    known = {**(shapes or {}), **own}
    seen = {} if handed is None else views(definitions, known, handed)
    shared = {*seen, *seen.values(), *owners(seen).values()}
    over = {} if keep is None else _in_place(definitions, frozenset(keep) | shared)
    planner = Planner(batch, known, owners(seen))
    for definition in definitions:
        planner.add(definition, over.get(definition.name))
    planner.flush()
    buffers = tuple(
        replace(_buffer(d), over=over.get(d.name), view=seen.get(d.name)) for d in definitions
    )
    return Schedule(buffers, tuple(planner.steps))


def _in_place(definitions: Sequence[Definition], keep: frozenset[str]) -> dict[str, str]:
    """Return which definition takes the place of which array, as its only reader."""
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
        over[new.name] = name
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

    def add(self, definition: Definition, over: str | None = None) -> None:
        """Append the steps of one definition, written over the array `over` if there is one."""
        body = definition.body
        if definition.name in self.views:
            self.queue(definition, ())
            return
        if over is not None and isinstance(body, tuple):
            self.queue(definition, self.trees(replace(definition, name=over), body, filled=False))
            return
        if not isinstance(body, tuple):
            at = definition.indices
            if not isinstance(body, Reduce):
                at = tuple(i for i in at if i not in body.at)
            self.queue(definition, _loops(at, (Row(definition),)))
            return
        products = [(t, self.product(definition, t)) for t in body]
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

    def product(self, definition: Definition, term: Term) -> Product | None:
        """Return a term as a product of two whole arrays, or None."""
        found = _product(definition, term)
        if found is None:
            return None
        for access in (found.left, found.right):
            read = tuple(i.dim for i in _bare_indices(access) or ())
            if self.shapes.get(access.array, read) != read:
                return None  # a part of an array
        return found

    def queue(self, definition: Definition, nodes: tuple[Node, ...]) -> None:
        """Put loops behind those that wait."""
        self.pending.append(nodes)
        self.members.append(definition)

    def flush(self) -> None:
        """Turn the waiting loops into kernels: one for samples, one for what they share."""
        self.steps += kernels(self.pending, self.members, self.batch, self.views)
        self.pending, self.members = [], []

    def trees(
        self, definition: Definition, terms: Sequence[Term], filled: bool
    ) -> tuple[Node, ...]:
        """Return the loops that write the terms of one definition."""
        jobs = [job(definition, t) for t in terms]
        jobs.sort(key=lambda one: not one.covers)
        cleared = not filled and not (jobs and jobs[0].covers)
        nodes: list[Node] = []
        written = filled or cleared
        for number, one in enumerate(jobs):
            alone = cleared and not number and writes_once(one)
            nodes += nest(one, "+=" if written and not alone else "=", self.slot)
            written = True
        batched = self.batch in definition.indices
        split = batched and all(isinstance(n, For) and n.index == self.batch for n in nodes)
        if cleared and split:
            at = (Affine.of(self.batch),)
            return (For(self.batch, (Clear(definition.name, at),)), *nodes)
        return (Clear(definition.name, ()), *nodes) if cleared else tuple(nodes)

    def slot(self) -> int:
        """Return a number for a local variable."""
        self.slots += 1
        return self.slots


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
    return Product(text, free, left, right, batch, rows, columns, inner, adds=False)


def _bare_indices(access: Access) -> tuple[Index, ...] | None:
    found = [p.bare if isinstance(p, Affine) else None for p in access.at]
    if None in found or len(set(found)) != len(found):
        return None
    return tuple(i for i in found if i is not None)


def _loops(indices: Sequence[Index], body: tuple[Node, ...]) -> tuple[Node, ...]:
    for index in reversed(indices):
        body = (For(index, body),)
    return body
