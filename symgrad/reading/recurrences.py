"""Recurrences as they are written: h[t - 1] instead of an array of earlier values.

Derivation -> Derivation, Beginning, ...
For readers only: below step 0 stands the start, which no array holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from symgrad.algebra.contract import contract, relocate
from symgrad.derivation import Derivation
from symgrad.dims import Dim
from symgrad.program import (
    Access,
    Affine,
    Body,
    Definition,
    Delta,
    Guard,
    Index,
    Position,
    Program,
    Scalar,
    Supply,
    Term,
    over_body,
    rebuild,
    scalars_of,
    walk,
)
from symgrad.reading.same import rename


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a recurrence's array is `lag` steps before step 0, over `indices`; no terms: zero."""

    array: str
    lag: int
    indices: tuple[Index, ...]
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Earlier:
    """A definition that holds another array's values of earlier steps, `access` over its own."""

    definition: Definition
    access: Access
    lag: int


def earlier_values(program: Program) -> dict[str, Earlier]:
    """Return the definitions that stand for `h[t - c]`."""
    found = {}
    for definition in program.definitions:
        one = _earlier(definition, program)
        if one is not None:
            found[definition.name] = one
    return found


def _earlier(definition: Definition, program: Program) -> Earlier | None:
    body = definition.body
    if definition.written or not isinstance(body, tuple) or not body:
        return None
    first, *starts = body
    if first.bound or len(first.factors) != 2:
        return None
    guard, access = first.factors
    if not isinstance(guard, Guard) or not isinstance(access, Access):
        return None
    target = program.definition(access.array)
    lag = guard.position.offset.constant
    if target is None or lag is None or lag >= 0 or guard.position not in access.at:
        return None
    if any(not t.factors or not any(isinstance(f, Delta) for f in t.factors) for t in starts):
        return None
    return Earlier(definition, access, -lag)


def beginnings(program: Program, pasts: Mapping[str, Earlier]) -> tuple[Beginning, ...]:
    """Return what stands before step 0, each lag of each array once."""
    found: dict[tuple[str, int], Beginning] = {}
    for past in sorted(pasts.values(), key=lambda p: p.lag):
        body = past.definition.body
        if past.definition.loop is None or not isinstance(body, tuple):
            continue
        step = past.definition.loop.index
        rest = tuple(
            i for i in past.definition.indices if i not in (step, program.batch)
        )
        for lag in range(1, past.lag + 1):
            at_first = Delta(Affine.of(step), Affine.of(past.lag - lag))
            terms = tuple(
                Term(t.bound, tuple(f for f in t.factors if not isinstance(f, Delta | Guard)))
                for t in body[1:]
                if at_first in t.factors
            )
            key = (past.access.array, lag)
            found.setdefault(key, Beginning(past.access.array, lag, rest, terms))
    return tuple(found.values())


def stepwise(derivation: Derivation) -> Derivation:
    """Return the derivation with earlier steps read where they stand, their adjoints written out.

    Its definitions read steps before 0, which is for people, not for evaluation.
    """
    program = derivation.program
    pasts = earlier_values(program)
    if not pasts:
        return derivation
    derivation = _named_by_arrays(derivation, pasts)
    supply = Supply(derivation.serial)
    gone = {n: array for n, _, array in derivation.adjoint_of if array in pasts}
    adjoints = {d.name: d for d in derivation.adjoints if d.name in gone}

    walked = _walked(d for d in derivation.adjoints if d.name not in gone)

    def read(node: Scalar) -> Scalar:
        if not isinstance(node, Access) or node.array not in pasts:
            return node
        past = pasts[node.array]
        moved = relocate(past.access, dict(zip(past.definition.indices, node.at, strict=True)))
        return node if moved is None else moved

    def terms(old: Sequence[Term]) -> tuple[Term, ...]:
        written = [_unguarded(t, walked) for t in _written_out(old, adjoints, supply)]
        return tuple(
            Term(t.bound, tuple(rebuild(f, read) for f in t.factors if not _first_step(f)))
            for t in written
        )

    definitions = [d for d in program.definitions if d.name not in pasts]
    return replace(
        derivation,
        program=replace(
            program,
            definitions=tuple(replace(d, body=_body(d.body, terms, read)) for d in definitions),
        ),
        adjoints=tuple(
            replace(d, body=_body(d.body, terms, read))
            for d in derivation.adjoints
            if d.name not in gone
        ),
        adjoint_of=tuple(entry for entry in derivation.adjoint_of if entry[0] not in gone),
        jacobians=tuple(replace(j, terms=terms(j.terms)) for j in derivation.jacobians),
        serial=supply.serial,
    )


def _named_by_arrays(derivation: Derivation, pasts: Mapping[str, Earlier]) -> Derivation:
    """Return the derivation with its names for earlier values made from the arrays they are of."""
    taken = {d.name for d in derivation.adjoints}
    adjoint = {name for name, _, _ in derivation.adjoint_of}
    renamed: dict[str, str] = {}
    for definition in derivation.adjoints:
        past = next((p for p in pasts if definition.name.endswith(f"_{p}")), None)
        if past is None or definition.name in adjoint:
            continue
        base = definition.name.removesuffix(past) + pasts[past].access.array
        names = (base if n == 1 else f"{base}_{n}" for n in count(1))
        renamed[definition.name] = next(n for n in names if n not in taken)
        taken.add(renamed[definition.name])

    def terms(old: Sequence[Term]) -> tuple[Term, ...]:
        return tuple(Term(t.bound, tuple(rename(f, renamed) for f in t.factors)) for t in old)

    return replace(
        derivation,
        adjoints=tuple(
            replace(
                d,
                name=renamed.get(d.name, d.name),
                body=over_body(d.body, lambda scalar: rename(scalar, renamed)),
            )
            for d in derivation.adjoints
        ),
        jacobians=tuple(replace(j, terms=terms(j.terms)) for j in derivation.jacobians),
    )


def endings(definitions: Iterable[Definition]) -> dict[str, int]:
    """Return how many steps after the last one each recurrence is read, where it is zero."""
    definitions = list(definitions)
    walked = _walked(definitions)
    found: dict[str, int] = {}
    for definition in definitions:
        for node in (n for s in scalars_of(definition.body) for n in walk(s)):
            if isinstance(node, Access) and node.array in walked:
                position = node.at[walked[node.array][0]]
                lag = position.offset.constant if isinstance(position, Affine) else None
                if lag is not None and lag > 0:
                    found[node.array] = max(found.get(node.array, 0), lag)
    return found


def _walked(definitions: Iterable[Definition]) -> dict[str, tuple[int, Dim]]:
    """Return which axis of each recurrence, counted from the last, are its steps, and their dim."""
    return {
        d.name: (d.indices.index(d.loop.index) - len(d.indices), d.loop.index.dim)
        for d in definitions
        if d.loop is not None
    }


def _unguarded(term: Term, walked: Mapping[str, tuple[int, Dim]]) -> Term:
    """Return a term without the guards of adjoints, which are zero after the last step."""
    ended = {
        Guard(position, walked[f.array][1])
        for f in term.factors
        if isinstance(f, Access) and f.array in walked
        and isinstance(position := f.at[walked[f.array][0]], Affine)
    }
    return Term(term.bound, tuple(f for f in term.factors if f not in ended))


def _first_step(factor: Scalar) -> bool:
    """Whether it only says that there is a step 0."""
    return isinstance(factor, Guard) and factor.position == Affine()


def _body(
    body: Body,
    terms: Callable[[Sequence[Term]], tuple[Term, ...]],
    read: Callable[[Scalar], Scalar],
) -> Body:
    if isinstance(body, tuple):
        return terms(body)
    return over_body(body, lambda scalar: rebuild(scalar, read))


def _written_out(
    terms: Sequence[Term], adjoints: Mapping[str, Definition], supply: Supply
) -> tuple[Term, ...]:
    """Return terms with every factor that is one of `adjoints` replaced by its own terms."""
    done: list[Term] = []
    waiting = list(reversed(terms))
    while waiting:
        term = waiting.pop()
        place = next(
            (n for n, f in enumerate(term.factors)
             if isinstance(f, Access) and f.array in adjoints), None)  # fmt: skip
        if place is None:
            done.append(term)
            continue
        access = term.factors[place]
        assert isinstance(access, Access)
        definition = adjoints[access.array]
        inner_terms = definition.body if isinstance(definition.body, tuple) else ()
        mapping: dict[Index, Position] = dict(zip(definition.indices, access.at, strict=True))
        for inner in reversed(inner_terms):
            fresh = {i: supply.like(i) for i in inner.bound}
            both = mapping | {i: Affine.of(f) for i, f in fresh.items()}
            moved = [relocate(f, both) for f in inner.factors]
            factors = (
                *term.factors[:place],
                *(f for f in moved if f is not None),
                *term.factors[place + 1 :],
            )
            new = contract(Term((*term.bound, *fresh.values()), factors))
            if new is not None:
                waiting.append(new)
    return tuple(done)


__all__ = ["Beginning", "beginnings", "earlier_values", "endings", "stepwise"]
