"""Laws of plans: what a form is said to cost is what an instrumented module counts."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import tracemalloc
from functools import cache, partial

import numpy as np
import pytest
from instrument import instrumented
from layers import TEXTS, arrays_for, compiled
from recurrences import LSTM, RNN

import symgrad as sg
from symgrad.costs.count import Count
from symgrad.costs.points import regions
from symgrad.dims import Dim
from symgrad.program import Affine, Delta, Guard, Index, Lookup

LAYERS = {
    **{
        name: TEXTS[name]
        for name in "dense mlp conv layernorm softmax embedding two params_only tied shared beside "
        "outer".split()
    },
    "rnn": RNN,
    "masked": "x: input[n]\nA: param[n, n]\ny[i] = sum[j](where(j <= i, A[i, j], 0) * x[j])",
    "strict": "x: input[n]\nA: param[n, n]\ny[i] = tanh(sum[j](where(j < i, A[i, j], 0) * x[j]))",
    "strided": "x: input[2*T]\nK: param[k]\ny[t: T - k + 1] = sum[q](K[q] * x[2*t + q])",
    "tensor": "x: input[n]\nW: param[m, k, n]\nY = tanh(W @ x)\nZ = Y * exp(Y)",
    "gather": "t: index(v)\nz: input[v]\nW: param[v, v]\ny = log_softmax(W @ z)[t]",
    "functions": "x: input[n]\na: param[n]\ny = square(x + a) * (x + a)**3 + where(x > a, x / a, "
    "hypot(x, a)) - maximum(x, 2 * a)",
    "rows": "x: input[n]\nW: param[m, n]\na = W * x\ny = prod(a) + max(a) + logsumexp(a) + norm(a)",
    "constants": "x: input[n]\na: param[n]\ny = pi * x * a / n + 3 * a * 2 - (1 - a)",
    "heads": "x: input[T, h*d]\nW: param[h*d, h*d]\ng: param[h]\nZ = reshape(x @ W, (T, h, d))\n"
    "y[t, d] = sum[h](g[h] * tanh(Z[t, h, d]))",
    "conv2d": "x: input[p, d]\nK: param[c, k, k]\n"
    "y[c, i, j] = sum[a, b](K[c, a, b] * x[i + a, j + b])",
    "padded": "x: input[n]\nK: param[k]\np = pad(x, (k - 1, 0))\n"
    "y[i: n] = sum[q](K[q] * p[i + q])",
    "picked": "x: input[n]\nW: param[m, n]\nz = W @ x\ny = concatenate([z[1:], 2 * z[:1]])",
}
LARGE = {"attention": TEXTS["attention"], "residual": TEXTS["residual"], "lstm": LSTM}
MATRICES = {
    "spd": "x: input[n]\nA: param[n, n]\nS = A @ A.T + eye(n)\ny = cholesky(S) @ x + inv(S) @ x",
    "systems": "x: input[n]\nA: param[n, n]\nS = A @ A.T + eye(n)\n"
    "y = solve(S, x) * logdet(S) + det(S)",
    "triangular": "x: input[n]\nA: param[n, n]\nL = cholesky(A @ A.T + eye(n))\ny = solve(L, x)",
    "samples": "X: input[n, n]\nb: param[n]\nS = X @ X.T + eye(n)\ny = solve(S, b)",
    "steps": "x: input[T, n]\nA: param[n, n]\n"
    "h[t: T] = solve(A @ A.T + 3 * eye(n), h[t - 1] + x[t])",
}
PARTS = {
    "rows": (TEXTS["dense"], {"W": np.s_[1:]}),
    "columns": (TEXTS["dense"], {"W": np.s_[:, 1:]}),
    "steps": (TEXTS["dense"], {"W": np.s_[::2, ::2]}),
    "backwards": (TEXTS["dense"], {"W": np.s_[::-1, 1:], "b": np.s_[::-2]}),
    "one": (TEXTS["dense"], {"W": np.s_[0, 1]}),
    "a row": (TEXTS["dense"], {"W": np.s_[1], "b": np.s_[-1:]}),
    "slices": (TEXTS["dense"], {"W": np.s_[1:, ::2], "b": np.s_[:2], "x": np.s_[1:]}),
    "lists": (TEXTS["dense"], {"W": np.s_[[0, -1]], "b": [0, -1], "x": [2, 0]}),
    "listed columns": (TEXTS["dense"], {"W": np.s_[:, [-1, 0, 2]]}),
    "hidden": (TEXTS["mlp"], {"W1": np.s_[[0, 2], 1:], "W2": np.s_[::2, [3, 0]], "b2": True}),
    "kernel": (TEXTS["conv"], {"K": np.s_[1:, :, ::2], "b": [-1]}),
    "ties": (TEXTS["tied"], {"W": np.s_[:2, [1, -1]], "x": np.s_[1:3]}),
    "several heads": (
        LAYERS["heads"], {"W": np.s_[1:, [0, 3, -1]], "g": np.s_[-1:], "x": np.s_[:2]}
    ),
    "embedding": (TEXTS["embedding"], {"E": np.s_[[0, 3, -1]], "W": np.s_[:, 1:]}),
    "looked up": ("t: index(v)\nE: param[v, d]\nW: param[m, d]\ny = W @ E[t]",
               {"E": np.s_[1:, [0, -1]], "W": True}),
    "recurrent": (RNN, {"U": np.s_[1:, [0, -1]], "W": np.s_[::2]}),
    "outputs": (TEXTS["two"], {"W": np.s_[:, 1:], "a": True}),
    "tensor": (LAYERS["tensor"], {"W": np.s_[:, [1], 1:]}),
    "outer": (TEXTS["outer"], {"u": [0, -1], "x": np.s_[::2]}),
}  # fmt: skip
SIZES = (
    (3, {}),
    (5, {"n": 5, "m": 2, "h": 3, "k": 3, "c": 3, "o": 2, "T": 7, "d": 4, "v": 4, "p": 5}),
)
AXES = {"n": 4, "m": 3, "h": 5, "k": 2, "c": 2, "o": 3, "T": 4, "d": 3, "v": 6, "p": 2}


@cache
def counting(text, part=None, **options):
    """Compile a layer once for all sizes; `part` names a selection of `PARTS`."""
    return instrumented(compiled(text, PARTS[part][1] if part else "all", **options))


class Measured:
    """Runs forms of an instrumented layer and says what they cost."""

    def __init__(self, text, batch, sizes, **options):
        self.jac, self.meter = counting(text, **options)
        self.arrays = arrays_for(self.jac, batch, sizes=sizes)
        self.dims = {n: s for n, s in {**AXES, **sizes}.items() if n in self.open}
        self.plan = self.jac.plan(batch, self.dims)
        self.y = self.jac.forward(**self.arrays)
        part, filled = self.jac.take, self.jac.forms.derivation.selection.filled
        chosen = {n: np.ones_like(self.arrays[n]) for n in self.jac.wrt}
        self.tangents = chosen if filled else {n: part({n: a})[n] for n, a in chosen.items()}

    @property
    def open(self):
        arrays = self.jac.forms.program.arrays
        dims = [d for a in arrays for d in (*a.axes, *((a.vocabulary,) if a.vocabulary else ()))]
        return {n for d in dims for n in d.names}

    def call(self, name):
        """Run a form; return its result."""
        jac, arrays = self.jac, self.arrays
        u = tuple(map(np.ones_like, self.y)) if isinstance(self.y, tuple) else np.ones_like(self.y)
        match name:
            case "vjp" | "vjp_per_sample" | "hessian_sum":
                return getattr(jac, name)(*arrays.values(), u)
            case "hessian":
                found = jac.hessian(**arrays)
                return found[next(iter(found))], found  # evaluated when one is asked for
            case "hvp":
                return jac.hvp(*arrays.values(), u, self.tangents)
            case "jvp":
                return jac.jvp(*arrays.values(), self.tangents)
            case "pull":
                held = jac.pullback(**arrays)
                self.reset()
                return held[1](u), held
            case _:
                return getattr(jac, name)(**arrays)

    def reset(self):
        m = self.meter
        m.operations, m.calls, m.allocated, m.live, m.peak = 0, 0, 0, 0, 0

    def measure(self, name):
        """Return operations, calls, results, workspace and peak of one call."""
        self.reset()
        found = self.call(name)
        m = self.meter
        before = after = 0
        if name in ("pullback", "hessian"):  # the library's own copies
            before = sum(a.nbytes for a in self.arrays.values())
        if name == "jacobian":
            own = next(iter(found.values()))._done.arrays
            own = zip(self.jac.forms.program.arrays, own, strict=True)
            kept = [a for declared, a in own if declared.name in self.arrays]
            given = list(self.arrays.values())
            before = sum(
                a.nbytes for a in kept if not any(np.shares_memory(a, g) for g in given)
            )
            values = found.value if isinstance(found.value, tuple) else (found.value,)
            kept = next(iter(found.values()))._done.values.values()
            after = sum(v.nbytes for v in values if not any(v is k for k in kept))
        live = m.live + before + after
        total = m.allocated + before + after
        peak = max(m.peak + before, live)
        return m.operations, m.calls, live, total - live, peak


@pytest.mark.parametrize("batch_and_sizes", SIZES, ids=["small", "other"])
@pytest.mark.parametrize(
    "name", [*LAYERS, *(pytest.param(n, marks=pytest.mark.slow) for n in LARGE)]
)
def test_a_plan_counts_what_an_instrumented_module_does(name, batch_and_sizes):
    measured = Measured({**LAYERS, **LARGE}[name], *batch_and_sizes)
    for form, cost in measured.plan.items():
        said = (cost.operations, cost.calls, cost.results, cost.workspace, cost.peak)
        found = measured.measure(form)
        assert tuple(map(int, said)) == found, f"{form}\n{cost}"
        assert all(q.sure for q in said), form
        for quantity in said:
            by_hand = max(p.evaluate({"B": batch_and_sizes[0], **measured.dims}) for p in
                          quantity.polynomials)  # fmt: skip
            assert by_hand == int(quantity) if quantity.exact else by_hand >= int(quantity), form


@pytest.mark.parametrize("name", ["mlp", "tied", "shared", "two"])
def test_a_selection_costs_what_the_way_back_to_it_takes(name):
    batch, sizes = SIZES[0]
    whole = Measured(LAYERS[name], batch, sizes)
    for chosen in whole.jac.wrt:
        measured = copy.copy(whole)
        measured.jac = whole.jac.select([chosen])
        plan = measured.jac.plan(batch, measured.dims)
        for form in ("vjp", "vjp_per_sample", "pull"):
            cost = plan[form]
            said = (cost.operations, cost.calls, cost.results, cost.workspace, cost.peak)
            assert measured.measure(form) == tuple(map(int, said)), (chosen, form)
        assert int(plan["vjp"].operations) <= int(whole.plan["vjp"].operations)


@pytest.mark.parametrize("batch_and_sizes", SIZES, ids=["small", "other"])
@pytest.mark.parametrize("name", MATRICES)
def test_functions_of_matrices_count_as_their_textbook_algorithms(name, batch_and_sizes):
    measured = Measured(MATRICES[name], *batch_and_sizes)
    for form, cost in measured.plan.items():
        found = measured.measure(form)
        assert (int(cost.operations), int(cost.calls)) == found[:2], f"{form}\n{cost}"


EVERY_PART = [(3, {}), (4, {"n": 5, "m": 4, "T": 6, "d": 5})]


def check_costs(measured, forms, bounds):
    """What is sure is what happens; nothing else is but where `bounds` are expected."""
    for form in forms:
        cost = measured.plan[form]
        said = (cost.operations, cost.calls, cost.results, cost.workspace, cost.peak)
        for quantity, found in zip(said, measured.measure(form), strict=True):
            if quantity.sure:
                assert int(quantity) == found, f"{form}\n{cost}"
            else:
                assert bounds, f"{form}\n{cost}"
                assert int(quantity) >= found, f"{form}\n{cost}"


@pytest.mark.parametrize("unselected", ["drop", "zeros"])
@pytest.mark.parametrize("batch_and_sizes", EVERY_PART, ids=["small", "other"])
@pytest.mark.parametrize("name", PARTS)
def test_parts_of_arrays_cost_what_they_cost(name, batch_and_sizes, unselected):
    text, _ = PARTS[name]
    measured = Measured(text, *batch_and_sizes, part=name, unselected=unselected)
    check_costs(measured, measured.plan, bounds="index(" in text)
    assert str(measured.plan)


CURVED = (*"dense softmax conv embedding two params_only rnn masked picked".split(),)


@pytest.mark.parametrize("name", [*CURVED, *PARTS])
def test_second_derivatives_are_counted_as_the_others(name):
    text, part = (LAYERS[name], None) if name in CURVED else (PARTS[name][0], name)
    measured = Measured(text, 3, {"m": 4}, part=part, order=2)
    forms = [f for f in measured.plan if f.startswith(("hess", "hvp"))]
    assert {"hvp", "hessian_sum", "hessian"} <= set(forms)
    assert len(forms) > 4
    check_costs(measured, forms, bounds=part and "index(" in text)


def test_places_of_lists_that_meet_are_counted_one_by_one():
    ends = compiled(TEXTS["dense"], {"W": np.s_[[0, -1], :]}, order=2)
    cost = ends.plan(3, {"m": 4, "n": 5})["hess_W_W"].operations
    assert cost.sure and not cost.exact, "-1 has no number before m has one"


GUARDED = """
x: input[T, n]
U: param[n, n]
h[t: T] = tanh(where(t > 1, U @ h[t - 1], 0) + x[t])
y = sum(h, axis=0)
"""
AGAIN = {
    "mlp": (TEXTS["mlp"], "a"),
    "rnn": (RNN, "h"),
    "masked": (GUARDED, "h"),
}


@pytest.mark.parametrize("steps", [1, 4, 7, 11])
@pytest.mark.parametrize("name", AGAIN)
def test_what_is_computed_again_is_counted_again(name, steps):
    text, recompute = AGAIN[name]
    measured = Measured(text, 3, {"T": steps}, recompute=recompute)
    for form, cost in measured.plan.items():
        said = [cost.operations, cost.calls, cost.results, cost.workspace, cost.peak]
        for quantity, found in zip(said, measured.measure(form), strict=True):
            if quantity.sure:
                assert int(quantity) == found, f"{form}\n{cost}"
            else:
                assert int(quantity) >= found, f"{form}\n{cost}"
        assert cost.operations.sure and cost.calls.sure and cost.results.sure
        assert form not in ("forward", "jvp") or all(q.sure for q in said)


def test_polynomials_are_those_a_reader_works_out():
    plan = compiled(TEXTS["dense"], "params").plan()
    said = {name: str(plan[name].operations) for name in ("forward", "vjp", "jvp", "pull")}
    assert said == {
        "forward": "2*B*m*n + B*m",  # a product and a sum
        "vjp": "4*B*m*n + 3*B*m",  # two products, b, the slope times u, the sum for b
        "jvp": "4*B*m*n + 3*B*m",
        "pull": "2*B*m*n + 2*B*m",
    }
    assert str(plan["forward"].calls) == "B*m"
    assert str(plan["jac_W"].results) == "8*B*m*m*n"
    assert str(plan["jac_W_compact"].results) == "8*B*m*n"
    assert plan["vjp"].operations.value is None, "there are no sizes"


def test_triangles_and_ends_are_counted_in_symbols():
    plan = compiled(LAYERS["masked"], "params").plan()
    assert str(plan["forward"].operations) == "B*n*n + B*n"
    assert plan["forward"].operations.exact
    strict = compiled(LAYERS["strict"], "params").plan()
    assert str(strict["forward"].operations) == "B*n*n - B*n"


@pytest.mark.parametrize(
    ("name", "part"),
    [*((n, None) for n in ("dense", "two", "embedding", "params_only", "tensor")),
     *((None, n) for n in ("slices", "lists", "kernel", "outputs"))],
)  # fmt: skip
@pytest.mark.parametrize("unselected", ["drop", "zeros"])
def test_results_of_products_are_as_large_as_the_plan_says(name, part, unselected):
    measured = Measured(PARTS[part][0] if part else LAYERS[name], 3, {}, part=part,
                        unselected=unselected)  # fmt: skip
    jac, arrays, plan = measured.jac, measured.arrays, measured.plan
    J = jac.jacobian(**arrays)
    calls = {
        "gram": J.gram,
        'gram(diagonal="batch")': lambda: J.gram(diagonal="batch"),
        'gram(diagonal="out")': lambda: J.gram(diagonal="out"),
        "ggn": J.ggn,
        "ggn_diagonal": J.ggn_diagonal,
        "ggn_matvec": lambda: J.ggn_matvec(measured.tangents),
        "sqrt_ggn": J.sqrt_ggn,
        "functional_variance": lambda: J.functional_variance(1.0),
        "norm": J.norm,
    }
    for form, quantity in plan.matrices.items():
        found = calls[form]()
        made = list(found.values()) if isinstance(found, dict) else [found]
        assert int(quantity) == sum(np.asarray(a).nbytes for a in made), form


def test_a_plan_is_a_mapping_that_says_what_it_has_not():
    plan = compiled(TEXTS["dense"], "params").plan(batch=7, dims={"m": 3})
    assert list(plan)[:2] == ["forward", "jac_W"] and len(plan) == len(list(plan))
    assert plan["forward"].calls.value == 21
    assert plan["forward"].operations.value is None
    with pytest.raises(sg.ArgumentError, match="not all of B, m, n have a size"):
        int(plan["forward"].operations)
    with pytest.raises(KeyError, match="did you mean forward"):
        plan["forwards"]
    cost = plan["vjp"]
    assert int(cost.calls) == 2 * 21
    assert str(cost.bytes) == str(cost.results.polynomials[0] + cost.workspace.polynomials[0])


def test_wrong_sizes_are_refused():
    jac = compiled(TEXTS["dense"], "params")
    with pytest.raises(sg.ShapeError, match="dims= names q"):
        jac.plan(dims={"q": 3})
    with pytest.raises(sg.ArgumentError, match="batch"):
        jac.plan(batch=-1)
    with pytest.raises(sg.ArgumentError, match="float32"):
        jac.plan(dtype="int32")


def test_bytes_follow_the_dtype_and_integers_do_not():
    jac = compiled(TEXTS["embedding"], "E")
    double, single = (jac.plan(dtype=kind)["jacobian"] for kind in ("float64", np.float32))
    assert double.operations == single.operations
    copies = "8*B*T"  # the indices that J keeps stay integers of eight bytes
    assert copies in str(double.results) and copies in str(single.results)
    assert str(jac.plan(dtype="complex128")["forward"].results) == "16*B*m"


def test_a_batch_that_would_be_called_like_a_dim_moves_aside():
    plan = compiled("x: input[B]\nw: param[B]\ny = w * x", "params").plan(2, {"B": 5})
    assert str(plan["forward"].operations) == "B*B_"
    assert int(plan["forward"].operations) == 10


def test_what_is_not_selected_has_no_form():
    jac = compiled(TEXTS["dense"], "params")
    assert not [form for form in jac.select("b").plan() if form.startswith("jac_W")]
    assert list(sg.plan(jac, "b")) == list(jac.select("b").plan())
    assert str(sg.plan(TEXTS["dense"])) == str(jac.plan()), "no module is needed"


def test_domains_that_are_tested_are_counted():
    text = "x: input[n]\na: param[n]\nassert a * x > 0\ny = log(a * x)"
    plain, tested = (compiled(text, "a", check_domain=on).plan() for on in (False, True))
    assert str(plain["forward"].operations) == "B*n"
    assert str(tested["forward"].operations) == "2*B*n"


def test_what_data_decide_is_a_bound_and_says_so():
    i, j = Index("i", Dim.of("n"), 1), Index("j", Dim.of("m"), 2)
    looked_up = Delta(Lookup("t", (Affine.of(i),)), Affine.of(j))
    free, found = regions((i, j), (looked_up,))
    count = Count.of(free * 3, found)
    assert count.symbols() == (Dim.of("n") * 3, True), "one j for each i"
    assert count.number({"n": 4, "m": 5}) == (12, True)
    shifted = Delta(Lookup("t", (Affine.of(i),)), Affine.of(j) + 1)
    (region,) = regions((i, j), (shifted,))[1]
    assert region.symbols() == (Dim.of("n") * 2, False), "what is looked up may lie outside"
    assert region.number({"n": 4, "m": 5}) == (4, False)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("m", [1, 3, 8])
def test_points_are_those_that_loops_reach(n, m):
    """Every guard and delta of two loops, counted by running them."""
    i, j = Index("i", Dim.of("n"), 1), Index("j", Dim.of("m"), 2)
    positions = [Affine(((i, a), (j, b)), Dim.of(c))
                 for a in (-2, -1, 1, 2) for b in (-1, 1, 3) for c in (-2, -1, 0, 1)]  # fmt: skip
    conditions = [Guard(p, Dim.of(d)) for p in positions for d in ("n", "m")]
    conditions += [Delta(p, Affine.of(k)) for p in positions for k in (0, 1)]
    sizes = {"n": n, "m": m}
    for condition in conditions:
        hits = sum(_holds(condition, {i: a, j: b}, sizes) for a in range(n) for b in range(m))
        (region,) = regions((i, j), (condition,))[1]
        assert region.number(sizes) == (hits, True), condition
        twice, exact = region.symbols()
        assert (twice.evaluate(sizes) == 2 * hits) or (not exact and twice.evaluate(sizes) > hits)


def _holds(condition, values, sizes):
    def value(affine):
        return sum(values[k] * c for k, c in affine.terms) + affine.offset.evaluate(sizes)

    if isinstance(condition, Delta):
        return value(condition.left) == value(condition.right)
    return 0 <= value(condition.position) < condition.dim.evaluate(sizes)


def test_the_peak_is_what_tracemalloc_sees():
    sizes = {"n": 50, "m": 40, "h": 60}
    jac = compiled(TEXTS["mlp"], "params")
    plan = jac.plan(40, sizes)
    arrays = arrays_for(jac, 40, sizes=sizes)
    extra = {"vjp": [np.ones((40, 40))], "jvp": [{p: arrays[p] for p in jac.wrt}]}
    for form in ("forward", "vjp", "jvp", "jacobian"):
        call = partial(getattr(jac, form), *arrays.values(), *extra.get(form, ()))
        call()
        tracemalloc.start()
        held = call()
        over = tracemalloc.get_traced_memory()[1] - int(plan[form].peak)
        tracemalloc.stop()
        del held
        assert 0 <= over < 2**13, "small objects of Python come on top"


@pytest.mark.slow
def test_a_plan_reads_the_same_in_every_process():
    script = f"import symgrad as sg; print(sg.plan({RNN!r}, batch=3))"
    texts = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1
