"""Functions with kinks: nan passes, and a slope at a kink is the one the language states.

float -> float
Where nothing is stated the value is PyTorch's.
"""

from __future__ import annotations

import numpy as np

from symgrad.functions.inlined import inline
from symgrad.functions.scalars.exponential import exp, expm1


@inline
def heaviside(z: float, at_zero: float) -> float:
    """Return 0 below 0, 1 above, `at_zero` at 0."""
    return 1.0 if z > 0.0 else (0.0 if z < 0.0 else (at_zero if z == 0.0 else z))


@inline
def heaviside_slope_1(z: float, at_zero: float) -> float:
    """Return 1 at 0, else 0."""
    return 1.0 if z == 0.0 else (0.0 if z == z else z)


@inline
def maximum(a: float, b: float) -> float:
    """Return the larger; nan wins."""
    return a if a > b or a != a else b


@inline
def maximum_slope_0(a: float, b: float) -> float:
    """Return 1 where a is larger, 1/2 at a tie."""
    return 1.0 if a > b else (0.0 if a < b else (0.5 if a == b else np.nan))


@inline
def maximum_slope_1(a: float, b: float) -> float:
    """Return 1 where b is larger, 1/2 at a tie."""
    return maximum_slope_0(b, a)


@inline
def minimum(a: float, b: float) -> float:
    """Return the smaller; nan wins."""
    return a if a < b or a != a else b


@inline
def minimum_slope_0(a: float, b: float) -> float:
    """Return 1 where a is smaller, 1/2 at a tie."""
    return maximum_slope_0(b, a)


@inline
def minimum_slope_1(a: float, b: float) -> float:
    """Return 1 where b is smaller, 1/2 at a tie."""
    return maximum_slope_0(a, b)


@inline
def clip(z: float, low: float, high: float) -> float:
    """Return min(max(z, low), high); nan wins."""
    return minimum(maximum(z, low), high)


@inline
def clip_slope_0(z: float, low: float, high: float) -> float:
    """Return 1 inside and at the bounds, 0 outside."""
    inside = 1.0 if low <= z <= high else 0.0
    return inside if z == z and low == low and high == high else np.nan


@inline
def clip_slope_1(z: float, low: float, high: float) -> float:
    """Return 1 where the lower bound is taken."""
    taken = 1.0 if z < low < high else 0.0
    return taken if z == z and low == low and high == high else np.nan


@inline
def clip_slope_2(z: float, low: float, high: float) -> float:
    """Return 1 where the upper bound is taken, or the bounds are the wrong way round."""
    taken = 1.0 if z > high or low > high else 0.0
    return taken if z == z and low == low and high == high else np.nan


@inline
def hardtanh_slope_0(z: float, low: float, high: float) -> float:
    """Return 1 inside, 0 at the bounds and outside."""
    inside = 1.0 if low < z < high else 0.0
    return inside if z == z and low == low and high == high else np.nan


@inline
def hardtanh_slope_1(z: float, low: float, high: float) -> float:
    """Return 1 at the lower bound and below."""
    taken = 1.0 if z <= low else 0.0
    return taken if z == z and low == low and high == high else np.nan


@inline
def hardtanh_slope_2(z: float, low: float, high: float) -> float:
    """Return 1 at the upper bound and above."""
    taken = 1.0 if z >= high else 0.0
    return taken if z == z and low == low and high == high else np.nan


@inline
def relu(z: float) -> float:
    """Return max(z, 0)."""
    return 0.0 if z <= 0.0 else z


@inline
def relu_slope(z: float) -> float:
    """Return 1 above 0, else 0."""
    return 1.0 if z > 0.0 else (0.0 if z <= 0.0 else z)


@inline
def relu6(z: float) -> float:
    """Return min(max(z, 0), 6)."""
    return 0.0 if z <= 0.0 else (6.0 if z >= 6.0 else z)


@inline
def relu6_slope(z: float) -> float:
    """Return 1 for 0 < z < 6, else 0."""
    return 1.0 if 0.0 < z < 6.0 else (0.0 if z == z else z)


@inline
def leaky_relu(z: float, slope: float) -> float:
    """Return z above 0, slope z below."""
    return z if z > 0.0 else slope * z


@inline
def leaky_relu_slope_0(z: float, slope: float) -> float:
    """Return 1 above 0, else the slope."""
    return 1.0 if z > 0.0 else (slope if z <= 0.0 else z)


@inline
def leaky_relu_slope_1(z: float, slope: float) -> float:
    """Return min(z, 0)."""
    return 0.0 if z > 0.0 else z


@inline
def leaky_relu_slope_01(z: float, slope: float) -> float:
    """Return 0 above 0, else 1."""
    return 0.0 if z > 0.0 else (1.0 if z <= 0.0 else z)


@inline
def elu(z: float, alpha: float) -> float:
    """Return z above 0, alpha (e^z - 1) below."""
    return z if z > 0.0 else alpha * expm1(z)


@inline
def elu_slope_0(z: float, alpha: float) -> float:
    """Return 1 above 0, else alpha e^z."""
    return 1.0 if z > 0.0 else alpha * exp(z)


@inline
def elu_slope_1(z: float, alpha: float) -> float:
    """Return 0 above 0, else e^z - 1."""
    return 0.0 if z > 0.0 else expm1(z)


@inline
def elu_slope_00(z: float, alpha: float) -> float:
    """Return 0 above 0, else alpha e^z."""
    return 0.0 if z > 0.0 else alpha * exp(z)


@inline
def elu_slope_01(z: float, alpha: float) -> float:
    """Return 0 above 0, else e^z."""
    return 0.0 if z > 0.0 else exp(z)


@inline
def selu(z: float) -> float:
    """Return scale z above 0, scale alpha (e^z - 1) below."""
    return 1.0507009873554805 * z if z > 0.0 else 1.7580993408473766 * expm1(z)


@inline
def selu_slope(z: float) -> float:
    """Return scale above 0, else scale alpha e^z."""
    return 1.0507009873554805 if z > 0.0 else 1.7580993408473766 * exp(z)


@inline
def selu_curvature(z: float) -> float:
    """Return 0 above 0, else scale alpha e^z."""
    return 0.0 if z > 0.0 else 1.7580993408473766 * exp(z)


@inline
def celu(z: float, alpha: float) -> float:
    """Return z above 0, alpha (e^(z/alpha) - 1) below."""
    return z if z > 0.0 else alpha * expm1(z / np.float64(alpha))


@inline
def celu_slope_0(z: float, alpha: float) -> float:
    """Return 1 above 0, else e^(z/alpha)."""
    return 1.0 if z > 0.0 else exp(z / np.float64(alpha))


@inline
def celu_slope_1(z: float, alpha: float) -> float:
    """Return 0 above 0, else e^t - 1 - t e^t with t = z/alpha, by its series near 0."""
    t = z / np.float64(alpha)
    t = -800.0 if t < -800.0 else t
    # -sum over n >= 2 of t^n (n - 1)/n!
    q = 1.0 / 518918400.0
    q = 1.0 / 43545600.0 + t * q
    q = 1.0 / 3991680.0 + t * q
    q = 1.0 / 403200.0 + t * q
    q = 1.0 / 45360.0 + t * q
    q = 1.0 / 5760.0 + t * q
    q = 1.0 / 840.0 + t * q
    q = 1.0 / 144.0 + t * q
    q = 1.0 / 30.0 + t * q
    q = 1.0 / 8.0 + t * q
    q = 1.0 / 3.0 + t * q
    q = 1.0 / 2.0 + t * q
    near = -t * t * q
    far = expm1(t) - t * exp(t)
    return 0.0 if z > 0.0 else (near if abs(t) < 0.3 else far)


@inline
def celu_slope_00(z: float, alpha: float) -> float:
    """Return 0 above 0, else e^(z/alpha)/alpha."""
    return 0.0 if z > 0.0 else exp(z / np.float64(alpha)) / np.float64(alpha)


@inline
def celu_slope_01(z: float, alpha: float) -> float:
    """Return 0 above 0, else -z e^(z/alpha)/alpha^2."""
    t = z / np.float64(alpha)
    return 0.0 if z > 0.0 else -t * exp(t) / np.float64(alpha)


@inline
def celu_slope_11(z: float, alpha: float) -> float:
    """Return 0 above 0, else z^2 e^(z/alpha)/alpha^3."""
    t = z / np.float64(alpha)
    return 0.0 if z > 0.0 else t * t * exp(t) / np.float64(alpha)


@inline
def softshrink(z: float, bound: float) -> float:
    """Return z moved towards 0 by `bound`, 0 within it."""
    return 0.0 if abs(z) <= bound else (z - bound if z > 0.0 else z + bound)


@inline
def softshrink_slope_0(z: float, bound: float) -> float:
    """Return 1 outside the bound, else 0."""
    return 1.0 if abs(z) > bound else (0.0 if abs(z) <= bound else np.nan)


@inline
def softshrink_slope_1(z: float, bound: float) -> float:
    """Return -1 above the bound, 1 below its negative, else 0."""
    inside = 0.0 if abs(z) <= bound else np.nan
    return -1.0 if z > bound else (1.0 if z < -bound else inside)


@inline
def hardshrink(z: float, bound: float) -> float:
    """Return z outside the bound, 0 within it."""
    return 0.0 if abs(z) <= bound else z


@inline
def hardsigmoid(z: float) -> float:
    """Return min(max(z + 3, 0), 6)/6."""
    return 0.0 if z <= -3.0 else (1.0 if z >= 3.0 else (z + 3.0) / 6.0)


@inline
def hardsigmoid_slope(z: float) -> float:
    """Return 1/6 for -3 < z < 3, else 0."""
    return 0.16666666666666666 if -3.0 < z < 3.0 else (0.0 if z == z else z)


@inline
def hardswish(z: float) -> float:
    """Return z min(max(z + 3, 0), 6)/6."""
    return 0.0 if z <= -3.0 else (z if z >= 3.0 else z * (z + 3.0) / 6.0)


@inline
def hardswish_slope(z: float) -> float:
    """Return 0 up to -3, 1 from 3, (2z + 3)/6 between."""
    return 0.0 if z <= -3.0 else (1.0 if z >= 3.0 else (z + z + 3.0) / 6.0)


@inline
def hardswish_curvature(z: float) -> float:
    """Return 1/3 for -3 < z < 3, else 0."""
    return 0.3333333333333333 if -3.0 < z < 3.0 else (0.0 if z == z else z)


@inline
def threshold(z: float, t: float, v: float) -> float:
    """Return z above t, else v."""
    return v if z <= t else z


@inline
def threshold_slope_0(z: float, t: float, v: float) -> float:
    """Return 1 above t, else 0."""
    return 1.0 if z > t else (0.0 if z <= t else np.nan)


@inline
def threshold_slope_2(z: float, t: float, v: float) -> float:
    """Return 0 above t, else 1."""
    return 0.0 if z > t else (1.0 if z <= t else np.nan)
