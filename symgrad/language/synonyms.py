"""What the names of numpy, torch, jax and mathematics are called in the layer language.

name -> the remedy that writes the same
Only names that difflib would miss, or answer wrongly: `atan` is not a misspelt `tan`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from symgrad.errors import similar
from symgrad.language.vocabulary import FUNCTION_NAMES

_RENAMED = {
    "abs": "fabs absolute magnitude modulus",
    "arccos": "acos arccosine",
    "arccosh": "acosh arcosh",
    "arcsin": "asin arcsine",
    "arcsinh": "asinh arsinh",
    "arctan": "atan arctangent",
    "arctan2": "atan2",
    "arctanh": "atanh artanh",
    "broadcast_to": "expand tile repeat",
    "cbrt": "cuberoot",
    "ceil": "ceiling",
    "cholesky": "chol",
    "clip": "clamp",
    "concatenate": "cat concat hstack vstack",
    "cos": "cosine",
    "diag": "diagonal",
    "digamma": "psi",
    "dot": "inner vdot",
    "expand_dims": "unsqueeze newaxis",
    "eye": "identitymatrix",
    "gelu_tanh": "gelunew geluapprox fastgelu",
    "hardsigmoid": "hsigmoid",
    "hardswish": "hswish",
    "heaviside": "step unitstep",
    "inv": "inverse",
    "leaky_relu": "lrelu",
    "lgamma": "gammaln loggamma",
    "log": "ln loge",
    "log2": "lb ld",
    "logaddexp": "logplusexp",
    "logdet": "slogdet",
    "logsumexp": "lse",
    "max": "amax",
    "maximum": "fmax",
    "mean": "average avg",
    "min": "amin",
    "minimum": "fmin",
    "norm": "l2norm",
    "normalize": "l2normalize",
    "outer": "ger tensorproduct",
    "pad": "zeropad",
    "prod": "product",
    "reciprocal": "recip",
    "relu": "rectifier ramp",
    "reshape": "view",
    "round": "rint",
    "sigmoid": "logistic expit",
    "sign": "sgn signum",
    "sin": "sine",
    "solve": "lstsq",
    "std": "stddev",
    "stop_gradient": "detach stopgrad nograd",
    "sqrt": "squareroot",
    "square": "sq",
    "tan": "tg tangent",
    "transpose": "permute swapaxes moveaxis",
    "var": "variance",
    "where": "select cond ifelse iif",
}
"""Function of the language -> what others call it, in small letters without underscores."""

_WRITTEN = {
    "a * b": "mul multiply",
    "a + b": "add plus",
    "a - b": "sub subtract minus",
    "a / b": "div divide truedivide",
    "-a": "neg negative",
    "a ** b": "pow power floatpower",
    "10 ** a": "exp10",
    "A @ b": "mm mv bmm matmul addmm",
    "a.T": "t mt",
    "1 / sqrt(a)": "rsqrt invsqrt",
    "1 / cos(a)": "sec",
    "1 / sin(a)": "csc cosec",
    "1 / tan(a)": "cot cotan",
    "a > b": "greater gt",
    "a < b": "less lt",
    "a == b": "equal eq",
    "a & b": "logicaland",
    "a | b": "logicalor",
    "~a": "logicalnot",
    "reshape(a, (-1,))": "flatten ravel",
    "zeros(n), sizes are dims": "zeroslike",
    "ones(n), sizes are dims": "oneslike",
    "c * ones(n)": "full fulllike",
    "y[i: n] = i, an index is a number": "arange range linspace",
    "n, a dim is a number": "len shape size",
    "W @ x + b": "linear affine dense",
    "E[t] with t: index(v)": "embedding gather take lookup onehot",
    "mean(square(a - b))": "mse mseloss",
    "-log_softmax(z)[t] with t: index(v)": "crossentropy nllloss",
    "(x - mean(x)) / sqrt(var(x) + 1e-5)": "layernorm",
    "x / sqrt(mean(square(x)) + 1e-5)": "rmsnorm",
    "m * x with m: const[n]": "dropout",
    "y[o, t] = sum[c, k](W[o, c, k] * x[c, t + k])": "conv1d conv convolve",
}
"""What the language writes without a function of that name."""

SYNONYMS: Mapping[str, str] = MappingProxyType(
    {word: to for table in (_RENAMED, _WRITTEN) for to, words in table.items()
     for word in words.split()}
)
"""Foreign name, in small letters without underscores -> what the language has for it."""


_LIKE_LATIN = str.maketrans(
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧονАВЕКМНОРСТУХасеорхуі", "ABEZHIKMNOPTYXovABEKMHOPCTYXaceopxyi"
)
"""Greek and Cyrillic letters that look like Latin ones."""


def look_alike(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that looks the same but is written in other letters."""
    plain = name.translate(_LIKE_LATIN)
    alike = (k for k in known if k != name and k.translate(_LIKE_LATIN) == plain)
    return next(alike, None)


def remedy(name: str, known: Iterable[str] = FUNCTION_NAMES) -> str | None:
    """Return what to write for an unknown function: the same thing's name here, or a similar one.

    `known` are the functions that may be meant. None if nothing is like it.
    """
    functions = {known_.replace("_", "").casefold(): known_ for known_ in known}
    plain = name.replace("_", "").casefold()
    near = functions.get(plain) or SYNONYMS.get(plain)
    if near is None:
        near = similar(name, functions.values())
    if near is None:
        return None
    return f"did you mean {near}?" if near.isidentifier() else f"write {near}"
