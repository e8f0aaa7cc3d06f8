"""Sizes and positions written: `2 t + q`, `⌊(n - 1)/2⌋`.

Dim, Affine -> str
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.dims import Dim, Floor
from symgrad.dims import signed as sign_and_size
from symgrad.program import Affine
from symgrad.reading.hands import ADD, ATOM, MUL, Hand
from symgrad.reading.letters import Letters

Written = tuple[str, int]


def write_dim(dim: Dim, hand: Hand) -> Written:
    """Write a dim polynomial."""
    signed: list[tuple[bool, Written]] = []
    for monomial, number in dim.terms:
        parts = [hand.number(abs(number))] if abs(number) != 1 or not monomial else []
        for atom, power in monomial:
            if isinstance(atom, Floor):
                inner = write_dim(atom.numerator, hand)[0]
                text = hand.floor(inner, hand.number(atom.denominator))
            else:
                text = hand.name(atom)
            parts.append(hand.power(text, hand.number(power)) if power > 1 else text)
        joined = hand.join([("", p) for p in parts])
        signed.append((number < 0, (joined, ATOM if len(parts) == 1 else MUL)))
    signed.sort(key=lambda item: item[0])
    return sum_of(signed, hand)


def write_affine(affine: Affine, hand: Hand, letters: Letters) -> Written:
    """Write a position as a number."""
    signed: list[tuple[bool, Written]] = []
    for index, _ in affine.terms:
        letters.take(index)
    named = list(letters.used)
    for index, number in sorted(affine.terms, key=lambda term: named.index(term[0])):
        letter = hand.name(letters.take(index))
        negative, size = sign_and_size(number)
        if isinstance(size, int):
            count = hand.number(size)
        else:
            text, tight = write_dim(size, hand)
            count = text if tight >= MUL else hand.group(text)
        many = hand.join([("", count), ("", letter)]) if size != 1 else letter
        signed.append((negative, (many, ATOM if size == 1 else MUL)))
    if affine.offset.terms or not signed:
        text, tight = write_dim(affine.offset, hand)
        lone = affine.offset.constant
        if lone is not None and lone < 0:
            signed.append((True, (hand.number(-lone), ATOM)))
        else:
            signed.append((False, (text, tight)))
    signed.sort(key=lambda item: item[0])
    return sum_of(signed, hand)


def sum_of(signed: Sequence[tuple[bool, Written]], hand: Hand) -> Written:
    """Join terms by their signs; no terms are zero."""
    if not signed:
        return hand.number(0), ATOM
    if len(signed) == 1 and not signed[0][0]:
        return signed[0][1]
    return hand.total(
        [(n, hand.group(w) if n and tight == ADD else w) for n, (w, tight) in signed]
    ), ADD
