"""The door of a generated module: sizes are solved from shapes and everything else is checked.

Program -> lines of Python
A dim is solved from an axis where it is the only unknown and stands linearly; the rest must agree.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from symgrad.dims import ONE, ZERO, Dim
from symgrad.errors import ShapeError
from symgrad.generation.fold import WIDTH
from symgrad.generation.words import code_name, dim_text, mentions, size_name
from symgrad.program import Array, Program, Reduce


def size_dims(program: Program) -> tuple[str, ...]:
    """Return the names of the dims whose sizes every driver gets, `#B` (the batch) first."""
    names = {n for a in program.arrays for d in a.axes for n in d.names}
    names |= {n for a in program.arrays if a.vocabulary for n in a.vocabulary.names}
    first = ("#B",) if any(a.batched for a in program.arrays) else ()
    return (*first, *sorted(names))


def size_names(program: Program) -> tuple[str, ...]:
    """Return what generated code calls these sizes."""
    return tuple(size_name(n) for n in size_dims(program))


def spec_lines(program: Program) -> tuple[str, ...]:
    """Return one line an array: name, rank, role, whether it has a batch axis."""
    return tuple(
        f'("{a.name}", {len(a.axes)}, "{a.role}", {a.batched}),' for a in program.arrays
    )


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a declared array, counted with the batch axis."""

    array: str
    number: int
    dim: Dim


def door_lines(program: Program, check_domain: bool) -> tuple[str, ...]:
    """Return the body of the door; with `check_domain` it tests the layer's asserts too."""
    names = [code_name(a.name) for a in program.arrays]
    opening, lines = _opening(program), []
    batched = [code_name(a.name) for a in program.arrays if a.batched]
    if batched:
        lines.append(f"n_B = {batched[0]}.shape[0]")
    lines += _solving(program)
    for check in program.checks:
        low, high, limit = dim_text(check.low), dim_text(check.high), dim_text(check.limit)
        message = json.dumps(check.message)
        if check.exact:
            lines.append(f"_exactly({high}, {limit}, {message})")
        elif check.high == ZERO and check.limit == ONE:  # a size, no access
            lines.append(f"_natural({low}, {message})")
        else:
            lines.append(f"_fits({low}, {high}, {limit}, {message})")
    for array in program.arrays:
        if array.vocabulary is not None:
            place = [a.name for a in program.arrays].index(array.name)
            size = dim_text(array.vocabulary)
            lines.append(f'_in_range("{array.name}", arrays[{place}], {size})')
    for definition in program.definitions:
        for index in definition.indices:
            if index.dim.symbol is None and index.dim.constant is None and index != program.batch:
                line = f'_natural({dim_text(index.dim)}, "{index.dim}")'
                if line not in lines:
                    lines.append(line)
        body = definition.body
        if isinstance(body, Reduce) and body.kind in ("max", "min"):
            for index in body.bound:
                message = f"{body.kind} over an empty axis in {definition.name}"
                lines.append(f'_nonempty({dim_text(index.dim)}, "{message}")')
    sizes = size_names(program)
    joined = f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"
    if check_domain:
        lines.append(f"_domain(arrays, {joined}, dtype)")
    lines.append(f"return arrays, {joined}, dtype, single")
    read = [n if mentions("\n".join(lines), n) else "_" for n in names]
    if any(n != "_" for n in read):
        taken = f"({read[0]},)" if len(read) == 1 else ", ".join(read)
        opening.append(f"{taken} = arrays")
    return (*opening, *_unpacked(program, lines))


def _opening(program: Program) -> list[str]:
    """Return the lines that make contiguous arrays of one dtype of the arguments.

    Arrays that are so already are only looked at; `_arrays` says what is wrong with others.
    """
    names = [code_name(a.name) for a in program.arrays]
    tuple_text = f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"
    slowly = f"arrays, dtype, single = _arrays({tuple_text})"
    leader = next((a for a in program.arrays if _is_strong(a)), None)
    if leader is None:
        return [slowly]
    first = next((a for a in program.arrays if a.batched), None)
    ready = [_ready(a, first) for a in program.arrays]
    tests = _joined([*_type_tests(program, leader), *_rank_tests(program, first)])
    return [
        "if (", *(f"    {test}" for test in tests), "):",
        f"    single = {f'{code_name(first.name)}.ndim == {len(first.axes)}' if first else False}",
        f"    arrays = ({ready[0]},)" if len(ready) == 1 else f"    arrays = ({', '.join(ready)})",
        "else:", f"    {slowly}",
    ]  # fmt: skip


def _is_strong(array: Array) -> bool:
    """Whether an argument is an array with axes, which has a dtype to compute with."""
    return array.role != "index" and bool(array.axes or array.batched)


def _is_number(array: Array) -> bool:
    """Whether an argument has no axes: numbers of Python take the dtype of the others."""
    return not array.axes and not array.batched and array.role != "index"


def _ready(array: Array, first: Array | None) -> str:
    """Return the expression of an argument that passed all tests, as drivers take it."""
    name = code_name(array.name)
    if _is_number(array):
        return f"np.asarray({name}, dtype)"
    return f"{name}[np.newaxis] if single else {name}" if array.batched and first else name


def _type_tests(program: Program, leader: Array) -> list[str]:
    """Return the tests that arguments are arrays of one dtype that lie in C order."""
    numbers = [code_name(a.name) for a in program.arrays if _is_number(a)]
    arrays = [a for a in program.arrays if not _is_number(a)]
    tests = [f"type({code_name(a.name)}) is np.ndarray" for a in arrays]
    tests.append(f"(dtype := {code_name(leader.name)}.dtype) in _DTYPES")
    for array in arrays:
        kind = "_INTEGERS" if array.role == "index" else "dtype"
        if array is not leader:
            tests.append(f"{code_name(array.name)}.dtype is {kind}")
    tests += [f"{code_name(a.name)}.flags.c_contiguous" for a in arrays]
    return tests + [f"_is_plain({name}, dtype)" for name in numbers]


def _rank_tests(program: Program, first: Array | None) -> list[str]:
    """Return the tests of numbers of axes, and that all have or lack as many samples."""
    tests = []
    for array in program.arrays:
        name, rank = code_name(array.name), len(array.axes)
        if _is_number(array):
            continue
        if not array.batched or first is None:
            tests.append(f"{name}.ndim == {rank}")
        elif array is first:
            tests.append(f"{name}.ndim in ({rank}, {rank + 1})")
        else:
            leading, more = code_name(first.name), rank - len(first.axes)
            sign = f" {'+' if more > 0 else '-'} {abs(more)}" if more else ""
            tests.append(f"{name}.ndim == {leading}.ndim{sign}")
            alone = f"{leading}.ndim == {len(first.axes)}"
            tests.append(f"({alone} or len({name}) == len({leading}))")
    return tests


def _joined(tests: Sequence[str]) -> list[str]:
    """Return tests joined by `and`, as many in a line as fit."""
    lines = [tests[0]]
    for test in tests[1:]:
        if len(lines[-1]) + len(f" and {test}") > WIDTH - 8:
            lines.append(f"and {test}")
        else:
            lines[-1] += f" and {test}"
    return lines


def _unpacked(program: Program, lines: Sequence[str]) -> list[str]:
    """Return the lines; sizes that are all axes of an array, in order, are taken in one."""
    found = list(lines)
    for array in program.arrays:
        name, rank = code_name(array.name), len(_axes(array)) + array.batched
        ends = [f" = {name}.shape[{number}]" for number in range(rank)]
        for start in range(len(found) - rank + 1 if rank > 1 else 0):
            own = found[start : start + rank]
            if all(line.endswith(end) for line, end in zip(own, ends, strict=True)):
                sizes = [line.partition(" = ")[0] for line in own]
                found[start : start + rank] = [f"{', '.join(sizes)} = {name}.shape"]
                break
    return found


def _axes(array: Array) -> list[Axis]:
    first = 1 if array.batched else 0
    return [Axis(array.name, n + first, d) for n, d in enumerate(array.axes)]


def _solving(program: Program) -> list[str]:
    """Return the lines that solve the dims and check all axes."""
    axes = [axis for array in program.arrays for axis in _axes(array)]
    wanted = {n for axis in axes for n in axis.dim.names}
    wanted |= {n for a in program.arrays if a.vocabulary is not None for n in a.vocabulary.names}
    known: dict[str, str] = {}
    lines: list[str] = []
    open_axes = sorted(axes, key=lambda axis: axis.dim.symbol is None)
    progress = True
    while progress:
        progress = False
        for axis in list(open_axes):
            unknown = [n for n in axis.dim.names if n not in known]
            where = f"{code_name(axis.array)}.shape[{axis.number}]"
            text = dim_text(axis.dim)
            if not unknown:
                open_axes.remove(axis)
                source = _source(axis.dim, known)
                told = f'"{axis.array}", {axis.number}, {where}, {text}, "{axis.dim}", "{source}"'
                lines += [f"if {where} != {text}:", f"    _unlike({told})"]
                progress = True
                continue
            if len(unknown) == 1:
                line = _solved(axis, unknown[0], where)
                if line is not None:
                    open_axes.remove(axis)
                    known[unknown[0]] = f"axis {axis.number} of {axis.array}"
                    lines.append(line)
                    progress = True
                    break
    missing = sorted(wanted - set(known))
    if missing:
        raise ShapeError(
            f"no declared shape determines {', '.join(missing)}",
            hint=f'give it when compiling: dims={{"{missing[0]}": ...}}',
        )
    return lines


def _source(dim: Dim, known: dict[str, str]) -> str:
    """Return the axes that gave the sizes of a dim, "" if it is a number."""
    found = list(dict.fromkeys(known[n] for n in dim.names))
    return " and ".join(found)


def _solved(axis: Axis, name: str, where: str) -> str | None:
    """Return the line that solves a dim standing linearly in an axis, or None."""
    if axis.dim.symbol == name:
        return f"{size_name(name)} = {where}"
    rest = axis.dim.substitute({name: 0})
    others = (axis.dim - rest).divided_by(Dim.of(name))
    if others is None or name in others.names:
        return None
    return (
        f'{size_name(name)} = _solved("{axis.array}", {axis.number}, {where}, {dim_text(rest)}, '
        f'{dim_text(others)}, "{name}", "{axis.dim}")'
    )
