"""A layer as its author wrote it: declarations and statements in matrix or index style.

str -> Layer -> str
Spans are carried everywhere and ignored by equality, so `layer(str(l)) == l`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, Union

from symgrad.dims import Dim
from symgrad.errors import Source, Span

Role = Literal["input", "param", "const", "index"]
NOWHERE = Span(0, 0, 0, 0)


def _span() -> Span:
    return field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Number:
    """A literal; `pi` is Name("pi")."""

    value: int | float
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Name:
    """An array, a macro argument, a dim, an index or a constant; `check` tells which."""

    name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Unary:
    """`-a`, `+a`, `~a`."""

    operator: Literal["-", "+", "~"]
    operand: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Binary:
    """`a op b`; `·` is a product whose meaning, `*` or `@`, `check` resolves by rank."""

    operator: Literal["+", "-", "*", "/", "**", "@", "//", "&", "|", "·"]
    left: Expr
    right: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Compare:
    """A chain `first op rest[0] op rest[1] ...`."""

    operators: tuple[Literal["<", "<=", ">", ">=", "==", "!="], ...]
    operands: tuple[Expr, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Keyword:
    """`name=value` in a call."""

    name: str
    value: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the language, a macro, or an abstract function; `span` covers it all."""

    function: str
    arguments: tuple[Expr, ...]
    keywords: tuple[Keyword, ...] = ()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Binder:
    """A bound or free index, with its stated range if there is one: `k` or `q: 2`."""

    name: str
    extent: Expr | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Reduction:
    """`sum[k](body)` and its kin; binds its indices inside `body` only."""

    function: str
    binders: tuple[Binder, ...]
    body: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Slice:
    """`lower:upper:step` in a subscript, parts may be None."""

    lower: Expr | None
    upper: Expr | None
    step: Expr | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Dots:
    """`...` in a subscript."""

    span: Span = _span()


@dataclass(frozen=True, slots=True)
class NewAxis:
    """`None` in a subscript."""

    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Subscript:
    """`base[items]`."""

    base: Expr
    items: tuple[Item, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Transposed:
    """`base.T`."""

    base: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list or tuple, where a function asks for one."""

    items: tuple[Expr, ...]
    brackets: Literal["[]", "()"] = "()"
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Text:
    """A string: einsum's pattern."""

    value: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Flag:
    """`True`, `False` or `None` as a keyword's value."""

    value: bool | None
    span: Span = _span()


Expr = Union[
    Number,
    Name,
    Unary,
    Binary,
    Compare,
    Call,
    Reduction,
    Subscript,
    Transposed,
    Sequence,
    Text,
    Flag,
]
Item = Union[Expr, Slice, Dots, NewAxis]


@dataclass(frozen=True, slots=True)
class Declaration:
    """`name: role[dims] = default`; `vocabulary` is the v of `index(v)`.

    `origin` is the declaration it was copied from: copies of one object are one array in a chain.
    """

    name: str
    role: Role
    dims: tuple[Dim, ...]
    vocabulary: Dim | None = None
    default: int | float | None = None
    span: Span = _span()
    dim_spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)
    origin: Declaration | None = field(default=None, compare=False, repr=False)

    @property
    def identity(self) -> int:
        """What all copies of one declaration share, and nothing else."""
        return id(self.origin or self)

    def copy_of(self, other: Declaration) -> Declaration:
        """Return it as a copy of another declaration."""
        return replace(self, origin=other.origin or other)


@dataclass(frozen=True, slots=True)
class Assign:
    """`name = value` (binders None) or `name[i, t: T] = value` (index style)."""

    name: str
    binders: tuple[Binder, ...] | None
    value: Expr
    span: Span = _span()
    name_span: Span = _span()


@dataclass(frozen=True, slots=True)
class Start:
    """`h[-lag] = value` or `h[-lag, i] = value`: where a recurrence starts."""

    name: str
    lag: int
    binders: tuple[Binder, ...]
    value: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Domain:
    """`assert condition`."""

    condition: Expr
    span: Span = _span()


Statement = Union[Assign, Start, Domain]


@dataclass(frozen=True, slots=True)
class Macro:
    """`def name(arguments): locals; return result`."""

    name: str
    arguments: tuple[str, ...]
    body: tuple[Assign, ...]
    result: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Alias:
    """`# name: code_name = dotted.name`, kept from an imported model."""

    name: str
    original: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Layer:
    """A whole layer; `outputs` empty means the last assigned name.

    `one_liner` marks text whose declarations were assumed; `assumptions` says which, in words.
    """

    declarations: tuple[Declaration, ...]
    statements: tuple[Statement, ...]
    macros: tuple[Macro, ...] = ()
    outputs: tuple[str, ...] = ()
    title: str = ""
    aliases: tuple[Alias, ...] = ()
    name: str = field(default="layer", compare=False)
    assumptions: tuple[str, ...] = field(default=(), compare=False)
    source: Source = field(default=Source(""), compare=False, repr=False)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The outputs' names: those of `return`, else the last assigned one."""
        if self.outputs:
            return self.outputs
        assigned = [s.name for s in self.statements if isinstance(s, Assign)]
        return (assigned[-1],) if assigned else ()

    def declaration(self, name: str) -> Declaration | None:
        """Return the declaration of `name`, or None."""
        return next((d for d in self.declarations if d.name == name), None)

    def __repr__(self) -> str:
        arrays = ", ".join(d.name for d in self.declarations)
        return f'Layer("{self.name}": {arrays} -> {", ".join(self.output_names)})'

    def __str__(self) -> str:
        from symgrad.write import write

        return write(self)
