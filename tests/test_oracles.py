"""The whole line against its oracles: texts are derived, evaluated and held against differences."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.check import check
from symgrad.derivation import Selection
from symgrad.derive import derive
from symgrad.errors import ValidationError
from symgrad.parse import parse
from symgrad.proof.interpret import evaluate_jacobian, interpret
from symgrad.proof.sample import sample
from symgrad.validate import validate

DENSE = "x: input[n]\nW: param[m, n]\nb: param[m]\n"
TEXTS = {
    "dense": DENSE + "z = W @ x + b\ny = sigmoid(z)",
    "gelu": DENSE + "y = gelu(W @ x + b)",
    "relu": DENSE + "y = relu(W @ x + b)",
    "softmax": DENSE + "y = softmax(W @ x + b)",
    "largest": DENSE + "y = max(W @ x + b)",
    "two outputs": DENSE + "z = W @ x + b\ny = tanh(z)\ns = sum(y)\nreturn y, s",
    "tied": "x: input[n]\nW: param[n, n]\na = tanh(W @ x)\ny = W @ a",
    "norm": "x: input[n]\ng: param[n]\nc = x - mean(x)\ny = g * c / sqrt(mean(c**2) + 1e-5)",
    "logarithm": "x: input[n]\na: param\nassert a > 0\ny = log(a) * x",
    "power": "x: input[n]\np: param\nassert x > 0\ny = x**p",
    "convolution": "x: input[c, t]\nw: param[o, c, k]\n"
    "y[f, s] = sum[p](sum[q](w[f, p, q] * x[p, s + q]))",
    "embedding": "t: index(v)\nE: param[v, d]\nW: param[v, d]\ny = W @ E[t]",
    "straight through": "x: input[n]\na: param\nz = a * x\ny = z + stop_gradient(round(z) - z)",
}


def line(name):
    program = check(parse(TEXTS[name]))
    names = tuple(a.name for a in program.arrays if a.role in ("input", "param"))
    derivation = derive(program, Selection(names))

    def jacobians(arrays, precision=None):
        return {
            (j.output, j.parameter): evaluate_jacobian(
                derivation, j.output, j.parameter, arrays, precision=precision
            )
            for j in derivation.jacobians
        }

    return program, names, jacobians


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_closed_forms_agree_with_differences(name):
    program, names, jacobians = line(name)
    report = validate(program, jacobians, names)
    assert report.ok, str(report)


@pytest.mark.parametrize("name", ["dense", "gelu", "softmax", "norm"])
def test_closed_forms_keep_their_digits(name):
    program, names, jacobians = line(name)
    report = validate(program, jacobians, names, points=1, exactly=lambda a: jacobians(a, 40))
    assert report.ok, str(report)


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_values_agree_in_float64_and_in_many_digits(name):
    program, _, _ = line(name)
    arrays = sample(program, seed=1)
    rough, fine = interpret(program, arrays), interpret(program, arrays, precision=40)
    for output in program.outputs:
        np.testing.assert_allclose(
            rough[output].astype(float), fine[output].astype(float), rtol=1e-12, atol=1e-14
        )


def test_an_injected_wrong_slope_is_refused_by_name():
    program, names, jacobians = line("dense")

    def wrong(arrays):
        found = jacobians(arrays)
        return {key: 1.001 * J if key[1] == "b" else J for key, J in found.items()}

    with pytest.raises(ValidationError, match=r"layer: dy/db at "):
        validate(program, wrong, names).raise_if_failed("layer")
