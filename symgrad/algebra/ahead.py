"""Jacobians by forward accumulation: tangents that have the axes of the parameter behind.

Derivation, Jacobian -> Ahead
Where a parameter has few entries and an output many, tangents are smaller than adjoints. Both ways
are kept if sizes decide, and this one only where it is worth its text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from symgrad.algebra.contract import contract
from symgrad.algebra.local import Partial
from symgrad.algebra.names import Names
from symgrad.algebra.order import needed
from symgrad.algebra.partials import local_partials
from symgrad.algebra.primitives import SOLVED, Rule, share
from symgrad.algebra.sweep import Sweep, depends
from symgrad.algebra.ways import ELEMENT, at_most, points_of, values_of, ways
from symgrad.derivation import Derivation
from symgrad.dims import ONE, ZERO, Dim
from symgrad.form import Ahead, Structured
from symgrad.program import (
    Access,
    Affine,
    Definition,
    Delta,
    Guard,
    Index,
    Supply,
    Term,
    indices_of,
)

FEW = 16
"""Entries of a parameter, known when compiling, up to which its tangents are thought of."""
WIN = 2
"""How many times cheaper than adjoints they have to be for some sizes."""


def ahead(
    derivation: Derivation,
    adjoints: Sequence[Definition],
    structured: Structured,
    names: Names,
    supply: Supply,
) -> Ahead | None:
    """Return the way ahead to a Jacobian, None where it wins for no sizes or is not there."""
    program, jacobian = derivation.program, structured.jacobian
    array = program.array(jacobian.parameter)
    if array is None or array.batched or jacobian.whole or not jacobian.selected:
        return None
    sizes = [d.constant for d in array.axes]
    if derivation.selection.regions or len(program.outputs) > 1 or None in sizes:
        return None
    if prod(s for s in sizes if s is not None) > FEW or any(d.loop for d in program.definitions):
        return None
    theta = tuple(supply.fresh(i.name, i.dim) for i in jacobian.theta)
    made = _tangents(derivation, structured, theta, names, supply)
    if made is None:
        return None
    own = {d.name for d in program.definitions}
    back = needed((*program.definitions, *adjoints, structured.dense), [structured.dense.name])
    costs = tuple(_cost([d for d in way if d.name not in own]) for way in (back, made))
    if not _wins(*costs):
        return None
    way = needed((*program.definitions, *made), [structured.dense.name])
    return Ahead(structured.key, way, () if at_most(costs[1], costs[0]) else costs)


def _tangents(
    derivation: Derivation,
    structured: Structured,
    theta: tuple[Index, ...],
    names: Names,
    supply: Supply,
) -> list[Definition] | None:
    """Return the tangents from a parameter to the output, the dense Jacobian last."""
    program, parameter = derivation.program, structured.jacobian.parameter
    active = depends(program, (parameter,))
    tangent: dict[str, Access] = {}
    definitions: list[Definition] = []
    shared: dict[object, str] = {}
    for definition in program.definitions:
        if definition.name not in active or definition.frozen:
            continue
        rule = Rule.of(definition, supply, names.new)
        if rule is not None and rule.body.kind in SOLVED:
            return None
        sweep = Sweep(program, derivation.selection, supply, names, prefix="t", shared=shared)
        local = local_partials(definition, active.__contains__, supply, names.new)
        local = share(local, sweep.shared)
        definitions += local.supports
        name = names.new(f"t_{definition.name}")
        indices = (*definition.indices, *theta)
        arrived = [_pushed(p, parameter, theta, tangent) for p in local.partials]
        pushed = [_scaled(t, tangent, names, definitions) for t in arrived if t is not None]
        terms = tuple(sweep.split(name, t, indices) for t in pushed)
        definitions += sweep.definitions
        definitions.append(Definition(name, indices, terms, written=False))
        tangent[definition.name] = Access(name, tuple(Affine.of(i) for i in indices))
    return _closed(definitions, structured, tangent)


def _pushed(
    partial: Partial, parameter: str, theta: Sequence[Index], tangent: Mapping[str, Access]
) -> Term | None:
    """Return a partial times the tangent of what it is a partial of; None if it is zero."""
    access = partial.access
    if access.array == parameter:
        pairs = zip(theta, access.at, strict=True)
        deltas = tuple(Delta(Affine.of(i), p) for i, p in pairs)
        return contract(Term(partial.bound, (*partial.factors, *deltas)))
    known = tangent.get(access.array)
    if known is None:
        return None
    behind = tuple(Affine.of(i) for i in theta)
    factors = (*partial.factors, Access(known.array, (*access.at, *behind)))
    return contract(Term(partial.bound, factors))


def _scaled(
    term: Term, tangent: Mapping[str, Access], names: Names, definitions: list[Definition]
) -> Term:
    """Return a term in which a tangent times its slopes is one array: what is left is for BLAS."""
    known = {access.array for access in tangent.values()}
    found = [f for f in term.factors if isinstance(f, Access) and f.array in known]
    if not term.bound or len(found) != 1 or any(p.bare is None for p in found[0].at):
        return term
    (behind,) = found
    own = set(indices_of(behind))
    inner = tuple(f for f in term.factors if set(indices_of(f)) <= own)
    rest = tuple(f for f in term.factors if f not in inner)
    structured = any(isinstance(f, Delta | Guard) for f in term.factors)
    if structured or len(inner) < 2 or not rest:
        return term
    indices = tuple(p.bare for p in behind.at if p.bare is not None)
    name = names.new(f"s_{behind.array.split('_', 1)[-1]}")
    definitions.append(Definition(name, indices, (Term((), inner),), written=False))
    return Term(term.bound, (*rest, Access(name, behind.at)))


def _closed(
    definitions: list[Definition], structured: Structured, tangent: Mapping[str, Access]
) -> list[Definition] | None:
    """Return the definitions with the output's tangent called like the dense Jacobian."""
    dense, known = structured.dense, tangent.get(structured.jacobian.output)
    if known is None:
        return None
    last = next(d for d in definitions if d.name == known.array)
    if [i.dim for i in last.indices] != [i.dim for i in dense.indices]:
        return None
    if any(known.array in (a.array for a in _read(d)) for d in definitions):
        return None
    return [replace(d, name=dense.name) if d is last else d for d in definitions]


def _read(definition: Definition) -> list[Access]:
    terms = definition.body if isinstance(definition.body, tuple) else ()
    return [f for t in terms for f in t.factors if isinstance(f, Access)]


def _cost(definitions: Sequence[Definition]) -> Dim:
    """Return the multiplications of definitions, an element of a loop counted as several."""
    total = ZERO
    for definition in definitions:
        body = definition.body
        for term in body if isinstance(body, tuple) else ():
            several = ways(term)
            one = several[0].cost if several else _loops(term)
            arrays = [f for f in values_of(term) if isinstance(f, Access)]
            total = total + (one if term.bound and len(arrays) > 1 else one * ELEMENT)
    return total


def _loops(term: Term) -> Dim:
    """Return the steps of the loops of a term, in which deltas spare one each."""
    indices = dict.fromkeys(i for f in term.factors for i in indices_of(f))
    for factor in term.factors:
        if isinstance(factor, Delta):
            spared = [i for i in (factor.left.bare, factor.right.bare) if i in indices]
            indices = {i: None for i in indices if i not in spared[:1]}
    return prod((i.dim for i in indices), start=ONE)


def _wins(back: Dim, front: Dim) -> bool:
    """Whether the way ahead is cheaper by a factor for some sizes."""
    points = points_of(tuple(dict.fromkeys((*back.names, *front.names))))
    return any(back.evaluate(s) >= WIN * max(front.evaluate(s), 1) for s in points)


__all__ = ["ahead"]
