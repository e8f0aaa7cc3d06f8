"""Steps of a way back that only some of its results need run only where those are wanted.

Steps, results -> lines
What a step serves is told by who reads what it writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from symgrad.generation.pieces import Written
from symgrad.generation.words import code_name, mentions

Steps = Sequence[Written]


def guarded(
    steps: Steps, results: Mapping[str, str], written: Callable[[Steps], list[str]]
) -> list[str]:
    """Return the lines that put the results wanted into `found`; `only` are their names, or None.

    `results` has the name of each result by its array; `written` gives the lines of steps.
    """
    needed = served(steps, {code_name(array): name for array, name in results.items()})
    lines = ["found = {}"]
    numbers = range(len(steps))
    for names, group in groupby(numbers, key=lambda n: needed[n]):
        own = [steps[number] for number in group]
        made = [array for step in own for array in step.complete if array in results]
        body = written(own)
        body += [f'found["{results[array]}"] = {code_name(array)}' for array in made]
        if names == frozenset(results.values()):
            lines += body
            continue
        shown = ", ".join(f'"{n}"' for n in results.values() if n in names)
        lines.append(f"if _wanted(only, {shown}):")
        lines += [f"    {line}" for line in body]
    return lines


def served(steps: Steps, results: Mapping[str, str]) -> list[frozenset[str]]:
    """Return the names of the results that each step is needed for; by code, `results` has them."""
    texts = [step.text for step in steps]
    last = {code_name(n): number for number, s in enumerate(steps) for n in s.complete}
    first: dict[str, int] = {}
    for number, text in enumerate(texts):
        for made in re.findall(r"^\(?(\w+(?:, \w+)*),?\)? = ", text, re.MULTILINE):
            for name in made.split(", "):
                first.setdefault(name, number)
    found = [frozenset[str]()] * len(steps)
    for number in reversed(range(len(steps))):
        names: set[str] = set()
        for name, begin in first.items():
            end = max(last.get(name, begin), begin)
            if not begin <= number <= end or not mentions(texts[number], name):
                continue
            names |= {results[name]} if name in results else set()
            later = range(number + 1, len(steps))  # what adds to it, and what reads it
            names |= {n for k in later if mentions(texts[k], name) for n in found[k]}
        found[number] = frozenset(names or results.values())
    return found


__all__ = ["guarded", "served"]
