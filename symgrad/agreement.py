"""How one derivative compares with one oracle.

() -> Agreement
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Agreement:
    """How one Jacobian compares with one oracle, at the worst of all its entries.

    `where` is the entry `[b, *out, *p]` farthest outside its tolerance, `analytic` and `expected`
    are the two numbers there. `entries` counts those compared; kinks are not among them.
    """

    output: str
    parameter: str
    oracle: str
    max_error: float
    max_relative: float
    where: tuple[int, ...]
    analytic: float
    expected: float
    entries: int
    kinks: int
    ok: bool

    @property
    def title(self) -> str:
        """`dy/dW`, or `d²y/dW db` where a Jacobian was differentiated."""
        slash = "" if self.output.startswith("²") else "/"
        return f"d{self.output}{slash}d{self.parameter}"

    def verdict(self, several: bool) -> str:
        """Say how it went in a few words; with `several` oracles, against which."""
        if not self.ok:
            return f"WRONG at {list(self.where)}: {self.analytic:.9g}, not {self.expected:.9g}"
        if not self.entries:
            return "only kinks" if self.kinks else "nothing to compare"
        return f"ok against {self.oracle}" if several else "ok"
