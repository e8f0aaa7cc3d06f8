"""Rebuild an expression with other parts, leaving its kind and place as they are.

Expr, change of parts -> Expr
The change is asked for every direct part and decides itself how far down to go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from symgrad.dims import Dim, Floor
from symgrad.errors import Span
from symgrad.syntax import Binary, Expr, Item, Name, Number, Unary

Node = TypeVar("Node")


def over_parts(node: Node, change: Callable[[Any], Any]) -> Node:
    """Return the node with `change` applied to every node that is its direct part."""
    made: Any = node
    values = {field.name: getattr(made, field.name) for field in fields(made)}
    new = {word: _changed(value, change) for word, value in values.items()}
    moved = {word: value for word, value in new.items() if value is not values[word]}
    result: Node = replace(made, **moved) if moved else node
    return result


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, tuple):
        new = tuple(_changed(item, change) for item in value)
        return value if all(a is b for a, b in zip(value, new, strict=True)) else new
    if is_dataclass(value) and not isinstance(value, (type, Span)):
        return change(value)
    return value


def size_expression(size: Dim) -> Expr:
    """Return a size as the expression that is written for it."""
    total: Expr | None = None
    first = next((term for term in size.terms if term[1] > 0), None)
    terms = (*((first,) if first else ()), *(term for term in size.terms if term is not first))
    for monomial, coefficient in terms:
        factors: list[Expr] = [_atom(a) for a, power in monomial for _ in range(power)]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, Number(abs(coefficient)))
        product = factors[0]
        for factor in factors[1:]:
            product = Binary("*", product, factor)
        if total is None:
            total = product if coefficient > 0 else Unary("-", product)
        else:
            total = Binary("+" if coefficient > 0 else "-", total, product)
    return Number(0) if total is None else total


def _atom(atom: str | Floor) -> Expr:
    if isinstance(atom, str):
        return Name(atom)
    return Binary("//", size_expression(atom.numerator), Number(atom.denominator))


def nodes_in(item: Item) -> tuple[Item, ...]:
    """Return an expression and everything below it."""
    from symgrad.language.names import parts

    found: list[Item] = []
    waiting = [item]
    while waiting:
        found.append(waiting.pop())
        waiting.extend(parts(found[-1]))
    return tuple(found)
