"""One backward pass over named definitions; the seed decides what comes out.

Program, {output: Term} -> {array: terms}, definitions
Each definition is visited once, and each adjoint that is more than deltas times one array is
named, so that depth costs linearly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from symgrad.algebra.backward import go_back_in_steps
from symgrad.algebra.closing import finish
from symgrad.algebra.contract import contract, guarding, reading
from symgrad.algebra.contraction import inner_sum
from symgrad.algebra.local import Local
from symgrad.algebra.names import Names
from symgrad.algebra.partials import local_partials
from symgrad.algebra.parts import part_of
from symgrad.algebra.primitives import primitive_key, share
from symgrad.algebra.step import step
from symgrad.algebra.terms import is_inner, is_simple, is_structural, tie
from symgrad.algebra.ways import is_open
from symgrad.derivation import Selection
from symgrad.errors import InternalError
from symgrad.program import (
    BATCH,
    Access,
    Affine,
    Apply,
    Definition,
    Delta,
    Guard,
    Index,
    Position,
    Program,
    Scalar,
    Supply,
    Term,
    affine_of,
    blocks,
    indices_of,
    scalars_of,
    walk,
)

CHEAP = frozenset(("add", "sub", "mul", "neg"))
"""Functions not worth an array of their own."""


def own_indices(program: Program, name: str) -> tuple[Index, ...]:
    """Return the indices of a definition without the batch index."""
    definition = program.definition(name)
    if definition is None:
        raise InternalError(f"no definition of {name}")
    return tuple(i for i in definition.indices if i != program.batch)


def depends(program: Program, selected: Sequence[str]) -> frozenset[str]:
    """Return all arrays through which a derivative with respect to `selected` flows."""
    active = set(selected)
    for unit in blocks(program.definitions):
        for _ in unit:  # what a recurrence reads of earlier steps stands further down
            for definition in unit:
                if not definition.frozen and _values_read(definition) & active:
                    active.add(definition.name)
    return frozenset(active)


def _values_read(definition: Definition) -> set[str]:
    nodes = (n for s in scalars_of(definition.body) for n in walk(s))
    return {n.array for n in nodes if isinstance(n, Access)}


Results = dict[str, tuple[tuple[Index, ...], tuple[Term, ...]]]


@dataclass(slots=True)
class Sweep:
    """One backward pass; collects the adjoint definitions in an order that can be run."""

    program: Program
    selection: Selection
    supply: Supply
    names: Names
    prefix: str
    tag: str = ""
    factored: bool = False
    locals_: dict[str, Local] = field(default_factory=dict)
    definitions: list[Definition] = field(default_factory=list)
    owners: list[tuple[str, str]] = field(default_factory=list)
    out: tuple[Index, ...] = ()
    per_sample: bool = False
    at: dict[str, tuple[Index, ...]] = field(default_factory=dict)
    batched: dict[str, bool] = field(default_factory=dict)
    pending: dict[str, list[Term]] = field(default_factory=dict)
    named: dict[tuple[Scalar, ...], Access] = field(default_factory=dict)
    shared: dict[object, str] = field(default_factory=dict)
    sums: dict[Term, Access] = field(default_factory=dict)
    places: dict[str, tuple[Position, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Enter the program's own factorisations: they are never done again."""
        for definition in self.program.definitions:
            key = primitive_key(definition)
            if key is not None:
                self.shared.setdefault(key, definition.name)

    def run(self, seeds: Mapping[str, Term], out: tuple[Index, ...], per_sample: bool) -> Results:
        """Go back from the seeded definitions to the selected arrays.

        `per_sample` keeps the batch index free; otherwise sums over samples are taken where
        a batched definition reads what the batch shares.
        """
        program, batch = self.program, self.program.batch
        active = depends(program, self.selection.active)
        self.out, self.per_sample = out, per_sample
        for array in program.arrays:
            self.at[array.name] = tuple(
                self.supply.fresh(_letter(n), d) for n, d in enumerate(array.axes)
            )
            self.batched[array.name] = array.batched
        for definition in program.definitions:
            self.at[definition.name] = tuple(i for i in definition.indices if i != batch)
            self.batched[definition.name] = batch in definition.indices
        for name, seed in seeds.items():
            self.pending.setdefault(name, []).append(seed)
        for unit in reversed(tuple(blocks(program.definitions))):
            if unit[0].loop is not None:
                go_back_in_steps(self, unit, active)
            elif unit[0].name in self.pending and unit[0].name in active:
                self.go_back(unit[0], self.pending.pop(unit[0].name), active)
        arrays = {a.name: a for a in program.arrays}
        results: Results = {}
        for name in self.selection.names:
            terms = tuple(self.pending.get(name, ()))
            theta = self.at[name]
            region = self.selection.region(name)
            if region is not None:
                part = part_of(terms, arrays[name], theta, region, self.supply)
                theta, terms = part.theta, part.terms
                self.places[name] = part.at
            results[name] = (theta, finish(self, name, terms, theta))
        return results

    def go_back(
        self, definition: Definition, arrived: Sequence[Term], active: frozenset[str]
    ) -> None:
        """Settle the adjoint of a definition and send it on to everything that it reads."""
        settled, local, over = step(self, definition, arrived, active)
        self.pass_on(definition, settled, local, over)

    def pass_on(
        self,
        definition: Definition,
        settled: Sequence[Term],
        local: Local,
        over: Sequence[Index],
    ) -> None:
        """Send an adjoint on along the partials of a definition, summed over `over`."""
        batch, at = self.program.batch, self.at
        for partial in local.partials:
            target = partial.access.array
            own = partial.access.at[1:] if self.batched[target] else partial.access.at
            deltas = tuple(Delta(Affine.of(i), p) for i, p in zip(at[target], own, strict=True))
            for term in settled:
                bound = (*term.bound, *over, *partial.bound)
                factors = (*term.factors, *partial.factors, *deltas)
                crossing = not self.per_sample and not self.batched[target]
                if crossing and any(batch in indices_of(f) for f in factors):
                    bound = (batch, *bound)
                new = contract(Term(bound, factors), prefer=at[definition.name])
                if new is not None:
                    self.pending.setdefault(target, []).append(new)

    def free(self, name: str) -> tuple[Index, ...]:
        """Return the indices of an adjoint besides the batch; of a recurrence the step is first."""
        at = self.at[name]
        if name in self.stepping:
            return (at[0], *self.out, *at[1:])
        return (*self.out, *at)

    def local(self, definition: Definition, active: frozenset[str]) -> Local:
        """Return the definition's partials, differentiated once for all outputs."""
        if definition.name not in self.locals_:
            found = local_partials(definition, active.__contains__, self.supply, self.names.new)
            found = share(found, self.shared)
            self.locals_[definition.name] = found
            self.definitions += found.supports
        return self.locals_[definition.name]

    @property
    def stepping(self) -> frozenset[str]:
        """The members of recurrences."""
        return frozenset(d.name for d in self.program.definitions if d.loop is not None)

    def settle(self, name: str, terms: Sequence[Term]) -> tuple[Term, ...]:
        """Return the adjoint of `name` as simple terms: deltas times at most one array."""
        at = self.at[name]
        terms = tuple(tie(term, self.out, at) for term in terms)
        if len(terms) == 1 and is_simple(terms[0]):
            return terms
        shared = [f for f in terms[0].factors if is_structural(f, self.out, at)]
        for term in terms:
            # a delta that a sum runs over is part of the sum
            shared = [f for f in shared if f in term.factors and not is_inner(f, term.bound)]
        kept = [reading(f, terms[0].factors) for f in shared]
        for term in terms[1:]:
            pairs = zip(shared, kept, strict=True)
            same = [(f, g) for f, g in pairs if reading(f, term.factors) == g]
            shared, kept = [f for f, _ in same], [g for _, g in same]
        rests = tuple(Term(t.bound, tuple(f for f in t.factors if f not in shared)) for t in terms)
        access = self.name_sum(f"{self.prefix}_{self.tag}{name}", rests, self.free(name))
        self.owners.append((access.array, name))
        guards = tuple(dict.fromkeys(g for group in kept for g in group))
        return (Term((), (*shared, *guards, access)),)

    def name_sum(
        self, wish: str, terms: Sequence[Term], free: Sequence[Index], head: Access | None = None
    ) -> Access:
        """Define the sum of `terms` over those of `free` that occur in it; return the access.

        `head` is the access of an adjoint that was known before its terms.
        """
        wish = head.array if head is not None else wish
        split = tuple(self.slopes_apart(wish, self.split(wish, term, free)) for term in terms)
        read = {i for t in split for f in t.factors for i in indices_of(f)}
        for term in split:
            read -= set(term.bound)
        if head is not None:
            indices = tuple(i for p in head.at for a in affine_of(p) for i, _ in a.terms)
            self.definitions.append(Definition(head.array, indices, split, written=False))
            return head
        order = tuple(dict.fromkeys((self.program.batch, *free)))
        indices = tuple(i for i in order if i in read)
        name = self.names.new(wish)
        self.definitions.append(Definition(name, indices, split, written=False))
        return Access(name, tuple(Affine.of(i) for i in indices))

    def slopes_apart(self, wish: str, term: Term) -> Term:
        """Name function values that have fewer indices than their term: they are computed once."""
        everything = {i for f in term.factors for i in indices_of(f)}
        costly = [
            f
            for f in term.factors
            if isinstance(f, Apply) and f.function not in CHEAP and set(indices_of(f)) < everything
        ]
        if not costly:
            return term
        factors = list(term.factors)
        for factor in costly:
            within = set(indices_of(factor))
            own: tuple[Scalar, ...] = (factor, *guarding(term.factors, within))
            if own not in self.named:
                indices = tuple(
                    sorted(indices_of(factor), key=lambda i: i.dim != self.program.batch.dim)
                )
                name = self.names.new(f"D_{wish.split('_', 1)[-1]}")
                self.definitions.append(
                    Definition(name, indices, (Term((), own),), written=False)
                )
                self.named[own] = Access(name, tuple(Affine.of(i) for i in indices))
            factors[factors.index(factor)] = self.named[own]
        return Term(term.bound, tuple(factors))

    def split(self, wish: str, term: Term, free: Sequence[Index]) -> Term:
        """Name an inner sum whose free indices are fewer than the term's: it is computed once."""
        term = self.paired(wish, term, free)
        bound = set(term.bound)
        if not bound:
            return term
        inner = [f for f in term.factors if bound & set(indices_of(f))]
        outer = [f for f in term.factors if not bound & set(indices_of(f))]
        within = {i for f in inner for i in indices_of(f)} - bound
        beyond = {i for f in outer for i in indices_of(f)}
        if not outer or not beyond - within or any(isinstance(f, Delta | Guard) for f in inner):
            return term
        inner += guarding(outer, within)
        access = self.name_sum(f"S_{wish[2:]}", [Term(term.bound, tuple(inner))], free)
        return Term((), (*outer, access))

    def paired(self, wish: str, term: Term, free: Sequence[Index]) -> Term:
        """Name inner sums of a long product, so that the loops left are as few as may be.

        A product whose best order depends on sizes is left: they decide when it is computed.
        """
        while not self.decided_later(term) and (found := inner_sum(term)) is not None:
            inner, rest = found
            access = self.sums.get(inner)
            if access is None:
                access = self.name_sum(f"S_{wish[2:]}", [inner], (*free, *term.bound))
                self.sums[inner] = access
            bound = tuple(i for i in term.bound if i not in inner.bound)
            term = Term(bound, (*rest, access))
        return term

    def decided_later(self, term: Term) -> bool:
        """Whether sizes decide on the order of a product; the steps of recurrences have one."""
        return not self.stepping and is_open(term)

    def whole(self, access: Access) -> bool:
        """Whether an access of bare indices runs over all of its array, not a part of it."""
        array = self.program.array(access.array)
        if array is not None:
            axes = (BATCH, *array.axes) if array.batched else array.axes
        else:
            known = (*self.program.definitions, *self.definitions)
            found = [d.indices for d in known if d.name == access.array]
            if not found:
                return True
            axes = tuple(i.dim for i in found[0])
        return axes == tuple(i.dim for p in access.at for a in affine_of(p) for i, _ in a.terms)


def _letter(position: int) -> str:
    return "ijklpqrstuvw"[position % 12]
