"""Rows as Python text: reductions and softmax, which take more than one pass over their values.

Writer, Definition -> lines
Large values are taken out before exponentials and squares, so that neither overflows; a nan wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from symgrad.functions import kernel as function_kernel
from symgrad.generation.numbers import delimited
from symgrad.program import Affine, Definition, Index, Reduce, Rowwise, Scalar

if TYPE_CHECKING:
    from symgrad.generation.write_kernel import Writer


def write_row(writer: Writer, definition: Definition, depth: int) -> None:
    """Write one row of a primitive reduction."""
    body = definition.body
    if isinstance(body, Reduce):
        _reduction(writer, definition, body, depth)
    elif isinstance(body, Rowwise):
        _rowwise(writer, definition, body, depth)


def _over(writer: Writer, bound: Sequence[Index], depth: int) -> int:
    """Open loops over bound indices; return the depth inside."""
    for index in bound:
        name = writer.variable(index)
        writer.line(depth, f"for {name} in range({writer.size(index.dim)}):")
        depth += 1
    return depth


def _close(writer: Writer, bound: Sequence[Index]) -> None:
    """Free the variables of loops opened by `_over`."""
    for index in bound:
        writer.taken.discard(writer.variables.pop(index))


def _call(writer: Writer, function: str, text: str) -> str:
    """Return a call of a table function on a text."""
    kernel = function_kernel(function, ())
    for helper in kernel.helpers:
        writer.helpers[helper] = None
    return kernel.call.format(text if delimited(kernel.call, 0) else f"({text})")


def _reduction(writer: Writer, definition: Definition, body: Reduce, depth: int) -> None:
    """Write max, min, argmax, argmin, prod, logsumexp or norm of one row."""
    target = writer.element(definition.name, tuple(Affine.of(i) for i in definition.indices))
    before = set(writer.taken)
    match body.kind:
        case "prod":
            total = writer.fresh("product")
            writer.line(depth, f"{total} = 1.0")
            inner = _over(writer, body.bound, depth)
            writer.line(inner, f"{total} *= {writer.value(body.body, 2)}")
            writer.line(depth, f"{target} = {total}")
            _close(writer, body.bound)
        case "max" | "min" | "argmax" | "argmin":
            _extremum(writer, definition.name, target, body, depth)
        case "logsumexp":
            largest = _largest(writer, body.bound, body.body, depth, _height(writer))
            shift, total = writer.fresh("shift"), writer.fresh("total")
            writer.line(depth, f"{shift} = 0.0 if math.isinf({largest}) else {largest}")
            writer.line(depth, f"{total} = 0.0")
            inner = _over(writer, body.bound, depth)
            value = _call(writer, "exp", f"{writer.value(body.body, 1)} - {shift}")
            writer.line(inner, f"{total} += {value}")
            writer.line(depth, f"{target} = {shift} + {_call(writer, 'log', total)}")
            _close(writer, body.bound)
        case "norm":
            _norm(writer, target, body, depth)
    writer.taken = before


def _norm(writer: Writer, target: str, body: Reduce, depth: int) -> None:
    """Write a 2-norm that neither overflows nor underflows."""
    largest = _largest(writer, body.bound, body.body, depth, "abs({0})")
    ratio, total = writer.fresh("ratio"), writer.fresh("total")
    tame = f"{largest} == 0.0 or math.isinf({largest})"
    scale = writer.fresh("scale")
    writer.line(depth, f"{scale} = 1.0 if {tame} else {largest}")
    writer.line(depth, f"{total} = 0.0")
    inner = _over(writer, body.bound, depth)
    writer.line(inner, f"{ratio} = {writer.value(body.body, 2)} / {scale}")
    writer.line(inner, f"{total} += {ratio} * {ratio}")
    writer.line(depth, f"{target} = {scale} * math.sqrt({total})")
    _close(writer, body.bound)


def _height(writer: Writer) -> str:
    """The form of what exponentials are shifted by: of complex numbers the real part."""
    return "np.real({0})" if writer.analytic else "{0}"


def _largest(writer: Writer, bound: Sequence[Index], body: Scalar, depth: int, form: str) -> str:
    """Write the largest value over `bound`, nan if there is one; return its variable."""
    largest, value = writer.fresh("largest"), writer.fresh("value")
    writer.line(depth, f"{largest} = -np.inf")
    inner = _over(writer, bound, depth)
    writer.line(inner, f"{value} = {form.format(writer.value(body))}")
    writer.line(inner, f"if {value} > {largest} or math.isnan({value}):")
    writer.line(inner + 1, f"{largest} = {value}")
    _close(writer, bound)
    return largest


def _extremum(writer: Writer, name: str, target: str, body: Reduce, depth: int) -> None:
    """Write the first winner of a row, or its position; nan wins."""
    best, value = writer.fresh("best"), writer.fresh("value")
    sign = ">" if body.kind in ("max", "argmax") else "<"
    start = "-np.inf" if sign == ">" else "np.inf"
    wants_place = body.kind.startswith("arg")
    writer.line(depth, f"{best} = {start}")
    if wants_place:
        writer.integers.add(name)
        writer.line(depth, f"{target} = 0")
    inner = _over(writer, body.bound, depth)
    writer.line(inner, f"{value} = {writer.value(body.body)}")
    nan = f"(math.isnan({value}) and not math.isnan({best}))"
    writer.line(inner, f"if {value} {sign} {best} or {nan}:")
    writer.line(inner + 1, f"{best} = {value}")
    if wants_place:
        writer.line(inner + 1, f"{target} = {writer.variables[body.bound[0]]}")
    else:
        writer.line(depth, f"{target} = {best}")
    _close(writer, body.bound)


def _rowwise(writer: Writer, definition: Definition, body: Rowwise, depth: int) -> None:
    """Write one row of softmax or log_softmax, the largest value taken out first."""
    before = set(writer.taken)
    there = dict(zip(body.at, body.bound, strict=True))
    at = tuple(Affine.of(there.get(i, i)) for i in definition.indices)
    largest = _largest(writer, body.bound, body.body, depth, _height(writer))
    total = writer.fresh("total")
    writer.line(depth, f"{total} = 0.0")
    inner = _over(writer, body.bound, depth)
    target = writer.element(definition.name, at)
    shifted = f"{writer.value(body.body, 1)} - {largest}"
    if body.kind == "softmax":
        writer.line(inner, f"{target} = {_call(writer, 'exp', shifted)}")
        writer.line(inner, f"{total} += {target}")
    else:
        writer.line(inner, f"{target} = {shifted}")
        writer.line(inner, f"{total} += {_call(writer, 'exp', target)}")
    _close(writer, body.bound)
    if body.kind == "log_softmax":
        writer.line(depth, f"{total} = {_call(writer, 'log', total)}")
    inner = _over(writer, body.bound, depth)
    sign = "/=" if body.kind == "softmax" else "-="
    target = writer.element(definition.name, at)
    writer.line(inner, f"{target} {sign} {total}")
    _close(writer, body.bound)
    writer.taken = before
