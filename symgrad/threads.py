"""How many threads the calls of one compiled layer may use: a module of its own, with that number.

module, number -> module
Two compiled layers of the same text share a module. One that is given a number of threads gets a
twin: the same kernels, drivers that read another `num_threads`; nothing is compiled again.
"""

from __future__ import annotations

import os
from types import FunctionType, ModuleType
from typing import Any

from symgrad.options import whole

VARIABLE = "SYMGRAD_NUM_THREADS"


class Threaded:
    """The number of threads of a compiled layer."""

    __slots__ = ()

    @property
    def num_threads(self: Any) -> int | None:
        """The most threads that a call of this object uses; it may be set.

        None is for `$SYMGRAD_NUM_THREADS`, or without that one for each core of the process.
        Results are the same, bit for bit.
        """
        found: int | None = getattr(self.module, "num_threads", None)
        return found

    @num_threads.setter
    def num_threads(self: Any, count: int | None) -> None:
        count = threads_of(count)
        if count != self.num_threads:
            self.module = _twin(self.module, count)


def threads_of(value: object) -> int | None:
    """Return `num_threads=`, None for what the environment says.

    Raises ArgumentError for what is no number of threads, in the environment too.
    """
    told = os.environ.get(VARIABLE, "").strip()
    if told:
        whole(int(told) if told.isdecimal() else told, VARIABLE, 1)
    return None if value is None else whole(value, "num_threads", 1)


def with_threads(module: ModuleType, count: int | None) -> ModuleType:
    """Return a module whose calls use so many threads at most, the same one for None."""
    return module if count is None else _twin(module, count)


def _twin(module: ModuleType, count: int | None) -> ModuleType:
    """Return a module with functions of its own, which share everything but the number."""
    twin = ModuleType(module.__name__)
    names = vars(twin)
    names |= vars(module)
    names["num_threads"] = count
    made: dict[FunctionType, FunctionType] = {}
    for name, value in vars(module).items():
        if isinstance(value, FunctionType) and value.__globals__ is vars(module):
            if value not in made:
                made[value] = _among(names, value)
            names[name] = made[value]
    return twin


def _among(names: dict[str, Any], function: FunctionType) -> FunctionType:
    """Return a function that finds these names instead of those of its module."""
    code, defaults, cells = function.__code__, function.__defaults__, function.__closure__
    again = FunctionType(code, names, function.__name__, defaults, cells)
    again.__kwdefaults__ = function.__kwdefaults__
    again.__annotations__ = function.__annotations__
    vars(again).update(vars(function))
    return again


__all__ = ["Threaded", "threads_of", "with_threads"]
