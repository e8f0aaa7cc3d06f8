"""What a compiled layer offers of selections and of parts of arrays.

Compiled, names -> Compiled;  {θ: array} <-> {θ: its selected part}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.arguments import require_mapping
from symgrad.dims import Dim
from symgrad.errors import ArgumentError
from symgrad.parts import region
from symgrad.proof.sizes import sizes
from symgrad.scatter import Placing
from symgrad.select import Wrt, choose

if TYPE_CHECKING:
    from symgrad.compiled import Compiled


class Selecting:
    """Selections of a compiled layer, and what is selected of an array."""

    __slots__ = ()

    def select(self: Any, wrt: Wrt) -> Compiled:
        """Return the same module restricted to some of its arrays; nothing is compiled.

        Raises SelectionError for arrays that were not compiled.
        """
        roles = {a.name: str(a.role) for a in self.forms.program.arrays}
        allowed = {n: roles[n] for n in self.wrt}
        fixed = {n: r for n, r in roles.items() if r in ("const", "index")}
        names = choose(wrt, allowed, fixed, self.layer.aliases)
        found: Compiled = replace(self, wrt=names)
        return found

    def take(self: Any, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Return {θ: the selected part} of {θ: array}, for all θ that are given; copies.

        Leading axes (samples, right-hand sides) stay. Raises ArgumentError for a name that is not
        selected.
        """
        require_mapping(f"{self.name}.take: arrays", arrays)
        return {n: self._alone(n, arrays[n]).take(arrays[n]) for n in arrays}

    def scatter(self: Any, parts: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Return {θ: array} with the parts {θ: `[*lead, *part]`} in place of those of `arrays`.

        `arrays` are left as they are; `J.scatter` has zeros in their place. Raises ArgumentError
        for a name that is not selected, or has no array.
        """
        require_mapping(f"{self.name}.scatter: parts", parts)
        require_mapping(f"{self.name}.scatter: arrays", arrays)
        for name in parts:
            if name not in arrays:
                hint = "give the array that the part is put into, or use J.scatter"
                raise ArgumentError(f"{self.name}.scatter: {name} is missing", hint=hint)
        return {n: self._alone(n, arrays[n]).scatter(p, arrays[n]) for n, p in parts.items()}

    def _alone(self: Any, name: str, value: Any) -> Placing:
        """Return how the part of an array lies in it, from its shape alone."""
        array = self.forms.program.array(name)
        if array is None or name not in self.wrt:
            known = ", ".join(self.wrt)
            raise ArgumentError(f"nothing called {name!r} is selected; there are {known}")
        shape = np.shape(value)
        own = shape[len(shape) - len(array.axes) :]
        alone = replace(array, role="param")
        sizes(replace(self.forms.program, arrays=(alone,)), {name: own})  # refuses what is none
        part = self.forms.derivation.selection.region(name)
        alone = replace(alone, axes=tuple(map(Dim.of, own)))  # h*d tells neither h nor d
        return Placing(self.name, alone, part and region(alone, part.items, str), {})

    def placing(self: Any, name: str, sizes: Mapping[str, int]) -> Placing:
        """Return what is selected of an array, and how long its dims are."""
        array = self.forms.program.array(name)
        assert array is not None
        selection = self.forms.derivation.selection
        region = selection.region(name)
        return Placing(self.name, array, region, sizes, filled=selection.filled)


__all__ = ["Selecting"]
