"""What users read about a Jacobian: its structure, its formula, its axes.

Structured -> str
Index letters are chosen here: `b` for samples (`s` beside a dim `b`), then i, j, k, ... for output
and parameter axes.
Arrays are in C order throughout: the last axis runs fastest where one is flattened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from symgrad.batch import inserted
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
    """`axes` are the letters of the dense array, `layout` says what they are and their order."""

    axes: tuple[str, ...]
    structure: str
    formula: str
    compact_axes: tuple[str, ...]
    layout: str


@dataclass(frozen=True, slots=True)
class _Letters:
    """Letters of indices, and where that of the batch stands; None where results have none."""

    of: Mapping[Index, str]
    batch_axis: int | None

    def axes(self, indices: Sequence[Index]) -> tuple[str, ...]:
        """Return the letters of an array's axes, batch first in `indices` if it has one."""
        own = tuple(self.one(i) for i in indices if i.dim != BATCH)
        return own if len(own) == len(indices) else self.with_batch(own)

    def one(self, index: Index) -> str:
        """Return the letter of an index."""
        return self.of[_SAMPLE if index.dim == BATCH else index]

    def with_batch(self, own: Sequence[str]) -> tuple[str, ...]:
        """Return letters with that of the batch among them."""
        at = self.batch_axis
        return tuple(own) if at is None else inserted(own, self.of[_SAMPLE], at)


def caption(structured: Structured, batch_axis: int | None) -> Caption:
    """Return how a structured Jacobian is described whose arrays have the batch axis there."""
    jacobian = structured.jacobian
    named = _letters(structured)
    letters = _Letters(named, batch_axis)
    axes = letters.with_batch([named[i] for i in (*jacobian.out, *jacobian.axes)])
    layout = _layout(structured, axes, named)
    kept = [named[i] for i in (*structured.free, *structured.untied)]
    compact_axes = letters.with_batch(kept)
    if not jacobian.terms:
        why = f"{jacobian.output} does not depend on {structured.pair}"
        if not jacobian.selected:
            why = f"{jacobian.parameter} is not selected"
        return Caption(axes, f"0: {why}", "0", (), layout)
    filling = [_delta(d.left, d.right, letters) for d in jacobian.filling]
    deltas = [*filling, *(_delta(d.left, d.right, letters) for d in structured.shared)]
    if deltas:
        structure = " * ".join((*deltas, f"C[{', '.join(compact_axes)}]"))
    else:
        structure = "no structural zeros"
    terms = []
    for term in structured.terms:
        parts = [*filling, *(_delta(d.left, d.right, letters) for d in term.deltas)]
        parts += [f"{f.label}[{', '.join(letters.axes(f.indices))}]" for f in term.factors]
        terms.append(" * ".join(parts))
    return Caption(axes, structure, " + ".join(terms), compact_axes, layout)


def _letters(structured: Structured) -> dict[Index, str]:
    """Return a letter for the batch and for every axis, none of which stands in a delta."""
    jacobian = structured.jacobian
    taken = _read_in_positions(structured)
    sample = next(letter for letter in ("b", "s", "sample") if letter not in taken)
    alphabet = [letter for letter in ALPHABET if letter not in taken | {sample}]
    named: dict[Index, str] = {_SAMPLE: sample}
    inside = tuple(i for i in jacobian.theta if i not in jacobian.axes)
    for number, index in enumerate((*jacobian.out, *jacobian.axes, *inside)):
        named[index] = alphabet[number] if number < len(alphabet) else f"i{number}"
    return named


def _layout(structured: Structured, axes: Sequence[str], named: Mapping[Index, str]) -> str:
    """Return what the axes are: `[b, i, j, k]: batch, then axes of y, then axes of W, ...`."""
    jacobian = structured.jacobian
    owners = {named[_SAMPLE]: "batch"}
    own, others = jacobian.of_both
    again = " again" if jacobian.beside == jacobian.parameter else ""
    for array, indices in (
        (jacobian.output, jacobian.out),
        (jacobian.parameter, own),
        (f"{jacobian.beside}{again}", others),
    ):
        word = "axis" if len(indices) == 1 else "axes"
        owners.update({named[i]: f"{word} of {array}" for i in indices})
    if not axes:
        return "[]: a number"
    groups = [owner for owner, _ in groupby(axes, owners.__getitem__)]
    return f"[{', '.join(axes)}]: {', then '.join(groups)}, in C order"


def _read_in_positions(structured: Structured) -> set[str]:
    """Return the names of dims and index arrays that stand in deltas: no axis is called so."""
    deltas = [d for term in structured.terms for d in term.deltas]
    deltas += structured.jacobian.filling
    places = [p for d in deltas for p in (d.left, d.right)]
    affines = [a for p in places for a in affine_of(p)]
    sizes = [Dim.of(d) for a in affines for d in (a.offset, *(c for _, c in a.terms))]
    dims = {n for d in sizes for n in d.names}
    return dims | {array for d in deltas for array in arrays_of(d)}


def _delta(left: Position, right: Position, letters: _Letters) -> str:
    return f"delta({_position(left, letters)}, {_position(right, letters)})"


def _position(position: Position, letters: _Letters) -> str:
    if isinstance(position, Lookup):
        own = [_position(p, letters) for p in position.at if not is_sample(p)]
        at = own if len(own) == len(position.at) else letters.with_batch(own)
        return f"{position.array}[{', '.join(at)}]" if at else position.array
    return _affine(position, letters)


def is_sample(position: Position) -> bool:
    """Whether a position is the sample's own number."""
    bare = position.bare if isinstance(position, Affine) else None
    return bare is not None and bare.dim == BATCH


def _affine(affine: Affine, letters: _Letters) -> str:
    pieces = []
    for index, coefficient in affine.terms:
        negative, size = signed(coefficient)
        pieces.append(f"{'-' if negative else ''}{times(size, letters.one(index))}")
    if affine.offset.terms or not pieces:
        pieces.append(str(affine.offset))
    return " + ".join(pieces).replace("+ -", "- ")
