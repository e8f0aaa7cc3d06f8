"""Reverse accumulation over named definitions; the seed decides what comes out.

Program, Selection -> Derivation
With a Kronecker delta as its seed the adjoint program is the Jacobian, with `u` it is a
vector-Jacobian product. Each definition is visited once, and each adjoint that is more than
deltas times one array is named, so depth costs linearly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from symgrad.algebra.contract import contract, guarding, reading
from symgrad.algebra.contraction import inner_sum
from symgrad.algebra.local import Local
from symgrad.algebra.order import arrange
from symgrad.algebra.partials import local_partials, split_extrema
from symgrad.algebra.primitives import primitive_key, share
from symgrad.algebra.step import step
from symgrad.derivation import Derivation, Jacobian, Selection
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
    Lookup,
    Position,
    Program,
    Scalar,
    Supply,
    Term,
    affine_of,
    blocks,
    indices_of,
    reads,
    scalars_of,
    substitute,
    walk,
)


def derive(program: Program, selection: Selection) -> Derivation:
    """Return the Jacobians of all outputs with respect to all selected arrays."""
    prepared, names, supply = prepare(program)
    adjoints: list[Definition] = []
    owners: list[tuple[str, str, str]] = []
    jacobians: list[Jacobian] = []
    locals_: dict[str, Local] = {}
    shared: dict[object, str] = {}
    for output in program.outputs:
        sweep = Sweep(
            prepared, selection, supply, names, "G", factored=True, locals_=locals_, shared=shared
        )
        axes = own_indices(prepared, output)
        out = tuple(supply.fresh(i.name, i.dim) for i in axes)
        seed = Term(
            (), tuple(Delta(Affine.of(o), Affine.of(i)) for o, i in zip(out, axes, strict=True))
        )
        sweep.tag = f"{output}_" if len(program.outputs) > 1 else ""
        results = sweep.run({output: seed}, out, per_sample=True)
        adjoints += sweep.definitions
        owners += [(name, output, array) for name, array in sweep.owners]
        for parameter in selection.names:
            theta, terms = results[parameter]
            jacobians.append(Jacobian(output, parameter, out, theta, terms))
    return Derivation(
        prepared, selection, tuple(adjoints), tuple(owners), tuple(jacobians), supply.serial
    )


CHEAP = frozenset(("add", "sub", "mul", "neg"))
"""Functions not worth an array of their own."""


class Names:
    """Hands out array names that collide with nothing in the program."""

    def __init__(self, program: Program) -> None:
        self.taken = {a.name for a in program.arrays} | {d.name for d in program.definitions}
        for array in program.arrays:
            for axis in array.axes:
                self.taken.update(axis.names)

    def new(self, wish: str) -> str:
        """Return `wish`, or `wish` with a number behind it; remember what was given."""
        name, number = wish, 1
        while name in self.taken:
            number += 1
            name = f"{wish}_{number}"
        self.taken.add(name)
        return name


def prepare(program: Program) -> tuple[Program, Names, Supply]:
    """Return the program with extrema split to one index each, and fresh names and indices."""
    from dataclasses import replace

    names, supply = Names(program), Supply(program.serial)
    definitions = split_extrema(program.definitions, supply, names.new)
    return replace(program, definitions=definitions), names, supply


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


def _looks_back(member: Definition, inside: set[str]) -> bool:
    """Whether a member reads others of its recurrence at another step than its own."""
    own = Affine.of(member.loop.index) if member.loop is not None else None
    nodes = (n for s in scalars_of(member.body) for n in walk(s))
    return any(
        isinstance(n, Access) and n.array in inside and own not in n.at for n in nodes
    )


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
        active = depends(program, self.selection.names)
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
                self.recurrence(unit, active)
            elif unit[0].name in self.pending and unit[0].name in active:
                self.go_back(unit[0], self.pending.pop(unit[0].name), active)
        results: Results = {}
        for name in self.selection.names:
            terms = tuple(self.pending.get(name, ()))
            results[name] = (self.at[name], self.finish(name, terms, self.at[name]))
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

    def recurrence(self, members: Sequence[Definition], active: frozenset[str]) -> None:
        """Go back through a recurrence: its adjoints are a recurrence that runs the other way.

        Where a member reads an earlier step, the adjoint is known by name before it has terms.
        """
        inside = {d.name for d in members}
        reached = {n for n in inside & active if self.pending.get(n)}
        batched = any(self.batched[n] for n in inside) or any(
            self.program.batch in indices_of(f)
            for n in reached
            for term in self.pending[n]
            for f in term.factors
            if self.program.batch not in term.bound
        )
        for _ in members:
            new = {n for d in members if d.name in reached for n in reads(d)} & inside & active
            reached |= new
        first = len(self.definitions)
        heads: dict[str, Access] = {}
        for member in members:
            if member.name in reached and _looks_back(member, inside):
                free = self.free(member.name)
                indices = (*((self.program.batch,) if batched else ()), *free)
                name = self.names.new(f"{self.prefix}_{self.tag}{member.name}")
                heads[member.name] = Access(name, tuple(Affine.of(i) for i in indices))
                told = (Term((), (heads[member.name],)),)
                self.pass_on(member, told, self.local(member, active), self.at[member.name])
        steps: dict[str, Index] = {}
        for member in reversed(members):
            arrived = self.pending.pop(member.name, []) if member.name in reached else []
            head = heads.get(member.name)
            if head is None and arrived:
                self.go_back(member, arrived, active)
            elif head is not None:
                self.name_sum("", arrived, self.free(member.name), head)
                self.owners.append((head.array, member.name))
                steps[head.array] = self.at[member.name][0]
        self.definitions[first:] = arrange(self.definitions[first:], steps, self.supply)

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
        terms = tuple(_tie(term, self.out, at) for term in terms)
        if len(terms) == 1 and _is_simple(terms[0]):
            return terms
        shared = [f for f in terms[0].factors if _is_structural(f, self.out, at)]
        for term in terms:
            # a delta that a sum runs over is part of the sum
            shared = [f for f in shared if f in term.factors and not _inner(f, term.bound)]
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
        """Name inner sums of a long product, so that the loops left are as few as may be."""
        while (found := inner_sum(term)) is not None:
            inner, rest = found
            access = self.sums.get(inner)
            if access is None:
                access = self.name_sum(f"S_{wish[2:]}", [inner], (*free, *term.bound))
                self.sums[inner] = access
            bound = tuple(i for i in term.bound if i not in inner.bound)
            term = Term(bound, (*rest, access))
        return term

    def finish(
        self, name: str, terms: Sequence[Term], theta: tuple[Index, ...]
    ) -> tuple[Term, ...]:
        """Return the terms at a selected array, each a product of arrays (structure kept)."""
        if not self.factored:
            return tuple(self.split(f"S_{name}", term, theta) for term in terms)
        simple: list[Term] = []
        for term in terms:
            tied = _tie(_outputs_first(term, self.out), self.out, theta)
            simple.append(self.product(name, tied, theta))
        return self.merged(name, simple, theta)

    def product(self, name: str, term: Term, theta: tuple[Index, ...]) -> Term:
        """Write a term as deltas times arrays that each have fewer axes than their product."""
        free = (*self.out, *theta)
        deltas = tuple(
            f for f in term.factors if isinstance(f, Delta) and not _inner(f, term.bound)
        )
        rest = tuple(f for f in term.factors if f not in deltas)
        guards = tuple(dict.fromkeys(g for d in deltas for g in reading(d, rest)))
        if not rest:
            return Term((), deltas)
        groups = _groups(rest)
        union = {i for f in rest for i in indices_of(f)} - set(term.bound)
        sizes = [{i for f in g for i in indices_of(f)} - set(term.bound) for g in groups]
        if term.bound or (len(groups) > 1 and any(s == union for s in sizes)):
            groups = [rest]
        factors: list[Scalar] = []
        for part in groups:
            within = {i for f in part for i in indices_of(f)}
            group = (*part, *(g for g in guarding(rest, within) if g not in part))
            only = group[0]
            alone = len(group) == 1 and not term.bound
            if alone and isinstance(only, Access) and _plain(only) and self.whole(only):
                factors.append(only)
            else:
                wish = f"{'H' if len(groups) > 1 else 'J'}_{self.tag}{name}"
                factors.append(self.name_sum(wish, [Term(term.bound, group)], free))
        return Term((), (*deltas, *guards, *factors))

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

    def merged(
        self, name: str, terms: Sequence[Term], theta: tuple[Index, ...]
    ) -> tuple[Term, ...]:
        """Add up terms of one structure that are no outer products: they are one array."""
        kept: list[Term] = []
        single: dict[tuple[Scalar, ...], list[Term]] = {}
        for term in terms:
            arrays = [f for f in term.factors if not isinstance(f, Delta | Guard)]
            if len(arrays) > 1:
                kept.append(term)
            else:
                structure = tuple(f for f in term.factors if isinstance(f, Delta | Guard))
                single.setdefault(structure, []).append(Term((), tuple(arrays)))
        for tied, group in single.items():
            if len(group) == 1:
                kept.append(Term((), (*tied, *group[0].factors)))
            else:
                access = self.name_sum(f"J_{self.tag}{name}", group, (*self.out, *theta))
                kept.append(Term((), (*tied, access)))
        return tuple(kept)


def _letter(position: int) -> str:
    return "ijklpqrstuvw"[position % 12]


def _inner(factor: Scalar, bound: Sequence[Index]) -> bool:
    return any(i in bound for i in indices_of(factor))


def _plain(access: Access) -> bool:
    """Whether its positions are distinct bare indices."""
    bare = [p.bare if isinstance(p, Affine) else None for p in access.at]
    return None not in bare and len(set(bare)) == len(bare)


def _is_simple(term: Term) -> bool:
    rest = [f for f in term.factors if not isinstance(f, Delta)]
    return (
        not term.bound and len(rest) <= 1 and all(isinstance(f, Access) and _plain(f) for f in rest)
    )


def _is_structural(factor: Scalar, out: Sequence[Index], at: Sequence[Index]) -> bool:
    """Whether it is a delta between free indices or data of the sample: structure, not value."""
    if not isinstance(factor, Delta):
        return False
    free = set(out) | set(at)
    used = set(indices_of(factor))
    lookup = isinstance(factor.left, Lookup) or isinstance(factor.right, Lookup)
    return (lookup and not used - free - _batches(factor)) or used <= free


def _batches(factor: Scalar) -> set[Index]:
    return {i for i in indices_of(factor) if i.dim == BATCH}


def _outputs_first(term: Term, out: Sequence[Index]) -> Term:
    """Write deltas with the output's index on the left: delta(i, j), i of the output."""

    def turned(factor: Scalar) -> Scalar:
        if (
            isinstance(factor, Delta)
            and _bare(factor.right) in out
            and _bare(factor.left) not in out
        ):
            return Delta(factor.right, factor.left)
        return factor

    return Term(term.bound, tuple(turned(f) for f in term.factors))


def _tie(term: Term, out: Sequence[Index], at: Sequence[Index]) -> Term:
    """Read tied positions by the output's index: delta(i, j) c[j] becomes delta(i, j) c[i]."""
    mapping: dict[Index, Affine] = {}
    for factor in term.factors:
        if not isinstance(factor, Delta):
            continue
        left, right = _bare(factor.left), _bare(factor.right)
        for here, there in ((left, right), (right, left)):
            if here in at and there in out and here is not None and there is not None:
                mapping.setdefault(here, Affine.of(there))
    if not mapping:
        return term
    factors = tuple(f if isinstance(f, Delta) else substitute(f, mapping) for f in term.factors)
    return Term(term.bound, factors)


def _bare(position: Position) -> Index | None:
    return position.bare if isinstance(position, Affine) else None


def _groups(factors: Sequence[Scalar]) -> list[tuple[Scalar, ...]]:
    """Group factors of one term: numbers and functions join the first array with their indices."""
    arrays: list[list[Scalar]] = [[f] for f in factors if isinstance(f, Access) and _plain(f)]
    for factor in factors:
        if isinstance(factor, Access) and _plain(factor):
            continue
        used = set(indices_of(factor))
        home = next((g for g in arrays if used <= set(indices_of(g[0]))), None)
        if home is None:
            arrays.append([factor])
        else:
            home.append(factor)
    return [tuple(g) for g in arrays]


__all__ = ["Names", "Results", "Sweep", "depends", "derive", "own_indices", "prepare", "reads"]
