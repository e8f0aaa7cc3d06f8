"""reshape: the same elements in C order under other axes, in every form and under every oracle."""

import numpy as np
import pytest
from fuzz.laws import faults

import symgrad as sg
from symgrad.algebra.contract import contract
from symgrad.algebra.radix import by_digits, digits, holds, tiles
from symgrad.dims import Dim
from symgrad.program import Access, Affine, Delta, Guard, Index, Term

HEADS = """
x: input[t, e]
Wq: param[h*d, e]
Wk: param[h*d, e]
Wv: param[h*d, e]
Wo: param[h*d, o]
g: param[h, d]
q = transpose(reshape(x @ Wq.T, (t, h, d)), (1, 0, 2)) * g[:, None]
k = transpose(reshape(x @ Wk.T, (t, h, d)), (1, 0, 2))
v = transpose(reshape(x @ Wv.T, (t, h, d)), (1, 0, 2))
A[a, i, j] = sum[c](q[a, i, c] * k[a, j, c]) / sqrt(d)
P = softmax(A)
y = reshape(transpose(P @ v, (1, 0, 2)), (t, -1)) @ Wo
"""

LAYERS = {
    "split a parameter": "x: input[n, m]\nw: param[n*m]\ny = tanh(reshape(w, (n, m)) * x)",
    "merge a parameter": "x: input[n*m]\nW: param[n, m]\ny = tanh(reshape(W, (n*m,)) * x)",
    "merge an input": "x: input[n, m]\nw: param[n*m]\ny = sin(reshape(x, (-1,)) * w)",
    "three axes": "x: input[n, m, k]\ny = reshape(x, (n*m*k,))**2",
    "regroup": "x: input[n*m, k]\nW: param[n, m*k]\ny = tanh(reshape(x, (n, m*k))) * W",
    "regroup under one name": (
        "x: input[a*c, b]\nu: param[a]\nw: param[b, c]\n"
        "z = reshape(x, (a, c*b))\ny[i, j] = exp(z[i, j] * u[i])"
    ),
    "inside a reshape": (
        "x: input[n, m*k]\nv: param[m]\nz = reshape(reshape(x, (n, m, k)), (n*m, k))\ny = z**3"
    ),
    "there and back": (
        "x: input[n, m]\nw: param[n, m]\na = x * w\nb = reshape(a, (n*m,))\n"
        "c = reshape(b, (n, m))\ny = sin(c)"
    ),
    "read in part": "x: input[n*m]\nw: param[m]\nz = reshape(x, (n, m))\ny = z[0] * w",
    "transposed": "x: input[n, m]\nw: param[m*n]\ny = reshape(x.T, (m*n,)) * sigmoid(w)",
    "an axis of one": (
        "x: input[n, m]\nw: param[n]\ny = reshape(x, (1, n, 1, m)) * reshape(w, (n, 1))"
    ),
    "softmax of groups": (
        "x: input[n*m]\nw: param[n, m]\np = softmax(reshape(x, (n, m)) * w)\ny = reshape(p, (n*m,))"
    ),
    "largest of groups": "x: input[n*m]\nw: param[n, m]\ny = max(reshape(x, (n, m)) * w)",
    "fixed groups": "x: input[2*n]\nw: param[2]\ny = reshape(x, (n, 2)) @ w",
    "a sum of dims": "x: input[n + 1, m]\nw: param[(n + 1)*m]\ny = reshape(x, (-1,)) * tanh(w)",
    "pooling": "x: input[2*n, 2*m]\nw: param\ny = max(reshape(x, (n, 2, m, 2)), axis=(1, 3)) * w",
    "shared only": "W: param[n, m]\nx: input[m*n]\ns = exp(reshape(W, (n*m,)))\ny = dot(s, x)",
    "no input": "W: param[n, m]\ny = reshape(tanh(W), (m*n,))[::-1]",
    "pixel shuffle": (
        "x: input[c*r*s, n, m]\nw: param[r, s]\nu: param[c]\n"
        "z = reshape(x, (c, r, s, n, m))\n"
        "y = reshape(transpose(z, (0, 3, 1, 4, 2)), (c, n*r, m*s))**2"
    ),
    "gathered": (
        "t: index(n*m)[k]\nE: param[n, m]\nx: input[k]\ne = reshape(E, (-1,))\ny = e[t] * x"
    ),
    "both ways of a matrix": (
        "x: input[n*m]\nW: param[n, m]\ny = reshape(W @ reshape(x, (m, n)), (-1,))"
    ),
    "a mask": "x: input[n, m]\nw: param[n*m]\nz = reshape(x > 0, (n*m,))\ny = where(z, w, 2*w)",
    "heads": HEADS,
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_form_agrees_with_every_oracle(name, seed):
    assert faults(LAYERS[name], "all", seed, explained=True) == []


def test_multi_head_attention_is_that_of_torch():
    torch = pytest.importorskip("torch")
    jac = sg.compile(HEADS, wrt="all")
    rng = np.random.default_rng(0)
    t, e, h, d, o = 4, 3, 2, 3, 2
    arrays = {
        "x": rng.normal(size=(2, t, e)),
        **{n: rng.normal(size=(h * d, e)) for n in ("Wq", "Wk", "Wv")},
        "Wo": rng.normal(size=(h * d, o)),
        "g": np.ones((h, d)),
    }

    def layer(x, Wq, Wk, Wv, Wo):
        weights = (torch.cat([Wq, Wk, Wv]), torch.zeros(3 * h * d))
        attention = torch.nn.functional.multi_head_attention_forward
        q, k, v = (x @ w.T for w in (Wq, Wk, Wv))
        ones = torch.eye(h * d)
        y, _ = attention(
            q[:, None], k[:, None], v[:, None], h * d, h, torch.cat([ones] * 3), weights[1],
            None, None, False, 0.0, ones, torch.zeros(h * d), need_weights=False,
        )  # fmt: skip
        return y[:, 0] @ Wo

    torch.set_default_dtype(torch.float64)
    try:
        names = ("Wq", "Wk", "Wv", "Wo")
        given = [torch.tensor(arrays[n]) for n in names]
        J = jac.jacobian(arrays)
        for sample in range(2):
            point = (torch.tensor(arrays["x"][sample]), *given)
            np.testing.assert_allclose(J.value[sample], layer(*point).numpy(), rtol=1e-11)
            slopes = torch.autograd.functional.jacobian(layer, point)
            for name, right in zip(("x", *names), slopes, strict=True):
                found = np.asarray(J[name])[sample]
                np.testing.assert_allclose(found, right.numpy(), rtol=1e-9, atol=1e-12)
    finally:
        torch.set_default_dtype(torch.float32)


def test_heads_are_checked_by_differences_and_by_the_closed_form_in_many_digits():
    report = sg.check(HEADS, "params", dims={"t": 2, "e": 2, "h": 2, "d": 2, "o": 1})
    assert report.ok
    assert {a.oracle for a in report.agreements} == {
        "finite differences",
        "closed form in high precision",
    }


SPLIT = "x: input[t, h*d]\nw: param[d]\ny = tanh(reshape(x, (t, h, d)) * w)"


def test_a_literal_size_fixes_what_is_split():
    jac = sg.compile("x: input[h*d]\ny = reshape(x, (h, d))**2", "x", dims={"d": 2})
    x = np.arange(6.0)[None]
    np.testing.assert_array_equal(jac.forward(x), x.reshape(1, 3, 2) ** 2)
    with pytest.raises(sg.ShapeError, match="x"):
        jac.forward(np.zeros((1, 5)))


def test_float32_stays_float32():
    jac = sg.compile(SPLIT, "all")
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 3, 8)), rng.normal(size=4)
    single = jac.jacobian(x.astype(np.float32), w.astype(np.float32))
    double = jac.jacobian(x, w)
    assert single.value.dtype == np.float32
    for name in ("x", "w"):
        dense = np.asarray(single[name])
        assert dense.dtype == np.float32
        np.testing.assert_allclose(dense, np.asarray(double[name]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(0, 3, 8), (2, 0, 8), (2, 3, 0)])
def test_nothing_is_reshaped_to_nothing(shape):
    jac = sg.compile(SPLIT, "all")
    x, w = np.zeros(shape), np.ones(4)
    J = jac.jacobian(x, w)
    heads = shape[-1] // 4
    assert J.value.shape == (*shape[:2], heads, 4)
    assert np.asarray(J["w"]).shape == (*shape[:2], heads, 4, 4)
    assert np.asarray(J["x"]).shape == (*shape[:2], heads, 4, *shape[1:])
    assert jac.vjp(x, w, np.ones((*shape[:2], heads, 4)))["w"].shape == (4,)


def test_the_structure_of_a_split_and_of_a_merge():
    J = sg.compile("x: input[n, m]\nw: param[n*m]\nv: param[n, m]\n"
                   "y = reshape(w, (n, m)) * x\nz = reshape(v * x, (-1,))\nreturn y, z").jacobian(
        np.ones((1, 2, 3)), np.ones(6), np.ones((2, 3)))  # fmt: skip
    assert J["y", "w"].structure == "delta(k, m*i + j) * C[b, i, j]"
    assert J["y", "w"].compact().shape == (1, 2, 3)
    assert J["z", "v"].structure == "delta(i, m*j + k) * C[b, i]"
    assert J["z", "v"].compact().shape == (1, 6)


def test_splitting_elsewhere_goes_through_one_axis():
    text = "x: input[n*m, k]\nw: param[m]\nz = tanh(x)\ny = reshape(z, (n, m*k))**2"
    source = sg.show_stage(text, "source", wrt="x")
    assert "s = z.reshape((n_B, n_k * n_m * n_n))" in source
    forward = source[source.index("def _fill_y(") :]
    assert " == " not in forward[: forward.index("@")]  # elements are not looked for


def test_identical_reshapes_cancel():
    text = "x: input[n, m]\na = reshape(x, (n*m,))\nb = reshape(a, (n, m))\ny = b**2"
    assert sg.compile(text, "x").jacobian(np.ones((1, 2, 3)))["x"].structure == (
        "delta(i, k) * delta(j, l) * C[b, i, j]"
    )
    once = "x: input[n, m]\ny = reshape(reshape(x, (n*m,)), (n, m))**2"
    assert "delta" not in sg.show_stage(once, "check")


def test_only_the_axes_that_change_are_counted_through():
    shown = sg.show_stage("x: input[b, h*d]\nw: param[d]\ny = reshape(x, (b, h, d))*w", "check")
    assert "x[β, i, d*j + l]" in shown


def test_a_merge_writes_every_element_once():
    jac = sg.compile("x: input[n, m]\ny = reshape(x, (n*m,))", "x")
    assert "y[b, n_m * i + j] = x[b, i, j]" in jac.source


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("(n, m, 2)", r"x \[n, m\] has m\*n elements, but \[n, m, 2\] asks for 2\*m\*n"),
        ("(n, -1, -1)", "only one axis may be -1"),
        ("(-1, k)", r"k does not divide m\*n, the number of elements of x \[n, m\]"),
        ("(0, -1)", "0 does not divide"),
        ("(m - n, -1)", "does not divide"),
    ],
)
def test_a_shape_that_does_not_fit_is_refused(shape, message):
    with pytest.raises(sg.ShapeError, match=message):
        sg.derive(f"x: input[n, m]\nw: param[k]\ny = reshape(x, {shape})\nz = w", "all")


def test_reshape_takes_two_arguments():
    with pytest.raises(sg.LayerSyntaxError, match="an array and a shape"):
        sg.layer("x: input[n]\ny = reshape(x)") and sg.derive("x: input[n]\ny = reshape(x)", "x")


N, M, K = Dim.of("n"), Dim.of("m"), Dim.of("k")
I, J, P, Q = Index("i", N, 1), Index("j", M, 2), Index("p", N, 3), Index("q", M, 4)
S = Index("s", N * M, 5)
A = Affine.of


def test_digits_make_every_number_once():
    assert digits(A(I) * M + J) == N * M
    assert digits(A(J) * N + I) == N * M
    assert digits(A(I) * 2 + J) is None
    assert digits(A(I) * M + J + 1) is None
    assert holds(Guard(A(I) * M + J, N * M))
    assert tiles((A(I) * M + J,), (N * M,), (I, J))
    assert not tiles((A(I) * M + J,), (N * M,), (I, J, P))


def test_equal_numbers_have_equal_digits():
    assert set(by_digits(Delta(A(I) * M + J, A(P) * M + Q))) == {
        Delta(A(I), A(P)),
        Delta(A(J), A(Q)),
    }
    odd = Delta(A(I) * K + J, A(P) * K + Q)  # j < m may reach beyond k
    assert by_digits(odd) == (odd,)


def test_a_number_is_put_for_an_index_without_a_guard():
    w = Access("w", (A(S),))
    assert contract(Term((S,), (Delta(A(S), A(I) * M + J), w))) == Term(
        (), (Access("w", (A(I) * M + J,)),)
    )


def test_digits_that_only_make_their_number_are_summed_away():
    w = Access("w", (A(I) * M + J,))
    term = Term((I, J), (Delta(A(S), A(I) * M + J), w))
    assert contract(term) == Term((), (Access("w", (A(S),)),))


def test_digits_are_never_computed_from_their_number():
    term = Term((I, J), (Delta(A(S), A(I) * M + J), Access("w", (A(I), A(J)))))
    assert contract(term, prefer=(I, J)) == term


def test_what_is_split_and_merged_again_keeps_its_elements_apart():
    text = "x: input[t, h*d]\nw: param[d]\ny = reshape(tanh(reshape(x, (t, h, d)) * w), (t, -1))"
    x, w = np.ones((1, 2, 6)), np.ones(3)
    structure = sg.compile(text, "x").jacobian(x, w)["x"].structure
    assert structure == "delta(i, k) * delta(j, l) * C[b, i, j]"


def test_a_reshaped_array_is_a_view_in_the_driver():
    jac = sg.compile(SPLIT, "all")
    assert ".reshape((n_B, n_t, n_h, n_d))" in jac.source
    x, w = np.arange(24.0).reshape(1, 3, 8) / 24, np.ones(4)
    before = x.copy()
    jac.jacobian(x, w)["x"].dense()
    jac.vjp(x, w, np.ones((1, 3, 2, 4)))
    np.testing.assert_array_equal(x, before)
    strided = np.empty((1, 3, 16))[:, :, ::2]
    strided[...] = x
    np.testing.assert_array_equal(jac.forward(strided, w), jac.forward(x, w))


def test_a_result_is_no_view_of_what_was_given():
    jac = sg.compile("x: input[n, m]\nz = reshape(x, (n*m,))\ny = reshape(z, (m, n))", "x")
    x = np.ones((1, 2, 3))
    for found in (jac.forward(x), jac.jacobian(x).value, jac.pullback(x)[0]):
        assert not np.shares_memory(found, x)
    u = np.ones((1, 3, 2))
    assert not np.shares_memory(jac.vjp(x, u)["x"], u)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_view_is_read_only_after_all_of_it_was_written(compiled):
    text = (
        "x: input[n, n*n]\nz = tanh(x)\nq = reshape(z, (n*n, n))\ny[i, j] = x[i, j]*q[j, i]"
    )
    assert faults(text, "all", 0, compiled=compiled) == []


@pytest.mark.parametrize(
    "text",
    [
        "x: input[n, m]\nw: param[n*m]\ny = reshape(w, (n, m)) * x",
        "x: input[n, m]\nw: param[n, m]\ny = reshape(tanh(w) * x, (-1,))",
        "x: input[n, m*k]\nw: param[m, k]\ny = reshape(x, (n, m, k)) * w",
        "x: input[k]\nw: param[n*m, k]\nc: const[m]\ny = reshape(w @ x, (n, m)) + c",
    ],
)
def test_products_with_a_split_need_no_dense_array(text, monkeypatch):
    jac = sg.compile(text, "all", check=False)
    rng = np.random.default_rng(0)
    sizes = {"n": 2, "m": 3, "k": 4}
    arrays = {}
    for array in jac.forms.program.arrays:
        shape = tuple(d.evaluate(sizes) for d in array.axes)
        arrays[array.name] = rng.normal(size=(2, *shape) if array.batched else shape)
    J = jac.jacobian(arrays)
    dense = {name: np.asarray(J[name]) for name in J}
    monkeypatch.setattr(type(J["w"]), "dense", None)
    u = rng.normal(size=J.value.shape)
    for name, block in J.items():
        batch = 1 if name == "x" else 0
        flat = dense[name].reshape(2, u[0].size, -1)
        pulled = np.einsum("bo,bop->bp", u.reshape(2, -1), flat)
        own = arrays[name].shape[batch:]
        np.testing.assert_allclose(block.per_sample_vjp(u), pulled.reshape(2, *own))
        pushed = np.einsum("bop,bp->bo", flat, np.broadcast_to(
            arrays[name].reshape(2 if batch else 1, -1), (2, flat.shape[2])))  # fmt: skip
        np.testing.assert_allclose(block.jvp(arrays[name]), pushed.reshape(u.shape))
        np.testing.assert_allclose(block.norm(), np.sqrt((flat**2).sum((1, 2))))
