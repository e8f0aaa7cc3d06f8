"""What a compiled layer says before it runs, and how it runs for some samples at a time.

Compiled -> Plan;  Compiled, arrays -> (rows, Jacobians), ...
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.chunks import chunks
from symgrad.costs.plan import Plan, planned

if TYPE_CHECKING:
    from symgrad.jacobians import Jacobians


class Planning:
    """What a compiled layer offers of plans and pieces."""

    __slots__ = ()

    def chunks(self: Any, /, *args: Any, **kwargs: Any) -> Iterator[tuple[slice, Jacobians]]:
        """Return an iterator over (rows, Jacobians) of `size=` samples at a time.

        `for rows, J in jac.chunks(x, W, b, size=64): total += J.vjp(u[rows])["W"]`. The word moves
        aside (`size_`) where the layer has an array of that name.
        """
        return chunks(self, args, kwargs)

    def plan(
        self: Any,
        batch: int | None = None,
        dims: Mapping[str, Any] | None = None,
        dtype: Any = np.float64,
    ) -> Plan:
        """Return operations and bytes of every form: {form: Cost}, in symbols and as numbers.

        Nothing is run. `batch` is the number of samples, `dims` are sizes, `dtype` that of the
        arrays. Values are None where sizes are missing. `symgrad.costs.plan` says what is counted.
        Raises ShapeError for a dim that this layer has not.
        """
        return planned(self.forms, self.layer, self.wrt, batch, dims, dtype)


__all__ = ["Planning"]
