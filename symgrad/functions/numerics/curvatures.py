"""Second derivatives, each with one factor left outside so that tails keep their digits.

exp(-|z|) enters as (1 + q) s t, with t last: the last product alone may leave the range.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201

import numpy as np

from symgrad.functions.numerics import inline
from symgrad.functions.numerics.exponential import (
    exp,
    exp2_parts,
    exp_parts,
    sigmoid_slope,
)
from symgrad.functions.numerics.gammas import digamma, gamma_function, trigamma
from symgrad.functions.numerics.gaussian import bell_parts
from symgrad.functions.numerics.powers import cbrt, power_slope, reciprocal_slope
from symgrad.functions.numerics.units import gate_parts


@inline
def exp2_curvature(z):
    """Return exp2''(z) = log(2)^2 2^z."""
    q, s, t = exp2_parts(z)
    return 0.4804530139182014 * (1.0 + q) * s * t


@inline
def log_curvature(z):
    """Return log''(z) = -1/z^2; nan below 0."""
    x = np.float64(abs(z))
    return np.nan if z < 0.0 else -(1.0 / x) / x


@inline
def log2_curvature(z):
    """Return log2''(z) = -1/(z^2 log(2)); nan below 0."""
    x = np.float64(abs(z))
    return np.nan if z < 0.0 else -(1.4426950408889634 / x) / x


@inline
def log10_curvature(z):
    """Return log10''(z) = -1/(z^2 log(10)); nan below 0."""
    x = np.float64(abs(z))
    return np.nan if z < 0.0 else -(0.4342944819032518 / x) / x


@inline
def log1p_curvature(z):
    """Return log1p''(z) = -1/(1 + z)^2; nan below -1."""
    s = 1.0 / np.float64(1.0 + z)
    return np.nan if z < -1.0 else -s * s


@inline
def sqrt_curvature(z):
    """Return sqrt''(z) = -1/(4 z sqrt(z))."""
    z = np.float64(z)
    return -0.25 / z / np.sqrt(z) if z != 0.0 else -np.inf


@inline
def cbrt_curvature(z):
    """Return cbrt''(z) = -2/(9 cbrt(z)^5)."""
    y = cbrt(z)
    w = y * y
    return -0.2222222222222222 / w / w / y


@inline
def reciprocal_curvature(z):
    """Return reciprocal''(z) = 2/z^3."""
    z = np.float64(z)
    return 2.0 / z / z / z


@inline
def quotient_curvature(a, b):
    """Return d2 (a/b)/db2 = 2a/b^3."""
    b = np.float64(b)
    w = b * b * b
    tame = (abs(w) > 1e-290) & (abs(w) < 1e290)
    return 2.0 * (a / w) if tame else 2.0 * (a / b / b / b)


@inline
def ratio_or_zero_mixed(b):
    """Return d2 ratio_or_zero/da db = -1/b^2, and 0 where b is 0."""
    return 0.0 if b == 0.0 else reciprocal_slope(b)


@inline
def ratio_or_zero_curvature(a, b):
    """Return d2 ratio_or_zero/db2 = 2a/b^3, and 0 where b is 0."""
    return 0.0 if b == 0.0 else quotient_curvature(a, b)


@inline
def power_curvature(a, p):
    """Return d2 a^p/da2 = p (p - 1) a^(p - 2), and 0 at p = 0 and p = 1."""
    p = np.float64(p)
    return 0.0 if p == 0.0 else p * power_slope(a, p - 1.0)


@inline
def power_mixed(a, p):
    """Return d2 a^p/da dp = a^(p - 1) (1 + p log(a)), and 0 at a = 0 where p > 1."""
    a = np.float64(a)
    p = np.float64(p)
    h = a ** (0.5 * (p - 1.0))
    log_part = 0.0 if p == 0.0 else p * np.log(a)
    return 0.0 if (a == 0.0) & (p > 1.0) else h * (1.0 + log_part) * h


@inline
def power_exponent_curvature(a, p):
    """Return d2 a^p/dp2 = a^p log(a)^2, and 0 at a = 0 where p >= 0."""
    a = np.float64(a)
    p = np.float64(p)
    h = a ** (0.5 * p) * np.log(a)
    return 0.0 if (a == 0.0) & (p >= 0.0) else h * h


@inline
def tan_curvature(z):
    """Return tan''(z) = 2 tan(z)/cos(z)^2."""
    z = np.float64(z)
    c = np.cos(z)
    return 2.0 * np.tan(z) / (c * c)


@inline
def arcsin_curvature(z):
    """Return arcsin''(z) = z/((1 - z)(1 + z))^(3/2)."""
    z = np.float64(z)
    w = (1.0 - z) * (1.0 + z)
    return z / (w * np.sqrt(w))


@inline
def arctan_curvature(z):
    """Return arctan''(z) = -2z/(1 + z^2)^2."""
    z = np.float64(z)
    s = 1.0 / (1.0 + z * z)
    return -2.0 / z / z / z if abs(z) > 1e100 else -2.0 * z * s * s


@inline
def arctan2_curvature(a, b):
    """Return d2 arctan2(a, b)/db2 = -d2/da2 = 2ab/(a^2 + b^2)^2, m the larger of |a|, |b|."""
    a = np.float64(a)
    b = np.float64(b)
    m = max(abs(a), abs(b))
    s = a / m
    t = b / m
    q = (s * s + t * t) * (s * s + t * t)
    least = s * b if abs(b) < m else a * t  # ab/m
    w = m * m * m
    tame = (w > 1e-290) & (w < 1e290)
    return 2.0 * (least / (w * q)) if tame else 2.0 * (least / m / m / m / q)


@inline
def arctan2_mixed(a, b):
    """Return d2 arctan2(a, b)/da db = (a - b)(a + b)/(a^2 + b^2)^2, scaled by the larger."""
    a = np.float64(a)
    b = np.float64(b)
    m = max(abs(a), abs(b))
    k = 0.25 if m > 1e300 else 1.0
    s = a / m
    t = b / m
    q = s * s + t * t
    low = (k * a - k * b) / (k * m) / m / q
    result = low * ((k * a + k * b) / (k * m) / m / q)
    return 0.0 if (abs(a) == abs(b)) & (m > 0.0) else result


@inline
def tanh_curvature(z):
    """Return tanh''(z) = -2 tanh(z)/cosh(z)^2."""
    q, s, t = exp_parts(-2.0 * abs(z))
    m = q * (s * t) + (s * t - 1.0)
    d = 1.0 / (m + 2.0)
    return np.copysign(2.0 * (m * d) * (4.0 * d * d * (1.0 + q)) * s * t, -z)


@inline
def arcsinh_curvature(z):
    """Return arcsinh''(z) = -z/(1 + z^2)^(3/2)."""
    z = np.float64(z)
    w = 1.0 + z * z
    return -(1.0 / z) / abs(z) if abs(z) > 1e100 else -z / (w * np.sqrt(w))


@inline
def arccosh_curvature(z):
    """Return arccosh''(z) = -z/((z - 1)(z + 1))^(3/2); nan below 1."""
    z = np.float64(z)
    a = np.sqrt(z - 1.0) * np.sqrt(z + 1.0)
    return -(z / a) / a / a if z < 1e100 else -1.0 / z / z


@inline
def arctanh_curvature(z):
    """Return arctanh''(z) = 2z/((1 - z)(1 + z))^2; nan outside [-1, 1]."""
    z = np.float64(z)
    w = (1.0 - z) * (1.0 + z)
    return np.nan if abs(z) > 1.0 else 2.0 * z / (w * w)


@inline
def erf_curvature(z):
    """Return erf''(z) = -4z/sqrt(pi) exp(-z^2)."""
    q, s, t = bell_parts(z, 1.0)
    x = max(z, -100.0)
    x = min(x, 100.0)
    return -2.256758334191025 * x * (1.0 + q) * s * t


@inline
def gamma_curvature(z):
    """Return gamma''(z) = gamma(z) (digamma(z)^2 + digamma'(z))."""
    p = digamma(z)
    return gamma_function(z) * (p * p + trigamma(z))


@inline
def tetragamma(z):
    """Return digamma''(z) = -1/z^2 - 1/z^3 - 1/2z^4 + ..., after the recurrence in -2/z^3."""
    z = np.float64(z)
    x = 1.0 - z if z < 0.0 else z
    total = 0.0
    while x < 14.0:
        total -= 2.0 / x / x / x
        x += 1.0
    w = 1.0 / x
    q = w * w
    p = -17.5
    p = p * q + 3.2904761904761903
    p = p * q - 0.8333333333333334
    p = p * q + 0.3
    p = p * q - 0.16666666666666666
    p = p * q + 0.16666666666666666
    p = p * q - 0.5
    total += q * (q * p - w - 1.0)
    if z >= 0.0 or np.isnan(z):
        return total
    part = 3.141592653589793 * (z - np.floor(z))
    s = np.float64(np.sin(part))
    return total - 62.01255336059964 * np.cos(part) / s / s / s


@inline
def hypot_curvature(a, b):
    """Return d2 hypot(a, b)/da2 = b^2/hypot(a, b)^3, and 0 where both are 0."""
    a = np.float64(a)
    m = max(abs(a), abs(b))
    s = a / m
    t = b / m
    q = s * s + t * t
    return 0.0 if (a == 0.0) & (b == 0.0) else t / m / (q * np.sqrt(q)) * t


@inline
def hypot_mixed(a, b):
    """Return d2 hypot(a, b)/da db = -ab/hypot(a, b)^3, 0 where both are 0; m the larger."""
    a = np.float64(a)
    b = np.float64(b)
    m = max(abs(a), abs(b))
    s = a / m
    t = b / m
    q = s * s + t * t
    q = q * np.sqrt(q)
    least = s * b if abs(b) < m else a * t  # ab/m
    w = m * m
    tame = (w > 1e-290) & (w < 1e290)
    result = -least / (w * q) if tame else -least / m / m / q
    return 0.0 if (a == 0.0) & (b == 0.0) else result


@inline
def logaddexp_curvature(a, b):
    """Return d2 logaddexp/da2 = sigmoid'(a - b); 1/4 at ties, 0 where both are infinite."""
    tie = 0.0 if np.isinf(a) else 0.25
    return tie if a == b else sigmoid_slope(a - b)


@inline
def sigmoid_curvature(z):
    """Return sigmoid''(z) = -sigmoid'(z) tanh(z/2)."""
    q, s, t = exp_parts(-abs(z))
    m = q * (s * t) + (s * t - 1.0)
    y = 1.0 / (1.0 + (1.0 + q) * s * t)
    return np.copysign(m * y * y * y * (1.0 + q) * s * t, -z)


@inline
def silu_curvature(z):
    """Return silu''(z) = sigmoid'(z) (2 - z tanh(z/2))."""
    q, s, t = exp_parts(-abs(z))
    x = min(abs(z), 1400.0)
    e = (1.0 + q) * s * t
    y = 1.0 / (1.0 + e)
    return (2.0 - x * (1.0 - e) * y) * y * y * (1.0 + q) * s * t


@inline
def mish_curvature(z):
    """Return mish''(z) = 2T' + z T'', T' = 4w(1 + w)/D^2, w = e^z, D = w^2 + 2w + 2."""
    q, s, t = exp_parts(-abs(z))
    e = (1.0 + q) * s * t
    high = z >= 0.0
    x = max(z, -1400.0)
    x = min(x, 1400.0)
    d = 1.0 + 2.0 * e + 2.0 * e * e if high else e * e + 2.0 * e + 2.0
    cubic = ((2.0 * e + 2.0) * e - 3.0) * e - 2.0 if high else 2.0 + (2.0 - (3.0 + 2.0 * e) * e) * e
    size = 4.0 * (2.0 * (1.0 + e) * d + x * cubic) / (d * d * d)
    return (size * e if high else size) * (1.0 + q) * s * t


@inline
def gelu_curvature(z):
    """Return gelu''(z) = (2 - z^2) exp(-z^2/2)/sqrt(2 pi)."""
    q, s, t = bell_parts(z, 0.5)
    x = min(abs(z), 100.0)
    return 0.3989422804014327 * (2.0 - x * x) * (1.0 + q) * s * t


@inline
def gelu_tanh_curvature(z):
    """Return gelu_tanh''(z) = y' (2u' + z u'' - z u'^2 tanh(u/2)), y = sigmoid(u)."""
    q, s, t = gate_parts(z)
    e = (1.0 + q) * s * t
    y = 1.0 / (1.0 + e)
    x = min(abs(z), 100.0)
    slope = 1.5957691216057308 + 0.21406444881779727 * x * x
    bend = 0.42812889763559453 * x * x - x * slope * slope * (1.0 - e) * y
    return (2.0 * slope + bend) * y * y * (1.0 + q) * s * t


@inline
def softsign_curvature(z):
    """Return softsign''(z) = -2 sign(z)/(1 + |z|)^3, 0 at 0."""
    s = 1.0 / np.float64(1.0 + abs(z))
    size = 2.0 * s * s * s
    below = size if z < 0.0 else 0.0 * z
    return -size if z > 0.0 else below


@inline
def lower_exp(z):
    """Return 0 above 0, e^z below and at 0."""
    return 0.0 if z > 0.0 else exp(z)


@inline
def elu_curvature(z, alpha):
    """Return d2 elu/dz2: 0 above 0, alpha e^z below and at 0."""
    q, s, t = exp_parts(z)
    return 0.0 if z > 0.0 else alpha * (1.0 + q) * s * t


@inline
def celu_curvature(z, alpha):
    """Return d2 celu/dz2: 0 above 0, e^u/alpha below and at 0, u = z/alpha."""
    a = np.float64(alpha)
    h = exp(0.5 * (z / a))
    return 0.0 if z > 0.0 else h / a * h


@inline
def celu_mixed(z, alpha):
    """Return d2 celu/dz dalpha: 0 above 0, -u e^u/alpha below and at 0, u = z/alpha."""
    a = np.float64(alpha)
    u = z / a
    x = z if u > -1000.0 else -1000.0 * a
    h = exp(0.5 * max(u, -1000.0))
    return 0.0 if z > 0.0 else -(x * h) * (h / a / a)


@inline
def celu_alpha_curvature(z, alpha):
    """Return d2 celu/dalpha2: 0 above 0, u^2 e^u/alpha below, u = z/alpha."""
    a = np.float64(alpha)
    u = z / a
    u = max(u, -1000.0)
    h = u * exp(0.5 * u)
    return 0.0 if z > 0.0 else h / a * h


@inline
def selu_curvature(z):
    """Return selu''(z): 0 above 0, 1.75809... e^z below and at 0."""
    return elu_curvature(z, 1.7580993408473768)
