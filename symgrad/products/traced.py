"""Arrays that only remember what is done to them: a form made of them once is a plan.

Form over traced arrays -> Recorder -> Program;  arrays -> Program -> sums added to totals
What a form does follows from structure and sizes alone, never from entries. What two terms have in
common is computed once, factors that sums share are multiplied by once, and nothing is computed
before it is needed, nor kept longer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from symgrad.products.blas import product
from symgrad.products.rowwise import rowwise, spread_out

Compute = Callable[..., Any]
SHORT = 64
"""Entries in a row along which numpy should not repeat one number: it goes row by row."""


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """An array of known shape and dtype, by the number of its slot."""

    recorder: Recorder
    slot: int
    shape: tuple[int, ...]
    dtype: Any
    __array_ufunc__ = None
    """Without it numpy would multiply its own arrays by this one entry by entry."""

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of entries."""
        return prod(self.shape)

    def transpose(self, axes: Sequence[int]) -> Traced:
        """Return a view with the axes in another order."""
        order = tuple(axes)
        if order == tuple(range(self.ndim)):
            return self
        shape = tuple(self.shape[n] for n in order)
        return self._view(("transpose", order), lambda a: a.transpose(order), shape)

    def reshape(self, *shape: Any) -> Traced:
        """Return it with other axes."""
        wanted = tuple(int(n) for n in (shape[0] if isinstance(shape[0], Sequence) else shape))
        if wanted == self.shape:
            return self
        return self._view(("reshape", wanted), lambda a: a.reshape(wanted), wanted)

    def sum(self, axis: tuple[int, ...]) -> Traced:
        """Return its sums along some axes."""
        shape = tuple(n for k, n in enumerate(self.shape) if k not in axis)
        add: Compute = lambda a: np.asarray(a.sum(axis=axis))  # noqa: E731
        return self._made(("sum", axis), add, (self,), shape)

    def conj(self) -> Traced:
        """Return the complex conjugate."""
        return self._made(("conj",), np.conjugate, (self,), self.shape)

    def rows(self, label: int, size: int, axis: int) -> Traced:
        """Return the samples that the call is about; `label` says which of its pieces."""
        which = self.recorder.given(("rows", label), (), None)
        before = (slice(None),) * axis
        shape = (*self.shape[:axis], size, *self.shape[axis + 1 :])
        take: Compute = lambda a, some: a[(*before, some)]  # noqa: E731
        key = ("rows", axis, size)
        return self.recorder.step(key, take, (self.slot, which.slot), shape, self.dtype, view=True)

    def __getitem__(self, at: tuple[Any, ...]) -> Traced:
        key = ("at", *(self.recorder.constant(a).slot for a in at))
        shape = np.broadcast_shapes(*(np.shape(a) for a in at))
        return self._made(key, lambda a: a[at], (self,), shape)

    def __mul__(self, other: Any) -> Traced:
        second = self.recorder.of(other)
        shape = np.broadcast_shapes(self.shape, second.shape)
        dtype = np.result_type(self.dtype, second.dtype)
        return self.recorder.step(("mul",), np.multiply, (self.slot, second.slot), shape, dtype)

    __rmul__ = __mul__

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("a traced array has no entries")

    def __array_function__(self, function: Any, _: Any, args: Any, kwargs: Any) -> Any:
        if function is np.take:
            array, places, axis = args[0], args[1], kwargs["axis"]
            shape = (*array.shape[:axis], *np.shape(places), *array.shape[axis + 1 :])
            key = ("take", axis, self.recorder.constant(places).slot)
            return self._made(key, lambda a: np.take(a, places, axis=axis), (self,), shape)
        if function is np.einsum and len(args) == 3:
            codes, result = args[1:]
            shape = tuple(self.shape[codes.index(c)] for c in result)
            diagonal: Compute = lambda a: np.einsum(a, codes, result)  # noqa: E731
            return self._view(("diagonal", *codes, -1, *result), diagonal, shape)
        if function is np.einsum and len(args) == 5:
            x, first, y, second, result = args
            return self.recorder.rowwise(x, first, y, second, result)
        return NotImplemented

    def _view(self, key: Hashable, compute: Compute, shape: tuple[int, ...]) -> Traced:
        return self.recorder.step(key, compute, (self.slot,), shape, self.dtype, view=True)

    def _made(
        self, key: Hashable, compute: Compute, reads: Sequence[Traced], shape: tuple[int, ...]
    ) -> Traced:
        slots = tuple(r.slot for r in reads)
        return self.recorder.step(key, compute, slots, shape, self.dtype)


def as_array(value: Any) -> Any:
    """Return a number as an array; an array, traced or not, as it is."""
    return value if isinstance(value, Traced) else np.asarray(value)


def recorder_of(*arrays: Any) -> Recorder | None:
    """Return what remembers what is done to some arrays, None if none is traced."""
    return next((a.recorder for a in arrays if isinstance(a, Traced)), None)


@dataclass(frozen=True, slots=True)
class Step:
    """One array made of others; `view` says that it may lie in the first of them."""

    key: Hashable
    compute: Compute
    reads: tuple[int, ...]
    view: bool


@dataclass(slots=True)
class Recorder:
    """What is done to traced arrays; `inputs` are those given, `effects` what totals get.

    An effect adds an array, by its slot, to a view of a total; with `call` it calls that in place
    of `+=`. If the module that made the arrays is `compiled`, large sums go through kernels.
    """

    compiled: bool = False
    arrays: list[Traced] = field(default_factory=list)
    steps: dict[int, Step] = field(default_factory=dict)
    inputs: dict[Hashable, Traced] = field(default_factory=dict)
    constants: dict[int, tuple[Traced, Any]] = field(default_factory=dict)
    known: dict[Hashable, Traced] = field(default_factory=dict)
    sums: dict[Hashable, dict[tuple[int, ...], Traced]] = field(default_factory=dict)
    effects: list[tuple[int, int, Compute | None]] = field(default_factory=list)

    def given(self, name: Hashable, shape: Sequence[int], dtype: Any) -> Traced:
        """Return an array that every call gives anew."""
        if name not in self.inputs:
            self.inputs[name] = self._new(tuple(shape), dtype)
        return self.inputs[name]

    def constant(self, array: Any) -> Traced:
        """Return an array that is the same in every call."""
        if id(array) not in self.constants:
            found = np.asarray(array)
            self.constants[id(array)] = self._new(found.shape, found.dtype), array
        return self.constants[id(array)][0]

    def of(self, array: Any) -> Traced:
        """Return an array of numbers as a traced one."""
        return array if isinstance(array, Traced) else self.constant(array)

    def step(
        self,
        key: Hashable,
        compute: Compute,
        reads: tuple[int, ...],
        shape: tuple[int, ...],
        dtype: Any,
        *,
        view: bool = False,
    ) -> Traced:
        """Return what is made of others; the same as before if that was made of them before."""
        whole = (key, reads)
        if whole not in self.known:
            made = self._new(shape, dtype)
            self.known[whole] = made
            self.steps[made.slot] = Step(key, compute, reads, view)
        return self.known[whole]

    def matmul(self, left: Traced, right: Traced) -> Traced:
        """Return a product of matrices, or of stacks of them."""
        stack = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        shape = (*stack, left.shape[-2], right.shape[-1])
        dtype = np.result_type(left.dtype, right.dtype)
        multiply = product(left.shape, right.shape, dtype)
        return self.step(("matmul",), multiply, (left.slot, right.slot), shape, dtype)

    def rowwise(self, x: Any, first: Any, y: Any, second: Any, result: Any) -> Traced:
        """Return many short sums of products; of sums made before, where there are some."""
        one, two = self.of(x), self.of(y)
        number = {c: n for n, c in enumerate(dict.fromkeys((*first, *second)))}
        first, second, result = ([number[c] for c in codes] for codes in (first, second, result))
        sizes = dict(zip((*first, *second), (*one.shape, *two.shape), strict=True))
        before = ("rowwise", one.slot, two.slot, *first, -1, *second)
        for kept, sums in self.sums.get(before, {}).items():
            left = [c for c in kept if c in result]
            if left == result and len(kept) > len(left):
                return sums.sum(tuple(n for n, c in enumerate(kept) if c not in left))
        shape = tuple(sizes[c] for c in result)
        dtype = np.result_type(one.dtype, two.dtype)
        key = ("rowwise", *first, -1, *second, -1, *result)
        codes = tuple(first), tuple(second), tuple(result)
        compute = rowwise(*codes, sizes, kernels=self.compiled)
        made = self.step(key, compute, (one.slot, two.slot), shape, dtype)
        self.sums.setdefault(before, {})[codes[2]] = made
        return made

    def add(self, view: Traced, array: Any, call: Compute | None = None) -> None:
        """Remember that an array is added to a view of a total, by `call(view, array)` if given."""
        self.effects.append((view.slot, self.of(array).slot, call))

    def _new(self, shape: tuple[int, ...], dtype: Any) -> Traced:
        made = Traced(self, len(self.arrays), shape, dtype)
        self.arrays.append(made)
        return made

    # ------------------------------------------------------------ sums with common factors

    def program(self) -> Program:
        """Return the plan."""
        effects = list(self._gathered())
        order: list[tuple[int, Step]] = []
        done: set[int] = set()
        for number, (view, array, call) in enumerate(effects):
            for slot in (view, array):
                self._ahead(slot, done, order)
            order.append((-1 - number, Step("add", call or np.add, (view, array), view=False)))
        return _program(self, order)

    def _gathered(self) -> Iterator[tuple[int, int, Compute | None]]:
        """Yield the effects with those on one view added up as `a (b + c)` where they can be."""
        groups: dict[tuple[int, int], list[int]] = {}
        for number, (view, array, call) in enumerate(self.effects):
            groups.setdefault((view, -1 if call is None else number), []).append(array)
        calls = {n: e[2] for n, e in enumerate(self.effects)}
        for (view, number), terms in groups.items():
            if number >= 0:
                yield view, terms[0], calls[number]
                continue
            common: dict[int, list[int | None]] = {}
            for term in terms:
                large, small = self._split(term, self.arrays[view].shape)
                common.setdefault(large, []).append(small)
            for large, others in common.items():
                for term in self._factored(large, others):
                    yield view, term, None

    def _split(self, term: int, whole: tuple[int, ...]) -> tuple[int, int | None]:
        """Return a term as a large array and a smaller one that it is multiplied by, if any.

        All terms smaller than the whole have no large one, -1, in common.
        """
        if self.arrays[term].size < prod(whole):
            return -1, term
        step = self.steps.get(term)
        if step is not None and step.key == ("mul",):
            for large, small in (step.reads, step.reads[::-1]):
                if self.arrays[large].size > self.arrays[small].size:
                    return large, small
        return term, None

    def _factored(self, large: int, small: Sequence[int | None]) -> Iterator[int]:
        """Yield what is added: the large array times the sum of the smaller ones."""
        arrays = [self.arrays[s] for s in small if s is not None]
        ones = small.count(None)
        if not arrays:
            yield from [large] * ones
            return
        total = arrays[0]
        for other in arrays[1:]:
            shape = np.broadcast_shapes(total.shape, other.shape)
            if large < 0 and prod(shape) > max(total.size, other.size):
                yield total.slot
                total = other
                continue
            dtype = np.result_type(total.dtype, other.dtype)
            total = self.step(("sum of",), np.add, (total.slot, other.slot), shape, dtype)
        if large < 0:
            yield total.slot
            return
        if ones:
            number = total.dtype.type(ones)
            plus: Compute = lambda a: a + number  # noqa: E731
            total = self.step(("plus", ones), plus, (total.slot,), total.shape, total.dtype)
        yield (self.arrays[large] * total).slot

    def _ahead(self, slot: int, done: set[int], order: list[tuple[int, Step]]) -> None:
        """Append the steps that an array needs, and were not taken yet."""
        if slot in done or slot not in self.steps:
            return
        done.add(slot)
        for read in self.steps[slot].reads:
            self._ahead(read, done, order)
        order.append((slot, self.steps[slot]))


@dataclass(frozen=True, slots=True)
class Program:
    """Steps in order: what to call with which slots, where its result goes, what to let go.

    What is added in place goes to a last slot, which nobody reads. `inputs` are the slots of what
    is given.
    """

    steps: tuple[tuple[Compute, tuple[int, ...], int, tuple[int, ...]], ...]
    inputs: tuple[tuple[Hashable, int], ...]
    constants: tuple[tuple[int, Any], ...]
    size: int

    def run(self, given: Callable[[Any], Any]) -> None:
        """Take all steps; `given` returns an input by name."""
        slots: list[Any] = [None] * self.size
        for name, slot in self.inputs:
            slots[slot] = given(name)
        for slot, array in self.constants:
            slots[slot] = array
        for compute, reads, slot, last in self.steps:
            slots[slot] = compute(*[slots[n] for n in reads])
            for n in last:
                slots[n] = None


def _program(recorder: Recorder, order: Sequence[tuple[int, Step]]) -> Program:
    """Return the steps with what each may overwrite and let go."""
    last: dict[int, int] = {}
    roots: dict[int, int] = {}
    end: dict[int, int] = {}
    for place, (slot, step) in enumerate(order):
        roots[slot] = roots.get(step.reads[0], -1) if step.view else slot
        for read in step.reads:
            last[read] = place
            end[roots.get(read, -1)] = place
    used, nobody = set(last), len(recorder.arrays)
    steps = []
    for place, (slot, step) in enumerate(order):
        own = [n for n in step.reads if n in roots and end[roots[n]] == place and roots[n] >= 0]
        compute = _in_place(recorder, slot, step, own)
        gone = tuple(dict.fromkeys(n for n in step.reads if last[n] == place and n != slot))
        steps.append((compute, step.reads, slot if slot >= 0 else nobody, gone))
    inputs = tuple((n, t.slot) for n, t in recorder.inputs.items() if t.slot in used)
    constants = tuple((t.slot, a) for t, a in recorder.constants.values() if t.slot in used)
    return Program(tuple(steps), inputs, constants, nobody + 1)


def _in_place(recorder: Recorder, slot: int, step: Step, own: Sequence[int]) -> Compute:
    """Return how a step is taken: into an array that nobody needs any more, row by row or not."""
    if slot < 0:
        if step.compute is not np.add:
            return step.compute
        view, array = (recorder.arrays[n] for n in step.reads)
        wide = _widened(array.shape, view.shape)
        if wide is None:
            return lambda total, term: np.add(total, term, out=total)
        return lambda total, term: np.add(total, spread_out(term, wide), out=total)
    made = recorder.arrays[slot]
    if step.key != ("mul",) or not made.ndim:
        return step.compute
    x, y = (recorder.arrays[n] for n in step.reads)
    first = x.slot in own and x.shape == made.shape and x.dtype == made.dtype
    second = y.slot in own and y.shape == made.shape and y.dtype == made.dtype
    a, b = _widened(x.shape, made.shape), _widened(y.shape, made.shape)

    def multiply(left: Any, right: Any) -> Any:
        out = left if first else right if second else None
        left = left if a is None else spread_out(left, a)
        right = right if b is None else spread_out(right, b)
        return np.multiply(left, right, out=out)

    return multiply if first or second or a or b else step.compute


def _widened(shape: Sequence[int], whole: Sequence[int]) -> tuple[int, ...] | None:
    """Return the shape to repeat an array to before it meets a whole one, None for its own.

    Along the last axes numbers are repeated so that rows are long; along the others they are not.
    """
    if len(shape) != len(whole):
        return None
    end = len(shape)
    while end and shape[end - 1] == 1:
        end -= 1
    inner = prod(whole[end:])
    wide = (*shape[:end], *whole[end:])
    if not end or not 1 < inner < SHORT or 4 * prod(wide) > prod(whole):
        return None
    return wide


__all__ = ["Program", "Recorder", "Traced", "as_array", "recorder_of"]
