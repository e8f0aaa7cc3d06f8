"""Kernels that write past the caches, run over all elements, or do a small layer at once."""

import re

import numpy as np
import pytest
from instrument import instrumented
from layers import compiled

import symgrad as sg
from symgrad import build

DENSE = "x: input[n]\nW: param[m, n]\nb: param[m]\ny = tanh(W @ x + b)"
MLP = (
    "x: input[n]\nW1: param[h, n]\nb: param[h]\nW2: param[m, h]\n"
    "y = W2 @ tanh(W1 @ x + b)"
)
PRODUCT = "x: input\na: param\nb: param\nc: param\n{}y = exp(log(b*a*x) + c)"


def arrays(text, batch, dtype=np.float64, **sizes):
    """Return seeded arrays for the declarations of a text, by order."""
    rng = np.random.default_rng(0)
    found = []
    for role, axes in re.findall(r"^\w+: (input|param)(?:\[(.*)\])?", text, re.MULTILINE):
        shape = [sizes[a.strip()] for a in axes.split(",") if a]
        found.append(rng.normal(size=[batch, *shape] if role == "input" else shape).astype(dtype))
    return found


def code(jac):
    """Return the kernels of a module."""
    return jac.source.partition("kernels\n")[2].partition("helpers\n")[0]


# ------------------------------------------------------------ past the caches


def misaligned(shape, dtype, offset):
    size = int(np.prod(shape))
    raw = np.empty(size + 64, dtype)
    first = (-raw.ctypes.data % 64) // raw.itemsize + offset
    return raw[first : first + size].reshape(shape)


@pytest.mark.parametrize("text", [DENSE, MLP])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "offset"), [(8, 0), (8, 1), (8, 2), (6, 0), (7, 0), (12, 4)])
def test_what_goes_past_the_caches_is_the_same_to_the_last_bit(
    text, dtype, n, offset, monkeypatch
):
    module = compiled(text, plain=False).module
    given = arrays(text, 9, dtype, n=n, h=5, m=4)
    monkeypatch.setattr(module, "_FEW", 0)
    plain = module.jacobian(*given)
    monkeypatch.setattr(module, "_CACHED", 0)
    for name, expected in plain.items():
        out = misaligned(expected.shape, dtype, offset)
        out.fill(np.nan)
        assert getattr(module, f"jac_{name}")(*given, out=out) is out
        assert out.tobytes() == expected.tobytes(), name


def test_the_large_kernel_is_chosen_by_size_and_one_constant_switches_it_off(monkeypatch):
    module = compiled(MLP, plain=False).module
    plain, large, rows = object(), object(), np.empty((4, 8))
    monkeypatch.setattr(module, "_CACHED", rows.nbytes)
    assert module._past(rows, 8, plain, large) is large
    assert module._past(rows[:3], 8, plain, large) is plain  # fits into the cache
    assert module._past(rows, 6, plain, large) is plain  # rows of 6 are no fours
    assert module._past(rows.view(np.complex128), 4, plain, large) is plain
    monkeypatch.setattr(module, "INTRINSICS", False)
    assert module._past(rows, 8, plain, large) is plain


def test_zeros_are_cleared_line_by_line_at_any_address():
    clear = compiled(DENSE, plain=False).module.clear
    for dtype in (np.float64, np.float32):
        for offset in range(9):
            for size in (0, 1, 7, 8, 17, 64, 100):
                whole = np.ones(offset + size + 5, dtype)
                clear(whole[offset : offset + size])
                expected = np.ones_like(whole)
                expected[offset : offset + size] = 0
                np.testing.assert_array_equal(whole, expected)


SPARSE = {
    "dense": DENSE,
    "softmax": "x: input[n]\nW: param[m, n]\nb: param[m]\ny = W @ softmax(x) + b",
    "conv": "x: input[c, T]\nK: param[o, c, 3]\ny[i, t] = sum[j, k](K[i, j, k] * x[j, t + k])",
    "table": "t: index(v)[n]\nE: param[v, m]\ny = tanh(E[t])",
}


def written_twice(module, name, given):
    """Return two Jacobians at different points in one array, and fresh ones."""
    form = getattr(module, f"jac_{name}")
    other = [a if a.dtype.kind == "i" else a + 0.5 for a in given]
    out = form(*given).copy()
    assert form(*other, out=out, zeroed=True) is out
    return out, form(*other)


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("name", ["dense", "softmax", "conv"])
def test_an_array_with_its_zeros_is_only_written_where_the_jacobian_is_not_zero(
    name, plain, monkeypatch
):
    text = SPARSE[name]
    module = compiled(text, plain=plain).module
    monkeypatch.setattr(module, "_FEW", 0)
    given = arrays(text, 4, n=3, m=5, c=2, T=6, o=3) if name != "conv" else [
        np.random.default_rng(0).normal(size=s) for s in ((4, 2, 6), (3, 2, 3))
    ]  # fmt: skip
    theta = {"dense": "W", "softmax": "W", "conv": "K"}[name]
    found, right = written_twice(module, theta, given)
    np.testing.assert_array_equal(found, right)
    zero = right == 0
    assert zero.any()
    marked = np.where(zero, 7.0, 0.0)
    getattr(module, f"jac_{theta}")(*given, out=marked, zeroed=True)
    assert (marked[zero] == 7.0).all()  # nothing is written there


def test_zeros_that_data_places_are_always_written():
    text = SPARSE["table"]
    jac = compiled(text)
    t, E = np.array([[0, 2], [1, 1]]), np.ones((3, 2))
    out = np.full((2, 2, 2, 3, 2), np.nan)
    jac.module.jac_E(t, E, out=out)
    np.testing.assert_array_equal(out, jac.module.jac_E(t, E))
    with pytest.raises(TypeError):
        jac.module.jac_E(t, E, out=out, zeroed=True)
    with pytest.raises(sg.ArgumentError, match="no zeros that stand in the same places"):
        jac.jac_E(t, E, out=out, zeroed=True)


def test_a_compiled_layer_takes_an_array_with_its_zeros():
    jac = compiled(DENSE, "params")
    given = arrays(DENSE, 4, n=3, m=5)
    out = np.zeros((4, 5, 5, 3))
    assert jac.jac_W(*given, out=out, zeroed=True) is out
    np.testing.assert_array_equal(out, jac.jac_W(*given))


# ------------------------------------------------------------ loops


def test_element_wise_loops_run_over_all_elements_of_all_samples():
    source = compiled(DENSE).source
    assert "for i in range(y_row.size):\n        y_row[i] = tanh(z_row[i])" in source
    wide = compiled(DENSE.replace("[m", "[64")).source  # such rows fill registers by themselves
    assert "y_row" not in wide


def test_a_function_is_called_once_for_what_several_stores_share():
    jac, meter = instrumented(compiled(PRODUCT.format("")))
    given = [np.full(5, 2.0), *map(np.array, (1.0, 2.0, 3.0))]
    jac.module.jacobian(*given)
    assert meter.calls == 3 * 5  # exp, log and 1/u for both Jacobians


@pytest.mark.parametrize("formula", ["V @ tanh(W @ x)", "outer(u, tanh(W @ x))"])
def test_a_function_inside_a_product_is_called_once_for_each_of_its_numbers(formula):
    text = f"x: input[n]\nW: param[h, n]\nV: param[m, h]\nu: param[m]\ny = {formula}"
    jac, meter = instrumented(compiled(text))
    n_samples, h, m = 5, 3, 7
    given = arrays(text, n_samples, n=2, h=h, m=m)
    y = jac.module.forward(*given)
    assert meter.calls == n_samples * h
    for form in (jac.module.vjp, jac.module.vjp_per_sample):
        meter.calls = 0
        form(*given, np.ones_like(y))
        assert meter.calls <= 4 * n_samples * h  # tanh, and its slope, forward and back


def test_contractions_known_to_be_small_are_loops():
    text = DENSE.replace("[m", "[3").replace("n]", "6]")
    assert "matmul" not in compiled(text).source
    assert "matmul" in compiled(DENSE).source


# ------------------------------------------------------------ a domain that is stated


def test_a_stated_domain_takes_logarithms_out_of_kernels():
    stated = compiled(PRODUCT.format("assert a*b*x > 0\n"))
    open_ = compiled(PRODUCT.format(""))
    assert "log(" not in code(stated)
    assert "log(" in code(open_)
    x = np.array([1.0, 2.0, 3.0])
    for outside in (1.0, -1.0):
        given = [x, *map(np.array, (outside, 1.0, 0.5))]
        found, right = stated.module.jacobian(*given), open_.module.jacobian(*given)
        if outside > 0:
            for name in found:
                np.testing.assert_allclose(found[name], right[name], rtol=1e-14)
        else:
            assert np.isnan(right["a"]).all()  # without the assertion nothing is continued


@pytest.mark.parametrize(
    "formula",
    [
        "y = exp(log(w*x) + c) + exp(c - log(w*x))",
        "y = 2*exp(c + log(w*x) + x) - log(w*x)",
        "y = log(exp(log(w*x)) + w)",
        "y = exp(log(w*x) + log(w*x))",
    ],
)
def test_what_a_domain_leaves_out_changes_nothing_inside(formula):
    text = f"x: input\nw: param\nc: param\nassert w*x > 0\n{formula}"
    assert sg.check(sg.compile(text)).ok
    plain = compiled(text.replace("assert w*x > 0\n", ""))
    given = [np.array([0.5, 1.5]), np.array(0.7), np.array(0.3)]
    found, right = compiled(text).module.jacobian(*given), plain.module.jacobian(*given)
    for name in right:
        np.testing.assert_allclose(found[name], right[name], rtol=1e-13)


# ------------------------------------------------------------ few samples


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_few_samples_of_a_small_layer_take_one_kernel(dtype, monkeypatch):
    module = compiled(DENSE, plain=False).module
    given = arrays(DENSE, 3, dtype, n=4, m=2)
    monkeypatch.setattr(module, "_FEW", 0)
    right = module.jacobian(*given)
    monkeypatch.setattr(module, "_FEW", 4000)
    monkeypatch.setattr(module, "_sweep_dense", None)  # not called
    found = module.jacobian(*given)
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    for name, expected in right.items():
        out = np.full_like(expected, np.nan)
        getattr(module, f"jac_{name}")(*given, out=out)
        for one in (found[name], out):
            assert one.dtype == dtype
            np.testing.assert_allclose(one, expected, rtol=tolerance, atol=tolerance)
    with pytest.raises(TypeError):
        module.jac_W(*arrays(DENSE, 500, dtype, n=4, m=2))  # many take the steps


@pytest.mark.parametrize(
    "text",
    [
        "x: input[n]\nW: param[m, n]\ny = max(W @ x)",
        "x: input[n]\nW: param[m, n]\ny = softmax(W @ x)",
        "x: input[n]\nw: param[n]\ny = w @ x\nz = y * x",
        "x: input[n]\nW: param[m, n]\ny = norm(W @ x) * x",
    ],
)
def test_kernels_of_few_samples_are_judged(text, monkeypatch):
    jac = sg.compile(text)  # compares all drivers
    assert jac.report.ok
    module = jac.module
    names = [n for n in vars(module) if n.startswith("_few")]
    assert names
    given = arrays(text, 4, n=3, m=5)
    found = module.jacobian(*given)
    monkeypatch.setattr(module, "_FEW", 0)
    for name, expected in module.jacobian(*given).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-12, atol=1e-12)


def test_deep_layers_have_no_kernels_for_few_samples():
    deep = "x: input[n]\n" + "".join(f"W{k}: param[n, n]\n" for k in range(6))
    deep += "h0 = tanh(W0 @ x)\n" + "".join(
        f"h{k} = tanh(W{k} @ h{k - 1})\n" for k in range(1, 5)
    )
    assert "_few" not in compiled(deep + "y = W5 @ h4").source


# ------------------------------------------------------------ memory and copies


def test_memory_is_used_again_only_when_nothing_lies_in_it():
    module = compiled(MLP, plain=False).module
    dtype = np.dtype(np.float64)
    first = module._space((100, 1000), dtype)
    place = first.ctypes.data
    assert place % 64 == 0
    second = module._space((100, 1000), dtype)
    assert second.ctypes.data != place
    part = first[3:5].T  # a view keeps it
    del first
    third = module._space((100, 1000), dtype)
    assert not np.shares_memory(third, part)
    del part
    again = module._space((100, 1000), dtype)
    assert again.ctypes.data == place
    assert module._space((10,), dtype).base is None  # the heap has these


def test_memory_that_is_kept_has_a_limit(monkeypatch):
    module = compiled(MLP, plain=False).module
    monkeypatch.setattr(module, "_SPACES", {})
    monkeypatch.setattr(module, "_SPACE_KEPT", 2**20)
    held = [module._space((k, 2**15), np.dtype(np.float64)) for k in range(1, 12)]
    kept = sum(pages * len(places) * 2**12 for pages, places in module._SPACES.items())
    assert kept <= 2**20 + 12 * 2**18  # the last one may be larger than all that is kept
    assert len({a.ctypes.data for a in held}) == len(held)


def test_results_that_are_kept_are_never_written_again():
    jac = compiled(MLP, plain=False)
    given = arrays(MLP, 300, n=40, h=50, m=20)
    results = []
    for step in range(4):
        J = jac.jacobian(given[0] + step, *given[1:])
        results.append((J, {n: {k: f.copy() for k, f in J[n].factors().items()} for n in J}))
    for J, expected in results:
        for name in J:
            for key, factor in J[name].factors().items():
                np.testing.assert_array_equal(factor, expected[name][key])


def test_a_jacobian_that_is_no_product_is_made_in_the_callers_array():
    text = "x: input[T, n]\nQ: param[n, d]\nK: param[n, d]\ny = softmax((x @ Q) @ (x @ K).T) @ x"
    jac, meter = instrumented(compiled(text, ["K"]))
    module, given = jac.module, arrays(text, 2, n=3, T=4, d=20)
    out = np.empty(module.jac_K(*given).shape)
    before = meter.allocated
    module.jac_K(*given, out=out)
    straight = meter.allocated - before
    *call, single = module._door(*given)
    before = meter.allocated
    module._dense_K(*call, module._sweep(*call), single, out)
    assert meter.allocated - before >= straight + out.nbytes
    np.testing.assert_allclose(out, jac.jacobian(*given)["K"].dense(), rtol=1e-12, atol=1e-14)


def test_stacks_of_matrices_are_multiplied_as_they_lie():
    text = "x: input[T, n]\nA: param[T, T]\nV: param[n, d]\ny = A @ (x @ V)"
    jac = compiled(text)
    given = arrays(text, 3, n=4, T=5, d=2)
    np.testing.assert_allclose(
        jac.module.forward(*given), np.einsum("ts,bsn,nd->btd", given[1], given[0], given[2])
    )
    assert "np.matmul(" in jac.source
    assert sg.check(sg.compile(text)).ok


def test_a_module_runs_without_intrinsics(tmp_path, monkeypatch):
    source = compiled(DENSE).source
    assert "INTRINSICS = True" in source
    file = tmp_path / "plain_stores.py"
    file.write_text(source.replace("INTRINSICS = True", "INTRINSICS = False"), encoding="utf-8")
    module, other = build.load(file), compiled(DENSE, plain=False).module
    given = arrays(DENSE, 9, n=8, m=4)
    for one in (module, other):
        monkeypatch.setattr(one, "_FEW", 0)
        monkeypatch.setattr(one, "_CACHED", 0)
    for name, right in other.jacobian(*given).items():
        out = np.full_like(right, np.nan)
        getattr(module, f"jac_{name}")(*given, out=out)
        np.testing.assert_allclose(out, right, rtol=1e-14)
    assert not hasattr(module, "intrinsic")
