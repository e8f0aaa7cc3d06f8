"""A closed form: one derivative as a formula fit for a paper, and as terms that can be evaluated.

Derivation -> closed_forms -> ClosedForm, ...
`terms` are program terms (what is computed); `shown` is the same value with common factors
outside, in an order people write.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Union

from symgrad.program import Affine, Definition, Index, Position, Program, Scalar, Term, arrays_of


@dataclass(frozen=True, slots=True)
class Piece:
    """`sum over bound of the product of factors`; unlike a term its factors may hold sums."""

    bound: tuple[Index, ...]
    factors: tuple[Shown, ...]


@dataclass(frozen=True, slots=True)
class Summed:
    """A sum in parentheses; the empty one is zero."""

    pieces: tuple[Piece, ...]


Shown = Union[Scalar, Summed]


@dataclass(frozen=True, slots=True)
class Restricted:
    """A simpler form that holds only where `condition` (not asserted by the layer) does."""

    condition: Scalar
    shown: Summed
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class ClosedForm:
    """d output[out] / d parameter[theta] for reading.

    `out` and `theta` give one index per axis; axes of literal length 1 are not printed. `at` are
    the places in the whole array where only a part of it is selected.
    A second derivative is by `beside` too, whose axes stand behind the first `split` of `theta`.
    `named` are the adjoint definitions that `terms` still read, in an order that can be run.
    """

    program: Program
    output: str
    parameter: str
    out: tuple[Index, ...]
    theta: tuple[Index, ...]
    terms: tuple[Term, ...]
    shown: Summed
    named: tuple[Definition, ...] = ()
    restricted: tuple[Restricted, ...] = ()
    serial: int = 0
    at: tuple[Position, ...] = ()
    beside: str = ""
    split: int = 0

    @property
    def title(self) -> str:
        """`∂y/∂W`, or `∂²y/∂W∂b`."""
        if self.beside:
            return f"∂²{self.output}/∂{self.parameter}∂{self.beside}"
        return f"∂{self.output}/∂{self.parameter}"

    @property
    def axes(self) -> tuple[tuple[Index, ...], tuple[Index, ...]]:
        """The axes of the parameter, and of the second one of a second derivative."""
        own = self.split if self.beside else len(self.theta)
        return self.theta[:own], self.theta[own:]

    @property
    def places(self) -> tuple[tuple[Position, ...], tuple[Position, ...]]:
        """Where the two arrays are read: their axes, and the place in the whole of a part."""
        if not self.at:
            shown = ([i for i in axes if i.dim.constant != 1] for axes in self.axes)
            own, others = (tuple(Affine.of(i) for i in axes) for axes in shown)
            return own, others
        array = self.program.array(self.parameter)
        count = len(self.at) if array is None else len(array.axes)
        return self.at[:count], self.at[count:]


def exchanged(form: ClosedForm) -> ClosedForm:
    """Return a second derivative with its two arrays in the other order."""
    own, others = form.axes
    first, second = form.places if form.at else ((), ())
    return replace(
        form,
        parameter=form.beside,
        beside=form.parameter,
        theta=(*others, *own),
        split=len(others),
        at=(*second, *first),
    )


def reads(shown: Shown) -> tuple[str, ...]:
    """Return the names of the arrays a shown formula reads, each once, in order."""
    found: dict[str, None] = {}

    def visit(node: Shown) -> None:
        if isinstance(node, Summed):
            for piece in node.pieces:
                for factor in piece.factors:
                    visit(factor)
        else:
            found.update(dict.fromkeys(arrays_of(node)))

    visit(shown)
    return tuple(found)


__all__ = ["ClosedForm", "Piece", "Restricted", "Shown", "Summed", "exchanged", "reads"]
