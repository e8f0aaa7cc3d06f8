"""How long a fresh process takes to its first Jacobian of a dense layer, beside jax.

-> Rows, Verdicts
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from benchmarks.peers import Row, Verdict
from benchmarks.workload import OURS

OUR_PROGRAM = """
import numpy as np
import symgrad as sg
jac = sg.compile("tanh(W @ x + b)", inputs={"x": "n"}, params={"W": "m n", "b": "m"})
J = jac.jac_W(np.ones((256, 64)), np.ones((32, 64)), np.ones(32))
assert J.shape == (256, 32, 32, 64)
"""

THEIR_PROGRAM = """
import jax
import numpy as np
jax.config.update("jax_enable_x64", True)
layer = lambda W, b, x: jax.numpy.tanh(W @ x + b)
jacobian = jax.jit(jax.vmap(jax.jacrev(layer), (None, None, 0)))
J = jacobian(np.ones((32, 64)), np.ones(32), np.ones((256, 64))).block_until_ready()
assert J.shape == (256, 32, 32, 64)
"""

NAMES = ("start", "import to first Jacobian")


def starts(repeats: int) -> tuple[list[Row], list[Verdict]]:
    """Return seconds of whole processes, in turns: ours with empty and filled caches, and jax."""
    cold: list[float] = []
    warm: list[float] = []
    theirs: list[float] = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "SYMGRAD_CACHE": str(Path(folder) / "cache")}
            cold.append(process(OUR_PROGRAM, environment))
            warm.append(process(OUR_PROGRAM, environment))
        if find_spec("jax"):
            theirs.append(process(THEIR_PROGRAM, os.environ))
    ours = median(warm)
    rows = [
        Row(*NAMES, f"{OURS}, warm cache", ours, 1.0),
        Row(*NAMES, f"{OURS}, empty cache", median(cold), median(cold) / ours),
    ]
    if not theirs:
        rows.append(Row(*NAMES, "jax", reason="jax is not installed"))
        none = ("-", None, "jax is not installed")
        asked = ("empty cache: <= 6 x jax", "warm cache: <= 1.3 x jax")
        return rows, [Verdict(*NAMES, words, *none) for words in asked]
    bar = median(theirs)
    rows.append(Row(*NAMES, "jax", bar, bar / ours))
    pairs = (("empty", median(cold) / bar, 6.0), ("warm", ours / bar, 1.3))
    return rows, [
        Verdict(*NAMES, f"{name} cache: <= {most:g} x jax", f"{found:.2f} x jax", found <= most)
        for name, found, most in pairs
    ]


def process(program: str, environment: Mapping[str, str]) -> float:
    """Return the seconds that a program takes in a process of its own."""
    begin = time.perf_counter()
    command = [sys.executable, "-W", "ignore", "-c", program]
    subprocess.run(command, check=True, env=dict(environment))
    return time.perf_counter() - begin
