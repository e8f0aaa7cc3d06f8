"""Choices and conditions written, with Iverson brackets: `[z > 0] x`.

Scalar -> str
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from symgrad.bounds import one_sided
from symgrad.program import Apply, Guard, Number, Scalar
from symgrad.reading.hands import ADD, ATOM, MUL
from symgrad.reading.layout import opposite
from symgrad.reading.places import Written, sum_of, write_affine, write_dim
from symgrad.reading.products import Product, product_of

if TYPE_CHECKING:
    from symgrad.reading.write import Writer

COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})


def choice(writer: Writer, mask: Scalar, yes: Scalar, no: Scalar) -> Written:
    """Write `where` with Iverson brackets."""
    pieces: list[tuple[bool, Written]] = []
    for case, value in ((mask, yes), (opposite(mask), no)):
        if value == Number(0):
            continue
        bracket = writer.hand.bracket(condition(writer, case))
        product = product_of((value,))
        negative = product.number < 0
        if negative:
            product.number = -product.number
        if product == Product():
            pieces.append((negative, (bracket, ATOM)))
            continue
        text, tight = writer.product(product)
        text = writer.hand.group(text) if tight == ADD else text
        pieces.append((negative, (writer.hand.join([("", bracket), ("", text)]), MUL)))
    return sum_of(pieces, writer.hand)


def condition(writer: Writer, mask: Scalar) -> str:
    """Write a mask without brackets."""
    match mask:
        case Apply(sign, (left, right), ()) if sign in COMPARISONS:
            return writer.hand.compared(writer.shown(left), sign, writer.shown(right))
        case Apply(("and_" | "or_") as sign, (first, *others), ()):
            text = _part_of(writer, sign, first)
            for other in others:
                text = writer.hand.compared(text, sign, _part_of(writer, sign, other))
            return text
        case Apply("not_", (arg,), ()):
            inner = writer.hand.group(condition(writer, arg))
            return writer.hand.join([("", writer.hand.relation("not_")), ("", inner)])
        case Guard():
            return within(writer, mask)
        case _:
            return writer.shown(mask)


def _part_of(writer: Writer, sign: str, mask: Scalar) -> str:
    """Write one side of `and` or `or`; the other kind inside stands in parentheses."""
    text = condition(writer, mask)
    mixed = isinstance(mask, Apply) and mask.function in {"and_", "or_"} - {sign}
    return writer.hand.group(text) if mixed else text


def within(writer: Writer, guard: Guard) -> str:
    """Write `0 <= position < dim`, only the side that can fail if that is one."""
    zero, hand = writer.hand.number(0), writer.hand
    side = one_sided(guard)
    if side is not None:
        left, right = (write_affine(a, hand, writer.letters)[0] for a in (side.left, side.right))
        return hand.compared(left, side.sign, right)
    middle = write_affine(guard.position, hand, writer.letters)[0]
    last = write_dim(guard.dim, hand)[0]
    return hand.compared(hand.compared(zero, "le", middle), "lt", last)
