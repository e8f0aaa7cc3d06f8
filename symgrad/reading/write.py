"""Formulas written out: program nouns and closed forms, by the hand of a notation.

Shown, Letters -> str
The batch index and axes of literal length 1 are never written; definitions nobody named are
written in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from symgrad.dims import Dim, Floor
from symgrad.program import (
    Access,
    Affine,
    Apply,
    Constant,
    Definition,
    Delta,
    Guard,
    Index,
    Lookup,
    Number,
    Place,
    Position,
    Primitive,
    Program,
    Reduce,
    Rowwise,
    Scalar,
    Size,
    move,
    substitute,
)
from symgrad.reading.closed import Piece, Shown, Summed
from symgrad.reading.hands import ADD, ATOM, MUL, POWER, Hand
from symgrad.reading.layout import (
    has_delta,
    is_group,
    moved_piece,
    number_parts,
    one_term,
    opposite,
    place,
    powers,
    size,
    split_by,
    with_ratios,
)
from symgrad.reading.letters import Letters
from symgrad.reading.products import Product, product_of
from symgrad.reading.whole import element, in_place, whole

Written = tuple[str, int]
COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
INLINE_NODES = 14


@dataclass(slots=True)
class Writer:
    """Writes formulas of one program in one notation.

    `adjoints` are the names of arrays that the derivation made; `alphabetical` orders factors
    without indices by name (a definition keeps the order its author chose).
    """

    program: Program
    hand: Hand
    letters: Letters
    definitions: Mapping[str, Definition]
    adjoints: frozenset[str] = frozenset()
    alphabetical: bool = True

    def shown(self, shown: Shown) -> str:
        """Return the formula as a whole."""
        return self.write(shown)[0]

    def write(self, shown: Shown) -> Written:
        """Return the formula and how tightly it holds together."""
        match shown:
            case Summed(pieces):
                return self.sum_of([self.signed_piece(p) for p in pieces])
            case Number(value):
                return self.hand.number(value), (ATOM if value >= 0 else ADD)
            case Constant():
                return self.hand.name("π"), ATOM
            case Size(dim):
                return self.dim(dim)
            case Place(affine):
                return self.affine(affine)
            case Access():
                return self.access(shown)
            case Delta(left, right):
                return self.delta(left, right), ATOM
            case Guard():
                return self.hand.bracket(self.within(shown)), ATOM
            case Apply():
                return self.apply(shown)

    def sum_of(self, signed: Sequence[tuple[bool, Written]]) -> Written:
        """Join terms by their signs; no terms are zero."""
        if not signed:
            return "0", ATOM
        if len(signed) == 1 and not signed[0][0]:
            return signed[0][1]
        text = ""
        for negative, (written, tight) in signed:
            inner = self.hand.group(written) if negative and tight == ADD else written
            if not text:
                text = f"-{inner}" if negative else inner
            else:
                text += f" {'-' if negative else '+'} {inner}"
        return text, ADD

    def signed_piece(self, piece: Piece) -> tuple[bool, Written]:
        """Return whether it is negative, and its absolute value written."""
        with self.letters.bind(piece.bound):
            product = product_of(piece.factors)
            negative = product.number < 0
            if negative:
                product.number = -product.number
            if not piece.bound:
                return negative, self.product(product)
            outer, inner = split_by(product, frozenset(piece.bound))
            body, tight = self.product(inner)
            if tight == ADD:
                body = self.hand.group(body)
            bound = [self.hand.name(self.letters.take(i)) for i in piece.bound]
            total = self.hand.big("sum", bound, body)
            if not outer.over and not outer.under and outer.number == 1:
                return negative, (total, MUL)
            before, hold = self.product(outer)
            before = self.hand.group(before) if hold == ADD else before
            return negative, (self.hand.join([("", before), ("", total)]), MUL)

    def product(self, product: Product) -> Written:
        """Write a product: plain fractions first, sums in parentheses behind them."""
        product = with_ratios(product)
        number = number_parts(product)
        above = [*number[0], *powers(product.over)]
        below = [*number[1], *powers(product.under)]
        if not below:
            return self.factors(above)
        near = [f for f in above if not is_group(f)]
        far = [f for f in above if is_group(f)]
        if not near and len(far) == 1 and not has_delta(far[0][0]):
            near, far = far, []
        if near and isinstance(near[0][0], Delta) and len(near) + len(far) > 1:
            rest = Product((), product.number, {k: v for k, v in product.over.items()
                                                if k is not near[0][0]}, product.under)
            head, (tail, tight) = self.write(near[0][0]), self.product(rest)
            return self.hand.join([("delta", head[0]), ("", tail)]), MUL
        top, tight = self.factors(near) if near else ("1", ATOM)
        if tight == ADD:
            top = self.close(top)
        bottom, hold = self.factors(below)
        fraction = self.hand.quotient(top, bottom, hold >= POWER), MUL
        if not far:
            return fraction
        rest_text = self.factors(far, alone=False)[0]
        return self.hand.join([("fraction", fraction[0]), ("group", rest_text)]), MUL

    def close(self, inner: str) -> str:
        """Group a numerator where the notation needs it."""
        plain = self.hand.quotient("?", "?", True).startswith("?")
        return self.hand.group(inner) if plain else inner

    def factors(self, factors: Sequence[tuple[Shown, int]], alone: bool = True) -> Written:
        """Write factors side by side: deltas first, scalars of the layer last."""
        ordered = sorted(factors, key=lambda f: place(f[0]))
        if self.alphabetical and all(self.is_plain(f[0]) or place(f[0]) in (0, 3) for f in ordered):
            ordered.sort(key=lambda f: (place(f[0]), self.plain_name(f[0])))
        if len(ordered) == 1 and alone:
            return self.powered(*ordered[0])
        parts: list[tuple[str, str]] = []
        for atom, power in ordered:
            text, tight = self.powered(atom, power)
            if tight <= ADD or (tight == MUL and (atom, power) != ordered[-1]):
                parts.append(("group", self.hand.group(text)))
            else:
                grouped = power == 1 and text.startswith("(") and text.endswith(")")
                kind = "element" if isinstance(atom, Access) and atom.at else "other"
                element = kind == "element" and self.subscripted(atom)
                parts.append(("group" if grouped else "element" if element else "other", text))
        return self.hand.join(parts), (MUL if len(parts) > 1 else ATOM)

    def subscripted(self, atom: Shown) -> bool:
        """Whether an access is written with a subscript, so that `(` cannot look like a call."""
        return isinstance(atom, Access) and bool(self.visible(atom))

    def is_plain(self, atom: Shown) -> bool:
        """Whether it is an array without axes, written by its name."""
        return isinstance(atom, Access) and not self.visible(atom)

    def plain_name(self, atom: Shown) -> str:
        """Return the name scalars are ordered by, as in `a b x`."""
        return atom.array if isinstance(atom, Access) else ""

    def powered(self, atom: Shown, power: int) -> Written:
        """Write an atom with a power."""
        if power == 1:
            return self.write(atom)
        if isinstance(atom, Apply) and atom.function == "sqrt" and not atom.order:
            base, tight = self.write(atom.args[0])
            base = base if tight == ATOM else self.hand.group(base)
            if power % 2:
                return self.hand.power(base, f"{power}/2"), POWER
            return (self.hand.power(base, str(power // 2)) if power > 2 else base), POWER
        text, tight = self.write(atom)
        base = text if tight == ATOM else self.hand.group(text)
        return self.hand.power(base, str(power)), POWER

    def dim(self, dim: Dim) -> Written:
        """Write a dim polynomial."""
        signed: list[tuple[bool, Written]] = []
        for monomial, number in dim.terms:
            parts = [self.hand.number(abs(number))] if abs(number) != 1 or not monomial else []
            for atom, power in monomial:
                if isinstance(atom, Floor):
                    inner = self.dim(atom.numerator)[0]
                    text = f"⌊({inner})/{atom.denominator}⌋"
                    if self.hand.quotient("a", "b", True) != "a/b":
                        fraction = self.hand.quotient(inner, str(atom.denominator), True)
                        text = rf"\lfloor {fraction} \rfloor"
                else:
                    text = self.hand.name(atom)
                parts.append(self.hand.power(text, str(power)) if power > 1 else text)
            joined = " ".join(parts)
            signed.append((number < 0, (joined, ATOM if len(parts) == 1 else MUL)))
        signed.sort(key=lambda item: item[0])
        return self.sum_of(signed)

    def affine(self, affine: Affine) -> Written:
        """Write a position as a number."""
        signed: list[tuple[bool, Written]] = []
        for index, _ in affine.terms:
            self.letters.take(index)
        named = list(self.letters.used)
        for index, number in sorted(affine.terms, key=lambda term: named.index(term[0])):
            letter = self.hand.name(self.letters.take(index))
            many = f"{abs(number)} {letter}" if abs(number) != 1 else letter
            signed.append((number < 0, (many, ATOM if abs(number) == 1 else MUL)))
        if affine.offset.terms or not signed:
            text, tight = self.dim(affine.offset)
            lone = affine.offset.constant
            if lone is not None and lone < 0:
                signed.append((True, (str(-lone), ATOM)))
            else:
                signed.append((False, (text, tight)))
        signed.sort(key=lambda item: item[0])
        return self.sum_of(signed)

    def position(self, position: Position) -> str:
        """Write a position as a subscript, without spaces."""
        if isinstance(position, Lookup):
            at = tuple(p for p in position.at if not self.is_batch(p))
            return self.hand.indexed(self.title(position.array), [self.position(p) for p in at])
        return self.affine(position)[0].replace(" + ", "+").replace(" - ", "-")

    def delta(self, left: Position, right: Position) -> str:
        """Write a Kronecker delta, the index that was named first in front."""
        order = list(self.letters.used)
        places = [
            order.index(p.bare) if isinstance(p, Affine) and p.bare in self.letters.used
            and p.bare is not None else len(order)
            for p in (left, right)
        ]
        if places[1] < places[0]:
            left, right = right, left
        return self.hand.delta(self.position(left), self.position(right))

    def title(self, name: str) -> str:
        """Return the name an array is written by: `G_z` of the derivation is `G^z`."""
        return name.replace("_", "^", 1) if name in self.adjoints else name

    def is_batch(self, position: Position) -> bool:
        """Whether a position is the sample's number."""
        return isinstance(position, Affine) and position.bare == self.program.batch

    def visible(self, access: Access) -> list[Position]:
        """Return the positions that are written: no batch, no axis of literal length 1."""
        at = [p for p in access.at if not self.is_batch(p)]
        array = self.program.array(access.array)
        if array is not None:
            return [p for p, d in zip(at, array.axes, strict=True) if d.constant != 1]
        definition = self.definitions.get(access.array)
        if definition is not None:
            axes = [i.dim for i in definition.indices if i != self.program.batch]
            if len(axes) == len(at):
                return [p for p, d in zip(at, axes, strict=True) if d.constant != 1]
        return at

    def access(self, access: Access) -> Written:
        """Write an element, or the body of a short definition nobody named."""
        definition = self.definitions.get(access.array)
        if definition is not None and self.written_in_place(definition):
            return self.in_place(definition, access)
        if definition is not None and in_place(definition, self.adjoints):
            indices = definition.indices[len(definition.indices) - len(access.at) :]
            pairs = zip(indices, access.at, strict=True)  # the batch may be left out
            return self.body(definition, {i: p for i, p in pairs if isinstance(p, Affine)})
        at = [self.position(p) for p in self.visible(access)]
        return self.hand.indexed(self.title(access.array), at), ATOM

    def written_in_place(self, definition: Definition) -> bool:
        """Whether a definition nobody named is short enough to be written where it is read."""
        if definition.written or definition.name in self.adjoints:
            return False
        body = definition.body
        if isinstance(body, Primitive):
            return False  # as a whole, not element by element
        if isinstance(body, tuple):
            return sum(size(f) for t in body for f in t.factors) <= INLINE_NODES
        if isinstance(body, Reduce) and body.kind in ("argmax", "argmin"):
            return False
        return size(body.body) <= INLINE_NODES

    def in_place(self, definition: Definition, access: Access) -> Written:
        """Write a definition's body at the positions of an access."""
        mapping: dict[Index, Affine] = {}
        for index, position in zip(definition.indices, access.at, strict=True):
            if not isinstance(position, Affine):
                at = [self.position(p) for p in self.visible(access)]
                return self.hand.indexed(access.array, at), ATOM
            mapping[index] = position
        return self.body(definition, mapping)

    def body(self, definition: Definition, mapping: Mapping[Index, Affine]) -> Written:
        """Write what a definition is equal to."""
        body = definition.body
        match body:
            case tuple():
                pieces = tuple(moved_piece(term, mapping) for term in body)
                return self.write(Summed(pieces))
            case Reduce(kind, bound, inner):
                return self.reduction(kind, bound, substitute(inner, mapping))
            case Rowwise():
                return self.rowwise(body, mapping)
            case Primitive():
                return self.primitive(body, mapping)

    def called(self, name: str) -> Written:
        """Write what an array is called: its name, or the function of matrices that it is."""
        definition = self.definitions.get(name)
        body = definition.body if definition is not None else None
        if not in_place(definition, self.adjoints) or not isinstance(body, Primitive):
            return self.hand.name(name), ATOM

        def named(operand: Access, axes: Sequence[Index]) -> str:
            text, tight = self.called(operand.array)
            return text if tight == ATOM else self.hand.group(text)

        return whole(body, self.hand, named)

    def primitive(self, body: Primitive, mapping: Mapping[Index, Affine]) -> Written:
        """Write an element of a function of whole matrices, or all of it if it is a number."""

        def named(operand: Access, axes: Sequence[Index]) -> str:
            inner, tight = self.called(operand.array)
            if inner != self.hand.name(operand.array):
                return inner if tight == ATOM else self.hand.group(inner)
            own = [Affine.of(i) for i in axes]
            stack = [p for p in self.visible(operand) if p not in own]
            at = [self.position(move(p, mapping)) for p in stack]
            return self.hand.indexed(self.title(operand.array), at)

        at = [mapping.get(i, Affine.of(i)) for i in body.at if i.dim.constant != 1]
        written = whole(body, self.hand, named)
        return element(written, [self.position(p) for p in at], self.hand)

    def reduction(self, kind: str, bound: tuple[Index, ...], inner: Scalar) -> Written:
        """Write a product, an extremum, a logsumexp or a norm."""
        with self.letters.bind(bound) as names:
            below = [self.hand.name(n) for n in names]
            if kind == "logsumexp":
                total = self.hand.big("sum", below, self.write(Apply("exp", (inner,)))[0])
                return self.hand.call("log", (), (total,)), ATOM
            if kind == "norm":
                total = self.hand.big("sum", below, self.powered(inner, 2)[0])
                return self.hand.sqrt(total), ATOM
            text, tight = self.write(inner)
            return self.hand.big(kind, below, text if tight > ADD else self.hand.group(text)), MUL

    def rowwise(self, body: Rowwise, mapping: Mapping[Index, Affine]) -> Written:
        """Write softmax and log_softmax as the textbook has them."""
        there = {j: mapping.get(i, Affine.of(i)) for i, j in zip(body.at, body.bound, strict=True)}
        other = {k: v for k, v in mapping.items() if k not in body.bound}
        here = substitute(substitute(body.body, there), other)
        each = substitute(body.body, other)
        with self.letters.bind(body.bound) as names:
            below = [self.hand.name(n) for n in names]
            total = self.hand.big("sum", below, self.write(Apply("exp", (each,)))[0])
        if body.kind == "softmax":
            return self.hand.quotient(self.write(Apply("exp", (here,)))[0], total, False), MUL
        text = self.write(here)[0]
        return f"{text} - {self.hand.call('log', (), (total,))}", ADD

    def apply(self, apply: Apply) -> Written:
        """Write a function of scalars."""
        function, args = apply.function, apply.args
        if any(apply.order):
            return self.hand.call(function, apply.order, [self.shown(a) for a in args]), ATOM
        match function, args:
            case ("add" | "sub"), _:
                return self.sum_of(self.addends(apply))
            case ("mul" | "div" | "neg" | "square" | "reciprocal" | "identity"), _:
                return self.signed(product_of((apply,)))
            case "pow", (base, exponent):
                return self.general_power(base, exponent)
            case "exp", (arg,):
                return self.hand.exp(self.shown(arg)), POWER
            case "sqrt", (arg,):
                return self.hand.sqrt(self.shown(arg)), ATOM
            case "abs", (arg,):
                return self.hand.absolute(self.shown(arg)), ATOM
            case "exp_difference", (left, right):
                return self.write(Apply("exp", (Apply("sub", (left, right)),)))
            case "ratio_or_zero", (left, right):
                return self.write(Apply("div", (left, right)))
            case "where", (mask, yes, no):
                return self.choice(mask, yes, no)
        if function in COMPARISONS or function in ("and_", "or_", "not_"):
            return self.hand.bracket(self.condition(apply)), ATOM
        return self.hand.call(function, (), [self.shown(a) for a in args]), ATOM

    def addends(self, scalar: Scalar) -> list[tuple[bool, Written]]:
        """Return the signed terms of nested sums."""
        match scalar:
            case Apply("add", (left, right), ()):
                return [*self.addends(left), *self.addends(right)]
            case Apply("sub", (left, right), ()):
                flipped = [(not sign, text) for sign, text in self.addends(right)]
                return [*self.addends(left), *flipped]
            case _:
                text, tight = self.write(scalar)
                if tight == ADD and text.startswith("-") and one_term(scalar):
                    return [(True, (text[1:], MUL))]
                return [(False, (text, tight))]

    def signed(self, product: Product) -> Written:
        """Write a product with its sign."""
        negative = product.number < 0
        if negative:
            product.number = -product.number
        written = self.product(product)
        return self.sum_of([(negative, written)]) if negative else written

    def general_power(self, base: Scalar, exponent: Scalar) -> Written:
        """Write a power; half is a root."""
        product = product_of((Apply("pow", (base, exponent)),))
        atom = next(iter(product.over or product.under), None)
        if not (isinstance(atom, Apply) and atom.function == "pow"):
            return self.signed(product)
        text, tight = self.write(base)
        text = text if tight == ATOM else self.hand.group(text)
        return self.hand.power(text, self.shown(exponent)), POWER

    def choice(self, mask: Scalar, yes: Scalar, no: Scalar) -> Written:
        """Write `where` with Iverson brackets."""
        pieces: list[tuple[bool, Written]] = []
        for condition, value in ((mask, yes), (opposite(mask), no)):
            if value == Number(0):
                continue
            bracket = self.hand.bracket(self.condition(condition))
            if value == Number(1):
                pieces.append((False, (bracket, ATOM)))
                continue
            product = product_of((value,))
            negative = product.number < 0
            if negative:
                product.number = -product.number
            text, tight = self.product(product)
            text = self.hand.group(text) if tight == ADD else text
            pieces.append((negative, (self.hand.join([("", bracket), ("", text)]), MUL)))
        return self.sum_of(pieces)

    def condition(self, mask: Scalar) -> str:
        """Write a mask without brackets."""
        match mask:
            case Apply(sign, (left, right), ()) if sign in COMPARISONS:
                return f"{self.shown(left)} {self.hand.relation(sign)} {self.shown(right)}"
            case Apply(("and_" | "or_") as sign, args, ()):
                joint = f" {self.hand.relation(sign)} "
                return joint.join(self.part_of(sign, a) for a in args)
            case Apply("not_", (arg,), ()):
                return f"{self.hand.relation('not_')} ({self.condition(arg)})"
            case Guard():
                return self.within(mask)
            case _:
                return self.shown(mask)

    def part_of(self, sign: str, mask: Scalar) -> str:
        """Write one side of `and` or `or`; the other kind inside stands in parentheses."""
        text = self.condition(mask)
        mixed = isinstance(mask, Apply) and mask.function in {"and_", "or_"} - {sign}
        return self.hand.group(text) if mixed else text

    def within(self, guard: Guard) -> str:
        """Write `0 <= position < dim`."""
        less, below = self.hand.relation("le"), self.hand.relation("lt")
        middle = self.affine(guard.position)[0]
        return f"0 {less} {middle} {below} {self.dim(guard.dim)[0]}"


__all__ = ["Writer", "Written"]
