"""The words random layers are made of: functions and patterns, safe on all of the real line."""

from __future__ import annotations

SMOOTH = (
    "tanh", "sigmoid", "sin", "cos", "arctan", "arcsinh", "erf", "erfc", "softplus", "silu",
    "gelu", "gelu_tanh", "mish", "softsign", "log_sigmoid", "tanhshrink", "square", "identity",
    "elu", "selu", "celu", "swish",
)  # fmt: skip
KINKED = (
    "relu", "abs", "leaky_relu", "relu6", "hardtanh", "hardsigmoid", "hardswish", "softshrink",
    "hardshrink", "sign", "floor", "ceil", "round", "heaviside",
)  # fmt: skip
WITH_DOMAIN = (
    "log(abs({}) + 0.5)", "sqrt(square({}) + 0.3)", "log1p(abs({}))", "exp(tanh({}))",
    "exp2(sin({}))", "expm1(tanh({}))", "log2(square({}) + 1)", "log10(abs({}) + 1)",
    "cbrt(abs({}) + 1)", "reciprocal(square({}) + 1)", "arcsin(0.9*tanh({}))",
    "arccos(0.9*sin({}))", "tan(tanh({}))", "sinh(tanh({}))", "cosh(sin({}))",
    "arccosh(square({}) + 1.5)", "arctanh(0.8*sin({}))", "gamma(sigmoid({}) + 0.7)",
    "lgamma(softplus({}) + 0.5)", "digamma(softplus({}) + 0.5)", "-{}", "({})**2",
    "(square({}) + 0.4)**0.5", "(abs({}) + 0.2)**(-1)",
)  # fmt: skip
TWO = (
    "{} + {}", "{} - {}", "{} * {}", "{} * {}", "{} / (square({}) + 1)", "maximum({}, {})",
    "minimum({}, {})", "hypot({}, {} + 3)", "logaddexp({}, {})", "arctan2({}, exp(tanh({})))",
    "prelu({}, {})", "leaky_relu({}, {})", "elu({}, abs({}) + 0.5)", "(abs({}) + 0.4)**tanh({})",
    "softshrink({}, abs({}))", "heaviside({}, {})", "clip({}, -0.7, abs({}))",
    "threshold({}, 0.1, {})", "hardtanh({}, -1.0, abs({}) + 0.1)",
)  # fmt: skip
KEEPING = ("softmax", "log_softmax", "cumsum", "normalize")
REDUCING = ("sum", "mean", "prod", "max", "min", "logsumexp", "norm", "var", "std")
BINDING = ("sum", "sum", "sum", "mean", "prod", "max", "min", "logsumexp")
