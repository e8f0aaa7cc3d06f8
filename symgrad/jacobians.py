"""All Jacobians of one call, by name, and the products with all of them together.

Blocks -> Jacobians -> arrays
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.errors import ArgumentError, MissingKeyError, similar
from symgrad.structured import Block, Values

Key = Any
SHOWN = 20
"""How many Jacobians `repr` lists."""


class Jacobians(Mapping[Key, Block]):
    """All selected Jacobians of one call: θ -> Block, or (output, θ) -> Block.

    `value` is the output of the same pass (a tuple for several outputs).
    """

    def __init__(self, value: Any, blocks: dict[tuple[str, str], Block], several: bool) -> None:
        self.value = value
        self._several = several
        self._blocks = {(k if several else k[1]): b for k, b in blocks.items()}
        self._by_pair = blocks

    def __getitem__(self, key: Key) -> Block:
        try:
            return self._blocks[key]
        except KeyError:
            known = ", ".join(map(repr, list(self._blocks)[:SHOWN]))
            more = ", ..." if len(self) > SHOWN else ""
            kind = "; keys are (output, array)" if self._several else ""
            names = [k for k in self._blocks if isinstance(k, str)]
            near = similar(key, names) if isinstance(key, str) else None
            message = f"no Jacobian for {key!r}{kind}: there are {known}{more}"
            hint = f"did you mean {near!r}?" if near else "compile with it in wrt="
            raise MissingKeyError(message, hint=hint) from None

    def __iter__(self) -> Iterator[Key]:
        return iter(self._blocks)

    def __len__(self) -> int:
        return len(self._blocks)

    def __repr__(self) -> str:
        lines = [repr(block) for block in self._blocks.values()]
        if len(lines) > SHOWN:
            lines[SHOWN - 1 :] = [f"... and {len(lines) - SHOWN + 1} more"]
        return "\n".join(lines)

    def vjp(self, u: Any) -> dict[str, Values]:
        """Return {θ: Σ_b Σ_out u · J}; `u` is a tuple where there are several outputs."""
        return self._backward(u, "vjp")

    def per_sample_vjp(self, u: Any) -> dict[str, Values]:
        """Return {θ: Σ_out u · J for every sample}."""
        return self._backward(u, "per_sample_vjp")

    def _vectors(self, u: Any, count: int) -> Sequence[Any]:
        if not self._several:
            return (u,)
        if not isinstance(u, (tuple, list)) or len(u) != count:
            raise ArgumentError(f"u must be a tuple of {count} arrays, one an output")
        return u

    def _backward(self, u: Any, form: str) -> dict[str, Values]:
        outputs = list(dict.fromkeys(output for output, _ in self._by_pair))
        given = dict(zip(outputs, self._vectors(u, len(outputs)), strict=True))
        total: dict[str, Values] = {}
        for (output, parameter), block in self._by_pair.items():
            part = getattr(block, form)(given[output])
            total[parameter] = part if parameter not in total else total[parameter] + part
        return total

    def jvp(self, tangents: Mapping[str, Any]) -> Any:
        """Return J t for {θ: tangent}; missing ones are zero. A tuple for several outputs."""
        known = list(dict.fromkeys(parameter for _, parameter in self._by_pair))
        if not isinstance(tangents, Mapping):
            raise ArgumentError("tangents must be a mapping of names to arrays")
        for name in tangents:
            if name not in known:
                expected = ", ".join(known)
                raise ArgumentError(f"no tangent for {name!r}; expected some of {expected}")
        values = self.value if self._several else (self.value,)
        outputs = list(dict.fromkeys(output for output, _ in self._by_pair))
        totals = {o: np.zeros_like(v) for o, v in zip(outputs, values, strict=True)}
        for (output, parameter), block in self._by_pair.items():
            if parameter in tangents:
                totals[output] = totals[output] + block.jvp(tangents[parameter])
        return tuple(totals.values()) if self._several else totals[outputs[0]]
