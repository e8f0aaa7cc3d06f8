"""What a driver is to compute.

() -> Order
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from symgrad.program import Array, Definition


@dataclass(frozen=True, slots=True)
class Order:
    """What a driver is to compute: definitions over arrays `given` beside the declared ones.

    Arrays in `made` exist already. With `keep`, the arrays wanted afterwards, others may be
    overwritten; with `handed`, those given to the caller, others may be views.
    """

    definitions: Sequence[Definition]
    given: Sequence[Array] = ()
    made: Sequence[str] = ()
    keep: Sequence[str] | None = None
    handed: Sequence[str] | None = None
