"""Print a schedule as the steps it is: the arrays it fills, matrix products, and plain loops.

Schedule, Program -> str
One step a paragraph, in the order they run; a loop is indented under its index.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.dims import Dim
from symgrad.program import BATCH, Access, Affine, Definition, Index, Program, Rowwise
from symgrad.reading.letters import Letters
from symgrad.schedule import (
    Add,
    Begin,
    Buffer,
    Call,
    Choice,
    Clear,
    Flat,
    For,
    Keep,
    Kernel,
    Let,
    Node,
    Product,
    Row,
    Schedule,
    Step,
    Store,
    Walk,
    When,
)
from symgrad.show import body_text, line_letters, product_text, scalar_text


def show_plan(schedule: Schedule, program: Program) -> str:
    """Return the arrays and the numbered steps of one form as text."""
    lines = [f"array {_buffer(made)}" for made in schedule.buffers]
    for number, step in enumerate(schedule.steps, 1):
        lines += ["", *_step(step, f"{number}", line_letters(program, ()))]
    return "\n".join(lines)


def _step(step: Step, number: str, letters: Letters) -> list[str]:
    """Return the lines of one step; those of a recurrence have numbers like 2.1."""
    match step:
        case Product():
            return [f"{number}. product  {_product(step, letters)}"]
        case Kernel():
            return _kernel(step, number, letters)
        case Call():
            calls = [_call(made, letters) for made in step.definitions]
            return [f"{number}. call     {calls[0]}", *(f"{' ' * 12}{c}" for c in calls[1:])]
        case Walk():
            way = ", backwards" if step.reverse else ""
            with letters.bind((step.index,)) as (name,):
                lines = [f"{number}. for {name} in {step.index.dim}{way}:"]
                for place, inner in enumerate(step.steps, 1):
                    lines += _step(inner, f"{number}.{place}", letters)
            return lines
        case Choice():
            lines = [f"{number}. choose   {step.target}, the fewest multiplications"]
            for letter, cost, made in zip("abc", step.costs, step.ways, strict=False):
                lines.append(f"{number}{letter}. {_size_text(cost)}")
                for place, each in enumerate(made.steps, 1):
                    lines += _step(each, f"{number}{letter}.{place}", letters)
            return lines


def _size_text(cost: Dim) -> str:
    return cost.render().replace("#B", "B")


def _buffer(made: Buffer) -> str:
    axes = f"[{', '.join(_size(d) for d in made.dims)}]" if made.dims else ""
    kind = " of integers" if made.kind == "int" else ""
    place = f", in the place of {made.over}" if made.over else ""
    return f"{made.name}{axes}{kind}{place}"


def _size(dim: Dim) -> str:
    return "B" if dim == BATCH else str(dim)


def _product(step: Product, letters: Letters) -> str:
    with letters.bind(step.target_indices) as _, letters.bind(step.inner) as names:
        at = step.target_at or tuple(Affine.of(i) for i in step.target_indices)
        left = scalar_text(Access(step.target, at), letters)
        body = product_text((step.left, step.right), letters)
    total = f"sum[{', '.join(names)}]({body})" if names else body
    return f"{left} {'+=' if step.adds else '='} {'-' if step.negative else ''}{total}"


def _call(made: Definition, letters: Letters) -> str:
    with letters.bind(made.indices):
        return f"{_element(made.name, made.indices, letters)} = {body_text(made, letters)}"


def _element(array: str, indices: Sequence[Index], letters: Letters) -> str:
    return scalar_text(Access(array, tuple(Affine.of(i) for i in indices)), letters)


def _kernel(step: Kernel, number: str, letters: Letters) -> list[str]:
    """Return the headline of a kernel and its loops."""
    reads = f" from {', '.join(step.reads)}" if step.reads else ""
    shared = ", samples shared out" if step.split else ""
    head = f"{number}. loops    {', '.join(step.writes)}{reads}{shared}; {step.work} elements"
    head += " a sample" if step.split else ""
    return [head, *(line for node in step.nodes for line in _node(node, 1, letters))]


def _node(node: Node, depth: int, letters: Letters) -> list[str]:
    """Return the lines of one node of a loop nest."""
    pad = "   " * depth
    match node:
        case For():
            with letters.bind((node.index,)) as (name,):
                over = "samples" if node.index.dim == BATCH else str(node.index.dim)
                over += ", backwards" if node.reverse else ""
                head = f"{pad}for {name} in {over}:"
                return [head, *_below(node.body, depth, letters)]
        case When():
            tests = " and ".join(scalar_text(c, letters) for c in node.conditions)
            return [f"{pad}where {tests}:", *_below(node.body, depth, letters)]
        case Row():
            return [f"{pad}{_row(node, letters)}"]
        case Flat():
            return _below(node.body, depth, letters)
        case _:
            return [f"{pad}{_leaf(node, letters)}"]


def _below(nodes: Sequence[Node], depth: int, letters: Letters) -> list[str]:
    return [line for node in nodes for line in _node(node, depth + 1, letters)]


def _leaf(node: Let | Begin | Add | Store | Keep | Clear, letters: Letters) -> str:
    match node:
        case Keep():
            return f"keep {scalar_text(node.scalar, letters)}"
        case Let():
            return f"v{node.slot} = {product_text(node.factors, letters)}"
        case Begin():
            return f"v{node.slot} = 0"
        case Add():
            return f"v{node.slot} += {_value(node.lets, node, letters)}"
        case Store():
            target = scalar_text(Access(node.array, node.at), letters)
            return f"{target} {node.operator} {_value(node.lets, node, letters)}"
        case Clear():
            return f"{scalar_text(Access(node.array, node.at), letters)} = 0, all of it"


def _value(lets: Sequence[int], node: Add | Store, letters: Letters) -> str:
    """Return the product of local variables and factors."""
    named = [f"v{slot}" for slot in lets]
    rest = [product_text(node.factors, letters)] if node.factors else []
    return "*".join((*named, *rest)) or "1"


def _row(node: Row, letters: Letters) -> str:
    """Return the line of a primitive reduction over one row."""
    made = node.definition
    along = made.body.at if isinstance(made.body, Rowwise) else ()
    with letters.bind(along):
        return f"{_element(made.name, made.indices, letters)} = {body_text(made, letters)}"
