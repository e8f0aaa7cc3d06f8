"""Gamma functions: recurrence to large arguments, then Stirling's series; reflection below 0.

Coefficients of the series are Bernoulli numbers, those of lgamma come from tools/polynomials.py.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, D402

import math

import numpy as np

from symgrad.functions.numerics import inline
from symgrad.functions.numerics.exponential import log, log1p


@inline
def gamma_function(z):
    """Return gamma(z): inf from 171.6 on, nan at the poles below 0."""
    z = np.float64(z)
    if z > 171.6243769563027:
        return np.inf
    if abs(z) < 1e-300:
        return 1.0 / z
    if z < 0.0 and (z == np.floor(z) or z < -1e15):
        return np.nan
    return np.float64(math.gamma(z))


@inline
def gamma_slope(z):
    """Return gamma'(z) = gamma(z) digamma(z)."""
    return gamma_function(z) * digamma(z)


@inline
def lgamma_positive(z):
    """Return log(gamma(z)), z >= 0: d (d - 1) p(d) on [1, 2], recurrence, Stirling from 10."""
    if z >= 10.0:
        w = 1.0 / z
        w = w * w
        p = -0.0019175269175269176
        p = p * w + 0.0008417508417508417
        p = p * w - 0.0005952380952380953
        p = p * w + 0.0007936507936507937
        p = p * w - 0.002777777777777778
        p = p * w + 0.08333333333333333
        return (z - 0.5) * (log(z) - 1.0) + 0.4189385332046727 + p / z
    d = z if z < 1.0 else z - 1.0
    shift = log(z) if z < 1.0 else 0.0
    product = 1.0
    while d > 2.0:
        product *= d
        d -= 1.0
    rest = 0.0
    if d > 1.0:
        d -= 1.0
        rest = log1p(d)
    p = 5.1046182161001864e-06
    p = p * d - 6.412167369659485e-05
    p = p * d + 0.0003836157004792754
    p = p * d - 0.0014604876715712317
    p = p * d + 0.003996690356391307
    p = p * d - 0.008442227196988863
    p = p * d + 0.01448936567667992
    p = p * d - 0.02110047983607859
    p = p * d + 0.027152349716737766
    p = p * d - 0.032097730495708306
    p = p * d + 0.03609248636789441
    p = p * d - 0.03966224019740984
    p = p * d + 0.043339857638184334
    p = p * d - 0.04752880628077319
    p = p * d + 0.05255406110070427
    p = p * d - 0.058777667470402806
    p = p * d + 0.0667317036225764
    p = p * d - 0.07731816695435863
    p = p * d + 0.09223900839673513
    p = p * d - 0.11514654256202178
    p = p * d + 0.1554342658639254
    p = p * d - 0.2452513685225802
    p = p * d + 0.5772156649015329
    return d * (d - 1.0) * p + rest + log(product) - shift


@inline
def lgamma(z):
    """Return log|gamma(z)|; below 0 log(pi/|z sin(pi z)|) - lgamma(-z), inf at the poles."""
    z = np.float64(z)
    x = abs(z)
    if not x < np.inf:
        return x
    value = lgamma_positive(x)
    if z > 0.0:
        return value
    part = x - np.floor(x)
    return log(3.141592653589793 / np.float64(x * np.sin(3.141592653589793 * part))) - value


@inline
def digamma(z):
    """Return digamma(z) = log(z) - 1/2z - ..., after digamma(z) = digamma(z + 1) - 1/z."""
    z = np.float64(z)
    if z <= 0.0:
        if z == np.floor(z):
            return np.nan if z < 0.0 else -1.0 / z
        part = z - np.floor(z)
        cotangent = np.cos(3.141592653589793 * part) / np.sin(3.141592653589793 * part)
        return digamma_positive(1.0 - z) - 3.141592653589793 * cotangent
    return digamma_positive(z)


@inline
def digamma_positive(z):
    """Return digamma(z) for z > 0 by recurrence and Stirling's series from 10 on."""
    total = 0.0
    while z < 10.0:
        total -= 1.0 / z
        z += 1.0
    w = 1.0 / z
    w = w * w
    p = 0.08333333333333333
    p = p * w - 0.021092796092796094
    p = p * w + 0.007575757575757576
    p = p * w - 0.004166666666666667
    p = p * w + 0.003968253968253968
    p = p * w - 0.008333333333333333
    p = p * w + 0.08333333333333333
    return total + (log(z) - 0.5 / z - w * p)


@inline
def trigamma(z):
    """Return digamma'(z) = 1/z + 1/2z^2 + 1/6z^3 - ..., after the recurrence in 1/z^2."""
    z = np.float64(z)
    below = z < 0.5
    x = 1.0 - z if below else z
    total = 0.0
    if below and z > 0.0:
        total = 1.0 / z / z
        x = z + 1.0
    while x < 12.0:
        total += 1.0 / (x * x)
        x += 1.0
    w = 1.0 / x
    q = w * w
    p = 1.1666666666666667
    p = p * q - 0.2531135531135531
    p = p * q + 0.07575757575757576
    p = p * q - 0.03333333333333333
    p = p * q + 0.023809523809523808
    p = p * q - 0.03333333333333333
    p = p * q + 0.16666666666666666
    total += w + 0.5 * q + w * q * p
    if z > 0.0 or np.isnan(z):
        return total
    s = np.sin(3.141592653589793 * (z - np.floor(z)))
    ratio = 3.141592653589793 / np.float64(s)
    return ratio * ratio - total
