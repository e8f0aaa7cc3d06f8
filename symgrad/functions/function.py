"""One scalar function of the language, as the function table holds it.

name, arguments, body -> Function
The body is a textbook formula; how to compute it without losing digits is the kernels' business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

from symgrad.functions.calls import COMPLEX

Body = Callable[..., Any]
"""sympy symbols -> sympy expression; sympy has no types."""
Interval = tuple[float, float]

EVERYWHERE: Interval = (-inf, inf)
POSITIVE: Interval = (0.0, inf)
ORDINARY: Interval = (-3.0, 3.0)


@dataclass(frozen=True, slots=True)
class Kink:
    """A point where the slopes are a convention: one slope for each argument."""

    at: tuple[float, ...]
    slopes: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """A scalar function: what it is, how it is written, where it lives and where to test it.

    `body(*symbols)` is its formula over finite reals; its sympy derivative takes the contract's
    value at every kink whose point is finite. `from_value(y, *symbols)` is the slope in the first
    argument as textbooks write it, in terms of the value y, where there is such a form; it is
    singular nowhere but where the slope is.
    `defaults` belong to the last arguments. `text` and `latex` are templates over `{0}, {1}, ..`.
    `domain` and `test_range` give an interval for each argument; `test_points` are single points
    where digits are easily lost.
    """

    name: str
    arguments: tuple[str, ...]
    body: Body
    defaults: tuple[float, ...]
    aliases: tuple[str, ...]
    text: str
    latex: str
    from_value: Body | None
    domain: tuple[Interval, ...]
    kinks: tuple[Kink, ...]
    test_range: tuple[Interval, ...]
    test_points: tuple[tuple[float, ...], ...]

    @property
    def arity(self) -> int:
        """The number of arguments, those with a default included."""
        return len(self.arguments)

    @property
    def complex(self) -> bool:
        """Whether it has a kernel for complex arguments."""
        return self.name in COMPLEX


def function(
    name: str,
    arguments: str,
    body: Body,
    *,
    defaults: tuple[float, ...] = (),
    aliases: tuple[str, ...] = (),
    text: str | None = None,
    latex: str | None = None,
    from_value: Body | None = None,
    domain: tuple[Interval, ...] = (),
    kinks: tuple[Kink, ...] = (),
    test_range: tuple[Interval, ...] = (),
    test_points: tuple[float | tuple[float, ...], ...] = (),
) -> Function:
    """Return an entry of the table; what is not said is the usual: everywhere, `name(z)`."""
    names = tuple(arguments.split())
    places = ", ".join(f"{{{n}}}" for n in range(len(names)))
    word = name.replace("_", r"\_")
    return Function(
        name=name,
        arguments=names,
        body=body,
        defaults=defaults,
        aliases=aliases,
        text=text or f"{name}({places})",
        latex=latex or rf"\operatorname{{{{{word}}}}}({places})",
        from_value=from_value,
        domain=domain or (EVERYWHERE,) * len(names),
        kinks=kinks,
        test_range=test_range or (ORDINARY,) * len(names),
        test_points=tuple(p if isinstance(p, tuple) else (p,) for p in test_points),
    )


def kinks(slope: float, *places: float) -> tuple[Kink, ...]:
    """Return the kinks of a function of one argument that has this slope at all places."""
    return tuple(Kink((place,), (slope,)) for place in places)
