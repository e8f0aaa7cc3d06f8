"""Lists of numbers and masks as plain values: readable where they are short, packed where not.

array <-> list | {"mask": ..., "shape": ...}
A generated module has the same reading, see `_places` in `templates/runtime.py.jinja`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symgrad.errors import SelectionError

Plain = Any
READABLE = 256
"""Longer lists and masks are packed."""


def packed(array: NDArray[Any]) -> Plain:
    """Return a list of numbers or a mask as a list or a mapping."""
    if array.dtype.kind != "b":
        if array.size <= READABLE:
            return [int(n) for n in array]
        kind = "<i4" if np.all(np.abs(array) < 2**31) else "<i8"
        return {"numbers": _text(array.astype(kind).tobytes()), "kind": kind}
    shape = list(array.shape)
    if array.size <= READABLE:
        return {"mask": "".join("01"[int(b)] for b in array.ravel()), "shape": shape}
    return {"bits": _text(np.packbits(array.ravel()).tobytes()), "shape": shape}


def unpacked(plain: Mapping[str, Any]) -> NDArray[Any]:
    """Return the array that `packed` made a mapping of. Raises SelectionError for another."""
    try:
        if "numbers" in plain:
            data = base64.b64decode(plain["numbers"])
            return np.frombuffer(data, plain["kind"]).astype(np.int64)
        if "mask" in plain:
            return np.array([c == "1" for c in plain["mask"]]).reshape(plain["shape"])
        shape = tuple(plain["shape"])
        bits = np.unpackbits(np.frombuffer(base64.b64decode(plain["bits"]), np.uint8))
        return bits[: int(np.prod(shape))].astype(bool).reshape(shape)
    except (KeyError, TypeError, ValueError):
        hint = "give slices, numbers, lists of numbers or masks"
        raise SelectionError("wrt: a mapping is no part of an array", hint=hint) from None


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


__all__ = ["packed", "unpacked"]
