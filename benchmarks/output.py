"""What was measured, as a table, as JSON, and as a plot.

Report -> rich tables | text | figure
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.peers import NO_FORM, Row, Verdict, absences
from benchmarks.series import Curve

COLOURS, MARKERS = 10, "os^D"
"""After so many peers colours come again, with another marker."""


@dataclass(frozen=True, slots=True)
class Report:
    """Facts of the machine, its limits, and all that was measured in one run."""

    machine: Mapping[str, Any]
    limits: Mapping[str, float]
    rows: tuple[Row, ...]
    verdicts: tuple[Verdict, ...]
    curves: tuple[Curve, ...] = ()
    quick: bool = False


def printed(report: Report, console: Console) -> None:
    """Print facts, times, targets, curves, and who was absent."""
    facts = report.machine
    huge = "with" if facts["huge pages"] else "without"
    console.print(f"{facts['processor']}, {facts['cores']} cores, {huge} huge pages")
    console.print(", ".join(f"{n} {v}" for n, v in facts["versions"].items()))
    if facts["removed variables"]:
        names = ", ".join(facts["removed variables"])
        console.print(f"removed from the environment of this process: {names}")
    console.print(", ".join(f"{n}: {v:.3g}" for n, v in report.limits.items()))
    if report.quick:
        console.print("quick run: sizes of a few, times mean nothing")
    if report.rows:
        console.print(times(report))
    if report.curves:
        console.print(curves(report))
    if report.verdicts:
        console.print(targets(report))
    for peer, reason in absences(report.rows).items():
        console.print(f"skipped: {peer}: {reason}")
    if report.rows:
        console.print("a peer that a quantity has no row of has no such form")


def times(report: Report) -> Table:
    """Return a row for each peer that computes a quantity, or failed; JSON names all others."""
    silent = (NO_FORM, *absences(report.rows).values())
    table = Table("workload", "quantity", "peer", title="times, side by side")
    for title in ("ms", "x ours", "difference"):
        table.add_column(title, justify="right")
    before = None
    for row in report.rows:
        if row.reason in silent:
            continue
        if before not in (None, row.workload):
            table.add_section()
        before = row.workload
        if row.seconds is None:
            table.add_row(row.workload, row.quantity, row.peer, "-", "-", row.reason)
            continue
        apart = "" if row.difference is None else f"{row.difference:.1e}"
        numbers = (f"{row.seconds * 1e3:.4g}", f"{row.times:.3g}", apart)
        table.add_row(row.workload, row.quantity, row.peer, *numbers)
    return table


def targets(report: Report, title: str = "targets") -> Table:
    """Return a row for each target: met, missed, or not measured."""
    table = Table("workload", "quantity", "asked", "measured", "", "remark", title=title)
    words = {True: "met", False: "missed", None: "not measured"}
    for one in report.verdicts:
        word = one.remark if one.remark == "reported" else words[one.met]
        remark = "" if one.remark == "reported" else one.remark
        if report.quick:
            word = "not judged"
        table.add_row(one.workload, one.quantity, one.asked, one.measured, word, remark)
    return table


def curves(report: Report) -> Table:
    """Return a row for each curve: milliseconds at all sizes, exponent, crossover."""
    table = Table("curve", "over", "ours, ms", "one pass, ms", "exponent", "against one pass")
    for one in report.curves:
        at = " ".join(map(str, one.at))
        mine, theirs = (" ".join(f"{s * 1e3:.3g}" for s in t) for t in (one.ours, one.yardstick))
        table.add_row(
            one.name, f"{one.size}: {at}", mine, theirs, f"{one.exponent:.2f}", one.crossover
        )
    return table


def plain(report: Report) -> dict[str, Any]:
    """Return everything as values that JSON holds."""
    found = asdict(report)
    found["absent"] = absences(report.rows)
    for one, curve in zip(found["curves"], report.curves, strict=True):
        one["crossover"] = curve.crossover
    return found


def loaded(found: Mapping[str, Any]) -> Report:
    """Return a report of what `plain` made of it."""
    rows = tuple(Row(**one) for one in found["rows"])
    verdicts = tuple(Verdict(**one) for one in found["verdicts"])
    curves = tuple(
        Curve(**{n: tuple(v) if isinstance(v, list) else v for n, v in one.items()
                 if n != "crossover"})
        for one in found["curves"]
    )
    parts = (rows, verdicts, curves)
    return Report(found["machine"], found["limits"], *parts, quick=found["quick"])


def written(found: Mapping[str, Any], path: Path) -> None:
    """Write what was found as JSON."""
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def plotted(reports: Mapping[str, Report], path: Path) -> None:
    """Draw ratios of all peers, and curves, of one report or several, into a file.

    Needs matplotlib.
    """
    from matplotlib.figure import Figure

    heights = [5 + 3 * ((len(one.curves) + 3) // 4) for one in reports.values()]
    figure = Figure(figsize=(14, sum(heights)), layout="constrained")
    parts = figure.subfigures(len(reports), 1, height_ratios=heights, squeeze=False)[:, 0]
    for part, (name, report) in zip(parts, reports.items(), strict=True):
        if len(reports) > 1:
            part.suptitle(name)
        drawn(part, report)
    figure.savefig(path)


def drawn(figure: Any, report: Report) -> None:
    """Draw one report into a figure or a part of one."""
    lines = (len(report.curves) + 3) // 4
    grid = figure.add_gridspec(1 + lines, 4)
    ratios(figure.add_subplot(grid[0, :]), report)
    for place, one in enumerate(report.curves):
        axes = figure.add_subplot(grid[1 + place // 4, place % 4])
        axes.loglog(one.at, one.ours, "o-", label=f"symgrad, exponent {one.exponent:.2f}")
        if one.yardstick:
            axes.loglog(one.at, one.yardstick, "s--", label="torch forward + backward")
        axes.set(title=f"{one.name}\n{one.crossover}", xlabel=one.size, ylabel="seconds")
        axes.legend(fontsize="x-small")


def ratios(axes: Any, report: Report) -> None:
    """Draw how many times our time each peer takes."""
    there = [row for row in report.rows if row.times is not None and row.peer != "symgrad"]
    asked = list(dict.fromkeys((row.workload, row.quantity) for row in there))
    for place, peer in enumerate(dict.fromkeys(row.peer for row in there)):
        own = [row for row in there if row.peer == peer]
        at = [asked.index((row.workload, row.quantity)) for row in own]
        marker = MARKERS[place // COLOURS % len(MARKERS)]
        axes.semilogy(at, [row.times for row in own], marker, label=peer)
    axes.axhline(1, color="black")
    labels = [f"{workload}\n{quantity}" for workload, quantity in asked]
    axes.set_xticks(range(len(asked)), labels, rotation=90, fontsize="xx-small")
    axes.set(ylabel="time / ours")
    axes.legend(fontsize="xx-small", ncols=4)
