"""The same functions for complex arguments, each called `complex_` and its name for real ones.

Where two forms agree, the one in exp(z) or exp(-z), whichever is small, is taken: it overflows
nowhere. Branches are numpy's. Quotients are numpy's too: numba's `/` raises for a complex 0.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201

import numpy as np

from symgrad.functions.numerics import inline


@inline
def complex_exp(z):
    """Return e^z."""
    return np.exp(z)


@inline
def complex_expm1(z):
    """Return e^z - 1 = expm1(x) cos(y) - 2 sin(y/2)^2 + i e^x sin(y) of z = x + iy."""
    s = np.sin(0.5 * z.imag)
    above = np.expm1(z.real) * np.cos(z.imag) - 2.0 * s * s
    return above + 1j * (np.exp(z.real) * np.sin(z.imag))


@inline
def complex_log(z):
    """Return log(z)."""
    return np.log(z)


@inline
def complex_log1p(z):
    """Return log(1 + z): log(1 + x(2 + x) + y^2)/2 + i arg(1 + z) near 0, of z = x + iy."""
    near = abs(z.real) + abs(z.imag) < 0.5
    size = z.real * (2.0 + z.real) + z.imag * z.imag if near else 0.0
    return 0.5 * np.log1p(size) + 1j * np.arctan2(z.imag, 1.0 + z.real) if near else np.log(1.0 + z)


@inline
def complex_exp2(z):
    """Return 2^z."""
    return np.exp2(z)


@inline
def complex_log2(z):
    """Return log2(z)."""
    return np.log2(z)


@inline
def complex_log10(z):
    """Return log10(z)."""
    return np.log10(z)


@inline
def complex_exp2_slope(z):
    """Return log(2) 2^z."""
    return 0.6931471805599453 * np.exp2(z)


@inline
def complex_log_slope(z):
    """Return log'(z) = 1/z."""
    return np.divide(1.0, z)


@inline
def complex_log2_slope(z):
    """Return log2'(z) = 1/(z log(2))."""
    return np.divide(1.4426950408889634, z)


@inline
def complex_log10_slope(z):
    """Return log10'(z) = 1/(z log(10))."""
    return np.divide(0.4342944819032518, z)


@inline
def complex_log1p_slope(z):
    """Return log1p'(z) = 1/(1 + z)."""
    return np.divide(1.0, 1.0 + z)


@inline
def complex_tanh(z):
    """Return tanh(z), odd, as (1 - w)/(1 + w) of w = exp(-2z), x >= 0."""
    x = -z if z.real < 0.0 else z
    m = complex_expm1(-2.0 * x)
    y = -np.divide(m, 2.0 + m)
    return -y if z.real < 0.0 else y


@inline
def complex_tanh_slope(z):
    """Return tanh'(z) = 1/cosh(z)^2, even, as 4w/(1 + w)^2 of w = exp(-2z), x >= 0."""
    e = np.exp(z if z.real < 0.0 else -z)
    s = np.divide(e + e, 1.0 + e * e)
    return s * s


@inline
def complex_tanhshrink(z):
    """Return z - tanh(z), by its series near 0."""
    w = z * z
    p = 0.008863235529902197 - 0.003592128036572481 * w
    p = p * w - 0.021869488536155203
    p = p * w + 0.05396825396825397
    p = p * w - 0.13333333333333333
    p = p * w + 0.3333333333333333
    near = abs(z.real) + abs(z.imag) < 0.07
    return z * (w * p) if near else z - complex_tanh(z)


@inline
def complex_tanhshrink_slope(z):
    """Return tanhshrink'(z) = tanh(z)^2."""
    y = complex_tanh(z)
    return y * y


@inline
def complex_sigmoid(z):
    """Return 1/(1 + exp(-z))."""
    e = np.exp(z if z.real < 0.0 else -z)
    s = np.divide(1.0, 1.0 + e)
    return e * s if z.real < 0.0 else s


@inline
def complex_sigmoid_slope(z):
    """Return sigmoid'(z) = e/(1 + e)^2, e = exp(z) or exp(-z)."""
    e = np.exp(z if z.real < 0.0 else -z)
    s = np.divide(1.0, 1.0 + e)
    return e * s * s


@inline
def complex_softplus(z):
    """Return log(1 + e^z), the imaginary part between -pi and pi."""
    rest = complex_log1p(np.exp(z if z.real < 0.0 else -z))
    y = rest.imag + z.imag
    return z.real + rest.real + 1j * np.arctan2(np.sin(y), np.cos(y)) if z.real >= 0.0 else rest


@inline
def complex_log_sigmoid(z):
    """Return -log(1 + exp(-z)), the imaginary part between -pi and pi."""
    return -complex_softplus(-z)


@inline
def complex_exp_difference(a, b):
    """Return exp(a - b), and 0 where a is -inf: the weight of a in a logsumexp b."""
    return 0j if a.real == -np.inf else np.exp(a - b)


@inline
def complex_ratio_or_zero(a, b):
    """Return a/b, and 0 where b is 0."""
    return 0j if (b == 0.0) & (not np.isnan(a)) else np.divide(a, b)


@inline
def complex_silu(z):
    """Return z sigmoid(z)."""
    return z * complex_sigmoid(z)


@inline
def complex_silu_slope(z):
    """Return silu'(z) = s + z s (1 - s), s = sigmoid(z)."""
    return complex_sigmoid(z) + z * complex_sigmoid_slope(z)


@inline
def complex_mish(z):
    """Return z tanh(softplus(z)), (w^2 + 2w)/(w^2 + 2w + 2) of w = e^z times z."""
    e = np.exp(z if z.real < 0.0 else -z)
    above = z * np.divide(1.0 + 2.0 * e, 1.0 + 2.0 * e + 2.0 * e * e)
    below = z * np.divide(e * (e + 2.0), e * e + 2.0 * e + 2.0)
    return below if z.real < 0.0 else above


@inline
def complex_mish_slope(z):
    """Return mish'(z), in e = exp(z) or exp(-z)."""
    e = np.exp(z if z.real < 0.0 else -z)
    q = np.divide(1.0, 1.0 + 2.0 * e + 2.0 * e * e)
    above = (1.0 + 2.0 * e) * q + z * (4.0 * e * e * (1.0 + e)) * q * q
    q = np.divide(1.0, e * e + 2.0 * e + 2.0)
    below = e * (e + 2.0) * q + z * (4.0 * e * (1.0 + e)) * q * q
    return below if z.real < 0.0 else above


@inline
def complex_gelu_tanh(z):
    """Return z sigmoid(u), u = 2 sqrt(2/pi) (z + 0.044715 z^3)."""
    return z * complex_sigmoid(1.5957691216057308 * (z + 0.044715 * z * z * z))


@inline
def complex_gelu_tanh_slope(z):
    """Return gelu_tanh'(z) = s + z s (1 - s) u', s = sigmoid(u)."""
    u = 1.5957691216057308 * (z + 0.044715 * z * z * z)
    slope = 1.5957691216057308 * (1.0 + 0.134145 * z * z)
    return complex_sigmoid(u) + z * slope * complex_sigmoid_slope(u)


@inline
def complex_power(a, p):
    """Return a^p; a^2, a^3 and a^-1 as products."""
    if p == 2.0:
        return a * a
    if p == 3.0:
        return a * a * a
    if p == -1.0:
        return np.divide(1.0, a)
    return a**p


@inline
def complex_power_slope(a, p):
    """Return d a^p/da = p a^(p - 1), and 0 at p = 0."""
    return 0j if p == 0.0 else p * complex_power(a, p - 1.0)


@inline
def complex_power_exponent_slope(a, p):
    """Return d a^p/dp = a^p log(a), and 0 at a = 0."""
    return 0j if a == 0.0 else a**p * np.log(a)


@inline
def complex_reciprocal(z):
    """Return 1/z."""
    return np.divide(1.0, z)


@inline
def complex_reciprocal_slope(z):
    """Return reciprocal'(z) = -1/z^2."""
    return -np.divide(np.divide(1.0, z), z)


@inline
def complex_quotient_slope(a, b):
    """Return d (a/b)/db = -a/b^2."""
    return -np.divide(np.divide(a, b), b)


@inline
def complex_tan_slope(z):
    """Return tan'(z) = tanh'(iz)."""
    return complex_tanh_slope(1j * z)


@inline
def complex_arcsin_slope(z):
    """Return arcsin'(z) = 1/(sqrt(1 - z) sqrt(1 + z))."""
    return np.divide(1.0, np.sqrt(1.0 - z) * np.sqrt(1.0 + z))


@inline
def complex_arctan_slope(z):
    """Return arctan'(z) = 1/((1 + iz)(1 - iz))."""
    return np.divide(1.0, (1.0 + 1j * z) * (1.0 - 1j * z))


@inline
def complex_sinh(z):
    """Return sinh(z)."""
    return np.sinh(z)


@inline
def complex_cosh(z):
    """Return cosh(z)."""
    return np.cosh(z)


@inline
def complex_arcsinh(z):
    """Return arcsinh(z)."""
    return np.arcsinh(z)


@inline
def complex_arccosh(z):
    """Return arccosh(z)."""
    return np.arccosh(z)


@inline
def complex_arctanh(z):
    """Return arctanh(z)."""
    return np.arctanh(z)


@inline
def complex_arcsinh_slope(z):
    """Return arcsinh'(z) = 1/(sqrt(1 + iz) sqrt(1 - iz))."""
    return np.divide(1.0, np.sqrt(1.0 + 1j * z) * np.sqrt(1.0 - 1j * z))


@inline
def complex_arccosh_slope(z):
    """Return arccosh'(z) = 1/(sqrt(z - 1) sqrt(z + 1))."""
    return np.divide(1.0, np.sqrt(z - 1.0) * np.sqrt(z + 1.0))


@inline
def complex_arctanh_slope(z):
    """Return arctanh'(z) = 1/((1 - z)(1 + z))."""
    return np.divide(1.0, (1.0 - z) * (1.0 + z))


@inline
def complex_exp2_curvature(z):
    """Return exp2''(z) = log(2)^2 2^z."""
    return 0.4804530139182014 * np.exp2(z)


@inline
def complex_log_curvature(z):
    """Return log''(z) = -1/z^2."""
    return -np.divide(np.divide(1.0, z), z)


@inline
def complex_log2_curvature(z):
    """Return log2''(z) = -1/(z^2 log(2))."""
    return -np.divide(np.divide(1.4426950408889634, z), z)


@inline
def complex_log10_curvature(z):
    """Return log10''(z) = -1/(z^2 log(10))."""
    return -np.divide(np.divide(0.4342944819032518, z), z)


@inline
def complex_log1p_curvature(z):
    """Return log1p''(z) = -1/(1 + z)^2."""
    s = np.divide(1.0, 1.0 + z)
    return -s * s


@inline
def complex_sqrt_curvature(z):
    """Return sqrt''(z) = -1/(4 z sqrt(z))."""
    return np.divide(np.divide(-0.25, z), np.sqrt(z))


@inline
def complex_reciprocal_curvature(z):
    """Return reciprocal''(z) = 2/z^3."""
    r = np.divide(1.0, z)
    return 2.0 * (r * r * r)


@inline
def complex_quotient_curvature(a, b):
    """Return d2 (a/b)/db2 = 2a/b^3."""
    return 2.0 * np.divide(np.divide(np.divide(a, b), b), b)


@inline
def complex_power_curvature(a, p):
    """Return d2 a^p/da2 = p (p - 1) a^(p - 2), and 0 at p = 0 and p = 1."""
    return 0j if p == 0.0 else p * complex_power_slope(a, p - 1.0)


@inline
def complex_power_mixed(a, p):
    """Return d2 a^p/da dp = a^(p - 1) (1 + p log(a))."""
    return a ** (p - 1.0) * (1.0 + p * np.log(a))


@inline
def complex_power_exponent_curvature(a, p):
    """Return d2 a^p/dp2 = a^p log(a)^2, and 0 at a = 0."""
    w = np.log(a)
    return 0j if a == 0.0 else a**p * w * w


@inline
def complex_tanh_curvature(z):
    """Return tanh''(z) = -2 tanh(z)/cosh(z)^2."""
    return -2.0 * complex_tanh(z) * complex_tanh_slope(z)


@inline
def complex_tan_curvature(z):
    """Return tan''(z) = 2 tan(z)/cos(z)^2."""
    return 2.0 * np.tan(z) * complex_tan_slope(z)


@inline
def complex_arcsin_curvature(z):
    """Return arcsin''(z) = z arcsin'(z)^3."""
    s = complex_arcsin_slope(z)
    return z * s * s * s


@inline
def complex_arctan_curvature(z):
    """Return arctan''(z) = -2z arctan'(z)^2."""
    s = complex_arctan_slope(z)
    return -2.0 * z * s * s


@inline
def complex_arcsinh_curvature(z):
    """Return arcsinh''(z) = -z arcsinh'(z)^3."""
    s = complex_arcsinh_slope(z)
    return -z * s * s * s


@inline
def complex_arccosh_curvature(z):
    """Return arccosh''(z) = -z arccosh'(z)^3."""
    s = complex_arccosh_slope(z)
    return -z * s * s * s


@inline
def complex_arctanh_curvature(z):
    """Return arctanh''(z) = 2z arctanh'(z)^2."""
    s = complex_arctanh_slope(z)
    return 2.0 * z * s * s


@inline
def complex_sigmoid_curvature(z):
    """Return sigmoid''(z) = -sigmoid'(z) tanh(z/2)."""
    return -complex_sigmoid_slope(z) * complex_tanh(0.5 * z)


@inline
def complex_silu_curvature(z):
    """Return silu''(z) = sigmoid'(z) (2 - z tanh(z/2))."""
    return complex_sigmoid_slope(z) * (2.0 - z * complex_tanh(0.5 * z))


@inline
def complex_mish_curvature(z):
    """Return mish''(z) = 2T' + z T'', T' = 4w(1 + w)/D^2, w = e^z, D = w^2 + 2w + 2."""
    e = np.exp(z if z.real < 0.0 else -z)
    q = np.divide(1.0, 1.0 + 2.0 * e + 2.0 * e * e)
    slope = 4.0 * e * e * (1.0 + e) * q * q
    above = 2.0 * slope + z * (4.0 * e * e * (((2.0 * e + 2.0) * e - 3.0) * e - 2.0)) * q * q * q
    q = np.divide(1.0, e * e + 2.0 * e + 2.0)
    slope = 4.0 * e * (1.0 + e) * q * q
    below = 2.0 * slope + z * (4.0 * e * (2.0 + (2.0 - (3.0 + 2.0 * e) * e) * e)) * q * q * q
    return below if z.real < 0.0 else above


@inline
def complex_gelu_tanh_curvature(z):
    """Return gelu_tanh''(z) = s' (2u' + z u'' - z u'^2 tanh(u/2)), s = sigmoid(u)."""
    u = 1.5957691216057308 * (z + 0.044715 * z * z * z)
    slope = 1.5957691216057308 * (1.0 + 0.134145 * z * z)
    half = complex_tanh(0.5 * u)
    bend = 0.42812889763559453 * z * z - z * slope * slope * half
    return complex_sigmoid_slope(u) * (2.0 * slope + bend)
