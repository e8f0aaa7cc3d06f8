"""Bytes of the matrices that structured Jacobians make: Gram, Gauss-Newton, variances.

Accounts -> {form: polynomial}
All outputs, and all selected arrays θ, together. Where θ is an input, samples stay apart.
"""

from __future__ import annotations

from symgrad.costs.forms import Accounts
from symgrad.costs.steps import volume
from symgrad.dims import ONE, ZERO, Dim
from symgrad.program import BATCH, Definition


def matrices(accounts: Accounts) -> dict[str, Dim]:
    """Return the bytes of what each form returns."""
    program, item = accounts.forms.program, accounts.item
    batch = BATCH if accounts.batched else ONE
    table = {a.name: a for a in program.arrays}
    outs = [volume([i.dim for i in d.indices if i != program.batch]) for d in _outputs(accounts)]
    selection = accounts.forms.derivation.selection
    thetas = [(volume(selection.axes(table[n])), table[n].batched) for n in accounts.wrt]
    rows = sum(outs, ZERO)
    blocks = [p * q * (batch if a or b else ONE) for p, a in thetas for q, b in thetas]
    diagonal = [p * (batch if apart else ONE) for p, apart in thetas]
    elements = {
        "gram": batch * batch * rows * rows,
        'gram(diagonal="batch")': batch * rows * rows,
        'gram(diagonal="out")': batch * batch * rows,
        "ggn": sum(blocks, ZERO),
        "ggn_diagonal": sum(diagonal, ZERO),
        "ggn_matvec": sum(diagonal, ZERO),
        "sqrt_ggn": batch * rows * sum((p for p, _ in thetas), ZERO),
        "functional_variance": batch * rows * rows,
        "norm": batch,
    }
    return {name: count * item for name, count in elements.items()}


def _outputs(accounts: Accounts) -> list[Definition]:
    found = (accounts.forms.program.definition(o) for o in accounts.forms.program.outputs)
    return [definition for definition in found if definition is not None]


__all__ = ["matrices"]
