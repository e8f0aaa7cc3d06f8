"""How a module is judged: at what points, and by what.

() -> Trial
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Trial:
    """`names` are the arrays whose derivatives are judged; points have `batch` samples, `sizes`.

    `exact` adds the closed form in many digits, and the products that a module offers.
    """

    names: Sequence[str]
    seed: int
    batch: int = 3
    sizes: Mapping[str, int] = field(default_factory=dict)
    exact: bool = False
