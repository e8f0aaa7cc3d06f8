"""Positions put for the bare indices of a tree without reductions.

Tree, {index: position} -> Tree
Positions that are data stand for a whole index only, never inside an affine one.
"""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.check.tree import Fold, Named, Node, Row, Stop, Sum, Tree, Whole, free_of, leaf_of
from symgrad.errors import InternalError
from symgrad.program import (
    Access,
    Affine,
    Delta,
    Index,
    Lookup,
    Position,
    indices_of,
    move_affine,
    substitute,
)


def place(tree: Tree, there: Mapping[Index, Position]) -> Tree:
    """Put positions, also those that are data, for bare indices of a tree without reductions."""
    match tree:
        case Access():
            return Access(tree.array, tuple(moved_position(p, there) for p in tree.at))
        case Delta():
            return Delta(moved_position(tree.left, there), moved_position(tree.right, there))
        case Node() | Sum() | Fold() | Row() | Whole() | Stop() | Named():
            raise InternalError("only elements are put elsewhere")
        case _:
            moves = {i: p for i, p in there.items() if isinstance(p, Affine)}
            return leaf_of(substitute(tree, moves))


def moved_position(position: Position, there: Mapping[Index, Position]) -> Position:
    """Put positions for indices in a position; data only for a bare index."""
    bare = position.bare
    if bare is not None and bare in there:
        return there[bare]
    if isinstance(position, Lookup):
        return Lookup(position.array, tuple(moved_position(p, there) for p in position.at))
    return move_affine(position, {i: p for i, p in there.items() if isinstance(p, Affine)})


def is_placeable(tree: Tree, own: tuple[Index, ...]) -> bool:
    """Whether data can be put for all of `own`: they stand bare in an access, or nowhere."""
    if not isinstance(tree, Access):
        return not any(i in free_of(tree) for i in own)
    for position in tree.at:
        bare = position.bare
        if bare is None and any(i in own for i in indices_in(position)):
            return False
    return True


def indices_in(position: Position) -> tuple[Index, ...]:
    """Return the indices of a position, lookups included."""
    return indices_of(Access("", (position,)))
