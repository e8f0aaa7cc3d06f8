"""Exponentials and logarithms as branch-free polynomials, which a compiler can vectorise.

Coefficients come from tools/polynomials.py; the reductions are those of fdlibm.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, D402

import numpy as np

from symgrad.functions.numerics import inline


@inline
def exp(z):
    """Return e^z = 2^k e^r with |r| <= log(2)/2; 2^k in two factors, so that tails are right."""
    z = np.float64(z)
    z = max(z, -746.0)
    z = min(z, 710.0)
    shifted = z * 1.4426950408889634 + 6755399441055744.0  # 1.5 * 2^52 + k, rounded
    n = shifted - 6755399441055744.0
    k = np.float64(shifted).view(np.int64) - 4843621399236968448
    r = z - n * 0.6931471804855391 - n * 7.440617110012397e-11
    p = 2.5100375832561234e-08
    p = p * r + 2.7620075879983367e-07
    p = p * r + 2.7557268480310024e-06
    p = p * r + 2.4801521322368692e-05
    p = p * r + 0.00019841269863040545
    p = p * r + 0.0013888888917196719
    p = p * r + 0.008333333333330065
    p = p * r + 0.041666666666624164
    p = p * r + 0.16666666666666669
    p = p * r + 0.5000000000000001
    half = k >> 1
    low = np.int64((half + 1023) << 52).view(np.float64)
    high = np.int64((k - half + 1023) << 52).view(np.float64)
    return (1.0 + (r + r * r * p)) * low * high


@inline
def expm1(z):
    """Return e^z - 1 = 2 (2^(k-1) (e^r - 1) + 2^(k-1) - 1/2), without cancellation at 0."""
    z = np.float64(z)
    x = max(z, -40.0)
    x = min(x, 710.0)
    shifted = x * 1.4426950408889634 + 6755399441055744.0  # 1.5 * 2^52 + k, rounded
    n = shifted - 6755399441055744.0
    k = np.float64(shifted).view(np.int64) - 4843621399236968448
    r = x - n * 0.6931471804855391 - n * 7.440617110012397e-11
    p = 2.5100375832561234e-08
    p = p * r + 2.7620075879983367e-07
    p = p * r + 2.7557268480310024e-06
    p = p * r + 2.4801521322368692e-05
    p = p * r + 0.00019841269863040545
    p = p * r + 0.0013888888917196719
    p = p * r + 0.008333333333330065
    p = p * r + 0.041666666666624164
    p = p * r + 0.16666666666666669
    p = p * r + 0.5000000000000001
    half = np.int64((k + 1022) << 52).view(np.float64)
    result = ((r + r * r * p) * half + (half - 0.5)) * 2.0
    return z if abs(z) < 1e-300 else result


@inline
def tanh(z):
    """Return tanh(z) = (e^2z - 1)/(e^2z + 1), from e^2z - 1 so that nothing cancels at 0."""
    z = np.float64(z)
    x = max(z, -40.0)
    x = min(x, 40.0)
    m = expm1(2.0 * x)
    return z if abs(z) < 1e-300 else m / (m + 2.0)


@inline
def tanh_slope(z):
    """Return tanh'(z) = 1/cosh(z)^2, the square of 2e/(1 + e^2), e = exp(-|z|)."""
    e = exp(-abs(z))
    s = (e + e) / (1.0 + e * e)
    return s * s


@inline
def exp2_slope(z):
    """Return log(2) 2^z from 2^(z/2), which overflows only where the slope does."""
    h = np.exp2(np.float64(0.5 * z))
    return 0.6931471805599453 * h * h


@inline
def tanhshrink(z):
    """Return z - tanh(z), by z^3 p(z^2) near 0."""
    z = np.float64(z)
    w = z * z
    p = -5.946956589774769e-05
    p = p * w + 0.00022107222975864633
    p = p * w - 0.0005849653729022644
    p = p * w + 0.001454959384380466
    p = p * w - 0.0035920334653723926
    p = p * w + 0.008863229270067843
    p = p * w - 0.021869488297234514
    p = p * w + 0.05396825396361009
    p = p * w - 0.13333333333329825
    p = p * w + 0.3333333333333333
    return z * (w * p) if w < 0.25 else z - tanh(z)


@inline
def tanhshrink_slope(z):
    """Return tanhshrink'(z) = tanh(z)^2."""
    y = tanh(z)
    return y * y


@inline
def sigmoid(z):
    """Return 1/(1 + exp(-z)), written in exp(-|z|), which cannot overflow."""
    e = exp(-abs(z))
    s = 1.0 / (1.0 + e)
    return e * s if z < 0.0 else s


@inline
def sigmoid_slope(z):
    """Return sigmoid'(z) = e/(1 + e)^2, e = exp(-|z|), exact in saturation."""
    e = exp(-abs(z))
    s = 1.0 / (1.0 + e)
    return e * s * s


@inline
def log(z):
    """Return log(z) = k log(2) + 2 artanh(f/(2 + f)) of z = 2^k (1 + f); nan below 0."""
    z = np.float64(z)
    tiny = z < 2.2250738585072014e-308
    x = z * 18014398509481984.0 if tiny else z
    bits = np.float64(x).view(np.int64)
    k = (bits - 4604544271217802189) >> 52  # so that 1 + f lies in [sqrt(1/2), sqrt(2)]
    n = np.float64(k) - (54.0 if tiny else 0.0)
    f = np.int64(bits - (k << 52)).view(np.float64) - 1.0
    s = f / (2.0 + f)
    w = s * s
    p = 0.0654361809832981
    p = p * w + 0.06634357396174048
    p = p * w + 0.07693120940969297
    p = p * w + 0.09090897800030397
    p = p * w + 0.11111111196044504
    p = p * w + 0.14285714285400977
    p = p * w + 0.2000000000000044
    p = p * w + 0.3333333333333333
    h = 0.5 * f * f
    rest = s * (h + 2.0 * w * p) + n * 7.440617110012397e-11
    result = n * 0.6931471804855391 + (f - (h - rest))
    result = result if z < np.inf else z
    result = -np.inf if z == 0.0 else result
    return np.nan if z < 0.0 else result


@inline
def log_slope(z):
    """Return log'(z) = 1/z; nan below 0, where there is no logarithm."""
    return np.nan if z < 0.0 else 1.0 / np.float64(abs(z))


@inline
def log2_slope(z):
    """Return log2'(z) = 1/(z log(2)); nan below 0."""
    return np.nan if z < 0.0 else 1.4426950408889634 / np.float64(abs(z))


@inline
def log10_slope(z):
    """Return log10'(z) = 1/(z log(10)); nan below 0."""
    return np.nan if z < 0.0 else 0.4342944819032518 / np.float64(abs(z))


@inline
def log1p(z):
    """Return log(1 + z): log(u) of u = 1 + z as rounded, plus what the rounding took."""
    z = np.float64(z)
    u = 1.0 + z
    lost = (z - (u - 1.0)) * (2.0 - u) if abs(z) < 0.5 else 0.0  # over u, to first order
    result = log(u) + lost
    return z if abs(z) < 1e-300 else result


@inline
def log1p_slope(z):
    """Return log1p'(z) = 1/(1 + z)."""
    return np.nan if z < -1.0 else 1.0 / np.float64(1.0 + z)


@inline
def log1p_unit(e):
    """Return log(1 + e) for 0 <= e <= 1 as 2 artanh(e/(2 + e))."""
    double = (e + e) / (2.0 + e)
    w = 0.25 * double * double
    p = 0.07615631309714492
    p = p * w + 0.03167055425885123
    p = p * w + 0.04971012448277367
    p = p * w + 0.05240199617182637
    p = p * w + 0.05883998883620518
    p = p * w + 0.06666588474569089
    p = p * w + 0.07692310126902081
    p = p * w + 0.09090909043002827
    p = p * w + 0.11111111111665993
    p = p * w + 0.1428571428571097
    p = p * w + 0.20000000000000007
    p = p * w + 0.3333333333333333
    return double + double * (w * p)


@inline
def softplus(z):
    """Return log(1 + e^z) = max(z, 0) + log(1 + exp(-|z|))."""
    rest = log1p_unit(exp(-abs(z)))
    return z + rest if z > 0.0 else rest


@inline
def log_sigmoid(z):
    """Return log(sigmoid(z)) = min(z, 0) - log(1 + exp(-|z|))."""
    rest = log1p_unit(exp(-abs(z)))
    return z - rest if z < 0.0 else -rest


@inline
def logaddexp(a, b):
    """Return log(e^a + e^b) = max + log(1 + exp(-|a - b|)); infinities as they come."""
    top = max(b, a)
    return top + (0.6931471805599453 if a == b else log1p_unit(exp(-abs(a - b))))


@inline
def logaddexp_slope(a, b):
    """Return d logaddexp/da = sigmoid(a - b); 1/2 at ties, 0 where both are -inf."""
    tie = 0.0 if a == -np.inf else 0.5
    return tie if a == b else sigmoid(a - b)


@inline
def exp_difference(a, b):
    """Return exp(a - b), and 0 where a is -inf: the weight of a in a logsumexp b."""
    return 0.0 if (a == -np.inf) & (not np.isnan(b)) else exp(a - b)


@inline
def silu(z):
    """Return z sigmoid(z); exp(-|z|) as a square, so that the lower tail keeps its digits."""
    h = exp(-0.5 * abs(z))
    s = z / (1.0 + h * h)
    return s * h * h if z < 0.0 else s


@inline
def silu_slope(z):
    """Return silu'(z) = s + z s (1 - s), s = sigmoid(z)."""
    x = max(z, -1000.0)
    x = min(x, 1000.0)
    h = exp(-0.5 * abs(x))
    s = 1.0 / (1.0 + h * h)
    above = s + x * h * h * s * s
    below = (s + x * s * s) * h * h
    return below if z < 0.0 else above


@inline
def mish(z):
    """Return z tanh(softplus(z)), tanh(log(1 + w)) = (w^2 + 2w)/(w^2 + 2w + 2)."""
    h = exp(-0.5 * abs(z))
    e = h * h
    above = z * ((1.0 + 2.0 * e) / (1.0 + 2.0 * e + 2.0 * e * e))
    below = z * ((e + 2.0) / (e * e + 2.0 * e + 2.0)) * h * h
    return below if z < 0.0 else above


@inline
def mish_slope(z):
    """Return mish'(z) = tanh(p) + z sigmoid(z)/cosh(p)^2, p = softplus(z), in e = exp(-|z|)."""
    x = max(z, -1000.0)
    x = min(x, 1000.0)
    h = exp(-0.5 * abs(x))
    e = h * h
    q = 1.0 / (1.0 + 2.0 * e + 2.0 * e * e)
    above = (1.0 + 2.0 * e) * q + x * (4.0 * e * e * (1.0 + e)) * q * q
    q = 1.0 / (e * e + 2.0 * e + 2.0)
    below = ((e + 2.0) * q + x * (4.0 * (1.0 + e)) * q * q) * h * h
    return below if z < 0.0 else above


@inline
def gelu_tanh(z):
    """Return z sigmoid(u), u = 2 sqrt(2/pi) (z + 0.044715 z^3)."""
    z = np.float64(z)
    u = 1.5957691216057308 * (z + 0.044715 * z * z * z)
    h = exp(-0.5 * abs(u))
    s = z / (1.0 + h * h)
    return s * h * h if z < 0.0 else s


@inline
def gelu_tanh_slope(z):
    """Return gelu_tanh'(z) = s + z s (1 - s) u', s = sigmoid(u)."""
    x = np.float64(z)
    x = max(x, -100.0)
    x = min(x, 100.0)
    u = 1.5957691216057308 * (x + 0.044715 * x * x * x)
    slope = 1.5957691216057308 * (1.0 + 0.134145 * x * x)
    h = exp(-0.5 * abs(u))
    s = 1.0 / (1.0 + h * h)
    above = s + x * slope * h * h * s * s
    below = (s + x * slope * s * s) * h * h
    return below if z < 0.0 else above


@inline
def elu(z, alpha):
    """Return z above 0, alpha (e^z - 1) below."""
    return z if z > 0.0 else alpha * expm1(z)


@inline
def elu_slope(z, alpha):
    """Return d elu/dz: 1 above 0, alpha e^z below and at 0."""
    h = exp(0.5 * z)
    return 1.0 if z > 0.0 else alpha * h * h


@inline
def elu_alpha_slope(z):
    """Return d elu/dalpha: 0 above 0, e^z - 1 below."""
    return 0.0 if z > 0.0 else expm1(z)


@inline
def celu(z, alpha):
    """Return z above 0, alpha (exp(z/alpha) - 1) below."""
    return z if z > 0.0 else alpha * expm1(z / np.float64(alpha))


@inline
def celu_slope(z, alpha):
    """Return d celu/dz: 1 above 0, exp(z/alpha) below and at 0."""
    return 1.0 if z > 0.0 else exp(z / np.float64(alpha))


@inline
def celu_alpha_slope(z, alpha):
    """Return d celu/dalpha: 0 above 0, e^u - 1 - u e^u below, u = z/alpha."""
    u = z / np.float64(alpha)
    u = max(u, -1000.0)
    return 0.0 if z > 0.0 else expm1(u) - u * exp(u)


@inline
def selu(z):
    """Return 1.05070... times elu(z, 1.67326...)."""
    return 1.0507009873554805 * z if z > 0.0 else 1.7580993408473768 * expm1(z)


@inline
def selu_slope(z):
    """Return selu'(z): 1.05070... above 0, 1.75809... e^z below."""
    h = exp(0.5 * z)
    return 1.0507009873554805 if z > 0.0 else 1.7580993408473768 * h * h
