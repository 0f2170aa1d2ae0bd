"""Checks of the activations."""

from __future__ import annotations

import numpy as np

from ..errors import InvalidArgument, ShapeMismatch
from .choices import is_one_of
from .elementwise import floating
from .parameters import axis, number

__all__ = ["approximation", "divisor", "halves", "prelu", "same_shape"]


def approximation(operation: str, approximate: str) -> str:
    """Return the form of gelu: ``"none"`` or ``"tanh"``.

    Raises
    ------
    InvalidArgument
        It is another word.
    """
    if not is_one_of(approximate, ("none", "tanh")):
        raise InvalidArgument(
            operation,
            "approximate",
            got=repr(approximate),
            wanted='"none" (the exact form) or "tanh"',
            arg="approximate",
            reason="unknown form",
        )
    return approximate


def divisor(operation: str, argument: str, value: float) -> float:
    """Return a parameter that is divided by as a Python float.

    Raises
    ------
    InvalidArgument
        It is 0, or not a finite number.
    """
    found = number(operation, argument, value)
    if found == 0:
        raise InvalidArgument(
            operation, argument, got=repr(value), wanted="a number that is not 0", arg=argument, reason="zero"
        )
    return found


def halves(operation: str, shape: tuple[int, ...], dim: int, argument: str = "dim") -> tuple[int, int]:
    """Return the axis that is split in two, counted from the front, and the size of one half.

    Raises
    ------
    InvalidDimension
        There is no such axis.
    ShapeMismatch
        Its size is odd.
    """
    found = axis(operation, dim, len(shape), argument)
    if shape[found] % 2:
        raise ShapeMismatch(
            operation,
            "x",
            got=f"shape {shape}, of which axis {found} is split in two",
            wanted="an even size of that axis",
            expected=shape[found] + 1,
            got_shape=shape,
        )
    return found, shape[found] // 2


def prelu(shape: tuple[int, ...], dtype: np.dtype, weight_shape: tuple[int, ...], weight_dtype: np.dtype) -> None:
    """Check the operands of prelu: one slope, or one for each index of axis 1.

    Raises
    ------
    UnsupportedDType
        An operand is not real floating.
    ShapeMismatch
        There is another number of slopes.
    """
    floating("prelu", dtype)
    floating("prelu", weight_dtype, "weight")
    channels = shape[1] if len(shape) > 1 else 1
    if weight_shape not in ((), (1,), (channels,)):
        raise ShapeMismatch(
            "prelu",
            "weight",
            got=f"shape {weight_shape} for x of shape {shape}",
            wanted=f"shape (), (1,) or ({channels},), a slope for each index of axis 1",
            expected=(channels,),
            got_shape=weight_shape,
        )


def same_shape(operation: str, shape: tuple[int, ...], other: tuple[int, ...], argument: str) -> None:
    """Refuse a second operand of another shape.

    Raises
    ------
    ShapeMismatch
    """
    if other != shape:
        raise ShapeMismatch(
            operation, argument, got=f"shape {other}", wanted=f"{shape}", expected=shape, got_shape=other
        )
