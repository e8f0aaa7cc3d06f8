"""Whether a layer may be run on complex arrays: every function in it must be analytic.

Forms -> the name of a function that is not, or None
Masks of indices (`i >= j`) read no array, and so are welcome.
"""

from __future__ import annotations

from symgrad.form import Forms
from symgrad.functions import FUNCTIONS
from symgrad.program import Apply, Definition, Reduce, Scalar, arrays_of, scalars_of, walk

COMPARISONS = frozenset("lt le gt ge eq ne".split())
LOGIC = frozenset("and_ or_ not_".split())
REDUCTIONS = frozenset("sum mean prod logsumexp".split())


def real_only(forms: Forms) -> str | None:
    """Return what has no complex kernel, as an error names it, or None."""
    checked = forms.domain.definitions if forms.domain is not None else ()
    for definition in (*forms.program.definitions, *checked):
        found = _in_definition(definition)
        if found is not None:
            return found
    return None


def _in_definition(definition: Definition) -> str | None:
    body = definition.body
    if isinstance(body, Reduce) and body.kind not in REDUCTIONS:
        return body.kind
    for scalar in scalars_of(body):
        for node in walk(scalar):
            if isinstance(node, Apply) and not _is_analytic(node):
                return "a comparison" if node.function in COMPARISONS else node.function
    return None


def _is_analytic(node: Scalar) -> bool:
    if not isinstance(node, Apply) or node.function in LOGIC:
        return True
    if node.function in COMPARISONS:
        return not arrays_of(node)
    return node.function in FUNCTIONS and FUNCTIONS[node.function].complex
