"""The Jacobian times directions: every definition's tangent, in the order of the definitions.

Derivation -> Form
A tangent is the sum of partials times the tangents they read; functions of matrices solve for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from symgrad.algebra.contract import contract
from symgrad.algebra.local import Partial
from symgrad.algebra.names import Names
from symgrad.algebra.order import arrange, needed
from symgrad.algebra.partials import local_partials
from symgrad.algebra.parts import spent, tangent_of
from symgrad.algebra.primitives import SOLVED, Rule, share
from symgrad.algebra.primitives import tangent as solved_tangent
from symgrad.algebra.sweep import Sweep, depends
from symgrad.derivation import Derivation
from symgrad.form import Form, Result
from symgrad.program import Access, Affine, Definition, Index, Supply, Term


def tangents(derivation: Derivation, names: Names, supply: Supply) -> Form:
    """Return the form of tangents: t_z = sum over accesses of (d z / d access) * t_access."""
    program, selection = derivation.program, derivation.selection
    active = depends(program, selection.active)
    tangent = {
        n: names.new(f"t_{n}")
        for n in (*selection.active, *(d.name for d in program.definitions))
        if n in active
    }
    tangent |= {n: names.new(f"t_{n}") for n in selection.names if n not in tangent}
    given = []
    for name in selection.names:
        array = program.array(name)
        assert array is not None
        region = selection.region(name)
        axes = array.axes if region is None or selection.filled else region.axes
        given.append(replace(array, name=tangent[name], axes=axes))
    definitions = _of_definitions(derivation, active, tangent, names, supply)
    results = []
    for output in program.outputs:
        own = program.definition(output)
        assert own is not None
        if output not in tangent or not any(d.name == tangent[output] for d in definitions):
            tangent[output] = names.new(f"t_{output}")
            definitions.append(Definition(tangent[output], own.indices, (), written=False))
        results.append(Result((output,), tangent[output], own.indices))
    wanted = [r.array for r in results]
    everything = (*program.definitions, *definitions)
    return Form("jvp", needed(everything, wanted), tuple(results), tuple(given))


def _of_definitions(
    derivation: Derivation,
    active: frozenset[str],
    tangent: Mapping[str, str],
    names: Names,
    supply: Supply,
) -> list[Definition]:
    """Return the tangents of all active definitions; `tangent` has their names."""
    program = derivation.program
    definitions: list[Definition] = []
    steps: dict[str, Index] = {}
    shared: dict[object, str] = {}
    for definition in program.definitions:
        if definition.name not in active or definition.frozen:
            continue
        if definition.loop is not None:
            steps[tangent[definition.name]] = definition.loop.index
        rule = Rule.of(definition, supply, names.new)
        if rule is not None and rule.body.kind in SOLVED:
            given = {n: t for n, t in tangent.items() if n in active}
            given = _whole_tangents(derivation, rule, given, definitions, names, supply)
            definitions += solved_tangent(rule, tangent[definition.name], given)
            continue
        sweep = Sweep(program, derivation.selection, supply, names, prefix="t", shared=shared)
        local = share(
            local_partials(definition, active.__contains__, supply, names.new), sweep.shared
        )
        definitions += local.supports
        terms = []
        for partial in local.partials:
            term = _pushed(derivation, partial, tangent[partial.access.array], supply)
            if term is not None:
                terms.append(sweep.split(tangent[definition.name], term, definition.indices))
        definitions += sweep.definitions
        definitions.append(
            Definition(tangent[definition.name], definition.indices, tuple(terms), written=False)
        )
    return list(arrange(definitions, steps, supply)) if steps else definitions


def _whole_tangents(
    derivation: Derivation,
    rule: Rule,
    tangent: Mapping[str, str],
    definitions: list[Definition],
    names: Names,
    supply: Supply,
) -> dict[str, str]:
    """Return the names of tangents for a rule on whole matrices: those of parts become whole.

    Zeros stand where a part leaves something out.
    """
    given = dict(tangent)
    for name in dict.fromkeys(operand.array for operand in rule.body.operands):
        region, array = derivation.selection.region(name), derivation.program.array(name)
        if region is None or array is None or name not in tangent:
            continue
        own = tuple(supply.fresh("i", d) for d in array.axes)
        batch = (derivation.program.batch,) if array.batched else ()
        indices = (*batch, *own)
        at = tuple(Affine.of(i) for i in indices)
        read = Access(name, at)
        filled = derivation.selection.filled
        bound, factors, deltas = tangent_of(read, tangent[name], array, region, supply, filled)
        given[name] = names.new(f"t_{name}")
        term = Term(bound, (*factors, *deltas))
        definitions.append(Definition(given[name], indices, (term,), written=False))
    return given


def _pushed(
    derivation: Derivation, partial: Partial, tangent: str, supply: Supply
) -> Term | None:
    """Return a partial times the tangent of what it is a partial of; None if it is zero."""
    access = partial.access
    region = derivation.selection.region(access.array)
    array = derivation.program.array(access.array)
    if region is None or array is None:
        return contract(Term(partial.bound, (*partial.factors, Access(tangent, access.at))))
    filled = derivation.selection.filled
    bound, factors, deltas = tangent_of(access, tangent, array, region, supply, filled)
    term = Term((*partial.bound, *bound), (*partial.factors, *factors))
    return spent(term, deltas, partial.bound)
