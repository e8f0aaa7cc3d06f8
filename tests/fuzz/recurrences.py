"""Random recurrences: starts, one or two arrays a block, one or two lags, in either style.

Steps are kept tame: what is carried over passes through tanh or is made smaller.
"""

from __future__ import annotations

from fuzz.expressions import Expressions, Shape
from symgrad.dims import Dim

CARRIED = (
    "tanh({e} + {p})",
    "0.5 * tanh({e}) + 0.3 * {p}",
    "sigmoid({e}) * {p} + 0.1",
    "{e} * tanh({p})",
    "sin({p}) + {e}",
    "{p} / (2 + abs({e}))",
)
WITH_AXES = ("tanh({A} @ {p} + {e})", "softmax({p} + {e})", "{e} * 0.2 + {p} / (1 + norm({p}))")


class Recurrences(Expressions):
    """Statements that read their own earlier steps."""

    def recurrence(self, name: str, depth: int) -> Shape:
        """Add start and step lines; return the shape of the array `name`."""
        rng = self.rng
        length = rng.choice(self.dims)
        shape: Shape = tuple(rng.choice(self.dims) for _ in range(rng.choice([0, 0, 1, 1, 2])))
        other = self.fresh("g") if rng.random() < 0.4 else None
        lags = rng.choice([1, 1, 1, 2])
        indexed = len(shape) == 1 and rng.random() < 0.3
        for lag in range(1, lags + 1):
            if rng.random() < 0.6:
                start = self.grow(shape, 1, {}) if rng.random() < 0.7 else "0.5"
                self.statements.append(f"{name}[-{lag}] = {start}")
        scope = {"t": length}
        left = "[t: {}, i]" if indexed else "[t: {}]"
        rest: Shape = () if indexed else shape
        if indexed:
            scope["i"] = shape[0]
        behind = ", i]" if indexed else "]"
        past = [f"{name}[t - {lag}{behind}" for lag in range(1, lags + 1)]
        if other is not None:
            line = self.carried(rest, depth, scope, rng.choice(past), indexed)
            self.statements.append(f"{other}{left.format(length)} = {line}")
            past.append(f"{other}[t{behind}")
        line = self.carried(rest, depth, scope, past[-1], indexed)
        if len(past) > 1:
            line = f"{line} + 0.2 * {past[0]}"
        self.statements.append(f"{name}{left.format(length)} = {line}")
        if other is not None:
            self.defined[other] = (length, *shape)
        return (length, *shape)

    def carried(
        self, shape: Shape, depth: int, scope: dict, past: str, indexed: bool
    ) -> str:
        """An expression of that shape that reads `past`."""
        rng = self.rng
        pattern = rng.choice(CARRIED)
        matrix = ""
        if len(shape) == 1 and rng.random() < 0.6:
            pattern = rng.choice(WITH_AXES)
            matrix = self.array((shape[0], shape[0]))
        e = self.grow(shape, depth - 1, scope)
        for letter in scope if indexed else ():
            e = f"{self.pack(e)} + {self.holder(letter, scope)}"
        return pattern.format(e=self.pack(e), p=past, A=matrix)

    def gated(self, name: str, depth: int) -> Shape:
        """Two gates stacked in one weight, as in an LSTM, and a state that both make."""
        length, size = self.rng.choice(self.dims), self.rng.choice(self.dims)
        weight, gates = self.array((Dim.of(2), size, size)), self.fresh("g")
        if self.rng.random() < 0.5:
            self.statements.append(f"{name}[-1] = {self.grow((size,), 1, {})}")
        e, late = (self.grow(shape, depth - 1, {"t": length}) for shape in (
            (Dim.of(2), size), (size,)))  # fmt: skip
        self.statements.append(f"{gates}[t: {length}] = {weight} @ {name}[t - 1] + {self.pack(e)}")
        step = f"tanh({gates}[t, 0]) * sigmoid({gates}[t, 1]) + {self.pack(late)}"
        self.statements.append(f"{name}[t: {length}] = {step}")
        self.defined[gates] = (length, Dim.of(2), size)
        return (length, size)

    def looking_back(self, name: str, depth: int) -> Shape:
        """A later line that reads a recurrence one step earlier."""
        shape = self.recurrence(before := self.fresh("h"), depth)
        self.defined[before] = shape
        self.statements.append(f"{name}[t] = {before}[t] - 0.5 * {before}[t - 1]")
        return shape


__all__ = ["Recurrences"]
