"""Print the polynomial coefficients that stand in `symgrad/functions/numerics`.

function, interval, degree -> coefficients, highest power first, as Horner lines
Near-minimax: interpolation at Chebyshev nodes in 60 digits; the largest relative error is printed
beside each. Run `python tools/polynomials.py` and compare with the sources.
"""

# ruff: noqa: INP001
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
from mpmath import mp

Real = Any


@dataclass(frozen=True)
class Fit:
    """A function to be approximated by a polynomial of `degree` on [low, high]."""

    name: str
    function: Callable[[Real], Real]
    low: Real
    high: Real
    degree: int
    variable: str
    single: bool = False  # whether for float32


def coefficients(fit: Fit) -> tuple[list[Real], Real]:
    """Return coefficients, highest power first, and the largest relative error on a grid."""
    middle, half = (mp.mpf(fit.high) + fit.low) / 2, (mp.mpf(fit.high) - fit.low) / 2
    count = fit.degree + 1
    nodes = [middle + half * mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]
    matrix = mpmath.matrix(count, count)
    for row, node in enumerate(nodes):
        for column in range(count):
            matrix[row, column] = node ** (fit.degree - column)
    found = list(mpmath.lu_solve(matrix, mpmath.matrix([fit.function(node) for node in nodes])))
    grid = [fit.low + (mp.mpf(fit.high) - fit.low) * (k + mp.mpf(1) / 3) / 200 for k in range(200)]
    worst = max(abs(mp.polyval(found, g) / fit.function(g) - 1) for g in grid)
    return found, worst


def exponential(r: Real) -> Real:
    """Return (exp(r) - 1 - r) / r^2."""
    return mp.mpf(1) / 2 + r / 6 if abs(r) < mp.mpf("1e-20") else (mp.expm1(r) - r) / r**2


def logarithm(w: Real) -> Real:
    """Return (artanh(s)/s - 1) / w, w = s^2."""
    s = mp.sqrt(w)
    return (mp.atanh(s) / s - 1) / w


def logarithm_rest(f: Real) -> Real:
    """Return (log(1 + f) - f + f^2/2) / f^3."""
    return mp.mpf(1) / 3 if f == 0 else (mp.log1p(f) - f + f * f / 2) / f**3


def logarithm_ratio(e: Real) -> Real:
    """Return log(1 + e) / e."""
    return mp.mpf(1) if e == 0 else mp.log1p(e) / e


def tanh_remainder(w: Real) -> Real:
    """Return (z - tanh(z)) / z^3, w = z^2."""
    z = mp.sqrt(w)
    return (z - mp.tanh(z)) / z**3


def erf_ratio(w: Real) -> Real:
    """Return erf(x)/x, w = x^2."""
    x = mp.sqrt(w)
    return mp.erf(x) / x


def scaled_erfc(t: Real) -> Real:
    """Return (1 + 2x) exp(x^2) erfc(x), t = (x - 4)/(x + 4) for x >= 0.

    The mapping is that of Shepherd and Laframboise, Math. Comp. 36 (1981).
    """
    x = 4 * (1 + t) / (1 - t)
    if x > 60:
        series = mp.nsum(lambda k: mp.fac2(2 * k - 1) / (-2 * x * x) ** k, [0, 25])
        return (1 + 2 * x) / (x * mp.sqrt(mp.pi)) * series
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def lgamma_ratio(d: Real) -> Real:
    """Return log(gamma(1 + d)) / (d (d - 1))."""
    return mp.loggamma(1 + d) / (d * (d - 1))


FITS = (
    Fit("exp: (exp(r) - 1 - r)/r^2", exponential, -mp.log(2) / 2, mp.log(2) / 2, 9, "r"),
    Fit("log: (artanh(s)/s - 1)/s^2", logarithm, 0, mp.mpf("0.02945"), 7, "w"),
    Fit("log1p_unit: (artanh(s)/s - 1)/s^2", logarithm, 0, mp.mpf(1) / 9, 11, "w"),
    Fit("tanhshrink: (z - tanh(z))/z^3", tanh_remainder, 0, mp.mpf("0.25"), 9, "w"),
    Fit("erf: erf(x)/x", erf_ratio, 0, mp.mpf("0.36"), 9, "w"),
    Fit("scaled_erfc: (1 + 2x) exp(x^2) erfc(x)", scaled_erfc, -1, 1, 23, "t"),
    Fit("lgamma: log(gamma(1 + d))/(d(d - 1))", lgamma_ratio, 0, 1, 22, "d"),
    Fit("exp, float32", exponential, -mp.log(2) / 2, mp.log(2) / 2, 4, "r", single=True),
    Fit(
        "log, float32: (log(1 + f) - f + f^2/2)/f^3",
        logarithm_rest, mp.sqrt(0.5) - 1, mp.sqrt(2) - 1, 7, "f", single=True,
    ),
    Fit("log1p_unit, float32: log(1 + e)/e", logarithm_ratio, 0, 1, 9, "e", single=True),
    Fit("erf, float32: erf(x)/x", erf_ratio, 0, mp.mpf("0.36"), 5, "w", single=True),
    Fit("scaled_erfc, float32", scaled_erfc, -1, 1, 12, "t", single=True),
)  # fmt: skip


def split(value: Real, bits: int) -> tuple[Real, Real]:
    """Return a value as a number of few bits, whose small multiples are exact, and the rest."""
    high = mp.floor(value * 2**bits) / 2**bits
    return high, value - high


def digits(value: Real, single: bool) -> str:
    """Return the shortest decimals that are the float64 or the float32 next to a value."""
    return str(np.float32(float(value))) if single else repr(float(value))


def horner(fit: Fit) -> tuple[list[str], Real]:
    """Return the lines that evaluate the polynomial, and its largest relative error."""
    found, worst = coefficients(fit)
    lines = [f"p = {digits(found[0], fit.single)}"]
    for value in found[1:]:
        sign = "-" if value < 0 else "+"
        lines.append(f"p = p * {fit.variable} {sign} {digits(abs(value), fit.single)}")
    return lines, worst


def constants() -> dict[str, str]:
    """Return the other constants of the reductions, in digits."""
    found = {}
    for name, value in (("log(2)", mp.log(2)), ("log10(2)", mp.log10(2))):
        found[name], found[f"{name}, rest"] = (digits(v, single=False) for v in split(value, 33))
    high, low = split(mp.log(2), 13)
    found["log(2), float32"] = digits(high, single=True)
    found["log(2), float32, rest"] = digits(low, single=True)
    found["1/log(2)"] = digits(1 / mp.log(2), single=False)
    found["1/log(2), float32"] = digits(1 / mp.log(2), single=True)
    return found


def main() -> None:
    """Print everything."""
    mp.dps = 60
    for name, text in constants().items():
        print(f"{name} = {text}")
    for fit in FITS:
        lines, worst = horner(fit)
        interval = f"[{mp.nstr(fit.low, 5)}, {mp.nstr(fit.high, 5)}]"
        print(f"\n# {fit.name} on {interval}: {mp.nstr(worst, 2)}", *lines, sep="\n")


if __name__ == "__main__":
    main()
