"""Matrix style has the value of the derivative, evaluated from the text as it is printed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matrix_text import column, evaluate
from test_simplify import DENSE, derived

from symgrad.explain import Formula, cotangent, explain
from symgrad.proof.interpret import evaluate_jacobian, interpret
from symgrad.reading.hands import TextHand
from symgrad.reading.matrix import named_matrices, read_matrices

SIZES = {"n": 4, "m": 3, "p": 5, "q": 2, "k": 3, "d": 4, "t": 3, "e": 2, "v": 6, "T": 3, "h": 5}
NETS = {
    "mlp": (
        "x: input[n]\nW1: param[p, n]\nb1: param[p]\nW2: param[m, p]\n"
        "h = tanh(W1 @ x + b1)\ny = W2 @ h\n"
    ),
    "three layers": (
        "x: input[n]\nW1: param[p, n]\nW2: param[q, p]\nW3: param[m, q]\nb3: param[m]\n"
        "h1 = tanh(W1 @ x)\nh2 = relu(W2 @ h1)\ny = softmax(W3 @ h2 + b3)\n"
    ),
    "tied": "x: input[n]\nW: param[n, n]\nh = tanh(W @ x)\ny = W @ h\n",
    "autoencoder": "x: input[n]\nW: param[m, n]\nh = sigmoid(W @ x)\ny = W.T @ h\n",
    "softmax": DENSE + "y = softmax(z)\n",
    "cross entropy": DENSE.replace("W:", "t: index(m)\nW:") + "L = logsumexp(z) - z[t]\n",
    "log softmax": DENSE.replace("W:", "t: index(m)\nW:") + "L = -log_softmax(z)[t]\n",
    "residual": "x: input[n]\nW: param[p, n]\nV: param[n, p]\ny = x + V @ gelu(W @ x)\n",
    "gate": "x: input[n]\nW: param[m, n]\nV: param[m, n]\ny = silu(W @ x) * (V @ x)\n",
    "softplus": "x: input[n]\nW: param[m, n]\ny = softplus(W @ x)\n",
    "norm": "x: input[n]\nW: param[m, n]\ny = norm(W @ x)\n",
    "normalized": "x: input[n]\nW: param[m, n]\ny = W @ (x / norm(x))\n",
    "layer norm": (
        "x: input[n]\na: param[n]\nc: param[n]\neps: const = 1e-5\n"
        "μ = mean(x, keepdims=True)\nv = mean((x - μ)**2, keepdims=True)\n"
        "y = a * (x - μ) / sqrt(v + eps) + c\n"
    ),
    "embedding": "t: index(v)[T]\nE: param[v, d]\nW: param[m, d]\ny = tanh(E[t] @ W.T)\n",
    "extremum": "x: input[n]\nW: param[m, n]\ny = max(tanh(W @ x))\n",
    "mixture": (
        "x: input\nl: param[k]\nμ: param[k]\n"
        "f = logsumexp(l - logsumexp(l) - (x - μ)**2 / 2)\n"
    ),
    "gaussians": (
        "x: input[d]\nl: param[k]\nM: param[k, d]\nw = log_softmax(l)\n"
        "s[j] = w[j] - 0.5 * sum[i]((x[i] - M[j, i])**2)\ny = logsumexp(s)\n"
    ),
    "attention": (
        "X: input[t, d]\nP: param[d, e]\nQ: param[d, e]\nV: param[d, e]\nq = X @ Q\np = X @ P\n"
        "v = X @ V\nS = softmax(q @ p.T / sqrt(e))\nY = S @ v\n"
    ),
    "deep": "x: input[n]\n" + "".join(f"W{i}: param[n, n]\n" for i in range(1, 7)) + "".join(
        f"a{i} = softmax(W{i} @ {f'a{i - 1}' if i > 1 else 'x'})\n" for i in range(1, 7)
    ),
    "squares": "x: input[n]\nu: input[m]\nW: param[m, n]\nL = sum((W @ x - u)**2)\n",
}
CASES = [(name, i) for name, text in NETS.items() for i in range(text.count("param"))]


def sample_arrays(derivation: Any) -> dict[str, Any]:
    """Return arrays for a batch of one sample."""
    rng = np.random.default_rng(8)
    made: dict[str, Any] = {}
    for array in derivation.program.arrays:
        shape = tuple(axis.evaluate(SIZES) for axis in array.axes)
        shape = (1, *shape) if array.batched else shape
        if array.vocabulary is not None:
            made[array.name] = rng.integers(0, array.vocabulary.evaluate(SIZES), shape)
        else:
            made[array.name] = rng.normal(size=shape) if array.default is None else array.default
    return made


def right_side(line: str) -> str:
    return line.split(" = ", 1)[1]


def names_for(derivation: Any, form: Any, arrays: dict[str, Any], g: Any, size: int) -> Any:
    """Return every name a line may read, as it is printed, for the one sample."""
    values = interpret(derivation.program, arrays)
    single = derivation.program.batch
    known: dict[str, Any] = {n: SIZES[n] for n in SIZES}
    for array in derivation.program.arrays:
        value = np.asarray(arrays[array.name])
        known[array.name] = column(value[0] if array.batched else value)
    for made in derivation.program.definitions:
        value = np.asarray(values[made.name])
        value = value[0] if single in made.indices else value
        known[made.name] = column(value if value.size > 1 else value.reshape(()))
    known[cotangent(form)] = column(g)
    for line in named_matrices(form, TextHand()):
        name = line.split(" = ", 1)[0]
        known[name] = evaluate(right_side(line), known, size)
    return known


@pytest.mark.parametrize(("name", "number"), CASES)
def test_matrix_style_has_the_value_of_the_derivative(name: str, number: int) -> None:
    derivation = derived(NETS[name])
    arrays = sample_arrays(derivation)
    parameters = [a.name for a in derivation.program.arrays if a.role == "param"]
    wanted = parameters[number]
    form = next(f for f in explain(derivation).forms if f.parameter == wanted)
    formula = Formula(form)
    line = formula.matrix(TextHand())
    assert line is not None, formula.reason
    jacobian = evaluate_jacobian(derivation, form.output, wanted, arrays)[0]
    g = np.random.default_rng(9).normal(size=[i.dim.evaluate(SIZES) for i in form.out])
    if formula.pulled:
        jacobian = np.tensordot(g, jacobian, len(form.out))
    lengths = [p.evaluate(SIZES) for a in derivation.program.arrays if a.vocabulary is not None
               for p in (a.vocabulary,)]
    size = lengths[0] if lengths else jacobian.shape[0] if jacobian.ndim else 1
    known = names_for(derivation, form, arrays, g, size)
    value = np.broadcast_to(evaluate(right_side(line), known, size), column(jacobian).shape)
    # about 50 roundings of terms no larger than 20 times the result
    tolerance = 1e3 * np.finfo(float).eps * np.abs(jacobian).max(initial=1.0)
    np.testing.assert_allclose(value, column(jacobian), rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", NETS)
def test_what_a_matrix_formula_leans_on_has_the_value_of_its_definition(name: str) -> None:
    derivation = derived(NETS[name])
    arrays = sample_arrays(derivation)
    for form in explain(derivation).forms:
        if Formula(form).reason is not None:
            continue
        g = np.ones([i.dim.evaluate(SIZES) for i in form.out])
        read = read_matrices(form, TextHand(), cotangent(form))
        if not any(read.values()):
            continue
        known = names_for(derivation, form, arrays, g, 1)
        for defined, line in read.items():
            if line is not None and "onehot" not in line:
                value = np.squeeze(evaluate(right_side(line), known, 1))
                expected = np.squeeze(known[defined])
                np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("name", "parameter", "line"), [
    ("mlp", "W1", "gᵀ ∂y/∂W1 = (W2ᵀ g ⊙ (1 - h²)) xᵀ"),
    ("mlp", "b1", "∂y/∂b1 = W2 diag(1 - h²)"),
    ("tied", "W", "gᵀ ∂y/∂W = (Wᵀg ⊙ (1 - h²)) xᵀ + g hᵀ"),
    ("softmax", "W", "gᵀ ∂y/∂W = (y ⊙ (g - gᵀy)) xᵀ"),
    ("three layers", "W1",
     "gᵀ ∂y/∂W1 = (W2ᵀ (W3ᵀ (y ⊙ (g - gᵀy)) ⊙ [h2 > 0]) ⊙ (1 - h1²)) xᵀ"),
    ("three layers", "x", "∂y/∂x = (diag(y) - y yᵀ) W3 diag([h2 > 0]) W2 diag(1 - h1²) W1"),
    ("cross entropy", "W", "∂L/∂W = (softmax(z) - onehot(t)) xᵀ"),
    ("embedding", "E", "⟨g, ∂y/∂E⟩ = onehot(t)ᵀ (g ⊙ (1 - y ⊙ y)) W"),
    ("attention", "Q", "⟨g, ∂Y/∂Q⟩ = Xᵀ (g vᵀ ⊙ S - diag((g ⊙ Y) 𝟏) S) p/√e"),
])
def test_matrix_style_is_as_written_by_hand(name: str, parameter: str, line: str) -> None:
    assert explain(derived(NETS[name]))[parameter].text("matrix") == line


def test_deep_nets_give_their_recursion_in_matrix_style() -> None:
    text = explain(derived(NETS["deep"])).text("matrix")
    assert "gᵀ ∂a6/∂W1 = (G^z)ᵀ g xᵀ" in text
    assert "G^a1 = G^" in text


def test_the_cotangent_is_defined_where_it_is_used_and_only_there() -> None:
    used = explain(derived(NETS["mlp"]))
    assert "g: any array of the shape of the output" in used.text("matrix")
    assert r"g & \text{: any array of the shape of the output}" in used.latex("matrix")
    unused = explain(derived(NETS["squares"]))
    assert "any array" not in unused.text("matrix") + unused.latex("matrix")


def test_a_layer_that_uses_g_gets_another_cotangent() -> None:
    assert "uᵀ ∂y/∂W = u gᵀ" in explain(derived("g: input[n]\nW: param[m, n]\ny = W @ g\n")).text()


@pytest.mark.parametrize("text", [
    "x: input[n]\nw: param[n]\ny = prod(w * x)\n",
    "X: const[n, d]\ns: param\nK[i, j] = s * exp(-sum[k]((X[i, k] - X[j, k])**2))\n",
])
def test_one_reason_says_why_there_is_no_matrix_style(text: str) -> None:
    explanation = explain(derived(text))
    without = [f for f in explanation.formulas if f.reason is not None]
    assert without
    for formula in without:
        assert formula.reason is not None and ";" not in formula.reason
        assert f"(index style: {formula.reason})" in explanation.text("matrix")
    assert explanation.latex("matrix").count(r"\text{(index style: ") == len(without)
