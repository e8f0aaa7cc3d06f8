"""The second derivatives of one call of a compiled layer.

Compiled, arrays -> Hessians
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.chunks import in_pieces
from symgrad.errors import ArgumentError
from symgrad.form import Structured
from symgrad.generation.publics_twice import hessian_functions
from symgrad.hessians import Hessians
from symgrad.memory import within_memory
from symgrad.passes import Pass
from symgrad.products.sides import Factored
from symgrad.structured import Block

if TYPE_CHECKING:
    from symgrad.compiled import Compiled


class SecondOrder:
    """What a compiled layer offers of second derivatives, if it was compiled with `order=2`."""

    __slots__ = ()

    @within_memory
    def hessian(self: Any, /, *args: Any, **kwargs: Any) -> Hessians:
        """Return all second derivatives by pairs of selected arrays, structured.

        Raises ArgumentError if the layer was compiled without `order=2`.
        """
        arrays, keywords, _ = self._bind("hessian", args, kwargs, room=False)
        return _second_derivatives(self, own_copies(arrays), keywords)

    @within_memory
    @in_pieces
    def hvp(self: Any, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return {θ: Σ_b Σ_out u · Σ_φ ∂²y/∂θ∂φ t_φ, `[*p]`}; inputs keep their batch axis.

        The last two arguments are u `[B, *out]` and tangents {φ: t}, missing ones are zero.
        Raises ArgumentError if the layer was compiled without `order=2`.
        """
        arrays, keywords, extra = self._bind("hvp", args, kwargs, ("u", "tangents"))
        return _second_derivatives(self, arrays, keywords).hvp(*extra)

    @within_memory
    @in_pieces
    def hessian_sum(self: Any, /, *args: Any, **kwargs: Any) -> dict[tuple[str, ...], Any]:
        """Return {(θ, φ): Σ_b Σ_out u · ∂²y/∂θ∂φ, `[*p, *q]`}; the last argument is u `[B, *out]`.

        Raises ArgumentError if the layer was compiled without `order=2`.
        """
        arrays, keywords, extra = self._bind("hessian_sum", args, kwargs, ("u",))
        return _second_derivatives(self, arrays, keywords).sum(*extra)

    def _second_form(self: Any, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Return what the module's `hess_θ_φ` does, of arrays with the batch axis anywhere."""
        pair, kind = hessian_functions(self.forms, self.wrt)[name]
        word = self.words["out"]
        given = {word: kwargs.pop(word)} if word in kwargs else {}
        if given and kind == "factors":
            raise ArgumentError(f"{self.name}.{name} takes no {word}: factors are not copied")
        if not self.batch_axis:
            arrays, keywords, _ = self._bind(name, args, kwargs)
            return getattr(self.module, name)(*arrays, **keywords, **given)
        H, outputs = self.hessian(*args, **kwargs), self.forms.program.outputs
        blocks = [H[pair]] if len(outputs) == 1 else [H[(o, *pair)] for o in outputs]
        forms = [getattr(block, kind) for block in blocks]
        if not given:
            found = [form() for form in forms]
        else:
            outs = given.values() if len(forms) == 1 else self.module._outs(given[word], len(forms))
            found = [form(out) for form, out in zip(forms, outs, strict=True)]
        return tuple(found) if len(found) > 1 else found[0]


def own_copies(arrays: Iterable[Any]) -> list[Any]:
    """Return copies, so that a later step in place on the caller's arrays changes no result."""
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arrays]


def _second_derivatives(
    jac: Compiled, arrays: Sequence[Any], keywords: Mapping[str, Any]
) -> Hessians:
    """Return the second derivatives at the arrays, each evaluated when it is asked for."""
    if jac.forms.curvature is None:
        message = f"{jac.name} was compiled for first derivatives"
        raise ArgumentError(message, hint="compile it with order=2")
    calling = _Call(jac, arrays, keywords)
    return Hessians(jac.name, calling.keys(), calling.blocks, calling.push, calling.add)


class _Call:
    """One call's arrays, and what the module makes of them."""

    def __init__(self, jac: Compiled, arrays: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        self.jac, self.arrays, self.keywords = jac, arrays, keywords
        self.inputs = {a.name for a in jac.forms.program.arrays if a.role == "input"}
        self.several = len(jac.forms.program.outputs) > 1
        jac.checked(arrays, keywords)  # mistakes are told now, before anything is asked for

    def structured(self) -> list[Structured]:
        """Return the second derivatives by selected arrays."""
        curvature = self.jac.forms.curvature
        found = () if curvature is None else curvature.structured
        return [s for s in found if set(_names(s)) <= set(self.jac.wrt)]

    def keys(self) -> dict[tuple[str, ...], tuple[tuple[str, ...], bool]]:
        """Return what users call each block: what it is called as compiled, and if it is turned."""
        made = {(s.jacobian.output, *_names(s)): s for s in self.structured()}
        found: dict[tuple[str, ...], tuple[tuple[str, ...], bool]] = {}
        for output in self.jac.forms.program.outputs:
            for one in self.jac.wrt:
                for other in self.jac.wrt:
                    key = (output, one, other) if self.several else (one, other)
                    own = (output, one, other)
                    turned = own not in made
                    found[key] = ((output, other, one) if turned else own, turned)
        return found

    def blocks(self) -> dict[tuple[str, ...], Block]:
        """Evaluate what the blocks are made of."""
        jac = self.jac
        names = (a.name for a in jac.forms.program.arrays if a.default is None)
        jac.room.require("hessian", {**dict(zip(names, self.arrays, strict=True)), **self.keywords})
        checked, sizes, dtype, single = jac.checked(self.arrays, self.keywords)
        values = jac.module._sweep_twice(checked, sizes, dtype)
        done = Pass(jac.module, checked, jac.sizes_by_name(sizes), sizes, dtype, single, values)
        axis = jac.batch_axis if jac.has_samples and not single else None
        found: dict[tuple[str, ...], Block] = {}
        for s in self.structured():
            key = (s.jacobian.output, *_names(s))
            found[key] = Block(s, jac.captions[key], done, axis, self.factored)
        return found

    def factored(self, structured: Structured, done: Pass) -> Factored:
        """Return what products with one second derivative are taken with."""
        jac = self.jac
        is_input = bool(self.inputs & set(_names(structured)))
        placing = jac.placing(structured.jacobian.parameter, done.sizes)
        common = (jac.has_samples, is_input, placing, jac.batch_axis)
        return Factored(jac.name, structured, done, *common, plans=jac.plans)

    def push(self, u: Any, tangents: Mapping[str, Any]) -> dict[str, Any]:
        """Return the module's product with tangents, of what is selected."""
        self._require_selected(tangents)
        turn, form = self.jac.turn, self.jac.module.hvp
        vectors, pushed = turn.vectors(u), turn.tangents(tangents)
        found = turn.run(form, *self.arrays, vectors, pushed, **self.keywords)
        return turn.gradients({n: g for n, g in found.items() if n in self.jac.wrt})

    def add(self, u: Any) -> dict[tuple[str, ...], Any]:
        """Return the module's sums, of what is selected, in declared order."""
        turn, wrt = self.jac.turn, self.jac.wrt
        form = self.jac.module.hessian_sum
        found = turn.run(form, *self.arrays, turn.vectors(u), **self.keywords)
        return turn.second({(a, b): found[a, b] for a in wrt for b in wrt})

    def _require_selected(self, tangents: object) -> None:
        wrt = self.jac.wrt
        unknown = [n for n in tangents if n not in wrt] if isinstance(tangents, Mapping) else []
        if unknown:
            message = f"{self.jac.name}.hvp: no tangent for {unknown[0]!r}"
            raise ArgumentError(f"{message}; expected some of {', '.join(wrt)}")


def _names(structured: Structured) -> tuple[str, str]:
    return structured.jacobian.parameter, structured.jacobian.beside


__all__ = ["SecondOrder", "own_copies"]
