"""A program in index notation as a function of a tool's arrays.

definitions, Tool -> Translation -> {name: array}
Sums of products become einsum, everything else the tool's functions of whole arrays. With `sample`
the batch axis is left out of all arrays: a function of one sample, which tools map over many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import pi
from typing import Any

import numpy as np

from symgrad.against.labelled import Algebra, Axes, Labelled
from symgrad.against.reading import Reading
from symgrad.against.slopes import slope
from symgrad.against.tool import Array, Tool, tool
from symgrad.against.values import OPERATORS, value
from symgrad.errors import CodegenError
from symgrad.program import (
    Access,
    Apply,
    Constant,
    Definition,
    Delta,
    Guard,
    Index,
    Number,
    Place,
    Primitive,
    Program,
    Reduce,
    Rowwise,
    Scalar,
    Size,
    Term,
    blocks,
)
from symgrad.scatter import numbers

UNROLLED = 256
"""Steps of a recurrence that are translated at most where all of them are compiled."""


@dataclass(frozen=True, slots=True)
class Translation:
    """What all evaluations share: a program, sizes of its dims (and of the batch), a tool."""

    program: Program
    tool: Tool
    sizes: Mapping[str, int]
    sample: bool = False

    def own(self, axes: Sequence[Index]) -> Axes:
        """Return the axes that arrays have here: without the batch in a function of one sample."""
        return tuple(i for i in axes if not (self.sample and i == self.program.batch))

    def run(self, definitions: Sequence[Definition], arrays: Mapping[str, Array]) -> Run:
        """Return an evaluation of definitions, all their values in it."""
        constants = {t.name: np.asarray(numbers(t, self.sizes)) for t in self.program.tables}
        held = {n: self.tool.constant(a) for n, a in constants.items()}
        integers = {a.name for a in self.program.arrays if a.role == "index"} | held.keys()
        run = Run(self, {**arrays, **held}, integers)
        with np.errstate(all="ignore"):
            for unit in blocks(definitions):
                run.unit(unit)
        return run

    def outputs(self, run: Run) -> tuple[Array, ...]:
        """Return the outputs, with a batch axis if the layer has any input."""
        batched = any(a.batched for a in self.program.arrays)
        found = []
        for name in self.program.outputs:
            made = self.program.definition(name)
            assert made is not None
            axes = self.own(made.indices)
            lead = self.own((self.program.batch,)) if batched else ()
            whole = axes if not lead or axes[:1] == lead else (*lead, *axes)
            found.append(run.algebra.spread(Labelled(run.values[name], axes), whole))
        return tuple(found)


@dataclass(slots=True)
class Run(Reading):
    """One evaluation; steps of a recurrence that is not finished are a list."""

    made: Translation
    values: dict[str, Any]
    integers: set[str]
    fixed: dict[Index, int] = field(default_factory=dict)
    algebra: Algebra = field(init=False)
    seen: dict[Any, Any] = field(default_factory=dict)
    members: dict[str, Definition] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.algebra = Algebra(self.made.tool, self.size)

    @property
    def has(self) -> Any:
        """The tool's functions."""
        return self.made.tool.has

    def unit(self, unit: Sequence[Definition]) -> None:
        """Evaluate one definition, or all members of a recurrence step by step."""
        if unit[0].loop is None:
            self.values[unit[0].name] = self.definition(unit[0])
            return
        steps = self.size(unit[0].loop.index)
        if self.made.tool.name == "jax" and steps > UNROLLED:
            raise CodegenError(f"a recurrence of {steps} steps would be compiled unrolled")
        for member in unit:
            self.values[member.name] = [None] * steps
            self.members[member.name] = member
        for step in reversed(range(steps)) if unit[0].loop.reverse else range(steps):
            for member in unit:
                assert member.loop is not None
                self.fixed = {member.loop.index: step}
                self.seen.clear()
                self.values[member.name][step] = self.definition(member)
        self.fixed = {}
        for member in unit:
            assert member.loop is not None
            place = self.made.own(member.indices).index(member.loop.index)
            self.values[member.name] = self.has.stack(self.values[member.name], place)

    def definition(self, made: Definition) -> Array:
        """Return the value of a definition over its indices, of one step of a recurrence."""
        axes = tuple(i for i in self.made.own(made.indices) if i not in self.fixed)
        match made.body:
            case Reduce():
                found = self.reduced(made.body, axes)
                if made.body.kind.startswith("arg"):
                    self.integers.add(made.name)
            case Rowwise():
                found = self.rowwise(made.body, axes)
            case Primitive():
                found = self.primitive(made.body, axes)
            case _:
                found = self.terms(made.body, axes)
        whole = self.algebra.spread(found, axes)
        return self.has.stop(whole) if made.frozen else whole

    def terms(self, terms: Sequence[Term], axes: Axes) -> Labelled:
        """Return a sum of terms."""
        found = [one for term in terms if (one := self.term(term, axes)) is not None]
        if not found:
            return Labelled(0.0)
        total = found[0]
        for one in found[1:]:
            own, values = self.algebra.together([total, one], axes)
            total = Labelled(values[0] + values[1], own)
        return total

    def term(self, term: Term, axes: Axes) -> Labelled | None:
        """Return the sum over bound indices of a product; None if a mask is false everywhere."""
        layout = (*axes, *self.made.own(term.bound))
        parts = self.parts(term.factors, layout)
        if parts is None:
            return None
        if term.bound:
            return self.algebra.contracted(parts, term.bound, axes)
        return self.algebra.product(parts or [Labelled(1.0)], layout)

    def parts(self, factors: Sequence[Scalar], layout: Axes) -> list[Labelled] | None:
        """Return the factors of a term, masks that hold everywhere left out; None if one never."""
        parts = []
        for factor in sorted(factors, key=lambda f: not isinstance(f, (Delta, Guard))):
            if isinstance(factor, (Delta, Guard)):
                mask = self.mask(factor, layout)
                if mask.static and not mask.value.any():
                    return None
                if mask.static and mask.value.all():
                    continue
            parts.append(self.scalar(factor, layout))
        return parts

    def scalar(self, scalar: Scalar, layout: Axes) -> Labelled:
        """Return a scalar over those of the indices of a layout that it depends on."""
        match scalar:
            case Number():
                return Labelled(float(scalar.value))
            case Constant():
                return Labelled(pi)
            case Size():
                return Labelled(float(scalar.dim.evaluate(self.made.sizes)))
            case Place():
                return self.as_numbers(self.affine(scalar.affine, layout))
            case Access():
                found = self.read(scalar.array, scalar.at, layout)
                return self.as_numbers(found) if scalar.array in self.integers else found
            case Apply():
                return self.apply(scalar, layout)
            case _:
                return self.as_numbers(self.mask(scalar, layout))

    def as_numbers(self, one: Labelled) -> Labelled:
        """Return integers or masks as floating-point numbers."""
        if not one.static:
            return Labelled(self.has.number(one.value), one.axes)
        if not one.axes:
            return Labelled(float(one.value))
        return Labelled(self.made.tool.constant(one.value.astype(np.float64)), one.axes)

    def apply(self, node: Apply, layout: Axes) -> Labelled:
        """Return a function of scalars, element by element."""
        args = [self.scalar(arg, layout) for arg in node.args]
        if node.function == "where" and args[0].plain:
            return args[1] if args[0].value else args[2]
        if all(arg.plain for arg in args):
            exact = [np.float64(arg.value) for arg in args]
            return Labelled(float(_function(node, tool("numpy"))(*exact)))
        axes, values = self.algebra.together(args, layout)
        if node.function in OPERATORS and not any(node.order):
            return Labelled(OPERATORS[node.function](*values), axes)
        key = (node.function, node.order, *map(id, values))
        if key not in self.seen:  # what is read again is not computed again
            whole = [self.made.tool.constant(v) if isinstance(v, float) else v for v in values]
            self.seen[key] = (values, self.function(node, whole))
        found = self.seen[key][1]
        if isinstance(found, float):  # a slope that is the same everywhere
            return Labelled(found)
        if any(node.order) and len(args) > 1:  # one that depends on some of the arguments
            found = self.has.broadcast_to(found, tuple(self.size(i) for i in axes))
        return Labelled(found, axes)

    def function(self, node: Apply, args: list[Array]) -> Array:
        """Return a function of arrays, or its slope; values that there are already are reused."""
        if not any(node.order):
            return _function(node, self.made.tool)(*args)
        if not self.made.tool.slopes:
            raise CodegenError(f"a slope of {node.function} stands in the layer itself")
        uses, of = slope(node.function, node.order, self.has)
        if not uses:
            return of(None, *args)
        key = (node.function, (), *map(id, args))
        if key not in self.seen:
            self.seen[key] = (args, value(node.function, self.has)(*args))
        return of(self.seen[key][1], *args)

    def reduced(self, body: Reduce, axes: Axes) -> Labelled:
        """Return a reduction that is no sum, over all bound axes at once, in C order."""
        full = self.flattened(body.body, axes, body.bound)
        found = getattr(self.has, body.kind)(full)
        return Labelled(found, axes)

    def flattened(self, scalar: Scalar, axes: Axes, bound: Axes) -> Array:
        """Return a scalar over all of some axes, and all that is bound as one axis behind them."""
        layout = (*axes, *bound)
        full = self.algebra.spread(self.scalar(scalar, layout), layout)
        if len(bound) == 1:
            return full
        return self.has.reshape(full, (*(self.size(i) for i in axes), -1))

    def rowwise(self, body: Rowwise, axes: Axes) -> Labelled:
        """Return softmax or log_softmax along the axes that its result is read at."""
        rest = tuple(i for i in axes if i not in body.at)
        found = getattr(self.has, body.kind)(self.flattened(body.body, rest, body.bound))
        layout = (*rest, *body.at)
        if len(body.at) > 1:
            found = self.has.reshape(found, tuple(self.size(i) for i in layout))
        return Labelled(found, layout)

    def primitive(self, body: Primitive, axes: Axes) -> Labelled:
        """Return a function of whole matrices, one for each place that an operand depends on."""
        stack = axes[: len(axes) - len(body.at)]
        pairs = list(zip(body.operands, body.axes, strict=True))
        read = [self.scalar(operand, (*stack, *own)) for operand, own in pairs]
        used = tuple(i for i in stack if any(i in one.axes for one in read))
        operands = [
            self.algebra.spread(one, (*used, *own))
            for one, (_, own) in zip(read, pairs, strict=True)
        ]
        matrix = operands[0]
        if body.kind == "solve":
            vector = len(body.axes[1]) == 1
            right = operands[1][..., None] if vector else operands[1]
            found = self.has.solve(matrix, right)
            found = found[..., 0] if vector else found
        elif body.kind == "cholesky":
            found = self.has.cholesky((matrix + self.has.swapped(matrix)) / 2)
        else:
            found = getattr(self.has, body.kind)(matrix)
        return Labelled(found, (*used, *body.at))


def _function(node: Apply, of: Tool) -> Callable[..., Array]:
    if node.function in OPERATORS:
        return OPERATORS[node.function]
    return value(node.function, of.has)


__all__ = ["Run", "Translation"]
