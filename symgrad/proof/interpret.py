"""Evaluate a program, or a derived Jacobian, straight from its definition: the reference.

Program, {name: array} -> {name: array of every definition}
Every index is an arange on its own axis, every sum is carried out over all of its range; nothing
is shared with the compiler, so that it can judge it. With `precision` all numbers are mpmath's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import mpmath
import numpy as np

from symgrad.algebra.declared import expand, expand_terms, expanded
from symgrad.derivation import Derivation
from symgrad.errors import ArgumentError
from symgrad.program import Definition, Index, Program, Scalar, Term, indices_of
from symgrad.proof.rows import Values
from symgrad.proof.run import Functions, Run
from symgrad.proof.sizes import sizes as solve_sizes
from symgrad.scatter import numbers


def interpret(
    program: Program,
    arrays: Mapping[str, Any],
    *,
    held: Mapping[str, Values] | None = None,
    precision: int | None = None,
    functions: Functions | None = None,
) -> dict[str, Values]:
    """Return the value of every definition; batched ones have the batch axis first.

    `arrays` holds every declared array but consts with a default, inputs with their batch axis.
    `held` replaces definitions by given values. `precision` is a number of decimal digits; then
    the results are object arrays of mpf. `functions` gives values of abstract functions.
    Raises ArgumentError for a missing or unknown array, ShapeError for one of the wrong shape.
    """
    with _working(precision):
        run = _start(program, arrays, precision, functions)
        run.run(expand(program.definitions, program.declared), held or {})
        return {d.name: run.values[d.name] for d in program.definitions}


def evaluate_jacobian(
    derivation: Derivation,
    output: str,
    parameter: str,
    arrays: Mapping[str, Any],
    *,
    precision: int | None = None,
    functions: Functions | None = None,
    beside: str = "",
) -> Values:
    """Return the dense Jacobian `[B, *out, *p]` of a derivation's closed form.

    With `beside` the second derivative. Without any input there is no B. Errors as for `interpret`.
    """
    program = derivation.program
    jacobian = derivation.jacobian(output, parameter, beside)
    with _working(precision):
        run = _start(program, arrays, precision, functions)
        run.run(expand((*program.definitions, *derivation.adjoints), program.declared), {})
        batched = any(array.batched for array in program.arrays)
        axes = (*((program.batch,) if batched else ()), *jacobian.out, *jacobian.axes)
        return run.terms(expand_terms(jacobian.dense, program.declared), axes)


def interpret_terms(
    program: Program,
    definitions: Sequence[Definition],
    terms: tuple[Term, ...],
    axes: tuple[Index, ...],
    arrays: Mapping[str, Any],
    *,
    precision: int | None = None,
    functions: Functions | None = None,
) -> Values:
    """Return a sum of terms over `axes`, after running further definitions on top of a program.

    `arrays` may hold more than the program declares (a cotangent `u`): those are read as given.
    """
    declared = {array.name for array in program.arrays}
    with _working(precision):
        run = _start(
            program, {n: a for n, a in arrays.items() if n in declared}, precision, functions
        )
        run.values.update({n: run.numbers(a) for n, a in arrays.items() if n not in declared})
        run.run(expand((*program.definitions, *definitions), program.declared), {})
        return run.terms(expand_terms(terms, program.declared), axes)


def domains_hold(
    program: Program, arrays: Mapping[str, Any], *, functions: Functions | None = None
) -> tuple[bool, ...]:
    """Return, for each condition of the program, whether it holds for every element."""
    if not program.conditions:
        return ()
    run = _start(program, arrays, None, functions)
    run.run(expand(program.definitions, program.declared), {})
    masks = [
        run.full(expanded(c.mask, program.declared), _with_batch(program, c.indices, c.mask))
        for c in program.conditions
    ]
    return tuple(bool(np.all(mask != 0)) for mask in masks)


def _with_batch(program: Program, indices: tuple[Index, ...], mask: Scalar) -> tuple[Index, ...]:
    missing = program.batch in indices_of(mask) and program.batch not in indices
    return (program.batch, *indices) if missing else indices


def bind(program: Program, arrays: Mapping[str, Any]) -> dict[str, Values]:
    """Return all declared arrays as numpy arrays, defaults filled in, integers for indices.

    Raises ArgumentError for a missing or unknown name.
    """
    unknown = [name for name in arrays if program.array(name) is None]
    if unknown:
        raise ArgumentError(f"{program.name} has no array {unknown[0]}")
    bound: dict[str, Values] = {}
    for array in program.arrays:
        value = arrays.get(array.name, array.default)
        if value is None:
            raise ArgumentError(f"{program.name} needs the array {array.name}")
        bound[array.name] = np.asarray(value, dtype=np.int64 if array.role == "index" else None)
    return bound


def _working(precision: int | None) -> Any:
    return nullcontext() if precision is None else mpmath.workdps(precision)


def _start(
    program: Program,
    arrays: Mapping[str, Any],
    precision: int | None,
    functions: Functions | None,
) -> Run:
    bound = bind(program, arrays)
    solved = solve_sizes(program, {name: value.shape for name, value in bound.items()})
    run = Run(solved, {}, precision, functions or {})
    run.values = {n: a if a.dtype == np.int64 else run.numbers(a) for n, a in bound.items()}
    for array in program.arrays:
        if array.role != "index":
            run.values[array.name] = run.numbers(bound[array.name])
    run.values.update({t.name: numbers(t, solved) for t in program.tables})
    return run


def batch_size(program: Program, arrays: Mapping[str, Any]) -> int | None:
    """Return B as the batched arrays have it, or None in a layer without inputs."""
    for array in program.arrays:
        if array.batched:
            return int(np.asarray(arrays[array.name]).shape[0])
    return None
