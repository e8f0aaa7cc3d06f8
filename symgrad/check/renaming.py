"""Definitions with other indices, and what is left of them without the letters.

Definition, {index: index} -> Definition
Two definitions of one key differ in names only, so that one of them is enough.
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
    indices_of,
    over_body,
    scalars_of,
    substitute,
)

INNER = "'"
"""Marks the letter of an index that matrix style bound: it gets another one where it is free."""


def free_in(body: Body) -> tuple[Index, ...]:
    """Return the indices of a body that nothing in it binds."""
    if not isinstance(body, tuple):
        read = dict.fromkeys(i for s in scalars_of(body) for i in indices_of(s))
        return tuple(i for i in read if i not in body.bound)
    found = {i: None for t in body for f in t.factors for i in indices_of(f) if i not in t.bound}
    return tuple(found)


def renamed(made: Definition, fresh: dict[Index, Index], supply: Supply | None) -> Definition:
    """Replace indices of a definition, and its bound ones by new ones from `supply`."""
    count = 0

    def binding(bound: tuple[Index, ...]) -> dict[Index, Index]:
        nonlocal count
        table = dict(fresh)
        for index in bound:
            count += 1
            if supply is not None:
                table[index] = supply.fresh(index.name.removesuffix(INNER), index.dim)
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
    return replace(made, indices=tuple(fresh.get(i, i) for i in made.indices), body=body)


def key_of(made: Definition, batch: Index) -> tuple[object, ...]:
    """Return what two definitions have in common if they differ in names only."""
    canonical = {
        i: Index("", i.dim, -n - 1) for n, i in enumerate(made.indices) if i != batch
    }
    plain = renamed(made, canonical, None)
    return (plain.indices, plain.body, plain.frozen)
