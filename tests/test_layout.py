"""Matrices and flat vectors: every entry where the stated order says, against the dense array."""

from dataclasses import replace

import numpy as np
import pytest
from dense_forms import LAYERS, layer
from layers import arrays_for, compiled, sample

import symgrad as sg

NEAR = {"rtol": 1e-12, "atol": 1e-13}
"""Sums of some dozen products of order one, in another order."""


@pytest.fixture(scope="module", params=list(LAYERS))
def case(request):
    one = layer(request.param)
    return one, one.jac.jacobian(**one.arrays)


def flattened(array, lead, vec):
    """Return each of the arrays along the first `lead` axes flattened by numpy itself."""
    shape = array.shape[:lead]
    rows = [np.ravel(array[at], order=vec) for at in np.ndindex(shape)]
    size = int(np.prod(array.shape[lead:]))
    return np.array(rows).reshape(*shape, size)


def as_matrix(block, first, outs, vec):
    """Return `[B, out, p]` of a block, one entry of a row at a time."""
    dense = block.dense()
    rows = flattened(np.moveaxis(dense, range(first, first + outs), range(-outs, 0)),
                     dense.ndim - outs, vec) if outs else dense[..., None]  # fmt: skip
    rows = np.moveaxis(rows, -1, first)
    return flattened(rows, first + 1, vec)


def ranks(one):
    first = 1 if one.batched else 0
    names = one.jac.forms.program.outputs
    return first, {o: y.ndim - first for o, y in zip(names, one.outputs, strict=True)}


def pair(one, key):
    return key if isinstance(key, tuple) else (one.jac.forms.program.outputs[0], key)


@pytest.mark.parametrize("vec", ["C", "F"])
def test_the_matrix_is_the_dense_array_flattened_row_by_row_or_column_by_column(case, vec):
    one, J = case
    first, outs = ranks(one)
    whole = J.matrix(vec)
    batch = (one.outputs[0].shape[0],) if first else ()
    assert whole.shape == (*batch, max(s.stop for s in J.rows.values()),
                           max(s.stop for s in J.columns.values()))  # fmt: skip
    for key, block in J.items():
        output, name = pair(one, key)
        expected = as_matrix(block, first, outs[output], vec)
        np.testing.assert_allclose(block.matrix(vec), expected, **NEAR)
        np.testing.assert_allclose(whole[..., J.rows[output], J.columns[name]], expected, **NEAR)


@pytest.mark.parametrize("vec", ["C", "F"])
@pytest.mark.parametrize("lead", [(), (2,)])
def test_flat_vectors_are_those_that_the_matrix_multiplies(case, vec, lead):
    one, J = case
    first, _ = ranks(one)
    rng = np.random.default_rng(3)
    program = one.jac.forms.program
    tangents = {n: rng.normal(size=(*lead, *np.shape(one.arrays[n]))) for n in one.jac.wrt}
    v, M = J.flatten(tangents, vec), J.matrix(vec)
    samples = []
    for b in range(one.outputs[0].shape[0] if first else 1):
        own = []
        for name in one.jac.wrt:
            size = J.columns[name].stop - J.columns[name].start
            start = J.flat_columns[name].start + (b * size if program.array(name).batched else 0)
            own.append(v[..., start : start + size])
        row = np.concatenate(own, -1)
        samples.append(row @ (M[b] if first else M).T)
    pushed = J.jvp(tangents)
    np.testing.assert_allclose(J.flatten_outputs(pushed, vec), np.concatenate(samples, -1), **NEAR)


@pytest.mark.parametrize("vec", ["C", "F"])
@pytest.mark.parametrize("axis", [0, -1])
def test_unflattening_undoes_flattening(case, vec, axis):
    one, _ = case
    program = one.jac.forms.program
    moved = {
        n: np.moveaxis(a, 0, axis) if program.array(n).batched else a
        for n, a in one.arrays.items()
    }
    jac = replace(one.jac, batch_axis=axis)
    J = jac.jacobian(**moved)
    for lead in ((), (2,), (2, 3)):
        rng = np.random.default_rng(3)
        t = {n: rng.normal(size=(*lead, *np.shape(moved[n]))) for n in jac.wrt}
        flat = J.flatten(t, vec)
        assert flat.shape == (*lead, max(s.stop for s in J.flat_columns.values()))
        again = J.unflatten(flat, vec)
        assert list(again) == list(t)
        for name, array in again.items():
            np.testing.assert_array_equal(array, t[name])
        values = J.value if isinstance(J.value, tuple) else (J.value,)
        u = tuple(rng.normal(size=(*lead, *y.shape)) for y in values)
        back = J.unflatten_outputs(J.flatten_outputs(one.given(u), vec), vec)
        for a, b in zip(back if len(u) > 1 else (back,), u, strict=True):
            np.testing.assert_array_equal(a, b)


def test_vec_order_of_a_linear_map_as_on_paper():
    """Row by row I ⊗ xᵀ and B ⊗ A, column by column xᵀ ⊗ I and A ⊗ B."""
    jac = compiled("x: input[n]\nW: param[m, n]\ny = W @ x", "W")
    x, W = np.array([1.0, 2.0]), np.ones((2, 2))
    J = jac.jacobian(x, W)
    np.testing.assert_array_equal(J.matrix(), [[1, 2, 0, 0], [0, 0, 1, 2]])
    np.testing.assert_array_equal(J["W"].matrix("F"), [[1, 0, 2, 0], [0, 1, 0, 2]])
    B, A = np.array([[2.0, 0.5], [0.5, 3.0]]), np.outer(x, x)
    for vec, expected in (("C", np.kron(B, A)), ("F", np.kron(A, B))):
        M = J.matrix(vec)
        np.testing.assert_allclose(M.T @ B @ M, expected)
        columns = J.ggn_operator(B, vec=vec) @ np.eye(4)
        np.testing.assert_allclose(columns, expected)


def test_columns_of_all_parameters_follow_each_other_in_declared_order():
    one = sample("mlp")
    J = one.jac.jacobian(**one.arrays)
    assert list(J.columns) == ["x", "W1", "b1", "W2", "b2"]
    assert J.columns == {"x": slice(0, 4), "W1": slice(4, 24), "b1": slice(24, 29),
                         "W2": slice(29, 44), "b2": slice(44, 47)}  # fmt: skip
    assert J.flat_columns["x"] == slice(0, 12)
    assert J.flat_columns["b2"] == slice(52, 55)
    assert J.rows == {"y": slice(0, 3)}


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("vec", ["C", "F"])
def test_the_matrix_goes_into_out(axis, vec):
    one = sample("mlp")
    arrays = {**one.arrays, "x": np.moveaxis(one.arrays["x"], 0, axis)}
    J = replace(one.jac, batch_axis=axis).jacobian(**arrays)
    shape = (3, 3, 47) if axis == 0 else (3, 47, 3)
    out = np.full(shape, np.nan)
    assert J.matrix(vec, out=out) is out
    expected = np.moveaxis(one.jac.jacobian(**one.arrays).matrix(vec), 0, axis)
    np.testing.assert_allclose(out, expected, **NEAR)
    assert J.matrix(vec).shape == shape
    wide = np.zeros((*shape[:-1], 2 * shape[-1]))
    J.matrix(vec, out=wide[..., ::2])
    np.testing.assert_allclose(wide[..., ::2], expected, **NEAR)
    assert not wide[..., 1::2].any()
    with pytest.raises(sg.ShapeError, match=r"out has shape \(3, 3\)"):
        J.matrix(vec, out=np.zeros((3, 3)))


@pytest.mark.parametrize("name", ["dense", "two", "conv", "embedding", "scalars", "tokens"])
@pytest.mark.parametrize("vec", ["C", "F"])
def test_one_sample_has_the_matrix_of_its_row(name, vec):
    one = layer(name)
    program = one.jac.forms.program
    single = {n: a[1] if program.array(n).batched else a for n, a in one.arrays.items()}
    J, K = one.jac.jacobian(**single), one.jac.jacobian(**one.arrays)
    np.testing.assert_allclose(J.matrix(vec), K.matrix(vec)[1], **NEAR)
    t = {n: np.asarray(single[n], float) for n in one.jac.wrt}
    flat = J.flatten(t, vec)
    assert flat.shape == J.matrix(vec).shape[1:]
    np.testing.assert_allclose(
        J.flatten_outputs(J.jvp(t), vec), J.matrix(vec) @ flat, **NEAR
    )
    for n, array in J.unflatten(flat, vec).items():
        np.testing.assert_array_equal(array, t[n])


def test_dtypes_of_flat_arrays_are_those_of_the_pass():
    one = sample("dense")
    small = {n: a.astype(np.float32) for n, a in one.arrays.items()}
    J = one.jac.jacobian(**small)
    flat = J.flatten(one.tangents())
    found = [J.matrix(), J["W"].matrix("F"), flat, *J.unflatten(flat).values()]
    assert {a.dtype for a in found} == {np.dtype(np.float32)}
    turned = {n: a * np.exp(1j) for n, a in one.arrays.items()}
    J = one.jac.jacobian(**turned)
    assert J.matrix().dtype == np.complex128
    np.testing.assert_allclose(J["W"].matrix(), J["W"].dense().reshape(3, 3, 12), **NEAR)


@pytest.mark.parametrize("sizes", [{"n": 0}, {"m": 0}])
def test_empty_axes_give_empty_matrices(sizes):
    one = sample("dense")
    for batch in (0, 3):
        arrays = arrays_for(one.jac, batch, sizes=sizes)
        J = one.jac.jacobian(**arrays)
        for vec in ("C", "F"):
            M = J.matrix(vec)
            assert M.shape == (batch, J.rows["y"].stop, J.columns["b"].stop)
            flat = J.flatten({n: arrays[n] for n in J}, vec)
            assert {n: a.shape for n, a in J.unflatten(flat, vec).items()} == {
                n: arrays[n].shape for n in J
            }


def test_what_does_not_fit_is_refused():
    one = sample("dense")
    J = one.jac.jacobian(**one.arrays)
    for form in (J.matrix, J["W"].matrix, J.as_linear_operator, J.to_scipy, J.ggn_operator):
        with pytest.raises(sg.ArgumentError, match=r"vec must be 'C' \(row by row\) or 'F'"):
            form(vec="A")
    with pytest.raises(sg.ArgumentError, match="arrays for x, W, b; got W"):
        J.flatten({"W": np.ones((3, 4))})
    with pytest.raises(sg.ArgumentError, match=r"flatten takes a mapping .*; got ndarray"):
        J.flatten(np.ones(3))
    with pytest.raises(sg.ShapeError, match=r"W has shape \(4, 3\), expected \(3, 4\)"):
        J.flatten({**one.arrays, "W": np.ones((4, 3))})
    with pytest.raises(sg.ShapeError, match=r"vector has shape \(9,\), expected \(27,\)"):
        J.unflatten(np.ones(9))
    with pytest.raises(sg.ShapeError, match=r"vector has shape \(8,\), expected \(9,\)"):
        J.unflatten_outputs(np.ones(8))
    with pytest.raises(sg.ShapeError, match=r"u has shape \(2, 3\)"):
        J.flatten_outputs(np.ones((2, 3)))
