"""Laws of `jac.jac_θ`: plain calls go straight to the module, and give and refuse the same."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from layers import TEXTS, arrays_for, compiled

import symgrad as sg
from symgrad import compiled as compiling


@pytest.fixture
def jac():
    return compiled(TEXTS["dense"], "params")


@pytest.fixture
def bindings(monkeypatch):
    """Return the names of the forms whose arguments were read in full."""
    found = []
    own = compiling.read_arguments

    def noted(where, *rest):
        found.append(where)
        return own(where, *rest)

    monkeypatch.setattr(compiling, "read_arguments", noted)
    return found


def test_a_plain_call_reads_its_arguments_once_only(jac, bindings, monkeypatch):
    arrays = arrays_for(jac)
    expected, out = jac.jac_W(**arrays), np.empty((3, 3, 3, 4))
    assert len(bindings) == 1
    asked = []
    monkeypatch.setattr(type(jac.room), "require", lambda *args: asked.append(args))
    np.testing.assert_array_equal(jac.jac_W(*arrays.values()), expected)
    assert jac.jac_W(*arrays.values(), out=out) is out
    np.testing.assert_array_equal(out, expected)
    assert len(bindings) == 1
    assert not asked, "calls of these shapes are known to be small"
    jac.jac_W(*arrays.values(), chunk=2)
    jac.jac_W(arrays)
    assert len(bindings) > 1


def test_a_plain_call_refuses_what_others_refuse(jac):
    x, W, b = arrays_for(jac).values()
    for call in (jac.jac_W, jac.jac_W_compact, jac.jac_W_factors):
        with pytest.raises(sg.ArgumentError, match=r"jac_W\w*: b is missing"):
            call(x, W)
        with pytest.raises(sg.ArgumentError, match="takes 3 arrays"):
            call(x, W, b, b)
        with pytest.raises(sg.ShapeError, match="axis 0 of b has size 2, expected m = 3"):
            call(x, W, b[:2])
    with pytest.raises(sg.ArgumentError, match="factors are not copied"):
        jac.jac_W_factors(x, W, b, out=np.empty(3))
    with pytest.raises(sg.ShapeError, match="out has shape"):
        jac.jac_W(x, W, b, out=np.empty(3))
    with pytest.raises(AttributeError, match="it differentiates with respect to W, b"):
        _ = jac.jac_x


def test_memory_that_runs_out_is_told_in_one_way(jac, monkeypatch):
    def full(*args, **kwargs):
        raise MemoryError("Unable to allocate 1 EiB")

    monkeypatch.setattr(jac.module, "_sweep_dense", full)
    out = np.empty((3, 3, 3, 4))
    with pytest.raises(sg.TooLargeError, match=r"more memory than is free: Unable to allocate"):
        jac.jac_W(*arrays_for(jac).values(), out=out)


def test_a_function_of_a_compiled_layer_is_pickled_with_it():
    jac = compiled(TEXTS["dense"], "params", plain=False)
    arrays = arrays_for(jac)
    other = pickle.loads(pickle.dumps(jac.jac_W))
    np.testing.assert_array_equal(other(**arrays), jac.jac_W(**arrays))
    assert "jac_W" in repr(jac.jac_W)


def test_threads_may_call_at_once():
    jac = compiled(TEXTS["dense"], "params", plain=False)
    many = [arrays_for(jac, seed=seed) for seed in range(8)]
    expected = [np.array(jac.module.jac_W(*a.values())) for a in many]
    fresh = jac.select("W")

    def run(number):
        arrays, out = many[number % 8], np.empty((3, 3, 3, 4))
        fresh.jac_W(*arrays.values(), out=out)
        dense = fresh.dense(*arrays.values())["W"]
        J = fresh.jacobian(*arrays.values())["W"].dense()
        return all(np.array_equal(found, expected[number % 8]) for found in (out, dense, J))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(400)))
