"""What functions of whole matrices do, by their textbook algorithms.

kind, size -> operations
Exact counts: a square root is a call, everything else an operation. LAPACK runs the same
algorithms in blocks.
"""

from __future__ import annotations

from symgrad.dims import Dim


def factorisation(n: Dim) -> Dim:
    """Return the operations of an LU factorisation: `Σ_k (n - k) + 2 (n - k)²`."""
    return _line(n) + 2 * _squares(n)


def substitution(n: Dim, *, unit: bool) -> Dim:
    """Return the operations of a triangular solution; a `unit` diagonal is not divided by."""
    return n * (n - 1) if unit else n * n


def cholesky(n: Dim) -> Dim:
    """Return the operations of a Cholesky factorisation, without its n square roots.

    Column j subtracts j products from each of its n - j entries, and divides all but the first.
    """
    cubic = (n * n * n - n) // 3  # Σ_j 2 j (n - j)
    return cubic + _line(n)


def symmetric_part(n: Dim) -> Dim:
    """Return the operations of `(S + Sᵀ)/2`."""
    return 2 * n * n


def _line(n: Dim) -> Dim:
    return (n * (n - 1)) // 2


def _squares(n: Dim) -> Dim:
    """Return `Σ_{k<n} k²`."""
    return (n * (n - 1) * (2 * n - 1)) // 6


__all__ = ["cholesky", "factorisation", "substitution", "symmetric_part"]
