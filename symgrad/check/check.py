"""Type a layer: every array gets its shape, every index its range, every line its index notation.

Layer -> Program
Matrix style and index style become the same definitions; whatever is nonlinear gets a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from symgrad.check.context import Context, Scope, Thing
from symgrad.check.elementwise import is_elementwise, signature
from symgrad.check.flatten import Flattener
from symgrad.check.recurrence import block_at, recurrence
from symgrad.check.solvable import require_solvable
from symgrad.check.statements import assigned, conditioned
from symgrad.check.tree import Indices, Positions, Tree, Value
from symgrad.check.verify import verify
from symgrad.dims import Dim
from symgrad.errors import (
    LayerSyntaxError,
    ShapeError,
    Span,
    SymgradError,
)
from symgrad.language.names import dim_names, parts
from symgrad.language.synonyms import remedy
from symgrad.language.vocabulary import ACTIVATIONS, ELEMENTWISE, RESERVED
from symgrad.program import (
    BATCH,
    Access,
    Affine,
    Array,
    Condition,
    Lookup,
    Program,
    Supply,
    indices_of,
)
from symgrad.syntax import (
    Assign,
    Call,
    Declaration,
    Domain,
    Item,
    Layer,
    Macro,
    Reduction,
)


def check(
    layer: Layer,
    *,
    dims: Mapping[str, Dim | int | str] | None = None,
    functions: Mapping[str, Any] | None = None,
) -> Program:
    """Return the program a layer is.

    `dims` replaces dims by numbers or other dims before anything is compared. `functions` binds
    abstract functions to functions of the language or macros of the layer; other bindings are
    left to later stages. Raises ShapeError, LayerSyntaxError or CodegenError with the place.
    """
    try:
        program = _program(layer, dims or {}, functions or {})
    except RecursionError:
        message, hint = "this layer is nested too deeply", "name parts of it in lines of their own"
        raise LayerSyntaxError(message, None, layer.source, hint) from None
    except SymgradError as error:
        raise error.located(layer.source) from None
    verify(program)
    return program


def _program(
    layer: Layer, dims: Mapping[str, Dim | int | str], functions: Mapping[str, Any]
) -> Program:
    sizes = {name: Dim.of(size) for name, size in dims.items()}
    arrays = tuple(_array(made, sizes) for made in layer.declarations)
    context = _context(layer, sizes, functions, arrays)
    scope = Scope({array.name: _declared(array, context) for array in arrays})
    conditions: list[Condition] = []
    stepped: set[str] = set()
    for position, statement in enumerate(layer.statements):
        context.flat.span = statement.span
        try:
            match statement:
                case Domain():
                    conditions.append(_condition(statement, scope, context))
                case Assign() if statement.name not in stepped:
                    block = block_at(layer.statements, position)
                    if block:
                        scope = recurrence(block, layer.statements, scope, context)
                        stepped |= {line.name for line in block}
                    else:
                        scope = _assign(statement, scope, context)
        except SymgradError as error:
            error.span = error.span or statement.span  # no error is without a place
            raise
    _require_outputs(layer, scope)
    program = Program(
        layer.name,
        layer.title,
        arrays,
        tuple(context.flat.definitions),
        layer.output_names,
        context.batch,
        context.supply.serial,
        tuple(context.checks),
        tuple(conditions),
        text=layer.source.text,
        source=layer.source,
    )
    require_solvable(program, context.dim_spans)
    return program


def _array(made: Declaration, sizes: Mapping[str, Dim]) -> Array:
    vocabulary = None if made.vocabulary is None else made.vocabulary.substitute(sizes)
    axes = tuple(dim.substitute(sizes) for dim in made.dims)
    return Array(made.name, made.role, axes, vocabulary, made.default)


def _context(
    layer: Layer, sizes: Mapping[str, Dim], functions: Mapping[str, Any], arrays: tuple[Array, ...]
) -> Context:
    supply = Supply()
    batch = supply.fresh("b", BATCH)
    taken = {a.name for a in arrays} | set(RESERVED) | set(functions) | _written(layer)
    spans: dict[str, Span] = {}
    for made, array in zip(layer.declarations, arrays, strict=True):
        for dim in (*array.axes, *((array.vocabulary,) if array.vocabulary else ())):
            taken |= set(dim.names)
            for name in dim.names:
                spans.setdefault(name, made.span)
    known = set(spans) | {n for made in layer.declarations for d in made.dims for n in d.names}
    known |= {n for d in layer.declarations if d.vocabulary for n in d.vocabulary.names}
    unknown = [n for n in sizes if n not in known and not _mentions(layer, n)]
    if unknown:
        hint = f"its dims are {', '.join(sorted(known))}" if known else "it has none"
        raise ShapeError(f"dims= names {unknown[0]}, which is no dim of this layer", hint=hint)
    macros = {macro.name: macro for macro in layer.macros}
    bindings = {name: to for name, to in functions.items() if isinstance(to, str)}
    for name, to in bindings.items():
        _require_bindable(name, to, macros)
    shapes = {a.name: (BATCH, *a.axes) if a.batched else a.axes for a in arrays}
    flat = Flattener(batch, supply, taken, shapes=shapes)
    context = Context(layer, supply, batch, flat, macros, bindings, sizes, {})
    context.dim_spans = spans
    context.constants = {a.name: _declared(a, context) for a in arrays if a.role == "const"}
    return context


def _require_bindable(name: str, to: str, macros: Mapping[str, Macro]) -> None:
    """Raise unless an abstract function can be `to`: element-wise, of one argument."""
    if to in macros:
        needed = len(macros[to].arguments)
    elif is_elementwise(to):
        needed = len(signature(to).names) - len(signature(to).defaults)
    elif to in RESERVED:
        hint = "bind it to an element-wise function, such as tanh, or to a macro of the layer"
        raise LayerSyntaxError(f"{name} cannot be {to}, which is not element-wise", hint=hint)
    else:
        near = remedy(to, (*macros, *ELEMENTWISE, *ACTIVATIONS))
        hint = near or "bind it to a function of the language"
        raise LayerSyntaxError(f"{name} cannot be {to}, which is no function", hint=hint)
    if needed != 1:
        hint = f"write a macro: def f(a): return {to}(a, ...), and bind {name} to it"
        message = f"{name} cannot be {to}, which takes {needed} arguments: {name} takes one"
        raise LayerSyntaxError(message, hint=hint)


def _written(layer: Layer) -> set[str]:
    """Return the names of a layer that a part nobody named must not have: all but macros' own."""
    names = {m.name for m in layer.macros} | set(dim_names(layer, ()))
    waiting: list[Item] = [line.value for m in layer.macros for line in m.body]
    waiting += [macro.result for macro in layer.macros]
    for statement in layer.statements:
        if isinstance(statement, Domain):
            waiting.append(statement.condition)
            continue
        names |= {statement.name, *(b.name for b in statement.binders or ())}
        waiting.append(statement.value)
    while waiting:
        expr = waiting.pop()
        if isinstance(expr, Reduction):
            names |= {b.name for b in expr.binders}
        if isinstance(expr, Call):
            names.add(expr.function)
        waiting.extend(parts(expr))
    return names


def _mentions(layer: Layer, name: str) -> bool:
    return name in dim_names(layer, ())


def _declared(array: Array, context: Context) -> Thing:
    """Return a declared array as a value; inputs are read at the sample's position first."""
    first = (Affine.of(context.batch),) if array.batched else ()
    if array.vocabulary is not None:
        return Indices(
            array.axes, array.vocabulary, lambda at: Lookup(array.name, (*first, *at)), array.name
        )
    return Value(array.axes, lambda at: Access(array.name, (*first, *at)), plain=True)


def _assign(line: Assign, scope: Scope, context: Context) -> Scope:
    """Add the definition of a line and return the scope that sees it."""
    value = assigned(line, scope, context)
    if isinstance(value, Indices):
        hint = "an index array stands in subscripts: E[t]"
        raise ShapeError(f"{line.name} would be an array of indices", line.span, hint=hint)
    axes = context.fresh(value.axes)
    if line.binders:
        names = [b.name for b in line.binders]
        axes = tuple(
            context.supply.fresh(names[n], i.dim) if n < len(names) else i
            for n, i in enumerate(axes)
        )
    tree = value.element(tuple(Affine.of(i) for i in axes))
    made = context.flat.define(line.name, axes, tree, written=True)

    def element(at: Positions) -> Tree:
        return context.flat.read(made, at)

    named = Value(value.axes, element, value.mask, plain=True)
    return scope.with_array(line.name, named)


def _condition(statement: Domain, scope: Scope, context: Context) -> Condition:
    value = conditioned(statement.condition, scope, context)
    text = context.text(statement.condition)
    if not value.mask:
        hint = f"compare it: assert {text} > 0"
        raise LayerSyntaxError("assert asks for a comparison", statement.span, hint=hint)
    axes = context.fresh(value.axes)
    mask = context.flat.scalar(value.element(tuple(Affine.of(i) for i in axes)))
    batched = context.batch in indices_of(mask)
    indices = (*((context.batch,) if batched else ()), *axes)
    return Condition(indices, mask, text, statement.span)


def _require_outputs(layer: Layer, scope: Scope) -> None:
    for name in layer.output_names:
        value = scope.arrays.get(name)
        if isinstance(value, Value) and value.mask:
            line = next(s for s in layer.statements if isinstance(s, Assign) and s.name == name)
            hint = f"make it numbers: where({name}, 1, 0)"
            raise LayerSyntaxError(
                f"{name} is a mask and cannot be an output", line.span, hint=hint
            )

