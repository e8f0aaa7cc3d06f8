"""What a caller may say beside a layer, checked before anything is computed.

dims=, functions=, batch=, seed=, path=, as given -> as the stages take them
A wrong kind of value is an ArgumentError; a right kind with a wrong value says which value.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from operator import index
from pathlib import Path
from typing import Any, SupportsIndex

from symgrad.build import is_replaceable
from symgrad.declare import Binding, FunctionFormula
from symgrad.dims import Dim
from symgrad.errors import ArgumentError, CodegenError, LayerSyntaxError, ShapeError, similar
from symgrad.functions import FUNCTIONS
from symgrad.language.characters import fold
from symgrad.language.declarations import size
from symgrad.language.names import parts
from symgrad.language.vocabulary import FUNCTION_NAMES, RESERVED
from symgrad.program import Apply, Program, scalars_of, walk
from symgrad.syntax import Assign, Call, Domain, Item, Layer

BESIDE = ("inputs", "params", "consts", "domain", "name")
"""What may stand beside a text wherever a layer is taken."""

STAGES = ("parse", "check", "derive", "simplify", "plan", "source")


def beside_of(function: Callable[..., Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the keywords of a call that go to `layer`; raise ArgumentError for one nobody knows.

    `function` is the one that was called: a similar argument of it is offered.
    """
    own = [name.rstrip("_") for name in signature(function).parameters if name != "beside"]
    for name in given:
        if name not in BESIDE:
            near = similar(name, (*own, *BESIDE))
            hint = f"did you mean {near}=?" if near else f"it takes {', '.join((*own, *BESIDE))}"
            raise ArgumentError(f"{function.__name__}() has no argument {name}", hint=hint)
    return given


def sizes_of(dims: object, layer: Layer) -> dict[str, Dim]:
    """Return `dims=` as dims by name: whole numbers, or sizes like "2*m".

    Raises ArgumentError for another type, ShapeError for a negative size, LayerSyntaxError for a
    new dim that is called like something else.
    """
    arrays = {d.name for d in layer.declarations}
    arrays |= {s.name for s in layer.statements if isinstance(s, Assign)}
    found: dict[str, Dim] = {}
    for name, value in _entries(dims, "dims", '{"n": 6}'):
        if isinstance(value, str):
            found[name] = size(value, f'dims["{name}"]')
        else:
            found[name] = Dim.of(whole(value, f'dims["{name}"]'))
        number = found[name].constant
        if number is not None and number < 0:
            raise ShapeError(
                f'dims["{name}"] is {number}, but a size cannot be negative',
                hint="give a whole number, 0 or more",
            )
        for other in found[name].names:
            if other in arrays or other in RESERVED:
                message = f'dims["{name}"]: {other} is no dim but {_kind(other, arrays)}'
                raise LayerSyntaxError(message, hint="sizes have names of their own")
    return found


def open_sizes(sizes: Mapping[str, Dim], program: Program) -> dict[str, int]:
    """Return sizes as numbers; raise ShapeError for a dim that a compiled layer has not."""
    arrays = program.arrays
    open_ = {name for array in arrays for axis in array.axes for name in axis.names}
    open_ |= {name for array in arrays if array.vocabulary for name in array.vocabulary.names}
    found: dict[str, int] = {}
    for name, dim in sizes.items():
        if name not in open_ or dim.constant is None:
            known = f"its dims are {', '.join(sorted(open_))}" if open_ else "it has none"
            message = f"dims= names {name}, which is no open dim of this compiled layer"
            raise ShapeError(message, hint=known)
        found[name] = dim.constant
    return found


def _kind(name: str, arrays: set[str]) -> str:
    return "an array" if name in arrays else "a word of the language"


def bindings_of(functions: object, layer: Layer) -> dict[str, Binding]:
    """Return `functions=` as names or formulas by abstract function, each one the layer calls.

    Raises ArgumentError for another type, LayerSyntaxError for a name that is not to be bound.
    """
    found: dict[str, Binding] = {}
    free = tuple(dict.fromkeys(call.function for call in abstract_calls(layer)))
    for name, value in _entries(functions, "functions", '{"σ": "tanh"}'):
        if name in FUNCTION_NAMES:
            raise LayerSyntaxError(
                f"functions= names {name}, which is a function of the language already",
                hint="only abstract functions, single letters, are bound",
            )
        if name not in free:
            near = similar(name, free)
            known = f"it calls {', '.join(free)}" if free else "it calls none"
            hint = f"did you mean {near}?" if near else known
            message = f"functions= names {name}, which is no abstract function of this layer"
            raise LayerSyntaxError(message, hint=hint)
        if isinstance(value, Mapping) and "value" in value:
            value = FunctionFormula(value["value"], value.get("slope"))
        if not isinstance(value, (str, FunctionFormula)):
            raise ArgumentError(
                f'functions["{name}"] is {_described(value)}, expected the name of a function',
                hint=f'as in functions={{"{name}": "tanh"}}, or sg.function(value="z**2")',
            )
        found[name] = value
    return found


def abstract_calls(layer: Layer) -> tuple[Call, ...]:
    """Return the calls of functions that nobody defines, in reading order."""
    known = {*FUNCTION_NAMES, *(macro.name for macro in layer.macros)}
    found: list[Call] = []
    waiting: list[Item] = []
    for statement in layer.statements:
        waiting.append(statement.condition if isinstance(statement, Domain) else statement.value)
    for macro in layer.macros:
        waiting += [*(line.value for line in macro.body), macro.result]
    waiting.reverse()
    while waiting:
        expr = waiting.pop()
        if isinstance(expr, Call) and expr.function not in known:
            found.append(expr)
        waiting.extend(reversed(parts(expr)))
    return tuple(found)


def require_bound(program: Program, read: Layer) -> None:
    """Refuse abstract functions: code needs to know what they are."""
    known = {*FUNCTIONS, *(one.name for one in program.declared)}
    for definition in program.definitions:
        for scalar in scalars_of(definition.body):
            for node in walk(scalar):
                if isinstance(node, Apply) and node.function not in known:
                    name = node.function
                    calls = [c.span for c in abstract_calls(read) if c.function == name]
                    raise CodegenError(
                        f"{name} is abstract: it has no values to compute",
                        calls[0] if calls else definition.span,
                        program.source,
                        hint=f'bind it: functions={{"{name}": "tanh"}}, or --set {name}=tanh, '
                        f"or define it: def {name}(z): return ...",
                    )


def whole(value: object, what: str, least: int | None = None) -> int:
    """Return a whole number, numpy's too; raise ArgumentError for anything else."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        message = f"{what} is {_described(value)}, expected a whole number"
        raise ArgumentError(message, hint="give an int")
    number = index(value)
    if least is not None and number < least:
        hint = f"give a whole number, {least} or more"
        raise ArgumentError(f"{what} is {number}, but cannot be less than {least}", hint=hint)
    return number


def order_of(value: object) -> int:
    """Return up to which order derivatives are wanted. Raises ArgumentError."""
    order = whole(value, "order", 1)
    if order > 2:
        hint = "order=2 gives Jacobians and Hessians"
        raise ArgumentError(f"order={order} is not supported", hint=hint)
    return order


def target_of(path: object, kind: str = "module", *, force: bool = False) -> Path | None:
    """Return where something is to be written; raise ArgumentError if it cannot or must not be.

    A file that symgrad did not write is kept unless `force` is given; a layer is always kept.
    """
    if path is None:
        return None
    if not isinstance(path, (str, os.PathLike)):
        message = f"path is {_described(path)}, expected the name of a file"
        raise ArgumentError(message, hint='as in path="dense_jac.py"')
    target = Path(path)
    if target.suffix == ".sg":
        message = f"{target} is the name of a layer, not of a {kind}"
        raise ArgumentError(message, hint=f"give the {kind} a name with another ending")
    if target.is_dir():
        raise ArgumentError(f"cannot write {target}: it is a folder", hint="name a file in it")
    if not target.parent.is_dir():
        message = f"cannot write {target}: there is no folder {target.parent}"
        raise ArgumentError(message, hint="make the folder first")
    if not force:
        require_replaceable(target)
    return target


def require_replaceable(target: Path) -> None:
    """Raise ArgumentError for a file with anything in it that symgrad did not write."""
    if not is_replaceable(target):
        message = f"{target} exists and was not written by symgrad: it is left as it is"
        hint = "choose another name, or overwrite it with --force (in Python force=True)"
        raise ArgumentError(message, hint=hint)


def stage_of(stage: object) -> str:
    """Return a stage of the pipeline by name."""
    if isinstance(stage, str) and stage in STAGES:
        return stage
    raise ArgumentError(f"there is no stage {stage!r}", hint=f"stages are {', '.join(STAGES)}")


def _entries(given: object, what: str, example: str) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a mapping of names, the names folded as Python folds them."""
    if given is None:
        return
    if not isinstance(given, Mapping):
        message = f"{what} is {_described(given)}, expected a mapping of names"
        raise ArgumentError(message, hint=f"as in {what}={example}")
    for name, value in given.items():
        if not isinstance(name, str):
            message = f"{what} has the key {name!r}, expected names"
            raise ArgumentError(message, hint=f"as in {what}={example}")
        yield fold(name), value


def _described(value: object) -> str:
    """Return a value of the wrong kind in a few words."""
    shown = repr(value)
    kind = type(value).__name__
    return f"{shown} ({kind})" if len(shown) <= 40 and "\n" not in shown else f"of type {kind}"
