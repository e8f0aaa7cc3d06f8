"""Steps that take samples one by one run together, piece by piece of the batch.

Written steps -> lines of a driver, functions of pieces
A piece stays in the cache from step to step, and pieces are shared out to threads once, not step
by step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from symgrad.dims import ZERO, Dim
from symgrad.generation.fold import fold
from symgrad.generation.words import code_name, dim_text, mentions


@dataclass(frozen=True, slots=True)
class Piece:
    """A step as it runs on some of the samples: its lines, its work for one, the arrays in it."""

    lines: tuple[str, ...]
    work: Dim
    batched: tuple[str, ...]
    shared: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """A step of a driver: the arrays it completes, the lines that make them, those that fill them.

    `piece` is None where it cannot run on some of the samples.
    """

    complete: tuple[str, ...]
    made: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    piece: Piece | None = None
    ways: tuple[Branch, ...] = ()

    @property
    def text(self) -> str:
        """All lines."""
        inner = (step.text for way in self.ways for step in way.steps)
        return "\n".join((*self.made, *self.lines, *(way.cost for way in self.ways), *inner))


@dataclass(frozen=True, slots=True)
class Branch:
    """One of several ways to run a step: its steps, and the expression of what they cost."""

    cost: str
    steps: tuple[Written, ...]


@dataclass(slots=True)
class PieceBook:
    """The functions of pieces of one module, by their text; `sizes` are the names of all sizes."""

    sizes: Sequence[str]
    functions: dict[str, str] = field(default_factory=dict)

    def lines(self, steps: Iterable[Written]) -> list[str]:
        """Return the lines of steps, neighbours that take samples one by one as one function."""
        result: list[str] = []
        for run in _runs(steps):
            result += [line for step in run for line in step.made]
            pieces = [s.piece for s in run if s.piece is not None and s.piece.lines]
            branches = [way for step in run for way in step.ways]
            if branches:
                result += self.choice(branches)
            elif len(pieces) < 2:
                result += [line for step in run for line in step.lines]
            else:
                result.append(self.call(pieces))
        return result

    def choice(self, ways: Sequence[Branch]) -> list[str]:
        """Return the lines that take the cheapest way."""
        heads = ["if way == 0:", *(f"elif way == {n}:" for n in range(1, len(ways) - 1)), "else:"]
        lines = [f"way = _cheapest({', '.join(way.cost for way in ways)})"]
        for head, way in zip(heads, ways, strict=True):
            lines += [head, *(f"    {line}" for line in self.lines(way.steps))]
        return lines

    def call(self, pieces: Sequence[Piece]) -> str:
        """Return the statement that runs steps on all samples, having noted their function."""
        inner = tuple(line for piece in pieces for line in piece.lines)
        text = "\n".join(inner)
        batched = _named(a for piece in pieces for a in piece.batched)
        shared = _named(a for piece in pieces for a in piece.shared)
        others = (*(n for n in self.sizes if n != "n_B"), "dtype")
        sizes = tuple(n for n in others if mentions(text, n))
        name = self.function((*batched, *shared, "n_B", *sizes), inner)
        work = sum((piece.work for piece in pieces), ZERO)
        tuples = ", ".join(map(_tuple_text, (batched, shared, sizes)))
        return f"_samples({name}, n_B, {dim_text(work)}, {tuples})"

    def function(self, parameters: Sequence[str], lines: Sequence[str]) -> str:
        """Return the name of the function of some lines, having noted it."""
        body = "\n".join(("", '    """Run these steps on some of the samples."""',
                          *(fold(f"    {line}") for line in lines)))  # fmt: skip
        key = f"({', '.join(parameters)}):{body}"
        if key not in self.functions:
            name = f"_steps_{len(self.functions) + 1}"
            self.functions[key] = fold(f"def {name}({', '.join(parameters)}):") + body
        return self.functions[key].removeprefix("def ").partition("(")[0]


def _runs(steps: Iterable[Written]) -> Iterator[list[Written]]:
    """Yield neighbours that may run together."""
    run: list[Written] = []
    for step in steps:
        if step.piece is None and (step.lines or step.ways):
            yield run
            yield [step]
            run = []
        else:
            run.append(step)
    yield run


def _named(arrays: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(code_name, arrays)))


def _tuple_text(names: Sequence[str]) -> str:
    return f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"


__all__ = ["Branch", "Piece", "PieceBook", "Written"]
