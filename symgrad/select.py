"""What to differentiate with respect to: roles, names, globs and exclusions become a Selection.

str | sequence, Program -> Selection
Constants and indices are never selected, whatever is asked.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Union

from symgrad.derivation import Selection
from symgrad.errors import SelectionError, similar
from symgrad.program import Program

Wrt = Union[str, Sequence[str]]
ROLES = {"params": ("param",), "inputs": ("input",), "all": ("input", "param")}


def select(program: Program, wrt: Wrt = "params") -> Selection:
    """Return the selected arrays in declared order.

    `wrt` is a role ("params", "inputs", "all"), a name, a glob, or a list of names, globs and
    exclusions ("!c"; alone they take away from the parameters). Raises SelectionError for names
    that are unknown or cannot be selected, and for a selection that is empty.
    """
    allowed = {a.name: a.role for a in program.arrays if a.role in ("input", "param")}
    return Selection(choose(wrt, allowed, {a.name: a.role for a in program.arrays}))


def choose(wrt: Wrt, allowed: Mapping[str, str], everything: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names among `allowed` (name -> role) that `wrt` asks for, in their order."""
    patterns = [unicodedata.normalize("NFKC", p) for p in _patterns(wrt)]
    if not patterns:
        raise SelectionError("wrt is empty", hint='name an array, or say "params" or "all"')
    chosen: set[str] = set()
    if all(p.startswith("!") for p in patterns):
        chosen = {n for n, role in allowed.items() if role == "param"}
    for pattern in patterns:
        if pattern.startswith("!"):
            chosen -= _matches(pattern[1:], allowed, everything)
        else:
            chosen |= _matches(pattern, allowed, everything)
    names = tuple(n for n in allowed if n in chosen)
    if not names:
        kind = f"wrt={wrt!r} selects nothing"
        raise SelectionError(kind, hint=f"the layer has {_listed(allowed)}")
    return names


def _patterns(wrt: object) -> Iterable[str]:
    """Return the patterns of a selection; raise SelectionError for what is none."""
    if isinstance(wrt, str):
        return (wrt,)
    if isinstance(wrt, Mapping):
        raise SelectionError(
            "wrt as a mapping to parts of arrays is not supported yet",
            hint="select whole arrays and take the part of the result",
        )
    if not isinstance(wrt, Iterable):
        hint = 'as in wrt="params", or wrt=["W", "b"]'
        raise SelectionError(f"wrt is {wrt!r}, expected names", hint=hint)
    patterns = tuple(wrt)
    for pattern in patterns:
        if not isinstance(pattern, str):
            hint = 'as in wrt=["W", "b"]'
            raise SelectionError(f"wrt holds {pattern!r}, expected names", hint=hint)
    return patterns


def _matches(pattern: str, allowed: Mapping[str, str], everything: Mapping[str, str]) -> set[str]:
    if pattern in allowed:
        return {pattern}
    if pattern in everything:
        role = everything[pattern]
        raise SelectionError(
            f"{pattern} is {'an index array' if role == 'index' else 'a const'} and is never "
            "differentiated",
            hint=f"select some of {_listed(allowed)}",
        )
    if pattern in ROLES:
        return {n for n, role in allowed.items() if role in ROLES[pattern]}
    if any(c in pattern for c in "*?["):
        found = {n for n in allowed if fnmatchcase(n, pattern)}
        if found:
            return found
    near = similar(pattern, (*allowed, *ROLES))
    meant = f"; did you mean {near}?" if near else ""
    message = f"wrt: no array matches {pattern!r}{meant}"
    raise SelectionError(message, hint=f"the layer has {_listed(allowed)}")


def _listed(allowed: Mapping[str, str]) -> str:
    return ", ".join(f"{role} {name}" for name, role in allowed.items()) or "nothing to select"
