"""Sizes of axes: polynomials of dim names with integer coefficients and floor division.

str | int | Dim -> Dim
One canonical form: equal polynomials are equal objects, so `t - k + 1` matches `1 + t - k`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Union

Monomial = tuple[tuple["Atom", int], ...]
"""Atoms with their powers, sorted; the empty tuple is the number 1."""


@dataclass(frozen=True, slots=True)
class Floor:
    """floor(numerator / denominator), with multiples of the denominator already taken out."""

    numerator: Dim
    denominator: int

    def __str__(self) -> str:
        return f"({self.numerator})//{self.denominator}"


Atom = Union[str, Floor]


def _order(atom: Atom) -> tuple[int, str]:
    return (0, atom) if isinstance(atom, str) else (1, str(atom))


def _monomial_order(monomial: Monomial) -> tuple[int, tuple[tuple[int, str, int], ...]]:
    degree = sum(power for _, power in monomial)
    return (-degree, tuple((*_order(atom), power) for atom, power in monomial))


@dataclass(frozen=True, slots=True)
class Dim:
    """A polynomial `sum of coefficient * monomial`, sorted, without zero coefficients."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    @staticmethod
    def of(value: Dim | str | int) -> Dim:
        """Return the dim that a name or an integer stands for."""
        if isinstance(value, Dim):
            return value
        if isinstance(value, int):
            return Dim((((), value),)) if value else Dim()
        return Dim(((((value, 1),), 1),))

    @staticmethod
    def _collect(pairs: Iterable[tuple[Monomial, int]]) -> Dim:
        table: dict[Monomial, int] = {}
        for monomial, coefficient in pairs:
            table[monomial] = table.get(monomial, 0) + coefficient
        kept = [(m, c) for m, c in table.items() if c]
        return Dim(tuple(sorted(kept, key=lambda term: _monomial_order(term[0]))))

    def __add__(self, other: Dim | str | int) -> Dim:
        return Dim._collect((*self.terms, *Dim.of(other).terms))

    def __radd__(self, other: str | int) -> Dim:
        return Dim.of(other) + self

    def __neg__(self) -> Dim:
        return Dim(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Dim | str | int) -> Dim:
        return self + (-Dim.of(other))

    def __rsub__(self, other: str | int) -> Dim:
        return Dim.of(other) - self

    def __mul__(self, other: Dim | str | int) -> Dim:
        pairs = []
        for m1, c1 in self.terms:
            for m2, c2 in Dim.of(other).terms:
                powers: dict[Atom, int] = {}
                for atom, power in (*m1, *m2):
                    powers[atom] = powers.get(atom, 0) + power
                monomial = tuple(sorted(powers.items(), key=lambda item: _order(item[0])))
                pairs.append((monomial, c1 * c2))
        return Dim._collect(pairs)

    def __rmul__(self, other: str | int) -> Dim:
        return Dim.of(other) * self

    def __floordiv__(self, divisor: int) -> Dim:
        """Divide by a positive integer, rounding down; whole multiples leave the floor."""
        if divisor <= 0:
            raise ValueError("a dim is divided by a positive integer only")
        whole, rest = [], []
        for monomial, coefficient in self.terms:
            quotient, remainder = divmod(coefficient, divisor)
            if monomial and remainder:
                quotient, remainder = 0, coefficient
            whole.append((monomial, quotient))
            rest.append((monomial, remainder))
        inner = Dim._collect(rest)
        outer = Dim._collect(whole)
        if inner.constant is not None:
            return outer + inner.constant // divisor
        return outer + Dim(((((Floor(inner, divisor), 1),), 1),))

    def divided_by(self, divisor: Dim) -> Dim | None:
        """Return the dim whose product with `divisor` this is, None if there is none."""
        rest, quotient = self, Dim()
        if not divisor.terms:
            return None
        atoms = sorted({a for d in (self, divisor) for m, _ in d.terms for a, _ in m}, key=_order)

        def rank(term: tuple[Monomial, int]) -> tuple[int, ...]:
            powers = dict(term[0])
            return (sum(powers.values()), *(powers.get(atom, 0) for atom in atoms))

        below, divider = max(divisor.terms, key=rank)
        while rest.terms:
            above, number = max(rest.terms, key=rank)
            powers = dict(above)
            for atom, power in below:
                powers[atom] = powers.get(atom, 0) - power
            if number % divider or min(powers.values(), default=0) < 0:
                return None
            kept = tuple(item for item in powers.items() if item[1])
            part = Dim(((kept, number // divider),)) * ONE  # sorts the atoms
            quotient, rest = quotient + part, rest - part * divisor
        return quotient

    @property
    def constant(self) -> int | None:
        """The integer this dim is, or None if it depends on names."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and self.terms[0][0] == ():
            return self.terms[0][1]
        return None

    @property
    def symbol(self) -> str | None:
        """The single name this dim is, or None."""
        if len(self.terms) == 1:
            monomial, coefficient = self.terms[0]
            if coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
                atom = monomial[0][0]
                return atom if isinstance(atom, str) else None
        return None

    @property
    def names(self) -> tuple[str, ...]:
        """All dim names in it, each once, in order of appearance."""
        seen: dict[str, None] = {}
        for monomial, _ in self.terms:
            for atom, _ in monomial:
                for name in (atom,) if isinstance(atom, str) else atom.numerator.names:
                    seen[name] = None
        return tuple(seen)

    def substitute(self, sizes: Mapping[str, Dim | str | int]) -> Dim:
        """Replace names by dims or integers."""
        total = Dim()
        for monomial, coefficient in self.terms:
            product = Dim.of(coefficient)
            for atom, power in monomial:
                if isinstance(atom, str):
                    value = Dim.of(sizes.get(atom, atom))
                else:
                    value = atom.numerator.substitute(sizes) // atom.denominator
                for _ in range(power):
                    product = product * value
            total = total + product
        return total

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """Return its value for given sizes; KeyError names a missing one."""
        total = 0
        for monomial, coefficient in self.terms:
            product = coefficient
            for atom, power in monomial:
                if isinstance(atom, str):
                    value = sizes[atom]
                else:
                    value = atom.numerator.evaluate(sizes) // atom.denominator
                product *= value**power
            total += product
        return total

    def render(self, prefix: str = "") -> str:
        """Return it as Python text, each name with `prefix` before it."""
        if not self.terms:
            return "0"
        pieces: list[str] = []
        for monomial, coefficient in _positive_first(self.terms):
            sign = "-" if coefficient < 0 else "+"
            alone = len(monomial) == 1 and (coefficient == 1 or (coefficient == -1 and pieces))
            factors = [_render_power(atom, power, prefix, bool(alone)) for atom, power in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            text = "*".join(factors)
            if not pieces:
                pieces.append(text if sign == "+" else f"-{text}")
            else:
                pieces.append(f" {sign} {text}")
        return "".join(pieces)

    def __str__(self) -> str:
        return self.render()


Coefficient = Union[int, Dim]
"""What an index is multiplied by: a number, or a size (the stride of an axis) that is none."""


def plain(coefficient: Coefficient) -> Coefficient:
    """Return a coefficient as a number if it is one."""
    if isinstance(coefficient, int) or coefficient.constant is None:
        return coefficient
    return coefficient.constant


def signed(coefficient: Coefficient) -> tuple[bool, Coefficient]:
    """Return whether a coefficient is negative, and how large it is.

    Sizes are products of lengths of axes or minus such: the leading term tells.
    """
    leading = coefficient if isinstance(coefficient, int) else coefficient.terms[0][1]
    return leading < 0, -coefficient if leading < 0 else coefficient


def times(coefficient: Coefficient, text: str, prefix: str = "") -> str:
    """Return a positive multiple of a letter as Python text: `2*i`, `m*i`, `(n - 1)*i`."""
    if isinstance(coefficient, int):
        return text if coefficient == 1 else f"{coefficient}*{text}"
    factor = coefficient.render(prefix)
    return f"{factor}*{text}" if len(coefficient.terms) == 1 else f"({factor})*{text}"


def _positive_first(terms: tuple[tuple[Monomial, int], ...]) -> list[tuple[Monomial, int]]:
    """Return the terms with a positive one in front where there is one: `t - k`, not `-k + t`."""
    ordered = list(terms)
    for position, (_, coefficient) in enumerate(ordered):
        if coefficient > 0:
            ordered.insert(0, ordered.pop(position))
            break
    return ordered


def _render_power(atom: Atom, power: int, prefix: str, alone: bool) -> str:
    """Return a power as text; a quotient stands in parentheses beside other factors."""
    if isinstance(atom, str):
        base = prefix + atom
    else:
        inner = atom.numerator.render(prefix)
        inner = inner if atom.numerator.symbol is not None else f"({inner})"
        base = f"{inner}//{atom.denominator}"
        base = base if alone and power == 1 else f"({base})"
    return "*".join([base] * power)


ONE = Dim.of(1)
ZERO = Dim.of(0)
