"""Random layers over the whole language, from a seed.

seed -> Sketch (text, wrt)
Statements in either style, macros, several outputs and selections around random expressions.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from fuzz.expressions import Shape
from fuzz.recurrences import Recurrences
from symgrad.dims import Dim


@dataclass(frozen=True)
class Sketch:
    """A layer's text and what to differentiate with respect to."""

    seed: int
    text: str
    wrt: object


def sketch(seed: int) -> Sketch:
    """Return the random layer of a seed."""
    return drawn(random.Random(seed), seed)


def drawn(rng: random.Random, seed: int = 0) -> Sketch:
    """Return the random layer of a source of random choices, which hypothesis may be."""
    return _Grower(rng).layer(seed)


class _Grower(Recurrences):
    def layer(self, seed: int) -> Sketch:
        rng = self.rng
        self.roles = rng.choice(
            [("input", "param", "param"), ("input", "param", "param", "const"), ("param",),
             ("param", "const"), ("input",), ("input", "input", "param")]
        )  # fmt: skip
        names = rng.sample(["n", "m", "p", "d"], rng.choice([1, 2, 2, 3]))
        self.dims = tuple(Dim.of(v) for v in (*names, rng.choice([1, 1, 2, 3])))
        if rng.random() < 0.3:
            self.macro()
        count = rng.choice([1, 1, 2, 2, 3, 4])
        for number in range(count):
            self.statement(last=number == count - 1)
        self.determine()
        wrt = self.wrt()
        return Sketch(seed, self.text(), wrt)

    # ------------------------------------------------------------ the text

    def text(self) -> str:
        lines = ['"""A random layer."""'] if self.rng.random() < 0.1 else []
        for name, (role, shape, default) in self.declared.items():
            axes = f"[{', '.join(map(str, shape))}]" if shape else ""
            word = f"index({self.vocabularies[name]})" if role == "index" else role
            lines.append(f"{name}: {word}{axes}{default}")
        lines += [*self.macros, *self.statements]
        names = list(self.defined)
        if len(names) > 1 and self.rng.random() < 0.3:
            chosen = self.rng.sample(names, self.rng.choice([1, 2, 2, min(3, len(names))]))
            lines.append("return " + ", ".join(chosen))
        return "\n".join(lines) + "\n"

    def wrt(self) -> object:
        able = [n for n, (role, *_) in self.declared.items() if role in ("input", "param")]
        if not able:
            self.declared["unused"] = ("param", (), "")
        roles = {self.declared[n][0] for n in able}
        choice = self.rng.random()
        if choice < 0.2 and "param" in roles:
            return "params"
        if choice < 0.3 and "input" in roles:
            return "inputs"
        if choice < 0.4 and able:
            return self.rng.sample(able, self.rng.randint(1, len(able)))
        if choice < 0.45 and len(able) > 1:
            return ["*", f"!{self.rng.choice(able)}"]
        return "all"

    def determine(self) -> None:
        """Declare an array for every dim that no declared axis solves."""
        axes = [axis for _, shape, _ in self.declared.values() for axis in shape]
        able = {
            next(iter(a.names))
            for a in axes
            if len(a.names) == 1 and set(str(a)) & set("*/") == set()
        }
        words = " ".join((*map(str, axes), *map(str, self.vocabularies.values()), *self.statements))
        for name in sorted({n for d in self.dims for n in d.names} - able):
            if re.search(rf"\b{name}\b", words):
                self.declared[f"size_{name}"] = ("const", (Dim.of(name),), "")

    # ------------------------------------------------------------ statements

    def macro(self) -> None:
        body = self.rng.choice(
            ["tanh(a) * b + pi", "c = a - b\n    return c * sigmoid(c)", "maximum(a, 0.1) + b**2",
             "sum(a) * b", "a / (1 + norm(b))"]
        )  # fmt: skip
        body = body if "return" in body else f"return {body}"
        self.macros.append(f"def f(a, b):\n    {body}")

    def shape(self, most: int = 2) -> Shape:
        rank = self.rng.choice([0, 1, 1, 2, 2, 3][: 3 + most])
        return tuple(self.rng.choice(self.dims) for _ in range(min(rank, most)))

    def statement(self, last: bool) -> None:
        name = "y" if last else self.fresh(self.rng.choice(["z", "a_", "h"]))
        depth = self.rng.choice([2, 2, 3, 3, 4])
        style = self.rng.random()
        if style < 0.45:
            shape = self.shape(3 if self.rng.random() < 0.2 else 2)
            if self.rng.random() < 0.15 and shape:
                expr, shape = self.joined(shape, depth)
            else:
                expr = self.grow(shape, depth, {})
            self.statements.append(f"{name} = {expr}")
        elif style < 0.86:
            shape = self.indexed(name, depth)
        elif style < 0.96:
            shape = self.recurrence(name, depth)
        elif style < 0.98:
            shape = self.looking_back(name, depth)
        else:
            shape = self.gated(name, depth)
        self.defined[name] = shape

    def indexed(self, name: str, depth: int) -> Shape:
        rng = self.rng
        letters = rng.sample(["i", "j", "q"], rng.choice([1, 1, 2, 2, 3]))
        scope = {letter: rng.choice(self.dims) for letter in letters}
        rest: Shape = self.shape(1) if rng.random() < 0.25 else ()
        stated = {i: rng.random() < 0.25 for i in letters}
        expr = self.grow(rest, depth, scope)
        for i in letters:
            if not stated[i]:
                pattern = rng.choice(["{} + {}", "{} * {}"])
                expr = pattern.format(self.pack(expr), self.holder(i, scope))
        left = [f"{i}: {scope[i]}" if stated[i] else i for i in letters]
        self.statements.append(f"{name}[{', '.join(left)}] = {expr}")
        return (*(scope[i] for i in letters), *rest)

    def joined(self, shape: Shape, depth: int) -> tuple[str, Shape]:
        """A concatenation, a stack, a pad: the shape is found, not asked for."""
        kind = self.rng.choice(["concatenate", "stack", "pad", "outer"])
        axis = self.rng.randrange(len(shape))
        if kind == "concatenate":
            other = (*shape[:axis], self.rng.choice(self.dims), *shape[axis + 1 :])
            parts = f"[{self.grow(shape, depth - 1, {})}, {self.grow(other, depth - 1, {})}]"
            total = (*shape[:axis], shape[axis] + other[axis], *shape[axis + 1 :])
            return f"concatenate({parts}, axis={axis})", total
        if kind == "stack":
            count = self.rng.choice([1, 2])
            parts = ", ".join(self.grow(shape, depth - 1, {}) for _ in range(count))
            return f"stack([{parts}], axis={axis})", (*shape[:axis], Dim.of(count), *shape[axis:])
        if kind == "pad":
            widths = [(self.rng.choice([0, 1]), self.rng.choice([0, 1, 2])) for _ in shape]
            word = ", ".join(f"({a}, {b})" for a, b in widths)
            found = tuple(d + (a + b) for d, (a, b) in zip(shape, widths, strict=True))
            return f"pad({self.grow(shape, depth - 1, {})}, ({word},))", found
        left, right = self.rng.choice(self.dims), self.rng.choice(self.dims)
        return (
            f"outer({self.grow((left,), depth - 1, {})}, {self.grow((right,), depth - 1, {})})",
            (left, right),
        )
