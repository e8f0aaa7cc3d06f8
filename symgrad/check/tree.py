"""Values while a layer is read: axes, and how one element is computed from its position.

Value -> element(positions) -> Tree
Slices, transposes and broadcasts are maps of positions, so they cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Union

from symgrad.dims import Dim
from symgrad.errors import InternalError
from symgrad.program import (
    Access,
    Affine,
    Apply,
    Constant,
    Delta,
    Guard,
    Index,
    Lookup,
    Number,
    Place,
    Position,
    Scalar,
    Size,
    indices_of,
)

Leaf = Union[Number, Constant, Size, Place, Access, Delta, Guard]
Positions = tuple[Position, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """A scalar function of trees."""

    function: str
    args: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum over `bound`; with nothing bound, a term that must stand as a term of its own."""

    bound: tuple[Index, ...]
    body: Tree


@dataclass(frozen=True, slots=True)
class Fold:
    """A reduction that is no sum, over a plain access or what will become one."""

    kind: str
    bound: tuple[Index, ...]
    body: Tree


@dataclass(frozen=True, slots=True)
class Row:
    """softmax or log_softmax of `body` along `bound`, read at `at`."""

    kind: str
    bound: tuple[Index, ...]
    body: Tree
    at: Positions


@dataclass(frozen=True, slots=True)
class Whole:
    """A function of whole matrices: each operand over its own `axes`, the result read at `at`."""

    kind: str
    operands: tuple[Tree, ...]
    axes: tuple[tuple[Index, ...], ...]
    at: Positions
    dims: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """`stop_gradient`: its body becomes a frozen definition."""

    body: Tree


@dataclass(frozen=True, slots=True)
class Named:
    """A part that becomes a definition called `wish`, unless it is a whole statement."""

    wish: str
    body: Tree


Tree = Union[Leaf, Node, Sum, Fold, Row, Whole, Stop, Named]
Element = Callable[[Positions], Tree]
Look = Callable[[Positions], Lookup]


@dataclass(frozen=True, slots=True)
class Value:
    """An array (or mask) of the layer: its axes and its element at given positions.

    `plain` values are arrays themselves, so that positions may be data; of a recurrence's array
    (`starts`) positions `t - c` may lie below 0.
    """

    axes: tuple[Dim, ...]
    element: Element
    mask: bool = False
    plain: bool = False
    starts: bool = False


@dataclass(frozen=True, slots=True)
class Indices:
    """An array of integers below `vocabulary`, good only for standing in a subscript."""

    axes: tuple[Dim, ...]
    vocabulary: Dim
    look: Look
    name: str


def number(value: int | float) -> Value:
    """Return a scalar value."""
    return Value((), lambda at: Number(value))


def constant(tree: Tree) -> Value:
    """Return the scalar value that a tree without axes is."""
    return Value((), lambda at: tree)


def is_leaf(tree: Tree) -> bool:
    """Whether a tree is a scalar already, without functions."""
    return not isinstance(tree, (Node, Sum, Fold, Row, Whole, Stop, Named))


def has_reduction(tree: Tree) -> bool:
    """Whether anything in the tree cannot stand inside a scalar."""
    if isinstance(tree, Node):
        return any(has_reduction(arg) for arg in tree.args)
    return not is_leaf(tree)


def adds_up(tree: Tree) -> bool:
    """Whether a sum stands in a linear position, so that the tree is a sum of terms."""
    match tree:
        case Sum():
            return True
        case Node("add" | "sub" | "neg", args):
            return any(adds_up(arg) for arg in args)
        case Node("mul", (left, right)):
            return adds_up(left) != adds_up(right)
        case Node("div", (above, below)):
            return adds_up(above) and not adds_up(below)
        case _:
            return False


def scalar_of(tree: Tree) -> Scalar:
    """Return a tree without reductions as a scalar."""
    if isinstance(tree, Node):
        return Apply(tree.function, tuple(scalar_of(arg) for arg in tree.args))
    return leaf_of(tree)


def position_of(tree: Tree) -> Affine | None:
    """Return the position or size that a tree without arrays is, affine in indices; else None.

    A macro's argument may be one: what stands in a subscript of its body is then no number.
    """
    match tree:
        case Place():
            return tree.affine
        case Size():
            return Affine((), tree.dim)
        case Number(int(value)):
            return Affine((), Dim.of(value))
        case Node("neg", (inner,)):
            place = position_of(inner)
            return None if place is None else -place
        case Node("add" | "sub" | "mul", (first, second)):
            left, right = position_of(first), position_of(second)
            if left is None or right is None:
                return None
            if tree.function == "mul":
                return _scaled(left, right)
            return left + right if tree.function == "add" else left - right
        case _:
            return None


def _scaled(left: Affine, right: Affine) -> Affine | None:
    if not left.terms and not right.terms:
        return Affine((), left.offset * right.offset)
    factor, other = (left, right) if not left.terms else (right, left)
    number = None if factor.terms else factor.offset.constant
    return None if number is None else other * number


def leaf_of(tree: Tree | Scalar) -> Leaf:
    """Return a tree or scalar that is known to be a leaf."""
    if isinstance(tree, (Apply, Node, Sum, Fold, Row, Whole, Stop, Named)):
        raise InternalError("a leaf was expected")
    return tree


def free_of(tree: Tree) -> dict[Index, None]:
    """Return the free indices of a tree, in order of appearance."""
    found: dict[Index, None] = {}
    match tree:
        case Node():
            for arg in tree.args:
                found.update(free_of(arg))
        case Sum() | Fold() | Row():
            inner = free_of(tree.body)
            found.update({i: None for i in inner if i not in tree.bound})
            if isinstance(tree, Row):
                for position in tree.at:
                    found.update(dict.fromkeys(indices_of(Access("", (position,)))))
        case Whole():
            for operand, axes in zip(tree.operands, tree.axes, strict=True):
                found.update({i: None for i in free_of(operand) if i not in axes})
            for position in tree.at:
                found.update(dict.fromkeys(indices_of(Access("", (position,)))))
        case Stop() | Named():
            found.update(free_of(tree.body))
        case _:
            found.update(dict.fromkeys(indices_of(tree)))
    return found


def product(*trees: Tree) -> Tree:
    """Return the product, from the left."""
    result = trees[0]
    for tree in trees[1:]:
        result = Node("mul", (result, tree))
    return result


def size(dim: Dim) -> Tree:
    """Return a dim as a number."""
    return Number(dim.constant) if dim.constant is not None else Size(dim)


def over(dim: Dim) -> Tree:
    """Return one over a size: what makes a sum a mean."""
    return Node("div", (Number(1), size(dim)))


def stack_of(tree: Whole) -> tuple[Index, ...]:
    """Return the indices over which its matrices are stacked, by serial."""
    found = free_of(replace(tree, at=()))
    return tuple(sorted(found, key=lambda i: i.serial))


def is_direct(tree: Whole, axes: tuple[Index, ...], batch: Index) -> bool:
    """Whether `axes` are the stack and then the result's own axes, each once."""
    own = tuple(p.bare for p in tree.at)
    stack = {i for i in axes[: len(axes) - len(own)] if i != batch}
    last = axes[len(axes) - len(own) :]
    return own == last and stack == {i for i in stack_of(tree) if i != batch}
