"""Laws of delta contraction: a contracted term has the value of the term."""

import itertools

import pytest

from symgrad.algebra.contract import contract, fold
from symgrad.dims import Dim
from symgrad.program import (
    Access,
    Affine,
    Apply,
    Delta,
    Guard,
    Index,
    Lookup,
    Number,
    Size,
    Term,
)

N, M, K = Dim.of("n"), Dim.of("m"), Dim.of("k")
I, J, P, Q, S = (
    Index(n, d, k) for k, (n, d) in enumerate((("i", N), ("j", N), ("p", K), ("q", K), ("s", M)))
)
SIZES = {"n": 5, "k": 3, "m": 3}


def value(term, free):
    """Evaluate a term by brute force; a[..] is a number made of its positions, 0 outside."""

    def place(position, at):
        if isinstance(position, Lookup):
            return 1
        total = position.offset.evaluate(SIZES)
        return total + sum(c * at[i] for i, c in position.terms)

    def scalar(factor, at):
        match factor:
            case Number(v):
                return v
            case Size(dim):
                return dim.evaluate(SIZES)
            case Access():
                spots = [place(p, at) for p in factor.at]
                return hash((factor.array, *spots)) % 97 + 1
            case Delta(left, right):
                return int(place(left, at) == place(right, at))
            case Guard(position, dim):
                return int(0 <= place(position, at) < dim.evaluate(SIZES))
        raise AssertionError(factor)

    total = 0
    for spots in itertools.product(*(range(i.dim.evaluate(SIZES)) for i in term.bound)):
        at = {**free, **dict(zip(term.bound, spots, strict=True))}
        product = 1
        for factor in term.factors:
            product *= scalar(factor, at)
        total += product
    return total


A = Affine.of
TERMS = {
    "bare": Term((J,), (Delta(A(I), A(J)), Access("a", (A(J),)))),
    "shifted": Term((P,), (Delta(A(I), A(P) + 1), Access("a", (A(P),)))),
    "convolution": Term(
        (S, P), (Delta(A(I), A(S) + P), Access("a", (A(S),)), Access("b", (A(P),)))
    ),
    "strided": Term(
        (S, P), (Delta(A(I), A(S) * 2 + P), Access("a", (A(S),)), Access("b", (A(P),)))
    ),
    "two deltas": Term((P, Q), (Delta(A(P), A(Q)), Delta(A(I), A(Q)), Access("a", (A(P), A(Q))))),
    "constant": Term((J,), (Delta(A(J), Affine((), Dim.of(2))), Access("a", (A(J), A(I))))),
    "unused": Term((J, P), (Access("a", (A(J),)),)),
    "lookup": Term((J,), (Delta(A(J), Lookup("t", ())), Access("a", (A(J), A(I))))),
}


@pytest.mark.parametrize("name", TERMS)
def test_a_contracted_term_has_the_same_value_everywhere(name):
    term = TERMS[name]
    contracted = contract(term, prefer=(S,))
    for i in range(SIZES["n"]):
        assert value(contracted, {I: i}) == value(term, {I: i})


def test_a_bare_delta_is_spent_without_a_guard():
    assert contract(TERMS["bare"]) == Term((), (Access("a", (A(I),)),))


def test_an_index_that_nothing_reads_becomes_a_factor_of_its_size():
    assert contract(TERMS["unused"]) == Term((J,), (Access("a", (A(J),)), Size(K)))


def test_a_delta_that_cannot_hold_makes_the_term_zero():
    assert contract(Term((J,), (Delta(A(J), A(J) + 1),))) is None


def test_a_strided_scatter_keeps_its_delta():
    contracted = contract(TERMS["strided"], prefer=(S,))
    assert any(isinstance(f, Delta) for f in contracted.factors)


def test_numbers_fold_and_zero_kills():
    x = Access("x", ())
    assert fold((Number(2), Apply("neg", (x,)), Number(3))) == (Number(-6), x)
    assert fold((Number(0), x)) is None
    assert fold((Apply("mul", (Number(-1), Apply("mul", (x, Number(-1))))),)) == (x,)
