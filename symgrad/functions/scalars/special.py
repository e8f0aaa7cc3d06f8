"""The error function, gelu, and the gamma family for positive arguments.

float -> float
Coefficients are printed by tools/constants.py; asymptotic series are the textbook ones.
"""

from __future__ import annotations

import math

import numpy as np

from symgrad.functions.inlined import inline
from symgrad.functions.scalars.exponential import exp
from symgrad.functions.scalars.logarithm import log


@inline
def erf_slope(z: float) -> float:
    """Return 2/sqrt(pi) exp(-z^2)."""
    return 1.1283791670955126 * exp(-z * z)


@inline
def erf_curvature(z: float) -> float:
    """Return -4 z/sqrt(pi) exp(-z^2)."""
    y = 40.0 if z > 40.0 else z
    y = -40.0 if y < -40.0 else y
    h = exp(-0.5 * y * y)
    return (-2.2567583341910252 * y * h) * h


@inline
def erfc_slope(z: float) -> float:
    """Return -2/sqrt(pi) exp(-z^2)."""
    return -erf_slope(z)


@inline
def erfc_curvature(z: float) -> float:
    """Return 4 z/sqrt(pi) exp(-z^2)."""
    return -erf_curvature(z)


@inline
def mills_times(z: float) -> float:
    """Return |z| Phi(-|z|)/phi(z) for |z| >= 16: 1 - 1/z^2 + 3/z^4 - 15/z^6 + ..."""
    w = 1.0 / np.float64(z * z)
    total = 1.0 - 21.0 * w
    for odd in (19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0):
        total = 1.0 - odd * w * total
    return total


@inline
def gelu(z: float) -> float:
    """Return z Phi(z) with the normal distribution function Phi; 0 at -inf."""
    y = -50.0 if z < -50.0 else z
    if y < -16.0:
        h = exp(-0.25 * y * y)
        return -(mills_times(y) * 0.3989422804014327 * h) * h
    return 0.5 * z * math.erfc(-0.7071067811865476 * z)


@inline
def gelu_slope(z: float) -> float:
    """Return Phi(z) + z phi(z)."""
    y = -50.0 if z < -50.0 else z
    y = 50.0 if y > 50.0 else y
    h = exp(-0.25 * y * y)
    if y < -16.0:
        return ((y - mills_times(y) / y) * 0.3989422804014327 * h) * h
    return 0.5 * math.erfc(-0.7071067811865476 * y) + (y * 0.3989422804014327 * h) * h


@inline
def gelu_curvature(z: float) -> float:
    """Return (2 - z^2) phi(z)."""
    y = -50.0 if z < -50.0 else z
    y = 50.0 if y > 50.0 else y
    h = exp(-0.25 * y * y)
    return ((2.0 - y * y) * 0.3989422804014327 * h) * h


@inline
def gamma(z: float) -> float:
    """Return Gamma(z); inf where it is too large, nan at the poles."""
    if z >= 171.62437695630272 or abs(z) < 5.56268464626801e-309:
        return np.inf
    if z < 0.0 and z == np.floor(z):
        return np.nan
    return math.gamma(z)


@inline
def gamma_slope(z: float) -> float:
    """Return Gamma(z) psi(z)."""
    return gamma(z) * digamma(z)


@inline
def gamma_curvature(z: float) -> float:
    """Return Gamma(z) (psi(z)^2 + psi'(z))."""
    psi = digamma(z)
    return gamma(z) * (psi * psi + digamma_slope(z))


@inline
def lgamma(z: float) -> float:
    """Return log |Gamma(z)|; near its zeros 1 and 2 by (z-1)(z-2) times a polynomial."""
    if 0.75 <= z <= 2.5:
        u = z - 1.5
        q = -2.156928563433594e-08
        q = q * u + 1.2489934095100958e-07
        q = q * u - 2.4115878177207206e-07
        q = q * u + 6.243020554006045e-08
        q = q * u + 3.301307651812889e-07
        q = q * u - 1.2203006701519423e-07
        q = q * u - 7.771573415066561e-07
        q = q * u + 1.0854686206265949e-06
        q = q * u - 4.981833211101529e-07
        q = q * u + 5.255628297499251e-07
        q = q * u - 1.756658910322849e-06
        q = q * u + 3.134544749446543e-06
        q = q * u - 4.400302981162077e-06
        q = q * u + 6.606238951597016e-06
        q = q * u - 1.0567268091146495e-05
        q = q * u + 1.6775030326577154e-05
        q = q * u - 2.6422693192148948e-05
        q = q * u + 4.1767282677466174e-05
        q = q * u - 6.63076404730369e-05
        q = q * u + 0.00010562502070808965
        q = q * u - 0.0001688953602075853
        q = q * u + 0.000271276968967596
        q = q * u - 0.00043799499755595747
        q = q * u + 0.000711522265613219
        q = q * u - 0.0011644144838394794
        q = q * u + 0.0019229161400812899
        q = q * u - 0.003212074076713852
        q = q * u + 0.005446457844550576
        q = q * u - 0.009425622448483217
        q = q * u + 0.016797098631187002
        q = q * u - 0.031308487501010826
        q = q * u + 0.06291140107456494
        q = q * u - 0.14595989591430608
        q = q * u + 0.4831289505409809
        return (z - 1.0) * (z - 2.0) * q
    if z > 2.5e305 or (z <= 0.0 and z == np.floor(z)):
        return np.inf
    return math.lgamma(z)


@inline
def digamma(z: float) -> float:
    """Return psi(z): near its zero by a polynomial, above by recurrence and Stirling's series."""
    if z <= 0.0 and z == np.floor(z):
        return np.nan
    # psi(z) = psi(1 - z) - pi/tan(pi z)
    total = -math.pi / np.tan(math.pi * np.float64(z)) if z < 0.0 else 0.0
    x = np.float64(1.0 - z if z < 0.0 else z)
    if x < 1.0:
        total -= 1.0 / x
        x += 1.0
    if x <= 2.0:
        u = x - 1.5
        q = 0.0002522590506964885
        q = q * u - 0.0003783907897248858
        q = q * u + 0.00023650171719339814
        q = q * u - 0.00035476352053371977
        q = q * u + 0.0007184107969046378
        q = q * u - 0.0010776863967234226
        q = q * u + 0.0015580749137213761
        q = q * u - 0.002337552647103118
        q = q * u + 0.0035187504361950134
        q = q * u - 0.005280903066090605
        q = q * u + 0.007926972735646359
        q = q * u - 0.011908146513976738
        q = q * u + 0.017907250563619775
        q = q * u - 0.026975800029253667
        q = q * u + 0.0407608338843387
        q = q * u - 0.06192213319072707
        q = q * u + 0.09498872445354183
        q = q * u - 0.14840492305485808
        q = q * u + 0.24054248424078478
        q = q * u - 0.4236274212814573
        q = q * u + 0.9510558760318328
        root = (x - 1.4616321449683622) - 9.549995429965697e-17
        return total + root * q
    while x < 10.0:
        total -= 1.0 / x
        x += 1.0
    w = 1.0 / (x * x)
    series = w / 12.0 - 691.0 / 32760.0
    series = w * (1.0 / 132.0 + w * series)
    series = w * (1.0 / 252.0 - w * (1.0 / 240.0 - series))
    series = w * (1.0 / 12.0 - w * (1.0 / 120.0 - series))
    return total + (log(x) - 0.5 / x - series)


@inline
def digamma_slope(z: float) -> float:
    """Return psi'(z) by recurrence and Stirling's series."""
    if z <= 0.0 and z == np.floor(z):
        return np.nan
    # psi'(z) = (pi/sin(pi z))^2 - psi'(1 - z)
    sign = -1.0 if z < 0.0 else 1.0
    over = math.pi / np.sin(math.pi * np.float64(z)) if z < 0.0 else 0.0
    total = 0.0
    x = np.float64(1.0 - z if z < 0.0 else z)
    while x < 12.0:
        total += (1.0 / x) * (1.0 / x)
        x += 1.0
    v = 1.0 / x
    w = v * v
    series = w * (7.0 / 6.0 - w * (3617.0 / 510.0))
    series = w * (5.0 / 66.0 - w * (691.0 / 2730.0 - series))
    series = w * (1.0 / 42.0 - w * (1.0 / 30.0 - series))
    series = w * (1.0 / 6.0 - w * (1.0 / 30.0 - series))
    return over * over + sign * (total + v * (1.0 + 0.5 * v + series))


@inline
def digamma_curvature(z: float) -> float:
    """Return psi''(z) for z > 0, nan elsewhere."""
    if z <= 0.0:
        return np.nan
    total = 0.0
    x = np.float64(z)
    while x < 14.0:
        total += 2.0 * (1.0 / x) * (1.0 / x) * (1.0 / x)
        x += 1.0
    v = 1.0 / x
    w = v * v
    series = w * (35.0 / 2.0 - w * (3617.0 / 30.0))
    series = w * (5.0 / 6.0 - w * (691.0 / 210.0 - series))
    series = w * (1.0 / 6.0 - w * (3.0 / 10.0 - series))
    series = w * (1.0 / 2.0 - w * (1.0 / 6.0 - series))
    return -(total + w * (1.0 + v + series))
