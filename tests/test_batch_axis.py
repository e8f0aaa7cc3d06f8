"""`batch_axis=`: every form of a layer with samples elsewhere is that with samples first, moved."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from dense_forms import LAYERS, layer
from layers import compiled, sample

import symgrad as sg

SAME = {"rtol": 1e-13, "atol": 1e-14}
"""The same sums; BLAS may add rows of another stride in another order."""


def last(array, lead=0):
    """Return an array with its first batch axis, behind `lead` axes, last; a copy."""
    return np.ascontiguousarray(np.moveaxis(array, lead, -1))


@pytest.fixture(scope="module", params=[n for n in LAYERS if n != "params_only"])
def pair(request):
    """A layer with arrays batch first, and the same with the batch axis last."""
    first = layer(request.param)
    program = first.jac.forms.program
    arrays = {n: last(a) if program.array(n).batched else a for n, a in first.arrays.items()}
    return first, replace(first, jac=replace(first.jac, batch_axis=-1), arrays=arrays)


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def check(found, expected, lead=0):
    """Raise unless a result is that with samples first, moved."""
    assert np.shape(found) == last(expected, lead).shape
    np.testing.assert_allclose(found, last(expected, lead), **SAME)


def vectors(first, lead=()):
    rng = np.random.default_rng(1)
    u = tuple(rng.normal(size=(*lead, *y.shape)) for y in first.outputs)
    return first.given(u), first.given(tuple(last(x, len(lead)) for x in u))


def tangents(first, lead=()):
    rng = np.random.default_rng(2)
    t = {n: rng.normal(size=(*lead, *np.shape(first.arrays[n]))) for n in first.jac.wrt}
    program = first.jac.forms.program
    moved = {n: last(x, len(lead)) if program.array(n).batched else x for n, x in t.items()}
    return t, moved


def check_by_name(first, found, expected, *, every=False, lead=0):
    assert list(found) == list(expected)
    for name in found:
        if every or first.jac.forms.program.array(name).batched:
            check(found[name], expected[name], lead)
        else:
            np.testing.assert_allclose(found[name], expected[name], **SAME)


def test_forms_of_the_compiled_layer(pair):
    first, other = pair
    (u, v), (t, s) = vectors(first), tangents(first)
    for a, b in zip(other.outputs, first.outputs, strict=True):
        check(a, b)
    for name in ("vjp", "vjp_per_sample"):
        found = getattr(other.jac, name)(other.arrays, v)
        every = name != "vjp"
        check_by_name(first, found, getattr(first.jac, name)(first.arrays, u), every=every)
    value, pull = other.jac.pullback(**other.arrays)
    for a, b in zip(as_tuple(value), first.outputs, strict=True):
        check(a, b)
    check_by_name(first, pull(v), first.jac.vjp(first.arrays, u))
    pushed, expected = other.jac.jvp(other.arrays, s), first.jac.jvp(first.arrays, t)
    for a, b in zip(as_tuple(pushed), as_tuple(expected), strict=True):
        check(a, b)
    for per_sample in (False, True):
        options = {"sum": True, "per_sample": per_sample}
        found = other.jac.gradient(**other.arrays, **options)
        check_by_name(first, found, first.jac.gradient(**first.arrays, **options), every=per_sample)


def test_functions_of_one_parameter(pair):
    first, other = pair
    for theta in first.jac.wrt:
        expected = as_tuple(getattr(first.jac, f"jac_{theta}")(**first.arrays))
        found = as_tuple(getattr(other.jac, f"jac_{theta}")(**other.arrays))
        outs = tuple(np.empty(last(e).shape) for e in expected)
        given = outs if len(outs) > 1 else outs[0]
        kept = as_tuple(getattr(other.jac, f"jac_{theta}")(**other.arrays, out=given))
        for a, b, c, d in zip(found, expected, kept, outs, strict=True):
            check(a, b)
            assert c is d
            check(c, b)
        factors = as_tuple(getattr(other.jac, f"jac_{theta}_factors")(**other.arrays))
        blocks = [b for k, b in other.jac.jacobian(**other.arrays).items() if theta in (k, k[-1])]
        for got, block in zip(factors, blocks, strict=True):
            assert {n: f.shape for n, f in got.items()} == {
                n: f.shape for n, f in block.factors().items()
            }


def test_structured_jacobians_and_their_letters(pair):
    first, other = pair
    J, K = first.jac.jacobian(**first.arrays), other.jac.jacobian(**other.arrays)
    for a, b in zip(as_tuple(K.value), first.outputs, strict=True):
        check(a, b)
    for key, block in K.items():
        check(block.dense(), J[key].dense())
        assert block.shape == block.dense().shape
        assert block.axes == (*J[key].axes[1:], J[key].axes[0])
        assert len(block.axes) == block.ndim
        compact = block.compact()
        check(compact, J[key].compact())
        out = np.empty(compact.shape)
        assert block.compact(out) is out
        np.testing.assert_array_equal(out, compact)
        check(block.norm(), J[key].norm())
        assert block.layout.split(":")[0] == f"[{', '.join(block.axes)}]"
        shapes = {n: f.ndim for n, f in block.factors().items()}
        for product in block.formula.split(" + ") if block.formula != "0" else ():
            for part in product.split(" * "):
                name, _, letters = part.rstrip("]").partition("[")
                if name in shapes:
                    letters = [x for x in letters.split(", ") if x]
                    assert len(letters) == shapes[name]
                    assert J[key].axes[0] not in letters[:-1]


@pytest.mark.parametrize("lead", [(), (2,)])
def test_products_with_vectors(pair, lead):
    first, other = pair
    J, K = first.jac.jacobian(**first.arrays), other.jac.jacobian(**other.arrays)
    (u, v), (t, s) = vectors(first, lead), tangents(first, lead)
    n = len(lead)
    check_by_name(first, K.vjp(v), J.vjp(u), lead=n)
    check_by_name(first, K.per_sample_vjp(v), J.per_sample_vjp(u), every=True, lead=n)
    for a, b in zip(as_tuple(K.jvp(s)), as_tuple(J.jvp(t)), strict=True):
        check(a, b, n)
    check_by_name(first, K.ggn_matvec(s), J.ggn_matvec(t), lead=n)
    if not lead:
        check(K.norm(v), J.norm(u))
        check(K.per_sample_dot(u=v), J.per_sample_dot(u=u))
        check_by_name(first, K.clipped_vjp(v, 0.5), J.clipped_vjp(u, 0.5))
        check_by_name(first, K.ggn_diagonal(u=v), J.ggn_diagonal(u=u))
        for x, y in zip(K.solve(v, 0.3).values(), J.solve(u, 0.3).values(), strict=True):
            expected = y if np.shape(x) == np.shape(y) else last(y)
            np.testing.assert_allclose(np.ravel(x), np.ravel(expected), rtol=1e-7, atol=1e-9)


def groups_last(array, outs):
    """Return `[B, *out, B', *out']` with each batch axis behind its own outputs."""
    return np.moveaxis(np.moveaxis(array, 1 + outs, -1), 0, outs)


def test_matrices(pair):
    first, other = pair
    J, K = first.jac.jacobian(**first.arrays), other.jac.jacobian(**other.arrays)
    names = first.jac.forms.program.outputs
    rank = {o: y.ndim - 1 for o, y in zip(names, first.outputs, strict=True)}

    def keyed(found):
        return found if len(names) > 1 else {(names[0], names[0]): found}

    expected = keyed(J.gram())
    for (o, q), found in keyed(K.gram()).items():
        np.testing.assert_allclose(found, groups_last(expected[o, q], rank[o]), **SAME)
    for form in (lambda j: j.gram(diagonal="batch"), lambda j: j.functional_variance(0.5)):
        wanted = keyed(form(J))
        for key, found in keyed(form(K)).items():
            check(found, wanted[key])
    wanted, found = J.gram(diagonal="out"), K.gram(diagonal="out")
    parts = [(found, wanted)] if len(names) == 1 else [(found[o], wanted[o]) for o in wanted]
    for a, b in parts:
        np.testing.assert_allclose(a, np.moveaxis(b, (0, 1), (-2, -1)), **SAME)
    for key, root in K.sqrt_ggn().items():
        check(root, J.sqrt_ggn()[key])
    program, wanted = first.jac.forms.program, J.ggn()
    for key, found in K.ggn().items():
        if any(program.array(n).batched for n in key):
            check(found, wanted[key])
        else:
            np.testing.assert_allclose(found, wanted[key], **SAME)


def test_output_hessians_have_the_batch_axis_last_too(pair):
    first, other = pair
    rng = np.random.default_rng(5)
    shapes = [y.shape for y in first.outputs]
    H = tuple(rng.normal(size=(*s, *s[1:])) for s in shapes)
    H = tuple(h + h.swapaxes(-1, -2) if h.ndim == 3 else h for h in H)
    J, K = first.jac.jacobian(**first.arrays), other.jac.jacobian(**other.arrays)
    moved = first.given(tuple(last(h) for h in H))
    check_by_name(first, K.ggn_diagonal(moved), J.ggn_diagonal(first.given(H)))


def test_one_sample_has_no_batch_axis(pair):
    first, other = pair
    program = first.jac.forms.program
    one = {n: a[0] if program.array(n).batched else a for n, a in first.arrays.items()}
    values = (as_tuple(jac.forward(**one)) for jac in (other.jac, first.jac))
    for a, b in zip(*values, strict=True):
        np.testing.assert_array_equal(a, b)
    J, K = first.jac.jacobian(**one), other.jac.jacobian(**one)
    for key, block in K.items():
        np.testing.assert_array_equal(block.dense(), J[key].dense())
        assert (block.axes, block.formula) == (J[key].axes, J[key].formula)


def test_results_are_views_where_the_module_made_them():
    one = sample("dense")
    jac = replace(one.jac, batch_axis=-1)
    J = jac.jacobian(**{**one.arrays, "x": one.arrays["x"].T})
    assert J["W"].dense().base is not None
    assert np.moveaxis(J["W"].dense(), -1, 0).flags.c_contiguous
    assert np.moveaxis(J.gram(), (1, 3), (0, 2)).flags.c_contiguous


def test_square_arrays_are_not_guessed():
    """A batch of three samples of three numbers: no shape check could tell a transposition."""
    X = np.arange(9.0).reshape(3, 3)
    W, b = np.array([[0.5, -1.0, 2.0]]), np.array([0.1])
    jac = compiled("W x + b", batch_axis=-1)
    np.testing.assert_allclose(jac.forward(X, W, b), W @ X + b[:, None])
    J = jac.jacobian(X, W, b)["W"]
    assert J.shape == (1, 1, 3, 3)
    np.testing.assert_allclose(J.dense(), X[None, None])
    assert J.layout == "[i, j, k, b]: axis of y, then axes of W, then batch, in C order"


def test_other_integers_count_among_the_axes_of_one_sample():
    text = "x: input[n, m]\nw: param[n]\ny = x * w[:, None]"
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(5, 2, 3)), rng.normal(size=2)
    expected = compiled(text).jacobian(X, w)["w"].dense()
    for axis, at in ((1, 1), (2, 2), (-2, 1), (-1, 2), (-3, 0), (0, 0)):
        jac = compiled(text, batch_axis=axis)
        moved = np.moveaxis(X, 0, at)
        np.testing.assert_allclose(jac.forward(moved, w), np.moveaxis(X * w[:, None], 0, at))
        J = jac.jacobian(moved, w)["w"]
        place = axis if axis >= 0 else 4 + axis
        np.testing.assert_allclose(J.dense(), np.moveaxis(expected, 0, place))


def test_a_batch_axis_that_some_array_cannot_have_is_refused():
    text = "x: input[n]\ny = sum(x)"
    for axis in (1, -2):
        with pytest.raises(sg.ArgumentError, match=f"batch_axis={axis} does not exist in y"):
            compiled(text, batch_axis=axis)
    with pytest.raises(sg.ArgumentError, match=r"batch_axis is 1\.5 \(float\), expected a whole"):
        compiled(text, batch_axis=1.5)
    assert compiled("w: param[n]\ny = w * w", "all", batch_axis=5).forward([2.0]) == [4.0]


def test_wrong_shapes_are_told_in_the_callers_order():
    one = sample("dense")
    jac = replace(one.jac, batch_axis=-1)
    x, W, b = one.arrays.values()
    with pytest.raises(sg.ShapeError, match=r"x has shape \(1, 4, 3\), expected \(n, B\), or one"):
        jac.forward(x.T[None], W, b)
    with pytest.raises(sg.ShapeError, match=r"(?s)batch axis is first; .*batch_axis=-1"):
        jac.forward(x, W, b)
    J = jac.jacobian(x.T, W, b)
    with pytest.raises(sg.ShapeError, match=r"u has shape \(5, 3\), expected \(3, 3\)"):
        J.vjp(np.ones((5, 3)))
    with pytest.raises(sg.ShapeError, match=r"out has shape \(3, 3, 3, 4\), expected \(3, 3, 4, 3"):
        J["W"].dense(out=np.empty((3, 3, 3, 4)))
    with pytest.raises(sg.ShapeError, match=r"out has shape \(3, 3, 3, 2\)"):
        J.gram(out=np.empty((3, 3, 3, 2)))


def test_selections_and_pickles_keep_the_batch_axis():
    one = sample("dense")
    jac = compiled(one.jac.layer, batch_axis=-1)
    x, W, b = one.arrays.values()
    for again in (jac.select("W"), pickle.loads(pickle.dumps(jac))):
        assert again.batch_axis == -1
        np.testing.assert_allclose(again.forward(x.T, W, b), one.jac.forward(x, W, b).T)
    J = pickle.loads(pickle.dumps(jac.jacobian(x.T, W, b)))
    assert J["W"].shape == (3, 3, 4, 3)


def test_the_batch_axis_costs_no_copy_of_the_module():
    one = sample("dense")
    assert compiled(one.jac.layer, batch_axis=-1, name="dense").source == one.jac.source
