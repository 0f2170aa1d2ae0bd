"""Convolutions in one to three dimensions and their transposes.

They are cross-correlations: the kernel is not mirrored, as in every library of networks. Arrays are laid out as
(B, C, ...), weights as (O, C, ...). float32 is multiplied in full float32 on every device; `set_matmul_precision`
lowers it. Floats below 32 bits are multiplied and added in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping

from .._array import Array
from .._config import matmul_precision
from ..checks.spatial import Padding, Sizes, hashable
from ..core.dtypes import DTypeLike, as_dtype
from ..core.op import Op
from ..ops import convolution as _ops
from ._call import call, optional

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]

_PARAMS = ("stride", "padding", "dilation", "groups", "dtype", "precision")
_TRANSPOSED = (*_PARAMS, "output_padding")

_conv1d = optional("conv1d", _ops.conv1d, _PARAMS)
_conv2d = optional("conv2d", _ops.conv2d, _PARAMS)
_conv3d = optional("conv3d", _ops.conv3d, _PARAMS)
_conv_transpose1d = optional("conv_transpose1d", _ops.conv_transpose1d, _TRANSPOSED)
_conv_transpose2d = optional("conv_transpose2d", _ops.conv_transpose2d, _TRANSPOSED)
_conv_transpose3d = optional("conv_transpose3d", _ops.conv_transpose3d, _TRANSPOSED)


def conv1d(
    x: Array,
    weight: Array,
    /,
    bias: Array | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    dtype: DTypeLike | None = None,
) -> Array:
    """Convolve time series of shape (B, C, W), or (C, W), with kernels (O, C / groups, k).

    Parameters, result and errors are those of `conv2d`, for one spatial axis.
    """
    params = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return _call(_conv1d, x, weight, bias, dtype, params)


def conv2d(
    x: Array,
    weight: Array,
    /,
    bias: Array | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    dtype: DTypeLike | None = None,
) -> Array:
    """Convolve images with kernels.

    Parameters
    ----------
    x
        Shape (B, C, H, W), or (C, H, W) without a batch.
    weight
        Kernels, shape (O, C / groups, kh, kw), of the kind of `x`; the dtypes promote.
    bias
        Shape (O,), added to the channels of the result.
    stride
        Steps from window to window, 1 or more; one integer, or one for each spatial axis.
    padding
        Zeros around `x`, 0 or more: one integer, one for each spatial axis, or a pair (before, after) for each.
        ``"valid"`` is none; ``"same"`` makes ceil(size / stride) windows, the odd zero after.
    dilation
        Steps from element to element of the kernel, 1 or more.
    groups
        Channels of `x` and of the result fall into this many groups, each convolved on its own; divides both.
    dtype
        Dtype of the result, in which sums are formed; that of the operands by default. Integers wrap around in it:
        8-bit ones need ``dtype=xp.int32`` for the exact sums.

    Returns
    -------
    Array
        Shape (B, O, H', W') with ``H' = (H + before + after - dilation * (kh - 1) - 1) // stride + 1``.

    Raises
    ------
    InvalidDimension
        `x` or `weight` has another number of axes.
    ShapeMismatch
        The channels of `weight`, or `bias`, do not fit.
    InvalidArgument
        A parameter is out of range, `groups` does not divide the channels, or the window does not fit.
    UnsupportedDType, DTypeMismatch
        An operand is bool, complex or below 8 bits, or the dtypes do not combine.

    Examples
    --------
    >>> import rtx_jax as xp
    >>> from rtx_jax import nn
    >>> image = xp.reshape(xp.arange(9.0, dtype=xp.float32), (1, 1, 3, 3))
    >>> edges = xp.asarray([[[[-1.0, 1.0]]]], dtype=xp.float32)
    >>> nn.conv2d(image, edges)[0, 0]
    Array([[1., 1.],
           [1., 1.],
           [1., 1.]], dtype=float32)
    """
    params = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return _call(_conv2d, x, weight, bias, dtype, params)


def conv3d(
    x: Array,
    weight: Array,
    /,
    bias: Array | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    dtype: DTypeLike | None = None,
) -> Array:
    """Convolve volumes of shape (B, C, D, H, W), or (C, D, H, W), with kernels (O, C / groups, kd, kh, kw).

    Parameters, result and errors are those of `conv2d`, for three spatial axes.
    """
    params = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return _call(_conv3d, x, weight, bias, dtype, params)


def conv_transpose1d(
    x: Array,
    weight: Array,
    /,
    bias: Array | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    dtype: DTypeLike | None = None,
) -> Array:
    """Apply the transpose of `conv1d` to (B, C, W), or (C, W), with kernels (C, O / groups, k).

    Parameters, result and errors are those of `conv_transpose2d`, for one spatial axis.
    """
    params = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return _call(_conv_transpose1d, x, weight, bias, dtype, params, output_padding)


def conv_transpose2d(
    x: Array,
    weight: Array,
    /,
    bias: Array | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    dtype: DTypeLike | None = None,
) -> Array:
    """Apply the transpose of `conv2d`: the gradient of a convolution with these parameters in its image.

    Parameters
    ----------
    x
        Shape (B, C, H, W), or (C, H, W) without a batch.
    weight
        Kernels, shape (C, O / groups, kh, kw): those of the convolution that leads from the result to `x`.
    bias
        Shape (O,), added to the channels of the result.
    stride, dilation, groups
        Those of that convolution.
    padding
        That of the convolution, so it takes elements away from the border of the result. ``"same"`` gives a result
        of ``H * stride``, aligned as the convolution with that padding is.
    output_padding
        Elements added after each axis of the result, less than `stride` or `dilation`: they choose among the sizes
        that a convolution with a stride maps to H.
    dtype
        As in `conv2d`.

    Returns
    -------
    Array
        Shape (B, O, H', W') with
        ``H' = (H - 1) * stride - before - after + dilation * (kh - 1) + 1 + output_padding``.

    Raises
    ------
    InvalidDimension
        `x` or `weight` has another number of axes.
    ShapeMismatch
        The channels of `weight`, or `bias`, do not fit.
    InvalidArgument
        A parameter is out of range, `groups` does not divide the channels, or the result would be empty.
    UnsupportedDType, DTypeMismatch
        An operand is bool, complex or below 8 bits, or the dtypes do not combine.
    """
    params = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return _call(_conv_transpose2d, x, weight, bias, dtype, params, output_padding)


def conv_transpose3d(
    x: Array,
    weight: Array,
    /,
    bias: Array | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    dtype: DTypeLike | None = None,
) -> Array:
    """Apply the transpose of `conv3d` to (B, C, D, H, W), or (C, D, H, W), with kernels (C, O / groups, kd, kh, kw).

    Parameters, result and errors are those of `conv_transpose2d`, for three spatial axes.
    """
    params = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return _call(_conv_transpose3d, x, weight, bias, dtype, params, output_padding)


def _call(
    op: Op,
    x: Array,
    weight: Array,
    bias: Array | None,
    dtype: DTypeLike | None,
    params: Mapping[str, object],
    *output_padding: Sizes,
) -> Array:
    name = op.name
    keys = [value if type(value) is int else hashable(name, key, value) for key, value in params.items()]
    extra = [hashable(name, "output_padding", value) for value in output_padding]
    target = None if dtype is None else as_dtype(dtype, name)
    operands = {"x": x, "weight": weight, "bias": bias}
    return call(op, operands, *keys, target, matmul_precision(), *extra)  # type: ignore[return-value]
