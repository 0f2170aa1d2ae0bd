"""Elementwise functions of the standard with floating-point results."""

from __future__ import annotations

from .._array import (
    Array,
    _divide,
    _door,
)
from ..core.dispatch import Op
from ..core.floating import floating_binary, floating_unary
from ..raw import elementwise as _raw

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "exp",
    "expm1",
    "hypot",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "nextafter",
    "reciprocal",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]

_acos = floating_unary(_door, Op("acos", _raw.acos))
_acosh = floating_unary(_door, Op("acosh", _raw.acosh))
_asin = floating_unary(_door, Op("asin", _raw.asin))
_asinh = floating_unary(_door, Op("asinh", _raw.asinh))
_atan = floating_unary(_door, Op("atan", _raw.atan))
_atan2 = floating_binary(_door, Op("atan2", _raw.atan2))
_atanh = floating_unary(_door, Op("atanh", _raw.atanh))
_copysign = floating_binary(_door, Op("copysign", _raw.copysign))
_cos = floating_unary(_door, Op("cos", _raw.cos))
_cosh = floating_unary(_door, Op("cosh", _raw.cosh))
_exp = floating_unary(_door, Op("exp", _raw.exp))
_expm1 = floating_unary(_door, Op("expm1", _raw.expm1))
_hypot = floating_binary(_door, Op("hypot", _raw.hypot))
_log = floating_unary(_door, Op("log", _raw.log))
_log1p = floating_unary(_door, Op("log1p", _raw.log1p))
_log2 = floating_unary(_door, Op("log2", _raw.log2))
_log10 = floating_unary(_door, Op("log10", _raw.log10))
_logaddexp = floating_binary(_door, Op("logaddexp", _raw.logaddexp))
_nextafter = floating_binary(_door, Op("nextafter", _raw.nextafter))
_reciprocal = floating_unary(_door, Op("reciprocal", _raw.reciprocal))
_sin = floating_unary(_door, Op("sin", _raw.sin))
_sinh = floating_unary(_door, Op("sinh", _raw.sinh))
_sqrt = floating_unary(_door, Op("sqrt", _raw.sqrt))
_tan = floating_unary(_door, Op("tan", _raw.tan))
_tanh = floating_unary(_door, Op("tanh", _raw.tanh))


def acos(x: Array, /) -> Array:
    """Inverse cosine of each element, in radians.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape of `x` and its dtype; the default float for integers.

    Notes
    -----
    Real results lie in [0, pi]; NaN outside of [-1, 1]. Complex branch cuts on the real axis beyond -1 and 1,
    continuous from the side that the sign of the imaginary zero tells.
    """
    return _acos(x)


def acosh(x: Array, /) -> Array:
    """Inverse hyperbolic cosine of each element.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape of `x` and its dtype; the default float for integers.

    Notes
    -----
    Real results are at least 0; NaN below 1. Complex branch cut on the real axis below 1.
    """
    return _acosh(x)


def asin(x: Array, /) -> Array:
    """Inverse sine of each element, in radians.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape of `x` and its dtype; the default float for integers.

    Notes
    -----
    Real results lie in [-pi/2, pi/2]; NaN outside of [-1, 1]. Complex branch cuts on the real axis beyond -1 and 1.
    """
    return _asin(x)


def asinh(x: Array, /) -> Array:
    """Inverse hyperbolic sine of each element.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape of `x` and its dtype; the default float for integers.

    Notes
    -----
    Complex branch cuts on the imaginary axis beyond -i and i.
    """
    return _asinh(x)


def atan(x: Array, /) -> Array:
    """Inverse tangent of each element, in radians.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape of `x` and its dtype; the default float for integers.

    Notes
    -----
    Real results lie in [-pi/2, pi/2]. Complex branch cuts on the imaginary axis beyond -i and i.
    """
    return _atan(x)


def atan2(x1: Array | int | float, x2: Array | int | float, /) -> Array:
    """Angle of each point (x2, x1) to the positive axis, in radians.

    Parameters
    ----------
    x1, x2
        Arrays of real numbers, or an array and a Python scalar, that broadcast together: the ordinate and the abscissa.

    Returns
    -------
    Array
        In [-pi, pi], of the dtype that the operands promote to; the default float for integers.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.

    Notes
    -----
    The signs of zeros choose the quadrant: ``atan2(+0, -0)`` is pi.
    """
    return _atan2(x1, x2)


def atanh(x: Array, /) -> Array:
    """Inverse hyperbolic tangent of each element.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape of `x` and its dtype; the default float for integers.

    Notes
    -----
    Infinite at -1 and 1, NaN beyond for real numbers. Complex branch cuts on the real axis beyond -1 and 1.
    """
    return _atanh(x)


def copysign(x1: Array | int | float, x2: Array | int | float, /) -> Array:
    """Magnitude of one array with the sign of another.

    Parameters
    ----------
    x1, x2
        Arrays of real numbers, or an array and a Python scalar, that broadcast together: magnitudes and signs.

    Returns
    -------
    Array
        Of the dtype that the operands promote to; the default float for integers.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.

    Notes
    -----
    The sign bit counts, that of zeros and NaNs too.
    """
    return _copysign(x1, x2)


def cos(x: Array, /) -> Array:
    """Cosine of each element, which is in radians.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape of `x` and its dtype; the default float for integers.
    """
    return _cos(x)


def cosh(x: Array, /) -> Array:
    """Hyperbolic cosine of each element.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape of `x` and its dtype; the default float for integers.
    """
    return _cosh(x)


def divide(x1: Array | bool | int | float | complex, x2: Array | bool | int | float | complex, /) -> Array:
    """Divide one array by another.

    Parameters
    ----------
    x1, x2
        Arrays, or an array and a Python scalar, that broadcast together.

    Returns
    -------
    Array
        Of the dtype that the operands promote to; the default float for two integers.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.

    Notes
    -----
    A real number divided by zero is an infinity or NaN, as IEEE 754 says.
    """
    return _divide(x1, x2)


def exp(x: Array, /) -> Array:
    """e to the power of each element.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape of `x` and its dtype; the default float for integers.
    """
    return _exp(x)


def expm1(x: Array, /) -> Array:
    """e to the power of each element, minus 1.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape of `x` and its dtype; the default float for integers.

    Notes
    -----
    Accurate near zero, where ``exp(x) - 1`` is not.
    """
    return _expm1(x)


def hypot(x1: Array | int | float, x2: Array | int | float, /) -> Array:
    """Length of the hypotenuse, ``sqrt(x1**2 + x2**2)``.

    Parameters
    ----------
    x1, x2
        Arrays of real numbers, or an array and a Python scalar, that broadcast together.

    Returns
    -------
    Array
        Of the dtype that the operands promote to; the default float for integers.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.

    Notes
    -----
    Does not overflow on the way. Infinite if one operand is, whatever the other.
    """
    return _hypot(x1, x2)


def log(x: Array, /) -> Array:
    """Natural logarithm of each element.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape of `x` and its dtype; the default float for integers.

    Notes
    -----
    -infinity at 0, NaN for negative real numbers. Complex branch cut along the negative real axis.
    """
    return _log(x)


def log1p(x: Array, /) -> Array:
    """Natural logarithm of 1 plus each element.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape of `x` and its dtype; the default float for integers.

    Notes
    -----
    Accurate near zero, where ``log(1 + x)`` is not.
    """
    return _log1p(x)


def log2(x: Array, /) -> Array:
    """Logarithm to base 2 of each element.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape of `x` and its dtype; the default float for integers.
    """
    return _log2(x)


def log10(x: Array, /) -> Array:
    """Logarithm to base 10 of each element.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape of `x` and its dtype; the default float for integers.
    """
    return _log10(x)


def logaddexp(x1: Array | int | float, x2: Array | int | float, /) -> Array:
    """``log(exp(x1) + exp(x2))`` without overflow on the way.

    Parameters
    ----------
    x1, x2
        Arrays of real numbers, or an array and a Python scalar, that broadcast together.

    Returns
    -------
    Array
        Of the dtype that the operands promote to; the default float for integers.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.
    """
    return _logaddexp(x1, x2)


def nextafter(x1: Array | int | float, x2: Array | int | float, /) -> Array:
    """Next representable float after one array towards another.

    Parameters
    ----------
    x1, x2
        Arrays of real numbers, or an array and a Python scalar, that broadcast together.

    Returns
    -------
    Array
        Of the dtype that the operands promote to; the default float for integers.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.

    Notes
    -----
    Subnormal numbers are steps too, although XLA on a CPU computes with them as with zeros.
    """
    return _nextafter(x1, x2)


def reciprocal(x: Array, /) -> Array:
    """1 divided by each element.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape of `x` and its dtype; the default float for integers.
    """
    return _reciprocal(x)


def sin(x: Array, /) -> Array:
    """Sine of each element, which is in radians.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape of `x` and its dtype; the default float for integers.
    """
    return _sin(x)


def sinh(x: Array, /) -> Array:
    """Hyperbolic sine of each element.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape of `x` and its dtype; the default float for integers.
    """
    return _sinh(x)


def sqrt(x: Array, /) -> Array:
    """Principal square root of each element.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape of `x` and its dtype; the default float for integers.

    Notes
    -----
    NaN for negative real numbers; -0 for -0. Complex branch cut along the negative real axis.
    """
    return _sqrt(x)


def tan(x: Array, /) -> Array:
    """Tangent of each element, which is in radians.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape of `x` and its dtype; the default float for integers.
    """
    return _tan(x)


def tanh(x: Array, /) -> Array:
    """Hyperbolic tangent of each element.

    Parameters
    ----------
    x
        Array of any number.

    Returns
    -------
    Array
        Of the shape of `x` and its dtype; the default float for integers.
    """
    return _tanh(x)
