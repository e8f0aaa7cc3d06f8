"""Every form a module offers, each a program of its own: forward, factors, vjp, jvp, dense.

Derivation -> Forms
A form lists definitions in an order that can be run, and the arrays it hands out; nothing that
the selection did not ask for is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as _replace

from symgrad.algebra.contract import contract
from symgrad.algebra.order import arrange
from symgrad.algebra.partials import local_partials
from symgrad.algebra.primitives import SOLVED, Rule, share
from symgrad.algebra.primitives import tangent as solved_tangent
from symgrad.algebra.radix import digits, number_of
from symgrad.algebra.segments import Trade
from symgrad.derivation import Derivation, Jacobian
from symgrad.derive import Names, Sweep, depends, own_indices
from symgrad.program import (
    Access,
    Affine,
    Apply,
    Array,
    Definition,
    Delta,
    Index,
    Lookup,
    Number,
    Position,
    Program,
    Scalar,
    Supply,
    Term,
    affine_of,
    arrays_of,
    indices_of,
    move,
    reads,
)
from symgrad.program import rebuild as rebuild_scalar


@dataclass(frozen=True, slots=True)
class Result:
    """What a form hands out under `key`: an array of the given axes (batch first if batched)."""

    key: tuple[str, ...]
    array: str
    indices: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """A runnable list of definitions; `given` are arrays passed in beside the declared ones.

    `owners` says which definition an array is the adjoint of.
    """

    name: str
    definitions: tuple[Definition, ...]
    results: tuple[Result, ...]
    given: tuple[Array, ...] = ()
    owners: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Factor:
    """One array of a factored Jacobian; `label` is how users see it, indices name its axes.

    `array` None stands for ones; along `spread` (some of `indices`) the array is repeated.
    """

    label: str
    array: str | None
    indices: tuple[Index, ...]
    spread: tuple[Index, ...] = ()

    @property
    def own(self) -> tuple[Index, ...]:
        """The indices of the array itself."""
        return tuple(i for i in self.indices if i not in self.spread)


def lookups_in(position: Position) -> tuple[Lookup, ...]:
    """Return the lookups in a position, outer ones first."""
    if not isinstance(position, Lookup):
        return ()
    return (position, *(inner for p in position.at for inner in lookups_in(p)))


@dataclass(frozen=True, slots=True)
class FactoredTerm:
    """Deltas times factors."""

    deltas: tuple[Delta, ...]
    factors: tuple[Factor, ...]


@dataclass(frozen=True, slots=True)
class Structured:
    """A Jacobian as labelled factors, with the programs that make it dense or compact.

    `shared` are the deltas all terms have; `untied` the theta axes they leave free; `key` tells
    it from all others in names of functions.
    """

    jacobian: Jacobian
    terms: tuple[FactoredTerm, ...]
    shared: tuple[Delta, ...]
    untied: tuple[Index, ...]
    dense: Definition
    compact: Definition | None
    key: str

    @property
    def positions(self) -> tuple[Lookup, ...]:
        """The data by whose values deltas tie axes; `factors()` holds those arrays too."""
        deltas = [d for term in self.terms for d in term.deltas]
        ends = [p for d in deltas for p in (d.left, d.right)]
        return tuple(dict.fromkeys(lookup for p in ends for lookup in lookups_in(p)))

    @property
    def arrays(self) -> tuple[str, ...]:
        """The arrays that its terms read, positions that are data included."""
        scalars = [f for term in self.jacobian.terms for f in term.factors]
        return tuple(dict.fromkeys(a for s in scalars for a in arrays_of(s)))


@dataclass(frozen=True, slots=True)
class Forms:
    """All forms of one derivation; with a `trade` the way back computes some definitions again.

    `saved` is what the way back reads of the forward pass; no index has a higher `serial`.
    """

    program: Program
    derivation: Derivation
    forward: Form
    factors: Form
    structured: tuple[Structured, ...]
    vjp: Form
    vjp_per_sample: Form
    jvp: Form
    saved: tuple[str, ...]
    serial: int
    domain: Form | None = None
    trade: Trade | None = None


def forms(derivation: Derivation, *, check_domain: bool = False) -> Forms:
    """Return every form of the derivation; with `check_domain` every call tests the domains."""
    program = derivation.program
    names = Names(program)
    names.taken |= {d.name for d in derivation.adjoints}
    supply = Supply(derivation.serial)
    outputs = _output_results(program)
    forward = Form("forward", needed(program.definitions, [r.array for r in outputs]), outputs)
    structured = _keyed(program, [_structure(derivation, j, names) for j in derivation.jacobians])
    arrays = [a for s in structured for a in s.arrays]
    everything = (*program.definitions, *derivation.adjoints)
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
    jvp = _jvp(derivation, Names(program), supply)
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
    )


def _keyed(program: Program, found: Sequence[Structured]) -> tuple[Structured, ...]:
    """Give every Jacobian a key: its parameter's name, after its output's if there are several."""
    if len(program.outputs) == 1:
        return tuple(found)
    keyed: dict[str, Structured] = {}
    for structured in found:
        key = f"{structured.jacobian.output}_{structured.jacobian.parameter}"
        while key in keyed:
            key += "_"
        keyed[key] = _replace(structured, key=key)
    return tuple(keyed.values())


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


def needed(definitions: Sequence[Definition], wanted: Iterable[str]) -> tuple[Definition, ...]:
    """Return those definitions that `wanted` depends on, in the same order."""
    table = {d.name: d for d in definitions}
    marked: set[str] = set()
    stack = list(wanted)
    while stack:
        name = stack.pop()
        if name in table and name not in marked:
            marked.add(name)
            stack += reads(table[name])
    return tuple(d for d in definitions if d.name in marked)


def _output_results(program: Program) -> tuple[Result, ...]:
    found = []
    for name in program.outputs:
        definition = program.definition(name)
        assert definition is not None
        found.append(Result((name,), name, definition.indices))
    return tuple(found)


LETTERS = ("G", "h", "k", "l", "q", "r")


def _structure(derivation: Derivation, jacobian: Jacobian, names: Names) -> Structured:
    terms = tuple(_labelled(derivation, jacobian, n, t) for n, t in enumerate(jacobian.terms))
    if len(terms) == 1 and len(terms[0].factors) == 1:
        only = _replace(terms[0].factors[0], label="J")
        terms = (FactoredTerm(terms[0].deltas, (only,)),)
    shared = list(jacobian_deltas(jacobian.terms[0])) if jacobian.terms else []
    for term in jacobian.terms[1:]:
        shared = [d for d in shared if d in term.factors]
    mapping = _ties(shared, jacobian)
    counted = _counted(shared, jacobian, mapping)
    tied = {*mapping, *counted}
    untied = tuple(i for i in jacobian.theta if i not in tied)
    first = _batch_of(derivation, jacobian)
    dense = Definition(
        names.new(f"J_{jacobian.parameter}"),
        (*first, *jacobian.out, *jacobian.theta),
        jacobian.terms,
        written=False,
    )
    compact = None
    if tied and jacobian.terms:
        dropped = {d for d in shared if _tie_of(d, jacobian)[0] in mapping}
        kept = tuple(
            Term((*t.bound, *counted), tuple(f for f in t.factors if f not in dropped))
            for t in jacobian.terms
        )
        kept = tuple(_read_by_out(t, mapping) for t in kept)
        compact = Definition(
            names.new(f"C_{jacobian.parameter}"),
            (*first, *jacobian.out, *untied),
            kept,
            written=False,
        )
    return Structured(jacobian, terms, tuple(shared), untied, dense, compact, jacobian.parameter)


def _batch_of(derivation: Derivation, jacobian: Jacobian) -> tuple[Index, ...]:
    program = derivation.program
    has_inputs = any(a.batched for a in program.arrays)
    return (program.batch,) if has_inputs else ()


def jacobian_deltas(term: Term) -> tuple[Delta, ...]:
    """Return the deltas of a term."""
    return tuple(f for f in term.factors if isinstance(f, Delta))


def _tie_of(delta: Delta, jacobian: Jacobian) -> tuple[Index | None, Affine]:
    """Return the theta axis that a delta ties to out axes, with the position it is tied to."""
    out = set(jacobian.out)
    for here, there in ((delta.left, delta.right), (delta.right, delta.left)):
        if not isinstance(here, Affine) or not isinstance(there, Affine):
            continue
        if here.bare is None or here.bare not in jacobian.theta:
            continue
        split = digits(there) == here.bare.dim
        if there.bare in jacobian.out or (split and {i for i, _ in there.terms} <= out):
            return here.bare, there
    return None, Affine()


def _ties(shared: Sequence[Delta], jacobian: Jacobian) -> dict[Index, Affine]:
    """Return where the theta axes stand that deltas tie to out axes, one by one or split."""
    found = (_tie_of(delta, jacobian) for delta in shared)
    return {axis: place for axis, place in found if axis is not None}


def _counted(
    shared: Sequence[Delta], jacobian: Jacobian, mapping: Mapping[Index, Affine]
) -> tuple[Index, ...]:
    """Return theta axes that deltas tie together, as the digits of one out axis: a merge."""
    free = set(jacobian.theta) - set(mapping)
    found: list[Index] = []
    for delta in shared:
        number = number_of(delta)
        if number is None or number[0] not in jacobian.out:
            continue
        axes = {i for i, _ in number[1].terms}
        if axes <= free:
            found += [i for i in jacobian.theta if i in axes]
            free -= axes
    return tuple(found)


def _read_by_out(term: Term, mapping: dict[Index, Affine]) -> Term:
    def change(node: Scalar) -> Scalar:
        match node:
            case Access():
                return Access(node.array, tuple(move(p, mapping) for p in node.at))
            case Delta():
                return Delta(move(node.left, mapping), move(node.right, mapping))
            case _:
                return node

    return Term(term.bound, tuple(rebuild_scalar(f, change) for f in term.factors))


def _labelled(
    derivation: Derivation, jacobian: Jacobian, position: int, term: Term
) -> FactoredTerm:
    """Give a term's arrays the names users see: G carries output axes, h the parameter's."""
    suffix = "" if position == 0 else str(position + 1)
    deltas = jacobian_deltas(term)
    accesses = [f for f in term.factors if isinstance(f, Access)]
    out = set(jacobian.out)
    outward = [a for a in accesses if out & set(indices_of(a))]
    local = [a for a in accesses if a not in outward]
    letters = iter(f"{letter}{suffix}" for letter in LETTERS)
    factors = [_factor(next(letters), a) for a in outward]
    tied = {i for d in deltas for i in indices_of(d)}
    if not outward and (not accesses or tied & out):
        ones = [i for i in jacobian.out if i in tied]
        factors.append(
            Factor(next(letters), None, (*_batch_of(derivation, jacobian), *ones))
        )
    factors += [_factor(next(letters), a) for a in local]
    return FactoredTerm(deltas, _covering(derivation, jacobian, deltas, factors))


def _covering(
    derivation: Derivation, jacobian: Jacobian, deltas: Sequence[Delta], factors: Sequence[Factor]
) -> tuple[Factor, ...]:
    """Repeat factors along axes that none has: output axes with the first, others with the last."""
    first = _batch_of(derivation, jacobian)
    given = {i for d in deltas for i in indices_of(d) if i in jacobian.theta}
    covered = {i for f in factors for i in f.indices}
    ahead = [i for i in (*first, *jacobian.out) if i not in covered]
    behind = [i for i in jacobian.theta if i not in covered | given]
    order = (*first, *jacobian.out, *jacobian.theta)
    result = list(factors)
    for place, missing in ((0, ahead), (-1, behind)):
        if missing:
            old = result[place]
            together = tuple(i for i in order if i in (*old.indices, *missing))
            if tuple(i for i in together if i in old.indices) != old.indices:
                # an array's own axes keep their order
                sides = (missing, old.indices) if place == 0 else (old.indices, missing)
                together = (*sides[0], *sides[1])
            spread = (*old.spread, *missing) if old.array is not None else ()
            result[place] = _replace(old, indices=together, spread=spread)
    return tuple(result)


def _factor(label: str, access: Access) -> Factor:
    indices = tuple(a.bare for p in access.at for a in affine_of(p) if a.bare is not None)
    return Factor(label, access.array, indices)


def _seed_arrays(program: Program, names: Names) -> tuple[Array, ...]:
    several = len(program.outputs) > 1
    found = []
    for output in program.outputs:
        axes = tuple(i.dim for i in own_indices(program, output))
        batched = any(a.batched for a in program.arrays)
        wish = f"u_{output}" if several else "u"
        found.append(Array(names.new(wish), "input" if batched else "param", axes))
    return tuple(found)


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
        array = program.array(name)
        assert array is not None
        with_batch = array.batched or (per_sample and any(a.batched for a in program.arrays))
        indices = (program.batch, *theta) if with_batch else theta
        definition = Definition(names.new(f"d_{name}"), indices, sum_terms, written=False)
        closing.append(definition)
        handed.append(Result((name,), definition.name, indices))
    everything = (*program.definitions, *sweep.definitions, *closing)
    name = "vjp_per_sample" if per_sample else "vjp"
    definitions = needed(everything, [r.array for r in handed])
    return Form(name, definitions, tuple(handed), seeds, tuple(sweep.owners))


def _jvp(derivation: Derivation, names: Names, supply: Supply) -> Form:
    """Forward tangents: t_z = sum over accesses of (d z / d access) * t_access."""
    program, selection = derivation.program, derivation.selection
    active = depends(program, selection.names)
    tangent = {
        n: names.new(f"t_{n}")
        for n in (*selection.names, *(d.name for d in program.definitions))
        if n in active
    }
    given = []
    for name in selection.names:
        array = program.array(name)
        assert array is not None
        given.append(_replace(array, name=tangent[name]))
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
            definitions += solved_tangent(rule, tangent[definition.name], tangent)
            continue
        sweep = Sweep(program, selection, supply, names, prefix="t", shared=shared)
        local = share(
            local_partials(definition, active.__contains__, supply, names.new), sweep.shared
        )
        definitions += local.supports
        terms = []
        for partial in local.partials:
            access = Access(tangent[partial.access.array], partial.access.at)
            term = contract(Term(partial.bound, (*partial.factors, access)))
            if term is not None:
                terms.append(sweep.split(tangent[definition.name], term, definition.indices))
        definitions += sweep.definitions
        definitions.append(
            Definition(tangent[definition.name], definition.indices, tuple(terms), written=False)
        )
    if steps:
        definitions = list(arrange(definitions, steps, supply))
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


__all__ = ["Factor", "FactoredTerm", "Form", "Forms", "Result", "Structured", "forms", "needed"]
