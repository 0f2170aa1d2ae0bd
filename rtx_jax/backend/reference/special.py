"""The error function, its complement and inverse, and the stable forms around the logistic function.

`erf` and `erfc` sum a series without cancellation near zero and a continued fraction in the tails; `erfinv` solves
``erf(y) = x`` by Halley's method. All three work in ``np.longdouble`` inside. Written to be checked, not to be fast.
"""

from __future__ import annotations

import numpy as np

__all__ = ["erf", "erfc", "erfinv", "sigmoid", "softplus"]

_SPLIT = np.longdouble(1)  # the series serves below, the continued fraction above
_PI = np.arccos(np.longdouble(-1))


def _gauss(x: np.ndarray) -> np.ndarray:
    """exp(-x**2), without the error of rounding the square: x = h + l, where h**2 needs no more than 48 bits."""
    high = x.astype(np.float32).astype(x.dtype)
    value: np.ndarray = np.exp(-high * high) * np.exp(-(x - high) * (x + high))
    return value


def _series(x: np.ndarray) -> np.ndarray:
    """erf(x) = 2 / sqrt(pi) * exp(-x**2) * sum of 2**n x**(2n+1) / (1*3*5*...*(2n+1)).

    Abramowitz and Stegun 7.1.6; all terms have the sign of x.
    """
    term = total = x
    for n in range(1, 40):
        term = term * (2 * x * x) / (2 * n + 1)
        total = total + term
    value: np.ndarray = 2 / np.sqrt(_PI) * _gauss(x) * total
    return value


def _fraction(x: np.ndarray) -> np.ndarray:
    """erfc(x) = exp(-x**2) / sqrt(pi) / (x + (1/2)/(x + 1/(x + (3/2)/(x + ...)))) for x > 0.

    Abramowitz and Stegun 7.1.14, evaluated from the inside; 300 terms give 64 bits from x = 1 on.
    """
    tail = x
    for n in range(300, 0, -1):
        tail = x + (n / np.longdouble(2)) / tail
    value: np.ndarray = _gauss(x) / (np.sqrt(_PI) * tail)
    return value


def erf(x: np.ndarray, /) -> np.ndarray:
    """Return the error function of float64 or longdouble `x`, in its type."""
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        size = np.minimum(np.abs(x).astype(np.longdouble), 30)
        value = np.where(size < _SPLIT, _series(np.minimum(size, _SPLIT)), 1 - _fraction(np.maximum(size, _SPLIT)))
        return np.where(np.isnan(x), x, np.copysign(value, x)).astype(x.dtype)


def erfc(x: np.ndarray, /) -> np.ndarray:
    """Return ``1 - erf(x)``, to full relative accuracy in the right tail."""
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        value = x.astype(np.longdouble)
        tail = _fraction(np.clip(value, _SPLIT, 200))
        return np.where(value >= _SPLIT, np.where(np.isinf(value), 0, tail), 1 - erf(value)).astype(x.dtype)


def erfinv(x: np.ndarray, /) -> np.ndarray:
    """Return the y with ``erf(y) = x``; infinite at -1 and 1, NaN outside."""
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        size = np.abs(x).astype(np.longdouble)
        p = np.where(size < 1, size, 0)
        y = _first_guess(p)
        for _ in range(3):
            # erf is accurate relative to p, erfc relative to 1 - p: each serves the half where that is the smaller.
            error = np.where(p > 0.5, (1 - p) - erfc(y), erf(y) - p)
            newton = error * np.sqrt(_PI) / 2 / _gauss(y)
            y = y - newton / (1 + y * newton)
        value: np.ndarray = np.copysign(np.where(size < 1, y, np.where(size == 1, np.inf, np.nan)), x).astype(x.dtype)
        return value


def _first_guess(p: np.ndarray) -> np.ndarray:
    """Winitzki's approximation (2008), good to two digits."""
    log = np.log1p(-p * p)
    half = 2 / (np.pi * 0.147) + log / 2
    guess: np.ndarray = np.sqrt(np.maximum(np.sqrt(half * half - log / 0.147) - half, 0))
    return guess


def sigmoid(x: np.ndarray, /) -> np.ndarray:
    """Return ``1 / (1 + exp(-x))`` by the branch that does not overflow."""
    with np.errstate(all="ignore"):
        decay = np.exp(-np.abs(x))
        value: np.ndarray = np.where(x >= 0, 1 / (1 + decay), decay / (1 + decay))
        return value


def softplus(x: np.ndarray, /) -> np.ndarray:
    """Return ``log(1 + exp(x))`` without overflow."""
    with np.errstate(all="ignore"):
        value: np.ndarray = np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
        return value
