"""Compile the kernels of a module ahead, so that processes that import it compile nothing.

Compiled, dtypes -> calls of every form on a few samples
numba keeps what it compiles beside the module, by the dtype and the rank of its arrays: sizes do
not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from symgrad.arguments import call_arguments
from symgrad.compiled import Compiled
from symgrad.errors import ArgumentError
from symgrad.form import Forms
from symgrad.generation.publics import form_names
from symgrad.generation.publics_twice import hessian_functions
from symgrad.proof.sample import Kind, sample

DTYPES = ("float64", "float32", "complex128", "complex64")
BATCHES = (3, 1)
"""Samples to call with: what LAPACK returns for one lies in another order than for several."""
KINDS: tuple[Kind, ...] = ("normal", "positive", "unit", "definite")
"""How arrays are drawn until a layer takes them: a matrix may have to be positive definite."""


def compile_ahead(compiled: Compiled, dtypes: Sequence[str]) -> None:
    """Compile all kernels for arrays of these dtypes. Raises ArgumentError without numba."""
    for call in warming(compiled, dtypes):
        call()


def warming(compiled: Compiled, dtypes: Sequence[str]) -> list[Callable[[], object]]:
    """Return calls that together compile all kernels for arrays of these dtypes.

    Raises ArgumentError where there is nothing to compile, or for a dtype that the layer refuses.
    """
    module = compiled.module
    if dtypes and not module._COMPILED:
        hint = "install numba, and leave NUMBA_DISABLE_JIT unset"
        raise ArgumentError(f"no kernel can be compiled ahead: {module._WHY}", hint=hint)
    found: list[Callable[[], object]] = []
    for dtype in dtypes:
        for batch in BATCHES:
            arrays = _arrays(compiled, dtype, batch)
            every: list[Callable[[], object]] = [*calls(compiled.forms, module, arrays)]
            every.append(partial(_product, compiled, arrays))
            quiet = [partial(_quietly, call) for call in every]
            found += quiet
            if batch > 1:
                found += [partial(_as_large, module, call) for call in quiet]
    return found


def calls(made: Forms, module: Any, arrays: dict[str, Any]) -> Iterator[Callable[[], Any]]:
    """Yield a call of every form that a module offers, at some arrays."""
    program, names = made.program, made.derivation.selection.names
    positional, keywords = call_arguments(program.arrays, arrays)
    value = module.forward(*positional, **keywords)
    u = tuple(map(np.ones_like, value)) if len(program.outputs) > 1 else np.ones_like(value)
    tangents = module.vjp(*positional, u, **keywords)

    def pull() -> Any:
        return module.pullback(*positional, **keywords)[1](u)

    for name in ("forward", "jacobian", *form_names(made, names)):
        yield partial(getattr(module, name), *positional, **keywords)
    for name in ("vjp", "vjp_per_sample"):
        yield partial(getattr(module, name), *positional, u, **keywords)
    yield partial(module.jvp, *positional, tangents, **keywords)
    yield pull
    if made.curvature is not None:
        for name in ("hessian", *hessian_functions(made, names)):
            yield partial(getattr(module, name), *positional, **keywords)
        yield partial(module.hvp, *positional, u, tangents, **keywords)
        yield partial(module.hessian_sum, *positional, u, **keywords)


def dtypes_of(warm: object) -> tuple[str, ...]:
    """Return what `warm=` asks for: True is float64, others are named. Raises ArgumentError."""
    if isinstance(warm, bool):
        return DTYPES[:1] if warm else ()
    several = isinstance(warm, Sequence) and not isinstance(warm, str)
    found = []
    for one in cast("Sequence[object]", warm) if several else (warm,):
        try:
            name = np.dtype(cast("Any", one)).name if one is not None else "None"
        except TypeError:
            name = repr(one)
        if name not in DTYPES:
            hint = f"give True, or some of {', '.join(DTYPES)}"
            raise ArgumentError(f"kernels are not compiled for {name}", hint=hint)
        found.append(name)
    return tuple(dict.fromkeys(found))


def _arrays(compiled: Compiled, dtype: str, batch: int) -> dict[str, Any]:
    """Return arrays that the layer takes."""
    for kind in KINDS:
        drawn = sample(compiled.forms.program, batch=batch, kind=kind)
        arrays = {
            name: array if np.asarray(array).dtype.kind in "iu" or isinstance(array, (int, float))
            else np.asarray(array, dtype)
            for name, array in drawn.items()
        }  # fmt: skip
        positional, keywords = call_arguments(compiled.forms.program.arrays, arrays)
        try:
            _quietly(partial(compiled.module.forward, *positional, **keywords))
        except ArgumentError:  # a matrix without an inverse
            if kind == KINDS[-1]:
                raise
            continue
        break
    return arrays


def _product(compiled: Compiled, arrays: dict[str, Any]) -> object:
    """Multiply by Jᵀ J, by whatever is the cheaper way."""
    value = compiled.forward(arrays)
    u = tuple(map(np.ones_like, value)) if isinstance(value, tuple) else np.ones_like(value)
    return compiled.ggn_matvec(arrays, compiled.vjp(arrays, u))


def _as_large(module: Any, call: Callable[[], object]) -> object:
    """Make a call as if it had many samples, whose steps are compiled as a whole."""
    own = {name: getattr(module, name) for name in ("_SHARE_FROM", "_FEW") if name in vars(module)}
    try:
        vars(module).update(dict.fromkeys(own, 0))
        return call()
    finally:
        vars(module).update(own)


def _quietly(call: Callable[[], Any]) -> Any:
    with np.errstate(all="ignore"):
        return call()


__all__ = ["calls", "compile_ahead", "dtypes_of", "warming"]
