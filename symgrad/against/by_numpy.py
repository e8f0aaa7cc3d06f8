"""numpy by hand: the closed forms, one operation of numpy after another.

Case -> {form: Run}
What is zero by structure is not computed: dense arrays are filled with zeros, and what is not zero
is written on their diagonals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from string import ascii_letters
from typing import Any

import numpy as np

from symgrad.against.case import DENSE, FORWARD, GRADIENT, VJP, Arrays, Case, Run
from symgrad.against.labelled import Axes
from symgrad.against.tape import Tape, written
from symgrad.against.tool import Array, tool
from symgrad.against.translate import Run as Evaluation
from symgrad.against.translate import Translation
from symgrad.derivation import Jacobian
from symgrad.form import Form
from symgrad.program import Affine, Delta, Index, Scalar, Term, substitute


def by_numpy(case: Case) -> dict[str, Callable[[], Run]]:
    """Return how each form is made."""
    return {
        FORWARD: lambda: _forward(case),
        DENSE: lambda: _dense(case),
        VJP: lambda: _pulled(case, case.u),
        GRADIENT: lambda: _pulled(case, tuple(map(np.ones_like, case.u))),
    }


def _run(tape: Tape, arrays: Arrays, names: Sequence[str]) -> Run:
    def call() -> tuple[Array, ...]:
        with np.errstate(all="ignore"):
            return tape(arrays)

    return Run(call, lambda found: dict(zip(names, found, strict=True)))


def _forward(case: Case) -> Run:
    def evaluate(here: Any, arrays: dict[str, Any]) -> Sequence[Any]:
        made = Translation(case.compiled.forms.program, here, case.sizes)
        return made.outputs(made.run(case.compiled.forms.forward.definitions, arrays))

    tape = written(tool("numpy"), case.arrays, evaluate)
    return _run(tape, case.arrays, case.program.outputs)


def _pulled(case: Case, u: tuple[Any, ...]) -> Run:
    form: Form = case.compiled.forms.vjp
    seeds = {a.name: one for a, one in zip(form.given, u, strict=True)}
    arrays = {**case.arrays, **seeds}

    def evaluate(here: Any, given: dict[str, Any]) -> Sequence[Any]:
        made = Translation(case.compiled.forms.program, here, case.sizes)
        values = made.run(form.definitions, given).values
        return [values[result.array] for result in form.results]

    tape = written(tool("numpy"), arrays, evaluate)
    return _run(tape, arrays, [result.key[0] for result in form.results])


def _dense(case: Case) -> Run:
    forms = case.compiled.forms
    jacobians = [structured.jacobian for structured in forms.structured]
    outs: dict[str, Any] = {}

    def evaluate(here: Any, arrays: dict[str, Any]) -> Sequence[Any]:
        made = Translation(forms.program, here, case.sizes)
        run = made.run(forms.factors.definitions, arrays)
        for one in jacobians:
            lead = (forms.program.batch,) if case.batched else ()
            axes = (*lead, *one.out, *one.axes)
            out = np.zeros(tuple(run.size(i) for i in axes))
            outs[case.keyed(one.output, one.parameter)] = out
            tape = next(v.tape for v in arrays.values())
            fill(run, tape, one, axes, out)
        return ()

    tape = written(tool("numpy"), case.arrays, evaluate)
    run = _run(tape, case.arrays, ())
    return Run(run.call, lambda found: outs)


def fill(run: Evaluation, tape: Tape, jacobian: Jacobian, axes: Axes, out: Any) -> None:
    """Write down how a dense Jacobian is filled: zeros, then every term on its diagonal."""
    placed = [_on_diagonal(term, axes) for term in jacobian.dense]
    whole = len(placed) == 1 and not placed[0][1]
    if not whole:
        tape.done(_zeroed, (out,))
    for term, aliases in placed:
        kept = tuple(i for i in axes if i not in aliases)
        letters = dict(zip(kept, ascii_letters, strict=False))
        ends = [letters[aliases.get(i, i)] for i in axes]
        spec = f"{''.join(ends)}->{''.join(letters[i] for i in kept)}"
        view = np.einsum(spec, out) if axes else out
        _written_into(run, tape, term, kept, view, alone=len(placed) == 1)


def _zeroed(out: Any) -> Any:
    out[...] = 0
    return out


def _on_diagonal(term: Term, axes: Axes) -> tuple[Term, Mapping[Index, Index]]:
    """Return a term without deltas of two axes of equal length, and which axis is which other."""
    aliases: dict[Index, Index] = {}
    rest: list[Scalar] = []
    for factor in term.factors:
        if isinstance(factor, Delta):
            left, right = (_followed(p.bare, aliases) for p in (factor.left, factor.right))
            if left in axes and right in axes and left is not None and right is not None:
                if left == right:
                    continue
                if left.dim == right.dim:
                    aliases = {k: left if v == right else v for k, v in aliases.items()}
                    aliases[right] = left
                    continue
        rest.append(factor)
    moved = {right: Affine.of(left) for right, left in aliases.items()}
    return Term(term.bound, tuple(substitute(f, moved) for f in rest)), aliases


def _followed(index: Index | None, aliases: Mapping[Index, Index]) -> Index | None:
    return aliases.get(index, index) if index is not None else None


def _written_into(
    run: Evaluation, tape: Tape, term: Term, kept: Axes, view: Any, *, alone: bool
) -> None:
    """Write down how a term is put into a view: as a product right there, where it is one."""
    parts = run.parts(term.factors, (*kept, *term.bound))
    if parts is None:
        return
    if alone and not term.bound and len(parts) > 1:
        *first, last = (one for one in sorted(parts, key=lambda one: len(one.axes)))
        left = run.algebra.aligned(run.algebra.product(first, kept), kept)
        tape.done(_multiplied, (left, run.algebra.aligned(last, kept), view))
        return
    found = run.term(term, kept)
    if found is not None:
        value = run.algebra.aligned(found, kept)
        tape.done(_assigned if alone else _added, (value, view))


def _multiplied(left: Any, right: Any, view: Any) -> Any:
    return np.multiply(left, right, out=view)


def _assigned(value: Any, view: Any) -> Any:
    view[...] = value
    return view


def _added(value: Any, view: Any) -> Any:
    view += value
    return view


__all__ = ["by_numpy"]
