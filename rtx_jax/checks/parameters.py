"""Checks of the parameters that operations of networks share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..errors import InvalidArgument, InvalidDimension, UnsupportedDType
from .elementwise import kind_of, scalar
from .shape import as_int

__all__ = ["axis", "function", "integer", "number", "positive", "whole"]


_STATIC = "A value on a device cannot be one: it decides what is compiled."


def integer(operation: str, dtype: np.dtype, argument: str) -> None:
    """Raise UnsupportedDType unless `dtype` is an integer dtype."""
    if kind_of(dtype) != "integer":
        raise UnsupportedDType(
            operation, argument, got=dtype.name, wanted="an integer dtype", dtype=dtype, op=operation
        )


def function(
    operation: str, argument: str, value: object, *, wanted: str = "a function", remedy: str = ""
) -> Callable[..., object]:
    """Return a parameter that can be called, or raise InvalidArgument."""
    if callable(value):
        return value
    raise InvalidArgument(
        operation,
        argument,
        got=f"an object of type {type(value).__name__}",
        wanted=wanted,
        remedy=remedy,
        arg=argument,
        reason="not callable",
    )


def number(operation: str, argument: str, value: object) -> float:
    """Return a parameter as a finite float, or raise InvalidArgument."""
    return scalar(operation, argument, value, finite=True, remedy=_STATIC)


def positive(operation: str, argument: str, value: object, *, zero: bool = False) -> float:
    """Return a parameter as a finite float above 0 (from 0 on with `zero`), or raise InvalidArgument."""
    found = scalar(operation, argument, value, finite=True, remedy=_STATIC)
    if found > 0 or (zero and found == 0):
        return found
    wanted = "0 or more" if zero else "more than 0"
    raise InvalidArgument(operation, argument, got=repr(value), wanted=wanted, arg=argument, reason="out of range")


def whole(operation: str, argument: str, value: object, least: int) -> int:
    """Return a parameter as an int of at least `least`, or raise InvalidArgument."""
    found = as_int(operation, argument, value)
    if found < least or isinstance(value, bool):
        raise InvalidArgument(
            operation,
            argument,
            got=repr(value),
            wanted=f"an integer of at least {least}",
            arg=argument,
            reason="out of range",
        )
    return found


def axis(operation: str, value: object, ndim: int, argument: str = "dim") -> int:
    """Return an axis counted from the front; negative ones count from the end.

    Raises
    ------
    InvalidArgument
        It is not an integer.
    InvalidDimension
        It is not in ``-ndim..ndim-1``.
    """
    found = value if type(value) is int else as_int(operation, argument, value)
    if -ndim <= found < ndim:
        return found + ndim if found < 0 else found
    raise InvalidDimension(
        operation,
        argument,
        got=found,
        wanted=f"{-ndim}..{ndim - 1}" if ndim else "an array with an axis (it has none)",
        dim=found,
        ndim=ndim,
    )
