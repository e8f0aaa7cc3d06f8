"""The lower half of a matrix by a letter, as textbooks differentiate Cholesky factors: `Φ_ij`.

Derivation -> Derivation, Term, ... -> Term, ...
`Φ_ij` is 1 below the diagonal, 1/2 on it, 0 above; the kernels call `heaviside(i - j, 0.5)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from symgrad.algebra.contract import relocate
from symgrad.derivation import Derivation
from symgrad.dims import ZERO
from symgrad.program import (
    Access,
    Affine,
    Apply,
    Definition,
    Delta,
    Number,
    Place,
    Program,
    Scalar,
    Supply,
    Term,
    indices_of,
    over_body,
    rebuild,
    scalars_of,
    walk,
)
from symgrad.reading.letters import taken_names

LETTERS = ("Φ", "Λ", "Ψ", "Ξ")


def half_letter(program: Program) -> str:
    """Return the letter of the lower half that the layer does not use."""
    taken = taken_names(program)
    return next(letter for letter in (*LETTERS, "lower_half") if letter not in taken)


def halves(terms: Sequence[Term], program: Program) -> tuple[Term, ...]:
    """Return terms with every lower half read by its letter."""
    letter = half_letter(program)
    return tuple(
        Term(t.bound, tuple(rebuild(f, lambda n: _half(n, letter)) for f in t.factors))
        for t in terms
    )


def with_halves(derivation: Derivation) -> Derivation:
    """Return the derivation with lower halves read by their letter, which it defines."""
    letter = half_letter(derivation.program)

    def change(node: Scalar) -> Scalar:
        return _half(node, letter)

    made = [
        replace(d, body=over_body(d.body, lambda s: rebuild(s, change)))
        for d in derivation.adjoints
    ]
    reads = [
        node for d in made for s in scalars_of(d.body) for node in walk(s)
        if isinstance(node, Access) and node.array == letter
    ]  # fmt: skip
    if not reads:
        return derivation
    alias = {d.name: d for d in made if _only(d, letter)}

    def read(node: Scalar) -> Scalar:
        if not isinstance(node, Access) or node.array not in alias:
            return node
        one = alias[node.array]
        assert isinstance(one.body, tuple)
        moved = relocate(one.body[0].factors[0], dict(zip(one.indices, node.at, strict=True)))
        return node if moved is None else moved

    supply = Supply(derivation.serial)
    kept = [
        replace(d, body=over_body(d.body, lambda s: rebuild(s, read)))
        for d in made
        if d.name not in alias
    ]
    jacobians = [
        replace(j, terms=tuple(
            Term(t.bound, tuple(rebuild(f, lambda n: read(change(n))) for f in t.factors))
            for t in j.terms
        ))
        for j in derivation.jacobians
    ]  # fmt: skip
    definition = _definition(letter, reads[0], supply)
    return replace(
        derivation,
        adjoints=(definition, *kept),
        jacobians=tuple(jacobians),
        serial=supply.serial,
    )


def _definition(letter: str, read: Access, supply: Supply) -> Definition:
    (index, *_), _ = (indices_of(Access(letter, (p,))) for p in read.at)
    i, j = supply.fresh("i", index.dim), supply.fresh("j", index.dim)
    below = Apply("gt", (Place(Affine.of(i)), Place(Affine.of(j))))
    on = (Number(0.5), Delta(Affine.of(i), Affine.of(j)))
    return Definition(letter, (i, j), (Term((), (below,)), Term((), on)), written=False)


def _half(node: Scalar, letter: str) -> Scalar:
    match node:
        case Apply("heaviside", (Place(affine), Number(0.5)), ()) if affine.offset == ZERO:
            sides = {c: i for i, c in affine.terms}
            if len(affine.terms) == 2 and set(sides) == {1, -1}:
                return Access(letter, (Affine.of(sides[1]), Affine.of(sides[-1])))
    return node


def _only(definition: Definition, letter: str) -> bool:
    """Whether a definition is nothing but the lower half."""
    body = definition.body
    if not isinstance(body, tuple) or len(body) != 1 or body[0].bound:
        return False
    match body[0].factors:
        case (Access(array, _),):
            return array == letter
    return False
