"""Checks of convolutions and their transposes: parameters for each axis, and the shape of the result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import DTypeMismatch, InvalidArgument, InvalidDimension, ShapeMismatch
from .elementwise import common_dtype, kind_of
from .parameters import whole
from .spatial import Pairs, batched, numeric, pads, room, sizes, windows

__all__ = ["Convolution", "Transposed", "convolution", "dtypes", "transposed"]


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution whose parameters are checked.

    Attributes
    ----------
    stride, dilation
        For each spatial axis.
    padding
        Before and after each spatial axis.
    groups
        How many groups of channels there are.
    batched
        Whether `x` has a batch axis.
    shape
        Of the result.
    """

    stride: tuple[int, ...]
    padding: Pairs
    dilation: tuple[int, ...]
    groups: int
    batched: bool
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Transposed(Convolution):
    """A transposed convolution whose parameters are checked.

    Attributes
    ----------
    output_padding
        Elements added after each spatial axis of the result.
    """

    output_padding: tuple[int, ...]


def dtypes(
    operation: str, x: np.dtype, weight: np.dtype, bias: np.dtype | None, dtype: np.dtype | None
) -> tuple[np.dtype, np.dtype]:
    """Return the dtype that `x` and `weight` promote to, and that of the result: `dtype`, or the same.

    Raises
    ------
    UnsupportedDType
        An operand is not a number of at least 8 bits, or `dtype` is not.
    DTypeMismatch
        The dtypes of the operands do not combine, or `dtype` is of integers for floats.
    """
    numeric(operation, x)
    numeric(operation, weight, "weight")
    common = common_dtype(operation, x, weight)
    if bias is not None:
        numeric(operation, bias, "bias")
        if kind_of(bias) != kind_of(common):
            raise _kinds_differ(operation, "bias", bias, common)
    if dtype is None:
        return common, common
    numeric(operation, dtype, "dtype")
    if kind_of(dtype) == "integer" and kind_of(common) != "integer":
        raise _kinds_differ(operation, "dtype", dtype, common)
    return common, dtype


def _kinds_differ(operation: str, argument: str, dtype: np.dtype, common: np.dtype) -> DTypeMismatch:
    return DTypeMismatch(
        operation,
        argument,
        got=f"{dtype.name} beside {common.name}",
        wanted="a dtype of that kind",
        remedy="Cast the operands first.",
    )


def _weight(operation: str, weight_shape: tuple[int, ...], spatial: int, layout: str) -> tuple[int, ...]:
    """Return the sizes of the kernel."""
    if len(weight_shape) != spatial + 2:
        raise InvalidDimension(
            operation,
            "weight",
            got=f"shape {weight_shape}",
            wanted=f"{spatial + 2} axes {layout}",
            dim=len(weight_shape),
            ndim=spatial + 2,
        )
    kernel = weight_shape[2:]
    if 0 in kernel:
        raise InvalidArgument(
            operation,
            "weight",
            got=f"shape {weight_shape}",
            wanted="a kernel of at least one element",
            arg="weight",
            reason="empty kernel",
        )
    return kernel


def _divides(operation: str, groups: int, channels: int, what: str) -> None:
    if channels % groups:
        raise InvalidArgument(
            operation,
            "groups",
            got=f"{groups} for {channels} {what}",
            wanted="a divisor of the channels of x and of the result",
            arg="groups",
            reason="does not divide",
        )


def _bias(operation: str, bias_shape: tuple[int, ...] | None, channels: int) -> None:
    if bias_shape is not None and bias_shape != (channels,):
        raise ShapeMismatch(
            operation,
            "bias",
            got=f"shape {bias_shape}",
            wanted=f"({channels},), one for each channel of the result",
            expected=(channels,),
            got_shape=bias_shape,
        )


def convolution(
    operation: str,
    spatial: int,
    x_shape: tuple[int, ...],
    weight_shape: tuple[int, ...],
    bias_shape: tuple[int, ...] | None,
    *,
    stride: object,
    padding: object,
    dilation: object,
    groups: object,
) -> Convolution:
    """Check a convolution of `x` (B, C, ...) with `weight` (O, C / groups, ...).

    Raises
    ------
    InvalidDimension
        `x` or `weight` has another number of axes.
    ShapeMismatch
        The channels of `weight`, or `bias`, do not fit.
    InvalidArgument
        A parameter is out of range, `groups` does not divide the channels, or no window fits.
    """
    has_batch = batched(operation, x_shape, spatial)
    kernel = _weight(operation, weight_shape, spatial, "(O, C / groups, ...)")
    strides = sizes(operation, "stride", stride, spatial)
    dilations = sizes(operation, "dilation", dilation, spatial)
    group = whole(operation, "groups", groups, 1)
    channels, outputs, size = x_shape[-spatial - 1], weight_shape[0], x_shape[-spatial:]
    _divides(operation, group, channels, "channels of x")
    _divides(operation, group, outputs, "channels of the result")
    if weight_shape[1] != channels // group:
        raise ShapeMismatch(
            operation,
            "weight",
            got=f"shape {weight_shape} for x of shape {x_shape} in {group} groups",
            wanted=f"{channels // group} on axis 1, the channels of x in a group",
            expected=(outputs, channels // group, *kernel),
            got_shape=weight_shape,
        )
    _bias(operation, bias_shape, outputs)
    pairs = pads(operation, padding, size, kernel, strides, dilations)
    count = windows(operation, size, kernel, strides, dilations, pairs, "weight")
    shape = room(operation, (*x_shape[: -spatial - 1], outputs, *count))
    return Convolution(strides, pairs, dilations, group, has_batch, shape)


def transposed(
    operation: str,
    spatial: int,
    x_shape: tuple[int, ...],
    weight_shape: tuple[int, ...],
    bias_shape: tuple[int, ...] | None,
    *,
    stride: object,
    padding: object,
    output_padding: object,
    dilation: object,
    groups: object,
) -> Transposed:
    """Check a transposed convolution of `x` (B, C, ...) with `weight` (C, O / groups, ...).

    The result has ``(n - 1) * stride - before - after + dilation * (k - 1) + 1 + output_padding`` elements along an
    axis. With ``padding="same"`` it has ``n * stride``: the transpose of the convolution with that padding.

    Raises
    ------
    InvalidDimension
        `x` or `weight` has another number of axes.
    ShapeMismatch
        The channels of `weight`, or `bias`, do not fit.
    InvalidArgument
        A parameter is out of range, `groups` does not divide the channels, or the result would be empty.
    """
    has_batch = batched(operation, x_shape, spatial)
    kernel = _weight(operation, weight_shape, spatial, "(C, O / groups, ...)")
    strides = sizes(operation, "stride", stride, spatial)
    dilations = sizes(operation, "dilation", dilation, spatial)
    extra = sizes(operation, "output_padding", output_padding, spatial, 0)
    group = whole(operation, "groups", groups, 1)
    channels, size = x_shape[-spatial - 1], x_shape[-spatial:]
    if weight_shape[0] != channels:
        raise ShapeMismatch(
            operation,
            "weight",
            got=f"shape {weight_shape} for x of shape {x_shape}",
            wanted=f"{channels} on axis 0, the channels of x",
            expected=(channels, *weight_shape[1:]),
            got_shape=weight_shape,
        )
    _divides(operation, group, channels, "channels of x")
    outputs = weight_shape[1] * group
    _bias(operation, bias_shape, outputs)
    for amount, s, d in zip(extra, strides, dilations, strict=True):
        if amount and amount >= max(s, d):
            raise InvalidArgument(
                operation,
                "output_padding",
                got=f"{amount} with stride {s} and dilation {d}",
                wanted="less than the stride or the dilation",
                arg="output_padding",
                reason="out of range",
            )
    if isinstance(padding, str) and padding.lower() == "same":
        if any(extra):
            raise InvalidArgument(
                operation,
                "output_padding",
                got=f'{extra} with padding "same"',
                wanted="0, as the padding says how large the result is",
                arg="output_padding",
                reason="given twice",
            )
        extra = tuple(max(0, s - d * (k - 1) - 1) for s, k, d in zip(strides, kernel, dilations, strict=True))
        goal = tuple(n * s for n, s in zip(size, strides, strict=True))
        pairs = pads(operation, "same", goal, kernel, strides, dilations)
    else:
        pairs = pads(operation, padding, size, kernel, strides, dilations)
    count = []
    for axis, (n, k, s, d, more, (lo, hi)) in enumerate(
        zip(size, kernel, strides, dilations, extra, pairs, strict=True)
    ):
        length = (n - 1) * s - lo - hi + d * (k - 1) + 1 + more
        if n < 1 or length < 1:
            raise InvalidArgument(
                operation,
                "padding" if n else "x",
                got=f"spatial axis {axis} of size {n}, which gives {length} elements" if n else f"shape {x_shape}",
                wanted="a result of at least one element",
                remedy="Take less padding away." if n else "",
                arg="padding" if n else "x",
                reason="empty output",
            )
        count.append(length)
    shape = room(operation, (*x_shape[: -spatial - 1], outputs, *count))
    return Transposed(strides, pairs, dilations, group, has_batch, shape, extra)
