"""Walks through the segments of a recurrence as Python text.

Run -> lines
Every segment is computed like a short recurrence of its own; around it stand the lines that hand
it what the segment before it left, and that take out of it what outlasts it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from symgrad.algebra.segments import Carry, Clock, Run
from symgrad.dims import Dim
from symgrad.generation.kernel_book import KernelBook
from symgrad.generation.texts import shape_text
from symgrad.generation.words import code_name, dim_text
from symgrad.generation.write_driver import driver_steps
from symgrad.plan import plan
from symgrad.program import BATCH, Index
from symgrad.schedule import Schedule


def run_lines(
    run: Run,
    batch: Index,
    shapes: Mapping[str, tuple[Dim, ...]],
    book: KernelBook,
    taken: Sequence[str],
) -> list[str]:
    """Return the lines of a walk; `shapes` are the axes of the arrays that exist before it."""
    clock = run.clock
    known = {**shapes, **_shapes(run)}
    sums = [total.name for total in run.sums]
    schedule, _ = run_schedule(run, batch, shapes)
    book.shapes = {}
    names = {code_name(n) for n in (*taken, *known, *(d.name for d in run.definitions))}
    steps = driver_steps(schedule, book, _is_batched(run, known), {n: n for n in sums}, names)
    start, stop, count = dim_text(clock.start), dim_text(clock.stop), dim_text(clock.steps)
    total, segment = dim_text(clock.dim), dim_text(clock.segment)
    starts = f"range(0, {total}, {segment})"
    inner = [
        f"{stop} = min({start} + {segment}, {total})",
        f"{count} = {stop} - {start}",
        *_opening(run),
        *(line for step in steps for line in (*step.made, *step.lines)),
        *_closing(run),
    ]
    return [
        f"{segment} = _segment({total}, {run.lag})",
        *_made(run),
        f"for {start} in {f'reversed({starts})' if run.reverse else starts}:",
        *(f"    {line}" for line in inner),
    ]


def run_schedule(
    run: Run, batch: Index, shapes: Mapping[str, tuple[Dim, ...]]
) -> tuple[Schedule, dict[str, tuple[Dim, ...]]]:
    """Return the steps of one segment, and the axes of all arrays that stand in them.

    Sums over all steps are added to.
    """
    known = {**shapes, **_shapes(run)}
    filled = [total.name for total in run.sums]
    schedule = plan(run.definitions, batch, shapes=known, filled=filled)
    return schedule, {**known, **_own(run)}


def _shapes(run: Run) -> dict[str, tuple[Dim, ...]]:
    """Return the axes of what a segment reads beside its own arrays."""
    found = {carry.name: carry.dims for carry in run.carries}
    for view in run.views:
        found[view.part] = tuple(
            run.clock.steps if n == view.axis else d for n, d in enumerate(view.dims)
        )
    return found


def _is_batched(run: Run, known: Mapping[str, tuple[Dim, ...]]) -> Callable[[str], bool]:
    axes = {**known, **_own(run)}
    return lambda name: axes[name][:1] == (BATCH,)


def _own(run: Run) -> dict[str, tuple[Dim, ...]]:
    """Return the axes of the arrays that a segment makes."""
    return {d.name: tuple(i.dim for i in d.indices) for d in run.definitions}


def _made(run: Run) -> list[str]:
    """Return the lines that make what outlasts a segment."""
    lines = []
    for carry in run.carries:
        kept = code_name(carry.kept) if carry.kept else ""
        if kept and not carry.written:
            continue
        lines.append(f"{code_name(carry.name)} = np.zeros({shape_text(carry.dims)}, dtype)")
        if kept:
            total = dim_text(run.clock.dim)
            outer = total if total.isidentifier() or total.isdigit() else f"({total})"
            count = f"-(-{outer} // {dim_text(run.clock.segment)})"
            sizes = ", ".join((count, *(dim_text(d) for d in carry.dims)))
            lines.append(f"{kept} = np.empty(({sizes}), dtype)")
    for part in run.wholes:
        kind = "np.int64" if part.whole_numbers else "dtype"
        lines.append(f"{code_name(part.name)} = np.empty({shape_text(part.dims)}, {kind})")
    ends = [*((p.name, p.dims) for p in run.sums), *((t.name, t.dims) for t in run.taps)]
    lines += [f"{code_name(n)} = np.zeros({shape_text(dims)}, dtype)" for n, dims in ends]
    return lines


def _opening(run: Run) -> list[str]:
    """Return the lines that hand a segment what it starts from."""
    start, segment = dim_text(run.clock.start), dim_text(run.clock.segment)
    lines = []
    for carry in run.carries:
        if carry.kept:
            here, there = code_name(carry.name), f"{code_name(carry.kept)}[{start} // {segment}]"
            lines.append(f"{there} = {here}" if carry.written else f"{here} = {there}")
    for view in run.views:
        place = _along(view.axis, _steps(run.clock))
        lines.append(f"{code_name(view.part)} = {code_name(view.name)}[{place}]")
    return lines


def _closing(run: Run) -> list[str]:
    """Return the lines that take out of a segment what outlasts it."""
    start = dim_text(run.clock.start)
    lines = []
    for part in run.wholes:
        place = _along(part.axis, _steps(run.clock))
        lines.append(f"{code_name(part.name)}[{place}] = {code_name(part.part)}")
    for tap in run.taps:
        where = dim_text(tap.position)
        place = _along(tap.axis, dim_text(tap.position - run.clock.start))
        lines += [
            f"if {start} <= {where} < {dim_text(run.clock.stop)}:",
            f"    {code_name(tap.name)}[...] = {code_name(tap.array)}[{place}]",
        ]
    carried = [line for carry in run.carries for line in _carried(carry, run.clock)]
    before = [c for c in run.carries if not c.later and (c.written or not c.kept)]
    if before:
        lines.append(f"if {dim_text(run.clock.stop)} < {dim_text(run.clock.dim)}:")
        carried = [f"    {line}" for line in carried]
    return [*lines, *carried]


def _carried(carry: Carry, clock: Clock) -> list[str]:
    """Return the line that carries steps over to the segment that comes next."""
    name, array = code_name(carry.name), code_name(carry.array)
    if carry.later:
        all_ = carry.length == 1
        place = "..." if all_ else _along(carry.axis, f":{dim_text(clock.steps)}")
        return [f"{name}[{place}] = {array}[{_along(carry.axis, f':{carry.length}')}]"]
    if carry.kept and not carry.written:
        return []
    return [f"{name}[...] = {array}[{_along(carry.axis, f'-{carry.length}:')}]"]


def _steps(clock: Clock) -> str:
    return f"{dim_text(clock.start)}:{dim_text(clock.stop)}"


def _along(axis: int, place: str) -> str:
    """Return a subscript that takes a place along one axis and all along those before it."""
    return ", ".join((*(":" for _ in range(axis)), place))


__all__ = ["run_lines", "run_schedule"]
