"""How times grow: factors beside one pass of PyTorch, exponents, float32 beside float64.

sizes -> Curves
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from math import log

import numpy as np

from benchmarks.frameworks import yardstick
from benchmarks.layers import DENSE
from benchmarks.ours import dense, factors, gradient
from benchmarks.peers import NEAR, Disagreement, Verdict, difference
from benchmarks.samples import LSTM, dense_layer, lstm
from benchmarks.timing import side_by_side
from benchmarks.workload import YARDSTICK, Quantity, Run, Setting, Workload, setting
from benchmarks.workloads import WORKLOADS

FACTORS = Quantity("factors", "factors")
DENSE_OUT = Quantity("dense into out=", "dense")

RNN = {"B": 8, "n": 4, "m": 8}


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds over one size, of us and of one forward and backward pass (empty without torch).

    `exponent` is that of a power of the size fitted to the larger half of the points, `power` that
    of the bytes that result: 2 for outputs, since a dense Jacobian has them twice.
    """

    name: str
    size: str
    at: tuple[int, ...]
    ours: tuple[float, ...]
    yardstick: tuple[float, ...]
    exponent: float
    power: int

    @property
    def crossover(self) -> str:
        """Where we stop, or begin, to take less time than the yardstick."""
        if not self.yardstick:
            return "torch is not installed"
        ahead = [a <= b for a, b in zip(self.ours, self.yardstick, strict=True)]
        if all(ahead) or not any(ahead):
            return "always faster" if ahead[0] else "never faster"
        turns = [k for k in range(1, len(ahead)) if ahead[k] != ahead[k - 1]]
        ways = ("slower", "faster")
        return ", ".join(f"{ways[ahead[k]]} from {self.size}={self.at[k]}" for k in turns)


def deep(depth: int) -> tuple[str, Callable[..., object]]:
    """Return a net of equally wide tanh layers: its text, and its function for frameworks."""
    lines = ["x: input[n]", *(f"W{k}: param[n, n]" for k in range(1, depth + 1)), "h0 = x"]
    lines += [f"h{k} = tanh(W{k} @ h{k - 1})" for k in range(1, depth + 1)]

    def sample(xp: object, a: Mapping[str, object]) -> object:
        h = a["x"]
        for k in range(1, depth + 1):
            h = xp.tanh(h @ a[f"W{k}"].T)
        return h

    return "\n".join(lines), sample


def layer_of(sizes: Mapping[str, int]) -> Workload:
    """Return a dense layer by both its parameters."""
    return Workload("layer", "one dense layer", DENSE, sizes, dense_layer, ())


def depth_of(depth: int, sizes: Mapping[str, int]) -> Workload:
    text, sample = deep(depth)
    return Workload("deep", f"{depth} layers", text, sizes, sample, ())


def recurrence_of(sizes: Mapping[str, int]) -> Workload:
    return Workload("lstm", "an LSTM", LSTM, sizes, lstm, ())


def curves(*, quick: bool, seconds: float) -> list[Curve]:
    """Return all curves."""
    few = (2, 3, 5)
    outputs = few if quick else (1, 3, 10, 30, 100, 300, 1000)
    widths = few if quick else (32, 64, 128, 256, 512, 1024)
    batches = few if quick else (256, 512, 1024, 2048, 4096)
    sizes = few if quick else (16, 32, 64, 128)
    depths = few if quick else (4, 8, 16, 32)
    steps = few if quick else (16, 32, 64, 128)
    b, n, m = (3, 4, 2) if quick else (256, 64, 32)

    def layer(samples: int, inputs: int, outputs: int) -> Workload:
        return layer_of({"B": samples, "n": inputs, "m": outputs})

    def net(depth: int) -> Workload:
        return depth_of(depth, {"B": b, "n": n})

    def over_time(T: int) -> Workload:
        return recurrence_of({"B": 2, "T": T, "n": 2, "m": 3} if quick else {**RNN, "T": T})

    made = (
        ("factors over outputs", "m", FACTORS, outputs, lambda k: layer(b, n, k), 1),
        ("factors over width", "n=m", FACTORS, widths, lambda k: layer(b, k, k), 2),
        ("dense over samples", "B", DENSE_OUT, batches, lambda k: layer(k, n // 2, m // 2), 1),
        ("dense over outputs", "m", DENSE_OUT, sizes, lambda k: layer(b, n, k), 2),
        ("dense over inputs", "n", DENSE_OUT, sizes, lambda k: layer(b, k, m), 1),
        ("factors over depth", "depth", FACTORS, depths, net, 1),
        ("dense over steps of an LSTM", "T", DENSE_OUT, steps, over_time, 1),
    )
    return [curve(*one, seconds=seconds) for one in made]


def curve(
    name: str,
    size: str,
    quantity: Quantity,
    at: Iterable[int],
    make: Callable[[int], Workload],
    power: int,
    *,
    seconds: float,
) -> Curve:
    """Return the times at all sizes."""
    places = tuple(at)
    pairs = [point(setting(make(place)), quantity, seconds) for place in places]
    mine = tuple(pair[0] for pair in pairs)
    theirs = tuple(pair[1] for pair in pairs if len(pair) > 1)
    return Curve(name, size, places, mine, theirs, exponent(places, mine), power)


def point(placed: Setting, quantity: Quantity, seconds: float) -> list[float]:
    """Return our time, and that of one pass forward and backward where torch is installed."""
    form = {"factors": factors, "dense": dense}[quantity.form]
    runs: list[Run] = [form(placed, quantity)]
    if find_spec("torch"):
        theirs, mine = yardstick(placed)[YARDSTICK], gradient(placed, quantity)
        where = f"{placed.workload.title}, {YARDSTICK}"
        apart = difference(mine.numbers(mine.call()), theirs.numbers(theirs.call()), where)
        if not apart <= NEAR[placed.workload.dtype]:
            raise Disagreement(f"{where} differs from ours by {apart:.2g}")
        runs.append(theirs)
    return side_by_side(*(run.call for run in runs), seconds=seconds)


def exponent(at: Iterable[int], seconds: Iterable[float]) -> float:
    """Return p of the best fit c sizeᵖ to the larger half of the points, at least three of them."""
    points = [(log(a), log(s)) for a, s in zip(at, seconds, strict=True)]
    points = points[-max(3, (len(points) + 1) // 2) :]
    x, y = np.array(points).T
    return float(np.polyfit(x, y, 1)[0])


def growth(found: Iterable[Curve]) -> list[Verdict]:
    """Return exponents beside those of what results, and crossovers with one pass of PyTorch."""
    verdicts = []
    for one in found:
        if one.size in ("m", "n=m") and one.name.startswith("factors"):
            asked = ("crossover with one torch forward + backward", one.crossover)
            verdicts.append(Verdict("growth", one.name, *asked, None, "reported"))
            continue
        asked = (f"exponent about {one.power}", f"{one.exponent:.2f}")
        verdicts.append(Verdict("growth", one.name, *asked, one.exponent <= one.power + 0.15))
    return verdicts


def precisions(*, quick: bool, seconds: float) -> list[Verdict]:
    """Return float32 beside float64 of dense results that memory bounds."""
    found = []
    for name in ("W1a", "W3"):
        double = next(one for one in WORKLOADS if one.name == name)
        single = replace(double, dtype="float32")
        runs = [dense(setting(one, quick=quick), DENSE_OUT) for one in (single, double)]
        near = {n: np.array(a) for n, a in runs[1].numbers(runs[1].call()).items()}
        for n, a in runs[0].numbers(runs[0].call()).items():
            if a.dtype != np.float32 or not np.allclose(a, near[n], atol=1e-3):
                raise ArithmeticError(f"{name}, {n}: float32 differs from float64")
        del near
        times = side_by_side(*(run.call for run in runs), seconds=seconds)
        ratio = times[0] / times[1]
        words = ("<= 0.6 of float64", f"{ratio:.2f}")
        found.append(Verdict(name, "dense into out=, float32", *words, ratio <= 0.6))
    return found
