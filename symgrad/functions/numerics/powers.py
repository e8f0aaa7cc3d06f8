"""Powers, roots, angles and hypotenuses, safe at 0 and at the ends of the range."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201

import numpy as np

from symgrad.functions.numerics import inline
from symgrad.functions.numerics.exponential import exp, log


@inline
def power(a, p):
    """Return a^p as IEEE has it; small constant exponents fold to a few products."""
    a = np.float64(a)
    p = np.float64(p)
    if p == 3.0:
        return a * a * a
    if p == 4.0:
        return (a * a) * (a * a)
    if p == -2.0:
        return (1.0 / a) / a
    if p == -0.5:
        return 0.0 if a == -np.inf else 1.0 / np.sqrt(a + 0.0)
    return a**p


@inline
def power_slope(a, p):
    """Return d a^p/da = p a^(p - 1), and 0 at p = 0."""
    p = np.float64(p)
    return 0.0 if p == 0.0 else p * power(a, p - 1.0)


@inline
def power_exponent_slope(a, p):
    """Return d a^p/dp = a^p log(a), and 0 at a = 0 where p >= 0."""
    a = np.float64(a)
    p = np.float64(p)
    h = a ** (0.5 * p)  # a square keeps digits that a subnormal a^p has lost
    return 0.0 if (a == 0.0) & (p >= 0.0) else h * np.log(a) * h


@inline
def cbrt(z):
    """Return the cube root with the sign of z: exp(log|z|/3) and one Newton step."""
    z = np.float64(z)
    x = abs(z)
    y = exp(0.3333333333333333 * log(x))
    y = y - (y - x / (y * y)) * 0.3333333333333333
    return np.copysign(y, z) if (z != 0.0) & (x < np.inf) else z


@inline
def cbrt_slope(z):
    """Return cbrt'(z) = 1/(3 cbrt(z)^2)."""
    y = cbrt(z)
    return 1.0 / (3.0 * y * y)


@inline
def reciprocal(z):
    """Return 1/z."""
    return 1.0 / np.float64(z)


@inline
def reciprocal_slope(z):
    """Return reciprocal'(z) = -1/z^2, in two divisions, which do not overflow early."""
    z = np.float64(z)
    return -(1.0 / z) / z


@inline
def quotient_slope(a, b):
    """Return d (a/b)/db = -a/b^2, in two divisions where the square leaves the range."""
    a = np.float64(a)
    w = b * b
    return -a / w if (w > 1e-290) & (w < 1e290) else -(a / b) / b


@inline
def ratio_or_zero(a, b):
    """Return a/b, and 0 where b is 0."""
    return 0.0 if (b == 0.0) & (not np.isnan(a)) else np.float64(a) / b


@inline
def ratio_or_zero_slope(a, b):
    """Return d ratio_or_zero/da = 1/b, and 0 where b is 0."""
    return 0.0 if b == 0.0 else 1.0 / np.float64(b)


@inline
def ratio_or_zero_divisor_slope(a, b):
    """Return d ratio_or_zero/db = -a/b^2, and 0 where b is 0."""
    return 0.0 if b == 0.0 else quotient_slope(a, b)


@inline
def tan_slope(z):
    """Return tan'(z) = 1/cos(z)^2."""
    c = np.cos(np.float64(z))
    return 1.0 / (c * c)


@inline
def arcsin_slope(z):
    """Return arcsin'(z) = 1/sqrt((1 - z)(1 + z))."""
    z = np.float64(z)
    return 1.0 / np.sqrt((1.0 - z) * (1.0 + z))


@inline
def arctan_slope(z):
    """Return arctan'(z) = 1/(1 + z^2)."""
    z = np.float64(z)
    return (1.0 / z) / z if abs(z) > 1e18 else 1.0 / (1.0 + z * z)


@inline
def over_square(c, a, b):
    """Return c/(a^2 + b^2) for c = a or b, scaled where a square leaves the range."""
    w = a * a + b * b
    m = np.float64(max(abs(a), abs(b)))
    s = a / m
    t = b / m
    scaled = c / m / (s * s + t * t) / m
    return c / np.float64(w) if (w > 1e-290) & (w < 1e290) else scaled


@inline
def arctan2_slope(a, b):
    """Return d arctan2(a, b)/da = b/(a^2 + b^2)."""
    return over_square(b, np.float64(a), np.float64(b))


@inline
def arctan2_second_slope(a, b):
    """Return d arctan2(a, b)/db = -a/(a^2 + b^2)."""
    return -over_square(a, np.float64(a), np.float64(b))


@inline
def arcsinh_slope(z):
    """Return arcsinh'(z) = 1/sqrt(1 + z^2)."""
    z = np.float64(z)
    return 1.0 / abs(z) if abs(z) > 1e18 else 1.0 / np.sqrt(1.0 + z * z)


@inline
def arccosh_slope(z):
    """Return arccosh'(z) = 1/sqrt((z - 1)(z + 1)); nan below 1."""
    z = np.float64(z)
    return 1.0 / (np.sqrt(z - 1.0) * np.sqrt(z + 1.0))


@inline
def arctanh_slope(z):
    """Return arctanh'(z) = 1/((1 - z)(1 + z)); nan outside [-1, 1]."""
    z = np.float64(z)
    return np.nan if abs(z) > 1.0 else 1.0 / ((1.0 - z) * (1.0 + z))


@inline
def hypot_slope(a, b):
    """Return d hypot(a, b)/da = a/hypot(a, b), and 0 where both are 0; scaled by the larger."""
    a = np.float64(a)
    m = max(abs(a), abs(b))
    s = a / m
    t = b / m
    return 0.0 if (a == 0.0) & (b == 0.0) else s / np.sqrt(s * s + t * t)


@inline
def softsign(z):
    """Return z/(1 + |z|)."""
    return z / np.float64(1.0 + abs(z))


@inline
def softsign_slope(z):
    """Return softsign'(z) = 1/(1 + |z|)^2."""
    s = 1.0 / np.float64(1.0 + abs(z))
    return s * s
