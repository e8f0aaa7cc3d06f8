"""Trees made into definitions: sums become terms, what is nonlinear gets a name.

Tree -> Definition, Definition, ...
A definition is a sum of terms, or one reduction of one access; nothing is nested in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Any, cast

from symgrad.algebra.guards import branch
from symgrad.check.placing import indices_in, is_placeable, place
from symgrad.check.renaming import INNER, free_in, key_of, renamed
from symgrad.check.tree import (
    Fold,
    Named,
    Node,
    Row,
    Stop,
    Sum,
    Tree,
    Value,
    Whole,
    adds_up,
    free_of,
    has_reduction,
    is_direct,
    is_leaf,
    scalar_of,
    stack_of,
)
from symgrad.dims import Dim
from symgrad.errors import Span
from symgrad.program import (
    Access,
    Affine,
    Apply,
    Body,
    Definition,
    Delta,
    Guard,
    Index,
    Number,
    Place,
    Position,
    Primitive,
    Reduce,
    Rowwise,
    Scalar,
    Supply,
    Term,
)
from symgrad.syntax import NOWHERE

LETTERS = ("z", "s", "v", "r", "q")
FREE_LETTERS = ("i", "j", "l", "p", "q", "r", "u", "v")
@dataclass(slots=True)
class Flattener:
    """The definitions made so far, and the names and indices they use.

    `shapes` are the axes of the declared arrays, the batch among them.
    """

    batch: Index
    supply: Supply
    taken: set[str]
    definitions: list[Definition] = field(default_factory=list)
    known: dict[tuple[object, ...], str] = field(default_factory=dict)
    span: Span = NOWHERE
    shapes: Mapping[str, tuple[Dim, ...]] = field(default_factory=dict)

    def snapshot(self) -> tuple[list[Definition], dict[tuple[object, ...], str], set[str]]:
        """Return what a trial may change."""
        return list(self.definitions), dict(self.known), set(self.taken)

    def restore(
        self, saved: tuple[list[Definition], dict[tuple[object, ...], str], set[str]]
    ) -> None:
        """Forget everything since the snapshot."""
        self.definitions, self.known, self.taken = list(saved[0]), dict(saved[1]), set(saved[2])

    def define(
        self, name: str, axes: tuple[Index, ...], tree: Tree, *, written: bool, wish: str = ""
    ) -> Definition:
        """Add the definition `name[axes] = tree` and return it; `name` is "" to have one chosen.

        The batch index comes first if the body contains it.
        """
        frozen = isinstance(tree, Stop)
        while isinstance(tree, (Stop, Named)):
            tree = tree.body
        body = self.body(tree, axes)
        batched = self.batch in free_in(body)
        indices = (*((self.batch,) if batched else ()), *(i for i in axes if i != self.batch))
        made = self._own(Definition(name, indices, body, written, frozen, self.span))
        key = key_of(made, self.batch)
        if not name:
            if key in self.known:
                return next(d for d in self.definitions if d.name == self.known[key])
            made = replace(made, name=self.fresh(wish))
        elif isinstance(body, Primitive) and key in self.known:  # factorised once
            same = next(d for d in self.definitions if d.name == self.known[key])
            at = tuple(Affine.of(i) for i in made.indices if i != self.batch)
            made = replace(made, body=(Term((), (self.read(same, at),)),))
        self.known.setdefault(key, made.name)
        self.definitions.append(made)
        return made

    def fresh(self, wish: str = "") -> str:
        """Return a readable name that nothing else has."""
        wishes = (wish, *LETTERS) if wish else LETTERS
        numbered = (f"{wishes[0]}{n}" for n in count(1))
        name: str = next(c for c in chain(wishes, numbered) if c not in self.taken)
        self.taken.add(name)
        return name

    def body(self, tree: Tree, axes: tuple[Index, ...]) -> Body:
        """Return the body a definition over `axes` has for a tree."""
        if isinstance(tree, Fold):
            return Reduce(cast(Any, tree.kind), tree.bound, self.access(tree.body))
        if isinstance(tree, Row):
            at = tuple(p.bare for p in tree.at)
            inner = free_of(tree.body)
            bare = tuple(i for i in at if i is not None and i in axes and i not in inner)
            if len(set(bare)) == len(at):
                return Rowwise(cast(Any, tree.kind), tree.bound, self.access(tree.body), bare)
        if isinstance(tree, Whole) and is_direct(tree, axes, self.batch):
            pairs = zip(tree.operands, tree.axes, strict=True)
            operands = tuple(self.whole(operand, matrix) for operand, matrix in pairs)
            own = axes[len(axes) - len(tree.at) :]
            return Primitive(cast(Any, tree.kind), operands, tree.axes, own)
        tree = self.cored(tree)
        if adds_up(tree):
            return self.terms(tree)
        if guarded(tree)[0]:
            return (Term((), self.factors(tree)),)
        whole = self.scalar(tree)
        parts = _parts(whole)
        pure = all(not isinstance(part, Apply) for part in parts)
        return (Term((), parts if pure else (whole,)),)

    def terms(self, tree: Tree) -> tuple[Term, ...]:
        """Return a tree as a sum of terms."""
        tree = self.cored(tree)
        match tree:
            case Node("add", (left, right)):
                return (*self.piece(left), *self.piece(right))
            case Node("sub", (left, right)):
                return (*self.piece(left), *(_negated(t) for t in self.piece(right)))
            case Node("neg", (inner,)):
                return tuple(_negated(term) for term in self.piece(inner))
            case Node("mul", (left, right)) if adds_up(left) and not adds_up(right):
                outer = self.factors(right)
                return tuple(Term(t.bound, (*t.factors, *outer)) for t in self.terms(left))
            case Node("mul", (left, right)) if adds_up(right) and not adds_up(left):
                outer = self.factors(left)
                return tuple(Term(t.bound, (*outer, *t.factors)) for t in self.terms(right))
            case Node("div", (above, below)) if adds_up(tree):
                divisor = Apply("div", (Number(1), self.scalar(below)))
                return tuple(Term(t.bound, (divisor, *t.factors)) for t in self.terms(above))
            case Sum(bound, body):
                while isinstance(body, Sum):
                    bound, body = (*bound, *body.bound), body.body
                return (Term(bound, self.factors(body)),)
            case _:
                return (Term((), self.factors(tree)),)

    def piece(self, tree: Tree) -> tuple[Term, ...]:
        """Return a summand as terms, or as the definition that already holds it."""
        if not adds_up(tree) or _several(tree):
            return self.terms(tree)
        terms = self.terms(tree)
        free = free_in(terms)
        axes = tuple(sorted((i for i in free if i != self.batch), key=lambda i: i.serial))
        indices = (*((self.batch,) if self.batch in free else ()), *axes)
        name = self.known.get(key_of(Definition("", indices, terms), self.batch))
        found = next((d for d in self.definitions if d.name == name), None)
        if found is None:
            return terms
        return (Term((), (self.read(found, tuple(Affine.of(i) for i in axes)),)),)

    def cored(self, tree: Tree) -> Tree:
        """Name a sum of several terms that is multiplied by more than numbers."""
        match tree:
            case Node("mul" | "div", (left, right)) if adds_up(tree) and _several(tree):
                inner, outer = (left, right) if adds_up(left) else (right, left)
                if _is_number(outer):
                    return tree
                core = self.core(inner)
                return replace(tree, args=(core, right) if inner is left else (left, core))
            case _:
                return tree

    def core(self, tree: Tree) -> Tree:
        """Name the sum that stands inside products and quotients."""
        match tree:
            case Node("mul" | "div", (left, right)) if adds_up(left):
                return replace(tree, args=(self.core(left), right))
            case Node("mul", (left, right)):
                return replace(tree, args=(left, self.core(right)))
            case Node("neg", (inner,)):
                return replace(tree, args=(self.core(inner),))
            case _:
                return self.extract(tree)

    def factors(self, tree: Tree) -> tuple[Scalar, ...]:
        """Return a tree as a product, cut at its top-level multiplications and signs."""
        match tree:
            case Node("mul", (left, right)):
                return (*self.factors(left), *self.factors(right))
            case Node("neg", (inner,)):
                return (Number(-1), *self.factors(inner))
            case Sum((), inner):
                return self.factors(inner)
            case _:
                guards, kept = guarded(tree)
                return (*guards, *self.factors(kept)) if guards else (self.scalar(tree),)

    def scalar(self, tree: Tree) -> Scalar:
        """Return a tree as a scalar; every reduction in it is named."""
        if not has_reduction(tree):
            return scalar_of(tree)
        if isinstance(tree, Node) and not adds_up(tree):
            return Apply(tree.function, tuple(self.scalar(arg) for arg in tree.args))
        return self.extract(tree)

    def access(self, tree: Tree) -> Access:
        """Return a tree as one access, naming it if it is more."""
        if isinstance(tree, Access):
            return tree
        return self.extract(tree)

    def extract(self, tree: Tree, wish: str = "", order: Iterable[Index] = ()) -> Access:
        """Name a tree; its axes are its free indices: `order` last, others by serial before."""
        if isinstance(tree, Named):
            wish, tree = tree.wish, tree.body
        if isinstance(tree, Row):
            return self._extract_row(tree)
        if isinstance(tree, Whole):
            return self._extract_whole(tree)
        free = [i for i in free_of(tree) if i != self.batch]
        last = [i for i in order if i in free]
        axes = (*sorted((i for i in free if i not in last), key=lambda i: i.serial), *last)
        made = self.define("", axes, tree, written=False, wish=wish)
        return self.read(made, tuple(Affine.of(i) for i in axes))

    def read(self, made: Definition, at: tuple[Position, ...]) -> Access:
        """Return the access of a definition at positions without the batch."""
        batched = self.batch in made.indices
        return Access(made.name, (*((Affine.of(self.batch),) if batched else ()), *at))

    def _extract_row(self, row: Row) -> Access:
        """Name a whole softmax, its axes as its argument has them."""
        body = self.access(row.body)
        own = {b: self.supply.fresh(b.name, b.dim) for b in row.bound}
        there = dict(zip(row.bound, row.at, strict=True))
        order = [i for p in body.at for i in indices_in(p) if i != self.batch]
        free = list(dict.fromkeys((*order, *row.bound)))
        axes = tuple(own.get(i, i) for i in free)
        moved = replace(row, body=body, at=tuple(Affine.of(own[b]) for b in row.bound))
        made = self.define("", axes, moved, written=False)
        return self.read(made, tuple(there.get(i, Affine.of(i)) for i in free))

    def whole(self, tree: Tree, axes: tuple[Index, ...]) -> Access:
        """Return a tree as an access of distinct bare indices, `axes` among them.

        They run over the whole array: a part of one gets a name.
        """
        if isinstance(tree, Access):
            bare = [p.bare for p in tree.at if isinstance(p, Affine) and p.bare is not None]
            made = next((d for d in self.definitions if d.name == tree.array), None)
            dims = self.shapes.get(tree.array) if made is None else [i.dim for i in made.indices]
            whole = dims is not None and [i.dim for i in bare] == list(dims)
            if whole and len(set(bare)) == len(bare) and set(axes) <= set(bare):
                return tree
        free = (i for i in free_of(tree) if i != self.batch and i not in axes)
        every = (*sorted(free, key=lambda i: i.serial), *axes)
        made = self.define("", every, tree, written=False)
        return self.read(made, tuple(Affine.of(i) for i in every))

    def _extract_whole(self, tree: Whole) -> Access:
        """Name a function of whole matrices, stacked over the free indices of its operands."""
        stack = tuple(i for i in stack_of(tree) if i != self.batch)
        letters = (c for c in FREE_LETTERS if c not in {i.name for i in stack})
        own = tuple(self.supply.fresh(next(letters), dim) for dim in tree.dims)
        moved = replace(tree, at=tuple(Affine.of(i) for i in own))
        operand = self.access(tree.operands[0])
        moved = replace(moved, operands=(operand, *tree.operands[1:]))
        wish = f"{tree.kind}_{operand.array}"
        made = self.define("", (*stack, *own), moved, written=False, wish=wish)
        return self.read(made, (*(Affine.of(i) for i in stack), *tree.at))

    def _own(self, made: Definition) -> Definition:
        """Give a definition indices of its own, so that it shares none with another."""
        own = tuple(i for i in made.indices if i != self.batch)
        kept = {i.name for i in own}
        letters = (c for c in FREE_LETTERS if c not in kept)
        fresh = {
            i: self.supply.fresh(next(letters, "i") if i.name.endswith(INNER) else i.name, i.dim)
            for i in own
        }
        return renamed(made, fresh, self.supply)

    def materialize(self, value: Value, names: tuple[str, ...], wish: str = "") -> Value:
        """Return the same value, read from a definition of its own."""
        own = tuple(
            self.supply.fresh(name, dim) for name, dim in zip(names, value.axes, strict=True)
        )
        tree = value.element(tuple(Affine.of(i) for i in own))
        access = tree if is_leaf(tree) and is_placeable(tree, own) else None
        access = access or self.extract(tree, wish, own)
        if not is_placeable(access, own):  # a whole softmax, read backwards or shifted
            access = self.extract(access, wish, own)

        def element(at: tuple[Position, ...]) -> Tree:
            return place(access, dict(zip(own, at, strict=True)))

        return Value(value.axes, element, value.mask, plain=True)


def guarded(tree: Tree) -> tuple[tuple[Guard | Delta, ...], Tree]:
    """Return the guards of a tree that is zero where they do not hold, and what is left of it."""
    match tree:
        case Node("where", (mask, yes, no)) if not has_reduction(mask):
            chosen = [a if a == Number(0) else Number(1) for a in (yes, no)]
            found = branch(Apply("where", (scalar_of(mask), *chosen)))
            return ((), tree) if found is None else (found[0], yes if no == Number(0) else no)
        case _:
            return (), tree


def _is_number(tree: Tree) -> bool:
    """Whether a tree depends on neither arrays nor indices."""
    if isinstance(tree, Node):
        return all(_is_number(arg) for arg in tree.args)
    return is_leaf(tree) and not isinstance(tree, (Access, Place, Delta, Guard))


def _several(tree: Tree) -> bool:
    """Whether a tree that adds up has more than one term."""
    match tree:
        case Node("add" | "sub", _):
            return True
        case Node(_, args):
            return any(_several(arg) for arg in args if adds_up(arg))
        case _:
            return False


def _negated(term: Term) -> Term:
    if term.factors and term.factors[0] == Number(-1):
        return Term(term.bound, term.factors[1:])
    return Term(term.bound, (Number(-1), *term.factors))


def _parts(scalar: Scalar) -> tuple[Scalar, ...]:
    if isinstance(scalar, Apply) and scalar.function == "mul":
        return tuple(part for arg in scalar.args for part in _parts(arg))
    return (scalar,)
