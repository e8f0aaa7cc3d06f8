"""Laws of pieces along the batch: what they give is what the whole call gives."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from layers import TEXTS, compiled, sample
from recurrences import RNN

import symgrad as sg
from symgrad.batch import outward, place

NAMES = ("dense", "conv", "embedding", "two", "tied", "shared", "params_only", "consts", "rnn")
SIZES = (1, 2, 3, 7, 100)


@pytest.fixture(scope="module")
def layers():
    """Layers of every kind with seven samples."""
    return {n: sample(n, batch=7, text=RNN if n == "rnn" else TEXTS[n]) for n in NAMES}


def flat(found):
    """Return all arrays of a result, by name."""
    if isinstance(found, dict):
        return {(n, *k): a for n, f in found.items() for k, a in flat(f).items()}
    if isinstance(found, tuple):
        return {(n, *k): a for n, f in enumerate(found) for k, a in flat(f).items()}
    return {(): np.asarray(found)}


def same(found, whole, rows):
    """Rows of samples are those of the calls; sums over samples agree to rounding."""
    ours, theirs = flat(found), flat(whole)
    assert ours.keys() == theirs.keys()
    for key, value in ours.items():
        expected = theirs[key]
        assert value.shape == expected.shape and value.dtype == expected.dtype
        size = np.abs(expected).max(initial=1.0)
        np.testing.assert_allclose(value, expected, rtol=0, atol=rows * 1e-15 * 16 * size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_pieces_of_every_form_are_the_whole(layers, name, size):
    one = layers[name]
    u = one.given(one.random_u())
    for form in ("forward", *(f"jac_{n}" for n in one.jac.wrt)):
        run = getattr(one.jac, form)
        same(run(**one.arrays, chunk=size), run(**one.arrays), 7)
    for form in ("vjp", "vjp_per_sample"):
        run = getattr(one.jac, form)
        same(run(*one.positional, u, chunk=size), run(*one.positional, u), 7)
    tangents = one.tangents()
    same(
        one.jac.jvp(*one.positional, tangents, chunk=size),
        one.jac.jvp(*one.positional, tangents),
        7,
    )
    for options in ({"sum": True}, {"sum": True, "per_sample": True}):
        whole = one.jac.gradient(**one.arrays, **options)
        same(one.jac.gradient(**one.arrays, **options, chunk=size), whole, 7)


@pytest.mark.parametrize("name", ["dense", "conv", "two", "rnn"])
def test_rows_of_samples_are_bit_for_bit_those_of_calls_with_these_samples(layers, name):
    one = layers[name]
    batched = [a.name for a in one.jac.forms.program.arrays if a.batched]
    parts = [
        {n: a[rows] if n in batched else a for n, a in one.arrays.items()}
        for rows in (slice(0, 3), slice(3, 6), slice(6, 7))
    ]
    for form in ("forward", *(f"jac_{n}" for n in one.jac.wrt)):
        run = getattr(one.jac, form)
        together = flat(run(**one.arrays, chunk=3))
        single = [flat(run(**part)) for part in parts]
        for key, value in together.items():
            expected = np.concatenate([f[key] for f in single])
            np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize("name", ["conv", "consts", "functions"])
def test_without_products_of_matrices_pieces_are_the_whole_bit_for_bit(layers, name):
    text = "x: input[n]\na: param[n]\ny = tanh(x * a) + softmax(x) * exp(a)"
    one = layers[name] if name in layers else sample(name, batch=7, text=text)
    for form in ("forward", *(f"jac_{n}" for n in one.jac.wrt)):
        run = getattr(one.jac, form)
        for size in (1, 3):
            np.testing.assert_array_equal(run(**one.arrays, chunk=size), run(**one.arrays))


def test_pieces_fill_the_array_that_is_given(layers):
    one = layers["dense"]
    whole = one.jac.jac_W(**one.arrays, chunk=2)
    for out in (np.full(whole.shape, np.nan), np.full((*whole.shape, 2), np.nan)[..., 1]):
        assert one.jac.jac_W(**one.arrays, out=out, chunk=2) is out
        np.testing.assert_array_equal(out, whole)
    with pytest.raises(sg.ShapeError, match="out has shape"):
        one.jac.jac_W(**one.arrays, out=np.empty((6, *whole.shape[1:])), chunk=2)
    outs = tuple(np.empty(np.shape(j)) for j in layers["two"].jac.jac_W(**layers["two"].arrays))
    found = layers["two"].jac.jac_W(**layers["two"].arrays, out=outs, chunk=3)
    for ours, given in zip(found, outs, strict=True):
        assert ours is given


def test_compact_jacobians_come_in_pieces_and_factors_do_not(layers):
    one = layers["dense"]
    pieces, whole = (one.jac.jac_W_compact(**one.arrays, **o) for o in ({"chunk": 2}, {}))
    same(pieces, whole, 1)
    with pytest.raises(sg.ArgumentError, match="jac_W_factors has no pieces"):
        one.jac.jac_W_factors(**one.arrays, chunk=2)


@pytest.mark.parametrize("batch", [0, None])
def test_no_sample_and_a_single_one_have_no_pieces(batch):
    one = sample("dense", batch=batch)
    u = one.given(one.random_u())
    for form in ("forward", "jac_W"):
        run = getattr(one.jac, form)
        np.testing.assert_array_equal(run(**one.arrays, chunk=2), run(**one.arrays))
    same(one.jac.vjp(*one.positional, u, chunk=2), one.jac.vjp(*one.positional, u), 1)


def test_pieces_keep_float32():
    one = sample("dense", batch=5)
    arrays = {n: a.astype(np.float32) for n, a in one.arrays.items()}
    assert one.jac.jac_W(**arrays, chunk=2).dtype == np.float32
    assert one.jac.forward(**arrays, chunk=2).dtype == np.float32


def test_wrong_pieces_are_refused(layers):
    one = layers["dense"]
    for chunk in (0, -1):
        with pytest.raises(sg.ArgumentError, match=r"chunk is .*cannot be less than 1"):
            one.jac.forward(**one.arrays, chunk=chunk)
    with pytest.raises(sg.ArgumentError, match="expected a whole number"):
        one.jac.forward(**one.arrays, chunk=1.5)
    with pytest.raises(sg.ArgumentError, match="not both"):
        one.jac.forward(**one.arrays, chunk=1, memory_limit="1GB")
    for limit in ("2 buckets", "GB"):
        with pytest.raises(sg.ArgumentError, match="no number of bytes"):
            one.jac.forward(**one.arrays, memory_limit=limit)
    with pytest.raises(sg.ShapeError, match="u has shape"):
        one.jac.vjp(*one.positional, np.ones((6, 3)), chunk=2)


@pytest.mark.parametrize(
    ("name", "axis"), [("dense", -1), ("conv", -1), ("conv", 1), ("two", -1), ("tied", -1)]
)
def test_pieces_keep_the_batch_axis_where_it_is(name, axis):
    one = sample(name, batch=5)
    jac = replace(one.jac, batch_axis=axis)
    table = {a.name: a.batched for a in jac.forms.program.arrays}
    arrays = {n: outward(a, (0,), axis) if table[n] else a for n, a in one.arrays.items()}
    u = tuple(outward(v, (0,), axis) for v in one.random_u())
    u = u if len(u) > 1 else u[0]
    tangents = {
        n: outward(t, (0,), axis) if table[n] else t for n, t in one.tangents().items()
    }
    for form in ("forward", *(f"jac_{n}" for n in jac.wrt)):
        run = getattr(jac, form)
        same(run(**arrays, chunk=2), run(**arrays), 5)
    for form, last in (("vjp", u), ("vjp_per_sample", u), ("jvp", tangents)):
        run = getattr(jac, form)
        same(run(*arrays.values(), last, chunk=2), run(*arrays.values(), last), 5)
    for rows, J in jac.chunks(**arrays, size=2):
        parts = {n: a.take(range(5)[rows], place(axis, a.ndim - 1)) if table[n] else a
                 for n, a in arrays.items()}  # fmt: skip
        same(J.value, jac.forward(**parts), 1)
    if name == "dense":
        out = np.empty(np.shape(jac.jac_W(**arrays)))
        assert jac.jac_W(**arrays, out=out, chunk=2) is out
        same(out, jac.jac_W(**arrays), 1)


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize("name", ["dense", "two", "tied", "embedding", "consts", "params_only"])
def test_pieces_of_second_derivatives_are_the_whole(name, size, axis):
    one = sample(name, batch=5, order=2)
    jac = replace(one.jac, batch_axis=axis)
    table = {a.name: a.batched for a in jac.forms.program.arrays}

    def moved(arrays):
        return {n: outward(a, (0,), axis) if table[n] else a for n, a in arrays.items()}

    arrays = moved(one.arrays).values()
    u = one.given(tuple(outward(v, (0,), axis) if one.batched else v for v in one.random_u()))
    tangents = moved(one.tangents())
    for form, last in (("hvp", (u, tangents)), ("hessian_sum", (u,))):
        run = getattr(jac, form)
        whole = run(*arrays, *last)
        for limit in ({"chunk": size}, {"memory_limit": "1GB"}):
            found = run(*arrays, *last, **limit)
            assert list(found) == list(whole)
            same(found, whole, 5)


def test_what_numpy_cannot_read_is_refused_as_without_pieces(layers):
    class Unreadable:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("secret")

    jac = layers["dense"].jac
    for call in (lambda: jac.forward(Unreadable(), 1, 1, chunk=2),
                 lambda: jac.chunks(Unreadable(), 1, 1, size=2)):  # fmt: skip
        with pytest.raises(sg.ArgumentError, match=r"x is no array .*secret"):
            call()


def test_the_word_moves_aside_where_an_array_has_it():
    jac = compiled("x: input[n]\nchunk: param[n]\nsize: param\ny = tanh(size * chunk * x)")
    x, c = np.ones((5, 3)), np.arange(3.0)
    whole = jac.forward(x, c, 2.0)
    np.testing.assert_array_equal(jac.forward(x, chunk=c, size=2.0, chunk_=2), whole)
    parts = [J.value for _, J in jac.chunks(x, c, 2.0, size_=2)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_chunks_are_the_jacobians_of_rows(layers):
    one = layers["dense"]
    (u,) = one.random_u()
    J = one.jac.jacobian(**one.arrays)
    total = np.zeros_like(one.arrays["W"])
    seen = []
    for rows, part in one.jac.chunks(**one.arrays, size=3):
        same(part["W"].dense(), J["W"].dense()[rows], 1)
        total += part.vjp(u[rows])["W"]
        seen += list(range(7))[rows]
    assert seen == list(range(7))
    np.testing.assert_allclose(total, J.vjp(u)["W"], rtol=1e-13)
    with pytest.raises(sg.ArgumentError, match="size is missing"):
        one.jac.chunks(**one.arrays)


def test_a_limit_is_kept_to():
    jac = compiled("x: input[n]\nW: param[m, n]\ny = softmax(W @ x)", "params", plain=False)
    rng = np.random.default_rng(0)
    x, W = rng.normal(size=(3000, 20)), rng.normal(size=(40, 20))
    u = rng.normal(size=(3000, 40))
    whole = jac.vjp(x, W, u)["W"]
    peak = int(jac.plan(3000, {"m": 40, "n": 20})["vjp"].peak)
    limit = peak // 8
    tracemalloc.start()
    found = jac.vjp(x, W, u, memory_limit=limit)["W"]
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert used < limit + 50_000, "small objects of Python come on top"
    assert limit > 2**17
    np.testing.assert_allclose(found, whole, rtol=1e-11, atol=1e-11)
    same(jac.vjp(x, W, u, memory_limit="1GB"), {"W": whole}, 1)
    with pytest.raises(sg.TooLargeError, match=r"one sample at a time.*memory_limit"):
        jac.vjp(x, W, u, memory_limit=1000)


def test_units_of_a_limit():
    from symgrad.chunks import bytes_of

    assert bytes_of("2GB") == 2_000_000_000
    assert bytes_of("1.5 KiB") == 1536
    assert bytes_of("1 mib") == 2**20
    assert bytes_of(77) == 77
