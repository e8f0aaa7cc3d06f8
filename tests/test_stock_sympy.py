"""An oracle that knows nothing of our algebra: stock sympy differentiates `Sum` and `Indexed`.

A layer becomes one expression a output, with a fresh `Dummy` for every bound index (sympy is right
only then); sympy differentiates it with respect to `W[p, q]`, and the derivative is evaluated with
numbers entry by entry.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import sympy
from layers import TEXTS

import symgrad as sg
from symgrad.check import check
from symgrad.functions import FUNCTIONS
from symgrad.parse import parse
from symgrad.program import (
    Access,
    Affine,
    Apply,
    Constant,
    Delta,
    Guard,
    Number,
    Place,
    Reduce,
    Rowwise,
    Size,
)

CASES = Path(__file__).parent / "cases"
LAYERS = {
    **TEXTS,
    **{p.stem: json.loads(p.read_text())["layer"] for p in sorted(CASES.glob("*.json"))},
    "norm": "x: input[n]\nW: param[m, n]\ny = norm(W @ x) * (W @ x)",
    "variance": "x: input[n]\na: param[n]\ny = a * x / std(a * x)",
    "double": "A: param[n, n]\nx: input[n]\ny = x @ A @ x + sum[i, j](A[i, j] * A[j, i])",
    "gaussian": "x: input[n, d]\nz: param[m, d]\ns: param\n"
    "K[i, j] = exp(-0.5 * sum[k]((x[i, k] - z[j, k])**2) / s**2)",
    "bilinear": "x: input[p]\ny: input[q]\nW: param[r, p, q]\nb: param[r]\n"
    "z[k] = gelu(sum[i, j](x[i] * W[k, i, j] * y[j]) + b[k])",
}
BEYOND = {
    "pool": "the first winner of a maximum",
    "embedding": "gathering",
    "embedding_gather": "gathering",
    "rnn_over_time": "recurrences",
    "three_scalars_selected": "stop_gradient",
}
"""Layers that hold what stock sympy has no words for."""


class Inlined:
    """Definitions written out: an element of an array as one sympy expression."""

    def __init__(self, program):
        self.program = program
        self.bases = {a.name: sympy.IndexedBase(a.name) for a in program.arrays}
        self.scalars = {a.name: sympy.Symbol(a.name, real=True) for a in program.arrays}
        self.dims = {}

    def dim(self, dim):
        total = sympy.Integer(0)
        for monomial, coefficient in dim.terms:
            product = sympy.Integer(coefficient)
            for name, power in monomial:
                symbol = self.dims.setdefault(name, sympy.Symbol(f"n_{name}", integer=True))
                product *= symbol**power
            total += product
        return total

    def affine(self, affine, at):
        return sum((c * at[i] for i, c in affine.terms), self.dim(affine.offset))

    def element(self, name, places):
        """Return an element; `places` holds no position of the sample."""
        definition = self.program.definition(name)
        if definition is None:
            return self.bases[name][places] if places else self.scalars[name]
        own = [i for i in definition.indices if i != self.program.batch]
        at = dict(zip(own, places, strict=True))
        body = definition.body
        if isinstance(body, Rowwise):
            return self.rowwise(body, at)
        if isinstance(body, Reduce):
            return self.reduction(body, at)
        return sum((self.term(term, at) for term in body), sympy.Integer(0))

    def bind(self, bound, at):
        fresh = {i: sympy.Dummy(i.name, integer=True) for i in bound}
        limits = [(fresh[i], 0, self.dim(i.dim) - 1) for i in bound]
        return {**at, **fresh}, limits

    def summed(self, bound, at, inner):
        at, limits = self.bind(bound, at)
        value = inner(at)
        return sympy.Sum(value, *limits) if limits else value

    def term(self, term, at):
        def product(inside):
            return sympy.prod([self.scalar(f, inside) for f in term.factors])

        return self.summed(term.bound, at, product)

    def reduction(self, body, at):
        if body.kind == "logsumexp":
            total = self.summed(body.bound, at, lambda i: sympy.exp(self.scalar(body.body, i)))
            return sympy.log(total)
        assert body.kind == "norm"
        return sympy.sqrt(
            self.summed(body.bound, at, lambda inside: self.scalar(body.body, inside) ** 2)
        )

    def rowwise(self, body, at):
        here = {b: at[i] for i, b in zip(body.at, body.bound, strict=True)}
        above = self.scalar(body.body, {**at, **here})
        total = self.summed(body.bound, at, lambda i: sympy.exp(self.scalar(body.body, i)))
        return sympy.exp(above) / total if body.kind == "softmax" else above - sympy.log(total)

    def scalar(self, scalar, at):
        match scalar:
            case Number(value):
                return sympy.Integer(value) if isinstance(value, int) else sympy.Float(value)
            case Constant():
                return sympy.pi
            case Size(dim):
                return self.dim(dim)
            case Place(affine):
                return self.affine(affine, at)
            case Delta(Affine() as left, Affine() as right):
                return sympy.KroneckerDelta(self.affine(left, at), self.affine(right, at))
            case Guard(position, dim):
                place = self.affine(position, at)
                inside = sympy.And(place >= 0, place < self.dim(dim))
                return sympy.Piecewise((1, inside), (0, True))
            case Apply(function, args, ()):
                return FUNCTIONS[function].body(*(self.scalar(a, at) for a in args))
            case Access(name, positions):
                batched = positions and positions[0] == Affine.of(self.program.batch)
                return self.element(
                    name, tuple(self.affine(p, at) for p in positions[int(bool(batched)) :])
                )
        raise AssertionError(scalar)


def sizes_for(program):
    names = sorted({n for a in program.arrays for d in a.axes for n in d.names})
    return {name: 2 + number % 2 for number, name in enumerate(names)}


def arrays_for(program, sizes):
    rng = np.random.default_rng(7)
    return {
        a.name: rng.uniform(0.2, 1.0, size=tuple(d.evaluate(sizes) for d in a.axes))
        if a.default is None
        else a.default
        for a in program.arrays
    }


def derivative(inlined, output, parameter):
    """Return a function of the entry (output's and parameter's positions) and the arrays."""
    program = inlined.program
    out = [sympy.Dummy(f"o{n}", integer=True) for n, i in enumerate(
        i for i in program.definition(output).indices if i != program.batch)]  # fmt: skip
    array = program.array(parameter)
    theta = [sympy.Dummy(f"p{n}", integer=True) for n in range(len(array.axes))]
    value = inlined.element(output, tuple(out))
    variable = inlined.element(parameter, tuple(theta))
    slope = sympy.diff(value, variable)
    names = [a.name for a in program.arrays]
    holders = [inlined.bases[a.name] if a.axes else inlined.scalars[a.name] for a in program.arrays]
    dims = list(inlined.dims.values())
    kernels = [{"KroneckerDelta": lambda i, j: float(i == j)}, "scipy", "numpy"]
    function = sympy.lambdify([*out, *theta, *dims, *holders], slope, modules=kernels)
    return lambda entry, sizes, arrays: function(
        *entry, *(sizes[n] for n in inlined.dims), *(arrays[n] for n in names)
    )


@pytest.mark.parametrize("name", sorted(LAYERS.keys() - BEYOND.keys()))
def test_stock_sympy_differentiates_to_the_same_numbers(name):
    pytest.importorskip("scipy")
    text = LAYERS[name]
    program = check(parse(text))
    sizes = sizes_for(program)
    arrays = arrays_for(program, sizes)
    jac = sg.compile(text, wrt="all")
    J = jac.jacobian(**arrays)
    several = len(program.outputs) > 1
    inlined = Inlined(program)
    for output in program.outputs:
        for parameter in jac.wrt:
            block = J[output, parameter] if several else J[parameter]
            ours = block.dense()
            evaluate = derivative(inlined, output, parameter)
            for entry in itertools.islice(np.ndindex(ours.shape), 0, None, 1 + ours.size // 60):
                theirs = float(evaluate(entry, sizes, arrays))
                assert ours[entry] == pytest.approx(theirs, rel=1e-10, abs=1e-12), entry


def test_few_layers_are_beyond_stock_sympy():
    assert len(LAYERS.keys() - BEYOND.keys()) >= 35
    assert LAYERS.keys() >= BEYOND.keys()
