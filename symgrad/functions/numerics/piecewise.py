"""Piecewise functions: kinks as the language has them, and nan passes every piece."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201

import numpy as np

from symgrad.functions.numerics import inline


@inline
def choose(mask, a, b):
    """Return a where the mask is set, b elsewhere; both are at hand, so nothing branches."""
    return a if mask != 0 else b


@inline
def both(a, b):
    """Return 1 where both masks are set, else 0."""
    return 1.0 if (a != 0) & (b != 0) else 0.0


@inline
def either(a, b):
    """Return 1 where one of the masks is set, else 0."""
    return 1.0 if (a != 0) | (b != 0) else 0.0


@inline
def maximum(a, b):
    """Return the larger of a and b, nan if one is nan."""
    return a if (a > b) | np.isnan(a) else b


@inline
def minimum(a, b):
    """Return the smaller of a and b, nan if one is nan."""
    return a if (a < b) | np.isnan(a) else b


@inline
def maximum_slope(a, b):
    """Return d maximum(a, b)/da: 1 above b, 1/2 at a tie, 0 below."""
    below = 0.5 if a == b else (0.0 if a < b else a + b)
    return 1.0 if a > b else below


@inline
def minimum_slope(a, b):
    """Return d minimum(a, b)/da: 1 below b, 1/2 at a tie, 0 above."""
    above = 0.5 if a == b else (0.0 if a > b else a + b)
    return 1.0 if a < b else above


@inline
def step_up(z):
    """Return 0 up to 0 and 1 above."""
    below = z if np.isnan(z) else 0.0
    return 1.0 if z > 0.0 else below


@inline
def heaviside(z, at_zero):
    """Return 0 below 0, 1 above, at_zero at 0."""
    below = max(z, 0.0)
    below = at_zero if z == 0.0 else below
    return 1.0 if z > 0.0 else below


@inline
def relu(z):
    """Return max(z, 0)."""
    return max(z, 0.0)


@inline
def leaky_relu(z, a):
    """Return z above 0, a z below."""
    return z if z > 0.0 else a * z


@inline
def leaky_relu_slope(z, a):
    """Return d leaky_relu/dz: 1 above 0, a below and at 0."""
    below = a if z <= 0.0 else z
    return 1.0 if z > 0.0 else below


@inline
def lower_part(z):
    """Return min(z, 0)."""
    return min(z, 0.0)


@inline
def clip(z, low, high):
    """Return min(max(z, low), high)."""
    z = max(z, low)
    return min(z, high)


@inline
def inside(z, low, high):
    """Return 1 for low <= z <= high, else 0."""
    outside = z if np.isnan(z) else 0.0
    return 1.0 if (z >= low) & (z <= high) else outside


@inline
def within(z, low, high):
    """Return 1 for low < z < high, else 0."""
    outside = z if np.isnan(z) else 0.0
    return 1.0 if (z > low) & (z < high) else outside


@inline
def clip_low_slope(z, low, high):
    """Return d clip/dlow: 1 for z < low < high, else 0."""
    rest = z if np.isnan(z) else 0.0
    return 1.0 if (z < low) & (low < high) else rest


@inline
def clip_high_slope(z, low, high):
    """Return d clip/dhigh: 1 for z > high or low > high, else 0."""
    rest = z if np.isnan(z) else 0.0
    return 1.0 if (z > high) | (low > high) else rest


@inline
def at_most(z, bound):
    """Return 1 for z <= bound, else 0."""
    above = 0.0 if z > bound else z
    return 1.0 if z <= bound else above


@inline
def above(z, bound):
    """Return 1 for z > bound, else 0."""
    rest = 0.0 if z <= bound else z
    return 1.0 if z > bound else rest


@inline
def softshrink(z, bound):
    """Return z - bound above bound, z + bound below -bound, 0 between."""
    middle = z if np.isnan(z) else 0.0
    below = z + bound if z < -bound else middle
    return z - bound if z > bound else below


@inline
def softshrink_bound_slope(z, bound):
    """Return d softshrink/dbound: -1 above bound, 1 below -bound, 0 between."""
    middle = z if np.isnan(z) else 0.0
    below = 1.0 if z < -bound else middle
    return -1.0 if z > bound else below


@inline
def hardshrink(z, bound):
    """Return z for |z| > bound, else 0."""
    return 0.0 if abs(z) <= bound else z


@inline
def hardsigmoid(z):
    """Return min(max(z + 3, 0), 6)/6."""
    return clip(z + 3.0, 0.0, 6.0) / 6.0


@inline
def hardswish(z):
    """Return z hardsigmoid(z)."""
    middle = z * (z + 3.0) / 6.0 if z > -3.0 else z
    middle = 0.0 if z <= -3.0 else middle
    return z if z >= 3.0 else middle


@inline
def hardswish_slope(z):
    """Return hardswish'(z): 0 up to -3, z/3 + 1/2 between, 1 from 3 on."""
    middle = 0.0 if z <= -3.0 else z / 3.0 + 0.5
    return 1.0 if z >= 3.0 else middle


@inline
def threshold(z, bound, value):
    """Return z above bound, value up to it."""
    return value if z <= bound else z


@inline
def sign(z):
    """Return -1, 0 or 1."""
    below = -1.0 if z < 0.0 else z
    return 1.0 if z > 0.0 else below
