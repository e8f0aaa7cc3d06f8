"""Arrays that callers give to forms, checked against the Jacobian they meet.

Factored, value -> array with a batch axis
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.batch import inward, order
from symgrad.errors import ArgumentError, ShapeError
from symgrad.products.sides import Factored
from symgrad.products.terms import Values


def checked(
    jacobian: Factored, name: str, value: Any, own: Sequence[int], *, batched: bool = True
) -> Values:
    """Return an array of shape `[B, *own]` in the dtype of the pass, one sample's with its axis.

    The caller's has its batch axis where the layer was compiled to have it.
    Raises ArgumentError for what is no array of numbers, ShapeError for one that does not fit.
    """
    return vector(jacobian, name, value, own, batched=batched and jacobian.batched, lead=False)


def vector(
    jacobian: Factored, name: str, value: Any, own: Sequence[int], *, batched: bool, lead: bool
) -> Values:
    """Return an array as `checked` does; with `lead` it may have any leading axes."""
    done = jacobian.done
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ArgumentError(f"{jacobian.layer}: {name} is no array: {error}") from None
    if array.dtype.kind not in ("fiubc" if done.dtype.kind == "c" else "fiub"):
        wanted = "real numbers, as the arrays were" if array.dtype.kind == "c" else "numbers"
        raise ArgumentError(f"{jacobian.layer}: {name} has dtype {array.dtype}, expected {wanted}")
    samples = (0,) if batched and not jacobian.single else ()
    inner = (jacobian.count, *own) if samples else tuple(own)
    shape = tuple(inner[n] for n in order(len(inner), samples, jacobian.batch_axis))
    ahead = array.ndim - len(shape)
    if array.shape[max(ahead, 0) :] != shape or (ahead and not lead):
        also = ", with any axes before them" if lead and shape else ""
        raise ShapeError(
            f"{jacobian.layer}: {name} has shape {array.shape}, expected {shape}{also}"
        )
    array = array.astype(done.dtype, copy=False)
    if samples:
        return inward(array, (ahead,), jacobian.batch_axis)
    return np.expand_dims(array, ahead) if batched else array


def check_positive(name: str, value: Any) -> None:
    """Raise ArgumentError unless a value is a number, and not negative."""
    array = np.asarray(value)
    if array.ndim or array.dtype.kind not in "fiu" or not array >= 0:
        raise ArgumentError(f"{name} must be a number that is not negative, got {value!r}")


__all__ = ["check_positive", "checked", "vector"]
