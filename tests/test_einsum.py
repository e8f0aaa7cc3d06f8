"""einsum is numpy's, on the axes of one sample."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

rng = np.random.default_rng(0)

# pattern | the axes of the parameters | numbers for the dims
PATTERNS = [
    ("...ij,...j->...i", ("k m n", "k n")),
    ("...ij,...j->...i", ("m n", "k n")),
    ("i...,i...->i...", ("m k n", "m n")),
    ("ij...->...ji", ("m n k",)),
    ("...i,...i", ("k n", "n")),
    ("...ij,...jk", ("k m n", "1 n p")),
    ("...,...", ("k n", "k 1")),
    ("...,i->...i", ("k", "n")),
    ("i...->i...", ("n",)),
    ("...ii->...i", ("k n n",)),
    ("...ii->...", ("k n n",)),
    ("ij->...ij", ("m n",)),
]
SIZES = {"k": 2, "m": 3, "n": 4, "p": 5, "1": 1}


@pytest.mark.parametrize(("pattern", "shapes"), PATTERNS)
def test_dots_stand_for_the_axes_that_have_no_letter(pattern, shapes):
    params = dict(zip("AB", shapes, strict=False))
    text = f'einsum("{pattern}", {", ".join(params)})'
    jac = sg.compile(text, params=params)
    arrays = [rng.normal(size=[SIZES[d] for d in axes.split()]) for axes in shapes]
    np.testing.assert_allclose(jac.forward(*arrays), np.einsum(pattern, *arrays), rtol=1e-12)


@pytest.mark.parametrize(
    ("pattern", "message", "hint"),
    [
        ("...i,...i->i", "lacks the axes", "->...i"),
        ("...i...,i->i", "once at most", "no letter"),
        ("..i,i->i", "no pattern", "one letter"),
        ("...ijk,i->...i", "3 axes of 'ijk'", "letter"),
        ("...i,...->...i", "does not fit", "only a literal 1"),
    ],
)
def test_dots_that_do_not_fit_are_refused_with_their_place(pattern, message, hint):
    with pytest.raises(sg.SymgradError, match=message) as caught:
        sg.derive(f'einsum("{pattern}", A, b)', params={"A": "m n", "b": "n"})
    assert hint in caught.value.hint
    assert caught.value.span is not None
