"""Reduce the last axis of an array: the reference for max, norm, logsumexp, softmax and kin.

kind, [..., L] of float64 or mpf -> [...]
The first winner takes all, nan wins over everything, and nothing overflows on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from symgrad.errors import ShapeError

Values = NDArray[Any]
mp = mpmath.mp

PICKS = ("max", "min", "argmax", "argmin")


def reduce_rows(kind: str, rows: Values) -> Values:
    """Return the reduction of each row; argmax and argmin give int64.

    Raises ShapeError for max and min of an empty row.
    """
    if kind in PICKS and rows.shape[-1] == 0:
        raise ShapeError(f"{kind} over an empty axis")
    if rows.dtype != object:
        return _floats(kind, rows)
    result = np.empty(rows.shape[:-1], np.int64 if kind.startswith("arg") else object)
    for place in np.ndindex(*result.shape):
        result[place] = _exactly(kind, list(rows[place]))
    return result


def softmax_rows(kind: str, rows: Values) -> Values:
    """Return softmax or log_softmax of each row."""
    exp: Callable[[Values], Values] = np.exp
    if rows.dtype == object:
        exp = np.frompyfunc(mp.exp, 1, 1)
    with np.errstate(all="ignore"):
        log = rows - reduce_rows("logsumexp", rows)[..., None] if rows.size else rows
        return log if kind == "log_softmax" else np.asarray(exp(log), dtype=rows.dtype)


def _floats(kind: str, rows: Values) -> Values:
    with np.errstate(all="ignore"):
        match kind:
            case "prod":
                return np.asarray(np.prod(rows, axis=-1))
            case "max" | "min":
                return np.asarray(rows.max(axis=-1) if kind == "max" else rows.min(axis=-1))
            case "argmax" | "argmin":
                return np.asarray(getattr(np, kind)(rows, axis=-1), dtype=np.int64)
            case "norm":
                scale = np.abs(rows).max(axis=-1, initial=0.0)
                plain = (scale == 0) | ~np.isfinite(scale)
                safe = np.where(plain, 1.0, scale)
                result = safe * np.sqrt(np.sum((rows / safe[..., None]) ** 2, axis=-1))
                return np.asarray(np.where(plain, scale, result))
            case _:
                top = rows.max(axis=-1, initial=-np.inf)
                shift = np.where(np.isfinite(top), top, 0.0)
                total = np.sum(np.exp(rows - shift[..., None]), axis=-1)
                return np.asarray(shift + np.log(total))


def _exactly(kind: str, row: list[Any]) -> Any:
    match kind:
        case "prod":
            return mp.fprod(row)
        case "max" | "min" | "argmax" | "argmin":
            place = _winner(row, kind[-3:])
            return place if kind.startswith("arg") else row[place]
        case "norm":
            return mp.sqrt(mp.fsum(z * z for z in row))
        case _:
            return _logsumexp(row)


def _winner(row: list[Any], kind: str) -> int:
    best = 0
    for place, z in enumerate(row):
        if mp.isnan(z):
            return place
        if z > row[best] if kind == "max" else z < row[best]:
            best = place
    return best


def _logsumexp(row: list[Any]) -> Any:
    if any(mp.isnan(z) for z in row):
        return mp.nan
    top = max(row, default=-mp.inf)
    if mp.isinf(top):
        return +top
    return top + mp.log(mp.fsum(mp.exp(z - top) for z in row))
