"""What a module offers: programs that run, and Jacobians as labelled factors.

Forms
`forms` makes them of a derivation; what generates code and what multiplies by factors reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from symgrad.algebra.segments import Trade
from symgrad.derivation import Derivation, Jacobian
from symgrad.dims import Dim
from symgrad.program import (
    BATCH,
    Array,
    Definition,
    Delta,
    Index,
    Lookup,
    Position,
    Program,
    arrays_of,
)


@dataclass(frozen=True, slots=True)
class Result:
    """What a form hands out under `key`: an array of the given axes (batch first if batched)."""

    key: tuple[str, ...]
    array: str
    indices: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """A runnable list of definitions; `given` are arrays passed in beside the declared ones.

    `owners` says which definition an array is the adjoint of.
    """

    name: str
    definitions: tuple[Definition, ...]
    results: tuple[Result, ...]
    given: tuple[Array, ...] = ()
    owners: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Factor:
    """One array of a factored Jacobian; `label` is how users see it, indices name its axes.

    `array` None stands for ones; along `spread` (some of `indices`) the array is repeated.
    """

    label: str
    array: str | None
    indices: tuple[Index, ...]
    spread: tuple[Index, ...] = ()

    @property
    def own(self) -> tuple[Index, ...]:
        """The indices of the array itself."""
        return tuple(i for i in self.indices if i not in self.spread)


def lookups_in(position: Position) -> tuple[Lookup, ...]:
    """Return the lookups in a position, outer ones first."""
    if not isinstance(position, Lookup):
        return ()
    return (position, *(inner for p in position.at for inner in lookups_in(p)))


@dataclass(frozen=True, slots=True)
class FactoredTerm:
    """Deltas times factors."""

    deltas: tuple[Delta, ...]
    factors: tuple[Factor, ...]


@dataclass(frozen=True)
class Structured:
    """A Jacobian as labelled factors, with the programs that make it dense or compact.

    `shared` are the deltas all terms have; `free` and `untied` the axes of output and theta that
    are those of the compact array; `key` tells it from all others in names of functions.
    """

    jacobian: Jacobian
    terms: tuple[FactoredTerm, ...]
    shared: tuple[Delta, ...]
    free: tuple[Index, ...]
    untied: tuple[Index, ...]
    dense: Definition
    compact: Definition | None
    key: str

    @property
    def title(self) -> str:
        """`dy/dW`, or `d²y/dW db`."""
        jacobian = self.jacobian
        if jacobian.beside:
            return f"d²{jacobian.output}/d{jacobian.parameter} d{jacobian.beside}"
        return f"d{jacobian.output}/d{jacobian.parameter}"

    @property
    def pair(self) -> str:
        """The arrays it is by: `W`, or `W, b`."""
        return ", ".join(n for n in (self.jacobian.parameter, self.jacobian.beside) if n)

    @property
    def sparse(self) -> bool:
        """Whether some of it is zero by structure."""
        return bool(self.shared or self.jacobian.filling)

    @cached_property
    def factors(self) -> tuple[tuple[Factor, bool], ...]:
        """The factors of all terms, each with whether it has a batch axis."""
        factors = [f for term in self.terms for f in term.factors]
        return tuple((f, any(i.dim == BATCH for i in f.indices)) for f in factors)

    @cached_property
    def positions(self) -> tuple[Lookup, ...]:
        """The data by whose values deltas tie axes; `factors()` holds those arrays too."""
        deltas = [d for term in self.terms for d in term.deltas]
        deltas += self.jacobian.filling if self.terms else ()
        ends = [p for d in deltas for p in (d.left, d.right)]
        return tuple(dict.fromkeys(lookup for p in ends for lookup in lookups_in(p)))

    @property
    def arrays(self) -> tuple[str, ...]:
        """The arrays that its terms read, positions that are data included."""
        scalars = [f for term in self.jacobian.dense for f in term.factors]
        return tuple(dict.fromkeys(a for s in scalars for a in arrays_of(s)))


@dataclass(frozen=True, slots=True)
class Ahead:
    """What makes a dense Jacobian of the declared arrays, from the parameter to the output.

    `key` is that of the Jacobian, whose array comes last. `costs` are the multiplications of the
    way back and of this one beside the forward pass; none where this one is never dearer.
    """

    key: str
    definitions: tuple[Definition, ...]
    costs: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Curvature:
    """All forms of second derivatives; of a pair of arrays only the order as declared is there.

    `factors` makes the arrays that `structured` read, `hvp` is {θ: Σ u · ∂²y · t}, `summed`
    {(θ, φ): Σ_b Σ_out u · ∂²y}.
    """

    structured: tuple[Structured, ...]
    factors: Form
    hvp: Form
    summed: Form


@dataclass(frozen=True, slots=True)
class Forms:
    """All forms of one derivation; with a `trade` the way back computes some definitions again.

    `saved` is what the way back reads of the forward pass; no index has a higher `serial`. `ahead`
    are the dense Jacobians that tangents may make.
    """

    program: Program
    derivation: Derivation
    forward: Form
    factors: Form
    structured: tuple[Structured, ...]
    vjp: Form
    vjp_per_sample: Form
    jvp: Form
    saved: tuple[str, ...]
    serial: int
    domain: Form | None = None
    trade: Trade | None = None
    curvature: Curvature | None = None
    ahead: tuple[Ahead, ...] = ()
