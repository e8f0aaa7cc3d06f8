"""The calculus of one definition: its partial derivative with respect to each access in it.

Definition -> Partial, Partial, ...
sympy knows the slopes of scalar functions (the function table); the chain rule inside a scalar
body is a walk over its tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Literal

from symgrad.algebra.guards import branch
from symgrad.algebra.local import Local, NewName, Partial
from symgrad.algebra.primitives import Rule, primitive_partials
from symgrad.errors import InternalError
from symgrad.functions import partial
from symgrad.program import (
    BATCH,
    Access,
    Affine,
    Apply,
    Definition,
    Delta,
    Index,
    Lookup,
    Number,
    Place,
    Position,
    Primitive,
    Reduce,
    Rowwise,
    Scalar,
    Supply,
    Term,
    substitute,
)


def local_partials(
    definition: Definition,
    active: Callable[[str], bool],
    supply: Supply,
    new_name: NewName,
) -> Local:
    """Return d definition / d access for every access of an active array in its body."""
    body = definition.body
    match body:
        case tuple():
            return Local(tuple(p for term in body for p in _of_term(term, active)))
        case Reduce():
            return _of_reduction(definition, body, active, supply, new_name)
        case Rowwise():
            return Local(_of_rowwise(definition, body, active))
        case Primitive():
            return primitive_partials(Rule(definition, body, supply, new_name), active)


def _of_term(term: Term, active: Callable[[str], bool]) -> list[Partial]:
    """Product rule over the factors of a term; equal accesses of one factor are added up."""
    found = []
    for position, factor in enumerate(term.factors):
        rest = term.factors[:position] + term.factors[position + 1 :]
        for access, slope in scalar_partials(factor, active).items():
            found.append(Partial(access, term.bound, (*rest, *_as_factors(slope))))
    return found


def _as_factors(scalar: Scalar) -> tuple[Scalar, ...]:
    if isinstance(scalar, Apply) and scalar.function == "mul" and not scalar.order:
        return tuple(f for arg in scalar.args for f in _as_factors(arg))
    guarded = branch(scalar)
    if guarded is not None:
        return (*guarded[0], *_as_factors(guarded[1]))
    return () if scalar == Number(1) else (scalar,)


def scalar_partials(scalar: Scalar, active: Callable[[str], bool]) -> dict[Access, Scalar]:
    """Return d scalar / d access for each active access in a scalar tree, zeros left out."""
    if isinstance(scalar, Access):
        return {scalar: Number(1)} if active(scalar.array) else {}
    if not isinstance(scalar, Apply):
        return {}
    total: dict[Access, Scalar] = {}
    for position, arg in enumerate(scalar.args):
        inner = scalar_partials(arg, active)
        if not inner:
            continue
        slope = partial(scalar.function, scalar.args, position, scalar.order)
        if slope == Number(0):
            continue
        for access, coefficient in inner.items():
            product = _through(scalar, position, slope, coefficient)
            before = total.get(access)
            total[access] = product if before is None else Apply("add", (before, product))
    return total


def _through(scalar: Apply, position: int, slope: Scalar, coefficient: Scalar) -> Scalar:
    """Return slope * coefficient; of `where` the branch not taken gives 0, never 0 * nan."""
    if scalar.function == "where" and not scalar.order:
        branches = (coefficient, Number(0)) if position == 1 else (Number(0), coefficient)
        return Apply("where", (scalar.args[0], *branches))
    return multiply(slope, coefficient)


def multiply(left: Scalar, right: Scalar) -> Scalar:
    """Return the product, without factors of one."""
    if left == Number(1):
        return right
    if right == Number(1):
        return left
    return Apply("mul", (left, right))


def _itself(definition: Definition) -> Access:
    return Access(definition.name, tuple(Affine.of(i) for i in definition.indices))


def _of_reduction(
    definition: Definition,
    body: Reduce,
    active: Callable[[str], bool],
    supply: Supply,
    new_name: NewName,
) -> Local:
    inner = scalar_partials(body.body, active)
    if not inner:
        return Local(())
    itself = _itself(definition)
    supports: tuple[Definition, ...] = ()
    bound = body.bound
    extra: tuple[Scalar, ...]
    match body.kind:
        case "logsumexp":
            extra = (Apply("exp_difference", (body.body, itself)),)
        case "norm":
            extra = (Apply("ratio_or_zero", (body.body, itself)),)
        case "prod":
            support = _product_of_the_others(definition, body, supply, new_name)
            supports = (support,)
            extra = (Access(support.name, tuple(Affine.of(i) for i in support.indices)),)
        case "max" | "min":
            support = _winner(definition, body, new_name)
            supports = (support,)
            where = Lookup(support.name, tuple(Affine.of(i) for i in support.indices))
            extra = (Delta(Affine.of(body.bound[0]), where),)
        case _:
            return Local(())
    partials = tuple(Partial(a, bound, (*extra, *_as_factors(s))) for a, s in inner.items())
    return Local(partials, supports)


def _winner(definition: Definition, body: Reduce, new_name: NewName) -> Definition:
    """Return the definition of the position where the extremum is first attained."""
    if len(body.bound) != 1:
        raise InternalError("an extremum over several indices must be split before derivation")
    kind: Literal["argmax", "argmin"] = "argmax" if body.kind == "max" else "argmin"
    name = new_name(f"{kind}_{definition.name}")
    return Definition(name, definition.indices, Reduce(kind, body.bound, body.body), written=False)


def _product_of_the_others(
    definition: Definition, body: Reduce, supply: Supply, new_name: NewName
) -> Definition:
    """Return P[.., r] = product over r' != r, which stays right where a factor is zero."""
    fresh = {i: supply.like(i) for i in body.bound}
    moved = substitute(body.body, {i: Affine.of(f) for i, f in fresh.items()})
    same: list[Scalar] = [
        Apply("eq", (Place(Affine.of(f)), Place(Affine.of(i)))) for i, f in fresh.items()
    ]
    mask = reduce(lambda a, b: Apply("and_", (a, b)), same)
    others = Apply("where", (mask, Number(1), moved))
    name = new_name(f"rest_{definition.name}")
    return Definition(
        name,
        (*definition.indices, *body.bound),
        Reduce("prod", tuple(fresh.values()), others),
        written=False,
    )


def _of_rowwise(
    definition: Definition, body: Rowwise, active: Callable[[str], bool]
) -> tuple[Partial, ...]:
    """softmax: y_i (delta_ij - y_j); log_softmax: delta_ij - exp(y_j)."""
    itself = _itself(definition)
    there = dict(zip(body.at, body.bound, strict=True))
    at_bound = tuple(_moved(p, there) for p in itself.at)
    other = Access(definition.name, at_bound)
    same = tuple(Delta(Affine.of(i), Affine.of(j)) for i, j in there.items())
    found = []
    for access, slope in scalar_partials(body.body, active).items():
        tail = _as_factors(slope)
        if body.kind == "softmax":
            found.append(Partial(access, body.bound, (*same, itself, *tail)))
            found.append(Partial(access, body.bound, (Number(-1), itself, other, *tail)))
        else:
            found.append(Partial(access, body.bound, (*same, *tail)))
            weight = Apply("exp", (other,))
            found.append(Partial(access, body.bound, (Number(-1), weight, *tail)))
    return tuple(found)


def _moved(position: Position, there: dict[Index, Index]) -> Position:
    bare = position.bare
    return Affine.of(there[bare]) if bare in there and bare is not None else position


def split_extrema(
    definitions: Sequence[Definition], supply: Supply, new_name: NewName
) -> tuple[Definition, ...]:
    """Write max and min over several indices as a chain over one each (first winner kept)."""
    result: list[Definition] = []
    for definition in definitions:
        body = definition.body
        while isinstance(body, Reduce) and body.kind in ("max", "min") and len(body.bound) > 1:
            inner_name = new_name(f"{definition.name}_inner")
            indices = (*definition.indices, *body.bound[:-1])
            own = {i: supply.like(i) for i in indices if i.dim != BATCH}
            moved = substitute(body.body, {i: Affine.of(f) for i, f in own.items()})
            inner = Reduce(body.kind, body.bound[-1:], moved)
            named = tuple(own.get(i, i) for i in indices)
            result.append(Definition(inner_name, named, inner, written=False))
            access = Access(inner_name, tuple(Affine.of(i) for i in indices))
            body = Reduce(body.kind, body.bound[:-1], access)
        result.append(replace(definition, body=body))
    return tuple(result)
