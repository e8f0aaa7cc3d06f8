"""Formulas in matrix style: `x σ'(Wx + b)`, `diag(1 - a²) W`, `(g ⊙ (1 - a²)) xᵀ`.

ClosedForm -> str
A term is a network of matrices and vectors; what is no such network raises Inexpressible.
"""

from __future__ import annotations

from contextlib import suppress

from symgrad.reading.arrays import MatrixForm, MatrixWriter
from symgrad.reading.blocks import Inexpressible
from symgrad.reading.closed import ClosedForm
from symgrad.reading.hands import Hand
from symgrad.reading.labels import stacks_of
from symgrad.reading.letters import title
from symgrad.reading.recurrences import endings
from symgrad.reading.whole import is_function


def jacobian_matrix(form: ClosedForm, hand: Hand) -> MatrixForm:
    """Return the Jacobian in matrix style; raise Inexpressible where it has more than two axes."""
    _require_axes(form)
    return _writer(form, hand).jacobian(form)


def vjp_matrix(form: ClosedForm, hand: Hand, cotangent: str) -> MatrixForm:
    """Return `sum_i g_i J_i` in matrix style."""
    _require_axes(form)
    axes = sum(1 for i in form.theta if i.dim.constant != 1)
    if form.beside and axes > 2:  # one of its arrays would be read element by element
        raise Inexpressible(f"{form.title} has {axes} axes behind those of {form.output}")
    return _writer(form, hand).pulled(form, cotangent)


def _require_axes(form: ClosedForm) -> None:
    if not any(array.axes for array in form.program.arrays):
        raise Inexpressible("nothing here has axes")
    if form.at:
        raise Inexpressible(f"a part of {form.parameter} is selected")


def named_matrices(form: ClosedForm, hand: Hand) -> tuple[str, ...]:
    """Return what the names of the derivation stand for that a formula reads, in matrix style."""
    writer = _writer(form, hand)
    ends = endings(form.named)
    lines: list[str] = []
    for made in form.named:
        if not is_function(made):
            lags = range(1, ends.get(made.name, 0) + 1)
            lines += [*(writer.end(made, lag) for lag in lags), writer.definition(made)]
    return tuple(lines)


def read_matrices(form: ClosedForm, hand: Hand, cotangent: str) -> dict[str, str | None]:
    """Return the layer's definitions that a formula leans on, in matrix style where they have one.

    A definition that has none maps to None.
    """
    writer = _writer(form, hand)
    try:
        writer.jacobian(form)
    except Inexpressible:
        writer.pulled(form, cotangent)
    found: dict[str, str | None] = {}
    while waiting := [n for n in writer.said if n not in found]:
        for name in waiting:
            definition = form.program.definition(name)
            found[name] = None
            if definition is not None:
                with suppress(Inexpressible):
                    found[name] = writer.definition(definition)
    return {d.name: found[d.name] for d in form.program.definitions if d.name in found}


def _writer(form: ClosedForm, hand: Hand) -> MatrixWriter:
    definitions = {d.name: d for d in (*form.program.definitions, *form.named)}
    titles = {d.name: title(d.name, form.program) for d in form.named}
    stacks = stacks_of(form.program, definitions.values())
    writer = MatrixWriter(form.program, hand, definitions, titles, stacks)
    for made in form.named:
        if is_function(made):
            continue
        writer.definition(made)  # a formula has matrix style only if all that it reads has
    return writer
