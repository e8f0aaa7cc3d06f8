"""One call's arrays, evaluated when something reads them; products by drivers without factors.

Checked arrays -> Evaluation: Mapping of arrays;  tangents -> outputs;  vectors -> gradients
Products with J and Jᵀ by turns need no factors where a layer has several outputs: tangents go
forwards, gradients backwards, each in about the time of a forward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from symgrad.form import Form, Forms
from symgrad.program import BATCH, Index


class Later:
    """A value that is computed when it is asked for, once."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._made: list[Any] = []

    def get(self) -> Any:
        """Return the value."""
        if not self._made:
            self._made = [self._make()]
        return self._made[0]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the value."""
        return _now, (self.get(),)


def _now(value: Any) -> Later:
    found = Later(lambda: value)
    found.get()
    return found


@dataclass(slots=True)
class Ways:
    """What drivers and factors cost, by the sizes of a call, and which arrays drivers take."""

    forms: Forms
    known: dict[tuple[int, ...], bool] = field(default_factory=dict)
    shapes: dict[tuple[int, ...], dict[str, tuple[int, ...]]] = field(default_factory=dict)

    def by_drivers(self, key: tuple[int, ...], sizes: Mapping[str, int]) -> bool:
        """Whether one product with Jᵀ J takes fewer multiplications by drivers.

        Both are counted from nothing, whatever a call has evaluated before: the way, and with it
        the rounding, depends on sizes alone.
        """
        found = self.known.get(key)
        if found is None:
            forms = self.forms
            driven = sum(_multiplications(f, sizes) for f in (forms.jvp, forms.vjp))
            factored = _multiplications(forms.factors, sizes)
            for one in forms.structured:
                theta = _entries(one.jacobian.axes, sizes) * sizes.get("#B", 1)
                for term in one.terms:
                    read = sum(_entries(f.own, sizes) for f in term.factors if f.array)
                    factored += 2 * (read + theta)
            found = driven < factored
            self.known[key] = found
        return found

    @property
    def whole(self) -> bool:
        """Whether every output has Jacobians by all of the arrays that are selected, whole ones."""
        forms = self.forms
        found = {(s.jacobian.output, s.jacobian.parameter) for s in forms.structured}
        names = forms.derivation.selection.names
        every = all((o, name) in found for o in forms.program.outputs for name in names)
        return every and not forms.derivation.selection.regions

    def tangents(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all tangents, those of inputs with their batch axis."""
        form = self.forms.jvp
        return {
            name: tuple(d.evaluate(sizes) for d in ((BATCH, *a.axes) if a.batched else a.axes))
            for name, a in zip(self.forms.derivation.selection.names, form.given, strict=True)
        }


def _multiplications(form: Form, sizes: Mapping[str, int]) -> int:
    total = 0
    for made in form.definitions:
        bodies = made.body if isinstance(made.body, tuple) else ()
        own = _entries(made.indices, sizes)
        total += sum(own * _entries(term.bound, sizes) for term in bodies) or own
    return total


def _entries(indices: Sequence[Index], sizes: Mapping[str, int]) -> int:
    found = 1
    for index in indices:
        found *= index.dim.evaluate(sizes)
    return found


def product_at_once(
    module: Any,
    ways: Ways,
    names: Sequence[str],
    call: tuple[Any, ...],
    given: Mapping[str, Any],
) -> dict[str, Any] | None:
    """Return Σ_b J_bᵀ J_b v by drivers alone; None where there is anything to look at first.

    `names` are those of the dims, `call` is what the door of the module returns, `given` is
    {θ: v}, whose arrays have to be as drivers take them.
    """
    arrays, sizes, dtype, single = call
    onward = getattr(module, "_onward", None)
    if single or dtype.kind != "f" or onward is None:
        return None
    shapes = ways.shapes.get(sizes)
    if shapes is None:
        known = dict(zip(names, sizes, strict=True))
        if not ways.whole or not ways.by_drivers(sizes, known):
            return None
        shapes = ways.shapes.setdefault(sizes, ways.tangents(known))
    for name, value in given.items():
        if not (
            type(value) is np.ndarray
            and value.dtype is dtype
            and value.shape == shapes.get(name)
            and value.flags.c_contiguous
        ):
            return None
    every = {
        name: given[name] if name in given else np.zeros(shape, dtype)
        for name, shape in shapes.items()
    }
    recorded = module._record(arrays, sizes, dtype)
    images = onward(arrays, sizes, dtype, recorded, every)
    only = (None,) if len(shapes) > 1 else ()
    found = module._back(arrays, sizes, dtype, recorded, *only, *images)
    return {name: g if g.ndim else g[()] for name, g in found.items()}


class Evaluation(Mapping[str, Any]):
    """The arrays that Jacobians are made of, by name, evaluated when the first of them is read.

    `data` are those that are there without. Everything runs in the context of the call that it is
    part of.
    """

    def __init__(
        self, module: Any, call: tuple[Any, ...], data: Mapping[str, Any], ways: Ways
    ) -> None:
        self._module, self._call, self._data, self._ways = module, call, data, ways
        self._context = copy_context()
        self._swept: dict[str, Any] | None = None
        self._record: dict[str, Any] | None = None

    def __getitem__(self, name: str) -> Any:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the arrays."""
        return dict, (dict(self),)

    @property
    def swept(self) -> bool:
        """Whether the arrays were evaluated."""
        return self._swept is not None

    def output(self, name: str) -> Any:
        """Return an output, from whatever pass there was."""
        return self._recorded()[name] if self._swept is None else self._swept[name]

    def suits(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        outputs: Sequence[str],
        sizes: Mapping[str, int],
    ) -> bool:
        """Whether drivers are the cheaper way to products by arrays like these."""
        if tuple(outputs) != tuple(self._ways.forms.program.outputs):
            return False
        own = self._ways.tangents(sizes)
        if any(own.get(name) != shape for name, shape in shapes.items()):
            return False
        return self._ways.by_drivers(tuple(self._call[1]), sizes)

    def push(self, tangents: Mapping[str, Any], sizes: Mapping[str, int]) -> list[Any]:
        """Return J t for every output; missing tangents are zero."""
        _, _, dtype = self._call
        every = {
            name: np.asarray(tangents[name], order="C")
            if name in tangents
            else np.zeros(shape, dtype)
            for name, shape in self._ways.tangents(sizes).items()
        }
        onward = getattr(self._module, "_onward", None)  # missing where arrays are recomputed
        if onward is None:
            return list(self._run(self._module._tangent, *self._call, every))
        return list(self._run(onward, *self._call, self._recorded(), every))

    def pull(self, names: Sequence[str], vectors: Sequence[Any]) -> dict[str, Any]:
        """Return u J by these names, summed over samples but for inputs."""
        several = len(self._ways.forms.vjp.results) > 1
        only = (frozenset(names),) if several else ()
        given = [np.asarray(u, order="C") for u in vectors]
        found = self._run(self._module._back, *self._call, self._recorded(), *only, *given)
        return {name: found[name] for name in names}

    def _recorded(self) -> dict[str, Any]:
        if self._record is None:
            self._record = self._run(self._module._record, *self._call)
        return self._record

    def _all(self) -> dict[str, Any]:
        if self._swept is None:
            self._swept = {**self._data, **self._run(self._module._sweep, *self._call)}
        return self._swept

    def _run(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._context.copy().run(function, *args)


__all__ = ["Evaluation", "Later", "Ways", "product_at_once"]
