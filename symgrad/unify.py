"""Solve equations between sizes, so that the layers of a chain agree on their dims.

(left, right) of sizes -> what each solved dim is
Where both sides are names the right one gives way: it belongs to the later layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from symgrad.dims import Dim


def unify(equations: Iterable[tuple[Dim, Dim]]) -> dict[str, Dim]:
    """Return dims by name, none of which stands in another's solution.

    Raises ValueError(left, right) for the first equation without a solution.
    """
    known: dict[str, Dim] = {}
    for left, right in equations:
        known = _bound(left.substitute(known), right.substitute(known), known)
    return known


def _bound(left: Dim, right: Dim, known: Mapping[str, Dim]) -> dict[str, Dim]:
    if left == right:
        return dict(known)
    solved = _alone(right, left) or _alone(left, right) or _linear(left, right)
    if solved is None:
        raise ValueError(left, right)
    name, size = solved
    return {other: dim.substitute({name: size}) for other, dim in known.items()} | {name: size}


def _alone(side: Dim, other: Dim) -> tuple[str, Dim] | None:
    """Return the name that a side is, with what the other side says about it."""
    name = side.symbol
    return None if name is None or name in other.names else (name, other)


def _linear(left: Dim, right: Dim) -> tuple[str, Dim] | None:
    """Return a name that stands once, with coefficient 1 or -1, and what it must be."""
    difference = right - left
    for name in reversed(difference.names):
        rest = difference.substitute({name: 0})
        share = difference - rest
        if name not in rest.names and share in (Dim.of(name), -Dim.of(name)):
            return name, (-rest if share == Dim.of(name) else rest)
    return None
