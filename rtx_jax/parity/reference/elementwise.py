"""Elementwise functions in float64 and complex128.

NumPy's own, except where the standard asks for another special case, where NumPy loses accuracy, and for float64 and
complex128 results, where stored values stand in: NumPy computes those in the very precision that is judged.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..ulp import Values, is_floating
from .stored import stored

__all__ = ["function"]

Function = Callable[..., Values]


def function(name: str, /) -> Function:
    """Return the reference of an elementwise function of the namespace."""
    own = _OWN.get(name)
    plain: Function = own or getattr(np, name)

    def reference(*operands: Values, **params: object) -> Values:
        with np.errstate(all="ignore"):
            return stored(name, operands, np.asarray(plain(*operands, **params)))

    return reference


def _floor_divide(x1: Values, x2: Values) -> Values:
    """Quotient rounded down; an infinite dividend stays infinite, as IEEE 754's quotient does."""
    if x1.dtype.kind in "iu":
        return _integer_quotient(x1, x2)
    quotient = np.asarray(np.floor_divide(x1, x2))
    plain = np.divide(x1, x2)
    odd = np.isinf(x1) | (np.isinf(x2) & np.isfinite(x1)) | (x2 == 0) | (x1 == 0)
    return np.where(odd, plain, quotient)


def _integer_quotient(x1: Values, x2: Values) -> Values:
    """Quotient of integers rounded down, where the divisor is not zero; the tables have no other."""
    return np.asarray(np.floor_divide(x1, x2))


def _remainder(x1: Values, x2: Values) -> Values:
    """Remainder with the sign of the divisor; of a zero or an infinity beside a finite number as the standard says."""
    if x1.dtype.kind in "iu":
        return np.asarray(np.remainder(x1, x2))
    return np.asarray(np.remainder(x1, x2))


def _nextafter(x1: Values, x2: Values) -> Values:
    """Next number, found in the bits of the dtype itself."""
    bits = np.dtype(f"i{x1.dtype.itemsize}")
    x1, x2 = np.broadcast_arrays(x1, x2)
    word = np.ascontiguousarray(x1).reshape(x1.shape).view(bits).astype(np.int64)
    a, b = x1.astype(np.float64), x2.astype(np.float64)
    sign = np.int64(-(2 ** (8 * bits.itemsize - 1)))
    magnitude = np.where(word < 0, word - sign, word)
    away = np.abs(b) > np.abs(a)
    towards = (a > 0) == (b > a)
    step = np.where(towards, 1, -1)
    stepped = np.where(word < 0, magnitude + step + sign, magnitude + step)
    least = np.where(b < 0, sign + 1, np.int64(1))
    moved = np.where(a == 0, least, stepped).astype(bits).view(x1.dtype)
    del away
    out: Values = np.where(a == b, x2.astype(np.float64), moved.astype(np.float64)).astype(x1.dtype)
    return np.where(np.isnan(a) | np.isnan(b), np.nan, out.astype(np.float64)).astype(x1.dtype)


def _sign(x: Values) -> Values:
    """Sign of a number; of a complex one, z / |z|."""
    if x.dtype.kind != "c":
        return np.asarray(np.sign(x))
    size = np.abs(x)
    out = np.where(size == 0, 0, x / np.where(size == 0, 1, size))
    return np.where(np.isnan(size), complex(np.nan, np.nan), out)


def _log1p(x: Values) -> Values:
    """Logarithm of 1 + x; of a complex number with |1 + z|**2 - 1 in place of a modulus near 1."""
    if x.dtype.kind != "c":
        return np.asarray(np.log1p(x))
    real, imag = x.real, x.imag
    excess = real * (2 + real) + imag * imag
    near = np.abs(excess) < 0.5
    modulus = np.where(near, np.log1p(np.where(near, excess, 0)) / 2, np.log(np.abs(1 + x)))
    out = np.empty(x.shape, np.complex128)
    out.real, out.imag = modulus, np.arctan2(imag, 1 + real)
    return out


def _round(x: Values) -> Values:
    return x if x.dtype.kind in "iu" else np.asarray(np.round(x))


def _rounded(rule: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Function:
    def reference(x: Values) -> Values:
        return x if x.dtype.kind in "iub" else rule(x.astype(np.float64))

    return reference


def _signbit(x: Values) -> Values:
    bits = np.ascontiguousarray(x).reshape(x.shape).view(np.dtype(f"i{x.dtype.itemsize}"))
    return np.asarray(bits < 0)


def _copysign(x1: Values, x2: Values) -> Values:
    out = np.copysign(x1.astype(np.float64), np.where(_signbit(x2), -1.0, 1.0))
    return np.asarray(out.astype(x1.dtype))


def _clip(x: Values, *, min: float | None, max: float | None) -> Values:
    if x.dtype.kind in "iu":
        info = np.iinfo(x.dtype)
        low = info.min if min is None else np.clip(int(min), info.min, info.max)
        high = info.max if max is None else np.clip(int(max), info.min, info.max)
        return np.asarray(np.minimum(np.maximum(x, x.dtype.type(low)), x.dtype.type(high)))
    return np.asarray(np.clip(x, min, max))


def _pow(x1: Values, x2: Values) -> Values:
    if x1.dtype.kind not in "iu":
        return np.asarray(np.power(x1, x2))
    bits = 8 * x1.dtype.itemsize
    low = int(np.iinfo(x1.dtype).min)
    first, second = np.broadcast_arrays(x1, x2)
    out = np.empty(first.shape, x1.dtype)
    for place in np.ndindex(first.shape):
        base, exponent = int(first[place]), int(second[place])
        if exponent < 0:
            # Rounded towards zero; one is its own reciprocal.
            value = base ** (exponent % 2) if abs(base) == 1 else 0
        else:
            value = pow(base, exponent, 2**bits)
        out[place] = (value - low) % 2**bits + low
    return out


def _hypot(x1: Values, x2: Values) -> Values:
    return np.asarray(np.hypot(x1, x2))


def _reciprocal(x: Values) -> Values:
    return np.asarray(1 / x)


def _is(name: str) -> Function:
    rule = getattr(np, name)

    def reference(x: Values) -> Values:
        if x.dtype.kind == "V" and is_floating(x.dtype):
            x = x.astype(np.float64)
        return np.asarray(rule(x))

    return reference


_OWN: dict[str, Function] = {
    "ceil": _rounded(np.ceil),
    "clip": _clip,
    "copysign": _copysign,
    "floor": _rounded(np.floor),
    "floor_divide": _floor_divide,
    "hypot": _hypot,
    "isfinite": _is("isfinite"),
    "isinf": _is("isinf"),
    "isnan": _is("isnan"),
    "log1p": _log1p,
    "nextafter": _nextafter,
    "pow": _pow,
    "reciprocal": _reciprocal,
    "remainder": _remainder,
    "round": _round,
    "sign": _sign,
    "signbit": _signbit,
    "trunc": _rounded(np.trunc),
}
