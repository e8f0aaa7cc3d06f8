"""The language reference is true: each of its layers compiles and is checked, or is refused."""

import re
from pathlib import Path

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
