"""Closed forms have the value of the derivation they were read from, and textbook shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from symgrad.check import check
from symgrad.derivation import Derivation, Selection
from symgrad.derive import derive
from symgrad.parse import parse
from symgrad.program import Access, Apply, Number
from symgrad.proof.interpret import evaluate_jacobian, interpret_terms
from symgrad.reading.closed import ClosedForm
from symgrad.reading.products import product_of, tidy_scalar
from symgrad.simplify import closed_forms

DENSE = "x: input[n]\nW: param[m, n]\nb: param[m]\nz = W @ x + b\n"
LAYERS = {
    "tanh": DENSE + "y = tanh(z)\n",
    "sigmoid": DENSE + "y = sigmoid(z)\n",
    "relu": DENSE + "y = relu(z)\n",
    "softmax": DENSE + "y = softmax(z)\n",
    "log_softmax": DENSE + "y = log_softmax(z)\n",
    "layer_norm": (
        "x: input[n]\ng: param[n]\nb: param[n]\nmu = mean(x)\nv = var(x)\n"
        "y = g * (x - mu) / sqrt(v + 1e-5) + b\n"
    ),
    "two_layers": (
        "x: input[n]\nW1: param[h, n]\nb1: param[h]\nW2: param[m, h]\nb2: param[m]\n"
        "z = W1 @ x + b1\na = relu(z)\ny = W2 @ a + b2\n"
    ),
    "tied": "x: input[n]\nW: param[n, n]\nb: param[n]\na = relu(W @ x + b)\ny = W @ a + b\n",
    "attention": (
        "x: input[t, e]\nP: param[d, e]\nQ: param[d, e]\nV: param[d, e]\nq = x @ Q.T\n"
        "p = x @ P.T\nv = x @ V.T\nA = softmax(q @ p.T / sqrt(d))\ny = A @ v\n"
    ),
    "convolution": (
        "x: input[c, t]\nw: param[o, c, k]\nb: param[o]\n"
        "y[f, s] = tanh(sum[p](sum[q](w[f, p, q] * x[p, s + q])) + b[f])\n"
    ),
    "scalars": "x: input\na: param\nb: param\nc: param\nf = exp(log(b * a * x) + c)\n",
    "asserted": (
        "x: input\na: param\nb: param\nc: param\nassert a * b * x > 0\n"
        "f = exp(log(b * a * x) + c)\n"
    ),
    "gaussian": (
        "x: input[n]\nmu: param[n]\nsigma: param\n"
        "y = exp(-sum((x - mu)**2) / (2*sigma**2))\n"
    ),
}
SIZES = {"n": 4, "m": 3, "h": 5, "t": 4, "e": 3, "d": 2, "c": 2, "o": 3, "k": 2}


def derived(text: str, dims: dict[str, int] | None = None) -> Derivation:
    program = check(parse(text), dims=dims)
    names = tuple(a.name for a in program.arrays if a.role in ("param", "input"))
    return derive(program, Selection(names))


def arrays_for(derivation: Derivation) -> dict[str, Any]:
    """Return positive arrays: every layer above is smooth and defined there."""
    rng = np.random.default_rng(5)
    made = {}
    for array in derivation.program.arrays:
        shape = tuple(axis.evaluate(SIZES) for axis in array.axes)
        made[array.name] = rng.uniform(0.2, 1.2, (5, *shape) if array.batched else shape)
    return made


def value_of(form: ClosedForm, arrays: dict[str, Any], terms: Any = None) -> Any:
    axes = (form.program.batch, *form.out, *form.theta)
    chosen = form.terms if terms is None else terms
    return interpret_terms(form.program, form.named, chosen, axes, arrays)


@pytest.mark.parametrize("name", LAYERS)
def test_a_closed_form_has_the_value_of_its_derivation(name: str) -> None:
    derivation = derived(LAYERS[name])
    arrays = arrays_for(derivation)
    for form in closed_forms(derivation):
        expected = evaluate_jacobian(derivation, form.output, form.parameter, arrays)
        # 100 roundings of terms no larger than 10 times the result
        tolerance = 1e3 * np.finfo(float).eps * np.abs(expected).max(initial=1.0)
        np.testing.assert_allclose(value_of(form, arrays), expected, rtol=0, atol=tolerance)
        for case in form.restricted:
            found = value_of(form, arrays, case.terms)
            np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


def test_layer_norm_collapses_to_one_term_without_sums() -> None:
    form = closed_forms(derived(LAYERS["layer_norm"]))[0]
    assert len(form.terms) == 3
    assert not any(term.bound for term in form.terms)
    assert len(form.shown.pieces) == 1


def test_without_an_assertion_the_domain_stays_and_the_simple_form_states_its_condition() -> None:
    arrays = {"x": np.array([1.0]), "a": -1.0, "b": 2.0, "c": 3.0}
    form = {f.parameter: f for f in closed_forms(derived(LAYERS["scalars"]))}["a"]
    with np.errstate(invalid="ignore"):
        assert np.isnan(value_of(form, arrays)).all()
    (case,) = form.restricted
    assert isinstance(case.condition, Apply) and case.condition.function == "gt"


def test_an_assertion_lets_the_logarithm_meet_its_exponential() -> None:
    form = {f.parameter: f for f in closed_forms(derived(LAYERS["asserted"]))}["a"]
    assert not form.restricted
    value = value_of(form, {"x": np.array([1.0]), "a": 1.0, "b": 2.0, "c": 3.0})
    assert value == pytest.approx([2 * np.exp(3.0)], rel=1e-14)


def test_nothing_cancels_against_a_denominator() -> None:
    x = Access("x")
    product = product_of((Apply("div", (x, x)),))
    assert product.over and product.under
    assert tidy_scalar(Apply("sub", (x, x))) == Number(0)


def test_a_deep_net_keeps_its_recursion() -> None:
    lines = ["x: input[n]"]
    lines += [f"W{n}: param[n, n]" for n in range(1, 9)]
    lines += [f"a{n} = tanh(W{n} @ {f'a{n - 1}' if n > 1 else 'x'})" for n in range(1, 9)]
    forms = closed_forms(derived("\n".join(lines) + "\n"))
    first = {f.parameter: f for f in forms}["W1"]
    assert first.named
    assert all(len(form.terms) <= 12 for form in forms)


def test_axes_of_length_one_leave_no_delta() -> None:
    for form in closed_forms(derived(LAYERS["tanh"], {"m": 1})):
        assert "Delta" not in repr(form.terms)


CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_public_cases_agree_with_their_closed_forms(path: Path) -> None:
    case = json.loads(path.read_text())
    if "[t: T]" in case["layer"]:
        pytest.skip("what a reader sees of a recurrence reads steps before 0, which no array holds")
    derivation = derived(case["layer"])
    arrays = {name: np.asarray(value) for name, value in case["arrays"].items()}
    for form in closed_forms(derivation):
        expected = evaluate_jacobian(derivation, form.output, form.parameter, arrays)
        np.testing.assert_allclose(value_of(form, arrays), expected, rtol=1e-10, atol=1e-12)
