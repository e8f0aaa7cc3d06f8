"""Steps that take samples one by one run together, piece by piece of the batch.

Written steps -> lines of a driver, functions of pieces
A piece stays in the cache from step to step, and pieces are shared out to threads once, not step
by step.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from symgrad.dims import ONE, ZERO, Dim
from symgrad.generation.fold import fold
from symgrad.generation.words import code_name, dim_text, mentions

_OPERAND = r"\w+(?:\[([^\[\]()]*)\]|\.reshape\((?:[^()]|\([^()]*\))*\))?(?:\.T)?"
_NATIVE = re.compile(
    rf" *(?:_fill\w*\([^()]*\)|for \w+ in range\([^()]*\):|if stage == \d+:|return"
    rf"|_(?:add_)?matmul\({_OPERAND}, {_OPERAND}, {_OPERAND}\))"
)
"""A line that can be compiled together with others: of a kernel, a product of matrices, a walk."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A step as it runs on some of the samples: its lines, its work for one, the arrays in it.

    `plain` says that all of them lie in C order; `calls` is how often a line runs.
    """

    lines: tuple[str, ...]
    work: Dim
    batched: tuple[str, ...]
    shared: tuple[str, ...]
    plain: bool = True
    calls: Dim = ONE

    @property
    def native(self) -> bool:
        """Whether it can be compiled as a whole."""
        arrays = {*map(code_name, (*self.batched, *self.shared))}
        return self.plain and all(_is_native(line, arrays) for line in self.lines)


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


Stages = Sequence[tuple[Sequence[Written], list[str]]]
"""Steps, and the parameters for which nothing more is needed after them."""


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
            elif len(pieces) < 2 and not (pieces and _is_product(pieces[0])):
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
        others = (*(n for n in self.sizes if n != "n_B"), "stage")
        sizes = tuple(n for n in others if mentions(text, n))
        name = self.function((*batched, *shared, "n_B", *sizes), inner)
        work = sum((piece.work for piece in pieces), ZERO)
        tuples = ", ".join(map(_tuple_text, (batched, shared, sizes)))
        if all(piece.native for piece in pieces):
            return f"_natively({name}, n_B, {dim_text(work)}, {tuples}, dtype)"
        calls = dim_text(sum((piece.calls * len(piece.lines) for piece in pieces), ZERO))
        return f"_samples({name}, n_B, {dim_text(work)}, {tuples}, dtype, {calls})"

    def function(self, parameters: Sequence[str], lines: Sequence[str]) -> str:
        """Return the name of the function of some lines, having noted it."""
        body = "\n".join(("", '    """Run these steps on some of the samples."""',
                          *(fold(f"    {line}") for line in lines)))  # fmt: skip
        key = f"({', '.join(parameters)}):{body}"
        if key not in self.functions:
            name = f"_steps_{len(self.functions) + 1}"
            self.functions[key] = fold(f"def {name}({', '.join(parameters)}):") + body
        return self.functions[key].removeprefix("def ").partition("(")[0]


def joined(stages: Iterable[tuple[Sequence[Written], list[str]]]) -> Iterator[Stages]:
    """Yield stages of a sweep, those together that take samples one by one throughout."""
    group: list[tuple[Sequence[Written], list[str]]] = []
    for stage in stages:
        if group and not (_has_pieces(group[-1][0]) and _has_pieces(stage[0])):
            yield group
            group = []
        group.append(stage)
    yield group


def stopping(stages: Sequence[Sequence[Written]]) -> list[Written]:
    """Return the steps of stages as one, which are left after stage number `stage`.

    Arrays of later stages are of no samples then.
    """
    steps = list(stages[0])
    for number, own in enumerate(stages[1:]):
        leave = Piece((f"if stage == {number}:", "    return"), ZERO, (), ())
        count = f"some = n_B if stage > {number} else 0"
        steps.append(Written((), (count,), piece=leave))
        steps += [replace(s, made=tuple(map(_of_some, s.made))) for s in own]
    return steps


def _of_some(line: str) -> str:
    """Return the line of an array of so many samples."""
    return re.sub(r"\bn_B\b", "some", line)


def _has_pieces(steps: Iterable[Written]) -> bool:
    """Whether steps all run on some of the samples, and do something there."""
    found = [s.piece for s in steps if s.piece is not None or s.lines or s.ways]
    return all(found) and any(piece.lines for piece in found if piece)


def _is_native(line: str, arrays: Collection[str]) -> bool:
    """Whether a line can be compiled; arrays in a subscript are lists of places."""
    found = _NATIVE.fullmatch(line)
    if found is None:
        return False
    subscripts = " ".join(filter(None, found.groups()))
    return not any(mentions(subscripts, a) for a in arrays)


def _is_product(piece: Piece) -> bool:
    """Whether a step is a product that can be shared out to threads."""
    return piece.native and piece.lines[0].startswith(("_matmul", "_add_matmul"))


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
