"""`symgrad bench` times every form, of arrays of the sizes that it was given. No time is judged."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from layers import arrays_for, unvalidated

import symgrad as sg
from symgrad import bench as library
from symgrad import cli, memory, room
from symgrad.bench import bench, timed

pytestmark = pytest.mark.filterwarnings("ignore:NUMBA_DISABLE_JIT:RuntimeWarning")

DENSE = "x: input[n]\nW: param[m, n]\nb: param[m]\ny = tanh(W @ x + b)"
TWO = "x: input[n]\nW: param[m, n]\na: param\ny = sin(W @ x)\ns = a * sum(y)\nreturn y, s"
SIZES = {"n": 4, "m": 3}


@pytest.fixture(autouse=True)
def _plain(monkeypatch, tmp_path):
    """Run kernels as plain Python, with a cache of their own."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path))


def test_every_form_has_a_time_and_the_bytes_of_its_plan():
    found = {one.form: one for one in bench(DENSE, batch=5, dims=SIZES, seconds=0).forms}
    dense = {f"jac_{n}{kind}" for n in "Wb" for kind in ("(out=)", "_compact", "_factors")}
    assert found.keys() == {"forward", "jacobian", "vjp", "jvp"} | dense
    assert all(one.seconds > 0 for one in found.values())
    plan = sg.plan(DENSE, batch=5, dims=SIZES)
    for form in ("forward", "vjp", "jvp", "jac_W_compact", "jac_b_compact"):
        assert found[form].size == int(plan[form].results), form
    assert found["jac_W(out=)"].size == int(plan["jac_W"].results)


def test_dense_arrays_are_written_into_the_ones_of_the_first_call(monkeypatch):
    given = []

    def form(*arrays, out=None):
        given.append(out)
        return np.zeros(3) if out is None else out

    call = library._Dense(form, [1, 2])
    first = call()
    assert call() is first and given[0] is None and given[1] is first and given[2] is first


@pytest.mark.parametrize(
    "text, options",
    [
        (TWO, {"dims": SIZES}),
        ("a: param\nx: input\nassert a * x > 0\ny = log(a * x)", {}),
        ("t: index(v)[T]\nE: param[v, d]\ny = mean(E[t].T)", {"dims": {"v": 6, "T": 3, "d": 2}}),
        ("x: input[n]\nr: const = 2.0\nw: param[n]\ny = r * dot(w, x)", {"dims": {"n": 3}}),
        (
            "x: input[n]\nw: param[n]\ny = σ(w * x)",
            {"dims": {"n": 3}, "functions": {"σ": "tanh"}},
        ),
        ("S: param[m, m]\nw: param[m]\ny = tanh(S @ w)", {"dims": {"m": 3}, "wrt": "S"}),
        ("x: input[n]\nW: param[m, n]\ny = W @ x + eye(k)[0, 0]", {"dims": {"k": 2, **SIZES}}),
    ],
)
def test_layers_of_all_kinds_are_timed(text, options):
    found = bench(text, batch=2, seconds=0, **options)
    assert all(one.seconds > 0 for one in found.forms)
    assert any(one.form.endswith("(out=)") for one in found.forms)


def test_what_memory_cannot_hold_is_said_and_the_rest_is_timed(monkeypatch):
    jac = unvalidated(DENSE, plain=True)
    arrays = arrays_for(jac, batch=50)
    monkeypatch.setattr(memory, "HUGE", 2**12)
    monkeypatch.setattr(room, "HUGE", 2**12)
    monkeypatch.setattr(jac.module, "_free_bytes", lambda: 2**13)
    forms = tuple(library._timing(form, call, 0) for form, call in library._calls(jac, arrays))
    (large,) = (one for one in forms if one.seconds is None)
    assert large.form == "jac_W(out=)" and "KiB" in large.reason
    assert large.reason in str(library.Timings("layer", 50, (), forms))


def test_a_size_that_is_missing_is_asked_for():
    with pytest.raises(sg.ShapeError, match="no size is given for m"):
        bench(DENSE, dims={"n": 3})
    with pytest.raises(sg.ShapeError, match="q"):
        bench(DENSE, dims={"q": 3, **SIZES})


def test_the_command_prints_every_form(capsys):
    options = ["--batch", "2", "--dim", "n=3,m=2", "--wrt", "W", "--seconds", "0"]
    assert cli.main(["bench", DENSE, *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "layer: B = 2, n = 3, m = 2, float64; medians"
    forms = ["forward", "jacobian", "vjp", "jvp", "jac_W(out=)", "jac_W_compact", "jac_W_factors"]
    assert [line.split()[0] for line in lines[1:]] == forms
    assert cli.main(["bench", DENSE, "--dim", "n=3"]) == 2
    assert "--dim m=64" in capsys.readouterr().err


def test_the_median_is_of_many_calls():
    calls = []
    assert timed(lambda: calls.append(1), 0) >= 0
    assert len(calls) == library.LEAST + 1
