"""Kernels that are compiled ahead: a process of its own compiles none."""

import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from layers import TEXTS, arrays_for

import symgrad as sg
from symgrad import build
from symgrad.warm import calls, dtypes_of, warming

LAYERS = {
    "mlp": (TEXTS["mlp"], {}),
    "consts": (TEXTS["consts"], {}),
    "looked_up": ("t: index(v)[T]\nE: param[v]\ny = tanh(E[t])", {}),
    "matrices": ("x: input[n]\nA: input[n, n]\ny = cholesky(A @ A.T + eye(n)) @ x", {}),
    "curved": ("x: input\na: param\ny = exp(a * x)", {"order": 2}),
}
FRESH = """
import sys
import numpy as np
from symgrad import api
from symgrad.warm import calls
jac = api._from_module(sys.argv[1])
stored = np.load(sys.argv[2])
kernels = [k for k in vars(jac.module).values() if hasattr(k, "signatures")]
declared = jac.forms.program.arrays
given = {a.name: stored[a.name] if a.default is None else a.default for a in declared}
many = [call for call in calls(jac.forms, jac.module, given)]
for call in many:
    call()
if len(sys.argv) > 3:
    for name in {"_SHARE_FROM", "_FEW"} & vars(jac.module).keys():
        setattr(jac.module, name, 0)
    for call in many:
        call()
    kernels += getattr(jac.module, "_WHOLE", {}).values()
missed = [f"{k.__name__}{signature}" for k in kernels for signature in k.stats.cache_misses]
found = [k for k in kernels if k.stats.cache_hits]
print(len(found), *missed)
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path / "cache"))


def fresh(path, arrays, tmp_path, *large):
    """Call every form in a process of its own: how many kernels were found, and which were not."""
    np.savez(tmp_path / "arrays.npz", **arrays)
    clean = {k: v for k, v in os.environ.items() if k != "NUMBA_DISABLE_JIT"}
    command = [sys.executable, "-c", FRESH, str(path), str(tmp_path / "arrays.npz"), *large]
    run = partial(subprocess.run, capture_output=True, text=True, check=False)
    done = run(command, env=clean)
    assert done.returncode == 0, done.stderr
    count, *missed = done.stdout.split()
    return int(count), missed


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_a_process_that_imports_a_warm_module_compiles_nothing(name, tmp_path):
    text, options = LAYERS[name]
    path = tmp_path / f"{name}_jac.py"
    jac = sg.compile(text, "all", name=name, check=False, path=path, warm=True, **options)
    for batch in (1, 5):
        large = ("large",) if batch > 1 else ()
        count, missed = fresh(path, arrays_for(jac, batch=batch), tmp_path, *large)
        assert count >= 3
        assert missed == []


@pytest.mark.slow
def test_only_dtypes_that_were_asked_for_are_compiled(tmp_path):
    path = tmp_path / "scaled_jac.py"
    text = "x: input[n]\nw: param[n]\ny = sin(w * x)"
    jac = sg.compile(text, check=False, path=path, warm="float32")
    kernels = [k for k in vars(jac.module).values() if hasattr(k, "signatures")]
    assert {str(s[0].dtype) for k in kernels for s in k.signatures if k.stats.cache_misses} == {
        "float32"
    }
    assert fresh(path, arrays_for(jac, dtype=np.float32), tmp_path)[1] == []
    assert fresh(path, arrays_for(jac), tmp_path)[1] != []


def test_every_form_of_a_module_is_called():
    jac = sg.compile(TEXTS["two"], "all", name="two", check=False, order=2)
    called = []

    class Counting:
        def __getattr__(self, name):
            called.append(name)
            return getattr(plain, name)

    plain = build.load(jac.path, plain=True)
    for call in calls(jac.forms, Counting(), arrays_for(jac)):
        call()
    drivers = {n for n in vars(plain) if n.startswith(("jac_", "hess_"))}
    drivers |= {"forward", "jacobian", "vjp", "vjp_per_sample", "jvp", "pullback"}
    assert set(called) == drivers | {"hessian", "hvp", "hessian_sum"}


@pytest.mark.parametrize(
    ("warm", "expected"),
    [
        (False, ()),
        (True, ("float64",)),
        ("float32", ("float32",)),
        (np.float32, ("float32",)),
        (["float64", np.dtype("complex64"), "float64"], ("float64", "complex64")),
        ((), ()),
    ],
)
def test_dtypes_are_named_as_numpy_names_them(warm, expected):
    assert dtypes_of(warm) == expected


@pytest.mark.parametrize("warm", ["float16", "tall", None, 3, ["float64", "int32"]])
def test_other_dtypes_are_refused_before_anything_is_written(warm, tmp_path):
    path = tmp_path / "no.py"
    with pytest.raises(sg.ArgumentError, match="kernels are not compiled for"):
        sg.compile(TEXTS["dense"], check=False, path=path, warm=warm)
    assert not path.exists()


def test_without_numba_there_is_nothing_to_compile(monkeypatch):
    jac = sg.compile(TEXTS["dense"], name="dense", check=False)
    jac.module = build.load(jac.path, plain=True)
    with pytest.raises(
        sg.ArgumentError, match="no kernel can be compiled ahead: NUMBA_DISABLE_JIT"
    ):
        warming(jac, ("float64",))
    assert warming(jac, ()) == []


def test_a_layer_without_complex_kernels_says_so():
    text = "x: input[n]\nw: param[n]\ny = relu(w * x)"
    with pytest.raises(sg.ArgumentError, match="relu has no complex kernel"):
        sg.compile(text, check=False, warm="complex64")
