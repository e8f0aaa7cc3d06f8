"""Products of vectors with all selected Jacobians, for any number of right-hand sides.

Selection, vectors -> arrays
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, ShapeError
from symgrad.products.evaluate import filled, opened
from symgrad.products.given import vector
from symgrad.products.planned import all_at_once
from symgrad.products.selection import Selection
from symgrad.products.terms import Values
from symgrad.products.vectors import pull, push


def tangents(own: Selection, given: Any, label: str | None = None) -> dict[str, Values]:
    """Return checked tangents with their batch axes; errors call them `label`.

    Raises ArgumentError for what is no mapping, or names no θ.
    """
    if not isinstance(given, Mapping):
        raise ArgumentError("tangents must be a mapping of names to arrays")
    found = {}
    for name, value in given.items():
        if name not in own.parameters:
            expected = ", ".join(own.parameters)
            raise ArgumentError(f"no tangent for {name!r}; expected some of {expected}")
        one = own.with_respect_to(name)
        found[name] = vector(one, label or name, value, one.theta, batched=one.is_input, lead=True)
    if len({_lead(own, n, v) for n, v in found.items()}) > 1:
        shapes = ", ".join(f"{n}: {_lead(own, n, v)}" for n, v in found.items())
        raise ShapeError(f"tangents have different numbers of right-hand sides: {shapes}")
    return found


def _lead(own: Selection, name: str, value: Values) -> tuple[int, ...]:
    one = own.with_respect_to(name)
    return value.shape[: value.ndim - len(one.theta) - one.is_input]


def pushed(own: Selection, given: Mapping[str, Values]) -> list[Values]:
    """Return J v `[*lead, B, *out]` for every output, batch axes of one sample included."""
    found = []
    for output in own.outputs:
        one = own.of(output)
        batch = (one.count,) if one.batched else ()
        total = np.zeros((*_leading(own, given), *batch, *one.out), one.dtype)
        forms = [push(own.blocks[output, name], value) for name, value in given.items()]
        all_at_once(forms, [total] * len(forms), one.count)
        found.append(total)
    return found


def pulled(own: Selection, given: Sequence[Values]) -> dict[str, Values]:
    """Return u J `[*lead, *p]` for every θ, batch axes of one sample included.

    Summed over samples; inputs, `[*lead, B, *in]`, keep theirs.
    """
    lead = leading(own, given)
    found = {}
    for name in own.parameters:
        one = own.with_respect_to(name)
        shape = (*lead, *((one.count,) if one.is_input else ()), *one.theta)
        found[name] = np.zeros(shape, one.dtype)
    _pull_all(own, given, found, {n: own.with_respect_to(n).is_input for n in found})
    return found


def _pull_all(
    own: Selection,
    given: Sequence[Values],
    totals: Mapping[str, Values],
    per_sample: Mapping[str, bool],
) -> None:
    """Add u J by every θ to its total."""
    forms, into = [], []
    for name, total in totals.items():
        for output, u in zip(own.outputs, given, strict=True):
            forms.append(pull(own.blocks[output, name], u, per_sample=per_sample[name]))
            into.append(total)
    all_at_once(forms, into, own.count)


def jvp(own: Selection, given: Any, out: Values | None, label: str | None = None) -> list[Values]:
    """Return J v `[*lead, B, *out]` for every output; missing tangents are zero."""
    vectors = tangents(own, given, label)
    lead = _leading(own, vectors)
    found = []
    for output in own.outputs:
        one = own.of(output)
        shape = (*lead, *((one.count,) if one.batched else ()), *one.out)

        def fill(total: Values, output: str = output) -> None:
            forms = [push(own.blocks[output, name], value) for name, value in vectors.items()]
            all_at_once(forms, [total] * len(forms), own.count)

        read = tuple(vectors.values())
        samples = {len(lead): one}
        found.append(filled(one, "jvp", out, shape, fill, samples=samples, read=read))
    return found


def _leading(own: Selection, given: Mapping[str, Values]) -> tuple[int, ...]:
    return next((_lead(own, n, v) for n, v in given.items()), ())


def vjp(
    own: Selection, given: Sequence[Values], *, per_sample: bool, out: Values | None = None
) -> dict[str, Values]:
    """Return u J `[*lead, *p]`, `[*lead, B, *p]` if `per_sample`; inputs keep their batch axis.

    `given` are vectors as `Selection.vectors` checks them.
    """
    lead = leading(own, given)
    found, apart = {}, {}
    for name in own.parameters:
        one = own.with_respect_to(name)
        apart[name] = one.is_input or (per_sample and one.batched)
        shape = (*lead, *((one.count,) if apart[name] else ()), *one.theta)
        samples = {len(lead): one} if apart[name] else None
        found[name] = opened(one, "vjp", out, shape, samples=samples, read=given)
    _pull_all(own, given, {n: one.total for n, one in found.items()}, apart)
    return {name: one.result() for name, one in found.items()}


def leading(own: Selection, given: Sequence[Values]) -> tuple[int, ...]:
    """Return the lengths of the leading axes of vectors of outputs."""
    lead = {
        u.shape[: u.ndim - len(own.of(o).out) - own.any.batched]
        for o, u in zip(own.outputs, given, strict=True)
    }
    if len(lead) > 1:
        raise ShapeError(f"u has different numbers of right-hand sides: {sorted(lead)}")
    return lead.pop()


__all__ = ["jvp", "leading", "pulled", "pushed", "tangents", "vjp"]
