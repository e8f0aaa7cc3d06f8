"""Definitions under new indices: what is read beside them keeps its own.

Definition, {index: new index} -> Definition
"""

from __future__ import annotations

from dataclasses import replace

from symgrad.program import (
    Affine,
    Body,
    Definition,
    Index,
    Primitive,
    Rowwise,
    Scalar,
    Supply,
    Term,
    over_body,
    substitute,
)

INNER = "'"
"""Marks the letter of an index that matrix style bound: it gets another one where it is free."""


def renamed(made: Definition, fresh: dict[Index, Index], supply: Supply | None) -> Definition:
    """Replace indices of a definition, and its bound ones by new ones from `supply`."""
    count = 0

    def binding(bound: tuple[Index, ...]) -> dict[Index, Index]:
        nonlocal count
        table = dict(fresh)
        for index in bound:
            count += 1
            if supply is not None:
                name = index.name.removesuffix(INNER)
                table[index] = supply.fresh(name, index.dim, partial=index.partial)
            else:
                table[index] = Index("", index.dim, -1000 - count)
        return table

    def moved(scalar: Scalar, table: dict[Index, Index]) -> Scalar:
        return substitute(scalar, {i: Affine.of(to) for i, to in table.items()})

    body: Body
    if isinstance(made.body, tuple):
        terms = []
        for term in made.body:
            table = binding(term.bound)
            bound = tuple(table[i] for i in term.bound)
            terms.append(Term(bound, tuple(moved(f, table) for f in term.factors)))
        body = tuple(terms)
    else:
        table = binding(made.body.bound)
        body = over_body(made.body, lambda scalar: moved(scalar, table))
        if isinstance(body, Primitive):
            axes = tuple(tuple(table[i] for i in own) for own in body.axes)
            body = replace(body, axes=axes)
        elif not isinstance(body, tuple):
            body = replace(body, bound=tuple(table[i] for i in body.bound))
        if isinstance(body, Rowwise | Primitive):
            body = replace(body, at=tuple(table.get(i, i) for i in body.at))
    loop = made.loop
    if loop is not None:
        loop = replace(loop, index=fresh.get(loop.index, loop.index))
    indices = tuple(fresh.get(i, i) for i in made.indices)
    return replace(made, indices=indices, body=body, loop=loop)


def apart(made: Definition, supply: Supply, keep: Index) -> Definition:
    """Return a definition that has no index but `keep`, the batch, in common with others."""
    fresh = {i: supply.like(i) for i in made.indices if i != keep}
    return renamed(made, fresh, supply)
