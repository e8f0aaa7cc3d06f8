"""recompute=: less is stored, the same gradients come out, and memory stays within its bound."""

import gc
import math
import re
import tracemalloc

import numpy as np
import pytest
from layers import TEXTS, with_steps
from recurrences import RECURRENCES, RNN, STACKED, TWO_LAGS

import symgrad as sg
from symgrad import build
from symgrad.errors import SelectionError

SIZES = {"n": 3, "m": 4, "k": 2, "v": 5, "h": 5, "c": 2, "o": 3, "d": 3, "p": 2}
CONVOLVED = """
x: input[2*T + 1, n]
A: param[2*T + 1, n, n]
h[t: T] = tanh(A[t] @ h[t - 1] + A[t + 1] @ h[t - 1] + A[2*t + 1] @ h[t - 1] + x[2*t] + x[2*t + 1])
y = h[T - 1]
"""
WEIGHED = """
x: input[T, n]
q: param[n]
U: param[n, n]
h[t: T] = tanh(U @ h[t - 1] + x[t])
a = softmax(h @ q)
y = a @ h
"""
ALONG = """
x: input[T, n]
U: param[n, n]
V: param[m, n]
e = exp(0.1 * x)
h[t: T] = tanh(U @ h[t - 1] + e[t])
g = sigmoid(h @ V.T)
y = sum(g ** 2, axis=None) + sum(x, axis=None)
z = g
return y, z
"""
THREE = """
x: input[T]
a: param
h[-1] = 0.5
h[-2] = a
h[-3] = 0.25
h[t: T] = sin(a * h[t - 3] + h[t - 1] * x[t]) + h[t - 2]
y[t] = h[t - 2] * h[t]
"""
BESIDE = """
x: input[T, n]
U: param[n, n]
h[t: T] = tanh(U @ h[t - 1] + x[t])
s = sum(h, axis=0)
g[t: T] = sin(U @ g[t - 1] + s + h[t])
k[t: T] = sin(U @ k[t - 1] + x[t])
y = g[T - 1] + k[0] + k[T - 1]
"""
MORE = {
    "convolved": CONVOLVED, "weighed": WEIGHED, "along": ALONG, "three": THREE, "beside": BESIDE,
}  # fmt: skip


def module_of(text, wrt="all", **options):
    compiled = sg.compile(text, wrt, check=False, **options)
    return compiled, build.load(compiled.path, plain=True)


def arrays_of(compiled, length, batch, seed=0):
    rng = np.random.default_rng(seed)
    sizes = {**SIZES, "T": length}
    found = {}
    for array in compiled.forms.program.arrays:
        shape = tuple(d.evaluate(sizes) for d in array.axes)
        shape = (*((batch,) if array.batched and batch else ()), *shape)
        if array.role == "index":
            found[array.name] = rng.integers(0, array.vocabulary.evaluate(sizes), shape)
        else:
            found[array.name] = rng.uniform(0.2, 0.9, shape) * 0.5
    return found


def cotangents(outputs, seed=1):
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=np.shape(y)) for y in outputs)


def gradients(module, compiled, arrays):
    """Every vector-Jacobian product of a module, by form."""
    program = compiled.forms.program
    positional = [arrays[a.name] for a in program.arrays if a.default is None]
    outputs = module.forward(*positional)
    several = len(program.outputs) > 1
    u = cotangents(outputs if several else (outputs,))
    u = u if several else u[0]
    value, pull = module.pullback(*positional)
    first, again = pull(u), pull(u)
    for name, gradient in first.items():
        np.testing.assert_array_equal(again[name], gradient)
    return {
        "value": dict(enumerate(value if several else (value,))),
        "vjp": module.vjp(*positional, u),
        "vjp_per_sample": module.vjp_per_sample(*positional, u),
        "pullback": first,
    }


def agree(text, names, lengths, batch, wrt="all"):
    plain, reference = module_of(text, wrt)
    trading, module = module_of(text, wrt, recompute=names)
    for length in lengths:
        arrays = arrays_of(plain, length, batch)
        expected, found = gradients(reference, plain, arrays), gradients(module, trading, arrays)
        for form, table in expected.items():
            assert found[form].keys() == table.keys()
            for name, gradient in table.items():
                scale = max(1.0, np.max(np.abs(gradient), initial=0.0))
                # sums of at most a few thousand products in another order
                np.testing.assert_allclose(
                    found[form][name], gradient, rtol=1e-10, atol=1e-12 * scale, err_msg=form
                )


@pytest.mark.parametrize("name", RECURRENCES)
@pytest.mark.parametrize("batch", (None, 3))
def test_recurrences_in_segments_give_the_same_gradients(name, batch):
    agree(RECURRENCES[name], "*", (1, 2, 7), batch)


@pytest.mark.parametrize("name", RECURRENCES)
def test_long_recurrences_in_segments_give_the_same_gradients(name):
    agree(RECURRENCES[name], "*", (500,), 1)


@pytest.mark.parametrize("name", MORE)
def test_what_stands_around_recurrences_is_right_too(name):
    program = sg.compile(MORE[name], check=False).forms.program
    for names in ("*", *([d.name] for d in program.definitions if d.written)):
        agree(MORE[name], names, (1, 2, 3, 7, 30), 2)


@pytest.mark.parametrize("name", TEXTS)
def test_definitions_outside_recurrences_are_computed_again(name):
    agree(TEXTS[name], "*", (4,), 3)
    program = sg.compile(TEXTS[name], check=False).forms.program
    for definition in program.definitions:
        agree(TEXTS[name], [definition.name], (4,), 3)


def test_one_sample_of_layers_without_recurrences():
    for name in ("mlp", "layernorm", "two"):
        agree(TEXTS[name], "*", (4,), None)


@pytest.mark.parametrize("wrt", ("x", "U", "V"))
def test_any_selection_may_be_computed_in_segments(wrt):
    agree(RNN, "h", (1, 7), 2, wrt)
    agree(ALONG, "*", (1, 7), 2, wrt)


def test_of_no_step_at_all_the_start_remains():
    text = "x: input[T]\na: param\ns: param\nh[-1] = s\nh[t: T] = a * h[t - 1] + x[t]\ny = sum(h)"
    agree(text, "h", (0,), 2)


def test_compiled_kernels_agree_too():
    for text in (RNN, TWO_LAGS):
        plain = sg.compile(text, check=False)
        trading = sg.compile(text, check=False, recompute="*")
        arrays = arrays_of(plain, 11, 2)
        u = np.ones_like(plain.forward(**arrays))
        expected = plain.vjp(arrays, u)
        for name, gradient in trading.vjp(arrays, u).items():
            np.testing.assert_allclose(gradient, expected[name], rtol=1e-12)


def peak_of(compiled, arrays, u):
    """The most bytes alive at once beside arguments, results included."""
    compiled.vjp(arrays, u)
    compiled.module._SPACES.clear()  # memory that is used again would not be seen
    gc.collect()
    tracemalloc.start()
    compiled.vjp(arrays, u)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_grows_with_the_root_of_the_length():
    """Bytes <= 8 B m (8 S + T/S + 1) + 8 (2 B S n + 6 (m m + m n + m + k m)) + 64 KiB.

    S = ceil(sqrt(T)) is the length of a segment: six windows of S steps (z, h_before, h and their
    adjoints), one more while it is replaced, one turned for a product; one start for each segment;
    the steps of x in a segment; parameters, their sums and products.
    """
    T, B, m, n, k = 5000, 8, 32, 16, 4
    rng = np.random.default_rng(0)
    arrays = {
        "x": rng.normal(size=(B, T, n)), "U": rng.normal(size=(m, m)) / 10,
        "W": rng.normal(size=(m, n)), "b": rng.normal(size=m), "V": rng.normal(size=(k, m)),
    }  # fmt: skip
    u = rng.normal(size=(B, k))
    plain, trading = sg.compile(RNN, check=False), sg.compile(RNN, recompute=["h"], check=False)
    S = math.isqrt(T - 1) + 1
    bound = 8 * B * m * (8 * S + -(-T // S) + 1) + 16 * B * S * n
    bound += 48 * (m * m + m * n + m + k * m) + 65536
    peak, before = peak_of(trading, arrays, u), peak_of(plain, arrays, u)
    assert peak <= bound
    assert peak < before / 8
    expected = plain.vjp(arrays, u)
    for name, gradient in trading.vjp(arrays, u).items():
        scale = np.max(np.abs(expected[name]))
        np.testing.assert_allclose(gradient, expected[name], rtol=1e-9, atol=1e-11 * scale)


def test_what_pullback_keeps_of_a_recurrence_is_where_its_segments_start():
    B, T, m = 4, 900, 8
    compiled, module = module_of(RNN, recompute="h")
    program = compiled.forms.program
    sizes = {"T": T, "n": 2, "m": m, "k": 3}
    arrays = [
        np.zeros((*((B,) if a.batched else ()), *(d.evaluate(sizes) for d in a.axes)))
        for a in program.arrays
    ]
    checked, dims, dtype, _ = module._door(*arrays)
    kept = module._record(checked, dims, dtype)
    assert {name: a.shape for name, a in kept.items()} == {
        "h_kept": (30, B, 1, m), "h_last": (B, m), "y": (B, 3),
    }  # fmt: skip


def source_of(text, function, **options):
    source = sg.compile(text, check=False, **options).source
    start = source.index(f"def {function}(")
    return with_steps(source, source[start : source.index("\n\n\n", start)])


def test_a_definition_outside_recurrences_is_not_recorded():
    text = "x: input[n]\nW: param[m, n]\nV: param[k, m]\nh = tanh(W @ x)\ny = V @ h"
    assert '"z": z' in source_of(text, "_record")
    again = source_of(text, "_record", recompute="h")
    assert '"z"' not in again and '"h"' not in again
    back = source_of(text, "_back", recompute="h")
    assert "W.T, z)" in back


def test_recurrences_that_can_run_together_share_their_segments():
    back = source_of(STACKED, "_back", recompute="*")
    assert back.count("_segment(") == 1
    assert source_of(STACKED, "_back", recompute="g").count("_segment(") == 1
    assert source_of(BESIDE, "_back", recompute="*").count("_segment(") == 2


def test_forms_other_than_products_from_the_left_stay_as_they_are():
    for function in ("_forward", "_sweep", "_tangent"):
        texts = source_of(RNN, function), source_of(RNN, function, recompute="h")
        assert len({re.sub(r"_steps_\d+", "_steps", text) for text in texts}) == 1


def test_the_module_does_not_grow_with_the_length():
    sizes = [len(sg.compile(RNN, dims={"T": length}, check=False, recompute="h").source)
             for length in (3, 300)]  # fmt: skip
    assert abs(sizes[0] - sizes[1]) < 0.02 * sizes[0]


def test_the_same_text_gives_the_same_module():
    first = sg.compile(STACKED, check=False, recompute="*").source
    assert sg.compile(STACKED, check=False, recompute=["g", "h", "z", "y"]).source == first


@pytest.mark.parametrize(
    ("wanted", "message"),
    (
        ("g", "no definition matches 'g'"),
        (["hh"], "did you mean h?"),
        ("x", "x is declared as input"),
        (["h", "U"], "U is declared as param"),
        ("q*", "no definition matches"),
        (3, "expected names"),
        ([3], "holds 3"),
        ({"h": 1}, "expected names"),
    ),
)
def test_names_that_are_no_definitions_are_refused(wanted, message):
    with pytest.raises(SelectionError) as caught:
        sg.compile(RNN, recompute=wanted)
    assert message.rstrip("?") in str(caught.value)
    assert "the layer defines h, y" in str(caught.value) or "recompute=" in str(caught.value)


def test_a_module_remembers_what_it_computes_again(tmp_path):
    path = tmp_path / "rnn_jac.py"
    compiled = sg.compile(RNN, recompute=["h"], path=path)
    assert compiled.module.OPTIONS["recompute"] == ("h_before", "z", "h")
    assert sg.check(str(path), dims={"T": 3, "n": 2, "m": 2, "k": 2}).ok
    assert "recompute" not in sg.compile(RNN, check=False).module.OPTIONS
