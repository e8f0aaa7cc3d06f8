"""Formulas in matrix style: `x σ'(Wx + b)`, `diag(1 - a²) W`, `(g ⊙ (1 - a²)) xᵀ`.

ClosedForm -> str
A term is a path from its first free index to its last one: matrices are the steps, vectors
stand on the nodes. What is no such path raises Inexpressible, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from symgrad.reading.closed import ClosedForm, Shown, Summed
from symgrad.contract import contract
from symgrad.reading.hands import ADD, ATOM, MUL, POWER, Hand, LatexHand
from symgrad.reading.products import Product, indices_in, product_of
from symgrad.program import (
    BATCH,
    Access,
    Affine,
    Apply,
    Constant,
    Definition,
    Delta,
    Index,
    Number,
    Program,
    Reduce,
    Rowwise,
    Scalar,
    Size,
    Term,
)
from symgrad.reading.write import COMPARISONS

Written = tuple[str, int]


class Inexpressible(Exception):
    """The formula has no matrix form here; the message says why."""


def jacobian_matrix(form: ClosedForm, hand: Hand) -> str:
    """Return the Jacobian in matrix style; raise Inexpressible where it has more than two axes."""
    target = tuple(i for i in (*form.out, *form.theta) if i.dim.constant != 1)
    if len(target) > 2:
        raise Inexpressible(f"∂{form.output}/∂{form.parameter} has {len(target)} axes")
    return _writer(form, hand).terms(form.terms, target)[0]


def vjp_matrix(form: ClosedForm, hand: Hand, cotangent: str) -> str:
    """Return `sum_i g_i J_i` in matrix style."""
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


def _writer(form: ClosedForm, hand: Hand) -> MatrixWriter:
    if form.named:
        raise Inexpressible(f"it is a recursion over {form.named[-1].name}")
    definitions = {d.name: d for d in form.program.definitions}
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
            case Reduce() | Rowwise():
                raise Inexpressible(f"{definition.name} is reduced over an axis")

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
        if any(isinstance(a, Apply) and a.function == "pow" for a in (*product.over, *product.under)):
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
        inner = written[0] if written[1] == ATOM else self.hand.group(written[0])
        return inner + self.sign("ᵀ", r"^\top")

    def diagonal(self, inner: str) -> str:
        """Write a diagonal matrix."""
        return self.sign(f"diag({inner})", rf"\operatorname{{diag}}{self.hand.group(inner)}")


@dataclass(slots=True)
class Step:
    """A matrix between two nodes; None is the identity (a delta)."""

    left: Index
    right: Index
    matrix: Access | None


@dataclass(slots=True)
class Parts:
    """The factors of one product by how many axes they have."""

    scalars: list[tuple[Shown, int]]
    below: list[tuple[Shown, int]]
    nodes: dict[Index, Product]
    steps: list[Step]

    @staticmethod
    def of(product: Product, writer: MatrixWriter) -> Parts:
        """Sort the factors of a product."""
        parts = Parts([], [], {}, [])
        for side, up in ((product.over, True), (product.under, False)):
            for atom, power in side.items():
                axes = _axes(atom)
                if isinstance(atom, Delta) and len(axes) == 2 and up:
                    parts.steps.append(Step(axes[0], axes[1], None))
                elif not axes:
                    (parts.scalars if up else parts.below).append((atom, power))
                elif len(axes) == 1 and not isinstance(atom, Delta):
                    node = parts.nodes.setdefault(axes[0], Product())
                    (node.over if up else node.under)[atom] = power
                elif isinstance(atom, Access) and up and power == 1:
                    parts.steps.append(_step(atom, writer))
                else:
                    raise Inexpressible("a factor has more than two axes, or is no array")
        return parts

    def path(self, target: tuple[Index, ...], writer: MatrixWriter) -> Written | None:
        """Write the path through all steps and nodes; None if there is nothing but scalars."""
        if not self.nodes and not self.steps:
            if any(i.dim.constant != 1 for i in target):
                raise Inexpressible("an axis appears in no factor")
            return None
        axes = tuple(i for i in target if i.dim.constant != 1 or self.touches(i))
        if len(axes) == 2:
            return self.between(axes[0], axes[1], writer)
        if len(axes) == 1:
            return self.vector(axes[0], writer)
        if not axes:
            return self.inner(writer)
        raise Inexpressible(f"it has {len(axes)} axes")

    def touches(self, index: Index) -> bool:
        """Whether any factor reads an index."""
        return index in self.nodes or any(index in (s.left, s.right) for s in self.steps)

    def walk(self, start: Index) -> list[tuple[Step, bool, Index]]:
        """Follow the steps from a node; each with whether it is taken backwards."""
        found: list[tuple[Step, bool, Index]] = []
        here, left = start, list(self.steps)
        while True:
            onward = [s for s in left if here in (s.left, s.right)]
            if not onward:
                break
            if len(onward) > 1:
                raise Inexpressible("its factors do not form a chain")
            step = onward[0]
            left.remove(step)
            back = step.left != here
            here = step.left if back else step.right
            found.append((step, back, here))
        if left:
            raise Inexpressible("its factors do not form one chain")
        return found

    def weight(self, index: Index, writer: MatrixWriter) -> Written | None:
        """Write the vector on a node."""
        node = self.nodes.get(index)
        return None if node is None else writer.elementwise(node, (index,))

    def between(self, first: Index, last: Index, writer: MatrixWriter) -> Written:
        """Write a matrix with rows `first` and columns `last`."""
        left, right = self.weight(first, writer), self.weight(last, writer)
        if not self.steps:
            if left is None or right is None or len(self.nodes) != 2:
                raise Inexpressible("an axis appears in no factor")
            top = writer.closed(left) if left[1] > MUL else writer.hand.group(left[0])
            return f"{top} {writer.transposed(right)}", MUL
        steps = self.walk(first)
        if steps[-1][2] != last:
            raise Inexpressible("its factors do not form a chain between its axes")
        self.all_used(first, [s[2] for s in steps])
        items: list[str] = [writer.diagonal(left[0])] if left else []
        for step, back, node in steps:
            if step.matrix is not None:
                whole = (step.left, step.right)
                written = writer.access(step.matrix, whole)
                items.append(writer.transposed(written) if back else writer.closed(written))
            weight = self.weight(node, writer)
            if weight is not None:
                items.append(writer.diagonal(weight[0]))
        if not items:
            return "I", ATOM
        return (writer.juxtaposed(items), MUL if len(items) > 1 else ATOM)

    def vector(self, first: Index, writer: MatrixWriter) -> Written:
        """Write a vector along `first`."""
        left = self.weight(first, writer)
        steps = self.walk(first)
        self.all_used(first, [s[2] for s in steps])
        if not steps:
            if left is None:
                raise Inexpressible("an axis appears in no factor")
            return left
        end = self.weight(steps[-1][2], writer)
        items: list[str] = []
        for step, back, node in steps:
            if step.matrix is not None:
                written = writer.access(step.matrix, (step.left, step.right))
                items.append(writer.transposed(written) if back else writer.closed(written))
            weight = self.weight(node, writer)
            if weight is not None and node != steps[-1][2]:
                items.append(writer.diagonal(weight[0]))
        if end is None:
            items.append(writer.sign("1", r"\mathbf{1}"))
        else:
            items.append(end[0] if end[1] > MUL else writer.hand.group(end[0]))
        text = writer.juxtaposed(items)
        if left is None:
            return text, MUL
        head = writer.closed(left) if left[1] > MUL else writer.hand.group(left[0])
        inner = writer.hand.group(text) if len(items) > 1 else text
        return head + writer.sign(" ⊙ ", r" \odot ") + inner, MUL

    def inner(self, writer: MatrixWriter) -> Written:
        """Write a number: `uᵀ A v`."""
        ends = [i for i in self.nodes if sum(i in (s.left, s.right) for s in self.steps) <= 1]
        if not ends:
            raise Inexpressible("its sum is no product of vectors")
        node = self.nodes[ends[0]]
        if not self.steps and len(self.nodes) == 1 and len(node.over) == 2 and not node.under:
            row = _row_and_column(node)
            if row is not None:
                return writer.juxtaposed([writer.access(a, (ends[0],))[0] for a in row]), MUL
            one, two = (Product((), Fraction(1), {a: p}) for a, p in node.over.items())
            left = writer.elementwise(one, (ends[0],))
            right = writer.elementwise(two, (ends[0],))
            return f"{writer.transposed(left)} {writer.closed(right)}", MUL
        if not self.steps:
            raise Inexpressible("its sum is no product of two vectors")
        head = writer.transposed(writer.elementwise(node, (ends[0],)))
        rest = Parts([], [], {k: v for k, v in self.nodes.items() if k != ends[0]}, self.steps)
        return f"{head} {rest.vector(ends[0], writer)[0]}", MUL

    def all_used(self, first: Index, passed: Sequence[Index]) -> None:
        """Raise unless every node lies on the path."""
        if any(i != first and i not in passed for i in self.nodes):
            raise Inexpressible("its factors do not form one chain")


def _row_and_column(node: Product) -> tuple[Access, Access] | None:
    """Return the matrix of one row and the vector it multiplies, if that is what the node holds."""
    atoms = [a for a in node.over if isinstance(a, Access)]
    rank = [sum(1 for p in a.at if not _is_batch(p)) for a in atoms]
    if sorted(rank) != [1, 2]:
        return None
    return (atoms[0], atoms[1]) if rank == [2, 1] else (atoms[1], atoms[0])


def _is_batch(position: object) -> bool:
    bare = position.bare if isinstance(position, Affine) else None
    return bare is not None and bare.dim == BATCH


def _axes(atom: Shown) -> list[Index]:
    if isinstance(atom, Summed):
        raise Inexpressible("it holds an inner sum")
    found = [i for i in indices_in(atom) if i.dim != BATCH and i.dim.constant != 1]
    ordered = sorted(found, key=lambda i: i.serial)
    if isinstance(atom, Access):
        bare = [p.bare for p in atom.at if isinstance(p, Affine) and p.bare in found]
        if len(bare) == len(ordered):
            return [i for i in bare if i is not None]
    return ordered


def _step(access: Access, writer: MatrixWriter) -> Step:
    visible = writer.visible(access)
    bare = [p.bare for p in visible if isinstance(p, Affine) and p.bare is not None]
    if len(bare) != 2 or len(visible) != 2 or bare[0] == bare[1]:
        raise Inexpressible(f"{access.array} is not read as a whole matrix")
    return Step(bare[0], bare[1], access)


def _number(number: Fraction | float, hand: Hand) -> Written | None:
    if number == 1:
        return None
    if isinstance(number, Fraction) and number.denominator != 1:
        return hand.quotient(str(number.numerator), str(number.denominator), True), MUL
    return hand.number(float(number)), ATOM


def _is_letter(text: str) -> bool:
    return len(text.rstrip("ᵀ")) == 1 and text[0].isalpha()


def _at(body: Scalar, bound: tuple[Index, ...], at: tuple[Index, ...]) -> Scalar:
    from symgrad.program import substitute

    return substitute(body, {b: Affine.of(a) for b, a in zip(bound, at, strict=True)})
