"""Layers handed to other tools give what ours give; what they cannot do is said. Nothing is timed.

PyTorch and JAX take part where they are installed.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numba
import numpy as np
import pytest
from layers import TEXTS
from recurrences import RECURRENCES

import symgrad as sg
from symgrad import bench as library
from symgrad import cli, memory
from symgrad.against import case as cases
from symgrad.against import compare as comparing
from symgrad.against import tool as tools
from symgrad.against.case import DENSE, FORWARD, GRADIENT, VJP, difference
from symgrad.against.compare import compare
from symgrad.against.slopes import slope
from symgrad.against.tape import written
from symgrad.against.values import ALIKE, MADE, OPERATORS, value
from symgrad.compose import program_of
from symgrad.functions.table import FUNCTIONS
from symgrad.proof.numeric import KERNELS
from symgrad.proof.sample import draw_sizes

pytestmark = pytest.mark.filterwarnings("ignore:NUMBA_DISABLE_JIT:RuntimeWarning")

DENSE_LAYER = "x: input[n]\nW: param[m, n]\nb: param[m]\ny = tanh(W @ x + b)"
FRAMEWORKS = [name for name in ("torch", "jax") if find_spec(name)]
ROOT = Path(__file__).resolve().parent.parent
LAYERS = {
    **TEXTS,
    **{
        f"{path.stem} {node.targets[0].id}": node.value.value
        for path in sorted((ROOT / "examples").glob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and ": input[" in str(getattr(node.value, "value", ""))
    },
    "rbf_model": (ROOT / "examples" / "rbf_model.sg").read_text(encoding="utf-8"),
    **{
        path.stem: json.loads(path.read_text())["layer"]
        for path in sorted((ROOT / "tests" / "cases").glob("*.json"))
        if '"wrt": "params"' in path.read_text()
    },
    "lstm": "x: input[T, n]\nW: param[4, m, n]\nU: param[4, m, m]\nb: param[4, m]\n"
    "h[-1] = 0\nc[-1] = 0\nz[t: T] = W @ x[t] + U @ h[t - 1] + b\n"
    "c[t: T] = sigmoid(z[t, 1]) * c[t - 1] + sigmoid(z[t, 0]) * tanh(z[t, 2])\n"
    "h[t: T] = sigmoid(z[t, 3]) * tanh(c[t])\ny = h[-1]",
    "cholesky": "x: input[n]\nA: param[n, n]\ny = cholesky(A @ A.T + eye(n)) @ x",
    "solve": "x: input[n]\nA: param[n, n]\nS = A @ A.T + eye(n)\n"
    "y = dot(x, solve(S, x)) + logdet(S) + det(S) + inv(S)[0, 0]",
    "mask": "Q: input[T, n]\nK: param[n, n]\na = Q @ K @ Q.T\n"
    "y[i, j] = where(i >= j, exp(a[i, j]), 0)",
    "stopped": "x: input[n]\nW: param[m, n]\nc: param[m]\n"
    "z = stop_gradient(c) * tanh(W @ x)\ny = z * c",
    "picks": "x: input[n]\nW: param[m, n]\nz = W @ x\ny = max(z) + min(z) * prod(z)",
    "never":  # ∂y is 0: what tools have is rounding
    "v: input[n]\nw: param[n]\ny = logsumexp(log_softmax(w * v))",
    "filter": RECURRENCES["filter"],
    "factored": RECURRENCES["factored"],
    "one of two": "w: param[n]\nx: input[n]\nt: index(n)\ny = leaky_relu(w, x)[t]",
    "strided": "x: input[2*n]\nw: param[n]\ny[i: n] = w[i] * x[2*i] + x[2*i + 1] * i",
    "outside": "x: input\na: param\nb: param\ny = exp(log(a * b * x))",
}


@pytest.fixture(autouse=True)
def _plain(monkeypatch, tmp_path):
    """Run kernels as plain Python, with a cache of their own."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path))


def compared(text, against, **options):
    program, _ = program_of(sg.layer(text), None, None)
    dims = draw_sizes(program, np.random.default_rng(0), {})
    return compare(text, against=against, batch=3, dims=dims, seconds=0, **options)


@pytest.mark.parametrize("name", LAYERS)
def test_numpy_and_torch_compute_what_ours_are(name):
    there = ["numpy", *(n for n in FRAMEWORKS if n == "torch")]
    found = compared(LAYERS[name], there)
    rows = [row for row in found.rows if row.tool != "symgrad"]
    assert len(rows) == 4 * len(there)
    near = comparing.NEAR if name == "never" else 1e-12
    for row in rows:
        assert not row.reason and row.difference < near, row


@pytest.mark.skipif("jax" not in FRAMEWORKS, reason="jax is not installed")
@pytest.mark.parametrize("name", ["dense", "lstm", "embedding", "two", "mask", "solve"])
def test_jax_computes_what_ours_are(name):
    for row in compared(LAYERS[name], ["jax"]).rows:
        assert not row.reason and (row.difference or 0) < 1e-12, row


@pytest.mark.parametrize("wrt", ["all", "inputs", "x", ["W", "x"]])
def test_inputs_are_differentiated_by_as_well(wrt):
    for row in compared(DENSE_LAYER, ["numpy", *FRAMEWORKS], wrt=wrt).rows:
        assert not row.reason and (row.difference or 0) < 1e-12, row


@pytest.mark.parametrize("name", ["numpy", *FRAMEWORKS])
def test_every_function_of_the_table_has_its_value(name):
    here = tools.tool(name)
    rng = np.random.default_rng(0)
    assert set(FUNCTIONS) == {*ALIKE, *MADE, *OPERATORS}
    with comparing._doubles([name]):
        for function, entry in FUNCTIONS.items():
            args = [rng.uniform(*ends, size=9) for ends in entry.test_range]
            if function in ("and_", "or_", "not_", "where"):
                args[0] = np.round(args[0])
            f = OPERATORS.get(function) or value(function, here.has)
            found = np.asarray(f(*map(here.array, args)))
            np.testing.assert_allclose(found, KERNELS[function](*args), rtol=1e-9, atol=1e-12)


def test_every_slope_of_the_table_is_that_of_differences():
    here = tools.tool("numpy")
    rng = np.random.default_rng(0)
    for name, entry in FUNCTIONS.items():
        if name in OPERATORS or name in ("square", "exp_difference", "ratio_or_zero", "where"):
            continue  # they are differentiated into operators
        args = [rng.uniform(*ends, size=5) for ends in entry.test_range]
        f, step = value(name, here.has), 1e-6
        uses, of = slope(name, (1, *(0 for _ in args[1:])), here.has)
        found = of(f(*args) if uses else None, *args)
        ends = [f(args[0] + sign * step, *args[1:]) for sign in (1, -1)]
        np.testing.assert_allclose(
            np.broadcast_to(found, 5), (ends[0] - ends[1]) / (2 * step), rtol=1e-6, atol=1e-6
        )


def test_defaults_of_functions_are_those_of_the_table():
    text = (
        "x: input[n]\nw: param[n]\nz = w * x\n"
        "y = elu(z) + celu(z) + leaky_relu(z) + softshrink(z) + hardshrink(z) + hardtanh(z) + "
        "selu(z) + gelu_tanh(z) + hardswish(z) + relu6(z) + tanhshrink(z) + heaviside(z)"
    )
    for row in compared(text, ["numpy", *FRAMEWORKS]).rows:
        assert not row.reason and (row.difference or 0) < 1e-12, row


def test_functions_that_are_bound_are_handed_on():
    text = "x: input[n]\nw: param[n]\ny = σ(w * x)"
    given = {"σ": sg.function(value="z/(1 + exp(-z))")}
    for row in compared(text, ["numpy", *FRAMEWORKS], functions=given).rows:
        assert not row.reason and (row.difference or 0) < 1e-12, row


def test_a_layer_is_written_down_once_and_takes_other_arrays():
    here = tools.tool("numpy")
    a, b = np.arange(6.0).reshape(2, 3), np.ones(3)
    tape = written(here, {"a": a, "b": b}, lambda on, g: [on.has.tanh(g["a"] * 2 + g["b"])[0]])
    np.testing.assert_array_equal(tape({"a": a, "b": b})[0], np.tanh(a * 2 + b)[0])
    np.testing.assert_array_equal(tape({"a": -a, "b": b})[0], np.tanh(b - a * 2)[0])


def test_a_difference_is_relative_to_the_largest_entry():
    right = {"W": np.array([1.0, 4.0])}
    assert difference(right, {"W": np.array([1.0, 4.4])}) == pytest.approx(0.1)
    assert difference(right, {"W": np.array([1.0, 4.4])}, {"W": 40.0}) == pytest.approx(0.01)
    for bad in ({"b": right["W"]}, {"W": np.ones(3)}, {"W": np.array([1.0, np.nan])}):
        assert difference(right, bad) == np.inf
    holes = {"W": np.array([np.nan, np.inf, 1.0])}
    assert difference(holes, holes) == 0
    assert difference(holes, {"W": np.array([np.nan, -np.inf, 1.0])}) == np.inf


# ------------------------------------------------------------ the command

OPTIONS = ["--batch", "2", "--dim", "n=3,m=2", "--seconds", "0"]


def test_the_command_prints_forms_and_tools(capsys):
    assert cli.main(["bench", DENSE_LAYER, *OPTIONS, "--against", "numpy"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("layer: B = 2, n = 3, m = 2, float64; medians")
    assert lines[1].split() == ["symgrad", "numpy"]
    forms = (FORWARD, DENSE, VJP, GRADIENT, cases.COMPACT, cases.FACTORS)
    assert len(lines) == 2 + len(forms)
    for form, line in zip(forms, lines[2:], strict=True):
        assert line.startswith(form)
        assert line.endswith(" -") == (form in (cases.COMPACT, cases.FACTORS))


def test_a_disagreement_is_a_failure_and_nothing_is_timed(monkeypatch, capsys):
    made = comparing.WAYS["numpy"]

    def wrong(case):
        spoilt = dict(made(case))
        run = spoilt[DENSE]()
        numbers = lambda found: {n: a * (1 + 1e-6) for n, a in run.numbers(found).items()}  # noqa: E731
        return {**spoilt, DENSE: lambda: cases.Run(run.call, numbers)}

    monkeypatch.setattr(comparing, "WAYS", {"numpy": wrong})
    assert cli.main(["bench", DENSE_LAYER, *OPTIONS, "--against", "numpy"]) == 1
    told = capsys.readouterr()
    assert "dense Jacobians: numpy differs from symgrad by 1e-06" in told.err
    assert not told.out


def test_a_tool_that_is_absent_is_named_and_skipped(monkeypatch, capsys):
    monkeypatch.setattr(tools, "find_spec", lambda name: None if name == "jax" else True)
    assert cli.main(["bench", DENSE_LAYER, *OPTIONS, "--against", "jax,numpy"]) == 0
    told = capsys.readouterr().out
    assert "skipped: jax: it is not installed (pip install jax)" in told
    assert told.splitlines()[1].split() == ["symgrad", "numpy"]


def test_an_unknown_tool_is_one_error_with_what_there_is(capsys):
    assert cli.main(["bench", DENSE_LAYER, *OPTIONS, "--against", "nunpy,torch"]) == 2
    told = capsys.readouterr().err
    assert "there is no tool 'nunpy'" in told and "did you mean numpy?" in told
    assert "there are numpy, torch, jax" in told


def test_what_a_tool_raises_is_said_beside_the_form(monkeypatch):
    def broken(case):
        def fails():
            raise RuntimeError("no rule\nfor this")

        return {FORWARD: fails}

    monkeypatch.setattr(comparing, "WAYS", {"numpy": broken})
    found = compared(DENSE_LAYER, ["numpy"])
    (row,) = (row for row in found.rows if row.tool == "numpy")
    assert row.reason == "RuntimeError: no rule" and row.seconds is None
    assert "skipped: numpy, forward: RuntimeError: no rule" in str(found)


def test_long_recurrences_are_not_handed_to_what_compiles_them_unrolled(monkeypatch):
    from symgrad.against import translate

    monkeypatch.setattr(translate, "UNROLLED", 2)
    text = "x: input[T]\nw: param\nh[-1] = 0\nh[t: T] = tanh(w * h[t - 1] + x[t])\ny = h[-1]"
    program, _ = program_of(sg.layer(text), None, None)
    here = tools.Tool("jax", tools.tool("numpy").has, np.asarray, np.asarray)
    made = translate.Translation(program, here, {"T": 3, "#B": 2})
    with pytest.raises(sg.CodegenError, match="recurrence of 3 steps would be compiled unrolled"):
        made.run(program.definitions, {"x": np.ones((2, 3)), "w": np.ones(())})


def test_a_part_of_an_array_is_refused(capsys):
    options = [*OPTIONS, "--wrt", "W[1:, :]", "--against", "numpy"]
    assert cli.main(["bench", DENSE_LAYER, *options]) == 2
    assert "not by a part of one" in capsys.readouterr().err


def test_dense_arrays_that_memory_cannot_hold_are_left_out(monkeypatch):
    def refused(*_):
        raise sg.TooLargeError("a comparison of dense Jacobians takes 9 GiB")

    monkeypatch.setattr(cases, "require", refused)
    found = compared(DENSE_LAYER, ["numpy"])
    (row,) = (row for row in found.rows if row.form == DENSE)
    assert row.seconds is None and "9 GiB" in row.reason
    assert memory.HUGE  # the limit from which memory is asked for


def test_help_lists_against_with_an_example(capsys):
    assert cli.main(["bench", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "--against" in told and "--against numpy,torch,jax" in told


def test_nothing_of_it_is_imported_without_being_asked_for():
    script = (
        "import sys, symgrad\nfrom symgrad import bench, commands\n"
        "print([n for n in sys.modules if n.startswith(('symgrad.against', 'torch', 'jax'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_sizes_and_arrays_are_those_of_the_bench_without_against():
    found = library.placed(
        DENSE_LAYER, "params", batch=4, dims={"n": 3, "m": 2}, functions=None, seed=0
    )
    assert found.shown == (("n", 3), ("m", 2))
    assert {n: a.shape for n, a in found.given.items()} == {"x": (4, 3), "W": (2, 3), "b": (2,)}
