"""Numbers in kernels: how precise they are, and what they are written as.

value -> text
A number of Python is a double, and arithmetic of a float32 with a double is double: where that
would carry through a loop, the number is cast.
"""

from __future__ import annotations

import math
import re
import struct
from typing import Literal

from symgrad.functions import kernel
from symgrad.program import Apply, Scalar, walk

Use = Literal["operand", "argument", "stored"]
"""Where a value stands: in arithmetic, so that its type counts; as an argument of a function,
where a number must have the arrays' precision; alone on its way into an array, which casts it."""


def number_text(value: int | float, outer: int) -> str:
    """Return a number as Python text, in parentheses if it has a sign and stands in arithmetic."""
    if not math.isfinite(value):
        text = "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "-np.inf"
    else:
        text = repr(float(value))
    return f"({text})" if text.startswith("-") and outer else text


def cast_text(text: str) -> str:
    """Return an expression cast to the dtype of the kernel's arrays."""
    return f"number{text}" if text.startswith("(1.0 if ") else f"number({text})"


def is_single(value: int | float) -> bool:
    """Whether a number is one of float32 too."""
    try:
        return math.isnan(value) or bool(struct.unpack("f", struct.pack("f", value))[0] == value)
    except OverflowError:
        return False


def is_double(scalar: Scalar) -> bool:
    """Whether a scalar calls functions that give double precision for any argument."""
    return any(
        isinstance(node, Apply) and not keeps_type(kernel(node.function, node.order).call)
        for node in walk(scalar)
    )


def keeps_type(call: str) -> bool:
    """Whether a call has the type of its arguments: numpy's functions and bare operators only."""
    return not re.search(r"\w", re.sub(r"np\.\w+\(|abs\(|\{\d\}", "", call))


def use_of(call: str, number: int) -> Use:
    """Return how a call uses an argument: operators and numpy's functions take its type over."""
    compared = re.fullmatch(r"\(1\.0 if \{0\} \S+ \{1\} else 0\.0\)", call)
    alone = delimited(call, number) and not keeps_type(call)
    return "argument" if compared or alone else "operand"


def delimited(call: str, number: int) -> bool:
    """Whether an argument stands between brackets or commas wherever a call's form has it."""
    places = call.count(f"{{{number}}}")
    return len(re.findall(rf"(?:\(|, )\{{{number}\}}(?=\)|,)", call)) == places
