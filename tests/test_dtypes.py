"""Arrays of every dtype and layout, through every function that a generated module offers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from layers import unvalidated
from mpmath import mp

import symgrad as sg

TEXT = """
t: index(m)
x: input[n]
W: param[m, n]
b: param[m]
c: param
z = 0.1 * (W @ x) + b / n
y = tanh(z) * mean(x) + c * leaky_relu(z, 0.3) + softmax(z)
l = y[t]
return y, l
"""
ANALYTIC = TEXT.replace("leaky_relu(z, 0.3)", "sin(z)")


@pytest.fixture(scope="module", params=[False, True], ids=["compiled", "plain"])
def jac(request: pytest.FixtureRequest) -> Any:
    return unvalidated(ANALYTIC, wrt="all", plain=request.param)


SIZES = {"B": 5, "m": 3, "n": 4}


def drawn(dtype: Any, **sizes: int) -> dict[str, Any]:
    """Return arrays for the layer, a cotangent a function over its outputs, and tangents."""
    own = {**SIZES, **sizes}
    B, m, n = own["B"], own["m"], own["n"]
    rng = np.random.default_rng(11)

    def normal(*shape: int) -> Any:
        found = rng.normal(size=shape)
        return np.asarray(found + 1j * rng.normal(size=shape) if kind == "c" else found, dtype)

    kind = np.dtype(dtype).kind
    arrays = {"x": normal(B, n), "W": normal(m, n), "b": normal(m), "c": normal()}
    t = rng.integers(0, m, B) if m else np.zeros(B, int)
    return {"t": t, **arrays, "u": (normal(B, m), normal(B)), "d": {"W": normal(m, n)}}


def everything(module: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return what every public function of the module gives, flat, by name."""
    arrays = {n: given[n] for n in ("t", "x", "W", "b", "c")}
    order, u = tuple(arrays.values()), given["u"]
    y, pull = module.pullback(*order)
    found: dict[str, Any] = {
        "forward": module.forward(*order),
        "pullback": (*y, *pull(u).values()),
        "jacobian": module.jacobian(*order),
        "vjp": module.vjp(*order, u),
        "vjp_per_sample": module.vjp_per_sample(*order, u),
        "jvp": module.jvp(*order, given["d"]),
    }
    names = [n for n in vars(module) if n.startswith("jac_")]
    found |= {n: getattr(module, n)(*order) for n in names}
    flat: dict[str, Any] = {}
    for name, results in found.items():
        entries = results.items() if isinstance(results, dict) else enumerate(results)
        for key, value in entries:
            parts = value.items() if isinstance(value, dict) else [("", value)]
            flat |= {f"{name} {key} {k}": v for k, v in parts}
    return flat


def _frozen(array: Any) -> Any:
    array = np.array(array)
    array.flags.writeable = False
    return array


def _unaligned(array: Any) -> Any:
    raw = np.zeros(array.nbytes + 1, np.uint8)[1:]
    view = raw.view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def _backwards(array: Any) -> Any:
    turned = tuple(slice(None, None, -1) for _ in array.shape)
    return np.array(array[turned], order="C")[turned]


def _strided(array: Any) -> Any:
    return np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim else array


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "read-only": _frozen,
    "fortran": lambda a: np.array(a, order="F"),
    "strided": _strided,
    "backwards": _backwards,
    "byte-swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "unaligned": _unaligned,
    "a list": lambda a: a.tolist(),
}
DTYPES = (np.float32, np.float64, np.complex64, np.complex128)
NEAR = {np.dtype(np.float32): 1e-5, np.dtype(np.complex64): 1e-5}


def laid_out(given: dict[str, Any], layout: Callable[[Any], Any]) -> dict[str, Any]:
    return {
        "u": tuple(map(layout, given["u"])),
        "d": {n: layout(a) for n, a in given["d"].items()},
        **{n: layout(a) for n, a in given.items() if n not in ("u", "d")},
    }


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_function_takes_arrays_as_they_lie(jac: Any, layout: str, dtype: Any) -> None:
    given = drawn(dtype)
    odd = laid_out(given, LAYOUTS[layout])
    wanted = everything(jac.module, given)
    for name, found in everything(jac.module, odd).items():
        if layout != "a list":
            assert found.dtype == dtype, name
        size = max(1.0, float(np.abs(wanted[name]).max()))
        near = NEAR.get(np.dtype(dtype), 1e-12)
        np.testing.assert_allclose(found, wanted[name], rtol=near, atol=near * size, err_msg=name)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
def test_repeated_arrays_are_like_any_other(jac: Any, dtype: Any) -> None:
    given = drawn(dtype)
    rows = {n: np.broadcast_to(given[n][0], given[n].shape) for n in ("x", "W", "b")}
    u = tuple(np.broadcast_to(v[0], v.shape) for v in given["u"])
    odd = {**given, **rows, "u": u, "d": {"W": np.broadcast_to(given["d"]["W"][0], (3, 4))}}
    wanted = everything(jac.module, laid_out(odd, np.array))
    for name, found in everything(jac.module, odd).items():
        np.testing.assert_array_equal(found, wanted[name], err_msg=name)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
@pytest.mark.parametrize("sizes", [{"B": 0}, {"n": 0}, {"m": 1}, {"B": 1}, {"B": 0, "m": 0}],
                         ids=str)  # fmt: skip
def test_empty_and_single_axes_keep_their_shapes(jac: Any, dtype: Any, sizes: Any) -> None:
    given = drawn(dtype, **sizes)
    own = {**SIZES, **sizes}
    with np.errstate(all="ignore"):
        found = everything(jac.module, given)
    assert {a.dtype for a in found.values()} == {np.dtype(dtype)}
    B, m, n = own["B"], own["m"], own["n"]
    assert found["forward 0 "].shape == (B, m)
    assert found["jac_W 0 "].shape == (B, m, m, n)
    assert found["jac_x 1 "].shape == (B, n)
    assert found["vjp W "].shape == (m, n)
    assert found["vjp_per_sample W "].shape == (B, m, n)
    if not B:
        assert not found["vjp W "].any()


@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.complex128],
                         ids=lambda d: d.__name__)  # fmt: skip
def test_dtypes_agree_with_each_other(jac: Any, dtype: Any) -> None:
    given = drawn(np.float64)
    wanted = everything(jac.module, given)
    cast = laid_out(given, lambda a: a if a.dtype.kind == "i" else a.astype(dtype))
    for name, found in everything(jac.module, cast).items():
        assert found.dtype == dtype
        near = 1e-4 if found.dtype.itemsize <= 8 and dtype != np.float64 else 1e-12
        np.testing.assert_allclose(found, wanted[name], rtol=near, atol=near, err_msg=name)


PROMOTIONS = [
    ((np.float32, np.float32, np.float32), np.float32),
    ((np.float32, np.float64, np.float32), np.float64),
    ((np.float32, np.int8, np.float32), np.float64),
    ((np.int64, np.bool_, np.uint8), np.float64),
    ((">f4", np.float32, "<f4"), np.float32),
    ((np.complex64, np.float32, np.float32), np.complex64),
    ((np.complex64, np.float64, np.float32), np.complex128),
    ((np.complex64, np.int32, np.float32), np.complex128),
    ((">c8", np.float32, ">f4"), np.complex64),
]


@pytest.mark.parametrize(("dtypes", "wanted"), PROMOTIONS, ids=str)
def test_arrays_of_several_dtypes_are_promoted_as_numpy_does(
    jac: Any, dtypes: Any, wanted: Any
) -> None:
    given = drawn(np.float64)
    for name, dtype in zip(("x", "W", "b"), dtypes, strict=True):
        given[name] = np.abs(given[name]).astype(dtype)
    given["c"] = 0.5
    found = everything(jac.module, given)
    assert {a.dtype for a in found.values()} == {np.dtype(wanted)}
    assert all(a.dtype.isnative for a in found.values())


@pytest.mark.parametrize(
    ("dtype", "cure"),
    [(np.float16, r"x.astype\(np.float32\)"), (np.longdouble, r"x.astype\(np.float64\)"),
     (object, "numbers"), ("M8[s]", "numbers"), ("U3", "numbers")], ids=str,
)  # fmt: skip
def test_other_dtypes_are_refused_with_the_cure(jac: Any, dtype: Any, cure: str) -> None:
    given = drawn(np.float64)
    odd = np.ones((5, 4), int).astype(dtype)
    if odd.dtype == np.float64:
        return  # a platform whose long double is a double
    with pytest.raises(sg.ArgumentError, match=rf"x has dtype .*float32 or float64.*{cure}"):
        jac.forward(given["t"], odd, *(given[n] for n in ("W", "b", "c")))


class _Brain:
    """What numpy sees of a bfloat16 array of torch."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        message = "Got unsupported ScalarType BFloat16"
        raise TypeError(message)


def test_what_numpy_cannot_read_is_refused_by_name(jac: Any) -> None:
    given = drawn(np.float64)
    with pytest.raises(sg.ArgumentError, match=r"x is no array of float32 .*BFloat16"):
        jac.forward(given["t"], _Brain(), *(given[n] for n in ("W", "b", "c")))


# ------------------------------------------------------------------ float32 stays float32


@pytest.mark.parametrize("plain", [True, False])
def test_float32_layers_compute_in_float32(plain: bool) -> None:
    """0.1 is the float32 next to it, and the product is rounded to one."""
    jac = unvalidated("x: input[n]\nw: param\ny = 0.1 * x * w", plain=plain)
    x = np.random.default_rng(1).normal(size=(6, 50)).astype("f4")
    wanted = np.float32(0.1) * x
    assert (wanted != (0.1 * x.astype(float)).astype("f4")).any()
    np.testing.assert_array_equal(jac.forward(x, np.float32(1)), wanted)
    np.testing.assert_array_equal(jac.jac_w(x, np.float32(1)), wanted)


def test_python_numbers_are_weak_in_comparisons_and_kinks() -> None:
    """The float32 next to 0.1 is the bound 0.1 itself, where clip's slope is 1."""
    jac = unvalidated("x: input\na: param\ny = a * clip(x, -0.1, 0.1) + where(x > 0.1, 1, 0)")
    x = np.array([0.1, -0.1], "f4")
    np.testing.assert_array_equal(jac.forward(x, np.float32(0)), [0, 0])
    wrt_x = unvalidated("x: input\ny = clip(x, -0.1, 0.1)", wrt="all")
    np.testing.assert_array_equal(wrt_x.jac_x(x), [1, 1])


def test_long_sums_of_float32_keep_their_digits() -> None:
    jac = unvalidated("x: input[n]\na: param\ny = a * (sum(x) + mean(x) + logsumexp(x) + norm(x))")
    x = np.abs(np.random.default_rng(0).normal(size=(2, 200_000))).astype("f4")
    z = x.astype(float)
    wanted = z.sum(-1) + z.mean(-1) + np.log(np.exp(z).sum(-1)) + np.sqrt((z * z).sum(-1))
    np.testing.assert_allclose(jac.forward(x, np.float32(1)), wanted, rtol=5e-7)


def test_kernels_cast_numbers_and_sizes_where_their_type_would_carry() -> None:
    source = unvalidated("x: input[n]\na: param\ny = 0.5 * a * x + mean(x)").source
    assert "number = " in source
    assert "number(0.5)" in source
    assert "number(1.0 / np.float64(n_n))" in source
    assert "number(" not in unvalidated("x: input[n]\na: param\ny = exp(x) * a - 1").source


# ------------------------------------------------------------------ functions over axes

ROWS = {
    "ordinary": (0.3, -1.2, 2.0, 0.5),
    "huge": (1000.0, 999.0, -1000.0, 1000.0),
    "huge and tiny": (1e30, -1e30, 1e-30, 0.0),
    "subnormal": (1e-40, -3e-42, 2e-41, 0.0),
    "far apart": (0.0, -90.0, -800.0, -104.0),
    "zeros": (0.0, 0.0, -0.0, 0.0),
    "ties": (2.0, 2.0, 2.0, 2.0),
}


def _weights(z: Any) -> Any:
    top = max(z)
    e = [mp.exp(v - top) for v in z]
    return [v / sum(e) for v in e]


def _logsumexp(z: Any) -> Any:
    return max(z) + mp.log(sum(mp.exp(v - max(z)) for v in z))


def _norm(z: Any) -> Any:
    return mp.sqrt(sum(v * v for v in z))


def _over(z: Any, size: Any) -> list[Any]:
    return [v / size if size else mp.mpf(0) for v in z]


REDUCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "logsumexp": (lambda z: [_logsumexp(z)], lambda z: [_weights(z)]),
    "norm": (lambda z: [_norm(z)], lambda z: [_over(z, _norm(z))]),
    "sum": (lambda z: [sum(z)], lambda z: [[mp.mpf(1)] * len(z)]),
    "mean": (lambda z: [sum(z) / len(z)], lambda z: [[mp.mpf(1) / len(z)] * len(z)]),
    "softmax": (
        _weights,
        lambda z: [[w * ((i == j) - v) if i != j else w * sum(_weights(z)[k] for k in range(len(z))
                    if k != i) for j, v in enumerate(_weights(z))]
                   for i, w in enumerate(_weights(z))],
    ),
    "log_softmax": (
        lambda z: [v - _logsumexp(z) for v in z],
        lambda z: [[mp.mpf(i == j) - w for j, w in enumerate(_weights(z))] for i in range(len(z))],
    ),
    "max": (lambda z: [max(z)], lambda z: [[mp.mpf(i == z.index(max(z))) for i in range(len(z))]]),
}  # fmt: skip


@pytest.fixture(scope="module")
def reduction() -> Callable[[str], Any]:
    made: dict[str, Any] = {}

    def find(name: str) -> Any:
        if name not in made:
            made[name] = unvalidated(f"x: input[n]\ny = {name}(x)", wrt="all")
        return made[name]

    return find


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=lambda d: d.__name__)
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("row", ROWS)
def test_functions_over_axes_keep_their_digits(
    reduction: Callable[[str], Any], name: str, row: str, dtype: Any
) -> None:
    x = np.array([ROWS[row]], dtype)
    jac = reduction(name)
    value, slopes = REDUCTIONS[name]
    near, least = (1e-12, 5e-324) if dtype == np.float64 else (2e-6, 1.5e-45)
    with mp.workdps(1000):
        z = [mp.mpf(float(v)) for v in x[0]]
        largest = max(map(abs, z)) if name in ("sum", "mean", "log_softmax", "logsumexp") else 0
        wide = [s for part in slopes(z) for s in part]
        # the largest terms of δ - w and of w_i (δ - w_j), where the difference is nearly 0
        first = {"log_softmax": lambda i: 1, "softmax": lambda i: _weights(z)[i]}.get(name)
        places = np.ndindex(len(slopes(z)), len(z))
        terms = [first(i) if first and i == j else 0 for i, j in places]
        for found, wanted, scales in (
            (np.ravel(jac.forward(x)), value(z), [largest] * len(wide)),
            (np.ravel(jac.jac_x(x)), wide, terms),
        ):
            for got, want, scale in zip(found, wanted, scales, strict=False):
                size = max(abs(want), scale)
                assert abs(mp.mpf(float(got)) - want) <= near * size + least, (got, want)


BRANCHES = {
    "where(x > 0, sqrt(x), 0)": [0.0, 0.0, 0.25],
    "where(x > 0, log(x), x)": [1.0, 1.0, 0.25],
    "where(x > 0, x**-1, x * 0)": [0.0, 0.0, -0.0625],
    "x**2 + x**1": [-1.0, 1.0, 9.0],
    "hypot(0 * x, 0 * x) + norm(0 * x)": [0.0, 0.0, 0.0],
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=lambda d: d.__name__)
@pytest.mark.parametrize("text", BRANCHES)
def test_what_is_not_chosen_makes_no_nan(text: str, dtype: Any) -> None:
    jac = unvalidated(f"x: input[n]\ny = {text}", wrt="all")
    x = np.array([[-1.0, 0.0, 4.0]], dtype)
    assert np.isfinite(jac.forward(x)).all()
    wanted = np.array([BRANCHES[text]])
    np.testing.assert_allclose(jac.jac_x(x).sum(-1), wanted, rtol=1e-6)
    np.testing.assert_allclose(jac.vjp(x, np.ones((1, 3)))["x"], wanted, rtol=1e-6)
    np.testing.assert_allclose(jac.jvp(x, {"x": np.ones((1, 3))}), wanted, rtol=1e-6)
