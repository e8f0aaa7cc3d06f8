"""Make a failing layer small: drop statements, replace expressions by their parts.

text, still fails? -> text
Works on Python's syntax tree of the text, so the result is a layer a person can read.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator


def shrink(text: str, fails: Callable[[str], bool], budget: int = 400) -> str:
    """Return the smallest text found that still fails, trying at most `budget` candidates."""
    best, tried = text, {text}
    changed = True
    while changed:
        changed = False
        for candidate in sorted(set(candidates(best)), key=len):
            if candidate in tried or len(candidate) > len(best):
                continue
            tried.add(candidate)
            if len(tried) > budget:
                return best
            if fails(candidate):
                best, changed = candidate, True
                break
    return best


def candidates(text: str) -> Iterator[str]:
    """Yield smaller texts, legal or not."""
    tree = ast.parse(text)
    for place in range(len(tree.body)):
        smaller = copy.deepcopy(tree)
        del smaller.body[place]
        yield _clean(smaller)
    spots = sum(1 for _ in _expressions(tree))
    for spot in range(spots):
        node = list(_expressions(tree))[spot][0]
        for part in _parts(node):
            smaller = copy.deepcopy(tree)
            for number, (_, replace) in enumerate(_expressions(smaller)):
                if number == spot:
                    replace(copy.deepcopy(part))
                    break
            yield _clean(smaller)


def _expressions(tree: ast.AST) -> Iterator[tuple[ast.expr, Callable[[ast.expr], None]]]:
    """Yield every expression that is no annotation or target, and a way to replace it."""
    for parent in ast.walk(tree):
        if isinstance(parent, ast.AnnAssign):
            continue
        for name, value in ast.iter_fields(parent):
            if name in ("targets", "func", "annotation", "slice"):
                continue
            if isinstance(value, ast.expr):
                yield value, lambda new, p=parent, n=name: setattr(p, n, new)
            elif isinstance(value, list):
                for place, item in enumerate(value):
                    if isinstance(item, ast.expr):
                        yield item, lambda new, v=value, k=place: v.__setitem__(k, new)


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr) and not isinstance(child, ast.Slice):
            yield child
        elif isinstance(child, ast.keyword):
            yield child.value
    if isinstance(node, ast.Call):
        for place in range(len(node.keywords)):
            fewer = copy.deepcopy(node)
            del fewer.keywords[place]
            yield fewer
    if isinstance(node, ast.Call | ast.BinOp | ast.Subscript):
        yield ast.Constant(2)


def _clean(tree: ast.Module) -> str:
    """Return the text, without declarations that nothing uses."""
    try:
        text = ast.unparse(ast.fix_missing_locations(tree))
    except (ValueError, AttributeError):
        return ""
    lines = text.split("\n")
    kept = []
    for line in lines:
        declared = re.match(r"(\w+): (input|param|const|index)", line)
        others = [other for other in lines if other is not line]
        dims = set(re.findall(r"\b[nmpd]\b", line))
        alone = declared and not any(re.search(rf"\b{declared[1]}\b", o) for o in others)
        if alone and not dims:
            continue
        kept.append(line)
    return "\n".join(kept) + "\n"
