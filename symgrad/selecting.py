"""What a compiled layer offers of selections and of parts of arrays.

Compiled, names -> Compiled;  {θ: array} <-> {θ: its selected part}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

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

    def placing(self: Any, name: str, sizes: Mapping[str, int]) -> Placing:
        """Return what is selected of an array, and how long its dims are."""
        array = self.forms.program.array(name)
        assert array is not None
        selection = self.forms.derivation.selection
        region = selection.region(name)
        return Placing(self.name, array, region, sizes, filled=selection.filled)


__all__ = ["Selecting"]
