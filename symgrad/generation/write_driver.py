"""Drivers as Python text: buffers, BLAS products and kernel calls in the order they run.

Schedule -> lines
A matrix product is written for the axes as they lie in memory; reshapes are views.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from symgrad.algebra.ways import ELEMENT
from symgrad.dims import ONE, ZERO, Dim, signed
from symgrad.errors import InternalError
from symgrad.functions import singles, twins
from symgrad.generation.fold import fold
from symgrad.generation.pieces import Branch, Piece, Written
from symgrad.generation.write_call import call_lines
from symgrad.generation.write_kernel import (
    RESERVED,
    KernelText,
    code_name,
    dim_text,
    size_name,
    write_kernel,
)
from symgrad.generation.write_stream import Target, is_scatter, is_steady
from symgrad.program import BATCH, Access, Affine, Index, Lookup, Position
from symgrad.schedule import (
    Buffer,
    Call,
    Choice,
    Kernel,
    Product,
    Schedule,
    Step,
    Walk,
    is_part,
    stretch,
    written_by,
)

CASTS = r"number\((?:[^()]|\([^()]*\))*\)|range\(.*|^ *(?:stream|clear)\("
"""Brackets of a line that order no additions: sums may still be taken in any order."""


@dataclass(frozen=True, slots=True)
class Run:
    """The statement that runs a kernel on all samples, and the one that does on some of them.

    `arrays` are those that it gets.
    """

    line: str
    direct: str | None = None
    arrays: tuple[str, ...] = ()


@dataclass(slots=True)
class KernelBook:
    """All kernels of a module; texts that differ in names only are one function.

    Where a kernel calls functions with twins for float32, or for complex arrays in the module of
    an `analytic` layer, drivers ask for the kernel of their dtype. Arrays that LAPACK returns, and
    views of them, are `rough`: they may not lie in C order.
    """

    analytic: bool = False
    functions: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    helpers: dict[str, None] = field(default_factory=dict)
    streams: bool = False
    rough: set[str] = field(default_factory=set)
    scatters: dict[str, bool] = field(default_factory=dict)

    def add(
        self,
        kernel: Kernel,
        is_batched: Callable[[str], bool],
        step: str = "",
        past: Target | None = None,
    ) -> Run:
        """Return the statements that run the kernel, having noted its text.

        `step` is what the driver calls the step of a recurrence; `past` is a result that goes past
        the caches if it is large.
        """
        text = write_kernel(kernel, analytic=self.analytic, rough=self.rough)
        for helper in text.helpers:
            self.helpers[helper] = None
        batched = tuple(a for a in text.arrays if kernel.split and is_batched(a))
        shared = tuple(code_name(a) for a in text.arrays if a not in batched)
        batched = tuple(code_name(a) for a in batched)
        sizes = tuple(s for s in text.sizes if not (kernel.split and s == "n_B"))
        first = ("n_B",) if kernel.split else ()
        names = (*batched, *shared, *first, *sizes, *((text.step,) if text.step else ()))
        sizes = (*sizes, step) if text.step else sizes
        name = self.function(f"_fill_{kernel.writes[-1].strip('_')}", text, names)
        callee = self.typed(name, text)
        if past is not None:
            large = write_kernel(kernel, analytic=self.analytic, past=past, rough=self.rough)
            if large.streams:
                callee = self.choice(callee, large, names, past)
            if is_scatter(kernel, past.array):
                callee = self.scatter(callee, kernel, names, past.array)
        if not kernel.split:
            called = f"({callee})" if " if " in callee else callee
            return Run(f"{called}({', '.join((*shared, *sizes))})")
        work = kernel.work if past is None else kernel.work + _volume(past.dims)
        line = (
            f"_share({callee}, n_B, {dim_text(work)}, "
            f"{tuple_text(batched)}, {tuple_text(shared)}, {tuple_text(sizes)})"
        )
        direct = f"{callee}({', '.join((*batched, *shared, 'n_B', *sizes))})"
        return Run(line, direct if past is None else None, text.arrays)

    def alone(
        self,
        kernel: Kernel,
        results: Sequence[str],
        scratch: Mapping[str, tuple[Dim, ...]],
        whole: Collection[str],
    ) -> str:
        """Return the statement that runs a kernel which makes results of the declared arrays.

        It keeps `scratch` of one sample to itself; those of them in `whole` hold integers.
        """
        text = write_kernel(kernel, analytic=self.analytic, scratch=scratch)
        for helper in text.helpers:
            self.helpers[helper] = None
        model = code_name(results[-1])
        made = [
            f"    {code_name(a)} = np.empty({shape_text(dims or (ONE,))}, "
            f"{'np.int64' if a in whole else f'{model}.dtype'})"
            for a, dims in scratch.items()
        ]
        sizes = dict.fromkeys((*text.sizes, *(size_name(n) for d in scratch.values() for dim in d
                                              for n in dim.names)))  # fmt: skip
        others = [code_name(a) for a in text.arrays if a not in results]
        names = (*others, *map(code_name, results), *sizes)
        text = replace(text, lines=(*made, *text.lines))
        name = self.function(f"_fill_few_{results[-1].strip('_')}", text, names)
        return f"{self.typed(name, text)}({', '.join(names)})"

    def typed(self, name: str, text: KernelText) -> str:
        """Return a kernel's name, or the call that finds the kernel for the dtype at hand."""
        if not singles(text.helpers) and not (self.analytic and twins(text.helpers)):
            return name
        flags = ", sums" if self.functions[name].startswith("@sums") else ""
        return f"_typed({name}, dtype{flags})"

    def choice(self, callee: str, large: KernelText, names: Sequence[str], past: Target) -> str:
        """Return which kernel is called: the one that streams what it writes, or `callee`."""
        self.streams = True
        streaming = self.function(f"_stream_{past.array.strip('_')}", large, names)
        run = dim_text(past.dims[-1]) if large.streams == "rows" else "0"
        streaming = self.typed(streaming, large)
        return f"_past({code_name(past.array)}, {run}, {callee}, {streaming})"

    def scatter(self, callee: str, kernel: Kernel, names: Sequence[str], array: str) -> str:
        """Return which kernel is called: the one that clears nothing, where there are zeros."""
        text = write_kernel(kernel, analytic=self.analytic, rough=self.rough, zeroed=array)
        name = self.function(f"_scatter_{array.strip('_')}", text, names)
        self.scatters[array] = is_steady(kernel.nodes, array)
        return f"{name} if zeroed else {callee}"

    def function(self, wish: str, text: KernelText, names: Sequence[str]) -> str:
        """Return what a kernel is called, having noted it; the same one for the same text."""
        plain = any("(" in re.sub(CASTS, "", line) for line in text.lines)
        decorator = "@sums" if any(" += " in x for x in text.lines) and not plain else "@loops"
        name = self.name(wish, _anonymous(names, "\n".join(text.lines)))
        if name not in self.functions:
            head = fold(f"def {name}({', '.join(names)}):")
            self.functions[name] = "\n".join((decorator, head, *map(fold, text.lines)))
        return name

    def name(self, wish: str, key: str) -> str:
        """Return the function name for a key, the same one for the same key."""
        if key not in self.names:
            name, number = wish, 1
            while name in self.functions:
                number += 1
                name = f"{wish}_{number}"
            self.names[key] = name
        return self.names[key]


def _anonymous(parameters: Sequence[str], body: str) -> str:
    """Return a kernel's text with parameters, loop variables and locals numbered."""
    own = {*parameters, *re.findall(r"^ *(?:for )?(\w+) (?:in|[-+*/]?=) ", body, re.MULTILINE)}
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        word = match[0]
        return numbers.setdefault(word, f"#{len(numbers)}") if word in own else word

    return re.sub(r"(?<![\w.])[^\W\d]\w*", number, f"{', '.join(parameters)}:\n{body}")


def tuple_text(names: Sequence[str]) -> str:
    """Return a tuple of expressions as Python text."""
    return f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"


def shape_text(dims: Sequence[Dim]) -> str:
    """Return a shape as Python text."""
    return tuple_text([dim_text(d) for d in dims]) if dims else "()"


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

    def piece(self, lines: Sequence[str], work: Dim, arrays: Collection[str]) -> Piece:
        """Return a step on some of the samples."""
        batched = tuple(a for a in arrays if self.is_batched(a))
        return Piece(tuple(lines), work, batched, tuple(a for a in arrays if a not in batched))


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
    piece = scene.piece(inside, work * walk.index.dim, tuple(arrays)) if by_sample else None
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


def _volume(dims: Sequence[Dim]) -> Dim:
    """Return the elements of one sample of an array."""
    total = ONE
    for dim in dims:
        total = total if dim == BATCH else total * dim
    return total


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
        return [_step_product(p, target, f"np.matmul({a}, {b}", direct, flat)]
    if p.target_indices == direct:
        if p.adds:
            plain = not p.batch and len(groups) == 2
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


__all__ = [
    "KernelBook",
    "driver_steps",
    "is_layered",
    "is_stack",
    "oriented",
    "product_lines",
    "shape_text",
    "tuple_text",
]
