"""What the stores of one loop body have in common is computed once.

Nodes -> nodes with `Keep`
Function calls count, and their arguments where a store stands between: the compiler must take it
that the store changes what they read, and then a value and its slope share nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from symgrad.functions import kernel
from symgrad.generation.numbers import is_double, keeps_type
from symgrad.program import Access, Apply, Scalar, arrays_of, walk
from symgrad.schedule import Add, For, Keep, Let, Node, Store, When

Leaf = Store | Let | Add


def once(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return nodes in whose loops no function is called twice for the same element."""
    result: list[Node] = []
    run: list[Leaf] = []
    for node in nodes:
        if isinstance(node, Store | Let | Add):
            run.append(replace(node, factors=tuple(map(_plain, node.factors))))
            continue
        result += _kept(run)
        run = []
        result.append(_within(node))
    return (*result, *_kept(run))


def _within(node: Node) -> Node:
    match node:
        case For(index, body, reverse):
            return For(index, once(body), reverse)
        case When(conditions, body):
            return When(conditions, once(body))
        case _:
            return node


def _plain(scalar: Scalar) -> Scalar:
    """Return a scalar in which derivatives that are computed like functions are called so: exp."""
    if not isinstance(scalar, Apply):
        return scalar
    same = any(scalar.order) and kernel(scalar.function, scalar.order) == kernel(scalar.function)
    args = tuple(map(_plain, scalar.args))
    return Apply(scalar.function, args, () if same else scalar.order)


def _kept(run: Sequence[Leaf]) -> list[Node]:
    """Return leaves with what they repeat ahead of its first use, the largest first."""
    kept: dict[Scalar, int] = {}
    while True:
        uses: dict[Scalar, list[int]] = {}
        for number, leaf in enumerate(run):
            for factor in leaf.factors:
                for scalar in _parts(factor, kept):
                    uses.setdefault(scalar, []).append(number)
        for whole, first in kept.items():
            for scalar in _inner(whole, kept):
                uses[scalar] = sorted([*uses.get(scalar, ()), first])
        again = {s: run[at[0] : at[-1]] for s, at in uses.items() if _repeated(s, at)}
        found = [s for s, between in again.items() if _steady(s, between)]
        if not found:
            break
        largest = max(found, key=lambda s: sum(1 for _ in walk(s)))
        kept[largest] = uses[largest][0]
    result: list[Node] = []
    for number, leaf in enumerate(run):
        inner_first = [s for s, first in reversed(kept.items()) if first == number]
        result += [Keep(s, _target(s, leaf)) for s in inner_first]
        result.append(leaf)
    return result


def _parts(scalar: Scalar, kept: dict[Scalar, int]) -> list[Scalar]:
    """Return calls in a scalar, and arguments; what is kept is looked into where it is made."""
    if not isinstance(scalar, Apply) or not is_double(scalar) or scalar in kept:
        return []
    own: list[Scalar] = [scalar] if arrays_of(scalar) else []
    return own + _inner(scalar, kept)


def _inner(scalar: Scalar, kept: dict[Scalar, int]) -> list[Scalar]:
    """Return the same of what stands in a scalar."""
    if not isinstance(scalar, Apply):
        return []
    calls = not keeps_type(kernel(scalar.function, scalar.order).call)
    own = [a for a in scalar.args if calls and _is_argument(a) and a not in kept]
    return own + [p for a in scalar.args for p in _parts(a, kept)]


def _is_argument(scalar: Scalar) -> bool:
    """Whether a scalar is an element, or arithmetic of some."""
    if isinstance(scalar, Access):
        return bool(scalar.at)
    return isinstance(scalar, Apply) and not is_double(scalar) and bool(arrays_of(scalar))


def _repeated(scalar: Scalar, at: Sequence[int]) -> bool:
    """Whether a scalar is used again; for an argument, in another statement."""
    return len(at if is_double(scalar) else set(at)) > 1


def _steady(scalar: Scalar, between: Sequence[Leaf]) -> bool:
    """Whether nothing that a scalar reads is written between its uses."""
    written = {leaf.array for leaf in between if isinstance(leaf, Store)}
    return written.isdisjoint(arrays_of(scalar))


def _target(scalar: Scalar, leaf: Leaf) -> Store | None:
    """Return the store that a scalar is the value of."""
    if isinstance(leaf, Store) and leaf.factors == (scalar,) and not leaf.lets:
        return leaf if leaf.operator == "=" else None
    return None


__all__ = ["once"]
