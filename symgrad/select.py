"""What to differentiate with respect to: roles, names, globs and exclusions become a Selection.

str | sequence | mapping, Program -> Selection
Constants and indices are never selected, whatever is asked.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Union

from symgrad.algebra.names import Names
from symgrad.derivation import Selection
from symgrad.errors import SelectionError, similar
from symgrad.parts import region
from symgrad.program import Program
from symgrad.syntax import Alias

Wrt = Union[str, Sequence[str], Mapping[str, Any]]
ROLES = {"params": ("param",), "inputs": ("input",), "all": ("input", "param")}


def select(
    program: Program,
    wrt: Wrt = "params",
    aliases: Iterable[Alias] = (),
    unselected: str = "drop",
) -> Selection:
    """Return the selected arrays in declared order.

    With `unselected="zeros"` all arrays of the roles that were selected are among them, those not
    selected with zeros for derivatives, and parts have the shape of their arrays.

    `wrt` is a role ("params", "inputs", "all"), a name, a glob, or a list of names, globs and
    exclusions ("!c"; alone they take away from the parameters). `aliases` tell the dotted names
    of arrays: "dense.W" and "dense.*" mean them too. A mapping of names and globs to parts,
    `{"W": np.s_[2:, :], "b": True}`, or the text "W[2:, :]", selects parts of arrays, see
    `symgrad.parts`. Raises SelectionError for names that are unknown or cannot be selected, for
    parts that do not fit, and for a selection that is empty.
    """
    allowed = {a.name: a.role for a in program.arrays if a.role in ("input", "param")}
    everything = {a.name: a.role for a in program.arrays}
    parts = _parts(wrt, allowed, everything, aliases)
    names = choose([*parts] if parts else wrt, allowed, everything, aliases)
    new_name = Names(program).new
    found = []
    for name in names:
        array = program.array(name)
        assert array is not None
        part = region(array, parts.get(name, True), new_name)
        if part is not None:
            found.append(part)
    if unselected == "drop":
        return Selection(names, tuple(found))
    roles = {allowed[n] for n in names}
    every = tuple(n for n, role in allowed.items() if role in roles)
    return Selection(every, tuple(found), filled=True, zero=frozenset(every) - frozenset(names))


def _parts(
    wrt: object,
    allowed: Mapping[str, str],
    everything: Mapping[str, str],
    aliases: Iterable[Alias],
) -> dict[str, Any]:
    """Return the part of each selected array, {} where `wrt` speaks of whole arrays only.

    A name goes before a glob or a role that means it too.
    """
    known = {*allowed, *(_folded(a.original) for a in aliases)}
    entries = _entries(wrt, known)
    if not isinstance(wrt, Mapping) and all(part is True for _, part in entries):
        return {}
    found: dict[str, tuple[bool, Any]] = {}
    for pattern, part in entries:
        if pattern.startswith("!"):
            hint = "select what is left by name"
            raise SelectionError(f"wrt: {pattern} stands beside a part of an array", hint=hint)
        exact = pattern in known
        for name in choose(pattern, allowed, everything, aliases):
            if name in found and found[name][0] == exact:
                hint = "give each array one part"
                raise SelectionError(f"wrt: {name} is selected twice", hint=hint)
            if exact or name not in found:
                found[name] = exact, part
    return {name: part for name, (_, part) in found.items()}


def _entries(wrt: object, names: Collection[str]) -> list[tuple[str, Any]]:
    """Return patterns with their parts; a text like "W[2:, :]" is one if `W` is an array."""
    if isinstance(wrt, Mapping):
        for key in wrt:
            if not isinstance(key, str):
                hint = 'as in wrt={"W": np.s_[2:, :]}'
                raise SelectionError(f"wrt has the key {key!r}, expected names", hint=hint)
        if not wrt:
            raise SelectionError("wrt is empty", hint='name an array, or say "params" or "all"')
        return [(_folded(key), part) for key, part in wrt.items()]
    found = []
    for pattern in map(_folded, _patterns(wrt)):
        name, bracket, rest = pattern.partition("[")
        is_part = bracket and rest.endswith("]") and name.strip() in names
        found.append((name.strip(), rest[:-1]) if is_part else (pattern, True))
    return found


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
            "parts of arrays are selected when compiling",
            hint='compile with wrt={"W": np.s_[2:, :]}, then select by name',
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
