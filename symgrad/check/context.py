"""What reading one layer carries along: names in sight, definitions made, checks left over.

Layer -> Context, Scope
A scope says what a name means at one place; the context collects what the program will hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from symgrad.check.flatten import FREE_LETTERS, Flattener
from symgrad.check.ranges import Known, Ranges, Use, fit, not_negative
from symgrad.check.renaming import INNER
from symgrad.check.tree import Indices, Value
from symgrad.dims import Dim
from symgrad.errors import Span
from symgrad.program import Check, Index, Lookup, Position, Supply
from symgrad.syntax import Binder, Expr, Layer, Macro

Thing = Value | Indices


@dataclass(frozen=True, slots=True)
class Scope:
    """Arrays, macro arguments and indices that can be seen from one place."""

    arrays: Mapping[str, Thing]
    indices: Mapping[str, Index] = field(default_factory=dict)
    steps: frozenset[str] = frozenset()
    time: Index | None = None

    def with_index(self, index: Index) -> Scope:
        """Return the scope inside which an index is seen too; it hides an array."""
        return replace(self, indices={**self.indices, index.name: index})

    def with_array(self, name: str, value: Thing) -> Scope:
        """Return the scope after an array was assigned."""
        return replace(self, arrays={**self.arrays, name: value})


@dataclass(slots=True)
class Context:
    """One compilation: the layer, its definitions so far, checks, and open statements."""

    layer: Layer
    supply: Supply
    batch: Index
    flat: Flattener
    macros: Mapping[str, Macro]
    functions: Mapping[str, str]
    sizes: Mapping[str, Dim]
    constants: Mapping[str, Thing]
    checks: list[Check] = field(default_factory=list)
    open: list[Ranges] = field(default_factory=list)
    dim_spans: dict[str, Span] = field(default_factory=dict)

    def text(self, expr: Expr) -> str:
        """Return an expression as the user wrote it."""
        span = expr.span
        lines = self.layer.source.lines
        if 1 <= span.line <= len(lines) and span.line == span.end_line:
            return lines[span.line - 1][span.column - 1 : span.end_column - 1]
        return getattr(expr, "name", "this")

    def dim(self, name: str, span: Span) -> Dim:
        """Return a dim as `dims=` makes it, and remember where it was first seen."""
        dim = Dim.of(self.sizes.get(name, name))
        for found in dim.names:
            self.dim_spans.setdefault(found, span)
        return dim

    def bind(
        self, binder: Binder, stated: Dim | None, form: str, *, bound: bool = True
    ) -> Index:
        """Return a new index of the statement that is being read; `form` is as in `Known`."""
        ranges = self.open[-1]
        index = self.supply.fresh(binder.name, ranges.next_dim(stated))
        ranges.met.append(Known(index, stated, binder.span, form, bound))
        return index

    def use(self, use: Use) -> None:
        """Record a position; where the dims of its indices are known, see that it fits."""
        affine = use.affine
        if any(name.startswith("#r") for name in use.axis.names):
            return  # an axis that is being looked for
        owner = next((r for r in self.open if any(r.owns(i) for i, _ in affine.terms)), None)
        if owner is not None:
            owner.uses.append(use)
        unknown = any(n.startswith("#q") for i, _ in affine.terms for n in i.dim.names)
        if not unknown and (owner is None or owner.solved is not None):
            self.require(fit(use, [known for ranges in self.open for known in ranges.met]))

    def tie(self, index: Index, other: Position) -> None:
        """Record that a delta compares an index with a position."""
        owner = next((r for r in self.open if r.owns(index)), None)
        if owner is None:
            return
        if isinstance(other, Lookup):
            array = self.layer.declaration(other.array)
            if array is not None and array.vocabulary is not None:
                owner.ties.append((index, array.vocabulary.substitute(self.sizes)))
        elif other.bare is not None:
            owner.ties.append((index, other.bare))

    def size(self, dim: Dim, what: str, span: Span) -> None:
        """See that a size is not negative."""
        if not any(name.startswith("#") for name in dim.names):
            self.require(not_negative(dim, what, span))

    def require(self, checks: list[Check]) -> None:
        """Keep checks for the call, each once."""
        self.checks += [check for check in checks if check not in self.checks]

    def fresh(self, axes: tuple[Dim, ...]) -> tuple[Index, ...]:
        """Return new indices for axes, with the usual letters."""
        return tuple(
            self.supply.fresh(FREE_LETTERS[n % len(FREE_LETTERS)], dim)
            for n, dim in enumerate(axes)
        )

    def inner(self, dim: Dim, letter: str = "k") -> Index:
        """Return a new index that matrix style binds."""
        return self.supply.fresh(letter + INNER, dim)

    def named(self, value: Value, wish: str = "") -> Value:
        """Return the value read from a definition of its own."""
        letters = tuple(FREE_LETTERS[n % len(FREE_LETTERS)] for n in range(len(value.axes)))
        return self.flat.materialize(value, letters, wish)


def stated_form(before: str, binders: Sequence[Binder], binder: Binder, behind: str) -> str:
    """Return how the range of one of several indices is stated, `{}` for the range."""
    names = [f"{b.name}: {{}}" if b is binder else b.name for b in binders]
    return f"{before}[{', '.join(names)}]{behind}"


def shape_text(axes: tuple[Dim, ...]) -> str:
    """Return a shape as text."""
    return f"[{', '.join(str(d) for d in axes)}]"
