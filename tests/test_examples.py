"""Every example runs from another folder, asserts what it claims and prints what was asked for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
WITHOUT_TORCH = (
    "import sys, runpy; sys.modules['torch'] = None; "
    "runpy.run_path(sys.argv[1], run_name='__main__')"
)

pytestmark = pytest.mark.slow


def installed():
    try:
        distribution("symgrad")
    except PackageNotFoundError:
        return False
    return True


def run(name, folder, *before):
    """Return what a script prints when it is run from `folder`."""
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    if not installed():
        environment["PYTHONPATH"] = str(ROOT)
    ended = subprocess.run(
        [sys.executable, *before, str(EXAMPLES / name)],
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
    assert all(f'"{path.name}"' in text for path in EXAMPLES.glob("*.py"))


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
