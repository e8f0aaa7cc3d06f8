"""Formulas for abstract functions: `sg.function(value=..., slope=...)`.

texts of the layer language -> Declared
A slope that is stated is taken on trust; one that is left out is derived from the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Union

from symgrad.check import check
from symgrad.errors import ArgumentError, LayerSyntaxError, Source
from symgrad.functions import FUNCTIONS
from symgrad.language.characters import fold, scan
from symgrad.parse import parse
from symgrad.program import Access, Apply, Declared, Program, Scalar, rebuild, walk
from symgrad.syntax import Assign, Expr, Layer, Macro

CONSTANTS = ("pi", "π")


@dataclass(frozen=True, slots=True)
class FunctionFormula:
    """What `sg.function` returns: formulas of one letter in the layer language."""

    value: str
    slope: str | None = None

    def plain(self) -> dict[str, str]:
        """Return it as a module keeps it."""
        slope = {} if self.slope is None else {"slope": self.slope}
        return {"value": self.value, **slope}


Binding = Union[str, FunctionFormula]


def function(value: str, slope: str | None = None) -> FunctionFormula:
    """Return formulas to bind an abstract function to: `functions={"σ": sg.function(...)}`.

    Both are texts of the layer language in one letter, made of element-wise functions:
    `sg.function(value="z/(1 + exp(-z))")` is differentiated like any other formula;
    `sg.function(value="sign(z)", slope="where(abs(z) < 1, 1, 0)")` has the slope that is stated,
    which is recorded as declared, not derived. Raises ArgumentError for what is no text:
    a generated module stands alone and cannot call a Python function.
    """
    given: tuple[tuple[str, object], ...] = (("value", value), ("slope", slope))
    for word, text in given:
        if callable(text):
            message = f"{word} is a Python function, which a module of its own cannot call"
            hint = f'write it in the layer language: {word}="z/(1 + exp(-z))"'
            raise ArgumentError(message, hint=hint)
        if not isinstance(text, str) and not (word == "slope" and text is None):
            kind = type(text).__name__
            hint = f'as in {word}="z/(1 + exp(-z))"'
            raise ArgumentError(f"{word} is of type {kind}, expected a text", hint=hint)
    return FunctionFormula(value, slope)


def with_slopes(program: Program, bindings: Mapping[str, Binding]) -> Program:
    """Return the program with the functions whose slopes are stated.

    The letter of their argument is one that nothing else is called. Raises any error of their
    texts.
    """
    taken = {a.name for a in program.arrays} | {d.name for d in program.definitions}
    taken |= {n for a in program.arrays for axis in a.axes for n in axis.names}
    found = []
    for name, formula in bindings.items():
        if isinstance(formula, FunctionFormula) and formula.slope is not None:
            first, value = _scalar(formula.value, f"{name}: value")
            second, slope = _scalar(formula.slope, f"{name}: slope")
            letters = (first.array, *"zsvrq", *(f"z{n}" for n in range(1, len(taken) + 2)))
            argument = Access(next(one for one in letters if one not in taken), ())
            value, slope = _renamed(value, first, argument), _renamed(slope, second, argument)
            found.append(Declared(name, argument, value, slope))
    return replace(program, declared=tuple(found))


def with_formulas(layer: Layer, bindings: Mapping[str, Binding]) -> Layer:
    """Return a layer in which functions with a value alone are macros, as if a `def` stood there.

    Raises any error of their texts.
    """
    macros = []
    for name, formula in bindings.items():
        if isinstance(formula, FunctionFormula) and formula.slope is None:
            where = f"{name}: value"
            argument, _ = _scalar(formula.value, where)
            macros.append(Macro(name, (argument.array,), (), _expression(formula.value, where)))
    return replace(layer, macros=(*layer.macros, *macros)) if macros else layer


def _read(text: str, where: str) -> tuple[str, Layer]:
    """Return the letter of a formula, and the formula as a layer of that one input."""
    source = Source(text, where)
    tokens = scan(source)
    if not text.strip():
        hint = "write a formula of one letter: z/(1 + exp(-z))"
        raise LayerSyntaxError("there is no formula here", None, source, hint)
    after = [*(t.text for t in tokens), ""][1:]
    plain = [t for t, then in zip(tokens, after, strict=True) if t.kind == "name" and then != "("]
    letters = [n for n in dict.fromkeys(fold(t.text) for t in plain) if n not in CONSTANTS]
    if len(letters) > 1:
        message = f"a function has one argument, but this is a formula of {', '.join(letters)}"
        raise LayerSyntaxError(message, None, source, "write it in one letter: z/(1 + exp(-z))")
    letter = letters[0] if letters else "z"
    return letter, parse(text, inputs={letter: ""}, filename=where)


def _expression(text: str, where: str) -> Expr:
    (line,) = (s for s in _read(text, where)[1].statements if isinstance(s, Assign))
    return line.value


def _scalar(text: str, where: str) -> tuple[Access, Scalar]:
    """Return a formula as a scalar, and the access in it that stands for the argument."""
    letter, layer = _read(text, where)
    program = check(layer)
    made, body = program.definitions[-1], program.definitions[-1].body
    simple = len(program.definitions) == 1 and not made.frozen and isinstance(body, tuple)
    if not isinstance(body, tuple) or not simple or any(term.bound for term in body):
        hint = "use element-wise functions only"
        message = "this is no formula of a single number"
        raise LayerSyntaxError(message, None, program.source, hint)
    argument = Access(letter, ())
    terms = [reduce(_product, (_unbatched(f, argument) for f in term.factors)) for term in body]
    scalar = reduce(lambda a, b: Apply("add", (a, b)), terms)
    for node in walk(scalar):
        if isinstance(node, Apply) and node.function not in FUNCTIONS:
            message = f"{node.function} is abstract itself"
            hint = "write it out in functions of the language"
            raise LayerSyntaxError(message, None, program.source, hint)
    return argument, scalar


def _product(left: Scalar, right: Scalar) -> Scalar:
    return Apply("mul", (left, right))


def _unbatched(scalar: Scalar, argument: Access) -> Scalar:
    return rebuild(scalar, lambda node: argument if isinstance(node, Access) else node)


def _renamed(scalar: Scalar, old: Access, new: Access) -> Scalar:
    return rebuild(scalar, lambda node: new if node == old else node)
