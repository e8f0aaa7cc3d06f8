"""Neighbouring loops become one, and runs of loops become kernels.

loops of definitions -> kernels -> Kernel, Kernel, ...
Samples never read each other, so loops over samples always join; inner ones join where each
element reads only itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from symgrad.dims import ONE, Dim
from symgrad.generation.nests import accesses_in
from symgrad.generation.repeats import once
from symgrad.program import (
    Access,
    Affine,
    Definition,
    Index,
    affine_of,
    arrays_of,
    scalars_of,
    substitute,
)
from symgrad.schedule import Add, For, Kernel, Let, Node, Row, Store, When


def kernels(
    parts: Sequence[tuple[Node, ...]],
    members: Sequence[Definition],
    batch: Index,
    views: Mapping[str, str],
    fixed: Index | None = None,
) -> list[Kernel]:
    """Return the kernels that run the loops `parts`, each of one of the definitions `members`.

    `views` have no loops; they name the arrays whose elements they show. `fixed` is the step of a
    recurrence that the kernels are given.
    """
    found = []
    for group in _same_outer(parts, members, batch):
        nodes = _fuse(tuple(n for part in group.parts for n in part), batch, views)
        kernel = _kernel(nodes, group.members, batch)
        found.append(replace(kernel, nodes=once(nodes), fixed=fixed))
    return found


@dataclass(slots=True)
class _Group:
    parts: list[tuple[Node, ...]]
    members: list[Definition]
    sampled: bool | None


def _same_outer(
    parts: Sequence[tuple[Node, ...]], members: Sequence[Definition], batch: Index
) -> list[_Group]:
    """Group neighbours that all loop over samples outermost, or all do not; a view goes along.

    What samples add up to is no array of samples: two of them must not add to it at once.
    """
    groups: list[_Group] = []
    for part, member in zip(parts, members, strict=True):
        sampled = None
        if part:
            outermost = all(isinstance(n, For) and n.index == batch for n in part)
            sampled = outermost and batch in member.indices
        if groups and (None in (sampled, groups[-1].sampled) or groups[-1].sampled == sampled):
            groups[-1].sampled = groups[-1].sampled if sampled is None else sampled
            groups[-1].parts.append(part)
            groups[-1].members.append(member)
        else:
            groups.append(_Group([part], [member], sampled))
    return groups


def _fuse(nodes: tuple[Node, ...], batch: Index, views: Mapping[str, str]) -> tuple[Node, ...]:
    """Join neighbours: loops over samples always, inner ones where elements read themselves."""
    result: list[Node] = []
    for node in nodes:
        before = result[-1] if result else None
        if isinstance(node, For) and isinstance(before, For):
            if node.index == batch and before.index == batch:
                result[-1] = For(batch, _fuse((*before.body, *node.body), batch, views))
                continue
            joined = _join(before, node, views)
            if joined is not None:
                result[-1] = joined
                continue
        result.append(node)
    return tuple(result)


def _join(first: For, second: For, views: Mapping[str, str]) -> For | None:
    """Return both element-wise nests as one, or None."""
    ours, theirs = _chain(first), _chain(second)
    if ours is None or theirs is None or len(ours[0]) != len(theirs[0]):
        return None
    if any(a.dim != b.dim for a, b in zip(ours[0], theirs[0], strict=True)):
        return None
    mapping = {b: Affine.of(a) for a, b in zip(ours[0], theirs[0], strict=True)}
    moved = tuple(_moved(n, mapping) for n in theirs[1])
    stores = {n.array: n.at for n in ours[1] if isinstance(n, Store)}
    if any(
        set(ours[0]) - {i for p in at for a in affine_of(p) for i, _ in a.terms}
        for at in stores.values()
    ):
        return None
    for node in moved:
        if isinstance(node, Store) and node.array in stores and stores[node.array] != node.at:
            return None
        for factor in node.factors if isinstance(node, Store | Let) else ():
            for access in accesses_in(factor):
                if access.array in stores and stores[access.array] != access.at:
                    return None
                if views.get(access.array) in stores:
                    return None
            if set(arrays_of(factor)) & set(stores) - {a.array for a in accesses_in(factor)}:
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
    split = split and all(batch in member.indices for member in members)
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
