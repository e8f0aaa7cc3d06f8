"""What a driver is to compute.

() -> Order
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from symgrad.program import Array, Definition


@dataclass(frozen=True, slots=True)
class Order:
    """What a driver is to compute: definitions over arrays `given` beside the declared ones.

    Arrays in `made` exist already. With `keep`, the arrays wanted afterwards, others may be
    overwritten; with `handed`, those given to the caller, others may be views. `leaves` has the
    arrays after which the driver may stop, by the name to stop at. `zeroed` says that the driver
    knows whether what it writes has its zeros already.
    """

    definitions: Sequence[Definition]
    given: Sequence[Array] = ()
    made: Sequence[str] = ()
    keep: Sequence[str] | None = None
    handed: Sequence[str] | None = None
    leaves: Mapping[str, frozenset[str]] = field(default_factory=dict)
    zeroed: bool = False
