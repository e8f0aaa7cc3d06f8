"""Which definitions `recompute=` names: the way back computes them again.

Program, names -> names
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from symgrad.errors import SelectionError, similar
from symgrad.program import Program


def recomputed(program: Program, wanted: object) -> tuple[str, ...]:
    """Return the definitions that `recompute=` names, with the unnamed parts of their lines.

    `wanted` is a name, a glob, or a sequence of them. Raises SelectionError for what names no
    definition.
    """
    chosen: set[str] = set()
    helpers = _helpers(program)
    for pattern in _patterns(wanted):
        for name in _matches(pattern, program):
            chosen |= {name, *helpers.get(name, ())}
    return tuple(d.name for d in program.definitions if d.name in chosen)


def _helpers(program: Program) -> dict[str, tuple[str, ...]]:
    """Return, for every definition of the user, those made for its line: they stand before it."""
    found: dict[str, tuple[str, ...]] = {}
    waiting: list[str] = []
    for definition in program.definitions:
        if definition.written:
            found[definition.name] = tuple(waiting)
            waiting = []
        else:
            waiting.append(definition.name)
    return found


def _patterns(wanted: object) -> tuple[str, ...]:
    if wanted is None:
        return ()
    patterns = (wanted,) if isinstance(wanted, str) else wanted
    if isinstance(patterns, Mapping) or not isinstance(patterns, Iterable):
        message = f"recompute is {wanted!r}, expected names of definitions"
        raise SelectionError(message, hint='as in recompute=["h"]')
    found = tuple(patterns)
    for pattern in found:
        if not isinstance(pattern, str):
            message = f"recompute holds {pattern!r}, expected names of definitions"
            raise SelectionError(message, hint='as in recompute=["h"]')
    return tuple(unicodedata.normalize("NFKC", p) for p in found)


def _matches(pattern: str, program: Program) -> tuple[str, ...]:
    names = tuple(d.name for d in program.definitions)
    written = tuple(d.name for d in program.definitions if d.written)
    listed = f"the layer defines {', '.join(written)}"
    if pattern in names:
        return (pattern,)
    array = program.array(pattern)
    if array is not None:
        message = f"recompute: {pattern} is declared as {array.role}: it is passed, not computed"
        raise SelectionError(message, hint=listed)
    if any(c in pattern for c in "*?["):
        found = tuple(n for n in written if fnmatchcase(n, pattern))
        if found:
            return found
    near = similar(pattern, written)
    meant = f"; did you mean {near}?" if near else ""
    raise SelectionError(f"recompute: no definition matches {pattern!r}{meant}", hint=listed)


__all__ = ["recomputed"]
