"""Jacobians that are arrays of the sweep themselves: where only they are asked for, they are made
in the caller's array, and never copied there.

Forms -> definitions of dense Jacobians
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from symgrad.algebra.order import needed
from symgrad.errors import CodegenError
from symgrad.form import Forms, Structured
from symgrad.generation.numbers import is_double
from symgrad.generation.order import Order
from symgrad.generation.texts import shape_text
from symgrad.generation.words import code_name
from symgrad.program import Access, Affine, Definition, Scalar, Term, reads, scalars_of

if TYPE_CHECKING:
    from symgrad.generation.drivers import Drivers


def direct(forms: Forms) -> dict[str, Definition]:
    """Return, by the names of dense Jacobians, the definitions that they are copies of.

    Those are read by nothing else.
    """
    made = {d.name: d for d in forms.factors.definitions}
    own = {*forms.program.outputs, *(d.name for d in forms.program.definitions)}
    found: dict[str, Definition] = {}
    for structured in forms.structured:
        source = made.get(_copied(structured.dense) or "")
        if source is None or source.name in own or not _plain(source):
            continue
        readers = [d for d in made.values() if source.name in reads(d)]
        others = [s for s in forms.structured if s is not structured and source.name in s.arrays]
        if not readers and not others:
            found[structured.dense.name] = replace(source, name=structured.dense.name)
    return found


def _copied(dense: Definition) -> str | None:
    """Return the array that a dense Jacobian is a copy of, if it is one."""
    at = tuple(Affine.of(i) for i in dense.indices)
    match dense.body:
        case (Term((), (Access(array, place),)),) if place == at:
            return array
    return None


def _plain(source: Definition) -> bool:
    """Whether a definition is a sum of terms that stands for itself."""
    return isinstance(source.body, tuple) and source.loop is None and not source.frozen


def of_sweep_dense(forms: Forms, found: dict[str, Definition]) -> Order:
    """Return what `_sweep_dense` computes: what dense Jacobians are made of, but for them."""
    made = {d.name for d in forms.factors.definitions}
    wanted: dict[str, frozenset[str]] = {}
    for s in forms.structured:
        source = found.get(s.dense.name, s.dense)
        arrays = frozenset(n for n in reads(source) if n in made)
        name = s.jacobian.parameter
        wanted[name] = wanted.get(name, frozenset()) | arrays
    kept = sorted({a for arrays in wanted.values() for a in arrays})
    definitions = needed(forms.factors.definitions, kept)
    return Order(definitions, keep=kept, handed=kept, leaves=wanted)


def is_shorter(forms: Forms, found: dict[str, Definition]) -> bool:
    """Whether dense Jacobians need less than the sweep computes: not all outputs, for one."""
    return len(of_sweep_dense(forms, found).definitions) < len(forms.factors.definitions)


def together(forms: Forms, found: dict[str, Definition]) -> tuple[Structured, ...]:
    """Return Jacobians to be made by one driver: functions that they have in common run once."""
    calling = [
        s
        for s in forms.structured
        if s.dense.name in found and any(map(_calls, scalars_of(found[s.dense.name].body)))
    ]
    return tuple(calling) if len(calling) > 1 else ()


def _calls(scalar: Scalar) -> bool:
    """Whether a scalar calls a function; a letter that stands for one is bound later."""
    try:
        return is_double(scalar)
    except CodegenError:
        return True


def direct_text(drivers: Drivers, blocks: tuple[Structured, ...]) -> str:
    """Return the driver of some dense Jacobians, by name."""
    definitions = tuple(drivers.direct[s.dense.name] for s in blocks)
    steps = drivers.lines(Order(definitions, made=[d.name for d in definitions]))
    several = len(drivers.forms.program.outputs) > 1
    read = [a for d in definitions for a in reads(d) if a not in drivers.declared()]
    lines, entries = drivers.recalled(dict.fromkeys(read), steps), []
    for number, structured in enumerate(blocks, 1):
        jacobian, target = structured.jacobian, code_name(structured.dense.name)
        own = f'"{jacobian.parameter}"'
        key = f'("{jacobian.output}", {own})' if several else own
        shape = shape_text([i.dim for i in structured.dense.indices])
        out, copied = f"out_{number}", f"copied_{number}"
        made = f'_result("{structured.title}", {out}, {shape}, dtype, single, arrays)'
        lines += [f"{out} = outs.get({key})", f"{target}, {copied} = {made}"]
        entries.append(f"    {key}: _delivered({target}, {copied}, {out}, single),")
    lines += [*steps, "return {", *entries, "}"]
    title = "Return dense Jacobians that have functions in common."
    return drivers.function("_direct", "arrays, sizes, dtype, v, single, outs", title, lines)


__all__ = ["direct", "direct_text", "is_shorter", "of_sweep_dense", "together"]
