"""A compiled layer with some arrays fixed: what they alone determine is computed once.

Compiled, arrays -> Bound
Kept are definitions that no sample changes, forward and on the way back: factorisations, inverses,
kernel matrices. The arrays are copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import ArgumentError, ShapeError, similar
from symgrad.generation.publics import own_name
from symgrad.jacobians import Jacobians

if TYPE_CHECKING:
    from symgrad.compiled import Compiled


class Bound:
    """The forms of a compiled layer as functions of the arrays that are not bound.

    Each takes them in declared order, by keyword or as one mapping, then `u` or tangents, as the
    layer itself does.
    """

    def __init__(self, compiled: Compiled, arrays: Mapping[str, Any]) -> None:
        self._compiled = compiled
        self._arrays = {n: self._fixed(n, value) for n, value in arrays.items()}
        names = frozenset(self._arrays)
        self._kept: tuple[frozenset[str], dict[Any, Any]] = (names, {})
        declared = compiled.forms.program.arrays
        self._order = [a.name for a in declared if a.default is None and a.name not in names]

    def __repr__(self) -> str:
        return f"Bound({self._compiled.name}: {', '.join(self._arrays)}; {self._compiled!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy it without what was kept, which is computed again."""
        return Bound, (self._compiled, self._arrays)

    @property
    def arrays(self) -> dict[str, Any]:
        """The bound arrays; they cannot be written."""
        views = {n: np.asarray(a).view() for n, a in self._arrays.items()}
        for view in views.values():
            view.flags.writeable = False
        return views

    @property
    def wrt(self) -> tuple[str, ...]:
        """The arrays that it differentiates by; bound ones may be among them."""
        return self._compiled.wrt

    def bind(self, **arrays: Any) -> Bound:
        """Return the layer with more arrays bound, or others in their place."""
        return Bound(self._compiled, {**self._arrays, **arrays})

    def forward(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return the output `[B, *out]`, or a tuple of them."""
        return self._run(self._compiled.forward, args, kwargs)

    def jacobian(self, /, *args: Any, **kwargs: Any) -> Jacobians:
        """Return all selected Jacobians, structured, from one pass."""
        found: Jacobians = self._run(self._compiled.jacobian, args, kwargs)
        return found

    def dense(self, /, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        """Return {θ: dense array} from one pass, into those of `out`; see `Compiled.dense`."""
        found: dict[Any, Any] = self._dense(self._compiled.dense, *args, **kwargs)
        return found

    def gradient(
        self,
        /,
        *args: Any,
        sum: bool = False,  # noqa: A002 (the word of the contract)
        per_sample: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return {θ: gradient}, see `Compiled.gradient`."""
        form = partial(self._compiled.gradient, sum=sum, per_sample=per_sample)
        found: dict[str, Any] = self._run(form, args, kwargs)
        return found

    def vjp(self, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return {θ: Σ_b Σ_out u · J}; the last argument is u `[B, *out]`."""
        found: dict[str, Any] = self._run(self._compiled.vjp, args, kwargs, "u")
        return found

    def vjp_per_sample(self, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return {θ: Σ_out u · J for every sample}; the last argument is u."""
        found: dict[str, Any] = self._run(self._compiled.vjp_per_sample, args, kwargs, "u")
        return found

    per_sample_vjp = vjp_per_sample

    def jvp(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return J t; the last argument is a mapping of tangents, those of bound arrays too."""
        return self._run(self._compiled.jvp, args, kwargs, "tangents")

    def pullback(self, /, *args: Any, **kwargs: Any) -> tuple[Any, Callable[[Any], dict[str, Any]]]:
        """Return the output and `pull`: u `[B, *out]` -> {θ: Σ u · J}."""
        value, back = self._run(self._compiled.pullback, args, kwargs)

        def pull(u: Any) -> dict[str, Any]:
            with self._bound():
                found: dict[str, Any] = back(u)
            return found

        return value, pull

    def __getattr__(self, name: str) -> Any:
        """Give the layer's `jac_θ`, `jac_θ_compact` and `jac_θ_factors`."""
        if name.startswith("jac_"):
            return partial(self._dense, getattr(self._compiled, name))
        raise AttributeError(f"a bound layer has no {name!r}")

    # ------------------------------------------------------------ arguments

    def _dense(self, form: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call one of the functions that have an `out`."""
        word = own_name("out", [a.name for a in self._compiled.forms.program.arrays])
        options = {word: kwargs.pop(word)} if word in kwargs else {}
        return self._run(form, args, kwargs, **options)

    def _fixed(self, name: str, value: Any) -> Any:
        """Return a copy of an array to be bound, checked as far as it can be alone."""
        declared = self._compiled.forms.program.arrays
        where = f"{self._compiled.name}.bind"
        array = next((a for a in declared if a.name == name), None)
        if array is None:
            known = [a.name for a in declared]
            near = similar(name, known)
            meant = f"did you mean {near}?" if near else f"expected some of {', '.join(known)}"
            raise ArgumentError(f"{where}: no array is called {name}; {meant}")
        try:
            found = np.array(value)
        except ValueError as error:
            raise ArgumentError(f"{where}: {name} is no array: {error}") from None
        ranks = (len(array.axes), len(array.axes) + 1) if array.batched else (len(array.axes),)
        if found.ndim not in ranks:
            axes = ", ".join(map(str, array.axes))
            raise ShapeError(f"{where}: {name} has shape {found.shape}, expected [{axes}]")
        if not found.ndim and isinstance(value, (bool, int, float, complex)):
            return value  # a number is weak: it takes the dtype of the arrays
        return found

    def _run(
        self,
        form: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        extra: str = "",
        **options: Any,
    ) -> Any:
        """Call a form with the bound arrays and those given; `extra` is its last argument."""
        where, given = f"{self._compiled.name} (bound)", list(args)
        last: list[Any] = []
        if extra:
            if extra in kwargs and extra not in self._order:
                last = [kwargs.pop(extra)]
            elif given:
                last = [given.pop()]
            else:
                raise ArgumentError(f"{where}: {extra} is missing")
        named = dict(given.pop()) if given and isinstance(given[-1], Mapping) else {}
        if len(given) > len(self._order):
            names = ", ".join(self._order) or "none"
            message = f"{where} takes {len(self._order)} arrays ({names}), got {len(given)}"
            raise ArgumentError(message)
        for name, value in (*zip(self._order, given, strict=False), *kwargs.items()):
            if name in named:
                raise ArgumentError(f"{where}: {name} is given twice")
            named[name] = value
        for name in named:
            if name in self._arrays:
                raise ArgumentError(f"{where}: {name} is bound already", hint="bind it anew")
        with self._bound():
            return form({**self._arrays, **named}, *last, **options)

    @contextmanager
    def _bound(self) -> Iterator[None]:
        """Let the drivers keep what the bound arrays alone determine."""
        switch = getattr(self._compiled.module, "_BOUND", None)
        if switch is None:
            yield
            return
        token = switch.set(self._kept)
        try:
            yield
        finally:
            switch.reset(token)


__all__ = ["Bound"]
