"""The reference pages are true: layers compile or are refused, code runs, tables are compared."""

import re
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg

DOCS = Path(__file__).parents[1] / "docs"
FENCE = re.compile(r"```sg\n(.*?)```", re.DOTALL)
BLOCKS = [
    (page.name, number, text)
    for page in sorted(DOCS.glob("*.md"))
    for number, text in enumerate(FENCE.findall(page.read_text("utf-8")))
]


def test_there_is_an_example_of_every_construct():
    assert len(BLOCKS) >= 30


@pytest.mark.parametrize(("page", "number", "text"), BLOCKS)
def test_every_example_does_what_the_reference_says(page, number, text):
    refused = re.match(r"# error: (.*)\n", text)
    bound = re.match(r"# functions: (\w)=(\w+)\n", text)
    body = text.split("\n", 1)[1] if bound or refused else text
    body = body if ":" in body or "\n" in body.strip() else body.strip()
    if refused:
        with pytest.raises(sg.SymgradError, match=refused[1]):
            sg.compile(body, wrt="all")
        return
    functions = {bound[1]: bound[2]} if bound else {}
    jac = sg.compile(body, wrt="all", functions=functions)
    assert jac.report.ok
    assert sg.derive(body, wrt="all").text()


LAYOUT = (DOCS / "layout.md").read_text("utf-8")
SIZES = {"B": 5, "m": 3, "n": 6, "p": 3 * 6 + 3 + 6}
ROWS = re.findall(r"^\| `(.*)` \| (.*) \| (.*) \|$", LAYOUT, re.MULTILINE)


def test_the_code_of_the_page_on_layout_runs():
    pytest.importorskip("scipy")
    names = {}
    blocks = re.findall(r"```python\n(.*?)```", LAYOUT, re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(compile(block, "layout.md", "exec"), names)


@pytest.fixture(scope="module")
def both():
    """The layer of the table with samples first and last, and what its rows name."""
    rng = np.random.default_rng(0)
    arrays = {"x": rng.normal(size=(5, 6)), "W": rng.normal(size=(3, 6)), "b": rng.normal(size=3)}
    u, half = rng.normal(size=(5, 3)), rng.normal(size=(5, 3, 3))
    H = half + half.swapaxes(1, 2)
    H = np.einsum("bij,bkj->bik", H, H)
    found = []
    for axis in (0, -1):
        x = np.moveaxis(arrays["x"], 0, axis)
        jac = sg.compile("tanh(W x + b)", wrt="all", batch_axis=axis)
        given = {**arrays, "x": x}
        turned = [np.moveaxis(a, 0, axis) for a in (u, H)]
        found.append({"J": jac.jacobian(**given), "t": given, "u": turned[0], "H": turned[1]})
    return found


def test_the_table_of_layouts_is_complete():
    assert len(ROWS) >= 25


@pytest.mark.parametrize(("expression", "first", "last"), ROWS)
def test_every_row_of_the_table_of_layouts_is_true(both, expression, first, last):
    values = [np.asarray(eval(expression, dict(names))) for names in both]
    for value, stated in zip(values, (first, last), strict=True):
        if stated == "p of all samples":
            assert value.shape == (3 * 6 + 3 + 5 * 6,)
        else:
            assert value.shape == tuple(SIZES[n] for n in stated.split(", "))
    samples = [[n for n, d in enumerate(s.split(", ")) if d == "B"] for s in (first, last)]
    moved = np.moveaxis(values[0], *samples) if samples[0] else values[0]
    np.testing.assert_allclose(values[1], moved, rtol=1e-9, atol=1e-11)
