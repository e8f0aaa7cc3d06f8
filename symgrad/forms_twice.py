"""The forms of second derivatives: structured blocks, their sums, products with tangents.

Forms, Derivation of the weighted sum of outputs -> Forms with Curvature
Sums and products never make an array that has both a batch axis and the axes of two parameters.
"""

from __future__ import annotations

from dataclasses import replace

from symgrad.algebra.early import add_up_early
from symgrad.algebra.factors import structure, unique_keys
from symgrad.algebra.names import Names
from symgrad.algebra.order import needed
from symgrad.algebra.tangents import tangents
from symgrad.derivation import Derivation, Jacobian
from symgrad.errors import InternalError
from symgrad.form import Curvature, Form, Forms, Result
from symgrad.program import (
    Array,
    Definition,
    Program,
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
        key = (jacobian.parameter, jacobian.beside)
        definition = _Adder(summed, jacobian).total(names.new(f"H_{'_'.join(key)}"))
        closing.append(definition)
        results.append(Result(key, definition.name, definition.indices))
    everything = (*whole.definitions, *summed.adjoints, *closing)
    handed = [r.array for r in results]
    definitions = add_up_early(needed(everything, handed), handed, whole.batch, names, supply)
    return Form("hessian_sum", definitions, tuple(results), given)


class _Adder:
    """Adds up one second derivative over samples."""

    def __init__(self, summed: Derivation, jacobian: Jacobian) -> None:
        self.program, self.jacobian = summed.program, jacobian
        pair = (jacobian.parameter, jacobian.beside)
        self.apart = any(self._array(name).batched for name in pair)

    def total(self, name: str) -> Definition:
        """Return the sum; samples stay apart where one of the arrays is an input."""
        batch = self.program.batch
        first = (batch,) if self.apart else ()
        indices = (*first, *self.jacobian.theta)
        terms = tuple(self.added(t) for t in self.jacobian.terms)
        return Definition(name, indices, terms, written=False)

    def added(self, term: Term) -> Term:
        """Return a term summed over samples, unless they stay apart."""
        batch = self.program.batch
        if self.apart or not any(batch in indices_of(f) for f in term.factors):
            return term
        return Term((batch,), term.factors)

    def _array(self, name: str) -> Array:
        array = self.program.array(name)
        if array is None:
            raise InternalError(f"no array {name}")
        return array
