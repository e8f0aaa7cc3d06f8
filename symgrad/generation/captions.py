"""What users read about a Jacobian: its structure, its formula, its axes.

Structured -> str
Index letters are chosen here: `b` for samples (`s` beside a dim `b`), then i, j, k, ... for output
and parameter axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from symgrad.dims import Dim, signed, times
from symgrad.form import Structured
from symgrad.program import (
    BATCH,
    Affine,
    Index,
    Lookup,
    Position,
    affine_of,
    arrays_of,
)

ALPHABET = "ijklpqrstuvwmnacdefgho"
_SAMPLE = Index("b", BATCH, 0)


@dataclass(frozen=True, slots=True)
class Caption:
    """`axes` are the letters of the dense array, batch first if there is one."""

    axes: tuple[str, ...]
    structure: str
    formula: str
    compact_axes: tuple[str, ...]


def caption(structured: Structured, batched: bool) -> Caption:
    """Return how a structured Jacobian is described."""
    jacobian = structured.jacobian
    taken = _read_in_positions(structured)
    sample = next(letter for letter in ("b", "s", "sample") if letter not in taken)
    alphabet = [letter for letter in ALPHABET if letter not in taken | {sample}]
    letters: dict[Index, str] = {_SAMPLE: sample}
    beside = tuple(i for i in jacobian.theta if i not in jacobian.axes)
    for number, index in enumerate((*jacobian.out, *jacobian.axes, *beside)):
        letters[index] = alphabet[number] if number < len(alphabet) else f"i{number}"
    first = (sample,) if batched else ()
    axes = (*first, *(letters[i] for i in (*jacobian.out, *jacobian.axes)))
    kept = [*structured.free, *structured.untied]
    compact_axes = (*first, *(letters[i] for i in kept))
    if not jacobian.terms:
        why = f"{jacobian.output} does not depend on {jacobian.parameter}"
        if not jacobian.selected:
            why = f"{jacobian.parameter} is not selected"
        return Caption(axes, f"0: {why}", "0", ())
    filling = [_delta(d.left, d.right, letters) for d in jacobian.filling]
    deltas = [*filling, *(_delta(d.left, d.right, letters) for d in structured.shared)]
    if deltas:
        structure = " * ".join((*deltas, f"C[{', '.join(compact_axes)}]"))
    else:
        structure = "no structural zeros"
    terms = []
    for term in structured.terms:
        parts = [*filling, *(_delta(d.left, d.right, letters) for d in term.deltas)]
        parts += [
            f"{f.label}[{', '.join(_letter(i, letters) for i in f.indices)}]" for f in term.factors
        ]
        terms.append(" * ".join(parts))
    return Caption(axes, structure, " + ".join(terms), compact_axes)


def _read_in_positions(structured: Structured) -> set[str]:
    """Return the names of dims and index arrays that stand in deltas: no axis is called so."""
    deltas = [d for term in structured.terms for d in term.deltas]
    deltas += structured.jacobian.filling
    places = [p for d in deltas for p in (d.left, d.right)]
    affines = [a for p in places for a in affine_of(p)]
    sizes = [Dim.of(d) for a in affines for d in (a.offset, *(c for _, c in a.terms))]
    dims = {n for d in sizes for n in d.names}
    return dims | {array for d in deltas for array in arrays_of(d)}


def _letter(index: Index, letters: Mapping[Index, str]) -> str:
    return letters[_SAMPLE if index.dim == BATCH else index]


def _delta(left: Position, right: Position, letters: Mapping[Index, str]) -> str:
    return f"delta({_position(left, letters)}, {_position(right, letters)})"


def _position(position: Position, letters: Mapping[Index, str]) -> str:
    if isinstance(position, Lookup):
        at = ", ".join(_position(p, letters) for p in position.at)
        return f"{position.array}[{at}]" if at else position.array
    return _affine(position, letters)


def _affine(affine: Affine, letters: Mapping[Index, str]) -> str:
    pieces = []
    for index, coefficient in affine.terms:
        negative, size = signed(coefficient)
        pieces.append(f"{'-' if negative else ''}{times(size, _letter(index, letters))}")
    if affine.offset.terms or not pieces:
        pieces.append(str(affine.offset))
    return " + ".join(pieces).replace("+ -", "- ")
