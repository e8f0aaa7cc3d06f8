"""Arguments of a call by the names of the arrays they are.

positional, keywords -> {name: value}, what follows the arrays
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from symgrad.errors import ArgumentError, similar
from symgrad.program import Array


def read_arguments(
    where: str,
    declared: Sequence[Array],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    extra_names: Sequence[str] = (),
) -> tuple[dict[str, Any], list[Any]]:
    """Return arrays by name, and what `extra_names` stand for, in order.

    Raises ArgumentError naming what is missing, doubled or unknown.
    """
    known = [a.name for a in declared]
    order = [a.name for a in declared if a.default is None]
    after = f" and then {', '.join(extra_names)}" if extra_names else ""
    expected = f"expected {', '.join(order)}{after}"
    positional = list(args)
    tail: list[Any] = []
    for name in reversed(extra_names):
        if name in kwargs and name not in known:
            tail.insert(0, kwargs.pop(name))
        elif positional:
            tail.insert(0, positional.pop())
        else:
            raise ArgumentError(f"{where}: {name} is missing; {expected}")
    given = _named(where, order, positional, kwargs)
    for name in given:
        if name not in known:
            near = similar(str(name), known)
            meant = f"did you mean {near}?" if near else f"expected {', '.join(known)}"
            raise ArgumentError(f"{where}: no array is called {name}; {meant}")
    missing = [n for n in order if n not in given]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise ArgumentError(f"{where}: {', '.join(missing)} {verb} missing; {expected}")
    return given, tail


def _named(
    where: str, order: Sequence[str], positional: list[Any], keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """Return arrays by name, a mapping at the end of the positional ones among them."""
    given: dict[str, Any] = {}
    if positional and isinstance(positional[-1], Mapping):
        given.update(positional.pop())
    if len(positional) > len(order):
        raise ArgumentError(
            f"{where} takes {len(order)} arrays ({', '.join(order)}), got {len(positional)}"
        )
    for name, value in (*zip(order, positional, strict=False), *keywords.items()):
        if name in given:
            raise ArgumentError(f"{where}: {name} is given twice")
        given[name] = value
    return given


def require_mapping(what: str, given: object) -> None:
    """Raise ArgumentError for what is no mapping of names to arrays."""
    if not isinstance(given, Mapping):
        message = f"{what} must be a mapping of names to arrays, got {type(given).__name__}"
        raise ArgumentError(message, hint='as in {"W": part}')


def call_arguments(
    declared: Sequence[Array], arrays: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return arrays as a module takes them: in declared order, those with a default by keyword."""
    positional = [arrays[a.name] for a in declared if a.default is None]
    others = [a.name for a in declared if a.default is not None and a.name in arrays]
    return positional, {name: arrays[name] for name in others}


__all__ = ["call_arguments", "read_arguments", "require_mapping"]
