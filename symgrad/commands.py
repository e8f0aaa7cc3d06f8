"""The commands: each takes options, calls the library and prints; nothing is computed here.

options -> library call -> stdout
symgrad itself is imported only inside commands, so --help is quick.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from symgrad.errors import ArgumentError
from symgrad.option_words import (
    Format,
    Style,
    bindings_of,
    comment,
    format_of,
    names_of,
    sizes_of,
    warm_of,
    written,
    wrt_of,
)
from symgrad.version import __version__

if TYPE_CHECKING:
    from symgrad.syntax import Layer as ReadLayer

FAILED = 1
Step = TypeVar("Step")

EXIT_CODES = (
    "Exit codes: 0 done, 1 a check failed, 2 the input is wrong, "
    "70 an error of symgrad itself, 130 interrupted."
)


class Stage(StrEnum):
    """A stage of the pipeline, in order."""

    PARSE = "parse"
    CHECK = "check"
    DERIVE = "derive"
    SIMPLIFY = "simplify"
    PLAN = "plan"
    SOURCE = "source"


app = typer.Typer(
    name="symgrad",
    help="Derivatives of a layer: as formulas to read, and as code that runs.\n\n" + EXIT_CODES,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)

Layer = Annotated[
    str, typer.Argument(metavar="LAYER", help="a file ending in .sg, or the layer's text itself")
]
Wrt = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES",
        help="what to differentiate by: params (default), inputs, all, names, globs, "
        "exclusions; separated by commas",
    ),
]
Functions = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="σ=tanh", help="bind an abstract function; may be repeated"),
]
Dims = Annotated[
    list[str] | None,
    typer.Option("--dim", metavar="m=1", help="fix a size; may be repeated"),
]
Order = Annotated[
    int, typer.Option(min=1, max=2, help="2: second derivatives of all pairs of arrays too")
]
Force = Annotated[
    bool, typer.Option("--force", help="overwrite FILE even if symgrad did not write it")
]


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="print the version and stop")] = False,
    _debug: Annotated[bool, typer.Option("--debug", help="show tracebacks")] = False,
) -> None:
    if version:
        print(f"symgrad {__version__}")
        raise typer.Exit


@app.command(epilog="Example: symgrad demo")
def demo() -> None:
    """Show a dense layer: its formula, its kernel, its proof and its shapes."""
    from symgrad.demo import demo as demonstration

    with _working("deriving, compiling and checking a dense layer"):
        text = demonstration()
    print(text)


@app.command(epilog='Example: symgrad derive "σ(W x + b)" --wrt W,b --dim m=1')
def derive(
    layer: Layer,
    wrt: Wrt = None,
    functions: Functions = None,
    dims: Dims = None,
    order: Order = 1,
    style: Annotated[Style, typer.Option(help="matrix: whole arrays")] = Style.INDEX,
    format: Annotated[
        Format | None, typer.Option(help="text unless the ending of -o FILE says otherwise")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="write there; a file that symgrad did not write is kept unless --force is given",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Print the derivative of LAYER as a formula, with the steps that lead to it."""
    import symgrad
    from symgrad.options import target_of

    form = format or format_of(output)
    target = target_of(output, "derivation", force=force)
    with _working("deriving"):
        derivation = symgrad.derive(
            _layer(layer),
            wrt=wrt_of(wrt),
            functions=bindings_of(functions),
            dims=sizes_of(dims),
            order=order,
        )
        text = written(derivation, form, style)
    if target is None:
        print(text)
    else:
        _save(target, text, form)


@app.command(epilog='Example: symgrad compile "σ(W x + b)" --set σ=tanh -o dense_jac.py')
def compile(
    layer: Layer,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE.py",
            help="the module to write, and beside it FILE.report.json with the errors that were "
            "measured; files that symgrad did not write are kept unless --force is given",
        ),
    ],
    wrt: Wrt = None,
    functions: Functions = None,
    dims: Dims = None,
    order: Order = 1,
    recompute: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="definitions to compute again on the way back instead of storing them: names "
            "or globs, separated by commas",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="validate before handing the module out")
    ] = True,
    warm: Annotated[
        bool,
        typer.Option(
            "--warm",
            help="compile all kernels too: processes that import FILE.py then compile nothing",
        ),
    ] = False,
    dtype: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="of the arrays that --warm compiles for: float64 (default), float32, "
            "complex128, complex64; separated by commas",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Write LAYER and its derivatives as a module that needs numpy and numba only."""
    import symgrad
    from symgrad.judge import report_beside
    from symgrad.warm import warming

    dtypes = warm_of(warm, names_of(dtype))
    with _working("deriving, compiling and checking" if check else "deriving and compiling"):
        compiled = symgrad.compile(
            _layer(layer),
            wrt=wrt_of(wrt),
            functions=bindings_of(functions),
            dims=sizes_of(dims),
            order=order,
            recompute=names_of(recompute),
            path=output,
            check=check,
            force=force,
        )
    for call in _counted(warming(compiled, dtypes), "compiling kernels"):
        call()
    if compiled.report is not None:
        print(compiled.report)
    beside = report_beside(output)
    told = compiled.report is not None and beside.is_file()
    say(f"wrote {output}, {beside}" if told else f"wrote {output}")
    if dtypes:
        say(f"compiled its kernels for {', '.join(dtypes)}")


@app.command(epilog='Example: symgrad check "tanh(W x + b)" --batch 7 --dim n=5')
def check(
    layer: Annotated[
        str,
        typer.Argument(metavar="LAYER|MODULE.py", help="a layer, or a module compiled from one"),
    ],
    functions: Functions = None,
    batch: Annotated[int | None, typer.Option(min=1, help="samples to check at")] = None,
    dims: Dims = None,
    seed: Annotated[int, typer.Option(help="of the random points")] = 0,
) -> None:
    """Compare every derivative with finite differences; exit 1 if one disagrees."""
    import symgrad

    options: dict[str, Any] = {"dims": sizes_of(dims), "seed": seed}
    if batch is not None:
        options["batch"] = batch
    if functions:
        options["functions"] = bindings_of(functions)
    subject = layer if _is_module(layer) else _layer(layer)
    with _working("checking"):
        report = symgrad.check(subject, **options)
    print(report)
    if not report.ok:
        raise typer.Exit(FAILED)


@app.command(epilog='Example: symgrad show "tanh(W x + b)" --stage plan')
def show(
    layer: Layer,
    stage: Annotated[Stage, typer.Option(help="where to stop and look")],
    wrt: Wrt = None,
    functions: Functions = None,
    dims: Dims = None,
    order: Order = 1,
) -> None:
    """Print what a stage of the compiler makes of LAYER."""
    import symgrad

    with _working("working"):
        text = symgrad.show_stage(
            _layer(layer),
            stage.value,
            wrt=wrt_of(wrt),
            functions=bindings_of(functions),
            dims=sizes_of(dims),
            order=order,
        )
    print(text)


@app.command(epilog='Example: symgrad plan "tanh(W x + b)" --batch 256 --dim n=64 --dim m=32')
def plan(
    layer: Layer,
    batch: Annotated[int | None, typer.Option(min=0, help="the number of samples")] = None,
    wrt: Wrt = None,
    functions: Functions = None,
    dims: Dims = None,
    order: Order = 1,
    dtype: Annotated[str, typer.Option(help="of the arrays: float32, complex64, ...")] = "float64",
) -> None:
    """Print operations and bytes of every form of LAYER, in symbols and for given sizes."""
    import symgrad

    with _working("deriving"):
        found = symgrad.plan(
            _layer(layer),
            wrt_of(wrt),
            batch=batch,
            dims=sizes_of(dims),
            dtype=dtype,
            functions=bindings_of(functions),
            order=order,
        )
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(found)
    else:
        print(found)


@app.command(
    epilog="Example: symgrad bench 'tanh(W x + b)' --dim n=64 --dim m=32 --against numpy,torch,jax"
)
def bench(
    layer: Layer,
    batch: Annotated[int, typer.Option(min=1, help="the number of samples")] = 256,
    wrt: Wrt = None,
    functions: Functions = None,
    dims: Dims = None,
    seconds: Annotated[float, typer.Option(min=0, help="to call each form for")] = 0.5,
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOOLS",
            help="numpy, torch, jax, separated by commas: hand the layer to them as well, compare "
            "results (exit 1 if one differs), then time all in turns; one that is not installed "
            "is skipped",
        ),
    ] = None,
) -> None:
    """Print how long a call of each form of LAYER takes, all sizes given: medians."""
    from symgrad.bench import bench as timings

    options: dict[str, Any] = {
        "batch": batch,
        "dims": sizes_of(dims),
        "functions": bindings_of(functions),
        "seconds": seconds,
    }
    tools = names_of(against)
    if tools is None:
        with _working("compiling and timing"):
            text = str(timings(_layer(layer), wrt_of(wrt), **options))
    else:
        from symgrad.against.compare import compare

        with _working("compiling, comparing and timing"):
            text = str(compare(_layer(layer), wrt_of(wrt), against=tools, **options))
    print(text)


def _layer(text: str) -> ReadLayer:
    """Read LAYER, and say on stderr what a one-liner left to be assumed."""
    import symgrad

    if "\n" not in text and not text.endswith(".sg") and os.path.isfile(text):
        raise ArgumentError(
            f"{text} is a file, but a layer's file ends in .sg", hint=f"rename it to {text}.sg"
        )
    layer = symgrad.layer(text)
    for line in layer.assumptions:
        say(f"assumed: {line}")
    return layer


def _is_module(text: str) -> bool:
    return "\n" not in text and text.endswith(".py")


def _save(output: Path, text: str, form: Format) -> None:
    """Write a derivation, signed in the way of its format, and say so."""
    from symgrad.build import SIGNATURE, write

    write(output, f"{text.rstrip()}\n{comment(SIGNATURE, form)}\n")
    say(f"wrote {output}")


@contextlib.contextmanager
def _working(task: str) -> Iterator[None]:
    """Turn a wheel on stderr while something runs; print nothing unless it is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(task, spinner="line"):
        yield


def _counted(steps: Sequence[Step], task: str) -> Iterable[Step]:
    """Return steps that show on stderr how many are done; nothing unless it is a terminal."""
    if not steps or not sys.stderr.isatty():
        return steps
    from rich.console import Console
    from rich.progress import track

    return track(steps, task, console=Console(stderr=True), transient=True)


def say(message: str) -> None:
    print(message, file=sys.stderr)
