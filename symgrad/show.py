"""Print a program in index notation, a line for each definition.

Program -> str
Letters are chosen line by line, so that no index is called like an array or a dim.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.bounds import one_sided
from symgrad.derivation import Jacobian
from symgrad.dims import signed, times
from symgrad.program import (
    BATCH,
    Access,
    Affine,
    Apply,
    Array,
    Constant,
    Definition,
    Delta,
    Guard,
    Index,
    Lookup,
    Number,
    Place,
    Position,
    Primitive,
    Program,
    Reduce,
    Rowwise,
    Scalar,
    Size,
    Term,
    indices_of,
)
from symgrad.reading.letters import Letters

_INFIX = {
    "add": (" + ", 5), "sub": (" - ", 5), "mul": ("*", 6), "div": ("/", 6), "pow": ("**", 8),
    "lt": (" < ", 4), "le": (" <= ", 4), "gt": (" > ", 4), "ge": (" >= ", 4),
    "eq": (" == ", 4), "ne": (" != ", 4), "and_": (" & ", 3), "or_": (" | ", 2),
}  # fmt: skip
_ATOM = 9
_BATCH_LETTERS = ("b", "β", "s", *(f"b{n}" for n in range(1000)))


def show(program: Program) -> str:
    """Return the declarations, definitions, domains and checks of a program as text."""
    lines = [f'"""{program.title}"""'] if program.title else []
    lines += [_declaration(array) for array in program.arrays]
    lines += [_definition(made, program) for made in program.definitions]
    for condition in program.conditions:
        letters = line_letters(program, condition.indices)
        lines.append(f"assert {_scalar(condition.mask, letters)[0]}")
    lines += [
        f"check 0 <= {c.low} and {c.high} {'==' if c.exact else '<='} {c.limit}"
        for c in program.checks
    ]
    return "\n".join((*lines, f"return {', '.join(program.outputs)}"))


def show_jacobian(jacobian: Jacobian, program: Program) -> str:
    """Return one Jacobian, a sum of terms over its output's and its parameter's indices."""
    letters = line_letters(program, (*jacobian.out, *jacobian.theta))
    ranges = [f"{letters.take(i)}: {i.dim}" for i in (*jacobian.out, *jacobian.theta)]
    head = f"d{jacobian.output}/d{jacobian.parameter}"
    if jacobian.beside:
        head = f"d²{jacobian.output}/d{jacobian.parameter} d{jacobian.beside}"
    return f"{head}[{', '.join(ranges)}] = {_sum(jacobian.terms, letters)}"


def line_letters(program: Program, free: Sequence[Index]) -> Letters:
    """Return the letters of a line; the batch has the same one in all lines."""
    letters = Letters.of(program)
    letters.used[program.batch] = next(c for c in _BATCH_LETTERS if c not in letters.taken)
    for index in free:
        letters.take(index)
    return letters


def _declaration(array: Array) -> str:
    role = array.role if array.vocabulary is None else f"index({array.vocabulary})"
    axes = f"[{', '.join(str(d) for d in array.axes)}]" if array.axes else ""
    default = f" = {array.default}" if array.default is not None else ""
    return f"{array.name}: {role}{axes}{default}"


def _definition(made: Definition, program: Program) -> str:
    letters = line_letters(program, made.indices)
    ranges = [
        letters.take(i) if i.dim == BATCH else f"{letters.take(i)}: {i.dim}" for i in made.indices
    ]
    left = f"{made.name}[{', '.join(ranges)}]" if ranges else made.name
    body = body_text(made, letters)
    return f"{left} = stop_gradient({body})" if made.frozen else f"{left} = {body}"


def body_text(made: Definition, letters: Letters) -> str:
    """Return the right side of a definition."""
    body = made.body
    if isinstance(body, tuple):
        return _sum(body, letters)
    if isinstance(body, Primitive):
        return _primitive(body, letters)
    with letters.bind(body.bound) as names:
        inner = _scalar(body.body, letters)[0]
        head = f"{body.kind}[{', '.join(_ranged(names, body.bound))}]({inner})"
    if isinstance(body, Rowwise):
        return f"{head}[{', '.join(letters.take(i) for i in body.at)}]"
    assert isinstance(body, Reduce)
    return head


def _primitive(body: Primitive, letters: Letters) -> str:
    """Write `solve[k, l; k](A[k, l], b[k])[i]`: the operands' matrix axes, the result's own."""
    with letters.bind(body.bound):
        own = "; ".join(", ".join(letters.take(i) for i in axes) for axes in body.axes)
        operands = ", ".join(_scalar(operand, letters)[0] for operand in body.operands)
    at = ", ".join(letters.take(i) for i in body.at)
    return f"{body.kind}[{own}]({operands})" + (f"[{at}]" if at else "")


def _sum(terms: Sequence[Term], letters: Letters) -> str:
    """Return terms added up; 0 if there are none."""
    text = ""
    for term in terms:
        written = _term(term, letters)
        if not text:
            text = written
        else:
            text += f" - {written[1:]}" if written.startswith("-") else f" + {written}"
    return text or "0"


def _ranged(names: tuple[str, ...], bound: tuple[Index, ...]) -> list[str]:
    return [f"{name}: {index.dim}" for name, index in zip(names, bound, strict=True)]


def _term(term: Term, letters: Letters) -> str:
    """Write `sum[k](a*b)`, the factors without a bound index in front of it."""
    factors = list(term.factors)
    sign = ""
    if len(factors) > 1 and factors[0] == Number(-1):
        sign, factors = "-", factors[1:]
    if not term.bound:
        alone = len(factors) == 1 and not sign
        return sign + _product(factors, letters, alone=alone)
    outer = [f for f in factors if not set(indices_of(f)) & set(term.bound)]
    inner = [f for f in factors if f not in outer]
    with letters.bind(term.bound) as names:
        bound = ", ".join(_ranged(names, term.bound))
        total = f"sum[{bound}]({_product(inner, letters, alone=len(inner) == 1)})"
    return f"{sign}{_product(outer, letters, alone=False)}*{total}" if outer else sign + total


def product_text(factors: Sequence[Scalar], letters: Letters) -> str:
    """Return a product written; 1 if there are no factors."""
    return _product(list(factors), letters, alone=len(factors) == 1)


def scalar_text(scalar: Scalar, letters: Letters) -> str:
    """Return a scalar written."""
    return _scalar(scalar, letters)[0]


def _product(factors: list[Scalar], letters: Letters, *, alone: bool) -> str:
    if alone:
        return _scalar(factors[0], letters)[0]
    return "*".join(_held(f, letters, 7) for f in factors) if factors else "1"


def _held(scalar: Scalar, letters: Letters, least: int) -> str:
    text, tight = _scalar(scalar, letters)
    return text if tight >= least else f"({text})"


def _scalar(scalar: Scalar, letters: Letters) -> tuple[str, int]:
    """Return a scalar written, and how tightly it holds together."""
    match scalar:
        case Number(value):
            return repr(value), (_ATOM if value >= 0 else 7)
        case Constant():
            return scalar.name, _ATOM
        case Size(dim):
            return str(dim), (_ATOM if dim.symbol else 5)
        case Place(affine):
            text = _affine(affine, letters)
            return text, (_ATOM if text.isidentifier() else 5)
        case Access(array, at):
            return array + _subscript(at, letters), _ATOM
        case Delta(left, right):
            places = f"{_position(left, letters)}, {_position(right, letters)}"
            return f"delta({places})", _ATOM
        case Guard():
            return f"[{_guard(scalar, letters)}]", _ATOM
        case Apply():
            return _apply(scalar, letters)


def _guard(guard: Guard, letters: Letters) -> str:
    side = one_sided(guard)
    if side is None:
        return f"0 <= {_affine(guard.position, letters)} < {guard.dim}"
    sign = {"ge": ">=", "gt": ">", "lt": "<"}[side.sign]
    return f"{_affine(side.left, letters)} {sign} {_affine(side.right, letters)}"


def _apply(scalar: Apply, letters: Letters) -> tuple[str, int]:
    function, args = scalar.function, scalar.args
    if function in _INFIX and not any(scalar.order) and len(args) == 2:
        sign, tight = _INFIX[function]
        right_first = function == "pow"
        left = _held(args[0], letters, tight + right_first)
        right = _held(args[1], letters, tight + (function != "add" and not right_first))
        return f"{left}{sign}{right}", tight
    if function in ("neg", "not_") and not any(scalar.order):
        return f"{'-' if function == 'neg' else '~'}{_held(args[0], letters, 7)}", 7
    marks = "'" * scalar.order[0] if len(scalar.order) == 1 else ""
    if len(scalar.order) > 1:
        marks = f"^{scalar.order}"
    inner = ", ".join(_scalar(arg, letters)[0] for arg in args)
    return f"{function}{marks}({inner})", _ATOM


def _subscript(at: tuple[Position, ...], letters: Letters) -> str:
    return f"[{', '.join(_position(p, letters) for p in at)}]" if at else ""


def _position(position: Position, letters: Letters) -> str:
    if isinstance(position, Lookup):
        return position.array + _subscript(position.at, letters)
    return _affine(position, letters)


def _affine(affine: Affine, letters: Letters) -> str:
    text = ""
    for index, coefficient in affine.terms:
        letter = letters.take(index)
        negative, size = signed(coefficient)
        part = times(size, letter)
        sign = "-" if negative else "+"
        text += f" {sign} {part}" if text else (f"-{part}" if negative else part)
    if affine.offset.terms:
        offset = str(affine.offset)
        if not text:
            return offset
        text += f" - {offset[1:]}" if offset.startswith("-") else f" + {offset}"
    return text or "0"
