"""Elementwise functions of the standard: arithmetic, rounding, parts of complex numbers."""

from __future__ import annotations

from .._array import (
    Array,
    _abs,
    _add,
    _floor_divide,
    _multiply,
    _negative,
    _positive,
    _pow,
    _remainder,
    _square,
    _subtract,
    binary,
    unary,
)
from ..core.dispatch import Op
from ..raw import elementwise as _raw
from ._clip import clip as _clip

__all__ = [
    "abs",
    "add",
    "ceil",
    "clip",
    "conj",
    "floor",
    "floor_divide",
    "imag",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "positive",
    "pow",
    "real",
    "remainder",
    "round",
    "sign",
    "signbit",
    "square",
    "subtract",
    "trunc",
]

_ceil = unary(Op("ceil", _raw.ceil))
_conj = unary(Op("conj", _raw.conj))
_floor = unary(Op("floor", _raw.floor))
_imag = unary(Op("imag", _raw.imag))
_maximum = binary(Op("maximum", _raw.maximum))
_minimum = binary(Op("minimum", _raw.minimum))
_real = unary(Op("real", _raw.real))
_round = unary(Op("round", _raw.round))
_sign = unary(Op("sign", _raw.sign))
_signbit = unary(Op("signbit", _raw.signbit))
_trunc = unary(Op("trunc", _raw.trunc))


def abs(x: Array, /) -> Array:
    """Absolute value of each element.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape of `x` and its dtype; real for complex numbers.

    Notes
    -----
    The derivative at 0 is 0. The least signed integer stays what it is.
    """
    return _abs(x)


def add(x1: Array | bool | int | float | complex, x2: Array | bool | int | float | complex, /) -> Array:
    """Add two arrays.

    Parameters
    ----------
    x1, x2
        Arrays, or an array and a Python scalar, that broadcast together.

    Returns
    -------
    Array
        Of the dtype that the operands promote to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.

    Notes
    -----
    A real operand beside a complex one is added to the real component alone.
    """
    return _add(x1, x2)


def ceil(x: Array, /) -> Array:
    """Round each element up to a whole number.

    Parameters
    ----------
    x
        Array of real numbers.

    Returns
    -------
    Array
        Of the shape and dtype of `x`, integers included.

    Raises
    ------
    UnsupportedDType
        For complex numbers.
    """
    return _ceil(x)


def clip(x: Array, /, min: Array | int | float | None = None, max: Array | int | float | None = None) -> Array:
    """Limit each element to an interval.

    Parameters
    ----------
    x
        Array of real numbers.
    min, max
        Lower and upper bound, included: arrays that broadcast with `x`, scalars, or None for no bound.

    Returns
    -------
    Array
        Of the dtype that `x` and the bounds promote to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.
    UnsupportedDType
        For complex numbers.

    Notes
    -----
    NaN where `x` or a bound is NaN; `max` where the bounds cross. A Python integer beyond the range of an integer
    dtype is no bound, or one that nothing reaches. The derivative in `x` is 1 inside and at the bounds, 0 outside.
    """
    return _clip(x, min, max)


def conj(x: Array, /) -> Array:
    """Complex conjugate of each element.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.
    """
    return _conj(x)


def floor(x: Array, /) -> Array:
    """Round each element down to a whole number.

    Parameters
    ----------
    x
        Array of real numbers.

    Returns
    -------
    Array
        Of the shape and dtype of `x`, integers included.

    Raises
    ------
    UnsupportedDType
        For complex numbers.
    """
    return _floor(x)


def floor_divide(x1: Array | int | float, x2: Array | int | float, /) -> Array:
    """Round the quotient of two arrays down to a whole number.

    Parameters
    ----------
    x1, x2
        Arrays of real numbers, or an array and a Python scalar, that broadcast together.

    Returns
    -------
    Array
        Of the dtype that the operands promote to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.
    UnsupportedDType
        For complex numbers and for two bools.

    Notes
    -----
    Exact for finite numbers, as in Python: ``1.0 // 0.1`` is 9. With an infinity or a zero divisor it is the floor of
    ``x1 / x2``, as the standard prefers, so that infinity // 2 is infinity. Division of integers by zero gives no
    particular value.
    """
    return _floor_divide(x1, x2)


def imag(x: Array, /) -> Array:
    """Imaginary component of each element.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Real, of the precision of `x`; zeros for real numbers.
    """
    return _imag(x)


def maximum(x1: Array | int | float, x2: Array | int | float, /) -> Array:
    """Greater of two elements.

    Parameters
    ----------
    x1, x2
        Arrays of real numbers, or an array and a Python scalar, that broadcast together.

    Returns
    -------
    Array
        Of the dtype that the operands promote to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.

    Notes
    -----
    NaN if either is NaN. Equal elements share the derivative.
    """
    return _maximum(x1, x2)


def minimum(x1: Array | int | float, x2: Array | int | float, /) -> Array:
    """Less of two elements.

    Parameters
    ----------
    x1, x2
        Arrays of real numbers, or an array and a Python scalar, that broadcast together.

    Returns
    -------
    Array
        Of the dtype that the operands promote to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.

    Notes
    -----
    NaN if either is NaN. Equal elements share the derivative.
    """
    return _minimum(x1, x2)


def multiply(x1: Array | bool | int | float | complex, x2: Array | bool | int | float | complex, /) -> Array:
    """Multiply two arrays.

    Parameters
    ----------
    x1, x2
        Arrays, or an array and a Python scalar, that broadcast together.

    Returns
    -------
    Array
        Of the dtype that the operands promote to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.

    Notes
    -----
    A real operand beside a complex one multiplies both components.
    """
    return _multiply(x1, x2)


def negative(x: Array, /) -> Array:
    """Negate each element.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.

    Raises
    ------
    UnsupportedDType
        For bools.
    """
    return _negative(x)


def positive(x: Array, /) -> Array:
    """Return each element as it is.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.

    Raises
    ------
    UnsupportedDType
        For bools.
    """
    return _positive(x)


def pow(x1: Array | bool | int | float | complex, x2: Array | bool | int | float | complex, /) -> Array:
    """Raise one array to the power of another.

    Parameters
    ----------
    x1, x2
        Arrays, or an array and a Python scalar, that broadcast together.

    Returns
    -------
    Array
        Of the dtype that the operands promote to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.
    InvalidArgument
        For a negative Python integer as exponent of integers.
    UnsupportedDType
        For two bools.

    Notes
    -----
    A Python integer of magnitude up to 32 as exponent is compiled into multiplications. Powers of integers wrap around.
    """
    return _pow(x1, x2)


def real(x: Array, /) -> Array:
    """Real component of each element.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Real, of the precision of `x`; `x` itself for real numbers.
    """
    return _real(x)


def remainder(x1: Array | int | float, x2: Array | int | float, /) -> Array:
    """Remainder of the floor division of two arrays.

    Parameters
    ----------
    x1, x2
        Arrays of real numbers, or an array and a Python scalar, that broadcast together.

    Returns
    -------
    Array
        Of the dtype that the operands promote to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.
    UnsupportedDType
        For complex numbers and for two bools.

    Notes
    -----
    Exact, and of the sign of `x2` even where it is zero, as ``%`` in Python. The remainder of a division of integers by
    zero is no particular value.
    """
    return _remainder(x1, x2)


def round(x: Array, /) -> Array:
    """Round each element to the nearest whole number, halves to even.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape and dtype of `x`, integers included.

    Notes
    -----
    Complex numbers are rounded by components.
    """
    return _round(x)


def sign(x: Array, /) -> Array:
    """Sign of each element: -1, 0 or 1, and NaN for NaN.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.

    Raises
    ------
    UnsupportedDType
        For bools.

    Notes
    -----
    For complex numbers it is ``z / abs(z)``.
    """
    return _sign(x)


def signbit(x: Array, /) -> Array:
    """Whether the sign bit of each element is set.

    Parameters
    ----------
    x
        Array of real numbers.

    Returns
    -------
    Array
        Bools of the shape of `x`.

    Raises
    ------
    UnsupportedDType
        For complex numbers.

    Notes
    -----
    True for -0 and for NaNs with the sign bit.
    """
    return _signbit(x)


def square(x: Array, /) -> Array:
    """Square of each element.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.
    """
    return _square(x)


def subtract(x1: Array | bool | int | float | complex, x2: Array | bool | int | float | complex, /) -> Array:
    """Subtract one array from another.

    Parameters
    ----------
    x1, x2
        Arrays, or an array and a Python scalar, that broadcast together.

    Returns
    -------
    Array
        Of the dtype that the operands promote to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.
    UnsupportedDType
        For two bools.
    """
    return _subtract(x1, x2)


def trunc(x: Array, /) -> Array:
    """Round each element towards zero.

    Parameters
    ----------
    x
        Array of real numbers.

    Returns
    -------
    Array
        Of the shape and dtype of `x`, integers included.

    Raises
    ------
    UnsupportedDType
        For complex numbers.
    """
    return _trunc(x)
