"""Long products are summed pair by pair; systems of one matrix become one call."""

from itertools import pairwise

from linear_layers import compiled_plainly

from symgrad.algebra.contraction import inner_sum
from symgrad.dims import Dim
from symgrad.generation.gather import gather
from symgrad.program import Access, Affine, Definition, Delta, Number, Primitive, Supply, Term


def indices_named(letters, dim="n"):
    supply = Supply(10)
    return [supply.fresh(letter, Dim.of(dim)) for letter in letters]


def read(name, *at):
    return Access(name, tuple(Affine.of(i) for i in at))


def test_a_chain_of_matrices_is_multiplied_pair_by_pair():
    i, j, k, m = indices_named("ijkm")
    term = Term((j, k), (Number(2), read("A", i, j), read("B", j, k), read("C", k, m)))
    inner, rest = inner_sum(term)
    assert inner == Term((j,), (read("A", i, j), read("B", j, k)))
    assert rest == (Number(2), read("C", k, m))


def test_the_side_with_a_vector_is_summed_first():
    i, j, k = indices_named("ijk")
    inner, rest = inner_sum(Term((j, k), (read("A", i, j), read("B", j, k), read("c", k))))
    assert inner == Term((k,), (read("B", j, k), read("c", k)))
    assert rest == (read("A", i, j),)


def test_loops_that_are_as_good_stay():
    i, j, k = indices_named("ijk")
    for factors in (
        (read("A", i, j), read("B", j, k)),
        (read("g", j), read("D", j), read("W", j, k)),
        (read("a", j), read("b", j), read("c", j), Delta(Affine.of(i), Affine.of(j))),
    ):
        assert inner_sum(Term((j,), factors)) is None


def test_small_literal_sizes_count_as_they_are():
    (i, m), (j, k) = indices_named("im"), indices_named("jk", 2)
    factors = (read("A", i, j), read("B", j, k), read("C", k, m))
    assert inner_sum(Term((j, k), factors)) is None


def test_sums_without_a_common_index_are_apart():
    i, j, k, m = indices_named("ijkm")
    inner, rest = inner_sum(Term((k, m), (read("A", k, i), read("B", j, m))))
    assert inner == Term((k,), (read("A", k, i),))
    assert rest == (read("B", j, m),)


def test_the_pair_without_a_common_index_is_not_taken_first():
    i, j, k, m, o = indices_named("ijkmo")
    factors = (read("Y", i, k), read("G", o, i, j), read("Y", m, j))
    inner, rest = inner_sum(Term((i, j), factors))
    assert inner == Term((i,), factors[:2])
    assert rest == factors[2:]


def test_many_factors_take_no_time():
    at = indices_named("abcdefghijklmnop")
    factors = tuple(read("A", a, b) for a, b in pairwise(at))
    inner, rest = inner_sum(Term(tuple(at[1:-1]), factors))
    assert inner == Term((at[1],), factors[:2])
    assert rest == factors[2:]


def test_no_nest_is_deeper_than_the_jacobian_and_one_sum():
    """The Jacobian has a sample, an output and two parameter axes; every sum adds one loop."""
    text = "S: param[n, n]\nb: input[n]\ny = cholesky(S) @ (inv(S) @ b)"
    source = compiled_plainly(text, wrt="all").source
    kernels = source.split("# ------", 5)[4]
    depths = [len(line) - len(line.lstrip()) for line in kernels.split("\n") if " for " in line]
    assert max(depths) // 4 == 5


# ------------------------------------------------------------------ systems of one matrix


def solving(name, matrix, right, turned=False):
    i, j, k, out = indices_named(["i", "j", "k", "o"])
    rows = (j, i) if turned else (i, j)
    body = Primitive("solve", (read(matrix, i, j), read(right, k)), (rows, (k,)), (out,))
    return Definition(name, (out,), body)


def copying(name, other):
    (i,) = indices_named("i")
    return Definition(name, (i,), (Term((), (read(other, i),)),))


def names_of(groups):
    return [tuple(d.name for d in group) for group in groups]


def test_independent_systems_of_one_matrix_are_gathered():
    made = [
        solving("x", "A", "b"), copying("u", "x"), copying("c", "b"), solving("y", "A", "c"),
        copying("v", "y"),
    ]
    assert names_of(gather(made)) == [("c",), ("x", "y"), ("u",), ("v",)]


def test_a_system_waits_for_none_that_needs_it():
    made = [solving("x", "A", "b"), copying("u", "x"), solving("y", "A", "u")]
    assert names_of(gather(made)) == [("x",), ("u",), ("y",)]
    crossed = [
        solving("x", "A", "b"), solving("p", "C", "b"), solving("q", "C", "x"),
        solving("y", "A", "p"),
    ]  # one of the two pairs can be had, both would wait for each other
    assert names_of(gather(crossed)) == [("x",), ("p", "q"), ("y",)]


def test_other_matrices_and_triangular_ones_are_left_alone():
    made = [solving("x", "A", "b"), solving("y", "A", "b", turned=True), solving("z", "C", "b")]
    assert names_of(gather(made)) == [("x",), ("y",), ("z",)]
    made = [solving("x", "A", "b"), solving("y", "A", "c")]
    assert names_of(gather(made, frozenset("A"))) == [("x",), ("y",)]
