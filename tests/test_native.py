"""Steps that are compiled as a whole: the results of steps one by one, whoever runs them."""

import re

import numba
import numpy as np
import pytest
from layers import TEXTS, arrays_for, with_steps

import symgrad as sg

MLP = TEXTS["mlp"]
WIDE = {
    "x: input[T, n]\nW: param[m, n]\nU: param[m, m]\n"
    "h[t: T] = tanh(W @ x[t] + U @ h[t-1])\ny = h[T-1]": "recurrence",
    "x: input[n]\nW: param[m, n]\nV: param[m, n]\ny = (W @ x) * sigmoid(V @ x)": "gated",
}
LARGE = {"n": 48, "m": 40, "k": 24, "T": 6}
SIZES = [
    (1, 1, 1), (3, 5, 7), (64, 64, 64), (130, 70, 65), (200, 64, 64), (9000, 8, 8), (5, 9000, 3),
    (0, 4, 3), (4, 0, 3), (4, 3, 0), (1, 6, 300), (300, 6, 1),
]  # fmt: skip


@pytest.fixture(scope="module")
def module():
    """A module with native steps, or a skip where numpy has no matrix product that is known."""
    found = sg.compile(MLP, check=False).module
    if not found._NATIVE:
        pytest.skip("numpy's matrix product is not one that kernels can call")
    return found


@pytest.fixture(scope="module")
def products(module):
    """The native product, and the one that adds, as functions of Python."""
    multiply, add = module._multiply, module._add_product

    @numba.njit
    def multiplied(left, right, out):
        multiply(left, right, out)

    @numba.njit
    def added(left, right, out):
        add(left, right, out)

    return multiplied, added


def laid(rng, shape, order, dtype):
    """Random numbers, lying in one of several ways."""
    array = rng.normal(size=shape).astype(dtype)
    if order == "rows":  # of a wider array
        wide = np.full((shape[0], shape[1] + 3), np.nan, dtype)
        wide[:, : shape[1]] = array
        return wide[:, : shape[1]]
    if order == "strided":
        wide = np.full((shape[0], 2 * shape[1]), np.nan, dtype)
        wide[:, ::2] = array
        return wide[:, ::2]
    return np.asarray(array, order=order)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("orders", [("C", "C"), ("F", "C"), ("C", "F"), ("rows", "strided")])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_native_product_is_that_of_matrices(products, size, orders, dtype):
    multiply, add = products
    rows, inner, columns = size
    rng = np.random.default_rng(0)
    left, right = (
        laid(rng, shape, order, dtype)
        for shape, order in zip(((rows, inner), (inner, columns)), orders, strict=True)
    )
    near = (2 + inner) * np.finfo(dtype).eps * (np.abs(left) @ np.abs(right) + 1)
    for order in ("C", "rows", "F", "strided"):
        out = laid(rng, (rows, columns), order, dtype)
        before = np.array(out)
        add(left, right, out)
        assert np.all(np.abs(out - (before + left @ right)) <= near)
        out[...] = np.nan  # is not read
        multiply(left, right, out)
        assert np.all(np.abs(out - left @ right) <= near)
    if out.base is not None and out.strides[-1] > out.itemsize and out.size:
        assert np.isnan(out.base[:, 1::2]).all()


def test_what_is_no_number_passes_through_the_native_product(products):
    left, right = np.ones((70, 80)), np.ones((80, 60))
    left[3, 4], right[5, 6], right[7, 8] = np.nan, np.inf, -np.inf
    out = np.empty((70, 60))
    products[0](left, right, out)
    expected = left @ right
    np.testing.assert_array_equal(np.isnan(out), np.isnan(expected))
    np.testing.assert_array_equal(out[0], expected[0])


def large(text, dtype=np.float64, batch=300):
    jac = sg.compile(text, check=False)
    return jac, arrays_for(jac, batch=batch, sizes=LARGE, dtype=dtype)


def drivers(jac, arrays):
    """What all drivers return that run steps, by name."""
    names = jac.wrt
    tangents = {n: np.cos(arrays[n]) for n in names}
    value = jac.forward(**arrays)
    u = np.sin(1 + np.arange(value.size, dtype=value.dtype)).reshape(value.shape)
    found = {"forward": value, "jvp": jac.jvp(arrays, tangents)}
    found |= {f"vjp {n}": g for n, g in jac.vjp(arrays, u).items()}
    found |= {f"each {n}": g for n, g in jac.vjp_per_sample(arrays, u).items()}
    found |= {f"ggn {n}": g for n, g in jac.ggn_matvec(arrays, tangents).items()}
    J = jac.jacobian(arrays)
    for n in names:
        found |= {f"{n} {k}": np.array(a) for k, a in J[n].factors().items()}
        found[f"dense {n}"] = np.array(J[n])
    return found


@pytest.mark.parametrize(
    ("text", "dtype"),
    [*((text, np.float64) for text in (MLP, *WIDE)), (MLP, np.float32)],
    ids=["mlp", *WIDE.values(), "float32"],
)
def test_whole_steps_are_the_same_bytes_for_any_threads(text, dtype, monkeypatch, module):
    jac, arrays = large(text, dtype)
    assert "_natively(" in jac.source
    own, ran = jac.module, []
    whole = own._whole
    monkeypatch.setattr(own, "_whole", lambda *given: ran.append(whole(*given)) or ran[-1])
    monkeypatch.setattr(own, "_SHARE_FROM", 0)
    monkeypatch.setattr(own, "_LONG", 0)
    monkeypatch.setattr(own, "_PIECE", 300_000)
    results = []
    for threads in (1, 3, 7):
        jac.num_threads = threads
        results.append(drivers(jac, arrays))
    assert ran
    assert all(hasattr(one, "signatures") for one in ran), "compiled, not as Python"
    for found in results[1:]:
        assert found.keys() == results[0].keys()
        for name, array in found.items():
            assert array.tobytes() == results[0][name].tobytes(), name
    monkeypatch.setattr(own, "_NATIVE", False)
    one_by_one = drivers(jac, arrays)
    near = 1e-12 if dtype == np.float64 else 2e-4
    for name, array in one_by_one.items():
        assert array.dtype == dtype
        np.testing.assert_allclose(results[0][name], array, rtol=near, atol=near, err_msg=name)


def test_steps_are_compiled_only_where_all_of_them_can_be():
    """What a factorisation leaves may lie in any order; stacks of matrices go through numpy."""
    text = "A: input[n, n]\nW: param[n, n]\nx: input[n]\ny = solve(A @ A.T + W, tanh(W @ x))"
    stacks = "X: input[T, n]\nW: param[n, n]\ny = softmax(X @ W @ X.T)"
    for source in (sg.compile(t, check=False).source for t in (text, stacks, MLP)):
        whole, others = (
            dict.fromkeys(re.findall(rf"{how}\(\s*(_steps_\d+)", source))
            for how in ("_natively", "_samples")
        )
        assert not whole.keys() & others.keys()
        for name in whole:
            assert "np." not in with_steps(source, name)
        for name in others if "softmax" in source else ():
            assert re.search(r"np\.|\.transpose", with_steps(source, name))


@pytest.mark.parametrize("off", ["_NATIVE", "_COMPILED"])
def test_without_a_native_product_steps_run_one_by_one(off, monkeypatch):
    jac, arrays = large(MLP)
    right = drivers(jac, arrays)
    monkeypatch.setattr(jac.module, "_NATIVE", False)
    if off == "_COMPILED":
        monkeypatch.setattr(jac.module, "_COMPILED", False)
    monkeypatch.setattr(jac.module, "_SHARE_FROM", 0)
    monkeypatch.setattr(jac.module, "_multiply", None, raising=False)
    for name, array in drivers(jac, arrays).items():
        np.testing.assert_allclose(array, right[name], rtol=1e-12, atol=1e-12, err_msg=name)


def test_a_sweep_that_is_left_early_has_what_was_asked_for(monkeypatch, module):
    jac, arrays = large(MLP)
    monkeypatch.setattr(jac.module, "_SHARE_FROM", 0)
    assert "    if stage == 0:\n        return\n" in jac.source
    J = jac.jacobian(arrays)
    counted = []
    for name in jac.wrt:
        found = getattr(jac, f"jac_{name}_factors")(arrays)
        for label, array in J[name].factors().items():
            np.testing.assert_array_equal(found[label], array)
        checked = jac.module._door(*arrays.values())
        counted.append(len(jac.module._sweep(*checked[:3], name)))
    assert min(counted) < max(counted), "arrays that are not needed are not handed out"


def test_one_repeated_number_is_a_matrix_like_any_other(monkeypatch, module):
    jac, arrays = large(MLP)
    monkeypatch.setattr(jac.module, "_SHARE_FROM", 0)
    value = jac.forward(arrays)
    checked = jac.module._door(*arrays.values())[:3]
    recorded = jac.module._record(*checked)
    repeated = np.broadcast_to(np.ones(()), value.shape)
    found = jac.module._back(*checked, recorded, None, repeated)
    right = jac.module._back(*checked, recorded, None, np.ones_like(value))
    for name, array in right.items():
        np.testing.assert_array_equal(found[name], array)


# ------------------------------------------------------------ products at once


def test_a_product_at_once_is_that_of_the_factors():
    jac, arrays = large(MLP)
    tangents = {n: np.cos(arrays[n]) for n in jac.wrt}
    called = []
    module = jac.module
    onward = module._onward
    module._onward = lambda *given: called.append(1) or onward(*given)
    try:
        found = jac.ggn_matvec(*arrays.values(), tangents)
    finally:
        module._onward = onward
    right = jac.jacobian(arrays).ggn_matvec(tangents)
    assert called
    assert list(found) == list(right)
    for name, array in right.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-11, atol=1e-11)
    some = {jac.wrt[0]: tangents[jac.wrt[0]]}
    right = jac.jacobian(arrays).ggn_matvec(some)
    for name, array in jac.ggn_matvec(*arrays.values(), some).items():
        np.testing.assert_allclose(array, right[name], rtol=1e-11, atol=1e-11)


def test_products_at_once_look_at_what_they_are_given():
    jac, arrays = large(MLP)
    name = jac.wrt[0]
    with pytest.raises(sg.ShapeError, match=name):
        jac.ggn_matvec(*arrays.values(), {name: np.ones((2, 3))})
    with pytest.raises(sg.ArgumentError, match="nobody"):
        jac.ggn_matvec(*arrays.values(), {"nobody": np.ones(3)})
    with pytest.raises(sg.ArgumentError, match="mapping"):
        jac.ggn_matvec(*arrays.values(), 3.0)
    single = {n: a[0] if n == "x" else a for n, a in arrays.items()}
    right = jac.jacobian(single).ggn_matvec({name: arrays[name]})
    for n, array in jac.ggn_matvec(*single.values(), {name: arrays[name]}).items():
        np.testing.assert_allclose(array, right[n], rtol=1e-11, atol=1e-11)
    lists = {name: arrays[name].tolist()}  # no arrays: converted, as everywhere
    right = jac.ggn_matvec(*arrays.values(), {name: arrays[name]})
    for n, array in jac.ggn_matvec(*arrays.values(), lists).items():
        np.testing.assert_allclose(array, right[n], rtol=1e-11, atol=1e-11)
