"""Smooth activations that are products or differences: their tails keep all digits.

float -> float
A tail z e^z is formed as (z h) h with h = e^(z/2), so that it underflows once, at the end.
"""

from __future__ import annotations

from symgrad.functions.inlined import inline
from symgrad.functions.scalars.exponential import exp, sigmoid, sigmoid_slope, tanh, tanh_slope


@inline
def silu(z: float) -> float:
    """Return z sigmoid(z); 0 at -inf."""
    y = -800.0 if z < -800.0 else z
    h = exp(-0.5 * abs(y))
    d = 1.0 + h * h
    return (y * h) * (h / d) if y < 0.0 else y / d


@inline
def silu_slope(z: float) -> float:
    """Return s + z s (1 - s) with s = sigmoid(z)."""
    y = -800.0 if z < -800.0 else z
    y = 800.0 if y > 800.0 else y
    h = exp(-0.5 * abs(y))
    d = 1.0 + h * h
    falling = h * (1.0 + y / d) * (h / d)
    return falling if y < 0.0 else (1.0 + y * (h * (h / d))) / d


@inline
def silu_curvature(z: float) -> float:
    """Return s' (2 - z tanh(z/2)) with s = sigmoid(z)."""
    y = -800.0 if z < -800.0 else z
    y = 800.0 if y > 800.0 else y
    h = exp(-0.5 * abs(y))
    d = 1.0 + h * h
    return h * (2.0 - y * tanh(0.5 * y)) * (h / (d * d))


@inline
def mish(z: float) -> float:
    """Return z tanh(softplus(z)), a quotient of polynomials in exp(-|z|)."""
    y = -800.0 if z < -800.0 else z
    h = exp(-0.5 * abs(y))
    e = h * h
    falling = (y * h) * (h * (2.0 + e) / (2.0 + e * (2.0 + e)))
    return falling if y < 0.0 else y * ((1.0 + 2.0 * e) / (1.0 + 2.0 * e * (1.0 + e)))


@inline
def mish_slope(z: float) -> float:
    """Return tanh(p) + z sech(p)^2 sigmoid(z) with p = softplus(z)."""
    y = -800.0 if z < -800.0 else z
    y = 800.0 if y > 800.0 else y
    h = exp(-0.5 * abs(y))
    e = h * h
    d = 2.0 + e * (2.0 + e) if y < 0.0 else 1.0 + 2.0 * e * (1.0 + e)
    falling = h * ((2.0 + e) + 4.0 * y * (1.0 + e) / d) * (h / d)
    return falling if y < 0.0 else (1.0 + 2.0 * e + 4.0 * y * (e * e) * (1.0 + e) / d) / d


@inline
def mish_curvature(z: float) -> float:
    """Return sech(p)^2 (2 s + z s (1 - s) - 2 z s^2 tanh(p)), p = softplus(z), s = sigmoid(z)."""
    y = -800.0 if z < -800.0 else z
    y = 800.0 if y > 800.0 else y
    h = exp(-0.5 * abs(y))
    e = h * h
    below = 2.0 + e * (2.0 + e)
    above = 1.0 + 2.0 * e * (1.0 + e)
    t = e * (2.0 + e) / below if y < 0.0 else (1.0 + 2.0 * e) / above
    s = sigmoid(y)
    rest = 2.0 + y * ((1.0 - s) - 2.0 * s * t)
    q = (1.0 + e) / below if y < 0.0 else (1.0 + e) / above
    falling = h * (4.0 * q * q / (1.0 + e) * rest) * h
    return falling if y < 0.0 else 4.0 * e * e * q * q / (1.0 + e) * rest


@inline
def gelu_tanh(z: float) -> float:
    """Return z sigmoid(2u), u = sqrt(2/pi) (z + 0.044715 z^3)."""
    y = -40.0 if z < -40.0 else z
    x = 40.0 if y > 40.0 else y
    h = exp(-0.7978845608028654 * abs(x) * (1.0 + 0.044715 * x * x))
    d = 1.0 + h * h
    return (y * h) * (h / d) if y < 0.0 else z / d


@inline
def gelu_tanh_slope(z: float) -> float:
    """Return s + z s (1 - s) 2u' with s = sigmoid(2u)."""
    y = -40.0 if z < -40.0 else z
    y = 40.0 if y > 40.0 else y
    h = exp(-0.7978845608028654 * abs(y) * (1.0 + 0.044715 * y * y))
    d = 1.0 + h * h
    steep = 1.5957691216057308 * y * (1.0 + 0.134145 * y * y)
    falling = h * (1.0 + steep / d) * (h / d)
    return falling if y < 0.0 else (1.0 + steep * (h * (h / d))) / d


@inline
def gelu_tanh_curvature(z: float) -> float:
    """Return s' (4u' + 2 z u'' - z (2u')^2 tanh(u)) with s = sigmoid(2u)."""
    y = -40.0 if z < -40.0 else z
    y = 40.0 if y > 40.0 else y
    u = 0.7978845608028654 * y * (1.0 + 0.044715 * y * y)
    h = exp(-abs(u))
    d = 1.0 + h * h
    first = 1.5957691216057308 * (1.0 + 0.134145 * y * y)
    second = 1.5957691216057308 * 0.26829 * y
    rest = 2.0 * first + y * second - y * first * first * tanh(u)
    return h * rest * (h / (d * d))


@inline
def softsign(z: float) -> float:
    """Return z / (1 + |z|); 1 and -1 at the infinities."""
    y = 1e300 if z > 1e300 else z
    y = -1e300 if y < -1e300 else y
    return y / (1.0 + abs(y))


@inline
def softsign_slope(z: float) -> float:
    """Return 1 / (1 + |z|)^2."""
    w = 1.0 / (1.0 + abs(z))
    return w * w


@inline
def softsign_curvature(z: float) -> float:
    """Return -2 sign(z) / (1 + |z|)^3, 0 at 0."""
    w = 1.0 / (1.0 + abs(z))
    twice = -2.0 if z > 0.0 else (2.0 if z < 0.0 else 0.0 * z)
    return twice * w * w * w


@inline
def tanhshrink(z: float) -> float:
    """Return z - tanh(z), by z^3 times a polynomial in z^2 near 0."""
    w = z * z
    q = 1.833596211003942e-05
    q = q * w - 8.154737806525365e-05
    q = q * w + 0.0002322510406793851
    q = q * w - 0.0005880541548418729
    q = q * w + 0.001455464802800745
    q = q * w - 0.0035920831663434575
    q = q * w + 0.008863232113541474
    q = q * w - 0.02186948838378093
    q = q * w + 0.05396825396475762
    q = q * w - 0.13333333333330197
    q = q * w + 0.33333333333333326
    return z * w * q if abs(z) < 0.6 else z - tanh(z)


@inline
def tanhshrink_slope(z: float) -> float:
    """Return tanh(z)^2."""
    t = tanh(z)
    return t * t


@inline
def tanhshrink_curvature(z: float) -> float:
    """Return 2 tanh(z) sech(z)^2."""
    return 2.0 * tanh(z) * tanh_slope(z)


@inline
def log_sigmoid_slope(z: float) -> float:
    """Return sigmoid(-z)."""
    return sigmoid(-z)


@inline
def log_sigmoid_curvature(z: float) -> float:
    """Return -sigmoid'(z)."""
    return -sigmoid_slope(z)
