"""Show on one screen what symgrad does, with nothing but a dense layer.

-> demo -> str
Everything shown is made while it runs: the formula, the kernel, the proof and the shapes.
"""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

import symgrad

LAYER = '''"""One dense layer."""
x: input[n]
W: param[m, n]
b: param[m]

z = W @ x + b
y = sigmoid(z)
'''

BATCH, INPUTS, OUTPUTS = 5, 6, 3


def demo() -> str:
    """Derive, compile, check and run a dense layer; return the page to print."""
    layer = symgrad.layer(LAYER, name="dense")
    derivation = symgrad.derive(layer)
    compiled = symgrad.compile(layer)
    parts = (
        ("The layer", LAYER),
        ("The formula", derivation.text()),
        ("A part of the generated module", kernel(compiled.source, "W")),
        ("The proof", str(compiled.report)),
        ("The shapes", shapes(compiled)),
    )
    return "\n\n".join(f"{title}\n{'-' * len(title)}\n{text.strip()}" for title, text in parts)


def kernel(source: str, parameter: str) -> str:
    """Return one kernel of a generated module: the first compiled function about `parameter`."""
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    compiled = [node for node in functions if node.decorator_list]
    about = [node for node in compiled if parameter in node.name]
    chosen = (about or compiled or functions)[0]
    first = min([chosen.lineno, *(decorator.lineno for decorator in chosen.decorator_list)])
    return "\n".join(source.splitlines()[first - 1 : chosen.end_lineno])


def shapes(compiled: Any) -> str:
    """Return the shapes of a Jacobian of five samples, and what is zero in it."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((BATCH, INPUTS))
    W = rng.standard_normal((OUTPUTS, INPUTS))
    b = rng.standard_normal(OUTPUTS)
    J = compiled.jacobian(x, W, b)
    lines = [f"B = {BATCH} samples, n = {INPUTS} inputs, m = {OUTPUTS} outputs"]
    for name in ("W", "b"):
        lines.append(f"dy/d{name}  {J[name].shape}  =  {J[name].formula}")
    return "\n".join(lines)
