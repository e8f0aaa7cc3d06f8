"""The calculus of functions of whole matrices: inv, det, logdet, solve, cholesky.

Definition -> Local                     partials as terms over arrays, for formulas and Jacobians
Definition, adjoint -> Local            what one adjoint gives its operands, by solving with A^T
Definition, tangents -> Definition, ... the tangent of the result, by solving with A
Terms lean on an inverse; the rules on adjoints and tangents solve instead, which keeps residuals
small however ill-conditioned the matrix is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from symgrad.algebra.local import Local, NewName, Partial
from symgrad.program import (
    Access,
    Affine,
    Apply,
    Definition,
    Delta,
    Index,
    Number,
    Place,
    Primitive,
    Scalar,
    Supply,
    Term,
    indices_of,
    rebuild,
    substitute,
)

MINUS, HALF = Number(-1), Number(0.5)
Active = Callable[[str], bool]

SOLVED = frozenset(("solve", "cholesky"))
"""Kinds whose adjoints and tangents come from rules; the partials of others hold no more work."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One definition with a primitive body, and what makes new names and indices."""

    definition: Definition
    body: Primitive
    supply: Supply
    new_name: NewName

    @staticmethod
    def of(definition: Definition, supply: Supply, new_name: NewName) -> Rule | None:
        """Return the rule of a definition, None if it has no primitive body."""
        body = definition.body
        return Rule(definition, body, supply, new_name) if isinstance(body, Primitive) else None

    @property
    def stack(self) -> tuple[Index, ...]:
        """The indices over which the results are stacked, the batch first."""
        indices = self.definition.indices
        return indices[: len(indices) - len(self.body.at)]

    @property
    def wish(self) -> str:
        """What names of helpers are made of."""
        return self.definition.name

    def fresh(self, like: Sequence[Index]) -> tuple[Index, ...]:
        """Return new indices over the same ranges."""
        return tuple(self.supply.like(i) for i in like)

    def result(self, *at: Index) -> Access:
        """Return the result read at its own axes."""
        return _read(self.definition.name, (*self.stack, *at))

    def stack_of(self, operand: Access) -> tuple[Index, ...]:
        """Return those of the stack's indices that an operand has."""
        read = indices_of(operand)
        return tuple(i for i in self.stack if i in read)

    def inverse(self, operand: Access, axes: Sequence[Index]) -> Definition:
        """Return the definition of an operand's inverse."""
        at = self.fresh(axes)
        body = Primitive("inv", (operand,), (tuple(axes),), at)
        name = self.new_name(f"inv_{operand.array}")
        return Definition(name, (*self.stack_of(operand), *at), body, written=False)

    def solved(
        self, name: str, matrix: Access, rows: tuple[Index, Index], right: Access,
        axes: tuple[Index, ...],
    ) -> Definition:
        """Return `name = solve(matrix, right)`: `rows` say how the matrix lies, `axes` the right.

        It is stacked over all that either has.
        """
        at = self.fresh(axes)
        read = (*indices_of(matrix), *indices_of(right))
        stack = [i for i in dict.fromkeys((*_batch_of(right), *self.stack)) if i in read]
        body = Primitive("solve", (matrix, right), (rows, axes), at)
        return Definition(name, (*stack, *at), body, written=False)


def _batch_of(access: Access) -> tuple[Index, ...]:
    """Return the batch index if an array has it: the first of its positions."""
    bare = access.at[0].bare if access.at else None
    return (bare,) if bare is not None and bare.dim.names == ("#B",) else ()


def _read(name: str, at: Sequence[Index]) -> Access:
    return Access(name, tuple(Affine.of(i) for i in at))


def _moved(operand: Access, old: Sequence[Index], new: Sequence[Index]) -> Access:
    mapping = {a: Affine.of(b) for a, b in zip(old, new, strict=True)}
    moved = substitute(operand, mapping)
    assert isinstance(moved, Access)
    return moved


def _lower_half(row: Index, column: Index) -> Scalar:
    """Return 1 below the diagonal, 1/2 on it, 0 above."""
    return Apply("heaviside", (Place(Affine.of(row) - column), HALF))


# ------------------------------------------------------------------ partials as terms


def primitive_partials(rule: Rule, active: Active) -> Local:
    """Return d definition / d operand for every operand whose array is active, as terms."""
    if not any(active(operand.array) for operand in rule.body.operands):
        return Local(())
    match rule.body.kind:
        case "inv":
            return _of_inverse(rule)
        case "det" | "logdet":
            return _of_determinant(rule)
        case "solve":
            return _of_solution(rule, active)
        case "cholesky":
            return _of_cholesky(rule)


def _of_inverse(rule: Rule) -> Local:
    """dY_ij / dX_kl = -Y_ik Y_lj."""
    (i, j), (operand,), ((k, l),) = rule.body.at, rule.body.operands, rule.body.axes
    factors = (MINUS, rule.result(i, k), rule.result(l, j))
    return Local((Partial(operand, (k, l), factors),))


def _of_determinant(rule: Rule) -> Local:
    """(d logdet) / dX_kl = (X^-1)_lk, and d det is det times that."""
    (operand,), ((k, l),) = rule.body.operands, rule.body.axes
    inverse = rule.inverse(operand, (k, l))
    factors: tuple[Scalar, ...] = (_read(inverse.name, (*rule.stack, l, k)),)
    if rule.body.kind == "det":
        factors = (rule.result(), *factors)
    return Local((Partial(operand, (k, l), factors),), (inverse,))


def _of_solution(rule: Rule, active: Active) -> Local:
    """dY_ic / dB_rc = (A^-1)_ir; dY_ic / dA_pq = -(A^-1)_ip Y_qc."""
    body = rule.body
    (matrix, right), ((p, q), over) = body.operands, body.axes
    (i, *column), (r, *other) = body.at, over
    inverse = rule.inverse(matrix, (p, q))
    stack = rule.stack_of(matrix)
    found = []
    if active(matrix.array):
        factors = (MINUS, _read(inverse.name, (*stack, i, p)), rule.result(q, *column))
        found.append(Partial(matrix, (p, q), factors))
    if active(right.array):
        same = tuple(
            Delta(Affine.of(a), Affine.of(b)) for a, b in zip(column, other, strict=True)
        )
        found.append(Partial(right, over, (*same, _read(inverse.name, (*stack, i, r)))))
    return Local(tuple(found), (inverse,))


def _of_cholesky(rule: Rule) -> Local:
    """dL_ij / dS_kl = 1/2 sum_m L_im H(m - j) (M_mk M_jl + M_ml M_jk), with M = L^-1."""
    (i, j), (operand,), ((k, l),) = rule.body.at, rule.body.operands, rule.body.axes
    (m,) = rule.fresh((j,))
    inverse = rule.inverse(rule.result(k, l), (k, l))

    def element(row: Index, column: Index) -> Access:
        return _read(inverse.name, (*rule.stack, row, column))

    head = (HALF, rule.result(i, m), _lower_half(m, j))
    pairs = ((k, l), (l, k))
    found = tuple(
        Partial(operand, (k, l, m), (*head, element(m, a), element(j, b))) for a, b in pairs
    )
    return Local(found, (inverse,))


# ------------------------------------------------------------------ rules


def adjoint(rule: Rule, given: Access, active: Active) -> Local:
    """Return what the adjoint `given` of the result gives the operands.

    `given` reads it over the stack and the result's own axes, in a sweep of its own with the
    batch too. The factors of the partials hold it already; they are summed over their bound.
    """
    if not any(active(operand.array) for operand in rule.body.operands):
        return Local(())
    if rule.body.kind == "solve":
        return _back_solved(rule, given, active)
    return _back_lower(rule, given)


def _back_solved(rule: Rule, given: Access, active: Active) -> Local:
    """W = solve(A^T, G):  W_rc to B_rc,  -sum_c W_pc Y_qc to A_pq."""
    body = rule.body
    (matrix, right), ((p, q), over) = body.operands, body.axes
    name = rule.new_name(f"w_{rule.wish}")
    solved = rule.solved(name, matrix, (q, p), given, body.at)
    stack = solved.indices[: len(solved.indices) - len(body.at)]
    found = []
    if active(matrix.array):
        columns = over[1:]
        factors = (MINUS, _read(name, (*stack, p, *columns)), rule.result(q, *columns))
        found.append(Partial(matrix, (p, q, *columns), factors))
    if active(right.array):
        found.append(Partial(right, over, (_read(name, (*stack, *over)),)))
    return Local(tuple(found), (solved,))


def _back_lower(rule: Rule, given: Access) -> Local:
    """P = H * (L^T G);  V = (L^-T P L^-1)^T by two solves;  (V_kl + V_lk) / 2 to S_kl."""
    (operand,), ((k, l),) = rule.body.operands, rule.body.axes
    i, j = rule.body.at
    (m,) = rule.fresh((i,))
    ahead = tuple(dict.fromkeys((*_batch_of(given), *rule.stack)))
    product = Definition(
        rule.new_name(f"P_{rule.wish}"),
        (*ahead, m, j),
        (Term((i,), (rule.result(i, m), given)),),
        written=False,
    )
    halved = Definition(
        rule.new_name(f"P_{rule.wish}"),
        (*ahead, m, j),
        (Term((), (_lower_half(m, j), _read(product.name, (*ahead, m, j)))),),
        written=False,
    )
    lower = rule.result(k, l)
    first = rule.solved(
        rule.new_name(f"w_{rule.wish}"), lower, (l, k), _read(halved.name, (*ahead, m, j)), (m, j)
    )
    second = rule.solved(
        rule.new_name(f"w_{rule.wish}"), lower, (l, k), _read(first.name, (*ahead, m, j)), (j, m)
    )
    found = tuple(
        Partial(operand, (k, l), (HALF, _read(second.name, (*ahead, a, b))))
        for a, b in ((k, l), (l, k))
    )
    return Local(found, (product, halved, first, second))


def tangent(rule: Rule, name: str, tangents: Mapping[str, str]) -> tuple[Definition, ...]:
    """Return the definitions that end with `name`, the tangent of the result.

    `tangents` has the names of the arrays' tangents; what it does not hold is constant.
    """
    return _solved_tangent(rule, name, tangents) if rule.body.kind == "solve" else (
        _lower_tangent(rule, name, tangents)
    )


def _solved_tangent(
    rule: Rule, name: str, tangents: Mapping[str, str]
) -> tuple[Definition, ...]:
    """t_Y = solve(A, t_B - t_A Y)."""
    body = rule.body
    (matrix, right), ((p, q), over) = body.operands, body.axes
    i, *column = body.at
    terms = []
    if right.array in tangents:
        there = replace(right, array=tangents[right.array])
        terms.append(Term((), (_moved(there, over, body.at),)))
    if matrix.array in tangents:
        there = _moved(replace(matrix, array=tangents[matrix.array]), (p,), (i,))
        terms.append(Term((q,), (MINUS, there, rule.result(q, *column))))
    indices = rule.definition.indices
    rest = Definition(rule.new_name(f"r_{rule.wish}"), indices, tuple(terms), written=False)
    solved = rule.solved(name, matrix, (p, q), _read(rest.name, indices), body.at)
    return rest, solved


def _lower_tangent(
    rule: Rule, name: str, tangents: Mapping[str, str]
) -> tuple[Definition, ...]:
    """t_L = L (H * (L^-1 t_S L^-T)), t_S made symmetric."""
    (operand,), ((k, l),) = rule.body.operands, rule.body.axes
    i, j = rule.body.at
    (m,) = rule.fresh((i,))
    there = replace(operand, array=tangents[operand.array])
    terms = tuple(Term((), (HALF, _moved(there, (k, l), pair))) for pair in ((i, j), (j, i)))
    stack = rule.stack
    even = Definition(rule.new_name(f"r_{rule.wish}"), (*stack, i, j), terms, written=False)
    lower = rule.result(k, l)
    first = rule.solved(
        rule.new_name(f"r_{rule.wish}"), lower, (k, l), _read(even.name, (*stack, i, j)), (i, j)
    )
    second = rule.solved(
        rule.new_name(f"r_{rule.wish}"), lower, (k, l), _read(first.name, (*stack, i, j)), (j, i)
    )
    halved = Definition(
        rule.new_name(f"r_{rule.wish}"),
        (*stack, m, j),
        (Term((), (_lower_half(m, j), _read(second.name, (*stack, j, m)))),),
        written=False,
    )
    product = Term((m,), (rule.result(i, m), _read(halved.name, (*stack, m, j))))
    last = Definition(name, rule.definition.indices, (product,), written=False)
    return even, first, second, halved, last


# ------------------------------------------------------------------ equal ones are one


def primitive_key(definition: Definition) -> object:
    """Return what two functions of the same whole matrices have in common, None for others."""
    body = definition.body
    if not isinstance(body, Primitive) or definition.frozen:
        return None
    places: dict[Index, object] = {i: n for n, i in enumerate(definition.indices)}
    for number, axes in enumerate(body.axes):
        places.update({i: (number, n) for n, i in enumerate(axes)})
    operands = tuple(
        (o.array, tuple(places[i] for p in o.at if isinstance(p, Affine) for i, _ in p.terms))
        for o in body.operands
    )
    return body.kind, operands


def share(local: Local, known: dict[object, str]) -> Local:
    """Return the same partials, reading a support that is known instead of one of their own.

    New ones are entered in `known`.
    """
    renamed: dict[str, str] = {}

    def change(node: Scalar) -> Scalar:
        if isinstance(node, Access) and node.array in renamed:
            return replace(node, array=renamed[node.array])
        return node

    kept = []
    for support in local.supports:
        key = primitive_key(support)
        if key is not None and key in known:
            renamed[support.name] = known[key]
            continue
        if key is not None:
            known[key] = support.name
        kept.append(support)
    if not renamed:
        return local
    partials = tuple(
        replace(p, factors=tuple(rebuild(f, change) for f in p.factors)) for p in local.partials
    )
    return Local(partials, tuple(kept))
