"""The forms of second derivatives: structured blocks, their sums, products with tangents.

Forms, Derivation of the weighted sum of outputs -> Forms with Curvature
Sums and products never make an array that has both a batch axis and the axes of two parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from symgrad.algebra.factors import structure, unique_keys
from symgrad.algebra.names import Names
from symgrad.algebra.order import needed
from symgrad.algebra.sweep import Sweep
from symgrad.algebra.tangents import tangents
from symgrad.derivation import Derivation, Jacobian
from symgrad.errors import InternalError
from symgrad.form import Curvature, Form, Forms, Result
from symgrad.program import (
    Access,
    Array,
    Definition,
    Delta,
    Guard,
    Index,
    Program,
    Scalar,
    Supply,
    Term,
    indices_of,
)


def forms_twice(made: Forms, summed: Derivation) -> Forms:
    """Return the forms with those of second derivatives.

    `made` are those of a derivation with second derivatives, `summed` is the same of the program
    whose output is `Σ_out u · y`.
    """
    derivation = made.derivation
    names = Names(derivation.program)
    names.taken |= {d.name for d in derivation.adjoints}
    second = [j for j in derivation.jacobians if j.beside]
    structured = unique_keys(
        [structure(derivation, j, names) for j in second], {s.key for s in made.structured}
    )
    everything = (*derivation.program.definitions, *derivation.adjoints)
    arrays = [a for s in structured for a in s.arrays]
    factors = Form("curvature", needed(everything, arrays), ())
    curvature = Curvature(structured, factors, _hvp(made), _sums(made.program, summed))
    return replace(made, curvature=curvature)


def _hvp(made: Forms) -> Form:
    """Return the tangent of the vector-Jacobian product: forward over reverse."""
    back, program = made.vjp, made.program
    arrays = (*program.arrays, *back.given)
    outputs = tuple(r.array for r in back.results)
    gradient = replace(program, arrays=arrays, definitions=back.definitions, outputs=outputs)
    derivation = Derivation(gradient, made.derivation.selection, (), (), (), made.serial)
    found = tangents(derivation, Names(gradient), Supply(made.serial))
    results = tuple(
        replace(r, key=old.key) for r, old in zip(found.results, back.results, strict=True)
    )
    return Form("hvp", found.definitions, results, (*back.given, *found.given))


def _sums(program: Program, summed: Derivation) -> Form:
    """Return the second derivatives of `Σ_b Σ_out u · y` by all pairs."""
    whole = summed.program
    given = tuple(a for a in whole.arrays if program.array(a.name) is None)
    names, supply = Names(whole), Supply(summed.serial)
    names.taken |= {d.name for d in summed.adjoints}
    closing: list[Definition] = []
    results = []
    for jacobian in summed.jacobians:
        if not jacobian.beside:
            continue
        adder = _Adder(summed, jacobian, Sweep(whole, summed.selection, supply, names, "S"))
        definition = adder.total()
        closing += [*adder.sweep.definitions, definition]
        key = (jacobian.parameter, jacobian.beside)
        results.append(Result(key, definition.name, definition.indices))
    everything = (*whole.definitions, *summed.adjoints, *closing)
    definitions = needed(everything, [r.array for r in results])
    return Form("hessian_sum", definitions, tuple(results), given)


class _Adder:
    """Adds up one second derivative over samples, as products of two matrices where it can."""

    def __init__(self, summed: Derivation, jacobian: Jacobian, sweep: Sweep) -> None:
        self.program, self.jacobian, self.sweep = summed.program, jacobian, sweep
        self.wish = f"H_{jacobian.parameter}_{jacobian.beside}"
        pair = (jacobian.parameter, jacobian.beside)
        self.apart = any(self._array(name).batched for name in pair)

    def total(self) -> Definition:
        """Return the sum; samples stay apart where one of the arrays is an input."""
        batch = self.program.batch
        first = (batch,) if self.apart else ()
        indices = (*first, *self.jacobian.theta)
        terms = tuple(self.added(t, indices) for t in self.jacobian.terms)
        return Definition(self.sweep.names.new(self.wish), indices, terms, written=False)

    def added(self, term: Term, free: Sequence[Index]) -> Term:
        """Return a term summed over samples, its arrays as two groups."""
        batch = self.program.batch
        if self.apart or not any(batch in indices_of(f) for f in term.factors):
            return term
        ties = [f for f in term.factors if isinstance(f, Delta | Guard)]
        arrays = [f for f in term.factors if f not in ties]
        while len(arrays) > 2:
            a, b = min(combinations(arrays, 2), key=lambda pair: len(_joint(*pair)))
            arrays = [f for f in arrays if f not in (a, b)]
            arrays.append(self.product(a, b))
        return self.sweep.split(self.wish, Term((batch,), (*ties, *arrays)), free)

    def product(self, a: Scalar, b: Scalar) -> Access:
        """Return the product of two arrays of samples as an array of its own."""
        order = (self.program.batch, *self.jacobian.theta)
        return self.sweep.name_sum(f"S_{self.wish[2:]}", [Term((), (a, b))], order)

    def _array(self, name: str) -> Array:
        array = self.program.array(name)
        if array is None:
            raise InternalError(f"no array {name}")
        return array


def _joint(a: Scalar, b: Scalar) -> set[Index]:
    return {*indices_of(a), *indices_of(b)}
