"""Names for arrays that a compilation adds.

Program -> Names
A name that is taken gets a number behind it, so that equal programs get equal names.
"""

from __future__ import annotations

from symgrad.program import Program


class Names:
    """Hands out array names that collide with nothing in the program."""

    def __init__(self, program: Program) -> None:
        self.taken = {a.name for a in program.arrays} | {d.name for d in program.definitions}
        self.taken |= {t.name for t in program.tables}
        for array in program.arrays:
            for axis in array.axes:
                self.taken.update(axis.names)

    def new(self, wish: str) -> str:
        """Return `wish`, or `wish` with a number behind it; remember what was given."""
        name, number = wish, 1
        while name in self.taken:
            number += 1
            name = f"{wish}_{number}"
        self.taken.add(name)
        return name
