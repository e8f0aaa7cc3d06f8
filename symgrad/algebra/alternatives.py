"""Long products of definitions taken apart: into pairs, or into several ways to choose from.

Definitions -> Definitions;  Definition -> Alternative, ...
Where one order is best for all sizes the inner sums become definitions. Where sizes decide, the
product has a definition of its own, and every way of it is a list of definitions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from symgrad.algebra.contract import guarding
from symgrad.algebra.contraction import inner_sum, repeated_functions
from symgrad.algebra.ways import Way, is_open, values_of, ways
from symgrad.dims import Dim
from symgrad.program import (
    BATCH,
    Access,
    Affine,
    Definition,
    Delta,
    Guard,
    Index,
    Scalar,
    Term,
    indices_of,
    rebuild,
)


@dataclass(frozen=True, slots=True)
class Alternative:
    """Definitions of which the last is the one wanted, and their multiplications."""

    cost: Dim
    definitions: tuple[Definition, ...]


Alternatives = Mapping[str, tuple[Alternative, ...]]
"""By the array that all of them make."""


def in_pairs(definitions: Sequence[Definition], taken: Collection[str]) -> tuple[Definition, ...]:
    """Return the definitions with inner sums of long products named, where one order is best.

    Products whose order depends on sizes stand alone. Recurrences are left as they are; names in
    `taken` are avoided.
    """
    namer = _Namer({*taken, *(d.name for d in definitions)})
    result: list[Definition] = []
    for definition in definitions:
        body = definition.body
        if definition.loop is not None or not isinstance(body, tuple):
            result.append(definition)
            continue
        terms = tuple(_split(t, definition, namer, result, len(body) == 1) for t in body)
        result.append(definition if terms == body else replace(definition, body=terms))
    return tuple(result)


def _split(
    term: Term, definition: Definition, namer: _Namer, result: list[Definition], alone: bool
) -> Term:
    """Return a term with its inner sums named; those definitions are appended to `result`."""

    def define(inner: Term) -> Access:
        result.append(_named(namer.new(definition.name), inner, definition, term.bound))
        return _access(result[-1])

    for repeated in repeated_functions(term):
        access = define(Term((), (repeated,)))
        term = replace(term, factors=tuple(_instead(f, repeated, access) for f in term.factors))
    while not is_open(term) and (found := inner_sum(term)) is not None:
        inner, rest = found
        access = define(inner)
        bound = tuple(i for i in term.bound if i not in inner.bound)
        term = Term(bound, (*rest, access))
    if alone or not is_open(term):
        return term
    return Term((), (define(term),))


def _instead(scalar: Scalar, old: Scalar, new: Access) -> Scalar:
    """Return a scalar in which another one has been given a name."""
    return rebuild(scalar, lambda node: new if node == old else node)


def alternatives(definitions: Sequence[Definition], taken: Collection[str]) -> Alternatives:
    """Return the ways to compute those definitions that have several; `taken` names are avoided."""
    namer = _Namer({*taken, *(d.name for d in definitions)})
    found: dict[str, tuple[Alternative, ...]] = {}
    for definition in definitions:
        term = _only_term(definition)
        several = () if term is None else ways(term)
        if term is not None and len(several) > 1:
            found[definition.name] = tuple(_made(definition, term, w, namer) for w in several)
    return found


def at_once(definitions: Sequence[Definition], taken: Collection[str]) -> tuple[Definition, ...]:
    """Return the definitions in the order for equal sizes, nothing left to choose."""
    found = alternatives(definitions, taken)
    return tuple(
        made
        for d in definitions
        for made in (found[d.name][0].definitions if d.name in found else (d,))
    )


def _only_term(definition: Definition) -> Term | None:
    body = definition.body
    if definition.loop is not None or not isinstance(body, tuple) or len(body) != 1:
        return None
    return body[0]


def _made(definition: Definition, term: Term, way: Way, namer: _Namer) -> Alternative:
    """Return a definition as products of two, one after the other."""
    structure = tuple(f for f in term.factors if isinstance(f, Delta | Guard))
    values = values_of(term)
    others = tuple(f for f in term.factors if f not in values)
    groups: list[Scalar] = list(values)
    made: list[Definition] = []
    free = frozenset(definition.indices)
    for number, (left, right) in enumerate(way.joins, 1):
        second, first = groups.pop(right), groups.pop(left)
        beyond = {i for g in groups for i in indices_of(g)}
        own = {i for g in (first, second) for i in indices_of(g)}
        bound = tuple(i for i in term.bound if i in own and i not in beyond)
        if number == len(way.joins):
            last = Term(bound, (*others, first, second))
            made.append(replace(definition, body=(last,)))
            break
        inner = Term(bound, (first, second, *guarding(structure, own & free)))
        made.append(_named(namer.new(definition.name), inner, definition, term.bound))
        groups.append(_access(made[-1]))
    return Alternative(way.cost, tuple(made))


def _named(
    name: str, term: Term, definition: Definition, bound: Sequence[Index]
) -> Definition:
    """Define a sum over those indices of a definition, and of its sums, that are left."""
    read = {i for f in term.factors for i in indices_of(f)} - set(term.bound)
    order = sorted((*definition.indices, *bound), key=lambda i: i.dim != BATCH)
    indices = tuple(i for i in order if i in read)
    return Definition(name, indices, (term,), written=False)


def _access(definition: Definition) -> Access:
    return Access(definition.name, tuple(Affine.of(i) for i in definition.indices))


@dataclass(slots=True)
class _Namer:
    """Names inner sums by what they are part of."""

    taken: set[str]

    def new(self, whole: str) -> str:
        """Return a new name for a part of the array `whole`."""
        stem = whole.split("_", 1)[-1] if whole[:2] in ("d_", "G_", "J_", "t_", "S_") else whole
        name, number = f"S_{stem}", 1
        while name in self.taken:
            number += 1
            name = f"S_{stem}_{number}"
        self.taken.add(name)
        return name


__all__ = ["Alternative", "Alternatives", "alternatives", "at_once", "in_pairs"]
