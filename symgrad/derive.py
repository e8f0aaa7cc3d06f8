"""Reverse accumulation over named definitions; the seed decides what comes out.

Program, Selection -> Derivation
With a Kronecker delta as its seed the adjoint program is the Jacobian, with `u` it is a
vector-Jacobian product. Each definition is visited once, and each adjoint that is more than
deltas times one array is named, so depth costs linearly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from symgrad.algebra.local import Local
from symgrad.algebra.names import Names
from symgrad.algebra.partials import split_extrema
from symgrad.algebra.sweep import Sweep, own_indices
from symgrad.derivation import Derivation, Jacobian, Selection
from symgrad.program import Affine, Definition, Delta, Program, Supply, Term
from symgrad.region import with_regions


def derive(program: Program, selection: Selection) -> Derivation:
    """Return the Jacobians of all outputs with respect to all selected arrays."""
    prepared, names, supply = prepare(with_regions(program, selection.regions))
    return sweep_back(prepared, selection, names, supply, prepared.outputs)


def sweep_back(
    program: Program,
    selection: Selection,
    names: Names,
    supply: Supply,
    sources: Sequence[str],
    prefix: str = "G",
) -> Derivation:
    """Return the Jacobians of some definitions of a program that is prepared; one sweep each.

    `prefix` begins the names of adjoints; others than G name the definition too.
    """
    adjoints: list[Definition] = []
    owners: list[tuple[str, str, str]] = []
    jacobians: list[Jacobian] = []
    locals_: dict[str, Local] = {}
    shared: dict[object, str] = {}
    for source in sources:
        sweep = Sweep(
            program, selection, supply, names, prefix, factored=True, locals_=locals_, shared=shared
        )
        axes = own_indices(program, source)
        out = tuple(supply.like(i) for i in axes)
        seed = Term(
            (), tuple(Delta(Affine.of(o), Affine.of(i)) for o, i in zip(out, axes, strict=True))
        )
        sweep.tag = f"{source}_" if len(sources) > 1 or prefix != "G" else ""
        results = sweep.run({source: seed}, out, per_sample=True)
        adjoints += sweep.definitions
        owners += [(name, source, array) for name, array in sweep.owners]
        for parameter in selection.names:
            theta, terms = results[parameter]
            at = sweep.places.get(parameter, ())
            whole = sweep.at[parameter] if at and selection.filled else ()
            selected = parameter not in selection.zero
            jacobians.append(Jacobian(source, parameter, out, theta, terms, at, whole, selected))
    return Derivation(
        program, selection, tuple(adjoints), tuple(owners), tuple(jacobians), supply.serial
    )


def prepare(program: Program) -> tuple[Program, Names, Supply]:
    """Return the program with extrema split to one index each, and fresh names and indices."""
    names, supply = Names(program), Supply(program.serial)
    definitions = split_extrema(program.definitions, supply, names.new)
    return replace(program, definitions=definitions), names, supply


