"""What loops compute: additions, multiplications and divisions, and calls of functions.

Nodes of a kernel -> Work
Counted is what the kernel's text says, as it runs: `+ - * /` on floating-point numbers are one
operation each, a function of the table is one call. Signs, comparisons, copies and the arithmetic
of positions are free.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from symgrad.algebra.guards import guards_of
from symgrad.costs.count import NONE, Count
from symgrad.costs.points import regions
from symgrad.dims import ONE, ZERO, Dim
from symgrad.functions import kernel
from symgrad.program import Apply, Index, Number, Reduce, Rowwise, Scalar, Table
from symgrad.schedule import Add, For, Keep, Let, Node, Row, Store, When

ARITHMETIC = ("add", "sub", "mul", "div")


@dataclass(frozen=True, slots=True)
class Work:
    """Operations and calls."""

    operations: Count = NONE
    calls: Count = NONE

    def __add__(self, other: Work) -> Work:
        return Work(self.operations + other.operations, self.calls + other.calls)


@dataclass(frozen=True, slots=True)
class Once:
    """What is done at one point of all loops."""

    operations: Dim = ZERO
    calls: Dim = ZERO

    def __add__(self, other: Once) -> Once:
        return Once(self.operations + other.operations, self.calls + other.calls)

    def __mul__(self, times: Dim | int) -> Once:
        return Once(self.operations * times, self.calls * times)


NOTHING: frozenset[Scalar] = frozenset()
STEP = Once(operations=ONE)
CALL = Once(calls=ONE)


def work(
    nodes: Sequence[Node], loops: tuple[Index, ...] = (), tables: Sequence[Table] = ()
) -> Work:
    """Return what a loop nest does; `loops` stand around it, `tables` hold places of parts."""
    found = list(_points(nodes, loops, (), tables))
    operations = Count.sum(operations for operations, _ in found)
    return Work(operations, Count.sum(calls for _, calls in found))


def _points(
    nodes: Sequence[Node],
    loops: tuple[Index, ...],
    conditions: tuple[Scalar, ...],
    tables: Sequence[Table],
) -> list[tuple[Count, Count]]:
    """Return what each node does, under the loops and conditions around it."""
    found: list[tuple[Count, Count]] = []
    kept = NOTHING
    for node in nodes:
        match node:
            case For():
                found += _points(node.body, (*loops, node.index), conditions, tables)
            case When():
                found += _points(node.body, loops, (*conditions, *node.conditions), tables)
            case _:
                once, (free, tied) = _leaf(node, kept), regions(loops, conditions, tables)
                kept |= {node.scalar} if isinstance(node, Keep) else set()
                found.append(
                    (Count.of(once.operations * free, tied), Count.of(once.calls * free, tied))
                )
    return found


def _leaf(node: Node, kept: frozenset[Scalar]) -> Once:
    """Return the work of a leaf; what is `kept` is there."""
    match node:
        case Let():
            return _product(0, node.factors, kept)
        case Add():
            return _product(len(node.lets), node.factors, kept) + STEP
        case Store():
            added = STEP if node.operator == "+=" else Once()
            return _product(len(node.lets), node.factors, kept) + added
        case Keep():
            return _scalar(node.scalar, kept)
        case Row():
            return _row(node)
        case _:  # a zero that is written
            return Once()


def _product(lets: int, factors: Sequence[Scalar], kept: frozenset[Scalar] = NOTHING) -> Once:
    """Return the work of a product; factors of -1 are signs."""
    signs = sum(isinstance(f, Number) and f.value == -1 for f in factors)
    if lets + len(factors) == 1:
        signs = 0
    steps = max(lets + len(factors) - signs - 1, 0)
    return sum((_scalar(f, kept) for f in factors), STEP * steps)


def _scalar(scalar: Scalar, kept: frozenset[Scalar] = NOTHING) -> Once:
    """Return the work of an expression as it is written; what is `kept` is there."""
    if not isinstance(scalar, Apply) or scalar in kept:
        return Once()
    if not any(scalar.order) and scalar.function in (*ARITHMETIC, "neg"):
        own = Once() if scalar.function == "neg" else STEP
        return sum((_scalar(a, kept) for a in scalar.args), own)
    by_place = scalar.function == "where" and guards_of(scalar.args[0]) is not None
    if by_place and not any(scalar.order):
        return sum((_scalar(a, kept) for a in scalar.args[1:]), CALL)
    form = _form(scalar.function, scalar.order)
    used = (_scalar(arg, kept) * form.uses[n] for n, arg in enumerate(scalar.args))
    return sum(used, form.once)


@dataclass(frozen=True, slots=True)
class _Form:
    """The work of a function's text, and how often each argument stands in it."""

    once: Once
    uses: tuple[int, ...]


@cache
def _form(function: str, order: tuple[int, ...]) -> _Form:
    """Return what the text of a function or of its slope does."""
    names = ("a", "b", "c", "d")
    tree = ast.parse(kernel(function, order).call.format(*names), mode="eval")
    nodes = list(ast.walk(tree))
    called = [ast.unparse(n.func) for n in nodes if isinstance(n, ast.Call)]
    divided = called.count("np.divide")
    steps = divided + sum(isinstance(n, ast.BinOp) for n in nodes)
    uses = [n.id for n in nodes if isinstance(n, ast.Name)]
    return _Form(
        STEP * steps + CALL * (len(called) - divided), tuple(uses.count(n) for n in names)
    )


def _row(node: Row) -> Once:
    """Return the work of a reduction over one row, or of a softmax along it."""
    body = node.definition.body
    if not isinstance(body, (Reduce, Rowwise)):
        return Once()
    length = ONE
    for index in body.bound:
        length = length * index.dim
    element, ends = _passes(body.kind, _scalar(body.body))
    return element * length + ends


def _passes(kind: str, value: Once) -> tuple[Once, Once]:
    """Return the work for each element of a row, its `value` included, and for the row."""
    match kind:
        case "prod":
            return value + STEP, Once()
        case "max" | "min" | "argmax" | "argmin":
            return value, Once()
        case "logsumexp":  # the largest, then the sum of exp(value - shift); shift + log(sum)
            return value * 2 + STEP * 2 + CALL, STEP + CALL
        case "norm":  # the largest magnitude, then the sum of squared ratios; scale * sqrt(sum)
            return value * 2 + STEP * 3 + CALL, STEP + CALL
        case "softmax":  # the largest, exp(value - largest) and their sum, the quotients
            return value * 2 + STEP * 3 + CALL, Once()
        case _:  # log_softmax: the largest, differences and the sum of exp, minus its log
            return value * 2 + STEP * 3 + CALL, CALL


__all__ = ["Work", "work"]
