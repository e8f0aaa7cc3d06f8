"""Laws of bad input: one clear error, of the right class, at the right place, before any work.

Each row of TEXTS is a layer with marks around the place its caret must show: `⟦` before and `⟧`
behind. The caret line is then known to the column, also under Greek text and behind tabs.
"""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import Source, SymgradError
from symgrad.language.characters import scan

H = "x: input[n]\nW: param[m, n]\nb: param[m]\n"
SYNTAX, SHAPE, CODE = sg.LayerSyntaxError, sg.ShapeError, sg.CodegenError
SELECT, ARGUMENT = sg.SelectionError, sg.ArgumentError

BUILTINS = {
    sg.LayerSyntaxError: ValueError,
    sg.ShapeError: ValueError,
    sg.SelectionError: ValueError,
    sg.ArgumentError: TypeError,
    sg.DerivationError: NotImplementedError,
    sg.CodegenError: NotImplementedError,
    sg.ValidationError: ArithmeticError,
    sg.InternalError: RuntimeError,
}

# text with the place marked | class | in the message | in the hint
TEXTS = {
    # names
    "unknown function": (H + "y = ⟦sigmod⟧(W @ x)", SYNTAX, "sigmod is unknown", "sigmoid?"),
    "unknown name": (H + "zeta = W @ x\ny = ⟦zetta⟧ + b", SYNTAX, "zetta is unknown", "zeta?"),
    "unknown name in other case": (H + "y = ⟦w⟧ @ x", SYNTAX, "name w is unknown", "W?"),
    "unknown name, none alike": (H + "y = ⟦q⟧ * x", SYNTAX, "q is unknown", "q: param[...]"),
    "unknown Greek name": ("α: input[n]\ny = α*α + ⟦γγ⟧*α", SYNTAX, "γγ is unknown", "γγ: param"),
    "unknown behind tabs": (H + "y\t=\tx +\t⟦qq⟧", SYNTAX, "qq is unknown", "declare"),
    "unknown in an assert": (H + "assert ⟦q⟧ > 0\ny = x", SYNTAX, "q is unknown", "declare"),
    "used before it is assigned": (H + "y = ⟦z⟧\nz = x", SYNTAX, "before it is", "move its line"),
    "assigned twice": (H + "y = x\n⟦y⟧ = b", SYNTAX, "assigned twice", "of its own"),
    "assigned twice in index style": (H + "y = x\n⟦y⟧[i] = x[i]", SYNTAX, "assigned twice", None),
    "assigned though declared": (H + "⟦x⟧ = b", SYNTAX, "declared already", "of its own"),
    "declared twice": ("x: input\n⟦x⟧: param\ny = x", SYNTAX, "declared twice", "of its own"),
    "array and dim": ("x: input[⟦x⟧]\ny = x", SYNTAX, "cannot name a dim", "names of their own"),
    "dim and array": (H + "⟦n⟧ = x", SYNTAX, "cannot name an array", "names of their own"),
    "function as a name": ("⟦exp⟧: input[n]\ny = exp", SYNTAX, "exp is a function", "another name"),
    "gamma as a name": ("⟦gamma⟧: param\ny = gamma", SYNTAX, "gamma is a function", "γ"),
    "function assigned": (H + "⟦sum⟧ = x", SYNTAX, "sum is a function", "another name"),
    "role as a name": ("⟦param⟧: param\ny = param", SYNTAX, "role word", "another name"),
    "pi as a name": ("⟦pi⟧: param\ny = pi", SYNTAX, "constant π", "another name"),
    "function as a dim": ("x: input[⟦exp⟧]\ny = x", SYNTAX, "exp is a function", None),
    "function as an index": (H + "y[⟦exp⟧] = x[exp]", SYNTAX, "exp is a function", None),
    "function as a macro": (H + "def ⟦exp⟧(a):\n    return a\ny = x", SYNTAX, "exp is a", None),
    "keyword declared": ("⟦lambda⟧: param\ny = 2", SYNTAX, "lambda is a word of Python", "λ"),
    "keyword assigned": (H + "⟦class⟧ = x", SYNTAX, "class is a word of Python", "another"),
    "keyword indexed": (H + "⟦in⟧[i] = x[i]", SYNTAX, "in is a word of Python", "another"),
    "None declared": ("⟦None⟧: input\ny = 2", SYNTAX, "None is a word of Python", "another"),
    "keyword as macro": (H + "def ⟦while⟧(a):\n    return a\ny = x", SYNTAX, "a word of", None),
    "keyword as operand": (H + "y = ⟦lambda⟧ * x", SYNTAX, "lambda is a word of Python", "λ"),
    "keyword in a size": ("x: input[⟦in⟧]\ny = x", SYNTAX, "in is a word of Python", "name"),
    "array called": (H + "y = ⟦x(b)⟧", SYNTAX, "array and cannot be called", "@"),
    "function not called": (H + "y = x + ⟦exp⟧", SYNTAX, "exp is a function", "exp("),
    # macros
    "recursion": (
        "x: input\ndef f(a):\n    return ⟦f(a)⟧\ny = f(x)", SYNTAX, "f -> f", "may not recurse",
    ),
    "mutual recursion": (
        "x: input\ndef f(a):\n    return g(a)\ndef g(a):\n    return ⟦f(a)⟧\ny = f(x)",
        SYNTAX, "f -> g -> f", "may not recurse",
    ),
    "macro with too many": (
        "x: input\ndef f(a):\n    return a\ny = ⟦f(x, x)⟧", SYNTAX, "takes 1 argument", "f(a)",
    ),
    "macro sees no arrays": (
        "x: input\nw: param\ndef f(a):\n    return a*⟦w⟧\ny = f(x)", SYNTAX, "w is unknown", "pass",
    ),
    "macro with defaults": (
        "x: input\ndef f(a=⟦1⟧):\n    return a\ny = f(x)", SYNTAX, "plain arguments", "def f(a, b)",
    ),
    "macro without return": (
        "x: input\ndef f(a):\n    ⟦b = a⟧\ny = f(x)", SYNTAX, "ends with `return`", "return a + b",
    ),
    # indices
    "index unbound": (H + "y[i] = W[i, ⟦k⟧] * x[k]", SYNTAX, "neither free", "sum[k](...)"),
    "index unbound in matrix style": (H + "y = sum(W[⟦i⟧, :])", SYNTAX, "neither free", "sum[i]"),
    "index bound twice": (H + "y[i] = sum[⟦i⟧](x[i])", SYNTAX, "bound already", "another name"),
    "index over two dims": (
        H + "y[i] = x[i] * ⟦b[i]⟧", SHAPE, "runs over n in x[i] but over m in b[i]", "b: param[n]",
    ),
    "index over two dims in a sum": (
        "x: input[p]\nW: param[m, n]\nz[i] = sum[k](W[i, k] * ⟦x[k]⟧)",
        SHAPE, "index k runs over n in W[i, k] but over p in x[k]", "declare x: input[n]",
    ),
    "index without a range": (H + "y = sum[⟦k⟧](x)", SHAPE, "does not follow", "k: n"),
    "too many indices": (H + "y = ⟦W[0, 0, 0]⟧ * x", SHAPE, "2 axes, but 3", "2 indices at most"),
    "position outside": ("x: input[3]\ny = x[⟦3⟧]", SHAPE, "beyond its last, 2", "bounds"),
    "slice outside": ("x: input[3]\ny = x[⟦0:5⟧]", SHAPE, "length 3", "bounds"),
    "arithmetic with index data": (
        "t: index(v)\nE: param[v]\ny = E[⟦t⟧ + 1]", SHAPE, "no arithmetic", "stands alone",
    ),
    "index data of another range": (
        "t: index(v)\nE: param[w]\ny = ⟦E[t]⟧", SHAPE, "below v", "index(w)",
    ),
    "index data as numbers": ("t: index(v)[T]\ny = ⟦t⟧", SHAPE, "holds indices", "E[t]"),
    # shapes
    "sum of two dims": (H + "y = ⟦x + b⟧", SHAPE, "b of shape [m] does not fit x", "n and m"),
    "sum of two literals": (
        "x: input[3]\nw: param[4]\ny = ⟦x + w⟧", SHAPE, "[4] does not fit x of", "3 and 4",
    ),
    "wrong inner axis": (H + "y = ⟦W.T @ x⟧", SHAPE, "W.T [n, m] is m, but x [n] has n", ".T"),
    "scalar in @": ("x: input\nw: param\ny = ⟦w @ x⟧", SHAPE, "is a scalar", "*"),
    "wrong rank": (H + "y = dot(⟦W⟧, x)", SHAPE, "W has shape [m, n]", "@"),
    "no such axis": (H + "y = sum(W, axis=⟦5⟧)", SHAPE, "no axis 5 in an array of 2", "sample"),
    "no such axis of a vector": (H + "y = softmax(x, axis=⟦1⟧)", SHAPE, "of 1 axis", "sample"),
    "max of two": (H + "y = ⟦max(x, b)⟧", SYNTAX, "max takes one array", "maximum(a, b)"),
    "not square": (H + "y = trace(⟦W⟧)", SHAPE, "not square", "[n, n]"),
    "einsum counts": (H + "y = ⟦einsum('ij,k->i', W)⟧", SHAPE, "2 arrays, 1 are", "ij,j->i"),
    "einsum output": (H + "y = einsum(⟦'ij,j->q'⟧, W, x)", SHAPE, "q stands in no", "i, j"),
    "concatenate": (H + "y = ⟦concatenate([x, W])⟧", SHAPE, "[n] and [m, n]", "agree"),
    # dims
    "undetermined dim": ("x: input\n⟦W: param[h*d]⟧\ny = sum(W)*x", SHAPE, "determines", "dims={"),
    "undetermined size": ("x: input\ny = eye(⟦k⟧) * x", SHAPE, "the dim k", 'dims={"k": 4}'),
    "negative axis": ("x: input[⟦-1⟧]\ny = x", SYNTAX, "-1 elements", "0 or more"),
    "fraction as an axis": ("x: input[⟦2.5⟧]\ny = x", SYNTAX, "a size is expected", "h*d"),
    "divided axis": ("x: input[n⟦/⟧2]\ny = x", SYNTAX, "divided by //", "//2"),
    # outputs and declarations
    "mask as output": (H + "⟦y = x > 0⟧", SYNTAX, "mask", "where(y, 1, 0)"),
    "mask among outputs": (H + "⟦p = x > 0⟧\ny = x\nreturn y, p", SYNTAX, "p is a mask", "where"),
    "only declarations": (H[:-12] + "⟦b: param[m]⟧\n", SYNTAX, "assigns at least one", "y ="),
    "returned value": (H + "y = x\nreturn ⟦y + 1⟧", SYNTAX, "names only", "y = ..."),
    "returned unknown": (H + "y = x\nreturn ⟦q⟧", SYNTAX, "not assigned", "assigned above"),
    "returned twice": (H + "y = x\nreturn y, ⟦y⟧", SYNTAX, "returned twice", "once"),
    "line behind return": (H + "y = x\nreturn y\n⟦z = x⟧", SYNTAX, "nothing follows", "above"),
    "wrong role": ("x: ⟦inptu⟧[n]\ny = x", SYNTAX, "role is expected", "mean input?"),
    "index without vocabulary": ("t: ⟦index⟧[n]\ny = t", SYNTAX, "how many values", "index(v)[T]"),
    "default of a param": ("x: input\np: param = ⟦3⟧\ny = x*p", SYNTAX, "no default", "const"),
    "assert without comparison": (H + "⟦assert x⟧\ny = x", SYNTAX, "comparison", "assert x > 0"),
    # unsupported syntax
    "import": ("⟦import numpy⟧\nx: input\ny = x", SYNTAX, "imports nothing", "always there"),
    "from import": ("⟦from a import b⟧\nx: input\ny = x", SYNTAX, "imports nothing", "always"),
    "for": (H + "⟦for i in x: y = i⟧", SYNTAX, "loops", "y[i]"),
    "while": (H + "⟦while x: pass⟧", SYNTAX, "loops", "h[t: T]"),
    "if": (H + "⟦if x: y = 1⟧", SYNTAX, "`if`", "where("),
    "with": (H + "⟦with x: y = 1⟧", SYNTAX, "`with`", "a layer holds"),
    "try": (H + "⟦try:⟧\n    y = 1\nexcept: pass", SYNTAX, "`try`", "a layer holds"),
    "match": (H + "⟦match x:⟧\n    case 1: y = 2", SYNTAX, "`match`", "a layer holds"),
    "class": (H + "⟦class A: pass⟧", SYNTAX, "classes", "macro"),
    "raise": (H + "⟦raise x⟧", SYNTAX, "`raise`", "assert"),
    "del": (H + "⟦del x⟧", SYNTAX, "`del`", "a layer holds"),
    "pass": (H + "⟦pass⟧", SYNTAX, "`pass`", "a layer holds"),
    "global": (H + "⟦global x⟧", SYNTAX, "`global`", "a layer holds"),
    "break": (H + "⟦break⟧", SYNTAX, "`break`", "a layer holds"),
    "async": (H + "⟦async def f(a): return a⟧\ny = x", SYNTAX, "async", "def f"),
    "augmented": (H + "y = x\n⟦y += 1⟧", SYNTAX, "assigned once", "new name"),
    "tuple assigned": (H + "⟦y, z⟧ = x, b", SYNTAX, "left side", "y[i, j]"),
    "chained assignment": (H + "y = ⟦z⟧ = x", SYNTAX, "one name", "b = a"),
    "value without a name": (H + "⟦x + 1⟧", SYNTAX, "no name", "y = ..."),
    "lambda": (H + "y = ⟦lambda a: a⟧", SYNTAX, "lambda", "def f(a)"),
    "ternary": (H + "y = ⟦x if b else x⟧", SYNTAX, "`if`", "where("),
    "comprehension": (H + "y = ⟦[i for i in x]⟧", SYNTAX, "comprehensions", "y[i]"),
    "dictionary": (H + "y = ⟦{1: x}⟧", SYNTAX, "dictionaries", "per name"),
    "set": (H + "y = ⟦{x}⟧", SYNTAX, "sets", "[a, b]"),
    "walrus": (H + "y = (⟦a := x⟧)", SYNTAX, "`:=`", "a = ..."),
    "star": (H + "y = exp(⟦*x⟧)", SYNTAX, "`*` before", "write them out"),
    "double star": (H + "y = exp(⟦**x⟧)", SYNTAX, "`**` before", "write them out"),
    "await": (H + "y = ⟦await x⟧", SYNTAX, "await", "runs"),
    "yield": (H + "y = ⟦yield x⟧", SYNTAX, "yield", "return"),
    "f-string": (H + "y = ⟦f'{x}'⟧", SYNTAX, "f-strings", "einsum"),
    "string": (H + "y = ⟦'a'⟧", SYNTAX, "string", "einsum"),
    "bytes": (H + "y = ⟦b'a'⟧", SYNTAX, "string", "einsum"),
    "attribute": (H + "y = x.⟦shape⟧", SYNTAX, ".shape", "a dim is a number"),
    "numpy": (H + "y = np.⟦tanh⟧(x)", SYNTAX, ".tanh", "tanh(...)"),
    "True": (H + "y = ⟦True⟧ * x", SYNTAX, "True stands", "keepdims=True"),
    "None": (H + "y = ⟦None⟧", SYNTAX, "None stands", "keepdims=True"),
    "dots": (H + "y = ⟦...⟧", SYNTAX, "inside a subscript", "x[..., 0]"),
    "complex": (H + "y = ⟦1j⟧ * x", SYNTAX, "complex", "2*j"),
    "stray list": (H + "y = ⟦[x, x]⟧ + 1", SYNTAX, "list or tuple", "concatenate"),
    "and": (H + "y = x ⟦and⟧ b", SYNTAX, "`and`", "&"),
    "or under Greek": ("αβ: input\ny = αβ + (αβ ⟦or⟧ αβ)", SYNTAX, "`or`", "|"),
    "not": (H + "y = ⟦not⟧ x", SYNTAX, "`not`", "~"),
    "is": (H + "y = x ⟦is⟧ b", SYNTAX, "`is`", "=="),
    "in": (H + "y = x ⟦in⟧ b", SYNTAX, "`in`", "=="),
    "floor division": (H + "y = ⟦x // 2⟧", SYNTAX, "`//`", "floor(a / b)"),
    "remainder": (H + "y = x ⟦%⟧ 2", SYNTAX, "%", "remainder"),
    "hat": (H + "y = x ⟦^⟧ 2", SYNTAX, "^", "**"),
    "shift": (H + "y = x ⟦<<⟧ 2", SYNTAX, "<<", "operators are"),
    "minus sign": (H + "y = x ⟦−⟧ b", SYNTAX, "−", "hyphen"),
    "square sign": (H + "y = x⟦²⟧", SYNTAX, "²", "x**2"),
    "subscript sign": (H + "y = x⟦₁⟧", SYNTAX, "₁", "x1"),
    "prime": (H + "y = x⟦′⟧", SYNTAX, "′", "derived"),
    "zero byte": (H + "y = x⟦\0⟧", SYNTAX, "U+0000", "UTF-8"),
    "unclosed": (H + "y = ⟦(⟧x", SYNTAX, "never closed", "close it"),
    "unopened": (H + "y = x⟦)⟧", SYNTAX, "unmatched", "leave it out"),
    "indented": (H + "  ⟦y⟧ = x", SYNTAX, "indent", "one column"),
    "neighbours": (H + "y = W ⟦x⟧", SYNTAX, "invalid syntax", "W @ x"),
    "too large": (H + "y = x * ⟦9**9**9⟧", SYNTAX, "not a finite", "float64"),
    "too large a literal": (H + "y = x * ⟦1e400⟧", SYNTAX, "not a finite", "float64"),
    "wrong keyword": (H + "y = exp(x, ⟦axis=1⟧)", SYNTAX, "axis", "exp(z)"),
    "start without a step": (H + "⟦h[-1] = x⟧", SYNTAX, None, None),
}  # fmt: skip


def unmarked(text):
    """Return the text, and line, column and width of the place marked in it."""
    before, rest = text.split("⟦")
    inside, behind = rest.split("⟧")
    line = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1) + 1
    return before + inside + behind, line, column, len(inside)


@pytest.mark.parametrize("name", TEXTS)
def test_a_bad_text_is_refused_at_its_place_with_a_way_out(name):
    marked, kind, message, hint = TEXTS[name]
    text, line, column, width = unmarked(marked)
    with pytest.raises(SymgradError) as caught:
        sg.derive(text, "all")
    error = caught.value
    assert type(error) is kind
    assert isinstance(error, BUILTINS[kind])
    assert (error.span.line, error.span.column) == (line, column), str(error)
    shown = str(error).split("\n")
    written = re.split(r"\r\n|\r|\n", text)[line - 1]
    assert shown[0] == f"<layer>:{line}:{column}: {error.message}"
    assert shown[1] == f"    {written}"
    # the caret line keeps tabs, so that it stands right in every terminal
    pad = "".join("\t" if c == "\t" else " " for c in written[: column - 1])
    assert shown[2] == f"    {pad}{'^' * width}"
    assert message is None or message in error.message
    assert hint is None or hint in (error.hint or "")
    assert error.hint, "every refusal says what to do"
    assert "\n".join(shown[3:]) == error.hint


WHOLE = {
    "empty": ("", SYNTAX, "this layer is empty"),
    "blank": (" \n\t\n# only a remark\n", SYNTAX, "this layer is empty"),
    "deep": ("x: input\ny = " + "(" * 5000 + "x" + ")" * 5000, SYNTAX, None),
    "long sum": ("x: input\ny = " + " + ".join(["x"] * 5000), SYNTAX, "nested"),
    "many minuses": ("x: input\ny = " + "-" * 5000 + "x", SYNTAX, None),
    "many digits": ("x: input\ny = x + " + "9" * 5000, SYNTAX, "too many digits"),
    "lone surrogate": ("x: input\ny = x + \ud800", SYNTAX, "U+D800"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_text_that_is_bad_as_a_whole_is_refused_shortly(name):
    text, kind, message = WHOLE[name]
    with pytest.raises(SymgradError) as caught:
        sg.derive(text, "all")
    assert type(caught.value) is kind
    assert message is None or message in caught.value.message
    assert caught.value.hint
    assert max(map(len, str(caught.value).split("\n"))) < 130


DENSE = H + "y = tanh(W @ x + b)"
ABSTRACT = H + "z = W @ x\ny = σ(z + b)"

# call | class | in the message | in the hint
CALLS = {
    "wrt unknown": (lambda: sg.derive(DENSE, "q"), SELECT, "'q'", "param W"),
    "wrt in other case": (lambda: sg.derive(DENSE, "w"), SELECT, "mean W?", "param W"),
    "wrt misspelt role": (lambda: sg.derive(DENSE, "param"), SELECT, "mean params?", None),
    "wrt list": (lambda: sg.derive(DENSE, ["W", "q"]), SELECT, "'q'", None),
    "wrt empty": (lambda: sg.derive(DENSE, []), SELECT, "empty", "params"),
    "wrt nothing left": (lambda: sg.derive(DENSE, ["!W", "!b"]), SELECT, "nothing", "param W"),
    "wrt number": (lambda: sg.derive(DENSE, 3), SELECT, "3", '["W", "b"]'),
    "wrt None": (lambda: sg.derive(DENSE, None), SELECT, "None", '["W", "b"]'),
    "wrt list of numbers": (lambda: sg.derive(DENSE, [3]), SELECT, "3", '["W", "b"]'),
    "wrt const": (
        lambda: sg.derive("x: input\nc: const\ny = c*x", "c"), SELECT, "c is a const", "input x",
    ),
    "wrt index": (
        lambda: sg.derive("t: index(v)\nE: param[v]\ny = E[t]", "t"), SELECT, "index array", None,
    ),
    "wrt without params": (lambda: sg.derive("x: input\ny = x*x"), SELECT, "nothing", "input x"),
    "select unknown": (
        lambda: sg.compile(DENSE, "W", check=False).select("b"), SELECT, "'b'", "param W",
    ),
    "dims unknown": (lambda: sg.derive(DENSE, dims={"q": 1}), SHAPE, "names q", "m, n"),
    "dims negative": (lambda: sg.derive(DENSE, dims={"n": -1}), SHAPE, "-1", "0 or more"),
    "dims fraction": (lambda: sg.derive(DENSE, dims={"n": 2.5}), ARGUMENT, "2.5 (float)", "int"),
    "dims bool": (lambda: sg.derive(DENSE, dims={"n": True}), ARGUMENT, "True (bool)", "int"),
    "dims None": (lambda: sg.derive(DENSE, dims={"n": None}), ARGUMENT, "None", "int"),
    "dims list": (lambda: sg.derive(DENSE, dims=[("n", 3)]), ARGUMENT, "mapping", '{"n": 6}'),
    "dims number": (lambda: sg.derive(DENSE, dims={3: 3}), ARGUMENT, "key 3", '{"n": 6}'),
    "dims text": (lambda: sg.derive(DENSE, dims={"n": "2 +"}), SYNTAX, "not a size", None),
    "dims array": (lambda: sg.derive(DENSE, dims={"n": "W"}), SYNTAX, "an array", "own"),
    "functions unknown": (
        lambda: sg.compile(ABSTRACT, functions={"σ": "tnah"}), SYNTAX, "tnah", "tanh?",
    ),
    "functions reducing": (
        lambda: sg.compile(ABSTRACT, functions={"σ": "softmax"}), SYNTAX, "not element-wise", None,
    ),
    "functions of two": (
        lambda: sg.compile(ABSTRACT, functions={"σ": "maximum"}), SYNTAX, "2 arguments", "macro",
    ),
    "functions for an unknown letter": (
        lambda: sg.compile(ABSTRACT, functions={"τ": "tanh"}), SYNTAX, "names τ", "calls σ",
    ),
    "functions for a function": (
        lambda: sg.compile(DENSE, functions={"tanh": "sin"}), SYNTAX, "language already", "letters",
    ),
    "functions number": (
        lambda: sg.compile(ABSTRACT, functions={"σ": 3}), ARGUMENT, "3 (int)", '"tanh"',
    ),
    "functions string": (
        lambda: sg.compile(ABSTRACT, functions="tanh"), ARGUMENT, "mapping", '{"σ": "tanh"}',
    ),
    "path without folder": (
        lambda: sg.compile(DENSE, path="/no/folder/a.py"), ARGUMENT, "no folder", "make",
    ),
    "path number": (lambda: sg.compile(DENSE, path=3), ARGUMENT, "3 (int)", ".py"),
    "seed negative": (lambda: sg.check(DENSE, seed=-1), ARGUMENT, "seed is -1", "0 or more"),
    "seed string": (lambda: sg.compile(DENSE, seed="a"), ARGUMENT, "seed is 'a'", "int"),
    "batch negative": (lambda: sg.check(DENSE, batch=-1), ARGUMENT, "batch is -1", "1 or more"),
    "check dims unknown": (lambda: sg.check(DENSE, dims={"q": 3}), SHAPE, "names q", "m, n"),
    "check of no module": (lambda: sg.check("nowhere.py"), ARGUMENT, "cannot read", "compiled"),
    "stage": (lambda: sg.show_stage(DENSE, "guess"), ARGUMENT, "guess", "simplify"),
    "layer number": (lambda: sg.layer(3), ARGUMENT, "type int", "sg.load"),
    "layer bytes": (lambda: sg.layer(b"x"), ARGUMENT, "type bytes", "sg.load"),
    "load None": (lambda: sg.load(None), ARGUMENT, "NoneType", "sg.load"),
    "load zero byte": (lambda: sg.load("a\0.sg"), SYNTAX, "cannot read", None),
    "inputs number": (lambda: sg.layer("W @ x", inputs={"x": 3}), ARGUMENT, "'x': 3", "scalar"),
    "inputs string": (lambda: sg.layer("W @ x", inputs="x"), ARGUMENT, "mapping", "scalar"),
    "inputs twice": (
        lambda: sg.layer("W @ x", inputs={"x": "n"}, params={"x": "n"}), SYNTAX, "x is", "",
    ),
    "inputs no name": (lambda: sg.layer("W @ x", inputs={"x y": "n"}), SYNTAX, "'x y'", "ident"),
    "inputs no size": (lambda: sg.layer("W @ x", inputs={"x": "n+"}), SYNTAX, "not a size", None),
    "inputs beside a layer": (
        lambda: sg.layer(sg.layer(DENSE), inputs={"q": "n"}), ARGUMENT, "inputs=", None,
    ),
    "name number": (lambda: sg.layer(DENSE, name=3), ARGUMENT, "name is 3", "dense"),
    "derivation unknown": (lambda: sg.derive(DENSE)["q"], SELECT, "q", "W, b"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_wrong_options_name_the_option_the_value_and_what_to_give(name):
    call, kind, message, hint = CALLS[name]
    with pytest.raises(SymgradError) as caught:
        call()
    assert type(caught.value) is kind
    assert isinstance(caught.value, BUILTINS[kind])
    assert message in caught.value.message
    assert hint is None or hint in (caught.value.hint or "")


def test_an_unbound_function_is_refused_at_its_call_with_the_way_to_bind_it():
    with pytest.raises(sg.CodegenError) as caught:
        sg.compile(ABSTRACT)
    assert str(caught.value).split("\n")[:3] == [
        "<layer>:5:5: σ is abstract: it has no values to compute",
        "    y = σ(z + b)",
        "        ^^^^^^^^",
    ]
    assert 'functions={"σ": "tanh"}' in caught.value.hint
    assert "--set σ=tanh" in caught.value.hint
    assert "def σ(z)" in caught.value.hint


def test_files_that_cannot_be_read_are_named(tmp_path):
    folder = tmp_path / "folder.sg"
    folder.mkdir()
    latin = tmp_path / "latin.sg"
    latin.write_bytes(b"x: input\ny = x # caf\xe9\n")
    empty = tmp_path / "empty.sg"
    empty.write_text("")
    bad = tmp_path / "bad.sg"
    bad.write_text("x: input\ny = z\n", encoding="utf-8")
    for path, said in (
        (tmp_path / "none.sg", "No such file"),
        (folder, "directory"),
        (latin, f"{latin}:2:12: this is not UTF-8 text: byte 0xe9"),
        (empty, f"{empty}: this layer is empty"),
        (bad, f"{bad}:2:5: the name z is unknown"),
    ):
        for read in (sg.load, sg.layer, sg.derive):
            with pytest.raises(sg.LayerSyntaxError) as caught:
                read(str(path))
            assert said in str(caught.value)
            assert str(path) in str(caught.value)


def test_every_class_of_error_is_the_builtin_it_stands_for():
    for kind, builtin in BUILTINS.items():
        assert issubclass(kind, sg.SymgradError) and issubclass(kind, builtin)


# ------------------------------------------------------------------ at the call

X, MATRIX, B = np.ones((5, 3)), np.ones((2, 3)), np.ones(2)


@pytest.fixture(scope="module")
def dense():
    text = H + "eps: const = 1e-5\ny = tanh(W @ x + b) + eps"
    return sg.compile(text, name="dense", check=False)


@pytest.fixture(scope="module")
def gather():
    text = "t: index(v)[T]\nE: param[v, d]\ny = E[t]"
    return sg.compile(text, name="gather", check=False)


# arrays, keywords | class | all in the message
ARRAYS = {
    "too few": ((X, MATRIX), {}, ARGUMENT, ["dense", "b is missing", "x, W, b"]),
    "too many": ((X, MATRIX, B, B), {}, ARGUMENT, ["dense", "3 arrays (x, W, b)", "got 4"]),
    "missing by keyword": ((X,), {"W": MATRIX}, ARGUMENT, ["dense", "b is missing"]),
    "doubled": ((X, MATRIX, B), {"b": B}, ARGUMENT, ["dense", "b is given twice"]),
    "doubled by a mapping": ((X, MATRIX, {"W": MATRIX, "b": B}), {}, ARGUMENT, ["W", "twice"]),
    "unknown": ((X, MATRIX, B), {"c": B}, ARGUMENT, ["dense", "called c", "x, W, b"]),
    "unknown in a mapping": ((X, {"W": MATRIX, "q": B}), {}, ARGUMENT, ["called q"]),
    "default by position": ((X, MATRIX, B, 1.0), {}, ARGUMENT, ["3 arrays"]),
    "rank of a param": ((X, MATRIX, MATRIX), {}, SHAPE, ["dense: b", "(2, 3)", "expected", "m"]),
    "rank of an input": ((X[None], MATRIX, B), {}, SHAPE, ["dense: x", "(1, 5, 3)", "n", "batch"]),
    "rank of a const": ((X, MATRIX, B), {"eps": B}, SHAPE, ["dense: eps", "(2,)", "expected"]),
    "sizes that differ": (
        (X, np.ones((2, 4)), B), {}, SHAPE,
        ["dense", "axis 1 of W", "size 4", "n = 3", "axis 1 of x"],
    ),
    "sizes of two params": (
        (X, MATRIX, np.ones(3)), {}, SHAPE, ["axis 0 of b", "size 3", "m = 2", "axis 0 of W"],
    ),
    "objects": ((X, MATRIX, np.array([1, None])), {}, ARGUMENT, ["dense: b", "object", "numbers"]),
    "None": ((X, None, B), {}, ARGUMENT, ["dense: W", "object"]),
    "strings": ((X, MATRIX, np.array(["a", "b"])), {}, ARGUMENT, ["dense: b", "<U1", "float64"]),
    "float16": (
        (X.astype(np.float16), MATRIX, B), {}, ARGUMENT,
        ["dense: x", "float16", "expected float32 or float64", "x.astype(np.float32)"],
    ),
    "dates": ((X, MATRIX, B.astype("datetime64[D]")), {}, ARGUMENT, ["dense: b", "datetime64"]),
}  # fmt: skip
FORMS = ("forward", "jacobian", "pullback", "jac_W", "jac_b")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ARRAYS)
def test_wrong_arrays_are_refused_by_every_form_before_anything_is_computed(
    dense, monkeypatch, name, form
):
    args, keywords, kind, words = ARRAYS[name]
    for inner in [n for n in vars(dense.module) if n.startswith(("_sweep", "_forward"))]:
        monkeypatch.setattr(dense.module, inner, lambda *_a, **_k: pytest.fail("computed"))
    with pytest.raises(SymgradError) as caught:
        getattr(dense, form)(*args, **keywords)
    assert type(caught.value) is kind
    for word in words:
        assert word in str(caught.value)


def test_batches_that_differ_name_both(dense):
    two = sg.compile("x: input\nz: input\nw: param\ny = w*x*z", name="two", check=False)
    with pytest.raises(sg.ShapeError, match=r"axis 0 of z has 4 samples, axis 0 of x has 5"):
        two.forward(np.ones(5), np.ones(4), 1.0)
    with pytest.raises(sg.ShapeError, match=r"x \(5,\), z \(\) must have a batch axis, or none"):
        two.forward(np.ones(5), 1.0, 1.0)


@pytest.mark.parametrize("value", [7, -1, 4])
def test_an_index_out_of_range_names_the_sample(gather, value):
    t = np.array([[0, 1], [2, value]])
    with pytest.raises(sg.ShapeError) as caught:
        gather.jacobian(t, np.ones((4, 3)))
    for word in ("gather: t[1, 1]", str(value), "sample 1", "0 to 3"):
        assert word in str(caught.value)


@pytest.mark.parametrize("t", [np.array([[0.0, 1.0]]), np.array([[True, False]])])
def test_indices_are_integers(gather, t):
    with pytest.raises(sg.ArgumentError, match=f"gather: t has dtype {t.dtype}, expected integers"):
        gather.forward(t, np.ones((4, 3)))


def test_wrong_second_arguments_are_named(dense):
    for call, kind, word in (
        (lambda: dense.vjp(X, MATRIX, B, np.ones(3)), SHAPE, r"dense: u has shape \(3,\)"),
        (lambda: dense.vjp(X, MATRIX, B), ARGUMENT, "b is missing; expected x, W, b and then u"),
        (lambda: dense.jvp(X, MATRIX, B, {"q": B}), ARGUMENT, "no tangent for 'q'"),
        (lambda: dense.jvp(X, MATRIX, B, {"W": B}), SHAPE, r"expected \(2, 3\)"),
        (lambda: dense.jvp(X, MATRIX, B, 3), ARGUMENT, "tangents must be a mapping"),
        (lambda: dense.jac_W(X, MATRIX, B, out=np.ones(3)), SHAPE, r"out has shape \(3,\)"),
        (lambda: dense.jac_W(X, MATRIX, B, out=3), ARGUMENT, "out must be a numpy array"),
        (lambda: dense.gradient(X, MATRIX, B), SHAPE, "use jacobian, or sum=True"),
        (lambda: dense.pullback(X, MATRIX, B)[1](np.ones(3)), SHAPE, "u has shape"),
    ):
        with pytest.raises(kind, match=word):
            call()


def test_numbers_that_are_no_numbers_pass_through(dense):
    x = X.copy()
    x[1, 0] = np.nan
    x[2, 0] = np.inf
    y = dense.forward(x, MATRIX, B)
    assert np.isnan(y[1]).all() and np.isfinite(y[[0, 2, 3, 4]]).all()
    assert np.isnan(dense.jac_b(x, MATRIX, B)[1, 0, 0])


def test_lists_bools_and_integers_are_arrays(dense):
    y = dense.forward(X, MATRIX, B)
    assert np.array_equal(dense.forward(X.tolist(), MATRIX.tolist(), [1, 1]), y)
    assert np.array_equal(dense.forward(X > 0, MATRIX.astype(int), B), y)


def test_a_stated_domain_is_checked_exactly_if_asked_for():
    text = "x: input[n]\na: param[n]\nassert a * x > 0\nassert a < 9\ny = log(a * x)"
    checked = sg.compile(text, name="dom", check=False, check_domain=True)
    free = sg.compile(text, name="dom", check=False)
    good, bad = np.ones((2, 3)), np.array([[1.0, 1, 1], [1, -1, 1]])
    assert np.array_equal(checked.forward(good, np.ones(3)), np.zeros((2, 3)))
    for form in FORMS[:3]:
        with pytest.raises(sg.ArgumentError) as caught:
            getattr(checked, form)(bad, np.ones(3))
        assert re.search(r"dom: assert a \* x > 0 .*1, 1", str(caught.value))
        with pytest.raises(sg.ArgumentError, match="dom: assert a < 9"):
            getattr(checked, form)(good, np.full(3, 10.0))
    assert np.isnan(free.forward(bad, np.ones(3))[1, 1])


def test_the_derivation_prints_the_domain():
    text = "x: input\na: param\nassert a > 0\ny = log(a * x)"
    assert "Domain\n  a > 0" in sg.derive(text).text()
    assert "a > 0" in sg.derive(text).latex()
    assert "a > 0" in str(sg.derive(text)["a"])


# ------------------------------------------------------------------ any text at all

CASES = Path(__file__).parent / "cases"
SEEDS = [json.loads(path.read_text())["layer"] for path in sorted(CASES.glob("*.json"))]
SEEDS += [
    "σ(Wx + b)",
    (
        "x: input[n]\nE: param[v, d]\nt: index(v)[T]\nr: const[d]\neps: const = 1e-5\n"
        "def f(a, b):\n    c = a*b\n    return c + 1\nassert E > 0\nz = E[t]\nm = z > 0\n"
        "y = where(m, f(z, r), eps) + stop_gradient(z)\nreturn y, z"
    ),
    (
        "x: input[c, t]\nk: param[o, c, w]\ny[q, s] = sum[p, j](k[q, p, j] * x[p, s + j])\n"
        "u = pad(x[:, 1:-1], ((0, 0), (1, 1)))\nreturn y, u"
    ),
    (
        "x: input[n]\nW: param[m, n]\ny = var(W @ x) + norm(x, axis=None) + max(x) + "
        "einsum('ij,j->i', W, x) + logsumexp[k](x[k])"
    ),
]
PIECES = (
    "( ) [ ] , : = + - * / ** @ .T x W b y i k n m 0 1 -1 1.5 1e400 9**9**9 sum max softmax sin "
    "einsum 'i->i' σ f None ... ~ & | < > == and not if lambda return assert def input param const "
    "index pi axis keepdims stop_gradient # · ᵀ ⊙ ² concatenate delta eye zeros stack transpose "
    "where inv ' \"\"\" _ // % ! \\ é ∂ (1,2) [:,0] [None] [::0] [t:3] sum[k] True 1j b'' f'{x}'"
).split()
PIECES += ["\n", "    ", " ", "\t"]


def mutated(rng, text):
    """Return a text with tokens deleted, doubled, replaced, put in, or exchanged."""
    tokens = [token.text for token in scan(Source(text))]
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at = rng.randrange(len(tokens))
        match rng.randrange(5):
            case 0:
                del tokens[at]
            case 1:
                tokens.insert(at, tokens[at])
            case 2:
                tokens[at] = rng.choice(PIECES)
            case 3:
                tokens.insert(at, rng.choice(PIECES))
            case _:
                tokens[at] = rng.choice(tokens)
        tokens = tokens or [" "]
    return "".join(tokens)


def test_any_text_is_derived_or_refused_and_never_our_fault():
    rng = random.Random(11)
    derived = 0
    for _ in range(1500):
        text = mutated(rng, rng.choice(SEEDS))
        try:
            sg.derive(text, "all").text()
            derived += 1
        except sg.InternalError:
            raise AssertionError(f"our fault:\n{text}") from None
        except SymgradError as error:
            assert type(error) in BUILTINS
            assert str(error)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} escaped:\n{text}") from error
    assert derived > 50


def test_a_missing_jacobian_is_named_with_the_one_that_was_meant():
    J = sg.compile(DENSE).jacobian(np.ones((2, 3)), np.ones((2, 3)), np.ones(2))
    with pytest.raises(sg.SelectionError, match=r"did you mean 'W'") as caught:
        J["w"]
    assert isinstance(caught.value, KeyError)
    assert "w" not in J
    assert J.get("w") is None


@pytest.mark.parametrize("tail", ["import nosuchmodule\n", "1/0\n", "def (\n"])
def test_a_damaged_module_is_told_from_a_fault_of_ours(tmp_path, tail):
    path = tmp_path / "dense_jac.py"
    sg.compile(DENSE, path=path, check=False)
    path.write_text(path.read_text("utf-8") + tail, "utf-8")
    with pytest.raises(sg.ArgumentError, match=r"not as symgrad wrote it.*\n.*compile the layer"):
        sg.check(str(path))
