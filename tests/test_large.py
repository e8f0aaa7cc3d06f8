"""Laws of large arrays: products in pieces are products, and what does not fit is refused."""

from __future__ import annotations

import numpy as np
import pytest
from layers import compiled

import symgrad as sg


@pytest.fixture(scope="module")
def dense():
    """A dense layer, compiled as plain Python."""
    return compiled("x: input[n]\nW: param[m, n]\nb: param[m]\ny = tanh(W @ x + b)")


@pytest.mark.parametrize(
    ("rows", "inner", "columns"),
    [(9000, 8, 8), (8192, 64, 64), (200, 64, 64), (4097, 64, 64), (4097, 0, 64), (4097, 64, 0)],
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_product_in_pieces_is_the_product(dense, rows, inner, columns, order):
    rng = np.random.default_rng(0)
    left = np.asarray(rng.normal(size=(rows, inner)), order=order)
    right = np.asarray(rng.normal(size=(inner, columns)), order=order)
    out = np.full((rows, columns), np.nan)
    dense.module._matmul(left, right, out)
    size = np.abs(left) @ np.abs(right)
    assert np.all(np.abs(out - left @ right) <= inner * np.finfo(float).eps * size)


@pytest.fixture
def nearly_full(dense, monkeypatch):
    """Let the module believe that a kilobyte is huge and two are free."""
    monkeypatch.setattr(dense.module, "_HUGE", 1024)
    monkeypatch.setattr(dense.module, "_free_bytes", lambda: 2048)
    return dense


def test_an_array_that_memory_cannot_hold_is_refused_before_it_is_made(nearly_full):
    x, W, b = np.ones((40, 6)), np.ones((3, 6)), np.ones(3)
    J = nearly_full.jacobian(x, W, b)
    for form in (J["W"].dense, lambda: np.asarray(J["W"]), lambda: nearly_full.jac_W(x, W, b)):
        with pytest.raises(sg.TooLargeError, match=r"dy/dW.*\[40, 3, 3, 6\].* GiB.*factors.*vjp"):
            form()
    assert issubclass(sg.TooLargeError, (MemoryError, sg.SymgradError))
    assert J["b"].compact().shape == (40, 3), "what fits is made"
    strided = np.empty((40, 3, 3, 12))[..., ::2]
    with pytest.raises(sg.TooLargeError, match="dy/dW"):
        J["W"].dense(out=strided)


def test_what_numpy_cannot_get_is_said_in_the_same_way(dense, monkeypatch):
    monkeypatch.setattr(dense.module, "_free_bytes", lambda: np.inf)
    shape = (2**40, 2**40)
    with pytest.raises(
        sg.TooLargeError, match=r"dy/dW as an array \[1099511627776, 1099511627776\]"
    ):
        dense.module._empty("dy/dW", shape, np.dtype(float))


def test_the_platform_tells_how_much_is_free(dense):
    assert 0 < dense.module._free_bytes() < np.inf


def test_memory_that_runs_out_inside_a_call_is_one_kind_of_error(dense, monkeypatch):
    monkeypatch.setattr(dense.module, "_free_bytes", lambda: np.inf)
    x = np.broadcast_to(np.float64(0), (10**9, 10**6))
    W, b = np.broadcast_to(np.float64(0), (1, 10**6)), np.zeros(1)
    for form in (dense.forward, dense.jacobian, dense.pullback, dense.jac_W):
        with pytest.raises(sg.TooLargeError, match="Unable to allocate"):
            form(x, W, b)


def test_a_structured_jacobian_says_how_it_is_indexed(dense):
    J = dense.jacobian(np.ones((2, 3)), np.ones((2, 3)), np.ones(2))
    with pytest.raises(TypeError, match=r"dy/dW .*\n.*\.dense\(\)\[\.\.\.\].*np\.asarray"):
        J["W"][0]
    with pytest.raises(TypeError, match="not iterable"):
        iter(J["W"])
    with pytest.raises(AttributeError, match=r"\.dense\(\)\.transpose"):
        J["W"].transpose(0, 1)
    assert not hasattr(J["W"], "no_such_thing")
