"""Kernels as Python text: plain loops in the mathematics' own letters.

Kernel -> KernelText
Names are chosen last: loop variables avoid arrays and sizes, element values are called after
their array and position (`z_bi`). Kernels compute in the dtype of their arrays: numbers and sizes
are cast to it by `number`. Sums and functions have double precision, and so has arithmetic around
them until it is stored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from symgrad.algebra.guards import guards_of
from symgrad.bounds import one_sided
from symgrad.dims import Coefficient, Dim, signed
from symgrad.errors import InternalError
from symgrad.functions import kernel as function_kernel
from symgrad.generation.flatten import flattened
from symgrad.generation.nests import Pinned, accesses_in, pinned, trimmed
from symgrad.generation.numbers import (
    Use,
    cast_text,
    delimited,
    is_double,
    is_single,
    number_text,
    use_of,
)
from symgrad.generation.words import CALLED, code_name, dim_text, size_name
from symgrad.generation.write_rows import write_row
from symgrad.generation.write_stream import Target, is_row, write_row_past
from symgrad.program import (
    BATCH,
    Access,
    Affine,
    Apply,
    Constant,
    Delta,
    Guard,
    Index,
    Lookup,
    Number,
    Place,
    Position,
    Scalar,
    Size,
    arrays_of,
    scalars_of,
)
from symgrad.schedule import (
    Add,
    Begin,
    Clear,
    Flat,
    For,
    Keep,
    Kernel,
    Let,
    Node,
    Row,
    Store,
    When,
)

PRECEDENCE = {"add": 1, "sub": 1, "mul": 2, "div": 2, "neg": 3}
Streams = Literal["", "zeros", "rows"]
"""What of a result a kernel writes past the caches."""

SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


@dataclass(frozen=True, slots=True)
class KernelText:
    """A kernel's parameters, size parameters and body lines; `helpers` are functions it calls.

    `step` is the last parameter of a kernel that does one step of a recurrence. `streams` says
    what of it goes past the caches.
    """

    arrays: tuple[str, ...]
    sizes: tuple[str, ...]
    lines: tuple[str, ...]
    helpers: tuple[str, ...]
    step: str | None = None
    streams: Streams = ""


def write_kernel(
    kernel: Kernel,
    *,
    analytic: bool = False,
    past: Target | None = None,
    plain: Mapping[str, tuple[Dim, ...]] | None = None,
    scratch: Mapping[str, tuple[Dim, ...]] | None = None,
    zeroed: str = "",
) -> KernelText:
    """Return the text of one kernel; arrays first, then the sizes of its loops.

    That of an `analytic` layer runs on complex arrays too. Where it can, it writes the array
    `past` past the caches. Arrays in `plain` lie in C order; it
    has their axes.
    Of those in `scratch` it keeps one sample at a time, to itself; their axes have none of samples.
    It clears nothing of the array `zeroed`.
    """
    arrays = (*kernel.reads, *kernel.writes)
    taken = {code_name(a) for a in arrays} | CALLED
    writer = Writer(taken, analytic=analytic, past=past, scratch=scratch or {}, zeroed=zeroed)
    step = writer.variable(kernel.fixed) if kernel.fixed is not None else None
    nodes = kernel.nodes if scratch else flattened(kernel.nodes, plain or {})
    for name in (n for n in kernel.reads if n in scalars_read(nodes)):
        writer.scalars[name] = writer.fresh(f"{name}0")
    writer.nodes(nodes, 1)
    writer.open()
    words = set(re.findall(r"\w+", "\n".join(writer.lines)))
    used = tuple(a for a in arrays if code_name(a) in words and a not in writer.scratch)
    if "number" in words:
        floats = (a for a in (*kernel.writes, *kernel.reads) if a in used)
        model = next(a for a in floats if a not in writer.integers)
        writer.lines.insert(0, f"    number = {code_name(model)}.dtype.type")
    helpers = tuple(writer.helpers)
    return KernelText(
        used, tuple(writer.sizes), tuple(writer.lines), helpers, step, writer.streams
    )


@dataclass(slots=True)
class Writer:
    """Collects lines; holds the names given to indices and local variables."""

    taken: set[str]
    analytic: bool = False
    lines: list[str] = field(default_factory=list)
    sizes: dict[str, None] = field(default_factory=dict)
    helpers: dict[str, None] = field(default_factory=dict)
    variables: dict[Index, str] = field(default_factory=dict)
    slots: dict[int, str] = field(default_factory=dict)
    sums: set[int] = field(default_factory=set)
    integers: set[str] = field(default_factory=set)
    double: bool = False
    past: Target | None = None
    streams: Streams = ""
    scalars: dict[str, str] = field(default_factory=dict)
    kept: dict[Scalar, str] = field(default_factory=dict)
    rows: dict[str, str] = field(default_factory=dict)
    flat: bool = False
    lasting: set[str] = field(default_factory=set)
    scratch: Mapping[str, tuple[Dim, ...]] = field(default_factory=dict)
    zeroed: str = ""

    def name(self, array: str) -> str:
        """Return what an array is called."""
        return code_name(array)

    def open(self) -> None:
        """Put ahead what the lines use: values of scalar arrays, arrays as one row."""
        words = set(re.findall(r"\w+", "\n".join(self.lines)))
        ahead = ["    wide()"] if self.helpers else []
        ahead += [f"    {v} = {code_name(a)}[()]" for a, v in self.scalars.items() if v in words]
        ahead += [f"    {row} = {code_name(a)}.reshape(-1)" for a, row in self.rows.items()]
        self.lines[:0] = ahead

    def line(self, depth: int, text: str) -> None:
        """Append a line, indented."""
        self.lines.append("    " * depth + text)

    def nodes(self, nodes: Sequence[Node], depth: int) -> None:
        """Write nodes one after the other."""
        for node in nodes:
            self.node(node, depth)

    def node(self, node: Node, depth: int) -> None:
        """Write one node."""
        match node:
            case For():
                self.loop(node, depth)
            case When():
                tests = " and ".join(self.condition(c) for c in node.conditions)
                self.line(depth, f"if {tests}:")
                self.nodes(node.body, depth + 1)
            case Let():
                name = self.local(node)
                text = self.product((), node.factors)
                self.line(depth, f"{name} = {cast_text(text) if self.double else text}")
            case Begin():
                self.slots[node.slot] = self.fresh("total")
                self.sums.add(node.slot)
                self.line(depth, f"{self.slots[node.slot]} = 0.0")
            case Add():
                text = self.product(node.lets, node.factors, "stored")
                self.line(depth, f"{self.slots[node.slot]} += {text}")
            case Store():
                text = self.product(node.lets, node.factors, "stored")
                self.line(depth, f"{self.element(node.array, node.at)} {node.operator} {text}")
            case Clear():
                self.clear(node, depth)
            case Row():
                write_row(self, node.definition, depth)
            case Flat():
                self.elements(node, depth)
            case Keep():
                self.keep(node, depth)

    def elements(self, node: Flat, depth: int) -> None:
        """Write a loop over all elements of arrays of one shape."""
        stores = [n for n in node.body if isinstance(n, Store)]
        self.flat = True
        last = self.row(stores[-1].array)
        name = self.variable(node.index)
        self.line(depth, f"for {name} in range({last}.size):")
        self.within(node.index, node.body, depth + 1)
        self.flat = False

    def row(self, array: str) -> str:
        """Return what an array is called as one row of elements."""
        if array not in self.rows:
            self.rows[array] = self.fresh(f"{array}_row")
            self.lasting.add(self.rows[array])
        return self.rows[array]

    def keep(self, node: Keep, depth: int) -> None:
        """Write a call or an argument whose value is kept for the rest of a loop."""
        wish, place = "c", node.scalar if isinstance(node.scalar, Access) else node.target
        if place is not None:
            letters = "".join(self.position(p) for p in place.at)
            wish = f"{place.array}_{letters}" if letters.isidentifier() else wish
        text = self.value(node.scalar)
        name = self.fresh(wish)
        self.line(depth, f"{name} = {text}")
        self.kept[node.scalar] = name

    def clear(self, node: Clear, depth: int) -> None:
        """Write that an array, or a part of it, becomes zero."""
        if node.array == self.zeroed:
            return
        at = [self.position(p) for p in node.at]
        name = code_name(node.array)
        at = at[1:] if node.array in self.scratch else at
        if self.past is not None and self.past.owns(node.array, node.at):
            self.streams = self.streams or "zeros"
            self.line(depth, f"clear({name}[{', '.join(at)}])" if at else f"clear({name})")
        else:
            self.line(depth, f"{name}[{', '.join((*at, '...'))}] = 0.0")

    def loop(self, node: For, depth: int) -> None:
        """Write a loop; its variable is free again behind it."""
        if self.past is not None and self.streams != "zeros" and is_row(self.past, node):
            self.streams = "rows"
            write_row_past(self, node, depth)
            return
        only = pinned(node)
        if only is not None:
            self.step(node.index, only, depth)
            return
        size, (stop, inside, body) = self.size(node.index.dim), trimmed(node)
        if stop is not None:
            size = self.position(stop) if inside else f"min({size}, {self.position(stop)})"
        name = self.variable(node.index)
        if node.reverse:
            self.line(depth, f"for {name} in range({size} - 1, -1, -1):")
        else:
            self.line(depth, f"for {name} in range({size}):")
        self.within(node.index, body, depth + 1)

    def within(self, index: Index, body: Sequence[Node], depth: int) -> None:
        """Write what stands in a loop; its names are free again behind it."""
        before, kept = set(self.taken), dict(self.kept)
        self.nodes(body, depth)
        self.taken = before - {self.variables[index]} | self.lasting
        self.kept = kept
        del self.variables[index]

    def step(self, index: Index, only: Pinned, depth: int) -> None:
        """Write the one step of a loop that data chooses, if there is any."""
        name, data = self.variable(index), self.position(only.data)
        factor = dict(only.place.terms)[index]
        rest = self.position(only.place - Affine.of(index) * factor)
        away = data if rest == "0" else f"{data} - ({rest})" if " " in rest else f"{data} - {rest}"
        tests = [] if only.inside else [f"0 <= {name} < {self.size(index.dim)}"]
        if factor == 1:
            self.line(depth, f"{name} = {away}")
        else:
            self.line(depth, f"{name} = ({away}) // {factor}")
            tests.append(f"{self.position(only.place)} == {data}")
        if tests:
            self.line(depth, f"if {' and '.join(tests)}:")
        self.within(index, only.body, depth + bool(tests))

    def variable(self, index: Index) -> str:
        """Give an index a name that nothing else has here."""
        wishes = ("b", "s", "sample") if index.dim == BATCH else (index.name,)
        name = self.fresh(*wishes)
        self.variables[index] = name
        return name

    def fresh(self, *wishes: str) -> str:
        """Return the first wish that is not taken, or the last with a number."""
        number = 1
        for wish in wishes:
            if wish not in self.taken and not wish.startswith("n_"):
                self.taken.add(wish)
                return wish
        while f"{wishes[-1]}{number}" in self.taken:
            number += 1
        name = f"{wishes[-1]}{number}"
        self.taken.add(name)
        return name

    def local(self, node: Let) -> str:
        """Name a local variable after the element it holds."""
        first = node.factors[0]
        wish = "c"
        if len(node.factors) == 1 and isinstance(first, Access):
            letters = "".join(self.position(p) for p in first.at)
            if letters.isidentifier():
                wish = f"{first.array}_{letters}"
        self.slots[node.slot] = self.fresh(wish)
        return self.slots[node.slot]

    def size(self, dim: Dim) -> str:
        """Return a dim as text and remember which sizes it needs."""
        self.sizes.update((size_name(n), None) for n in dim.names)
        return dim_text(dim)

    def element(self, array: str, at: Sequence[Position]) -> str:
        """Return `z[b, i]`; a scalar array that is not written is read once, ahead."""
        if array in self.scratch:
            at = at[1:]
            if not at:
                return f"{code_name(array)}[0]"
        if not at:
            return self.scalars.get(array, f"{code_name(array)}[()]")
        if self.flat:
            return f"{self.row(array)}[{self.position(at[0])}]"
        return f"{code_name(array)}[{', '.join(self.position(p) for p in at)}]"

    def position(self, position: Position) -> str:
        """Return an integer expression."""
        if isinstance(position, Lookup):
            self.integers.add(position.array)
            return self.element(position.array, position.at)
        pieces: list[str] = []
        ordered = sorted(position.terms, key=lambda t: signed(t[1])[0])
        for index, coefficient in ordered:
            name = self.variables[index]
            negative, size = signed(coefficient)
            text = name if size == 1 else f"{self.factor(size)} * {name}"
            if not pieces:
                pieces.append(f"-{text}" if negative else text)
            else:
                pieces.append(f" {'-' if negative else '+'} {text}")
        if position.offset.terms or not pieces:
            offset = self.size(position.offset)
            if not pieces:
                return offset
            pieces.append(f" - {offset[1:]}" if _is_negative(offset) else f" + {offset}")
        return "".join(pieces)

    def factor(self, size: Coefficient) -> str:
        """Return the multiple of an index as text."""
        text = self.size(Dim.of(size))
        alone = isinstance(size, int) or len(size.terms) == 1
        return text if alone else f"({text})"

    def condition(self, condition: Scalar) -> str:
        """Return a delta or a guard as a test."""
        match condition:
            case Delta():
                return f"{self.position(condition.left)} == {self.position(condition.right)}"
            case Guard():
                side = one_sided(condition)
                if side is not None:
                    sign = {"ge": ">=", "gt": ">", "lt": "<"}[side.sign]
                    return f"{self.position(side.left)} {sign} {self.position(side.right)}"
                where = self.position(condition.position)
                return f"0 <= {where} < {self.size(condition.dim)}"
            case _:
                raise InternalError(f"{condition} is no condition")

    def product(self, lets: Sequence[int], factors: Sequence[Scalar], use: Use = "operand") -> str:
        """Return local variables times factors, the numbers first."""
        self.double = any(map(is_double, factors))
        if len(lets) + len(factors) == 1:
            return self.slots[lets[0]] if lets else self.scalar(factors[0], 0, use)
        numbers = [f for f in factors if isinstance(f, Number)]
        signs = [f for f in numbers if f.value == -1]
        texts = [self.scalar(f, 2) for f in numbers if f not in signs]
        texts += [self.cast(self.slots[n]) if n in self.sums else self.slots[n] for n in lets]
        texts += [self.scalar(f, 2) for f in factors if not isinstance(f, Number)]
        if not texts:
            return number_text((-1) ** len(signs), 0)
        return "-" * (len(signs) % 2) + " * ".join(texts)

    def value(self, scalar: Scalar, outer: int = 0) -> str:
        """Return a scalar that stands by itself as an expression."""
        self.double = is_double(scalar)
        return self.scalar(scalar, outer)

    def cast(self, text: str, use: Use = "operand") -> str:
        """Return an operand cast to the kernel's dtype, where arithmetic is not double anyway."""
        return text if self.double or use != "operand" else cast_text(text)

    def scalar(self, scalar: Scalar, outer: int = 0, use: Use = "operand") -> str:
        """Return a scalar as an expression; `outer` is the precedence it stands in."""
        if self.kept and scalar in self.kept:
            return self.kept[scalar]
        match scalar:
            case Number(value):
                if use == "argument" and not is_single(value):
                    return cast_text(number_text(value, 0))
                plain = self.double or use != "operand"
                return number_text(value, outer) if plain else cast_text(number_text(value, 0))
            case Constant():
                return self.cast("math.pi", use)
            case Size(dim):
                return self.whole(self.size(dim), use)
            case Place(affine):
                return self.whole(self.position(affine), use)
            case Access():
                return self.element(scalar.array, scalar.at)
            case Delta() | Guard():
                return self.cast(f"(1.0 if {self.condition(scalar)} else 0.0)", use)
            case Apply():
                if self.double or arrays_of(scalar):
                    return self.apply(scalar, outer)
                return self.constant(scalar, outer, use)

    def constant(self, scalar: Apply, outer: int, use: Use) -> str:
        """Return arithmetic of numbers and sizes alone: in double precision, cast as a whole."""
        self.double = True
        text = self.apply(scalar, 0 if use == "operand" else outer)
        self.double = False
        return self.cast(text, use)

    def whole(self, text: str, use: Use) -> str:
        """Return a whole number as a floating one."""
        return f"np.float64({text})" if self.double or use != "operand" else cast_text(text)

    def apply(self, scalar: Apply, outer: int) -> str:
        """Return a function call, or arithmetic with the parentheses it needs."""
        if not scalar.order and scalar.function in SIGNS:
            if scalar.function == "div" and self.analytic and arrays_of(scalar):
                # numba divides complex numbers with Python's error for a zero, numpy's without
                return f"np.divide({', '.join(self.scalar(a) for a in scalar.args)})"
            own = PRECEDENCE[scalar.function]
            left = self.scalar(scalar.args[0], own)
            tight = own + 1 if scalar.function in ("sub", "div") else own
            right = self.scalar(scalar.args[1], max(tight, own + (own == 2)))
            text = f"{left} {SIGNS[scalar.function]} {right}"
            return f"({text})" if outer > own else text
        if not scalar.order and scalar.function == "neg":
            text = f"-{self.scalar(scalar.args[0], 3)}"
            return f"({text})" if outer else text
        kernel = function_kernel(scalar.function, scalar.order)
        guards = guards_of(scalar.args[0]) if scalar.function == "where" else None
        if guards is not None and not any(scalar.order):
            self.helpers.update(dict.fromkeys(kernel.helpers))
            test = " and ".join(map(self.condition, guards))
            return kernel.call.format(test, *map(self.scalar, scalar.args[1:]))
        for helper in kernel.helpers:
            self.helpers[helper] = None
        texts = [
            self.scalar(arg, 0 if delimited(kernel.call, n) else 9, use_of(kernel.call, n))
            for n, arg in enumerate(scalar.args)
        ]
        return kernel.call.format(*texts)


def scalars_read(nodes: Sequence[Node]) -> set[str]:
    """Return the arrays without axes that loops read."""
    found: set[str] = set()
    for node in nodes:
        match node:
            case For() | When() | Flat():
                found |= scalars_read(node.body)
            case Store() | Let() | Add():
                found |= {a.array for f in node.factors for a in accesses_in(f) if not a.at}
            case Keep():
                found |= {a.array for a in accesses_in(node.scalar) if not a.at}
            case Row():
                scalars = scalars_of(node.definition.body)
                found |= {a.array for s in scalars for a in accesses_in(s) if not a.at}
            case _:
                pass
    return found


def _is_negative(text: str) -> bool:
    return text.startswith("-") and " " not in text
