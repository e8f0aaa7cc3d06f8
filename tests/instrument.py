"""Generated modules that count what they do: their text is rewritten, then run as plain Python.

The counts know nothing of loops, schedules or polynomials: every operator, call and allocation is
counted when it happens, on numbers and arrays as they are.
"""

from __future__ import annotations

import ast
import math
import types
import warnings
import weakref
from dataclasses import dataclass, replace

import numba
import numpy as np

from symgrad import build
from symgrad.functions import HELPERS

OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
FREE = {"np.float64", "np.real", "math.isnan", "math.isinf", "range", "min", "number", "len", "int"}
"""Calls that are no functions of the layer: casts, comparisons, bounds of loops."""
MATRICES = ("_solve", "_solve_all", "_solve_triangular", "_inverse", "_determinant",
            "_log_determinant", "_cholesky", "_probes", "_sound")  # fmt: skip


@dataclass
class Meter:
    """What happened: operations, calls, bytes ever allocated, bytes there are, most at once."""

    operations: int = 0
    calls: int = 0
    allocated: int = 0
    live: int = 0
    peak: int = 0

    def own(self, array):
        """Note an array that was allocated, and when it is gone."""
        size = array.nbytes
        self.allocated += size
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(array, self.free, size)
        return array

    def free(self, size):
        self.live -= size

    def binary(self, sign, left, right):
        """Compute, counting one for each floating-point number that comes out."""
        found = _compute(sign, left, right)
        if isinstance(found, np.ndarray) and found.ndim:
            self.own(found)
        if not isinstance(found, tuple | str) and not (_is_whole(left) and _is_whole(right)):
            self.operations += np.size(found)
        return found

    def inplace(self, sign, left, right):
        """Compute in place where the left side is an array."""
        if not isinstance(left, np.ndarray) or not left.ndim:
            return self.binary(sign, left, right)
        ufunc = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[sign]
        self.operations += left.size
        return ufunc(left, right, out=left)

    def negative(self, value):
        """Change a sign, which is free; of an array it makes a new one."""
        found = -value
        return self.own(found) if isinstance(found, np.ndarray) and found.ndim else found

    def call(self, function, *args):
        """Call a function of the layer."""
        if function is np.divide:
            return self.binary("/", *args)
        self.calls += 1
        return function(*args)

    def reshape(self, array, *shape):
        """Reshape; what numpy must copy for it is allocated."""
        found = array.reshape(*shape)
        if found.size and not np.shares_memory(found, array):
            self.own(found.base if found.base is not None else found)
        return found

    def copy(self, array):
        return self.own(array.copy())

    def truth(self, value):
        """Note the mask that a comparison of arrays makes."""
        return self.own(value) if isinstance(value, np.ndarray) else value

    def item(self, array, key):
        """Read an element or a part; numpy copies what is listed."""
        found = array[key]
        if isinstance(array, np.ndarray) and isinstance(found, np.ndarray) and found.ndim:
            if found.size and not np.shares_memory(found, array):
                self.own(found if found.base is None else found.base)
        return found


def _is_whole(value):
    return isinstance(value, (int, np.integer)) or (
        isinstance(value, np.ndarray) and value.dtype.kind in "iub"
    )


def _compute(sign, left, right):
    match sign:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case _:
            return left / right


class Numpy(types.SimpleNamespace):
    """numpy with a meter at what allocates and multiplies."""

    def __init__(self, meter):
        super().__init__(meter=meter)

    def __getattr__(self, name):
        return getattr(np, name)

    def empty(self, shape, dtype):
        return self.meter.own(np.empty(shape, dtype))

    def zeros(self, shape, dtype):
        return self.meter.own(np.zeros(shape, dtype))

    def ones(self, shape, dtype):
        return self.meter.own(np.ones(shape, dtype))

    def where(self, mask, yes, no):
        return self.meter.own(np.where(mask, yes, no))

    def repeat(self, array, count, axis):
        return self.meter.own(np.repeat(array, count, axis))

    def ascontiguousarray(self, array):
        found = np.ascontiguousarray(array)
        return found if found is array or not found.size else self.meter.own(found)

    def matmul(self, left, right, out=None):
        found = np.matmul(left, right)
        self.meter.operations += 2 * found.size * left.shape[-1]
        if out is None:
            return self.meter.own(found)
        out[...] = found
        return out


class Rewriter(ast.NodeTransformer):
    """Puts the meter at operators and calls; `inside` says whether this is a kernel."""

    def __init__(self, inside):
        self.inside = inside

    def visit_BinOp(self, node):
        self.generic_visit(node)
        sign = OPERATORS.get(type(node.op))
        return _metered("binary", ast.Constant(sign), node.left, node.right) if sign else node

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        return _metered("negative", node.operand) if isinstance(node.op, ast.USub) else node

    def visit_AugAssign(self, node):
        self.generic_visit(node)
        if type(node.op) not in OPERATORS:
            return node
        before = ast.parse(ast.unparse(node.target), mode="eval").body
        before = Rewriter(self.inside).visit(before)
        value = _metered("inplace", ast.Constant(OPERATORS[type(node.op)]), before, node.value)
        return ast.Assign([node.target], value)

    def visit_Subscript(self, node):
        self.generic_visit(node)
        if self.inside or not isinstance(node.ctx, ast.Load):
            return node
        builder = ast.Attribute(ast.Name("np", ast.Load()), "s_", ast.Load())
        key = ast.Subscript(builder, node.slice, ast.Load())
        return _metered("item", node.value, key)

    def visit_Compare(self, node):
        self.generic_visit(node)
        return node if self.inside else _metered("truth", node)

    def visit_Call(self, node):
        self.generic_visit(node)
        name = ast.unparse(node.func)
        if self.inside and name not in FREE and (name in HELPERS or name.split(".")[0] in _MODULES):
            return _metered("call", node.func, *node.args)
        if name.endswith((".reshape", ".copy")):
            return _metered(name.rsplit(".", 1)[1], node.func.value, *node.args)
        return node


_MODULES = ("np", "math", "abs")


def _metered(name, *args):
    function = ast.Attribute(ast.Name("meter", ast.Load()), name, ast.Load())
    return ast.Call(function, list(args), [])


def instrumented(jac):
    """Return a compiled layer whose module counts, and its meter."""
    meter = Meter()
    tree = ast.parse(jac.source)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name not in {*HELPERS, *MATRICES}:
            if node.name in ("_array", "_arrays", "_computable", "_free_bytes", "_threads"):
                continue
            kernel = [ast.unparse(d) for d in node.decorator_list] in (["loops"], ["sums"])
            node.body = [Rewriter(kernel).visit(line) for line in node.body]
    ast.fix_missing_locations(tree)
    module = build.load(jac.path, plain=True)
    space = {"__name__": module.__name__, "__file__": module.__file__, "meter": meter}
    disabled = numba.config.DISABLE_JIT
    numba.config.DISABLE_JIT = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        exec(compile(tree, str(jac.path), "exec"), space)
    numba.config.DISABLE_JIT = disabled
    space["np"] = Numpy(meter)
    space |= {name: f for name, f in _textbook(meter).items() if name in space}
    counting = types.ModuleType(module.__name__)
    counting.__dict__.update(space)  # functions look names up where they were made: in `space`
    return replace(jac, module=counting), meter


def _textbook(meter):
    """Return functions of matrices that run the textbook algorithms, one operation at a time."""

    def lu(matrix):
        a = np.array(matrix, float)
        n = len(a)
        for k in range(n):
            for i in range(k + 1, n):
                a[i, k] /= a[k, k]
                meter.operations += 1
                for j in range(k + 1, n):
                    a[i, j] -= a[i, k] * a[k, j]
                    meter.operations += 2
        return a

    def forward(a, right, unit):
        x = np.array(right, float)
        for i in range(len(x)):
            for j in range(i):
                x[i] -= a[i, j] * x[j]
                meter.operations += 2
            if not unit:
                x[i] /= a[i, i]
                meter.operations += 1
        return x

    def backward(a, right):
        x = np.array(right, float)
        for i in reversed(range(len(x))):
            for j in range(i + 1, len(x)):
                x[i] -= a[i, j] * x[j]
                meter.operations += 2
            x[i] /= a[i, i]
            meter.operations += 1
        return x

    def columns(solve, matrices, right):
        right = np.broadcast_to(right, (*matrices.shape[:-1], right.shape[-1]))
        found = np.empty(right.shape)
        for at in np.ndindex(matrices.shape[:-2]):
            one = solve(matrices[at])
            for c in range(right.shape[-1]):
                found[(*at, slice(None), c)] = one(right[(*at, slice(None), c)])
        return found

    def general(matrix):
        a = lu(matrix)
        return lambda right: backward(a, forward(a, right, unit=True))

    def stack(matrices, function):
        found = [function(matrices[at]) for at in np.ndindex(matrices.shape[:-2])]
        first = np.shape(found[0]) if found else ()
        return np.array(found).reshape((*matrices.shape[:-2], *first))

    def solve_all(matrices, rights, place):
        width = np.cumsum([r.shape[-1] for r in rights])[:-1]
        wide = [np.broadcast_to(r, (*matrices.shape[:-1], r.shape[-1])) for r in rights]
        return np.split(columns(general, matrices, np.concatenate(wide, -1)), width, axis=-1)

    def triangular(matrices, right, lower):
        def solver(a):
            return (lambda r: forward(a, r, unit=False)) if lower else (lambda r: backward(a, r))

        return columns(solver, matrices, right)

    def determinant(matrix):
        total = 1.0
        for pivot in np.diag(lu(matrix)):
            total *= pivot
            meter.operations += 1
        return total

    def log_determinant(matrix):
        total = 0.0
        for pivot in np.diag(lu(matrix)):
            total += math.log(abs(pivot))
            meter.operations += 1
            meter.calls += 1
        return total

    def cholesky(matrix):
        n = len(matrix)
        a = np.empty((n, n))
        for i in range(n):
            for j in range(n):
                a[i, j] = (matrix[i, j] + matrix[j, i]) / 2
                meter.operations += 2
        for j in range(n):
            for i in range(j, n):
                for k in range(j):
                    a[i, j] -= a[i, k] * a[j, k]
                    meter.operations += 2
            a[j, j] = math.sqrt(a[j, j])
            meter.calls += 1
            for i in range(j + 1, n):
                a[i, j] /= a[j, j]
                meter.operations += 1
        return np.tril(a)

    return {
        "_solve_all": solve_all,
        "_solve": lambda matrices, right, place: solve_all(matrices, (right,), place)[0],
        "_solve_triangular": triangular,
        "_inverse": lambda matrices, place: columns(general, matrices, np.eye(matrices.shape[-1])),
        "_determinant": lambda matrices: stack(matrices, determinant),
        "_log_determinant": lambda matrices, place: stack(matrices, log_determinant),
        "_cholesky": lambda matrices, place: stack(matrices, cholesky),
    }


__all__ = ["Meter", "instrumented"]
