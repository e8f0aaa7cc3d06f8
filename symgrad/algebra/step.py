"""One step of a sweep: the adjoint of a definition and what it passes on to its operands.

Sweep, Definition, Term, ... -> settled terms, Local, indices both are summed over
A sweep from arrays solves where it can; one from deltas multiplies by partials, which are terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from symgrad.algebra.local import Local
from symgrad.algebra.primitives import SOLVED, Rule, adjoint, share
from symgrad.algebra.terms import is_plain
from symgrad.program import Access, Affine, Definition, Index, Term, indices_of

if TYPE_CHECKING:
    from symgrad.algebra.sweep import Sweep


Step = tuple[tuple[Term, ...], Local, tuple[Index, ...]]


def step(
    sweep: Sweep,
    definition: Definition,
    arrived: Sequence[Term],
    active: frozenset[str],
) -> Step:
    """Return the adjoint of a definition, its partials, and the indices both are summed over.

    Partials that come from a rule hold the adjoint already.
    """
    at = sweep.at[definition.name]
    rule = None if sweep.factored else Rule.of(definition, sweep.supply, sweep.names.new)
    if rule is None or rule.body.kind not in SOLVED:
        return sweep.settle(definition.name, arrived), sweep.local(definition, active), at
    given = _whole(sweep, definition.name, arrived, at)
    local = share(adjoint(rule, given, active.__contains__), sweep.shared)
    sweep.definitions += local.supports
    return (Term((), ()),), local, at[: len(at) - len(rule.body.at)]


def _whole(sweep: Sweep, name: str, terms: Sequence[Term], at: tuple[Index, ...]) -> Access:
    """Return the adjoint of `name` as an array over all of `at`, the batch first."""
    batch = sweep.program.batch
    ready = _array(sweep, terms)
    if ready is not None and {i for i in indices_of(ready) if i != batch} == set(at):
        return ready
    wish = f"{sweep.prefix}_{sweep.tag}{name}"
    split = tuple(sweep.slopes_apart(wish, sweep.split(wish, term, at)) for term in terms)
    batched = any(
        batch in indices_of(f) for t in split for f in t.factors if batch not in t.bound
    )
    indices = (batch, *at) if batched else at
    made = Definition(sweep.names.new(wish), indices, split, written=False)
    sweep.definitions.append(made)
    sweep.owners.append((made.name, name))
    return Access(made.name, tuple(Affine.of(i) for i in indices))


def _array(sweep: Sweep, terms: Sequence[Term]) -> Access | None:
    """Return the whole array that the terms are, None if they are more, or a part of one."""
    if len(terms) != 1 or terms[0].bound or len(terms[0].factors) != 1:
        return None
    (only,) = terms[0].factors
    if not isinstance(only, Access) or not sweep.whole(only):
        return None
    return only if is_plain(only) else None
