"""Forms are planned once for each structure and sizes; plans give what working them out gives."""

from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import numpy as np
import pytest
from dense_forms import Dense, layer
from layers import arrays_for

from symgrad.products import gram, kernels, newton, rowwise, tiles
from symgrad.products.blas import ALONE, product
from symgrad.products.planned import Work
from symgrad.products.rowwise import rowwise as summing

NEAR = {"rtol": 1e-11, "atol": 1e-12}
NAMES = ["mlp", "tensor", "residual", "merge", "every other", "shifted", "rnn", "tokens", "gather"]


def results(J, u, v):
    """Every planned form of one call."""
    return [
        *J.vjp(u).values(), *J.per_sample_vjp(u).values(), J.jvp(v), J.gram(),
        J.gram(diagonal="out"), J.gram(diagonal="batch"), J.norm(), J.norm(u),
        *J.ggn().values(), *J.ggn_diagonal().values(), *J.ggn_matvec(v).values(),
        *J.ggn_diagonal(u=u).values(), *J.ggn_matvec(v, H="poisson").values(),
    ]  # fmt: skip


def given(one, arrays, seed=0):
    rng = np.random.default_rng(seed)
    y = one.jac.forward(**arrays)
    v = {n: rng.normal(size=np.shape(arrays[n])).astype(y.dtype) for n in one.jac.wrt}
    return rng.normal(size=y.shape).astype(y.dtype), v


def close(found, expected, **near):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, **(near or NEAR))


@pytest.fixture
def unplanned(monkeypatch):
    """Let forms be worked out in every call, and products go through factors."""

    def work_out(form, *arguments):
        with monkeypatch.context() as patch:
            patch.setattr(newton, "_driven", lambda *_: None)
            patch.setattr("symgrad.products.planned.Plans.can", lambda *_: False)
            return form(*arguments)

    return work_out


@pytest.mark.parametrize("name", NAMES)
def test_a_planned_form_is_the_form_worked_out(name, unplanned):
    one = layer(name)
    J = one.jac.jacobian(**one.arrays)
    u, v = given(one, one.arrays)
    close(results(J, u, v), unplanned(results, J, u, v))


def test_the_same_layer_at_other_sizes_dtypes_batches_and_selections(unplanned):
    one = layer("mlp")
    for sizes in ({}, {"n": 3, "h": 7, "m": 2}, {"n": 7, "h": 3, "m": 2}, {}):
        for batch in (1, 4, 4, 2):
            arrays = arrays_for(one.jac, batch=batch, sizes=sizes, seed=batch)
            for dtype in (np.float64, np.float32, np.float64):
                cast = {n: a.astype(dtype) for n, a in arrays.items()}
                J, (u, v) = one.jac.jacobian(**cast), given(one, cast)
                found = results(J, u, v)
                assert {np.asarray(f).dtype for f in found} == {np.dtype(dtype)}
                near = {"rtol": 1e-3, "atol": 1e-4} if dtype == np.float32 else NEAR
                close(found, unplanned(results, J, u, v), **near)
    for names in (["W1"], ["b1", "W2"], ["x", "W1"]):
        jac = one.jac.select(names)
        J, (u, v) = jac.jacobian(**one.arrays), given(one, one.arrays)
        v = {n: v[n] for n in names}
        close(results(J, u, v), unplanned(results, J, u, v))


def test_complex_passes_have_plans_of_their_own(unplanned):
    one = layer("dense")
    rng = np.random.default_rng(0)
    for turn in (0, 1j, 0):
        arrays = {n: a + turn * rng.normal(size=a.shape) for n, a in one.arrays.items()}
        J, (u, v) = one.jac.jacobian(**arrays), given(one, arrays)
        forms = [*J.vjp(u).values(), J.gram(), J.norm(), *J.ggn_matvec(v).values()]
        again = unplanned(
            lambda J=J, u=u, v=v: [
                *J.vjp(u).values(),
                J.gram(),
                J.norm(),
                *J.ggn_matvec(v).values(),
            ]
        )
        close(forms, again)


def test_a_second_call_with_equal_sizes_plans_nothing(monkeypatch):
    one = layer("mlp")
    made = []
    plan = Work._program
    monkeypatch.setattr(Work, "_program", lambda work, rows: made.append(1) or plan(work, rows))
    for seed in range(3):
        arrays = arrays_for(one.jac, batch=3, seed=seed)
        results(one.jac.jacobian(**arrays), *given(one, arrays, seed))
        if not seed:
            first = len(made)
    assert len(made) == first > 0
    arrays = arrays_for(one.jac, batch=5)
    results(one.jac.jacobian(**arrays), *given(one, arrays))
    assert len(made) > first


def test_plans_are_bounded_in_number(monkeypatch):
    monkeypatch.setattr("symgrad.products.planned.KEPT", 3)
    one = layer("mlp")
    for batch in (1, 2, 3, 4, 1):
        J = one.jac.jacobian(**arrays_for(one.jac, batch=batch))
        squares = [np.square(block.dense()).reshape(batch, -1).sum(1) for block in J.values()]
        np.testing.assert_allclose(J.norm(), np.sqrt(sum(squares)), **NEAR)
    assert len(one.jac.plans) <= 3


def test_threads_may_take_products_at_the_same_time():
    one = layer("mlp")
    batches = [1, 2, 3, 4, 5, 6] * 4
    cases = [(b, arrays_for(one.jac, batch=b, seed=b)) for b in batches]

    def run(arrays):
        return results(one.jac.jacobian(**arrays), *given(one, arrays))

    expected = {b: run(arrays) for b, arrays in cases[:6]}
    one.jac.plans.made.clear()
    with ThreadPoolExecutor(4) as pool:
        for (b, _), found in zip(cases, pool.map(run, [a for _, a in cases]), strict=True):
            close(found, expected[b])


def test_one_jacobian_may_be_read_by_several_threads():
    one = layer("mlp")
    u, v = given(one, one.arrays)
    expected = results(one.jac.jacobian(**one.arrays), u, v)
    J = one.jac.jacobian(**one.arrays)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: results(J, u, v), range(8)):
            close(found, expected)


def test_copies_of_jacobians_work_on(unplanned):
    one = layer("mlp")
    J, (u, v) = one.jac.jacobian(**one.arrays), given(one, one.arrays)
    K = deepcopy(J)
    close(results(K, u, v), results(J, u, v))
    np.testing.assert_array_equal(K.value, J.value)


@pytest.mark.parametrize("tile", [1, 40, 10**6])
@pytest.mark.parametrize("threads", [1, 3])
def test_tiles_of_a_gram_matrix_add_up(monkeypatch, tile, threads):
    one = layer("mlp", batch=7)
    J = one.jac.jacobian(**one.arrays)
    D = Dense(one, J)
    monkeypatch.setattr(gram, "TILE", tile)
    monkeypatch.setattr(gram, "threads_for", lambda _: threads)
    found = J.gram()
    np.testing.assert_allclose(found.ravel(), D.gram(D, "y", "y").ravel(), **NEAR)
    matrix = found.reshape(7 * found.shape[1], -1)
    np.testing.assert_array_equal(matrix, matrix.T)
    P = one.jac.select("params").jacobian(**one.arrays)
    K = one.jac.select("params").jacobian(**arrays_for(one.jac, batch=4, seed=5))
    E, F = Dense(one, P), Dense(one, K)
    E.inputs = F.inputs = set()
    E.names = F.names = list(P)
    np.testing.assert_allclose(P.gram(K).ravel(), E.gram(F, "y", "y").ravel(), **NEAR)


def test_what_fails_in_a_thread_is_told(monkeypatch):
    one = layer("mlp", batch=7)
    J = one.jac.jacobian(**one.arrays)
    monkeypatch.setattr(gram, "TILE", 1)
    monkeypatch.setattr(gram, "threads_for", lambda _: 2)

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(Work, "add", fail)
    with pytest.raises(MemoryError):
        J["W1"].gram()


def test_what_has_no_samples_does_not_make_pieces_smaller(monkeypatch):
    one = layer("mlp", batch=50)
    block = one.jac.jacobian(**one.arrays)["W1"]
    monkeypatch.setattr(tiles, "WORKSPACE", 8 * 10 * 50 * 20)
    taken = []
    add = Work.add
    monkeypatch.setattr(Work, "add", lambda work, *rows: taken.append(rows) or add(work, *rows))
    assert block.ggn().size > 0
    assert len(taken) < 50


# ------------------------------------------------------------ products by drivers


def test_drivers_and_factors_agree(unplanned):
    for name in ("mlp", "dense", "residual", "shared"):
        one = layer(name)
        J, (u, v) = one.jac.jacobian(**one.arrays), given(one, one.arrays)
        for options in ({}, {"u": u}):
            found = one.jac.ggn_matvec(one.arrays, v, **options)
            expected = unplanned(lambda J=J, o=options, v=v: J.ggn_matvec(v, **o))
            close(list(found.values()), list(expected.values()))


def test_a_product_goes_through_drivers_where_that_is_cheaper(monkeypatch):
    one = layer("mlp", sizes={"n": 8, "h": 9, "m": 30}, batch=20)
    _, v = given(one, one.arrays)
    expected = one.jac.jacobian(**one.arrays).ggn_matvec(v)
    monkeypatch.setattr(one.jac.module, "_sweep", None)  # not called
    found = one.jac.ggn_matvec(one.arrays, v)
    close(list(found.values()), list(expected.values()))
    narrow = layer("dense", sizes={"n": 8, "m": 2}, batch=20)
    _, v = given(narrow, narrow.arrays)
    monkeypatch.setattr(narrow.jac.module, "_tangent", None)
    assert narrow.jac.ggn_matvec(narrow.arrays, v).keys() == v.keys()


def test_a_later_change_of_the_arguments_changes_nothing():
    one = layer("mlp")
    arrays = {n: a.copy() for n, a in one.arrays.items()}
    J = one.jac.jacobian(**arrays)
    for a in arrays.values():
        a[...] = np.nan
    expected = one.jac.jacobian(**one.arrays)
    np.testing.assert_array_equal(J.value, expected.value)
    np.testing.assert_array_equal(J.gram(), expected.gram())


def test_the_output_is_the_callers_own():
    one = layer("two")
    J, K = (one.jac.jacobian(**one.arrays) for _ in range(2))
    for value in J.value:
        value[...] = np.nan
    rng = np.random.default_rng(0)
    v = {n: rng.normal(size=np.shape(one.arrays[n])) for n in one.jac.wrt}
    close(list(J.ggn_matvec(v).values()), list(K.ggn_matvec(v).values()))
    close([b.dense() for b in J.values()], [b.dense() for b in K.values()])


# ------------------------------------------------------------ kernels and products of matrices


@pytest.mark.parametrize("spec", [
    "bij,bij->bj", "bij,bi->bj", "bi,bij->bj", "bij,bj->bi", "bij,bij->b", "bijk,bij->bk",
    "bijk,bk->bij", "bijk,bijk->bk", "bij,ij->b", "bijk,bik->bj", "bij,ji->b",
])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_sums_by_kernels_are_those_of_einsum(monkeypatch, spec, dtype):
    monkeypatch.setattr(rowwise, "LARGE", 1)
    monkeypatch.setattr(kernels, "COMPILED", True)
    operands, result = spec.split("->")
    first, second = operands.split(",")
    sizes = dict(zip("bijk", (3, 4, 5, 2), strict=True))
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=[sizes[c] for c in own]).astype(dtype) for own in (first, second))
    codes = [tuple("bijk".index(c) for c in own) for own in (first, second, result)]
    lengths = {n: sizes[c] for n, c in enumerate("bijk")}
    found = summing(*codes, lengths, kernels=True)(x, y)
    expected = np.einsum(spec, x, y)
    assert found.dtype == expected.dtype
    near = {"rtol": 1e-5, "atol": 1e-5} if dtype == np.float32 else NEAR
    np.testing.assert_allclose(found, expected, **near)


@pytest.mark.parametrize(("left", "right"), [
    ((160, 64), (64, 160)), ((64, 256), (256, 32)), ((3, 161, 67), (67, 163)),
    ((161, 67), (2, 67, 163)), ((10, 7000), (7000, 10)), ((1, 300_000), (300_000, 1)),
    ((0, 5), (5, 7)), ((700, 0), (0, 700)),
])  # fmt: skip
def test_products_in_pieces_are_products(left, right):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=left), rng.normal(size=right)
    multiply = product(left, right, np.dtype(float))
    np.testing.assert_allclose(multiply(x, y), x @ y, rtol=1e-10, atol=1e-10)
    turned = np.asfortranarray(x), y.swapaxes(-1, -2).copy().swapaxes(-1, -2)
    np.testing.assert_allclose(multiply(*turned), x @ y, rtol=1e-10, atol=1e-10)
    assert ALONE == 262_144
