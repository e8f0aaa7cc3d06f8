"""A macro is its body, inlined: what it is given may be an array, a size, an index or a mask."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

PICK = "def f(a, k):\n    return a[k] * a[k]\n"

# a macro | the line that calls it | what it is of x [4]
CALLS = {
    "an index": (PICK, "y[i] = f(x, i)", lambda x: x**2),
    "an index moved": (PICK, "y[i: n - 1] = f(x, i + 1)", lambda x: x[1:] ** 2),
    "an index scaled": (PICK, "y[i: n//2] = f(x, 2*i + 1)", lambda x: x[1::2] ** 2),
    "a bound index": (PICK, "y = sum[i](f(x, i))", lambda x: (x**2).sum()),
    "a literal": (PICK, "y = f(x, 0)", lambda x: x[0] ** 2),
    "a literal from the end": (PICK, "y = f(x, -1)", lambda x: x[-1] ** 2),
    "a size": (PICK, "y = f(x, n - 2)", lambda x: x[2] ** 2),
    "a bound of a slice": (
        "def f(a, k):\n    return a[:k] + a[:k]\n", "y = f(x, n - 1)", lambda x: 2 * x[:-1]
    ),
    "a mask": ("def f(m, a):\n    return where(m, a, -a)\n", "y = f(x > 0, x)", np.abs),
    "a number": ("def f(a, c):\n    return a * c + c\n", "y = f(x, 2 * n)", lambda x: 8 * x + 8),
    "indices in a guard": (
        "def f(i, j):\n    return where(i >= j, x_(i), 0)\ndef x_(i):\n    return i + 1\n",
        "y[i, j: n] = f(i, j) * x[i]",
        lambda x: np.tril(np.outer(np.arange(1, 5) * x, np.ones(4))),
    ),
    "names that hide arrays": (
        "def f(n_, y):\n    x = n_ + y\n    return x * x\n", "y = f(x, 1)", lambda x: (x + 1) ** 2
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_macro_is_its_body_whatever_it_is_given(name):
    macro, line, right = CALLS[name]
    jac = sg.compile(f"x: input[n]\n{macro}{line}", "all")
    x = np.random.default_rng(0).normal(size=(3, 4))
    expected = np.stack([right(row) for row in x])
    np.testing.assert_allclose(jac.forward(x), expected, rtol=1e-12)


@pytest.mark.parametrize("given", ["0.5", "x[0]", "x"])
def test_a_number_is_no_position_of_a_macro(given):
    with pytest.raises(sg.ShapeError, match="is not") as caught:
        sg.derive(f"x: input[n]\n{PICK}y = f(x, {given})", "all")
    assert caught.value.span.line == 3
