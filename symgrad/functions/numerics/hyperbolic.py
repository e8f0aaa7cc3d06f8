"""Hyperbolic functions and their inverses, from exponentials and logarithms near 1."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, D402

import numpy as np

from symgrad.functions.numerics import inline
from symgrad.functions.numerics.exponential import exp_parts, log1p


@inline
def quarter_less(z):
    """Return (e^|z| - 1)/4, which nothing cancels in and which overflows nowhere."""
    q, s, t = exp_parts(abs(z))
    c = 0.25 * s * t
    return q * c + (c - 0.25)


@inline
def sinh(z):
    """Return sinh(z) = 2 (m + m/(4m + 1)), m = (e^|z| - 1)/4, with the sign of z; z near 0."""
    z = np.float64(z)
    m = quarter_less(z)
    d = 1.0 / (4.0 * (m + 0.25))
    return z if abs(z) < 1e-8 else np.copysign(2.0 * (m + m * d), z)


@inline
def cosh(z):
    """Return cosh(z) = 2h + 1/(8h), h = e^|z|/4."""
    m = quarter_less(z)
    d = 1.0 / (4.0 * (m + 0.25))
    return 2.0 * (m + 0.25) + 0.5 * d


@inline
def arcsinh(z):
    """Return log(x + sqrt(1 + x^2)) = log1p(x + x^2/(1 + sqrt(1 + x^2))), x = |z|, signed."""
    x = np.float64(abs(z))
    y = min(x, 1e9)
    w = y * y
    near = log1p(y + w / (1.0 + np.sqrt(1.0 + w)) if x < 1e9 else x - 1.0)
    return np.copysign(near if x < 1e9 else near + 0.6931471805599453, z)


@inline
def arccosh(z):
    """Return log(z + sqrt(z^2 - 1)) = log1p(t + sqrt(t (z + 1))), t = z - 1; nan below 1."""
    z = np.float64(z)
    y = max(z, 0.0)
    y = min(y, 1e9)
    t = y - 1.0
    near = log1p(t + np.sqrt(t * (y + 1.0)) if z < 1e9 else z - 1.0)
    return near if z < 1e9 else near + 0.6931471805599453


@inline
def arctanh(z):
    """Return log((1 + x)/(1 - x))/2 = log1p(2x/(1 - x))/2, x = |z|, with the sign of z."""
    x = np.float64(abs(z))
    return np.copysign(0.5 * log1p(2.0 * x / (1.0 - x)), z)
