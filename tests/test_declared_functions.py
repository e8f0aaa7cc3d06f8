"""Abstract functions bound to formulas: derived from a value, or with a slope taken on trust."""

import numpy as np
import pytest

import symgrad as sg
from symgrad.program import Apply, Number
from symgrad.proof.interpret import evaluate_jacobian, interpret
from symgrad.validate import Report

DENSE = "x: input[n]\nW: param[m, n]\nb: param[m]\ny = σ(W @ x + b)"
SILU = "z/(1 + exp(-z))"
SILU_SLOPE = "(1 + exp(-z) + z*exp(-z))/(1 + exp(-z))**2"
SIGN = sg.function(value="sign(z)", slope="where(abs(z) < 1, 1, 0)")


def point(dtype=np.float64):
    rng = np.random.default_rng(0)
    shapes = {"x": (3, 4), "W": (2, 4), "b": (2,)}
    return {name: rng.normal(size=shape).astype(dtype) for name, shape in shapes.items()}


def compiled(formula, text=DENSE, wrt="all", **options):
    return sg.compile(text, wrt, functions={"σ": formula}, **options)


@pytest.mark.parametrize("slope", [None, SILU_SLOPE])
def test_a_formula_gives_what_the_function_of_the_language_gives(slope):
    ours, theirs = compiled(sg.function(value=SILU, slope=slope)), compiled("silu")
    arrays = point()
    u = np.ones((3, 2))
    np.testing.assert_allclose(ours.forward(arrays), theirs.forward(arrays), rtol=1e-13)
    J, right = ours.jacobian(arrays), theirs.jacobian(arrays)
    for name in arrays:
        np.testing.assert_allclose(np.asarray(J[name]), np.asarray(right[name]), rtol=1e-12)
        np.testing.assert_allclose(ours.vjp(arrays, u)[name], theirs.vjp(arrays, u)[name])
    tangents = {"W": arrays["W"]}
    np.testing.assert_allclose(ours.jvp(arrays, tangents), theirs.jvp(arrays, tangents))
    _, pull = ours.pullback(**arrays)
    np.testing.assert_allclose(pull(u)["b"], theirs.vjp(arrays, u)["b"])


def test_a_slope_that_is_left_out_is_derived():
    jac = compiled(sg.function(value=SILU))
    assert jac.report.notes == ()
    assert "not derived" not in jac.source
    shown = sg.derive(DENSE, functions={"σ": sg.function(value="z**3")})["b"].text()
    assert shown == "∂y[i]/∂b[j] = 3 δ_ij (Σ_k W_ik x_k + b_i)²"


def test_a_stated_slope_is_used_as_it_stands():
    jac, arrays = compiled(SIGN), point()
    z = arrays["x"] @ arrays["W"].T + arrays["b"]
    np.testing.assert_array_equal(jac.forward(arrays), np.sign(z))
    dense = np.einsum("ij,bi,bk->bijk", np.eye(2), np.abs(z) < 1, arrays["x"])
    np.testing.assert_allclose(np.asarray(jac.jacobian(arrays)["W"]), dense)


def test_float32_stays_float32():
    J = compiled(sg.function(value=SILU, slope=SILU_SLOPE)).jacobian(point(np.float32))
    assert J.value.dtype == np.asarray(J["W"]).dtype == np.float32


def test_a_slope_through_several_layers_is_trusted_and_the_rest_is_differenced():
    text = "x: input[n]\nW: param[n, n]\nh = σ(W @ x)\ny = tanh(W @ σ(h*x) + h)"
    jac = compiled(SIGN, text)
    assert jac.report.ok
    assert sg.check(jac).ok


def test_a_wrong_derivation_beside_a_declared_slope_is_found(monkeypatch):
    from symgrad.algebra import partials

    right = partials.partial

    def wrong(function, args, place, order=()):
        slope = right(function, args, place, order)
        return Apply("mul", (Number(2), slope)) if function == "tanh" else slope

    monkeypatch.setattr(partials, "partial", wrong)
    with pytest.raises(sg.ValidationError):
        compiled(SIGN, "x: input[n]\nw: param[n]\ny = tanh(σ(w * x) + w)")


def test_the_report_warns_where_differences_of_the_value_disagree():
    (note,) = compiled(SIGN).report.notes
    assert note.startswith("the slope of σ is declared, not derived: warning: at ")
    assert "it is 1, where differences of the value give 0" in note
    (note,) = compiled(sg.function(value=SILU, slope=SILU_SLOPE)).report.notes
    assert note == "the slope of σ is declared, not derived"


def test_it_is_recorded_as_declared_wherever_the_layer_is_told_of(tmp_path):
    file = tmp_path / "signs.py"
    jac = compiled(SIGN, path=file)
    assert "declared, not derived" in jac.module.VALIDATION["notes"][0]
    assert "declared, not derived" in str(jac.report)
    assert "σ'(s) = [|s| < 1] (declared, not derived)" in jac.source
    assert Report.from_json(jac.report.to_json()) == jac.report
    assert "declared, not derived" in (tmp_path / "signs.report.json").read_text()
    derivation = sg.derive(DENSE, functions={"σ": SIGN})
    for text in (derivation.text(), derivation.markdown(), derivation.html(), derivation.tex()):
        assert "declared, not derived" in text
    assert sg.check(str(file)).ok


def test_the_oracles_read_the_declared_formulas():
    derivation = sg.derive(DENSE, functions={"σ": SIGN}).derivation
    arrays = point()
    z = arrays["x"] @ arrays["W"].T + arrays["b"]
    np.testing.assert_array_equal(interpret(derivation.program, arrays)["y"], np.sign(z))
    dense = np.einsum("ij,bi->bij", np.eye(2), np.abs(z) < 1)
    np.testing.assert_array_equal(evaluate_jacobian(derivation, "y", "b", arrays), dense)


def test_the_letter_of_a_formula_is_free_to_choose():
    arrays = point()
    mixed = compiled(sg.function(value="x*sigmoid(x)", slope="1 - tanh(W)**2"))
    z = arrays["x"] @ arrays["W"].T + arrays["b"]
    np.testing.assert_allclose(mixed.forward(arrays), z / (1 + np.exp(-z)))
    b = np.asarray(mixed.jacobian(arrays)["b"])
    np.testing.assert_allclose(b, np.einsum("ij,bi->bij", np.eye(2), 1 - np.tanh(z) ** 2))


def test_domains_may_use_a_declared_function():
    text = "x: input\nw: param\nassert σ(x) > 0\ny = w*σ(x)"
    jac = compiled(sg.function(value="z", slope="1"), text, check_domain=True)
    assert jac.forward(np.ones(2), 3.0).shape == (2,)
    with pytest.raises(sg.ArgumentError, match="σ"):
        jac.forward(-np.ones(2), 3.0)


@pytest.mark.parametrize(
    ("formulas", "message"),
    [
        ({"value": np.tanh}, "value is a Python function, which a module of its own cannot call"),
        ({"value": "z", "slope": lambda z: 1}, "slope is a Python function"),
        ({"value": 3}, "value is of type int, expected a text"),
        ({"value": "z", "slope": 1.0}, "slope is of type float"),
    ],
)
def test_only_texts_are_formulas(formulas, message):
    with pytest.raises(sg.ArgumentError, match=message):
        sg.function(**formulas)


@pytest.mark.parametrize(
    ("value", "slope", "message"),
    [
        ("a*b", None, "formula of a, b"),
        ("z", "z*w", "formula of z, w"),
        ("sum(z)", "1", "z is a scalar"),
        ("f(z)", "1", "f is abstract itself"),
        ("z +", "1", "invalid syntax"),
        ("", "1", "there is no formula here"),
        ("nosuch(z)", "1", "the function nosuch is unknown"),
        ("stop_gradient(z**2)", "1", "no formula of a single number"),
    ],
)
@pytest.mark.parametrize("act", [sg.derive, sg.compile])
def test_a_formula_that_means_nothing_is_refused(act, value, slope, message):
    with pytest.raises((sg.LayerSyntaxError, sg.ShapeError), match=message) as caught:
        act(DENSE, functions={"σ": sg.function(value=value, slope=slope)})
    assert "σ: " in str(caught.value)


def test_a_binding_is_a_name_or_a_formula():
    with pytest.raises(sg.ArgumentError, match=r"sg\.function"):
        sg.derive(DENSE, functions={"σ": np.tanh})
    with pytest.raises(sg.LayerSyntaxError, match="no abstract function"):
        sg.derive(DENSE, functions={"τ": SIGN})


def test_latex_says_that_a_slope_is_declared():
    swish = sg.function(value="z/(1 + exp(-z))", slope="1/(1 + exp(-z))")
    d = sg.derive("x: input[n]\nW: param[m, n]\ny = σ(W @ x)", functions={"σ": swish})
    for style in ("index", "matrix"):
        assert "declared, not derived" in d.latex(style=style)
