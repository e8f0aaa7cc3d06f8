"""Definitions that say the same get one name, the written one if there is one.

Program -> Program, names -> name
A mean that `var` takes for itself is the mean the user named.
"""

from __future__ import annotations

from dataclasses import replace

from symgrad.program import (
    Access,
    Affine,
    Body,
    Definition,
    Index,
    Primitive,
    Program,
    Reduce,
    Rowwise,
    Scalar,
    over_body,
    rebuild,
    substitute,
)


def merge_equal(program: Program) -> tuple[Program, dict[str, str]]:
    """Return the program reading one name for each value, and what was renamed."""
    renamed: dict[str, str] = {}
    first: dict[object, Definition] = {}
    order = sorted(program.definitions, key=lambda d: not d.written)
    rank = {d.name: n for n, d in enumerate(order)}
    kept: list[Definition] = []
    for definition in program.definitions:
        body = _renamed_body(definition.body, renamed)
        current = replace(definition, body=body)
        key = (_canonical(current), definition.frozen)
        seen = first.get(key)
        if seen is None or (definition.written and seen.written):
            first.setdefault(key, current)
            kept.append(current)
            continue
        if rank[definition.name] < rank[seen.name]:
            renamed[seen.name] = definition.name
            first[key] = current
            kept.append(current)
        else:
            renamed[definition.name] = seen.name
            kept.append(current)
    definitions = tuple(replace(d, body=_renamed_body(d.body, renamed)) for d in kept)
    return replace(program, definitions=definitions), renamed


def rename(scalar: Scalar, renamed: dict[str, str]) -> Scalar:
    """Return the scalar reading the kept names."""

    def change(node: Scalar) -> Scalar:
        if isinstance(node, Access) and node.array in renamed:
            return Access(renamed[node.array], node.at)
        return node

    return rebuild(scalar, change) if renamed else scalar


def _renamed_body(body: Body, renamed: dict[str, str]) -> Body:
    return over_body(body, lambda scalar: rename(scalar, renamed))


def _canonical(definition: Definition) -> object:
    """Return the definition with its indices numbered by their places."""
    mapping: dict[Index, Affine] = {}

    def place(indices: tuple[Index, ...], sign: int) -> tuple[Index, ...]:
        fresh = tuple(Index("", i.dim, sign * (len(mapping) + n + 1)) for n, i in
                      enumerate(indices))
        mapping.update({i: Affine.of(f) for i, f in zip(indices, fresh, strict=True)})
        return fresh

    head = place(definition.indices, -1)
    body = definition.body
    match body:
        case tuple():
            terms = []
            for term in body:
                bound = place(term.bound, -1)
                terms.append((bound, tuple(substitute(f, mapping) for f in term.factors)))
            return head, tuple(terms)
        case Reduce():
            bound = place(body.bound, -1)
            return head, body.kind, bound, substitute(body.body, mapping)
        case Rowwise():
            bound = place(body.bound, -1)
            at = tuple(str(mapping.get(i)) for i in body.at)
            return head, body.kind, bound, at, substitute(body.body, mapping)
        case Primitive():
            place(body.bound, -1)
            return head, body.kind, tuple(substitute(o, mapping) for o in body.operands)
