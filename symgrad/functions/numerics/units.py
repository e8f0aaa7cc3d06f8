"""Activations made of exponentials: silu, mish, gelu_tanh, elu and its kin.

Where a tail must keep its digits, e^z = (1 + q) s t enters as a product whose last factor is t.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201

import numpy as np

from symgrad.functions.numerics import inline
from symgrad.functions.numerics.exponential import exp, exp_parts, expm1


@inline
def silu(z):
    """Return z sigmoid(z) = z/(1 + e), z e/(1 + e) below 0, e = exp(-|z|)."""
    q, s, t = exp_parts(-abs(z))
    y = 1.0 / (1.0 + (1.0 + q) * s * t)
    x = max(z, -1400.0) * y
    return x * (1.0 + q) * s * t if z < 0.0 else x


@inline
def silu_slope(z):
    """Return silu'(z) = y + z y (1 - y), y = sigmoid(z), in e = exp(-|z|)."""
    q, s, t = exp_parts(-abs(z))
    e = (1.0 + q) * s * t
    y = 1.0 / (1.0 + e)
    x = max(z, -1400.0)
    x = min(x, 1400.0)
    above = y + x * e * (y * y)
    below = y + x * (y * y)
    return below * (1.0 + q) * s * t if z < 0.0 else above


@inline
def mish(z):
    """Return z tanh(softplus(z)), tanh(log(1 + w)) = (w^2 + 2w)/(w^2 + 2w + 2)."""
    q, s, t = exp_parts(-abs(z))
    e = (1.0 + q) * s * t
    high = z >= 0.0
    d = 1.0 / (1.0 + 2.0 * e + 2.0 * e * e if high else e * e + 2.0 * e + 2.0)
    x = max(z, -1400.0)
    return x * ((1.0 + 2.0 * e) * d) if high else x * ((e + 2.0) * d * (1.0 + q)) * s * t


@inline
def mish_slope(z):
    """Return mish'(z) = tanh(p) + z sigmoid(z)/cosh(p)^2, p = softplus(z), in e = exp(-|z|)."""
    q, s, t = exp_parts(-abs(z))
    e = (1.0 + q) * s * t
    high = z >= 0.0
    d = 1.0 / (1.0 + 2.0 * e + 2.0 * e * e if high else e * e + 2.0 * e + 2.0)
    x = max(z, -1400.0)
    x = min(x, 1400.0)
    above = (1.0 + 2.0 * e) * d + x * (4.0 * e * e * (1.0 + e)) * d * d
    below = (e + 2.0) * d + x * (4.0 * (1.0 + e)) * d * d
    return above if high else below * (1.0 + q) * s * t


@inline
def gate_parts(z):
    """Return the parts of e = exp(-|u|), u = 2 sqrt(2/pi) (z + 0.044715 z^3), gelu_tanh's gate."""
    z = np.float64(z)
    return exp_parts(-abs(1.5957691216057308 * (z + 0.044715 * z * z * z)))


@inline
def gelu_tanh(z):
    """Return z sigmoid(u), u = 2 sqrt(2/pi) (z + 0.044715 z^3)."""
    q, s, t = gate_parts(z)
    y = 1.0 / (1.0 + (1.0 + q) * s * t)
    x = max(z, -1400.0) * y
    return x * (1.0 + q) * s * t if z < 0.0 else x


@inline
def gelu_tanh_slope(z):
    """Return gelu_tanh'(z) = y + z y (1 - y) u', y = sigmoid(u)."""
    q, s, t = gate_parts(z)
    e = (1.0 + q) * s * t
    y = 1.0 / (1.0 + e)
    x = max(z, -100.0)
    x = min(x, 100.0)
    bend = x * (1.5957691216057308 + 0.21406444881779727 * x * x) * (y * y)
    above = y + bend * e
    below = y + bend
    return below * (1.0 + q) * s * t if z < 0.0 else above


@inline
def elu(z, alpha):
    """Return z above 0, alpha (e^z - 1) below."""
    return z if z > 0.0 else alpha * expm1(z)


@inline
def elu_slope(z, alpha):
    """Return d elu/dz: 1 above 0, alpha e^z below and at 0."""
    q, s, t = exp_parts(z)
    return 1.0 if z > 0.0 else alpha * (1.0 + q) * s * t


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
    q, s, t = exp_parts(z)
    return 1.0507009873554805 if z > 0.0 else 1.7580993408473768 * (1.0 + q) * s * t
