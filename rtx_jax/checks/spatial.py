"""Parameters of windows that slide over the last axes: sizes, strides, padding, and how many windows there are.

A tensor has the axes (B, C, ...): batch, channels, and one to three spatial axes over which windows slide; the batch
may be absent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from ..errors import InvalidArgument, InvalidDimension, OutOfMemory, UnsupportedDType
from . import elementwise
from .parameters import whole

__all__ = ["Padding", "Pairs", "Sizes", "batched", "entries", "hashable", "numeric", "pads", "room", "sizes", "windows"]

Sizes: TypeAlias = int | Sequence[int]
"""One integer for all spatial axes, or one for each."""

Padding: TypeAlias = int | str | Sequence[int] | Sequence[Sequence[int]]
"""One integer for all sides, one for each spatial axis, a pair (before, after) for each, ``"same"`` or ``"valid"``."""

Pairs: TypeAlias = tuple[tuple[int, int], ...]
"""Padding before and after, for each spatial axis."""

_LIMIT = 2**31 - 1
_MAX_BYTES = 2**63 - 1


def batched(operation: str, shape: tuple[int, ...], spatial: int, argument: str = "x") -> bool:
    """Tell whether a tensor has a batch axis before its channels and its `spatial` last axes.

    Raises
    ------
    InvalidDimension
        It has another number of axes.
    """
    if len(shape) not in (spatial + 1, spatial + 2):
        letters = ", ".join(("D", "H", "W")[3 - spatial :])
        raise InvalidDimension(
            operation,
            argument,
            got=f"shape {shape}",
            wanted=f"{spatial + 2} axes (B, C, {letters}), or {spatial + 1} without the batch",
            dim=len(shape),
            ndim=spatial + 2,
        )
    return len(shape) == spatial + 2


def numeric(operation: str, dtype: np.dtype, argument: str = "x") -> None:
    """Raise UnsupportedDType unless `dtype` is a real floating dtype, or an integer of at least one byte."""
    elementwise.numeric(operation, dtype, argument)
    if dtype.name in ("int2", "int4", "uint2", "uint4"):
        raise UnsupportedDType(
            operation,
            argument,
            got=dtype.name,
            wanted="a number of at least 8 bits",
            remedy="Cast it first.",
            dtype=dtype,
            op=operation,
        )


def _whole(operation: str, value: object, argument: str, low: int) -> int:
    found = whole(operation, argument, value, low)
    if found > _LIMIT:
        raise InvalidArgument(
            operation, argument, got=found, wanted=f"at most {_LIMIT}", arg=argument, reason="out of range"
        )
    return found


def sizes(operation: str, argument: str, value: object, spatial: int, low: int = 1) -> tuple[int, ...]:
    """Return a size for each spatial axis; one integer stands for all.

    Raises
    ------
    InvalidArgument
        There is another number of them, one is no integer, or below `low`.
    """
    if isinstance(value, (tuple, list)):
        found = tuple([_whole(operation, n, argument, low) for n in value])
        if len(found) != spatial:
            raise InvalidArgument(
                operation,
                argument,
                got=f"{found}, of {len(found)} entries",
                wanted=f"an integer or {entries(spatial, 'integer')}",
                arg=argument,
                reason="wrong length",
            )
        return found
    return (_whole(operation, value, argument, low),) * spatial


def entries(spatial: int, noun: str) -> str:
    """Return how many of something there are, in words."""
    return f"{spatial} {noun}" + ("s" if spatial > 1 else "")


def hashable(operation: str, argument: str, value: object) -> object:
    """Return a parameter as an int, a string, None, or a tuple of these, so that it can be part of a key.

    Raises
    ------
    InvalidArgument
        It is something else.
    """
    if type(value) is int or value is None:
        return value
    if isinstance(value, str):
        return value.lower()
    if isinstance(value, (tuple, list)):
        return tuple([hashable(operation, argument, part) for part in value])
    return _whole(operation, value, argument, -_LIMIT)


def pads(
    operation: str,
    value: object,
    shape: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Pairs:
    """Return the padding before and after each spatial axis.

    Parameters
    ----------
    operation
        Named in the errors.
    value
        What `Padding` describes. ``"same"`` makes ceil(size / stride) windows, the odd element of padding after.
    shape
        Sizes of the spatial axes.
    kernel, stride, dilation
        Of the window, for each spatial axis.

    Raises
    ------
    InvalidArgument
        It is negative, or of another form.
    """
    spatial = len(shape)
    if isinstance(value, str):
        word = value.lower()
        if word == "valid":
            return ((0, 0),) * spatial
        if word == "same":
            out = []
            for n, k, s, d in zip(shape, kernel, stride, dilation, strict=True):
                total = max(0, (-(-n // s) - 1) * s + d * (k - 1) + 1 - n)
                out.append((total // 2, total - total // 2))
            return tuple(out)
        raise _not_padding(operation, value, spatial)
    if not isinstance(value, (tuple, list)):
        amount = _pad(operation, value)
        return ((amount, amount),) * spatial
    if len(value) != spatial:
        raise _not_padding(operation, value, spatial)
    pairs = []
    for part in value:
        if isinstance(part, (tuple, list)):
            if len(part) != 2:
                raise _not_padding(operation, value, spatial)
            pairs.append((_pad(operation, part[0]), _pad(operation, part[1])))
        else:
            amount = _pad(operation, part)
            pairs.append((amount, amount))
    return tuple(pairs)


def _pad(operation: str, value: object) -> int:
    found = _whole(operation, value, "padding", -_LIMIT)
    if found < 0:
        raise InvalidArgument(
            operation,
            "padding",
            got=found,
            wanted="0 or more",
            remedy="Slice x first to take elements away.",
            arg="padding",
            reason="negative",
        )
    return found


def _not_padding(operation: str, value: object, spatial: int) -> InvalidArgument:
    return InvalidArgument(
        operation,
        "padding",
        got=repr(value),
        wanted=f"an integer, {entries(spatial, 'integer')} or {entries(spatial, 'pair')} (before, after) in a tuple, "
        '"same" or "valid"',
        arg="padding",
        reason="wrong form",
    )


def windows(
    operation: str,
    shape: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    padding: Pairs,
    argument: str,
) -> tuple[int, ...]:
    """Return how many windows there are along each axis: ``(n + before + after - dilation * (k - 1) - 1) // s + 1``.

    Raises
    ------
    InvalidArgument
        There is none along one axis.
    """
    out = []
    for axis, (n, k, s, d, (lo, hi)) in enumerate(zip(shape, kernel, stride, dilation, padding, strict=True)):
        rest = n + lo + hi - d * (k - 1) - 1
        if rest < 0 or (n == 0 and lo + hi == 0):
            raise InvalidArgument(
                operation,
                argument,
                got=f"a window of {d * (k - 1) + 1} along spatial axis {axis} of size {n} (padded: {n + lo + hi})",
                wanted="a window that fits",
                remedy="Pad more, or make the window smaller.",
                arg=argument,
                reason="empty output",
            )
        out.append(rest // s + 1)
    return tuple(out)


def room(operation: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape of a result whose bytes can be counted.

    Raises
    ------
    OutOfMemory
        It has more bytes than 63 bits count.
    """
    if math.prod(shape) * 16 > _MAX_BYTES:
        raise OutOfMemory(
            operation, got=f"a result of shape {shape}", wanted="fewer bytes than 63 bits count", size=math.prod(shape)
        )
    return shape
