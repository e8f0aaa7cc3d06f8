"""Dotted names of models: what code and text call them.

encoder.0.weight -> encoder_0_weight
The text keeps both in a line `# name: encoder_0_weight = encoder.0.weight`; none may collide.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from symgrad.errors import LayerSyntaxError
from symgrad.language.characters import fold
from symgrad.syntax import Alias


def code_name(original: str) -> str:
    """Return the identifier that stands for a dotted name; an undotted one stays as it is."""
    if "." not in original:
        return fold(original)
    name = re.sub(r"[^\w]+", "_", fold(original))
    return f"_{name}" if name[:1].isdigit() else name


def aliases(originals: Iterable[str]) -> tuple[Alias, ...]:
    """Return the lines that dotted names need, in their order.

    Raises LayerSyntaxError if two of them get one code name.
    """
    made: dict[str, str] = {}
    for original in originals:
        name = code_name(original)
        other = made.setdefault(name, original)
        if other != original:
            message = f"{other} and {original} would both be called {name}"
            raise LayerSyntaxError(message, hint="give one of them another name")
    return tuple(Alias(name, original) for name, original in made.items() if "." in original)
