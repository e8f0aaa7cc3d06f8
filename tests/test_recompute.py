"""recompute=: less is stored, the same gradients come out, and memory stays within its bound."""

import gc
import math
import tracemalloc

import numpy as np
import pytest
from layers import TEXTS
from recurrences import GRU, KALMAN, LITERAL, RECURRENCES, RNN, SHARED_ONLY, STACKED, TWO_LAGS

import symgrad as sg
from symgrad import build
from symgrad.errors import SelectionError

SIZES = {"n": 3, "m": 4, "k": 2, "v": 5, "h": 5, "c": 2, "o": 3, "d": 3, "p": 2}
SEGMENTED = sorted(RECURRENCES)
CONVOLVED = """
x: input[2*T + 1, n]
A: param[T, n, n]
h[t: T] = tanh(A[t] @ h[t - 1] + x[2*t] + x[2*t + 1])
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


def agree(text, names, length, batch, **options):
    plain, reference = module_of(text, **options)
    trading, module = module_of(text, recompute=names, **options)
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


def lengths(text):
    return (4,) if "T" not in text else (1, 2, 7)


@pytest.mark.parametrize("name", SEGMENTED)
@pytest.mark.parametrize("batch", (None, 3))
def test_recurrences_in_segments_give_the_same_gradients(name, batch):
    text = RECURRENCES[name]
    for length in lengths(text):
        agree(text, "*", length, batch)


@pytest.mark.parametrize("name", SEGMENTED)
def test_long_recurrences_in_segments_give_the_same_gradients(name):
    if "T" in RECURRENCES[name]:
        agree(RECURRENCES[name], "*", 500, 2)


@pytest.mark.parametrize("name", MORE)
@pytest.mark.parametrize("batch", (None, 2))
def test_what_stands_around_recurrences_is_right_too(name, batch):
    program = sg.compile(MORE[name], check=False).forms.program
    written = [d.name for d in program.definitions if d.written]
    for names in ("*", *([n] for n in written)):
        for length in (1, 2, 3, 5, 7, 30):
            agree(MORE[name], names, length, batch)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("batch", (None, 3))
def test_definitions_outside_recurrences_are_computed_again(name, batch):
    agree(TEXTS[name], "*", 4, batch)
    program = sg.compile(TEXTS[name], check=False).forms.program
    for definition in program.definitions:
        agree(TEXTS[name], [definition.name], 4, batch)
