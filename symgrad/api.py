"""The public face: text to layer, layer to derivation, layer to compiled module.

str -> layer -> derive | compile | check
Every function takes a layer, its text, or the path of a `.sg` file.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Union

import numpy as np

from symgrad import build as building
from symgrad.builder import Expression
from symgrad.check import check as check_layer
from symgrad.compiled import Compiled
from symgrad.derive import derive as derive_program
from symgrad.dims import Dim
from symgrad.emit import Source, emit
from symgrad.errors import (
    ArgumentError,
    CodegenError,
    LayerSyntaxError,
    ShapeError,
    Span,
    ValidationError,
)
from symgrad.errors import Source as SourceText
from symgrad.explain import Explanation, explain
from symgrad.forms import Forms, forms
from symgrad.linearize import linearize
from symgrad.options import abstract_calls, bindings_of, sizes_of, stage_of, target_of, whole
from symgrad.parse import parse
from symgrad.plan import plan
from symgrad.program import Apply, Program, scalars_of, walk
from symgrad.proof.interpret import evaluate_jacobian, interpret
from symgrad.recompute import recomputed
from symgrad.select import Wrt, select
from symgrad.show import show, show_jacobian
from symgrad.show_plan import show_plan
from symgrad.syntax import Layer
from symgrad.trade import trade
from symgrad.validate import Report, validate

LayerLike = Union[Layer, str, os.PathLike[str], Expression, tuple[Expression, ...]]
Dims = Mapping[str, Union[int, str]]


def layer(
    text: LayerLike,
    *,
    inputs: Mapping[str, str] | None = None,
    params: Mapping[str, str] | None = None,
    consts: Mapping[str, str] | None = None,
    name: str | None = None,
) -> Layer:
    """Read a layer from its text, a one-liner, or a path that ends in `.sg`; or build it.

    Expressions made of `sg.input`, `sg.param`, operators and functions become a layer too, a
    tuple of them one with several outputs. `inputs`, `params` and `consts` declare arrays beside
    the text: `{"W": "m n", "c": ""}`.
    Raises LayerSyntaxError with line, column and caret.
    """
    beside: dict[str, Any] = {"inputs": inputs, "params": params, "consts": consts}
    if not isinstance(name, (str, type(None))):
        raise ArgumentError(f"name is {name!r}, expected a string", hint='as in name="dense"')
    if isinstance(text, (Expression, tuple)):
        return linearize(text, name)
    if isinstance(text, Layer):
        told = [role for role, table in beside.items() if table]
        if told:
            message = f"{told[0]}= stands beside a layer that is read already"
            raise ArgumentError(message, hint="give them where its text is read")
        return replace(text, name=name) if name else text
    if isinstance(text, os.PathLike) or is_path(text):
        return load(text, name=name, **beside)
    return parse(text, name=name, **beside)


def is_path(text: object) -> bool:
    """Whether a string is a path and no text: it ends in `.sg` and holds no newline.

    Raises ArgumentError for what is no string.
    """
    if not isinstance(text, str):
        kind = type(text).__name__
        hint = 'as in sg.layer("tanh(W @ x + b)"), or sg.load("dense.sg")'
        raise ArgumentError(f"a layer is a text or a path, not of type {kind}", hint=hint)
    return text.endswith(".sg") and "\n" not in text


def load(
    path: str | os.PathLike[str],
    *,
    inputs: Mapping[str, str] | None = None,
    params: Mapping[str, str] | None = None,
    consts: Mapping[str, str] | None = None,
    name: str | None = None,
) -> Layer:
    """Read a layer from a `.sg` file (UTF-8); its name is the file's unless given.

    Raises LayerSyntaxError if the file cannot be read or is no layer.
    """
    try:
        file = Path(path)
    except TypeError:
        kind = type(path).__name__
        message = f"a path is a string, not of type {kind}"
        raise ArgumentError(message, hint='sg.load("dense.sg")') from None
    try:
        data = file.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "a text that ends in .sg is taken for a path"
        raise LayerSyntaxError(f"cannot read {file}: {reason}", hint=hint) from None
    return parse(
        _decoded(data, str(file)),
        inputs=inputs,
        params=params,
        consts=consts,
        name=name or building.file_stem(file.stem),
        filename=str(file),
    )


def _decoded(data: bytes, filename: str) -> str:
    """Return a file's bytes as text; raise LayerSyntaxError at the first that is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8").removeprefix("\ufeff")
        source = SourceText(before + "\ufffd", filename)
        rows = source.lines
        span = Span(len(rows), len(rows[-1]), len(rows), len(rows[-1]) + 1)
        message = f"this is not UTF-8 text: byte 0x{data[error.start]:02x}"
        raise LayerSyntaxError(message, span, source, "save the file as UTF-8") from None


def derive(
    layer_: LayerLike,
    wrt: Wrt = "params",
    *,
    functions: Mapping[str, Any] | None = None,
    dims: Dims | None = None,
    **beside: Any,
) -> Explanation:
    """Derive the closed forms of all outputs with respect to `wrt`; nothing is compiled.

    `dims={"m": 1}` fixes sizes: axes of length 1 lose their index and their delta. `inputs`,
    `params`, `consts` and `name` may stand beside a text, as in `layer`.
    """
    program, _ = _program(layer(layer_, **beside), functions, dims)
    return explain(derive_program(program, select(program, wrt)))


def compile(
    layer_: LayerLike,
    wrt: Wrt = "params",
    *,
    functions: Mapping[str, Any] | None = None,
    dims: Dims | None = None,
    order: int = 1,
    path: str | Path | None = None,
    check: bool = True,
    check_domain: bool = False,
    recompute: str | Sequence[str] | None = None,
    seed: int = 0,
    **beside: Any,
) -> Compiled:
    """Compile a layer to a module of kernels for its value and its Jacobians with respect to `wrt`.

    The module is written to `path`, or kept in the cache; with `check` its derivatives are
    compared with finite differences first (once per text and version), and a module that fails is
    not handed out. `check_domain` makes every call test the layer's asserts. `recompute` names
    definitions (or globs) that `vjp`, `vjp_per_sample`, `gradient` and `pullback` compute again on
    the way back instead of storing them, see `symgrad.trade.trade`. `inputs`, `params`,
    `consts` and `name` may stand beside a text, as in `layer`.
    Raises any SymgradError.
    """
    read = layer(layer_, **beside)
    if order != 1:
        raise CodegenError(f"order={order} is not supported yet", hint="use order=1")
    target, seed = target_of(path), whole(seed, "seed", 0)
    program, options = _program(read, functions, dims)
    _require_bound(program, read)
    derivation = derive_program(program, select(program, wrt))
    made = forms(derivation, check_domain=check_domain)
    if recompute is not None:
        again = recomputed(derivation.program, recompute)
        made, options = trade(made, again), {**options, "recompute": again}
    source = _emit(made, options, None)
    report = None
    if check:
        report = _validated(made, source, seed)
        source = _emit(made, options, report)
    file = building.build(source.text, source.name)
    if target is not None:
        building.build(source.text, source.name, path=target)
        if target.is_file():
            file = target
        if report is not None and file == target:
            _write_report(file.with_suffix(".report.json"), report)
    module = building.load(file)
    names = made.derivation.selection.names
    return Compiled(read, made, module, file, source.text, source.captions, report, names)


def check(
    subject: LayerLike | Compiled,
    wrt: Wrt = "all",
    *,
    functions: Mapping[str, Any] | None = None,
    dims: Dims | None = None,
    batch: int = 3,
    seed: int = 0,
    **beside: Any,
) -> Report:
    """Compare every derivative with finite differences and with the closed form in many digits.

    `subject` is a layer, a compiled layer, or the path of a generated module (`.py`). The
    compiled kernels are what is judged. `dims` gives sizes to test at.
    """
    batch, seed = whole(batch, "batch", 0), whole(seed, "seed", 0)
    if isinstance(subject, Compiled):
        compiled = subject
    elif isinstance(subject, str) and subject.endswith(".py") and "\n" not in subject:
        compiled = _from_module(subject)
    else:
        read = layer(subject, **beside)
        fixed = _fixed(read, sizes_of(dims, read))
        compiled = compile(read, wrt, functions=functions, dims=fixed, check=False)
        dims = {name: size for name, size in (dims or {}).items() if name not in fixed}
    sizes = _test_sizes(compiled, sizes_of(dims, compiled.layer))
    return _compare(compiled.forms, compiled.module, seed, batch, sizes, exact=True)


def _fixed(read: Layer, sizes: Mapping[str, Dim]) -> dict[str, str]:
    """Return those of `dims=` that no array's shape gives, so that they must be compiled in."""
    shown = {name for made in read.declarations for axis in made.dims for name in axis.names}
    shown |= {n for made in read.declarations if made.vocabulary for n in made.vocabulary.names}
    return {n: str(d) for n, d in sizes.items() if n not in shown or d.constant is None}


def _test_sizes(compiled: Compiled, sizes: Mapping[str, Dim]) -> dict[str, int]:
    """Return sizes to test at; raise ShapeError for a dim that a compiled layer has not."""
    arrays = compiled.forms.program.arrays
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


def _from_module(path: str) -> Compiled:
    """Return the compiled layer that a generated file holds."""
    try:
        module = building.load(path)
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise ArgumentError(message, hint="name a module that symgrad compiled") from None
    read = parse(str(module.LAYER), name=Path(path).stem)
    program, options = _program(read, module.OPTIONS["functions"], module.OPTIONS["dims"])
    made = forms(derive_program(program, select(program, list(module.WRT))))
    again = module.OPTIONS.get("recompute")
    if again is not None:
        made, options = trade(made, again), {**options, "recompute": again}
    text = Path(path).read_text(encoding="utf-8")
    source = _emit(made, options, None)
    return Compiled(read, made, module, Path(path), text, source.captions, None, tuple(module.WRT))


def _program(
    read: Layer, functions: Mapping[str, Any] | None, dims: Dims | None
) -> tuple[Program, dict[str, Any]]:
    """Return the program of a layer, and the options as plain values that a module can hold."""
    sizes = sizes_of(dims, read)
    bindings = bindings_of(functions, read)
    program = check_layer(read, dims=sizes, functions=bindings)
    plain = {n: str(d) if d.constant is None else d.constant for n, d in sizes.items()}
    return program, {"functions": bindings, "dims": plain}


def _require_bound(program: Program, read: Layer) -> None:
    """Refuse abstract functions: code needs to know what they are."""
    from symgrad.functions import FUNCTIONS

    for definition in program.definitions:
        for scalar in scalars_of(definition.body):
            for node in walk(scalar):
                if isinstance(node, Apply) and node.function not in FUNCTIONS:
                    name = node.function
                    calls = [c.span for c in abstract_calls(read) if c.function == name]
                    raise CodegenError(
                        f"{name} is abstract: it has no values to compute",
                        calls[0] if calls else definition.span,
                        program.source,
                        hint=f'bind it: functions={{"{name}": "tanh"}}, or --set {name}=tanh, '
                        f"or define it: def {name}(z): return ...",
                    )


def _emit(made: Forms, options: Mapping[str, Any], report: Report | None) -> Source:
    validation: dict[str, Any] = {}
    if report is not None:
        validation = {
            "method": report.method,
            "seed": report.seed,
            "sizes": [dict(s) for s in report.sizes],
            "tolerance": report.tolerance,
        }
    return emit(made, docstring=_docstring(made), options=options, validation=validation)


def _docstring(made: Forms) -> str:
    """Return the module's docstring: title, and the derivation as text."""
    program = made.program
    title = program.title or f"{program.name}: value and derivatives."
    text = explain(made.derivation).text()
    head = "" if text.startswith(title) else f"{title}\n\n"
    clean = f"{head}{text}\n\nGenerated by symgrad; any change will be lost."
    return clean.replace("\\", "\\\\").replace('"""', "'''")


def _validated(made: Forms, source: Source, seed: int) -> Report:
    """Validate the plain-Python twin of a module, once per text and version; return the report.

    Raises ValidationError naming the parameter if a derivative disagrees.
    """
    file = building.build(source.text, source.name)
    stored = file.with_name(f"{file.stem}.seed{seed}.report.json")
    try:
        return Report.from_json(json.loads(stored.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        twin = building.load(file, plain=True)
    report = _compare(made, twin, seed, 3, {}, exact=False)
    report.raise_if_failed(made.program.name)
    _write_report(stored, report)
    return report


def _compare(
    made: Forms, module: Any, seed: int, batch: int, sizes: Mapping[str, int], exact: bool
) -> Report:
    derivation = made.derivation
    names = derivation.selection.names
    several = len(made.program.outputs) > 1

    def jacobian_of(arrays: dict[str, Any]) -> dict[tuple[str, str], Any]:
        positional = [arrays[a.name] for a in made.program.arrays if a.default is None]
        keywords = {
            a.name: arrays[a.name]
            for a in made.program.arrays
            if a.default is not None and a.name in arrays
        }
        with np.errstate(all="ignore"):
            value = module.forward(*positional, **keywords)
            found = module.jacobian(*positional, **keywords)
        _require_value(made.program, arrays, value if several else (value,))
        return found if several else {(made.program.outputs[0], k): v for k, v in found.items()}

    def exactly(arrays: dict[str, Any]) -> dict[tuple[str, str], Any]:
        return {
            (j.output, j.parameter): evaluate_jacobian(
                derivation, j.output, j.parameter, arrays, precision=50
            )
            for j in derivation.jacobians
        }

    return validate(
        made.program,
        jacobian_of,
        names,
        seed=seed,
        sizes=sizes,
        batch=batch,
        exactly=exactly if exact else None,
    )


def _require_value(program: Program, arrays: dict[str, Any], values: Sequence[Any]) -> None:
    """Refuse a module whose outputs are not what the definitions say.

    Raises ValidationError naming the output, its place and both numbers.
    """
    right = interpret(program, arrays)
    for output, value in zip(program.outputs, values, strict=True):
        expected = np.broadcast_to(right[output], np.shape(value))
        scale = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
        close = np.isclose(value, expected, rtol=1e-9, atol=1e-11 * scale + 1e-12, equal_nan=True)
        if not np.all(close):
            where = tuple(int(k) for k in np.argwhere(~close)[0])
            raise ValidationError(
                f"{program.name}: {output} at {list(where)} is {value[where]:.12g}, but its "
                f"definition gives {expected[where]:.12g}",
                hint="this is a fault of the generated code, not of your layer; please report it",
            )


def _write_report(file: Path, report: Report) -> None:
    """Put the measured errors beside a module."""
    building.write(file, json.dumps(report.to_json(), indent=1) + "\n")


def show_stage(
    layer_: LayerLike,
    stage: str,
    *,
    wrt: Wrt = "params",
    functions: Mapping[str, Any] | None = None,
    dims: Dims | None = None,
) -> str:
    """Return what a stage of the compiler makes of a layer, as text.

    Stages: parse, check, derive (the adjoint program), simplify (the closed forms), plan (the
    steps of the forward pass and of the factors of all Jacobians), source.
    """
    stage, read = stage_of(stage), layer(layer_)
    if stage == "parse":
        return str(read)
    program, options = _program(read, functions, dims)
    if stage == "check":
        return show(program)
    derivation = derive_program(program, select(program, wrt))
    if stage == "derive":
        definitions = (*derivation.program.definitions, *derivation.adjoints)
        jacobians = "\n".join(show_jacobian(j, derivation.program) for j in derivation.jacobians)
        return f"{show(replace(derivation.program, definitions=definitions))}\n{jacobians}"
    if stage == "simplify":
        return str(explain(derivation))
    made = forms(derivation)
    if stage == "plan":
        parts = (("the outputs", made.forward), ("the factors of all Jacobians", made.factors))
        return "\n\n".join(
            f"# {title}\n{show_plan(plan(form.definitions, program.batch), program)}"
            for title, form in parts
        )
    _require_bound(program, read)
    return _emit(made, options, None).text


__all__: Sequence[str] = ("check", "compile", "derive", "layer", "load", "show_stage")
