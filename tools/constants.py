"""Print the polynomial coefficients that stand in symgrad/functions/scalars, with their errors.

() -> text
Chebyshev interpolation in 60 digits (mpmath), rounded to double; run it to see where they are from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mpmath import mp

mp.dps = 60


@dataclass(frozen=True, slots=True)
class Fit:
    """A function, the interval it is approximated on, and the number of coefficients."""

    name: str
    function: Callable[[Any], Any]
    low: Any
    high: Any
    count: int


def _expm1_rest(r: Any) -> Any:
    return (mp.expm1(r) - r) / (r * r) if r else mp.mpf(1) / 2


def _log_rest(w: Any) -> Any:
    s = mp.sqrt(w)
    return 2 * (mp.atanh(s) / s - 1) / w if w else mp.mpf(2) / 3


def _tanhshrink_rest(w: Any) -> Any:
    z = mp.sqrt(w)
    return (z - mp.tanh(z)) / (z * w) if w else mp.mpf(1) / 3


def _root_of_digamma() -> Any:
    return mp.findroot(mp.digamma, mp.mpf("1.4616321449683623"))


def _digamma_quotient(z: Any) -> Any:
    root = _root_of_digamma()
    return mp.digamma(z) / (z - root) if z != root else mp.psi(1, root)


def _lgamma_quotient(z: Any) -> Any:
    return mp.loggamma(z) / ((z - 1) * (z - 2))


FITS = (
    Fit("expm1: (expm1(r) - r)/r^2 in r", _expm1_rest, -mp.log(2) / 2, mp.log(2) / 2, 10),
    Fit("log: 2(atanh(s)/s - 1)/s^2 in s^2", _log_rest, mp.mpf(0), mp.mpf("0.02945"), 8),
    Fit("log1p on 0..1: the same in s^2", _log_rest, mp.mpf(0), mp.mpf(1) / 9, 12),
    Fit("tanhshrink: (z - tanh z)/z^3 in z^2", _tanhshrink_rest, mp.mpf(0), mp.mpf("0.36"), 11),
    Fit("digamma/(z - root) in z - 1.5", lambda u: _digamma_quotient(u + 1.5), -0.5, 0.5, 21),
    Fit("lgamma/((z-1)(z-2)) in z - 1.5", lambda u: _lgamma_quotient(u + 1.5), -0.75, 1.0, 34),
)


def main() -> None:
    """Print every fit, lowest power first."""
    for fit in FITS:
        coefficients, error = mp.chebyfit(fit.function, [fit.low, fit.high], fit.count, error=True)
        print(f"{fit.name}: error {mp.nstr(error, 3)}")
        for c in reversed(coefficients):
            print(f"    {float(c)!r},")
    root = _root_of_digamma()
    print("root of digamma:", repr(float(root)), "+", repr(float(root - mp.mpf(float(root)))))
    log2 = mp.log(2)
    high = mp.mpf(int(log2 * 2**32)) / 2**32
    print("log 2:", repr(float(high)), "+", repr(float(log2 - high)))


if __name__ == "__main__":
    main()
