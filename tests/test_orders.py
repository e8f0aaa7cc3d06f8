"""Long products in the order that sizes decide, and every order right."""

import os
import subprocess
import sys
from itertools import pairwise, permutations, product

import numpy as np
import pytest
from instrument import instrumented
from layers import unvalidated

import symgrad as sg
from symgrad.algebra.alternatives import alternatives, at_once, in_pairs
from symgrad.algebra.ways import MOST, is_open, ways
from symgrad.dims import Dim
from symgrad.forced import each_way, forced
from symgrad.program import Access, Affine, Definition, Number, Supply, Term

CHAIN = """
A: param[m, p]
B: param[p, q]
C: param[q, r]
y[i, l] = sum[j, k](A[i, j] * B[j, k] * C[k, l])
"""
BATCHED = """
A: param[m, p]
B: param[p, q]
x: input[q, r]
y[i, l] = sum[j, k](A[i, j] * B[j, k] * x[k, l])
"""
FOUR = """
A: param[m, p]
B: param[p, q]
C: param[q, r]
x: input[r]
b: param[m]
y[i] = tanh(sum[j, k, l](A[i, j] * B[j, k] * C[k, l] * x[l]) + b[i])
"""
PLUS = """
A: param[m, p]
B: param[p, q]
D: param[m, r]
x: input[q, r]
y[i, l] = exp(D[i, l]) + sum[j, k](A[i, j] * B[j, k] * x[k, l]) - 2 * sum[j, k](B[j, k] * A[i, j])
"""
LEFT = {"m": 2, "p": 9, "q": 8, "r": 30}
"""Sizes for which A B comes first."""
RIGHT = {"m": 30, "p": 9, "q": 8, "r": 2}


def arrays_of(jac, sizes, batch=3, seed=0):
    rng = np.random.default_rng(seed)
    found = {}
    for array in jac.forms.program.arrays:
        shape = tuple(d.evaluate(sizes) for d in array.axes)
        found[array.name] = rng.normal(size=(batch, *shape) if array.batched else shape)
    return found


def chain(letters, dims):
    """Return the indices, and the product of matrices between neighbours."""
    supply = Supply(10)
    at = [supply.fresh(letter, Dim.of(d)) for letter, d in zip(letters, dims, strict=True)]
    pairs = enumerate(pairwise(at))
    factors = tuple(Access(f"M{n}", (Affine.of(i), Affine.of(j))) for n, (i, j) in pairs)
    return at, Term(tuple(at[1:-1]), factors)


# ------------------------------------------------------------------ orders


def test_a_chain_of_three_has_two_orders_and_says_what_they_cost():
    _, term = chain("ijkl", "mpqr")
    costs = {str(way.cost) for way in ways(term)}
    assert costs == {"m*p*q + m*q*r", "m*p*r + p*q*r"}


def test_a_dominated_order_is_not_kept():
    at, term = chain("ijkl", "mnnr")
    vector = Term((*term.bound, at[3]), (*term.factors, Access("v", (Affine.of(at[3]),))))
    assert len(ways(vector)) == 1, "a vector is never worth a product of matrices"
    assert not is_open(vector)
    assert len(ways(chain("ijkl", "nnnn")[1])) == 1, "both orders cost the same"
    assert ways(chain("ijk", "mpq")[1]) == (), "two factors have one order"


@pytest.mark.parametrize("length", [4, 5, 7, 9])
def test_at_most_three_orders_are_kept_and_none_is_dominated(length):
    letters = "abcdefghij"[: length + 1]
    _, term = chain(letters, letters)
    found = ways(term)
    assert 1 < len(found) <= MOST
    points = [dict(zip(letters, s, strict=True)) for s in product((1, 40), repeat=len(letters))]
    for one, other in permutations(found, 2):
        assert any(one.cost.evaluate(sizes) < other.cost.evaluate(sizes) for sizes in points)


def test_three_orders_of_a_chain_of_four_are_nearly_as_good_as_all_five():
    _, term = chain("ijklo", "mpqrs")
    found = ways(term)
    everything = [
        lambda m, p, q, r, s: m * p * q + m * q * r + m * r * s,
        lambda m, p, q, r, s: m * p * q + q * r * s + m * q * s,
        lambda m, p, q, r, s: p * q * r + m * p * r + m * r * s,
        lambda m, p, q, r, s: p * q * r + p * r * s + m * p * s,
        lambda m, p, q, r, s: q * r * s + p * q * s + m * p * s,
    ]
    points = list(product((2, 30, 500), repeat=5))
    least = [min(cost(*sizes) for cost in everything) for sizes in points]

    def loss(kept):
        taken = [
            min(w.cost.evaluate(dict(zip("mpqrs", s, strict=True))) for w in kept) for s in points
        ]
        assert all(a >= b for a, b in zip(taken, least, strict=True))
        return np.exp(np.mean(np.log(np.divide(taken, least))))

    assert len(found) == 3
    assert loss(found) < 1.5
    assert loss(found[:1]) > 3


def test_a_number_and_a_scalar_stay_behind():
    at, term = chain("ijkl", "mpqr")
    scalar = Access("c", ())
    body = (Term(term.bound, (Number(3), scalar, *term.factors)),)
    definition = Definition("y", (at[0], at[3]), body)
    for way in alternatives([definition], ())["y"]:
        inner, last = way.definitions
        assert inner.name != "y" and last.name == "y"
        assert last.body[0].factors[:2] == (Number(3), scalar)
        assert all(scalar not in t.factors for t in inner.body)


def test_a_product_among_other_terms_stands_alone():
    at, term = chain("ijkl", "mpqr")
    other = Term((), (Access("D", (Affine.of(at[0]), Affine.of(at[3]))),))
    definition = Definition("y", (at[0], at[3]), (other, term))
    apart, whole = in_pairs([definition], ())
    assert apart.body == (term,) and apart.name == "S_y"
    assert whole.body[0] == other and len(whole.body) == 2
    assert in_pairs([apart], ()) == (apart,)
    assert len(at_once([apart], ())) == 2


def test_names_of_inner_sums_avoid_those_that_are_taken():
    at, term = chain("ijkl", "mpqr")
    definition = Definition("y", (at[0], at[3]), (term,))
    names = {d.name for way in alternatives([definition], {"S_y"})["y"] for d in way.definitions}
    assert names == {"S_y_2", "S_y_3", "y"}


# ------------------------------------------------------------------ modules


@pytest.fixture(scope="module")
def layers():
    texts = {"chain": CHAIN, "batched": BATCHED, "four": FOUR, "plus": PLUS}
    return {name: unvalidated(text, plain=True, wrt="all") for name, text in texts.items()}


EXPECTED = {
    "chain": lambda a: np.einsum("ij,jk,kl->il", a["A"], a["B"], a["C"]),
    "batched": lambda a: np.einsum("ij,jk,bkl->bil", a["A"], a["B"], a["x"]),
    "four": lambda a: np.tanh(
        np.einsum("ij,jk,kl,bl->bi", a["A"], a["B"], a["C"], a["x"]) + a["b"]
    ),
}


@pytest.mark.parametrize("sizes", [LEFT, RIGHT], ids=["left", "right"])
@pytest.mark.parametrize("name", EXPECTED)
def test_every_order_gives_the_same(layers, name, sizes):
    jac = layers[name]
    arrays = arrays_of(jac, sizes)
    right = EXPECTED[name](arrays)
    np.testing.assert_allclose(jac.forward(**arrays), right, rtol=1e-12, atol=1e-12)
    u = np.random.default_rng(1).normal(size=right.shape)
    tangents = {n: np.random.default_rng(2).normal(size=np.shape(arrays[n])) for n in jac.wrt}

    def everything():
        dense = jac.module.jacobian(**arrays)
        back = jac.module.vjp(*arrays.values(), u)
        rows = jac.module.vjp_per_sample(*arrays.values(), u)
        return [jac.module.forward(**arrays), *dense.values(), *back.values(), *rows.values(),
                jac.module.jvp(*arrays.values(), tangents)]  # fmt: skip

    expected = everything()
    for _ in each_way(jac.module):
        for found, value in zip(everything(), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-9, atol=1e-9)


def multiplications(jac, sizes, batch, monkeypatch, call):
    """Return those of all matrix products of a call."""
    total = 0
    numpy = jac.module.np

    class Counting:
        def __getattr__(self, name):
            return getattr(numpy, name)

        def matmul(self, left, right, out=None):
            nonlocal total
            found = np.matmul(left, right) if out is None else np.matmul(left, right, out=out)
            total += found.size * left.shape[-1]
            return found

    monkeypatch.setattr(jac.module, "np", Counting())
    call(arrays_of(jac, sizes, batch))
    return total


@pytest.mark.parametrize("sizes", [LEFT, RIGHT], ids=["left", "right"])
def test_the_way_taken_has_the_fewest_multiplications(layers, sizes, monkeypatch):
    m, p, q, r = (sizes[n] for n in "mpqr")
    jac = layers["chain"]
    first, second = m * p * q + m * q * r, p * q * r + m * p * r
    assert (first < second) == (sizes is LEFT)
    taken = multiplications(jac, sizes, 1, monkeypatch, lambda a: jac.module.forward(**a))
    assert taken == min(first, second)
    with forced(jac.module, 0):
        one = multiplications(jac, sizes, 1, monkeypatch, lambda a: jac.module.forward(**a))
    with forced(jac.module, 1):
        other = multiplications(jac, sizes, 1, monkeypatch, lambda a: jac.module.forward(**a))
    assert {one, other} == {first, second}


@pytest.mark.parametrize("batch", [1, 40])
def test_samples_count_as_often_as_there_are_some(layers, batch, monkeypatch):
    jac, sizes = layers["batched"], {"m": 20, "p": 20, "q": 20, "r": 2}
    m, p, q, r = (sizes[n] for n in "mpqr")
    taken = multiplications(jac, sizes, batch, monkeypatch, lambda a: jac.module.forward(**a))
    first, second = m * p * q + batch * m * q * r, batch * (p * q * r + m * p * r)
    assert taken == min(first, second)
    assert (first < second) == (batch == 40)


@pytest.mark.parametrize("sizes", [LEFT, RIGHT], ids=["left", "right"])
@pytest.mark.parametrize("name", ["chain", "batched", "four", "plus"])
def test_a_plan_counts_the_way_that_is_taken(layers, name, sizes):
    jac, meter = instrumented(layers[name])
    arrays = arrays_of(jac, sizes)
    y = jac.module.forward(**arrays)
    u, tangents = np.ones_like(y), {n: np.ones_like(arrays[n]) for n in jac.wrt}
    calls = {
        "forward": lambda: jac.module.forward(**arrays),
        "dense": lambda: jac.module.jacobian(**arrays),
        "vjp": lambda: jac.module.vjp(*arrays.values(), u),
        "vjp_per_sample": lambda: jac.module.vjp_per_sample(*arrays.values(), u),
        "jvp": lambda: jac.module.jvp(*arrays.values(), tangents),
    }
    plan = jac.plan(3, sizes)
    for form, call in calls.items():
        meter.operations = meter.allocated = meter.live = meter.peak = 0
        held = call()
        cost = plan[form]
        assert int(cost.operations) == meter.operations, form
        assert cost.operations.sure and cost.operations.exact
        assert (int(cost.bytes), int(cost.peak)) == (meter.allocated, meter.peak), form
        del held


def test_without_sizes_a_plan_says_the_first_way_as_a_bound(layers):
    plan = layers["chain"].plan()
    cost = plan["forward"].operations
    assert str(cost).startswith("at most ") and cost.value is None and not cost.exact
    assert layers["chain"].plan(dims=LEFT)["forward"].operations.exact


def test_conditions_are_polynomials_of_sizes_in_the_text(layers):
    text = " ".join(layers["chain"].source.split())
    assert "n_m * n_p * n_q + n_m * n_q * n_r" in text
    assert "n_m * n_p * n_r + n_p * n_q * n_r" in text
    assert "opt_einsum" not in text


def test_compiling_judges_every_order():
    jac = unvalidated(BATCHED, plain=True, wrt="all")
    right = jac.module._tangent

    def wrong(*args):
        found = right(*args)
        return tuple(2 * y for y in found) if jac.module._FORCED == 1 else found

    jac.module._tangent = wrong
    with pytest.raises(sg.ValidationError, match="jvp"):
        sg.check(jac)


def test_compiling_judges_outputs_of_every_order():
    jac = unvalidated(CHAIN, plain=True, wrt="all")
    right = jac.module._forward

    def wrong(*args):
        found = right(*args)
        return tuple(y + 1 for y in found) if jac.module._FORCED == 1 else found

    jac.module._forward = wrong
    with pytest.raises(sg.ValidationError, match="y by way 2"):
        sg.check(jac)


@pytest.mark.parametrize("text", [CHAIN, FOUR, PLUS])
def test_layers_with_open_orders_pass_all_checks(text):
    assert sg.check(sg.compile(text, wrt="all", order=2)).ok


def test_an_array_may_be_called_like_what_a_choice_uses():
    text = CHAIN.replace("A[", "way[").replace("A:", "way:")
    jac = unvalidated(text.replace("C[", "S_y[").replace("C:", "S_y:"), plain=True)
    arrays = arrays_of(jac, LEFT)
    right = np.einsum("ij,jk,kl->il", *arrays.values())
    for _ in each_way(jac.module):
        np.testing.assert_allclose(jac.forward(**arrays), right, rtol=1e-12)


def test_beside_a_recurrence_orders_of_outputs_are_open():
    text = """
    x: input[T, n]
    U: param[n, k]
    V: param[k, n]
    W: param[n, n]
    h[t: T] = tanh(W @ h[t - 1] + x[t])
    y[t, i] = sum[j, l](U[i, j] * V[j, l] * h[t, l])
    """
    assert "_cheapest(" in unvalidated(text, plain=True, wrt="all").source
    assert sg.check(sg.compile(text, check=False)).ok


def random_product(seed):
    """Return the text of a product of three to five matrices and vectors that share indices."""
    rng = np.random.default_rng(seed)
    letters = [str(a) for a in rng.permutation(list("abcdef"))[: rng.integers(4, 6)]]
    pairs = [*pairwise(letters), *((letters[0], letters[-1]) for _ in range(rng.integers(0, 2)))]
    if rng.random() < 0.5:
        pairs.append((letters[int(rng.integers(len(letters)))],))
    pairs = [pairs[k] for k in rng.permutation(len(pairs))]
    free = [letters[0], letters[-1]][: rng.integers(1, 3)]
    bound = [a for a in letters if a not in free]
    roles = ["input", *("param" for _ in pairs[1:])] if rng.random() < 0.7 else ["param"] * 9
    names = [f"M{n}" for n in range(len(pairs))]
    lines = [f"{name}: {role}[{', '.join(f'n{a}' for a in at)}]"
             for name, role, at in zip(names, roles, pairs, strict=False)]  # fmt: skip
    body = " * ".join(f"{name}[{', '.join(at)}]" for name, at in zip(names, pairs, strict=True))
    lines.append(f"y[{', '.join(free)}] = sum[{', '.join(bound)}]({body})")
    spec = ",".join("".join(at) for at in pairs), "".join(free)
    return "\n".join(lines), spec, roles[0] == "input", letters


@pytest.mark.parametrize("seed", range(10))
def test_random_products_are_right_in_every_order(seed):
    text, (operands, out), batched, letters = random_product(seed)
    jac = unvalidated(text, plain=True, wrt="all")
    rng = np.random.default_rng(seed)
    arrays = arrays_of(jac, {f"n{a}": int(rng.integers(1, 5)) for a in letters}, 3, seed)
    first, *others = operands.split(",")
    spec = ",".join((f"z{first}" if batched else first, *others))
    right = np.einsum(f"{spec}->{'z' if batched else ''}{out}", *arrays.values())
    u = rng.normal(size=right.shape)
    tangents = {n: rng.normal(size=np.shape(arrays[n])) for n in jac.wrt}
    pushed = sum(
        np.einsum(f"{spec}->{'z' if batched else ''}{out}", *{**arrays, n: t}.values())
        for n, t in tangents.items()
    )
    for _ in ("", *each_way(jac.module)):
        np.testing.assert_allclose(jac.module.forward(**arrays), right, rtol=1e-9, atol=1e-9)
        found = jac.module.jvp(*arrays.values(), tangents)
        np.testing.assert_allclose(found, pushed, rtol=1e-9, atol=1e-9)
        back = jac.module.vjp(*arrays.values(), u)
        total = sum(np.sum(back[n] * t) for n, t in tangents.items())
        np.testing.assert_allclose(total, np.sum(u * pushed), rtol=1e-9, atol=1e-9)


# ------------------------------------------------------------------ few entries, many outputs

SCALAR = """
c: param
A: param[m, p]
B: param[p, q]
C: param[q, n]
x: input[n]
y = A @ tanh(B @ tanh(C @ tanh(c * x)))
"""
SEVERAL = """
c: param[6]
A: param[m, p]
B: param[p, q]
C: param[q, 6]
x: input[6]
y = A @ tanh(B @ tanh(C @ tanh(c * x)))
"""


def by_differences(jac, arrays, name="c", step=1e-6):
    """Return central differences, the entries of a parameter behind."""
    columns = []
    for at in np.ndindex(arrays[name].shape):
        ends = []
        for sign in (1, -1):
            moved = arrays[name].copy()
            moved[at] += sign * step
            ends.append(jac.module.forward(**{**arrays, name: moved}))
        columns.append((ends[0] - ends[1]) / (2 * step))
    return np.stack(columns, -1).reshape(*columns[0].shape, *arrays[name].shape)


def operations(jac, sizes, batch=2, way=None):
    """Return those of one dense Jacobian by `c`, and whether tangents made it."""
    jac, meter = instrumented(jac)
    arrays = arrays_of(jac, sizes, batch)
    space, calls = vars(jac.module), []
    ahead = space["_ahead_c"]
    for function in ("jac_c", "jacobian"):
        made = space[function].__globals__
        made["_ahead_c"] = lambda *args: calls.append(1) or ahead(*args)
        made["_FORCED"] = way
    meter.operations = 0
    found = jac.module.jac_c(**arrays)
    spent = meter.operations
    np.testing.assert_allclose(found, by_differences(jac, arrays), rtol=1e-5, atol=1e-6)
    return spent, bool(calls)


def test_tangents_give_ten_thousand_outputs_of_a_scalar_with_fewer_operations():
    sizes = {"m": 10_000, "p": 6, "q": 5, "n": 4}
    jac = unvalidated(SCALAR, plain=True, wrt=["c"])
    taken, ahead = operations(jac, sizes, batch=1)
    assert ahead and "_cheapest(" not in jac.source, "no sizes for which adjoints are cheaper"
    forms = jac.forms
    back = unvalidated(SCALAR, plain=True, wrt=["c", "x"])
    counting, meter = instrumented(back)
    arrays = arrays_of(back, sizes, 1)
    meter.operations = 0
    J = counting.jacobian(**arrays)["c"].dense()
    np.testing.assert_allclose(J, jac.module.jac_c(**arrays), rtol=1e-10, atol=1e-12)
    assert len(forms.ahead) == 1 and not forms.ahead[0].costs
    assert taken < meter.operations / 2


def test_sizes_choose_between_tangents_and_adjoints():
    jac = unvalidated(SEVERAL, plain=True, wrt=["c"])
    for sizes, expected in (({"m": 200, "p": 9, "q": 8}, True), ({"m": 1, "p": 9, "q": 8}, False)):
        taken, ahead = operations(jac, sizes)
        back, none = operations(jac, sizes, way=0)
        front, other = operations(jac, sizes, way=1)
        assert (ahead, none, other) == (expected, False, True)
        assert taken == min(back, front) and back != front


@pytest.mark.parametrize("m", [1, 40])
@pytest.mark.parametrize("text", [SCALAR, SEVERAL])
def test_a_plan_counts_the_way_to_a_jacobian_that_is_taken(text, m):
    sizes = {"m": m, "p": 9, "q": 8, "n": 4}
    sizes = sizes if text is SCALAR else {n: s for n, s in sizes.items() if n != "n"}
    jac, meter = instrumented(unvalidated(text, plain=True, wrt=["c"]))
    arrays = arrays_of(jac, sizes, 3)
    plan = jac.plan(3, sizes)
    for form, call in {"jac_c": jac.module.jac_c, "dense": jac.module.jacobian}.items():
        meter.operations = meter.allocated = meter.live = meter.peak = 0
        held = call(**arrays)
        assert int(plan[form].operations) == meter.operations, form
        assert (int(plan[form].bytes), int(plan[form].peak)) == (meter.allocated, meter.peak), form
        del held


@pytest.mark.parametrize("text", [SCALAR, SEVERAL])
def test_layers_with_a_way_ahead_pass_all_checks(text):
    assert sg.check(sg.compile(text, wrt="params", check=False)).ok


def test_compiling_judges_the_way_ahead():
    jac = unvalidated(SEVERAL, plain=True, wrt="params")
    right = jac.module._ahead_c
    jac.module._ahead_c = lambda *args: 2 * right(*args)
    with pytest.raises(sg.ValidationError, match="jac_c"):
        sg.check(jac)


def test_a_parameter_of_any_size_goes_back():
    text = "x: input[n]\nW: param[m, n]\nb: param[m]\nV: param[o, m]\ny = V @ tanh(W @ x + b)"
    assert "_ahead" not in unvalidated(text, plain=True).source


@pytest.mark.slow
@pytest.mark.parametrize("text", [FOUR, SEVERAL])
def test_choices_read_the_same_in_every_process(text):
    script = f"import symgrad as sg; print(sg.compile({text!r}, wrt='all', check=False).source)"
    texts = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(texts) == 1 and b"_cheapest(" in texts.pop()
