"""Elementwise operations: full broadcasting, the promotion of the array API within a kind, one rounding at the end."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...checks.elementwise import binary, floating, limits, numeric
from .rounding import exact, integer_range, is_integer, narrow, scalar, wide

__all__ = [
    "abs",
    "add",
    "cast",
    "clamp",
    "cos",
    "div",
    "exp",
    "function_of",
    "gt_scalar",
    "log",
    "maximum",
    "minimum",
    "mul",
    "neg",
    "pow",
    "sin",
    "sqrt",
    "sub",
]


def _arithmetic(name: str, function: np.ufunc, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    _, dtype = binary(name, lhs.shape, lhs.dtype, rhs.shape, rhs.dtype)
    with np.errstate(all="ignore"):
        return narrow(function(exact(narrow(lhs, dtype)), exact(narrow(rhs, dtype))), dtype)


def add(lhs: np.ndarray, rhs: np.ndarray, /) -> np.ndarray:
    """Return ``lhs + rhs``; inf - inf is NaN, integers wrap around."""
    return _arithmetic("add", np.add, lhs, rhs)


def sub(lhs: np.ndarray, rhs: np.ndarray, /) -> np.ndarray:
    """Return ``lhs - rhs``; integers wrap around."""
    return _arithmetic("sub", np.subtract, lhs, rhs)


def mul(lhs: np.ndarray, rhs: np.ndarray, /) -> np.ndarray:
    """Return ``lhs * rhs``; integers wrap around."""
    return _arithmetic("mul", np.multiply, lhs, rhs)


def div(lhs: np.ndarray, rhs: np.ndarray, /) -> np.ndarray:
    """Return ``lhs / rhs`` of floating operands; x/0 is infinite, 0/0 NaN."""
    floating("div", lhs.dtype, "lhs")
    return _arithmetic("div", np.divide, lhs, rhs)


def maximum(lhs: np.ndarray, rhs: np.ndarray, /) -> np.ndarray:
    """Return the greater of each pair; NaN where either is NaN."""
    return _arithmetic("maximum", np.maximum, lhs, rhs)


def minimum(lhs: np.ndarray, rhs: np.ndarray, /) -> np.ndarray:
    """Return the smaller of each pair; NaN where either is NaN."""
    return _arithmetic("minimum", np.minimum, lhs, rhs)


def function_of(name: str, x: np.ndarray, function: Callable[[np.ndarray], np.ndarray], /) -> np.ndarray:
    """Apply a function of floating-point numbers in wide precision and round to the dtype of `x`."""
    floating(name, x.dtype)
    with np.errstate(all="ignore"):
        return narrow(function(wide(x)), x.dtype)


def neg(x: np.ndarray, /) -> np.ndarray:
    """Return ``-x``; the least integer stays as it is."""
    numeric("neg", x.dtype)
    return narrow(np.negative(exact(x)), x.dtype)


def abs(x: np.ndarray, /) -> np.ndarray:
    """Return the absolute value; of -0 it is 0."""
    numeric("abs", x.dtype)
    return narrow(np.abs(exact(x)), x.dtype)


def exp(x: np.ndarray, /) -> np.ndarray:
    """Return e to the power of `x`; infinite on overflow."""
    return function_of("exp", x, np.exp)


def log(x: np.ndarray, /) -> np.ndarray:
    """Return the natural logarithm; -inf at 0, NaN below."""
    return function_of("log", x, np.log)


def sqrt(x: np.ndarray, /) -> np.ndarray:
    """Return the square root; -0 at -0, NaN below 0."""
    floating("sqrt", x.dtype)
    with np.errstate(all="ignore"):
        return narrow(np.sqrt(exact(x)), x.dtype)


def sin(x: np.ndarray, /) -> np.ndarray:
    """Return the sine of `x` radians; NaN at infinity."""
    return function_of("sin", x, np.sin)


def cos(x: np.ndarray, /) -> np.ndarray:
    """Return the cosine of `x` radians; NaN at infinity."""
    return function_of("cos", x, np.cos)


def pow(x: np.ndarray, /, *, exp: float) -> np.ndarray:
    """Return ``x ** exp``; 1 for ``exp = 0`` whatever `x`, NaN for negative `x` and a fraction as exponent.

    The exponent is a number of the precision in which devices compute: float32, or float64 beside float64 `x`.
    """
    power = scalar(exp, np.dtype(np.float64 if x.dtype == np.float64 else np.float32))
    # An array of exponents: for the one exponent 0.5 NumPy takes the square root, which differs at -inf.
    return function_of("pow", x, lambda value: np.power(value, np.full(value.shape, power, value.dtype)))


def clamp(x: np.ndarray, /, *, min: float, max: float) -> np.ndarray:
    """Return ``minimum(maximum(x, min), max)``: `max` wins where the bounds cross, NaN stays NaN.

    The bounds are rounded to the dtype of `x`, for integers toward zero and into their range.
    """
    numeric("clamp", x.dtype)
    bounds = limits("clamp", min, max, x.dtype)
    if is_integer(x.dtype):
        least, greatest = integer_range(x.dtype)
        whole = [least if bound <= least else greatest if bound >= greatest else math.trunc(bound) for bound in bounds]
        low, high = (np.asarray(bound, x.dtype) for bound in whole)
        limited: np.ndarray = np.minimum(np.maximum(x, low), high).astype(x.dtype)  # NumPy makes 4-bit integers int8
        return limited
    low, high = (exact(narrow(np.asarray(bound, np.float64), x.dtype)) for bound in bounds)
    return narrow(np.minimum(np.maximum(exact(x), low), high), x.dtype)


def gt_scalar(x: np.ndarray, /, *, v: float) -> np.ndarray:
    """Return 1 where ``x > v`` and 0 elsewhere, NaN included, in the dtype of `x`; `v` is rounded to that dtype."""
    numeric("gt_scalar", x.dtype)
    if is_integer(x.dtype):
        low, high = integer_range(x.dtype)
        # NaN and what is beyond the range compare alike with all integers; else a fraction makes no difference.
        if not low <= v < high:
            return np.full(x.shape, v < low, x.dtype)
        return (x > np.asarray(math.floor(v), x.dtype)).astype(x.dtype)
    with np.errstate(all="ignore"):
        return narrow((exact(x) > scalar(v, x.dtype)).astype(np.float64), x.dtype)


def cast(x: np.ndarray, /, *, dtype: np.dtype) -> np.ndarray:
    """Return `x` as `dtype`: floats are rounded once, and saturate on their way to integers, NaN becoming 0.

    Integers that the new integer type does not hold keep their low bits; to bool, everything but 0 is true.
    """
    if dtype == np.bool_:
        nonzero: np.ndarray = exact(x) != 0
        return nonzero
    return narrow(exact(x), dtype).copy()
