"""Sources of the scalar functions that generated modules carry, and what stands in for numba here.

Nothing here is imported to generate code: `symgrad.functions.kernels` reads these files as text.
They are plain modules so that they can be linted, run and stepped through.
"""

import numpy as np

inline = np.errstate(all="ignore")
"""In plain Python results are IEEE's, without a warning for each inf and nan."""
