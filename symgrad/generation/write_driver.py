"""Drivers as Python text: buffers, BLAS products and kernel calls in the order they run.

Schedule -> Written steps
A step that makes each sample from that sample alone can run on a piece of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from symgrad.algebra.ways import ELEMENT
from symgrad.dims import ONE, ZERO, Dim
from symgrad.errors import InternalError
from symgrad.generation.kernel_book import KernelBook, Run
from symgrad.generation.pieces import Branch, Piece, Written
from symgrad.generation.texts import shape_text
from symgrad.generation.words import RESERVED, code_name, dim_text
from symgrad.generation.write_call import call_lines
from symgrad.generation.write_product import product_lines
from symgrad.generation.write_stream import Target
from symgrad.program import BATCH, Lookup
from symgrad.schedule import (
    Buffer,
    Call,
    Choice,
    Kernel,
    Product,
    Schedule,
    Step,
    Walk,
    written_by,
)


def driver_steps(
    schedule: Schedule,
    book: KernelBook,
    is_batched: Callable[[str], bool],
    given: Mapping[str, str] | None = None,
    taken: Collection[str] = (),
    past: Target | None = None,
) -> list[Written]:
    """Return, step by step, the arrays it completes and its lines.

    `given` are buffers that exist already (an `out=`); `taken` are names of other variables; `past`
    is the one that goes past the caches if it is large.
    """
    buffers = {b.name: b for b in schedule.buffers}
    for step in schedule.steps:
        calls = step.steps if isinstance(step, Walk) else (step,)
        book.rough |= {n for c in calls if isinstance(c, Call) for n in written_by(c)}
    book.rough |= {b.name for b in schedule.buffers if {b.over, b.view} & book.rough}
    made = set(given or ())
    steps: list[Written] = []
    for step, complete in zip(schedule.steps, schedule.completed, strict=True):
        writes = written_by(step)
        if isinstance(step, Call):
            steps.append(Written(writes, (), tuple(call_lines(step))))
            made.update(writes)
            continue
        new = [name for name in writes if name not in made]
        made.update(new)
        lines = tuple(f"{code_name(name)} = {_allocation(buffers[name])}" for name in new)
        if isinstance(step, Choice):
            here = dict.fromkeys(made, "")
            pairs = zip(step.costs, step.ways, strict=True)
            branches = tuple(
                Branch(dim_text(c), tuple(driver_steps(w, book, is_batched, here, taken)))
                for c, w in pairs
            )
            steps.append(Written(complete, lines, ways=branches))
            continue
        steps.append(_written(step, complete, lines, _Scene(book, is_batched, taken, past)))
    return steps


@dataclass(frozen=True, slots=True)
class _Scene:
    """What the lines of a step depend on beside it."""

    book: KernelBook
    is_batched: Callable[[str], bool]
    taken: Collection[str]
    past: Target | None

    def run(self, kernel: Kernel, step: str = "") -> Run:
        """Return how a kernel is run."""
        past = self.past
        only = past is not None and kernel.writes == (past.array,) and not step
        return self.book.add(kernel, self.is_batched, step, past if only else None)

    def piece(
        self, lines: Sequence[str], work: Dim, arrays: Collection[str], calls: Dim = ONE
    ) -> Piece:
        """Return a step on some of the samples."""
        batched = tuple(a for a in arrays if self.is_batched(a))
        shared = tuple(a for a in arrays if a not in batched)
        plain = self.book.rough.isdisjoint(arrays)
        return Piece(tuple(lines), work, batched, shared, plain, calls)


def _written(
    step: Step, complete: tuple[str, ...], made: tuple[str, ...], scene: _Scene
) -> Written:
    match step:
        case Kernel():
            if not step.nodes:
                return Written(complete, made, (), Piece((), ZERO, (), ()))
            run = scene.run(step)
            piece = None
            if run.direct is not None:
                piece = scene.piece((run.direct,), step.work * ELEMENT, run.arrays)
            return Written(complete, made, (run.line,), piece)
        case Product():
            lines = product_lines(step)
            piece = None
            if _by_sample(step, scene.is_batched):
                piece = scene.piece(lines, _multiplications(step), _operands(step))
            return Written(complete, made, tuple(lines), piece)
        case Walk():
            return _walked(step, complete, made, scene)
        case Call():
            return Written(complete, made, tuple(call_lines(step)))
        case Choice():
            raise InternalError("a choice has steps of its own")


def _walked(
    walk: Walk, complete: tuple[str, ...], made: tuple[str, ...], scene: _Scene
) -> Written:
    """Return a walk through the steps of a recurrence; one that takes samples one by one, too."""
    wishes = (walk.index.name, "step", *(f"step{n}" for n in range(2, 10000)))
    name = next(w for w in wishes if w not in scene.taken and w not in RESERVED - {"t"})
    size = dim_text(walk.index.dim)
    run = f"range({size} - 1, -1, -1)" if walk.reverse else f"range({size})"
    lines, inside = [f"for {name} in {run}:"], [f"for {name} in {run}:"]
    arrays: dict[str, None] = {}
    work, by_sample = ZERO, True
    for inner in walk.steps:
        match inner:
            case Kernel():
                ran = scene.run(inner, name)
                found, direct = [ran.line], [ran.direct or ""]
                by_sample &= ran.direct is not None
                work += inner.work * ELEMENT
                arrays |= dict.fromkeys(ran.arrays)
            case Product():
                found = direct = product_lines(inner, name)
                by_sample &= _by_sample(inner, scene.is_batched)
                work += _multiplications(inner)
                arrays |= dict.fromkeys(_operands(inner))
            case Call():
                found = direct = call_lines(inner, name)
                by_sample = False
        lines += [f"    {line}" for line in found]
        inside += [f"    {line}" for line in direct]
    piece = None
    if by_sample:
        dim = walk.index.dim
        piece = scene.piece(inside, work * dim, tuple(arrays), dim)
    return Written(complete, made, tuple(lines), piece)


def takes_samples(step: Step, is_batched: Callable[[str], bool]) -> bool:
    """Whether a step makes each sample of its arrays from that of those it reads."""
    match step:
        case Kernel():
            return step.split or not step.nodes
        case Product():
            return _by_sample(step, is_batched)
        case Walk():
            return all(takes_samples(inner, is_batched) for inner in step.steps)
        case Call() | Choice():
            return False


def _by_sample(product: Product, is_batched: Callable[[str], bool]) -> bool:
    """Whether a product gives each sample of its target from that of its operands."""
    if not is_batched(product.target):
        return False
    where = product.target_at[0] if product.target_at else None
    sample = product.target_indices[0]
    if sample.dim != BATCH or (where is not None and where.bare != sample):
        return False
    for access in (product.left, product.right):
        own = [n for n, p in enumerate(access.at) if p.bare == sample]
        if own != ([0] if is_batched(access.array) else []):
            return False
    return True


def _multiplications(product: Product) -> Dim:
    """Return the multiplications of a product for one sample."""
    total = ONE
    for index in (*product.target_indices, *product.inner):
        total = total if index.dim == BATCH else total * index.dim
    return total


def _operands(product: Product) -> tuple[str, ...]:
    """Return the arrays in the lines of a product."""
    places = [*product.left.at, *product.right.at, *product.target_at]
    lists = [p.array for p in places if isinstance(p, Lookup)]
    return tuple(dict.fromkeys((product.left.array, product.right.array, *lists, product.target)))


def _allocation(buffer: Buffer) -> str:
    """Return the expression of a new array, or the array whose place is taken."""
    if buffer.over is not None:
        return code_name(buffer.over)
    if buffer.view is not None:
        return f"{code_name(buffer.view)}.reshape({shape_text(buffer.dims)})"
    shape = shape_text(buffer.dims)
    if buffer.kind == "int":
        return f"np.empty({shape}, np.int64)"
    return f"_space({shape}, dtype)" if BATCH in buffer.dims else f"np.empty({shape}, dtype)"


__all__ = ["driver_steps", "takes_samples"]
