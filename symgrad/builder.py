"""Layers written in Python: arrays are declared, operators and functions make their expressions.

names, sizes, Python operators -> Expression
An expression is a node of the layer language and what it was made of; nothing is computed. It is
matrix style; indices are written in a layer's text only, and so are macros and recurrences.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, Union

import numpy as np

from symgrad import syntax
from symgrad.dims import Dim
from symgrad.dotted import code_name
from symgrad.errors import ArgumentError, LayerSyntaxError
from symgrad.language.characters import fold, is_letter
from symgrad.language.declarations import size, sizes_in
from symgrad.language.synonyms import remedy
from symgrad.language.vocabulary import CONSTANTS, FUNCTION_NAMES, RESERVED
from symgrad.literals import checked_name, kind_of, literal, plain_number, refusal, string_of
from symgrad.syntax import Declaration
from symgrad.write import write_expression

Kind = Literal["value", "size", "index"]
Operand = Union["Expression", int, float]

_LONGEST_SHOWN = 200
_BY_NAME = frozenset(FUNCTION_NAMES) - {"delta"}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Expression:
    """A value of a layer to be: `+ - * / ** @ .T`, comparisons, `& | ~`, subscripts, functions.

    `operands` are the expressions it was made of, the same objects, so that what is used twice is
    known to be one. `label` is the name of an intermediate; `original` a declared dotted name.
    """

    node: syntax.Expr
    operands: tuple[Expression, ...] = ()
    kind: Kind = "value"
    declaration: Declaration | None = None
    original: str | None = None
    label: str | None = None
    weight: int = 1

    __array_priority__ = 1000
    __hash__ = object.__hash__

    def named(self, name: str) -> Expression:
        """Return it as an intermediate with a name: it keeps it in derivation, code and errors."""
        label = checked_name(name)
        return Expression(syntax.Name(label), (self,), label=label, weight=self.weight)

    @property
    def T(self) -> Expression:
        """All axes in reverse."""
        return _made(syntax.Transposed(self.node), (self,))

    def __add__(self, other: Operand) -> Expression:
        return _binary("+", self, other)

    def __radd__(self, other: Operand) -> Expression:
        return _binary("+", other, self)

    def __sub__(self, other: Operand) -> Expression:
        return _binary("-", self, other)

    def __rsub__(self, other: Operand) -> Expression:
        return _binary("-", other, self)

    def __mul__(self, other: Operand) -> Expression:
        return _binary("*", self, other)

    def __rmul__(self, other: Operand) -> Expression:
        return _binary("*", other, self)

    def __truediv__(self, other: Operand) -> Expression:
        return _binary("/", self, other)

    def __rtruediv__(self, other: Operand) -> Expression:
        return _binary("/", other, self)

    def __floordiv__(self, other: Operand) -> Expression:
        return _binary("//", self, other)

    def __rfloordiv__(self, other: Operand) -> Expression:
        return _binary("//", other, self)

    def __pow__(self, other: Operand) -> Expression:
        return _binary("**", self, other)

    def __rpow__(self, other: Operand) -> Expression:
        return _binary("**", other, self)

    def __matmul__(self, other: Operand) -> Expression:
        return _binary("@", self, other)

    def __rmatmul__(self, other: Operand) -> Expression:
        return _binary("@", other, self)

    def __and__(self, other: Operand) -> Expression:
        return _binary("&", self, other)

    def __rand__(self, other: Operand) -> Expression:
        return _binary("&", other, self)

    def __or__(self, other: Operand) -> Expression:
        return _binary("|", self, other)

    def __ror__(self, other: Operand) -> Expression:
        return _binary("|", other, self)

    def __neg__(self) -> Expression:
        return _made(syntax.Unary("-", self.node), (self,))

    def __pos__(self) -> Expression:
        return _made(syntax.Unary("+", self.node), (self,))

    def __invert__(self) -> Expression:
        return _made(syntax.Unary("~", self.node), (self,))

    def __abs__(self) -> Expression:
        return Function("abs")(self)

    def __lt__(self, other: Operand) -> Expression:
        return _compared("<", self, other)

    def __le__(self, other: Operand) -> Expression:
        return _compared("<=", self, other)

    def __gt__(self, other: Operand) -> Expression:
        return _compared(">", self, other)

    def __ge__(self, other: Operand) -> Expression:
        return _compared(">=", self, other)

    def __eq__(self, other: Operand) -> Expression:  # type: ignore[override]
        return _compared("==", self, other)

    def __ne__(self, other: Operand) -> Expression:  # type: ignore[override]
        return _compared("!=", self, other)

    def __getitem__(self, key: Any) -> Expression:
        return _subscript(self, key if isinstance(key, tuple) else (key,))

    def __bool__(self) -> bool:
        hint = "write (0 < x) & (x < 1), a | b, ~a, and where(condition, a, b) for a choice"
        raise ArgumentError("an expression is neither true nor false: it has no values", hint=hint)

    def __iter__(self) -> NoReturn:
        hint = "take its parts by subscripts: a[0], a[1]"
        raise ArgumentError("an expression cannot be gone through part by part", hint=hint)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        hint = "numpy's functions compute at once; those of a layer are sg.exp, sg.sum, ..."
        raise ArgumentError("an expression has no values yet and is no array", hint=hint)

    def __repr__(self) -> str:
        if self.weight > _LONGEST_SHOWN:
            return f"<an expression of {self.weight} parts>"
        return write_expression(self.node)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the language, `sg.softmax(z, axis=0)`, or an abstract one."""

    name: str

    def __call__(self, *arguments: Any, **keywords: Any) -> Expression:
        """Return the call as an expression; lists and tuples may hold expressions too."""
        operands: list[Expression] = []
        if self.name == "einsum" and arguments and isinstance(arguments[0], str):
            given_: list[syntax.Expr] = [syntax.Text(arguments[0])]
            arguments = arguments[1:]
        else:
            given_ = []
        given_ += [_argument(value, operands) for value in arguments]
        words = tuple(
            syntax.Keyword(
                word,
                syntax.Flag(value)
                if value is None or isinstance(value, bool)
                else _argument(value, operands),
            )
            for word, value in keywords.items()
        )
        return _made(syntax.Call(self.name, tuple(given_), words), operands)

    def __repr__(self) -> str:
        return f"<the layer function {self.name}>"


def input(name: str, dims: str = "") -> Expression:  # noqa: A001 - the role's own word
    """Declare a per-sample array: `input("x", "n")`, without sizes a scalar.

    `dims` are sizes between spaces, or between commas if they hold any: `"t - k + 1, n"`.
    Raises LayerSyntaxError for a name or a size that is none.
    """
    return _declared("input", name, dims)


def param(name: str, dims: str = "") -> Expression:
    """Declare an array that the whole batch shares: `param("W", "m n")`; sizes as in `input`."""
    return _declared("param", name, dims)


def const(name: str, dims: str = "", *, default: float | None = None) -> Expression:
    """Declare an array that is never differentiated; a scalar one may have a default."""
    if default is None:
        return _declared("const", name, dims)
    if isinstance(dims, str) and dims.strip():
        hint = 'as in sg.const("eps", "", default=1e-5)'
        raise LayerSyntaxError(f"{name} has sizes and cannot have a default", hint=hint)
    return _declared("const", name, dims, default=plain_number(default))


def index(name: str, vocabulary: str | int, dims: str = "") -> Expression:
    """Declare per-sample integers in 0..vocabulary-1, to gather with: `E[t]`."""
    if isinstance(vocabulary, bool) or not isinstance(vocabulary, (str, int)):
        message = f"the vocabulary of {name} is of type {kind_of(vocabulary)}, expected a size"
        raise ArgumentError(message, hint='as in sg.index("t", "v", "T")')
    limit = size(str(vocabulary), f"the vocabulary of {name}")
    return _declared("index", name, dims, vocabulary=limit)


def dim(name: str) -> Expression:
    """Return a size as a number: `q @ k.T / sg.sqrt(sg.dim("d"))`, `x[: sg.dim("n") - 1]`."""
    return Expression(syntax.Name(checked_name(name)), kind="size")


def abstract(letter: str) -> Function:
    """Return an abstract function, `abstract("σ")(z)`: a letter that is bound when compiled."""
    name = fold(string_of(letter, "an abstract function"))
    if not is_letter(name) or name in RESERVED:
        hint = "it is named by one letter, digits may follow: σ, f, g2"
        raise LayerSyntaxError(f"{letter!r} cannot name an abstract function", hint=hint)
    return Function(name)


PI = Expression(syntax.Name("pi"), kind="size")


def word(name: str) -> Function | Expression:
    """Return what a word of the language is: a function, or `pi`.

    Raises AttributeError for any other name, with one that is like it.
    """
    if name in CONSTANTS:
        return PI
    if name in _BY_NAME:
        return Function(name)
    message = f"module 'symgrad' has no attribute {name!r}"
    if name == "delta":
        raise AttributeError(f"{message}: indices are written in a layer's text only")
    near = None if name.startswith("_") else remedy(name, _BY_NAME)
    raise AttributeError(f"{message}; {near}" if near else message)


def words() -> tuple[str, ...]:
    """Return the names that `word` knows, sorted."""
    return tuple(sorted((*_BY_NAME, "pi")))


def _declared(
    role: syntax.Role,
    name: str,
    dims: str,
    vocabulary: Dim | None = None,
    default: float | None = None,
) -> Expression:
    written = string_of(name, "an array")
    given: object = dims
    if not isinstance(given, str):
        hint = f'sizes are one string: sg.{role}("{written}", "m n"), "" for a scalar'
        raise ArgumentError(f"the sizes of {written} are of type {kind_of(given)}", hint=hint)
    code = checked_name(code_name(written))
    axes = sizes_in(dims, f"the sizes of {written}")
    made = Declaration(code, role, axes, vocabulary, default)
    kind: Kind = "index" if role == "index" else "value"
    original = written if "." in written else None
    return Expression(syntax.Name(code), (), kind, made, original)


def _made(
    node: syntax.Expr, operands: Iterable[Expression], kind: Kind | None = None
) -> Expression:
    """Return a new expression; arithmetic on sizes alone is a size."""
    used = tuple(operands)
    if kind is None:
        arithmetic = isinstance(node, (syntax.Unary, syntax.Binary))
        sizes = arithmetic and all(part.kind == "size" for part in used)
        kind = "size" if sizes else "value"
    return Expression(node, used, kind, weight=1 + sum(part.weight for part in used))


def _binary(
    operator: Literal["+", "-", "*", "/", "**", "@", "//", "&", "|"], left: object, right: object
) -> Expression:
    used: list[Expression] = []
    first, second = _lifted(left, used), _lifted(right, used)
    return _made(syntax.Binary(operator, first, second), used)


def _compared(
    operator: Literal["<", "<=", ">", ">=", "==", "!="], left: Expression, right: object
) -> Expression:
    used = [left]
    return _made(syntax.Compare((operator,), (left.node, _lifted(right, used))), used)


def _subscript(base: Expression, key: tuple[Any, ...]) -> Expression:
    if not key:
        raise ArgumentError("an empty subscript has no meaning", hint="leave it out")
    if [item is Ellipsis for item in key].count(True) > 1:
        hint = "keep one; it stands for all axes that are left"
        raise ArgumentError("a subscript holds `...` once at most", hint=hint)
    used = [base]
    items = tuple(_item(item, used) for item in key)
    kind: Kind = "index" if base.kind == "index" else "value"
    return _made(syntax.Subscript(base.node, items), used, kind)


def _item(item: object, used: list[Expression]) -> syntax.Item:
    """Return one entry of a subscript."""
    if item is Ellipsis:
        return syntax.Dots()
    if item is None:
        return syntax.NewAxis()
    if isinstance(item, slice):
        lower, upper, step = (
            None if part is None else _lifted(part, used)
            for part in (item.start, item.stop, item.step)
        )
        return syntax.Slice(lower, upper, step)
    if isinstance(item, (list, tuple, np.ndarray)):
        hint = 'gather with a declared one: t = sg.index("t", "v", "T"), then E[t]'
        raise ArgumentError("a subscript holds a list or an array of numbers", hint=hint)
    return _lifted(item, used)


def _argument(value: object, used: list[Expression]) -> syntax.Expr:
    """Return an argument of a function, which may be a list or a tuple."""
    if isinstance(value, (list, tuple)):
        brackets: Literal["[]", "()"] = "[]" if isinstance(value, list) else "()"
        return syntax.Sequence(tuple(_argument(item, used) for item in value), brackets)
    return _lifted(value, used)


def _lifted(value: object, used: list[Expression]) -> syntax.Expr:
    """Return the node of an operand, and note it in `used` if it is an expression."""
    if isinstance(value, Expression):
        used.append(value)
        return value.node
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        return literal(value)
    message, hint = refusal(value)
    raise ArgumentError(message, hint=hint)


__all__ = (
    "Expression",
    "Function",
    "abstract",
    "const",
    "dim",
    "index",
    "input",
    "param",
    "word",
    "words",
)
