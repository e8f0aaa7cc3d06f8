"""Masks of places: triangles, bands, causal softmax. What a mask cuts off is never computed."""

import numpy as np
import pytest
from fuzz.laws import faults

import symgrad as sg
from symgrad.algebra.guards import guards_of
from symgrad.bounds import one_sided
from symgrad.dims import Dim
from symgrad.program import Affine, Apply, Delta, Guard, Index, Number, Place, Size

SQUARE = "x: input[t, t]\nw: param[t]\n"

LAYERS = {
    "a causal sum": "y[i] = sum[j](where(i >= j, x[i, j], 0)*w[j])",
    "a strict one": "y[i] = sum[j](where(j < i, exp(x[i, j])*w[j], 0))",
    "the other branch": "y[i, j] = where(i > j, 0, x[i, j]*w[j])",
    "both branches": "y[i, j] = where(i >= j, x[i, j]*w[i], sin(x[i, j]))",
    "a band": "y[i, j] = where(0 <= i - j < 3, w[i]*x[i, j], 0)",
    "joined by and": "y[i, j] = where((i >= j) & (i - j < 2), w[i]*x[i, j], 0)",
    "joined by or": "y[i, j] = where((i == j) | (i - j > 1), w[i]*x[i, j], x[i, j]**2)",
    "negated": "y[i, j] = where(~(i > j), w[i]*x[i, j], 0)",
    "a negated or": "y[i, j] = where(~((i > j) | (j - i > 1)), w[i]*x[i, j], 0)",
    "a diagonal": "y[i, j] = where(i == j, w[i]*x[i, j]**2, 0)",
    "off the diagonal": "y[i, j] = where(i != j, w[i]*x[i, j]**2, 0)",
    "beside data": "y[i, j] = where((i >= j) & (x[i, j] > 0), w[i]*x[i, j], 0)",
    "of a sum": "y[i, j] = where(i >= j, sum[k](x[i, k]*x[j, k]), 0)*w[j]",
    "inside a function": "y[i, j] = tanh(where(i >= j, x[i, j]*w[j], 0))",
    "in arithmetic": "y[i, j] = (i >= j)*x[i, j]*w[j]",
    "of sizes": "y[i, j] = where(2*i + j < t, x[i, j]*w[j], 0)",
    "a large negative number": "A[i, j] = where(i >= j, x[i, j]*w[j], -1e30)\ny = softmax(A)",
    "a running mean": "y[i] = sum[j](where(j <= i, x[i, j]*w[j], 0))/(i + 1)",
    "a named mask": "c[i: t, j: t] = i >= j\ny = where(c, x*w, 0)",
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_form_agrees_with_every_oracle(name, seed):
    assert faults(SQUARE + LAYERS[name], "all", seed, explained=True) == []


CAUSAL = (
    "x: input[t, d]\nW: param[d, d]\nnever: const\n"
    "S = x @ W @ x.T / sqrt(d)\nA[i, j] = where(i >= j, S[i, j], never)\ny = softmax(A) @ x"
)


def test_causal_attention_with_minus_infinity_is_that_of_torch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, W = rng.normal(size=(2, 4, 3)), rng.normal(size=(3, 3))
    J = sg.compile(CAUSAL, "all", check=False).jacobian(x, W, -np.inf)

    def layer(one, weights):
        scores = one @ weights @ one.T / 3**0.5
        later = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
        return torch.softmax(scores.masked_fill(later, -torch.inf), -1) @ one

    for sample in range(2):
        point = torch.tensor(x[sample]), torch.tensor(W)
        np.testing.assert_allclose(J.value[sample], layer(*point).numpy(), rtol=1e-12)
        slopes = torch.autograd.functional.jacobian(layer, point)
        for name, right in zip(("x", "W"), slopes, strict=True):
            found = np.asarray(J[name])[sample]
            np.testing.assert_allclose(found, right.numpy(), rtol=1e-10, atol=1e-14)


def test_minus_infinity_behind_a_mask_makes_no_nan_in_any_form():
    jac = sg.compile(CAUSAL, "all", check=False)
    rng = np.random.default_rng(0)
    x, W = rng.normal(size=(2, 4, 3)), rng.normal(size=(3, 3))
    J = jac.jacobian(x, W, -np.inf)
    u = np.ones((2, 4, 3))
    tangents = {"x": x, "W": W}
    for value in (
        J.value, J["W"].norm(), *jac.vjp(x, W, -np.inf, u).values(),
        *jac.vjp_per_sample(x, W, -np.inf, u).values(), jac.jvp(x, W, -np.inf, tangents),
        J["W"].vjp(u), J["x"].jvp(x),
    ):  # fmt: skip
        assert np.all(np.isfinite(value))


def test_what_a_mask_cuts_off_may_be_nan():
    jac = sg.compile(SQUARE + "y[i] = sum[j](where(j <= i, x[i, j]*w[j], 0))", "all")
    x, w = np.ones((1, 3, 3)), np.arange(3.0)
    x[0] += np.triu(np.full((3, 3), np.nan), 1)
    np.testing.assert_array_equal(jac.forward(x, w), [[0, 1, 3]])
    J = jac.jacobian(x, w)
    np.testing.assert_array_equal(np.asarray(J["w"])[0], np.tril(np.ones((3, 3))))
    np.testing.assert_array_equal(jac.vjp(x, w, np.ones((1, 3)))["w"], [3, 2, 1])


def test_a_guard_is_the_bound_of_its_loop():
    source = sg.show_stage(SQUARE + "y[i] = sum[j](where(j <= i, exp(x[i, j])*w[j], 0))", "source")
    assert "in range(i + 1):" in source
    assert "1.0 if" not in source


def test_a_guard_that_bounds_no_loop_is_a_test_before_the_access():
    source = sg.show_stage(SQUARE + "y[i, j] = where(i < j, x[i, j]*w[j], 0)", "source")
    assert "if j > i:" in source


def test_a_choice_by_places_compares_integers():
    source = sg.show_stage(SQUARE + "y[i, j] = where(i >= j, x[i, j], w[j])", "source")
    assert "choose(i >= j, x[b, i, j], w[j])" in source


def test_the_formula_names_the_comparison():
    text = str(sg.derive(SQUARE + "y[i] = sum[j](where(j <= i, x[i, j]*w[j], 0))"))
    assert "∂y[i]/∂w[j] = x_ij [i ≥ j]" in text
    assert "[i ≥ j]" in str(sg.derive(SQUARE + "y = tril(x)*w"))


def test_a_mask_does_not_make_room_for_an_access():
    text = "x: input[n]\nw: param[k]\ny[t: n] = sum[j](where(t - j >= 0, w[j]*x[t - j], 0))"
    with pytest.raises(sg.ShapeError, match=r"outside its axis.*\n.*\n.*\n.*pad it first"):
        sg.compile(text, "all", check=False)
    padded = "x: input[n]\nw: param[k]\nz = pad(x, ((k - 1, 0),))\ny[t: n] = sum[j](w[j]*z[t + j])"
    assert faults(padded, "all", 0) == []


def test_infinity_is_no_word_of_the_language():
    with pytest.raises(sg.LayerSyntaxError, match="inf is unknown"):
        sg.layer(SQUARE + "y[i, j] = where(i >= j, x[i, j], -inf)")


T = Dim.of("t")
I, J, K = (Index(name, T, k) for k, name in enumerate("ijk"))
A = Affine.of


def test_comparisons_of_places_are_guards():
    i, j = Place(A(I)), Place(A(J))
    assert guards_of(Apply("ge", (i, j))) == (Guard(A(I) - J, T),)
    assert guards_of(Apply("lt", (i, j))) == (Guard(A(J) - I - 1, T - 1),)
    assert guards_of(Apply("eq", (i, j))) == (Delta(A(I), A(J)),)
    assert guards_of(Apply("ne", (i, j))) is None
    assert guards_of(Apply("ge", (i, j)), holds=False) == guards_of(Apply("lt", (i, j)))
    far = Apply("lt", (Apply("mul", (Number(2), i)), Size(T)))
    assert guards_of(far) == (Guard(-(A(I) * 2) + T - 1, T),)
    assert guards_of(Apply("lt", (Apply("mul", (i, j)), Size(T)))) is None
    assert guards_of(Apply("or_", (Apply("ge", (i, j)), Apply("ge", (j, i))))) is None
    both = Apply("and_", (Apply("ge", (i, j)), Apply("ge", (j, i))))
    assert len(guards_of(both)) == 2


def test_only_the_bound_that_says_something_is_stated():
    assert one_sided(Guard(A(I) - J, T)).sign == "ge"
    assert one_sided(Guard(A(I) - J - 1, T - 1)).sign == "gt"
    assert one_sided(Guard(A(I) + J, T)).sign == "lt"
    assert one_sided(Guard(A(I) - J, Dim.of(3))) is None
