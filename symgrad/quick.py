"""The functions of a module as a compiled layer offers them: plain calls go straight to it.

Compiled -> {name: function}
A call is plain if all arrays are positional, the batch axis is first, and memory is no question:
there is an array to fill, or a call with arrays of the same shapes was small.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.generation.publics import form_names
from symgrad.generation.publics_twice import hessian_functions
from symgrad.memory import too_large

if TYPE_CHECKING:
    from symgrad.compiled import Compiled

Form = Callable[..., Any]


def offered(jac: Compiled, form: Form, second: Form) -> dict[str, Callable[..., Any]]:
    """Return the functions `jac_θ` and `hess_θ_φ` of what is selected, by name.

    `form` and `second` take the name of a function before its arguments.
    """
    found: dict[str, Callable[..., Any]] = {
        name: partial(form, name)
        if jac.batch_axis or kind == "factors"
        else Quick(jac, name, form)
        for name, (_, kind) in form_names(jac.forms, jac.wrt).items()
    }
    return found | {n: partial(second, n) for n in hessian_functions(jac.forms, jac.wrt)}


class Quick:
    """The form `name` of a compiled layer; `slowly` takes what is no plain call."""

    __slots__ = ("_count", "_jac", "_known", "_module", "_name", "_slowly", "_word")

    def __init__(self, jac: Compiled, name: str, slowly: Form) -> None:
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


__all__ = ["Quick", "offered"]
