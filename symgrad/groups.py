"""Several selections evaluated together: one forward pass, and a result for each group.

Compiled, {group: names} -> Grouped -> {group: what that selection alone gives}
A group may share arrays with another; of each array they select the same part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.arguments import require_mapping
from symgrad.compiled import Compiled
from symgrad.costs.plan import Plan
from symgrad.dense import require_fit
from symgrad.errors import ArgumentError, SelectionError, similar
from symgrad.jacobians import Jacobians
from symgrad.program import Program
from symgrad.select import Wrt, select
from symgrad.syntax import Alias


def grouped(
    program: Program, aliases: Iterable[Alias], wrt: Wrt, groups: object, unselected: str
) -> tuple[dict[str, tuple[str, ...]], Wrt]:
    """Return the arrays of each group, {} without groups, and what is selected.

    Raises ArgumentError for options that do not go together, and as `together` does.
    """
    if unselected not in ("drop", "zeros"):
        message = f"unselected is {unselected!r}, expected 'drop' or 'zeros'"
        raise ArgumentError(message, hint='as in unselected="zeros"')
    if groups is None:
        return {}, wrt
    if wrt != "params" or unselected != "drop":
        told = "wrt" if unselected == "drop" else "unselected"
        raise ArgumentError(f"groups= and {told}= stand together", hint="give one of them")
    return together(program, groups, aliases)


def together(
    program: Program, groups: object, aliases: Iterable[Alias]
) -> tuple[dict[str, tuple[str, ...]], dict[str, Any]]:
    """Return the arrays of each group, and the selection of all of them together.

    Each group is what `wrt` may be. Raises ArgumentError for what is no mapping of groups,
    SelectionError for a group that selects nothing, or another part of an array than the others.
    """
    if not isinstance(groups, Mapping) or not groups:
        hint = 'as in groups={"slow": ["kernel.*"], "fast": ["q_*"]}'
        raise ArgumentError("groups must be a mapping of names to selections", hint=hint)
    aliases = tuple(aliases)
    names: dict[str, tuple[str, ...]] = {}
    parts: dict[str, tuple[str, Any]] = {}
    for group, wrt in groups.items():
        if not isinstance(group, str):
            hint = "groups are called by names"
            raise ArgumentError(f"groups has the key {group!r}, expected a name", hint=hint)
        chosen = select(program, wrt, aliases)
        names[group] = chosen.names
        for name in chosen.names:
            region = chosen.region(name)
            part = True if region is None else region.items
            first, known = parts.setdefault(name, (group, part))
            if known != part:
                message = f"groups {first} and {group} select different parts of {name}"
                raise SelectionError(message, hint="compile them apart, or select the same part")
    return names, {name: part for name, (_, part) in parts.items()}


@dataclass(frozen=True, slots=True)
class Grouped:
    """A compiled layer whose results are mappings of groups.

    `compiled` is the layer with the arrays of all groups; `groups` are the arrays of each.
    """

    compiled: Compiled
    groups: Mapping[str, tuple[str, ...]]

    def __repr__(self) -> str:
        shown = "; ".join(f"{group}: {', '.join(names)}" for group, names in self.groups.items())
        return f"Grouped({self.compiled.name}: {shown})"

    @property
    def source(self) -> str:
        """The text of the module."""
        return self.compiled.source

    def __getitem__(self, group: str) -> Compiled:
        """Return the layer with the arrays of one group; nothing is compiled."""
        return self.compiled.select(list(self.groups[self._known(group)]))

    def forward(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return the output `[B, *out]`, or a tuple of them."""
        return self.compiled.forward(*args, **kwargs)

    def jacobian(self, /, *args: Any, **kwargs: Any) -> GroupedJacobians:
        """Return {group: Jacobians} from one pass; nothing dense is built."""
        whole = self.compiled.jacobian(*args, **kwargs)
        return GroupedJacobians(whole, self.groups)

    def dense(self, /, *args: Any, **kwargs: Any) -> dict[str, dict[Any, Any]]:
        """Return {group: {θ: dense array}} from one pass, see `Compiled.dense`.

        `out` is a mapping of groups to mappings like those. Raises ArgumentError for a group or an
        array there is none of.
        """
        word = self.compiled.words["out"]
        out = self._outs(kwargs.pop(word, None))
        first = {key: array for own in reversed(out.values()) for key, array in own.items()}
        found = self.compiled.dense(*args, **kwargs, **({word: first} if first else {}))
        handed, result = set(first), {}
        for group, names in self.groups.items():
            own = result[group] = {k: a for k, a in found.items() if _parameter(k) in names}
            for key, array in own.items():
                into = out.get(group, {}).get(key)
                if into is None:
                    own[key] = array.copy() if key in handed else array
                elif into is not array:
                    into[...] = array
                    own[key] = into
                handed.add(key)
        return result

    def gradient(self, /, *args: Any, **kwargs: Any) -> dict[str, dict[str, Any]]:
        """Return {group: {θ: gradient}}, see `Compiled.gradient`."""
        return self._split(self.compiled.gradient(*args, **kwargs))

    def vjp(self, /, *args: Any, **kwargs: Any) -> dict[str, dict[str, Any]]:
        """Return {group: {θ: Σ_b Σ_out u · J}}; the last argument is u `[B, *out]`."""
        return self._split(self.compiled.vjp(*args, **kwargs))

    def vjp_per_sample(self, /, *args: Any, **kwargs: Any) -> dict[str, dict[str, Any]]:
        """Return {group: {θ: Σ_out u · J for every sample}}; the last argument is u."""
        return self._split(self.compiled.vjp_per_sample(*args, **kwargs))

    per_sample_vjp = vjp_per_sample

    def pullback(
        self, /, *args: Any, **kwargs: Any
    ) -> tuple[Any, Callable[[Any], dict[str, dict[str, Any]]]]:
        """Return the output and `pull`: u `[B, *out]` -> {group: {θ: Σ u · J}}."""
        value, back = self.compiled.pullback(*args, **kwargs)

        def pull(u: Any) -> dict[str, dict[str, Any]]:
            return self._split(back(u))

        return value, pull

    def jvp(self, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return {group: J t} for {group: {θ: tangent}}, the last argument, from one pass.

        Missing tangents are zero. Raises ArgumentError for a group or an array there is none of.
        """
        if "tangents" in kwargs:
            tangents = kwargs.pop("tangents")
        else:
            *args, tangents = args or (None,)  # type: ignore[assignment]
        if not isinstance(tangents, Mapping):
            hint = "as in {group: {name: array}}"
            raise ArgumentError("tangents must be a mapping of groups", hint=hint)
        for group in tangents:
            self._known(group)
        found = self.jacobian(*args, **kwargs)
        return {group: found[group].jvp(tangents.get(group, {})) for group in self.groups}

    def plan(self, /, *args: Any, **kwargs: Any) -> Plan:
        """Return what the forms of all groups together cost, see `Compiled.plan`.

        A group alone costs what `grouped[group].plan(...)` says.
        """
        return self.compiled.plan(*args, **kwargs)

    def _split(self, found: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return results by group; one that two groups have is a copy in the second."""
        seen: set[str] = set()
        result: dict[str, dict[str, Any]] = {}
        for group, names in self.groups.items():
            result[group] = {n: found[n].copy() if n in seen else found[n] for n in names}
            seen |= set(names)
        return result

    def _outs(self, out: Any) -> dict[str, dict[Any, Any]]:
        """Return the arrays to fill by group; those of the same Jacobian are alike."""
        require_mapping(f"{self.compiled.name}.dense: out", {} if out is None else out)
        result: dict[str, dict[Any, Any]] = {}
        known: dict[Any, Any] = {}
        for group, own in (out or {}).items():
            where = f"out[{self._known(group)!r}]"
            require_mapping(f"{self.compiled.name}.dense: {where}", own)
            result[group] = {key: array for key, array in own.items() if array is not None}
            for key, array in result[group].items():
                if _parameter(key) not in self.groups[group]:
                    hint = f"there are {', '.join(self.groups[group])}"
                    raise ArgumentError(f"{where} has {key!r}", hint=hint)
                like = known.setdefault(key, array)
                if array is not like and isinstance(like, np.ndarray):
                    what = f"{where}[{key!r}]"
                    require_fit(self.compiled.module, what, array, like)
        return result

    def _known(self, group: Any) -> str:
        if group in self.groups:
            return str(group)
        near = similar(group, self.groups) if isinstance(group, str) else None
        hint = f"did you mean {near!r}?" if near else f"there are {', '.join(self.groups)}"
        raise ArgumentError(f"there is no group {group!r}", hint=hint)


def _parameter(key: Any) -> Any:
    """Return the array of a key, which names the output too where there are several."""
    return key[1] if isinstance(key, tuple) and len(key) == 2 else key


class GroupedJacobians(Mapping[str, Jacobians]):
    """{group: Jacobians} of one call; `value` is the output of the same pass."""

    def __init__(self, whole: Jacobians, groups: Mapping[str, tuple[str, ...]]) -> None:
        self._whole = whole
        self._groups = {group: whole.restricted(names) for group, names in groups.items()}

    @property
    def value(self) -> Any:
        """The output of the same pass; a tuple for several outputs."""
        return self._whole.value

    def __getitem__(self, group: str) -> Jacobians:
        return self._groups[group]

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def __repr__(self) -> str:
        return "\n".join(f"{group}:\n{found!r}" for group, found in self._groups.items())


__all__ = ["Grouped", "GroupedJacobians", "grouped", "together"]
