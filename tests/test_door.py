"""Laws of the door: arrays that fit are only looked at, all others go the complete way."""

from __future__ import annotations

import numpy as np
import pytest
from layers import TEXTS, arrays_for, compiled, sample

import symgrad as sg


@pytest.fixture(scope="module", params=sorted(TEXTS))
def one(request):
    return sample(request.param)


@pytest.fixture
def slowly(monkeypatch):
    """Return a function that notes when a module goes the complete way."""
    calls = []

    def watch(module):
        own = module._arrays

        def noted(values):
            calls.append(values)
            return own(values)

        monkeypatch.setattr(module, "_arrays", noted)
        return calls

    return watch


def through(jac, arrays):
    return jac.module._door(*jac._doorwise(list(arrays.values()), {}))


def same(found, expected):
    """Whether two passes through the door give the same arrays, sizes, dtype and kind of call."""
    assert len(found[0]) == len(expected[0])
    for ours, theirs in zip(found[0], expected[0], strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        assert ours.flags.c_contiguous
        np.testing.assert_array_equal(ours, theirs)
    assert found[1:] == expected[1:]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("batch", [3, 1, None])
def test_arrays_that_fit_are_looked_at_only(one, batch, dtype, slowly):
    arrays = arrays_for(one.jac, batch=batch, dtype=dtype)
    calls = slowly(one.jac.module)
    found = through(one.jac, arrays)
    assert not calls
    padded = {n: np.repeat(a[..., np.newaxis], 2, -1)[..., 0] for n, a in arrays.items()}
    same(found, through(one.jac, padded))
    assert calls or all(a.flags.c_contiguous for a in padded.values())
    for given, taken in zip(arrays.values(), found[0], strict=False):
        assert np.may_share_memory(given, taken)


@pytest.mark.parametrize("name", ["dense", "two", "embedding", "consts"])
@pytest.mark.parametrize("kind", ["list", "order", "dtype", "mixed", "subclass", "swapped"])
def test_other_arrays_go_the_complete_way(name, kind, slowly):
    class Own(np.ndarray):
        """An array of another class."""

    jac = compiled(TEXTS[name])
    arrays = arrays_for(jac)
    at = "E" if name == "embedding" else next(n for n, a in arrays.items() if np.ndim(a) == 2)
    own = arrays[at]
    odd = {
        "list": own.tolist(),
        "order": np.asfortranarray(own),
        "dtype": own.astype(np.float32).astype(np.float64).round().astype(int),
        "mixed": own.astype(np.float32),
        "subclass": own.view(Own),
        "swapped": own.astype(own.dtype.newbyteorder()),
    }[kind]
    calls = slowly(jac.module)
    found = through(jac, {**arrays, at: odd})
    assert calls
    plain = np.array(np.asarray(odd), np.float64, order="C")
    same(found, through(jac, {**arrays, at: plain}))


def test_numbers_are_taken_as_they_are(slowly):
    jac = compiled(TEXTS["consts"])
    arrays = arrays_for(jac)
    calls = slowly(jac.module)
    for number in (0.25, np.float64(0.25), np.array(0.25)):
        found = jac.module._door(*arrays.values(), number)
        assert found[0][-1].dtype == np.float64
        assert found[0][-1] == 0.25
    assert not calls
    single = {n: a.astype(np.float32) for n, a in arrays.items()}
    assert jac.module._door(*single.values(), 0.25)[2] == np.float32
    assert not calls
    assert jac.module._door(*single.values(), np.float64(0.25))[2] == np.float64
    assert calls, "a number of numpy has a dtype of its own"


def test_complex_arrays_pass_where_kernels_take_them(slowly):
    jac = compiled("x: input[n]\nW: param[m, n]\ny = exp(W @ x)")
    arrays = {n: a + 1j for n, a in arrays_for(jac).items()}
    calls = slowly(jac.module)
    assert through(jac, arrays)[2] == np.complex128
    assert not calls
    real = compiled("x: input[n]\nW: param[m, n]\ny = abs(W @ x)")
    with pytest.raises(sg.ArgumentError, match="complex128 is not possible here"):
        through(real, {n: a + 1j for n, a in arrays_for(real).items()})


@pytest.mark.parametrize("batches", [(3, 2), (None, 3), (3, None)])
def test_all_inputs_have_as_many_samples_or_none(batches):
    jac = compiled("x: input[n]\nz: input[n, m]\nw: param[m]\ny = x + z @ w")
    x, z, w = (arrays_for(jac, batch=b) for b in (*batches, 3))
    with pytest.raises(sg.ShapeError, match=r"samples|batch axis"):
        jac.forward(x["x"], z["z"], w["w"])


def test_an_array_called_like_what_the_door_calls_is_an_array():
    jac = compiled("type: input[n]\nlen: param[m, n]\nwords: param[m]\ny = len @ type + words")
    arrays = arrays_for(jac)
    expected = arrays["type"] @ arrays["len"].T + arrays["words"]
    np.testing.assert_allclose(jac.forward(**arrays), expected, rtol=1e-13)
    np.testing.assert_allclose(jac.module.forward(*arrays.values()), expected, rtol=1e-13)


@pytest.mark.parametrize("batch", [3, None])
def test_views_of_one_memory_are_told_from_arrays_apart(batch):
    """Filling an array that overlaps an argument changes no result; neighbours are filled."""
    jac = compiled(TEXTS["dense"], "params")
    arrays = arrays_for(jac, batch=batch)
    expected = jac.jac_W(**arrays)
    memory = np.zeros(expected.size + 100)
    places = {"start": 0, "behind": 100}
    for where, start in places.items():
        x = memory[: arrays["x"].size].reshape(arrays["x"].shape)
        x[...] = arrays["x"]
        out = memory[start : start + expected.size].reshape(expected.shape)
        assert np.shares_memory(x, out) == (where == "start")
        found = jac.jac_W(x, arrays["W"], arrays["b"], out=out)
        assert found is out
        np.testing.assert_array_equal(out, expected)
