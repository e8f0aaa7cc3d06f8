"""What must hold of every layer: all forms agree, and agree with oracles that share nothing.

text, wrt, seed -> faults
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from layers import Sample

import symgrad as sg
from symgrad import build
from symgrad.assemble import assemble
from symgrad.check import check
from symgrad.compiled import Compiled
from symgrad.derive import derive
from symgrad.emit import emit
from symgrad.errors import InternalError, ShapeError, SymgradError, ValidationError
from symgrad.explain import explain
from symgrad.forced import each_way
from symgrad.forms import forms
from symgrad.judge import compare
from symgrad.judge_twice import compare_twice
from symgrad.proof.interpret import evaluate_jacobian, interpret
from symgrad.proof.sample import dim_names, draw_arrays, fits
from symgrad.select import select
from symgrad.trial import Trial

from .faults import RTOL, Fault, same, say
from .products import product_faults

try:
    from fuzz.torch_oracle import Unsupported, torch_jacobians
except ImportError:  # torch is absent
    torch_jacobians = None  # type: ignore[assignment]

LARGE = 20_000
"""Entries of a Jacobian beyond which a draw of sizes is too costly."""


class Refused(Exception):
    """The layer is not legal, or no finite point was found: nothing was tested."""


def faults(
    text: str, wrt: Any, seed: int, *, compiled: bool = False, differences: bool = False,
    explained: bool = False, exactly: bool = True, twice: bool = False,
) -> list[Fault]:  # fmt: skip
    """Return every law the layer breaks. Raises Refused if it is no legal layer."""
    rng = np.random.default_rng(seed)
    try:
        layer = sg.layer(text)
        program = check(layer)
        selection = select(program, wrt)
    except InternalError:
        raise
    except SymgradError as error:
        raise Refused(str(error)) from None
    found: list[Fault] = []
    again = sg.layer(str(layer))
    if again != layer:
        return [Fault("round trip", str(layer))]
    derivation = derive(program, selection)
    made = forms(derivation)
    if explained:
        explain(derivation).text()
    source = emit(made, docstring="", options={"functions": {}, "dims": {}}, validation={})
    file = build.build(source.text, source.name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        module = build.load(file, plain=not compiled)
    names = derivation.selection.names
    jac = Compiled(layer, made, module, file, source.text, source.captions, None, names)
    for _ in range(3):
        arrays = _draw(program, made, rng)
        truth = {
            (j.output, j.parameter): evaluate_jacobian(derivation, j.output, j.parameter, arrays)
            for j in derivation.jacobians
        }
        values = interpret(program, arrays)
        value = {o: values[o] for o in program.outputs}
        if all(_decent(a) for a in (*truth.values(), *value.values())):
            break
    else:
        raise Refused("no finite point")
    found += _forms(jac, arrays, value, truth, rng)
    for which in each_way(module):
        forced = _forms(jac, arrays, value, truth, rng)
        found += [Fault(fault.law, f"{which}: {fault.detail}") for fault in forced]
    second = derive(check(again), select(check(again), wrt))
    for j in second.jacobians[:1]:
        pair = (j.output, j.parameter)
        if not same(evaluate_jacobian(second, *pair, arrays), truth[pair]):
            found.append(Fault("round trip", "the Jacobian differs"))
    if torch_jacobians is not None:
        found += _torch(program, arrays, value, truth, names)
    if differences or torch_jacobians is None:
        try:
            seed, chosen = int(rng.integers(1 << 30)), made.derivation.selection.names
            report = compare(made, module, Trial(chosen, seed, 2))
            if not report.ok:
                found.append(Fault("finite differences", str(report)))
        except ValidationError as error:
            if "no test point" not in str(error):
                found.append(Fault("finite differences", str(error)))
        except ShapeError:
            pass  # no small sizes
    return [*found, *_second_order(program, selection, rng)] if twice else found


def _second_order(program: Any, selection: Any, rng: np.random.Generator) -> list[Fault]:
    """Hessians: against differences of Jacobians, sums and products against blocks."""
    made = assemble(program, selection, 2)
    source = emit(made, options={"functions": {}, "dims": {}, "order": 2})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        module = build.load(build.build(source.text, source.name), plain=True)
    names = made.derivation.selection.names
    try:
        report = compare_twice(made, module, Trial(names, int(rng.integers(1 << 30)), 2))
    except ValidationError as error:
        missed = "no test point" in str(error)
        return [] if missed else [Fault("second derivatives", str(error))]
    except ShapeError:
        return []  # no small sizes
    if report is None or report.ok:
        return []
    return [Fault("second derivatives", str(report))]


def _draw(program: Any, made: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Draw sizes from 1 to 3 and arrays; some sizes 1, batch 1 to 3."""
    names = dim_names(program)
    for attempt in range(60):
        most = 4 if attempt < 10 else 3 if attempt < 40 else 5
        sizes = {n: int(rng.integers(1, most)) for n in names}
        batch = int(rng.integers(1, 4))
        if not fits(program, sizes, least=1):
            continue
        known = {**sizes, "#B": batch}
        axes = [(*s.jacobian.out, *s.jacobian.theta) for s in made.structured]
        if all(np.prod([i.dim.evaluate(known) for i in a]) * batch < LARGE for a in axes):
            return draw_arrays(program, rng, sizes, batch)
    raise Refused("no small sizes")


def _decent(array: Any) -> bool:
    array = np.asarray(array, float)
    return bool(np.all(np.isfinite(array)) and np.abs(array).max(initial=0.0) < 1e6)


def _forms(
    jac: Compiled, arrays: Mapping[str, Any], value: Mapping[str, Any],
    truth: Mapping[tuple[str, str], Any], rng: np.random.Generator,
) -> list[Fault]:  # fmt: skip
    """Every form of the module and of the structured results, against the reference."""
    found: list[Fault] = []
    program = jac.forms.program
    batched = any(a.batched for a in program.arrays)
    rows = next((np.shape(arrays[a.name])[0] for a in program.arrays if a.batched), 1)
    several = len(program.outputs) > 1
    names = jac.wrt

    def expect(law: str, actual: Any, right: Any, where: str, rtol: float = RTOL) -> None:
        if not same(actual, right, rtol):
            found.append(Fault(law, f"{where}: {say(actual, right)}"))

    def spread(output: str) -> Any:
        definition = program.definition(output)
        assert definition is not None
        if batched and program.batch not in definition.indices:
            return np.repeat(value[output][np.newaxis], rows, axis=0)
        return value[output]

    right = {o: spread(o) for o in program.outputs}
    given = {n: a for n, a in arrays.items() if not _default(program, n)}
    forward = jac.forward(given)
    forward = forward if several else (forward,)
    for output, y in zip(program.outputs, forward, strict=True):
        expect("forward", y, right[output], output)
    J = jac.jacobian(given)
    module = jac.module.jacobian(*given.values())
    key = (lambda o, p: (o, p)) if several else (lambda o, p: p)
    inputs = {a.name for a in program.arrays if a.batched}
    us = {o: rng.standard_normal(np.shape(y)) for o, y in right.items()}
    vs = {n: rng.standard_normal(np.shape(arrays[n])) for n in names}
    totals = {o: np.zeros(np.shape(y)) for o, y in right.items()}
    back: dict[str, Any] = {}
    largest: dict[tuple[str, str], float] = {}
    for pair, dense in truth.items():
        output, name = pair
        word = f"d{output}/d{name}"
        block = J[key(output, name)]
        if block.shape != dense.shape:
            found.append(Fault("shape", f"{word}: {block.shape}, expected {dense.shape}"))
            continue
        expect("dense", module[key(output, name)], dense, word)
        expect("dense", block.dense(), dense, word)
        out = np.full(dense.shape, np.nan)
        block.dense(out=out)
        expect("dense out", out, dense, word)
        lookups = {a.name: np.asarray(arrays[a.name]) for a in program.arrays if a.role == "index"}
        lookups |= {n: np.asarray(v) for n, v in J_values(block).items()}
        known = dict(block._done.sizes)
        expect("formula", rebuilt(block, dense.shape, lookups, known), dense, word)
        terms = rebuilt(block, dense.shape, lookups, known, sign=np.abs)
        largest[pair] = float(np.max(terms, initial=0.0))
        expect("compact", expanded(block, dense.shape, lookups, known), dense, word)
        flat = dense.reshape(
            (rows if batched else 1, us[output][0].size if batched else us[output].size, -1)
        )
        matrix = flat if batched else flat[0]
        expect("matrix", block.matrix(), matrix, word)
        whole = (
            np.einsum("bop,bc->bocp", flat, np.eye(len(flat))) if name in inputs else flat
        ).reshape((flat.shape[0] * flat.shape[1], -1))
        if whole.size:
            expect("sparse", block.to_scipy().toarray(), whole, word)
        u = us[output].reshape(flat.shape[:2])
        own = dense.shape[np.ndim(right[output]) :]
        pulled = np.einsum("bo,bop->bp", u, flat)
        full = pulled.reshape((*((rows,) if batched else ()), *own))
        summed = full if name in inputs else pulled.sum(0).reshape(own)
        expect("structured per_sample_vjp", block.per_sample_vjp(us[output]), full, word)
        expect("structured vjp", block.vjp(us[output]), summed, word)
        norm = np.sqrt((flat**2).sum((1, 2)))
        expect("structured norm", block.norm(), norm if batched else norm[0], word)
        v = vs[name].reshape((rows, -1)) if name in inputs else vs[name].reshape(-1)
        part = np.einsum("bop,bp->bo" if name in inputs else "bop,p->bo", flat, v)
        part = part.reshape(np.shape(right[output]))
        expect("structured jvp", block.jvp(vs[name]), part, word)
        totals[output] = totals[output] + part
        before = back.get(name, (0.0, 0.0))
        back[name] = (before[0] + summed, before[1] + full)
    u = tuple(us.values()) if several else us[program.outputs[0]]
    for name in names:
        if name not in back:
            continue
        summed, full = back[name]
        expect("vjp", jac.vjp(given, u)[name], summed, name)
        expect("vjp_per_sample", jac.vjp_per_sample(given, u)[name], full, name)
        expect("Jacobians.vjp", J.vjp(u)[name], summed, name)
    pushed = jac.jvp(given, vs)
    structured = J.jvp(vs)
    for output, a, b in zip(
        program.outputs, pushed if several else (pushed,),
        structured if several else (structured,), strict=True,
    ):  # fmt: skip
        expect("jvp", a, totals[output], output)
        expect("Jacobians.jvp", b, totals[output], output)
    y, pull = jac.pullback(given)
    for output, a in zip(program.outputs, y if several else (y,), strict=True):
        expect("pullback value", a, right[output], output)
    for name, gradient in pull(u).items():
        if name in back:
            expect("pullback", gradient, back[name][0], name)
    for name in names:
        dense = getattr(jac, f"jac_{name}")(given)
        for output, a in zip(program.outputs, dense if several else (dense,), strict=True):
            expect("jac_θ", a, truth[output, name], f"d{output}/d{name}")
    found += product_faults(Sample(jac.name, jac, given), J, largest, rng)
    if batched:
        one = {n: (a[0] if program.array(n).batched else a) for n, a in given.items()}
        single = jac.forward(one)
        for output, a in zip(program.outputs, single if several else (single,), strict=True):
            expect("one sample", a, right[output][0], output)
        for pair, dense in truth.items():
            expect("one sample", jac.jacobian(one)[key(*pair)].dense(), dense[0], f"d{pair}")
        u1 = tuple(a[0] for a in us.values()) if several else u[0]
        gradients = jac.vjp(one, u1)
        for name in names:
            if name in back:
                expect("one sample vjp", gradients[name], back[name][1][0], name)
    return found


def _default(program: Any, name: str) -> bool:
    return program.array(name).default is not None


def J_values(block: Any) -> dict[str, Any]:
    """The computed arrays of a pass: positions that are data (winners) are among them."""
    return {n: v for n, v in block._done.values.items() if np.asarray(v).dtype.kind == "i"}


def _torch(
    program: Any, arrays: Mapping[str, Any], value: Mapping[str, Any],
    truth: Mapping[tuple[str, str], Any], names: Any,
) -> list[Fault]:  # fmt: skip
    try:
        values, jacobians = torch_jacobians(program, arrays, names)
    except Unsupported:
        return []
    found = []
    for output, expected in values.items():
        actual = np.broadcast_to(value[output], expected.shape)
        if not same(actual, expected):
            found.append(Fault("torch value", f"{output}: {say(actual, expected)}"))
    for pair, expected in jacobians.items():
        if np.all(np.isfinite(expected)) and not same(truth[pair], expected, 1e-8):
            found.append(Fault("torch", f"d{pair[0]}/d{pair[1]}: {say(truth[pair], expected)}"))
    return found


# ------------------------------------------------------------ structure and formula, as text


def expanded(block: Any, shape: tuple[int, ...], lookups: Any, known: Mapping[str, int]) -> Any:
    """Return the dense array that structure and compact() tell of."""
    structure = block.structure
    compact = block.compact()
    if structure == "no structural zeros":
        return compact
    if structure.startswith("0:"):
        return np.broadcast_to(np.zeros(()), shape) if np.all(compact == 0) else compact
    return _summed(structure, {"C": compact}, block.axes, shape, lookups, known)


def rebuilt(
    block: Any, shape: tuple[int, ...], lookups: Any, known: Mapping[str, int],
    sign: Any = np.asarray,
) -> Any:  # fmt: skip
    """Return the dense array that the formula makes of the factors, or of their absolute values."""
    if block.formula == "0":
        return np.zeros(shape)
    factors = {n: sign(f) for n, f in block.factors().items()}
    return _summed(block.formula, factors, block.axes, shape, lookups, known)


def _summed(
    formula: str, factors: Any, axes: Any, shape: Any, lookups: Any, known: Mapping[str, int]
) -> Any:
    places = {
        letter: np.arange(size).reshape([-1 if n == k else 1 for k in range(len(shape))])
        for n, (letter, size) in enumerate(zip(axes, shape, strict=True))
    }
    total = np.zeros(shape)
    for term in _split(formula, " + "):
        product = np.ones(shape)
        for factor in _split(term, " * "):
            match = re.fullmatch(r"([\w]+)(?:[\[(](.*)[\])])?", factor)
            assert match, factor
            at = [_position(p, places, lookups, known) for p in _split(match[2] or "", ", ") if p]
            if match[1] == "delta":
                product = product * (at[0] == at[1])
            else:
                array = np.asarray(factors[match[1]])
                assert array.ndim == len(at), f"{factor} of an array of {array.ndim} axes"
                product = product * (array[tuple(np.broadcast_arrays(*at))] if at else array)
        total = total + product
    return total


def _split(text: str, mark: str) -> list[str]:
    """Split where no bracket is open."""
    pieces, depth, start = [], 0, 0
    for n, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if depth == 0 and text.startswith(mark, n):
            pieces.append(text[start:n])
            start = n + len(mark)
    return [*pieces, text[start:]]


def _position(text: str, places: Any, lookups: Any, known: Mapping[str, int]) -> Any:
    tree = compile(text, "", "eval")
    return eval(tree, {"__builtins__": {}}, {**known, **_Reads.all(lookups), **places})


class _Reads:
    """`t[b, i]` of index arrays in a position, broadcast as numpy does."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @staticmethod
    def all(lookups: Mapping[str, Any]) -> dict[str, Any]:
        return {n: _Reads(a) if a.ndim else a for n, a in lookups.items()}

    def __getitem__(self, at: Any) -> Any:
        at = at if isinstance(at, tuple) else (at,)
        # beside the array other factors are zero
        inside = [np.clip(p, 0, size - 1) for p, size in zip(at, self.array.shape, strict=True)]
        return self.array[tuple(np.broadcast_arrays(*inside))]


__all__ = ["Fault", "Refused", "expanded", "faults", "rebuilt"]
