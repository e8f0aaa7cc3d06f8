"""All kernels of a module, and the statements that run them.

Kernel -> Run; text of functions
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from symgrad.dims import ONE, Dim
from symgrad.functions import singles, twins
from symgrad.generation.fold import fold
from symgrad.generation.texts import shape_text, tuple_text
from symgrad.generation.words import code_name, dim_text, size_name
from symgrad.generation.write_kernel import KernelText, write_kernel
from symgrad.generation.write_stream import Target, is_scatter, is_steady
from symgrad.program import BATCH
from symgrad.schedule import Kernel

CASTS = r"number\((?:[^()]|\([^()]*\))*\)|range\(.*|^ *(?:stream|clear)\("
"""Brackets of a line that order no additions: sums may still be taken in any order."""


@dataclass(frozen=True, slots=True)
class Run:
    """The statement that runs a kernel on all samples, and the one that does on some of them.

    `arrays` are those that it gets.
    """

    line: str
    direct: str | None = None
    arrays: tuple[str, ...] = ()


@dataclass(slots=True)
class KernelBook:
    """All kernels of a module; texts that differ in names only are one function.

    Where a kernel calls functions with twins for float32, or for complex arrays in the module of
    an `analytic` layer, drivers ask for the kernel of their dtype. Arrays that LAPACK returns, and
    views of them, are `rough`: they may not lie in C order.
    """

    analytic: bool = False
    functions: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    helpers: dict[str, None] = field(default_factory=dict)
    streams: bool = False
    rough: set[str] = field(default_factory=set)
    shapes: Mapping[str, tuple[Dim, ...]] = field(default_factory=dict)
    scatters: dict[str, bool] = field(default_factory=dict)

    @property
    def plain(self) -> dict[str, tuple[Dim, ...]]:
        """The axes of the arrays that lie in C order."""
        return {n: dims for n, dims in self.shapes.items() if n not in self.rough}

    def add(
        self,
        kernel: Kernel,
        is_batched: Callable[[str], bool],
        step: str = "",
        past: Target | None = None,
    ) -> Run:
        """Return the statements that run the kernel, having noted its text.

        `step` is what the driver calls the step of a recurrence; `past` is a result that goes past
        the caches if it is large.
        """
        text = write_kernel(kernel, analytic=self.analytic, plain=self.plain)
        for helper in text.helpers:
            self.helpers[helper] = None
        batched = tuple(a for a in text.arrays if kernel.split and is_batched(a))
        shared = tuple(code_name(a) for a in text.arrays if a not in batched)
        batched = tuple(code_name(a) for a in batched)
        sizes = tuple(s for s in text.sizes if not (kernel.split and s == "n_B"))
        first = ("n_B",) if kernel.split else ()
        names = (*batched, *shared, *first, *sizes, *((text.step,) if text.step else ()))
        sizes = (*sizes, step) if text.step else sizes
        name = self.function(f"_fill_{kernel.writes[-1].strip('_')}", text, names)
        callee = self.typed(name, text)
        if past is not None:
            large = write_kernel(kernel, analytic=self.analytic, past=past, plain=self.plain)
            if large.streams:
                callee = self.choice(callee, large, names, past)
            if past.zeroed and is_scatter(kernel, past.array):
                callee = self.scatter(callee, kernel, names, past.array)
        if not kernel.split:
            called = f"({callee})" if " if " in callee else callee
            return Run(f"{called}({', '.join((*shared, *sizes))})")
        work = kernel.work if past is None else kernel.work + _volume(past.dims)
        line = (
            f"_share({callee}, n_B, {dim_text(work)}, "
            f"{tuple_text(batched)}, {tuple_text(shared)}, {tuple_text(sizes)})"
        )
        direct = f"{name}({', '.join((*batched, *shared, 'n_B', *sizes))})"
        return Run(line, direct if past is None else None, text.arrays)

    def alone(
        self,
        kernel: Kernel,
        results: Sequence[str],
        scratch: Mapping[str, tuple[Dim, ...]],
        whole: Collection[str],
    ) -> str:
        """Return the statement that runs a kernel which makes results of the declared arrays.

        It keeps `scratch` of one sample to itself; those of them in `whole` hold integers.
        """
        text = write_kernel(kernel, analytic=self.analytic, scratch=scratch)
        for helper in text.helpers:
            self.helpers[helper] = None
        model = code_name(results[-1])
        made = [
            f"    {code_name(a)} = np.empty({shape_text(dims or (ONE,))}, "
            f"{'np.int64' if a in whole else f'{model}.dtype'})"
            for a, dims in scratch.items()
        ]
        sizes = dict.fromkeys((*text.sizes, *(size_name(n) for d in scratch.values() for dim in d
                                              for n in dim.names)))  # fmt: skip
        others = [code_name(a) for a in text.arrays if a not in results]
        names = (*others, *map(code_name, results), *sizes)
        text = replace(text, lines=(*made, *text.lines))
        name = self.function(f"_fill_few_{results[-1].strip('_')}", text, names)
        return f"{self.typed(name, text)}({', '.join(names)})"

    def typed(self, name: str, text: KernelText) -> str:
        """Return a kernel's name, or the call that finds the kernel for the dtype at hand."""
        if not singles(text.helpers) and not (self.analytic and twins(text.helpers)):
            return name
        return f"_typed({name}, dtype)"

    def choice(self, callee: str, large: KernelText, names: Sequence[str], past: Target) -> str:
        """Return which kernel is called: the one that streams what it writes, or `callee`."""
        self.streams = True
        streaming = self.function(f"_stream_{past.array.strip('_')}", large, names)
        run = dim_text(past.dims[-1]) if large.streams == "rows" else "0"
        streaming = self.typed(streaming, large)
        return f"_past({code_name(past.array)}, {run}, {callee}, {streaming})"

    def scatter(self, callee: str, kernel: Kernel, names: Sequence[str], array: str) -> str:
        """Return which kernel is called: the one that clears nothing, where there are zeros."""
        text = write_kernel(kernel, analytic=self.analytic, plain=self.plain, zeroed=array)
        name = self.function(f"_scatter_{array.strip('_')}", text, names)
        self.scatters[array] = is_steady(kernel.nodes, array)
        return f"{name} if zeroed else {callee}"

    def function(self, wish: str, text: KernelText, names: Sequence[str]) -> str:
        """Return what a kernel is called, having noted it; the same one for the same text."""
        plain = any("(" in re.sub(CASTS, "", line) for line in text.lines)
        decorator = "@sums" if any(" += " in x for x in text.lines) and not plain else "@loops"
        name = self.name(wish, _anonymous(names, "\n".join(text.lines)))
        if name not in self.functions:
            head = fold(f"def {name}({', '.join(names)}):")
            self.functions[name] = "\n".join((decorator, head, *map(fold, text.lines)))
        return name

    def name(self, wish: str, key: str) -> str:
        """Return the function name for a key, the same one for the same key."""
        if key not in self.names:
            name, number = wish, 1
            while name in self.functions:
                number += 1
                name = f"{wish}_{number}"
            self.names[key] = name
        return self.names[key]


def _anonymous(parameters: Sequence[str], body: str) -> str:
    """Return a kernel's text with parameters, loop variables and locals numbered."""
    own = {*parameters, *re.findall(r"^ *(?:for )?(\w+) (?:in|[-+*/]?=) ", body, re.MULTILINE)}
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        word = match[0]
        return numbers.setdefault(word, f"#{len(numbers)}") if word in own else word

    return re.sub(r"(?<![\w.])[^\W\d]\w*", number, f"{', '.join(parameters)}:\n{body}")


def _volume(dims: Sequence[Dim]) -> Dim:
    """Return the elements of one sample of an array."""
    total = ONE
    for dim in dims:
        total = total if dim == BATCH else total * dim
    return total


__all__ = ["KernelBook", "Run"]
