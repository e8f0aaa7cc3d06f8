"""All forms of a layer's derivatives, of first order or of both.

Program, Selection -> assemble -> Forms
"""

from __future__ import annotations

from symgrad.algebra.weighted import weighted
from symgrad.derivation import Derivation, Selection
from symgrad.derive import derive
from symgrad.derive_twice import derive_twice
from symgrad.errors import ArgumentError
from symgrad.form import Forms
from symgrad.forms import forms
from symgrad.forms_twice import forms_twice
from symgrad.program import Program


def assemble(
    program: Program, selection: Selection, order: int = 1, *, check_domain: bool = False
) -> Forms:
    """Return the forms of all derivatives up to `order`; with `check_domain` calls test domains."""
    made = forms(derived(program, selection, order), check_domain=check_domain)
    if order == 1:
        return made
    return forms_twice(made, derived(weighted(program), selection, order))


def derived(program: Program, selection: Selection, order: int = 1) -> Derivation:
    """Return the derivation of all derivatives up to `order`, 1 or 2.

    Raises ArgumentError for second derivatives of parts that are filled up with zeros.
    """
    if order == 2 and selection.filled:
        message = "order=2 and unselected='zeros' do not go together"
        raise ArgumentError(message, hint="select parts, and put results in place by scatter")
    first = derive(program, selection)
    return first if order == 1 else derive_twice(first)
