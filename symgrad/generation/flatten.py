"""Element-wise loop nests over whole arrays become one loop, which fills vector registers.

Nodes -> nodes with `Flat`
Of 4096 samples of 3 units each, a loop over units would run 3 elements at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, groupby

from symgrad.dims import Dim
from symgrad.generation.nests import accesses_in
from symgrad.generation.numbers import is_double
from symgrad.program import (
    BATCH,
    Access,
    Affine,
    Apply,
    Index,
    Number,
    Scalar,
    Size,
    walk,
)
from symgrad.schedule import Flat, For, Keep, Node, Store

Shapes = Mapping[str, tuple[Dim, ...]]
"""The axes of arrays, the batch axis among them."""

WIDE = 32
"""A last axis that is known to be as long as this keeps vector registers full by itself."""


def flattened(nodes: Sequence[Node], plain: Shapes) -> tuple[Node, ...]:
    """Return nodes whose element-wise nests of function calls are one loop each.

    Only arrays in `plain` are known to lie in C order; it has their axes.
    """
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, For) and node.index.dim == BATCH and not node.reverse:
            result += _apart(node, plain)
        else:
            result += _one(node, (), plain)
    return tuple(result)


def _apart(samples: For, plain: Shapes) -> list[Node]:
    """Return a loop over samples as several, the element-wise ones flat."""
    parts = [_one(node, (samples.index,), plain) for node in samples.body]
    if not any(isinstance(n, Flat) for part in parts for n in part):
        return [samples]
    result: list[Node] = []
    for is_flat, group in groupby(chain.from_iterable(parts), key=lambda n: isinstance(n, Flat)):
        nodes = tuple(group)
        result += nodes if is_flat else [For(samples.index, nodes)]
    return result


def _one(node: Node, outer: tuple[Index, ...], plain: Shapes) -> list[Node]:
    """Return a nest below `outer` loops as runs of its statements, flat where they may be."""
    loops, body = _nest(node)
    axes = (*outer, *loops)
    if len(axes) < 2 or body is None or _is_wide(axes[-1]):
        return [node]
    whole = [_whole(leaf, axes, plain) for leaf in body]
    if not any(_calls(leaf) for leaf, fits in zip(body, whole, strict=True) if fits):
        return [node]
    pairs = groupby(zip(body, whole, strict=True), key=lambda pair: pair[1])
    runs = [(fits, tuple(leaf for leaf, _ in group)) for fits, group in pairs]
    if _parted([leaves for _, leaves in runs]):
        return [node]
    return [
        _flat(leaves, axes) if fits and any(map(_calls, leaves)) else _nested(leaves, loops)
        for fits, leaves in runs
    ]


def _parted(runs: Sequence[tuple[Store | Keep, ...]]) -> bool:
    """Whether a run reads what an earlier one keeps in a local variable."""
    for number, run in enumerate(runs):
        kept = {n.scalar for n in run if isinstance(n, Keep)}
        later = [leaf for other in runs[number + 1 :] for leaf in other]
        if any(n in kept for leaf in later for f in _factors(leaf) for n in walk(f)):
            return True
    return False


def _factors(leaf: Store | Keep) -> tuple[Scalar, ...]:
    return leaf.factors if isinstance(leaf, Store) else (leaf.scalar,)


def _nest(node: Node) -> tuple[tuple[Index, ...], tuple[Store | Keep, ...] | None]:
    """Return the loops and the statements of a perfect nest; None if it is none."""
    loops: list[Index] = []
    body: tuple[Node, ...] = (node,)
    while len(body) == 1 and isinstance(body[0], For) and not body[0].reverse:
        loops.append(body[0].index)
        body = body[0].body
    leaves = tuple(n for n in body if isinstance(n, Store | Keep))
    alone = len(leaves) == len(body) and not any(isinstance(n, Store) and n.lets for n in leaves)
    return tuple(loops), leaves if alone else None


def _whole(leaf: Store | Keep, axes: Sequence[Index], plain: Shapes) -> bool:
    """Whether a statement has all arrays at its own element, and nothing but them and numbers."""
    at, dims = tuple(Affine.of(i) for i in axes), tuple(i.dim for i in axes)
    factors = _factors(leaf)
    if isinstance(leaf, Store) and (leaf.at != at or plain.get(leaf.array) != dims):
        return False
    nodes = [n for f in factors for n in walk(f)]
    if not all(isinstance(n, Access | Apply | Number | Size) for n in nodes):
        return False
    accesses = [a for f in factors for a in accesses_in(f)]
    return all(not a.at or (a.at == at and plain.get(a.array) == dims) for a in accesses)


def _calls(leaf: Node) -> bool:
    """Whether a statement calls a function."""
    match leaf:
        case Store():
            return any(map(is_double, leaf.factors))
        case Keep():
            return is_double(leaf.scalar)
        case _:
            return False


def _is_wide(index: Index) -> bool:
    return index.dim.constant is not None and index.dim.constant >= WIDE


def _flat(leaves: Sequence[Store | Keep], axes: Sequence[Index]) -> Flat:
    """Return statements over all elements."""
    index = axes[-1]
    place = (Affine.of(index),)

    def moved(scalar: Scalar) -> Scalar:
        match scalar:
            case Access(array, at) if at:
                return Access(array, place)
            case Apply():
                return Apply(scalar.function, tuple(map(moved, scalar.args)), scalar.order)
            case _:
                return scalar

    def one(leaf: Store | Keep) -> Store | Keep:
        if isinstance(leaf, Store):
            factors = tuple(map(moved, leaf.factors))
            return Store(leaf.array, place, leaf.operator, (), factors)
        target = one(leaf.target) if leaf.target is not None else None
        assert not isinstance(target, Keep)
        return Keep(moved(leaf.scalar), target)

    return Flat(index, tuple(i.dim for i in axes), tuple(map(one, leaves)))


def _nested(leaves: Sequence[Store | Keep], loops: Sequence[Index]) -> Node:
    body: tuple[Node, ...] = tuple(leaves)
    for index in reversed(loops):
        body = (For(index, body),)
    (node,) = body
    return node


__all__ = ["flattened"]
