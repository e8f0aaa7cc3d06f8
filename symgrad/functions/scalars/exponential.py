"""Exponentials and what is made of one: branch-free, so that loops over them vectorise.

float -> float
exp(z) = 2^n exp(r) with r = z - n log 2; coefficients are printed by tools/constants.py.
"""

from __future__ import annotations

import numpy as np

from symgrad.functions.inlined import inline


@inline
def expm1_reduced(r: float) -> float:
    """Return exp(r) - 1 for |r| <= log(2)/2."""
    q = 2.5100375832561234e-08
    q = q * r + 2.7620075879983367e-07
    q = q * r + 2.7557268480310024e-06
    q = q * r + 2.4801521322368692e-05
    q = q * r + 0.00019841269863040545
    q = q * r + 0.0013888888917196719
    q = q * r + 0.008333333333330065
    q = q * r + 0.041666666666624164
    q = q * r + 0.16666666666666669
    q = q * r + 0.5
    return q * r * r + r


@inline
def exp(z: float) -> float:
    """Return e^z; overflow gives inf, nan stays nan."""
    z = 710.0 if z > 710.0 else z
    z = -746.0 if z < -746.0 else z
    # adding 1.5 * 2^52 rounds to an integer, which then stands in the low bits
    shifted = z * 1.4426950408889634 + 6755399441055744.0
    whole = shifted - 6755399441055744.0
    r = (z - whole * 0.6931471803691238) - whole * 1.9082149292705877e-10
    n = np.float64(shifted).view(np.int64) - 4843621399236968448
    half = n >> 1
    low = np.int64((half + 1023) << 52).view(np.float64)
    high = np.int64((n - half + 1023) << 52).view(np.float64)
    return (1.0 + expm1_reduced(r)) * low * high


@inline
def expm1(z: float) -> float:
    """Return e^z - 1, right to the last digits near 0."""
    y = 710.0 if z > 710.0 else z
    y = -40.0 if y < -40.0 else y
    shifted = y * 1.4426950408889634 + 6755399441055744.0
    whole = shifted - 6755399441055744.0
    r = (y - whole * 0.6931471803691238) - whole * 1.9082149292705877e-10
    n = np.float64(shifted).view(np.int64) - 4843621399236968448
    half = n >> 1
    low = np.int64((half + 1023) << 52).view(np.float64)
    high = np.int64((n - half + 1023) << 52).view(np.float64)
    one = np.int64((half - n + 1023) << 52).view(np.float64)
    return z if z == 0.0 else (expm1_reduced(r) * low + (low - one)) * high


@inline
def exp2_slope(z: float) -> float:
    """Return log(2) 2^z, which neither overflows nor underflows before it must."""
    half = np.exp2(np.float64(0.5 * z))
    return (half * 0.6931471805599453) * half


@inline
def exp2_curvature(z: float) -> float:
    """Return log(2)^2 2^z."""
    half = np.exp2(np.float64(0.5 * z))
    return (half * 0.4804530139182014) * half


@inline
def tanh(z: float) -> float:
    """Return tanh(z) = u / (u + 2), u = exp(2z) - 1."""
    y = 20.0 if z > 20.0 else z
    y = -20.0 if y < -20.0 else y
    y = y + y
    shifted = y * 1.4426950408889634 + 6755399441055744.0
    whole = shifted - 6755399441055744.0
    r = (y - whole * 0.6931471803691238) - whole * 1.9082149292705877e-10
    n = np.float64(shifted).view(np.int64) - 4843621399236968448
    power = np.int64((n + 1023) << 52).view(np.float64)
    u = expm1_reduced(r) * power + (power - 1.0)
    return z if z == 0.0 else u / (u + 2.0)


@inline
def sech(z: float) -> float:
    """Return 1 / cosh(z)."""
    w = exp(-abs(z))
    return (w + w) / (1.0 + w * w)


@inline
def tanh_slope(z: float) -> float:
    """Return 1 - tanh(z)^2 as sech(z)^2, which keeps its digits in saturation."""
    s = sech(z)
    return s * s


@inline
def tanh_curvature(z: float) -> float:
    """Return -2 tanh(z) sech(z)^2."""
    s = sech(z)
    return (-2.0 * tanh(z) * s) * s


@inline
def sigmoid(z: float) -> float:
    """Return 1 / (1 + exp(-z))."""
    e = exp(-abs(z))
    return (e if z < 0.0 else 1.0) / (1.0 + e)


@inline
def sigmoid_slope(z: float) -> float:
    """Return sigmoid(z) (1 - sigmoid(z)) = e / (1 + e)^2 with e = exp(-|z|)."""
    e = exp(-abs(z))
    return e / ((1.0 + e) * (1.0 + e))


@inline
def sigmoid_curvature(z: float) -> float:
    """Return -sigmoid'(z) tanh(z/2)."""
    return -sigmoid_slope(z) * tanh(0.5 * z)


@inline
def log1p_of_fraction(e: float) -> float:
    """Return log(1 + e) for 0 <= e <= 1: 2 artanh(s) with s = e / (2 + e)."""
    s = e / (2.0 + e)
    w = s * s
    q = 0.15231262619428984
    q = q * w + 0.06334110851770246
    q = q * w + 0.09942024896554735
    q = q * w + 0.10480399234365274
    q = q * w + 0.11767997767241035
    q = q * w + 0.13333176949138179
    q = q * w + 0.15384620253804163
    q = q * w + 0.18181818086005655
    q = q * w + 0.22222222223331986
    q = q * w + 0.2857142857142194
    q = q * w + 0.40000000000000013
    q = q * w + 0.6666666666666666
    return s * w * q + (s + s)


@inline
def softplus(z: float) -> float:
    """Return log(1 + e^z) = max(z, 0) + log(1 + exp(-|z|))."""
    return (z if z > 0.0 else 0.0) + log1p_of_fraction(exp(-abs(z)))


@inline
def log_sigmoid(z: float) -> float:
    """Return log(sigmoid(z)) = -softplus(-z)."""
    return (z if z < 0.0 else 0.0) - log1p_of_fraction(exp(-abs(z)))


@inline
def logaddexp(a: float, b: float) -> float:
    """Return log(e^a + e^b); infinities that are equal give themselves."""
    large = a if a > b or a != a else b
    gap = 0.0 if a == b else exp(-abs(a - b))
    return large + log1p_of_fraction(gap)


@inline
def logaddexp_slope_0(a: float, b: float) -> float:
    """Return e^a / (e^a + e^b), 1/2 where they are equal, 0 where both are -inf."""
    share = 0.5 if a == b else sigmoid(a - b)
    return 0.0 if a == b and a == -np.inf else share


@inline
def logaddexp_slope_1(a: float, b: float) -> float:
    """Return e^b / (e^a + e^b)."""
    return logaddexp_slope_0(b, a)


@inline
def logaddexp_slope_00(a: float, b: float) -> float:
    """Return sigmoid'(a - b)."""
    share = 0.25 if a == b else sigmoid_slope(a - b)
    return 0.0 if a == b and a == -np.inf else share


@inline
def logaddexp_slope_01(a: float, b: float) -> float:
    """Return -sigmoid'(a - b)."""
    return -logaddexp_slope_00(a, b)


@inline
def exp_difference(a: float, b: float) -> float:
    """Return exp(a - b), 0 where a is -inf: a share of a sum of exponentials."""
    return 0.0 if a == -np.inf and b == b else exp(a - b)


@inline
def exp_difference_slope_1(a: float, b: float) -> float:
    """Return -exp(a - b)."""
    return -exp_difference(a, b)
