"""Sums over samples taken as early as may be: what samples share is multiplied after them.

Definitions -> add_up_early -> Definitions
`Σ_b A[b, i] S[i, j]` becomes `T[i] S[i, j]` with `T[i] = Σ_b A[b, i]`; and where nothing else reads
an array of samples, its terms are added up at once and it is never made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from symgrad.algebra.contract import contract
from symgrad.algebra.names import Names
from symgrad.algebra.order import needed
from symgrad.algebra.renaming import renamed
from symgrad.program import (
    Access,
    Affine,
    Definition,
    Delta,
    Guard,
    Index,
    Scalar,
    Supply,
    Term,
    arrays_of,
    indices_of,
    reads,
    substitute,
)


def add_up_early(
    definitions: Sequence[Definition],
    handed: Collection[str],
    batch: Index,
    names: Names,
    supply: Supply,
) -> tuple[Definition, ...]:
    """Return definitions that give the arrays `handed`, sums over the batch taken early."""
    while True:
        adding = _Adding(batch, names, supply, {d.name: d for d in definitions}, set(handed))
        early = needed(adding.run(definitions), handed)
        if early == tuple(definitions):
            return early
        definitions = early


@dataclass(slots=True)
class _Adding:
    """`table` has all definitions by name, `readers` how often each array is read.

    `totals` names the sums over samples of arrays that several sums read.
    """

    batch: Index
    names: Names
    supply: Supply
    table: dict[str, Definition]
    handed: set[str]
    readers: Counter[str] = field(default_factory=Counter)
    made: list[Definition] = field(default_factory=list)
    totals: dict[str, Definition] = field(default_factory=dict)

    def run(self, definitions: Sequence[Definition]) -> list[Definition]:
        """Return definitions with new ones, sums of an array over samples right behind it."""
        self.readers.update(self.handed)
        for definition in definitions:
            self.readers.update(_read_by(definition))
            array = self.totalled(definition)
            if array is not None:
                self.totals[array] = definition
        old = set(self.totals)
        result: list[Definition] = []
        for definition in [new for d in definitions for new in self.early(d)]:
            result.append(definition)
            if definition.name in self.totals.keys() - old:
                result.append(self.totals[definition.name])
        return result

    def totalled(self, definition: Definition) -> str | None:
        """Return the array whose sum over samples, all else as it is, a definition is."""
        if definition.name in self.handed:
            return None
        match definition.body:
            case (Term(bound, (Access(array, at),)),):
                axes = tuple(Affine.of(i) for i in (self.batch, *definition.indices))
                return array if bound == (self.batch,) and at == axes else None
        return None

    def early(self, definition: Definition) -> list[Definition]:
        """Return a definition with what it leans on ahead, if it adds up samples."""
        if not isinstance(definition.body, tuple) or self.batch in definition.indices:
            return [definition]
        if definition.loop is not None or definition.frozen:
            return [definition]
        array = self.totalled(definition)
        if array is not None and self.readers[array] > 1:
            return [definition]
        self.made = []
        body = tuple(new for term in definition.body for new in self.of(term))
        return [*self.made, replace(definition, body=body)]

    def of(self, term: Term) -> Iterator[Term]:
        """Yield the terms that a sum over samples becomes."""
        batch = self.batch
        ties = [f for f in term.factors if isinstance(f, Delta | Guard) or not indices_of(f)]
        arrays = [f for f in term.factors if f not in ties]
        sampled = [f for f in arrays if batch in indices_of(f)]
        if batch not in term.bound or any(batch in indices_of(f) for f in ties) or not sampled:
            yield term
        elif len(sampled) > 1:
            yield self.in_two(term, ties, arrays)
        elif not isinstance(sampled[0], Access):
            yield term
        elif len(arrays) > 1:
            yield self.after(term, sampled[0])
        else:
            yield from self.written_out(term, ties, sampled[0])

    def in_two(self, term: Term, ties: Sequence[Scalar], arrays: list[Scalar]) -> Term:
        """Return a product of arrays as a product of two, of matrices, if that makes none larger.

        `ties` are deltas, guards and numbers. What deltas tie is added up before it is placed.
        """
        everything = {i for f in arrays for i in indices_of(f)}
        while len(arrays) > 2:
            pair = min(combinations(arrays, 2), key=lambda two: len(_joint(*two)))
            if _joint(*pair) >= everything:
                break  # as large as the sum would be for every sample
            arrays = [f for f in arrays if f not in pair]
            arrays.append(self.named(f"P_{_title(pair)}", (), pair))
        tied = {i for f in ties for i in indices_of(f)}
        inner = tuple(i for i in term.bound if i not in tied)
        if not tied or not inner:
            return Term(term.bound, (*ties, *arrays))
        total = self.named(f"T_{_title(arrays)}", inner, arrays)
        return Term(tuple(i for i in term.bound if i not in inner), (*ties, total))

    def after(self, term: Term, sampled: Access) -> Term:
        """Return a term whose samples are added up before what they share is multiplied."""
        rest = tuple(f for f in term.factors if f != sampled)
        inner: tuple[Index, ...] = (self.batch,)
        if self.shared(sampled):
            total = self.total(sampled)
        else:
            elsewhere = {i for f in rest for i in indices_of(f)}
            own = indices_of(sampled)
            inner = tuple(i for i in term.bound if i not in elsewhere and i in own)
            total = self.named(f"T_{sampled.array}", inner, (sampled,))
        return Term(tuple(i for i in term.bound if i not in inner), (*rest, total))

    def written_out(self, term: Term, ties: Sequence[Scalar], sampled: Access) -> Iterator[Term]:
        """Yield the terms of an array that only this sum reads, each added up by itself."""
        own = self.plain(sampled)
        if own is None:
            yield term
        elif self.readers[own.name] > 1:
            bound = tuple(i for i in term.bound if i != self.batch)
            yield Term(bound, (*ties, self.total(sampled)))
        else:
            fresh = renamed(own, {}, self.supply)
            places = [p for p in sampled.at if isinstance(p, Affine)]
            mapping = dict(zip(own.indices, places, strict=True))
            self.readers[own.name] = 0
            assert isinstance(fresh.body, tuple)
            for inner in fresh.body:
                factors = tuple(substitute(f, mapping) for f in inner.factors)
                new = contract(Term((*term.bound, *inner.bound), (*ties, *factors)))
                if new is not None:
                    yield from self.of(new)

    def shared(self, sampled: Access) -> bool:
        """Whether several read an array of samples that is a sum of terms."""
        own = self.plain(sampled)
        return own is not None and self.readers[own.name] > 1

    def plain(self, sampled: Access) -> Definition | None:
        """Return the array of samples that is read, if it is a sum of terms at plain places."""
        own = self.table.get(sampled.array)
        plain = own is not None and isinstance(own.body, tuple) and not own.written
        if own is None or not plain or own.loop is not None or own.frozen:
            return None
        whole = own.indices[0] == self.batch and sampled.at[0] == Affine.of(self.batch)
        places = [p for p in sampled.at if isinstance(p, Affine)]
        return own if whole and len(places) == len(sampled.at) else None

    def total(self, sampled: Access) -> Access:
        """Return the sum over samples, all else as it is, of an array that several sums read."""
        if sampled.array not in self.totals:
            own = self.table[sampled.array]
            fresh = renamed(own, {}, self.supply).indices[1:]
            at = tuple(Affine.of(i) for i in (self.batch, *fresh))
            term = Term((self.batch,), (Access(own.name, at),))
            title = self.names.new(f"T_{own.name}")
            self.totals[own.name] = Definition(title, fresh, (term,), written=False)
        return Access(self.totals[sampled.array].name, sampled.at[1:])

    def named(self, wish: str, bound: tuple[Index, ...], factors: Sequence[Scalar]) -> Access:
        """Define a sum or a product, itself early, and return the access of it."""
        read = dict.fromkeys(i for f in factors for i in indices_of(f) if i not in bound)
        first = [i for i in read if i == self.batch]
        indices = (*first, *(i for i in read if i != self.batch))
        terms: tuple[Term, ...] = (Term(bound, tuple(factors)),)
        if bound:
            terms = tuple(new for term in terms for new in self.of(term))
        made = Definition(self.names.new(wish), indices, terms, written=False)
        self.made.append(made)
        return Access(made.name, tuple(Affine.of(i) for i in indices))


def _read_by(definition: Definition) -> list[str]:
    """Return what a definition reads, as often as its terms do."""
    if not isinstance(definition.body, tuple):
        return list(reads(definition))
    return [a for t in definition.body for f in t.factors for a in arrays_of(f)]


def _title(factors: Sequence[Scalar]) -> str:
    """Return what a product is called after."""
    return "_".join(dict.fromkeys(a for f in factors for a in arrays_of(f)))


def _joint(a: Scalar, b: Scalar) -> set[Index]:
    return {*indices_of(a), *indices_of(b)}


__all__ = ["add_up_early"]
