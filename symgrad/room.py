"""Whether memory holds what a call of a compiled layer needs, asked before the call runs.

arrays, form -> TooLargeError, or nothing
Small calls are known by a bound on the arrays of all forms; only for others the plan is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from symgrad.costs.forms import Accounts
from symgrad.costs.steps import volume
from symgrad.dims import ZERO, Dim
from symgrad.form import Forms
from symgrad.memory import HUGE, require
from symgrad.program import BATCH, Array
from symgrad.units import in_bytes

SAMPLES = BATCH.names[0]
REMEMBERED = 256
"""How many kinds of calls are known to be small."""
MARGIN = 4
"""How many times the arrays of all definitions a form may take: copies, temporary ones."""

INSTEAD = {
    "dense": "jacobian, whose parts are factors, or chunk= or out=",
    "jacobian": "jac.chunks(..., size=...), or vjp or jvp with chunk=",
    "pullback": "vjp with chunk=",
    "hessian": "H.sum(u) or H.hvp(u, tangents), or select fewer arrays",
}
CHUNK = "chunk=, the number of samples at a time"


@dataclass(slots=True)
class Room:
    """Knows what the forms of a layer need; `module` asks the platform what is free."""

    forms: Forms
    wrt: tuple[str, ...]
    module: Any
    _small: set[Any] = field(default_factory=set)
    _accounts: dict[int, Accounts] = field(default_factory=dict)
    _bound: Dim | None = None

    def accounts(self, item: int) -> Accounts:
        """Return the costs of all forms for numbers of so many bytes."""
        if item not in self._accounts:
            self._accounts[item] = Accounts(self.forms, self.wrt, item)
        return self._accounts[item]

    def require(self, form: str, given: Mapping[str, Any]) -> None:
        """Raise TooLargeError if a form needs more than is free for the arrays given."""
        declared = self.forms.program.arrays
        values = [given[a.name] for a in declared if a.name in given]
        if self.is_small(form, values):
            return
        sizes = sizes_of_shapes(declared, given)
        if sizes is None:
            return  # the door says what is wrong
        item = itemsize(given)
        need, results = self.bound(sizes, item), 0
        if need >= HUGE:
            need, results = self.needs(form, sizes, item)
            copied = sum(map(_converted, values))
            if need + copied >= HUGE:
                self._refuse(form, need + copied, results)
                return
            need += sum(map(_bytes, values))
        if need < HUGE:  # however arrays of these shapes lie
            if len(self._small) == REMEMBERED:
                self._small.clear()
            self._small.add((form, *_kinds(values)))

    def is_small(self, form: str, values: Iterable[Any]) -> bool:
        """Whether a call of a form with such arrays, in declared order, is known to be small."""
        return (form, *_kinds(values)) in self._small

    def needs(self, form: str, sizes: Mapping[str, int], item: int) -> tuple[int, int]:
        """Return the most bytes that a form takes at once, and those of its results."""
        name = "vjp" if form == "gradient" else form
        spent = self.accounts(item)
        if name not in spent.names:
            return 0, 0
        found = spent.of(name)
        if not found.decided:
            spent = Accounts(self.forms, self.wrt, item, sizes)
            found = spent.of(name)
        sizes = spent.sizes(sizes)
        return max(p.evaluate(sizes) for p in found.peaks), found.results.evaluate(sizes)

    def bound(self, sizes: Mapping[str, int], item: int) -> int:
        """Return bytes that no form exceeds."""
        if self._bound is None:
            self._bound = self._everything()
        return self._bound.evaluate(sizes) * item * MARGIN

    def _everything(self) -> Dim:
        """Return the elements of all arrays of all forms, dense Jacobians included."""
        forms, twice = self.forms, self.forms.curvature
        lists = [forms.factors, forms.vjp, forms.vjp_per_sample, forms.jvp]
        lists += [] if twice is None else [twice.factors, twice.hvp, twice.summed]
        made = [d for form in lists for d in form.definitions]
        made += [s.dense for s in forms.structured]
        made += [] if twice is None else [s.dense for s in twice.structured]
        own = [volume([i.dim for i in d.indices]) for d in made]
        own += [volume([BATCH, *a.axes] if a.batched else a.axes) for a in forms.program.arrays]
        return sum(own, ZERO)

    def _refuse(self, form: str, need: int, results: int) -> None:
        instead = INSTEAD.get(form, CHUNK)
        if form.startswith(("jac_", "hess_")):
            products = "vjp, jvp or jac.chunks(..., size=...)"
            products = products if form.startswith("jac_") else "hvp or hessian_sum"
            others = [n for n in self.accounts(8).names if n.startswith(f"{form}_")]
            instead = ", ".join((*others, products))
        what = f"{self.forms.program.name}.{form} (results of {in_bytes(results)})"
        require(self.module, need, what, instead)


def sizes_of_shapes(arrays: Sequence[Array], given: Mapping[str, Any]) -> dict[str, int] | None:
    """Return the sizes of all dims and of the batch, None where shapes do not tell them."""
    axes: list[tuple[Dim, int]] = []
    for array in arrays:
        if array.name in given:
            shape = _shape(given[array.name])
            if shape is None:
                return None
            dims = (BATCH, *array.axes) if len(shape) > len(array.axes) else array.axes
            if len(dims) != len(shape):
                return None
            axes += zip(dims, shape, strict=True)
    known: dict[str, int] = {SAMPLES: 1}
    for _ in axes:
        for dim, length in axes:
            _solve(dim, length, known)
    wanted = {name for dim, _ in axes for name in dim.names}
    return known if wanted <= known.keys() else None


def _solve(dim: Dim, length: int, known: dict[str, int]) -> None:
    """Learn the one size that an axis leaves open, if it stands there linearly."""
    open_ = [n for n in dim.names if n not in known or n == SAMPLES]
    if len(open_) != 1:
        return
    (name,) = open_
    rest = dim.substitute({**known, name: 0})
    factor = (dim.substitute({n: s for n, s in known.items() if n != name}) - rest).divided_by(
        Dim.of(name)
    )
    if factor is not None and factor.constant and rest.constant is not None:
        known[name] = (length - rest.constant) // factor.constant


def itemsize(given: Mapping[str, Any]) -> int:
    """Return the bytes of a number that a call computes with."""
    floats = [v.dtype.itemsize for v in given.values() if _is_float(v)]
    return max(floats, default=8)


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "fc"


def _kinds(values: Iterable[Any]) -> list[Any]:
    """Return what of each array says how much a call needs."""
    try:
        return [(value.shape, value.dtype.char) for value in values]
    except AttributeError:  # some are no arrays of numpy
        return [(_shape(v), v.dtype.char if isinstance(v, np.ndarray) else "") for v in values]


def _shape(value: Any) -> tuple[int, ...] | None:
    """Return a shape, None for what numpy cannot read."""
    try:
        return tuple(np.shape(value))
    except (RuntimeError, TypeError, ValueError):
        return None


def _converted(value: Any) -> int:
    """Return the bytes that a door needs to make an array contiguous."""
    return _bytes(value) if isinstance(value, np.ndarray) and not value.flags.c_contiguous else 0


def _bytes(value: Any) -> int:
    """Return the bytes of an array, 0 for what is none."""
    return int(value.nbytes) if isinstance(value, np.ndarray) else 0


__all__ = ["Room", "itemsize", "sizes_of_shapes"]
