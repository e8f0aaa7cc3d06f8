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
    return mp.mpf(1) / 2 if r == 0 else (mp.expm1(r) - r) / r**2


def logarithm(w: Real) -> Real:
    """Return (artanh(s)/s - 1) / w, w = s^2."""
    s = mp.sqrt(w)
    return (mp.atanh(s) / s - 1) / w


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
)


def split_log2(bits: int = 33) -> tuple[Real, Real]:
    """Return log(2) as a number of few bits, whose small multiples are exact, and the rest."""
    high = mp.floor(mp.log(2) * 2**bits) / 2**bits
    return high, mp.log(2) - high


def main() -> None:
    """Print everything."""
    mp.dps = 60
    high, low = split_log2()
    print(f"log(2) = {float(high)!r} + {float(low)!r}")
    for fit in FITS:
        found, worst = coefficients(fit)
        interval = f"[{mp.nstr(fit.low, 5)}, {mp.nstr(fit.high, 5)}]"
        print(f"\n# {fit.name} on {interval}: {mp.nstr(worst, 2)}")
        print(f"p = {float(found[0])!r}")
        for value in found[1:]:
            sign = "-" if value < 0 else "+"
            print(f"p = p * {fit.variable} {sign} {abs(float(value))!r}")


if __name__ == "__main__":
    main()
