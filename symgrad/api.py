"""The public face: text to layer, layer to derivation, layer to compiled module.

str -> layer -> derive | compile | check
Every function takes a layer, its text, or the path of a `.sg` file.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Union

import numpy as np

from symgrad import build as building
from symgrad.check import check as check_layer
from symgrad.compiled import Compiled
from symgrad.derive import derive as derive_program
from symgrad.emit import Source, emit
from symgrad.errors import CodegenError, LayerSyntaxError, SymgradError
from symgrad.explain import Explanation, explain
from symgrad.forms import Forms, forms
from symgrad.interpret import evaluate_jacobian
from symgrad.parse import parse
from symgrad.program import Apply, Program, scalars_of, walk
from symgrad.select import Wrt, select
from symgrad.syntax import Layer
from symgrad.validate import Report, validate

LayerLike = Union[Layer, str]
Dims = Mapping[str, Union[int, str]]


def layer(
    text: LayerLike,
    *,
    inputs: Mapping[str, str] | None = None,
    params: Mapping[str, str] | None = None,
    consts: Mapping[str, str] | None = None,
    name: str | None = None,
) -> Layer:
    """Read a layer from its text, a one-liner, or a path that ends in `.sg`.

    `inputs`, `params` and `consts` declare arrays beside the text: `{"W": "m n", "c": ""}`.
    Raises LayerSyntaxError with line, column and caret.
    """
    if isinstance(text, Layer):
        return text
    if text.endswith(".sg") and "\n" not in text:
        return load(text, name=name)
    return parse(text, inputs=inputs, params=params, consts=consts, name=name)


def load(path: str | Path, *, name: str | None = None) -> Layer:
    """Read a layer from a `.sg` file (UTF-8); its name is the file's unless given.

    Raises LayerSyntaxError if the file cannot be read or is no layer.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise LayerSyntaxError(f"{file} is not UTF-8 text: byte {error.start}") from error
    except OSError as error:
        raise LayerSyntaxError(f"cannot read {file}: {error.strerror}") from error
    return parse(text, name=name or building.file_stem(file.stem), filename=str(path))


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
    program = _program(layer(layer_, **beside), functions, dims)
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
    seed: int = 0,
    **beside: Any,
) -> Compiled:
    """Compile a layer to a module of kernels for its value and its Jacobians with respect to `wrt`.

    The module is written to `path`, or kept in the cache; with `check` its derivatives are
    compared with finite differences first (once per text and version), and a module that fails is
    not handed out. `check_domain` makes every call test the layer's asserts. `inputs`, `params`, `consts` and `name` may stand beside a text, as in `layer`.
    Raises any SymgradError.
    """
    read = layer(layer_, **beside)
    if order != 1:
        raise CodegenError(f"order={order} is not supported yet", hint="use order=1")
    program = _program(read, functions, dims)
    _require_bound(program)
    derivation = derive_program(program, select(program, wrt))
    made = forms(derivation, check_domain=check_domain)
    options = {"functions": dict(functions or {}), "dims": dict(dims or {})}
    source = _emit(made, options, None)
    report = None
    if check:
        report = _validated(made, source, seed)
        source = _emit(made, options, report)
    file = building.build(source.text, source.name)
    if path is not None:
        building.build(source.text, source.name, path=path)
        if Path(path).is_file():
            file = Path(path)
        if report is not None and file == Path(path):
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
    if isinstance(subject, Compiled):
        compiled = subject
    elif isinstance(subject, str) and subject.endswith(".py") and "\n" not in subject:
        compiled = _from_module(subject)
    else:
        read = layer(subject, **beside)
        known = _determined(read)
        fixed = {k: v for k, v in (dims or {}).items() if k not in known}
        compiled = compile(read, wrt, functions=functions, dims=fixed, check=False)
    known = {n for a in compiled.forms.program.arrays for d in a.axes for n in d.names}
    sizes = {k: v for k, v in (dims or {}).items() if k in known and isinstance(v, int)}
    return _compare(compiled.forms, compiled.module, seed, batch, sizes, exact=True)


def _determined(read: Layer) -> set[str]:
    """Return the dims that declared shapes name."""
    return {n for d in read.declarations for axis in d.dims for n in axis.names}


def _from_module(path: str) -> Compiled:
    """Return the compiled layer that a generated file holds."""
    module = building.load(path)
    read = parse(str(module.LAYER), name=Path(path).stem)
    options = module.OPTIONS
    program = _program(read, options["functions"], options["dims"])
    made = forms(derive_program(program, select(program, list(module.WRT))))
    text = Path(path).read_text(encoding="utf-8")
    source = _emit(made, options, None)
    return Compiled(read, made, module, Path(path), text, source.captions, None, tuple(module.WRT))


def _program(layer_: LayerLike, functions: Mapping[str, Any] | None, dims: Dims | None) -> Program:
    read = layer(layer_)
    try:
        return check_layer(read, dims=dims, functions=functions)
    except SymgradError as error:
        raise error.located(read.source) from None


def _require_bound(program: Program) -> None:
    """Refuse abstract functions: code needs to know what they are."""
    from symgrad.functions import FUNCTIONS

    for definition in program.definitions:
        for scalar in scalars_of(definition.body):
            for node in walk(scalar):
                if isinstance(node, Apply) and node.function not in FUNCTIONS:
                    raise CodegenError(
                        f"{node.function} is abstract: it has no values to compute",
                        definition.span,
                        program.source,
                        hint=f'bind it: functions={{"{node.function}": "tanh"}}, or --set '
                        f"{node.function}=tanh",
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
    clean = f"{title}\n\n{text}\n\nGenerated by symgrad; any change will be lost."
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
            found = module.jacobian(*positional, **keywords)
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


def _write_report(file: Path, report: Report) -> None:
    """Put the measured errors beside a module."""
    building.write(file, json.dumps(report.to_json(), indent=1) + "\n")


def show_stage(
    layer_: LayerLike, stage: str, *, wrt: Wrt = "params", functions: Any = None, dims: Any = None
) -> str:
    """Return what a stage of the compiler makes of a layer, as text.

    Stages: parse, check, derive, simplify, plan, source.
    """
    from symgrad.show import show

    read = layer(layer_)
    if stage == "parse":
        return str(read)
    program = _program(read, functions, dims)
    if stage == "check":
        return show(program)
    derivation = derive_program(program, select(program, wrt))
    if stage == "derive":
        from dataclasses import replace

        return show(replace(program, definitions=(*derivation.program.definitions, *derivation.adjoints)))
    if stage == "simplify":
        return str(explain(derivation))
    _require_bound(program)
    made = forms(derivation)
    source = _emit(made, {"functions": dict(functions or {}), "dims": dict(dims or {})}, None)
    if stage == "plan":
        from symgrad.plan import plan

        return "\n".join(str(s) for s in plan(made.factors.definitions, program.batch).steps)
    return source.text


__all__: Sequence[str] = ("check", "compile", "derive", "layer", "load", "show_stage")
