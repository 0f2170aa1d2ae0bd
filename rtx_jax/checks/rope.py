"""Checks of rotary position embedding."""

from __future__ import annotations

import numpy as np

from ..errors import InvalidArgument, ShapeMismatch
from .choices import is_one_of
from .elementwise import floating
from .parameters import axis, integer, positive, whole

__all__ = ["LAYOUTS", "Rotation", "rope", "tables"]

LAYOUTS = ("half", "interleaved")

Rotation = tuple[str, int, int, int]
"""The layout, the channels that are rotated, the sequence axis from the front, and the width of the tables."""


def _mismatch(argument: str, got: str, wanted: str, expected: object, got_shape: object) -> ShapeMismatch:
    return ShapeMismatch("rope", argument, got=got, wanted=wanted, expected=expected, got_shape=got_shape)


def _layout(layout: object) -> str:
    if not is_one_of(layout, LAYOUTS):
        raise InvalidArgument(
            "rope",
            "layout",
            got=repr(layout),
            wanted='"half" (pairs of channels i and i + D/2) or "interleaved" (2 i and 2 i + 1)',
            arg="layout",
            reason="unknown layout",
        )
    return str(layout)


def rope(
    shape: tuple[int, ...],
    dtype: np.dtype,
    cos_shape: tuple[int, ...],
    cos_dtype: np.dtype,
    sin_shape: tuple[int, ...],
    sin_dtype: np.dtype,
    positions_shape: tuple[int, ...] | None,
    positions_dtype: np.dtype | None,
    *,
    layout: object,
    seq_axis: object,
    rotary_dim: object,
) -> Rotation:
    """Return the parameters of rope in normal form.

    Raises
    ------
    ShapeMismatch
        `x` has fewer than two axes, the rotated channels are not an even number that `x` has, a table has another
        width than that number or its half, or there are more positions in `x` than in the tables.
    InvalidArgument
        The layout is unknown, or the sequence axis is that of the channels.
    InvalidDimension
        There is no such axis.
    UnsupportedDType
        `x` or a table is not real floating, or the positions are not integers.
    """
    words = _layout(layout)
    floating("rope", dtype)
    floating("rope", cos_dtype, "cos")
    floating("rope", sin_dtype, "sin")
    if len(shape) < 2:
        raise _mismatch("x", f"shape {shape}", "at least a sequence and a channel axis", ("S", "D"), shape)
    place = axis("rope", seq_axis, len(shape), "seq_axis")
    if place == len(shape) - 1:
        raise InvalidArgument(
            "rope",
            "seq_axis",
            got=f"{seq_axis}, the axis of the channels",
            wanted=f"an axis before the last of {len(shape)}",
            arg="seq_axis",
            reason="the channel axis",
        )
    width = shape[-1] if rotary_dim is None else whole("rope", "rotary_dim", rotary_dim, 0)
    if width > shape[-1]:
        got = f"{width} channels to rotate, of x of shape {shape}"
        raise _mismatch("rotary_dim", got, f"at most the {shape[-1]} that there are", shape[-1], shape)
    if width % 2:
        argument = "x" if rotary_dim is None else "rotary_dim"
        got = f"{width} channels to rotate, of x of shape {shape}"
        raise _mismatch(argument, got, "an even number of channels, as they turn in pairs", width + 1, shape)
    if sin_shape != cos_shape:
        raise _mismatch("sin", f"shape {sin_shape}", f"{cos_shape}, as cos", cos_shape, sin_shape)
    if len(cos_shape) != 2 or cos_shape[1] not in (width // 2, width):
        wanted = f"(S, {width // 2}) or (S, {width}) for {width} rotated channels"
        raise _mismatch("cos, sin", f"shape {cos_shape}", wanted, ("S", width // 2), cos_shape)
    if positions_shape is None:
        if cos_shape[0] != shape[place]:
            wanted = f"{shape[place]} rows, one for each position of x of shape {shape}; or pass positions="
            raise _mismatch("cos, sin", f"{cos_shape[0]} rows", wanted, shape[place], cos_shape)
    else:
        assert positions_dtype is not None
        integer("rope", positions_dtype, "positions")
        length = shape[place]
        allowed = [(length,)] if place == 0 else [(length,), (shape[0], length), (1, length)]
        if positions_shape not in allowed:
            wanted = " or ".join(map(str, allowed[:2])) + f" for x of shape {shape}"
            raise _mismatch("positions", f"shape {positions_shape}", wanted, allowed[0], positions_shape)
    return words, width, place, cos_shape[1]


def tables(length: object, dim: object, base: object) -> tuple[int, int, float]:
    """Return the parameters of `rope_tables` in normal form.

    Raises
    ------
    InvalidArgument
        The length is negative, the number of channels odd, or the base not positive.
    """
    width = whole("rope_tables", "dim", dim, 0)
    if width % 2:
        raise InvalidArgument(
            "rope_tables", "dim", got=width, wanted="an even number of channels", arg="dim", reason="odd"
        )
    return whole("rope_tables", "length", length, 0), width, positive("rope_tables", "base", base)
