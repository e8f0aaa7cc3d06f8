"""The generated module: standalone, deterministic, readable, and right for every kind of array."""

import ast
import os
import re
import subprocess
import sys
import textwrap
import venv
import warnings
from pathlib import Path

import jinja2
import numpy as np
import pytest
from jinja2 import meta
from layers import TEXTS, arrays_for, compiled, sample

import symgrad as sg
from symgrad import build, locate

EXACT = {"rtol": 1e-12, "atol": 1e-13}
RUN = textwrap.dedent(
    """
    import importlib.util, json, sys, warnings
    import numpy as np
    for name in sys.argv[3:]:
        sys.modules[name] = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        spec = importlib.util.spec_from_file_location("generated", sys.argv[1])
        module = importlib.util.module_from_spec(spec)
        sys.modules["generated"] = module
        spec.loader.exec_module(module)
        arrays = np.load(sys.argv[2])
        x, W, b, u = (arrays[n] for n in ("x", "W", "b", "u"))
        y, pull = module.pullback(x, W, b)
        found = [module.forward(x, W, b), y, module.jac_W(x, W, b), module.jac_b_compact(x, W, b),
                 *module.jac_W_factors(x, W, b).values(), *module.jacobian(x, W, b).values(),
                 *module.vjp(x, W, b, u).values(), *module.per_sample_vjp(x, W, b, u).values(),
                 module.jvp(x, W, b, {"W": W}), *pull(u).values()]
    print(json.dumps({
        "sums": [float(np.sum(f * np.cos(np.arange(f.size).reshape(f.shape)))) for f in found],
        "warnings": [str(w.message) for w in caught],
        "foreign": sorted({"symgrad", "sympy", "jinja2"} & sys.modules.keys()),
    }))
    """
)


@pytest.fixture(scope="module")
def dense(tmp_path_factory):
    """A generated file, arrays for it, and what it should print."""
    folder = tmp_path_factory.mktemp("dense")
    jac = sg.compile(TEXTS["dense"], name="dense", check=False, path=folder / "dense_jac.py")
    arrays = arrays_for(jac)
    np.savez(folder / "arrays.npz", **arrays, u=np.random.default_rng(9).normal(size=(3, 3)))
    return folder


def run(folder, python=sys.executable, block=(), **environment):
    """Run the generated file in a process of its own; return what it prints."""
    import json

    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "NUMBA_DISABLE_JIT")}
    command = [python, "-c", RUN, "dense_jac.py", "arrays.npz", *block]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_file_runs_alone_with_and_without_numba(dense):
    compiled_, absent, off = (
        run(dense),
        run(dense, block=["numba"]),
        run(dense, NUMBA_DISABLE_JIT="1"),
    )
    assert compiled_["warnings"] == []
    for plain in (absent, off):
        assert len(plain["warnings"]) == 1
        np.testing.assert_allclose(plain["sums"], compiled_["sums"], rtol=1e-12)
    assert compiled_["foreign"] == absent["foreign"] == off["foreign"] == []


@pytest.mark.slow
def test_the_file_runs_where_only_numpy_and_numba_are_installed(dense, tmp_path):
    venv.create(tmp_path / "alone", with_pip=True)
    python = str(tmp_path / "alone" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", "numpy", "numba"], check=True)
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format=freeze"], check=True, capture_output=True, text=True
    ).stdout
    installed = {line.split("==")[0] for line in listed.split()}
    assert installed <= {"numpy", "numba", "llvmlite", "pip", "setuptools"}
    alone = run(dense, python=python)
    assert alone["warnings"] == []
    np.testing.assert_allclose(alone["sums"], run(dense)["sums"], rtol=1e-12)


def test_nothing_is_compiled_before_a_form_is_called_and_nothing_twice(dense, tmp_path):
    def files():
        return {f.name for f in cache.rglob("*.nb[ic]")}

    cache = tmp_path / "numba"
    load = textwrap.dedent(
        """
        import importlib.util, sys
        import numpy as np
        spec = importlib.util.spec_from_file_location("dense_jac", "dense_jac.py")
        m = importlib.util.module_from_spec(spec); sys.modules["dense_jac"] = m
        spec.loader.exec_module(m)
        a = [v for v in np.load("arrays.npz").values()]
        def compiled():
            return sum(len(v.stats.cache_misses) for v in vars(m).values() if hasattr(v, "stats"))
        """
    )

    def script(lines):
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
        done = subprocess.run(
            [sys.executable, "-c", load + lines], cwd=dense, env=environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    assert script("print(compiled())") == 0
    assert files() == set()
    first = script("m.forward(*a[:3]); print(compiled())")
    after_forward = files()
    assert first >= 1
    assert script("m.forward(*a[:3]); print(compiled())") == 0
    assert files() == after_forward
    assert script("m.vjp(*a); print(compiled())") >= 1
    assert files() > after_forward
    after = files()
    assert script("m.vjp(*a); m.forward(*a[:3]); print(compiled())") == 0
    assert files() == after


EMIT = """
import sys
import symgrad
sys.stdout.write(symgrad.compile(sys.argv[1], "all", check=False, name="L").source)
"""


@pytest.mark.parametrize("name", ["mlp", "two"])
def test_bytes_are_the_same_in_every_process(name, tmp_path):
    def source(seed, cwd):
        root = str(Path(sg.__file__).parent.parent)
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root, "PYTHONUTF8": "1"}
        command = [sys.executable, "-c", EMIT, TEXTS[name]]
        return subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, check=True
        ).stdout

    texts = {source(seed, cwd) for seed, cwd in (("0", "/"), ("1", tmp_path), ("random", tmp_path))}
    assert len(texts) == 1
    assert texts == {compiled(TEXTS[name], name="L").source.encode()}


def test_text_does_not_depend_on_sizes_or_place(tmp_path):
    text = "x: input[{n}]\nW: param[{m}, {n}]\ny = tanh(W @ x)"
    small = compiled(text.format(n=40, m=50)).source
    large = compiled(text.format(n=4000, m=5000)).source
    assert abs(len(large) - len(small)) < 400
    assert len(small.splitlines()) == len(large.splitlines())
    jac = compiled(TEXTS["dense"], name="dense", path=tmp_path / "a.py")
    for word in (str(tmp_path), str(Path.home()), os.uname().nodename, "20", "/"):
        whole = rf"\b{word}\b" if word.isalnum() else re.escape(word)
        hits = [x for x in jac.source.splitlines() if re.search(whole, x)]
        assert word in ("20", "/") or not hits
    assert (
        Path(tmp_path / "a.py").read_text("utf-8") == compiled(TEXTS["dense"], name="dense").source
    )


@pytest.mark.parametrize("name", list(TEXTS))
def test_generated_text_is_clean(name, tmp_path):
    ruff = pytest.importorskip("ruff")
    source = compiled(TEXTS[name], name=name).source
    tree = ast.parse(source)
    modules = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    modules |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    foreign = {"numpy", "numba", "llvmlite"}  # llvmlite comes with numba
    assert {m.split(".")[0] for m in modules} - foreign <= sys.stdlib_module_names
    assert "\n\n\n\n" not in source
    assert not [x for x in source.splitlines() if x != x.rstrip()]
    assert not [x for x in source.splitlines() if len(x) > 100 and '": ' not in x]
    names = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
    assert len(names) == len(set(names))
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    public = [n for n in names if not n.startswith("_") and f"def {n}(" in source.split("# ---")[1]]
    drivers = ("_sweep", "_dense_", "_direct_", "_few_", "_ahead_", "_onward")  # of the library
    beside = {n for n in names if n.startswith(drivers)}
    assert not set(names) - used - set(public) - beside
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            assert ast.get_docstring(node), node.name
    file = tmp_path / "generated.py"
    file.write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--quiet", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ruff
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["module.py.jinja", "runtime.py.jinja"])
def test_the_first_line_of_a_template_names_its_variables(name, monkeypatch):
    text = (locate.locate() / name).read_text("utf-8")
    first = text.partition("\n")[0]
    assert first.startswith("{# ")
    stated = first.removeprefix("{#").removesuffix("#}").split()
    assert len(stated) == len(set(stated))
    assert set(stated) == meta.find_undeclared_variables(jinja2.Environment().parse(text))
    given = {}
    own = jinja2.Template.render

    def render(self, **variables):
        given[self.name] = set(variables)
        return own(self, **variables)

    monkeypatch.setattr(jinja2.Template, "render", render)
    compiled(TEXTS["dense"])
    assert given[name] == set(stated)


def residual(blocks):
    lines = ["x: input[n]"]
    lines += [f"W{k}: param[n, n]\nb{k}: param[n]" for k in range(blocks)]
    lines += ["h0 = x"]
    lines += [f"h{k + 1} = h{k} + tanh(W{k} @ h{k} + b{k})" for k in range(blocks)]
    return "\n".join(lines)


def test_code_is_linear_in_depth_and_equal_kernels_are_one():
    counts = {}
    for blocks in (4, 8, 16):
        tree = ast.parse(compiled(residual(blocks), "params").source)
        kernels = [n for n in tree.body if isinstance(n, ast.FunctionDef)
                   and {ast.unparse(d) for d in n.decorator_list} & {"loops", "sums"}]  # fmt: skip
        lines = sum(len(ast.unparse(n).splitlines()) for n in tree.body)
        counts[blocks] = (lines, len(kernels))
    growth = [counts[8][0] - counts[4][0], counts[16][0] - counts[8][0]]
    assert abs(growth[1] - 2 * growth[0]) <= 0.02 * growth[1]
    assert counts[16][1] <= 2 * counts[8][1]


def same(a, b):
    np.testing.assert_allclose(a, b, **EXACT)


def tuples(value):
    return value if isinstance(value, tuple) else (value,)


NASTY = [
    {"x": "t", "W": "v", "b": "u"},
    {"x": "out", "W": "arrays", "b": "sizes"},
    {"x": "dtype", "W": "single", "b": "np"},
    {"x": "math", "W": "tangents", "b": "n_m"},
    {"x": "forward", "W": "jac_W", "b": "vjp"},
    {"x": "found", "W": "outputs", "b": "self"},
    {"x": "cls", "W": "λ", "b": "name"},
    {"x": "b", "W": "W", "b": "W_compact"},
    {"x": "x", "W": "W", "b": "W_factors"},
    {"x": "tuple", "W": "range", "b": "copied"},
    {"x": "n_B", "W": "expected", "b": "vectors"},
    {
        "x": "a_rather_long_name_for_what_is_only_one_input_of_the_layer" * 2,
        "W": "total",
        "b": "until",
    },
    {"x": "l", "W": "O", "b": "I"},
    {"x": "z_bi", "W": "G_z", "b": "d_z"},
    {"x": "tanh_slope", "W": "u_", "b": "u"},
    {"x": "out_", "W": "out", "b": "J_W"},
    {"x": "_door", "W": "_sweep", "b": "_outs"},
]


@pytest.mark.parametrize("names", NASTY, ids=lambda names: "-".join(n[:9] for n in names.values()))
@pytest.mark.parametrize(
    "statements",
    [
        "z1 = {W} @ {x} + {b}\ny = tanh(z1)",
        "q[i] = sum[k]({W}[i, k] * {x}[k]) * {b}[i]\nw = tanh({b})\nreturn q, w",
    ],
)
def test_every_name_works_for_arrays(names, statements):
    template = "{x}: input[n]\n{W}: param[m, n]\n{b}: param[m]\n" + statements
    plain = compiled(template.format(x="x", W="W", b="b"))
    odd = compiled(template.format(**names))
    ours = arrays_for(plain)
    theirs = {names[n]: a for n, a in ours.items()}
    y = plain.forward(ours)
    many = isinstance(y, tuple)
    u = tuple(np.cos(np.arange(v.size).reshape(v.shape)) for v in (y if many else (y,)))
    u = u if many else u[0]
    for a, b in zip(tuples(odd.forward(**theirs)), tuples(y), strict=True):
        same(a, b)
    for call in (lambda j, a: j.jacobian(**a), lambda j, a: j.module.jacobian(**a)):
        for block, other in zip(
            call(odd, theirs).values(), call(plain, ours).values(), strict=True
        ):
            same(np.asarray(block), np.asarray(other))
    for form in ("vjp", "per_sample_vjp"):
        pairs = zip(getattr(odd, form)(*theirs.values(), u).values(),
                    getattr(plain, form)(*ours.values(), u).values(), strict=True)  # fmt: skip
        for a, b in pairs:
            same(a, b)
        for a, b in zip(getattr(odd.module, form)(*theirs.values(), u).values(),
                        getattr(plain, form)(ours, u).values(), strict=True):  # fmt: skip
            same(a, b)
    value, pull = odd.module.pullback(**theirs)
    for a, b in zip(pull(u).values(), plain.vjp(ours, u).values(), strict=True):
        same(a, b)
    for a, b in zip(tuples(value), tuples(y), strict=True):
        same(a, b)
    for name in ours:
        for a, b in zip(tuples(odd.jvp(theirs, {names[name]: ours[name]})),
                        tuples(plain.jvp(ours, {name: ours[name]})), strict=True):  # fmt: skip
            same(a, b)
        for a, b in zip(tuples(getattr(odd, f"jac_{names[name]}")(**theirs)),
                        tuples(getattr(plain, f"jac_{name}")(**ours)), strict=True):  # fmt: skip
            same(a, b)
    word = "out"
    while word in theirs:
        word += "_"
    shape = [v.shape for v in tuples(plain.jac_W(ours))]
    out = tuple(np.empty(s) for s in shape)
    out = out if many else out[0]
    for holder in (odd, odd.module):
        got = getattr(holder, f"jac_{names['W']}")(**theirs, **{word: out})
        assert all(a is b for a, b in zip(tuples(got), tuples(out), strict=True))


def test_forms_move_aside_for_arrays_of_their_name():
    jac = compiled("x: input[n]\nW: param[m, n]\nW_compact: param[m]\ny = tanh(W @ x + W_compact)")
    arrays = arrays_for(jac)
    assert jac.jac_W_compact(**arrays).shape == (3, 3, 3)
    assert jac.jac_W_compact_(**arrays).shape == (3, 3, 4)
    assert jac.jac_W_compact_compact(**arrays).shape == (3, 3)
    assert set(jac.module.jac_W_compact_factors(**arrays)) == {"J"}
    with pytest.raises(AttributeError):
        jac.select("W").jac_W_compact  # noqa: B018


def test_outputs_and_parameters_whose_names_join_alike_are_told_apart():
    text = (
        "x: input[n]\nb: param[n]\na_b: param[n]\ny_a = b * x\ny = sin(a_b * x * b)\nreturn y_a, y"
    )
    jac = compiled(text)
    arrays = arrays_for(jac)
    J = jac.jacobian(arrays)
    x, b, a_b = arrays.values()
    expected = np.cos(a_b * x * b) * x * b
    np.testing.assert_allclose(J["y", "a_b"].compact(), expected, **EXACT)
    np.testing.assert_allclose(J["y_a", "b"].compact(), x, **EXACT)


def test_a_dim_may_be_called_like_the_batch_axis():
    jac = compiled("x: input[B]\nW: param[B_, B]\nb: param[q]\ny = sum(W @ x) * tanh(b)")
    rng = np.random.default_rng(0)
    x, W, b = rng.normal(size=(2, 3)), rng.normal(size=(4, 3)), rng.normal(size=5)
    J = jac.jacobian(x, W, b)
    expected = np.einsum("s,ij->sij", (x @ W.T).sum(1), np.diag(1 - np.tanh(b) ** 2))
    np.testing.assert_allclose(J["b"].dense(), expected, **EXACT)
    assert jac.vjp(x, W, b, np.ones((2, 5)))["W"].shape == (4, 3)


@pytest.mark.parametrize("index", ["np", "math", "range", "b", "tanh_slope", "n_m", "z", "len"])
def test_every_name_works_for_an_index(index):
    text = (
        f"x: input[n]\nW: param[m, n]\nc: param[m]\n"
        f"z[{index}] = c[{index}] * sum[k](W[{index}, k] * tanh(x[k]))"
    )
    jac = compiled(text)
    x, W, c = arrays_for(jac).values()
    np.testing.assert_allclose(jac.forward(x, W, c), np.tanh(x) @ W.T * c, **EXACT)
    compact = jac.jacobian(x, W, c)["W"].compact()
    np.testing.assert_allclose(compact, np.tanh(x)[:, None, :] * c[:, None], **EXACT)


def _frozen(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def _unaligned(array):
    raw = np.zeros(array.nbytes + 1, np.uint8)[1:]
    view = raw.view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


LAYOUTS = {
    "read-only": _frozen,
    "fortran": np.asfortranarray,
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "backwards": lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1],
    "byte-swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "list": lambda a: a.tolist(),
    "unaligned": _unaligned,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("plain", [True, False])
def test_arrays_may_lie_in_memory_as_they_like(layout, plain):
    one = sample("dense", plain=plain)
    odd = {n: LAYOUTS[layout](a) for n, a in one.arrays.items()}
    u = np.cos(np.arange(9.0)).reshape(3, 3)
    before = {n: np.array(a) for n, a in odd.items()}
    np.testing.assert_allclose(one.jac.forward(**odd), one.jac.forward(**one.arrays), **EXACT)
    J, K = one.jac.jacobian(**odd), one.jac.jacobian(**one.arrays)
    for name in J:
        np.testing.assert_allclose(J[name].dense(), K[name].dense(), **EXACT)
    for name, g in one.jac.vjp(odd, LAYOUTS[layout](u)).items():
        np.testing.assert_allclose(g, K[name].vjp(u), **EXACT)
    for name, a in before.items():
        np.testing.assert_array_equal(a, odd[name])


def test_repeated_inputs_take_part_like_any_other():
    one = sample("dense")
    x = np.broadcast_to(one.arrays["x"][0], (5, 4))
    full = {**one.arrays, "x": x.copy()}
    got = one.jac.jacobian({**one.arrays, "x": x})["W"].dense()
    np.testing.assert_array_equal(got, one.jac.jacobian(full)["W"].dense())


def test_integers_and_bools_become_float64_and_promotion_is_numpys():
    one = sample("dense")
    x, W, b = one.arrays.values()
    f32 = np.float32
    for arrays, expected in [
        ((x.astype(int), W.astype(int), b > 0), np.float64),
        ((x.astype(f32), W.astype(f32), b.astype(f32)), np.float32),
        ((x.astype(f32), W, b.astype(f32)), np.float64),
        ((x.astype(f32), W.astype(int), b.astype(f32)), np.float64),
        ((x.astype(">f4"), W.astype(">f4"), b.astype(">f4")), np.float32),
    ]:
        y = one.jac.forward(*arrays)
        assert y.dtype == expected
        assert y.dtype.isnative
        assert one.jac.module.jacobian(*arrays)["W"].dtype == expected
    scalars = sample("scalars")
    assert scalars.jac.forward(np.ones(3, f32), 2.0, 3).dtype == f32
    assert scalars.jac.forward(np.ones(3, f32), np.float64(2.0), 3).dtype == np.float64


@pytest.mark.parametrize(
    ("bad", "kind", "words"),
    [
        (lambda a: a.astype(np.float16), sg.ArgumentError, r"W has dtype float16.*astype"),
        (lambda a: a.astype(object), sg.ArgumentError, "W has dtype object"),
        (lambda a: a.astype(int).astype("M8[s]"), sg.ArgumentError, "W has dtype datetime64"),
        (lambda a: a.astype(str), sg.ArgumentError, "W has dtype <U"),
        (lambda a: a[0], sg.ShapeError, r"W has shape \(4,\), expected \(m, n\)"),
        (
            lambda a: a[:, :2],
            sg.ShapeError,
            "axis 1 of W has size 2, expected n = 4, from axis 1 of x",
        ),
        (lambda a: a[None], sg.ShapeError, r"W has shape \(1, 3, 4\)"),
    ],
)
def test_wrong_arrays_are_named_before_anything_is_computed(bad, kind, words):
    one = sample("dense")
    arrays = {**one.arrays, "W": bad(one.arrays["W"])}
    for form in (one.jac.forward, one.jac.jacobian, one.jac.jac_W, one.jac.pullback,
                 one.jac.module.forward, one.jac.module.jacobian):  # fmt: skip
        with pytest.raises(kind, match="dense: " + words):
            form(**arrays)
    with pytest.raises(kind, match=words):
        one.jac.vjp(arrays, np.ones((3, 3)))


def test_out_is_filled_in_place_whatever_its_layout():
    one = sample("dense")
    expected = one.jac.jac_W(**one.arrays)
    outs = {
        "plain": np.full(expected.shape, np.nan),
        "fortran": np.full(expected.shape, np.nan, order="F"),
        "strided": np.full((*expected.shape[:-1], 8), np.nan)[..., ::2],
    }
    for out in outs.values():
        assert one.jac.jac_W(**one.arrays, out=out) is out
        np.testing.assert_array_equal(out, expected)
        assert one.jac.jacobian(**one.arrays)["W"].dense(out=out) is out
    compact = np.full((3, 3, 4), np.nan)
    assert one.jac.jac_W_compact(**one.arrays, out=compact) is compact
    assert np.isfinite(compact).all()
    single = {**one.arrays, "x": one.arrays["x"][0]}
    out = np.full(expected.shape[1:], np.nan)
    assert one.jac.jac_W(**single, out=out) is out
    np.testing.assert_allclose(out, expected[0], **EXACT)


@pytest.mark.parametrize(
    ("out", "kind", "words"),
    [
        (
            np.empty((3, 3, 3, 5)),
            sg.ShapeError,
            r"out has shape \(3, 3, 3, 5\), expected \(3, 3, 3, 4\)",
        ),
        (np.empty((3, 3, 3, 4), np.float32), sg.ArgumentError, "out has dtype float32"),
        (_frozen(np.empty((3, 3, 3, 4))), sg.ArgumentError, "out is read-only"),
        ([1, 2], sg.ArgumentError, "out must be a numpy array, got list"),
    ],
)
def test_out_that_does_not_fit_is_refused(out, kind, words):
    one = sample("dense")
    for form in (one.jac.jac_W, one.jac.module.jac_W):
        with pytest.raises(kind, match=words):
            form(**one.arrays, out=out)
    with pytest.raises(kind, match=words):
        one.jac.jacobian(**one.arrays)["W"].dense(out=out)


def test_out_may_overlap_an_input():
    text = "x: input[n]\nA: param[n, n]\ny[i] = sum[j](A[i, j] * x[i] * x[j])"
    one = sample("dense", text=text, wrt=["x"])
    A = one.arrays["A"]
    single = {**one.arrays, "x": one.arrays["x"][0]}
    expected = one.jac.jac_x(**single)
    assert one.jac.jac_x(**single, out=A) is A
    np.testing.assert_array_equal(A, expected)


def test_consts_with_values_are_keyword_only():
    one = sample("consts", wrt="params")
    x, w, r = one.positional
    np.testing.assert_allclose(one.jac.forward(x, w, r), 0.5 * w * x + r * w**2, **EXACT)
    for form in (one.jac.forward, one.jac.module.forward):
        np.testing.assert_allclose(form(x, w, r, alpha=2), 2 * w * x + r * w**2, **EXACT)
        with pytest.raises(TypeError):
            form(x, w, r, 2.0)
    u = np.ones((3, 4))
    for form in (one.jac.vjp, one.jac.module.vjp):
        expected = (2 * x + 2 * r * w).sum(0)
        np.testing.assert_allclose(form(x, w, r, u, alpha=2.0)["w"], expected, **EXACT)
    for form in (one.jac.jvp, one.jac.module.jvp):
        np.testing.assert_allclose(
            form(x, w, r, {"w": np.ones(4)}, alpha=2.0), 2 * x + 2 * r * w, **EXACT
        )
    assert one.jac.forward(x.astype("f4"), w.astype("f4"), r.astype("f4")).dtype == np.float32
    assert one.jac.pullback(x, w, r, alpha=3)[1](u)["w"].shape == (4,)
    assert one.jac.jac_w(x, w, r, alpha=3).shape == (3, 4, 4)


def test_indices_are_checked_and_gather():
    one = sample("embedding", wrt="params")
    t, E, W = one.positional
    for cast in (np.int8, np.uint64, ">i4"):
        np.testing.assert_allclose(one.jac.forward(t.astype(cast), E, W), one.jac.forward(t, E, W))
    bad = t.copy()
    bad[2, 1] = 6
    with pytest.raises(sg.ShapeError, match=r"t\[2, 1\] is 6 \(sample 2\), expected 0 to 5"):
        one.jac.forward(bad, E, W)
    bad[2, 1] = -1
    with pytest.raises(sg.ShapeError, match=r"t\[2, 1\] is -1"):
        one.jac.jacobian(bad, E, W)
    with pytest.raises(sg.ArgumentError, match="t has dtype float64, expected integers"):
        one.jac.forward(t.astype(float), E, W)


def test_what_depends_on_parameters_only_is_computed_once_per_call(monkeypatch):
    one = sample("shared", batch=7)
    tree = ast.parse(one.jac.source)
    for driver in ("_forward", "_record", "_sweep", "_tangent"):
        function = next(n for n in tree.body if getattr(n, "name", "") == driver)
        made = [n for n in ast.walk(function) if isinstance(n, ast.Assign)
                and getattr(n.targets[0], "id", "") == "C"]  # fmt: skip
        assert len(made) == 1
        assert "n_B" not in ast.unparse(made[0])
    back = next(n for n in tree.body if getattr(n, "name", "") == "_back")
    made = {n.targets[0].id: ast.unparse(n.value) for n in ast.walk(back)
            if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)}  # fmt: skip
    assert "n_B" not in made["d_C"]
    counts = []
    own = np.matmul
    monkeypatch.setattr(
        np, "matmul", lambda a, b, **k: (counts.append(np.shape(a)), own(a, b, **k))[1]
    )
    one.jac.forward(**one.arrays)
    assert counts.count((3, 3)) == 1
    assert all(7 not in shape for shape in counts)


def test_the_module_holds_the_constants_of_the_contract():
    module = sample("layernorm", wrt=["g", "b"]).jac.module
    assert module.WRT == ("g", "b")
    assert module.SHAPES == {"x": ("B", "n"), "g": ("n",), "b": ("n",), "eps": ()}
    assert set(module.STRUCTURE) == set(module.FACTORS) == {"g", "b"}
    assert sg.__version__ == module.SYMGRAD_VERSION
    assert sg.layer(module.LAYER) == sg.layer(TEXTS["layernorm"])
    assert isinstance(module.VALIDATION, dict)
    assert "∂" in module.__doc__
    assert module.per_sample_vjp is module.vjp_per_sample


def test_errors_of_a_module_are_symgrads_own_where_it_is_loaded():
    one = sample("dense")
    assert one.jac.module.ShapeError is sg.ShapeError
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert build.load(one.jac.path, plain=True) is one.jac.module


def test_mixed_batching_is_refused():
    jac = compiled("x: input[n]\nz: input[n]\nw: param[n]\ny = w * x * z")
    with pytest.raises(
        sg.ShapeError, match=r"x \(2, 3\), z \(3,\) must have a batch axis, or none"
    ):
        jac.forward(np.ones((2, 3)), np.ones(3), np.ones(3))
    with pytest.raises(sg.ShapeError, match="axis 0 of z has 5 samples, axis 0 of x has 2"):
        jac.forward(np.ones((2, 3)), np.ones((5, 3)), np.ones(3))


def test_writing_into_the_output_does_not_change_the_pullback():
    one = sample("dense", text="x: input[n]\nw: param[n]\ny = exp(w * x)")
    value, pull = one.jac.pullback(**one.arrays)
    u = np.ones((3, 4))
    expected = one.jac.vjp(one.arrays, u)
    value[...] = np.nan
    for name, g in pull(u).items():
        np.testing.assert_allclose(g, expected[name], **EXACT)


def test_samples_shared_out_to_threads_give_the_same(monkeypatch):
    one = sample("mlp", batch=7, plain=False)
    before = [b.dense() for b in one.jac.jacobian(**one.arrays).values()]
    monkeypatch.setattr(one.jac.module, "_SHARE_FROM", 0)
    monkeypatch.setenv("SYMGRAD_NUM_THREADS", "3")
    for block, expected in zip(one.jac.jacobian(**one.arrays).values(), before, strict=True):
        np.testing.assert_allclose(block.dense(), expected, **EXACT)


def test_dims_are_solved_from_shapes_and_checked():
    jac = compiled(
        "x: input[2*n + 1]\nw: param[n, m]\nq: param[n*m]\ny = w.T @ x[1:n + 1] + sum(q)"
    )
    x, w, q = np.ones((2, 7)), np.ones((3, 4)), np.ones(12)
    assert jac.forward(x, w, q).shape == (2, 4)
    assert jac.jacobian(x, w, q)["x"].shape == (2, 4, 7)
    with pytest.raises(sg.ShapeError, match="axis 1 of x has size 6, expected 2\\*n \\+ 1 = 7"):
        jac.forward(x[:, :6], w, q)
    with pytest.raises(sg.ShapeError, match="axis 0 of q"):
        jac.forward(x, w, q[:11])


def test_samples_that_add_to_one_array_are_not_shared_out_to_threads():
    text = "x: input[n]\nw: param[n]\ny = dot(w, x) + sum(exp(w * x))"
    source = sg.compile(text, check=False).source
    back = source[source.index("def _back(") : source.index("def _back_per_sample")]
    assert "_fill_d_w" in back
    assert "_share(" not in back
