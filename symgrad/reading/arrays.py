"""Whole arrays written: terms as products of matrices, element-wise expressions with ⊙.

Term, ... -> str
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from symgrad.algebra.contract import contract
from symgrad.program import (
    Access,
    Affine,
    Body,
    Definition,
    Index,
    Lookup,
    Position,
    Primitive,
    Reduce,
    Rowwise,
    Term,
    over_body,
    scalars_of,
    substitute,
)
from symgrad.reading.blocks import (
    Block,
    Chain,
    Inexpressible,
    Leaf,
    Summand,
    added,
    chain,
    transposed,
    write_block,
    write_sum,
)
from symgrad.reading.closed import ClosedForm, Shown
from symgrad.reading.elementwise import ElementwiseWriter
from symgrad.reading.hands import ADD, ATOM, MUL, POWER
from symgrad.reading.labels import (
    labels_of,
)
from symgrad.reading.network import Network, is_batch
from symgrad.reading.places import write_dim
from symgrad.reading.products import Product, indices_in, product_of
from symgrad.reading.whole import element, is_function, titled, whole

Written = tuple[str, int]


@dataclass(frozen=True, slots=True)
class MatrixForm:
    """A derivative in matrix style: the two names of its left side, with labels, and its value.

    `marked` says that it, or what it reads, writes labels; `pulled` that it is the product with a
    cotangent.
    """

    output: str
    parameter: str
    right: str
    marked: bool
    pulled: bool


@dataclass(slots=True)
class MatrixWriter(ElementwiseWriter):
    """Writes terms as products of matrices and vectors."""

    def jacobian(self, form: ClosedForm) -> MatrixForm:
        """Write a Jacobian of at most two axes."""
        target = tuple(i for i in (*form.out, *form.theta) if i.dim.constant != 1)
        self.begin([f for t in form.terms for f in t.factors], target)
        axes = self.axes(target)
        if len(axes) > 2:
            raise Inexpressible(f"{form.title} has {len(axes)} axes")
        right = self.terms(form.terms, axes)[0]
        above = self.labelled(form.output, form.out)
        left = self.labelled(form.parameter, form.axes[0])
        return MatrixForm(above, left, right, self.marked, False)

    def pulled(self, form: ClosedForm, cotangent: str) -> MatrixForm:
        """Write the product of a cotangent with a Jacobian."""
        target = tuple(i for i in form.theta if i.dim.constant != 1)
        out = tuple(i for i in form.out if i.dim.constant != 1)
        g = Access(cotangent, tuple(Affine.of(i) for i in out))
        terms = (Term((*out, *t.bound), (g, *t.factors)) for t in form.terms)
        done = [t for t in (contract(term, prefer=out) for term in terms) if t is not None]
        self.begin([f for t in done for f in t.factors], target)
        right = self.terms(done, self.axes(target, few=True))[0]
        left = self.labelled(form.parameter, form.axes[0])
        return MatrixForm(self.hand.name(form.output), left, right, self.marked, True)

    def terms(self, terms: Sequence[Term], target: tuple[Index, ...]) -> Written:
        """Write a sum of terms whose free indices are `target`."""
        if not terms:
            return self.hand.number(0), ATOM
        products = [product_of(term.factors, term.bound) for term in terms]
        several = len(products) > 1 and any(self.reaches(p, target) for p in products)
        groups: dict[tuple[Index, ...], list[Product]] = {}
        for product in products:
            over = tuple(i for i in product.bound if i in self.labels)
            groups.setdefault(over, []).append(product)
        items = [
            s for over, group in groups.items() for s in self.summands(group, over, target, several)
        ]
        below = items[0].below
        if len(items) > 1 and below and all(s.below == below for s in items):
            rest = added([replace(s, below=()) for s in items])
            return write_sum([Summand(False, None, (), (), below, rest)], self.hand)
        if len(items) == 1:
            return write_sum(items, self.hand)
        total = added(items)
        return (self.hand.number(1), ATOM) if total is None else write_block(total, self.hand)

    def summands(
        self,
        products: Sequence[Product],
        over: tuple[Index, ...],
        target: tuple[Index, ...],
        several: bool,
    ) -> list[Summand]:
        """Return products as terms; those summed over labels are one term."""
        with self.letters.bind(over) as letters:
            items = [Network(self, target, several).summand(p) for p in products]
            if not over:
                return items
            negative = all(s.negative for s in items)
            total = added([replace(s, negative=s.negative != negative) for s in items])
            text, tight = (self.hand.number(1), ATOM) if total is None else write_block(
                total, self.hand
            )
            body = text if tight > ADD else self.hand.group(text)
            big = self.hand.big("sum", [self.hand.name(n) for n in letters], body)
        return [Summand(negative, None, (), (), (), Leaf(big, MUL))]

    def reaches(self, product: Product, target: tuple[Index, ...]) -> bool:
        """Whether a product varies along an axis of the result."""
        return any(set(target) & indices_in(a) for a in (*product.over, *product.under))

    def definition(self, definition: Definition) -> str:
        """Write a definition as an equation between whole arrays."""
        target = tuple(
            i for i in definition.indices if i != self.program.batch and i.dim.constant != 1
        )
        self.begin(list(scalars_of(definition.body)), target)
        title = self.title(definition.name)
        try:
            right = self.body(definition, self.axes(target, few=True))[0]
        except Inexpressible as reason:
            raise Inexpressible(f"in {title}, {reason}") from None
        return self.hand.equation(self.labelled(definition.name, definition.indices), right)

    def end(self, definition: Definition, lag: int) -> str:
        """Write that an adjoint is zero `lag` steps after the last one."""
        assert definition.loop is not None
        step = definition.loop.index
        self.begin(list(scalars_of(definition.body)), definition.indices)
        self.axes([i for i in definition.indices if i != self.program.batch], few=True)
        at = [
            Affine.of(step.dim) + (lag - 1) if i == step else Affine.of(i)
            for i in definition.indices
        ]
        left = self.array(Access(definition.name, tuple(at)))[0]
        return self.hand.equation(left, self.hand.number(0))

    def block(self, atom: Shown, axes: tuple[Index, ...]) -> Block:
        """Return an element-wise expression as a block with these axes."""
        if isinstance(atom, Access):
            text, tight = self.access(atom, axes, turn=False)
            places = [p for p in atom.at if not is_batch(p)]
            row = len(axes) == 1 and len(places) == 2 and places[1] == Affine.of(axes[0])
            row = row and len(self.visible(atom)) == 1
            return self.product(atom, axes) or Leaf(text, tight, self.is_turned(atom, axes), row)
        return Leaf(*self.element(atom, axes))

    def product(self, access: Access, axes: tuple[Index, ...]) -> Block | None:
        """Return a function of matrices that nobody named as the matrices it is a product of."""
        definition = self.unnamed(access.array)
        if definition is None:
            return None
        turned = self.is_turned(access, axes)
        if isinstance(definition.body, tuple):
            made = self.lone(definition, access)
            return transposed(made) if made is not None and turned else made
        body = self.moved(definition, access)
        own = access.at[len(access.at) - len(body.at) :] if isinstance(body, Primitive) else ()
        if not isinstance(body, Primitive) or self.marks(own):
            return None
        match body.kind:
            case "inv":
                texts = [whole(body, self.hand, self.operand, turned=t)[0] for t in (False, True)]
                return Leaf(texts[0], POWER, turned, transpose=texts[1])
            case "solve":
                matrix, right = body.operands
                first = replace(body, kind="inv", operands=(matrix,), axes=body.axes[:1])
                texts = [whole(first, self.hand, self.operand, turned=t)[0] for t in (False, True)]
                behind = self.block(right, tuple(i for i in body.axes[1] if i.dim.constant != 1))
                made = chain(Leaf(texts[0], POWER, transpose=texts[1]), behind)
                return transposed(made) if turned else made
            case _:
                return None

    def lone(self, definition: Definition, access: Access) -> Block | None:
        """Return a definition that is one product of matrices and nothing else."""
        body = self.moved(definition, access)
        if not isinstance(body, tuple) or len(body) != 1 or set(body[0].bound) & self.labels:
            return None
        target = self.own_axes(definition, access)
        made = Network(self, target).summand(product_of(body[0].factors, body[0].bound))
        plain = not (made.negative or made.number or made.front or made.scalars or made.below)
        return made.block if plain and isinstance(made.block, Chain) else None

    def operand(self, operand: Access, axes: Sequence[Index]) -> str:
        """Write the array that a function of whole matrices has as its operand."""
        definition = self.unnamed(operand.array)
        if definition is None or not isinstance(definition.body, Primitive):
            own = {Affine.of(i) for i in axes}
            stack = [p for p in self.visible(operand) if p not in own]
            self.said[operand.array] = None
            if not all(self.is_label(p) for p in stack):
                raise Inexpressible(f"{operand.array} is a stack of matrices")
            return self.hand.indexed(self.title(operand.array), self.marks(stack))
        body = self.moved(definition, operand)
        assert isinstance(body, Primitive)
        text, tight = whole(body, self.hand, self.operand)
        return text if tight == ATOM else self.hand.group(text)

    def is_turned(self, access: Access, axes: tuple[Index, ...]) -> bool:
        """Whether an array is read with its axes exchanged."""
        bare = self.axes_of(access)
        return len(bare) == 2 and tuple(bare) != axes

    def unit(self, position: Position) -> str:
        """Write the unit vector at a position that is data, or a number."""
        if isinstance(position, Lookup):
            where = self.hand.name(self.title(position.array))
        elif self.is_label(position):
            where = self.pen.position(position)
        else:
            where = write_dim(position.offset, self.hand)[0]
            if position.terms:
                raise Inexpressible("a delta ties shifted positions")
        return self.hand.call("onehot", (), [where])

    def access(
        self, access: Access, target: tuple[Index, ...], *, turn: bool = True
    ) -> Written:
        """Write a whole array, or in place what nobody named; a vector in a matrix repeats."""
        axes = tuple(self.axes_of(access))
        written = self.array(access)
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

    def array(self, access: Access) -> Written:
        """Write an array by its name, its body, or the rows that are gathered from it."""
        visible = self.visible(access)
        free = [p for p in visible if not self.is_label(p)]
        bare = [p.bare for p in free]
        if len(set(bare)) != len(bare):
            raise Inexpressible(f"only the diagonal of {access.array} is read")
        if None in bare:
            first = free[0]
            if not isinstance(first, Lookup) or None in bare[1:] or visible != free:
                raise Inexpressible(f"{access.array} is read at shifted or gathered positions")
            self.said[access.array] = None
            where = self.hand.name(self.title(first.array))
            return self.hand.gathered(self.hand.name(self.title(access.array)), where), ATOM
        definition = self.unnamed(access.array)
        if definition is None:
            self.said[access.array] = None
            return titled(self.pen, access.array, self.marks(visible)), ATOM
        body = self.moved(definition, access)
        written = self.body(replace(definition, body=body), self.own_axes(definition, access))
        if not isinstance(body, Primitive):
            return written
        return element(written, self.marks(access.at[len(access.at) - len(body.at) :]), self.hand)

    def unnamed(self, name: str) -> Definition | None:
        """Return the definition that is written in place, because nobody named it."""
        definition = self.definitions.get(name)
        if definition is None or definition.written:
            return None
        return None if name in self.titles and not is_function(definition) else definition

    def own_axes(self, definition: Definition, access: Access) -> tuple[Index, ...]:
        """Return the axes of a definition that an access reads as a whole."""
        pairs = zip(reversed(definition.indices), reversed(access.at), strict=False)
        return tuple(reversed([
            i for i, p in pairs
            if i != self.program.batch and i.dim.constant != 1 and not self.is_label(p)
        ]))  # fmt: skip

    def moved(self, definition: Definition, access: Access) -> Body:
        """Return what a definition is at the labels of an access."""
        pairs = zip(reversed(definition.indices), reversed(access.at), strict=False)
        mapping = {i: p for i, p in pairs if isinstance(p, Affine) and self.is_label(p)}
        body = over_body(definition.body, lambda scalar: substitute(scalar, mapping))
        target = self.own_axes(definition, access)
        self.labels |= labels_of(list(scalars_of(body)), self.stacks, self.program)
        if self.labels & set(target):
            raise Inexpressible(f"{access.array} is read at shifted or gathered positions")
        return body

    def body(self, definition: Definition, target: tuple[Index, ...]) -> Written:
        """Write what a definition is equal to, for whole arrays."""
        match definition.body:
            case tuple():
                return self.terms(definition.body, target)
            case Rowwise(kind, bound, inner, at) if len(at) == 1 and at == target[-1:]:
                mapping = {b: Affine.of(a) for b, a in zip(bound, at, strict=True)}
                row = self.element(substitute(inner, mapping), target)[0]
                return self.hand.call(kind, (), (row,)), ATOM
            case Reduce(kind, bound, inner):
                inside = self.element(inner, (*target, *bound))[0]
                return self.hand.call(kind, (), (inside,)), ATOM
            case Primitive() as body:
                return whole(body, self.hand, self.operand)
            case _:
                raise Inexpressible(f"{definition.name} is taken along its first axis")
