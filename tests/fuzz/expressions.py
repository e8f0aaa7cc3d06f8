"""Random expressions over the whole language, each of the shape it must have.

shape, depth, indices in scope -> str
Arrays are declared when a leaf asks for them, so nearly every program is legal. Domains are kept
by construction (`log(abs(e) + 0.5)`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fuzz.words import BINDING, KEEPING, KINKED, REDUCING, SMOOTH, TWO, WITH_DOMAIN
from symgrad.dims import Dim

Shape = tuple[Dim, ...]
Scope = Mapping[str, Dim]
ONE = Dim.of(1)


@dataclass
class Expressions:
    """Expressions being grown, and the arrays they have asked for."""

    rng: random.Random
    declared: dict[str, tuple[str, Shape, str]] = field(default_factory=dict)
    defined: dict[str, Shape] = field(default_factory=dict)
    vocabularies: dict[str, Dim] = field(default_factory=dict)
    macros: list[str] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    roles: tuple[str, ...] = ()
    dims: tuple[Dim, ...] = ()
    serial: int = 0

    def fresh(self, wish: str) -> str:
        self.serial += 1
        return f"{wish}{self.serial}"

    # ------------------------------------------------------------ leaves

    def holder(self, index: str, scope: Scope) -> str:
        """An access in which an index stands bare."""
        return f"{self.array((scope[index],))}[{index}]"

    def array(self, shape: Shape, role: str | None = None) -> str:
        """The name of an array of that shape: an older one (parameters are tied), or a new one."""
        rng = self.rng
        older = [n for n, s in self.defined.items() if s == shape]
        older += [n for n, (r, s, _) in self.declared.items() if s == shape and r != "index"]
        if older and rng.random() < 0.65:
            return rng.choice(older)
        if not shape and rng.random() < 0.1:
            name = self.fresh("eps")
            self.declared[name] = ("const", (), " = 0.5")
            return name
        role = role or rng.choice(self.roles)
        letters = {"input": "xvw", "param": "WbUc", "const": "r"}
        name = self.fresh(rng.choice(letters[role]))
        self.declared[name] = (role, shape, "")
        return name

    def index_array(self, vocabulary: Dim, shape: Shape) -> str:
        for name, (role, own, _) in self.declared.items():
            if role == "index" and own == shape and self.vocabularies[name] == vocabulary:
                return name
        name = self.fresh("t")
        self.declared[name] = ("index", shape, "")
        self.vocabularies[name] = vocabulary
        return name

    def leaf(self, shape: Shape, scope: Scope) -> str:
        rng = self.rng
        indices = list(scope)
        if indices and rng.random() < 0.85:
            used = rng.sample(indices, rng.randint(1, min(2, len(indices))))
            return self.access(used, shape, scope)
        if rng.random() < 0.08 and not shape:
            return rng.choice(["2", "0.5", "pi", "-1.5", *(str(d) for d in self.dims)])
        if len(shape) > 0 and rng.random() < 0.1:
            size = f"({', '.join(map(str, shape))},)"
            return (
                f"{rng.choice(['ones', 'zeros'])}({size})"
                if rng.random() < 0.5
                else (f"broadcast_to({self.array(())}, {size})")
            )
        if len(shape) == 2 and shape[0] == shape[1] and rng.random() < 0.15:
            return f"eye({shape[0]})"
        return self.array(shape)

    def access(self, used: list[str], shape: Shape, scope: Scope) -> str:
        """A[i, j], A[2*i + 1], x[t[i]], delta(i, j), i: what an index can stand in."""
        rng = self.rng
        kind = rng.random()
        if not shape and kind < 0.08:
            return used[0]
        if not shape and kind < 0.18 and len(used) == 2:
            return f"delta({used[0]}, {used[1]})"
        if kind < 0.26 and len(used) == 2:
            a, b = used
            step = rng.choice([1, 1, 2])
            axis = scope[a] * step + scope[b] - step
            first = a if step == 1 else f"{step}*{a}"
            return f"{self.array((axis, *shape))}[{first} + {b}]"
        if kind < 0.34:
            a = used[0]
            move = rng.choice([1, 2])
            position, axis = rng.choice(
                [(f"{a} + {move}", scope[a] + move), (f"2*{a}", scope[a] * 2),
                 (f"{scope[a]} - {a} - 1", scope[a]), (f"{move} - {a} + {scope[a]}", scope[a] + 3)]
            )  # fmt: skip
            return f"{self.array((axis, *shape))}[{position}]"
        if kind < 0.42:
            vocabulary = rng.choice(self.dims)
            t = self.index_array(vocabulary, (scope[used[0]],))
            table = self.array((vocabulary, *shape))
            return f"{table}[{t}[{used[0]}]]"
        if kind < 0.47:
            t = self.index_array(scope[used[0]], ())
            return (
                f"delta({used[0]}, {t})"
                if not shape and rng.random() < 0.5
                else (f"{self.array((scope[used[0]], *shape))}[{used[0]}]")
            )
        if kind < 0.53 and len(used) == 1:
            return f"{self.array((scope[used[0]], scope[used[0]], *shape))}[{used[0]}, {used[0]}]"
        return f"{self.array((*(scope[i] for i in used), *shape))}[{', '.join(used)}]"

    # ------------------------------------------------------------ expressions

    def pack(self, text: str) -> str:
        return text if text.replace("_", "").isalnum() else f"({text})"

    def thin(self, shape: Shape) -> Shape:
        """A shape that broadcasts to `shape`."""
        if self.rng.random() < 0.6:
            return shape
        cut = self.rng.randint(0, len(shape))
        return tuple(ONE if self.rng.random() < 0.3 else d for d in shape[cut:])

    def grow(self, shape: Shape, depth: int, scope: Scope) -> str:
        """An expression of exactly that shape."""
        if depth <= 0 or len(shape) > 4 or self.rng.random() < 0.08:
            return self.leaf(shape, scope)
        ways: list[Callable[[Shape, int, Scope], str]] = [
            self.unary, self.unary, self.binary, self.binary, self.binary, self.masked,
            self.stopped, self.reduced, self.reduced, self.contracted, self.sliced,
        ]  # fmt: skip
        if shape:
            ways += [self.kept, self.kept, self.product, self.product, self.turned, self.gathered]
            ways += [self.arranged]
        else:
            ways += [self.bound, self.bound, self.bound, self.product, self.picked]
        if scope:
            ways += [self.bound] if not shape else []
            ways += [lambda s, d, c: self.leaf(s, c)]
        if self.macros:
            ways += [self.called]
        if len(shape) > 1 and not scope:
            ways += [self.reshaped]
        if len(shape) < 3 and self.rng.random() < 0.04:
            ways = [self.of_matrices]
        return self.rng.choice(ways)(shape, depth - 1, scope)

    def unary(self, shape: Shape, depth: int, scope: Scope) -> str:
        inner = self.grow(shape, depth, scope)
        choice = self.rng.random()
        if choice < 0.5:
            return f"{self.rng.choice(SMOOTH)}({inner})"
        if choice < 0.7:
            return f"{self.rng.choice(KINKED)}({inner})"
        return self.rng.choice(WITH_DOMAIN).format(self.pack(inner))

    def binary(self, shape: Shape, depth: int, scope: Scope) -> str:
        left, right = self.grow(shape, depth, scope), self.grow(self.thin(shape), depth, scope)
        pattern = self.rng.choice(TWO)
        if self.rng.random() < 0.3 and pattern.count(" ") == 2 and pattern[0] == "{":
            left, right = right, left
        return pattern.format(self.pack(left), self.pack(right))

    def masked(self, shape: Shape, depth: int, scope: Scope) -> str:
        sign = self.rng.choice(["<", ">", "<=", ">="])
        left = self.pack(self.grow(self.thin(shape), depth - 1, scope))
        mask = f"{left} {sign} {self.leaf(self.thin(shape), scope)}"
        if len(scope) > 1 and self.rng.random() < 0.4 and not shape:
            a, b = self.rng.sample(list(scope), 2)
            mask = f"{a} {sign} {b}"
        choice = self.rng.random()
        if choice < 0.2:
            mask = f"~({mask})"
        elif choice < 0.4:
            mask = f"({mask}) {self.rng.choice('&|')} ({self.leaf(self.thin(shape), scope)} > 0.1)"
        if choice > 0.85:
            return f"({mask}) * {self.pack(self.grow(shape, depth, scope))}"
        other = "0" if choice > 0.7 else self.grow(shape, depth, scope)
        return f"where({mask}, {self.grow(shape, depth, scope)}, {other})"

    def reshaped(self, shape: Shape, depth: int, scope: Scope) -> str:
        """The same elements under other axes: merged, or cut at other places."""
        total = ONE
        for dim in shape:
            total = total * dim
        inner = self.rng.choice([(total,), tuple(reversed(shape))])
        axes = [str(dim) for dim in shape]
        if self.rng.random() < 0.3:
            axes[self.rng.randrange(len(axes))] = "-1"
        return f"reshape({self.grow(inner, depth, scope)}, ({', '.join(axes)}))"

    def of_matrices(self, shape: Shape, depth: int, scope: Scope) -> str:
        """A function of a matrix that is well conditioned by construction."""
        rng = self.rng
        rows = shape[0] if shape else rng.choice(self.dims)
        inner = self.grow((rows, rng.choice(self.dims)), min(depth, 1), scope)
        root = self.pack(f"tanh({inner})")
        even = f"{root} @ {root}.T + 2*eye({rows})"
        if not shape:
            return f"{rng.choice(['logdet', 'det'])}({even})"
        if len(shape) == 2 and shape[0] == shape[1] and rng.random() < 0.6:
            return f"{rng.choice(['inv', 'cholesky'])}({even})"
        return f"solve({even}, {self.grow(shape, depth - 1, scope)})"

    def stopped(self, shape: Shape, depth: int, scope: Scope) -> str:
        inner = self.grow(shape, depth, scope)
        if self.rng.random() < 0.5:
            return f"stop_gradient({inner})"
        return f"2*{self.pack(inner)} - stop_gradient({inner})"

    def called(self, shape: Shape, depth: int, scope: Scope) -> str:
        a = self.grow(shape, depth, scope)
        body = self.macros[0]
        if "sum(a)" in body:
            a = self.grow((*shape, self.rng.choice(self.dims)), depth, scope)
        if "norm(b)" in body:
            return f"f({a}, {self.grow((*shape, self.rng.choice(self.dims)), depth, scope)})"
        return f"f({a}, {self.grow(shape, depth, scope)})"

    def reduced(self, shape: Shape, depth: int, scope: Scope) -> str:
        rng = self.rng
        name = rng.choice(REDUCING)
        extra = ", ddof=0" if name in ("var", "std") and rng.random() < 0.3 else ""
        if not shape and rng.random() < 0.3:
            inner = self.grow(tuple(rng.choice(self.dims) for _ in range(2)), depth, scope)
            return self.safe(name, inner, ", axis=None" + extra)
        axis = rng.randint(0, len(shape))
        if axis < len(shape) and shape[axis] == ONE and rng.random() < 0.6:
            full = (*shape[:axis], rng.choice(self.dims), *shape[axis + 1 :])
            return self.safe(name, self.grow(full, depth, scope), f", axis={axis}, keepdims=True")
        full = (*shape[:axis], rng.choice(self.dims), *shape[axis:])
        if rng.random() < 0.25 and len(shape) < 2:
            full = (*full, rng.choice(self.dims))
            places = (axis, -1) if rng.random() < 0.5 else (-1, axis)
            return self.safe(name, self.grow(full, depth, scope), f", axis={places}{extra}")
        where = "" if axis == len(shape) and rng.random() < 0.5 else f", axis={axis}"
        if where and rng.random() < 0.3:
            where = f", axis={axis - len(full)}"
        return self.safe(name, self.grow(full, depth, scope), where + extra)

    def safe(self, name: str, inner: str, rest: str) -> str:
        if name == "std":
            return f"sqrt(var({inner}{rest}) + 0.1)"
        return f"{name}({inner}{rest})"

    def kept(self, shape: Shape, depth: int, scope: Scope) -> str:
        name = self.rng.choice(KEEPING)
        rank = len(shape)
        axis = self.rng.randrange(rank)
        where = "" if axis == rank - 1 and self.rng.random() < 0.5 else f", axis={axis}"
        if rank == 2 and name in ("softmax", "log_softmax") and self.rng.random() < 0.2:
            where = self.rng.choice([", axis=None", ", axis=(0, 1)", ", axis=(-1, 0)"])
        return f"{name}({self.grow(shape, depth, scope)}{where})"

    def product(self, shape: Shape, depth: int, scope: Scope) -> str:
        k = self.rng.choice(self.dims)
        if not shape:
            left, right = self.grow((k,), depth, scope), self.grow((k,), depth, scope)
            if self.rng.random() < 0.3:
                return f"dot({left}, {right})"
            return f"{self.pack(left)} @ {self.pack(right)}"
        if len(shape) == 1:
            sides = [(*shape, k), (k,)] if self.rng.random() < 0.7 else [(k,), (k, *shape)]
        else:
            sides = [(*shape[:-1], k), (k, shape[-1])]
            if self.rng.random() < 0.3:
                sides[1] = (*shape[:-2], *sides[1])
        left, right = (self.grow(side, depth, scope) for side in sides)
        return f"{self.pack(left)} @ {self.pack(right)}"

    def turned(self, shape: Shape, depth: int, scope: Scope) -> str:
        if len(shape) == 1:
            return f"{self.pack(self.grow(shape, depth, scope))}[::-1]"
        if len(shape) == 2 or self.rng.random() < 0.5:
            return f"{self.pack(self.grow(shape[::-1], depth, scope))}.T"
        order = self.rng.sample(range(len(shape)), len(shape))
        source: list[Dim] = [ONE] * len(shape)
        for place, axis in enumerate(order):
            source[axis] = shape[place]
        return f"transpose({self.grow(tuple(source), depth, scope)}, {tuple(order)})"

    def gathered(self, shape: Shape, depth: int, scope: Scope) -> str:
        vocabulary = self.rng.choice(self.dims)
        axis = self.rng.randrange(len(shape))
        t = self.index_array(vocabulary, (shape[axis],))
        inner = self.grow((*shape[:axis], vocabulary, *shape[axis + 1 :]), depth, scope)
        return f"{self.pack(inner)}[{':, ' * axis}{t}]"

    def picked(self, shape: Shape, depth: int, scope: Scope) -> str:
        rng = self.rng
        dim = rng.choice(self.dims)
        if rng.random() < 0.5:
            t = self.index_array(dim, ())
            return f"{self.pack(self.grow((dim,), depth, scope))}[{t}]"
        if rng.random() < 0.4:
            return f"trace({self.grow((dim, dim), depth, scope)})"
        return f"{self.pack(self.grow((dim,), depth, scope))}[{rng.choice(['0', '-1'])}]"

    def arranged(self, shape: Shape, depth: int, scope: Scope) -> str:
        rng = self.rng
        if len(shape) == 2 and rng.random() < 0.5:
            which = rng.choice(["tril", "triu", "outer", "diag"])
            if which == "outer":
                left, right = (self.grow((d,), depth, scope) for d in shape)
                return f"outer({left}, {right})"
            if which == "diag" and shape[0] == shape[1]:
                return f"diag({self.grow(shape[:1], depth, scope)})"
            return f"{rng.choice(['tril', 'triu'])}({self.grow(shape, depth, scope)})"
        if len(shape) == 1 and rng.random() < 0.4:
            return f"diag({self.grow((shape[0], shape[0]), depth, scope)})"
        places = [n for n, d in enumerate(shape) if d == ONE]
        if places:
            axis = rng.choice(places)
            inner = self.grow((*shape[:axis], *shape[axis + 1 :]), depth, scope)
            return (
                f"expand_dims({inner}, {axis})"
                if rng.random() < 0.5
                else (f"{self.pack(inner)}[{':, ' * axis}None]")
            )
        axis = rng.randint(0, len(shape))
        inner = self.grow((*shape[:axis], ONE, *shape[axis:]), depth, scope)
        return f"squeeze({inner}, axis={axis})"

    def sliced(self, shape: Shape, depth: int, scope: Scope) -> str:
        rng = self.rng
        if not shape or rng.random() < 0.2:
            axis = rng.randint(0, len(shape))
            inner = (*shape[:axis], rng.choice(self.dims), *shape[axis:])
            parts = [":"] * axis + [rng.choice(["0", "-1"])]
            return f"{self.pack(self.grow(inner, depth, scope))}[{', '.join(parts)}]"
        axis = rng.randrange(len(shape))
        dim = shape[axis]
        cut, source = rng.choice(
            [("1:", dim + 1), (":-1", dim + 1), ("1:-1", dim + 2), ("::-1", dim), ("::2", dim * 2),
             ("1::2", dim * 2), (f":{dim}", dim + 2), ("-2::-1", dim + 1),
             (f"2:{dim + 2}", dim + 3), ("::-2", dim * 2 - 1), ("2::3", dim * 3)]
        )  # fmt: skip
        inner = (*shape[:axis], source, *shape[axis + 1 :])
        if depth > 0 and rng.random() < 0.5:
            depth = 0  # odd shapes are mostly leaves
        dots = "..., " if axis == len(shape) - 1 and rng.random() < 0.5 and axis else ":, " * axis
        return f"{self.pack(self.grow(inner, depth, scope))}[{dots}{cut}]"

    def contracted(self, shape: Shape, depth: int, scope: Scope) -> str:
        rng = self.rng
        letters = "ijkmno"[: len(shape)]
        table = dict(zip(letters, shape, strict=True))
        summed = rng.sample("lpq", rng.choice([0, 1, 1, 2]))
        for letter in summed:
            table[letter] = rng.choice(self.dims)
        pool = list(table)
        count = rng.choice([1, 2, 2, 3])
        groups: list[list[str]] = [[] for _ in range(count)]
        for letter in pool:
            for group in rng.sample(groups, rng.randint(1, min(2, count))):
                group.append(letter)
        for group in groups:
            rng.shuffle(group)
            if rng.random() < 0.1 and group and len(group) < 3:
                group.append(group[0])
        groups = [g for g in groups if g] or [[]]
        if groups == [[]]:
            return self.grow(shape, depth, scope)
        operands = [self.grow(tuple(table[c] for c in g), depth - 1, scope) for g in groups]
        words = ",".join("".join(g) for g in groups)
        return f'einsum("{words}->{letters}", {", ".join(operands)})'

    def bound(self, shape: Shape, depth: int, scope: Scope) -> str:
        rng = self.rng
        free = [c for c in "klst" if c not in scope and c not in self.declared]
        if len(free) < 2:
            return self.leaf(shape, scope)
        letters = rng.sample(free, rng.choice([1, 1, 1, 2]))
        inner = {**scope, **{c: rng.choice(self.dims) for c in letters}}
        body = self.grow((), depth, inner)
        words = []
        for letter in letters:
            if rng.random() < 0.25:
                words.append(f"{letter}: {inner[letter]}")
            else:
                words.append(letter)
                body = f"{self.pack(body)} {rng.choice('+*')} {self.holder(letter, inner)}"
        name = rng.choice(BINDING)
        return f"{name}[{', '.join(words)}]({body})"
