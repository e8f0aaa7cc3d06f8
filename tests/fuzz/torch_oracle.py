"""A layer's value and Jacobians by PyTorch in float64: an interpreter of programs over tensors.

Program, arrays -> {output: array}, {(output, θ): array}
Every index is an axis of its own; PyTorch differentiates. Nothing is shared with the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from symgrad.dims import Dim
from symgrad.program import (
    Access,
    Affine,
    Apply,
    Body,
    Constant,
    Definition,
    Delta,
    Guard,
    Index,
    Lookup,
    Number,
    Place,
    Position,
    Primitive,
    Program,
    Reduce,
    Rowwise,
    Scalar,
    Size,
    blocks,
)
from symgrad.proof.sizes import sizes as solve_sizes

Tensor = Any
F = torch.nn.functional
Layout = tuple[Index, ...]


class Unsupported(Exception):
    """PyTorch has no such function, or none with our value."""


def _sum_to(value: Tensor, count: int) -> Tensor:
    return value.sum(dim=tuple(range(count, value.ndim))) if value.ndim > count else value


def _mask(compare: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *args: compare(*args).to(torch.float64)


def _bounded(z: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return torch.where(z <= low, low, torch.where(z >= high, high, z))


def _clipped(z: Tensor, low: Tensor, high: Tensor) -> Tensor:
    raised = torch.where(z < low, low, z)  # at a bound the slope is z's
    return torch.where(raised > high, high, raised)


def _shrunk(z: Tensor, bound: Tensor) -> Tensor:
    return torch.where(z > bound, z - bound, torch.where(z < -bound, z + bound, 0 * bound * z))


FUNCTIONS: Mapping[str, Callable[..., Tensor]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "neg": torch.neg,
    "pow": torch.pow, "lt": _mask(torch.lt), "le": _mask(torch.le), "gt": _mask(torch.gt),
    "ge": _mask(torch.ge), "eq": _mask(torch.eq), "ne": _mask(torch.ne),
    "and_": _mask(lambda a, b: (a != 0) & (b != 0)),
    "or_": _mask(lambda a, b: (a != 0) | (b != 0)), "not_": _mask(lambda a: a == 0),
    "where": lambda m, a, b: torch.where(m != 0, a, b),
    **{n: getattr(torch, n) for n in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "square", "reciprocal",
        "abs", "sign", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "sinh", "cosh",
        "tanh", "arcsinh", "arccosh", "arctanh", "erf", "erfc", "lgamma", "digamma", "maximum",
        "minimum", "hypot", "logaddexp", "floor", "ceil", "round", "sigmoid", "relu",
    )},
    "cbrt": lambda z: z.sign() * z.abs() ** (1 / 3),
    "gamma": lambda z: torch.exp(torch.lgamma(z)),  # for z > 0
    "clip": _clipped,
    "heaviside": lambda z, h: torch.where(z > 0, 1.0, torch.where(z < 0, 0.0, h)),
    "ratio_or_zero": lambda a, b: torch.where(b == 0, 0.0, a / torch.where(b == 0, 1.0, b)),
    "exp_difference": lambda a, b: torch.exp(a - b),
    "identity": lambda z: z,
    "leaky_relu": lambda z, s: torch.where(z > 0, z, s * z),
    "prelu": lambda z, s: torch.where(z > 0, z, s * z),
    "relu6": F.relu6, "selu": F.selu, "gelu": F.gelu, "silu": F.silu, "mish": F.mish,
    "gelu_tanh": lambda z: F.gelu(z, approximate="tanh"),
    "elu": lambda z, a: torch.where(z > 0, z, a * torch.expm1(torch.where(z > 0, 0.0, z))),
    "celu": lambda z, a: torch.where(z > 0, z, a * torch.expm1(torch.where(z > 0, 0.0, z) / a)),
    "softplus": lambda z: torch.logaddexp(z, torch.zeros_like(z)), "softsign": F.softsign,
    "log_sigmoid": F.logsigmoid, "tanhshrink": F.tanhshrink,
    # PyTorch's own slopes of these two hold 1/6 in float32
    "hardsigmoid": lambda z: _bounded(z + 3, 0 * z, 0 * z + 6) / 6,
    "hardswish": lambda z: torch.where(z <= -3, 0.0, torch.where(z < 3, z * (z + 3) / 6, z)),
    "hardtanh": _bounded,
    "softshrink": _shrunk, "hardshrink": lambda z, b: torch.where(z.abs() <= b, 0.0, z),
    "threshold": lambda z, t, v: torch.where(z <= t, v, z),
}  # fmt: skip


def torch_forward(
    program: Program, arrays: Mapping[str, Tensor], known: Mapping[str, int]
) -> dict[str, Tensor]:
    """Return every definition as a tensor."""
    run = _Run(program, dict(arrays), known)
    for unit in blocks(program.definitions):
        if unit[0].loop is not None:
            run.recurrence(unit)
            continue
        value = run.body(unit[0].body, unit[0].indices)
        run.values[unit[0].name] = value.detach() if unit[0].frozen else value
    return run.values


def torch_jacobians(
    program: Program, arrays: Mapping[str, Any], names: Sequence[str]
) -> tuple[dict[str, Any], dict[tuple[str, str], Any]]:
    """Return values and Jacobians `[B, *out, *p]` of all outputs. Raises Unsupported."""
    known = solve_sizes(program, {n: np.shape(a) for n, a in arrays.items()})
    fixed: dict[str, Tensor] = {}
    for array in program.arrays:
        value = arrays.get(array.name, array.default)
        kind = torch.int64 if array.role == "index" else torch.float64
        fixed[array.name] = torch.as_tensor(np.asarray(value)).to(kind)
    batched = any(a.batched for a in program.arrays)
    rows = known.get("#B", 1)

    def outputs(chosen: dict[str, Tensor]) -> dict[str, Tensor]:
        values = torch_forward(program, {**fixed, **chosen}, known)
        found = {}
        for name in program.outputs:
            definition = program.definition(name)
            assert definition is not None
            value = values[name]
            if batched and program.batch not in definition.indices:
                value = value.expand(rows, *value.shape)
            found[name] = value
        return found

    chosen = {n: fixed[n] for n in names}
    values = {n: v.numpy() for n, v in outputs(chosen).items()}
    whole = torch.func.jacrev(outputs)(chosen)
    jacobians = {}
    for output in program.outputs:
        for name in names:
            array = program.array(name)
            assert array is not None
            found = whole[output][name]
            if array.batched:  # [B, *out, B, *in]: samples do not mix
                own = values[output].ndim
                found = torch.movedim(torch.diagonal(found, 0, 0, own), -1, 0)
            jacobians[output, name] = found.numpy()
    return values, jacobians


class _Run:
    def __init__(
        self, program: Program, values: dict[str, Tensor], known: Mapping[str, int]
    ) -> None:
        self.values = values
        self.known = known
        self.fixed: dict[Index, int] = {}

    def recurrence(self, members: Sequence[Definition]) -> None:
        """Evaluate members step by step; steps not done yet are zeros."""
        done: dict[str, list[Tensor]] = {m.name: [] for m in members}
        for member in members:
            self.values[member.name] = torch.zeros(self.shape(member.indices), dtype=torch.float64)
        length = self.size(members[0].loop.index.dim)
        for step in range(length):
            for member in members:
                axis = member.indices.index(member.loop.index)
                self.fixed = {member.loop.index: step}
                rest = tuple(i for i in member.indices if i != member.loop.index)
                value = self.body(member.body, rest)
                done[member.name].append(value.detach() if member.frozen else value)
                zeros = [torch.zeros_like(value)] * (length - step - 1)
                self.values[member.name] = torch.stack([*done[member.name], *zeros], axis)
        self.fixed = {}

    def size(self, dim: Dim) -> int:
        return max(0, dim.evaluate(self.known))

    def shape(self, layout: Layout) -> tuple[int, ...]:
        return tuple(self.size(i.dim) for i in layout)

    def body(self, body: Body, axes: Layout) -> Tensor:
        if isinstance(body, Reduce):
            return self.reduction(body, axes)
        if isinstance(body, Rowwise):
            return self.rowwise(body, axes)
        if isinstance(body, Primitive):
            return self.matrices(body, axes)
        total = torch.zeros(self.shape(axes), dtype=torch.float64)
        for term in body:
            layout = (*axes, *term.bound)
            # a masked factor must not turn a nan read outside into nan
            product = torch.ones((), dtype=torch.float64)
            for factor in term.factors:
                product = product * self.scalar(factor, layout)
            masks = [f for f in term.factors if isinstance(f, Delta | Guard)]
            for mask in masks:
                product = torch.where(self.scalar(mask, layout) != 0, product, 0.0)
            total = total + _sum_to(product.expand(self.shape(layout)), len(axes))
        return total

    def matrices(self, body: Primitive, axes: Layout) -> Tensor:
        stack = axes[: len(axes) - len(body.at)]
        first, *others = (
            self.full(operand, (*stack, *own))
            for operand, own in zip(body.operands, body.axes, strict=True)
        )
        match body.kind:
            case "inv":
                return torch.linalg.inv(first)
            case "det":
                return torch.linalg.det(first)
            case "logdet":
                return torch.logdet(first)
            case "cholesky":
                return torch.linalg.cholesky((first + first.mT) / 2)
            case "solve":
                vector = others[0].ndim < first.ndim
                right = others[0].unsqueeze(-1) if vector else others[0]
                found = torch.linalg.solve(first, right)
                return found.squeeze(-1) if vector else found
        raise Unsupported(body.kind)

    def full(self, scalar: Scalar, layout: Layout) -> Tensor:
        return self.scalar(scalar, layout).expand(self.shape(layout))

    def reduction(self, body: Reduce, axes: Layout) -> Tensor:
        rows = self.full(body.body, (*axes, *body.bound))
        rows = rows.reshape((*rows.shape[: len(axes)], -1))
        match body.kind:
            case "prod":
                return rows.prod(-1)
            case "max" | "min":
                place = rows.argmax(-1) if body.kind == "max" else rows.argmin(-1)
                return rows.gather(-1, place.unsqueeze(-1)).squeeze(-1)
            case "logsumexp":
                return rows.logsumexp(-1)
            case "norm":
                return torch.linalg.vector_norm(rows, dim=-1)
        raise Unsupported(body.kind)

    def rowwise(self, body: Rowwise, axes: Layout) -> Tensor:
        reads = dict(zip(body.at, body.bound, strict=True))
        layout = tuple(reads.get(i, i) for i in axes)
        rows = self.full(body.body, layout)
        along = [layout.index(i) for i in body.bound]
        last = list(range(-len(along), 0))
        moved = torch.movedim(rows, along, last)
        flat = moved.reshape((*moved.shape[: moved.ndim - len(along)], -1))
        found = flat.softmax(-1) if body.kind == "softmax" else flat.log_softmax(-1)
        return torch.movedim(found.reshape(moved.shape), last, along)

    def affine(self, affine: Affine, layout: Layout) -> Tensor:
        total = torch.full(
            (1,) * len(layout), affine.offset.evaluate(self.known) if affine.offset.terms else 0
        )
        for index, coefficient in affine.terms:
            if index in self.fixed:
                total = total + coefficient * self.fixed[index]
                continue
            shape = [1] * len(layout)
            shape[layout.index(index)] = -1
            weight = Dim.of(coefficient).evaluate(self.known)
            total = total + weight * torch.arange(self.size(index.dim)).reshape(shape)
        return total

    def position(self, position: Position, layout: Layout) -> Tensor:
        if isinstance(position, Lookup):
            return self.gather(position.array, position.at, layout)
        return self.affine(position, layout)

    def gather(self, name: str, at: tuple[Position, ...], layout: Layout) -> Tensor:
        array = self.values[name]
        if not at:
            return array.reshape((1,) * len(layout))
        places = [self.position(p, layout) for p in at]
        places = [p.clamp(0, size - 1) for p, size in zip(places, array.shape, strict=True)]
        return array[tuple(torch.broadcast_tensors(*places))]

    def scalar(self, scalar: Scalar, layout: Layout) -> Tensor:
        def number(value: float) -> Tensor:
            return torch.full((1,) * len(layout), value, dtype=torch.float64)

        match scalar:
            case Number(value):
                return number(float(value))
            case Constant():
                return number(float(np.pi))
            case Size(dim):
                return number(float(dim.evaluate(self.known)))
            case Place(affine):
                return self.affine(affine, layout).to(torch.float64)
            case Access(array, at):
                return self.gather(array, at, layout).to(torch.float64)
            case Delta(left, right):
                return (self.position(left, layout) == self.position(right, layout)).to(
                    torch.float64
                )
            case Guard(position, dim):
                place = self.affine(position, layout)
                return ((place >= 0) & (place < self.size(dim))).to(torch.float64)
            case Apply(function, args, order):
                if function not in FUNCTIONS or any(order):
                    raise Unsupported(function)
                return FUNCTIONS[function](*(self.scalar(a, layout) for a in args))
        raise Unsupported(type(scalar).__name__)
