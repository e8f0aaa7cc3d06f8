"""Formulas written out: program nouns and closed forms, by the hand of a notation.

Shown, Letters -> str
The batch index and axes of literal length 1 are never written; definitions nobody named are
written in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
    substitute,
)
from symgrad.reading.cases import COMPARISONS, choice, condition, within
from symgrad.reading.closed import Piece, Shown, Summed
from symgrad.reading.hands import ADD, ATOM, MUL, POWER, Hand
from symgrad.reading.layout import (
    has_delta,
    is_group,
    moved_piece,
    number_parts,
    one_term,
    place,
    powers,
    size,
    split_by,
    with_ratios,
)
from symgrad.reading.letters import Letters, taken_names, title
from symgrad.reading.matching import Meanings
from symgrad.reading.places import sum_of, write_affine, write_dim
from symgrad.reading.products import Product, product_of
from symgrad.reading.reductions import reduction, rowwise, square_sum
from symgrad.reading.whole import in_place, primitive, titled

Written = tuple[str, int]
INLINE_NODES = 14


@dataclass(slots=True)
class Writer:
    """Writes formulas of one program in one notation.

    `adjoints` are the names of arrays that the derivation made; `alphabetical` orders factors
    without indices by name (a definition keeps the order its author chose). `said` collects the
    arrays that were written by their names.
    """

    program: Program
    hand: Hand
    letters: Letters
    definitions: Mapping[str, Definition]
    adjoints: frozenset[str] = frozenset()
    alphabetical: bool = True
    said: dict[str, None] = field(default_factory=dict)
    meanings: Meanings = field(init=False)
    dims_and_arrays: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.meanings = Meanings(self.program, {}, frozenset(), {}, [])
        self.dims_and_arrays = taken_names(self.program)

    def shown(self, shown: Shown) -> str:
        """Return the formula as a whole."""
        return self.write(shown)[0]

    def write(self, shown: Shown) -> Written:
        """Return the formula and how tightly it holds together."""
        match shown:
            case Summed(pieces):
                return sum_of([self.signed_piece(p) for p in pieces], self.hand)
            case Number(value):
                return self.hand.number(value), (ATOM if value >= 0 else ADD)
            case Constant():
                return self.hand.name("π"), ATOM
            case Size(dim):
                return write_dim(dim, self.hand)
            case Place(affine):
                return write_affine(affine, self.hand, self.letters)
            case Access():
                return self.access(shown)
            case Delta(left, right):
                return self.delta(left, right), ATOM
            case Guard():
                return self.hand.bracket(within(self, shown)), ATOM
            case Apply():
                return self.apply(shown)

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
        top, tight = self.factors(near) if near else (self.hand.number(1), ATOM)
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
        return inner if self.hand.barred else self.hand.group(inner)

    def factors(self, factors: Sequence[tuple[Shown, int]], alone: bool = True) -> Written:
        """Write factors side by side: numbers, deltas and scalars first, their functions last."""
        ordered = sorted(factors, key=lambda f: place(f[0]))
        if self.alphabetical and all(self.is_plain(f[0]) or place(f[0]) in (0, 4) for f in ordered):
            ordered.sort(key=lambda f: (place(f[0]), self.plain_name(f[0])))
        if len(ordered) == 1 and alone:
            return self.powered(*ordered[0])
        parts: list[tuple[str, str]] = []
        for atom, power in ordered:
            text, tight = self.powered(atom, power)
            if tight <= ADD or (tight == MUL and (atom, power) != ordered[-1]):
                parts.append(("group", self.hand.group(text)))
            else:
                grouped = power == 1 and self.hand.is_group(text)
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
        squares = self.squares(atom) if power % 2 == 0 else None
        if squares is not None and power == 2:
            return squares
        text, tight = squares or self.write(atom)
        base = text if tight == ATOM else self.hand.group(text)
        return self.hand.power(base, str(power // 2 if squares else power)), POWER

    def squares(self, atom: Shown) -> Written | None:
        """Write the sum of squares under the root that a norm written in place is."""
        definition = self.definitions.get(atom.array) if isinstance(atom, Access) else None
        if definition is None or not self.written_in_place(definition):
            return None
        body = definition.body
        if not isinstance(body, Reduce) or body.kind != "norm" or not isinstance(atom, Access):
            return None
        mapping = {
            i: p for i, p in zip(definition.indices, atom.at, strict=True)
            if isinstance(p, Affine)
        }
        return square_sum(self, body.bound, substitute(body.body, mapping))

    def position(self, position: Position) -> str:
        """Write a position as a subscript, without spaces."""
        if isinstance(position, Lookup):
            at = tuple(p for p in position.at if not self.is_batch(p))
            self.said[position.array] = None
            return self.hand.indexed(self.title(position.array), [self.position(p) for p in at])
        return self.hand.position(write_affine(position, self.hand, self.letters)[0])

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
        return title(name, self.program) if name in self.adjoints else name

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
        self.said[access.array] = None
        return titled(self, access.array, at), ATOM

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
                pieces = (moved_piece(term, mapping) for term in body)
                return self.write(Summed(tuple(p for p in pieces if p is not None)))
            case Reduce(kind, bound, inner):
                return reduction(self, kind, bound, substitute(inner, mapping))
            case Rowwise():
                return rowwise(self, body, mapping)
            case Primitive():
                return primitive(self, body, mapping)

    def apply(self, apply: Apply) -> Written:
        """Write a function of scalars."""
        function, args = apply.function, apply.args
        part = self.softmax(apply)
        if part is not None:
            return part
        if any(apply.order):
            return self.hand.call(function, apply.order, [self.shown(a) for a in args]), ATOM
        match function, args:
            case ("add" | "sub"), _:
                return sum_of(self.addends(apply), self.hand)
            case ("mul" | "div" | "neg" | "square" | "reciprocal" | "identity"), _:
                return self.signed(product_of((apply,)))
            case "pow", (base, exponent):
                return self.general_power(base, exponent)
            case "exp", (arg,):
                if "e" in self.dims_and_arrays:
                    return self.hand.call("exp", (), [self.shown(arg)]), ATOM
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
                return choice(self, mask, yes, no)
        if function in COMPARISONS or function in ("and_", "or_", "not_"):
            return self.hand.bracket(condition(self, apply)), ATOM
        return self.hand.call(function, (), [self.shown(a) for a in args]), ATOM

    def softmax(self, apply: Apply) -> Written | None:
        """Write `exp(z_i - logsumexp z)` as `softmax(z)_i`; None if it is none, or is named."""
        part = self.meanings.softmax_of(apply)
        if part is None or not isinstance(part.body, Access):
            return None
        log = apply.args[0]
        if apply.function == "exp" and isinstance(log, Access):
            source = self.definitions.get(log.array)
            if source is None or not self.written_in_place(source):
                return None
        rest = [p for p in self.visible(part.body) if p != Affine.of(part.bound)]
        if len(rest) != len(self.visible(part.body)) - 1:
            return None
        name = self.title(part.body.array)
        self.said[part.body.array] = None
        inner = self.hand.indexed(name, [self.position(p) for p in rest])
        whole_row = self.hand.call("softmax", (), [inner])
        return self.hand.at(whole_row, [self.position(part.place)]), ATOM

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
                rest = self.hand.without_minus(text) if tight == ADD else None
                if rest is not None and one_term(scalar):
                    return [(True, (rest, MUL))]
                return [(False, (text, tight))]

    def signed(self, product: Product) -> Written:
        """Write a product with its sign."""
        negative = product.number < 0
        if negative:
            product.number = -product.number
        written = self.product(product)
        return sum_of([(negative, written)], self.hand) if negative else written

    def general_power(self, base: Scalar, exponent: Scalar) -> Written:
        """Write a power; half is a root."""
        product = product_of((Apply("pow", (base, exponent)),))
        atom = next(iter(product.over or product.under), None)
        if not (isinstance(atom, Apply) and atom.function == "pow"):
            return self.signed(product)
        text, tight = self.write(base)
        text = text if tight == ATOM else self.hand.group(text)
        return self.hand.power(text, self.shown(exponent)), POWER


__all__ = ["Writer", "Written"]
