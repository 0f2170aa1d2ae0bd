"""Checks of the norms."""

from __future__ import annotations

import math

import numpy as np

from ..errors import InvalidArgument, ShapeMismatch
from .elementwise import floating, scalar
from .parameters import positive, whole
from .shape import rank_at_least

__all__ = ["affine", "batch_norm", "channels", "eps", "group_norm", "last_axis"]


def eps(operation: str, value: object) -> float:
    """Return the number that is added under the root: 0 or more."""
    return positive(operation, "eps", value, zero=True)


def affine(operation: str, size: int, what: str, shape: tuple[int, ...], dtype: np.dtype, argument: str) -> None:
    """Check one parameter vector: a float for each of `size` features.

    Raises
    ------
    ShapeMismatch
        It has another shape.
    UnsupportedDType
        It is not real floating.
    """
    floating(operation, dtype, argument)
    if shape != (size,):
        raise ShapeMismatch(
            operation,
            argument,
            got=f"shape {shape}",
            wanted=f"({size},), one for each {what}",
            expected=(size,),
            got_shape=shape,
        )


def last_axis(operation: str, shape: tuple[int, ...], dtype: np.dtype) -> int:
    """Return the size of the last axis, over which the statistics are taken.

    Raises
    ------
    InvalidDimension
        There is no axis.
    UnsupportedDType
        The dtype is not real floating.
    """
    floating(operation, dtype)
    rank_at_least(operation, shape, 1)
    return shape[-1]


def channels(operation: str, shape: tuple[int, ...], dtype: np.dtype) -> int:
    """Return the number of channels, the size of axis 1.

    Raises
    ------
    InvalidDimension
        There are fewer than two axes.
    UnsupportedDType
        The dtype is not real floating.
    """
    floating(operation, dtype)
    rank_at_least(operation, shape, 2)
    return shape[1]


def group_norm(shape: tuple[int, ...], dtype: np.dtype, num_groups: object) -> int:
    """Return the number of groups.

    Raises
    ------
    InvalidArgument
        It does not divide the number of channels.
    """
    size = channels("group_norm", shape, dtype)
    groups = whole("group_norm", "num_groups", num_groups, 1)
    if size % groups:
        raise InvalidArgument(
            "group_norm",
            "num_groups",
            got=f"{groups} for {size} channels",
            wanted="a divisor of the number of channels",
            arg="num_groups",
            reason="does not divide",
        )
    return groups


def batch_norm(
    shape: tuple[int, ...], dtype: np.dtype, *, training: bool, momentum: object, has_statistics: bool
) -> tuple[int, float]:
    """Return the number of channels and the momentum.

    Raises
    ------
    InvalidArgument
        The momentum is not in 0..1, there are no statistics to use, or training has fewer than two values to take
        statistics from.
    """
    size = channels("batch_norm", shape, dtype)
    rate = scalar("batch_norm", "momentum", momentum, finite=True)
    if not 0 <= rate <= 1:
        raise InvalidArgument(
            "batch_norm", "momentum", got=rate, wanted="0 to 1", arg="momentum", reason="out of range"
        )
    if not has_statistics:
        raise InvalidArgument(
            "batch_norm",
            "running_mean, running_var",
            got="only one of them" if training else "no statistics",
            wanted="both of them" if training else "the running mean and variance",
            remedy="Pass training=True to take the statistics of the batch.",
            arg="running_mean",
            reason="no statistics",
        )
    if training and math.prod(shape) < 2 * size:
        raise InvalidArgument(
            "batch_norm",
            "x",
            got=f"shape {shape}",
            wanted="at least two values in each channel while training",
            arg="x",
            reason="one value has no variance",
        )
    return size, rate
