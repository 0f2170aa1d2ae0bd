"""Pools in one to three dimensions: the greatest element or the mean of sliding windows, and of adaptive ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from ...checks import pooling as check
from ...checks.elementwise import floating
from ...checks.spatial import Padding, Sizes, numeric
from .axes import on_last
from .reduction import lane_sum
from .rounding import exact, narrow

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]

OutputSizes = int | tuple[int | None, ...] | list[int | None] | None
_Reduction = Callable[[np.ndarray, tuple[int, ...]], np.ndarray]  # elements (..., n), and which window they are of


def _over_windows(
    x: np.ndarray, shape: tuple[int, ...], windows: list[list[np.ndarray]], reduce: _Reduction
) -> np.ndarray:
    """Reduce windows, given for each spatial axis and place as the indices of the elements in them."""
    spatial = len(windows)
    values = exact(x)
    out = np.zeros(shape, values.dtype)
    for place in itertools.product(*(range(len(axis)) for axis in windows)):
        chosen = np.ix_(*(axis[i] for axis, i in zip(windows, place, strict=True)))
        block = values[on_last(chosen)]
        out[on_last(place)] = reduce(block.reshape(*x.shape[:-spatial], math.prod(block.shape[-spatial:])), place)
    return narrow(out, x.dtype)


def _greatest(block: np.ndarray, place: tuple[int, ...]) -> np.ndarray:
    greatest: np.ndarray = block.max(-1)
    return greatest


def _mean(block: np.ndarray, place: tuple[int, ...]) -> np.ndarray:
    with np.errstate(all="ignore"):
        mean: np.ndarray = lane_sum(block) / block.shape[-1]
        return mean


def _windows(plan: check.Pool, size: tuple[int, ...]) -> list[list[np.ndarray]]:
    """Return the indices of the elements in each window; padding has none."""
    out = []
    for n, k, s, d, (lo, _), count in zip(
        size,
        plan.kernel_size,
        plan.stride,
        plan.dilation,
        plan.padding,
        plan.shape[-len(size) :],
        strict=True,
    ):
        taps = [np.arange(k) * d + i * s - lo for i in range(count)]
        out.append([tap[(tap >= 0) & (tap < n)] for tap in taps])
    return out


def _max_pool(
    operation: str,
    spatial: int,
    x: np.ndarray,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Padding,
    dilation: Sizes,
    ceil_mode: bool,
) -> np.ndarray:
    numeric(operation, x.dtype)
    plan = check.pool(
        operation,
        spatial,
        x.shape,
        kernel_size=kernel_size,
        stride=stride,
        padding=padding,
        dilation=dilation,
        ceil_mode=ceil_mode,
    )
    with np.errstate(invalid="ignore"):
        return _over_windows(x, plan.shape, _windows(plan, x.shape[-spatial:]), _greatest)


def _avg_pool(
    operation: str,
    spatial: int,
    x: np.ndarray,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Padding,
    ceil_mode: bool,
    count_include_pad: bool,
) -> np.ndarray:
    floating(operation, x.dtype)
    plan = check.pool(
        operation,
        spatial,
        x.shape,
        kernel_size=kernel_size,
        stride=stride,
        padding=padding,
        dilation=1,
        ceil_mode=ceil_mode,
    )
    size = x.shape[-spatial:]
    counts = plan.counts(size, include_pad=count_include_pad)

    def mean(block: np.ndarray, place: tuple[int, ...]) -> np.ndarray:
        divisor = math.prod(axis[i] for axis, i in zip(counts, place, strict=True))
        with np.errstate(all="ignore"):
            value: np.ndarray = lane_sum(block) / divisor
            return value

    return _over_windows(x, plan.shape, _windows(plan, size), mean)


def _adaptive(operation: str, spatial: int, x: np.ndarray, output_size: OutputSizes, reduce: _Reduction) -> np.ndarray:
    plan = check.adaptive(operation, spatial, x.shape, output_size)
    windows = [
        [np.arange(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]
        for n, m in zip(x.shape[-spatial:], plan.output_size, strict=True)
    ]
    with np.errstate(invalid="ignore"):
        return _over_windows(x, plan.shape, windows, reduce)


def max_pool1d(
    x: np.ndarray,
    /,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> np.ndarray:
    """Return the greatest element of each window; NaN where there is one, padding is no element."""
    return _max_pool("max_pool1d", 1, x, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    x: np.ndarray,
    /,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> np.ndarray:
    """Return the greatest element of each window; NaN where there is one, padding is no element."""
    return _max_pool("max_pool2d", 2, x, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    x: np.ndarray,
    /,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> np.ndarray:
    """Return the greatest element of each window; NaN where there is one, padding is no element."""
    return _max_pool("max_pool3d", 3, x, kernel_size, stride, padding, dilation, ceil_mode)


def avg_pool1d(
    x: np.ndarray,
    /,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> np.ndarray:
    """Return the sum of each window over the size of the window, or (without padding) over its elements."""
    return _avg_pool("avg_pool1d", 1, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(
    x: np.ndarray,
    /,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> np.ndarray:
    """Return the sum of each window over the size of the window, or (without padding) over its elements."""
    return _avg_pool("avg_pool2d", 2, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool3d(
    x: np.ndarray,
    /,
    *,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> np.ndarray:
    """Return the sum of each window over the size of the window, or (without padding) over its elements."""
    return _avg_pool("avg_pool3d", 3, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


def adaptive_avg_pool1d(x: np.ndarray, /, *, output_size: OutputSizes) -> np.ndarray:
    """Return the mean of each of `output_size` windows that cover `x` evenly; None keeps a size."""
    floating("adaptive_avg_pool1d", x.dtype)
    return _adaptive("adaptive_avg_pool1d", 1, x, output_size, _mean)


def adaptive_avg_pool2d(x: np.ndarray, /, *, output_size: OutputSizes) -> np.ndarray:
    """Return the mean of each of `output_size` windows that cover `x` evenly; None keeps a size."""
    floating("adaptive_avg_pool2d", x.dtype)
    return _adaptive("adaptive_avg_pool2d", 2, x, output_size, _mean)


def adaptive_avg_pool3d(x: np.ndarray, /, *, output_size: OutputSizes) -> np.ndarray:
    """Return the mean of each of `output_size` windows that cover `x` evenly; None keeps a size."""
    floating("adaptive_avg_pool3d", x.dtype)
    return _adaptive("adaptive_avg_pool3d", 3, x, output_size, _mean)


def adaptive_max_pool1d(x: np.ndarray, /, *, output_size: OutputSizes) -> np.ndarray:
    """Return the greatest element of each of `output_size` windows that cover `x` evenly; None keeps a size."""
    numeric("adaptive_max_pool1d", x.dtype)
    return _adaptive("adaptive_max_pool1d", 1, x, output_size, _greatest)


def adaptive_max_pool2d(x: np.ndarray, /, *, output_size: OutputSizes) -> np.ndarray:
    """Return the greatest element of each of `output_size` windows that cover `x` evenly; None keeps a size."""
    numeric("adaptive_max_pool2d", x.dtype)
    return _adaptive("adaptive_max_pool2d", 2, x, output_size, _greatest)


def adaptive_max_pool3d(x: np.ndarray, /, *, output_size: OutputSizes) -> np.ndarray:
    """Return the greatest element of each of `output_size` windows that cover `x` evenly; None keeps a size."""
    numeric("adaptive_max_pool3d", x.dtype)
    return _adaptive("adaptive_max_pool3d", 3, x, output_size, _greatest)
