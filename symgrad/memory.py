"""What memory cannot hold: refused before it is taken, or said in one way where it runs out.

method -> within_memory -> method;  bytes -> require
numpy's MemoryError names the array it could not get; users catch one kind of error only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from math import prod
from typing import Any, TypeVar, cast

from symgrad.errors import TooLargeError
from symgrad.units import in_bytes

Method = TypeVar("Method", bound=Callable[..., Any])

HUGE = 2**28
"""Bytes from which memory is asked for its size first."""

INSTEAD = {
    "dense": "compact() or factors(), to_scipy(), or multiply with it: vjp, jvp",
    "second": "compact() or factors(), or H.sum(u) and H.hvp(u, tangents)",
    "gram": 'diagonal="batch" or diagonal="out", fewer samples, or products: vjp, jvp',
    "ggn": "ggn_matvec, ggn_diagonal or kfac",
    "ggn_diagonal": "fewer parameters",
    "sqrt_ggn": "ggn_matvec, or fewer samples at a time: jac.chunks(..., size=...)",
    "functional_variance": "fewer samples at a time: jac.chunks(..., size=...)",
    "matrix": "to_scipy() or as_linear_operator()",
    "vjp": "fewer right-hand sides at a time",
    "jvp": "fewer right-hand sides at a time",
}
"""What to use in place of a result that is too large."""


def require(module: Any, size: int, what: str, instead: str) -> None:
    """Raise TooLargeError where so many bytes are more than the platform has free."""
    if size > HUGE and size > (free := module._free_bytes()):
        message = f"{what} takes {in_bytes(size)}, but only {in_bytes(free)} are free"
        raise TooLargeError(message, hint=f"use {instead}")


def require_results(
    module: Any, form: str, shapes: Iterable[Sequence[int]], itemsize: int, title: str = ""
) -> None:
    """Raise TooLargeError where arrays of these shapes, all together, are too large.

    `title` is what a message calls them, the form if it is left out.
    """
    made = [list(shape) for shape in shapes]
    size = itemsize * sum(map(prod, made))
    if size <= HUGE:
        return
    axes = ", ".join(map(str, made[:3])) + ", ..." * (len(made) > 3)
    many = "an array" if len(made) == 1 else f"{len(made)} arrays"
    fallback = "fewer samples at a time: jac.chunks(..., size=...)"
    require(module, size, f"{title or form} as {many} {axes}", INSTEAD.get(form, fallback))


def within_memory(method: Method) -> Method:
    """Return a method that raises TooLargeError where memory runs out."""

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except MemoryError as error:
            raise too_large(error) from None

    return cast("Method", call)


def too_large(error: MemoryError) -> TooLargeError:
    """Return what users are told where memory runs out."""
    if isinstance(error, TooLargeError):
        return error
    reason = f": {error}" if str(error) else ""
    return TooLargeError(
        f"this call needs more memory than is free{reason}",
        hint="give fewer samples at a time, or select fewer arrays",
    )
