"""Logarithms, powers and roots with their slopes.

float -> float
log(2^k m) = k log 2 + 2 artanh((m - 1)/(m + 1)); coefficients are printed by tools/constants.py.
"""

from __future__ import annotations

import numpy as np

from symgrad.functions.inlined import inline


@inline
def log(z: float) -> float:
    """Return the natural logarithm; -inf at 0, nan below."""
    tiny = z < 2.2250738585072014e-308
    bits = np.float64(z * 18014398509481984.0 if tiny else z).view(np.int64)
    # the mantissa is taken from sqrt(1/2) to sqrt(2), so that log(1 + small) keeps its digits
    k = (bits - 4604544271217802189) >> 52
    m = np.int64(bits - (k << 52)).view(np.float64)
    whole = np.float64(k) - (54.0 if tiny else 0.0)
    s = (m - 1.0) / (m + 1.0)
    w = s * s
    q = 0.1308723619665962
    q = q * w + 0.13268714792348096
    q = q * w + 0.15386241881938595
    q = q * w + 0.18181795600060793
    q = q * w + 0.22222222392089008
    q = q * w + 0.28571428570801954
    q = q * w + 0.4000000000000088
    q = q * w + 0.6666666666666666
    value = whole * 0.6931471803691238 + ((s * w * q + whole * 1.9082149292705877e-10) + (s + s))
    value = value if z > 0.0 else (-np.inf if z == 0.0 else np.nan)
    return value if z < np.inf else z


@inline
def log1p(z: float) -> float:
    """Return log(1 + z): what rounding 1 + z lost is put back."""
    u = np.float64(1.0 + z)
    value = log(u) + (z - (u - 1.0)) / u
    value = value if u > 0.0 else (-np.inf if u == 0.0 else np.nan)
    return z if z == 0.0 or u == np.inf else value


@inline
def log_slope(z: float) -> float:
    """Return 1/z where log(z) is real."""
    return np.nan if z < 0.0 else 1.0 / np.float64(z)


@inline
def log_curvature(z: float) -> float:
    """Return -1/z^2 where log(z) is real."""
    w = np.nan if z < 0.0 else 1.0 / np.float64(z)
    return -w * w


@inline
def log1p_slope(z: float) -> float:
    """Return 1/(1 + z) where log(1 + z) is real."""
    return np.nan if z < -1.0 else 1.0 / np.float64(1.0 + z)


@inline
def log1p_curvature(z: float) -> float:
    """Return -1/(1 + z)^2 where log(1 + z) is real."""
    w = np.nan if z < -1.0 else 1.0 / np.float64(1.0 + z)
    return -w * w


@inline
def log2_slope(z: float) -> float:
    """Return 1/(z log 2)."""
    return np.nan if z < 0.0 else 1.4426950408889634 / np.float64(z)


@inline
def log2_curvature(z: float) -> float:
    """Return -1/(z^2 log 2)."""
    w = np.nan if z < 0.0 else 1.0 / np.float64(z)
    return (-1.4426950408889634 * w) * w


@inline
def log10_slope(z: float) -> float:
    """Return 1/(z log 10)."""
    return np.nan if z < 0.0 else 0.4342944819032518 / np.float64(z)


@inline
def log10_curvature(z: float) -> float:
    """Return -1/(z^2 log 10)."""
    w = np.nan if z < 0.0 else 1.0 / np.float64(z)
    return (-0.4342944819032518 * w) * w


@inline
def sqrt_slope(z: float) -> float:
    """Return 1/(2 sqrt(z))."""
    return 0.5 / np.sqrt(np.float64(z))


@inline
def sqrt_curvature(z: float) -> float:
    """Return -1/(4 z sqrt(z))."""
    w = 0.5 / np.sqrt(np.float64(z))
    return -w / np.float64(z + z)


@inline
def cbrt_slope(z: float) -> float:
    """Return 1/(3 cbrt(z)^2)."""
    root = np.cbrt(np.float64(z))
    return 1.0 / (3.0 * root * root)


@inline
def cbrt_curvature(z: float) -> float:
    """Return -2/(9 z cbrt(z)^2)."""
    root = np.cbrt(np.float64(z))
    return -2.0 / (9.0 * root * root) / np.float64(z)


@inline
def square(z: float) -> float:
    """Return z^2."""
    return z * z


@inline
def reciprocal(z: float) -> float:
    """Return 1/z."""
    return 1.0 / np.float64(z)


@inline
def reciprocal_slope(z: float) -> float:
    """Return -1/z^2."""
    w = 1.0 / np.float64(z)
    return -w * w


@inline
def reciprocal_curvature(z: float) -> float:
    """Return 2/z^3."""
    w = 1.0 / np.float64(z)
    return (w + w) * w * w


@inline
def power(a: float, p: float) -> float:
    """Return a^p as IEEE 754 has it: 1 for p = 0, nan for a < 0 and p no integer."""
    return np.float64(a) ** np.float64(p)


@inline
def power_slope_0(a: float, p: float) -> float:
    """Return p a^(p-1), 0 for p = 0."""
    return 0.0 if p == 0.0 else p * np.float64(a) ** np.float64(p - 1.0)


@inline
def power_slope_1(a: float, p: float) -> float:
    """Return a^p log(a), 0 for a = 0 and p >= 0."""
    value = np.float64(a) ** np.float64(p) * log(a)
    return 0.0 if a == 0.0 and p >= 0.0 else value


@inline
def power_slope_00(a: float, p: float) -> float:
    """Return p (p-1) a^(p-2), 0 for p = 0 and p = 1."""
    value = p * (p - 1.0) * np.float64(a) ** np.float64(p - 2.0)
    return 0.0 if p == 0.0 or p == 1.0 else value


@inline
def power_slope_01(a: float, p: float) -> float:
    """Return a^(p-1) (1 + p log(a)), 0 for a = 0 and p > 1."""
    value = np.float64(a) ** np.float64(p - 1.0) * (1.0 + p * log(a))
    return 0.0 if a == 0.0 and p > 1.0 else value


@inline
def power_slope_11(a: float, p: float) -> float:
    """Return a^p log(a)^2, 0 for a = 0 and p >= 0."""
    value = np.float64(a) ** np.float64(p) * log(a) * log(a)
    return 0.0 if a == 0.0 and p >= 0.0 else value


@inline
def ratio_or_zero(a: float, b: float) -> float:
    """Return a/b, 0 where b is 0."""
    return 0.0 if b == 0.0 else a / np.float64(b)


@inline
def ratio_or_zero_slope_0(a: float, b: float) -> float:
    """Return 1/b, 0 where b is 0."""
    return 0.0 if b == 0.0 else 1.0 / np.float64(b)


@inline
def ratio_or_zero_slope_1(a: float, b: float) -> float:
    """Return -a/b^2, 0 where b is 0."""
    return 0.0 if b == 0.0 else -(a / np.float64(b)) / np.float64(b)
