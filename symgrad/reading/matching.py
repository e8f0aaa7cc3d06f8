"""Recognise a formula as the body of a definition: `tanh(z[i])` is `y[i]`.

Scalar pattern, Scalar -> positions of the pattern's indices
Names are then read instead of bodies, as people write them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from symgrad.program import (
    Access,
    Affine,
    Apply,
    Definition,
    Delta,
    Guard,
    Index,
    Place,
    Position,
    Program,
    Reduce,
    Rowwise,
    Scalar,
    Size,
    substitute,
)
from symgrad.reading.closed import Shown, Summed
from symgrad.reading.products import Product, product_of, tidy_scalar
from symgrad.reading.same import merge_equal, rename

Found = dict[Index, Position]


def match_scalar(pattern: Scalar, scalar: Scalar, free: frozenset[Index], found: Found) -> bool:
    """Extend `found` so that `pattern` becomes `scalar`, or return False."""
    match pattern, scalar:
        case Access(name, at), Access(other, there):
            return name == other and match_positions(at, there, free, found)
        case Apply(name, args, order), Apply(other, values, same):
            if (name, order, len(args)) != (other, same, len(values)):
                return False
            return all(
                match_scalar(a, v, free, found) for a, v in zip(args, values, strict=True)
            )
        case Delta(a, b), Delta(c, d):
            return match_positions((a, b), (c, d), free, found)
        case Place(a), Place(b):
            return match_positions((a,), (b,), free, found)
        case Guard(a, dim), Guard(b, other_dim):
            return dim == other_dim and match_positions((a,), (b,), free, found)
        case _:
            return pattern == scalar


def match_positions(
    pattern: Sequence[Position], at: Sequence[Position], free: frozenset[Index], found: Found
) -> bool:
    """Extend `found` so that the positions agree, or return False."""
    if len(pattern) != len(at):
        return False
    for expected, position in zip(pattern, at, strict=True):
        bare = expected.bare
        if bare is not None and bare in free:
            if found.setdefault(bare, position) != position:
                return False
        elif expected != position:
            return False
    return True


@dataclass(frozen=True, slots=True)
class Softmax:
    """The element at `place` of the softmax of `body` along `bound`."""

    bound: Index
    body: Scalar
    place: Position


def place_of(definition: Definition, found: Found) -> tuple[Position, ...] | None:
    """Return where an element of a definition stands; axes of literal length 1 are at 0."""
    at = [
        found.get(i, Affine.of(0) if i.dim.constant == 1 else None) for i in definition.indices
    ]
    known = tuple(p for p in at if p is not None)
    return known if len(known) == len(at) else None


def _moved(scalar: Scalar, mapping: Found) -> Scalar:
    return substitute(scalar, {i: p for i, p in mapping.items() if isinstance(p, Affine)})


@dataclass(slots=True)
class Meanings:
    """What the definitions of a program say: values by body, sums by summand."""

    program: Program
    renames: dict[str, str]
    unwritten: frozenset[str]
    values: dict[str, list[tuple[Definition, Scalar]]]
    sums: list[tuple[Definition, Index, Product, Product]]

    @staticmethod
    def of(program: Program) -> Meanings:
        """Return the meanings of all definitions; named ones are found first."""
        program, renames = merge_equal(program)
        values: dict[str, list[tuple[Definition, Scalar]]] = {}
        sums: list[tuple[Definition, Index, Product, Product]] = []
        for definition in sorted(program.definitions, key=lambda d: not d.written):
            body = definition.body
            if definition.frozen or not isinstance(body, tuple) or len(body) != 1:
                continue
            term = body[0]
            product = product_of(term.factors)
            if not term.bound and len(product.over) == 1 and not product.under:
                atom, power = next(iter(product.over.items()))
                if power == 1 and product.number == 1 and isinstance(atom, Apply):
                    values.setdefault(atom.function, []).append((definition, atom))
            elif len(term.bound) == 1:
                _add_sum(definition, term.bound[0], product, sums)
        unwritten = frozenset(d.name for d in program.definitions if not d.written)
        return Meanings(program, renames, unwritten, values, sums)

    def renamed(self, scalar: Scalar) -> Scalar:
        """Return the scalar reading one name for each value."""
        return rename(scalar, self.renames)

    def value_of(self, scalar: Scalar) -> Access | None:
        """Return the element that is defined as this scalar, if there is one."""
        if not isinstance(scalar, Apply):
            return None
        tidied = tidy_scalar(scalar)
        for definition, body in self.values.get(scalar.function, ()):
            found: Found = {}
            free = frozenset(definition.indices)
            if match_scalar(body, tidied, free, found):
                at = place_of(definition, found)
                if at is not None:
                    return Access(definition.name, at)
        return None

    def softmax_of(self, scalar: Scalar) -> Softmax | None:
        """Return the softmax that `exp(u - logsumexp u)` is an element of, if it is one."""
        match scalar:
            case Apply("exp", (Access() as log,), ()):
                source = self.program.definition(log.array)
                if source is None or not isinstance(source.body, Rowwise):
                    return None
                body = source.body
                if body.kind != "log_softmax" or len(body.at) != 1:
                    return None
                there = dict(zip(source.indices, log.at, strict=True))
                place = there.pop(body.at[0])
                return Softmax(body.bound[0], _moved(body.body, there), place)
            case Apply("exp_difference", (value, Access() as total), ()):
                return self._part_of(value, total)
            case Apply("exp", (Apply("sub", (value, Access() as total), ()),), ()):
                return self._part_of(value, total)
            case _:
                return None

    def _part_of(self, value: Scalar, total: Access) -> Softmax | None:
        source = self.program.definition(total.array)
        if source is None or not isinstance(source.body, Reduce):
            return None
        if source.body.kind != "logsumexp" or len(source.body.bound) != 1:
            return None
        (bound,) = source.body.bound
        body = _moved(source.body.body, dict(zip(source.indices, total.at, strict=True)))
        found: Found = {}
        if not match_scalar(tidy_scalar(body), tidy_scalar(value), frozenset((bound,)), found):
            return None
        return Softmax(bound, body, found[bound]) if bound in found else None

    def named_softmax(self, part: Softmax) -> Access | None:
        """Return the element of a definition that is this softmax, if the user named one."""
        for definition in self.program.definitions:
            body = definition.body
            if not definition.written or not isinstance(body, Rowwise):
                continue
            if body.kind != "softmax" or len(body.at) != 1:
                continue
            free = frozenset(i for i in (*definition.indices, *body.bound) if i != body.at[0])
            found: Found = {}
            if not match_scalar(tidy_scalar(body.body), tidy_scalar(part.body), free, found):
                continue
            if found.pop(body.bound[0], None) != Affine.of(part.bound):
                continue
            at = place_of(definition, found | {body.at[0]: part.place})
            if at is not None:
                return Access(definition.name, at)
        return None

    def sum_of(self, product: Product, over: Index) -> Product | None:
        """Return what `sum over one index` of a product is by a definition, if there is one.

        A fact must bind every index of its definition.
        """
        for definition, bound, summand, rest in self.sums:
            if not rest.number:
                continue  # a sum of zeros tells nothing
            found: Found = {}
            free = frozenset((*definition.indices, bound))
            if not _match_product(summand, product, free, found):
                continue
            if found.get(bound) != Affine.of(over) or bound.dim != over.dim:
                continue
            at = place_of(definition, found)
            if at is None or Affine.of(over) in at:
                continue
            result = Product((), product.number / rest.number)
            result.over = {Access(definition.name, at): 1, **rest.under}
            result.under = dict(rest.over)
            return result
        return None


def _add_sum(
    definition: Definition,
    bound: Index,
    product: Product,
    sums: list[tuple[Definition, Index, Product, Product]],
) -> None:
    summand, rest = Product(), Product((), product.number)
    for atom, power in product.over.items():
        (rest if isinstance(atom, Size) else summand).over[atom] = power
    for atom, power in product.under.items():
        (rest if isinstance(atom, Size) else summand).under[atom] = power
    sums.append((definition, bound, summand, rest))


def _match_product(
    pattern: Product, product: Product, free: frozenset[Index], found: Found
) -> bool:
    if len(pattern.over) != len(product.over) or len(pattern.under) != len(product.under):
        return False
    return _match_side(pattern.over, product.over, free, found) and _match_side(
        pattern.under, product.under, free, found
    )


def _match_side(
    pattern: dict[Shown, int], side: dict[Shown, int], free: frozenset[Index], found: Found
) -> bool:
    for order in permutations(side.items()) if len(side) <= 3 else (side.items(),):
        trial = dict(found)
        pairs = zip(pattern.items(), order, strict=True)
        if all(_match_factor(a, b, free, trial) for a, b in pairs):
            found.update(trial)
            return True
    return False


def _match_factor(
    pattern: tuple[Shown, int], factor: tuple[Shown, int], free: frozenset[Index], found: Found
) -> bool:
    (expected, power), (atom, same) = pattern, factor
    if power != same or isinstance(expected, Summed) or isinstance(atom, Summed):
        return False
    return match_scalar(expected, atom, free, found)


__all__ = ["Meanings", "Softmax", "match_scalar"]
