"""Put layers one behind the other: the first output of each feeds the first input of the next.

layer, layer, ... -> Layer
A part keeps its names behind its layer's name; an array that is one object stays one array.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from symgrad.api import LayerLike, layer
from symgrad.check import check
from symgrad.dims import Dim
from symgrad.dotted import aliases, code_name
from symgrad.errors import ArgumentError, LayerSyntaxError, ShapeError
from symgrad.language.characters import fold
from symgrad.language.declarations import ordered
from symgrad.language.names import array_names, dim_names
from symgrad.parse import parse
from symgrad.rewrite import nodes_in, over_parts, size_expression
from symgrad.syntax import (
    Assign,
    Binder,
    Call,
    Declaration,
    Domain,
    Expr,
    Layer,
    Macro,
    Name,
    Reduction,
    Start,
    Statement,
)
from symgrad.unify import unify
from symgrad.write import write

_MARK = "#"
"""Between a dim and the number of its part, until all dims have their last names."""


def chain(*layers: LayerLike, name: str = "chain") -> Layer:
    """Return the layer that applies layers in turn.

    The first output of each is the first input of the next, and their sizes become one. Arrays of
    a layer `dense` are called `dense.W` (`dense_W` in code), of a second one `dense_2.W`; a layer,
    or an array declared in Python, that is used twice is tied. Outputs are those of the last.
    Raises ShapeError where sizes cannot agree, ArgumentError for a layer without an input.
    """
    if not layers:
        raise ArgumentError("a chain has at least one layer", hint="sg.chain(layer1, layer2)")
    parts = _parts(tuple(layer(each) for each in layers))
    originals = _originals(parts)
    sizes = _sizes(parts, _fixed_names(parts, originals))
    declared: dict[str, Declaration] = {}
    statements: list[Statement] = []
    macros: list[Macro] = []
    taken = {*_fixed_names(parts, originals), *(n for d in sizes.values() for n in d.names)}
    for part in parts:
        renaming = _renaming(part, sizes, taken)
        for made in part.declared:
            moved = _moved(made, part, sizes)
            declared.setdefault(moved.name, moved)
        macros += [renaming.macro(macro) for macro in part.layer.macros]
        statements += [renaming.statement(line) for line in part.layer.statements]
    last = parts[-1]
    built = Layer(
        ordered(tuple(declared.values()), ()),
        tuple(statements),
        tuple(macros),
        tuple(last.arrays[output] for output in last.layer.outputs),
        aliases=aliases(originals.values()),
    )
    assumed = tuple(f"{p.name}: {said}" for p in parts for said in p.layer.assumptions)
    read = parse(write(built), name=name)
    copies = tuple(d.copy_of(declared[d.name]) for d in read.declarations)
    return replace(read, declarations=copies, assumptions=assumed)


@dataclass(slots=True)
class _Part:
    """A layer in its place: its name here, what its arrays are called, what it is fed."""

    name: str
    layer: Layer
    number: int
    fed: Declaration | None
    arrays: dict[str, str] = field(default_factory=dict)

    @property
    def declared(self) -> tuple[Declaration, ...]:
        """The declarations that stay: all but the one that is fed."""
        return tuple(d for d in self.layer.declarations if d is not self.fed)

    def local(self, size: Dim) -> Dim:
        """Return a size with its dims marked as this part's own."""
        return size.substitute({name: f"{name}{_MARK}{self.number}" for name in size.names})


def _parts(layers: tuple[Layer, ...]) -> tuple[_Part, ...]:
    used: set[str] = set()
    made: list[_Part] = []
    for number, each in enumerate(layers):
        name = fold(re.sub(r"\s+", "_", each.name.strip())) or "layer"
        wanted, repeat = name, 2
        while wanted in used:
            wanted, repeat = f"{name}_{repeat}", repeat + 1
        used.add(wanted)
        fed = next((d for d in each.declarations if d.role == "input"), None)
        if number and fed is None:
            message = f"{each.name} has no input that {layers[number - 1].name} could feed"
            raise ArgumentError(message, hint=f"declare one in {each.name}: x: input[n]")
        made.append(_Part(wanted, each, number, fed if number else None))
    return tuple(made)


def _originals(parts: tuple[_Part, ...]) -> dict[str, str]:
    """Name all arrays of the parts; return code name -> dotted name.

    Raises LayerSyntaxError if two dotted names have one code name.
    """
    originals: dict[str, str] = {}
    seen: dict[int, str] = {}
    before = ""
    for part in parts:
        own = {alias.name: alias.original for alias in part.layer.aliases}
        by_name = {d.name: d for d in part.layer.declarations}
        for name in array_names(part.layer):
            made = by_name.get(name)
            if made is not None and made is part.fed:
                part.arrays[name] = before
                continue
            if made is not None and made.identity in seen:
                part.arrays[name] = seen[made.identity]
                continue
            original = f"{part.name}.{own.get(name, name)}"
            code = code_name(original)
            if code in originals:
                message = f"{originals[code]} and {original} would both be called {code}"
                hint = 'give one of the layers another name: sg.layer(..., name="head")'
                raise LayerSyntaxError(message, hint=hint)
            originals[code] = original
            part.arrays[name] = code
            if made is not None:
                seen[made.identity] = code
        before = part.arrays[part.layer.output_names[0]]
    return originals


def _fixed_names(parts: tuple[_Part, ...], originals: Mapping[str, str]) -> set[str]:
    """Return the names that dims and indices must leave alone."""
    called = {
        node.function
        for part in parts
        for expr in _expressions(part.layer)
        for node in nodes_in(expr)
        if isinstance(node, Call)
    }
    return {*originals, *called}


def _expressions(made: Layer) -> Iterator[Expr]:
    """Yield all expressions of a layer."""
    for macro in made.macros:
        yield from (line.value for line in macro.body)
        yield macro.result
    for statement in made.statements:
        yield statement.condition if isinstance(statement, Domain) else statement.value


def _sizes(parts: tuple[_Part, ...], taken: set[str]) -> dict[str, Dim]:
    """Return what every dim of every part is in the chain, by its marked name."""
    known: dict[str, Dim] = {}
    equations: list[tuple[Dim, Dim]] = []
    for pairs, message, hint in _agreements(parts):
        equations += pairs
        try:
            known = unify(equations)
        except ValueError as error:
            left, right = (re.sub(rf"{_MARK}\d+", "", str(size)) for size in error.args)
            raise ShapeError(f"{message}: {left} is not {right}", hint=hint) from None
    used = set(taken)
    for part in parts:
        for name in dim_names(part.layer, ()):
            marked = f"{name}{_MARK}{part.number}"
            if marked in known:
                continue
            wanted, repeat = name, 2
            while wanted in used:
                wanted, repeat = f"{name}_{repeat}", repeat + 1
            used.add(wanted)
            known = {k: d.substitute({marked: wanted}) for k, d in known.items()}
            known[marked] = Dim.of(wanted)
    return known


def _agreements(
    parts: tuple[_Part, ...],
) -> Iterator[tuple[list[tuple[Dim, Dim]], str, str]]:
    """Yield the sizes that must agree, with the error for when they cannot."""
    for before, part in pairwise(parts):
        if part.fed is None:  # pragma: no cover - `_parts` saw to it
            continue
        program = check(before.layer)
        output = program.outputs[0]
        definition = program.definition(output)
        indices = () if definition is None else definition.indices
        axes = tuple(i.dim for i in indices if i != program.batch)
        message = (
            f"{before.name} puts out {_shaped(output, axes)}, "
            f"but {part.name} takes {_shaped(part.fed.name, part.fed.dims)}"
        )
        if len(axes) != len(part.fed.dims):
            hint = f"their numbers of axes differ: {len(axes)} and {len(part.fed.dims)}"
            raise ShapeError(message, hint=hint)
        pairs = zip(axes, part.fed.dims, strict=True)
        hint = f"give {part.name} an input of that shape"
        yield [(before.local(a), part.local(b)) for a, b in pairs], message, hint
    first: dict[int, tuple[_Part, Declaration]] = {}
    for part in parts:
        for made in part.declared:
            owner, other = first.setdefault(made.identity, (part, made))
            if owner is part:
                continue
            message = f"{made.name} is one array in {owner.name} and in {part.name}"
            hint = f"declare another array for {part.name}, so that they are not tied"
            pairs = zip(_all_sizes(other), _all_sizes(made), strict=True)
            yield [(owner.local(a), part.local(b)) for a, b in pairs], message, hint


def _all_sizes(made: Declaration) -> tuple[Dim, ...]:
    return (*made.dims, *((made.vocabulary,) if made.vocabulary is not None else ()))


def _shaped(name: str, axes: Iterable[Dim]) -> str:
    inner = ", ".join(str(axis) for axis in axes)
    return f"{name}[{inner}]" if inner else f"the scalar {name}"


def _moved(made: Declaration, part: _Part, sizes: Mapping[str, Dim]) -> Declaration:
    """Return a declaration with its name and sizes in the chain."""
    dims = tuple(part.local(axis).substitute(sizes) for axis in made.dims)
    limit = None if made.vocabulary is None else part.local(made.vocabulary).substitute(sizes)
    moved = Declaration(part.arrays[made.name], made.role, dims, limit, made.default)
    return moved.copy_of(made)


@dataclass(frozen=True, slots=True)
class _Renaming:
    """What the names of a part become; indices and arguments step aside for names of the chain."""

    macros: Mapping[str, str]
    names: Mapping[str, Expr]
    taken: frozenset[str]

    def aside(self, name: str) -> str:
        """Return what an index or an argument is called: always the same for the same name."""
        wanted, repeat = name, 2
        while wanted in self.taken:
            wanted, repeat = f"{name}_{repeat}", repeat + 1
        return wanted

    def inside(self, hidden: Iterable[str]) -> _Renaming:
        """Return the renaming where indices or arguments hide what had their names."""
        return replace(self, names={**self.names, **{n: Name(self.aside(n)) for n in hidden}})

    def binders(self, binders: tuple[Binder, ...]) -> tuple[Binder, ...]:
        """Rename indices; their ranges are seen from outside."""
        return tuple(
            Binder(self.aside(b.name), None if b.extent is None else self.item(b.extent))
            for b in binders
        )

    def item(self, item: Any) -> Any:
        """Rename what stands in an expression."""
        match item:
            case Name():
                return self.names.get(item.name, item)
            case Reduction():
                inner = self.inside(b.name for b in item.binders)
                return Reduction(item.function, self.binders(item.binders), inner.item(item.body))
            case Call():
                called = self.macros.get(item.function, item.function)
                return replace(over_parts(item, self.item), function=called)
            case _:
                return over_parts(item, self.item)

    def statement(self, line: Statement) -> Statement:
        """Rename a statement, the name it assigns included."""
        if isinstance(line, Domain):
            return Domain(self.item(line.condition))
        name = _name_of(self.names[line.name])
        value = self.inside(b.name for b in line.binders or ()).item(line.value)
        if isinstance(line, Start):
            return Start(name, line.lag, self.binders(line.binders), value)
        binders = None if line.binders is None else self.binders(line.binders)
        return Assign(name, binders, value)

    def macro(self, macro: Macro) -> Macro:
        """Rename a macro; its arguments and locals hide the layer's names."""
        inner = self.inside((*macro.arguments, *(line.name for line in macro.body)))
        body = tuple(inner.statement(line) for line in macro.body)
        return Macro(
            self.macros[macro.name],
            tuple(self.aside(argument) for argument in macro.arguments),
            tuple(line for line in body if isinstance(line, Assign)),
            inner.item(macro.result),
        )


def _name_of(expr: Expr) -> str:
    if not isinstance(expr, Name):  # pragma: no cover - arrays become names
        raise TypeError(f"{expr} is no name")
    return expr.name


def _renaming(part: _Part, sizes: Mapping[str, Dim], taken: set[str]) -> _Renaming:
    """Return the renaming of a part, and note its macros' new names in `taken`."""
    prefix = code_name(f"{part.name}.m")[:-1]
    macros: dict[str, str] = {}
    for macro in part.layer.macros:
        wanted, repeat = f"{prefix}{macro.name}", 2
        while wanted in taken:
            wanted, repeat = f"{prefix}{macro.name}_{repeat}", repeat + 1
        taken.add(wanted)
        macros[macro.name] = wanted
    names: dict[str, Expr] = {
        name: size_expression(sizes[f"{name}{_MARK}{part.number}"])
        for name in dim_names(part.layer, ())
    }
    names |= {name: Name(code) for name, code in part.arrays.items()}
    return _Renaming(macros, names, frozenset(taken))
