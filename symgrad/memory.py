"""What to say when memory runs out in the middle of a call.

method -> within_memory -> method
numpy's MemoryError names the array it could not get; users catch one kind of error only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from symgrad.errors import TooLargeError

Method = TypeVar("Method", bound=Callable[..., Any])


def within_memory(method: Method) -> Method:
    """Return a method that raises TooLargeError where memory runs out."""

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except TooLargeError:
            raise
        except MemoryError as error:
            reason = f": {error}" if str(error) else ""
            raise TooLargeError(
                f"this call needs more memory than is free{reason}",
                hint="give fewer samples at a time, or select fewer arrays",
            ) from None

    return cast("Method", call)
