"""All dense Jacobians of one call, in new arrays or in the caller's.

Compiled, arrays -> {θ: dense array}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.chunks import in_pieces
from symgrad.memory import within_memory

if TYPE_CHECKING:
    from symgrad.compiled import Compiled


class Dense:
    """What a compiled layer offers of all its Jacobians as arrays.

    Its functions of one array, `jac_θ`, stand in its dictionary once they were asked for.
    """

    __slots__ = ("__dict__",)

    @within_memory
    @in_pieces
    def dense(self: Any, /, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        """Return {θ: `[B, *out, *p]`}, all selected Jacobians as arrays, from one pass.

        Keys are (output, θ) where there are several outputs. `out` is a mapping like the result,
        of all or some of it: those arrays are written into and returned. Raises ArgumentError for
        a name that is not selected, ShapeError or ArgumentError for an array that does not fit,
        before anything is computed.
        """
        word = self.words["out"]
        out = kwargs.pop(word, None)
        arrays, keywords, _ = self._bind("dense", args, kwargs, room=out is None)
        if self.wrt == self.module.WRT and not self.batch_axis:
            found: dict[Any, Any] = self.module.jacobian(*arrays, **keywords, **{word: out})
            return found
        return _selected(self, arrays, keywords, out)


def _selected(
    jac: Compiled, arrays: Sequence[Any], keywords: Mapping[str, Any], out: Any
) -> dict[Any, Any]:
    """Return what is selected, with the batch axis where callers have it; no more is computed."""
    module, turn = jac.module, jac.turn
    checked, sizes, dtype, single = jac.checked(arrays, keywords)
    known, made = jac.sizes_by_name(sizes), jac.structured()
    shapes = {k: tuple(i.dim.evaluate(known) for i in s.dense.indices) for k, s in made.items()}
    ranks = {key: len(shape) - jac.has_samples for key, shape in shapes.items()}
    given = out
    if isinstance(out, Mapping):
        given = {k: turn.inward(a, ranks[k]) if _turns(a, k, ranks) else a for k, a in out.items()}
    outs = turn.run(module._given, given, shapes, dtype, single, checked)
    v = module._sweep(checked, sizes, dtype, jac.wrt[0] if len(jac.wrt) == 1 else None)
    common = (checked, sizes, dtype, v, single)
    found = {
        key: getattr(module, f"_dense_{s.key}")(*common, outs.get(key)) for key, s in made.items()
    }
    found = module._filled(found, given)
    own = {key: array for key, array in (out or {}).items() if array is not None}
    return {k: own[k] if k in own else turn.placed(a, ranks[k]) for k, a in found.items()}


def require_fit(module: Any, what: str, array: Any, like: Any) -> None:
    """Raise ShapeError or ArgumentError for an array to fill that is not like another."""
    module._require_fit(what, array, like.shape, like.dtype)


def _turns(array: Any, key: Any, ranks: Mapping[Any, int]) -> bool:
    return isinstance(array, np.ndarray) and key in ranks


__all__ = ["Dense", "require_fit"]
