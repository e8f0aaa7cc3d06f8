"""Every coefficient of the numerics comes from tools/polynomials.py, which is run here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpmath import mp

ROOT = Path(__file__).parents[1]
NUMERICS = ROOT / "symgrad" / "functions" / "numerics"
SOURCES = "\n".join(p.read_text(encoding="utf-8") for p in sorted(NUMERICS.glob("*.py")))
LINES = [line.strip() for line in SOURCES.splitlines()]


def _tool() -> Any:
    spec = importlib.util.spec_from_file_location("polynomials", ROOT / "tools" / "polynomials.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


TOOL = _tool()


@pytest.mark.parametrize("fit", TOOL.FITS, ids=lambda fit: fit.name)
def test_coefficients_stand_in_the_sources_as_they_are_computed(fit: Any) -> None:
    with mp.workdps(60):
        lines, worst = TOOL.horner(fit)
    # the polynomials of exp and log are small corrections to the result
    assert worst < np.finfo(np.float32 if fit.single else np.float64).eps * 4
    starts = [n for n, line in enumerate(LINES) if line == lines[0]]
    assert starts, lines[0]
    assert any(LINES[n : n + len(lines)] == lines for n in starts), lines


def test_every_long_polynomial_of_the_elementary_functions_is_one_of_them() -> None:
    with mp.workdps(60):
        known = {line for fit in TOOL.FITS for line in TOOL.horner(fit)[0]}
    for name in ("exponential", "gaussian", "single", "units", "hyperbolic"):
        text = (NUMERICS / f"{name}.py").read_text(encoding="utf-8")
        lines = {line.strip() for line in text.splitlines()}
        assert {x for x in lines if x.startswith(("p = p * ", "p = -", "p = 0", "p = 9"))} <= known


def test_constants_stand_in_the_sources_as_they_are_computed() -> None:
    with mp.workdps(60):
        for name, text in TOOL.constants().items():
            assert text in SOURCES, name
