"""A compiled layer: a generated module behind a door that takes arrays in every usual way.

Module, Forms -> Compiled
Nothing is compiled by numba until a form is first called. The module has the batch axis first in
all arrays; `batch_axis` is where callers have it, and what they give and get are views.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from symgrad import build as building
from symgrad.arguments import read_arguments
from symgrad.bound import Bound
from symgrad.chunks import in_pieces
from symgrad.dense import Dense
from symgrad.errors import ArgumentError, ShapeError, similar
from symgrad.evaluation import Evaluation, Later, Ways, product_at_once
from symgrad.form import Forms, Structured
from symgrad.generation.captions import Caption
from symgrad.generation.door import size_dims
from symgrad.generation.publics import form_names, own_name
from symgrad.jacobians import Jacobians
from symgrad.memory import within_memory
from symgrad.passes import Pass
from symgrad.planning import Planning
from symgrad.products.planned import Plans
from symgrad.products.sides import Factored
from symgrad.program import Definition, reads
from symgrad.quick import offered
from symgrad.room import Room
from symgrad.second_pass import SecondOrder, own_copies
from symgrad.selecting import Selecting
from symgrad.structured import Block
from symgrad.syntax import Layer
from symgrad.threads import Threaded, with_threads
from symgrad.turn import Turn
from symgrad.validate import Report

WORDS = ("out", "zeroed", "wrt", "chunk", "memory_limit")
"""Arguments of functions, which arrays of a layer may be called too."""


@dataclass(slots=True)
class Compiled(Selecting, SecondOrder, Planning, Dense, Threaded):
    """What `compile` returns; `wrt` are the arrays it differentiates by, in declared order.

    `batch_axis` is where the batch axis stands in inputs, outputs, `u` and everything that has a
    row for each sample, counted among the axes of one sample: `[*out, *p, B]` for -1.
    """

    layer: Layer
    forms: Forms
    module: ModuleType
    path: Path
    source: str
    captions: Mapping[tuple[str, ...], Caption]
    report: Report | None
    wrt: tuple[str, ...]
    batch_axis: int = 0
    turn: Turn = field(init=False, repr=False)
    room: Room = field(init=False, repr=False, compare=False)
    plans: Plans = field(default_factory=Plans, init=False, repr=False, compare=False)
    ways: Ways = field(init=False, repr=False, compare=False)
    words: dict[str, str] = field(init=False, repr=False)
    has_samples: bool = field(init=False, repr=False)
    count: int = field(init=False, repr=False)
    has_defaults: bool = field(init=False, repr=False)
    _is_plain: bool = field(init=False, repr=False)
    _names: tuple[str, ...] = field(init=False, repr=False)
    _indices: tuple[tuple[int, str], ...] = field(init=False, repr=False)
    _sizes: tuple[str, ...] = field(init=False, repr=False)
    _read: frozenset[str] = field(init=False, repr=False)
    _definitions: dict[str, Definition] = field(init=False, repr=False)
    _table: tuple[tuple[tuple[str, str], Structured, Caption], ...] = field(init=False, repr=False)
    _values: tuple[tuple[str, bool], ...] = field(init=False, repr=False)
    _functions: dict[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look up once what every call needs."""
        program = self.forms.program
        self.turn = Turn(program, self.batch_axis, self.forms.derivation.selection)
        self.ways = Ways(self.forms)
        self.room = Room(self.forms, self.wrt, self.module)
        arrays = [a.name for a in program.arrays]
        self.words = {w: own_name(w, arrays) for w in WORDS}
        self.has_samples = any(a.batched for a in program.arrays)
        self._names = tuple(a.name for a in program.arrays if a.default is None)
        self.count = len(self._names)
        self.has_defaults = self.count < len(arrays)
        zero = self.forms.derivation.selection.zero
        whole = self.wrt == self.module.WRT and not zero
        self._is_plain = whole and not (self.batch_axis or self.has_defaults)
        declared = enumerate(program.arrays)
        self._indices = tuple((n, a.name) for n, a in declared if a.role == "index")
        self._sizes = tuple(size_dims(program))
        self._functions = {}
        self._read = read_by(self.forms)
        self._values = tuple((o, self._is_shared(o)) for o in program.outputs)
        self._definitions = {d.name: d for d in self.forms.factors.definitions}
        self._table = tuple(
            (key, s, self.captions[key])
            for s in self.forms.structured
            for key in ((s.jacobian.output, s.jacobian.parameter),)
            if s.jacobian.parameter in self.wrt
        )

    @property
    def name(self) -> str:
        """The layer's name."""
        return self.forms.program.name

    def __repr__(self) -> str:
        outputs = ", ".join(self.forms.program.outputs)
        return f"Compiled({self.name}: {outputs} wrt {', '.join(self.wrt)}; {self.path})"

    def __copy__(self) -> Compiled:
        return self

    def __deepcopy__(self, memo: object) -> Compiled:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the text of the module in its place; whoever unpickles it builds it again."""
        nouns = (self.layer, self.forms, self.captions, self.report, self.wrt, self.batch_axis)
        return _again, (self.source, self.path, *nouns, self.num_threads)

    @within_memory
    @in_pieces
    def forward(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return the output `[B, *out]`, or a tuple of them."""
        arrays, keywords, _ = self._bind("forward", args, kwargs)
        return self.turn.outputs(self.turn.run(self.module.forward, *arrays, **keywords))

    @within_memory
    def jacobian(self, /, *args: Any, **kwargs: Any) -> Jacobians:
        """Return all selected Jacobians, structured, from one pass; nothing dense is built.

        Every J is `[B, *out, *p]`: the batch, then the axes of the output, then those of θ.
        """
        arrays, keywords, _ = self._bind("jacobian", args, kwargs)
        keywords = {n: a.copy() if n in self._read else a for n, a in keywords.items()}
        own = [
            a.copy() if n in self._read and isinstance(a, np.ndarray) else a
            for n, a in zip(self._names, arrays, strict=True)
        ]
        return self._jacobians(self._pass(own, keywords))

    @within_memory
    def ggn_matvec(self, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return {θ: (Σ_b J_bᴴ H_b J_b v)_θ}; the last argument is {θ: v `[*p]`}, or more of them.

        What `jacobian(...).ggn_matvec(v, H, u)` gives, for one v: by the module's jvp and vjp
        where that takes fewer multiplications than the factors of J. `H` and `u` as there.
        """
        if not kwargs and self._is_plain and len(args) == self.count + 1:
            *arrays, given = args
            if type(given) is dict and all(type(a) is np.ndarray for a in arrays):
                call = self.module._door(*arrays)
                found = product_at_once(self.module, self.ways, self._sizes, call, given)
                if found is not None:
                    return found
        H, u = kwargs.pop("H", None), kwargs.pop("u", None)
        form = ("ggn_matvec", args, kwargs, ("v",))
        arrays, keywords, extra = self._bind(*form, room=False)
        return self._jacobians(self._evaluation(arrays, keywords)).ggn_matvec(extra[0], H, u)

    def _jacobians(self, done: Pass) -> Jacobians:
        """Return all selected Jacobians of a pass."""
        several = len(self.forms.program.outputs) > 1
        value = Later(lambda: self._outputs(done))
        return Jacobians(value, self._blocks(done, self.wrt), several)

    def bind(self, **arrays: Any) -> Bound:
        """Return the forms as functions of all other arrays, with copies of these fixed.

        Definitions that the bound parameters and constants alone determine are computed once,
        forward and on the way back; what depends on samples is not. Raises ArgumentError for a
        name that is no array of the layer.
        """
        return Bound(self, arrays)

    @within_memory
    @in_pieces
    def gradient(
        self,
        /,
        *args: Any,
        sum: bool = False,  # noqa: A002 (the word of the contract)
        per_sample: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return {θ: [*p]}, the gradient of a scalar output, summed over samples.

        `per_sample=True` keeps the batch axis; `sum=True` takes the gradient of the sum of all
        entries of a larger output. Raises ShapeError for an output that is no scalar.
        """
        arrays, keywords, _ = self._bind("gradient", args, kwargs)
        program = self.forms.program
        for output in program.outputs:
            axes = [str(i.dim) for i in self.turn.own(output)]
            if axes and not sum:
                raise ShapeError(
                    f"{output} has shape [{', '.join(axes)}]; a gradient needs a scalar: use "
                    "jacobian, or sum=True"
                )
        shape_of = [tuple(i.dim for i in self.turn.own(o)) for o in program.outputs]
        _, sizes, _, single = self.checked(arrays, keywords)
        known = self.sizes_by_name(sizes)
        ones = []
        for dims in shape_of:
            own = tuple(d.evaluate(known) for d in dims)
            ones.append(np.ones((known["#B"], *own) if self.has_samples and not single else own))
        form = self.module.vjp_per_sample if per_sample else self.module.vjp
        u = tuple(ones) if len(ones) > 1 else ones[0]
        return self.turn.gradients(form(*arrays, u, **keywords, **self._only("wrt")))

    @within_memory
    def pullback(self, /, *args: Any, **kwargs: Any) -> tuple[Any, Callable[[Any], dict[str, Any]]]:
        """Return the output and `pull`: u `[B, *out]` -> {θ: Σ u·J}.

        `pull` evaluates no definition again, except those that `recompute=` named.
        """
        arrays, keywords, _ = self._bind("pullback", args, kwargs)
        arrays = own_copies(arrays)
        value, back = self.turn.run(self.module.pullback, *arrays, **keywords)
        only = {"wrt": self.wrt} if self._only("wrt") else {}

        def pull(u: Any) -> dict[str, Any]:
            found = self.turn.run(back, self.turn.vectors(u), **only)
            return self.turn.gradients(found)

        return self.turn.outputs(value), pull

    @within_memory
    @in_pieces
    def vjp(self, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return {θ: Σ_b Σ_out u · J}; the last argument is u `[B, *out]`."""
        return self._selected(self.module.vjp, "vjp", args, kwargs)

    @within_memory
    @in_pieces
    def vjp_per_sample(self, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return {θ: Σ_out u · J for every sample, `[B, *p]`}; the last argument is u."""
        return self._selected(self.module.vjp_per_sample, "vjp_per_sample", args, kwargs)

    per_sample_vjp = vjp_per_sample

    @within_memory
    @in_pieces
    def jvp(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return J t; the last argument is a mapping of tangents, missing ones are zero."""
        arrays, keywords, extra = self._bind("jvp", args, kwargs, ("tangents",))
        unknown = (
            [n for n in extra[0] if n not in self.wrt] if isinstance(extra[0], Mapping) else []
        )
        if unknown:
            known = ", ".join(self.wrt)
            raise ArgumentError(
                f"{self.name}.jvp: no tangent for {unknown[0]!r}; expected some of {known}"
            )
        tangents = self.turn.tangents(extra[0])
        found = self.turn.run(self.module.jvp, *arrays, tangents, **keywords)
        return self.turn.outputs(found)

    def __getattr__(self, name: str) -> Any:
        """Give the module's `jac_θ` and `hess_θ_φ`, with `_compact` and `_factors`."""
        if name.startswith(("jac_", "hess_")):
            if not self._functions:
                self._functions |= offered(self, self._form, self._second_form)
            if name in self._functions:
                self.__dict__[name] = self._functions[name]  # found at once from now on
                return self._functions[name]
        message = f"the compiled layer {self.name!r} has no {name!r}"
        if name.startswith("jac_"):
            message += f"; it differentiates with respect to {', '.join(self.wrt)}"
        elif near := similar(name, [n for n in dir(type(self)) if not n.startswith("_")]):
            message += f"; did you mean {near}?"
        raise AttributeError(message)

    # ------------------------------------------------------------ arguments

    @within_memory
    @in_pieces
    def _form(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        word = self.words["out"]
        out = {w: kwargs.pop(w) for w in (word, self.words["zeroed"]) if w in kwargs}
        arrays, keywords, _ = self._bind(name, args, kwargs, room=word not in out)
        parameter, kind = form_names(self.forms, self.wrt)[name]
        if out and kind == "factors":
            raise ArgumentError(f"{self.name}.{name} takes no {word}: factors are not copied")
        if not self.batch_axis:
            form = getattr(self.module, name)
            if len(out) > (word in out) and self.words["zeroed"] not in signature(form).parameters:
                raise ArgumentError(
                    f"{self.name}.{name} has no zeros that stand in the same places for all data",
                    hint=f"leave {self.words['zeroed']}= away",
                )
            return form(*arrays, **keywords, **out)
        blocks = self._blocks(self._pass(arrays, keywords, parameter), (parameter,)).values()
        forms = [getattr(block, kind) for block in blocks]
        if kind == "factors":
            found = [form() for form in forms]
        else:
            given = out.get(word)
            outs = (given,) if len(forms) == 1 else self.module._outs(given, len(forms))
            found = [form(own) for form, own in zip(forms, outs, strict=True)]
        return tuple(found) if len(found) > 1 else found[0]

    def _selected(
        self, form: Callable[..., Any], name: str, args: Any, kwargs: Any
    ) -> dict[str, Any]:
        arrays, keywords, extra = self._bind(name, args, kwargs, ("u",))
        u = self.turn.vectors(extra[0])
        found = self.turn.run(form, *arrays, u, **keywords, **self._only("wrt"))
        return self.turn.gradients(found)

    def _only(self, word: str) -> dict[str, tuple[str, ...]]:
        """Return the keyword by which a function computes only what is selected here."""
        if self.wrt == self.module.WRT:
            return {}
        return {self.words[word]: self.wrt}

    def _pass(self, arrays: Sequence[Any], keywords: Any, until: str | None = None) -> Pass:
        """Return what one forward pass leaves; `until` names the one θ it is for."""
        module = self.module
        checked, sizes, dtype, single = self.checked(arrays, keywords)
        values = module._sweep(checked, sizes, dtype, until)
        for number, name in self._indices:
            values.setdefault(name, checked[number])
        return Pass(module, checked, self.sizes_by_name(sizes), sizes, dtype, single, values)

    def _evaluation(self, arrays: Sequence[Any], keywords: Any) -> Pass:
        """Return a pass that is evaluated when it is read; products may do without."""
        module = self.module
        checked, sizes, dtype, single = self.checked(arrays, keywords)
        data = {name: checked[number] for number, name in self._indices}
        values = Evaluation(module, (checked, sizes, dtype), data, self.ways)
        return Pass(module, checked, self.sizes_by_name(sizes), sizes, dtype, single, values)

    def _bind(
        self,
        form: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        extra_names: Sequence[str] = (),
        *,
        room: bool = True,
    ) -> tuple[list[Any], dict[str, Any], list[Any]]:
        """Return positional arrays, keyword-only ones, and what follows them.

        Arrays come in declared order, by keyword, or as one mapping after the positional ones.
        Raises ArgumentError naming what is missing, doubled or unknown; with `room` TooLargeError
        where memory cannot hold what the form needs.
        """
        if not kwargs and len(args) == self.count + len(extra_names) and not self.batch_axis:
            arrays, tail = list(args[: self.count]), list(args[self.count :])
            last = arrays[-1] if arrays else None
            if type(last) is np.ndarray or not isinstance(last, Mapping):
                if room and not self.room.is_small(form, arrays):
                    self.room.require(form, dict(zip(self._names, arrays, strict=True)))
                return arrays, {}, tail
        declared = self.forms.program.arrays
        given, tail = read_arguments(f"{self.name}.{form}", declared, args, kwargs, extra_names)
        keywords = {
            a.name: given[a.name] for a in declared if a.default is not None and a.name in given
        }
        given = self.turn.arguments(self.name, given)
        if room:
            self.room.require(form, given)
        return [given[a.name] for a in declared if a.default is None], keywords, tail

    def _blocks(self, done: Pass, names: Sequence[str]) -> dict[tuple[str, str], Block]:
        """Return the Jacobians with respect to some arrays."""
        found = {}
        samples = self.batch_axis if self.has_samples and not done.single else None
        for key, one, words in self._table:
            if key[1] in names:
                found[key] = Block(one, words, done, samples, self._factored)
        return found

    def _factored(self, structured: Structured, done: Pass) -> Factored:
        """Return what products with one Jacobian are taken with."""
        name = structured.jacobian.parameter
        array = self.forms.program.array(name)
        is_input = array is not None and array.role == "input"
        return Factored(
            self.name, structured, done, self.has_samples, is_input,
            self.placing(name, done.sizes), self.batch_axis, self._definitions, self.plans,
        )  # fmt: skip

    def structured(self) -> dict[Any, Structured]:
        """Return the selected Jacobians by what results call them: θ, or (output, θ)."""
        several = len(self.forms.program.outputs) > 1
        return {(key if several else key[1]): one for key, one, _ in self._table}

    def _doorwise(self, arrays: Sequence[Any], keywords: Mapping[str, Any]) -> list[Any]:
        """Return all arrays in declared order, defaults filled in."""
        rest = iter(arrays)
        return [
            keywords.get(a.name, a.default) if a.default is not None else next(rest)
            for a in self.forms.program.arrays
        ]

    def checked(self, arrays: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Return what the module's door does: checked arrays, sizes, dtype, if one sample."""
        if self.has_defaults:
            arrays = self._doorwise(arrays, keywords)
        door = self.module._door
        return self.turn.run(door, *arrays) if self.batch_axis else door(*arrays)

    def sizes_by_name(self, sizes: Sequence[int]) -> dict[str, int]:
        """Return the lengths of dims."""
        return dict(zip(self._sizes, sizes, strict=True))

    def _outputs(self, done: Pass) -> Any:
        """Return the output of a pass, or a tuple of them."""
        values = done.values
        read = values.output if isinstance(values, Evaluation) else values.__getitem__
        found = tuple([self._value(o, read(o), same, done) for o, same in self._values])
        return found if len(found) > 1 else found[0]

    def _is_shared(self, output: str) -> bool:
        """Whether all samples have one value of an output in common."""
        definition = self.forms.program.definition(output)
        assert definition is not None
        return self.has_samples and self.forms.program.batch not in definition.indices

    def _value(self, output: str, value: Any, shared: bool, done: Pass) -> Any:
        # callers may write into what they get
        value = np.repeat(value[np.newaxis], done.sizes["#B"], 0) if shared else value.copy()
        if done.single and self.has_samples:
            return value[0]
        return self.turn.output(output, value) if self.batch_axis else value


def read_by(forms: Forms) -> frozenset[str]:
    """Return the arrays that structured Jacobians read for as long as they live."""
    found: set[str] = set()
    for one in forms.structured:
        found |= {*one.arrays, *reads(one.dense), *(reads(one.compact) if one.compact else ())}
        found |= {lookup.array for lookup in one.positions}
    indices = {a.name for a in forms.program.arrays if a.role == "index"}
    return frozenset(found | indices)


def _again(
    source: str,
    path: Path,
    layer: Layer,
    forms: Forms,
    captions: Mapping[tuple[str, ...], Caption],
    report: Report | None,
    wrt: tuple[str, ...],
    batch_axis: int = 0,
    num_threads: int | None = None,
) -> Compiled:
    """Return a compiled layer that was pickled; kernels that the cache holds are not made anew."""
    module, file = building.again(source, path)
    module = with_threads(module, num_threads)
    return Compiled(layer, forms, module, file, source, captions, report, wrt, batch_axis)
