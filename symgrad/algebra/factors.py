"""Jacobians as labelled factors: deltas that tie axes, arrays under the names users see.

Derivation, Jacobian -> Structured
Axes of a parameter that deltas tie to the output's are left out of the compact array; axes of an
output where the indices of a part of the parameter tell where they stand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from symgrad.algebra.contract import relocate
from symgrad.algebra.names import Names
from symgrad.algebra.radix import digits, number_of
from symgrad.derivation import Derivation, Jacobian
from symgrad.form import Factor, FactoredTerm, Structured
from symgrad.program import (
    Access,
    Affine,
    Definition,
    Delta,
    Index,
    Position,
    Program,
    Scalar,
    Term,
    affine_of,
    indices_of,
    move,
    rebuild,
)

LETTERS = ("G", "h", "f", "g", "e", "d")


def keyed(program: Program, found: Sequence[Structured]) -> tuple[Structured, ...]:
    """Give every Jacobian a key: its parameter's name, after its output's if there are several."""
    return tuple(found) if len(program.outputs) == 1 else unique_keys(found, ())


def unique_keys(found: Sequence[Structured], taken: Collection[str]) -> tuple[Structured, ...]:
    """Give every derivative a key that none of those `taken` is: the names it is made of."""
    table: dict[str, Structured] = {}
    for structured in found:
        jacobian = structured.jacobian
        key = "_".join(n for n in (jacobian.output, jacobian.parameter, jacobian.beside) if n)
        while key in table or key in taken:
            key += "_"
        table[key] = replace(structured, key=key)
    return tuple(table.values())


def structure(derivation: Derivation, jacobian: Jacobian, names: Names) -> Structured:
    """Return a Jacobian as labelled factors, with its dense and its compact definition."""
    terms = tuple(_labelled(derivation, jacobian, n, t) for n, t in enumerate(jacobian.terms))
    if len(terms) == 1 and len(terms[0].factors) == 1:
        only = replace(terms[0].factors[0], label="J")
        terms = (FactoredTerm(terms[0].deltas, (only,)),)
    shared = list(_deltas(jacobian.terms[0])) if jacobian.terms else []
    for term in jacobian.terms[1:]:
        shared = [d for d in shared if d in term.factors]
    mapping = _ties(shared, jacobian)
    counted = _counted(shared, jacobian, mapping)
    tied = {*mapping, *counted}
    untied = tuple(i for i in jacobian.theta if i not in tied)
    given = _given(shared, jacobian)
    free = tuple(i for i in jacobian.out if i not in given)
    first = _batch_of(derivation, jacobian)
    name = "_".join(n for n in (jacobian.parameter, jacobian.beside) if n)
    dense = Definition(
        names.new(f"{'H' if jacobian.beside else 'J'}_{name}"),
        (*first, *jacobian.out, *jacobian.axes),
        jacobian.dense,
        written=False,
    )
    compact = None
    if (tied or given or jacobian.filling) and jacobian.terms:
        dropped = {d for d in shared if _tie_of(d, jacobian)[0] in mapping}
        dropped |= {d for d in shared if _given_by(d, jacobian)[0] in given}
        kept = tuple(
            Term((*t.bound, *counted), tuple(f for f in t.factors if f not in dropped))
            for t in jacobian.terms
        )
        kept = tuple(_read_by_part(_read_by_out(t, mapping), given) for t in kept)
        compact = Definition(
            names.new(f"C_{name}"),
            (*first, *free, *untied),
            kept,
            written=False,
        )
    key = jacobian.parameter
    return Structured(jacobian, terms, tuple(shared), free, untied, dense, compact, key)


def _batch_of(derivation: Derivation, jacobian: Jacobian) -> tuple[Index, ...]:
    program = derivation.program
    has_inputs = any(a.batched for a in program.arrays)
    return (program.batch,) if has_inputs else ()


def _deltas(term: Term) -> tuple[Delta, ...]:
    return tuple(f for f in term.factors if isinstance(f, Delta))


def _tie_of(delta: Delta, jacobian: Jacobian) -> tuple[Index | None, Affine]:
    """Return the theta axis that a delta ties to out axes, with the position it is tied to."""
    out = set(jacobian.out)
    for here, there in ((delta.left, delta.right), (delta.right, delta.left)):
        if not isinstance(here, Affine) or not isinstance(there, Affine):
            continue
        if here.bare is None or here.bare not in jacobian.theta or here.bare.partial:
            continue
        split = digits(there) == here.bare.dim
        if there.bare in jacobian.out or (split and {i for i, _ in there.terms} <= out):
            return here.bare, there
    return None, Affine()


def _given_by(delta: Delta, jacobian: Jacobian) -> tuple[Index | None, Position]:
    """Return the out axis whose place a delta tells by the indices of a part of an array."""
    for here, there in ((delta.left, delta.right), (delta.right, delta.left)):
        inside = {i for a in affine_of(there) for i, _ in a.terms}
        if here.bare in jacobian.out and inside and all(i.partial for i in inside):
            return here.bare, there
    return None, Affine()


def _given(shared: Sequence[Delta], jacobian: Jacobian) -> dict[Index, Position]:
    """Return where the out axes stand that the indices of a part tell: those are no zeros."""
    found: dict[Index, Position] = {}
    for delta in shared:
        axis, place = _given_by(delta, jacobian)
        factors = [f for t in jacobian.terms for f in t.factors]
        if axis is not None and axis not in found:
            if all(relocate(f, {axis: place}) is not None for f in factors):
                found[axis] = place
    return found


def _ties(shared: Sequence[Delta], jacobian: Jacobian) -> dict[Index, Affine]:
    """Return where the theta axes stand that deltas tie to out axes, one by one or split."""
    found = (_tie_of(delta, jacobian) for delta in shared)
    return {axis: place for axis, place in found if axis is not None}


def _counted(
    shared: Sequence[Delta], jacobian: Jacobian, mapping: Mapping[Index, Affine]
) -> tuple[Index, ...]:
    """Return theta axes that deltas tie together, as the digits of one out axis: a merge."""
    free = set(jacobian.theta) - set(mapping)
    found: list[Index] = []
    for delta in shared:
        number = number_of(delta)
        if number is None or number[0] not in jacobian.out:
            continue
        axes = {i for i, _ in number[1].terms}
        if axes <= free:
            found += [i for i in jacobian.theta if i in axes]
            free -= axes
    return tuple(found)


def _read_by_out(term: Term, mapping: dict[Index, Affine]) -> Term:
    def change(node: Scalar) -> Scalar:
        match node:
            case Access():
                return Access(node.array, tuple(move(p, mapping) for p in node.at))
            case Delta():
                return Delta(move(node.left, mapping), move(node.right, mapping))
            case _:
                return node

    return Term(term.bound, tuple(rebuild(f, change) for f in term.factors))


def _read_by_part(term: Term, given: Mapping[Index, Position]) -> Term:
    moved = (relocate(f, given) for f in term.factors)
    return Term(term.bound, tuple(f for f in moved if f is not None))


def _labelled(
    derivation: Derivation, jacobian: Jacobian, position: int, term: Term
) -> FactoredTerm:
    """Give a term's arrays the names users see: G carries output axes, h the parameter's."""
    suffix = "" if position == 0 else str(position + 1)
    deltas = _deltas(term)
    accesses = [f for f in term.factors if isinstance(f, Access)]
    out = set(jacobian.out)
    outward = [a for a in accesses if out & set(indices_of(a))]
    local = [a for a in accesses if a not in outward]
    letters = iter(f"{letter}{suffix}" for letter in LETTERS)
    factors = [_factor(next(letters), a) for a in outward]
    tied = {i for d in deltas for i in indices_of(d)}
    if not outward and (not accesses or tied & out):
        ones = [i for i in jacobian.out if i in tied]
        factors.append(
            Factor(next(letters), None, (*_batch_of(derivation, jacobian), *ones))
        )
    factors += [_factor(next(letters), a) for a in local]
    return FactoredTerm(deltas, _covering(derivation, jacobian, deltas, factors))


def _covering(
    derivation: Derivation, jacobian: Jacobian, deltas: Sequence[Delta], factors: Sequence[Factor]
) -> tuple[Factor, ...]:
    """Repeat factors along axes that none has: output axes with the first, others with the last."""
    first = _batch_of(derivation, jacobian)
    given = {i for d in deltas for i in indices_of(d) if i in jacobian.theta}
    covered = {i for f in factors for i in f.indices}
    ahead = [i for i in (*first, *jacobian.out) if i not in covered]
    behind = [i for i in jacobian.theta if i not in covered | given]
    order = (*first, *jacobian.out, *jacobian.theta)
    result = list(factors)
    for place, missing in ((0, ahead), (-1, behind)):
        if missing:
            old = result[place]
            together = tuple(i for i in order if i in (*old.indices, *missing))
            if tuple(i for i in together if i in old.indices) != old.indices:
                # an array's own axes keep their order, its batch first
                batch = tuple(i for i in old.indices if i in first)
                own = tuple(i for i in old.indices if i not in first)
                sides = (missing, own) if place == 0 else (own, missing)
                together = (*batch, *sides[0], *sides[1])
            spread = (*old.spread, *missing) if old.array is not None else ()
            result[place] = replace(old, indices=together, spread=spread)
    return tuple(result)


def _factor(label: str, access: Access) -> Factor:
    indices = tuple(a.bare for p in access.at for a in affine_of(p) if a.bare is not None)
    return Factor(label, access.array, indices)
