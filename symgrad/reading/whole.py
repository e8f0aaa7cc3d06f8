"""Functions of whole matrices as people write them: `S⁻¹`, `A⁻¹ b`, `log det S`, `chol(S)`.

Primitive, Hand -> text; an element of it is `(S⁻¹)_ij`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symgrad.program import Access, Affine, Definition, Index, Primitive
from symgrad.reading.hands import ATOM, MUL, POWER, Hand

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
    if definition is None or not isinstance(definition.body, Primitive):
        return False
    return not definition.written or definition.name in adjoints


def _backwards(operand: Access, axes: Sequence[Index]) -> bool:
    """Whether a matrix is read with rows and columns exchanged."""
    bare = [p.bare for p in operand.at if isinstance(p, Affine)]
    places = [bare.index(i) for i in axes]
    return len(places) == 2 and places[0] > places[1]
