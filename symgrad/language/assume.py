"""What a one-liner leaves unsaid: roles, ranks and the names of sizes.

Assign, declarations beside the text -> Layer
`x` is the input, capitals are matrices, other letters vectors; what must agree gets one size.
"""

from __future__ import annotations

from symgrad.dims import Dim
from symgrad.errors import Source
from symgrad.language.characters import is_letter
from symgrad.language.declarations import ordered
from symgrad.language.names import parts
from symgrad.language.shapes import Axis, Shapes
from symgrad.language.vocabulary import FUNCTION_NAMES, SIZE_ARGUMENTS
from symgrad.syntax import (
    Assign,
    Call,
    Declaration,
    Item,
    Layer,
    Name,
    Reduction,
    Role,
    Slice,
    Subscript,
)


def assume(
    statement: Assign, stated: tuple[Declaration, ...], source: Source, said: tuple[str, ...]
) -> Layer:
    """Return the layer of one statement, with what it does not declare assumed.

    `said` are the assumptions made before; names longer than a letter stay unknown.
    """
    order = _names_in_order(statement)
    known = frozenset(d.name for d in stated)
    sizes = frozenset(name for d in stated for axis in d.dims for name in axis.names)
    indices = frozenset(b.name for b in statement.binders or ())
    fresh = tuple(
        name
        for name in order
        if is_letter(name) and name not in known | sizes | indices | {statement.name, "pi"}
    )
    shapes = Shapes(stated, sizes)
    for name in fresh:
        shapes.add_array(name, max(_rank(name), _subscripts(statement.value, name)))
    value, axes = shapes.statement(statement)
    taken = {*order, *known, *sizes, statement.name} | indices | _stated_names(statement.value)
    _name_sizes(shapes, stated, fresh, axes, taken)
    made = tuple(
        Declaration(name, _role(name), tuple(axis.dim for axis in shapes.arrays[name]))
        for name in fresh
    )
    declarations = ordered((*stated, *made), order)
    words = tuple(_in_words(d) for d in declarations if d.name in fresh)
    functions = tuple(dict.fromkeys(_abstract_functions(statement.value)))
    called = tuple(f"{name} is a function applied element-wise" for name in functions)
    done = Assign(statement.name, statement.binders, value, statement.span, statement.name_span)
    return Layer(declarations, (done,), assumptions=(*words, *called, *said), source=source)


def _role(name: str) -> Role:
    return "input" if name == "x" else "param"


def _rank(name: str) -> int:
    return 2 if name[0].isupper() else 1


def _names_in_order(statement: Assign) -> tuple[str, ...]:
    """Return the names that stand for arrays, by first appearance."""
    found: dict[str, None] = {}

    def visit(expr: Item, bound: frozenset[str]) -> None:
        if isinstance(expr, Name) and expr.name not in bound:
            found[expr.name] = None
        elif isinstance(expr, Subscript):
            visit(expr.base, bound)
        elif isinstance(expr, Reduction):
            visit(expr.body, bound | {b.name for b in expr.binders})
        elif isinstance(expr, Call) and expr.function in SIZE_ARGUMENTS:
            for argument in expr.arguments[: SIZE_ARGUMENTS[expr.function]]:
                visit(argument, bound)
        elif not isinstance(expr, Slice):
            for part in parts(expr):
                visit(part, bound)

    visit(statement.value, frozenset(b.name for b in statement.binders or ()))
    return tuple(found)


def _subscripts(expr: Item, name: str) -> int:
    """Return the most indices an array is read with."""
    most = 0
    if isinstance(expr, Subscript) and expr.base == Name(name):
        most = len(expr.items)
    return max((most, *(_subscripts(part, name) for part in parts(expr))))


def _stated_names(expr: Item) -> set[str]:
    """Return every name in an expression, those of sizes and indices too."""
    found = {expr.name} if isinstance(expr, Name) else set()
    if isinstance(expr, Reduction):
        found |= {binder.name for binder in expr.binders}
    return found.union(*(_stated_names(part) for part in parts(expr)))


def _abstract_functions(expr: Item) -> list[str]:
    found = []
    if isinstance(expr, Call) and expr.function not in FUNCTION_NAMES and is_letter(expr.function):
        found.append(expr.function)
    return found + [name for part in parts(expr) for name in _abstract_functions(part)]


def _name_sizes(
    shapes: Shapes,
    stated: tuple[Declaration, ...],
    fresh: tuple[str, ...],
    output: tuple[Axis, ...] | None,
    taken: set[str],
) -> None:
    """Name the sizes: n of the input, m of the output, then h1, h2, ..."""
    inputs = [shapes.arrays[name] for name in fresh if _role(name) == "input"]
    inputs += [shapes.arrays[d.name] for d in stated if d.role == "input"]
    for axes in inputs:
        if axes:
            _give(axes[-1], "n", taken)
    if output:
        _give(output[-1], "m", taken)
    hidden = (f"h{k}" for k in range(1, 10**6))
    ordered_names = [n for n in fresh if _role(n) == "input"]
    ordered_names += [n for n in fresh if _role(n) != "input"]
    for name in ordered_names:
        for axis in shapes.arrays[name]:
            if axis.root.fixed is None:
                axis.fix(Dim.of(next(h for h in hidden if h not in taken)))


def _give(axis: Axis, name: str, taken: set[str]) -> None:
    """Name an axis unless it has a name, or the name is taken."""
    if axis.root.fixed is None and name not in taken:
        taken.add(name)
        axis.fix(Dim.of(name))


def _in_words(made: Declaration) -> str:
    """Return one assumption as a sentence."""
    axes = ", ".join(str(axis) for axis in made.dims)
    if made.role == "input":
        return f"{made.name} is the input, of shape [{axes}]"
    kind = {1: "vector", 2: "matrix"}.get(len(made.dims), "array")
    return f"{made.name} is a parameter, a {kind} of shape [{axes}]"
