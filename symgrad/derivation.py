"""A derivation: named adjoints and, for each (output, parameter), a Jacobian as a sum of terms.

Program, Selection -> derive -> Derivation
Readers (text, LaTeX, plan) inline the adjoints or keep them as they like.
"""

from __future__ import annotations

from dataclasses import dataclass

from symgrad.program import Definition, Index, Position, Program, Term
from symgrad.region import Region


@dataclass(frozen=True, slots=True)
class Selection:
    """What to differentiate with respect to, in declared order.

    A name without a region means the whole array. Arrays in `zero` are not differentiated by:
    their derivatives are zeros all the same.
    """

    names: tuple[str, ...]
    regions: tuple[Region, ...] = ()
    zero: frozenset[str] = frozenset()

    def region(self, name: str) -> Region | None:
        """Return the part of an array that is selected, None if all of it is."""
        return next((r for r in self.regions if r.array == name), None)

    @property
    def active(self) -> tuple[str, ...]:
        """The names that are differentiated by."""
        return tuple(n for n in self.names if n not in self.zero)


@dataclass(frozen=True, slots=True)
class Jacobian:
    """d output[out] / d parameter[theta] = sum of terms.

    `out` and `theta` hold no batch index; `batched` says whether a batch axis comes first.
    Terms read forward definitions, declared arrays and `Derivation.adjoints`; each term is
    a sum over `bound` of deltas, guards and accesses or scalar functions of them.
    Of a part of an array, `theta` are the part's axes and `at` their places in the whole.
    A second derivative is by `parameter` and then by `beside`; `theta` has the axes of both, the
    first `split` are those of the parameter, and so has `at`, if it is not empty.
    """

    output: str
    parameter: str
    out: tuple[Index, ...]
    theta: tuple[Index, ...]
    terms: tuple[Term, ...]
    at: tuple[Position, ...] = ()
    beside: str = ""
    split: int = 0

    @property
    def axes(self) -> tuple[tuple[Index, ...], tuple[Index, ...]]:
        """The axes of the parameter, and those of the other array of a second derivative."""
        own = self.split if self.beside else len(self.theta)
        return self.theta[:own], self.theta[own:]


@dataclass(frozen=True, slots=True)
class Derivation:
    """The adjoint program of a layer: `adjoints` can be run in order after the definitions.

    An adjoint `G` belongs to `adjoint_of[name] = (output, array)` when it holds d output / d array.
    """

    program: Program
    selection: Selection
    adjoints: tuple[Definition, ...]
    adjoint_of: tuple[tuple[str, str, str], ...]
    jacobians: tuple[Jacobian, ...]
    serial: int

    def jacobian(self, output: str, parameter: str, beside: str = "") -> Jacobian:
        """Return the derivative of one output with respect to one selected array, or to two."""
        for jacobian in self.jacobians:
            own = (jacobian.output, jacobian.parameter, jacobian.beside)
            if own == (output, parameter, beside):
                return jacobian
        raise KeyError((output, parameter, beside))
