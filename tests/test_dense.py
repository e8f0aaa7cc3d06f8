"""Laws of `dense` and of the module's `jacobian(out=)`: all Jacobians as arrays, into arrays."""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
import pytest
from layers import TEXTS, arrays_for, compiled, sample, unvalidated

import symgrad as sg
from symgrad.batch import outward

NAMES = ("dense", "conv", "embedding", "layernorm", "two", "params_only", "scalars", "beside")
EXACT = {"rtol": 1e-13, "atol": 1e-14}


@pytest.fixture(scope="module", params=NAMES)
def one(request):
    return sample(request.param)


@pytest.fixture(scope="module")
def dense():
    return sample("dense")


def expected(jac, arrays):
    """Return what the blocks of the structured Jacobians give one by one."""
    return {key: block.dense() for key, block in jac.jacobian(arrays).items()}


def check(found, wanted):
    assert list(found) == list(wanted)
    for key, array in found.items():
        assert isinstance(array, np.ndarray) or not np.ndim(array)
        np.testing.assert_allclose(array, wanted[key], **EXACT)


def empty(wanted, fill=np.nan):
    return {key: np.full_like(array, fill) for key, array in wanted.items()}


def runs(one):
    """Return the two ways to all dense Jacobians, as functions of arrays and keywords."""
    return (
        lambda arrays, **out: one.jac.module.jacobian(*arrays.values(), **out),
        lambda arrays, **out: one.jac.dense(*arrays.values(), **out),
    )


@pytest.mark.parametrize("batch", [3, None])
def test_all_jacobians_are_written_into_the_arrays_given(one, batch):
    arrays = arrays_for(one.jac, batch=batch)
    wanted = expected(one.jac, arrays)
    for run in runs(one):
        check(run(arrays), wanted)
        out = empty(wanted)
        found = run(arrays, out=out)
        assert all(found[key] is out[key] for key in wanted)
        check(found, wanted)


def test_what_is_not_given_is_made(one):
    wanted = expected(one.jac, one.arrays)
    for run in runs(one):
        for key in wanted:
            own = np.full_like(wanted[key], np.nan)
            found = run(one.arrays, out={key: own})
            assert found[key] is own
            check(found, wanted)
        check(run(one.arrays, out={}), wanted)
        check(run(one.arrays, out=dict.fromkeys(wanted)), wanted)
        check(run(one.arrays, out=None), wanted)


def test_arrays_to_fill_may_lie_as_they_like(dense):
    wanted = expected(dense.jac, dense.arrays)
    for run in runs(dense):
        out = {k: np.full((*a.shape, 2), np.nan)[..., 0] for k, a in wanted.items()}
        found = run(dense.arrays, out=out)
        assert all(found[key] is out[key] for key in wanted)
        check(found, wanted)


@pytest.mark.parametrize("batch", [3, None])
def test_arrays_to_fill_may_overlap_what_is_still_read(dense, batch):
    """The first is filled when all are computed, or the others would read it."""
    arrays = arrays_for(dense.jac, batch=batch)
    wanted = expected(dense.jac, arrays)
    for run in runs(dense):
        for key in wanted:
            memory = np.zeros(max(wanted[key].size, 50))
            x = memory[: arrays["x"].size].reshape(arrays["x"].shape)
            x[...] = arrays["x"]
            out = empty(wanted) | {key: memory[: wanted[key].size].reshape(wanted[key].shape)}
            found = run({**arrays, "x": x}, out=out)
            assert found[key] is out[key]
            check(found, wanted)


ODD = {
    "name": (lambda a: {"V": a}, sg.ArgumentError, "'V'.*expected some of.*'W', 'b'"),
    "mapping": (lambda a: a, sg.ArgumentError, "out must be a mapping of names to arrays.*ndarray"),
    "array": (lambda a: {"W": a.tolist()}, sg.ArgumentError, "'W'.*must be a numpy array.*list"),
    "shape": (lambda a: {"W": a[1:]}, sg.ShapeError, r"'W'.*has shape \(2, 3, 3, 4\)"),
    "dtype": (lambda a: {"W": a.astype("f4")}, sg.ArgumentError, "'W'.*float32, expected float64"),
    "locked": (lambda a: {"W": np.broadcast_to(a, a.shape)}, sg.ArgumentError, "'W'.*read-only"),
}


@pytest.mark.parametrize("kind", ODD)
def test_arrays_that_do_not_fit_are_refused_before_anything_is_computed(dense, kind, monkeypatch):
    make, error, words = ODD[kind]

    def computed(*args, **kwargs):
        raise AssertionError("computed")

    chosen = dense.jac.select(["W", "b"])
    last = replace(dense.jac, batch_axis=-1)
    moved = {**dense.arrays, "x": dense.arrays["x"].T}
    out, turned = make(np.zeros((3, 3, 3, 4))), make(np.zeros((3, 3, 4, 3)))
    monkeypatch.setattr(dense.jac.module, "_sweep", computed)
    for run in (*runs(dense), lambda a, **out: chosen.dense(*a.values(), **out)):
        with pytest.raises(error, match=words):
            run(dense.arrays, out=out)
    with pytest.raises(error, match=words.partition(r" \(")[0]):
        last.dense(moved, out=turned)


def test_single_samples_have_arrays_without_a_batch_axis(dense):
    arrays = arrays_for(dense.jac, batch=None)
    for run in runs(dense):
        with pytest.raises(sg.ShapeError, match="'W'"):
            run(arrays, out={"W": np.zeros((1, 3, 3, 4))})


def test_a_selection_writes_and_computes_what_is_selected_only(one, monkeypatch):
    wanted = expected(one.jac, one.arrays)
    for name in one.jac.wrt:
        chosen = one.jac.select([name])
        own = {k: a for k, a in wanted.items() if name in (k, k[-1])}
        with monkeypatch.context() as patch:
            for s in one.jac.forms.structured:
                if s.jacobian.parameter != name:
                    patch.delattr(one.jac.module, f"_dense_{s.key}")
            check(chosen.dense(one.arrays), own)
            out = empty(own)
            found = chosen.dense(one.arrays, out=out)
        assert all(found[key] is out[key] for key in own)
        check(found, own)
        others = {k: np.zeros_like(a) for k, a in wanted.items() if k not in own}
        if others:
            with pytest.raises(sg.ArgumentError, match="expected some of"):
                chosen.dense(one.arrays, out={**out, **others})
            assert not any(a.any() for a in others.values())


@pytest.mark.parametrize("batch_axis", [-1, 1])
def test_the_batch_axis_stands_where_callers_have_it(batch_axis):
    for name in ("dense", "conv", "two", "embedding"):
        first = sample(name)
        axis = min(batch_axis, 1)
        try:
            moved = compiled(TEXTS[name], batch_axis=axis)
        except sg.ArgumentError:
            continue  # an output without axes has no second one
        program = moved.forms.program
        arrays = {
            n: np.ascontiguousarray(outward(a, (0,), axis)) if program.array(n).batched else a
            for n, a in first.arrays.items()
        }
        wanted = {
            k: np.ascontiguousarray(outward(a, (0,), axis))
            for k, a in expected(first.jac, first.arrays).items()
        }
        check(moved.dense(arrays), wanted)
        out = empty(wanted)
        found = moved.dense(arrays, out=out)
        assert all(found[key] is out[key] for key in wanted)
        check(found, wanted)
        part = next(iter(wanted))
        found = moved.dense(arrays, out={part: out[part]})
        assert found[part] is out[part]
        check(found, wanted)


def test_parts_of_arrays_are_what_is_selected_of_them():
    jac = compiled(TEXTS["dense"], {"W": np.s_[1:, ::2], "b": [0, 2]})
    arrays = arrays_for(jac)
    wanted = expected(jac, arrays)
    assert wanted["W"].shape == (3, 3, 2, 2)
    alone = {"b": wanted["b"]}
    ways = ((jac.dense, wanted), (jac.module.jacobian, wanted), (jac.select("b").dense, alone))
    for run, own in ways:
        out = empty(own)
        check(run(*arrays.values(), out=out), own)
        check(out, own)


def test_keywords_mappings_defaults_and_names_like_out():
    layer = sample("layernorm")
    wanted = expected(layer.jac, layer.arrays)
    out = empty(wanted)
    check(layer.jac.dense(**layer.arrays, out=out), wanted)
    check(layer.jac.dense(layer.arrays, out=out), wanted)
    check(layer.jac.dense(layer.arrays, eps=1e-5, out=out), wanted)
    own = compiled("out: input[n]\nW: param[m, n]\ny = tanh(W @ out)", "params")
    arrays = arrays_for(own)
    filled = np.empty((3, 3, 3, 4))
    assert own.dense(**arrays, out_={"W": filled})["W"] is filled
    assert own.module.jacobian(*arrays.values(), out_={"W": filled})["W"] is filled
    np.testing.assert_allclose(filled, own.jac_W(**arrays), **EXACT)


@pytest.mark.parametrize("size", [1, 2, 100])
def test_pieces_of_samples_are_the_whole(one, size):
    wanted = expected(one.jac, one.arrays)
    check(one.jac.dense(one.arrays, chunk=size), wanted)
    out = empty(wanted)
    found = one.jac.dense(one.arrays, chunk=size, out=out)
    assert all(found[key] is out[key] for key in wanted)
    check(found, wanted)
    key = next(iter(wanted))
    part = empty(wanted)[key]
    found = one.jac.dense(one.arrays, chunk=size, out={key: part})
    assert found[key] is part
    check(found, wanted)
    check(one.jac.dense(one.arrays, memory_limit="1 GiB"), wanted)


def test_pieces_refuse_what_the_whole_refuses(dense):
    for make, error, words in ODD.values():
        with pytest.raises(error, match=words.split(".*")[0]):
            dense.jac.dense(dense.arrays, chunk=2, out=make(np.zeros((3, 3, 3, 4))))


def test_groups_have_dense_jacobians_of_their_own():
    groups = {"first": "W*", "second": ["W2", "b2"]}
    grouped = unvalidated(TEXTS["mlp"], plain=True, groups=groups)
    arrays = arrays_for(grouped.compiled)
    J = grouped.jacobian(arrays)
    wanted = {g: {k: J[g][k].dense() for k in J[g]} for g in groups}
    found = grouped.dense(arrays)
    assert list(found) == list(groups)
    for group in groups:
        check(found[group], wanted[group])
    assert not np.shares_memory(found["first"]["W2"], found["second"]["W2"])
    for given in (("first",), ("second",), ("first", "second")):
        out = {g: empty(wanted[g]) for g in given}
        found = grouped.dense(arrays, out=out)
        for group in groups:
            check(found[group], wanted[group])
        assert all(found[g][k] is out[g][k] for g in given for k in out[g])
        assert not np.shares_memory(found["first"]["W2"], found["second"]["W2"])
    odd = np.zeros((2, 2))
    with pytest.raises(sg.ArgumentError, match="no group 'third'"):
        grouped.dense(arrays, out={"third": {}})
    with pytest.raises(sg.ArgumentError, match=r"'second'.*'W1'"):
        grouped.dense(arrays, out={"second": {"W1": odd}})
    with pytest.raises(sg.ArgumentError, match="must be a mapping"):
        grouped.dense(arrays, out={"second": odd})
    with pytest.raises(sg.ShapeError, match=r"'second'.*'W2'"):
        grouped.dense(arrays, out={"first": empty(wanted["first"]), "second": {"W2": odd}})


def test_a_bound_layer_has_them_too(dense):
    wanted = expected(dense.jac, dense.arrays)
    bound = dense.jac.bind(W=dense.arrays["W"])
    out = empty(wanted)
    found = bound.dense(dense.arrays["x"], dense.arrays["b"], out=out)
    assert all(found[key] is out[key] for key in wanted)
    check(found, wanted)
    check(bound.dense(dense.arrays["x"], dense.arrays["b"]), wanted)


def test_results_that_memory_cannot_hold_are_refused(dense, monkeypatch):
    monkeypatch.setattr(dense.jac.module, "_free_bytes", lambda: 2**30)
    absurd = np.broadcast_to(np.float64(0), (10**7, 10**5))
    with pytest.raises(sg.TooLargeError, match=r"(?s)dense \(results of.*iB.*chunk="):
        dense.jac.dense(absurd, absurd[: 10**3], absurd[0, : 10**3])


def test_the_plan_says_what_all_of_them_cost(dense):
    plan = dense.jac.plan(3, {"n": 4, "m": 3})
    wanted = expected(dense.jac, dense.arrays)
    assert int(plan["dense"].results) == sum(a.nbytes for a in wanted.values())


def test_the_docstring_says_what_out_is(dense):
    text = inspect.getdoc(dense.jac.module.jacobian)
    assert "out is a mapping {θ: array}" in text
    assert "(output, θ)" in inspect.getdoc(sample("two").jac.module.jacobian)


def test_jacobians_do_not_alias_what_callers_gave(one):
    """`jacobian` keeps copies: what is asked for later is of the arrays as they were."""
    J = one.jac.jacobian(**one.arrays)
    wanted = {k: block.dense() for k, block in J.items()}
    value = J.value
    for array in one.arrays.values():
        array += 1 if array.dtype.kind == "f" else 0
    check({k: block.dense() for k, block in J.items()}, wanted)
    assert not any(np.shares_memory(a, v) for a in one.arrays.values()
                   for v in (value if isinstance(value, tuple) else (value,)))  # fmt: skip
    for array in one.arrays.values():
        array -= 1 if array.dtype.kind == "f" else 0


def test_jacobians_keep_copies_of_arrays_that_have_a_default():
    jac = compiled("x: input[n]\nw: param[n]\nalpha: const = 0.5\ny = alpha * w + x", "params")
    arrays, alpha = arrays_for(jac), np.array(0.25)
    J = jac.jacobian(**arrays, alpha=alpha)
    wanted = J["w"].dense()
    alpha += 1
    np.testing.assert_array_equal(J["w"].dense(), wanted)


def test_an_output_written_over_an_argument_spoils_no_later_one():
    jac = compiled("x: input[n]\nW: param[m, n]\nk = tanh(W @ x)\ny = W @ x\nreturn k, y", ["W"])
    rng = np.random.default_rng(0)
    x, W = rng.normal(size=(3, 4)), rng.normal(size=(2, 4))
    right = jac.module.jac_W(x, W)
    memory = np.empty(right[0].size)
    over = memory[: x.size].reshape(x.shape)
    over[...] = x
    outs = (memory.reshape(right[0].shape), np.empty_like(right[1]))
    found = jac.module.jac_W(over, W, out=outs)
    for one, given, expected in zip(found, outs, right, strict=True):
        assert one is given
        np.testing.assert_array_equal(one, expected)
