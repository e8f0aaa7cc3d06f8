"""The error function and what is made of it: exp(-x^2) times a polynomial.

Coefficients come from tools/polynomials.py.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, D402

import numpy as np

from symgrad.functions.numerics import inline
from symgrad.functions.numerics.exponential import exp_parts


@inline
def scaled_erfc(x):
    """Return exp(x^2) erfc(x) for x >= 0 as p(t)/(1 + 2x), t = (x - 4)/(x + 4)."""
    x = min(x, 1e150)
    d = 1.0 / ((x + 4.0) * (1.0 + 2.0 * x))  # one division for both
    t = 1.0 - 8.0 * (1.0 + 2.0 * x) * d
    p = 9.655408225482863e-10
    p = p * t + 1.5712153638319064e-09
    p = p * t - 1.2544825403855518e-08
    p = p * t - 1.6357383982124768e-08
    p = p * t + 1.0683442926744586e-07
    p = p * t + 7.111912428010423e-08
    p = p * t - 8.218020654813044e-07
    p = p * t + 2.980596055322769e-07
    p = p * t + 5.707239573693257e-06
    p = p * t - 1.1225140354449658e-05
    p = p * t - 2.439811794207995e-05
    p = p * t + 0.0001506231178516207
    p = p * t - 0.00019925700412184815
    p = p * t - 0.0007577737141838885
    p = p * t + 0.005031970032548695
    p = p * t - 0.01619773397992426
    p = p * t + 0.0371675155318432
    p = p * t - 0.06633036582050367
    p = p * t + 0.09373283499865172
    p = p * t - 0.10103906603585294
    p = p * t + 0.0680970542546862
    p = p * t + 0.015379652102610162
    p = p * t - 0.1396211168405625
    p = p * t + 1.2329951186255526
    return p * ((x + 4.0) * d)


@inline
def bell_parts(z, c):
    """Return the parts of exp(-c z^2), c = 1 or 1/2."""
    z = np.float64(z)
    return exp_parts(-c * z * z)


@inline
def erf(z):
    """Return erf(z): z p(z^2) near 0, 1 - erfc(|z|) with the sign of z elsewhere."""
    z = np.float64(z)
    x = abs(z)
    w = z * z
    p = -1.3916404409140413e-07
    p = p * w + 1.628002129733572e-06
    p = p * w - 1.4918046220845441e-05
    p = p * w + 0.00012055139954657011
    p = p * w - 0.0008548323981793935
    p = p * w + 0.005223977596212891
    p = p * w - 0.0268661706435161
    p = p * w + 0.1128379167095059
    p = p * w - 0.37612638903183704
    p = p * w + 1.1283791670955126
    q, s, t = bell_parts(z, 1.0)
    far = 1.0 - scaled_erfc(x) * (1.0 + q) * s * t
    return z * p if x < 0.6 else np.copysign(far, z)


@inline
def erf_slope(z):
    """Return erf'(z) = 2/sqrt(pi) exp(-z^2)."""
    q, s, t = bell_parts(z, 1.0)
    return 1.1283791670955126 * (1.0 + q) * s * t


@inline
def erfc(z):
    """Return 1 - erf(z), with all digits in the upper tail."""
    q, s, t = bell_parts(z, 1.0)
    tail = scaled_erfc(np.float64(abs(z))) * (1.0 + q) * s * t
    return 2.0 - tail if z < 0.0 else tail


@inline
def gelu(z):
    """Return z Phi(z), Phi(z) = erfc(-z/sqrt(2))/2 the normal distribution."""
    q, s, t = bell_parts(z, 0.5)
    x = max(z, -100.0)
    x = min(x, 100.0)
    tail = 0.5 * scaled_erfc(0.7071067811865476 * abs(x))
    tail = x * tail * (1.0 + q) * s * t
    return tail if z <= 0.0 else z - tail


@inline
def gelu_slope(z):
    """Return gelu'(z) = Phi(z) + z exp(-z^2/2)/sqrt(2 pi)."""
    q, s, t = bell_parts(z, 0.5)
    x = max(z, -100.0)
    x = min(x, 100.0)
    tail = 0.5 * scaled_erfc(0.7071067811865476 * abs(x))
    density = 0.3989422804014327 * x
    size = (density + (tail if z < 0.0 else -tail)) * (1.0 + q) * s * t
    return size if z < 0.0 else 1.0 + size
