"""Element-wise expressions of whole arrays: `u ⊙ (1 - u)`.

Scalar, axes -> str
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from symgrad.program import (
    Access,
    Affine,
    Apply,
    Constant,
    Index,
    Number,
    Scalar,
    Size,
    substitute,
)
from symgrad.reading.blocks import (
    Inexpressible,
)
from symgrad.reading.cases import COMPARISONS
from symgrad.reading.closed import Shown, Summed
from symgrad.reading.hands import ADD, ATOM, MUL, ODOT, POWER
from symgrad.reading.labelled import LabelledWriter
from symgrad.reading.matching import Meanings
from symgrad.reading.places import sum_of, write_dim
from symgrad.reading.products import Product, indices_in, product_of

Written = tuple[str, int]

@dataclass(slots=True)
class ElementwiseWriter(LabelledWriter, ABC):
    """Writes element-wise expressions, with ⊙ between arrays."""

    @abstractmethod
    def access(self, access: Access, target: tuple[Index, ...], *, turn: bool = True) -> Written:
        """Write a whole array with the axes `target`."""

    @property
    def meanings(self) -> Meanings:
        """What the definitions say."""
        return Meanings(self.program, {}, frozenset(), {}, [])

    def number(self, number: Fraction | float) -> Written | None:
        """Write a number in front; None for 1."""
        if number == 1:
            return None
        if isinstance(number, Fraction) and number.denominator != 1:
            above, below = (self.hand.number(n) for n in number.as_integer_ratio())
            return self.hand.quotient(above, below, True), POWER
        return self.hand.number(float(number)), ATOM

    def closed(self, written: Written) -> str:
        """Return it in parentheses if it is a sum or an element-wise product."""
        return written[0] if written[1] > ODOT else self.hand.group(written[0])

    def scalar(self, atom: Shown, power: int) -> Written:
        """Write a factor without axes."""
        if power > 1 and isinstance(atom, Apply) and atom.function == "sqrt" and not atom.order:
            text, tight = self.element(atom.args[0], ())
            base = text if tight == ATOM else self.hand.group(text)
            half = self.hand.number(power // 2) if power % 2 == 0 else f"{power}/2"
            return (self.hand.power(base, half), POWER) if power > 2 else (text, tight)
        return self.raised(self.element(atom, ()), power)

    def raised(self, written: Written, power: int) -> Written:
        """Write a power."""
        if power == 1:
            return written
        base = written[0] if written[1] == ATOM else self.hand.group(written[0])
        return self.hand.power(base, self.hand.number(power)), POWER

    def element(self, atom: Shown, target: tuple[Index, ...]) -> Written:
        """Write an element-wise expression of arrays with the axes `target`."""
        match atom:
            case Number(value):
                return self.hand.number(value), ATOM
            case Constant():
                return self.hand.name("π"), ATOM
            case Size(dim):
                return write_dim(dim, self.hand)
            case Access():
                return self.access(atom, target)
            case Apply():
                return self.apply(atom, target)
            case _ if not isinstance(atom, Summed) and indices_in(atom) <= self.labels:
                return self.pen.write(atom)
            case _:
                raise Inexpressible("a delta, a guard or an index stands inside a function")

    def call(self, function: str, args: Sequence[str], order: Sequence[int] = ()) -> str:
        """Write a function call."""
        return self.hand.call(function, order, args)

    def apply(self, apply: Apply, target: tuple[Index, ...]) -> Written:
        """Write a function of arrays, element by element."""
        function, args = apply.function, apply.args
        part = self.meanings.softmax_of(apply)
        along = part.place.bare if part is not None and isinstance(part.place, Affine) else None
        if part is not None and target and along == target[-1]:
            inside = substitute(part.body, {part.bound: Affine.of(along)})
            return self.call("softmax", [self.element(inside, target)[0]]), ATOM
        if any(apply.order):
            inner = [self.element(a, target)[0] for a in args]
            return self.call(function, inner, apply.order), ATOM
        match function, args:
            case "add", (left, right):
                return sum_of([*self.addend(left, target), *self.addend(right, target)], self.hand)
            case "sub", (left, right):
                minus = [(not n, w) for n, w in self.addend(right, target)]
                return sum_of([*self.addend(left, target), *minus], self.hand)
            case ("mul" | "div" | "neg" | "square" | "reciprocal" | "pow"), _:
                return self.elementwise(product_of((apply,)), target)
            case "exp", (arg,) if not target:
                return self.hand.exp(self.element(arg, target)[0]), POWER
            case "abs", (arg,):
                return self.hand.absolute(self.element(arg, target)[0]), ATOM
            case "exp_difference", (left, right):
                return self.element(Apply("exp", (Apply("sub", (left, right)),)), target)
            case "ratio_or_zero", (left, right):
                return self.element(Apply("div", (left, right)), target)
            case "sqrt", (arg,):
                return self.hand.sqrt(self.element(arg, target)[0]), ATOM
            case "where", (mask, Number(1), Number(0)):
                return self.element(mask, target)
        if function in COMPARISONS:
            left_text, right_text = (self.element(a, target)[0] for a in args)
            return self.hand.bracket(self.hand.compared(left_text, function, right_text)), ATOM
        if function in ("where", "and_", "or_", "not_"):
            raise Inexpressible("it is defined by cases")
        return self.call(function, [self.element(a, target)[0] for a in args]), ATOM

    def addend(self, scalar: Scalar, target: tuple[Index, ...]) -> list[tuple[bool, Written]]:
        """Return a term of an element-wise sum with its sign."""
        if isinstance(scalar, Apply) and scalar.function in ("add", "sub") and not scalar.order:
            return [(False, self.element(scalar, target))]
        product = product_of((scalar,))
        negative = product.number < 0
        if negative:
            product.number = -product.number
        return [(negative, self.elementwise(product, target))]

    def elementwise(self, product: Product, target: tuple[Index, ...]) -> Written:
        """Write an element-wise product: numbers and scalars plain, arrays with ⊙ between."""
        atoms = (*product.over, *product.under)
        if any(isinstance(a, Apply) and a.function == "pow" for a in atoms):
            raise Inexpressible("it holds a general power")
        negative = product.number < 0
        if negative:
            product.number = -product.number
        number = self.number(product.number)
        plain = [number] if number else []
        arrays: list[Written] = []
        for atom, power in product.over.items():
            written = self.element(atom, target)
            if target and self.has_axes(atom):
                arrays += [written] * power if len(target) > 1 else [self.raised(written, power)]
            else:
                plain.append(self.raised(written, power))
        items = [self.closed(w) for w in plain]
        if arrays:
            joined = self.hand.odot([self.closed(w) for w in arrays])
            items.append(joined if len(arrays) == 1 or not plain else self.hand.group(joined))
        total = [*plain, *arrays]
        if len(total) == 1:
            text, tight = total[0]
        else:
            text = self.hand.join([("", i) for i in items]) if items else self.hand.number(1)
            tight = ATOM if not total else MUL if plain else ODOT
        if product.under:
            text, tight = self.divided((text, tight), product, target), MUL
        return (self.hand.total([(True, text)]), ADD) if negative else (text, tight)

    def divided(self, top: Written, product: Product, target: tuple[Index, ...]) -> str:
        """Write an element-wise quotient."""
        below = [self.raised(self.element(a, target), n) for a, n in product.under.items()]
        lone = below[0] if len(below) == 1 else None
        items = [self.closed(w) for w in below]
        joined = self.hand.odot(items) if target else self.hand.join([("", i) for i in items])
        under = lone[0] if lone else joined
        simple = lone is not None and lone[1] >= POWER
        plain = top[1] > ODOT or self.hand.barred
        return self.hand.quotient(top[0] if plain else self.hand.group(top[0]), under, simple)

    def transposed(self, written: Written) -> str:
        """Write a transpose."""
        return self.hand.transpose(
            written[0] if written[1] == ATOM else self.hand.group(written[0])
        )
