"""The steps of a derivation, each one equation in text and in LaTeX.

Derivation, ClosedForm, ... -> Step, ...
There are as many steps as definitions, local derivatives and adjoints: linear in the layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from symgrad.algebra.contract import contract
from symgrad.algebra.partials import local_partials
from symgrad.derivation import Derivation
from symgrad.dims import Dim
from symgrad.program import (
    Access,
    Affine,
    Apply,
    Definition,
    Delta,
    Index,
    Number,
    Primitive,
    Program,
    Supply,
    Term,
    arrays_of,
    blocks,
    scalars_of,
    walk,
)
from symgrad.reading.closed import ClosedForm, Summed
from symgrad.reading.collect import collect
from symgrad.reading.facts import use_facts
from symgrad.reading.hands import Hand, TextHand
from symgrad.reading.latex import LatexHand
from symgrad.reading.letters import Letters, reading_names
from symgrad.reading.lines import conditions, declarations, domains, equation, form_writer
from symgrad.reading.masks import halves
from symgrad.reading.matching import Meanings
from symgrad.reading.mathml import MathmlHand
from symgrad.reading.recurrences import Beginning, endings
from symgrad.reading.slopes import slope_formula
from symgrad.reading.whole import called, in_place, titled
from symgrad.reading.write import Writer
from symgrad.simplify import finish, flat, same_sums

Kind = Literal[
    "domain", "definitions", "local derivatives", "chain rule", "result", "in matrix style"
]
HANDS: tuple[Hand, Hand, Hand] = (TextHand(), LatexHand(), MathmlHand())


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a derivation; `mathml` is a run of elements, without `<math>`."""

    kind: Kind
    text: str
    latex: str
    mathml: str


def derivation_steps(
    derivation: Derivation, forms: Sequence[ClosedForm], starts: Sequence[Beginning] = ()
) -> tuple[Step, ...]:
    """Return all steps in the order they are read; `starts` are those of recurrences."""
    page = Page.of(derivation)
    steps: list[Step] = []
    all_hands = (conditions(derivation.program, hand) for hand in HANDS)
    steps += [Step("domain", *lines) for lines in zip(*all_hands, strict=True)]
    declared = (declarations(derivation.program, hand) for hand in HANDS)
    steps += [Step("definitions", *lines) for lines in zip(*declared, strict=True)]
    for unit in blocks(derivation.program.definitions):
        inside = {d.name for d in unit}
        steps += [page.start(s) for s in starts if s.array in inside]
        steps += [page.definition(d) for d in unit if not in_place(d, frozenset())]
    steps += page.local_derivatives()
    steps += page.named_slopes(forms)
    steps += page.chain(forms)
    for form in forms:
        steps.append(Step("result", *(equation(form, hand) for hand in HANDS)))
        cases = zip(*(domains(form, hand) for hand in HANDS), strict=True)
        steps += [Step("result", *lines) for lines in cases]
    return tuple(steps)


@dataclass(slots=True)
class Page:
    """What all steps of one derivation share."""

    derivation: Derivation
    meanings: Meanings
    supply: Supply
    definitions: Mapping[str, Definition]
    adjoints: frozenset[str]
    taken: frozenset[str]

    @staticmethod
    def of(derivation: Derivation) -> Page:
        """Return the page of a derivation."""
        everything = (*derivation.program.definitions, *derivation.adjoints)
        definitions = {d.name: _named(d) for d in everything}
        taken = reading_names(derivation.program)
        adjoints = frozenset(d.name for d in derivation.adjoints)
        meanings = Meanings.of(derivation.program)
        return Page(derivation, meanings, Supply(derivation.serial), definitions, adjoints, taken)

    @property
    def program(self) -> Program:
        """The layer's program."""
        return self.derivation.program

    def writer(self, hand: Hand, free: Sequence[Index]) -> Writer:
        """Return a writer that names every definition instead of writing it in place."""
        letters = Letters(self.taken)
        for index in free:
            letters.take(index)
        return Writer(self.program, hand, letters, self.definitions, self.adjoints)

    def name(self, name: str, hand: Hand) -> str:
        """Return how an array of the derivation is called."""
        return titled(self.writer(hand, ()), name, ())

    def start(self, start: Beginning) -> Step:
        """Return `h_{-1,i} = ...`."""
        made = Definition(start.array, start.indices, start.terms)
        known = self.program.definition(start.array)
        first = known.indices[:1] if known and known.indices[0] == self.program.batch else ()
        rest = tuple(Affine.of(i) for i in start.indices)
        at = (*(Affine.of(i) for i in first), Affine.of(-start.lag), *rest)
        lines = []
        for hand in HANDS:
            writer = self.writer(hand, [i for i in start.indices if i.dim.constant != 1])
            left = writer.access(Access(start.array, at))[0]
            lines.append(hand.equation(left, writer.body(made, {})[0]))
        return Step("definitions", *lines)

    def definition(self, definition: Definition) -> Step:
        """Return `z_i = ...`."""
        free = tuple(i for i in definition.indices if i != self.program.batch)
        lines = []
        for hand in HANDS:
            writer = self.writer(hand, [i for i in free if i.dim.constant != 1])
            writer.alphabetical = False
            left = writer.access(_itself(definition))[0]
            body = writer.body(definition, {})[0]
            body = hand.call("stop_gradient", (), (body,)) if definition.frozen else body
            lines.append(hand.equation(left, body))
        return Step("definitions", *lines)

    def chain(self, forms: Sequence[ClosedForm]) -> list[Step]:
        """Return the adjoints of definitions and what they lean on; zeros are left out."""
        wanted = {name for name, _, _ in self.derivation.adjoint_of}
        return self.chain_to(wanted | {d.name for form in forms for d in form.named})

    def chain_to(self, wanted: set[str]) -> list[Step]:
        """Return the adjoints of these names and what they lean on; zeros are left out."""
        kept: list[Definition] = []
        for definition in reversed(self.derivation.adjoints):
            if definition.name in wanted:
                if not in_place(definition, self.adjoints):
                    kept.append(definition)
                wanted.update(_reads(definition))
        steps: list[Step] = []
        zero: set[str] = set()
        ends = endings(kept)
        for definition in reversed(kept):
            step = self.adjoint(definition, zero)
            if step is None:
                zero.add(definition.name)
            else:
                lags = range(1, ends.get(definition.name, 0) + 1)
                steps += [*(self.end(definition, lag) for lag in lags), step]
        return steps

    def end(self, definition: Definition, lag: int) -> Step:
        """Return `G^h_{T,i} = 0`, what an adjoint is `lag` steps after the last one."""
        assert definition.loop is not None
        step = definition.loop.index
        at = tuple(
            Affine.of(step.dim) + (lag - 1) if i == step else Affine.of(i)
            for i in definition.indices
        )
        free = [
            i for i in definition.indices
            if i not in (step, self.program.batch) and i.dim.constant != 1
        ]
        lines = []
        for hand in HANDS:
            left = self.writer(hand, free).access(Access(definition.name, at))[0]
            lines.append(hand.equation(left, hand.number(0)))
        return Step("chain rule", *lines)

    def adjoint(self, definition: Definition, zero: set[str]) -> Step | None:
        """Return the equation of a named adjoint, or None if it is zero."""
        if not isinstance(definition.body, tuple):
            step = self.definition(definition)
            return replace(step, kind="chain rule")
        free = [i for i in definition.indices if i != self.program.batch and i.dim.constant != 1]
        shown = self.shown(
            [t for t in definition.body if not zero & {n for f in t.factors for n in arrays_of(f)}]
        )
        if all(p.factors == (Number(0),) for p in shown.pieces):
            return None
        lines = []
        for hand in HANDS:
            writer = self.writer(hand, free)
            left = writer.access(_itself(definition))[0]
            lines.append(hand.equation(left, writer.shown(shown)))
        return Step("chain rule", *lines)

    def shown(self, terms: Sequence[Term]) -> Summed:
        """Return terms in textbook shape."""
        terms = halves(terms, self.program)
        products = [p for t in terms for p in flat(t, self.program, self.meanings)]
        products = same_sums(use_facts(products, self.meanings), self.supply)
        return collect(finish(products, self.meanings, ()))

    def local_derivatives(self) -> list[Step]:
        """Return ∂ definition / ∂ array for every array it reads directly and that matters."""
        active = _active(self.derivation)
        steps: list[Step] = []
        for definition in self.program.definitions:
            if definition.frozen or definition.name not in active:
                continue
            steps += self.partials(definition, active)
        return steps

    def partials(self, definition: Definition, active: frozenset[str]) -> list[Step]:
        """Return the local derivatives of one definition."""
        local = local_partials(definition, active.__contains__, self.supply, lambda wish: wish)
        found: dict[str, tuple[tuple[Index, ...], list[Term]]] = {}
        own = tuple(
            self.supply.like(i) for i in definition.indices if i != self.program.batch
        )
        at = [i for i in definition.indices if i != self.program.batch]
        tie = tuple(Delta(Affine.of(o), Affine.of(i)) for o, i in zip(own, at, strict=True))
        for partial in local.partials:
            target = partial.access.array
            positions = [p for p in partial.access.at if p != Affine.of(self.program.batch)]
            if target not in found:
                axes = tuple(self.supply.fresh(_wish(n), d) for n, d in
                             enumerate(self.axes(target, len(positions))))
                found[target] = (axes, [])
            axes, terms = found[target]
            deltas = tuple(Delta(Affine.of(a), p) for a, p in zip(axes, positions, strict=True))
            term = contract(
                Term((*at, *partial.bound), (*tie, *partial.factors, *deltas)), prefer=tuple(at)
            )
            if term is not None:
                terms.append(term)
        inverses = {d.name: d for d in local.supports if isinstance(d.body, Primitive)}
        page = replace(self, definitions={**self.definitions, **inverses})
        return [
            page.partial_step(definition, target, own, axes, terms)
            for target, (axes, terms) in found.items()
        ]

    def named_slopes(self, forms: Sequence[ClosedForm]) -> list[Step]:
        """Return `gelu'(z) = ...` for every known function whose slope the forms call by name."""
        found: dict[tuple[str, tuple[int, ...]], None] = {}
        for form in forms:
            for term in form.terms:
                for node in (n for f in term.factors for n in walk(f)):
                    if isinstance(node, Apply) and sum(node.order) == 1:
                        found[node.function, node.order] = None
        steps = []
        nothing = replace(self.program, definitions=())  # arguments may be called like definitions
        for function, order in found:
            known = slope_formula(function, len(order), order.index(1))
            if known is None:
                continue
            args, slope = known
            lines = []
            for hand in HANDS:
                writer = Writer(nothing, hand, Letters(self.taken), {})
                left = hand.call(function, order, [hand.name(a.array) for a in args])
                lines.append(hand.equation(left, writer.shown(slope)))
            steps.append(Step("local derivatives", *lines))
        return steps

    def axes(self, name: str, rank: int) -> list[Dim]:
        """Return the dims of an array without the batch."""
        array = self.program.array(name)
        if array is not None:
            return list(array.axes)
        definition = self.definitions[name]
        return [i.dim for i in definition.indices if i != self.program.batch][:rank]

    def partial_step(
        self,
        definition: Definition,
        target: str,
        own: tuple[Index, ...],
        axes: tuple[Index, ...],
        terms: list[Term],
    ) -> Step:
        """Return one local derivative, with what is held fixed."""
        shown = self.shown(terms)
        held = [n for n in _reads(definition) if n != target]
        lines = []
        for hand in HANDS:
            free = [i for i in (*own, *axes) if i.dim.constant != 1]
            writer = self.writer(hand, free)
            left = writer.access(Access(definition.name, tuple(Affine.of(i) for i in own)))[0]
            right = writer.access(Access(target, tuple(Affine.of(i) for i in axes)))[0]
            ratio = hand.partial(left, right)
            if held:
                ratio = hand.held(ratio, [called(writer, n)[0] for n in held])
            lines.append(hand.equation(ratio, writer.shown(shown)))
        return Step("local derivatives", *lines)


def supports(page: Page, forms: Sequence[ClosedForm]) -> tuple[Step, ...]:
    """Return what closed forms lean on: definitions, slopes, adjoints, in the order they are read.

    Definitions that the forms write in place are not repeated.
    """
    waiting: list[str] = []
    for form in forms:
        writer = form_writer(form, TextHand())
        writer.shown(form.shown)
        waiting += writer.said
    wanted: set[str] = set()
    while waiting:
        name = waiting.pop()
        definition = page.definitions.get(name)
        if definition is not None and name not in wanted:
            wanted.add(name)
            waiting += _reads(definition)
    steps = [page.definition(d) for d in page.program.definitions if d.name in wanted]
    made = {n for n in wanted if page.program.definition(n) is None}
    return (*steps, *page.named_slopes(forms), *page.chain_to(made))


def _named(definition: Definition) -> Definition:
    """Return a definition that is written by its name; functions of matrices keep theirs."""
    named = definition.written or isinstance(definition.body, Primitive)
    return definition if named else replace(definition, written=True)


def _itself(definition: Definition) -> Access:
    return Access(definition.name, tuple(Affine.of(i) for i in definition.indices))


def _wish(position: int) -> str:
    return "ijklpqrsuvw"[position % 11]


def _reads(definition: Definition) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for scalar in scalars_of(definition.body):
        found.update({n.array: None for n in walk(scalar) if isinstance(n, Access)})
    return tuple(found)


def _active(derivation: Derivation) -> frozenset[str]:
    """Return the arrays through which the selected derivatives flow."""
    active = set(derivation.selection.active)
    for definition in derivation.program.definitions:
        if not definition.frozen and active & set(_reads(definition)):
            active.add(definition.name)
    return frozenset(active)
