"""The lines of a layer: declarations, assignments, starts, macros, domains, the return.

Script -> Layer
Each line is read by itself; what names mean across lines is settled in `scope`.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from symgrad.errors import LayerSyntaxError, Source
from symgrad.language.characters import Script, Token, fold, span_in
from symgrad.language.declarations import declaration, dim
from symgrad.language.expressions import binder, expression, subscript_parts
from symgrad.language.python_tree import keyword_as_name, python_tree
from symgrad.syntax import (
    Alias,
    Assign,
    Binder,
    Declaration,
    Domain,
    Layer,
    Macro,
    Start,
    Statement,
)

_ALIAS = re.compile(r"#\s*name:\s*(\S+)\s*=\s*(\S+)\s*$")


@dataclass(slots=True)
class _Lines:
    """What has been read so far."""

    script: Script
    declarations: list[Declaration] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    macros: list[Macro] = field(default_factory=list)
    outputs: tuple[str, ...] = ()


def read(script: Script, tokens: tuple[Token, ...], stated: tuple[Declaration, ...]) -> Layer:
    """Read a full layer; `stated` are declarations given beside the text.

    Raises LayerSyntaxError at what is not of the language.
    """
    tree = python_tree(script)
    body = tree.body
    title = ""
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        if isinstance(body[0].value.value, str):
            title = inspect.cleandoc(body[0].value.value).strip()
            body = body[1:]
    lines = _Lines(script, list(stated))
    for node in body:
        if lines.outputs:
            raise script.error("nothing follows `return`", node, "move it above, or leave it out")
        _statement(node, lines)
    if not any(isinstance(s, Assign) for s in lines.statements):
        if not tree.body:
            raise script.error("this layer is empty", None, "declare arrays and write y = ...")
        raise script.error("a layer assigns at least one name", tree.body[-1], "write y = ...")
    return Layer(
        tuple(lines.declarations),
        tuple(lines.statements),
        tuple(lines.macros),
        lines.outputs,
        title,
        _aliases(script.source, tokens),
        source=script.source,
    )


def _statement(node: ast.stmt, lines: _Lines) -> None:
    reader = _READERS.get(type(node))
    if reader is None:
        word = _WORDS.get(type(node), type(node).__name__)
        unknown = (f"`{word}` is not part of the layer language", _LINES)
        message, hint = _REFUSED.get(type(node), unknown)
        raise lines.script.error(message, node, hint)
    reader(node, lines)


def _declare(node: ast.stmt, lines: _Lines) -> None:
    lines.declarations.append(declaration(cast(ast.AnnAssign, node), lines.script))


def _assignment(node: ast.stmt, lines: _Lines) -> None:
    lines.statements.append(assignment(cast(ast.Assign, node), lines.script))


def assignment(node: ast.Assign, script: Script) -> Assign | Start:
    """Read `name = value`, `name[i, t: T] = value` or the start `name[-1, i] = value`."""
    if len(node.targets) > 1:
        raise script.error("one line assigns one name", node.targets[1], "write a = ..., b = a")
    target = node.targets[0]
    if isinstance(target, ast.Name):
        value = expression(node.value, script)
        return Assign(fold(target.id), None, value, script.span(node), script.span(target))
    if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
        hint = "write y = ... or y[i, j] = ..."
        raise script.error("the left side is a name, or a name with indices", target, hint)
    name = target.value
    parts = subscript_parts(target)
    lag = _lag(parts[0], script) if parts else None
    if lag is None:
        binders = _distinct(parts, script)
        value = expression(node.value, script)
        return Assign(fold(name.id), binders, value, script.span(node), script.span(name))
    binders = _distinct(parts[1:], script)
    value = expression(node.value, script)
    return Start(fold(name.id), lag, binders, value, script.span(node))


def _lag(node: ast.expr, script: Script) -> int | None:
    """Return c of the left side `h[-c]`, None if it is no start."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = node.operand
        if isinstance(inner, ast.Constant) and type(inner.value) is int and inner.value > 0:
            if inner.value > 2**31:
                raise script.error("this lag is too large", node)
            return inner.value
        raise script.error("a start has a literal lag", node, "write h[-1] = ...")
    if isinstance(node, ast.Constant) and type(node.value) is int:
        hint = "indices are names, y[i] = ...; a recurrence starts at h[-1] = ..."
        raise script.error("a left side has no numbers", node, hint)
    return None


def _distinct(parts: list[ast.expr], script: Script) -> tuple[Binder, ...]:
    """Read the indices of a left side, each a different name."""
    if not parts:
        return ()
    binders: list[Binder] = []
    for part in parts:
        made = binder(part, script)
        if any(made.name == other.name for other in binders):
            hint = "a left side has distinct indices; write delta(i, j) on the right"
            raise script.error(f"the index {made.name} stands twice on the left", part, hint)
        if isinstance(part, ast.Slice) and part.upper is not None:
            dim(part.upper, script)
        binders.append(made)
    return tuple(binders)


def _domain(node: ast.stmt, lines: _Lines) -> None:
    node = cast(ast.Assert, node)
    if node.msg is not None:
        raise lines.script.error("assert takes a condition only", node.msg, "assert a > 0")
    lines.statements.append(Domain(expression(node.test, lines.script), lines.script.span(node)))


def _outputs(node: ast.stmt, lines: _Lines) -> None:
    node = cast(ast.Return, node)
    if node.value is None:
        raise lines.script.error("return names the outputs", node, "return y, a")
    parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    names: list[str] = []
    if not parts:
        raise lines.script.error("return names the outputs", node, "return y, a")
    for part in parts:
        if not isinstance(part, ast.Name):
            hint = "give it a name first: y = ..., then return y"
            raise lines.script.error("return takes names only", part, hint)
        name = fold(part.id)
        if name in names:
            raise lines.script.error(f"{name} is returned twice", part, "name each output once")
        if not any(isinstance(s, Assign) and s.name == name for s in lines.statements):
            hint = "an output is assigned above, and `return` is the last line: y = ..."
            raise lines.script.error(f"{name} is not assigned in this layer", part, hint)
        names.append(name)
    lines.outputs = tuple(names)


def _macro(node: ast.stmt, lines: _Lines) -> None:
    """Read `def f(a, b):` with assignments and one return."""
    node = cast(ast.FunctionDef, node)
    script = lines.script
    arguments = _macro_arguments(node, script)
    body = node.body
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        if isinstance(body[0].value.value, str):
            body = body[1:]
    if not body or not isinstance(body[-1], ast.Return) or body[-1].value is None:
        where = body[-1] if body else node
        raise script.error("a macro ends with `return` of one value", where, "return a + b")
    result = body[-1].value
    if isinstance(result, ast.Tuple):
        raise script.error("a macro returns one value", result, "write one macro for each")
    assigned: list[Assign] = []
    for line in body[:-1]:
        made = assignment(line, script) if isinstance(line, ast.Assign) else None
        if not isinstance(made, Assign):
            hint = "a macro holds assignments and one return"
            raise script.error("this line has no place in a macro", line, hint)
        assigned.append(made)
    lines.macros.append(
        Macro(
            fold(node.name),
            arguments,
            tuple(assigned),
            expression(result, script),
            script.span(node),
        )
    )


def _macro_arguments(node: ast.FunctionDef, script: Script) -> tuple[str, ...]:
    spec = node.args
    if node.decorator_list:
        raise script.error("a macro has no decorators", node.decorator_list[0], "leave it out")
    if node.returns is not None:
        raise script.error("a macro has no annotations", node.returns, "leave it out")
    odd: list[ast.AST] = [*spec.defaults, *(d for d in spec.kw_defaults if d is not None)]
    odd.extend(arg for arg in (spec.vararg, spec.kwarg) if arg is not None)
    odd.extend((*spec.kwonlyargs, *spec.posonlyargs))
    odd.extend(arg.annotation for arg in spec.args if arg.annotation is not None)
    if odd:
        hint = "write def f(a, b): without defaults, stars or annotations"
        raise script.error("a macro takes plain arguments only", odd[0], hint)
    names: list[str] = []
    for arg in spec.args:
        if fold(arg.arg) in names:
            hint = "give each argument a name of its own"
            raise script.error(f"the argument {fold(arg.arg)} stands twice", arg, hint)
        names.append(fold(arg.arg))
    return tuple(names)


def _bare(node: ast.stmt, lines: _Lines) -> None:
    value = cast(ast.Expr, node).value
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        hint = "the title is the first line; comments start with #"
        raise lines.script.error("a string has no meaning here", node, hint)
    if isinstance(value, ast.Lambda):  # `lambda: param` is a value to Python
        raise keyword_as_name(lines.script) or lines.script.error("this has no name", node)
    expression(value, lines.script)
    raise lines.script.error("this value has no name", node, "write y = ...")


def _aliases(source: Source, tokens: tuple[Token, ...]) -> tuple[Alias, ...]:
    """Return what lines `# name: code_name = dotted.name` say."""
    made: list[Alias] = []
    alone = True
    for token in tokens:
        found = _ALIAS.match(token.text) if token.kind == "comment" and alone else None
        if found:
            name, original = fold(found[1]), found[2]
            span = span_in(source, token.start, token.end)
            if not name.isidentifier():
                hint = "write # name: a_b = a.b"
                raise LayerSyntaxError(f"{name} is not a name", span, source, hint)
            for other in made:
                if name == other.name or original == other.original:
                    message = f"{name} = {original} collides with {other.name} = {other.original}"
                    raise LayerSyntaxError(message, span, source, "each name stands for one")
            made.append(Alias(name, original, span))
        alone = token.kind == "newline" or (alone and token.kind == "space")
    return tuple(made)


_READERS: dict[type[ast.stmt], Callable[[ast.stmt, _Lines], None]] = {
    ast.AnnAssign: _declare,
    ast.Assign: _assignment,
    ast.Assert: _domain,
    ast.Return: _outputs,
    ast.FunctionDef: _macro,
    ast.Expr: _bare,
}

_REFUSED: dict[type[ast.stmt], tuple[str, str | None]] = {
    ast.Import: ("a layer imports nothing", "the language's functions are always there"),
    ast.ImportFrom: ("a layer imports nothing", "the language's functions are always there"),
    ast.AugAssign: ("a name is assigned once", "give the new value a new name: b = a + ..."),
    ast.For: ("loops are not part of the layer language", "write y[i] = ... or h[t: T] = ..."),
    ast.While: ("loops are not part of the layer language", "write h[t: T] = ..."),
    ast.If: ("`if` is not part of the layer language", "write where(condition, a, b)"),
    ast.ClassDef: ("classes are not part of the layer language", "write a macro: def f(a): ..."),
    ast.AsyncFunctionDef: ("a macro is not async", "write def f(a): ..."),
    ast.Raise: ("`raise` is not part of the layer language", "state a domain: assert a > 0"),
}
_WORDS: dict[type[ast.stmt], str] = {
    ast.With: "with",
    ast.AsyncWith: "async",
    ast.AsyncFor: "async",
    ast.Try: "try",
    ast.TryStar: "try",
    ast.Match: "match",
    ast.Delete: "del",
    ast.Pass: "pass",
    ast.Break: "break",
    ast.Continue: "continue",
    ast.Global: "global",
    ast.Nonlocal: "nonlocal",
}
_LINES = "a layer holds declarations, assignments, `def`, `assert` and `return`"
