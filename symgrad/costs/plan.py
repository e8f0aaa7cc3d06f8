"""The plan of a compiled layer: what every form costs, in symbols and for given sizes.

Accounts, sizes -> Plan
Operations are additions, subtractions, multiplications and divisions of floating-point numbers; a
product `[m, k] @ [k, n]` has 2 m k n. Functions (exp, maximum, ...) are counted apart, one call
each; signs, comparisons and positions are free. Functions of whole matrices count as their textbook
algorithms do. Bytes are those of arrays: results are what the caller gets (with what a pullback or
a structured Jacobian keeps), workspace is all that a call allocates besides, one time after the
other, and the peak is the most that there is at once. Arrays given are not counted, unless a form
copies them; they are contiguous and of one dtype. Of functions of whole matrices the result is
counted, not the workspace of LAPACK.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from symgrad.costs.count import Count
from symgrad.costs.forms import Accounts, Spent
from symgrad.costs.matrices import matrices
from symgrad.dims import Dim
from symgrad.errors import ArgumentError, MissingKeyError, similar
from symgrad.form import Forms
from symgrad.options import open_sizes, sizes_of, whole
from symgrad.program import BATCH
from symgrad.syntax import Layer


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number as polynomials of the sizes, of which the largest counts, and its value.

    `value` is None where sizes are missing. Without `exact` the polynomials are a bound (data
    decide, or symbols do not), without `sure` the value is. Polynomials are exact for sizes of one
    and more; of workspace and peak, for two and more.
    """

    polynomials: tuple[Dim, ...]
    value: int | None
    exact: bool = True
    sure: bool = True

    def __str__(self) -> str:
        text = ", ".join(map(str, self.polynomials))
        text = text if len(self.polynomials) == 1 else f"max({text})"
        return text if self.exact else f"at most {text}"

    def __int__(self) -> int:
        if self.value is None:
            names = {n for p in self.polynomials for n in p.names}
            raise ArgumentError(
                f"{self} has no value: not all of {', '.join(sorted(names))} have a size",
                hint="give batch= and dims= to plan",
            )
        return self.value

    __index__ = __int__


@dataclass(frozen=True, slots=True)
class Cost:
    """What one form costs."""

    operations: Quantity
    calls: Quantity
    results: Quantity
    workspace: Quantity
    bytes: Quantity
    peak: Quantity

    def __str__(self) -> str:
        return "\n".join(f"{name:<11} {getattr(self, name)}" for name in WORDS)


WORDS = tuple(field.name for field in fields(Cost))
SHOWN = tuple(word for word in WORDS if word != "bytes")
"""What a table shows: bytes are results and workspace."""


def planned(
    forms: Forms,
    layer: Layer,
    wrt: Sequence[str],
    batch: int | None,
    dims: Mapping[str, Any] | None,
    dtype: Any,
) -> Plan:
    """Return the plan of a layer's forms.

    Raises ShapeError for a dim that the layer has not, ArgumentError for what is no size or dtype.
    """
    sizes = open_sizes(sizes_of(dims, layer), forms.program)
    samples = None if batch is None else whole(batch, "batch", 0)
    kind = _computable(dtype)
    accounts = Accounts(forms, wrt, kind.itemsize, _sizes(samples, sizes))
    return Plan(forms.program.name, accounts, samples, sizes, kind)


def _sizes(batch: int | None, dims: Mapping[str, int]) -> dict[str, int]:
    return dict(dims) | ({BATCH.names[0]: batch} if batch is not None else {})


def _computable(dtype: Any) -> np.dtype[Any]:
    """Return a dtype that modules compute with."""
    kinds = [np.dtype(k) for k in ("float32", "float64", "complex64", "complex128")]
    for kind in kinds:
        if dtype in (kind, kind.type, kind.name):
            return kind
    hint = f"use {', '.join(map(str, kinds))}"
    raise ArgumentError(f"dtype is {dtype!r}, with which nothing is computed", hint=hint)


class Plan(Mapping[str, Cost]):
    """What every form of a layer costs: form -> Cost; prints as a table."""

    def __init__(
        self, title: str, accounts: Accounts, batch: int | None, dims: Mapping[str, int], dtype: Any
    ) -> None:
        self.title = title
        self.batch = batch
        self.dims = dict(dims)
        self.dtype = dtype
        self.letter = letter(accounts)
        self._accounts = accounts
        self._sizes = _sizes(batch, dims)

    def __getitem__(self, name: str) -> Cost:
        if name not in self._accounts.names:
            near = similar(str(name), self._accounts.names)
            hint = f"did you mean {near}?" if near else f"forms are {', '.join(self)}"
            raise MissingKeyError(f"{self.title} has no form {name!r}", hint=hint)
        return self._cost(self._accounts.of(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._accounts.names)

    def __len__(self) -> int:
        return len(self._accounts.names)

    @property
    def matrices(self) -> dict[str, Quantity]:
        """The bytes of what products of structured Jacobians return, all outputs and θ together.

        Samples are taken in pieces there: besides the result they need a bounded workspace
        (`symgrad.products.tiles.WORKSPACE` bytes for each array of a piece).
        """
        return {name: self._bytes(size) for name, size in matrices(self._accounts).items()}

    def _cost(self, spent: Spent) -> Cost:
        self._sizes = self._accounts.sizes(self._sizes)
        workspace = spent.allocated - spent.results
        exact, peak_exact = spent.exact and spent.decided, spent.peak_exact and spent.decided
        return Cost(
            self._count(spent.operations, decided=spent.decided),
            self._count(spent.calls, decided=spent.decided),
            self._bytes(spent.results),
            self._bytes(workspace, exact=exact, merged=spent.merged),
            self._bytes(spent.allocated, exact=exact, merged=spent.merged),
            self._bytes(*spent.peaks, exact=peak_exact, merged=spent.merged),
        )

    def _count(self, count: Count, *, decided: bool) -> Quantity:
        polynomial, exact = count.symbols()
        value, sure = (None, exact)
        if self._known(*count.amounts, polynomial):
            value, sure = count.number(self._sizes)
        return Quantity((self._named(polynomial),), value, exact and decided, sure and decided)

    def _bytes(
        self, *sizes: Dim, exact: bool = True, merged: frozenset[Dim] = frozenset()
    ) -> Quantity:
        """Return bytes; an axis of length one among the `merged` ones may spare a copy."""
        named = tuple(self._named(size) for size in sizes)
        if not self._known(*sizes):
            return Quantity(named, None, exact, exact)
        spared = any(self._known(d) and d.evaluate(self._sizes) == 1 for d in merged)
        value = max(size.evaluate(self._sizes) for size in sizes)
        return Quantity(named, value, exact, exact and not spared)

    def _known(self, *dims: Dim) -> bool:
        return all(name in self._sizes for dim in dims for name in dim.names)

    def _named(self, dim: Dim) -> Dim:
        return dim.substitute({BATCH.names[0]: self.letter})

    def __str__(self) -> str:
        from symgrad.costs.table import text

        return text(self)

    __repr__ = __str__

    def __rich__(self) -> Any:
        from symgrad.costs.table import table

        return table(self)


def letter(accounts: Accounts) -> str:
    """Return what the batch is called in polynomials: B, unless a dim of the layer is."""
    taken = {n for a in accounts.forms.program.arrays for d in a.axes for n in d.names}
    name = "B"
    while name in taken:
        name += "_"
    return name


__all__ = ["SHOWN", "Cost", "Plan", "Quantity", "planned"]
