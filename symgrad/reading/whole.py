"""Functions of whole matrices as people write them: `S⁻¹`, `A⁻¹ b`, `log det S`, `chol(S)`.

Primitive, Hand -> text; an element of it is `(S⁻¹)_ij`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from symgrad.program import Access, Affine, Definition, Index, Primitive, move
from symgrad.reading.hands import ATOM, MUL, POWER, Hand

if TYPE_CHECKING:
    from symgrad.reading.write import Writer

Written = tuple[str, int]
Named = Callable[[Access, Sequence[Index]], str]
"""Writes an operand without its own axes: `S`, or `S_m` where it is one of a stack."""


def whole(body: Primitive, hand: Hand, named: Named, *, turned: bool = False) -> Written:
    """Return a function of whole matrices, transposed if `turned` (an inverse only)."""
    names = [named(o, axes) for o, axes in zip(body.operands, body.axes, strict=True)]
    backwards = [_backwards(o, axes) for o, axes in zip(body.operands, body.axes, strict=True)]
    shown = [hand.transpose(n) if back else n for n, back in zip(names, backwards, strict=True)]
    match body.kind:
        case "inv":
            return hand.inverse(names[0], backwards[0] != turned), POWER
        case "solve":
            solved = hand.inverse(names[0], backwards[0])
            return hand.join([("", solved), ("", shown[1])]), MUL
        case "cholesky":
            return hand.call("chol", (), (shown[0],)), ATOM
        case "det" | "logdet":
            return hand.determinant(shown[0], body.kind == "logdet"), MUL


def element(text: Written, at: Sequence[str], hand: Hand) -> Written:
    """Return an element of what is written."""
    if not at:
        return text
    head = text[0] if text[1] == ATOM else hand.group(text[0])
    return hand.at(head, at), ATOM


def in_place(definition: Definition | None, adjoints: frozenset[str]) -> bool:
    """Whether a function of whole matrices is written where it is read: nobody named it."""
    if definition is None or not is_function(definition):
        return False
    return not definition.written or definition.name in adjoints


def is_function(definition: Definition) -> bool:
    """Whether a definition is a function of whole matrices."""
    return isinstance(definition.body, Primitive)


def _backwards(operand: Access, axes: Sequence[Index]) -> bool:
    """Whether a matrix is read with rows and columns exchanged."""
    bare = [p.bare for p in operand.at if isinstance(p, Affine)]
    places = [bare.index(i) for i in axes]
    return len(places) == 2 and places[0] > places[1]


def titled(writer: Writer, name: str, at: Sequence[str]) -> str:
    """Write an element; `G^{S⁻¹}` names a function of matrices as it is written."""
    title = writer.title(name)
    head, _, owners = title.partition("^")
    above = [
        (called(writer, o)[0] if in_place(writer.definitions.get(o), writer.adjoints) else None)
        for o in owners.split(",")
    ]
    if name not in writer.adjoints or not any(above):
        return writer.hand.indexed(title, at)
    both = zip(above, owners.split(","), strict=True)
    return writer.hand.raised(head, [a or writer.hand.name(o) for a, o in both], at)


def called(writer: Writer, name: str) -> Written:
    """Write what an array is called: its name, or the function of matrices that it is."""
    definition = writer.definitions.get(name)
    body = definition.body if definition is not None else None
    if not in_place(definition, writer.adjoints) or not isinstance(body, Primitive):
        return writer.hand.name(name), ATOM

    def named(operand: Access, axes: Sequence[Index]) -> str:
        text, tight = called(writer, operand.array)
        return text if tight == ATOM else writer.hand.group(text)

    return whole(body, writer.hand, named)


def primitive(writer: Writer, body: Primitive, mapping: Mapping[Index, Affine]) -> Written:
    """Write an element of a function of whole matrices, or all of it if it is a number."""

    def named(operand: Access, axes: Sequence[Index]) -> str:
        inner, tight = called(writer, operand.array)
        if inner != writer.hand.name(operand.array):
            return inner if tight == ATOM else writer.hand.group(inner)
        own = [Affine.of(i) for i in axes]
        stack = [p for p in writer.visible(operand) if p not in own]
        at = [writer.position(move(p, mapping)) for p in stack]
        return titled(writer, operand.array, at)

    at = [mapping.get(i, Affine.of(i)) for i in body.at if i.dim.constant != 1]
    written = whole(body, writer.hand, named)
    return element(written, [writer.position(p) for p in at], writer.hand)
