"""The same functions for float32, each called `single_` and its name for float64.

Here stand those that need constants of their own; the others that `functions/single.py` names are
the text for float64. There numbers are cast to float32, in these functions too: numba takes the
product of a float32 and a number of Python for a double. Coefficients: tools/polynomials.py.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201

import numpy as np

from symgrad.functions.numerics import inline


@inline
def single_exp_rest(r):
    """Return e^r - 1 for |r| <= log(2)/2."""
    p = 0.0013926176
    p = p * r + 0.008363173
    p = p * r + 0.041666556
    p = p * r + 0.16666578
    p = p * r + 0.5
    return r + r * r * p


@inline
def single_powers_of_two(shifted):
    """Return 2^(k // 2) and 2^(k - k // 2) of 1.5 * 2^23 + 254 + k."""
    bits = np.float32(shifted).view(np.int32)
    half = bits >> 1
    s = np.int32(half << 23).view(np.float32)
    t = np.int32((bits - half) << 23).view(np.float32)
    return s, t


@inline
def single_exp_parts(z):
    """Return q, s, t with e^z = (1 + q) s t: q = e^r - 1, |r| <= log(2)/2, s and t powers of 2."""
    return single_split_exp_parts(np.float32(z), np.float32(0.0))


@inline
def single_split_exp_parts(z, rest):
    """Return the same of z + rest, rest so small that it does not round z."""
    z = max(z, -170.0)
    z = min(z, 89.5)
    shifted = z * 1.442695 + 12583166.0  # 1.5 * 2^23 + 254 + k, rounded
    n = shifted - 12583166.0
    r = z - n * 0.69311523 - (n * 3.1946183e-05 - rest)
    s, t = single_powers_of_two(shifted)
    return single_exp_rest(r), s, t


@inline
def single_exp2_parts(z):
    """Return q, s, t with 2^z = (1 + q) s t, as `exp_parts` does for e^z."""
    z = np.float32(z)
    z = max(z, -200.0)
    z = min(z, 130.0)
    shifted = z + 12583166.0  # 1.5 * 2^23 + 254 + k, rounded
    s, t = single_powers_of_two(shifted)
    return single_exp_rest(0.6931472 * (z - (shifted - 12583166.0))), s, t


@inline
def single_expm1(z):
    """Return e^z - 1 as 4 (q c + c - 1/4), c = s t/4: nothing cancels at 0, nothing overflows."""
    z = np.float32(z)
    q, s, t = single_exp_parts(z)
    c = 0.25 * s * t
    return z if abs(z) < 1e-30 else (q * c + (c - 0.25)) * 4.0


@inline
def single_log_parts(z):
    """Return f, n, y with z = 2^n (1 + f), sqrt(1/2) <= 1 + f <= sqrt(2), y = log(1 + f) - f."""
    z = np.float32(z)
    tiny = z < 1.1754944e-38
    x = z * 33554432.0 if tiny else z
    bits = np.float32(x).view(np.int32)
    k = np.int32(np.int32(bits - 1060439283) >> 23)
    n = np.float32(k) - (25.0 if tiny else 0.0)
    f = np.int32(bits - (k << 23)).view(np.float32) - 1.0
    p = -0.07902744
    p = p * f + 0.12622319
    p = p * f - 0.12998183
    p = p * f + 0.14214496
    p = p * f - 0.16641282
    p = p * f + 0.20001045
    p = p * f - 0.25000307
    p = p * f + 0.3333333
    return f, n, f * f * (f * p - 0.5)


@inline
def single_log1p_unit(e):
    """Return log(1 + e) for 0 <= e <= 1."""
    p = -0.003176057
    p = p * e + 0.019542526
    p = p * e - 0.05637361
    p = p * e + 0.105436236
    p = p * e - 0.15269667
    p = p * e + 0.19663274
    p = p * e - 0.24951616
    p = p * e + 0.3332971
    p = p * e - 0.49999893
    p = p * e + 1.0
    return e * p


@inline
def single_gate_parts(z):
    """Return the parts of e = exp(-|u|), u = 2 sqrt(2/pi) (z + 0.044715 z^3), gelu_tanh's gate."""
    x = np.double(z)  # the numbers in np.double stay what they are
    u = -abs(np.double(1.5957691216057308) * (x + np.double(0.044715) * x * x * x))
    u = max(u, np.double(-1000.0))
    high = np.float32(u)
    return single_split_exp_parts(high, np.float32(u - high))


@inline
def single_bell_parts(z, c):
    """Return the parts of exp(-c z^2), c = 1 or 1/2; z^2 = x^2 + (z - x)(z + x), x in 12 bits."""
    z = np.float32(abs(z))
    z = min(z, 20.0)
    x = np.int32(np.float32(z).view(np.int32) & -4096).view(np.float32)
    return single_split_exp_parts(-c * (x * x), -c * ((z - x) * (z + x)))


@inline
def single_scaled_erfc(x):
    """Return exp(x^2) erfc(x) for x >= 0 as p(t)/(1 + 2x), t = (x - 4)/(x + 4)."""
    x = min(x, 1e15)
    d = 1.0 / ((x + 4.0) * (1.0 + 2.0 * x))  # one division for both
    t = 1.0 - 8.0 * (1.0 + 2.0 * x) * d
    p = 0.000116608
    p = p * t - 0.0002486323
    p = p * t - 0.00071633945
    p = p * t + 0.0050828094
    p = p * t - 0.016222274
    p = p * t + 0.03713992
    p = p * t - 0.06632326
    p = p * t + 0.09374044
    p = p * t - 0.10103995
    p = p * t + 0.06809613
    p = p * t + 0.015379684
    p = p * t - 0.13962108
    p = p * t + 1.2329952
    return p * ((x + 4.0) * d)


@inline
def single_erf(z):
    """Return erf(z): z p(z^2) near 0, 1 - erfc(|z|) with the sign of z elsewhere."""
    z = np.float32(z)
    x = abs(z)
    w = z * z
    p = -0.0007348931
    p = p * w + 0.0051767076
    p = p * w - 0.02685746
    p = p * w + 0.11283719
    p = p * w - 0.37612638
    p = p * w + 1.1283792
    q, s, t = single_bell_parts(z, 1.0)
    far = 1.0 - single_scaled_erfc(x) * (1.0 + q) * s * t
    return z * p if x < 0.6 else np.copysign(far, z)


@inline
def single_quotient_slope(a, b):
    """Return d (a/b)/db = -a/b^2, in two divisions where the square leaves the range."""
    a = np.float32(a)
    b = np.float32(b)
    w = b * b
    return -a / w if (w > 1e-30) & (w < 1e30) else -(a / b) / b
