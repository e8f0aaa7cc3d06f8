"""Second derivatives: the arrays that Jacobians are made of are differentiated once more.

Derivation -> derive_twice -> Derivation
By the product rule over the factors of a Jacobian's terms, so that an outer product stays one:
of `delta(i, j) * G[b, i] * x[b, k]` only `G` is swept back, and all θ that read it share that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from symgrad.algebra.closing import merged
from symgrad.algebra.contract import contract
from symgrad.algebra.names import Names
from symgrad.algebra.renaming import apart
from symgrad.algebra.sweep import Sweep, depends
from symgrad.algebra.terms import outputs_first, tie
from symgrad.derivation import Derivation, Jacobian
from symgrad.derive import sweep_back
from symgrad.errors import InternalError
from symgrad.program import (
    Access,
    Affine,
    Definition,
    Delta,
    Guard,
    Index,
    Position,
    Program,
    Scalar,
    Supply,
    Term,
    indices_of,
    substitute,
)


def derive_twice(first: Derivation) -> Derivation:
    """Return the derivation with the second derivatives of all outputs by all pairs of arrays.

    Of a pair only the order as declared is there: the other has its axes exchanged.
    """
    twice = Twice.of(first)
    names = first.selection.names
    found = tuple(
        twice.second(output, parameter, beside)
        for output in first.program.outputs
        for number, parameter in enumerate(names)
        for beside in names[number:]
    )
    adjoints = (*first.adjoints, *twice.definitions)
    owners = (*first.adjoint_of, *twice.owners)
    jacobians = (*first.jacobians, *found)
    return Derivation(
        first.program, first.selection, adjoints, owners, jacobians, twice.supply.serial
    )


@dataclass(slots=True)
class Twice:
    """The derivatives of all arrays that first derivatives read, and what they lead to."""

    first: Derivation
    program: Program
    names: Names
    supply: Supply
    slopes: Mapping[tuple[str, str], Jacobian]
    definitions: list[Definition]
    owners: tuple[tuple[str, str, str], ...]
    made: dict[tuple[Scalar, ...], Access] = field(default_factory=dict)

    @staticmethod
    def of(first: Derivation) -> Twice:
        """Differentiate every definition that a term of a first derivative reads."""
        supply, batch = Supply(first.serial), first.program.batch
        adjoints = (apart(d, supply, batch) for d in first.adjoints)
        program = replace(first.program, definitions=(*first.program.definitions, *adjoints))
        names = Names(program)
        active = depends(program, first.selection.names)
        read = {
            f.array
            for jacobian in first.jacobians
            for term in jacobian.terms
            for f in term.factors
            if isinstance(f, Access)
        }
        sources = [d.name for d in program.definitions if d.name in read & active]
        swept = sweep_back(program, first.selection, names, supply, sources, prefix="K")
        slopes = {(j.output, j.parameter): j for j in swept.jacobians}
        made = list(swept.adjoints)
        return Twice(first, program, names, supply, slopes, made, swept.adjoint_of)

    def second(self, output: str, parameter: str, beside: str) -> Jacobian:
        """Return d² output / d parameter d beside, in the order that gives the smaller arrays."""
        one = self.ordered(output, parameter, beside)
        if parameter != beside:
            other = self.ordered(output, beside, parameter)
            if _cost(other) < _cost(one):
                second, first = other.of_both
                of_beside = self.first.jacobian(output, beside)
                whole = len(of_beside.at or of_beside.theta) if other.at else 0
                at = (*other.at[whole:], *other.at[:whole])
                one = replace(other, parameter=parameter, beside=beside, theta=(*first, *second),
                              at=at, split=len(first))  # fmt: skip
        return self.settled(one)

    def ordered(self, output: str, parameter: str, beside: str) -> Jacobian:
        """Return the derivative by `beside` of the one by `parameter`, as products of arrays."""
        jacobian = self.first.jacobian(output, parameter)
        theta = self.axes(beside)
        every = (*jacobian.theta, *theta)
        terms = []
        for old in jacobian.terms:
            for new in self.product_rule(old, beside, theta):
                term = contract(new)
                if term is not None:
                    tied = tie(outputs_first(term, jacobian.out), jacobian.out, every)
                    terms.append(_in_order(tied, (*jacobian.out, *every)))
        split, at = len(jacobian.theta), self.places(jacobian, beside, theta)
        return Jacobian(
            output, parameter, jacobian.out, every, tuple(terms), at, beside=beside, split=split
        )

    def axes(self, name: str) -> tuple[Index, ...]:
        """Return indices of a selected array, or of the part that is selected of it."""
        region, array = self.first.selection.region(name), self.program.array(name)
        if array is None:
            raise InternalError(f"no array {name}")
        dims = array.axes if region is None else region.axes
        whole = range(len(dims)) if region is None else region.whole(array)
        return tuple(
            self.supply.fresh("ijklpqrstuvw"[n % 12], d, partial=n not in whole)
            for n, d in enumerate(dims)
        )

    def places(
        self, jacobian: Jacobian, beside: str, theta: Sequence[Index]
    ) -> tuple[Position, ...]:
        """Return where both arrays are read, nothing if none of them is a part."""
        region = self.first.selection.region(beside)
        if region is None and not jacobian.at:
            return ()
        own = jacobian.at or tuple(Affine.of(i) for i in jacobian.theta)
        others = tuple(Affine.of(i) for i in theta) if region is None else region.places(theta)
        return (*own, *others)

    def product_rule(self, term: Term, beside: str, theta: Sequence[Index]) -> Iterator[Term]:
        """Yield the derivative of each array of a term times the other factors."""
        for number, factor in enumerate(term.factors):
            if not isinstance(factor, Access):
                continue
            rest = (*term.factors[:number], *term.factors[number + 1 :])
            for slope in self.slope(factor, beside, theta):
                yield Term((), (*rest, *slope))

    def slope(
        self, access: Access, beside: str, theta: Sequence[Index]
    ) -> Iterator[tuple[Scalar, ...]]:
        """Yield the terms of d access / d beside[theta]."""
        batched = bool(access.at) and access.at[0].bare == self.program.batch
        at = access.at[1:] if batched else access.at
        if access.array == beside:
            region = self.first.selection.region(beside)
            own = tuple(Affine.of(i) for i in theta) if region is None else region.places(theta)
            yield tuple(Delta(p, q) for p, q in zip(at, own, strict=True))
        jacobian = self.slopes.get((access.array, beside))
        if jacobian is None:
            return
        mapping = {i: p for i, p in zip(jacobian.out, at, strict=True) if isinstance(p, Affine)}
        mapping |= {i: Affine.of(j) for i, j in zip(jacobian.theta, theta, strict=True)}
        for term in jacobian.terms:
            yield tuple(substitute(f, mapping) for f in term.factors)

    def settled(self, jacobian: Jacobian) -> Jacobian:
        """Return it with arrays that lie along others made one, equal structures added up."""
        free = (*jacobian.out, *jacobian.theta)
        selection = self.first.selection
        sweep = Sweep(self.program, selection, self.supply, self.names, "K", factored=True)
        wish = f"H_{jacobian.parameter}_{jacobian.beside}"
        terms = [self.joined(sweep, wish, term, free) for term in jacobian.terms]
        terms = list(merged(sweep, wish, terms, free))
        self.definitions += sweep.definitions
        return replace(jacobian, terms=tuple(terms))

    def joined(self, sweep: Sweep, wish: str, term: Term, free: Sequence[Index]) -> Term:
        """Return a term as structure times arrays none of which has only axes of another."""
        structure = tuple(f for f in term.factors if isinstance(f, Delta | Guard))
        rest = [f for f in term.factors if f not in structure]
        arrays: list[Scalar] = []
        for group in _groups(rest):
            only = group[0]
            if len(group) == 1 and isinstance(only, Access):
                arrays.append(only)
                continue
            if group not in self.made:
                self.made[group] = sweep.name_sum(wish, [Term((), group)], free)
            arrays.append(self.made[group])
        return Term((), (*structure, *arrays))


def _groups(factors: Sequence[Scalar]) -> list[tuple[Scalar, ...]]:
    """Return factors in groups: each with the first that has all of its indices."""
    order = sorted(factors, key=lambda f: -len(set(indices_of(f))))
    groups: list[list[Scalar]] = []
    for factor in order:
        used = set(indices_of(factor))
        home = next((g for g in groups if used <= set(indices_of(g[0]))), None)
        if home is None:
            groups.append([factor])
        else:
            home.append(factor)
    groups.sort(key=lambda g: min(factors.index(f) for f in g))
    return [tuple(sorted(g, key=factors.index)) for g in groups]


def _in_order(term: Term, order: Sequence[Index]) -> Term:
    """Return a term with each delta once, the earlier axis on its left."""

    def turned(factor: Scalar) -> Scalar:
        if not isinstance(factor, Delta):
            return factor
        left, right = factor.left.bare, factor.right.bare
        if left in order and right in order and order.index(right) < order.index(left):
            return Delta(factor.right, factor.left)
        return factor

    deltas = dict.fromkeys(turned(f) for f in term.factors if isinstance(f, Delta))
    return Term((), (*deltas, *(f for f in term.factors if not isinstance(f, Delta))))


def _cost(jacobian: Jacobian) -> tuple[int, int]:
    """Return the axes of the largest array, and of all arrays together."""
    sizes = [
        len(indices_of(f))
        for term in jacobian.terms
        for f in term.factors
        if isinstance(f, Access)
    ]
    return max(sizes, default=0), sum(sizes)


__all__ = ["derive_twice"]
