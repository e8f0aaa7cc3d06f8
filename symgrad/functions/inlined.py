"""The mark of a scalar kernel: in a generated module it means compile and inline.

function -> function
Here the kernels run as plain Python, which is how their twins are tested.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def inline(function: Callable[P, R]) -> Callable[P, R]:
    """Leave a scalar kernel as it is."""
    return function
