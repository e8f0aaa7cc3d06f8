"""Mistakes with structured Jacobians are told in one message each."""

import numpy as np
import pytest
from layers import unvalidated

import symgrad as sg
from symgrad.bench import bench
from symgrad.products.kronecker import Kronecker

TEXT = "x: input[n]\nW: param[m, n]\ny = W @ x"


@pytest.fixture(scope="module")
def J():
    return unvalidated(TEXT, plain=True).jacobian(np.zeros((2, 3)), np.ones((4, 3)))


def test_inverses_of_kronecker_factors_want_a_damping_that_fits(J):
    with pytest.raises(sg.ArgumentError, match="singular"):
        J["W"].kfac().inverse(0.0)
    for wrong in ("x", -1, np.nan):
        with pytest.raises(sg.ArgumentError, match="damping must be a number"):
            J["W"].kfac().inverse(wrong)


def test_a_kronecker_product_too_large_is_refused():
    size = 3000
    factors = (np.broadcast_to(1.0, (size, size)), np.broadcast_to(1.0, (size, size)))
    with pytest.raises(sg.TooLargeError):
        Kronecker(factors, ((0,), (1,))).dense()


@pytest.mark.parametrize("m", [2, 3])
def test_a_root_of_what_is_no_number_is_refused(m):
    J = unvalidated(TEXT, plain=True).jacobian(np.ones((2, 3)), np.ones((m, 3)))
    with pytest.raises(sg.ArgumentError, match="no finite numbers"):
        J.sqrt_ggn(np.full((2, m, m), np.nan))


def test_take_and_scatter_want_mappings(J):
    jac = unvalidated(TEXT, plain=True)
    W = np.ones((4, 3))
    for call in (lambda: jac.take(W), lambda: jac.scatter(W, {"W": W}), lambda: J.scatter(W),
                 lambda: J.scatter(None)):  # fmt: skip
        with pytest.raises(sg.ArgumentError, match="mapping of names"):
            call()


def test_what_has_zeros_already_is_scattered_as_it_is():
    jac = unvalidated(TEXT, wrt={"W": np.s_[1:]}, plain=True, unselected="zeros")
    J = jac.jacobian(np.ones((2, 3)), np.ones((4, 3)))
    whole = J.vjp(np.ones((2, 4)))
    np.testing.assert_array_equal(J.scatter(whole)["W"], whole["W"])


def test_a_benchmark_too_large_is_refused():
    with pytest.raises(sg.TooLargeError):
        bench(TEXT, batch=2, dims={"n": 10**6, "m": 10**6}, seconds=0)
