"""Tools that a layer can be handed to: their functions of arrays, by the same names.

name -> Tool
numpy, PyTorch and JAX differ in a few words; what is said here is all that a translation uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, CodegenError, similar

Array = Any
"""An array of a tool."""

TOOLS = ("numpy", "torch", "jax")

SHARED = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "square", "reciprocal"),
    *("abs", "sign", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "sinh", "cosh"),
    *("tanh", "arcsinh", "arccosh", "arctanh", "maximum", "minimum", "hypot", "logaddexp"),
    *("floor", "ceil", "round", "where", "broadcast_to", "zeros_like"),
)
"""Functions that all three call alike."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: functions of its arrays (`has`), arrays made from numpy's, and constants among them.

    `slopes` says that its translations may hold derivatives of functions, as closed forms do.
    """

    name: str
    has: Any
    array: Callable[[Any], Array]
    constant: Callable[[Any], Array]
    slopes: bool = False


def tools_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of tools, each once; raise ArgumentError for one that there is not."""
    for name in names:
        if name not in TOOLS:
            near = similar(name, TOOLS)
            meant = f"did you mean {near}? " if near else ""
            raise ArgumentError(
                f"there is no tool {name!r} to compare with",
                hint=f"{meant}there are {', '.join(TOOLS)}",
            )
    return tuple(dict.fromkeys(names))


def absent(name: str) -> str:
    """Return why a tool takes no part, "" if it does."""
    return "" if find_spec(name) else f"it is not installed (pip install {name})"


@cache
def tool(name: str) -> Tool:
    """Return an installed tool."""
    return MAKERS[name]()


def _softmax(a: Any) -> Any:
    powers = np.exp(a - a.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _logsumexp(a: Any) -> Any:
    top = a.max(axis=-1, keepdims=True)
    return top[..., 0] + np.log(np.exp(a - top).sum(axis=-1))


def _named(module: Any, **others: Any) -> SimpleNamespace:
    shared = {n: getattr(module, n) for n in SHARED}
    gather = {"gather": lambda array, *places: array[places]}
    return SimpleNamespace(**{**shared, **gather, **others})


def _numpy() -> Tool:
    special = import_module("scipy.special") if find_spec("scipy") else None

    def of_scipy(word: str) -> Callable[..., Any]:
        def missing(*_: Any) -> Any:
            raise CodegenError(f"numpy has no {word}, and SciPy is not installed")

        return missing if special is None else getattr(special, word)

    has = _named(
        np,
        cbrt=np.cbrt,
        einsum=lambda spec, *rest: np.einsum(spec, *rest[:-1], optimize=rest[-1]),
        sigmoid=lambda z: 1 / (1 + np.exp(-z)),
        relu=lambda z: np.maximum(z, 0),
        erf=of_scipy("erf"),
        erfc=of_scipy("erfc"),
        gamma=of_scipy("gamma"),
        lgamma=of_scipy("gammaln"),
        digamma=of_scipy("digamma"),
        polygamma=of_scipy("polygamma"),
        transpose=np.transpose,
        reshape=np.reshape,
        stack=np.stack,
        sum=lambda a, axes: np.sum(a, axis=axes),
        norm=lambda a: np.sqrt(np.sum(a * a, axis=-1)),
        max=lambda a: np.max(a, axis=-1),
        min=lambda a: np.min(a, axis=-1),
        prod=lambda a: np.prod(a, axis=-1),
        argmax=lambda a: np.argmax(a, axis=-1),
        argmin=lambda a: np.argmin(a, axis=-1),
        softmax=_softmax,
        log_softmax=lambda a: a - _logsumexp(a)[..., None],
        logsumexp=_logsumexp,
        number=lambda mask: mask.astype(np.float64),
        stop=lambda a: a,
        solve=np.linalg.solve,
        inv=np.linalg.inv,
        det=np.linalg.det,
        logdet=lambda a: np.linalg.slogdet(a)[1],
        cholesky=np.linalg.cholesky,
        swapped=lambda a: np.swapaxes(a, -1, -2),
    )
    return Tool("numpy", has, np.asarray, np.asarray, slopes=True)


def _torch() -> Tool:
    torch = import_module("torch")
    kept: dict[Any, Any] = {}

    def constant(values: Any) -> Any:
        """Return numpy's numbers as a tensor, the same one every time."""
        values = np.asarray(values)
        key = (values.dtype.str, values.shape, values.tobytes())
        if key not in kept:
            kept[key] = torch.from_numpy(np.array(values))
        return kept[key]

    has = _named(
        torch,
        einsum=torch.einsum,
        cbrt=lambda z: torch.sign(z) * torch.abs(z) ** (1 / 3),
        sigmoid=torch.sigmoid,
        relu=torch.relu,
        erf=torch.erf,
        erfc=torch.erfc,
        gamma=lambda z: torch.exp(torch.lgamma(z)),
        lgamma=torch.lgamma,
        digamma=torch.digamma,
        transpose=torch.permute,
        reshape=torch.reshape,
        stack=torch.stack,
        sum=lambda a, axes: torch.sum(a, dim=axes),
        norm=lambda a: torch.linalg.vector_norm(a, dim=-1),
        max=lambda a: torch.amax(a, dim=-1),
        min=lambda a: torch.amin(a, dim=-1),
        prod=lambda a: torch.prod(a, dim=-1),
        argmax=lambda a: torch.argmax(a, dim=-1),
        argmin=lambda a: torch.argmin(a, dim=-1),
        softmax=lambda a: torch.softmax(a, -1),
        log_softmax=lambda a: torch.log_softmax(a, -1),
        logsumexp=lambda a: torch.logsumexp(a, -1),
        number=lambda mask: mask.to(torch.float64),
        stop=lambda a: a.detach(),
        solve=torch.linalg.solve,
        inv=torch.linalg.inv,
        det=torch.linalg.det,
        logdet=lambda a: torch.linalg.slogdet(a)[1],
        cholesky=torch.linalg.cholesky,
        swapped=lambda a: a.mT,
    )
    return Tool("torch", has, lambda a: torch.from_numpy(np.array(a)), constant)


def _jax() -> Tool:
    jnp, nn, lax = (import_module(f"jax.{name}") for name in ("numpy", "nn", "lax"))
    special = import_module("jax.scipy.special")
    has = _named(
        jnp,
        einsum=jnp.einsum,
        cbrt=jnp.cbrt,
        sigmoid=nn.sigmoid,
        relu=nn.relu,
        erf=special.erf,
        erfc=special.erfc,
        gamma=lambda z: jnp.exp(special.gammaln(z)),
        lgamma=special.gammaln,
        digamma=special.digamma,
        transpose=jnp.transpose,
        reshape=jnp.reshape,
        stack=jnp.stack,
        sum=lambda a, axes: jnp.sum(a, axis=axes),
        norm=lambda a: jnp.linalg.norm(a, axis=-1),
        max=lambda a: jnp.max(a, axis=-1),
        min=lambda a: jnp.min(a, axis=-1),
        prod=lambda a: jnp.prod(a, axis=-1),
        argmax=lambda a: jnp.argmax(a, axis=-1),
        argmin=lambda a: jnp.argmin(a, axis=-1),
        softmax=lambda a: nn.softmax(a, -1),
        log_softmax=lambda a: nn.log_softmax(a, -1),
        logsumexp=lambda a: special.logsumexp(a, -1),
        number=lambda mask: mask.astype(np.float64),
        stop=lax.stop_gradient,
        solve=jnp.linalg.solve,
        inv=jnp.linalg.inv,
        det=jnp.linalg.det,
        logdet=lambda a: jnp.linalg.slogdet(a)[1],
        cholesky=jnp.linalg.cholesky,
        swapped=lambda a: jnp.swapaxes(a, -1, -2),
    )
    return Tool("jax", has, jnp.asarray, np.asarray)  # numpy's constants fit where jax traces


MAKERS: Mapping[str, Callable[[], Tool]] = {"numpy": _numpy, "torch": _torch, "jax": _jax}

__all__ = ["TOOLS", "Tool", "absent", "tool", "tools_of"]
