"""Programs built by hand, for tests that want no parser in between."""

from __future__ import annotations

import numpy as np

from symgrad.derivation import Derivation, Jacobian, Selection
from symgrad.dims import Dim
from symgrad.program import (
    BATCH,
    Access,
    Affine,
    Apply,
    Array,
    Definition,
    Delta,
    Index,
    Program,
    Term,
)

n, m, t, k = (Dim.of(letter) for letter in "nmtk")
B = Index("b", BATCH, 1)
I = Index("i", m, 2)
K = Index("k", n, 3)
J = Index("j", m, 4)
Q = Index("q", n, 5)


def read(name, *at):
    return Access(name, tuple(Affine.of(a) for a in at))


def program(arrays, definitions, outputs=("y",), **more):
    return Program("layer", "", tuple(arrays), tuple(definitions), outputs, B, 99, **more)


def dense(function="tanh"):
    x, W, b = Array("x", "input", (n,)), Array("W", "param", (m, n)), Array("b", "param", (m,))
    z = Definition(
        "z",
        (B, I),
        (Term((K,), (read("W", I, K), read("x", B, K))), Term((), (read("b", I),))),
    )
    y = Definition("y", (B, I), (Term((), (Apply(function, (read("z", B, I),)),)),))
    return program((x, W, b), (z, y))


def dense_arrays(seed=0):
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=(3, 4)), "W": rng.normal(size=(2, 4)), "b": rng.normal(size=2)}


def slope_of_dense():
    p, q = Index("p", m, 40), Index("q", n, 41)
    adjoint = Definition("dy_dz", (B, I), (Term((), (Apply("tanh", (read("z", B, I),), (1,)),)),))
    term = Term((), (Delta(Affine.of(I), Affine.of(p)), read("dy_dz", B, I), read("x", B, q)))
    return Derivation(
        dense(),
        Selection(("W",)),
        (adjoint,),
        (("dy_dz", "y", "z"),),
        (Jacobian("y", "W", (I,), (p, q), (term,)),),
        99,
    )
