"""Print names of indices, chosen last: a written name where it is free, else the next letter.

Index, scope -> letter
Two indices visible at once never share a letter; dims and arrays keep theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps

from symgrad.dims import Dim
from symgrad.program import Apply, Index, Program, scalars_of, walk

ALPHABET = "ijklpqrsuvwabcdfgh"
"""No `e`: it would stand beside Euler's."""


@dataclass(slots=True)
class Letters:
    """The letters in use in one equation.

    A letter that was bound serves again only for an index of the same range.
    """

    taken: frozenset[str]
    used: dict[Index, str] = field(default_factory=dict)
    bound: dict[str, Dim] = field(default_factory=dict)

    @staticmethod
    def of(program: Program, free: Iterable[Index] = (), also: Iterable[str] = ()) -> Letters:
        """Return letters for an equation of `program` whose free indices are `free`."""
        letters = Letters(taken_names(program) | frozenset(also))
        for index in free:
            letters.take(index)
        return letters

    def take(self, index: Index) -> str:
        """Return the letter of `index`, choosing one if it has none yet."""
        if index not in self.used:
            self.used[index] = next(self._candidates(index))
        return self.used[index]

    def _candidates(self, index: Index) -> Iterator[str]:
        barred = self.taken | set(self.used.values())
        barred |= {letter for letter, dim in self.bound.items() if dim != index.dim}
        wish = index.name
        if wish.isidentifier() and wish not in barred:
            yield wish
        for number in range(1000):
            suffix = str(number) if number else ""
            for letter in ALPHABET:
                if letter + suffix not in barred:
                    yield letter + suffix

    @contextmanager
    def bind(self, bound: Iterable[Index]) -> Iterator[tuple[str, ...]]:
        """Give letters to bound indices for the length of a `with`, yield them."""
        fresh = [index for index in bound if index not in self.used]
        try:
            yield tuple(self.take(index) for index in bound)
        finally:
            for index in fresh:
                self.bound[self.used.pop(index)] = index.dim


def _remembered(
    found: Callable[[Program], frozenset[str]],
) -> Callable[[Program], frozenset[str]]:
    """Return a function of a program that is asked of one program many times in a row."""
    last: list[tuple[Program, frozenset[str]]] = []

    @wraps(found)
    def remembered(program: Program) -> frozenset[str]:
        known = last[-1] if last else None
        if known is None or known[0] is not program:
            known = (program, found(program))
            last[:] = [known]
        return known[1]

    return remembered


@_remembered
def taken_names(program: Program) -> frozenset[str]:
    """Return the names that dims, arrays, definitions and functions of a program occupy."""
    names = {a.name for a in program.arrays} | {d.name for d in program.definitions}
    for array in program.arrays:
        for axis in array.axes:
            names.update(axis.names)
        if array.vocabulary is not None:
            names.update(array.vocabulary.names)
    for definition in program.definitions:
        for scalar in scalars_of(definition.body):
            names.update(n.function for n in walk(scalar) if isinstance(n, Apply))
    return frozenset(names)


@_remembered
def reading_names(program: Program) -> frozenset[str]:
    """Return what no index is called in a formula: names of the program, and Euler's e."""
    plain = frozenset(("add", "sub", "mul", "div", "neg", "pow", "square", "sqrt", "reciprocal"))
    curved = any(
        not isinstance(d.body, tuple)
        or any(isinstance(n, Apply) and n.function not in plain
               for s in scalars_of(d.body) for n in walk(s))
        for d in program.definitions
    )
    return taken_names(program) | ({"e"} if curved else frozenset())


_OTHER = {"G": "Γ", "D": "Δ", "S": "Ω", "J": "Θ", "H": "Υ"}
"""What the derivation's own names begin with where the layer has an array of that letter."""


def _source_first(rest: str, program: Program) -> str:
    """Return `z,s` of `z_s` and `Gz,s` of `G_z_s`: what was differentiated, and by what."""
    everything = {d.name for d in program.definitions} | {a.name for a in program.arrays}
    sources = {n: n for n in everything}
    heads = "GHJ"
    sources |= {f"{head}_{n}": f"{head}{n}" for n in everything for head in heads}
    for output in program.outputs if len(program.outputs) > 1 else ():
        sources |= {
            f"{head}_{output}_{n}": f"{head}({output}.{n})" for n in everything for head in heads
        }
    for source in sorted(sources, key=lambda n: (-len(n), n)):
        behind = rest.removeprefix(f"{source}_")
        if behind != rest and behind in sources and rest not in everything:
            return f"{sources[source]},{sources[behind]}"
    return rest


def title(name: str, program: Program) -> str:
    """Return how a name of the derivation is written: `G_z` is `G^z`, with outputs `G^{y,z}`."""
    head, _, rest = name.partition("_")
    other = _OTHER.get(head, head)
    known = {a.name for a in program.arrays} | {d.name for d in program.definitions}
    head = other if head in known and other not in known else head
    for output in program.outputs if len(program.outputs) > 1 else ():
        if rest.startswith(f"{output}_"):
            rest = f"{output},{rest.removeprefix(f'{output}_')}"
            break
    else:
        rest = _source_first(rest, program)
    return f"{head}^{rest}" if rest else head
