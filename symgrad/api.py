"""The public face: text to layer, layer to derivation, layer to compiled module.

str -> layer -> derive | compile | check
Every function takes a layer, its text, or the path of a `.sg` file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Union, overload

from symgrad import build as building
from symgrad.assemble import assemble, derived
from symgrad.builder import Expression
from symgrad.compiled import Compiled
from symgrad.compose import program_of, source_of
from symgrad.costs.plan import Plan, planned
from symgrad.dims import Dim
from symgrad.emit import Source
from symgrad.errors import ArgumentError, ShapeError, SymgradError
from symgrad.explain import Explanation, explain
from symgrad.form import Forms
from symgrad.generation.publics_twice import offered
from symgrad.groups import Grouped, grouped
from symgrad.judge import compare, report_beside, validated, write_report
from symgrad.linearize import linearize
from symgrad.load import is_path, load
from symgrad.options import (
    beside_of,
    open_sizes,
    order_of,
    require_bound,
    require_replaceable,
    sizes_of,
    stage_of,
    target_of,
    whole,
)
from symgrad.parse import parse
from symgrad.plan import plan as plan_steps
from symgrad.recompute import recomputed
from symgrad.select import Wrt, select
from symgrad.show import show, show_jacobian
from symgrad.show_plan import show_plan
from symgrad.syntax import Layer
from symgrad.threads import threads_of, with_threads
from symgrad.trade import trade
from symgrad.trial import Trial
from symgrad.turn import require_axis
from symgrad.validate import Report
from symgrad.warm import compile_ahead, dtypes_of

LayerLike = Union[Layer, str, os.PathLike[str], Expression, tuple[Expression, ...]]
Dims = Mapping[str, Union[int, str]]


def layer(
    text: LayerLike,
    *,
    inputs: Mapping[str, str] | None = None,
    params: Mapping[str, str] | None = None,
    consts: Mapping[str, str] | None = None,
    domain: Expression | Sequence[Expression] = (),
    name: str | None = None,
) -> Layer:
    """Read a layer from its text, a one-liner, or a path that ends in `.sg`; or build it.

    Expressions made of `sg.input`, `sg.param`, operators and functions become a layer too, a
    tuple of them one with several outputs, and `domain=[a > 0]` states what a text would `assert`.
    `inputs`, `params` and `consts` declare arrays beside
    the text: `{"W": "m n", "c": ""}`; indices stand among the inputs: `{"t": "index(v)"}`.
    Raises LayerSyntaxError with line, column and caret.
    """
    beside: dict[str, Any] = {"inputs": inputs, "params": params, "consts": consts}
    if not isinstance(name, (str, type(None))):
        raise ArgumentError(f"name is {name!r}, expected a string", hint='as in name="dense"')
    if isinstance(text, (Expression, tuple)):
        return linearize(text, name, domain)
    if isinstance(domain, Expression) or domain:
        hint = "in a text write assert a > 0"
        raise ArgumentError("domain= stands beside expressions only", hint=hint)
    if isinstance(text, Layer):
        told = [role for role, table in beside.items() if table]
        if told:
            message = f"{told[0]}= stands beside a layer that is read already"
            raise ArgumentError(message, hint="give them where its text is read")
        return replace(text, name=name) if name else text
    if isinstance(text, os.PathLike) or is_path(text):
        return load(text, name=name, **beside)
    return parse(text, name=name, **beside)


def derive(
    layer_: LayerLike,
    wrt: Wrt = "params",
    *,
    functions: Mapping[str, Any] | None = None,
    dims: Dims | None = None,
    order: int = 1,
    **beside: Any,
) -> Explanation:
    """Derive the closed forms of all outputs with respect to `wrt`; nothing is compiled.

    `dims={"m": 1}` fixes sizes: axes of length 1 lose their index and their delta. With `order=2`
    second derivatives are among the results, `d["W", "b"]`. `inputs`, `params`, `consts` and
    `name` may stand beside a text, as in `layer`.
    """
    read = layer(layer_, **beside_of(derive, beside))
    order = order_of(order)
    program, _ = program_of(read, functions, dims)
    return explain(derived(program, select(program, wrt, read.aliases), order))


@overload
def compile(
    layer_: LayerLike, wrt: Wrt = ..., *, groups: None = None, **options: Any
) -> Compiled: ...


@overload
def compile(
    layer_: LayerLike, wrt: Wrt = ..., *, groups: Mapping[str, Wrt], **options: Any
) -> Grouped: ...


def compile(
    layer_: LayerLike,
    wrt: Wrt = "params",
    *,
    groups: Mapping[str, Wrt] | None = None,
    functions: Mapping[str, Any] | None = None,
    dims: Dims | None = None,
    order: int = 1,
    path: str | Path | None = None,
    check: bool = True,
    check_domain: bool = False,
    recompute: str | Sequence[str] | None = None,
    unselected: str = "drop",
    seed: int = 0,
    force: bool = False,
    batch_axis: int = 0,
    num_threads: int | None = None,
    warm: bool | str | Sequence[str] = False,
    **beside: Any,
) -> Compiled | Grouped:
    """Compile a layer to a module of kernels for its value and its Jacobians with respect to `wrt`.

    The module is written to `path`, or kept in the cache; with `check` its derivatives are
    compared with finite differences first (once per text and version), and a module that fails is
    not handed out; the measured errors stand beside it in `<path>.report.json`. A file that symgrad
    did not write is overwritten with `force` only. `check_domain` makes every call test the
    layer's asserts. `recompute` names definitions (or globs) that `vjp`, `vjp_per_sample`,
    `gradient` and `pullback` compute again on the way back instead of storing them, see
    `symgrad.trade.trade`. `wrt` may select parts of arrays, see `symgrad.select.select`; with
    `unselected="zeros"` results have the shapes of whole arrays, with zeros for what is not
    selected, and tangents have those shapes too. `groups`, {name: what `wrt` may be} in place of
    `wrt`, gives a layer whose results are mappings of groups, see `symgrad.groups`.
    `batch_axis=-1` is for samples in columns: inputs, outputs, `u` and all results with a row for
    each sample then have the batch axis last, `[n, B]` and `[*out, *p, B]`; other integers count
    among the axes of one sample. The module itself, `jac.source`, keeps it first. `num_threads` is
    how many threads a call uses at most, see `Compiled.num_threads`. `warm` compiles all kernels
    now, for float64 or the dtypes it names, and keeps them beside the module. `inputs`, `params`,
    `consts` and `name` may stand beside a text, as in `layer`.
    Raises any SymgradError.
    """
    read = layer(layer_, **beside_of(compile, beside))
    order = order_of(order)
    target, seed = target_of(path, force=force), whole(seed, "seed", 0)
    num_threads, dtypes = threads_of(num_threads), dtypes_of(warm)
    if target is not None and not force:
        require_replaceable(report_beside(target))
    program, options = program_of(read, functions, dims)
    require_bound(program, read)
    batch_axis = whole(batch_axis, "batch_axis")
    require_axis(program, batch_axis)
    names, wrt = grouped(program, read.aliases, wrt, groups, unselected)
    selection = select(program, wrt, read.aliases, unselected)
    made = assemble(program, selection, order, check_domain=check_domain)
    made, options = _with_options(made, options, order, recompute)
    source, report = source_of(made, options, None), None
    if check:
        report = validated(made, source, seed)
        source = source_of(made, options, report)
    file = _written(source, target, report)
    module, every = building.load(file), made.derivation.selection.names
    nouns = (source.text, source.captions, report, every, batch_axis)
    done = Compiled(read, made, with_threads(module, num_threads), file, *nouns)
    compile_ahead(done, dtypes)
    return done if groups is None else Grouped(done, names)


def _with_options(
    made: Forms, options: dict[str, Any], order: int, recompute: str | Sequence[str] | None
) -> tuple[Forms, dict[str, Any]]:
    """Return the forms that compute definitions again, and all options as a module holds them."""
    if order == 2:
        options = {**options, "order": 2}
    if recompute is None:
        return made, options
    again = recomputed(made.derivation.program, recompute)
    return trade(made, again), {**options, "recompute": again}


def _written(source: Source, target: Path | None, report: Report | None) -> Path:
    """Write a module into the cache, and to `target` with its report; return the file to load."""
    file = building.build(source.text, source.name)
    if target is None:
        return file
    building.build(source.text, source.name, path=target)
    if not target.is_file():  # a pipe
        return file
    _report_beside(target, report)
    return target


def _report_beside(target: Path, report: Report | None) -> None:
    """Put the measured errors beside a module; those of an older module must not stand there."""
    if report is not None:
        write_report(report_beside(target), report)
    elif building.is_replaceable(report_beside(target)):
        report_beside(target).unlink(missing_ok=True)


def check(
    subject: LayerLike | Compiled | Grouped,
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
    compiled kernels are what is judged. `dims` gives sizes to test at. Raises ShapeError for sizes
    at which there is nothing to compare, ArgumentError for `functions` of what is compiled already.
    """
    batch, seed = whole(batch, "batch", 1), whole(seed, "seed", 0)
    compiled = _made(subject)
    if compiled is not None:
        told = "functions" if functions else next(iter(beside), None)
        if told is not None:
            message = f"{told}= stands beside a layer that is compiled already"
            raise ArgumentError(message, hint="give it where the layer is compiled")
        compiled = compiled.select(wrt)
    else:
        assert not isinstance(subject, (Compiled, Grouped))
        read = layer(subject, **beside_of(check, beside))
        fixed = fixed_sizes(read, sizes_of(dims, read))
        compiled = compile(read, wrt, functions=functions, dims=fixed, check=False)
        dims = {name: size for name, size in (dims or {}).items() if name not in fixed}
    sizes = open_sizes(sizes_of(dims, compiled.layer), compiled.forms.program)
    made, module = compiled.forms, compiled.module
    names = [n for n in compiled.wrt if n in made.derivation.selection.active]
    report = compare(made, module, Trial(names, seed, batch, sizes, exact=True))
    if not any(a.entries or a.kinks for a in report.agreements):
        shown = ", ".join(f"{name}={size}" for name, size in report.sizes[0])
        message = f"{compiled.name}: at {shown} every derivative is empty: nothing was checked"
        raise ShapeError(message, hint="give sizes of 1 or more")
    return report


def plan(
    subject: LayerLike | Compiled | Grouped,
    wrt: Wrt = "params",
    *,
    batch: int | None = None,
    dims: Dims | None = None,
    dtype: Any = "float64",
    functions: Mapping[str, Any] | None = None,
    order: int = 1,
    **beside: Any,
) -> Plan:
    """Return operations and bytes of every form of a layer, {form: Cost}; nothing is compiled.

    In symbols, and as numbers where `batch` and `dims` give sizes: see `Compiled.plan`. With
    `order=2` forms of second derivatives are among them.
    """
    if isinstance(subject, Grouped):
        subject = subject.compiled
    if isinstance(subject, Compiled):
        return subject.select(wrt).plan(batch, dims, dtype)
    read = layer(subject, **beside_of(plan, beside))
    fixed = fixed_sizes(read, sizes_of(dims, read))
    program, _ = program_of(read, functions, fixed)
    require_bound(program, read)
    made = assemble(program, select(program, wrt, read.aliases), order_of(order))
    names = made.derivation.selection.names
    sizes = {name: size for name, size in (dims or {}).items() if name not in fixed}
    return planned(made, read, names, batch, sizes, dtype)


def fixed_sizes(read: Layer, sizes: Mapping[str, Dim]) -> dict[str, str]:
    """Return those of `dims=` that no array's shape gives, so that they must be compiled in."""
    shown = {name for made in read.declarations for axis in made.dims for name in axis.names}
    shown |= {n for made in read.declarations if made.vocabulary for n in made.vocabulary.names}
    return {n: str(d) for n, d in sizes.items() if n not in shown or d.constant is None}


def _made(subject: object) -> Compiled | None:
    """Return what is compiled already: a compiled layer, or what a generated file holds."""
    if isinstance(subject, (Compiled, Grouped)):
        return subject if isinstance(subject, Compiled) else subject.compiled
    if isinstance(subject, os.PathLike):
        subject = os.fspath(subject)
    if not (isinstance(subject, str) and subject.endswith(".py") and "\n" not in subject):
        return None
    return _from_module(subject)


def _from_module(path: str) -> Compiled:
    """Return the compiled layer that a generated file holds."""
    try:
        module = building.load(path)
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise ArgumentError(message, hint="name a module that symgrad compiled") from None
    except SymgradError:
        raise
    except Exception as error:  # noqa: BLE001 (whatever a damaged file raises)
        raise _damaged(path, error) from None
    missing = [n for n in ("LAYER", "OPTIONS", "WRT") if not hasattr(module, n)]
    if missing:
        raise _damaged(path, f"it has no {missing[0]}")
    read = parse(str(module.LAYER), name=Path(path).stem)
    program, options = program_of(read, module.OPTIONS["functions"], module.OPTIONS["dims"])
    stated = module.OPTIONS
    parts, names = stated.get("parts", {}), stated.get("selected", module.WRT)
    wrt = {name: parts.get(name, True) for name in names}
    selection = select(program, wrt, unselected=stated.get("unselected", "drop"))
    order = stated.get("order", 1)
    made = assemble(program, selection, order)
    made, options = _with_options(made, options, order, stated.get("recompute"))
    missing = [n for n in offered(made) if not hasattr(module, n)]
    if missing:
        raise _damaged(path, f"it has no {missing[0]}")
    text = Path(path).read_text(encoding="utf-8")
    source = source_of(made, options, None)
    return Compiled(read, made, module, Path(path), text, source.captions, None, tuple(module.WRT))


def _damaged(path: str, why: object) -> ArgumentError:
    kind = f"{type(why).__name__}: " if isinstance(why, Exception) else ""
    message = f"{path} is not as symgrad wrote it: {kind}{why}"
    return ArgumentError(message, hint="compile the layer again: symgrad compile LAYER -o FILE.py")


def show_stage(
    layer_: LayerLike,
    stage: str,
    *,
    wrt: Wrt = "params",
    functions: Mapping[str, Any] | None = None,
    dims: Dims | None = None,
    order: int = 1,
) -> str:
    """Return what a stage of the compiler makes of a layer, as text.

    Stages: parse, check, derive (the adjoint program), simplify (the closed forms), plan (the
    steps of the forward pass and of the factors of all Jacobians), source.
    """
    stage, read = stage_of(stage), layer(layer_)
    if stage == "parse":
        return str(read)
    program, options = program_of(read, functions, dims)
    if stage == "check":
        return show(program)
    selection, order = select(program, wrt, read.aliases), order_of(order)
    derivation = derived(program, selection, order)
    if stage == "derive":
        definitions = (*derivation.program.definitions, *derivation.adjoints)
        jacobians = "\n".join(show_jacobian(j, derivation.program) for j in derivation.jacobians)
        return f"{show(replace(derivation.program, definitions=definitions))}\n{jacobians}"
    if stage == "simplify":
        return str(explain(derivation))
    made = assemble(program, selection, order)
    if stage == "plan":
        parts = (("the outputs", made.forward), ("the factors of all Jacobians", made.factors))
        return "\n\n".join(
            f"# {title}\n{show_plan(plan_steps(form.definitions, program.batch), program)}"
            for title, form in parts
        )
    require_bound(program, read)
    return source_of(made, {**options, "order": 2} if order == 2 else options, None).text


__all__: Sequence[str] = (
    "check",
    "compile",
    "derive",
    "layer",
    "load",
    "plan",
    "show_stage",
)
