"""Convolutions in one to three dimensions and their transposes, summed in wide precision and rounded once.

As in every library of networks they are cross-correlations: the kernel is not mirrored. Integers wrap around in the
dtype of the result.
"""

from __future__ import annotations

import itertools

import numpy as np

from ...checks import convolution as check
from ...checks.linear import precision as check_precision
from ...checks.spatial import Padding, Sizes
from .axes import on_last
from .rounding import is_integer, narrow, wide

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]


def _working(x: np.ndarray, common: np.dtype, out: np.dtype) -> np.ndarray:
    """Return an operand in the type of the sums: 64-bit integers, or wide floats."""
    x = narrow(x, common)
    if is_integer(common) and is_integer(out):
        return x.astype(np.int64)
    return wide(x) if not is_integer(common) else x.astype(np.longdouble if out == np.float64 else np.float64)


def _batch(x: np.ndarray, spatial: int) -> int:
    """Return the number of images; NumPy cannot find it where there is no element."""
    return x.shape[0] if x.ndim == spatial + 2 else 1


def _finish(sums: np.ndarray, bias: np.ndarray | None, shape: tuple[int, ...], out: np.dtype) -> np.ndarray:
    if bias is not None:
        terms = bias.astype(np.int64) if is_integer(out) else wide(bias)
        sums = sums + terms.reshape(-1, *(1,) * (sums.ndim - 2))
    return narrow(sums, out).reshape(shape)


def _convolve(
    operation: str,
    spatial: int,
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
    dtype: np.dtype | None,
    precision: str | None,
) -> np.ndarray:
    """Sum ``x[b, c, i * stride + k * dilation - padding] * weight[o, c, k]`` over c and k, for every b, o and i."""
    plan = check.convolution(
        operation,
        spatial,
        x.shape,
        weight.shape,
        None if bias is None else bias.shape,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
    )
    common, out = check.dtypes(operation, x.dtype, weight.dtype, None if bias is None else bias.dtype, dtype)
    check_precision(operation, precision)
    axes = tuple(range(-spatial, 0))
    padded = np.pad(_working(x, common, out), [(0, 0)] * (x.ndim - spatial) + list(plan.padding))
    width = tuple(d * (k - 1) + 1 for d, k in zip(plan.dilation, weight.shape[2:], strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(padded, width, axes)
    # All windows are there: keep every stride-th, and of each window every dilation-th element.
    windows = windows[on_last(slice(None, None, step) for step in (*plan.stride, *plan.dilation))]
    channels, batch = weight.shape[1], _batch(x, spatial)
    each = weight.shape[0] // plan.groups
    grouped = windows.reshape(batch, plan.groups, channels, *windows.shape[-2 * spatial :])
    kernels = _working(weight, common, out).reshape(plan.groups, each, channels, *weight.shape[2:])
    places, taps = "xyz"[:spatial], "uvw"[:spatial]
    with np.errstate(all="ignore"):
        sums = np.einsum(f"bgc{places}{taps},goc{taps}->bgo{places}", grouped, kernels)
        return _finish(sums.reshape(batch, weight.shape[0], *plan.shape[-spatial:]), bias, plan.shape, out)


def _transpose(
    operation: str,
    spatial: int,
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    stride: Sizes,
    padding: Padding,
    output_padding: Sizes,
    dilation: Sizes,
    groups: int,
    dtype: np.dtype | None,
    precision: str | None,
) -> np.ndarray:
    """Add ``x[b, c, i] * weight[c, o, k]`` at ``i * stride + k * dilation - padding``, for all b, c, o, i and k."""
    plan = check.transposed(
        operation,
        spatial,
        x.shape,
        weight.shape,
        None if bias is None else bias.shape,
        stride=stride,
        padding=padding,
        output_padding=output_padding,
        dilation=dilation,
        groups=groups,
    )
    common, out = check.dtypes(operation, x.dtype, weight.dtype, None if bias is None else bias.dtype, dtype)
    check_precision(operation, precision)
    size, kernel, outputs = x.shape[-spatial:], weight.shape[2:], weight.shape[1]
    batch = _batch(x, spatial)
    grouped = _working(x, common, out).reshape(batch, plan.groups, weight.shape[0] // plan.groups, *size)
    kernels = _working(weight, common, out).reshape(plan.groups, weight.shape[0] // plan.groups, outputs, *kernel)
    # The whole of the result before the padding is cut off, and what output_padding may reach beyond it.
    full = [
        (n - 1) * s + d * (k - 1) + 1 + more
        for n, s, d, k, more in zip(size, plan.stride, plan.dilation, kernel, plan.output_padding, strict=True)
    ]
    sums = np.zeros((len(grouped), plan.groups, outputs, *full), grouped.dtype)
    places = "xyz"[:spatial]
    with np.errstate(all="ignore"):
        for tap in itertools.product(*map(range, kernel)):
            target = tuple(
                slice(k * d, k * d + (n - 1) * s + 1, s)
                for k, d, n, s in zip(tap, plan.dilation, size, plan.stride, strict=True)
            )
            sums[on_last(target)] += np.einsum(f"bgc{places},gco->bgo{places}", grouped, kernels[on_last(tap)])
        inside = tuple(slice(lo, lo + n) for (lo, _), n in zip(plan.padding, plan.shape[-spatial:], strict=True))
        sums = sums[on_last(inside)].reshape(batch, plan.groups * outputs, *plan.shape[-spatial:])
        return _finish(sums, bias, plan.shape, out)


def conv1d(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None = None,
    /,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    dtype: np.dtype | None = None,
    precision: str | None = None,
) -> np.ndarray:
    """Convolve `x` (B, C, W) with `weight` (O, C / groups, k)."""
    return _convolve("conv1d", 1, x, weight, bias, stride, padding, dilation, groups, dtype, precision)


def conv2d(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None = None,
    /,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    dtype: np.dtype | None = None,
    precision: str | None = None,
) -> np.ndarray:
    """Convolve `x` (B, C, H, W) with `weight` (O, C / groups, kh, kw)."""
    return _convolve("conv2d", 2, x, weight, bias, stride, padding, dilation, groups, dtype, precision)


def conv3d(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None = None,
    /,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    dtype: np.dtype | None = None,
    precision: str | None = None,
) -> np.ndarray:
    """Convolve `x` (B, C, D, H, W) with `weight` (O, C / groups, kd, kh, kw)."""
    return _convolve("conv3d", 3, x, weight, bias, stride, padding, dilation, groups, dtype, precision)


def conv_transpose1d(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None = None,
    /,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
    dtype: np.dtype | None = None,
    precision: str | None = None,
) -> np.ndarray:
    """Apply the transpose of `conv1d` to `x` (B, C, W); `weight` is (C, O / groups, k)."""
    name = "conv_transpose1d"
    return _transpose(name, 1, x, weight, bias, stride, padding, output_padding, dilation, groups, dtype, precision)


def conv_transpose2d(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None = None,
    /,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
    dtype: np.dtype | None = None,
    precision: str | None = None,
) -> np.ndarray:
    """Apply the transpose of `conv2d` to `x` (B, C, H, W); `weight` is (C, O / groups, kh, kw)."""
    name = "conv_transpose2d"
    return _transpose(name, 2, x, weight, bias, stride, padding, output_padding, dilation, groups, dtype, precision)


def conv_transpose3d(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None = None,
    /,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
    dtype: np.dtype | None = None,
    precision: str | None = None,
) -> np.ndarray:
    """Apply the transpose of `conv3d` to `x` (B, C, D, H, W); `weight` is (C, O / groups, kd, kh, kw)."""
    name = "conv_transpose3d"
    return _transpose(name, 3, x, weight, bias, stride, padding, output_padding, dilation, groups, dtype, precision)
