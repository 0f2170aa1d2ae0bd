"""Elementwise functions of the standard: comparisons, tests, logic and bits."""

from __future__ import annotations

from .._array import (
    Array,
    _bitwise_and,
    _bitwise_invert,
    _bitwise_left_shift,
    _bitwise_or,
    _bitwise_right_shift,
    _bitwise_xor,
    _equal,
    _greater,
    _greater_equal,
    _less,
    _less_equal,
    _not_equal,
    binary,
    unary,
)
from ..core.dispatch import Op
from ..raw import elementwise as _raw

__all__ = [
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "equal",
    "greater",
    "greater_equal",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
]

_isfinite = unary(Op("isfinite", _raw.isfinite))
_isinf = unary(Op("isinf", _raw.isinf))
_isnan = unary(Op("isnan", _raw.isnan))
_logical_and = binary(Op("logical_and", _raw.logical_and))
_logical_not = unary(Op("logical_not", _raw.logical_not))
_logical_or = binary(Op("logical_or", _raw.logical_or))
_logical_xor = binary(Op("logical_xor", _raw.logical_xor))


def bitwise_and(x1: Array | bool | int, x2: Array | bool | int, /) -> Array:
    """Bits that are set in both of two arrays.

    Parameters
    ----------
    x1, x2
        Arrays of integers or bools, or an array and a Python scalar, that broadcast together.

    Returns
    -------
    Array
        Of the dtype that the operands promote to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.
    UnsupportedDType
        For floating-point and complex numbers.
    """
    return _bitwise_and(x1, x2)


def bitwise_invert(x: Array, /) -> Array:
    """Each bit inverted.

    Parameters
    ----------
    x
        Array of integers or bools.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.

    Raises
    ------
    UnsupportedDType
        For floating-point and complex numbers.
    """
    return _bitwise_invert(x)


def bitwise_left_shift(x1: Array | int, x2: Array | int, /) -> Array:
    """Shift the bits of each element to the left.

    Parameters
    ----------
    x1, x2
        Arrays of integers, or an array and a Python integer, that broadcast together: the numbers, and how far, which
        must not be negative.

    Returns
    -------
    Array
        Of the dtype that the operands promote to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.
    UnsupportedDType
        For anything but integers.

    Notes
    -----
    0 when shifted by the width of the dtype or more.
    """
    return _bitwise_left_shift(x1, x2)


def bitwise_or(x1: Array | bool | int, x2: Array | bool | int, /) -> Array:
    """Bits that are set in at least one of two arrays.

    Parameters
    ----------
    x1, x2
        Arrays of integers or bools, or an array and a Python scalar, that broadcast together.

    Returns
    -------
    Array
        Of the dtype that the operands promote to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.
    UnsupportedDType
        For floating-point and complex numbers.
    """
    return _bitwise_or(x1, x2)


def bitwise_right_shift(x1: Array | int, x2: Array | int, /) -> Array:
    """Shift the bits of each element to the right, keeping its sign.

    Parameters
    ----------
    x1, x2
        Arrays of integers, or an array and a Python integer, that broadcast together: the numbers, and how far, which
        must not be negative.

    Returns
    -------
    Array
        Of the dtype that the operands promote to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.
    UnsupportedDType
        For anything but integers.

    Notes
    -----
    0, or -1 for negative numbers, when shifted by the width of the dtype or more.
    """
    return _bitwise_right_shift(x1, x2)


def bitwise_xor(x1: Array | bool | int, x2: Array | bool | int, /) -> Array:
    """Bits that are set in exactly one of two arrays.

    Parameters
    ----------
    x1, x2
        Arrays of integers or bools, or an array and a Python scalar, that broadcast together.

    Returns
    -------
    Array
        Of the dtype that the operands promote to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.
    UnsupportedDType
        For floating-point and complex numbers.
    """
    return _bitwise_xor(x1, x2)


def equal(x1: Array | bool | int | float | complex, x2: Array | bool | int | float | complex, /) -> Array:
    """Whether two elements are equal.

    Parameters
    ----------
    x1, x2
        Arrays, or an array and a Python scalar, that broadcast together.

    Returns
    -------
    Array
        Bools of the shape that the operands broadcast to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.

    Notes
    -----
    NaN is equal to nothing. A Python integer beyond the range of the array's dtype compares as the number that it is.
    """
    return _equal(x1, x2)


def greater(x1: Array | int | float, x2: Array | int | float, /) -> Array:
    """Whether one element is greater than another.

    Parameters
    ----------
    x1, x2
        Arrays, or an array and a Python scalar, that broadcast together.

    Returns
    -------
    Array
        Bools of the shape that the operands broadcast to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.

    Notes
    -----
    A Python integer beyond the range of the array's dtype compares as the number that it is.
    Complex numbers are ordered by the real component, then by the imaginary one.
    """
    return _greater(x1, x2)


def greater_equal(x1: Array | int | float, x2: Array | int | float, /) -> Array:
    """Whether one element is greater than another or equal to it.

    Parameters
    ----------
    x1, x2
        Arrays, or an array and a Python scalar, that broadcast together.

    Returns
    -------
    Array
        Bools of the shape that the operands broadcast to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.

    Notes
    -----
    A Python integer beyond the range of the array's dtype compares as the number that it is.
    """
    return _greater_equal(x1, x2)


def isfinite(x: Array, /) -> Array:
    """Whether each element is neither infinite nor NaN.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Bools of the shape of `x`.
    """
    return _isfinite(x)


def isinf(x: Array, /) -> Array:
    """Whether each element, or a component of it, is infinite.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Bools of the shape of `x`.
    """
    return _isinf(x)


def isnan(x: Array, /) -> Array:
    """Whether each element, or a component of it, is NaN.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Bools of the shape of `x`.
    """
    return _isnan(x)


def less(x1: Array | int | float, x2: Array | int | float, /) -> Array:
    """Whether one element is less than another.

    Parameters
    ----------
    x1, x2
        Arrays, or an array and a Python scalar, that broadcast together.

    Returns
    -------
    Array
        Bools of the shape that the operands broadcast to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.

    Notes
    -----
    A Python integer beyond the range of the array's dtype compares as the number that it is.
    Complex numbers are ordered by the real component, then by the imaginary one.
    """
    return _less(x1, x2)


def less_equal(x1: Array | int | float, x2: Array | int | float, /) -> Array:
    """Whether one element is less than another or equal to it.

    Parameters
    ----------
    x1, x2
        Arrays, or an array and a Python scalar, that broadcast together.

    Returns
    -------
    Array
        Bools of the shape that the operands broadcast to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.

    Notes
    -----
    A Python integer beyond the range of the array's dtype compares as the number that it is.
    """
    return _less_equal(x1, x2)


def logical_and(x1: Array | bool, x2: Array | bool, /) -> Array:
    """Whether both of two elements are True.

    Parameters
    ----------
    x1, x2
        Arrays, or an array and a Python scalar, that broadcast together. Numbers count as True unless they are zero.

    Returns
    -------
    Array
        Bools of the shape that the operands broadcast to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.
    """
    return _logical_and(x1, x2)


def logical_not(x: Array, /) -> Array:
    """Whether each element is False.

    Parameters
    ----------
    x
        Array; numbers count as True unless they are zero.

    Returns
    -------
    Array
        Bools of the shape of `x`.
    """
    return _logical_not(x)


def logical_or(x1: Array | bool, x2: Array | bool, /) -> Array:
    """Whether at least one of two elements is True.

    Parameters
    ----------
    x1, x2
        Arrays, or an array and a Python scalar, that broadcast together. Numbers count as True unless they are zero.

    Returns
    -------
    Array
        Bools of the shape that the operands broadcast to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.
    """
    return _logical_or(x1, x2)


def logical_xor(x1: Array | bool, x2: Array | bool, /) -> Array:
    """Whether exactly one of two elements is True.

    Parameters
    ----------
    x1, x2
        Arrays, or an array and a Python scalar, that broadcast together. Numbers count as True unless they are zero.

    Returns
    -------
    Array
        Bools of the shape that the operands broadcast to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.
    """
    return _logical_xor(x1, x2)


def not_equal(x1: Array | bool | int | float | complex, x2: Array | bool | int | float | complex, /) -> Array:
    """Whether two elements differ.

    Parameters
    ----------
    x1, x2
        Arrays, or an array and a Python scalar, that broadcast together.

    Returns
    -------
    Array
        Bools of the shape that the operands broadcast to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.

    Notes
    -----
    NaN differs from everything. A Python integer beyond the range of the array's dtype compares as the number that it
    is.
    """
    return _not_equal(x1, x2)
