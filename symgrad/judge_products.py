"""Judge what a module offers beside dense Jacobians by those: products, compact forms.

Dense Jacobians, module -> ValidationError, or nothing
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from symgrad.errors import ValidationError
from symgrad.form import Forms
from symgrad.generation.publics import form_names
from symgrad.program import Program
from symgrad.proof.interpret import interpret_terms


def require_products(
    made: Forms,
    module: Any,
    arrays: Mapping[str, Any],
    call: tuple[Sequence[Any], Mapping[str, Any]],
    values: Mapping[str, Any],
    dense: Mapping[tuple[str, str], Any],
) -> None:
    """Refuse a module whose products and compact forms are not those of its dense Jacobians.

    `call` are the arrays as the module takes them, `values` its outputs.
    """
    program, names = made.program, made.derivation.selection.names
    positional, keywords = call
    table = {a.name: a for a in program.arrays}
    batched = any(a.batched for a in program.arrays)
    rng = np.random.default_rng(0)
    vectors = {o: rng.normal(size=np.shape(y)) for o, y in values.items()}
    u = tuple(vectors.values()) if len(vectors) > 1 else vectors[program.outputs[0]]
    summed = module.vjp(*positional, u, **keywords)
    per_sample = module.vjp_per_sample(*positional, u, **keywords)
    pulled = module.pullback(*positional, **keywords)[1](u)
    for name in names:
        rows: Any = 0.0
        whole: Any = 0.0
        for output, vector in vectors.items():
            block = np.asarray(dense[output, name])
            rows = rows + contracted(block, vector, batched, batched)
            whole = whole + contracted(block, vector, batched, table[name].batched)
        require_close(program, f"vjp by {name}", summed[name], whole)
        require_close(program, f"pullback by {name}", pulled[name], whole)
        require_close(program, f"vjp_per_sample by {name}", per_sample[name], rows)
    tangents = {n: rng.normal(size=np.shape(summed[n])) for n in names}
    pushed = module.jvp(*positional, tangents, **keywords)
    pushed = pushed if len(vectors) > 1 else (pushed,)
    for output, found in zip(program.outputs, pushed, strict=True):
        total = np.zeros(np.shape(values[output]))
        for name in names:
            block = np.asarray(dense[output, name])
            total = total + _pushed(block, tangents[name], total.shape, table[name].batched)
        require_close(program, f"jvp of {output}", found, total)
    _require_alone(made, module, arrays, call, dense)


def _require_alone(
    made: Forms,
    module: Any,
    arrays: Mapping[str, Any],
    call: tuple[Sequence[Any], Mapping[str, Any]],
    dense: Mapping[tuple[str, str], Any],
) -> None:
    """Judge the functions of single arrays, compact ones by their terms."""
    program, several = made.program, len(made.program.outputs) > 1
    positional, keywords = call
    for function, (name, kind) in form_names(made, made.derivation.selection.names).items():
        if kind == "factors":
            continue
        found = getattr(module, function)(*positional, **keywords)
        blocks = [s for s in made.structured if s.jacobian.parameter == name]
        for structured, value in zip(blocks, found if several else (found,), strict=True):
            expected = dense[structured.jacobian.output, name]
            compact = structured.compact
            if kind == "compact" and compact is not None and isinstance(compact.body, tuple):
                adjoints = made.factors.definitions
                inside = {d.name for d in program.definitions}
                more = [d for d in adjoints if d.name not in inside]
                expected = interpret_terms(program, more, compact.body, compact.indices, arrays)
            require_close(program, f"{function} of {structured.jacobian.output}", value, expected)


def _pushed(block: Any, tangent: Any, out: tuple[int, ...], is_input: bool) -> Any:
    """Return J t, `[B, *out]`."""
    entries = prod(block.shape[len(out) :])
    rows = block.reshape(*out, entries)
    if not is_input:
        return rows @ tangent.reshape(entries)
    own = tangent.reshape(out[0], *(1,) * (len(out) - 1), entries)
    return np.sum(rows * own, axis=-1)


def contracted(block: Any, vector: Any, batched: bool, apart: bool) -> Any:
    """Return Σ_out u · J, added up over samples unless they stay apart."""
    samples = vector.shape[0] if batched else 1
    own = block.shape[vector.ndim :]
    outputs = prod(vector.shape[1 if batched else 0 :])
    flat = block.reshape(samples, outputs, prod(own))
    found = np.einsum("bo,bop->bp", vector.reshape(samples, outputs), flat)
    return found.reshape(samples, *own) if apart else found.sum(0).reshape(own)


def require_close(program: Program, what: str, value: Any, expected: Any) -> None:
    """Refuse a value that is not the expected one, naming what it is."""
    scale = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
    if not np.allclose(value, expected, rtol=1e-7, atol=1e-9 * scale + 1e-12, equal_nan=True):
        worst = float(np.nanmax(np.abs(np.asarray(value) - expected)))
        raise ValidationError(
            f"{program.name}: {what} is {worst:.3g} away from that of the blocks",
            hint="this is a fault of the generated code, not of your layer; please report it",
        )


__all__ = ["contracted", "require_close", "require_products"]
