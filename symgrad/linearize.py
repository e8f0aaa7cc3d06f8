"""Turn expressions built in Python into the lines of a layer.

Expressions -> Layer
What is used twice becomes one line with a name, so a layer is never longer than its program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import Any

from symgrad.builder import Expression
from symgrad.dotted import aliases
from symgrad.errors import ArgumentError, LayerSyntaxError, Source
from symgrad.language.characters import scan
from symgrad.language.declarations import ordered
from symgrad.language.expressions import MAX_DEPTH
from symgrad.language.names import parts
from symgrad.parse import parse
from symgrad.rewrite import over_parts
from symgrad.syntax import (
    Assign,
    Binary,
    Call,
    Compare,
    Declaration,
    Domain,
    Expr,
    Item,
    Layer,
    Name,
    Slice,
    Subscript,
    Unary,
)
from symgrad.write import write, write_statement

DEEPEST = MAX_DEPTH - 20
"""Deeper expressions are cut into lines; the rest is left for the line around them."""

LARGEST_SIZE = 1000
"""Sizes have no lines of their own; longer arithmetic on them is refused."""


def linearize(
    outputs: Expression | tuple[Expression, ...],
    name: str | None = None,
    domain: Expression | Sequence[Expression] = (),
) -> Layer:
    """Return the layer whose outputs are these expressions; `domain` are comparisons that hold.

    An output without a name is called `y` (of several `y1`, `y2`, ...), a shared part `v1`, `v2`,
    .... Arrays are declared inputs first, then params, then consts, each as the text names them.
    Raises ArgumentError for what is no expression and LayerSyntaxError for names that clash.
    """
    given, conditions = _given(outputs), _conditions(domain)
    found = _bottom_up((*given, *conditions))
    taken = _names_of(found)
    roots = _named_outputs(given, taken)
    found = _bottom_up((*roots, *conditions))
    statements = tuple(_lines(found, roots, conditions, taken))
    last = next((s.name for s in reversed(statements) if isinstance(s, Assign)), None)
    names = tuple(root.label or "" for root in roots)
    declared = {e.declaration.name: e for e in found if e.declaration is not None}
    text = Source("\n".join(write_statement(line) for line in statements))
    appearing = tuple(token.text for token in scan(text) if token.kind == "name")
    entries = (e.declaration for e in declared.values() if e.declaration is not None)
    built = Layer(
        ordered(tuple(entries), appearing),
        statements,
        outputs=() if names == (last,) else names,
        aliases=aliases(e.original or code for code, e in declared.items()),
    )
    return _read(built, name)


def _given(outputs: object) -> tuple[Expression, ...]:
    several = outputs if isinstance(outputs, tuple) else (outputs,)
    if not several:
        raise ArgumentError("a layer has at least one output", hint="sg.layer((y, a))")
    for position, output in enumerate(several):
        if not isinstance(output, Expression):
            message = f"an output is of type {type(output).__name__}, expected an expression"
            raise ArgumentError(message, hint="as in sg.layer(sg.sigmoid(W @ x + b))")
        if any(output is other for other in several[:position]):
            hint = "name each output once"
            raise LayerSyntaxError(f"output {position + 1} is given twice", hint=hint)
    return several


def _conditions(domain: object) -> tuple[Expression, ...]:
    """Return the conditions of a domain; raise ArgumentError for what is none."""
    several = (domain,) if isinstance(domain, (Expression, bool)) else domain
    if not isinstance(several, Iterable):
        message = f"domain is of type {type(domain).__name__}, expected a list of comparisons"
        raise ArgumentError(message, hint="as in domain=[a > 0, (0 < p) & (p < 1)]")
    made = tuple(several)
    for condition in made:
        if not isinstance(condition, Expression) or not _is_mask(condition):
            message = f"domain holds {condition!r}, which is no comparison of expressions"
            raise ArgumentError(message, hint="as in domain=[a > 0, (0 < p) & (p < 1)]")
    return made


def _is_mask(expression: Expression) -> bool:
    """Whether an expression compares, or joins or negates what does."""
    node = expression.node
    if expression.label is not None:
        return _is_mask(expression.operands[0])
    joins = isinstance(node, (Unary, Binary)) and node.operator in ("~", "&", "|")
    return joins or isinstance(node, Compare)


def _bottom_up(roots: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """Return all expressions below the roots, each once, operands first, in reading order."""
    done: dict[int, Expression] = {}
    waiting: list[tuple[Expression, bool]] = [(root, False) for root in reversed(roots)]
    while waiting:
        expression, ready = waiting.pop()
        if id(expression) in done:
            continue
        if ready or not expression.operands:
            done[id(expression)] = expression
            continue
        waiting.append((expression, True))
        waiting.extend((part, False) for part in reversed(expression.operands))
    return tuple(done.values())


def _names_of(found: tuple[Expression, ...]) -> set[str]:
    """Return all names in use; raise if two values that are not one object share one."""
    owners: dict[str, Expression] = {}
    for expression in found:
        if not isinstance(expression.node, Name):
            continue
        name = expression.node.name
        owner = owners.setdefault(name, expression)
        if owner is not expression and {owner.kind, expression.kind} != {"size"}:
            hint = "declare an array once and use the object everywhere, or give each its own name"
            raise LayerSyntaxError(f"two different values are called {name}", hint=hint)
    sizes = (d for e in found if e.declaration is not None for d in _sizes(e.declaration))
    return {*owners, *sizes}


def _sizes(made: Declaration) -> Iterator[str]:
    """Yield the dims that a declaration names."""
    for axis in (*made.dims, *((made.vocabulary,) if made.vocabulary is not None else ())):
        yield from axis.names


def _named_outputs(given: tuple[Expression, ...], taken: set[str]) -> tuple[Expression, ...]:
    """Return the outputs, those without a name behind a new one, which is then taken too."""
    roots = []
    for position, output in enumerate(given, start=1):
        if output.label is not None:
            roots.append(output)
            continue
        first = ("y", "out") if len(given) == 1 else (f"y{position}",)
        more = (f"{first[0]}_{k}" for k in count(2))
        name = next(n for n in chain(first, more) if n not in taken)
        taken.add(name)
        roots.append(output.named(name))
    return tuple(roots)


def _labels(found: tuple[Expression, ...], roots: tuple[Expression, ...]) -> dict[int, str]:
    """Return the names that were given to expressions, by the identity of what they name."""
    labels: dict[int, str] = {}
    for expression in (*roots, *found):
        if expression.label is not None and _may_have_line(expression.operands[0]):
            labels.setdefault(id(expression.operands[0]), expression.label)
    return labels


def _may_have_line(expression: Expression) -> bool:
    return expression.kind == "value" and bool(expression.operands) and expression.label is None


def _lines(
    found: tuple[Expression, ...],
    roots: tuple[Expression, ...],
    conditions: tuple[Expression, ...],
    taken: set[str],
) -> Iterator[Assign | Domain]:
    """Yield the assignments, operands first: of what has a name, is used twice or lies deep.

    The conditions follow at the end.
    """
    labels = _labels(found, roots)
    uses = Counter(id(part) for expression in found for part in expression.operands)
    fresh = (name for name in (f"v{k}" for k in count(1)) if name not in taken)
    nodes: dict[int, Expr] = {}
    heights: dict[int, int] = {}
    for expression in found:
        own, key = expression.node, id(expression)
        if expression.kind != "value" and expression.weight > LARGEST_SIZE:
            hint = "give the size a name of its own where arrays are declared"
            raise LayerSyntaxError("the arithmetic on a size is too long", hint=hint)
        if expression.label is not None:
            inner = expression.operands[0]
            if labels.get(id(inner)) != expression.label:
                yield Assign(expression.label, None, nodes[id(inner.node)])
        node, height = _rebuilt(own, nodes), _height(own, heights)
        if _may_have_line(expression) and (key in labels or uses[key] > 1 or height > DEEPEST):
            name = labels.get(key) or next(fresh)
            yield Assign(name, None, node)
            node, height = Name(name), 2
        nodes[id(own)] = node
        heights[id(own)] = height
    for condition in conditions:
        yield Domain(nodes[id(condition.node)])


def _rebuilt(node: Expr, nodes: Mapping[int, Expr]) -> Expr:
    """Return a node with its operands replaced by what stands for them."""

    def stands_for(part: Any) -> Any:
        return nodes[id(part)] if id(part) in nodes else over_parts(part, stands_for)

    return over_parts(node, stands_for)


def _height(part: Item, heights: Mapping[int, int]) -> int:
    """Return how many levels of Python's syntax tree a node takes at most."""
    if id(part) in heights:
        return heights[id(part)]
    own = 1
    if isinstance(part, (Subscript, Slice)) or (isinstance(part, Call) and part.keywords):
        own = 2
    return own + max((_height(inner, heights) for inner in parts(part)), default=1)


def _read(built: Layer, name: str | None) -> Layer:
    """Return the layer as its text is read: errors then point into the text.

    The declarations are copies of those in Python: `chain` knows by them what is one array.
    """
    read = parse(write(built), name=name)
    if read != built:
        hint = "declare at least one array: sg.input, sg.param, sg.const or sg.index"
        raise LayerSyntaxError("this layer cannot be written as a text", hint=hint)
    pairs = zip(read.declarations, built.declarations, strict=True)
    return replace(read, declarations=tuple(own.copy_of(given) for own, given in pairs))
