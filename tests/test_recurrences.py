"""Recurrences: right, run step by step, and as long as the program, not as the sequence."""

import numpy as np
import pytest
from fuzz.laws import faults
from layers import with_steps
from recurrences import EULER, GRU, LSTM, RECURRENCES, RNN, TWO_LAGS

import symgrad as sg
from symgrad.check import check
from symgrad.parse import parse


@pytest.mark.parametrize("name", RECURRENCES)
@pytest.mark.parametrize("seed", (1, 2))
def test_every_form_agrees_with_every_other_and_with_differences(name, seed):
    assert faults(RECURRENCES[name], "all", seed, differences=True) == []


@pytest.mark.parametrize("name", ("lstm", "kalman", "stacked"))
def test_compiled_forms_agree_too(name):
    assert faults(RECURRENCES[name], "all", 3, compiled=True) == []


def arrays_of(text, sizes, batch, seed=0):
    program = check(parse(text))
    rng = np.random.default_rng(seed)
    return {
        a.name: rng.normal(size=(*((batch,) if a.batched else ()),
                                 *(d.evaluate(sizes) for d in a.axes))) * 0.5
        for a in program.arrays
    }  # fmt: skip


def rnn(x, U, W, b, V):
    h = np.zeros((len(x), len(U)))
    for t in range(x.shape[1]):
        h = np.tanh(h @ U.T + x[:, t] @ W.T + b)
    return h @ V.T


@pytest.mark.parametrize("length", (1, 2, 500))
def test_any_length_runs(length):
    jac = sg.compile(RNN)
    arrays = arrays_of(RNN, {"T": length, "n": 3, "m": 4, "k": 2}, 2)
    arrays["U"] *= 0.5
    np.testing.assert_allclose(jac.forward(**arrays), rnn(**arrays), rtol=1e-12)
    u = np.ones((2, 2))
    found = jac.vjp(arrays, u)
    rng = np.random.default_rng(5)
    for name in ("U", "W", "b", "V"):
        direction = rng.normal(size=arrays[name].shape)
        step = 1e-6
        above, below = (
            rnn(**{**arrays, name: arrays[name] + sign * step * direction}).sum()
            for sign in (1, -1)
        )
        slope = (above - below) / (2 * step)
        assert np.sum(found[name] * direction) == pytest.approx(slope, rel=1e-6, abs=1e-8)
        J = jac.jacobian(**arrays)[name].dense()
        np.testing.assert_allclose(J.sum((0, 1)), found[name], rtol=1e-9, atol=1e-12)


def test_of_no_step_at_all_the_start_remains():
    jac = sg.compile("x: input[T]\na: param\ns: param\nh[-1] = s\n"
                     "h[t: T] = a * h[t - 1] + x[t]\ny = sum(h)")  # fmt: skip
    J = jac.jacobian(np.zeros((2, 0)), 0.5, 3.0)
    np.testing.assert_array_equal(J.value, [0, 0])
    np.testing.assert_array_equal(J["s"].dense(), [0, 0])


@pytest.mark.parametrize("text", (RNN, LSTM, GRU))
def test_the_module_does_not_grow_with_the_length(text):
    sizes = [
        len(sg.compile(text, dims={"T": length}, check=False).source) for length in (3, 300)
    ]
    assert abs(sizes[0] - sizes[1]) < 0.02 * sizes[0]


def test_what_no_step_needs_of_the_one_before_is_done_at_once():
    source = sg.compile(RNN).source
    forward = with_steps(source, source[source.index("def _forward") : source.index("def _sweep")])
    before, walk = forward.split("for t in range(n_T):")
    assert "_matmul(x.reshape(n_B * n_T, n_n), W.T" in before
    assert "_add_matmul(h_before[:, t], U.T, z[:, t])" in walk


def test_going_back_is_a_walk_from_the_last_step_to_the_first():
    source = sg.compile(RNN).source
    back = source[source.index("def _back(") : source.index("def _back_per_sample")]
    back = with_steps(source, back)
    assert "for t in range(n_T - 1, -1, -1):\n" in back
    assert "_matmul(d_z[:, t], U, d_h_before[:, t])" in back


def test_without_products_the_walk_is_inside_the_kernel():
    source = sg.compile(TWO_LAGS).source
    forward = source[source.index("def _forward") : source.index("def _sweep")]
    assert "for t in range" not in forward
    assert "for t in range(n_T):" in source[source.index("- kernels") :]


def test_the_start_below_zero_is_read_by_later_statements_too():
    jac = sg.compile("x: input[T]\ns: param\nh[-1] = s\nh[t: T] = 2 * h[t - 1] + x[t]\n"
                     "y[t] = h[t - 1] + h[t]")  # fmt: skip
    x = np.array([[1.0, 2.0, 3.0]])
    h = [1 + 2 * 5, 2 + 2 * 11, 3 + 2 * 24]
    expected = [5 + h[0], h[0] + h[1], h[1] + h[2]]
    np.testing.assert_array_equal(jac.forward(x, 5.0)[0], expected)


def test_minus_one_is_the_last_element_in_expressions():
    jac = sg.compile("x: input[T]\nh[-1] = 7\nh[t: T] = h[t - 1] + x[t]\ny = h[-1]", wrt="inputs")
    assert jac.forward(np.array([1.0, 2.0])) == 10.0


def test_lags_without_a_start_are_zero():
    jac = sg.compile(TWO_LAGS.replace("y[-2] = 2\n", ""))
    y = jac.forward(np.array([[1.0, 1.0, 1.0]]), 2.0, 3.0, 5.0)[0]
    np.testing.assert_array_equal(y, [11, 2 * 11 + 3 * 5 + 1, 2 * 38 + 3 * 11 + 1])


@pytest.mark.parametrize(
    ("text", "message"),
    (
        ("h[t: T] = h[t - 1] + x[t] + sum(h)", "before it is assigned"),
        ("h[t: T] = h[t - 1] + x[t] + h[0]", "before it is assigned"),
        ("g[t: T] = h[t - 1] + x[t]\nh[t: T] = sum(g) + x[t]", "only at single steps"),
        ("g[t: T] = h[t - 1] + x[t]\nh[t: T] = g[0] + x[t]", "only at single steps"),
        ("h[-1] = s\nh[t: T] = h[t - 1] + z", "its start|does not fit"),
        ("h[-1] = s\nh[t: T] = z * x[t]\ny = h[T - 1]", "its start"),
        ("g[t: T] = h[t] + x[t]\nh[t: T] = g[t - 1]", "before it is assigned"),
        ("h[t: T] = h[t + 1] + x[t]", "before it is assigned"),
        ("h[t: T] = h[t - 1] + x[t - 1]", "below 0"),
    ),
)
def test_what_a_recurrence_may_not_read_is_refused_with_its_place(text, message):
    with pytest.raises(sg.SymgradError, match=message) as caught:
        sg.compile(f"x: input[T]\ns: param[n]\nz: param[m]\n{text}", wrt="inputs")
    assert "^" in str(caught.value)


def test_parameters_alone_recur_once_per_call():
    jac = sg.compile("x: input\na: param[m]\nB: param[m, m]\nh[-1] = a\n"
                     "h[t: 4] = sin(B @ h[t - 1])\ny = h[3] * x")  # fmt: skip
    source = jac.source
    forward = source[source.index("def _forward") : source.index("def _sweep")]
    assert "h = _kept(" in forward
    assert "np.empty((4" not in forward
    alone = source[source.index("def _shared_h(") :]
    assert "h = np.empty((4, n_m), dtype)" in alone[: alone.index("return h")]


def torch_rnn(torch, x, U, W, b, V):
    h = torch.zeros(x.shape[0], U.shape[0], dtype=x.dtype)
    for t in range(x.shape[1]):
        h = torch.tanh(h @ U.T + x[:, t] @ W.T + b)
    return h @ V.T


def torch_lstm(torch, x, W, U, b):
    h = c = torch.zeros(x.shape[0], U.shape[1], dtype=x.dtype)
    for t in range(x.shape[1]):
        i, f, o = (
            torch.sigmoid(x[:, t] @ W[k].T + h @ U[k].T + b[k]) for k in range(3)
        )  # fmt: skip
        g = torch.tanh(x[:, t] @ W[3].T + h @ U[3].T + b[3])
        c = f * c + i * g
        h = o * torch.tanh(c)
    return h


def torch_euler(torch, s, r, A, w):
    x = s
    for t in range(len(r)):
        x = x + 0.1 * r[t] * torch.tanh(x @ A.T + w * np.sin(t))
    return x


@pytest.mark.parametrize(
    ("text", "model"), ((RNN, torch_rnn), (LSTM, torch_lstm), (EULER, torch_euler))
)
def test_jacobians_agree_with_pytorch(text, model):
    torch = pytest.importorskip("torch")
    jac = sg.compile(text)
    arrays = arrays_of(text, {"T": 7, "n": 3, "m": 4, "k": 2}, 5)
    if text is EULER:
        arrays["A"] = arrays["A"][:3, :3]
    tensors = {n: torch.tensor(a) for n, a in arrays.items()}
    J = jac.jacobian(**arrays)
    for name in J:
        def of(value, name=name):
            return model(torch, **{**tensors, name: value})

        expected = torch.autograd.functional.jacobian(of, tensors[name]).numpy()
        np.testing.assert_allclose(J[name].dense(), expected, rtol=1e-10, atol=1e-13)


def test_the_derivation_is_the_recursion_it_is():
    text = sg.derive(RNN).text()
    assert "h_{-1,i} = 0\n" in text
    assert "z_ti = Σ_j U_ij h_{t-1,j} + Σ_l W_il x_tl + b_i\n" in text
    assert "G^h_tij = δ_{t,T-1} V_ij + Σ_l G^z_{t+1,i,l} U_lj\n" in text
    assert "G^z_Tij = 0\n" in text
    assert "∂y[i]/∂U[j,l] = Σ_t G^z_tij h_{t-1,l}\n" in text
    assert "before" not in text


def test_a_second_lag_has_a_start_and_an_adjoint_of_its_own():
    text = sg.derive(TWO_LAGS).text()
    assert "y_{-1} = s\n" in text
    assert "y_{-2} = 2\n" in text
    assert "G^y_ti = δ_ti + a G^y_{t+1,i} + b G^y_{t+2,i}\n" in text
    assert "G^y_Tt = 0\n" in text
    assert "G^y_{T+1,t} = 0\n" in text
    assert "∂y[t]/∂s = a G^y_0t + b G^y_1t\n" in text


def test_latex_writes_earlier_steps_too():
    latex = sg.derive(RNN).latex()
    assert "h_{t-1,l}" in latex
    assert "before" not in latex


def test_products_read_the_step_their_position_says():
    text = ("x: input[T, n]\nA: param[2*T + 1, n, n]\n"
            "h[t: T] = tanh(A[2*t + 1] @ h[t - 1] + x[t])\ny = h[T - 1]")  # fmt: skip
    rng = np.random.default_rng(0)
    x, A = rng.normal(size=(2, 5, 3)), rng.normal(size=(11, 3, 3))
    h = np.zeros((2, 3))
    for t in range(5):
        h = np.tanh(h @ A[2 * t + 1].T + x[:, t])
    np.testing.assert_allclose(sg.compile(text).forward(x, A), h, rtol=1e-12)
