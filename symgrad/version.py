"""The version of symgrad, said once: the package, the wheel and every generated module read it."""

from __future__ import annotations

__version__ = "0.1.0"
