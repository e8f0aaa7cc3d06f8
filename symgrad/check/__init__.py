"""From what the author wrote to typed index notation.

Layer -> check -> Program
"""

from symgrad.check.check import check
from symgrad.check.verify import verify

__all__ = ["check", "verify"]
