"""Whole arrays written: terms as products of matrices, element-wise expressions with ⊙.

Term, ... -> str
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from symgrad.algebra.contract import contract
from symgrad.program import (
    Access,
    Affine,
    Apply,
    Constant,
    Definition,
    Index,
    Lookup,
    Number,
    Position,
    Program,
    Reduce,
    Rowwise,
    Scalar,
    Size,
    Term,
    substitute,
)
from symgrad.reading.blocks import (
    Block,
    Inexpressible,
    Leaf,
    Summand,
    added,
    write_block,
    write_sum,
)
from symgrad.reading.cases import COMPARISONS
from symgrad.reading.closed import ClosedForm, Shown
from symgrad.reading.hands import ADD, ATOM, MUL, ODOT, POWER, Hand
from symgrad.reading.matching import Meanings
from symgrad.reading.network import Network, axes_of, is_batch
from symgrad.reading.places import sum_of, write_dim
from symgrad.reading.products import Product, indices_in, product_of

Written = tuple[str, int]


@dataclass(slots=True)
class MatrixWriter:
    """Writes terms as products of matrices and vectors; `titles` are the names that the
    derivation made, `said` collects the names that were written.
    """

    program: Program
    hand: Hand
    definitions: Mapping[str, Definition]
    titles: Mapping[str, str]
    said: dict[str, None] = field(default_factory=dict)

    def jacobian(self, form: ClosedForm) -> str:
        """Write a Jacobian of at most two axes."""
        target = tuple(i for i in (*form.out, *form.theta) if i.dim.constant != 1)
        return self.terms(form.terms, target)[0]

    def pulled(self, form: ClosedForm, cotangent: str) -> str:
        """Write the product of a cotangent with a Jacobian."""
        target = tuple(i for i in form.theta if i.dim.constant != 1)
        out = tuple(i for i in form.out if i.dim.constant != 1)
        if len(target) > 2:
            raise Inexpressible(f"{form.parameter} has {len(target)} axes")
        g = Access(cotangent, tuple(Affine.of(i) for i in out))
        terms = (Term((*out, *t.bound), (g, *t.factors)) for t in form.terms)
        done = (contract(term, prefer=out) for term in terms)
        return self.terms(tuple(t for t in done if t is not None), target)[0]

    @property
    def meanings(self) -> Meanings:
        """What the definitions say."""
        return Meanings(self.program, {}, frozenset(), {}, [])

    def terms(self, terms: Sequence[Term], target: tuple[Index, ...]) -> Written:
        """Write a sum of terms whose free indices are `target`."""
        if not terms:
            return self.hand.number(0), ATOM
        products = [product_of(term.factors, term.bound) for term in terms]
        several = len(products) > 1 and any(self.reaches(p, target) for p in products)
        items = [Network(self, target, several).summand(p) for p in products]
        below = items[0].below
        if len(items) > 1 and below and all(s.below == below for s in items):
            rest = added([Summand(s.negative, s.number, s.scalars, (), s.block) for s in items])
            return write_sum([Summand(False, None, (), below, rest)], self.hand)
        if len(items) == 1:
            return write_sum(items, self.hand)
        total = added(items)
        return (self.hand.number(1), ATOM) if total is None else write_block(total, self.hand)

    def reaches(self, product: Product, target: tuple[Index, ...]) -> bool:
        """Whether a product varies along an axis of the result."""
        return any(set(target) & indices_in(a) for a in (*product.over, *product.under))

    def definition(self, definition: Definition) -> str:
        """Write a definition as an equation between whole arrays."""
        target = tuple(
            i for i in definition.indices if i != self.program.batch and i.dim.constant != 1
        )
        if len(target) > 2:
            raise Inexpressible(f"{self.title(definition.name)} has {len(target)} axes")
        try:
            right = self.body(definition, target)[0]
        except Inexpressible as reason:
            raise Inexpressible(f"in {self.title(definition.name)}, {reason}") from None
        return self.hand.equation(self.hand.name(self.title(definition.name)), right)

    def title(self, name: str) -> str:
        """Return the name an array is written by."""
        return self.titles.get(name, name)

    def number(self, number: Fraction | float) -> Written | None:
        """Write a number in front; None for 1."""
        if number == 1:
            return None
        if isinstance(number, Fraction) and number.denominator != 1:
            above, below = (self.hand.number(n) for n in number.as_integer_ratio())
            return self.hand.quotient(above, below, True), POWER
        return self.hand.number(float(number)), ATOM

    def block(self, atom: Shown, axes: tuple[Index, ...]) -> Block:
        """Return an element-wise expression as a block with these axes."""
        if isinstance(atom, Access):
            text, tight = self.access(atom, axes, turn=False)
            places = [p for p in atom.at if not is_batch(p)]
            row = len(axes) == 1 and len(places) == 2 and places[1] == Affine.of(axes[0])
            return Leaf(text, tight, self.is_turned(atom, axes), row)
        return Leaf(*self.element(atom, axes))

    def is_turned(self, access: Access, axes: tuple[Index, ...]) -> bool:
        """Whether an array is read with its axes exchanged."""
        bare = axes_of(access)
        return len(bare) == 2 and tuple(bare) != axes

    def unit(self, position: Position) -> str:
        """Write the unit vector at a position that is data, or a number."""
        if isinstance(position, Lookup):
            where = self.hand.name(self.title(position.array))
        else:
            where = write_dim(position.offset, self.hand)[0]
            if position.terms:
                raise Inexpressible("a delta ties shifted positions")
        return self.hand.call("onehot", (), [where])

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
            case _:
                raise Inexpressible("a delta, a guard or an index stands inside a function")

    def access(
        self, access: Access, target: tuple[Index, ...], *, turn: bool = True
    ) -> Written:
        """Write a whole array, or in place what nobody named; a vector in a matrix repeats."""
        axes = tuple(axes_of(access))
        written = self.array(access, axes)
        if axes == target or not axes:
            return written
        if tuple(reversed(axes)) == target:
            return (self.transposed(written), POWER) if turn else written
        if len(axes) == 1 and len(target) == 2 and axes[0] in target:
            ones, column = self.hand.ones, self.closed(written)
            if axes[0] == target[0]:
                return self.hand.matrices([column, self.hand.transpose(ones)]), MUL
            return self.hand.matrices([ones, self.transposed(written)]), MUL
        raise Inexpressible(f"{access.array} does not have the axes of its formula")

    def array(self, access: Access, axes: tuple[Index, ...]) -> Written:
        """Write an array by its name, its body, or the rows that are gathered from it."""
        visible = self.visible(access)
        bare = [p.bare if isinstance(p, Affine) else None for p in visible]
        name = self.hand.name(self.title(access.array))
        if None in bare:
            first = visible[0]
            if not isinstance(first, Lookup) or None in bare[1:] or len(axes) > 2:
                raise Inexpressible(f"{access.array} is read at shifted or gathered positions")
            self.said[access.array] = None
            return self.hand.gathered(name, self.hand.name(self.title(first.array))), ATOM
        if len(set(bare)) != len(bare):
            raise Inexpressible(f"only the diagonal of {access.array} is read")
        definition = self.definitions.get(access.array)
        if definition is None or definition.written or access.array in self.titles:
            self.said[access.array] = None
            return name, ATOM
        return self.in_place(definition)

    def in_place(self, definition: Definition) -> Written:
        """Write the body of a definition that nobody named."""
        target = tuple(
            i for i in definition.indices if i != self.program.batch and i.dim.constant != 1
        )
        return self.body(definition, target)

    def body(self, definition: Definition, target: tuple[Index, ...]) -> Written:
        """Write what a definition is equal to, for whole arrays."""
        match definition.body:
            case tuple():
                return self.terms(definition.body, target)
            case Rowwise(kind, bound, inner, at) if len(at) == 1 and at == target[-1:]:
                inside = substitute(
                    inner, {b: Affine.of(a) for b, a in zip(bound, at, strict=True)}
                )
                return self.hand.call(kind, (), (self.element(inside, target)[0],)), ATOM
            case Reduce(kind, bound, inner):
                whole = self.element(inner, (*target, *bound))[0]
                return self.hand.call(kind, (), (whole,)), ATOM
            case _:
                raise Inexpressible(f"{definition.name} is taken along its first axis")

    def visible(self, access: Access) -> list[Position]:
        """Return the positions of the axes that are not batch and not of literal length 1."""
        at = [p for p in access.at if not is_batch(p)]
        array = self.program.array(access.array)
        definition = self.definitions.get(access.array)
        dims = list(array.axes) if array is not None else []
        if array is None and definition is not None:
            dims = [i.dim for i in definition.indices if i != self.program.batch]
        if len(dims) != len(at):
            return at
        return [p for p, d in zip(at, dims, strict=True) if d.constant != 1]

    def call(self, function: str, args: Sequence[str], order: Sequence[int] = ()) -> str:
        """Write a function call."""
        return self.hand.call(function, order, args)

    def apply(self, apply: Apply, target: tuple[Index, ...]) -> Written:
        """Write a function of arrays, element by element."""
        function, args = apply.function, apply.args
        part = self.meanings.softmax_of(apply)
        along = part.place.bare if part is not None and isinstance(part.place, Affine) else None
        if part is not None and target and along == target[-1]:
            whole = substitute(part.body, {part.bound: Affine.of(along)})
            return self.call("softmax", [self.element(whole, target)[0]]), ATOM
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
        under = lone[0] if lone else self.hand.odot([self.closed(w) for w in below])
        simple = lone is not None and lone[1] >= POWER
        plain = top[1] > ODOT or self.hand.barred
        return self.hand.quotient(top[0] if plain else self.hand.group(top[0]), under, simple)

    def has_axes(self, atom: Shown) -> bool:
        """Whether an expression varies along some axis that is written."""
        return any(i != self.program.batch and i.dim.constant != 1 for i in indices_in(atom))

    def transposed(self, written: Written) -> str:
        """Write a transpose."""
        return self.hand.transpose(
            written[0] if written[1] == ATOM else self.hand.group(written[0])
        )
