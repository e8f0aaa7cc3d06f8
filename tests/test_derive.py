"""Laws of the derivation: every DAG, linear in depth, shared work done once."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.algebra import partials
from symgrad.check import check
from symgrad.derivation import Selection
from symgrad.derive import derive
from symgrad.forms import forms
from symgrad.parse import parse
from symgrad.program import Number
from symgrad.proof.interpret import evaluate_jacobian
from symgrad.proof.sample import sample


def derived(text, *names):
    return derive(check(parse(text)), Selection(names))


def chain(blocks):
    lines = ["x: input[n]"]
    lines += [f"W{k}: param[n, n]" for k in range(1, blocks + 1)]
    lines += ["h0 = tanh(x)"]
    lines += [f"h{k} = h{k - 1} + tanh(W{k} @ h{k - 1})" for k in range(1, blocks + 1)]
    return "\n".join(lines)


def test_adjoints_grow_linearly_with_the_depth_of_a_residual_net():
    sizes = [
        len(derived(chain(k), *(f"W{i}" for i in range(1, k + 1))).adjoints) for k in (4, 8, 16)
    ]
    assert sizes[2] - sizes[1] == 2 * (sizes[1] - sizes[0])


def test_a_parameter_used_twice_sums_over_its_uses():
    text = "x: input[n]\nW: param[n, n]\ny = W @ (W.T @ x) + W[0]"
    d = derived(text, "W")
    arrays = sample(d.program, seed=3, sizes={"n": 3}, batch=2)
    J = evaluate_jacobian(d, "y", "W", arrays)
    x, W, eye = arrays["x"], arrays["W"], np.eye(3)
    right = np.einsum("ij,bk->bijk", eye, x @ W) + np.einsum("ik,bj->bijk", W, x)
    right += np.einsum("j,ik->ijk", eye[0], eye)
    np.testing.assert_allclose(J, right, rtol=1e-12, atol=1e-12)


def test_a_dense_layer_keeps_its_delta_and_an_outer_product():
    (jacobian,) = derived(
        "x: input[n]\nW: param[m, n]\nb: param[m]\ny = tanh(W @ x + b)", "W"
    ).jacobians
    (term,) = jacobian.terms
    assert not term.bound
    assert [type(f).__name__ for f in term.factors] == ["Delta", "Access", "Access"]


def test_adjoints_of_what_the_batch_shares_have_no_batch_axis_in_a_vjp():
    program = check(parse("x: input[n]\nK: param[n, n]\nS = exp(K @ K.T)\ny = S @ x"))
    made = forms(derive(program, Selection(("K",))))
    batch = program.batch
    by_name = {d.name: d for d in made.vjp.definitions}
    shared = [d for n, d in by_name.items() if n.startswith("d_") and batch not in d.indices]
    assert {"d_S", "d_K"} <= {d.name for d in shared}


def test_nothing_is_derived_through_stop_gradient():
    d = derived("x: input[n]\na: param[n]\nb: param[n]\ny = a * x * stop_gradient(b * a)", "a", "b")
    arrays = sample(d.program, seed=1, sizes={"n": 3}, batch=2)
    J = evaluate_jacobian(d, "y", "a", arrays)
    right = np.einsum("ij,bi->bij", np.eye(3), arrays["x"] * arrays["a"] * arrays["b"])
    np.testing.assert_allclose(J, right, rtol=1e-12)
    assert d.jacobian("y", "b").terms == ()


def test_where_with_a_bad_branch_has_a_finite_slope():
    compiled = sg.compile("x: input\na: param\ny = where(x > 0, sqrt(x) * a, a * x)", wrt="all")
    J = compiled.jacobian(np.array([4.0, -1.0, 0.0]), 2.0)
    np.testing.assert_allclose(J["x"].dense(), [0.5, 2.0, 2.0])


def test_a_wrong_rule_is_refused_and_the_parameter_named(monkeypatch, tmp_path):
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path))
    right = partials.partial

    def wrong(function, args, k, order=()):
        return Number(1) if function == "tanh" else right(function, args, k, order)

    monkeypatch.setattr(partials, "partial", wrong)
    with pytest.raises(sg.ValidationError, match="dy/dW"):
        sg.compile("x: input[n]\nW: param[m, n]\ny = tanh(W @ x)")
    monkeypatch.setattr(partials, "partial", right)
    assert sg.compile("x: input[n]\nW: param[m, n]\ny = tanh(W @ x)").report.ok


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("y = max(x * w, axis=None)", np.max),
        ("y = min(x * w, axis=(0, 1))", np.min),
        ("y = prod(x * w, axis=None)", np.prod),
        ("y = norm(x * w, axis=None)", np.linalg.norm),
        ("y = logsumexp(x * w, axis=None)", lambda a: np.log(np.sum(np.exp(a)))),
    ],
)
def test_reductions_over_all_axes_agree_with_numpy_and_differences(text, function):
    compiled = sg.compile(f"x: input[m, n]\nw: param[m, n]\n{text}")
    rng = np.random.default_rng(5)
    x, w = rng.normal(size=(2, 3, 4)), rng.normal(size=(3, 4))
    np.testing.assert_allclose(compiled.forward(x, w), [function(s * w) for s in x], rtol=1e-13)
    assert compiled.report.ok


def test_a_zero_factor_does_not_spoil_the_slope_of_a_product():
    compiled = sg.compile("x: input[n]\ny = prod(x)", wrt="inputs")
    J = compiled.jacobian(np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 1.0]]))
    np.testing.assert_array_equal(J["x"].dense(), [[0, 6, 0], [0, 0, 0]])


def test_the_first_winner_takes_all():
    compiled = sg.compile("x: input[n]\ny = max(x)", wrt="inputs", check=False)
    J = compiled.jacobian(np.array([[1.0, 3.0, 3.0], [np.nan, 1.0, 2.0]]))
    np.testing.assert_array_equal(J["x"].dense(), [[0, 1, 0], [1, 0, 0]])


@pytest.mark.parametrize("text", ["y = std(x) * w", "y = w * (x - mean(x)) / std(x)"])
def test_a_layer_that_has_no_slope_at_size_one_is_not_refused(text):
    assert sg.compile(f"x: input[n]\nw: param[n]\n{text}", wrt="all").report.ok


def test_a_step_in_place_changes_no_result_taken_before():
    compiled = sg.compile("W2 tanh(W1 x + b1) + b2", check=False)
    rng = np.random.default_rng(0)
    x, W2, W1, b1, b2 = (rng.normal(size=s) for s in ((3, 4), (2, 5), (5, 4), (5,), (2,)))
    given = {"x": x, "W1": W1, "W2": W2, "b1": b1, "b2": b2}
    J = compiled.jacobian(given)
    _, pull = compiled.pullback(given)
    before, slopes = J["W1"].dense(), pull(np.ones((3, 2)))
    for array in given.values():
        array -= 1.0
    np.testing.assert_array_equal(J["W1"].dense(), before)
    np.testing.assert_array_equal(pull(np.ones((3, 2)))["W1"], slopes["W1"])
