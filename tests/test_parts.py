"""Parts of arrays: every form of a part is that part of the form of the whole."""

import re
import subprocess
import sys

import numpy as np
import pytest
from dense_forms import LAYERS
from layers import arrays_for, compiled, with_steps
from recurrences import RECURRENCES

import symgrad as sg
from symgrad.errors import ArgumentError, SelectionError, ShapeError

EXACT = {"rtol": 1e-10, "atol": 1e-11}
"""Two orders of summation of terms up to 1e4 that cancel to one differ by some 1e-12."""

TEXTS = {
    **LAYERS,
    **RECURRENCES,
    "solve": "x: input[n]\nA: param[n, n]\ny = solve(A @ A.T + eye(n), x)",
    "solve alone": "x: input[n]\nA: param[n, n]\ny = solve(A, x)",
    "cholesky": "x: input[n]\nA: param[n, n]\ny = cholesky(A @ A.T + eye(n)) @ x",
    "logdet": "S: param[n, n]\ny = logdet(S @ S.T + eye(n))",
    "inverse": "x: input[n]\nA: param[n, n]\ny = tanh(inv(A) @ x)",
}


def some_part(rng, shape):
    """Return a part of an array of this shape, as numpy takes it."""
    if not shape:
        return True
    kind = rng.integers(6)
    if kind == 0:
        mask = rng.random(shape) < 0.5
        mask.flat[rng.integers(mask.size)] = True
        return mask
    if kind == 1:
        count = rng.integers(1, 4)
        chosen = rng.permutation(int(np.prod(shape)))[:count]
        return tuple([int(p) for p in places] for places in np.unravel_index(chosen, shape))
    items = []
    lists = 0
    for size in shape:
        choice = rng.integers(7)
        if choice == 0 and not lists:
            places = rng.permutation(size)[: rng.integers(1, size + 1)]
            items.append([int(p) - int(rng.integers(2)) * size for p in places])
            lists += 1
        elif choice == 1 and not lists:
            mask = rng.random(size) < 0.5
            mask[rng.integers(size)] = True
            items.append(mask)
            lists += 1
        elif choice == 2:
            items.append(int(rng.integers(-size, size)))
        elif choice == 3:
            items.append(slice(None, None, -1))
        elif choice == 4:
            items.append(slice(int(rng.integers(size)), None, int(rng.integers(1, 3))))
        elif choice == 5:
            items.append(slice(-int(rng.integers(1, size + 1)), None))
        else:
            items.append(slice(None))
    return tuple(items)


def parts_for(jac, arrays, seed):
    rng = np.random.default_rng(seed)
    table = {a.name: a for a in jac.forms.program.arrays}
    parts = {}
    for name in jac.wrt:
        shape = np.shape(arrays[name])[1 if table[name].batched else 0 :]
        parts[name] = some_part(rng, shape)
    return parts


def of(array, part, axes):
    """Return the part of an array whose last `axes` axes are those of the whole."""
    array = np.asarray(array)
    if part is True or not axes:
        return array
    lead = array.shape[: array.ndim - axes]
    flat = array.reshape(-1, *array.shape[array.ndim - axes :])
    return np.array([one[part] for one in flat]).reshape((*lead, *flat[0][part].shape))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", TEXTS)
def test_every_form_is_that_of_the_whole_at_the_part(name, seed):
    whole = compiled(TEXTS[name])
    arrays = arrays_for(whole, seed=seed)
    arrays = {n: abs(a) if a.dtype.kind == "f" else a for n, a in arrays.items()}
    parts = parts_for(whole, arrays, seed)
    jac = compiled(TEXTS[name], parts)
    program = jac.forms.program
    rank = {a.name: len(a.axes) for a in program.arrays}
    rng = np.random.default_rng(seed)
    J, K = jac.jacobian(arrays), whole.jacobian(arrays)
    outputs = K.value if isinstance(K.value, tuple) else (K.value,)
    u = tuple(rng.normal(size=y.shape) for y in outputs)
    u = u if len(u) > 1 else u[0]
    found = jac.module.jacobian(*arrays.values())
    for key, block in J.items():
        theta = key[1] if isinstance(key, tuple) else key
        expected = of(K[key].dense(), parts[theta], rank[theta])
        assert block.shape == expected.shape
        np.testing.assert_allclose(block.dense(), expected, **EXACT)
        np.testing.assert_allclose(found[key], expected, **EXACT)
    for form in ("vjp", "vjp_per_sample"):
        ours, theirs = getattr(jac, form)(arrays, u), getattr(whole, form)(arrays, u)
        assert list(ours) == list(theirs)
        for theta in ours:
            np.testing.assert_allclose(
                ours[theta], of(theirs[theta], parts[theta], rank[theta]), **EXACT
            )
    pulled, expected = jac.pullback(arrays)[1](u), jac.vjp(arrays, u)
    structured, each = J.vjp(u), J.per_sample_vjp(u)
    for theta in pulled:
        np.testing.assert_allclose(pulled[theta], expected[theta], **EXACT)
        np.testing.assert_allclose(structured[theta], expected[theta], **EXACT)
        np.testing.assert_allclose(each[theta], jac.vjp_per_sample(arrays, u)[theta], **EXACT)
    tangents = {n: rng.normal(size=g.shape) for n, g in pulled.items()}
    full = {}
    for n, t in tangents.items():
        batched = program.array(n).batched
        full[n] = np.zeros(arrays[n].shape)
        for at in np.ndindex(arrays[n].shape[:1] if batched else ()):
            if parts[n] is True or not rank[n]:
                full[n][at] = t[at]
            else:
                full[n][at][parts[n]] = t[at]
    pushed, expected = jac.jvp(arrays, tangents), whole.jvp(arrays, full)
    again = J.jvp(tangents)
    three = ((x if isinstance(x, tuple) else (x,)) for x in (pushed, again, expected))
    for ours, mine, theirs in zip(*three, strict=True):
        np.testing.assert_allclose(ours, theirs, **EXACT)
        np.testing.assert_allclose(mine, theirs, **EXACT)


DENSE = "x: input[n]\nW: param[m, n]\nb: param[m]\ny = tanh(W @ x + b)"


@pytest.mark.parametrize("seed", range(40))
def test_a_part_is_what_numpy_takes(seed):
    """One output, the sum of all entries: its derivative is a one for each place of the part."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 5, size=rng.integers(1, 4)))
    dims = ["i", "j", "k"][: len(shape)]
    part = some_part(rng, shape)
    whole = rng.normal(size=shape)
    text = f"W: param[{', '.join(dims)}]\ny = W * W"
    jac = compiled(text, {"W": part})
    J = jac.jacobian(whole)
    expected = compiled(text).jacobian(whole)["W"].dense()
    np.testing.assert_array_equal(J["W"].dense(), of(expected, part, len(shape)))
    assert J["W"].shape == (*shape, *whole[part].shape)


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (None, "holds None"),
        ("2:, q", "is no part"),
        (np.s_[0, 0, 0], "takes 3 axes"),
        (np.s_[::0], "step 0"),
        ([[0, 1], [1, 2]], "one list for each axis"),
        (np.s_[[0, 1], [0, 1, 2]], "2 and 3 numbers"),
        ([1, 0, 1], "takes the place 1 twice"),
        (1.5, "holds 1.5"),
        ([], "takes nothing"),
        (False, "holds False"),
        (np.zeros((3, 4), bool), "mask of nothing"),
        (np.s_[..., ...], "two '...'"),
        (np.s_[4:], "bounds are not clipped"),
        (np.s_[:9], "bounds are not clipped"),
        (3, "bounds are not clipped"),
        ([0, -4], "bounds are not clipped"),
        (np.ones(2, bool), "mask of 2 for an axis of length 3"),
    ],
)
def test_what_is_no_part_is_refused_before_anything_is_compiled(part, words):
    with pytest.raises(SelectionError, match=re.escape(words)):
        sg.derive(DENSE, {"W": part}, dims={"m": 3, "n": 4})


@pytest.mark.parametrize(
    ("part", "m", "words"),
    [
        (np.s_[2:], 1, "comes out as -1"),
        (np.s_[:3], 2, "positions 0 to 2 of 2"),
        ([0, 3], 3, "positions 0 to 3 of 3"),
        (-3, 2, "positions -1"),
        (np.array([True, False, True]), 4, "for 3 places along axis 0, but that has length 4"),
        (np.array([True, False, True]), 2, "but that has length 2"),
    ],
)
def test_a_part_that_does_not_fit_at_the_call_is_refused(part, m, words):
    jac = compiled(DENSE, {"W": part})
    x, W, b = np.ones((2, 4)), np.ones((m, 4)), np.ones(m)
    for call in (jac.jacobian, jac.forward, jac.pullback):
        with pytest.raises(ShapeError, match=re.escape(words)):
            call(x, W, b)


@pytest.mark.parametrize(
    ("wrt", "names", "parts"),
    [
        ("W[1:, 0]", ("W",), {"W": ("1:", 0)}),
        (["W[1:]", "b"], ("W", "b"), {"W": ("1:", ":")}),
        ({"params": True, "b": np.s_[::-1]}, ("W", "b"), {"b": ("::-1",)}),
        ({"*": True, "W": [0, 3, 1]}, ("x", "W", "b"), {"W": ([0, 3, 1], ":")}),
        ({"b": np.array([True, False, True])}, ("b",), {"b": ({"mask": "101", "shape": [3]},)}),
        ({"W": True}, ("W",), None),
        ({"W": ..., "b": np.s_[:]}, ("W", "b"), None),
    ],
)
def test_parts_are_selected_by_names_globs_roles_and_texts(wrt, names, parts):
    jac = compiled(DENSE, wrt)
    assert jac.wrt == jac.module.WRT == names
    assert jac.module.OPTIONS.get("parts") == parts


def test_an_array_has_one_part_only():
    with pytest.raises(SelectionError, match="b is selected twice"):
        sg.derive(DENSE, {"b*": np.s_[1:], "*": True})
    with pytest.raises(SelectionError, match="stands beside a part"):
        sg.derive(DENSE, {"W": np.s_[1:], "!b": True})
    with pytest.raises(SelectionError, match="selected when compiling"):
        compiled(DENSE).select({"W": np.s_[1:]})


def test_a_module_holds_its_parts_and_is_checked_by_them(tmp_path):
    """Short lists are readable, long ones are packed; the module is read again from its text."""
    rng = np.random.default_rng(0)
    mask, places = rng.random((30, 20)) < 0.5, [int(n) for n in rng.permutation(30)]
    long = [int(n) for n in rng.permutation(600)[:300]]
    path = tmp_path / "parts.py"
    text = f"{DENSE} * sum(v)\nv: param[q]"
    dims = {"m": 30, "n": 20, "q": 600}
    jac = sg.compile(text, {"W": mask, "b": places, "v": long}, path=path, check=False)
    assert jac.module.OPTIONS["parts"]["b"] == (places,)
    assert set(jac.module.OPTIONS["parts"]["v"][0]) == {"numbers", "kind"}
    report = sg.check(path, dims=dims, batch=1)
    assert report.ok
    assert {a.parameter for a in report.agreements} == {"W", "b", "v"}
    x, W, b, v = (rng.normal(size=s) for s in ((1, 20), (30, 20), 30, 600))
    found = jac.module.jacobian(x, W, b, v)
    whole = compiled(text).module.jacobian(x, W, b, v)
    np.testing.assert_allclose(found["W"], whole["W"][:, :, mask], **EXACT)
    np.testing.assert_allclose(found["v"], whole["v"][:, :, long], **EXACT)


def test_validation_differences_the_part_alone():
    jac = sg.compile(DENSE, {"W": np.s_[1:, [0, 2, 1]], "x": np.s_[::2]})
    assert jac.report.ok
    assert {a.parameter: a.entries > 0 for a in jac.report.agreements} == {"x": True, "W": True}


def test_the_derivation_names_the_places_of_a_part():
    told = sg.derive(DENSE, {"W": np.s_[2:, :], "b": [0, 3, 1]})
    assert "∂y[i]/∂W[j+2,k] = δ_{i,j+2} (1 - y_i²) x_k" in told.text()
    assert "∂y[i]/∂b[at_b[j]] = δ_{i,at_b[j]} (1 - y_i²)" in told.text()
    assert "at_b: the places 0, 3, 1 of b that are selected" in told.text()
    assert r"\frac{\partial y_i}{\partial W_{j+2,k}}" in told.latex()
    assert "a part of W is selected" in told.text(style="matrix")


def test_what_is_not_zero_of_a_part_has_its_size():
    J = compiled(DENSE, {"W": np.s_[2:, ::2], "b": [0, 3, 1]}).jacobian(
        np.ones((2, 5)), np.ones((4, 5)), np.ones(4)
    )
    assert J["W"].structure == "delta(i, j + 2) * C[b, j, k]"
    assert J["W"].compact().shape == (2, 2, 3)
    assert J["b"].structure == "delta(i, at_b[j]) * C[b, j]"
    assert J["b"].compact().shape == (2, 3)
    dense = J["W"].dense()
    for j in range(2):
        np.testing.assert_array_equal(dense[:, j + 2, j], J["W"].compact()[:, j])
    assert np.count_nonzero(dense) == J["W"].compact().size


def code(jac, name):
    """Return the text of the functions of a module whose name holds `name`."""
    parts = re.split(r"\n\n\n", jac.source)
    found = "\n".join(p for p in parts if re.search(rf"def \w*{name}\w*\(", p))
    return with_steps(jac.source, found)


@pytest.mark.parametrize("part", [np.s_[2:, :], np.s_[[0, 3, 1]], np.s_[:9, 1:9]])
def test_products_of_slices_are_taken_by_blas(part):
    jac = compiled(DENSE, {"W": part, "b": True})
    assert "matmul(d_z[" in code(jac, "_back")
    assert "t_z[" in code(jac, "_tangent")
    assert "np.matmul(x" in code(jac, "_tangent")


def test_loops_and_arrays_have_the_sizes_of_the_part():
    """With one row of 10^3 selected, no array of the way back has the size of W, no loop its rows.

    Counted are the elements of all arrays that a call allocates.
    """
    jac = compiled("x: input[n]\nW: param[m, n]\ny = W @ x", {"W": np.s_[[7]]})
    x, W, u = np.ones((2, 50)), np.ones((1000, 50)), np.ones((2, 1000))
    sizes = []
    numpy = jac.module.np

    class Counting:
        def __getattr__(self, name):
            return getattr(numpy, name)

        def empty(self, shape, dtype=float):
            sizes.append(int(np.prod(shape)))
            return numpy.empty(shape, dtype)

    jac.module.np = Counting()
    try:
        assert jac.vjp_per_sample(x, W, u)["W"].shape == (2, 1, 50)
        assert jac.vjp(x, W, u)["W"].shape == (1, 50)
        assert jac.jacobian(x, W)["W"].compact().shape == (2, 1, 50)
    finally:
        jac.module.np = numpy
    assert max(sizes) <= 2 * 1000
    for name in ("fill_d_W", "fill_C_W"):
        assert "range(n_m)" not in code(jac, name)


def test_adjoints_that_only_a_part_reads_have_its_size():
    """With one of h hidden units selected, the way back knows no other one."""
    jac = compiled(LAYERS["mlp"], {"W1": np.s_[3:4], "b1": np.s_[3:4]})
    for form in ("_back", "fill_d_z"):  # fill_G_z has the bias of all units in it too
        lines = [x for x in code(jac, form).splitlines() if "W2[:, " not in x]
        assert "n_h" not in "\n".join(x for x in lines if not x.endswith("= sizes"))
    assert "W2[:, 3:4]" in code(jac, "_back")
    arrays = arrays_for(jac)
    J = jac.jacobian(arrays)
    assert all(a.shape[1:] in ((3, 1), (4,)) for a in J["W1"].factors().values())


def test_an_element_gathered_from_a_part_is_found_without_a_search():
    """A token costs its row, not a walk through the rows selected."""
    text = "t: index(v)[T]\nE: param[v, d]\ny = E[t]"
    jac = compiled(text, {"E": np.s_[2:]})
    for form in ("_fill_d_E", "_fill_t_y", "_fill_J_E"):
        assert "range(n_v" not in code(jac, form)
    t, E = np.array([[0, 2, 4, 2]]), np.arange(10.0).reshape(5, 2)
    g = jac.vjp(t, E, np.ones((1, 4, 2)))["E"]
    np.testing.assert_array_equal(g, [[2, 2], [0, 0], [1, 1]])


def test_float32_and_complex_numbers_stay_what_they_are():
    jac = compiled("x: input[n]\nW: param[m, n]\ny = exp(W @ x)", {"W": np.s_[1:, [0, 2]]})
    for dtype in (np.float32, np.complex128):
        x, W = np.ones((2, 3), dtype), np.full((3, 3), 0.1, dtype)
        J = jac.jacobian(x, W)
        assert J["W"].dense().dtype == dtype
        assert J["W"].dense().shape == (2, 3, 2, 2)
        assert jac.vjp(x, W, np.ones((2, 3), dtype))["W"].dtype == dtype


def test_an_empty_batch_and_a_single_sample_have_parts_too():
    jac = compiled(DENSE, {"W": np.s_[1:], "x": [0, 2]})
    W, b = np.ones((3, 4)), np.ones(3)
    J = jac.jacobian(np.ones((0, 4)), W, b)
    assert J["W"].dense().shape == (0, 3, 2, 4)
    assert jac.vjp(np.ones((0, 4)), W, b, np.ones((0, 3)))["W"].shape == (2, 4)
    J = jac.jacobian(np.ones(4), W, b)
    assert J["W"].shape == (3, 2, 4)
    assert J["x"].dense().shape == (3, 2)
    assert jac.vjp_per_sample(np.ones(4), W, b, np.ones(3))["x"].shape == (2,)


def placed(array, part, shape, lead):
    """Return zeros of `shape` behind `lead` axes of an array, the array at the part."""
    array = np.asarray(array)
    if part is True or not shape:
        return array
    full = np.zeros((*array.shape[:lead], *shape))
    for at in np.ndindex(array.shape[:lead]):
        full[at][part] = array[at]
    return full


@pytest.mark.parametrize("name", TEXTS)
def test_with_zeros_every_form_is_that_of_the_part_in_its_place(name):
    drop = compiled(TEXTS[name])
    arrays = arrays_for(drop, seed=5)
    arrays = {n: abs(a) if a.dtype.kind == "f" else a for n, a in arrays.items()}
    parts = parts_for(drop, arrays, 5)
    drop, zeros = (compiled(TEXTS[name], parts, unselected=w) for w in ("drop", "zeros"))
    program = drop.forms.program
    shapes = {
        a.name: np.shape(arrays[a.name])[1 if a.batched else 0 :]
        for a in program.arrays if a.name in drop.wrt
    }  # fmt: skip
    several = len(program.outputs) > 1
    rng = np.random.default_rng(5)
    J, Z = drop.jacobian(arrays), zeros.jacobian(arrays)
    values = J.value if several else (J.value,)
    u = tuple(rng.normal(size=y.shape) for y in values)
    u = u if several else u[0]
    found = zeros.module.jacobian(*arrays.values())
    for key, block in Z.items():
        theta = key[1] if several else key
        lead = block.ndim - len(shapes[theta])
        expected = placed(J[key].dense(), parts[theta], shapes[theta], lead)
        assert block.shape == expected.shape
        np.testing.assert_allclose(block.dense(), expected, **EXACT)
        np.testing.assert_allclose(found[key], expected, **EXACT)
        if not block.structure.startswith("0:"):
            np.testing.assert_array_equal(block.compact(), J[key].compact())
    for form in ("vjp", "vjp_per_sample"):
        ours, theirs = getattr(zeros, form)(arrays, u), getattr(drop, form)(arrays, u)
        structured = Z.vjp(u) if form == "vjp" else Z.per_sample_vjp(u)
        for theta in ours:
            lead = ours[theta].ndim - len(shapes[theta])
            expected = placed(theirs[theta], parts[theta], shapes[theta], lead)
            np.testing.assert_allclose(ours[theta], expected, **EXACT)
            np.testing.assert_allclose(structured[theta], expected, **EXACT)
    full = {n: rng.normal(size=np.shape(arrays[n])) for n in zeros.wrt}
    taken = {n: of(t, parts[n], len(shapes[n])) for n, t in full.items()}
    three = (zeros.jvp(arrays, full), Z.jvp(full), drop.jvp(arrays, taken))
    for ours, mine, theirs in zip(*(x if several else (x,) for x in three), strict=True):
        np.testing.assert_allclose(ours, theirs, **EXACT)
        np.testing.assert_allclose(mine, theirs, **EXACT)
    if not several:
        np.testing.assert_allclose(Z.gram(), J.gram(), **EXACT)
    ours, theirs = Z.ggn_diagonal(), J.ggn_diagonal()
    for theta in ours:
        lead = ours[theta].ndim - len(shapes[theta])
        expected = placed(theirs[theta], parts[theta], shapes[theta], lead)
        np.testing.assert_allclose(ours[theta], expected, **EXACT)


@pytest.mark.parametrize("part", [np.s_[::2], np.s_[1:], np.s_[[0, -1]]])
@pytest.mark.parametrize("name", ["layernorm", "outer", "dense"])
def test_variances_of_what_is_filled_with_zeros_are_those_of_its_dense_array(name, part):
    jac = compiled(TEXTS[name], {"x": part}, unselected="zeros")
    J = jac.jacobian(**arrays_for(jac, 3))["x"]
    dense = J.dense().reshape(3, -1, J.shape[-1])
    found = J.functional_variance(0.5)
    expected = 0.5 * np.einsum("bop,bqp->boq", dense, dense)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-12, atol=1e-12)


def test_what_is_not_selected_is_there_with_zeros():
    """Zeros have the dtype of the results, and no line but the zeros serves them."""
    jac = sg.compile(DENSE, {"W": np.s_[1:]}, unselected="zeros")
    assert jac.wrt == jac.module.WRT == ("W", "b")
    x, W, b = (np.ones(s, np.float32) for s in ((2, 4), (3, 4), 3))
    J = jac.jacobian(x, W, b)
    assert J["W"].shape == (2, 3, 3, 4)
    assert J["W"].structure == "delta(j, l + 1) * delta(i, l + 1) * C[b, l, k]"
    assert J["b"].structure == "0: b is not selected"
    assert J["b"].dense().shape == (2, 3, 3)
    assert J["b"].dense().dtype == np.float32
    assert not J["b"].dense().any()
    for found in (jac.vjp(x, W, b, x[:, :3]), jac.pullback(x, W, b)[1](x[:, :3])):
        assert found["b"].dtype == np.float32
        assert found["b"].shape == (3,)
        assert not found["b"].any()
        assert not found["W"][0].any()
        assert found["W"][1:].all()
    moved = jac.jvp(x, W, b, {"b": np.ones(3)})
    assert not moved.any()
    assert "∂b" not in jac.source.split('"""')[1].partition("Result")[2]
    assert sg.check(jac).ok


def test_only_arrays_of_the_roles_selected_are_filled_with_zeros():
    assert compiled(DENSE, ["b"], unselected="zeros").wrt == ("W", "b")
    assert compiled(DENSE, ["x"], unselected="zeros").wrt == ("x",)
    assert compiled(DENSE, ["x", "b"], unselected="zeros").wrt == ("x", "W", "b")
    with pytest.raises(ArgumentError, match="expected 'drop' or 'zeros'"):
        compiled(DENSE, unselected="nan")


def test_a_module_with_zeros_is_checked_from_its_file(tmp_path):
    path = tmp_path / "zeros.py"
    sg.compile(DENSE, {"b": [0, 3, 1]}, unselected="zeros", path=path)
    report = sg.check(path)
    assert report.ok
    assert {a.parameter for a in report.agreements} == {"b"}


def test_parts_are_taken_out_of_arrays_and_put_back():
    rng = np.random.default_rng(0)
    parts = {"W": np.s_[1:, [0, 3, 1]], "x": np.array([True, False, True, True])}
    jac = compiled(DENSE, {**parts, "b": True})
    x, W, b = (rng.normal(size=s) for s in ((2, 4), (3, 4), 3))
    J = jac.jacobian(x, W, b)
    taken = jac.take({"x": x, "W": W, "b": b})
    np.testing.assert_array_equal(taken["W"], W[parts["W"]])
    np.testing.assert_array_equal(taken["x"], x[:, parts["x"]])
    np.testing.assert_array_equal(taken["b"], b)
    assert not np.shares_memory(taken["b"], b)
    step = {n: rng.normal(size=t.shape) for n, t in taken.items()}
    moved = jac.scatter(step, {"x": x, "W": W, "b": b})
    expected = W.copy()
    expected[parts["W"]] = step["W"]
    np.testing.assert_array_equal(moved["W"], expected)
    np.testing.assert_array_equal(moved["x"][:, parts["x"]], step["x"])
    np.testing.assert_array_equal(moved["x"][:, 1], x[:, 1])
    zeros = J.scatter(step)
    assert zeros["W"].shape == W.shape
    assert np.count_nonzero(zeros["W"]) == step["W"].size
    np.testing.assert_array_equal(J["W"].take(zeros["W"]), step["W"])
    np.testing.assert_array_equal(J["W"].scatter(step["W"], base=W), expected)
    np.testing.assert_array_equal(J["b"].scatter(step["b"]), step["b"])


def test_an_array_whose_size_alone_tells_no_dim_has_parts_too():
    text = "x: input[h]\nz: input[d]\nW: param[h*d]\ny = sum(x) * sum(z) * W"
    jac = compiled(text, {"W": np.s_[1:-1]})
    W = np.arange(6.0)
    np.testing.assert_array_equal(jac.take({"W": W})["W"], W[1:-1])
    np.testing.assert_array_equal(jac.scatter({"W": np.zeros(4)}, {"W": W})["W"], [0] * 5 + [5])
    with pytest.raises(SelectionError, match="W"):
        compiled(text, {"W": np.s_[4:]}).take({"W": W[:3]})


def test_what_cannot_be_scattered_is_refused():
    jac = compiled(DENSE, {"W": np.s_[1:]})
    J = jac.jacobian(np.ones((2, 4)), np.ones((3, 4)), np.ones(3))
    with pytest.raises(ShapeError, match=r"the part of W has shape \(3, 4\), expected \(2, 4\)"):
        J["W"].scatter(np.ones((3, 4)))
    with pytest.raises(ShapeError, match=r"W has shape \(2, 4\), expected \(3, 4\)"):
        J["W"].take(np.ones((2, 4)))
    with pytest.raises(ArgumentError, match="nothing called 'b' is selected"):
        J.scatter({"b": np.ones(3)})
    with pytest.raises(ArgumentError, match="W is missing"):
        jac.scatter({"W": np.ones((2, 4))}, {})


@pytest.mark.parametrize("wrt", [{"U": np.s_[1:], "W": [0, 2]}, {"x": np.s_[1:3], "b": np.s_[::2]}])
@pytest.mark.parametrize("unselected", ["drop", "zeros"])
def test_parts_go_with_recomputing(wrt, unselected):
    """A recurrence cut into segments gives the same parts."""
    text = RECURRENCES["rnn"]
    plain, again = (
        compiled(text, wrt, unselected=unselected, recompute=r) for r in (None, ["h"])
    )
    arrays = arrays_for(plain)
    u = np.cos(plain.forward(arrays))
    for form in ("vjp", "vjp_per_sample"):
        ours, theirs = getattr(again, form)(arrays, u), getattr(plain, form)(arrays, u)
        for theta in theirs:
            np.testing.assert_allclose(ours[theta], theirs[theta], **EXACT)


def test_parts_of_the_arrays_of_a_model_are_selected_by_their_dotted_names():
    first = sg.layer("x: input[n]\nW: param[m, n]\ny = tanh(W @ x)", name="first")
    second = sg.layer("x: input[m]\nW: param[k, m]\ny = W @ x", name="second")
    jac = compiled(sg.chain(first, second), {"first.W": np.s_[1:], "second.*": True})
    assert jac.wrt == ("first_W", "second_W")
    J = jac.jacobian(np.ones((2, 4)), np.ones((3, 4)), np.ones((2, 3)))
    assert J["first_W"].shape == (2, 2, 2, 4)


@pytest.mark.parametrize("unselected", ["drop", "zeros"])
def test_generated_text_of_parts_is_clean(tmp_path, unselected):
    pytest.importorskip("ruff")
    wrt = {"W": np.s_[1:, [0, 2, -1]], "b": np.array([True, False, True, True])}
    path = tmp_path / "parts.py"
    jac = compiled(DENSE, wrt, unselected=unselected, path=path)
    assert jac.source == compiled(DENSE, wrt, unselected=unselected).source
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--quiet", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    jac.module.jacobian(np.ones((2, 4)), np.ones((4, 4)), np.ones(4))


def test_the_command_line_takes_parts(tmp_path):
    path = tmp_path / "dense.sg"
    path.write_text(DENSE, encoding="utf-8")
    command = [sys.executable, "-m", "symgrad", "derive", str(path), "--wrt", "W[1:, 0],b"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "∂y[i]/∂W[j+1,0]" in done.stdout
    assert "∂y[i]/∂b[j]" in done.stdout


def test_products_of_parts_are_those_of_their_dense_jacobians():
    """Gram and Gauss-Newton matrices, diagonals, norms and steps of a part and of its place."""
    wrt = {"W": np.s_[1:, [0, 2]], "b": np.s_[::2], "x": np.s_[2:]}
    drop, zeros = (compiled(DENSE, wrt, unselected=w) for w in ("drop", "zeros"))
    arrays = arrays_for(drop)
    J, Z = drop.jacobian(arrays), zeros.jacobian(arrays)
    dense = {n: block.dense() for n, block in J.items()}
    shared = np.concatenate([dense[n].reshape(3, 3, -1) for n in ("W", "b")], axis=2)
    own = dense["x"].reshape(3, 3, -1)
    gram = np.einsum("bip,cjp->bicj", shared, shared)
    for b in range(3):
        gram[b, :, b] += own[b] @ own[b].T
    for found in (J, Z):
        np.testing.assert_allclose(found.gram(), gram, **EXACT)
        norm = np.sqrt((shared**2).sum((1, 2)) + (own**2).sum((1, 2)))
        np.testing.assert_allclose(found.norm(), norm, **EXACT)
    F, G = J.ggn(), Z.ggn()
    flat = dense["W"].reshape(3, 3, -1)
    expected = np.einsum("bip,biq->pq", flat, flat).reshape(*J["W"].shape[2:] * 2)
    np.testing.assert_allclose(F["W", "W"], expected, **EXACT)
    assert G["W", "W"].shape == (3, 4, 3, 4)
    rows, columns = np.ix_([1, 2], [0, 2])
    np.testing.assert_allclose(G["W", "W"][rows, columns][:, :, rows, columns], expected, **EXACT)
    r = np.sin(J.value)
    ours, theirs = J.solve(r, damping=0.1), Z.solve(r, damping=0.1)
    for n in ours:
        np.testing.assert_allclose(Z[n].take(theirs[n]), ours[n], rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(J[n].scatter(ours[n]), theirs[n], rtol=1e-9, atol=1e-10)
