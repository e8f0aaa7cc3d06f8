"""What each driver of a module computes.

Forms -> Order
"""

from __future__ import annotations

from symgrad.algebra.order import needed
from symgrad.form import Form, Forms
from symgrad.generation.direct import direct, of_sweep_dense
from symgrad.generation.order import Order
from symgrad.program import Definition


class Orders:
    """The orders of the drivers of one module's `forms`."""

    __slots__ = ()
    forms: Forms

    def of_forward(self) -> Order:
        """Return what `_forward` computes."""
        form = self.forms.forward
        return Order(form.definitions, handed=results_of(form))

    def wanted(self) -> dict[str, frozenset[str]]:
        """Return the arrays that the Jacobians with respect to each parameter are made of."""
        own = self.forms.structured
        return {
            p: frozenset(a for s in own if s.jacobian.parameter == p for a in s.arrays)
            for p in self.forms.derivation.selection.names
        }

    def of_sweep(self) -> Order:
        """Return what `_sweep` computes."""
        wanted = self.wanted()
        arrays = {a for found in wanted.values() for a in found}
        kept = sorted(arrays | set(self.forms.program.outputs))
        return Order(self.forms.factors.definitions, keep=kept, handed=kept, leaves=wanted)

    def of_sweep_dense(self) -> Order:
        """Return what `_sweep_dense` computes."""
        return of_sweep_dense(self.forms, direct(self.forms))

    def of_expand(self, definition: Definition) -> Order:
        """Return what makes a Jacobian dense or compact."""
        return Order((definition,), made=(definition.name,), zeroed=True)

    def recorded(self) -> tuple[str, ...]:
        """Return the arrays that `_record` returns."""
        return tuple(dict.fromkeys((*self.forms.saved, *self.forms.program.outputs)))

    def of_record(self) -> Order:
        """Return what `_record` computes."""
        program = self.forms.program
        return Order(needed(program.definitions, self.recorded()), handed=program.outputs)

    def of_back(self, form: Form) -> Order:
        """Return what the backward half of a vector-Jacobian product computes."""
        own = {d.name for d in self.forms.program.definitions}
        going_back = [d for d in form.definitions if d.name not in own]
        return Order(going_back, form.given, handed=results_of(form))

    def of_onward(self) -> Order:
        """Return what is left of a Jacobian-vector product after `_record`."""
        form, known = self.forms.jvp, {*self.recorded()}
        left = [d for d in form.definitions if d.name not in known]
        return Order(needed(left, results_of(form)), form.given, handed=results_of(form))

    def of_tangent(self) -> Order:
        """Return what `_tangent` computes."""
        form = self.forms.jvp
        return Order(form.definitions, form.given, handed=results_of(form))


def results_of(form: Form) -> tuple[str, ...]:
    """Return the arrays that a form hands out."""
    return tuple(result.array for result in form.results)


__all__ = ["Orders", "results_of"]
