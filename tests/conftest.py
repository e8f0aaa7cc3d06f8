"""Options of the test-suite: how many random layers, from which seed."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

# benchmarks are no part of what is installed; symgrad is found where it was found before
sys.path.append(str(Path(__file__).resolve().parent.parent))

# thousands of modules stay loaded: to walk through them again and again takes minutes
gc.set_threshold(100_000, 50, 100)


def pytest_addoption(parser):
    parser.addoption("--programs", type=int, default=None, help="how many random layers to test")
    parser.addoption("--seed", type=int, default=None, help="the seed of the first random layer")
