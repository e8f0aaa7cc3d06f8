"""Every example runs from another folder, asserts what it claims and prints what was asked for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from layers import unvalidated

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
WITHOUT_TORCH = (
    "import sys, runpy; sys.modules['torch'] = None; "
    "runpy.run_path(sys.argv[1], run_name='__main__')"
)
WITHOUT_EXTRAS = (
    "import os, sys, runpy; sys.modules['matplotlib'] = sys.modules['scipy'] = None; "
    "sys.path.insert(0, os.path.dirname(sys.argv[1])); "
    "runpy.run_path(sys.argv[1], run_name='__main__')"
)
PNG = b"\x89PNG"

pytestmark = pytest.mark.slow


def installed():
    try:
        distribution("symgrad")
    except PackageNotFoundError:
        return False
    return True


def run(name, folder, *before, after=()):
    """Return what a script prints when it is run from `folder`."""
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"}
    if not installed():
        environment["PYTHONPATH"] = str(ROOT)
    ended = subprocess.run(
        [sys.executable, *before, str(EXAMPLES / name), *after],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return ended.stdout


def test_every_script_is_run_by_a_test_here():
    text = Path(__file__).read_text(encoding="utf-8")
    helpers = {"plots.py"}
    assert all(f'"{p.name}"' in text for p in EXAMPLES.glob("*.py") if p.name not in helpers)


def test_the_dense_layer_tells_three_derivatives_apart(tmp_path):
    printed = run("first_dense_layer.py", tmp_path)
    for formula in ("∂y/∂W = x σ'(Wx + b)", "∂y/∂b = σ'(Wx + b)", "∂y/∂W = x ", "∂y/∂b = 1"):
        assert formula in printed
    assert "∂y[i]/∂W[j,k] = δ_ij σ'(Σ_l W_il x_l + b_i) x_k" in printed
    sigmoid = printed[printed.index("3. y = sigmoid") :]
    assert re.search(
        r"∂y/∂W per sample +\(3, 1, 1, 3\) .*0\.098306, -0\.196612,  0\.393224", sigmoid
    )
    assert re.search(r"∂y/∂b per sample +\(3, 1, 1\) .*0\.196612", sigmoid)
    assert re.search(r"∂y/∂x +\(3, 1, 3\)", sigmoid)
    assert re.search(r"∂\(sum of y\)/∂W +\(1, 3\)", sigmoid)
    assert "jacobian(x -> model(x), X) gave ∂y/∂x" in printed
    assert "gradient of sum(model(X)) gave ∂(sum of y)/∂W" in printed
    assert "y has shape [m]; a gradient needs a scalar: use jacobian, or sum=True" in printed


def test_chosen_parameters_are_absent_or_zero_as_asked(tmp_path):
    printed = run("chosen_parameters.py", tmp_path)
    assert "f = 40.171074" in printed
    chosen = "{'a': 40.171074, 'b': 20.085537}"
    assert re.search(rf"a and b only: +{chosen}$", printed, re.MULTILINE)
    assert re.search(rf"all parameters but c: +{chosen}$", printed, re.MULTILINE)
    assert re.search(r"stop_gradient\(c\): .*'c': 0\.0}$", printed, re.MULTILINE)
    assert "∂y/∂a = b x e^c" in printed


def test_two_rules_train_two_groups_from_one_module(tmp_path):
    printed = run("chosen_parameters.py", tmp_path)
    assert re.search(r"natural gradient: q_mean, q_log_std  +Adam: kernel_log_length", printed)
    assert "kernel frozen" in printed
    assert "kernel thawed" in printed
    lower = re.search(r"([\d.]+) times lower", printed)
    assert float(lower[1]) >= 30
    for absent, zeroed in re.findall(
        r"absent moves it by (\S+), a zeroed gradient by (\S+)", printed
    ):
        assert float(absent) == 0 != float(zeroed)
    before, after = re.search(
        r"compiled: (\d+) after the first round, (\d+) after", printed
    ).groups()
    assert before == after


@pytest.mark.parametrize("before", [(), ("-c", WITHOUT_TORCH)], ids=["as_installed", "no_torch"])
def test_tensor_outputs_agree_with_a_loop(tmp_path, before):
    printed = run("tensor_outputs.py", tmp_path, *before)
    for shape in (
        "(5, 3, 3, 6)",
        "(5, 3, 3)",
        "(5, 4, 3, 3, 6)",
        "(15, 5, 7, 10)",
        "(15, 5, 5, 7)",
    ):
        assert shape in printed
    torch = find_spec("torch") is not None and not before
    who = "PyTorch" if torch else "vjp"
    for passes in (15, 60, 75):
        assert re.search(rf"a loop of {passes} backward passes \({who}\) +\d+ µs", printed)
    if torch and find_spec("backpack") is not None:
        assert len(re.findall(r"BackPACK, root of the GGN.* \d+ µs", printed)) == 2
        assert len(re.findall(r"BackPACK, per-sample gradients.* \d+ µs", printed)) == 2
    else:
        assert "BackPACK is not installed" in printed
    assert printed.endswith("All agree.\n")


def plotted(printed, folder, name):
    """Assert that the plot is where the script says, and nothing else is in the folder."""
    if find_spec("matplotlib") is None:
        assert printed.endswith("matplotlib is not installed: the plot is left out\n")
        assert not list(folder.iterdir())
        return
    assert printed.endswith(f"plot: {name}\n")
    assert (folder / name).read_bytes().startswith(PNG)
    assert [path.name for path in folder.iterdir()] == [name]


def test_a_curve_fit_takes_no_more_evaluations_than_that_of_scipy(tmp_path):
    pytest.importorskip("scipy")
    printed = run("curve_fit.py", tmp_path)
    rows = re.findall(
        r"^ +(\d)   (J\.solve|SciPy's \w+) +([\d.]+) +(\d+) +(\d+)$", printed, re.MULTILINE
    )
    assert len(rows) == 15
    for guess in "12345":
        found = {way: numbers for number, way, *numbers in rows if number == guess}
        cost, values, jacobians = map(float, found.pop("J.solve"))
        assert set(found) == {"SciPy's lm", "SciPy's trf"}
        for other in found.values():
            assert abs(cost - float(other[0])) <= 1e-9 * cost
            assert values <= int(other[1])
            assert jacobians <= int(other[2])
    plotted(printed, tmp_path, "curve_fit.png")


def test_what_is_not_installed_is_left_out_and_said_so(tmp_path):
    printed = run("curve_fit.py", tmp_path, "-c", WITHOUT_EXTRAS)
    assert "SciPy is not installed: the comparison is left out" in printed
    assert len(re.findall(r"J\.solve +[\d.]+ +\d+ +\d+$", printed, re.MULTILINE)) == 5
    assert printed.endswith("matplotlib is not installed: the plot is left out\n")
    assert not list(tmp_path.iterdir())


def test_tangent_kernels_converge_with_the_root_of_the_width(tmp_path):
    printed = run("wide_networks.py", tmp_path)
    row = r"^ +(\d+) +\[13, .*\] +([\d.]+) +([\d.]+) +([\d.]+)$"
    rows = re.findall(row, printed, re.MULTILINE)
    widths, _, _, deviations = (tuple(map(float, column)) for column in zip(*rows, strict=True))
    assert widths == (16, 32, 64, 128, 256, 512, 1024)
    limit = re.search(r"∞ +([\d.]+) +([\d.]+)$", printed, re.MULTILINE)
    assert float(limit[1]) == 1.5  # of a point with itself: 1 from each of three layers, halved
    for average, exact in zip(map(float, rows[-1][1:3]), map(float, limit.groups()), strict=True):
        assert abs(average - exact) < 3 * deviations[-1] * exact / 40**0.5 + 0.02
    exponent = re.search(r"falls like width\^(-[\d.]+); the law", printed)
    assert abs(float(exponent[1]) + 0.5) < 0.06
    plotted(printed, tmp_path, "wide_networks.png")


def test_last_layer_bands_are_those_of_bayesian_regression(tmp_path):
    printed = run("laplace_bands.py", tmp_path, after=["bands.png"])
    assert "last layer: last_w, last_b   all: hidden_W, hidden_b, last_w, last_b" in printed
    far = re.search(r"variance to (\S+) relatively, mean to (\S+)$", printed, re.MULTILINE)
    assert all(float(number) < 1e-8 for number in far.groups())
    rows = re.findall(r"^ +(-?[\d.]+) +-?[\d.]+ +([\d.]+) +([\d.]+)$", printed, re.MULTILINE)
    last, whole = ({float(r[0]): float(r[k]) for r in rows} for k in (1, 2))
    assert all(last[x] <= whole[x] for x in last)
    for place in (-3.0, 0.0, 3.0):  # no data there
        assert whole[place] > 2 * max(whole[-1.5], whole[1.5])
    plotted(printed, tmp_path, "bands.png")


def test_clipped_gradients_need_no_array_of_gradients(tmp_path):
    printed = run("private_gradients.py", tmp_path)
    everything = float(re.search(r"all gradients are ([\d.]+) MB", printed)[1])
    peaks = dict(re.findall(r"^ +(.*?) +[\d.]+ ms +peak +([\d.]+) MB$", printed, re.MULTILINE))
    assert everything > 100
    assert float(peaks["from factors"]) < everything / 20
    assert float(peaks["all gradients"]) > everything
    clipped = re.search(r"(\d+) of 256 clipped to 13.0: all agree", printed)
    assert 0 < int(clipped[1]) < 256
    before, after = re.search(r"loss ([\d.]+), after 60 steps ([\d.]+)", printed).groups()
    assert float(after) < float(before) / 2
    plotted(printed, tmp_path, "private_gradients.png")


def test_a_natural_step_reaches_the_collapsed_bound_and_both_schedules_train(tmp_path):
    printed = run("sparse_gaussian_process.py", tmp_path)
    assert printed.count("natural gradient: q_mean, q_root   Adam: kernel_centres, ") == 2
    differences = re.findall(r"closed form .*, difference (\S+)$", printed, re.MULTILINE)
    assert len(differences) == 2
    assert all(abs(float(d)) < 1e-8 for d in differences)
    reached, trained = (
        float(re.search(rf"after {what} +(-[\d.]+)$", printed, re.MULTILINE)[1])
        for what in ("one full natural step", "100 rounds of Adam and a step")
    )
    assert trained > reached + 20
    rows = re.findall(r"^ +(\d+) +(-[\d.]+) +(-[\d.]+)$", printed, re.MULTILINE)
    assert [int(r[0]) for r in rows] == [0, 1, 2, 5, 10, 30, 100]
    for column in (1, 2):
        bounds = [float(r[column]) for r in rows]
        assert bounds == sorted(bounds)
    assert abs(float(rows[-1][1]) - float(rows[-1][2])) < 0.5
    plotted(printed, tmp_path, "sparse_gaussian_process.png")


def test_what_depends_on_parameters_only_is_factorised_once_a_gradient(monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from sparse_gaussian_process import GAUSSIAN, PROCESS, start

    jac = unvalidated(PROCESS + GAUSSIAN, plain=True)
    x = np.linspace(-1, 1, 7)[:, None]
    p = start(x, 3) | {"kernel_log_noise": 0.0}
    shapes = []
    for name in ("_cholesky", "_log_determinant", "_inverse"):
        helper = getattr(jac.module, name)

        def counted(matrices, place, name=name, helper=helper):
            shapes.append((name, np.shape(matrices)))
            return helper(matrices, place)

        monkeypatch.setattr(jac.module, name, counted)
    jac.gradient(x, np.zeros(7), 7.0, p)
    assert sorted(shapes) == [(n, (3, 3)) for n in ("_cholesky", "_inverse", "_log_determinant")]


@pytest.mark.parametrize("before", [(), ("-c", WITHOUT_TORCH)], ids=["as_installed", "no_torch"])
def test_an_lstm_and_attention_have_the_gradients_of_torch(tmp_path, before):
    printed = run("sequence_layers.py", tmp_path, *before)
    assert "G^h_tijk = δ_ti δ_jk + Σ_lp G^z_{t+1,i,j,l,p} U_lpk" in printed
    torch = find_spec("torch") is not None and not before
    confirmed = "value and gradients are PyTorch's" if torch else "by finite differences"
    assert printed.count(confirmed) == 2
    for gradient in ("U (4, 8, 8)", "b (4, 8)", "Q (4, 6, 24)", "W (24, 4, 6)"):
        assert f"∂(u·y)/∂{gradient}" in printed
