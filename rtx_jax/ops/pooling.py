"""Pools in one to three dimensions on raw arrays (B, C, ...): the greatest element or the mean of sliding windows.

Floats below 32 bits are compared and added in float32, and so are their gradients.
"""

from __future__ import annotations

import jax
import numpy as np
from jax import lax

from ..checks import pooling as _check
from ..checks.choices import flag
from ..checks.elementwise import floating
from ..checks.spatial import Padding, Sizes, numeric
from ..raw._kinds import accumulator, cast
from ._windows import Windows, greatest, total

__all__ = ["avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d"]


def max_pool1d(
    x: jax.Array,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> jax.Array:
    """Return the greatest element of windows of `x` (B, C, W)."""
    return _max_pool("max_pool1d", 1, x, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    x: jax.Array,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> jax.Array:
    """Return the greatest element of windows of `x` (B, C, H, W)."""
    return _max_pool("max_pool2d", 2, x, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    x: jax.Array,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> jax.Array:
    """Return the greatest element of windows of `x` (B, C, D, H, W)."""
    return _max_pool("max_pool3d", 3, x, kernel_size, stride, padding, dilation, ceil_mode)


def avg_pool1d(
    x: jax.Array,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> jax.Array:
    """Return the mean of windows of `x` (B, C, W)."""
    return _avg_pool("avg_pool1d", 1, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(
    x: jax.Array,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> jax.Array:
    """Return the mean of windows of `x` (B, C, H, W)."""
    return _avg_pool("avg_pool2d", 2, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool3d(
    x: jax.Array,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> jax.Array:
    """Return the mean of windows of `x` (B, C, D, H, W)."""
    return _avg_pool("avg_pool3d", 3, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


def _max_pool(
    operation: str,
    spatial: int,
    x: jax.Array,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Padding,
    dilation: Sizes,
    ceil_mode: bool,
) -> jax.Array:
    numeric(operation, x.dtype)
    plan = _check.pool(
        operation,
        spatial,
        x.shape,
        kernel_size=kernel_size,
        stride=stride,
        padding=padding,
        dilation=dilation,
        ceil_mode=flag(operation, "ceil_mode", ceil_mode),
    )
    windows = Windows(plan.kernel_size, plan.stride, plan.dilation, plan.reach)
    wide = cast(x if plan.batched else lax.expand_dims(x, (0,)), accumulator(x.dtype))
    return lax.reshape(cast(greatest(wide, windows), x.dtype), plan.shape)


def _avg_pool(
    operation: str,
    spatial: int,
    x: jax.Array,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Padding,
    ceil_mode: bool,
    count_include_pad: bool,
) -> jax.Array:
    floating(operation, x.dtype)
    plan = _check.pool(
        operation,
        spatial,
        x.shape,
        kernel_size=kernel_size,
        stride=stride,
        padding=padding,
        dilation=1,
        ceil_mode=flag(operation, "ceil_mode", ceil_mode),
    )
    windows = Windows(plan.kernel_size, plan.stride, plan.dilation, plan.reach)
    wide = cast(x if plan.batched else lax.expand_dims(x, (0,)), accumulator(x.dtype))
    counts = plan.counts(x.shape[-spatial:], include_pad=flag(operation, "count_include_pad", count_include_pad))
    return lax.reshape(cast(divide(total(wide, windows), counts), x.dtype), plan.shape)


def divide(sums: jax.Array, counts: tuple[tuple[int, ...], ...]) -> jax.Array:
    """Divide sums (B, C, ...) by how many elements each has, which is the product over the spatial axes."""
    divisor = np.ones((), sums.dtype)
    for axis, numbers in enumerate(counts):
        along: np.ndarray = np.asarray(numbers, sums.dtype)
        if len(set(numbers)) == 1:
            along = along[0]
        else:
            along = along.reshape(-1, *(1,) * (len(counts) - 1 - axis))
        divisor = divisor * along
    return lax.div(sums, lax.broadcast_in_dim(divisor, sums.shape, tuple(range(sums.ndim - divisor.ndim, sums.ndim))))
