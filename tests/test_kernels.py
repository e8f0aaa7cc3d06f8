"""Scalar kernels, compiled and as plain Python, against mpmath: values and first slopes."""

import importlib.util
import itertools
import math
import os
import subprocess
import sys
import textwrap

import mpmath
import numpy as np
import pytest

from symgrad.errors import CodegenError
from symgrad.functions.kernels import HELPERS, Kernel, kernel
from symgrad.functions.preamble import PREAMBLE
from symgrad.proof.exact import exact

SUBNORMAL = 5e-324
HALVES = [0.1, 0.25, 0.3, 0.499, 0.5, 0.6, 0.7, 0.9, 1.0, 1.2, 1.5, 1.9, 2.0, 2.5, 3.0, 3.5, 6.0]
HALVES += [7.3, 10.0, 13.7, 20.0, 25.0, 26.5, 27.2, 37.0, 38.3, 40.0, 100.0]
TINY = [5e-324, 3e-310, 1e-300, 1e-160, 1e-20, 1e-10, 1e-5, 1e-3]
HUGE = [354.0, 700.0, 709.0, 709.7, 710.3, 720.0, 737.0, 744.0, 745.5, 800.0, 1e4, 1e10, 1e16]
HUGE += [1e100, 1e155, 1e160, 1e200, 1e308]
POSITIVE = [*TINY, *HALVES, *HUGE]
POINTS = [0.0, -0.0, *POSITIVE, *(-z for z in POSITIVE), math.inf, -math.inf, math.nan]
PAIRS = [0.0, 5e-324, 1e-160, 1e-3, 0.3, 0.5, 1.0, 2.0, 3.5, 40.0, 700.0, 1e160, 1e308]
PAIRS += [-z for z in PAIRS[1:]]

UNARY = (
    "exp exp2 expm1 log log2 log10 log1p sqrt cbrt square reciprocal abs sign sin cos tan arcsin "
    "arccos arctan sinh cosh tanh arcsinh arccosh arctanh erf erfc gamma lgamma digamma floor ceil "
    "round identity relu relu6 selu gelu gelu_tanh silu swish mish softplus softsign sigmoid "
    "log_sigmoid tanhshrink hardsigmoid hardswish neg not_"
).split()
BINARY = (
    "add sub mul div pow lt le gt ge eq ne and_ or_ arctan2 maximum minimum hypot logaddexp "
    "exp_difference ratio_or_zero leaky_relu prelu elu celu softshrink hardshrink heaviside"
).split()
TERNARY = ("clip", "hardtanh", "threshold", "where")
SECOND = {
    "leaky_relu": [0.01, 0.3, -1.5],
    "prelu": [0.01, 0.3, -1.5],
    "elu": [1.0, 0.3, 1e8],
    "celu": [1.0, 0.3, 7.0],
    "softshrink": [0.5, 0.0, 2.0],
    "hardshrink": [0.5, 0.0, 2.0],
    "heaviside": [0.5, 0.0, 1.0],
    "and_": [0.0, 1.0],
    "or_": [0.0, 1.0],
    "pow": [0.0, 0.5, 1.0, 2.0, 3.0, 4.0, -0.5, -1.0, -2.0, 2.5, 1 / 3, 7.0],
}
GAMMAS = ("gamma", "lgamma", "digamma")
"""Accurate for z > 0."""
BOUNDS = [(-1.0, 1.0), (0.0, 2.0), (-0.5, 3.5)]


def orders(count):
    """Return the orders of the value and of each first slope."""
    return [(0,) * count] + [tuple(int(i == k) for i in range(count)) for k in range(count)]


def curvatures(count):
    """Return the orders of all second derivatives, mixed ones once."""
    units = orders(count)[1:]
    pairs = itertools.combinations_with_replacement(units, 2)
    return [tuple(a + b for a, b in zip(*pair, strict=True)) for pair in pairs]


TABLE = [(name, n) for n, names in ((1, UNARY), (2, BINARY), (3, TERNARY)) for name in names]
CASES = [(name, order) for name, count in TABLE for order in orders(count)]
CASES += [
    (name, order)
    for name, count in TABLE
    for order in curvatures(count)
    if kernel(name, order).call != "0.0"
]


def points(name):
    """Return argument tuples for a function."""
    if name in GAMMAS:
        top = 1e3 if name == "gamma" else math.inf
        return [(z,) for z in POINTS if not z <= 0 and not z >= top]
    if name == "not_":
        return [(0.0,), (1.0,)]
    if name in UNARY:
        return [(z,) for z in POINTS]
    if name in ("and_", "or_"):
        return list(itertools.product(SECOND[name], SECOND[name]))
    if name == "where":
        return [(m, a, b) for m in (0.0, 1.0) for a, b in ((2.0, 3.0), (-1e308, 5e-324))]
    if name in TERNARY:
        return [(z, *bounds) for z in (*PAIRS, math.nan) for bounds in BOUNDS]
    return list(itertools.product((*PAIRS, math.nan), SECOND.get(name, PAIRS)))


def textbook(name, order, args):
    """Return the largest term of the sum a textbook writes, where terms cancel."""
    z = abs(args[0])
    if name == "tanhshrink" and order == (0,):
        return z
    if name == "celu" and order == (0, 1):
        return min(z / abs(args[1]), 1.0)
    if name == "logaddexp" and order == (0, 0):
        return max(map(abs, args))
    return 0.0


def expected(name, order, args):
    """Return the exact result, or None where there is none to compare with."""
    if name == "pow" and order[1] and args[0] <= 0:
        return None  # stated below
    if name == "pow" and order[0] and args[0] == 0 and args[1] < sum(order):
        return None
    if name in ("arctan2", "div") and not any(args):
        return None
    if any(order) and any(map(math.isnan, args)) and "{0}" not in kernel(name, order).call:
        return None  # a slope that is a constant
    if (name, order) in (("heaviside", (0, 1)), ("ratio_or_zero", (1, 0))) and math.isnan(args[0]):
        return None
    if name in ("erfc", "gelu") and abs(args[0]) > 1e100:
        return None  # mpmath overflows
    if name == "ratio_or_zero" and any(order) and args[1] == 0:
        return mpmath.mpf(0)
    with mpmath.workdps(60):
        want = mpmath.mpf(exact(name, order)(*(mpmath.mpf(a) for a in args)))
        undecided = mpmath.isnan(want) and any(math.isinf(a) for a in args)
        return None if undecided else want


def agrees(got, want, scale):
    """Compare as the contract asks: relative to the largest term, plus one subnormal."""
    if mpmath.isnan(want):
        return math.isnan(got)
    largest = mpmath.mpf(sys.float_info.max)
    if abs(want) > largest * (1 - mpmath.mpf(10) ** -12):
        return abs(got) == math.inf or abs(got) >= float(largest) * (1 - 2e-12)
    if math.isnan(got) or math.isinf(got):
        return False
    bound = mpmath.mpf("1e-12") * max(abs(want), mpmath.mpf(scale)) + mpmath.mpf(SUBNORMAL)
    return abs(mpmath.mpf(got) - want) <= bound


def name_of(name, order):
    return f"f_{name}_{''.join(map(str, order))}"


def module_text():
    """Return one module with every helper, every call, and a loop over each call."""
    head = "from __future__ import annotations\n\nimport math\nimport warnings\n\n"
    parts = [head + "import numpy as np", PREAMBLE]
    needed = {}
    calls = []
    written = {}
    for name, order in CASES:
        k = kernel(name, order)
        first = written.setdefault((k.call, len(order)), name_of(name, order))
        if first != name_of(name, order):
            calls.append(f"{name_of(name, order)} = {first}\n")
            continue
        needed.update(dict.fromkeys(k.helpers))
        letters = "abc"[: len(order)]
        texts = [f"{x}[i]" for x in letters]
        loop = f"@loops\ndef {name_of(name, order)}({', '.join(letters)}, out):\n"
        loop += f"    for i in range(out.size):\n        out[i] = {k.call.format(*texts)}\n"
        calls.append(loop)
    return "\n\n".join([*parts, *(HELPERS[h] + "\n" for h in needed), *calls])


def load(path, text):
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    return load(tmp_path_factory.mktemp("kernels") / "compiled_kernels.py", module_text())


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The same text as it runs without numba."""
    text = module_text().replace("import numba\n", "raise ImportError('numba')\n", 1)
    with pytest.warns(RuntimeWarning, match="numba"):
        return load(tmp_path_factory.mktemp("kernels") / "plain_kernels.py", text)


def failures(module, name, order):
    arguments = points(name)
    columns = [np.array(c) for c in zip(*arguments, strict=True)]
    out = np.empty(len(arguments))
    getattr(module, name_of(name, order))(*columns, out)
    bad = []
    for args, got in zip(arguments, out, strict=True):
        want = expected(name, order, args)
        if want is not None and not agrees(float(got), want, textbook(name, order, args)):
            bad.append((args, float(got), mpmath.nstr(want, 17)))
    return bad


IDS = [name_of(*case)[2:] for case in CASES]


@pytest.mark.parametrize(("name", "order"), CASES, ids=IDS)
def test_plain_kernels_are_exact_to_twelve_digits(plain, name, order):
    assert failures(plain, name, order) == []


@pytest.mark.parametrize(("name", "order"), CASES, ids=IDS)
def test_compiled_kernels_are_exact_to_twelve_digits(compiled, name, order):
    assert failures(compiled, name, order) == []


STATED = [
    ("relu", (1,), (0.0,), 0.0),
    ("abs", (1,), (0.0,), 0.0),
    ("hardtanh", (1, 0, 0), (1.0, -1.0, 1.0), 0.0),
    ("hardtanh", (1, 0, 0), (-1.0, -1.0, 1.0), 0.0),
    ("clip", (1, 0, 0), (1.0, -1.0, 1.0), 1.0),
    ("clip", (1, 0, 0), (-1.0, -1.0, 1.0), 1.0),
    ("hardswish", (1,), (3.0,), 1.0),
    ("softshrink", (1, 0), (0.5, 0.5), 0.0),
    ("softshrink", (1, 0), (-0.5, 0.5), 0.0),
    ("hypot", (1, 0), (0.0, 0.0), 0.0),
    ("logaddexp", (1, 0), (-math.inf, -math.inf), 0.0),
    ("logaddexp", (0, 0), (-math.inf, -math.inf), -math.inf),
    ("logaddexp", (0, 0), (math.inf, math.inf), math.inf),
    ("logaddexp", (0, 0), (math.inf, -math.inf), math.inf),
    ("logaddexp", (0, 0), (-math.inf, 2.0), 2.0),
    ("logaddexp", (1, 0), (-math.inf, 2.0), 0.0),
    ("maximum", (1, 0), (2.0, 2.0), 0.5),
    ("minimum", (0, 1), (2.0, 2.0), 0.5),
    ("maximum", (0, 0), (math.nan, 1.0), math.nan),
    ("maximum", (0, 0), (1.0, math.nan), math.nan),
    ("pow", (0, 1), (0.0, 2.0), 0.0),
    ("pow", (0, 1), (-2.0, 2.0), math.nan),
    ("pow", (1, 0), (0.0, 1.0), 1.0),
    ("pow", (1, 0), (0.0, 2.0), 0.0),
    ("pow", (0, 0), (-2.0, 0.5), math.nan),
    ("pow", (0, 0), (-2.0, 3.0), -8.0),
    ("round", (0,), (0.5,), 0.0),
    ("round", (0,), (2.5,), 2.0),
    ("exp_difference", (0, 0), (-math.inf, -math.inf), 0.0),
    ("ratio_or_zero", (0, 0), (3.0, 0.0), 0.0),
    ("where", (0, 0, 0), (0.0, math.nan, 3.0), 3.0),
    ("where", (0, 0, 0), (1.0, 2.0, math.inf), 2.0),
    ("log", (0,), (0.0,), -math.inf),
    ("reciprocal", (0,), (-0.0,), -math.inf),
    ("tanh", (0,), (math.inf,), 1.0),
    ("softplus", (0,), (math.inf,), math.inf),
    ("sigmoid", (0,), (-math.inf,), 0.0),
    ("pow", (2, 0), (0.0, 0.0), 0.0),
    ("pow", (2, 0), (0.0, 1.0), 0.0),
    ("pow", (2, 0), (0.0, 2.0), 2.0),
    ("pow", (2, 0), (-2.0, 3.0), -12.0),
    ("pow", (1, 1), (0.0, 2.0), 0.0),
    ("pow", (0, 2), (0.0, 2.0), 0.0),
    ("softsign", (2,), (0.0,), 0.0),
    ("hardswish", (2,), (3.0,), 0.0),
    ("hardswish", (2,), (-3.0,), 0.0),
    ("hypot", (2, 0), (0.0, 0.0), 0.0),
    ("hypot", (1, 1), (0.0, 0.0), 0.0),
    ("ratio_or_zero", (0, 2), (3.0, 0.0), 0.0),
    ("logaddexp", (2, 0), (-math.inf, -math.inf), 0.0),
    ("logaddexp", (1, 1), (2.0, 2.0), -0.25),
    ("leaky_relu", (1, 1), (0.0, 0.3), 1.0),
    ("elu", (2, 0), (0.0, 1.5), 1.5),
    ("sigmoid", (2,), (0.0,), 0.0),
    ("gelu", (2,), (-math.inf,), 0.0),
    ("erf", (2,), (math.inf,), 0.0),
]


@pytest.mark.parametrize(("name", "order", "args", "want"), STATED)
def test_kinks_and_infinities_are_as_the_language_states(plain, compiled, name, order, args, want):
    for module in (plain, compiled):
        out = np.empty(1)
        getattr(module, name_of(name, order))(*(np.array([a]) for a in args), out)
        assert out[0] == want or (math.isnan(want) and math.isnan(out[0]))


@pytest.mark.parametrize("name", ["tanh", "expm1", "erf", "silu", "cbrt", "log1p"])
def test_sign_of_zero_is_kept(plain, compiled, name):
    for module in (plain, compiled):
        out = np.ones(1)
        getattr(module, name_of(name, (0,)))(np.array([-0.0]), out)
        assert out[0] == 0 and math.copysign(1, out[0]) == -1


def singles(name):
    """Return the argument tuples of a function that float32 holds, rounded to it, each once."""
    limit = float(np.finfo(np.float32).max)
    kept = [a for a in points(name) if all(not abs(z) > limit or math.isinf(z) for z in a)]
    with np.errstate(under="ignore"):
        found = dict.fromkeys(tuple(float(np.float32(z)) for z in a) for a in kept)
    return [a for a in found if name not in GAMMAS or a[0] != 0]


def single_failures(module, name, order):
    """Return where float32 arguments do not give the exact result to 2e-6."""
    arguments = singles(name)
    columns = [np.array(c, np.float32) for c in zip(*arguments, strict=True)]
    out = np.empty(len(arguments), np.float32)
    with np.errstate(all="ignore"):
        getattr(module, name_of(name, order))(*columns, out)
    largest, least = (float(z) for z in (np.finfo(np.float32).max, np.float32(1e-45)))
    bad = []
    for args, got in zip(arguments, out.tolist(), strict=True):
        want = expected(name, order, args)
        if want is None:
            continue
        if mpmath.isnan(want) or abs(want) > largest * (1 - 2e-6):
            right = math.isnan(got) if mpmath.isnan(want) else abs(got) >= largest * (1 - 4e-6)
        else:
            size = max(abs(want), mpmath.mpf(textbook(name, order, args)))
            right = math.isfinite(got) and abs(got - want) <= mpmath.mpf("2e-6") * size + least
        if not right:
            bad.append((args, got, mpmath.nstr(want, 9)))
    return bad


@pytest.mark.parametrize(("name", "order"), CASES, ids=IDS)
def test_float32_keeps_two_millionths(plain, compiled, name, order):
    assert single_failures(plain, name, order) == []
    assert single_failures(compiled, name, order) == []


def test_python_floats_give_ieee_results_and_raise_nothing(plain):
    for name, order in CASES:
        if name == "div":
            continue  # elements of arrays are numpy's numbers, which divide quietly
        for args in points(name)[:: 1 if len(order) == 1 else 7]:
            getattr(plain, name_of(name, order))(*([a] for a in args), np.empty(1))


@pytest.mark.parametrize("order", [(), (3,)])
def test_unknown_kernels_are_refused(order):
    with pytest.raises(CodegenError):
        kernel("φ" if not order else "mish", order)


def test_helpers_come_after_what_they_need():
    found = kernel("gelu", (1,))
    assert isinstance(found, Kernel)
    assert found.helpers.index("exp_parts") < found.helpers.index(found.helpers[-1])


def test_importing_compiles_nothing(tmp_path):
    path = tmp_path / "module_with_kernels.py"
    path.write_text(module_text(), encoding="utf-8")
    script = """
        import module_with_kernels as m
        assert not m.f_tanh_0.signatures and not m.tanh.signatures
    """
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_DISABLE_JIT": "0"}
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, env=env)


def test_generated_text_is_clean_to_lint(tmp_path):
    path = tmp_path / "linted.py"
    path.write_text(module_text().rstrip() + "\n", "utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", str(path)]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if "No module named" in result.stderr:
        pytest.skip("ruff is not installed")
    assert result.returncode == 0, result.stdout
