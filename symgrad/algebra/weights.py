"""Slopes of logsumexp and norm without the rounding error of their values.

Definitions -> Definitions
`exp(z - y)` with y = logsumexp(z) is wrong by as much as y was rounded, which is much where y is
large; so is `z / y` with y = norm(z) where y is subnormal. All slopes of a row are wrong by the
same factor, so their own sum, or norm, takes it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from symgrad.program import (
    Access,
    Affine,
    Apply,
    Definition,
    Reduce,
    Scalar,
    Term,
    blocks,
    over_body,
    reads,
    rebuild,
)

SLOPES = {"logsumexp": "exp_difference", "norm": "ratio_or_zero"}
"""The function that a slope is, of an element and the value of its row."""


def even_out(
    definitions: Sequence[Definition], known: Mapping[str, Definition], taken: set[str]
) -> tuple[Definition, ...]:
    """Return the definitions with every slope divided by what those of its row add up to.

    `known` has the definitions that may be logsumexps or norms; names in `taken` are avoided.
    """
    result: list[Definition] = []
    totals: dict[str, Definition] = {}
    for unit in blocks(definitions):
        inside = {d.name for d in unit}
        for member in unit:
            for name in _sloped(member, known):
                value = known[name]
                if name not in totals and not inside & {name, *reads(value)}:
                    totals[name] = _total(value, taken)
                    result.append(totals[name])
        result += [replace(d, body=over_body(d.body, lambda s: _even(s, totals))) for d in unit]
    return tuple(result) if totals else tuple(definitions)


def _sloped(definition: Definition, known: Mapping[str, Definition]) -> list[str]:
    """Return the arrays whose slopes a definition reads, each once, in order."""
    found: dict[str, None] = {}

    def note(node: Scalar) -> Scalar:
        match node:
            case Apply(function, (_, Access(name, _)), ()):
                body = known[name].body if name in known else None
                if isinstance(body, Reduce) and SLOPES.get(body.kind) == function:
                    found[name] = None
        return node

    over_body(definition.body, lambda scalar: rebuild(scalar, note))
    return list(found)


def _total(value: Definition, taken: set[str]) -> Definition:
    """Return the sum of a row's weights, or the norm of its slopes: 1 but for rounding."""
    body = value.body
    assert isinstance(body, Reduce)
    name, number = f"total_{value.name}", 1
    while name in taken:
        number += 1
        name = f"total_{value.name}_{number}"
    taken.add(name)
    itself = Access(value.name, tuple(Affine.of(i) for i in value.indices))
    slope = Apply(SLOPES[body.kind], (body.body, itself))
    total = Reduce("norm", body.bound, slope) if body.kind == "norm" else (
        Term(body.bound, (slope,)),
    )
    return Definition(name, value.indices, total, written=False)


def _even(scalar: Scalar, totals: Mapping[str, Definition]) -> Scalar:
    def change(node: Scalar) -> Scalar:
        match node:
            case Apply(function, (_, Access(name, at)), ()) if (
                name in totals and function in SLOPES.values()
            ):
                return Apply("ratio_or_zero", (node, Access(totals[name].name, at)))
        return node

    return rebuild(scalar, change)


__all__ = ["even_out"]
