"""One forward pass of a module, as structured derivatives keep it.

Checked arrays -> Pass
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from symgrad import build as building


@dataclass(frozen=True, slots=True)
class Pass:
    """What one forward pass left: checked arrays, sizes, and all factor arrays by name."""

    module: ModuleType
    arrays: Any
    sizes: Mapping[str, int]
    size_tuple: tuple[int, ...]
    dtype: Any
    single: bool
    values: Mapping[str, Any]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the text of the module in its place."""
        rest = (getattr(self, name) for name in self.__slots__ if name != "module")
        return _again, (building.text_of(self.module), Path(str(self.module.__file__)), *rest)

    def __deepcopy__(self, memo: dict[int, Any]) -> Pass:
        copies = {n: deepcopy(getattr(self, n), memo) for n in self.__slots__ if n != "module"}
        return Pass(self.module, **copies)


def _again(source: str, path: Path, *rest: Any) -> Pass:
    """Return a pass that was pickled."""
    return Pass(building.again(source, path)[0], *rest)
