"""Exponentials and logarithms as branch-free polynomials, which a compiler can vectorise.

Coefficients come from tools/polynomials.py; the reductions are those of fdlibm.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, D402

import numpy as np

from symgrad.functions.numerics import inline


@inline
def exp_rest(r):
    """Return e^r - 1 for |r| <= log(2)/2."""
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
    return r + r * r * p


@inline
def powers_of_two(shifted):
    """Return 2^(k // 2) and 2^(k - k // 2) of 1.5 * 2^52 + 2046 + k."""
    bits = np.float64(shifted).view(np.int64)
    half = bits >> 1
    s = np.int64(half << 52).view(np.float64)
    t = np.int64((bits - half) << 52).view(np.float64)
    return s, t


@inline
def exp_parts(z):
    """Return q, s, t with e^z = (1 + q) s t: q = e^r - 1, |r| <= log(2)/2, s and t powers of 2.

    Neither s nor t leaves the range, so a product x (1 + q) s t, t last, is rounded once.
    """
    z = np.float64(z)
    z = max(z, -1400.0)
    z = min(z, 710.6)
    shifted = z * 1.4426950408889634 + 6755399441057790.0  # 1.5 * 2^52 + 2046 + k, rounded
    n = shifted - 6755399441057790.0
    r = z - n * 0.6931471804855391 - n * 7.440617110012397e-11
    s, t = powers_of_two(shifted)
    return exp_rest(r), s, t


@inline
def exp(z):
    """Return e^z."""
    q, s, t = exp_parts(z)
    return (1.0 + q) * s * t


@inline
def expm1(z):
    """Return e^z - 1 as 4 (q c + c - 1/4), c = s t/4: nothing cancels at 0, nothing overflows."""
    z = np.float64(z)
    q, s, t = exp_parts(z)
    c = 0.25 * s * t
    return z if abs(z) < 1e-300 else (q * c + (c - 0.25)) * 4.0


@inline
def tanh(z):
    """Return tanh(z), (1 - e)/(1 + e) of e = exp(-2|z|), from e - 1: nothing cancels at 0."""
    q, s, t = exp_parts(-2.0 * abs(z))
    m = q * (s * t) + (s * t - 1.0)
    d = 1.0 / (m + 2.0)
    return np.copysign(m * d, z)


@inline
def tanh_slope(z):
    """Return tanh'(z) = 1/cosh(z)^2 = 4e/(1 + e)^2, e = exp(-2|z|)."""
    q, s, t = exp_parts(-2.0 * abs(z))
    m = q * (s * t) + (s * t - 1.0)
    d = 1.0 / (m + 2.0)
    return 4.0 * d * d * (1.0 + q) * s * t


@inline
def exp2_parts(z):
    """Return q, s, t with 2^z = (1 + q) s t, as `exp_parts` does for e^z."""
    z = np.float64(z)
    z = max(z, -2000.0)
    z = min(z, 1030.0)
    shifted = z + 6755399441057790.0  # 1.5 * 2^52 + 2046 + k, rounded
    r = 0.6931471805599453 * (z - (shifted - 6755399441057790.0))
    s, t = powers_of_two(shifted)
    return exp_rest(r), s, t


@inline
def exp2(z):
    """Return 2^z."""
    q, s, t = exp2_parts(z)
    return (1.0 + q) * s * t


@inline
def exp2_slope(z):
    """Return exp2'(z) = log(2) 2^z, which overflows only where the slope does."""
    q, s, t = exp2_parts(z)
    return 0.6931471805599453 * (1.0 + q) * s * t


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
def log_parts(z):
    """Return f, n, y with z = 2^n (1 + f), sqrt(1/2) <= 1 + f <= sqrt(2), y = log(1 + f) - f.

    log(1 + f) = 2 artanh(s) of s = f/(2 + f).
    """
    z = np.float64(z)
    tiny = z < 2.2250738585072014e-308
    x = z * 18014398509481984.0 if tiny else z
    bits = np.float64(x).view(np.int64)
    k = (bits - 4604544271217802189) >> 52
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
    return f, n, s * (h + 2.0 * w * p) - h


@inline
def at_ends(z, result):
    """Return the logarithm of z: a result where 0 < z < inf; -inf at 0, nan below."""
    low = -np.inf if z == 0.0 else np.nan
    high = result if z < np.inf else z
    return high if z > 0.0 else low


@inline
def log(z):
    """Return log(z) = n log(2) + log(1 + f) of z = 2^n (1 + f)."""
    f, n, y = log_parts(z)
    return at_ends(z, n * 0.6931471804855391 + (f + (y + n * 7.440617110012397e-11)))


@inline
def log2(z):
    """Return log2(z) = n + log(1 + f)/log(2) of z = 2^n (1 + f)."""
    f, n, y = log_parts(z)
    return at_ends(z, n + (f + y) * 1.4426950408889634)


@inline
def log10(z):
    """Return log10(z) = n log10(2) + log(1 + f)/log(10) of z = 2^n (1 + f)."""
    f, n, y = log_parts(z)
    rest = (f + y) * 0.4342944819032518 + n * 1.1451100898021838e-10
    return at_ends(z, n * 0.3010299955494702 + rest)


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
    lost = (z - (u - 1.0)) * (2.0 - u)  # over u, to first order
    lost = lost if abs(z) < 0.5 else 0.0
    return np.copysign(log(u) + lost, z)


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
