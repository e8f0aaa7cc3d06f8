"""Sizes are polynomials with floor division: the language's paragraph on dims."""

import numpy as np
import pytest
from fuzz.laws import faults

import symgrad as sg
from symgrad.dims import Dim

CONV = "x: input[c, T]\nw: param[f, c, k]\n"
STRIDED = CONV + "y[j, t: (T - k)//2 + 1] = sum[i, l](w[j, i, l]*x[i, 2*t + l])"

LAYERS = {
    "a strided convolution": STRIDED,
    "its range inferred": CONV + "y[j, t] = tanh(sum[i, l](w[j, i, l]*x[i, 3*t + l]))",
    "two strides": (
        "x: input[n, m]\nw: param[p, q]\n"
        "y[i, j] = sum[a, b](w[a, b]*x[2*i + a, 3*j + b])"
    ),
    "a declared quotient": (
        "x: input[(t - k)//2 + 1]\na: param[t]\nw: param[k]\n"
        "y[i] = sum[l](w[l]*a[2*i + l]) * x[i]"
    ),
    "half of an axis": "x: input[n]\nw: param[n//2]\ny = x[:n//2] * w",
    "a product of dims": "x: input[h*d]\nw: param[h, d]\ny[i, j] = sum[p](x[p]) * w[i, j]",
    "a square": "x: input[n*n]\nw: param[n]\ny = sum(x) * w",
    "a sum in a product": "x: input[n*(m + 1)]\nw: param[m]\ny = sum(w) * exp(-x**2)",
    "a transposed convolution": (
        "x: input[n]\nw: param[k]\n"
        "y[p: 2*n + k - 2] = sum[i, l](delta(p, 2*i + l)*x[i]*w[l])"
    ),
    "sizes as numbers": "x: input[t, d]\nw: param[t//2 + 1]\ny = x @ x.T / sqrt(d*t + t//2)",
    "pooling by strides": (
        "x: input[n]\nw: param\nz[i: n//2] = x[2*i] + x[2*i + 1]\ny = log(1 + z**2)*w"
    ),
    "reversed stride": "x: input[n]\nw: param\nz[i: n//2] = x[n - 1 - 2*i]\ny = w*z**2",
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_form_agrees_with_every_oracle(name, seed):
    assert faults(LAYERS[name], "all", seed, explained=True) == []


def test_a_strided_convolution_is_that_of_torch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 3, 9)), rng.normal(size=(4, 3, 2))
    jac = sg.compile(STRIDED, "all")
    J = jac.jacobian(x, w)

    def layer(one, kernel):
        return torch.nn.functional.conv1d(one[None], kernel, stride=2)[0]

    for sample in range(2):
        point = torch.tensor(x[sample]), torch.tensor(w)
        np.testing.assert_allclose(J.value[sample], layer(*point).numpy(), rtol=1e-12)
        slopes = torch.autograd.functional.jacobian(layer, point)
        for name, right in zip(("x", "w"), slopes, strict=True):
            np.testing.assert_allclose(np.asarray(J[name])[sample], right.numpy(), rtol=1e-12)


def test_one_canonical_form():
    t, k = Dim.of("t"), Dim.of("k")
    assert t - k + 1 == 1 + t - k
    assert (2 * t + 3) // 2 == t + 1
    assert (t - k) // 2 + 1 == (t - k + 2) // 2
    assert (t + 1) * (t - 1) == t * t - 1


def test_sizes_are_written_as_python_reads_them():
    t, k, h = Dim.of("t"), Dim.of("k"), Dim.of("h")
    for dim in (
        (t - k) // 2 + 1, t // 2, h - t // 2, -(t // 2), -((t - k) // 2) - h, h * (t // 2),
        3 * (t // 2), (t // 2) * ((t - k) // 3), (t // 2) * (t // 2) - t // 2,
    ):  # fmt: skip
        for sizes in ({"t": 7, "k": 2, "h": 3}, {"t": 4, "k": 5, "h": 2}):
            assert eval(str(dim), {}, sizes) == dim.evaluate(sizes)
    assert str((t - k) // 2 + 1) == "(t - k)//2 + 1"
    assert str(t // 2) == "t//2"


@pytest.mark.parametrize(
    ("product", "factor", "quotient"),
    [("h*d*t", "h*d", "t"), ("h*d + h", "h", "d + 1"), ("t**2 - 1", "t - 1", "t + 1"),
     ("h*d + 1", "h", None), ("6*h", "4", None), ("h", "d", None), ("h*(t//2)", "h", "t//2")],
)  # fmt: skip
def test_polynomials_divide_exactly_or_not_at_all(product, factor, quotient):
    def dim(text):
        return sg.layer(f"x: input[{text}]\ny = x").declarations[0].dims[0]

    found = dim(product).divided_by(dim(factor))
    assert found == (None if quotient is None else dim(quotient))


def refused(text, message, **options):
    with pytest.raises(sg.ShapeError, match=message):
        sg.compile(text, "all", **options)


def fails(text, message, *arrays, **options):
    jac = sg.compile(text, "all", **options)
    with pytest.raises(sg.ShapeError, match=message):
        jac.forward(*arrays)


def test_two_names_never_match_even_where_their_sizes_are_equal():
    text = "x: input[n]\nw: param[m]\ny = x + w"
    refused(text, "the axes n and m differ")
    jac = sg.compile(text, "all", dims={"m": "n"})
    assert jac.forward(np.ones((1, 3)), np.ones(3)).shape == (1, 3)
    assert sg.compile(text, "all", dims={"n": 6, "m": 6}).forward(
        np.ones((1, 6)), np.ones(6)
    ).shape == (1, 6)


def test_only_a_literal_one_broadcasts():
    jac = sg.compile("x: input[n]\nw: param[1]\ny = x + w", "all")
    assert jac.forward(np.ones((2, 3)), np.ones(1)).shape == (2, 3)
    assert sg.compile("x: input[n]\nw: param[k]\ny = x + w", "all", dims={"k": 1}).forward(
        np.ones((2, 3)), np.ones(1)
    ).shape == (2, 3)


def test_a_dim_is_solved_where_it_is_the_only_unknown_and_the_rest_is_checked():
    text = "x: input[h*d]\nw: param[d]\nv: param[d + 2*h]\ny = sum(x)*w"
    jac = sg.compile(text, "all")
    assert jac.forward(np.ones((1, 6)), np.ones(3), np.ones(7)).shape == (1, 3)
    with pytest.raises(sg.ShapeError, match=r"axis 0 of v has size 8, expected d \+ 2\*h = 7"):
        jac.forward(np.ones((1, 6)), np.ones(3), np.ones(8))


@pytest.mark.parametrize(
    ("text", "dim"),
    [
        ("x: input[h*d]\ny = x", "d"),
        ("x: input[n*n]\ny = x", "n"),
        ("x: input[n//2]\ny = x", "n"),
        ("x: input[n]\ny[t: K] = x[0]*t", "K"),
        ("x: input[n]\ny = eye(k)*x[0]", "k"),
        ("x: input[n]\nw: param[(t - k)//2 + 1]\nv: param[k]\ny = x", "t"),
    ],
)
def test_a_dim_that_no_shape_determines_is_given_by_dims(text, dim):
    refused(text, f"no declared shape determines the dim {dim}")
    sg.compile(text, "all", dims={dim: 4}, check=False)


def test_a_size_given_by_dims_is_as_good_as_one_solved():
    jac = sg.compile("x: input[(t - k)//2 + 1]\nw: param[k]\ny = x*2", "all", dims={"t": 10})
    assert jac.forward(np.ones((1, 4)), np.ones(3)).shape == (1, 4)
    with pytest.raises(sg.ShapeError, match="has size 5"):
        jac.forward(np.ones((1, 5)), np.ones(3))


@pytest.mark.parametrize(
    ("text", "arrays", "message"),
    [
        ("x: input[2*n + 1]\ny = x", [(1, 4)], r"has size 4, but no size n makes 2\*n \+ 1 that"),
        ("x: input[n + 3]\ny = x", [(1, 2)], r"has size 2, but no size n makes n \+ 3 that"),
        ("x: input[h*d]\nw: param[d]\ny = x", [(1, 7), (3,)], r"no size h makes d\*h that"),
        ("x: input[n]\nw: param[n - m]\ny = x", [(1, 3), (4,)], "no size m makes n - m that"),
        ("x: input[h*d]\nw: param[d]\ny = x", [(1, 0), (0,)], "which any size h gives"),
        ("x: input[h*d]\nw: param[d]\ny = x", [(1, 3), (0,)], r"no size h makes d\*h that"),
        ("x: input[n]\nw: param[m]\ny = x[:n - m]", [(1, 3), (4,)], "length n - m comes out as -1"),
        (STRIDED, [(2, 3, 1), (4, 3, 4)], r"\(T - k\)//2 \+ 1 comes out as -1"),
    ],
)
def test_a_fractional_or_negative_size_is_an_error_of_the_call(text, arrays, message):
    fails(text, message, *(np.ones(shape) for shape in arrays))


def test_a_kernel_longer_than_its_signal_by_less_than_a_stride_has_no_place():
    jac = sg.compile(STRIDED, "all")
    assert jac.forward(np.ones((2, 3, 3)), np.ones((4, 3, 4))).shape == (2, 4, 0)
    assert np.asarray(jac.jacobian(np.ones((2, 3, 3)), np.ones((4, 3, 4)))["w"]).size == 0


def test_a_dim_is_a_number():
    jac = sg.compile("x: input[t, d]\ny = x / sqrt(d) + (t*d + 1)//2", "all")
    x = np.ones((1, 3, 4))
    np.testing.assert_allclose(jac.forward(x), x / 2 + 6)


def test_a_mismatch_names_both_arrays_both_axes_and_both_numbers():
    fails(
        "x: input[n]\nw: param[m, n]\ny = w @ x",
        "axis 1 of w has size 5, expected n = 6, from axis 1 of x",
        np.ones((1, 6)),
        np.ones((2, 5)),
    )


def test_a_range_larger_than_fits_is_refused():
    with pytest.raises(sg.ShapeError):
        sg.compile(CONV + "y[j, t: (T - k)//2 + 2] = sum[i, l](w[j, i, l]*x[i, 2*t + l])", "all")
