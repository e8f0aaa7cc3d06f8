"""Shapes of a one-liner, as far as its products and sums determine them.

Assign, declared shapes -> Assign with `·` resolved, axes that must agree made one
What stays open is left to `check`; nothing here raises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from symgrad.dims import ONE, Dim
from symgrad.language.characters import DOT
from symgrad.language.vocabulary import (
    ACTIVATIONS,
    AXIS_FUNCTIONS,
    ELEMENTWISE,
    FUNCTION_NAMES,
    SHAPE_KEEPING,
)
from symgrad.syntax import (
    Assign,
    Binary,
    Binder,
    Call,
    Compare,
    Declaration,
    Dots,
    Expr,
    Flag,
    Item,
    Keyword,
    Name,
    NewAxis,
    Number,
    Reduction,
    Sequence,
    Slice,
    Subscript,
    Transposed,
    Unary,
)


@dataclass(slots=True, eq=False)
class Axis:
    """An axis of some array; axes that must agree share a root, which holds their size."""

    fixed: Dim | None = None
    parent: Axis | None = None

    @property
    def root(self) -> Axis:
        """The axis that speaks for all that agree with this one."""
        axis = self
        while axis.parent is not None:
            axis = axis.parent
        return axis

    @property
    def dim(self) -> Dim:
        """The size it was given; 1 if nothing was known."""
        return self.root.fixed or ONE

    def fix(self, size: Dim) -> None:
        """Give it a size."""
        self.root.fixed = size

    def agree(self, other: Axis) -> None:
        """Make two axes one, unless both have sizes of their own."""
        mine, yours = self.root, other.root
        if mine is yours or (mine.fixed is not None and yours.fixed is not None):
            return
        if mine.fixed is None:
            mine.parent = yours
        else:
            yours.parent = mine


Axes = tuple[Axis, ...]
Typed = tuple[Expr, Axes | None]
"""An expression with its products resolved, and its axes if they are known."""


class Shapes:
    """The axes of all arrays of a one-liner while they are being found."""

    def __init__(self, stated: tuple[Declaration, ...], sizes: frozenset[str]) -> None:
        self.arrays: dict[str, Axes] = {
            made.name: tuple(Axis(axis) for axis in made.dims) for made in stated
        }
        self.vocabularies = {d.name: d.vocabulary for d in stated if d.vocabulary is not None}
        self.sizes = sizes
        self.indices: dict[str, Axis] = {}

    def add_array(self, name: str, rank: int) -> None:
        """Enter an array whose axes are to be found."""
        self.arrays[name] = tuple(Axis() for _ in range(rank))

    def statement(self, line: Assign) -> tuple[Expr, Axes | None]:
        """Return the right side with `·` resolved, and the axes of the array it defines."""
        free = self._bind(line.binders or ())
        value, axes = self.expression(line.value)
        return value, None if axes is None else (*free, *axes)

    def _bind(self, binders: tuple[Binder, ...]) -> Axes:
        axes = []
        for made in binders:
            axis = Axis(_size(made.extent))
            self.indices[made.name] = axis
            axes.append(axis)
        return tuple(axes)

    def expression(self, expr: Expr) -> Typed:
        """Return an expression with `·` resolved, and its axes."""
        match expr:
            case Number():
                return expr, ()
            case Name():
                scalar = expr.name in self.indices or expr.name in self.sizes or expr.name == "pi"
                return expr, () if scalar else self.arrays.get(expr.name)
            case Binary():
                return self._binary(expr)
            case Call():
                return self._call(expr)
            case Subscript():
                return self._subscript(expr)
            case _:
                return self._other(expr)

    def _other(self, expr: Expr) -> Typed:
        match expr:
            case Unary():
                operand, axes = self.expression(expr.operand)
                return replace(expr, operand=operand), axes
            case Transposed():
                base, axes = self.expression(expr.base)
                return replace(expr, base=base), None if axes is None else axes[::-1]
            case Compare():
                typed = [self.expression(operand) for operand in expr.operands]
                operands = tuple(operand for operand, _ in typed)
                return replace(expr, operands=operands), _broadcast([axes for _, axes in typed])
            case Sequence():
                items = tuple(self.expression(item)[0] for item in expr.items)
                return replace(expr, items=items), None
            case Reduction():
                hidden = dict(self.indices)
                self._bind(expr.binders)
                body, axes = self.expression(expr.body)
                self.indices = hidden
                return replace(expr, body=body), axes
            case _:
                return expr, None

    def _binary(self, expr: Binary) -> Typed:
        left, left_axes = self.expression(expr.left)
        right, right_axes = self.expression(expr.right)
        operator = expr.operator
        if operator == DOT:
            operator = _meaning(left_axes, right_axes)
        made = replace(expr, operator=operator, left=left, right=right)
        if operator == "@":
            return made, _matmul(left_axes, right_axes)
        if operator == DOT:
            return made, None
        return made, _broadcast([left_axes, right_axes])

    def _call(self, call: Call) -> Typed:
        typed = [self.expression(argument) for argument in call.arguments]
        keywords = tuple(
            Keyword(word.name, self.expression(word.value)[0], word.span) for word in call.keywords
        )
        made = replace(call, arguments=tuple(a for a, _ in typed), keywords=keywords)
        axes = [axes for _, axes in typed]
        name = call.function
        if name in ELEMENTWISE or name in ACTIVATIONS or name not in FUNCTION_NAMES:
            return made, _broadcast(axes)
        if not axes:
            return made, None
        if name in AXIS_FUNCTIONS:
            return made, axes[0] if name in SHAPE_KEEPING else _reduced(axes[0], keywords)
        if name in ("zeros", "ones", "reshape", "broadcast_to", "eye"):
            return made, _shaped(made)
        rule = _RULES.get(name)
        return made, None if rule is None else rule(axes)

    def _subscript(self, expr: Subscript) -> Typed:
        base, axes = self.expression(expr.base)
        items = tuple(self._item(item) for item in expr.items)
        made = replace(expr, base=base, items=items)
        return made, None if axes is None else self._read(axes, items)

    def _item(self, item: Item) -> Item:
        if isinstance(item, (Slice, Dots, NewAxis)):
            return item
        return self.expression(item)[0]

    def _read(self, axes: Axes, items: tuple[Item, ...]) -> Axes | None:
        """Return the axes that a subscript leaves; bare indices give theirs."""
        spent = sum(not isinstance(item, (Dots, NewAxis)) for item in items)
        kept: list[Axis] = []
        at = 0
        for item in items:
            if isinstance(item, NewAxis):
                kept.append(Axis(ONE))
            elif isinstance(item, Dots):
                kept.extend(axes[at : len(axes) - (spent - at)])
                at = len(axes) - (spent - at)
            elif at >= len(axes):
                return None
            else:
                if isinstance(item, Slice):
                    whole = item.lower is None and item.upper is None
                    kept.append(axes[at] if whole and item.step is None else Axis())
                elif isinstance(item, Name) and item.name in self.indices:
                    self.indices[item.name].agree(axes[at])
                else:
                    kept.extend(self._gathered(item, axes[at]))
                at += 1
        return (*kept, *axes[at:])

    def _gathered(self, item: Item, axis: Axis) -> Axes:
        """Return the axes an index array puts in the place of one; that axis has its vocabulary."""
        items = item.items if isinstance(item, Subscript) else ()
        base = item.base if isinstance(item, Subscript) else item
        if not isinstance(base, Name) or base.name not in self.vocabularies:
            return ()
        Axis(self.vocabularies[base.name]).agree(axis)
        return self._read(self.arrays[base.name], items) or ()


def _meaning(left: Axes | None, right: Axes | None) -> Literal["*", "@", "·"]:
    """Return what `·` is: `*` if a side is scalar, else `@`."""
    if left == () or right == ():
        return "*"
    return "·" if left is None or right is None else "@"


def _broadcast(all_axes: list[Axes | None]) -> Axes | None:
    """Return the axes of an element-wise result; trailing axes agree, literal 1s aside."""
    result: Axes = ()
    for axes in all_axes:
        if axes is None:
            return None
        longer, shorter = (axes, result) if len(axes) > len(result) else (result, axes)
        merged = list(longer)
        for back in range(1, len(shorter) + 1):
            one, other = longer[-back], shorter[-back]
            if one.root.fixed == ONE:
                merged[-back] = other
            elif other.root.fixed != ONE:
                one.agree(other)
        result = tuple(merged)
    return result


def _matmul(left: Axes | None, right: Axes | None) -> Axes | None:
    if not left or not right:
        return None
    inner = right[-2] if len(right) > 1 else right[0]
    left[-1].agree(inner)
    batch = _broadcast([left[:-2], right[:-2]]) or ()
    return (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))


def _reduced(axes: Axes | None, keywords: tuple[Keyword, ...]) -> Axes | None:
    """Return what is left when the axes named by `axis=` are reduced."""
    if axes is None:
        return None
    words = {word.name: word.value for word in keywords}
    gone = _gone(words.get("axis"), len(axes))
    if gone is None:
        return None
    if words.get("keepdims") == Flag(True):
        return tuple(Axis(ONE) if at in gone else axis for at, axis in enumerate(axes))
    return tuple(axis for at, axis in enumerate(axes) if at not in gone)


def _gone(axis: Expr | None, rank: int) -> frozenset[int] | None:
    """Return the positions `axis=` names, None if it is no literal."""
    if axis is None:
        return frozenset((rank - 1,))
    if isinstance(axis, Flag):
        return frozenset(range(rank))
    found = [_size(part) for part in (axis.items if isinstance(axis, Sequence) else (axis,))]
    numbers = [None if size is None else size.constant for size in found]
    if any(number is None for number in numbers):
        return None
    return frozenset(number % rank for number in numbers if number is not None and rank)


def _size(expr: Expr | None) -> Dim | None:
    """Return the dim an expression is, None if it is none."""
    match expr:
        case Number(value=int(value)):
            return Dim.of(value)
        case Name():
            return Dim.of(expr.name)
        case Unary(operator="-"):
            size = _size(expr.operand)
            return None if size is None else -size
        case Binary(operator="+" | "-" | "*" | "·"):
            left, right = _size(expr.left), _size(expr.right)
            if left is None or right is None:
                return None
            if expr.operator in ("+", "-"):
                return left + right if expr.operator == "+" else left - right
            return left * right
        case _:
            return None


def _shaped(call: Call) -> Axes | None:
    """Return the axes that a function's sizes state."""
    if call.function == "eye":
        return _square(_size(call.arguments[0]))
    sizes = call.arguments[-1]
    items = sizes.items if isinstance(sizes, Sequence) else (sizes,)
    found = [_size(item) for item in items]
    return tuple(Axis(None if size == Dim.of(-1) else size) for size in found)


def _square(size: Dim | None) -> Axes:
    axis = Axis(size)
    return (axis, axis)


def _dot(axes: list[Axes | None]) -> Axes | None:
    if len(axes) != 2:
        return None
    return _broadcast(axes) if () in axes else _matmul(*axes)


def _outer(axes: list[Axes | None]) -> Axes | None:
    if len(axes) != 2 or axes[0] is None or axes[1] is None:
        return None
    return (*axes[0], *axes[1])


def _diag(axes: list[Axes | None]) -> Axes | None:
    first = axes[0]
    if not first:
        return None
    if len(first) == 1:
        return (first[0], first[0])
    first[0].agree(first[1])
    return first[:1]


def _equal_axes(axes: list[Axes | None]) -> Axes | None:
    first = axes[0]
    if first is not None and len(first) == 2:
        first[0].agree(first[1])
    return first


def _number(axes: list[Axes | None]) -> Axes | None:
    _equal_axes(axes)
    return ()


def _solve(axes: list[Axes | None]) -> Axes | None:
    matrix = _equal_axes(axes)
    if len(axes) != 2 or not matrix or not axes[1]:
        return None
    axes[1][0].agree(matrix[0])
    return axes[1]


_RULES: dict[str, Callable[[list[Axes | None]], Axes | None]] = {
    "dot": _dot,
    "outer": _outer,
    "diag": _diag,
    "trace": _number,
    "det": _number,
    "logdet": _number,
    "inv": _equal_axes,
    "cholesky": _equal_axes,
    "solve": _solve,
    "tril": lambda axes: axes[0],
    "triu": lambda axes: axes[0],
    "stop_gradient": lambda axes: axes[0],
    "transpose": lambda axes: axes[0][::-1] if axes[0] is not None and len(axes) == 1 else None,
}
