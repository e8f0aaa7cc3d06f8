"""What stands at the head of every generated module: the decorators its kernels wear.

() -> text
Without numba, or with NUMBA_DISABLE_JIT=1, the same kernels run as plain Python.
"""

from __future__ import annotations

PREAMBLE = '''try:
    import numba

    _COMPILED = not numba.config.DISABLE_JIT
    _WHY = "NUMBA_DISABLE_JIT is set"
except ImportError:
    _COMPILED = False
    _WHY = "numba is not installed"

if _COMPILED:
    loops = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
    sums = numba.njit(
        cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"}
    )
    inline = numba.njit(error_model="numpy", fastmath={"contract"}, forceinline=True)
else:
    warnings.warn(f"{_WHY}: kernels run as plain Python, slowly", RuntimeWarning, stacklevel=2)

    def loops(function):
        """Leave a kernel as it is, but let it divide by zero in silence as compiled code does."""

        def quiet(*arrays):
            with np.errstate(all="ignore"):
                return function(*arrays)

        quiet.__wrapped__ = function
        return quiet

    sums = loops

    def inline(function):
        """Leave a scalar function as it is."""
        return function
'''
"""Needs `np` and `warnings`; defines `loops`, `sums`, `inline` and `_COMPILED`."""
