"""A translation run once and written down, so that calls do nothing but the tool's own functions.

Tool, evaluation -> Tape -> call
What a translation does depends on sizes alone. It runs with arrays that write down what is done to
them; a call then repeats that, without looking at indices again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from symgrad.against.tool import Array, Tool

Operation = tuple[Callable[..., Any], tuple[int, ...], int]


@dataclass(slots=True)
class Tape:
    """Operations in order, each a function, the places of its arguments and of its result.

    `places` holds constants where they are read; `names` are the places of the arrays given.
    """

    names: dict[str, int] = field(default_factory=dict)
    places: list[Any] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    results: tuple[int, ...] = ()

    def place(self, value: Any) -> int:
        """Return a new place that holds a value."""
        self.places.append(value)
        return len(self.places) - 1

    def done(self, function: Callable[..., Any], args: Sequence[Any]) -> Written:
        """Call a function, write that down, and return its result."""
        at = tuple(a.place if isinstance(a, Written) else self.place(a) for a in args)
        found = function(*(a.value if isinstance(a, Written) else a for a in args))
        made = Written(found, self.place(None), self)
        self.operations.append((function, at, made.place))
        return made

    def __call__(self, arrays: Mapping[str, Array]) -> tuple[Array, ...]:
        """Return the results for other arrays of the same shapes."""
        places = self.places.copy()
        for name, at in self.names.items():
            places[at] = arrays[name]
        for function, args, to in self.operations:
            places[to] = function(*[places[a] for a in args])
        return tuple(places[at] for at in self.results)


def _operator(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda one, *others: one.tape.done(function, (one, *others))


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda one, other: one.tape.done(function, (other, one))


@dataclass(slots=True, eq=False)
class Written:
    """An array that writes down what is done to it."""

    value: Array
    place: int
    tape: Tape

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return tuple(self.value.shape)

    def __getitem__(self, key: Any) -> Any:
        """Return elements; places to gather from may be written arrays too."""
        parts = key if isinstance(key, tuple) else (key,)
        if any(isinstance(part, Written) for part in parts):
            return self.tape.done(lambda a, *at: a[at], (self, *parts))
        return self.tape.done(lambda a: a[parts], (self,))

    __add__, __radd__ = _operator(operator.add), _reflected(operator.add)
    __sub__, __rsub__ = _operator(operator.sub), _reflected(operator.sub)
    __mul__, __rmul__ = _operator(operator.mul), _reflected(operator.mul)
    __truediv__, __rtruediv__ = _operator(operator.truediv), _reflected(operator.truediv)
    __pow__, __rpow__ = _operator(operator.pow), _reflected(operator.pow)
    __matmul__, __rmatmul__ = _operator(operator.matmul), _reflected(operator.matmul)
    __neg__ = _operator(operator.neg)
    __and__, __rand__ = _operator(operator.and_), _reflected(operator.and_)
    __or__, __ror__ = _operator(operator.or_), _reflected(operator.or_)
    __invert__ = _operator(operator.invert)
    __lt__, __le__ = _operator(operator.lt), _operator(operator.le)
    __gt__, __ge__ = _operator(operator.gt), _operator(operator.ge)
    __eq__, __ne__ = _operator(operator.eq), _operator(operator.ne)
    __hash__ = object.__hash__
    __array_ufunc__ = None  # numpy's arrays on the left leave the operation to us


def writing(tool: Tool) -> Tool:
    """Return a tool whose functions take written arrays as well."""
    return replace(tool, has=SimpleNamespace(**{n: _written(f) for n, f in vars(tool.has).items()}))


def _written(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        if isinstance(args[0], list):  # stack
            parts, rest = args[0], args[1:]
            tape = next((p.tape for p in parts if isinstance(p, Written)), None)
            if tape is None:
                return function(*args)
            return tape.done(lambda *found: function(found, *rest), parts)
        tape = next((a.tape for a in args if isinstance(a, Written)), None)
        return function(*args) if tape is None else tape.done(function, args)

    return call


def written(
    tool: Tool,
    arrays: Mapping[str, Array],
    evaluate: Callable[[Tool, dict[str, Any]], Sequence[Any]],
) -> Tape:
    """Return the tape of an evaluation, which gets a tool and arrays and returns its results."""
    tape = Tape()
    given = {}
    for name, value in arrays.items():
        tape.names[name] = tape.place(None)
        given[name] = Written(value, tape.names[name], tape)
    found = evaluate(writing(tool), given)
    tape.results = tuple(
        one.place if isinstance(one, Written) else tape.place(one) for one in found
    )
    return tape


__all__ = ["Tape", "Written", "writing", "written"]
