"""Abstract functions that were given formulas: each use is replaced by its formula.

Definitions, Declared, ... -> Definitions
A derivation keeps the letter and its prime; whoever computes puts the formulas in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from symgrad.algebra.partials import scalar_partials
from symgrad.program import (
    Access,
    Apply,
    Body,
    Declared,
    Definition,
    Number,
    Scalar,
    Term,
    over_body,
    rebuild,
)


def expanded(scalar: Scalar, declared: Sequence[Declared]) -> Scalar:
    """Return a scalar with declared functions, and their slopes, written out."""
    table = {one.name: one for one in declared}

    def change(node: Scalar) -> Scalar:
        if not isinstance(node, Apply) or node.function not in table:
            return node
        one = table[node.function]
        return _at(_formula(one, sum(node.order)), one.argument, node.args[0])

    return rebuild(scalar, change) if table else scalar


def expand(
    definitions: Sequence[Definition], declared: Sequence[Declared]
) -> tuple[Definition, ...]:
    """Return the definitions with declared functions written out."""
    if not declared:
        return tuple(definitions)
    return tuple(replace(made, body=_body(made.body, declared)) for made in definitions)


def expand_terms(terms: Sequence[Term], declared: Sequence[Declared]) -> tuple[Term, ...]:
    """Return the terms with declared functions written out."""
    return tuple(
        Term(term.bound, tuple(expanded(factor, declared) for factor in term.factors))
        for term in terms
    )


def _body(body: Body, declared: Sequence[Declared]) -> Body:
    return over_body(body, lambda scalar: expanded(scalar, declared))


def _formula(one: Declared, order: int) -> Scalar:
    """Return the value, the slope, or a derivative of the slope."""
    if order == 0:
        return one.value
    formula = one.slope
    for _ in range(order - 1):
        found = scalar_partials(formula, lambda name: name == one.argument.array)
        formula = reduce(_sum, found.values()) if found else Number(0)
    return formula


def _sum(left: Scalar, right: Scalar) -> Scalar:
    return Apply("add", (left, right))


def _at(formula: Scalar, argument: Access, value: Scalar) -> Scalar:
    def change(node: Scalar) -> Scalar:
        return value if node == argument else node

    return rebuild(formula, change)


__all__ = ["expand", "expand_terms", "expanded"]
