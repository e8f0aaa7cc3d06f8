"""A derivation: named adjoints and, for each (output, parameter), a Jacobian as a sum of terms.

Program, Selection -> derive -> Derivation
Readers (text, LaTeX, plan) inline the adjoints or keep them as they like.
"""

from __future__ import annotations

from dataclasses import dataclass

from symgrad.dims import Dim
from symgrad.program import Affine, Array, Definition, Delta, Index, Position, Program, Term
from symgrad.region import Region


@dataclass(frozen=True, slots=True)
class Selection:
    """What to differentiate with respect to, in declared order.

    A name without a region means the whole array. Where zeros are `filled` in, results have the
    shape of the whole array, zero beside the selected part; arrays in `zero` are not selected at
    all, and their derivatives are zeros.
    """

    names: tuple[str, ...]
    regions: tuple[Region, ...] = ()
    filled: bool = False
    zero: frozenset[str] = frozenset()

    def region(self, name: str) -> Region | None:
        """Return the part of an array that is selected, None if all of it is."""
        return next((r for r in self.regions if r.array == name), None)

    def axes(self, array: Array) -> tuple[Dim, ...]:
        """Return the axes that results have for an array: its part's, or all where it is filled."""
        region = None if self.filled else self.region(array.name)
        return array.axes if region is None else region.axes

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
    Of a part of an array, `theta` are the part's axes and `at` their places in the whole. With
    indices of the `whole` array it is zero beside the part. One that is not `selected` is zero
    whatever the derivative is.
    A second derivative is by `parameter` and then by `beside`; `theta` has the axes of both, the
    first `split` are those of the parameter, and so has `at`, if it is not empty.
    """

    output: str
    parameter: str
    out: tuple[Index, ...]
    theta: tuple[Index, ...]
    terms: tuple[Term, ...]
    at: tuple[Position, ...] = ()
    whole: tuple[Index, ...] = ()
    selected: bool = True
    beside: str = ""
    split: int = 0

    @property
    def of_both(self) -> tuple[tuple[Index, ...], tuple[Index, ...]]:
        """The axes of the parameter, and those of the other array of a second derivative."""
        own = self.split if self.beside else len(self.axes)
        return self.axes[:own], self.axes[own:]

    @property
    def axes(self) -> tuple[Index, ...]:
        """The axes of the parameter that results have."""
        return self.whole or self.theta

    @property
    def filling(self) -> tuple[Delta, ...]:
        """The deltas that put a part into its place in the whole; `theta` is summed over then."""
        pairs = zip(self.whole, self.at, strict=True) if self.whole else ()
        return tuple(Delta(Affine.of(i), p, inside=True) for i, p in pairs if p.bare != i)

    @property
    def dense(self) -> tuple[Term, ...]:
        """Its terms over `out` and `axes`."""
        return fill(self.terms, self.theta, self.filling)


def fill(
    terms: tuple[Term, ...], theta: tuple[Index, ...], filling: tuple[Delta, ...]
) -> tuple[Term, ...]:
    """Return terms over the indices of a part as terms over those of the whole."""
    if not filling:
        return terms
    bound = tuple(i for i in theta if i.partial)
    return tuple(Term((*bound, *t.bound), (*filling, *t.factors)) for t in terms)


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
