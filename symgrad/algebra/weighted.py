"""One number for every sample, of which all outputs together are made: `s = Σ u · y`.

Program -> weighted -> Program with further inputs u
Its second derivatives, added up over samples, are those that a sum over outputs wants.
"""

from __future__ import annotations

from dataclasses import replace

from symgrad.algebra.names import Names
from symgrad.errors import InternalError
from symgrad.program import Access, Affine, Array, Definition, Index, Program, Supply, Term


def weighted(program: Program) -> Program:
    """Return the program whose only output is `Σ_out u · y`, one u for each output.

    The arrays u stand behind the declared ones; they are inputs if the layer has any.
    """
    names, supply = Names(program), Supply(program.serial)
    batched = any(a.batched for a in program.arrays)
    arrays, terms = [], []
    for output in program.outputs:
        definition = program.definition(output)
        if definition is None:
            raise InternalError(f"no definition of {output}")
        own = [i for i in definition.indices if i != program.batch]
        wish = f"u_{output}" if len(program.outputs) > 1 else "u"
        u = Array(names.new(wish), "input" if batched else "param", tuple(i.dim for i in own))
        bound = {i: supply.like(i) for i in own}
        first = (program.batch,) if batched else ()
        terms.append(
            Term(
                tuple(bound.values()),
                (
                    _read(u.name, (*first, *bound.values())),
                    _read(output, tuple(bound.get(i, i) for i in definition.indices)),
                ),
            )
        )
        arrays.append(u)
    indices = (program.batch,) if batched else ()
    total = Definition(names.new("s"), indices, tuple(terms), written=False)
    return replace(
        program,
        arrays=(*program.arrays, *arrays),
        definitions=(*program.definitions, total),
        outputs=(total.name,),
        serial=supply.serial,
    )


def _read(name: str, indices: tuple[Index, ...]) -> Access:
    return Access(name, tuple(Affine.of(i) for i in indices))
