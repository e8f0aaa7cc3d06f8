"""Circular and hyperbolic functions: their slopes, and hypot and arctan2.

float -> float
Squares are taken of numbers near 1 only, so that nothing overflows on the way.
"""

from __future__ import annotations

import numpy as np

from symgrad.functions.inlined import inline


@inline
def tan_slope(z: float) -> float:
    """Return 1 + tan(z)^2."""
    t = np.tan(np.float64(z))
    return 1.0 + t * t


@inline
def tan_curvature(z: float) -> float:
    """Return 2 tan(z) (1 + tan(z)^2)."""
    t = np.tan(np.float64(z))
    return (t + t) * (1.0 + t * t)


@inline
def arcsin_slope(z: float) -> float:
    """Return 1/sqrt(1 - z^2)."""
    return 1.0 / np.sqrt(np.float64((1.0 - z) * (1.0 + z)))


@inline
def arcsin_curvature(z: float) -> float:
    """Return z (1 - z^2)^(-3/2)."""
    gap = np.float64((1.0 - z) * (1.0 + z))
    return z / (gap * np.sqrt(gap))


@inline
def arccos_slope(z: float) -> float:
    """Return -1/sqrt(1 - z^2)."""
    return -arcsin_slope(z)


@inline
def arccos_curvature(z: float) -> float:
    """Return -z (1 - z^2)^(-3/2)."""
    return -arcsin_curvature(z)


@inline
def arctan_slope(z: float) -> float:
    """Return 1/(1 + z^2), through 1/z for large z."""
    large = abs(z) > 1.0
    w = 1.0 / np.float64(z if large else 1.0)
    return w * w / (1.0 + w * w) if large else 1.0 / np.float64(1.0 + z * z)


@inline
def arctan_curvature(z: float) -> float:
    """Return -2z/(1 + z^2)^2."""
    large = abs(z) > 1.0
    w = 1.0 / np.float64(z if large else 1.0)
    d = w * w / (1.0 + w * w)
    return -2.0 * w * d / (1.0 + w * w) if large else -2.0 * z * arctan_slope(z) ** 2


@inline
def arcsinh_slope(z: float) -> float:
    """Return 1/sqrt(1 + z^2)."""
    return 1.0 / np.hypot(1.0, np.float64(z))


@inline
def arcsinh_curvature(z: float) -> float:
    """Return -z (1 + z^2)^(-3/2)."""
    h = np.hypot(1.0, np.float64(z))
    return -(z / h) / h / h


@inline
def arccosh_slope(z: float) -> float:
    """Return 1/sqrt(z^2 - 1) for z > 1."""
    return 1.0 / (np.sqrt(np.float64(z - 1.0)) * np.sqrt(np.float64(z + 1.0)))


@inline
def arccosh_curvature(z: float) -> float:
    """Return -z (z^2 - 1)^(-3/2) for z > 1."""
    root = np.sqrt(np.float64(z - 1.0)) * np.sqrt(np.float64(z + 1.0))
    return -(z / root) / root / root


@inline
def arctanh_slope(z: float) -> float:
    """Return 1/(1 - z^2) for |z| <= 1."""
    gap = np.float64((1.0 - z) * (1.0 + z))
    return np.nan if gap < 0.0 else 1.0 / gap


@inline
def arctanh_curvature(z: float) -> float:
    """Return 2z/(1 - z^2)^2 for |z| <= 1."""
    gap = np.float64((1.0 - z) * (1.0 + z))
    return np.nan if gap < 0.0 else (z + z) / (gap * gap)


@inline
def unit_of_scale(a: float, b: float) -> float:
    """Return a power-free scale: the larger of |a|, |b|; nan wins, 0 and inf give 1."""
    large = abs(a) if abs(a) > abs(b) or a != a else abs(b)
    return 1.0 if large == 0.0 or large == np.inf else large


@inline
def hypot_slope_0(a: float, b: float) -> float:
    """Return a/hypot(a, b), 0 at the origin."""
    m = np.float64(unit_of_scale(a, b))
    p, q = a / m, b / m
    value = p / np.sqrt(np.float64(p * p + q * q))
    value = np.sign(a) if abs(a) == np.inf and abs(b) < np.inf else value
    return 0.0 if a == 0.0 and b == 0.0 else value


@inline
def hypot_slope_1(a: float, b: float) -> float:
    """Return b/hypot(a, b), 0 at the origin."""
    return hypot_slope_0(b, a)


@inline
def hypot_slope_00(a: float, b: float) -> float:
    """Return b^2/hypot(a, b)^3, 0 at the origin."""
    s = hypot_slope_0(b, a)
    return 0.0 if a == 0.0 and b == 0.0 else s * s / np.hypot(np.float64(a), np.float64(b))


@inline
def hypot_slope_01(a: float, b: float) -> float:
    """Return -a b/hypot(a, b)^3, 0 at the origin."""
    s = -hypot_slope_0(a, b) * hypot_slope_0(b, a)
    return 0.0 if a == 0.0 and b == 0.0 else s / np.hypot(np.float64(a), np.float64(b))


@inline
def hypot_slope_11(a: float, b: float) -> float:
    """Return a^2/hypot(a, b)^3, 0 at the origin."""
    return hypot_slope_00(b, a)


@inline
def arctan2_slope_0(a: float, b: float) -> float:
    """Return b/(a^2 + b^2)."""
    m = np.float64(unit_of_scale(a, b))
    p, q = a / m, b / m
    value = q / np.float64(p * p + q * q) / m
    return 0.0 if abs(a) == np.inf or abs(b) == np.inf else value


@inline
def arctan2_slope_1(a: float, b: float) -> float:
    """Return -a/(a^2 + b^2)."""
    return -arctan2_slope_0(b, a)


@inline
def arctan2_slope_00(a: float, b: float) -> float:
    """Return -2 a b/(a^2 + b^2)^2."""
    return -2.0 * arctan2_slope_0(a, b) * arctan2_slope_0(b, a)


@inline
def arctan2_slope_01(a: float, b: float) -> float:
    """Return (a^2 - b^2)/(a^2 + b^2)^2."""
    s, c = arctan2_slope_0(b, a), arctan2_slope_0(a, b)
    return (s - c) * (s + c)


@inline
def arctan2_slope_11(a: float, b: float) -> float:
    """Return 2 a b/(a^2 + b^2)^2."""
    return 2.0 * arctan2_slope_0(a, b) * arctan2_slope_0(b, a)
