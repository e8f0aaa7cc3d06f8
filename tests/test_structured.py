"""Every form of a Jacobian against every other; the reference is central differences."""

import re

import numpy as np
import pytest
from layers import TEXTS, arrays_for, compiled, differences, sample

import symgrad as sg

EXACT = {"rtol": 1e-12, "atol": 1e-13}
"""Two orders of summation of some dozen terms of order one differ by a few 1e-15."""


@pytest.fixture(scope="module", params=list(TEXTS))
def one(request):
    return sample(request.param)


def blocks(one):
    J = one.jac.jacobian(**one.arrays)
    assert list(J) == one.keys()
    return J


def rebuilt(block, factors=None):
    """Return the sum of products that the formula states, from its text and the factors alone."""
    factors = dict(block.factors() if factors is None else factors)
    axes, shape = block.axes, block.shape
    total = np.zeros(shape)
    sizes = dict(zip(axes, shape, strict=True))
    if block.formula == "0":
        return total
    for product in block.formula.split(" + "):
        operands, labels = [], []
        for part in re.findall(r"(\w+)[\[(]([^\])]*)[\])]", product):
            letters = [x.strip() for x in part[1].split(",")]
            if part[0] == "delta":
                operands.append(np.eye(sizes[letters[0]], sizes[letters[1]]))
            else:
                operands.append(factors[part[0]])
                letters = [x for x in letters if x]
            labels.append("".join(letters))
        assert set("".join(labels)) == set(axes)
        total = total + np.einsum(",".join(labels) + "->" + "".join(axes), *operands)
    return total


def test_dense_agrees_with_central_differences(one):
    J = blocks(one)
    outputs = one.jac.forms.program.outputs
    for theta in one.jac.wrt:
        for output, expected in zip(outputs, differences(one, theta), strict=True):
            block = J[(output, theta) if len(outputs) > 1 else theta]
            assert block.shape == expected.shape
            np.testing.assert_allclose(block.dense(), expected, rtol=1e-7, atol=1e-8)
            assert np.array_equal(np.asarray(block), block.dense())


def test_functions_of_the_module_give_what_blocks_give(one):
    J, outputs = blocks(one), one.jac.forms.program.outputs
    for theta in one.jac.wrt:
        forms = {
            "dense": f"jac_{theta}",
            "compact": f"jac_{theta}_compact",
            "factors": f"jac_{theta}_factors",
        }
        for method, name in forms.items():
            if method == "compact" and not hasattr(one.jac.module, name):
                continue
            found = getattr(one.jac, name)(**one.arrays)
            found = found if len(outputs) > 1 else (found,)
            for output, value in zip(outputs, found, strict=True):
                expected = getattr(J[(output, theta) if len(outputs) > 1 else theta], method)()
                if method == "factors":
                    assert list(value) == list(expected)
                    for a, b in zip(value.values(), expected.values(), strict=True):
                        np.testing.assert_array_equal(a, b)
                else:
                    np.testing.assert_array_equal(value, expected)


def test_values_come_from_the_same_pass(one):
    J = blocks(one)
    value = J.value if isinstance(J.value, tuple) else (J.value,)
    for a, b in zip(value, one.outputs, strict=True):
        np.testing.assert_allclose(a, b, **EXACT)


def test_formula_rebuilds_the_dense_array_from_factors(one):
    for block in blocks(one).values():
        if "[" in re.sub(r"\w+\[[^\]]*\]", "", block.formula) or "*i" in block.formula:
            continue
        deltas = re.findall(r"delta\(([^)]*)\)", block.formula)
        if any(not re.fullmatch(r"\w, \w", d) for d in deltas):
            continue  # a delta of data or of affine positions is no array
        np.testing.assert_allclose(rebuilt(block), block.dense(), **EXACT)


def test_compact_expands_to_dense_as_structure_says(one):
    for block in blocks(one).values():
        compact = block.compact()
        if block.structure == "no structural zeros" or block.structure.startswith("0"):
            np.testing.assert_array_equal(compact, block.dense())
            continue
        deltas = re.findall(r"delta\((\w), (\w)\)", block.structure)
        if len(deltas) != block.structure.count("delta"):
            continue
        letters = re.search(r"C\[([^\]]*)\]", block.structure)[1].replace(", ", "")
        sizes = dict(zip(block.axes, block.shape, strict=True))
        operands = [np.eye(sizes[a], sizes[b]) for a, b in deltas]
        labels = ["".join(d) for d in deltas]
        equation = ",".join([letters, *labels]) + "->" + "".join(block.axes)
        np.testing.assert_allclose(np.einsum(equation, compact, *operands), block.dense(), **EXACT)


def test_products_with_vectors_are_those_of_the_dense_array(one):
    J, u, t = blocks(one), one.random_u(), one.tangents()
    outputs = one.jac.forms.program.outputs
    expected = dict.fromkeys(one.jac.wrt, 0.0)
    pushed = [np.zeros(y.shape) for y in one.outputs]
    for key, block in J.items():
        output, theta = key if isinstance(key, tuple) else (outputs[0], key)
        k = outputs.index(output)
        is_input = one.jac.forms.program.array(theta).batched
        dense, out = block.dense(), one.outputs[k].shape
        first = 1 if one.batched else 0
        batch = out[0] if one.batched else 1
        flat = dense.reshape(batch, int(np.prod(out[first:])), -1)
        per = np.einsum("bo,bop->bp", u[k].reshape(batch, -1), flat)
        per = per.reshape(*out[:first], *dense.shape[len(out) :])
        np.testing.assert_allclose(block.per_sample_vjp(u[k]), per, **EXACT)
        whole = per if is_input or not first else per.sum(0)
        np.testing.assert_allclose(block.vjp(u[k]), whole, **EXACT)
        expected[theta] = expected[theta] + whole
        vectors = np.broadcast_to(
            t[theta].reshape(batch if is_input else 1, -1), (batch, flat.shape[2])
        )
        pushes = np.einsum("bop,bp->bo", flat, vectors).reshape(out)
        np.testing.assert_allclose(block.jvp(t[theta]), pushes, **EXACT)
        pushed[k] = pushed[k] + pushes
        squares = np.sqrt((dense**2).sum(axis=tuple(range(first, dense.ndim))))
        np.testing.assert_allclose(block.norm(), squares, rtol=1e-12)
    for found in (J.vjp(one.given(u)), one.jac.vjp(one.arrays, one.given(u)),
                  one.jac.module.vjp(*one.positional, one.given(u))):  # fmt: skip
        assert list(found) == list(one.jac.wrt)
        for name, value in found.items():
            assert value.shape == one.arrays[name].shape
            np.testing.assert_allclose(value, expected[name], **EXACT)
    for found in (J.jvp(t), one.jac.jvp(one.arrays, t), one.jac.module.jvp(*one.positional, t)):
        found = found if isinstance(found, tuple) else (found,)
        for a, b in zip(found, pushed, strict=True):
            np.testing.assert_allclose(a, b, **EXACT)


def test_vjp_and_jvp_are_adjoint(one):
    u, t = one.random_u(), one.tangents()
    pushed = one.jac.jvp(one.arrays, t)
    pushed = pushed if isinstance(pushed, tuple) else (pushed,)
    pulled = one.jac.vjp(one.arrays, one.given(u))
    left = sum(np.sum(a * b) for a, b in zip(u, pushed, strict=True))
    right = sum(np.sum(pulled[n] * t[n]) for n in t)
    np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-12)


def test_per_sample_products_sum_to_the_product(one):
    u = one.given(one.random_u())
    total, per = one.jac.vjp(one.arrays, u), one.jac.per_sample_vjp(one.arrays, u)
    alone = blocks(one).per_sample_vjp(u)
    assert set(blocks(one).vjp_per_sample(u)) == set(alone)
    for name in one.jac.wrt:
        np.testing.assert_allclose(per[name], alone[name], **EXACT)
        is_input = one.jac.forms.program.array(name).batched
        summed = per[name] if is_input or not one.batched else per[name].sum(0)
        np.testing.assert_allclose(summed, total[name], **EXACT)


def test_missing_tangents_are_zero(one):
    t = one.tangents()
    first, *rest = t
    zeros = {n: np.zeros_like(t[n]) for n in rest}
    alone = one.jac.jvp(one.arrays, {first: t[first]})
    filled = one.jac.jvp(one.arrays, {first: t[first], **zeros})
    nothing = one.jac.jvp(one.arrays, {})
    for a, b, c in zip(_tuple(alone), _tuple(filled), _tuple(nothing), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(c, np.zeros_like(c))


def _tuple(value):
    return value if isinstance(value, tuple) else (value,)


def test_pullback_equals_vjp_and_evaluates_no_definition_again(one, monkeypatch):
    module = one.jac.module
    calls = []
    for name in ("_record", "_forward", "_sweep", "_door", "_tangent"):
        own = getattr(module, name)

        def counted(*args, name=name, own=own, **kwargs):
            calls.append(name)
            return own(*args, **kwargs)

        monkeypatch.setattr(module, name, counted)
    value, pull = one.jac.pullback(**one.arrays)
    assert calls == ["_door", "_record"]
    u = one.random_u()
    calls.clear()
    for seed in (3, 5):
        u = one.given(one.random_u(seed))
        calls.clear()
        found = pull(u)
        assert calls == []
        for name, expected in one.jac.vjp(one.arrays, u).items():
            np.testing.assert_allclose(found[name], expected, **EXACT)
    for a, b in zip(_tuple(value), one.outputs, strict=True):
        np.testing.assert_allclose(a, b, **EXACT)


def test_one_sample_without_batch_axis_gives_results_without_it(one):
    if not one.batched:
        pytest.skip("no inputs")
    jac, program = one.jac, one.jac.forms.program
    single = {n: a[1] if program.array(n).batched else a for n, a in one.arrays.items()}

    def pick(y):
        return tuple(v[1] for v in _tuple(y))

    for a, b in zip(_tuple(jac.forward(**single)), pick(jac.forward(**one.arrays)), strict=True):
        np.testing.assert_allclose(a, b, **EXACT)
    J, whole = jac.jacobian(**single), jac.jacobian(**one.arrays)
    u = one.random_u()
    v = tuple(x[1] for x in u)
    t = one.tangents()
    t1 = {n: x[1] if program.array(n).batched else x for n, x in t.items()}
    outputs = program.outputs
    for key, block in J.items():
        k = outputs.index(key[0]) if isinstance(key, tuple) else 0
        theta = key[1] if isinstance(key, tuple) else key
        assert block.shape == whole[key].shape[1:]
        for form in ("dense", "compact", "norm"):
            a, b = getattr(block, form)(), getattr(whole[key], form)()
            np.testing.assert_allclose(a, b[1], **EXACT)
        np.testing.assert_allclose(block.vjp(v[k]), whole[key].per_sample_vjp(u[k])[1], **EXACT)
        np.testing.assert_allclose(block.jvp(t1[theta]), whole[key].jvp(t[theta])[1], **EXACT)
    per, alone = jac.per_sample_vjp(one.arrays, one.given(u)), jac.vjp(single, one.given(v))
    alone2 = jac.pullback(**single)[1](one.given(v))
    alone3 = jac.per_sample_vjp(single, one.given(v))
    for name in jac.wrt:
        for found in (alone, alone2, alone3):
            np.testing.assert_allclose(found[name], per[name][1], **EXACT)
    pushed, expected = jac.jvp(single, t1), jac.jvp(one.arrays, t)
    for a, b in zip(_tuple(pushed), pick(expected), strict=True):
        np.testing.assert_allclose(a, b, **EXACT)
    dense, expected = jac.module.jacobian(*single.values()), jac.module.jacobian(*one.positional)
    for key in dense:
        np.testing.assert_allclose(dense[key], expected[key][1], **EXACT)


@pytest.mark.parametrize(("batch", "sizes"), [(0, {}), (2, {"n": 0}), (2, {"m": 1}), (1, {"n": 1})])
def test_empty_and_one_element_axes_give_arrays_of_the_right_shape(one, batch, sizes):
    if sizes.get("n") == 0 and one.name in ("layernorm", "pool"):
        pytest.skip("the mean of nothing is nan, the largest of nothing an error")
    jac = one.jac
    arrays = arrays_for(jac, batch, sizes=sizes)
    with np.errstate(all="ignore"):
        y = _tuple(jac.forward(**arrays))
        J = jac.jacobian(**arrays)
    assert all(v.shape[0] == batch for v in y) or not one.batched
    u = tuple(np.ones(v.shape) for v in y)
    for key, block in J.items():
        k = jac.forms.program.outputs.index(key[0]) if isinstance(key, tuple) else 0
        theta = key[1] if isinstance(key, tuple) else key
        is_input = jac.forms.program.array(theta).batched
        own = arrays[theta].shape[1:] if is_input else arrays[theta].shape
        assert block.dense().shape == block.shape == (*y[k].shape, *own)
        assert block.vjp(u[k]).shape == arrays[theta].shape
        assert block.jvp(np.ones(arrays[theta].shape)).shape == y[k].shape
        assert np.isfinite(block.dense()).all()
        assert np.shape(block.norm()) == ((batch,) if one.batched else ())
    given = u if len(u) > 1 else u[0]
    for found in (jac.vjp(arrays, given), jac.pullback(**arrays)[1](given)):
        assert {n: g.shape for n, g in found.items()} == {n: arrays[n].shape for n in jac.wrt}
    for v in jac.per_sample_vjp(arrays, given).values():
        assert not one.batched or v.shape[0] == batch
    assert [v.shape for v in _tuple(jac.jvp(arrays, {}))] == [v.shape for v in y]


def test_the_largest_of_nothing_is_an_error():
    one = sample("pool")
    with pytest.raises(sg.ShapeError, match="pool: max over an empty axis in y"):
        one.jac.forward(arrays_for(one.jac, sizes={"n": 0}))


def test_outputs_of_parameters_only_are_repeated_over_the_batch():
    one = sample("beside")
    k, y = one.jac.forward(**one.arrays)
    assert k.shape == (3, 3)
    assert y.shape == (3,)
    np.testing.assert_allclose(k, np.tile(np.tanh(one.arrays["w"]), (3, 1)), **EXACT)
    J = one.jac.jacobian(**one.arrays)
    assert J["k", "w"].shape == (3, 3, 3)
    assert J["k", "x"].structure.startswith("0")
    assert not J["k", "x"].dense().any()
    assert J["k", "x"].shape == (3, 3, 4)


def test_several_outputs_give_tuples_and_pairs_as_keys():
    one = sample("two", wrt=["W", "a"])
    J = one.jac.jacobian(**one.arrays)
    pairs = [("y", "W"), ("y", "a"), ("s", "W"), ("s", "a")]
    assert list(J) == pairs
    assert list(one.jac.module.jacobian(*one.positional)) == pairs
    assert list(one.jac.module.STRUCTURE) == list(one.jac.module.FACTORS) == pairs
    dense = one.jac.jac_W(**one.arrays)
    assert isinstance(dense, tuple)
    for output, array in zip(("y", "s"), dense, strict=True):
        np.testing.assert_array_equal(array, J[output, "W"].dense())
    out = tuple(np.empty_like(d) for d in dense)
    assert all(a is b for a, b in zip(one.jac.jac_W(**one.arrays, out=out), out, strict=True))
    for wrong in (out[0], out[:1]):
        with pytest.raises(sg.ArgumentError, match="out must be a tuple of 2"):
            one.jac.jac_W(**one.arrays, out=wrong)
    u = one.random_u()
    for wrong in (u[0], u[:1]):
        for form in (one.jac.vjp, one.jac.per_sample_vjp):
            with pytest.raises(sg.ArgumentError, match="u must be a tuple of 2"):
                form(one.arrays, wrong)
        with pytest.raises(sg.ArgumentError, match="u must be a tuple of 2"):
            J.vjp(wrong)


def test_nothing_dense_is_built_until_asked_for():
    one = sample("dense", batch=4, sizes={"n": 300, "m": 400})
    J = one.jac.jacobian(**one.arrays)
    largest = max(v.size for v in J["W"].factors().values())
    assert largest <= 4 * 400
    assert J["W"].shape == (4, 400, 400, 300)
    assert J["W"].vjp(np.ones((4, 400))).shape == (400, 300)


def test_gradient_of_a_vector_says_what_to_do():
    one = sample("dense")
    with pytest.raises(sg.ShapeError, match=r"y has shape \[m\].*use jacobian, or sum=True"):
        one.jac.gradient(**one.arrays)
    total = one.jac.gradient(**one.arrays, sum=True)
    np.testing.assert_allclose(total["W"], one.jac.vjp(one.arrays, np.ones((3, 3)))["W"], **EXACT)
    scalar = sample("scalars")
    per = scalar.jac.gradient(**scalar.arrays, per_sample=True)
    assert per["a"].shape == (3,)
    np.testing.assert_allclose(per["a"].sum(), scalar.jac.gradient(**scalar.arrays)["a"], **EXACT)


def test_float32_stays_float32_in_every_form():
    one = sample("dense")
    small = {n: a.astype(np.float32) for n, a in one.arrays.items()}
    J = one.jac.jacobian(**small)
    u = np.ones((3, 3))
    results = [
        J.value, one.jac.forward(**small), J["W"].dense(), J["W"].compact(), J["W"].norm(),
        J["W"].vjp(u), J["W"].jvp(np.ones((3, 4))), *J["W"].factors().values(),
        *one.jac.vjp(small, u).values(), *one.jac.per_sample_vjp(small, u).values(),
        one.jac.jvp(small, {"W": np.ones((3, 4))}),
        *one.jac.module.jacobian(*small.values()).values(),
        J["b"].compact(), *J["b"].factors().values(),
    ]  # fmt: skip
    assert {r.dtype for r in results} == {np.dtype(np.float32)}


def test_blocks_refuse_vectors_that_do_not_fit():
    one = sample("dense")
    block = one.jac.jacobian(**one.arrays)["W"]
    with pytest.raises(sg.ShapeError, match=r"dense: u has shape \(2, 3\), expected \(3, 3\)"):
        block.vjp(np.ones((2, 3)))
    with pytest.raises(sg.ShapeError, match=r"v has shape"):
        block.jvp(np.ones(3))
    with pytest.raises(sg.ArgumentError, match="u has dtype complex128"):
        block.vjp(np.ones((3, 3)) * 1j)
    with pytest.raises(sg.ArgumentError, match="no tangent for 'q'"):
        one.jac.jacobian(**one.arrays).jvp({"q": 1.0})


def test_a_layer_of_literal_sizes_needs_no_sizes():
    jac = compiled("x: input[2]\nw: param[2]\ny = w * x")
    J = jac.jacobian([[1.0, 2.0]], [3.0, 4.0])
    assert J["w"].dense().tolist() == [[[1.0, 0.0], [0.0, 2.0]]]


@pytest.mark.parametrize("name", ["softmax", "dense", "residual", "params_only"])
def test_writing_into_the_value_changes_no_jacobian(name):
    one = sample(name)
    J, K = one.jac.jacobian(**one.arrays), one.jac.jacobian(**one.arrays)
    J.value[...] = 7.0
    for key in K:
        np.testing.assert_array_equal(J[key], K[key])


def test_one_number_is_an_array_too():
    one = sample("scalars", batch=None)
    J = one.jac.jacobian(**one.arrays)
    assert {k: np.asarray(b).shape for k, b in J.items()} == {"x": (), "a": (), "b": ()}
    assert np.asarray(J["a"], dtype=np.float32).dtype == np.float32
    assert J["a"].ndim == 0


def test_a_vector_that_is_no_array_is_refused_as_such():
    one = sample("two")
    J, u = one.jac.jacobian(**one.arrays), one.random_u()
    for form in (lambda: J["s", "W"].vjp(u), lambda: one.jac.vjp(*one.positional, (u, u))):
        with pytest.raises(sg.ArgumentError, match="is no array"):
            form()


def test_a_name_that_is_not_there_is_answered_with_those_that_are():
    J = sample("two").jac.jacobian(**sample("two").arrays)
    with pytest.raises(KeyError, match=r"\(output, array\): there are \('y', 'x'\)"):
        J["W"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda j, x, W, b: j.forward(x, W), r"^dense\.forward: b is missing; expected x, W, b$"),
        (lambda j, x, W, b: j.vjp(x, W, b), r"b is missing; expected x, W, b and then u$"),
        (lambda j, x, W, b: j.vjp(), r"u is missing; expected x, W, b and then u$"),
        (lambda j, x, W, b: j.forward(x, W, B=b), r"no array is called B; did you mean b\?"),
        (lambda j, x, W, b: j.forward(x, W, {"W": W}), "W is given twice"),
        (lambda j, x, W, b: j.gradient(x, W, b), r"^y has shape \[m\]; a gradient needs a scalar"),
        (lambda j, x, W, b: j.jvp(x, W, b, {"Q": 1}), r"expected some of x, W, b$"),
        (lambda j, x, W, b: j.forward(x, W, b[None]), r"shape \(1, 3\), expected \(m,\)$"),
    ],
)
def test_a_wrong_call_says_what_was_expected(call, said):
    one = sample("dense")
    with pytest.raises(sg.SymgradError, match=said):
        call(one.jac, *one.positional)


def test_a_wrong_name_of_a_form_is_answered_with_a_near_one():
    with pytest.raises(AttributeError, match=r"no 'jacobians'; did you mean jacobian\?"):
        sample("dense").jac.jacobians  # noqa: B018


@pytest.mark.parametrize("name", ["dense", "two", "tied", "embedding"])
def test_letters_of_one_sample_are_those_of_its_arrays(name):
    one = sample(name, batch=None)
    J = one.jac.jacobian(**one.arrays)
    for block in J.values():
        assert len(block.axes) == block.ndim
        assert "b" not in re.findall(r"\w+", block.structure + block.formula)
        assert block.layout.split(":")[0] == f"[{', '.join(block.axes)}]"
        assert "batch" not in block.layout
        if not re.search(r"delta\([^)]*\[", block.formula):
            np.testing.assert_allclose(rebuilt(block), block.dense(), **EXACT)


def test_the_layout_says_what_every_axis_is():
    one = sample("two")
    J = one.jac.jacobian(**one.arrays)
    assert J["y", "W"].layout == "[b, i, j, k]: batch, then axis of y, then axes of W, in C order"
    assert J["s", "W"].layout == "[b, i, j]: batch, then axes of W, in C order"
    assert J["s", "a"].layout == "[b]: batch, in C order"
    assert {key: block.layout for key, block in J.items()} == one.jac.module.AXES
    for (_, theta), block in J.items():
        for form in (f"jac_{theta}", f"jac_{theta}_compact"):
            if hasattr(one.jac.module, form):
                said = " ".join(getattr(one.jac.module, form).__doc__.split())
                assert f"Axes {block.layout}." in said
    scalar = sample("scalars", batch=None)
    assert scalar.jac.jacobian(**scalar.arrays)["a"].layout == "[]: a number"


def test_a_factor_that_is_repeated_keeps_its_batch_axis_first():
    jac = compiled("A: input[2, 2]\nB: input[2, p]\nY = A @ B", wrt="all")
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(5, 2, 2)), rng.normal(size=(5, 2, 3))
    whole, single = jac.jacobian(A, B)["A"], jac.jacobian(A[3], B[3])["A"]
    (name, factor), = whole.factors().items()
    np.testing.assert_array_equal(factor, np.broadcast_to(
        B.swapaxes(1, 2)[:, None] if factor.shape[2] == 3 else B[:, None], factor.shape))
    assert f"{name}[b, " in whole.formula
    np.testing.assert_array_equal(single.factors()[name], factor[3])
    np.testing.assert_allclose(rebuilt(single), whole.dense()[3], **EXACT)


def test_docstrings_of_products_say_what_u_is_and_where_the_batch_stands():
    module = sample("two").jac.module
    assert "u is a tuple [B, m], [B]; a gradient has the axes of its array." in module.vjp.__doc__
    assert "Those of x keep the batch axis." in module.vjp.__doc__
    assert "The batch axis stands before them." in module.vjp_per_sample.__doc__
    assert "Return J t, y[B, m], s[B], for tangents" in " ".join(module.jvp.__doc__.split())
    assert "u is [m]; a gradient" in sample("params_only").jac.module.pullback.__doc__
