"""Evaluate a line of matrix style as it is printed: vectors are columns, `𝟏` repeats."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

_POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_LETTER = "(?:(?![ᵀ𝟏⁰¹²³⁴⁵⁶⁷⁸⁹])[\\w'])"
_TOKEN = re.compile(
    rf"\s*(𝟏|[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?|{_LETTER}+(?:\^(?:{_LETTER}+|\{{[\w,]+\}}))?"
    r"|\^\{[^}]*\}|[⁰¹²³⁴⁵⁶⁷⁸⁹]+|.)"
)


def _softmax(z: Any) -> Any:
    axis = 0 if z.shape[1] == 1 else 1
    shifted = np.exp(z - z.max(axis, keepdims=True))
    return shifted / shifted.sum(axis, keepdims=True)


_ERF = np.vectorize(math.erf, otypes=[float])
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "tanh": np.tanh, "exp": np.exp, "relu": lambda z: np.maximum(z, 0),
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)), "softmax": _softmax,
    "silu": lambda z: z / (1 + np.exp(-z)),
    "silu'": lambda z: (1 + z / (1 + np.exp(z))) / (1 + np.exp(-z)),
    "gelu": lambda z: z * (1 + _ERF(z / np.sqrt(2))) / 2,
    "gelu'": lambda z: (1 + _ERF(z / np.sqrt(2))) / 2
    + z * np.exp(-z * z / 2) / np.sqrt(2 * np.pi),
    "log_softmax": lambda z: np.log(_softmax(z)), "norm": np.linalg.norm,
    "logsumexp": lambda z: np.log(np.exp(z).sum()), "argmax": lambda z: int(np.argmax(z)),
    "diag": lambda v: np.diag(v[:, 0]),
}


@dataclass
class Ones:
    """The vector of ones; a product with it sums, or stands for repeated rows or columns."""

    turned: bool = False


def evaluate(text: str, arrays: Mapping[str, Any], size: int) -> Any:
    """Return the value of the right side; `size` is the length of unit vectors and of `I`."""
    tokens = [t for t in _TOKEN.findall(text) if t.strip()]
    reader = Reader(tokens, arrays, size)
    value = reader.total()
    assert reader.at == len(tokens), f"{text} is read only up to {tokens[reader.at:]}"
    return value


@dataclass
class Reader:
    """A recursive descent: sums, element-wise products, products and quotients, powers."""

    tokens: list[str]
    arrays: Mapping[str, Any]
    size: int
    at: int = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str | None = None) -> str:
        token = self.peek()
        assert expected is None or token == expected, f"{token!r} is not {expected!r}"
        self.at += 1
        return token

    def total(self) -> Any:
        sign = -1.0 if self.peek() == "-" else 1.0
        if sign < 0:
            self.take()
        value = self.odot()
        value = value if sign > 0 else -value
        while self.peek() in ("+", "-"):
            plus = self.take() == "+"
            term = self.odot()
            value = value + term if plus else value - term
        return value

    def odot(self) -> Any:
        value = self.product()
        while self.peek() == "⊙":
            self.take()
            value = value * self.product()
        return value

    def product(self) -> Any:
        value = self.power()
        while self.peek() not in ("", ")", "]", "+", "-", "⊙", ">", "<", ",", "|"):
            if self.peek() == "/":
                self.take()
                value = value / self.power()
            else:
                value = self.times(value, self.power())
        return value

    def times(self, left: Any, right: Any) -> Any:
        if isinstance(left, Ones):
            return right.sum(0, keepdims=True) if left.turned else right
        if isinstance(right, Ones):
            return left if right.turned else left.sum(1, keepdims=True)
        if np.ndim(left) == 0 or np.ndim(right) == 0:
            return left * right
        value = left @ right
        return value[0, 0] if value.shape == (1, 1) else value

    def power(self) -> Any:
        value = self.atom()
        while self.peek() and (self.peek() == "ᵀ" or self.peek()[0] in "^⁰¹²³⁴⁵⁶⁷⁸⁹"):
            mark = self.take()
            if mark == "ᵀ":
                value = Ones(True) if isinstance(value, Ones) else value.T
            elif mark[0] == "^":
                above, _, below = mark[2:-1].partition("/")
                value = value ** (int(above) / int(below or "1"))
            else:
                value = value ** int(mark.translate(_POWERS))
        return value

    def atom(self) -> Any:
        token = self.take()
        if token == "(":
            value = self.total()
            self.take(")")
            return value
        if token == "√":
            return np.sqrt(self.atom())
        if token == "𝟏":
            return Ones()
        if token == "[":
            left, sign, right = self.total(), self.take(), self.total()
            self.take("]")
            return np.asarray(left > right if sign == ">" else left < right, float)
        if token[0] in string.digits:
            return float(token)
        return self.word(token)

    def word(self, word: str) -> Any:
        if word == "onehot":
            self.take("(")
            place = self.total()
            self.take(")")
            rows = np.eye(self.size)[np.asarray(place, int)]
            return rows if np.ndim(place) else rows[:, None]
        if word in FUNCTIONS and self.peek() == "(":
            return FUNCTIONS[word](self.atom())
        if word in self.arrays:
            value = self.arrays[word]
            if self.peek() == "[" and self.tokens[self.at + 2] == "]":
                self.take()
                place = self.arrays[self.take()]
                self.take("]")
                found = value[np.asarray(place, int)]
                return found if np.ndim(place) else column(np.squeeze(found))
            return value
        if word == "I":
            return np.eye(self.size)
        assert all(letter in self.arrays for letter in word), f"{word} is not defined"
        self.tokens[self.at : self.at] = list(word)
        return self.atom()


def column(value: Any) -> Any:
    """Return a vector as a column, anything else as it is."""
    value = np.asarray(value)
    return value[:, None] if value.ndim == 1 and value.dtype != int else value
