"""Random layers: every form agrees with every other, with differences, and with PyTorch.

`pytest tests/test_fuzz.py --programs 5000 --seed 1` runs more of them; a layer that fails is made
small and printed with its seed.
"""

from __future__ import annotations

import os
import re

import pytest
from fuzz.laws import Fault, Refused, faults
from fuzz.shrink import shrink
from fuzz.strategies import drawn, sketch
from hypothesis import HealthCheck, find, given, note, settings
from hypothesis import strategies as st

import symgrad as sg
from symgrad.check import check as check_layer
from symgrad.errors import SymgradError
from symgrad.jacobians import Jacobians

PROGRAMS = 300
SLICE = 20
"""Programs a test: few enough that a failure is found again quickly."""
BY_HYPOTHESIS = settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
COMPILED = (3, 17, 29, 58, 71)
"""Seeds whose layers are small, and run through numba."""


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory):
    before = os.environ.get("SYMGRAD_CACHE")
    os.environ["SYMGRAD_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["SYMGRAD_CACHE"]
    else:
        os.environ["SYMGRAD_CACHE"] = before


def broken(text, wrt, seed, **options):
    """Return the first law a layer breaks; an exception is a law broken too."""
    try:
        found = faults(text, wrt, seed, **options)
    except Refused:
        return None
    except Exception as error:  # noqa: BLE001 (whatever is raised is what we look for)
        return Fault(f"no {type(error).__name__}", str(error))
    return found[0] if found else None


def explained(program, fault, **options):
    """Return the report of a failure: the law, and the smallest layer that breaks it."""

    def fails(text):
        again = broken(text, program.wrt, program.seed, **options)
        return again is not None and again.law == fault.law

    small = shrink(program.text, fails)
    last = broken(small, program.wrt, program.seed, **options) or fault
    return f"seed {program.seed}, wrt {program.wrt!r}: {last.law}: {last.detail}\n{small}"


def check(seed, **options):
    program = sketch(seed)
    fault = broken(program.text, program.wrt, program.seed, **options)
    if fault is not None:
        pytest.fail(explained(program, fault, **options))


def pytest_generate_tests(metafunc):
    if "first" in metafunc.fixturenames:
        count = metafunc.config.getoption("--programs", None) or PROGRAMS
        start = metafunc.config.getoption("--seed", None) or 0
        metafunc.parametrize("first", range(start, start + count, SLICE))


def test_all_forms_of_random_layers_agree(first):
    for seed in range(first, first + SLICE):
        options = {"differences": seed % 10 == 0, "explained": seed % 5 == 1}
        check(seed, **options, twice=seed % 20 == 4)


@BY_HYPOTHESIS
@given(st.randoms(use_true_random=False), st.integers(0, 1000))
def test_layers_that_hypothesis_draws_obey_the_laws(rng, seed):
    program = drawn(rng, seed)
    note(program.text)
    assert broken(program.text, program.wrt, seed, differences=seed % 10 == 0) is None


def test_hypothesis_makes_a_layer_that_fails_small():
    def has_tanh(program):
        return "tanh" in program.text

    source = st.randoms(use_true_random=False).map(drawn)
    smallest = find(source, has_tanh, settings=settings(BY_HYPOTHESIS, max_examples=2000))
    assert len(smallest.text.splitlines()) <= 6, smallest.text


@pytest.mark.slow
@pytest.mark.parametrize("seed", COMPILED)
def test_compiled_kernels_agree_too(seed):
    pytest.importorskip("numba")
    check(seed, compiled=True)


def test_nearly_all_random_layers_are_legal():
    refused = 0
    for seed in range(300):
        try:
            check_layer(sg.layer(sketch(seed).text))
        except SymgradError:
            refused += 1
    assert refused <= 6


def test_random_layers_have_ties_gathers_recurrences_and_tensor_outputs():
    found = dict.fromkeys(("tied", "gather", "recurrence", "tensor", "several"), 0)
    for seed in range(300):
        text = sketch(seed).text
        try:
            program = check_layer(sg.layer(text))
        except SymgradError:
            continue
        declared = r"^\w+: (?:param|input|const|index)"
        body = "\n".join(line for line in text.split("\n") if not re.match(declared, line))
        parameters = [a.name for a in program.arrays if a.role == "param"]
        ranks = [
            len([i for i in definition.indices if i != program.batch])
            for definition in map(program.definition, program.outputs)
        ]
        found["tied"] += any(len(re.findall(rf"\b{n}\b", body)) > 1 for n in parameters)
        found["gather"] += any(a.role == "index" for a in program.arrays)
        found["recurrence"] += re.search(r"\[t: .*\] =", body) is not None
        found["tensor"] += max(ranks) > 1
        found["several"] += len(ranks) > 1
    assert min(found.values()) >= 40, found


def test_an_injected_fault_is_found_and_made_small(monkeypatch):
    from symgrad.compiled import Compiled

    vjp = Compiled.vjp
    monkeypatch.setattr(
        Compiled, "vjp", lambda *a, **k: {n: 1.01 * g for n, g in vjp(*a, **k).items()}
    )
    text = "x: input[n]\nW: param[m, n]\nb: param[m]\nz = tanh(W @ x + b)\ny = softmax(z) * 2\n"
    assert broken(text, "all", 0).law == "vjp"

    def fails(small):
        fault = broken(small, "all", 0)
        return fault is not None and fault.law == "vjp"

    assert len(shrink(text, fails)) < len(text) / 2


PRODUCTS = {
    "jvp": "Jacobians.jvp",
    "vjp": "Jacobians.vjp",
    "per_sample_vjp": "products per_sample_vjp",
    "gram": "products gram",
    "norm": "products norm",
    "per_sample_dot": "products per_sample_dot",
    "clipped_vjp": "products clipped_vjp",
    "ggn": "products ggn",
    "ggn_diagonal": "products ggn_diagonal",
    "ggn_matvec": "products ggn_matvec",
    "sqrt_ggn": "products sqrt_ggn",
    "functional_variance": "products functional_variance",
    "solve": "products solve",
}


@pytest.mark.parametrize("form", PRODUCTS)
def test_an_injected_fault_in_any_product_is_found(monkeypatch, form):
    right = getattr(Jacobians, form)

    def wrong(*args, **kwargs):
        found = right(*args, **kwargs)
        if isinstance(found, dict):
            return {n: 1.01 * g for n, g in found.items()}
        return 1.01 * found

    monkeypatch.setattr(Jacobians, form, wrong)
    text = "x: input[n]\nt: index(m)\nW: param[m, n]\nz = tanh(W @ x)\ny = outer(z, W[t])\n"
    assert broken(text, "params", 0).law.startswith(PRODUCTS[form])
