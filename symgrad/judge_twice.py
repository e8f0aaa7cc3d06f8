"""Judge a module's second derivatives: by differences of the first ones, and by each other.

Forms, module -> Report
The first derivatives are a program too, whose Jacobians these are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from symgrad.algebra.order import needed
from symgrad.arguments import call_arguments
from symgrad.derivation import Derivation, Jacobian
from symgrad.forced import each_way
from symgrad.form import Forms
from symgrad.judge_products import contracted, require_close
from symgrad.program import Definition, Program, indices_of
from symgrad.proof.interpret import evaluate_jacobian
from symgrad.trial import Trial
from symgrad.validate import Report, validate

LARGEST = 4_000_000
"""Second derivatives with more entries than this, at the sizes stated, are not compared."""
FLOOR = 1e-10
"""What rounding leaves where large second derivatives cancel, at points of order one."""
USUAL = 3
"""The size taken for a dim that is open, to tell how many entries there are."""


def compare_twice(made: Forms, module: Any, trial: Trial) -> Report | None:
    """Compare second derivatives with differences; None where they are too large for that.

    Raises ValidationError where sums or products with tangents are not those of the blocks.
    """
    derivation = made.derivation
    if _entries(derivation) > LARGEST:
        return None
    several = len(made.program.outputs) > 1
    program, labels = slopes_as_outputs(made)

    def hessian_of(arrays: dict[str, Any]) -> dict[tuple[str, str], Any]:
        positional, keywords = call_arguments(made.program.arrays, arrays)
        with np.errstate(all="ignore"):
            found = module.hessian(*positional, **keywords)
            first = () if several else (made.program.outputs[0],)
            blocks = {(*first, *key): block for key, block in found.items()}
            _require_same(made, module, positional, keywords, blocks)
            for _ in each_way(module):
                again = module.hessian(*positional, **keywords)
                _require_same(made, module, positional, keywords, blocks)
                for key, block in again.items():
                    if np.all(np.isfinite(found[key])):
                        what = "second derivative by {}, {}".format(*key[-2:])
                        require_close(made.program, what, block, found[key])
        return {(labels[o, p], q): blocks[o, p, q] for o, p, q in blocks}

    def exactly(arrays: dict[str, Any]) -> dict[tuple[str, str], Any]:
        found: dict[tuple[str, str], Any] = {}
        for j in (j for j in derivation.jacobians if j.beside):
            value = evaluate_jacobian(
                derivation, j.output, j.parameter, arrays, precision=50, beside=j.beside
            )
            found[labels[j.output, j.parameter], j.beside] = value
            turned = _exchanged(value, j)
            found[labels[j.output, j.beside], j.parameter] = turned
        return found

    return validate(
        program, hessian_of, trial.names, seed=trial.seed, sizes=trial.sizes, batch=trial.batch,
        exactly=exactly if trial.exact else None, parts=derivation.selection, floor=FLOOR,
    )  # fmt: skip


def slopes_as_outputs(made: Forms) -> tuple[Program, dict[tuple[str, str], str]]:
    """Return the program whose outputs are all dense Jacobians, and what each is called."""
    program = made.program
    labels: dict[tuple[str, str], str] = {}
    closing: list[Definition] = []
    for structured in made.structured:
        jacobian, dense = structured.jacobian, structured.dense
        read = {i for t in jacobian.terms for f in t.factors for i in indices_of(f)}
        indices = tuple(i for i in dense.indices if i != program.batch or i in read)
        label = f"²{jacobian.output}/d{jacobian.parameter} "
        labels[jacobian.output, jacobian.parameter] = label
        closing.append(replace(dense, name=label, indices=indices))
    own = {d.name for d in program.definitions}
    adjoints = [d for d in made.factors.definitions if d.name not in own]  # parts, as `dense` reads
    everything = (*program.definitions, *adjoints, *closing)
    outputs = tuple(labels.values())
    return replace(program, definitions=needed(everything, outputs), outputs=outputs), labels


def _entries(derivation: Derivation) -> int:
    """Return how many entries the largest second derivative of a sample has."""

    def size(jacobian: Jacobian) -> int:
        dims = [i.dim for i in (*jacobian.out, *jacobian.theta)]
        return prod(d.evaluate(dict.fromkeys(d.names, USUAL)) for d in dims)

    return max((size(j) for j in derivation.jacobians if j.beside), default=0)


def _exchanged(array: Any, jacobian: Jacobian) -> Any:
    """Return a second derivative with the axes of its two arrays exchanged."""
    p, q = (len(axes) for axes in jacobian.of_both)
    ahead = array.ndim - p - q
    order = (*range(ahead), *range(ahead + p, ahead + p + q), *range(ahead, ahead + p))
    return array.transpose(order)


def _require_same(
    made: Forms,
    module: Any,
    positional: Sequence[Any],
    keywords: Mapping[str, Any],
    blocks: Mapping[tuple[str, str, str], Any],
) -> None:
    """Refuse a module whose sums and products with tangents are not those of its blocks."""
    program, names = made.program, made.derivation.selection.names
    table = {a.name: a for a in program.arrays}
    rng = np.random.default_rng(0)
    outputs = module.forward(*positional, **keywords)
    several = len(program.outputs) > 1
    vectors = {
        o: rng.normal(size=np.shape(y))
        for o, y in zip(program.outputs, outputs if several else (outputs,), strict=True)
    }
    u = tuple(vectors.values()) if several else vectors[program.outputs[0]]
    like = module.hvp(*positional, u, {}, **keywords)
    tangents = {n: rng.normal(size=np.shape(like[n])) for n in names}
    sums = module.hessian_sum(*positional, u, **keywords)
    pushed = module.hvp(*positional, u, tangents, **keywords)
    batched = any(a.batched for a in program.arrays)
    for one in names:
        total = np.zeros(np.shape(pushed[one]))
        for other in names:
            apart = batched and (table[one].batched or table[other].batched)
            whole = 0.0
            for output, vector in vectors.items():
                block = np.asarray(blocks[output, one, other])
                whole = whole + contracted(block, vector, batched, apart)
            require_close(program, f"hessian_sum of {one}, {other}", sums[one, other], whole)
            axes = tangents[other].ndim - table[other].batched
            total += _applied(
                np.asarray(sums[one, other]), tangents[other], axes,
                (apart, table[one].batched, table[other].batched),
            )  # fmt: skip
        require_close(program, f"hvp of {one}", pushed[one], total)


def _applied(total: Any, tangent: Any, axes: int, samples: tuple[bool, bool, bool]) -> Any:
    """Return a sum times a tangent with `axes` axes; `samples`: which have those apart."""
    apart, first, second = samples
    if not apart:
        return np.tensordot(total, tangent, axes)
    count = total.shape[0]
    kept = total.shape[1 : total.ndim - axes]
    others = prod(total.shape[total.ndim - axes :]) if axes else 1
    rows = total.reshape(count, prod(kept), others)
    columns = tangent.reshape(count if second else 1, others)
    found = np.einsum("bpq,bq->bp", rows, np.broadcast_to(columns, (count, rows.shape[2])))
    return found.reshape(count, *kept) if first else found.sum(0).reshape(kept)


__all__ = ["compare_twice", "slopes_as_outputs"]
