"""Forms in pieces along the batch: `chunk=` samples at a time, or as many as a limit allows.

method -> in_pieces -> method
Every piece is a call of its own, with what it is given of the samples. Rows that belong to a sample
are those of that call; what is a sum over samples is added up piece after piece.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from symgrad.batch import inward, outward
from symgrad.errors import ArgumentError, TooLargeError
from symgrad.generation.publics import own_name
from symgrad.memory import HUGE, require
from symgrad.options import whole
from symgrad.products.rows import Rows
from symgrad.products.tiles import pieces
from symgrad.room import SAMPLES, itemsize, sizes_of_shapes
from symgrad.units import in_bytes

if TYPE_CHECKING:
    from symgrad.compiled import Compiled
    from symgrad.jacobians import Jacobians

Method = TypeVar("Method", bound=Callable[..., Any])

UNITS = {
    **{unit: 1000**n for n, unit in enumerate(("B", "KB", "MB", "GB", "TB"))},
    **{unit: 1024**n for n, unit in enumerate(("B", "KIB", "MIB", "GIB", "TIB"))},
}
EXTRA = {
    "vjp": ("u",),
    "vjp_per_sample": ("u",),
    "jvp": ("tangents",),
    "hvp": ("u", "tangents"),
    "hessian_sum": ("u",),
}
OPTIONS = {"gradient": ("sum", "per_sample")}


def in_pieces(method: Method) -> Method:
    """Return a method of a compiled layer that takes `chunk=` and `memory_limit=` too.

    A form `jac_θ` is given by name before the arrays.
    """

    @wraps(method)
    def call(self: Compiled, /, *args: Any, **kwargs: Any) -> Any:
        words = self.words
        if words["chunk"] not in kwargs and words["memory_limit"] not in kwargs:
            return method(self, *args, **kwargs)
        asked = {word: kwargs.pop(words[word], None) for word in LIMITS}
        if all(value is None for value in asked.values()):
            return method(self, *args, **kwargs)
        named = method.__name__ == "_form"
        form, rest = (args[0], args[1:]) if named else (method.__name__, args)

        first = replace(self, batch_axis=0) if self.batch_axis else self

        def run(*given: Any, **keywords: Any) -> Any:
            return method(first, *((form,) if named else ()), *given, **keywords)

        out = kwargs.get(words["out"])
        call = Pieces.of(self, form, rest, kwargs, run)
        found = call.turned(call.all(**asked))
        if isinstance(out, Mapping):
            return {**found, **{name: array for name, array in out.items() if array is not None}}
        return found if out is None else out

    return cast("Method", call)


LIMITS = ("chunk", "memory_limit")


@dataclass(frozen=True, slots=True)
class Pieces:
    """A call of a form that is to be done in pieces; `run` does it for some samples.

    `arrays` are in declared order, `extra` stands behind them, `keywords` holds consts, `options`
    what is for the form itself. The batch axis is first in all of them.
    """

    layer: Compiled
    form: str
    arrays: Mapping[str, Any]
    extra: Sequence[Any]
    keywords: Mapping[str, Any]
    options: Mapping[str, Any]
    run: Callable[..., Any]

    @staticmethod
    def of(
        layer: Compiled, form: str, args: Sequence[Any], kwargs: dict[str, Any], run: Any
    ) -> Pieces:
        """Return a call as it was given."""
        declared = layer.forms.program.arrays
        words = (layer.words["out"], *OPTIONS.get(form, ()))
        options = {w: value for w in words if (value := kwargs.pop(w, None)) is not None}
        found, keywords, extra = layer._bind(form, args, kwargs, EXTRA.get(form, ()), room=False)
        names = [a.name for a in declared if a.default is None]
        arrays = dict(zip(names, found, strict=True))
        turn = layer.turn
        extra = [turn.tangents(x) if isinstance(x, Mapping) else turn.vectors(x) for x in extra]
        if words[0] in options and layer.batch_axis:
            options[words[0]] = _over(options[words[0]], lambda x: inward(x, (0,), turn.axis))
        call = Pieces(layer, form, arrays, extra, keywords, options, run)
        batched = {a.name for a in declared if a.batched}
        try:
            read = {n: np.asarray(v) if n in batched else v for n, v in arrays.items()}
        except (RuntimeError, TypeError, ValueError):
            call.whole()  # says what is wrong
            raise
        return replace(call, arrays=read)

    @property
    def where(self) -> str:
        """What messages call it."""
        return f"{self.layer.name}.{self.form}"

    @property
    def out(self) -> str:
        """The word for arrays to fill."""
        return str(self.layer.words["out"])

    @property
    def count(self) -> int | None:
        """The number of samples; None where one was given without a batch axis, or none can be."""
        for array in self.layer.forms.program.arrays:
            if array.batched:
                shape = np.shape(self.arrays[array.name])
                return shape[0] if len(shape) == len(array.axes) + 1 else None
        return None

    def all(self, chunk: Any, memory_limit: Any) -> Any:
        """Return what the form returns for all samples."""
        if chunk is not None and memory_limit is not None:
            raise ArgumentError("give chunk= or memory_limit=, not both")
        if self.form.rstrip("_").endswith("_factors"):
            raise ArgumentError(f"{self.where} has no pieces: factors are what it is made of")
        size = None if chunk is None else whole(chunk, "chunk", 1)
        limit = None if memory_limit is None else bytes_of(memory_limit)
        count, total = self.count, self.options.get(self.out)
        if count is None or not self._fits(count):
            return self.whole()
        if size is None:
            size = self._within(cast("int", limit), count)
        if total is None:
            self._require_results(count)
        for rows in pieces(count, size):
            total = self._added(total, self._piece(rows, total), rows, count)
        return total

    def whole(self) -> Any:
        """Return the form of all samples at once."""
        return self.run(*self.arrays.values(), *self.extra, **self.keywords, **self.options)

    def each(self, count: int, size: int) -> Iterator[tuple[slice, Any]]:
        """Yield the form of every piece with the rows it is for."""
        for rows in pieces(count, size):
            yield slice(rows.start, rows.stop), self._piece(rows, None)

    def turned(self, found: Any) -> Any:
        """Return a result with the batch axis where callers have it."""
        turn = self.layer.turn
        if isinstance(found, Mapping) and self.form != "dense":
            return turn.second(found) if self.form == "hessian_sum" else turn.gradients(found)
        if not self._is_dense:
            return turn.outputs(found)
        if not turn.axis or self.count is None:
            return found
        return _over(found, lambda x: outward(x, (0,), turn.axis))

    # ------------------------------------------------------------ one piece

    def _fits(self, count: int) -> bool:
        """Whether everything that has samples has as many; if not, the form says what is wrong."""
        batched = [a.name for a in self.layer.forms.program.arrays if a.batched]
        found = [self.arrays[n] for n in batched]
        filled = self.options.get(self.out)
        if isinstance(filled, Mapping):
            arrays = [array for array in filled.values() if array is not None]
            if not all(isinstance(array, np.ndarray) for array in arrays):
                return False
            found, filled = [*found, *arrays], None
        for given in (*self.extra, filled):
            if isinstance(given, Mapping):
                found += [v for n, v in given.items() if n in batched]
            elif given is not None:
                found += given if isinstance(given, (tuple, list)) and self._several else [given]
        return all(np.ndim(v) and np.shape(v)[0] == count for v in found)

    @property
    def _is_dense(self) -> bool:
        """Whether results are Jacobians, which have a row for each sample and may be filled."""
        return self.form == "dense" or self.form.startswith("jac_")

    @property
    def _several(self) -> bool:
        return len(self.layer.forms.program.outputs) > 1

    def _piece(self, rows: Rows, total: Any) -> Any:
        """Return the form of some samples; into `total` where that takes an array to fill."""
        batched = {a.name for a in self.layer.forms.program.arrays if a.batched}
        arrays = [rows.of(v) if n in batched else v for n, v in self.arrays.items()]
        extra = [self._part(given, rows, batched) for given in self.extra]
        options = dict(self.options)
        if total is not None and self._is_dense:
            options[self.out] = _over(total, rows.of)
        return self.run(*arrays, *extra, **self.keywords, **options)

    def _part(self, given: Any, rows: Rows, batched: set[str]) -> Any:
        """Return the samples' part of a vector, of one for each output, or of tangents."""
        if isinstance(given, Mapping):
            return {n: rows.of(np.asarray(v)) if n in batched else v for n, v in given.items()}
        if self._several:
            return tuple(rows.of(np.asarray(v)) for v in given)
        return rows.of(np.asarray(given))

    # ------------------------------------------------------------ all pieces

    def _added(self, total: Any, found: Any, rows: Rows, count: int) -> Any:
        """Return the result with one more piece: sums are added to, rows are put in their place."""
        if isinstance(found, tuple):
            parts = total if total is not None else (None,) * len(found)
            return tuple(
                self._placed(t, f, rows, count) for t, f in zip(parts, found, strict=True)
            )
        if not isinstance(found, Mapping):
            return self._placed(total, found, rows, count)
        parts = dict.fromkeys(found) | (total or {})
        result: dict[Any, Any] = {}
        for key, value in found.items():
            if self._is_apart(key):
                result[key] = self._placed(parts[key], value, rows, count)
            elif isinstance(key, tuple) and key[::-1] in result and key != key[::-1]:
                result[key] = value if parts[key] is None else parts[key]  # a view: it is added to
            else:
                result[key] = _sum(parts[key], value)
        return result

    def _is_apart(self, key: Any) -> bool:
        """Whether the gradient by an array, or by a pair of them, has a row for each sample."""
        if self.form in ("dense", "vjp_per_sample") or self.options.get("per_sample"):
            return True
        names = key if isinstance(key, tuple) else (key,)
        return any(a.batched for a in self.layer.forms.program.arrays if a.name in names)

    def _placed(self, total: Any, found: Any, rows: Rows, count: int) -> Any:
        """Return an array of all samples in which some are filled in."""
        if total is None:
            if rows.stop - rows.start == count:
                return found
            total = np.empty((count, *found.shape[1:]), found.dtype)
        place = rows.of(total)
        if not np.shares_memory(place, found):
            place[...] = found
        return total

    # ------------------------------------------------------------ memory

    def _known(self, count: int) -> dict[str, int]:
        sizes = sizes_of_shapes(self.layer.forms.program.arrays, self.arrays) or {}
        return {**sizes, SAMPLES: count}

    def _require_results(self, count: int) -> None:
        """Refuse results of all samples that memory cannot hold."""
        room, sizes, item = self.layer.room, self._known(count), itemsize(self.arrays)
        if room.bound(sizes, item) > HUGE:
            _, results = room.needs(self.form, sizes, item)
            what = f"{self.where}: the result of all samples"
            require(self.layer.module, results, what, "vjp or jvp, or jac.chunks(..., size=...)")

    def _within(self, limit: int, count: int) -> int:
        """Return how many samples at a time take no more than a limit, results included.

        Raises TooLargeError where one sample takes more.
        """
        room, item = self.layer.room, itemsize(self.arrays)
        _, results = room.needs(self.form, self._known(count), item)

        def need(size: int) -> int:
            return results + room.needs(self.form, self._known(size), item)[0]

        low, high = 0, max(count, 1)
        if need(high) - results <= limit:
            return high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if need(middle) <= limit else (low, middle)
        if not low:
            raise TooLargeError(
                f"{self.where} takes {in_bytes(need(1))} with one sample at a time, "
                f"more than memory_limit, {in_bytes(limit)}",
                hint="give a larger limit, or a form whose results are smaller: vjp, jvp",
            )
        return low


def _over(arrays: Any, change: Callable[[Any], Any]) -> Any:
    """Return one array changed, or each of several; what is None stays None."""
    if isinstance(arrays, Mapping):
        return {name: a if a is None else change(a) for name, a in arrays.items()}
    if isinstance(arrays, (tuple, list)):
        return tuple(map(change, arrays))
    return change(arrays)


def _sum(total: Any, found: Any) -> Any:
    """Return a sum with one more piece, in place."""
    if total is None:
        return found
    total += found
    return total


def bytes_of(limit: Any) -> int:
    """Return a number of bytes: a whole number, or a text like "2GB" or "512 MiB".

    Raises ArgumentError for anything else.
    """
    if not isinstance(limit, str):
        return whole(limit, "memory_limit", 1)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", limit)
    if found is None or found[2].upper() not in UNITS:
        hint = 'write it like "2GB", "512 MiB" or 2_000_000_000'
        raise ArgumentError(f"memory_limit is {limit!r}, which is no number of bytes", hint=hint)
    return int(float(found[1]) * UNITS[found[2].upper()])


def chunks(
    layer: Compiled, args: Sequence[Any], kwargs: dict[str, Any]
) -> Iterator[tuple[slice, Jacobians]]:
    """Return an iterator over the Jacobians of `size` samples at a time, each with its rows."""
    word = own_name("size", [a.name for a in layer.forms.program.arrays])
    if word not in kwargs:
        hint = f"as in chunks(x, W, b, {word}=64)"
        raise ArgumentError(f"{layer.name}.chunks: {word} is missing", hint=hint)
    size = whole(kwargs.pop(word), word, 1)
    batched = [a.batched for a in layer.forms.program.arrays if a.default is None]
    axis = layer.batch_axis

    def run(*arrays: Any, **consts: Any) -> Jacobians:
        given = zip(arrays, batched, strict=True)
        own = [outward(x, (0,), axis) if has and axis else x for x, has in given]
        return layer.jacobian(*own, **consts)

    call = Pieces.of(layer, "chunks", args, kwargs, run)
    count = call.count
    if count is None:
        return iter([(slice(None), call.whole())])
    return call.each(count, size)
