"""What to differentiate with respect to: roles, names, globs and exclusions become a Selection.

str | sequence, Program -> Selection
Constants and indices are never selected, whatever is asked.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Union

from symgrad.derivation import Selection
from symgrad.errors import SelectionError, similar
from symgrad.program import Program
from symgrad.syntax import Alias

Wrt = Union[str, Sequence[str]]
ROLES = {"params": ("param",), "inputs": ("input",), "all": ("input", "param")}


def select(program: Program, wrt: Wrt = "params", aliases: Iterable[Alias] = ()) -> Selection:
    """Return the selected arrays in declared order.

    `wrt` is a role ("params", "inputs", "all"), a name, a glob, or a list of names, globs and
    exclusions ("!c"; alone they take away from the parameters). `aliases` tell the dotted names
    of arrays: "dense.W" and "dense.*" mean them too. Raises SelectionError for names that are
    unknown or cannot be selected, and for a selection that is empty.
    """
    allowed = {a.name: a.role for a in program.arrays if a.role in ("input", "param")}
    everything = {a.name: a.role for a in program.arrays}
    return Selection(choose(wrt, allowed, everything, aliases))


def choose(
    wrt: Wrt,
    allowed: Mapping[str, str],
    everything: Mapping[str, str],
    aliases: Iterable[Alias] = (),
) -> tuple[str, ...]:
    """Return the names among `allowed` (name -> role) that `wrt` asks for, in their order."""
    patterns = [_folded(p) for p in _patterns(wrt)]
    if not patterns:
        raise SelectionError("wrt is empty", hint='name an array, or say "params" or "all"')
    dotted = {_folded(alias.original): alias.name for alias in aliases}
    chosen: set[str] = set()
    if all(p.startswith("!") for p in patterns):
        chosen = {n for n, role in allowed.items() if role == "param"}
    for pattern in patterns:
        if pattern.startswith("!"):
            chosen -= _matches(pattern[1:], allowed, everything, dotted)
        else:
            chosen |= _matches(pattern, allowed, everything, dotted)
    names = tuple(n for n in allowed if n in chosen)
    if not names:
        raise SelectionError(f"wrt={wrt!r} selects nothing", hint=_instead(allowed))
    return names


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name)


def _instead(allowed: Mapping[str, str]) -> str:
    """Return what can be selected, and the role that selects it if there is only one."""
    roles = set(allowed.values())
    role = next((word for word, meant in ROLES.items() if set(meant) == roles), None)
    hint = f"the layer has {_listed(allowed)}"
    return hint if role in (None, "all") else f'{hint}; say wrt="{role}"'


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


def _matches(
    pattern: str,
    allowed: Mapping[str, str],
    everything: Mapping[str, str],
    dotted: Mapping[str, str],
) -> set[str]:
    """Return the names a pattern means; `dotted` gives the names of arrays of a model."""
    pattern = dotted.get(pattern, pattern)
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
        found |= {n for d, n in dotted.items() if n in allowed and fnmatchcase(d, pattern)}
        if found:
            return found
    raise _no_match(pattern, allowed, dotted)


def _no_match(
    pattern: str, allowed: Mapping[str, str], dotted: Mapping[str, str]
) -> SelectionError:
    """Return the error for a pattern that means no array."""
    pieces = re.findall(r"[^\s,;]+", pattern)
    if len(pieces) > 1:
        names = ", ".join(f'"{piece}"' for piece in pieces)
        hint = f"several names are a list: wrt=[{names}]; the layer has {_listed(allowed)}"
        return SelectionError(f"wrt: no array is called {pattern!r}", hint=hint)
    near = similar(pattern, (*allowed, *dotted, *ROLES))
    meant = f"; did you mean {near}?" if near else ""
    message = f"wrt: no array matches {pattern!r}{meant}"
    return SelectionError(message, hint=f"the layer has {_listed(allowed)}")


def _listed(allowed: Mapping[str, str]) -> str:
    return ", ".join(f"{role} {name}" for name, role in allowed.items()) or "nothing to select"
