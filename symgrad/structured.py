"""Jacobians as factors: every product is taken with the factors, nothing dense until asked for.

One forward pass -> Jacobians -> arrays
A product form is an einsum over the factors; a delta renames an axis, so zeros cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symgrad import build as building
from symgrad.algebra.radix import in_order, number_of
from symgrad.errors import ArgumentError, ShapeError
from symgrad.form import FactoredTerm, Structured
from symgrad.generation.captions import Caption
from symgrad.memory import within_memory
from symgrad.program import BATCH, Affine, Delta, Index

Values = NDArray[Any]
Key = Any
Pieces = tuple[dict[Index, tuple[Index, ...]], list[Values], list[tuple[Index, ...]]]
"""What deltas make of axes (others, or their digits), factor arrays, and the axes of each."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What one forward pass left: checked arrays, sizes, and all factor arrays by name."""

    module: ModuleType
    arrays: Any
    sizes: Mapping[str, int]
    size_tuple: tuple[int, ...]
    dtype: Any
    single: bool
    values: Mapping[str, Any]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the text of the module in its place."""
        rest = (getattr(self, name) for name in self.__slots__ if name != "module")
        return _again, (building.text_of(self.module), Path(str(self.module.__file__)), *rest)

    def __deepcopy__(self, memo: dict[int, Any]) -> Pass:
        copies = {n: deepcopy(getattr(self, n), memo) for n in self.__slots__ if n != "module"}
        return Pass(self.module, **copies)


def _again(source: str, path: Path, *rest: Any) -> Pass:
    """Return a pass that was pickled."""
    return Pass(building.again(source, path)[0], *rest)


class Block:
    """The Jacobian of one output with respect to one array, `[B, *out, *p]`, as factors.

    Without a batch axis where a single sample was given or the layer has no inputs.
    """

    def __init__(
        self,
        done: Pass,
        structured: Structured,
        words: Caption,
        name: str,
        batched: bool,
        is_input: bool,
    ) -> None:
        self._done = done
        self._structured = structured
        self._words = words
        self._name = name
        self._has_batch = batched
        self._is_input = is_input

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the dense array."""
        jacobian = self._structured.jacobian
        own = tuple(self._size(i) for i in (*jacobian.out, *jacobian.theta))
        return own if self._done.single or not self._has_batch else (self._batch, *own)

    @property
    def ndim(self) -> int:
        """The number of axes of the dense array."""
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        """The dtype of all its arrays."""
        return self._done.dtype

    @property
    def structure(self) -> str:
        """What is zero and why: `delta(i, j) * C[b, i, k]`."""
        return self._words.structure

    @property
    def formula(self) -> str:
        """The sum of products of `factors()` that rebuilds the dense array."""
        return self._words.formula

    @property
    def axes(self) -> tuple[str, ...]:
        """The letters that structure and formula use for the axes of the dense array."""
        return self._words.axes[1:] if self._done.single and self._has_batch else self._words.axes

    @property
    def _title(self) -> str:
        jacobian = self._structured.jacobian
        return f"d{jacobian.output}/d{jacobian.parameter}"

    def __repr__(self) -> str:
        axes = ", ".join(self.axes)
        return f"{self._title}[{axes}] of shape {self.shape} = {self.formula}"

    def dense(self, out: Values | None = None) -> Values:
        """Return the array `[B, *out, *p]`, written into `out` if it is given.

        Raises ShapeError or ArgumentError if `out` does not fit, TooLargeError if memory cannot
        hold the array.
        """
        return self._expand("dense", out)

    def compact(self) -> Values:
        """Return the entries that are not structurally zero; the dense array if there are none."""
        kind = "dense" if self._structured.compact is None else "compact"
        return self._expand(kind, None)

    def factors(self) -> dict[str, Values]:
        """Return the factor arrays by the names that `formula` uses.

        They are what this Jacobian is made of, not copies: copy them before writing into them.
        """
        found = {}
        for term in self._structured.terms:
            for factor in term.factors:
                if factor.array is None:
                    shape = tuple(self._size(i) for i in factor.indices)
                    array = np.broadcast_to(np.ones((), self._done.dtype), shape)
                else:
                    array = np.asarray(self._done.values[factor.array])
                    kept = tuple(
                        None if i in factor.spread else slice(None) for i in factor.indices
                    )
                    shape = tuple(self._size(i) for i in factor.indices)
                    array = np.broadcast_to(array[kept], shape) if factor.spread else array
                has_batch = any(i.dim == BATCH for i in factor.indices)
                found[factor.label] = array[0] if has_batch and self._done.single else array
        for lookup in self._structured.positions:
            array = np.asarray(self._done.values[lookup.array])
            first = lookup.at[0] if lookup.at else None
            batched = (
                isinstance(first, Affine) and first.bare is not None and first.bare.dim == BATCH
            )
            found[lookup.array] = array[0] if batched and self._done.single else array
        return found

    def __getitem__(self, key: object) -> Values:
        raise ArgumentError(
            f"{self._title} is structured and has no entries to index",
            hint="make an array of it first: .dense()[...], or np.asarray(...)",
        )

    __iter__ = None
    """Without it Python would iterate by `__getitem__`."""

    def __getattr__(self, name: str) -> Any:
        message = f"a structured Jacobian has no {name!r}"
        if not name.startswith("_") and hasattr(np.ndarray, name):
            message += f"; an array has: .dense().{name}, or np.asarray(...).{name}"
        raise AttributeError(message)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        if copy is False:
            raise ValueError("a structured Jacobian becomes an array only by making one")
        dense = np.asarray(self.dense())  # of one sample of scalars it is a number
        return dense if dtype is None else dense.astype(dtype, copy=False)

    @within_memory
    def jvp(self, v: Any) -> Values:
        """Return J v: `[*p]` (inputs: `[B, *in]`) to `[B, *out]`."""
        jacobian = self._structured.jacobian
        tangent = self._vector("v", v, jacobian.theta, self._is_input)
        labels = (*((self._b,) if self._is_input else ()), *jacobian.theta)
        out = (*((self._b,) if self._has_batch else ()), *jacobian.out)
        return self._leave(self._contract(tangent, labels, out))

    @within_memory
    def vjp(self, u: Any) -> Values:
        """Return Σ_b Σ_out u · J: `[B, *out]` to `[*p]`; inputs keep their batch axis."""
        batch = (self._b,) if self._is_input else ()
        result = self._back(u, batch)
        return result[0] if self._is_input and self._done.single else result

    @within_memory
    def per_sample_vjp(self, u: Any) -> Values:
        """Return Σ_out u · J for every sample: `[B, *out]` to `[B, *p]`."""
        return self._leave(self._back(u, (self._b,) if self._has_batch else ()))

    @within_memory
    def norm(self) -> Values:
        """Return the Frobenius norm for every sample, `[B]`."""
        batch = (self._b,) if self._has_batch else ()
        terms = self._structured.terms
        if self._awkward or len(terms) > 1:
            dense = self._whole()
            axes = tuple(range(len(batch), dense.ndim))
            return self._leave(np.sqrt(np.sum(_squared(dense), axis=axes)))
        total = np.zeros([self._size(i) for i in batch], np.empty(0, self._done.dtype).real.dtype)
        if terms:
            names, operands, labels = self._operands(terms[0])
            squares = [_squared(o) for o in operands]
            everything = (*batch, *self._structured.jacobian.out, *self._structured.jacobian.theta)
            total = self._einsum(names, squares, labels, batch, everything)
        return self._leave(np.sqrt(total))

    # ------------------------------------------------------------ einsum over factors

    @property
    def _b(self) -> Index:
        return _BATCH_INDEX

    @property
    def _batch(self) -> int:
        return self._done.sizes["#B"]

    def _size(self, index: Index) -> int:
        return index.dim.evaluate(self._done.sizes)

    @property
    def _awkward(self) -> bool:
        """Whether a delta is no tie of two axes and no split: products use the dense array."""
        out = set(self._structured.jacobian.out)
        for term in self._structured.terms:
            seen: set[Index] = set()
            for delta in term.deltas:
                number = self._digits(delta)
                if number is not None and not seen & {number[0], *number[1]}:
                    seen |= {number[0], *number[1]}
                    continue
                ends = [p.bare for p in (delta.left, delta.right)]
                if None in ends or seen & set(ends) or set(ends) <= out or not set(ends) & out:
                    return True
                if ends[0] is not None and ends[1] is not None and ends[0].dim != ends[1].dim:
                    return True
                seen |= {e for e in ends if e is not None}
        return False

    def _operands(self, term: FactoredTerm) -> Pieces:
        """Return what deltas make of axes, the factor arrays and their axes."""
        rename: dict[Index, tuple[Index, ...]] = {}
        out = set(self._structured.jacobian.out)
        for delta in term.deltas:
            number = self._digits(delta)
            if number is not None:
                rename[number[0]] = number[1]
                continue
            ends = [p.bare for p in (delta.left, delta.right) if isinstance(p, Affine) and p.bare]
            if len(ends) == 2:
                kept, gone = (ends[0], ends[1]) if ends[0] in out else (ends[1], ends[0])
                rename[gone] = (kept,)
        operands, labels = [], []
        for factor in term.factors:
            axes = tuple(self._b if i.dim == BATCH else i for i in factor.own)
            if factor.array is None:
                shape = tuple(self._size(i) for i in axes)
                operands.append(np.broadcast_to(np.ones((), self._done.dtype), shape))
            else:
                operands.append(np.asarray(self._done.values[factor.array]))
            labels.append(axes)
        return rename, operands, labels

    def _digits(self, delta: Delta) -> tuple[Index, tuple[Index, ...]] | None:
        """Return the axis on one side whose digits are axes on the other, and those in order."""
        number = number_of(delta)
        if number is None:
            return None
        jacobian = self._structured.jacobian
        axes, ours, theirs = in_order(number[1]), set(jacobian.out), set(jacobian.theta)
        if number[0] in ours:
            ours, theirs = theirs, ours
        return (number[0], axes) if number[0] in theirs and set(axes) <= ours else None

    def _einsum(
        self,
        rename: Mapping[Index, tuple[Index, ...]],
        operands: Sequence[Values],
        labels: Sequence[tuple[Index, ...]],
        result: Sequence[Index],
        summed: Sequence[Index] = (),
    ) -> Values:
        """Contract; axes of `result` or `summed` that no operand has are supplied as ones."""
        numbers: dict[Index, int] = {}

        def renamed(axes: Sequence[Index]) -> list[Index]:
            return [new for i in axes for new in rename.get(i, (i,))]

        def number(index: Index) -> int:
            return numbers.setdefault(index, len(numbers))

        arguments: list[Any] = []
        present: set[int] = set()
        for operand, axes in zip(operands, labels, strict=True):
            own = renamed(axes)
            codes = [number(i) for i in own]
            present |= set(codes)
            if len(own) != len(axes):
                operand = operand.reshape([self._size(i) for i in own])
            arguments += [operand, codes]
        for index in renamed((*result, *summed)):
            if number(index) not in present:
                present.add(number(index))
                arguments += [np.ones(self._size(index), self._done.dtype), [number(index)]]
        if not arguments:
            return np.ones((), self._done.dtype)
        found = np.einsum(*arguments, [number(i) for i in renamed(result)], optimize=True)
        return np.asarray(found).reshape([self._size(i) for i in result])

    def _contract(
        self, vector: Values, vector_axes: Sequence[Index], result: Sequence[Index]
    ) -> Values:
        """Return the sum over terms of the einsum with one vector."""
        jacobian = self._structured.jacobian
        batch = (self._b,) if self._has_batch else ()
        everything = (*batch, *jacobian.out, *jacobian.theta)
        if self._awkward:
            pieces: list[Pieces] = [({}, [self._whole()], [everything])]
        else:
            pieces = [self._operands(t) for t in self._structured.terms]
        total = np.zeros([self._size(i) for i in result], self._done.dtype)
        for rename, operands, labels in pieces:
            total = total + self._einsum(
                rename, [*operands, vector], [*labels, tuple(vector_axes)], result, everything
            )
        return total

    def _back(self, u: Any, batch: tuple[Index, ...]) -> Values:
        jacobian = self._structured.jacobian
        cotangent = self._vector("u", u, jacobian.out, self._has_batch)
        axes = (*((self._b,) if self._has_batch else ()), *jacobian.out)
        return self._contract(cotangent, axes, (*batch, *jacobian.theta))

    def _vector(self, name: str, value: Any, axes: Sequence[Index], batched: bool) -> Values:
        """Return a checked vector with its batch axis."""
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise ArgumentError(f"{self._name}: {name} is no array: {error}") from None
        if array.dtype.kind not in ("fiubc" if self._done.dtype.kind == "c" else "fiub"):
            wanted = "real numbers, as the arrays were" if array.dtype.kind == "c" else "numbers"
            raise ArgumentError(f"{self._name}: {name} has dtype {array.dtype}, expected {wanted}")
        own = tuple(self._size(i) for i in axes)
        shape = (self._batch, *own) if batched and not self._done.single else own
        if array.shape != shape:
            raise ShapeError(f"{self._name}: {name} has shape {array.shape}, expected {shape}")
        array = array.astype(self._done.dtype, copy=False)
        return array[np.newaxis] if batched and self._done.single else array

    def _leave(self, array: Values) -> Values:
        """Take the batch axis off again where one sample was given."""
        return array[0] if self._has_batch and self._done.single else array

    def _whole(self) -> Values:
        """Return the dense array with its batch axis."""
        dense = self.dense()
        return dense[np.newaxis] if self._has_batch and self._done.single else dense

    def _expand(self, kind: str, out: Values | None) -> Values:
        done = self._done
        driver = getattr(done.module, f"_{kind}_{self._structured.key}")
        result: Values = driver(
            done.arrays, done.size_tuple, done.dtype, done.values, done.single, out
        )
        return result


def _squared(array: Values) -> Values:
    """Return |a|² of every element; a² for real ones."""
    if array.dtype.kind != "c":
        return array * array
    return np.asarray(array.real * array.real + array.imag * array.imag)


_BATCH_INDEX = Index("b", BATCH, 0)
