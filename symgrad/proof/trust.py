"""Declared slopes are taken on trust: what differences see instead, and what they would have said.

Program -> Program with nothing declared;  Declared -> note
Around a point a function with the slope s is `f(z0) - s(z0) z0 + s(z0) z`; the numbers of the point
are frozen parts, which differences hold.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from symgrad.algebra.declared import expand, expanded
from symgrad.program import (
    BATCH,
    Access,
    Affine,
    Apply,
    Array,
    Declared,
    Definition,
    Index,
    Program,
    Scalar,
    Term,
    indices_of,
    rebuild,
)
from symgrad.proof.differences import differences
from symgrad.proof.interpret import interpret


def trusting(program: Program) -> Program:
    """Return a program of the same values whose differences are the declared slopes."""
    if not program.declared:
        return program
    names = {one.name for one in program.declared}
    definitions: list[Definition] = []

    def frozen(scalar: Scalar) -> Scalar:
        indices = tuple(sorted(indices_of(scalar), key=lambda i: i.dim != BATCH))
        name = f"#{len(definitions)}"
        body = (Term((), (scalar,)),)
        definitions.append(Definition(name, indices, body, written=False, frozen=True))
        return Access(name, tuple(Affine.of(i) for i in indices))

    def change(node: Scalar) -> Scalar:
        if not isinstance(node, Apply) or node.function not in names or any(node.order):
            return node
        value, slope = (
            expanded(replace(node, order=order), program.declared) for order in ((), (1,))
        )
        steep = frozen(slope)
        offset = Apply("sub", (value, Apply("mul", (steep, node.args[0]))))
        return Apply("add", (frozen(offset), Apply("mul", (steep, node.args[0]))))

    for made in program.definitions:
        if isinstance(made.body, tuple):
            terms = tuple(
                Term(t.bound, tuple(rebuild(f, change) for f in t.factors)) for t in made.body
            )
            definitions.append(replace(made, body=terms))
        else:
            definitions += expand((made,), program.declared)
    conditions = tuple(
        replace(c, mask=expanded(c.mask, program.declared)) for c in program.conditions
    )
    made_up = tuple(definitions)
    return replace(program, definitions=made_up, conditions=conditions, declared=())


def note(one: Declared) -> str:
    """Return what a report says of a declared function: on trust, and where differences disagree.

    The value is differenced at points between -3 and 3.
    """
    z = np.linspace(-2.97, 2.97, 23)
    arrays = {one.argument.array: z}
    value, slope = (_alone(one, scalar) for scalar in (one.value, one.slope))
    found = differences(value, arrays, one.argument.array)["y"]
    declared = np.broadcast_to(interpret(slope, arrays)["y"], z.shape)
    allowed = 1e-6 * (1 + np.abs(found.jacobian)) + 10 * np.where(found.settled, found.error, 0)
    apart = found.settled & ~(np.abs(declared - found.jacobian) <= allowed)
    text = f"the slope of {one.name} is declared, not derived"
    if not np.any(apart):
        return text
    at = int(np.argmax(np.where(apart, np.abs(declared - found.jacobian), -1.0)))
    return (
        f"{text}: warning: at {z[at]:.3g} it is {declared[at]:.6g}, where differences of the "
        f"value give {found.jacobian[at]:.6g}"
    )


def _alone(one: Declared, scalar: Scalar) -> Program:
    """Return `y = scalar` as a program over samples of the argument."""
    batch = Index("b", BATCH, 0)
    argument = Access(one.argument.array, (Affine.of(batch),))
    body = rebuild(scalar, lambda node: argument if node == one.argument else node)
    array = Array(one.argument.array, "input", ())
    made = Definition("y", (batch,), (Term((), (body,)),))
    return Program("function", "", (array,), (made,), ("y",), batch, 1)
