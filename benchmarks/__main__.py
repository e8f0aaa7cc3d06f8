"""Measure, and print tables.

python -m benchmarks [all] [W1a W3 ... growth]  everything, then again with huge pages
python -m benchmarks peers [W1a W3 ... growth]  once: everything beside what one could pick
    --json FILE   all numbers     --plot FILE   a figure (needs matplotlib)
    --huge        (peers) huge pages for large arrays
    --quick       sizes of a few, to see that it runs
    --seconds S   for each peer of each quantity
python -m benchmarks [start] [derive] [mlp]     start-up, derivation, evaluation; all of them
                                                belong to `all` without names too
Peers that are not installed are named and skipped; results are compared before they are timed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.layers import DENSE, LSTM, MLP, residual
from benchmarks.machine import facts, start_again
from benchmarks.timing import side_by_side, timed

SERIES = ("growth", "float32", "start")


def main(arguments: list[str]) -> None:
    """Run everything, or the peers, or the chosen groups."""
    if arguments[:1] == ["peers"]:
        peers(arguments)
        return
    if not arguments or arguments[0] == "all" or arguments[0].startswith("--"):
        all_of_it(arguments[arguments[:1] == ["all"] :])
        return
    parser = argparse.ArgumentParser(
        prog="benchmarks", description="or: all, peers (all --help, peers --help)"
    )
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(GROUPS))
    chosen = parser.parse_args(arguments).groups
    if unknown := [name for name in chosen if name not in GROUPS]:
        known = ", ".join((*GROUPS, "all", "peers"))
        parser.error(f"no group is called {unknown[0]!r}; there are {known}")
    in_groups(chosen)


def in_groups(names: Iterable[str]) -> list[tuple[str, str, str]]:
    """Measure groups, print them as one table, and return its rows."""
    table = Table("measured", "value", "aim")
    rows = [row for name in names for row in GROUPS[name]()]
    for row in rows:
        table.add_row(*row)
    Console(width=110).print(table)
    return rows


def options_of(program: str) -> argparse.ArgumentParser:
    """Return a parser of the options that `all` and `peers` share."""
    parser = argparse.ArgumentParser(
        prog=f"benchmarks {program}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help=f"W1a, W3, W1 (a to c), ..., {', '.join(SERIES)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw ratios and curves there")
    parser.add_argument("--quick", action="store_true", help="sizes of a few")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each peer (default: 1)")
    return parser


def parsed(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """Return the options; a plot that cannot be drawn is refused before anything is measured."""
    given = parser.parse_args(arguments)
    if given.plot and not find_spec("matplotlib"):
        parser.error('--plot needs matplotlib: pip install "symgrad[plot]"')
    return given


def all_of_it(arguments: list[str]) -> None:
    """Measure everything, or what is named, by default and with huge pages, in two processes."""
    from benchmarks import output
    from benchmarks.everything import everything, settled

    given = parsed(options_of("all"), arguments)
    quick = ["--quick"] if given.quick else []
    reports = everything([*given.names, *quick, "--seconds", str(given.seconds)])
    found = {name: output.plain(one) for name, one in reports.items()}
    verdicts = settled(reports)
    last = replace(next(iter(reports.values())), verdicts=tuple(verdicts))
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(output.targets(last, "targets, each measured as it asks"))
    found["targets"] = [asdict(one) for one in verdicts]
    if not given.names and not given.quick:
        found["groups"] = in_groups(GROUPS)
    if given.json:
        output.written(found, given.json)
    if given.plot:
        output.plotted(reports, given.plot)


def peers(arguments: list[str]) -> None:
    """Measure workloads beside their peers, in a process with the variables that belong to it."""
    parser = options_of("peers")
    parser.add_argument("--huge", action="store_true", help="huge pages for large arrays")
    given = parsed(parser, arguments[1:])
    start_again(arguments, huge=given.huge)
    report(parser, given)


def report(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """Measure what was chosen, print it, and write it."""
    from benchmarks import output
    from benchmarks.limits import measured
    from benchmarks.peers import measure
    from benchmarks.series import curves, growth, precisions
    from benchmarks.starts import starts
    from benchmarks.workloads import chosen

    wanted = set(SERIES) & set(given.names) if given.names else set(SERIES)
    names = [name for name in given.names if name not in SERIES]
    try:
        workloads = chosen(names) if names or not given.names else []
    except ValueError as error:
        parser.error(str(error))
    seconds = 0.0 if given.quick else given.seconds
    console = Console(stderr=True)
    limits = measured(seconds, megabytes=8 if given.quick else 256)
    rows, verdicts = measure(workloads, quick=given.quick, seconds=seconds, told=console.log)
    found = curves(quick=given.quick, seconds=seconds) if "growth" in wanted else []
    verdicts += growth(found)
    if "float32" in wanted:
        verdicts += precisions(quick=given.quick, seconds=seconds)
    if "start" in wanted:
        more, judged = starts(1 if given.quick else 5)
        rows += more
        verdicts += judged
    parts = (tuple(rows), tuple(verdicts), tuple(found))
    made = output.Report(facts(), limits, *parts, quick=given.quick)
    output.printed(made, Console(width=None if sys.stdout.isatty() else 160))
    if given.json:
        output.written(output.plain(made), given.json)
    if given.plot:
        output.plotted({"": made}, given.plot)


LEAST = """import numba
import numpy as np


@numba.njit(cache=True)
def nothing(a):
    return a[0]


nothing(np.ones(1))
"""
"""What numba itself takes; where SciPy is installed it imports that too."""


def start() -> list[tuple[str, str, str]]:
    """Measure whole processes: compile with an empty cache, warm import and first Jacobian."""
    with tempfile.TemporaryDirectory() as folder:
        layer = Path(folder) / "dense.sg"
        layer.write_text(DENSE)
        module = Path(folder) / "dense_jac.py"
        environment = {**os.environ, "SYMGRAD_CACHE": str(Path(folder) / "cache")}
        begin = time.perf_counter()
        command = [sys.executable, "-m", "symgrad", "compile", str(layer), "-o", str(module)]
        subprocess.run(command, check=True, env=environment, capture_output=True)
        cold = time.perf_counter() - begin
        code = (
            "import numpy as np, dense_jac as d\n"
            "d.jac_W(np.ones((5, 3)), np.ones((2, 3)), np.ones(2))"
        )
        (Path(folder) / "least.py").write_text(LEAST)
        runs: list[float] = []
        least: list[float] = []
        for _ in range(6):
            for words, times in ((code, runs), ("import least", least)):
                begin = time.perf_counter()
                command = [sys.executable, "-c", words]
                subprocess.run(command, check=True, cwd=folder, env=environment)
                times.append(time.perf_counter() - begin)
    return [
        ("symgrad compile of a dense layer, empty cache", f"{cold:.2f} s", "<= 6 s"),
        ("import of its module and first Jacobian, cold kernels", f"{runs[0]:.2f} s", "-"),
        ("import of its module and first Jacobian, warm", f"{median(runs[1:]):.2f} s", "<= 0.8 s"),
        ("the same of a numba function that does nothing, warm", f"{median(least[1:]):.2f} s", "-"),
    ]


def derivations() -> list[tuple[str, str, str]]:
    """Measure derivations: text to closed forms."""
    import symgrad as sg

    def run(text: str, wrt: str) -> Callable[[], object]:
        return lambda: sg.derive(text, wrt=wrt).text()

    rows = []
    for name, text, wrt, aim in (
        ("derivation of a warm dense layer", DENSE, "params", "<= 20 ms"),
        ("derivation of an LSTM cell wrt everything", LSTM, "all", "<= 1500 ms"),
        ("derivation of a residual net, 16 blocks", residual(16), "params", "linear"),
        ("derivation of a residual net, 64 blocks", residual(64), "params", "<= 10000 ms"),
    ):
        rows.append((name, f"{timed(run(text, wrt), 0.5) * 1e3:.1f} ms", aim))
    for blocks in (16, 64):
        source = sg.show_stage(residual(blocks), "source")
        rows.append((f"generated lines, {blocks} blocks", str(source.count("\n")), "linear"))
    return rows


def mlp() -> list[tuple[str, str, str]]:
    """Measure the MLP 32-64-64-10 at batch 256 beside PyTorch, in one run."""
    import numpy as np

    import symgrad as sg

    rng = np.random.default_rng(0)
    shapes = {"W1": (64, 32), "b1": (64,), "W2": (64, 64), "b2": (64,), "W3": (10, 64), "b3": (10,)}
    params = {name: rng.normal(size=shape) / 8 for name, shape in shapes.items()}
    x = rng.normal(size=(256, 32))
    compiled = sg.compile(MLP)
    outs = {n: np.empty((256, 10, *s)) for n, s in shapes.items()}

    def dense() -> None:
        J = compiled.jacobian(x, params)
        for name, out in outs.items():
            J[name].dense(out=out)

    def structured() -> None:
        compiled.jacobian(x, params)

    try:
        import torch
    except ImportError:
        ours, filled = side_by_side(structured, dense)
        return [
            ("MLP structured Jacobian wrt all parameters", f"{ours * 1e3:.3f} ms", "-"),
            ("MLP dense Jacobians with out=", f"{filled * 1e3:.2f} ms", "-"),
            ("PyTorch", "not installed: skipped", "-"),
        ]
    tensors = {n: torch.tensor(p, requires_grad=True) for n, p in params.items()}
    sample = torch.tensor(x)

    def net(p: dict[str, torch.Tensor], s: torch.Tensor) -> torch.Tensor:
        h1 = torch.tanh(s @ p["W1"].T + p["b1"])
        h2 = torch.tanh(h1 @ p["W2"].T + p["b2"])
        return h2 @ p["W3"].T + p["b3"]

    def pass_() -> None:
        for t in tensors.values():
            t.grad = None
        net(tensors, sample).sum().backward()

    plain = {n: t.detach() for n, t in tensors.items()}
    jacobian = torch.func.vmap(torch.func.jacrev(net), in_dims=(None, 0))
    right = jacobian(plain, sample)
    dense()
    for name, out in outs.items():
        np.testing.assert_allclose(out, right[name].numpy(), rtol=1e-9, atol=1e-12)
    ours, one = side_by_side(structured, pass_)
    filled, theirs = side_by_side(dense, lambda: jacobian(plain, sample), seconds=2)
    return [
        ("MLP structured Jacobian wrt all parameters", f"{ours * 1e3:.3f} ms", "-"),
        ("MLP dense Jacobians with out=", f"{filled * 1e3:.2f} ms", "-"),
        ("PyTorch forward + backward", f"{one * 1e3:.3f} ms", "-"),
        ("PyTorch vmap(jacrev)", f"{theirs * 1e3:.2f} ms", "-"),
        ("structured / forward + backward", f"{ours / one:.2f}", "<= 2"),
        ("vmap(jacrev) / dense with out=", f"{theirs / filled:.1f}", ">= 3"),
    ]


GROUPS: dict[str, Callable[[], list[tuple[str, str, str]]]] = {
    "start": start,
    "derive": derivations,
    "mlp": mlp,
}

if __name__ == "__main__":
    main(sys.argv[1:])
