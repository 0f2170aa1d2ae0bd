"""Axes and shapes as callers give them: made hashable for static keys, then checked against an array's rank."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

from ..errors import InvalidArgument, InvalidDimension, OutOfMemory

__all__ = ["as_axis", "as_int", "as_shape", "normalize_axes", "normalize_axis"]

_MAX_SIZE = 2**63 - 1
_MAX_MADE = 2**59  # of up to 16 bytes


def as_int(value: object, operation: str, argument: str) -> int:
    """Return an integer argument as a Python int, so that keys of equal value are equal (``True`` is not ``1``).

    Raises
    ------
    InvalidArgument
        It is not an integer.
    """
    if type(value) is int:
        return value
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError as error:
        if type(error) is not TypeError:
            raise  # a typed error of ours, such as reading a tracer
        raise InvalidArgument(
            operation,
            argument,
            got=f"{value!r} ({type(value).__name__})",
            wanted="an integer",
            arg=argument,
            reason="not an integer",
        ) from error


def as_axis(axis: object, operation: str, argument: str = "axis") -> int | tuple[int, ...] | None:
    """Return an ``axis`` argument as int, tuple of ints or None; not yet checked against a rank."""
    if axis is None or type(axis) is int:
        return axis
    if isinstance(axis, (tuple, list)):
        return tuple([n if type(n) is int else as_int(n, operation, argument) for n in axis])
    return as_int(axis, operation, argument)


def as_shape(shape: object, operation: str, argument: str = "shape", *, needs_memory: bool = True) -> tuple[int, ...]:
    """Return a shape as a tuple of non-negative ints; a single integer is a shape of one axis.

    Raises
    ------
    InvalidArgument
        It has an entry that is negative or no integer, or more elements than 64 bits count.
    OutOfMemory
        An array of this shape is to be made (`needs_memory`), and its bytes may be more than 64 bits count: JAX 0.10
        would end the process.
    """
    if type(shape) is int:
        out: tuple[int, ...] = (shape,)
    elif isinstance(shape, Sequence) and not isinstance(shape, (str, bytes)):
        out = tuple([n if type(n) is int else as_int(n, operation, argument) for n in shape])
    elif getattr(shape, "ndim", 0) == 1:  # a 1-d integer array
        out = tuple([as_int(n, operation, argument) for n in shape])  # type: ignore[attr-defined]
    else:
        out = (as_int(shape, operation, argument),)
    for n in out:
        if n < 0:
            raise InvalidArgument(
                operation, argument, got=out, wanted="sizes of 0 or more", arg=argument, reason="negative size"
            )
    count = math.prod(out)
    if out and max(out) > _MAX_SIZE or count > _MAX_SIZE:
        raise InvalidArgument(
            operation, argument, got=out, wanted="fewer than 2**63 elements", arg=argument, reason="too large"
        )
    if count >= _MAX_MADE and needs_memory:
        raise OutOfMemory(operation, argument, got=f"{out}, {count} elements", wanted="a shape that fits into memory")
    return out


def normalize_axis(axis: int, ndim: int, operation: str, argument: str = "axis") -> int:
    """Return `axis` counted from the front.

    Raises
    ------
    InvalidDimension
        It is not in ``[-ndim, ndim)``.
    """
    if -ndim <= axis < ndim:
        return axis + ndim if axis < 0 else axis
    raise InvalidDimension(
        operation,
        argument,
        got=f"{axis} (out of range)",
        wanted=f"{-ndim}..{ndim - 1}" if ndim else "an array with an axis (it has none)",
        dim=axis,
        ndim=ndim,
    )


def normalize_axes(
    axis: int | tuple[int, ...] | None, ndim: int, operation: str, argument: str = "axis"
) -> tuple[int, ...]:
    """Return the axes counted from the front, in the order given; None means all of them.

    Raises
    ------
    InvalidDimension
        One is not in ``[-ndim, ndim)``, or one is given twice.
    """
    if axis is None:
        return tuple(range(ndim))
    if isinstance(axis, int):
        return (normalize_axis(axis, ndim, operation, argument),)
    out = tuple(normalize_axis(n, ndim, operation, argument) for n in axis)
    if len(set(out)) != len(out):
        raise InvalidDimension(operation, argument, got=axis, wanted="each axis once", dim=axis, ndim=ndim)
    return out
