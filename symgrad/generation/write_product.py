"""Matrix products as Python text: calls of numpy for the axes as they lie in memory.

Product -> lines
Reshapes and transposes are views where they can be.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from symgrad.dims import ZERO, Dim, signed
from symgrad.generation.texts import tuple_text
from symgrad.generation.words import code_name, dim_text
from symgrad.program import BATCH, Access, Affine, Index, Lookup, Position
from symgrad.schedule import Product, is_part, stretch

Covered = Collection[tuple[str, int]]
"""Axes, by array and number, that are read whole."""


def product_lines(product: Product, step: str = "") -> list[str]:
    """Return the statement that computes a matrix product with np.matmul, and one for its sign.

    `step` is what the driver calls the step of a recurrence.
    """
    p = oriented(product)
    rows, columns = p.rows, p.columns
    direct = (*p.batch, *rows, *columns)
    a = _operand(p.left, p.covered, step, p.batch, rows, p.inner)
    b = _operand(p.right, p.covered, step, p.batch, p.inner, columns)
    groups = [g for g in (rows, columns) if g]
    flat = all(len(g) == 1 for g in groups)
    target = code_name(p.target)
    if p.partial:
        return [_part_product(p, target, f"np.matmul({a}, {b})", direct)]
    if is_layered(p):
        return _layered(p, target)
    if p.fixed is not None:
        if is_stack(p):
            whole = {*rows, *p.inner}
            part = _slice(p.left, p.covered, whole, step)
            a, groups = f"{code_name(p.left.array)}{part}", [columns]
        target += f"[:, {step}]" if BATCH in (i.dim for i in p.target_indices) else f"[{step}]"
        flat = all(len(g) == 1 for g in groups)
        if len(rows) == len(columns) == 1 and not p.batch and not p.negative:
            if p.target_indices == direct:
                return [f"{'_add_matmul' if p.adds else '_matmul'}({a}, {b}, {target})"]
        return [_step_product(p, target, f"np.matmul({a}, {b}", direct, flat)]
    if p.target_indices == direct:
        if p.adds:
            plain = not p.batch and len(groups) == 2
            if plain and not p.negative:
                where = target if flat else f"{target}.reshape{_shape(p.batch, groups)}"
                return [f"_add_matmul({a}, {b}, {where})"]
            value = f"{'_matmul' if plain else 'np.matmul'}({a}, {b})"
            if not flat:
                value += f".reshape({target}.shape)"
            return [f"{target} {'-' if p.negative else '+'}= {value}"]
        where = target if flat else f"{target}.reshape{_shape(p.batch, groups)}"
        turn = [f"np.negative({target}, out={target})"] if p.negative else []
        if not p.batch and len(groups) == 2:
            return [f"_matmul({a}, {b}, {where})", *turn]
        return [f"np.matmul({a}, {b}, out={where})", *turn]
    value = f"np.matmul({a}, {b})"
    if not flat:
        value += f".reshape({', '.join(dim_text(i.dim) for i in direct)})"
    order = ", ".join(str(direct.index(i)) for i in p.target_indices)
    value = f"{value}.transpose({order})"
    if p.adds:
        return [f"{target}[...] {'-' if p.negative else '+'}= {value}"]
    return [f"{target}[...] = {'-' if p.negative else ''}{value}"]


def oriented(product: Product) -> Product:
    """Return a product with left and right exchanged where its target wants the columns first."""
    p = product
    turned = (*p.batch, *p.columns, *p.rows)
    if p.target_indices == (*p.batch, *p.rows, *p.columns) or p.target_indices != turned:
        return p
    return replace(p, left=p.right, right=p.left, rows=p.columns, columns=p.rows)


def is_stack(product: Product) -> bool:
    """Whether matmul takes all axes of the left side but the last as a stack of rows."""
    p = product
    return (
        p.fixed is not None
        and not p.batch
        and len(p.columns) == len(p.inner) == 1
        and _lies_as(p.left, (*p.rows, *p.inner))
    )


def is_layered(product: Product) -> bool:
    """Whether the last two axes of a target are those of matrices, and all others count these.

    Then matmul takes both sides and the target as they lie, where they would be copied to become
    one matrix each.
    """
    p = product
    whole = not p.partial and p.fixed is None and not p.adds and not p.negative
    if not whole or len(p.target_indices) < 3 or len(p.inner) != 1:
        return False
    if p.target_indices == (*p.batch, *p.rows, *p.columns):
        return False
    *_, row, column = p.target_indices
    left, right = _sides(p)
    sides = ((left, row), (right, column))
    return all(
        i in {stretch(q) for q in side.at}
        and not any(is_part(q) or (q.bare is None) for q in side.at)
        and side.at[-1].bare in (i, *p.inner)
        and len(side.at) == len({q.bare for q in side.at})
        for side, i in sides
    ) and (row in p.rows) != (column in p.rows) and not {row, column} & set(p.batch)


def _sides(p: Product) -> tuple[Access, Access]:
    """Return the operand with the last axis but one of the target, and that with its last."""
    return (p.left, p.right) if p.target_indices[-1] in p.columns else (p.right, p.left)


def _layered(p: Product, target: str) -> list[str]:
    """Return the statement of a product of two stacks of matrices."""
    *lead, row, column = p.target_indices
    texts = []
    for side, matrix in zip(_sides(p), ((row, *p.inner), (*p.inner, column)), strict=True):
        axes = [q.bare for q in side.at]
        there = [i for i in lead if i in axes]
        order = [axes.index(i) for i in (*there, *matrix)]
        text = code_name(side.array)
        if order != sorted(order):
            text += ".T" if len(order) == 2 else f".transpose({', '.join(map(str, order))})"
        places = [":" if i in axes else "None" for i in lead]
        while places and places[0] == "None":  # axes in front come by themselves
            places.pop(0)
        if "None" in places:
            text += f"[{', '.join(places)}]"
        texts.append(text)
    return [f"np.matmul({', '.join(texts)}, out={target})"]


def _part_product(p: Product, target: str, value: str, direct: Sequence[Index]) -> str:
    """Return the statement of a product that writes a part of its target."""
    if any(len(g) != 1 for g in (p.rows, p.columns)):
        value += f".reshape({', '.join(dim_text(i.dim) for i in direct)})"
    if p.target_indices != tuple(direct):
        value += f".transpose({', '.join(str(direct.index(i)) for i in p.target_indices)})"
    places = [_stretch_text(position) for position in p.target_at]
    sign = "-" if p.negative else ""
    return f"{target}[{', '.join(places)}] {sign or '+'}= {value}"


def _step_product(
    p: Product, target: str, call: str, direct: Sequence[Index], flat: bool
) -> str:
    """Return the statement of a product at one step of a recurrence."""
    if p.target_indices == tuple(direct) and flat and not p.adds and not p.negative:
        return f"{call}, out={target})"
    value = f"{call})"
    if not flat:
        value += f".reshape({', '.join(dim_text(i.dim) for i in direct)})"
    if p.target_indices != tuple(direct):
        value += f".transpose({', '.join(str(direct.index(i)) for i in p.target_indices)})"
    sign = "-" if p.negative else ""
    return f"{target} {sign or '+'}= {value}" if p.adds else f"{target} = {sign}{value}"


def _lies_as(access: Access, axes: Sequence[Index]) -> bool:
    """Whether the axes of an array, steps left out, stand in this order."""
    bare = [stretch(p) for p in access.at]
    return [i for i in bare if i in axes] == list(axes)


def _operand(
    access: Access, covered: Covered, step: str, batch: Sequence[Index], *groups: Sequence[Index]
) -> str:
    """Return an array with its axes in the order of the groups, each group one axis."""
    bare = [stretch(p) for p in access.at]
    wanted = {*batch, *(i for g in groups for i in g)}
    axes = [i for i in bare if i in wanted]
    kept = [g for g in groups if g]
    want = [*batch, *(i for g in kept for i in g)]
    order = [axes.index(i) for i in want]
    text = code_name(access.array)
    if len(axes) < len(bare) or any(is_part(p) for p in access.at):
        text += _slice(access, covered, wanted, step)
    steps = [p.terms[0][1] for p in access.at if isinstance(p, Affine) and stretch(p) in wanted]
    if any(size != 1 for size in steps):
        text = f"np.ascontiguousarray({text})"  # BLAS takes no such steps
    if order != list(range(len(order))):
        text += ".T" if len(order) == 2 else f".transpose({', '.join(map(str, order))})"
    if any(len(g) != 1 for g in kept):
        text += f".reshape{_shape(batch, kept)}"
    return text


def _slice(access: Access, covered: Covered, whole: Collection[Index], step: str) -> str:
    """Return the subscript that takes one step of a recurrence out of an array."""
    places = []
    for number, position in enumerate(access.at):
        if (access.array, number) in covered and position.bare in whole:
            places.append(":")
        elif stretch(position) in whole:
            places.append(_stretch_text(position))
        elif isinstance(position, Affine):
            places.append(_step_text(position, step))
    while places and places[-1] == ":":
        places.pop()
    return f"[{', '.join(places)}]" if places else ""


def _stretch_text(position: Position) -> str:
    """Return the subscript of the part of an axis that a position runs over."""
    if isinstance(position, Lookup):
        return code_name(position.array)
    (index, step), = position.terms
    if not is_part(position):
        return ":"
    start, stop = position.offset, position.offset + index.dim * step
    begin = "" if start == ZERO else dim_text(start)
    return f"{begin}:{dim_text(stop)}" + (f":{step}" if step != 1 else "")


def _step_text(position: Affine, step: str) -> str:
    """Return a position that a step gives, as in `2 * t - 1`."""
    (_, coefficient), = position.terms
    offset = dim_text(position.offset)
    negative, size = signed(coefficient)
    factor = dim_text(Dim.of(size))
    factor = factor if factor.isalnum() or factor.isidentifier() else f"({factor})"
    text = ("-" if negative else "") + (step if size == 1 else f"{factor} * {step}")
    if not position.offset.terms:
        return text
    return f"{text} - {offset[1:]}" if re.fullmatch(r"-\d+", offset) else f"{text} + {offset}"


def _shape(batch: Sequence[Index], groups: Sequence[Sequence[Index]]) -> str:
    sizes = [dim_text(i.dim) for i in batch]
    for group in groups:
        factors = [dim_text(i.dim) for i in group]
        alone = len(factors) == 1
        wrapped = [f if alone or f.isidentifier() or f.isdigit() else f"({f})" for f in factors]
        sizes.append(" * ".join(wrapped) or "1")
    return tuple_text(sizes)


__all__ = ["is_layered", "is_stack", "oriented", "product_lines"]
