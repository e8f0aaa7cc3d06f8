"""Formulas in matrix style: `x σ'(Wx + b)`, `diag(1 - a²) W`, `(g ⊙ (1 - a²)) xᵀ`.

ClosedForm -> str
A term is a path from its first free index to its last one: matrices are the steps, vectors
stand on the nodes. What is no such path raises Inexpressible, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from symgrad.algebra.contract import contract
from symgrad.program import (
    BATCH,
    Access,
    Affine,
    Apply,
    Constant,
    Definition,
    Index,
    Number,
    Primitive,
    Program,
    Reduce,
    Rowwise,
    Scalar,
    Size,
    Term,
    substitute,
)
from symgrad.reading.chain import Inexpressible, Parts
from symgrad.reading.closed import ClosedForm, Shown
from symgrad.reading.hands import ADD, ATOM, MUL, POWER, Hand, LatexHand
from symgrad.reading.products import Product, indices_in, product_of
from symgrad.reading.whole import turned_inverse, whole
from symgrad.reading.write import COMPARISONS

Written = tuple[str, int]


def jacobian_matrix(form: ClosedForm, hand: Hand) -> str:
    """Return the Jacobian in matrix style; raise Inexpressible where it has more than two axes."""
    _require_axes(form)
    target = tuple(i for i in (*form.out, *form.theta) if i.dim.constant != 1)
    if len(target) > 2:
        raise Inexpressible(f"∂{form.output}/∂{form.parameter} has {len(target)} axes")
    return _writer(form, hand).terms(form.terms, target)[0]


def vjp_matrix(form: ClosedForm, hand: Hand, cotangent: str) -> str:
    """Return `sum_i g_i J_i` in matrix style."""
    _require_axes(form)
    target = tuple(i for i in form.theta if i.dim.constant != 1)
    out = tuple(i for i in form.out if i.dim.constant != 1)
    if len(target) > 2:
        raise Inexpressible(f"{form.parameter} has {len(target)} axes")
    g = Access(cotangent, tuple(Affine.of(i) for i in out))
    found = []
    for term in form.terms:
        done = contract(Term((*out, *term.bound), (g, *term.factors)), prefer=out)
        if done is not None:
            found.append(done)
    return _writer(form, hand).terms(tuple(found), target)[0]


def _require_axes(form: ClosedForm) -> None:
    if not any(array.axes for array in form.program.arrays):
        raise Inexpressible("nothing here has axes")


def _writer(form: ClosedForm, hand: Hand) -> MatrixWriter:
    recursive = [d for d in form.named if not isinstance(d.body, Primitive)]
    if recursive:
        raise Inexpressible(f"it is a recursion over {recursive[-1].name}")
    definitions = {d.name: d for d in (*form.program.definitions, *form.named)}
    return MatrixWriter(form.program, hand, definitions)


@dataclass(slots=True)
class MatrixWriter:
    """Writes terms as products of matrices and vectors."""

    program: Program
    hand: Hand
    definitions: Mapping[str, Definition]

    @property
    def latex(self) -> bool:
        """Whether signs are LaTeX commands."""
        return isinstance(self.hand, LatexHand)

    def sign(self, text: str, latex: str) -> str:
        """Return the sign in the notation at hand."""
        return latex if self.latex else text

    def terms(self, terms: Sequence[Term], target: tuple[Index, ...]) -> Written:
        """Write a sum of terms whose free indices are `target`."""
        if not terms:
            return "0", ATOM
        signed = []
        for term in terms:
            product = product_of(term.factors, term.bound)
            negative = product.number < 0
            if negative:
                product.number = -product.number
            signed.append((negative, self.product(product, target)))
        return self.added(signed)

    def added(self, signed: Sequence[tuple[bool, Written]]) -> Written:
        """Join signed terms."""
        if len(signed) == 1 and not signed[0][0]:
            return signed[0][1]
        text = ""
        for negative, written in signed:
            inner = self.hand.group(written[0]) if negative and written[1] == ADD else written[0]
            lead = "-" if negative else "" if not text else "+"
            text += f" {lead} {inner}" if text else f"{lead}{inner}"
        return text, ADD

    def product(self, product: Product, target: tuple[Index, ...]) -> Written:
        """Write one product as a path of matrices with vectors on the nodes."""
        parts = Parts.of(product, self)
        body = parts.path(target, self)
        scalars = [self.scalar(a, p) for a, p in parts.scalars]
        number = _number(product.number, self.hand)
        below = [self.scalar(a, p) for a, p in parts.below]
        pieces = [self.closed(w) for w in ([number] if number else [])]
        if body is not None:
            pieces.append(body[0] if body[1] > ADD else self.hand.group(body[0]))
        pieces += [self.closed(w) for w in scalars]
        if not pieces:
            pieces = ["1"]
        if below:
            under = " ".join(self.closed(w) for w in below)
            top = " ".join(pieces)
            simple = len(below) == 1 and below[0][1] >= POWER
            return self.hand.quotient(top, under, simple), MUL
        if len(pieces) == 1:
            lone = body if body is not None else (scalars or [(pieces[0], ATOM)])[0]
            return lone if lone is not None and not number else (pieces[0], ATOM)
        return " ".join(pieces), MUL

    def closed(self, written: Written) -> str:
        """Return it in parentheses if it is a sum."""
        return written[0] if written[1] > ADD else self.hand.group(written[0])

    def juxtaposed(self, names: Sequence[str]) -> str:
        """Return factors side by side: single letters touch in text."""
        tight = not self.latex and all(_is_letter(n) for n in names)
        return ("" if tight else " ").join(names)

    def scalar(self, atom: Shown, power: int) -> Written:
        """Write a factor without axes."""
        return self.raised(self.element(atom, ()), power)

    def raised(self, written: Written, power: int) -> Written:
        """Write a power."""
        if power == 1:
            return written
        base = written[0] if written[1] == ATOM else self.hand.group(written[0])
        return self.hand.power(base, str(power)), POWER

    def element(self, atom: Shown, target: tuple[Index, ...]) -> Written:
        """Write an element-wise expression of arrays with the axes `target`."""
        match atom:
            case Number(value):
                return self.hand.number(value), ATOM
            case Constant():
                return self.hand.name("π"), ATOM
            case Size(dim):
                text = " ".join(str(dim).split("*"))
                return text, ATOM if dim.symbol or dim.constant is not None else ADD
            case Access():
                return self.access(atom, target)
            case Apply():
                return self.apply(atom, target)
            case _:
                raise Inexpressible("a delta, a guard or an index stands inside a function")

    def access(self, access: Access, target: tuple[Index, ...]) -> Written:
        """Write a whole array, or in place what nobody named."""
        visible = self.visible(access)
        bare = [p.bare if isinstance(p, Affine) else None for p in visible]
        if None in bare:
            raise Inexpressible(f"{access.array} is read at shifted or gathered positions")
        turned = len(bare) == 2 and tuple(reversed(bare)) == target
        if bare and tuple(bare) != target and not turned:
            raise Inexpressible(f"{access.array} does not have the axes of its formula")
        definition = self.definitions.get(access.array)
        if definition is not None and not definition.written:
            body = definition.body
            if isinstance(body, Primitive) and body.kind == "inv":
                return whole(body, self.hand, self.operand, turned=turned)
            text, tight = self.in_place(definition)
        else:
            text, tight = self.hand.name(access.array), ATOM
        return (self.transposed((text, tight)), POWER) if turned else (text, tight)

    def in_place(self, definition: Definition) -> Written:
        """Write the body of a definition that nobody named."""
        target = tuple(i for i in definition.indices if i.dim != BATCH)
        match definition.body:
            case tuple():
                return self.terms(definition.body, target)
            case Rowwise(kind, bound, body, at) if len(target) == 1 and at == target:
                return self.call(kind, (self.element(_at(body, bound, at), target)[0],)), ATOM
            case Primitive():
                return whole(definition.body, self.hand, self.operand)
            case Reduce() | Rowwise():
                raise Inexpressible(f"{definition.name} is reduced over an axis")

    def operand(self, operand: Access, axes: Sequence[Index]) -> str:
        """Write the array that a function of whole matrices has as its operand."""
        if len(self.visible(operand)) > sum(1 for i in axes if i.dim.constant != 1):
            raise Inexpressible(f"{operand.array} is a stack of matrices")
        definition = self.definitions.get(operand.array)
        if definition is None or definition.written or not isinstance(definition.body, Primitive):
            return self.hand.name(operand.array)
        text, tight = whole(definition.body, self.hand, self.operand)
        return text if tight == ATOM else self.hand.group(text)

    def visible(self, access: Access) -> list[object]:
        """Return the positions of the axes that are not batch and not of literal length 1."""
        at = [
            p for p in access.at
            if not (isinstance(p, Affine) and p.bare is not None and p.bare.dim == BATCH)
        ]
        array = self.program.array(access.array)
        definition = self.definitions.get(access.array)
        dims = list(array.axes) if array is not None else []
        if array is None and definition is not None:
            dims = [i.dim for i in definition.indices if i.dim != BATCH]
        if len(dims) != len(at):
            return list(at)
        return [p for p, d in zip(at, dims, strict=True) if d.constant != 1]

    def call(self, function: str, args: Sequence[str], order: Sequence[int] = ()) -> str:
        """Write a function call."""
        return self.hand.call(function, order, args)

    def apply(self, apply: Apply, target: tuple[Index, ...]) -> Written:
        """Write a function of arrays, element by element."""
        function, args = apply.function, apply.args
        if any(apply.order):
            inner = [self.element(a, target)[0] for a in args]
            return self.call(function, inner, apply.order), ATOM
        match function, args:
            case "add", (left, right):
                return self.added([*self.addend(left, target), *self.addend(right, target)])
            case "sub", (left, right):
                minus = [(not n, w) for n, w in self.addend(right, target)]
                return self.added([*self.addend(left, target), *minus])
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
            relation = self.hand.relation(function)
            return self.hand.bracket(f"{left_text} {relation} {right_text}"), ATOM
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
        number = _number(product.number, self.hand)
        plain = [number] if number else []
        arrays: list[Written] = []
        for atom, power in product.over.items():
            written = self.raised(self.element(atom, target), power)
            (arrays if target and self.has_axes(atom) else plain).append(written)
        below = [self.raised(self.element(a, target), n) for a, n in product.under.items()]
        dots = self.sign(" ⊙ ", r" \odot ").join(self.closed(w) for w in arrays)
        items = [self.closed(w) for w in plain] + ([dots] if dots else [])
        total = [*plain, *arrays]
        text = " ".join(items) if items else "1"
        tight = total[0][1] if len(total) == 1 else (MUL if total else ATOM)
        text = total[0][0] if len(total) == 1 else text
        if below:
            under = " ".join(self.closed(w) for w in below)
            simple = len(below) == 1 and below[0][1] >= POWER
            top = text if tight > ADD else self.hand.group(text)
            text, tight = self.hand.quotient(top, under, simple), MUL
        return (f"-{text}", ADD) if negative else (text, tight)

    def has_axes(self, atom: Shown) -> bool:
        """Whether an expression varies along some axis that is written."""
        return any(i.dim != BATCH and i.dim.constant != 1 for i in indices_in(atom))

    def transposed(self, written: Written) -> str:
        """Write a transpose."""
        turned = turned_inverse(written[0])
        if turned is not None:
            return turned
        inner = written[0] if written[1] == ATOM else self.hand.group(written[0])
        return inner + self.sign("ᵀ", r"^\top")

    def diagonal(self, inner: str) -> str:
        """Write a diagonal matrix."""
        return self.sign(f"diag({inner})", rf"\operatorname{{diag}}{self.hand.group(inner)}")


def _number(number: Fraction | float, hand: Hand) -> Written | None:
    if number == 1:
        return None
    if isinstance(number, Fraction) and number.denominator != 1:
        return hand.quotient(str(number.numerator), str(number.denominator), True), MUL
    return hand.number(float(number)), ATOM


def _is_letter(text: str) -> bool:
    return len(text.rstrip("ᵀ")) == 1 and text[0].isalpha()


def _at(body: Scalar, bound: tuple[Index, ...], at: tuple[Index, ...]) -> Scalar:
    return substitute(body, {b: Affine.of(a) for b, a in zip(bound, at, strict=True)})
