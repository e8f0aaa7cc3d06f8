"""Laws of memory: what does not fit is refused before it is taken, with numbers and a way out."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from layers import TEXTS, arrays_for, compiled

import symgrad as sg
from symgrad import chunks, memory, room
from symgrad.room import sizes_of_shapes

FREE = 10 * 2**30


@pytest.fixture(scope="module")
def dense():
    """A dense layer, compiled as plain Python."""
    return compiled("x: input[n]\nW: param[m, n]\nb: param[m]\ny = tanh(W @ x + b)", "params")


@pytest.fixture
def ten_gib(dense, monkeypatch):
    """Let the platform have ten GiB free."""
    monkeypatch.setattr(dense.module, "_free_bytes", lambda: FREE)
    return dense


def absurd(*shape):
    """An array of any size that takes no memory."""
    return np.broadcast_to(np.float64(0), shape)


def refused(call, match):
    """The call is refused, and has allocated nothing large."""
    tracemalloc.start()
    try:
        with pytest.raises(sg.TooLargeError, match=match):
            call()
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("form", "instead"),
    [
        ("forward", "chunk="),
        ("jacobian", r"jac\.chunks"),
        ("jac_W", "jac_W_compact, jac_W_factors, vjp"),
        ("vjp", "chunk="),
        ("vjp_per_sample", "chunk="),
        ("jvp", "chunk="),
        ("pullback", "vjp with chunk="),
    ],
)
def test_a_call_that_memory_cannot_hold_is_refused_before_it_runs(ten_gib, form, instead):
    x, W, b = absurd(10**7, 10**5), absurd(10**3, 10**5), absurd(10**3)
    extra = {"vjp": (absurd(10**7, 10**3),), "vjp_per_sample": (absurd(10**7, 10**3),)}
    extra["jvp"] = ({"W": W},)
    numbers = r"takes [\d,.]+ [TPE]iB, but only 10\.0 GiB are free"
    call = getattr(ten_gib, form)
    refused(lambda: call(x, W, b, *extra.get(form, ())), rf"(?s){form}.*{numbers}.*{instead}")


def test_a_call_is_known_to_be_small_by_what_its_arrays_are_called(monkeypatch):
    jac = compiled("x: input[n]\nW: param[m, n]\ny = tanh(W @ x)", "params")
    monkeypatch.setattr(jac.module, "_free_bytes", lambda: FREE)
    many, few = np.ones((10**5, 1)), np.ones((2, 1))
    assert jac.jac_W(W=few, x=many).shape == (10**5, 2, 2, 1)
    refused(lambda: jac.jac_W(x=few, W=many), r"jac_W \(results of .*iB\)")


def test_the_number_is_that_of_the_plan(ten_gib):
    arrays = {"x": absurd(4000, 5), "W": np.ones((10**5, 5)), "b": np.ones(10**5)}
    plan = ten_gib.plan(4000, {"m": 10**5, "n": 5})
    sizes = sizes_of_shapes(ten_gib.forms.program.arrays, arrays)
    need, results = ten_gib.room.needs("vjp", sizes, 8)
    assert (need, results) == (int(plan["vjp"].peak), int(plan["vjp"].results))


def test_second_derivatives_that_memory_cannot_hold_are_refused(monkeypatch):
    jac = compiled("x: input[n]\nW: param[m, n]\ny = tanh(W @ x)", "params", order=2)
    monkeypatch.setattr(jac.module, "_free_bytes", lambda: FREE)
    x, W = absurd(10**4, 10**3), absurd(10**3, 10**3)
    refused(lambda: jac.hess_W_W(x, W), "(?s)hess_W_W.*iB.*hess_W_W_compact.*hvp")
    refused(lambda: jac.hessian_sum(x, W, absurd(10**4, 10**3)), "(?s)hessian_sum.*iB")


@pytest.fixture
def wide(dense, monkeypatch):
    """Return the Jacobians of some samples, where only ten megabytes are free."""
    J = dense.jacobian(np.ones((30, 4)), np.ones((40, 4)), np.ones(40))
    monkeypatch.setattr(memory, "HUGE", 2**16)
    monkeypatch.setattr(dense.module, "_free_bytes", lambda: 2**17)
    return J


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda J: J["W"].dense(), r"dy/dW as an array \[30, 40, 40, 4\].*compact\(\).*vjp"),
        (lambda J: np.asarray(J["W"]), r"dy/dW as an array .*to_scipy\(\)"),
        (lambda J: J.gram(), r"gram as an array \[30, 40, 30, 40\].*diagonal="),
        (lambda J: J["W"].gram(), r"gram as an array \[30, 40, 30, 40\]"),
        (lambda J: J.ggn(), r"ggn as 4 arrays \[40, 4, 40, 4\], .*\.\.\..*ggn_matvec"),
        (lambda J: J["W"].ggn(), r"ggn as an array \[40, 4, 40, 4\].*ggn_diagonal"),
        (lambda J: J.sqrt_ggn(), r"sqrt_ggn as 2 arrays .*ggn_matvec"),
        (lambda J: J.functional_variance(1.0), r"functional_variance as an array \[30, 40, 40\]"),
    ],
)
def test_a_result_that_memory_cannot_hold_is_refused_with_what_to_use(wide, call, match):
    numbers = r".*takes [\d.]+ [KM]iB, but only 128\.0 KiB are free"
    with pytest.raises(sg.TooLargeError, match=rf"(?s){match}"):
        call(wide)
    with pytest.raises(sg.TooLargeError, match=numbers):
        call(wide)


def test_what_fits_is_made(wide):
    assert wide["W"].compact().shape == (30, 40, 4)
    assert wide.norm().shape == (30,)
    assert wide.ggn_diagonal()["W"].shape == (40, 4)
    out = np.empty((30, 40, 40, 4))
    assert wide["W"].dense(out=out) is out, "an array that is there needs no room"


def test_pieces_make_room_for_a_call_that_has_none(dense, monkeypatch):
    rng = np.random.default_rng(0)
    x, W, b, u = (rng.normal(size=s) for s in ((200, 4), (40, 4), 40, (200, 40)))
    whole = dense.vjp(x, W, b, u)
    monkeypatch.setattr(room, "HUGE", 2**12)
    monkeypatch.setattr(memory, "HUGE", 2**12)
    monkeypatch.setattr(chunks, "HUGE", 2**12)
    monkeypatch.setattr(dense.module, "_free_bytes", lambda: 2**16)
    dense.room._small.clear()
    with pytest.raises(sg.TooLargeError, match="chunk="):
        dense.vjp(x, W, b, u)
    pieces = dense.vjp(x, W, b, u, chunk=20)
    for name, gradient in pieces.items():
        np.testing.assert_allclose(gradient, whole[name], rtol=1e-12, atol=1e-12)
    with pytest.raises(sg.TooLargeError, match="result of all samples"):
        dense.jac_W(x, W, b, chunk=20)
    dense.room._small.clear()


@pytest.mark.parametrize("name", TEXTS)
def test_sizes_follow_from_shapes(name):
    jac = compiled(TEXTS[name], "params" if name != "embedding" else "E")
    arrays = arrays_for(jac, batch=5)
    sizes = sizes_of_shapes(jac.forms.program.arrays, arrays)
    _, found, _, _ = jac.module._door(*jac._doorwise([*arrays.values()], {}))
    known = dict(zip(jac._sizes, found, strict=True))
    assert sizes == {"#B": 1, **known}


def test_sizes_in_polynomials_are_solved():
    jac = compiled("x: input[2*h + 1, h*d]\nw: param[d]\ny = sum(x) * sum(w)")
    arrays = {"x": np.ones((3, 7, 6)), "w": np.ones(2)}
    found = sizes_of_shapes(jac.forms.program.arrays, arrays)
    assert found == {"#B": 3, "h": 3, "d": 2}
    assert sizes_of_shapes(jac.forms.program.arrays, {"x": np.ones(3), "w": 1}) is None


def test_no_form_exceeds_the_bound_by_which_small_calls_are_known():
    for name in ("dense", "conv", "attention", "shared", "outer", "tied", "softmax"):
        jac = compiled(TEXTS[name], order=2 if name in ("tied", "softmax") else 1)
        arrays = arrays_for(jac, batch=6)
        sizes = sizes_of_shapes(jac.forms.program.arrays, arrays)
        bound = jac.room.bound(sizes, 8)
        for form in jac.plan():
            assert jac.room.needs(form, sizes, 8)[0] <= bound, (name, form)
