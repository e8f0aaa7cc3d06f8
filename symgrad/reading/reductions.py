"""Reductions written as the textbook has them: products, extrema, logsumexp, softmax.

Reduce, Rowwise -> str
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from symgrad.program import Affine, Apply, Index, Rowwise, Scalar, substitute
from symgrad.reading.hands import ADD, ATOM, MUL
from symgrad.reading.places import Written

if TYPE_CHECKING:
    from symgrad.reading.write import Writer


def reduction(
    writer: Writer, kind: str, bound: tuple[Index, ...], inner: Scalar
) -> Written:
    """Write a product, an extremum, a logsumexp or a norm."""
    with writer.letters.bind(bound) as names:
        below = [writer.hand.name(n) for n in names]
        if kind == "logsumexp":
            total = writer.hand.big("sum", below, writer.write(Apply("exp", (inner,)))[0])
            return writer.hand.call("log", (), (total,)), ATOM
        if kind == "norm":
            return writer.hand.sqrt(square_sum(writer, bound, inner)[0]), ATOM
        text, tight = writer.write(inner)
        return writer.hand.big(kind, below, text if tight > ADD else writer.hand.group(text)), MUL


def square_sum(writer: Writer, bound: tuple[Index, ...], inner: Scalar) -> Written:
    """Write the sum of squares that a norm is the root of."""
    with writer.letters.bind(bound) as names:
        below = [writer.hand.name(n) for n in names]
        return writer.hand.big("sum", below, writer.powered(inner, 2)[0]), MUL


def rowwise(writer: Writer, body: Rowwise, mapping: Mapping[Index, Affine]) -> Written:
    """Write softmax and log_softmax as the textbook has them."""
    there = {j: mapping.get(i, Affine.of(i)) for i, j in zip(body.at, body.bound, strict=True)}
    other = {k: v for k, v in mapping.items() if k not in body.bound}
    here = substitute(substitute(body.body, there), other)
    each = substitute(body.body, other)
    with writer.letters.bind(body.bound) as names:
        below = [writer.hand.name(n) for n in names]
        total = writer.hand.big("sum", below, writer.write(Apply("exp", (each,)))[0])
    if body.kind == "softmax":
        return writer.hand.quotient(writer.write(Apply("exp", (here,)))[0], total, False), MUL
    text = writer.write(here)[0]
    return writer.hand.total([(False, text), (True, writer.hand.call("log", (), (total,)))]), ADD
