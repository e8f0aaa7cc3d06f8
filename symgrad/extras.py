"""Libraries that symgrad can do without: imported when a result is to be one of theirs.

Name -> module
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from symgrad.errors import MissingExtraError


def extra(module: str, what: str) -> Any:
    """Return a module of a library that `what` needs.

    Raises MissingExtraError, with the command that installs it, if it is not there.
    """
    library = module.partition(".")[0]
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{what} needs {library}, which cannot be imported: {error}",
            hint=f'pip install "symgrad[{library}]"',
        ) from None


__all__ = ["extra"]
