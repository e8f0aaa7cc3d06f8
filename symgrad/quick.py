"""One function of a module as a compiled layer offers it: plain calls go straight to the module.

Compiled, name -> Quick
A call is plain if all arrays are positional, the batch axis is first, and memory is no question:
there is an array to fill, or a call with arrays of the same shapes was small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.memory import too_large

if TYPE_CHECKING:
    from symgrad.compiled import Compiled


class Quick:
    """The form `name` of a compiled layer; `slowly` takes what is no plain call."""

    __slots__ = ("_count", "_jac", "_known", "_module", "_name", "_slowly", "_word")

    def __init__(self, jac: Compiled, name: str, slowly: Callable[..., Any]) -> None:
        self._jac, self._name, self._slowly = jac, name, slowly
        self._module, self._word = jac.module, jac.words["out"]
        self._count, self._known = jac.count, jac.room.is_small

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if len(args) == self._count and type(args[-1]) is np.ndarray:
            into = len(kwargs) == 1 and self._word in kwargs
            if into or (not kwargs and self._known(self._name, args)):
                try:
                    return getattr(self._module, self._name)(*args, **kwargs)
                except MemoryError as error:
                    raise too_large(error) from None
        return self._slowly(self._name, *args, **kwargs)

    def __repr__(self) -> str:
        return f"{self._jac!r}.{self._name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._jac, self._name)


__all__ = ["Quick"]
