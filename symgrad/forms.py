"""Every form a module offers, each a program of its own: forward, factors, vjp, jvp, dense.

Derivation -> Forms
A form lists definitions in an order that can be run, and the arrays it hands out; nothing that
the selection did not ask for is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

from symgrad.algebra.ahead import ahead
from symgrad.algebra.factors import keyed, structure
from symgrad.algebra.names import Names
from symgrad.algebra.narrow import narrow
from symgrad.algebra.order import needed
from symgrad.algebra.sweep import Sweep, own_indices
from symgrad.algebra.tangents import tangents
from symgrad.derivation import Derivation, Jacobian, fill
from symgrad.form import Form, Forms, Result
from symgrad.program import (
    Access,
    Affine,
    Apply,
    Array,
    Definition,
    Delta,
    Number,
    Program,
    Supply,
    Term,
    reads,
)


def forms(derivation: Derivation, *, check_domain: bool = False) -> Forms:
    """Return every form of the derivation; with `check_domain` every call tests the domains."""
    program = derivation.program
    names = Names(program)
    names.taken |= {d.name for d in derivation.adjoints}
    supply = Supply(derivation.serial)
    outputs = _output_results(program)
    forward = Form("forward", needed(program.definitions, [r.array for r in outputs]), outputs)
    adjoints, jacobians = _narrowed(derivation, supply)
    first = [j for j in jacobians if not j.beside]
    structured = keyed(program, [structure(derivation, j, names) for j in first])
    arrays = [a for s in structured for a in s.arrays]
    everything = (*program.definitions, *adjoints)
    wanted = [*(r.array for r in outputs), *arrays]
    factors = Form("factors", needed(everything, wanted), outputs)
    vjp = _vjp(derivation, Names(program), supply, per_sample=False)
    per_sample = _vjp(derivation, Names(program), supply, per_sample=True)
    own = {d.name for d in program.definitions}
    saved = dict.fromkeys(
        n
        for f in (vjp, per_sample)
        for d in f.definitions
        if d.name not in own
        for n in reads(d)
        if n in own
    )
    jvp = tangents(derivation, Names(program), supply)
    taken = [d.name for s in structured for d in (s.dense, s.compact) if d is not None]
    ways = [ahead(derivation, adjoints, s, _beside(names, taken), supply) for s in structured]
    domain = _domain(program) if check_domain and program.conditions else None
    return Forms(
        program,
        derivation,
        forward,
        factors,
        structured,
        vjp,
        per_sample,
        jvp,
        tuple(saved),
        supply.serial,
        domain,
        ahead=tuple(way for way in ways if way is not None),
    )


def _beside(names: Names, more: Sequence[str]) -> Names:
    """Return names that avoid the same ones, and more."""
    found = copy(names)
    found.taken = {*names.taken, *more}
    return found


def _narrowed(
    derivation: Derivation, supply: Supply
) -> tuple[tuple[Definition, ...], tuple[Jacobian, ...]]:
    """Return the adjoints and Jacobians, without what only the rest of a part would need."""
    program, jacobians = derivation.program, derivation.jacobians
    if not derivation.selection.regions or any(d.loop for d in program.definitions):
        return derivation.adjoints, jacobians
    sums = [j.terms for j in jacobians]
    adjoints, narrower = narrow(derivation.adjoints, sums, (), supply)
    pairs = zip(jacobians, narrower, strict=True)
    return adjoints, tuple(replace(j, terms=terms) for j, terms in pairs)


def _domain(program: Program) -> Form:
    """Return the masks of all `assert`s, 1 where they hold."""
    names = Names(program)
    masks, results = [], []
    for condition in program.conditions:
        name = names.new("holds")
        term = Term((), (Apply("where", (condition.mask, Number(1), Number(0))),))
        masks.append(Definition(name, condition.indices, (term,), written=False))
        results.append(Result((condition.text,), name, condition.indices))
    definitions = needed((*program.definitions, *masks), [m.name for m in masks])
    return Form("domain", definitions, tuple(results))


def _output_results(program: Program) -> tuple[Result, ...]:
    found = []
    for name in program.outputs:
        definition = program.definition(name)
        assert definition is not None
        found.append(Result((name,), name, definition.indices))
    return tuple(found)


def _seed_arrays(program: Program, names: Names) -> tuple[Array, ...]:
    several = len(program.outputs) > 1
    found = []
    for output in program.outputs:
        axes = tuple(i.dim for i in own_indices(program, output))
        batched = any(a.batched for a in program.arrays)
        wish = f"u_{output}" if several else "u"
        found.append(Array(names.new(wish), "input" if batched else "param", axes))
    return tuple(found)


def _filling(sweep: Sweep, name: str) -> tuple[Delta, ...]:
    """Return the deltas that put the part of an array that a sweep went to into its place."""
    pairs = zip(sweep.at[name], sweep.places[name], strict=True)
    return tuple(Delta(Affine.of(i), p, inside=True) for i, p in pairs if p.bare != i)


def _vjp(derivation: Derivation, names: Names, supply: Supply, per_sample: bool) -> Form:
    program = derivation.program
    seeds = _seed_arrays(program, names)
    sweep = Sweep(program, derivation.selection, supply, names, prefix="d")
    terms: dict[str, Term] = {}
    for output, seed in zip(program.outputs, seeds, strict=True):
        definition = program.definition(output)
        assert definition is not None
        own = own_indices(program, output)
        at = (program.batch, *own) if seed.batched else own
        access = Access(seed.name, tuple(Affine.of(i) for i in at))
        shared = seed.batched and program.batch not in definition.indices and not per_sample
        terms[output] = Term((program.batch,) if shared else (), (access,))
    results = sweep.run(terms, (), per_sample)
    closing: list[Definition] = []
    handed: list[Result] = []
    for name in derivation.selection.names:
        theta, sum_terms = results[name]
        one = derivation.jacobian(program.outputs[0], name)
        if one.whole:
            filling = _filling(sweep, name)
            sum_terms, theta = fill(sum_terms, theta, filling), sweep.at[name]
        array = program.array(name)
        assert array is not None
        with_batch = array.batched or (per_sample and any(a.batched for a in program.arrays))
        indices = (program.batch, *theta) if with_batch else theta
        definition = Definition(names.new(f"d_{name}"), indices, sum_terms, written=False)
        closing.append(definition)
        handed.append(Result((name,), definition.name, indices))
    way = (*sweep.definitions, *closing)
    if derivation.selection.regions and not any(d.loop for d in program.definitions):
        way, _ = narrow(way, [], [d.name for d in closing], supply)
    everything = (*program.definitions, *way)
    name = "vjp_per_sample" if per_sample else "vjp"
    definitions = needed(everything, [r.array for r in handed])
    return Form(name, definitions, tuple(handed), seeds, tuple(sweep.owners))
