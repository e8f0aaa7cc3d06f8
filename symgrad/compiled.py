"""A compiled layer: a generated module behind a door that takes arrays in every usual way.

Module, Forms -> Compiled
Nothing is compiled by numba until a form is first called. The module has the batch axis first in
all arrays; `batch_axis` is where callers have it, and what they give and get are views.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from symgrad import build as building
from symgrad.arguments import read_arguments, require_mapping
from symgrad.bound import Bound
from symgrad.chunks import in_pieces
from symgrad.dims import Dim
from symgrad.errors import ArgumentError, ShapeError, similar
from symgrad.evaluation import Evaluation, Later, Ways
from symgrad.form import Forms, Structured
from symgrad.generation.captions import Caption
from symgrad.generation.door import size_dims
from symgrad.generation.publics import form_names, own_name
from symgrad.generation.publics_twice import hessian_functions
from symgrad.jacobians import Jacobians
from symgrad.memory import within_memory
from symgrad.parts import region
from symgrad.passes import Pass
from symgrad.planning import Planning
from symgrad.products.planned import Plans
from symgrad.products.sides import Factored
from symgrad.program import Definition
from symgrad.proof.sizes import sizes
from symgrad.room import Room
from symgrad.scatter import Placing
from symgrad.second_pass import SecondOrder, own_copies
from symgrad.selecting import Selecting
from symgrad.structured import Block
from symgrad.syntax import Layer
from symgrad.turn import Turn
from symgrad.validate import Report


@dataclass(slots=True)
class Compiled(Selecting, SecondOrder, Planning):
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
    _batched: bool = field(init=False, repr=False)
    _sizes: tuple[str, ...] = field(init=False, repr=False)
    _read: frozenset[str] = field(init=False, repr=False)
    _definitions: dict[str, Definition] = field(init=False, repr=False)
    _table: tuple[tuple[tuple[str, str], Structured, Caption, bool], ...] = field(
        init=False, repr=False
    )

    def __post_init__(self) -> None:
        """Look up once what every call needs."""
        program = self.forms.program
        self.turn = Turn(program, self.batch_axis, self.forms.derivation.selection)
        self.ways = Ways(self.forms)
        self.room = Room(self.forms, self.wrt, self.module)
        inputs = {a.name for a in program.arrays if a.role == "input"}
        self._batched = any(a.batched for a in program.arrays)
        self._sizes = tuple(size_dims(program))
        self._read = frozenset(a for s in self.forms.structured for a in s.arrays)
        self._definitions = {d.name: d for d in self.forms.factors.definitions}
        self._table = tuple(
            (key, s, self.captions[key], s.jacobian.parameter in inputs)
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
        return _again, (self.source, self.path, *nouns)

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
        done = self._pass(own_copies(arrays), keywords)
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

    def take(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Return {θ: the selected part} of {θ: array}, for all θ that are given; copies.

        Leading axes (samples, right-hand sides) stay. Raises ArgumentError for a name that is not
        selected.
        """
        require_mapping(f"{self.name}.take: arrays", arrays)
        return {n: self._alone(n, arrays[n]).take(arrays[n]) for n in arrays}

    def scatter(self, parts: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Return {θ: array} with the parts {θ: `[*lead, *part]`} in place of those of `arrays`.

        `arrays` are left as they are; `J.scatter` has zeros in their place. Raises ArgumentError
        for a name that is not selected, or has no array.
        """
        require_mapping(f"{self.name}.scatter: parts", parts)
        require_mapping(f"{self.name}.scatter: arrays", arrays)
        for name in parts:
            if name not in arrays:
                hint = "give the array that the part is put into, or use J.scatter"
                raise ArgumentError(f"{self.name}.scatter: {name} is missing", hint=hint)
        return {n: self._alone(n, arrays[n]).scatter(p, arrays[n]) for n, p in parts.items()}

    def _alone(self, name: str, value: Any) -> Placing:
        """Return how the part of an array lies in it, from its shape alone."""
        array = self.forms.program.array(name)
        if array is None or name not in self.wrt:
            known = ", ".join(self.wrt)
            raise ArgumentError(f"nothing called {name!r} is selected; there are {known}")
        shape = np.shape(value)
        own = shape[len(shape) - len(array.axes) :]
        alone = replace(array, role="param")
        sizes(replace(self.forms.program, arrays=(alone,)), {name: own})  # refuses what is none
        part = self.forms.derivation.selection.region(name)
        alone = replace(alone, axes=tuple(map(Dim.of, own)))  # h*d tells neither h nor d
        return Placing(self.name, alone, part and region(alone, part.items, str), {})

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
            ones.append(np.ones((known["#B"], *own) if self._batched and not single else own))
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
        if name.startswith("jac_") and name in form_names(self.forms, self.wrt):
            return partial(self._form, name)
        if name.startswith("hess_") and name in hessian_functions(self.forms, self.wrt):
            return partial(self._second_form, name)
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
        word = own_name("out", [a.name for a in self.forms.program.arrays])
        out = {word: kwargs.pop(word)} if word in kwargs else {}
        arrays, keywords, _ = self._bind(name, args, kwargs, room=not out)
        parameter, kind = form_names(self.forms, self.wrt)[name]
        if out and kind == "factors":
            raise ArgumentError(f"{self.name}.{name} takes no {word}: factors are not copied")
        if not self.batch_axis:
            return getattr(self.module, name)(*arrays, **keywords, **out)
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
        return {own_name(word, [a.name for a in self.forms.program.arrays]): self.wrt}

    def _pass(self, arrays: Sequence[Any], keywords: Any, until: str | None = None) -> Pass:
        """Return what one forward pass leaves, evaluated when it is read.

        `until` names the one θ it is for.
        """
        module = self.module
        checked, sizes, dtype, single = self.checked(arrays, keywords)
        declared = zip(self.forms.program.arrays, checked, strict=True)
        data = {a.name: array for a, array in declared if a.role == "index"}
        values: Mapping[str, Any] = Evaluation(module, (checked, sizes, dtype), data, self.ways)
        if until is not None:
            values = {**data, **module._sweep(checked, sizes, dtype, until)}
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
        for key, one, words, is_input in self._table:
            if key[1] not in names:
                continue
            placing = self.placing(key[1], done.sizes)
            common = (self._batched, is_input, placing, self.batch_axis, self._definitions)
            factored = Factored(self.name, one, done, *common, self.plans)
            found[key] = Block(factored, words, done)
        return found

    def _doorwise(self, arrays: Sequence[Any], keywords: Mapping[str, Any]) -> list[Any]:
        """Return all arrays in declared order, defaults filled in."""
        rest = iter(arrays)
        return [
            keywords.get(a.name, a.default) if a.default is not None else next(rest)
            for a in self.forms.program.arrays
        ]

    def checked(self, arrays: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Return what the module's door does: checked arrays, sizes, dtype, if one sample."""
        return self.turn.run(self.module._door, *self._doorwise(arrays, keywords))

    def sizes_by_name(self, sizes: Sequence[int]) -> dict[str, int]:
        """Return the lengths of dims."""
        return dict(zip(self._sizes, sizes, strict=True))

    def _outputs(self, done: Pass) -> Any:
        """Return the output of a pass, or a tuple of them."""
        values, names = done.values, self.forms.program.outputs
        assert isinstance(values, Evaluation)
        found = tuple(map(values.output, names))
        read = self._read if values.swept else frozenset(self.forms.saved)
        made = tuple(
            self._value(o, value, done, shared=o in read)
            for o, value in zip(names, found, strict=True)
        )
        return made if len(made) > 1 else made[0]

    def _value(self, output: str, value: Any, done: Pass, *, shared: bool) -> Any:
        definition = self.forms.program.definition(output)
        assert definition is not None
        if self._batched and self.forms.program.batch not in definition.indices:
            value = np.repeat(value[np.newaxis], done.sizes["#B"], axis=0)
        elif shared:  # callers may write into what they get
            value = value.copy()
        return value[0] if done.single and self._batched else self.turn.output(output, value)


def _again(
    source: str,
    path: Path,
    layer: Layer,
    forms: Forms,
    captions: Mapping[tuple[str, ...], Caption],
    report: Report | None,
    wrt: tuple[str, ...],
    batch_axis: int = 0,
) -> Compiled:
    """Return a compiled layer that was pickled; kernels that the cache holds are not made anew."""
    module, file = building.again(source, path)
    return Compiled(layer, forms, module, file, source, captions, report, wrt, batch_axis)
