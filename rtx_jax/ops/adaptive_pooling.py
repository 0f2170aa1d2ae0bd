"""Pools into a given number of windows on raw arrays (B, C, ...).

Window i of m over n elements holds the elements floor(i * n / m) to ceil((i + 1) * n / m), as in Torch; windows may
overlap and differ in size. The elements of each are laid side by side first, so that all windows have one size.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..checks import pooling as _check
from ..checks.elementwise import floating
from ..checks.pooling import OutputSizes
from ..checks.spatial import numeric
from ..core.dtypes import int32
from ..raw._kinds import accumulator, cast
from ._windows import disjoint, greatest
from .pooling import divide

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
]


def adaptive_avg_pool1d(x: jax.Array, *, output_size: OutputSizes) -> jax.Array:
    """Return the means of `output_size` windows of `x` (B, C, W)."""
    return _avg("adaptive_avg_pool1d", 1, x, output_size)


def adaptive_avg_pool2d(x: jax.Array, *, output_size: OutputSizes) -> jax.Array:
    """Return the means of `output_size` windows of `x` (B, C, H, W)."""
    return _avg("adaptive_avg_pool2d", 2, x, output_size)


def adaptive_avg_pool3d(x: jax.Array, *, output_size: OutputSizes) -> jax.Array:
    """Return the means of `output_size` windows of `x` (B, C, D, H, W)."""
    return _avg("adaptive_avg_pool3d", 3, x, output_size)


def adaptive_max_pool1d(x: jax.Array, *, output_size: OutputSizes) -> jax.Array:
    """Return the greatest elements of `output_size` windows of `x` (B, C, W)."""
    return _max("adaptive_max_pool1d", 1, x, output_size)


def adaptive_max_pool2d(x: jax.Array, *, output_size: OutputSizes) -> jax.Array:
    """Return the greatest elements of `output_size` windows of `x` (B, C, H, W)."""
    return _max("adaptive_max_pool2d", 2, x, output_size)


def adaptive_max_pool3d(x: jax.Array, *, output_size: OutputSizes) -> jax.Array:
    """Return the greatest elements of `output_size` windows of `x` (B, C, D, H, W)."""
    return _max("adaptive_max_pool3d", 3, x, output_size)


def _avg(operation: str, spatial: int, x: jax.Array, output_size: OutputSizes) -> jax.Array:
    floating(operation, x.dtype)
    plan = _check.adaptive(operation, spatial, x.shape, output_size)
    sums = cast(x, accumulator(x.dtype))
    counts = []
    for axis, m in enumerate(plan.output_size, x.ndim - spatial):
        n = x.shape[axis]
        bounds = _check.bounds(n, m)
        counts.append(tuple([stop - start for start, stop in bounds]))
        width = max(counts[-1])
        laid, outside = _side_by_side(sums, axis, bounds, width)
        if outside is not None:
            shape = tuple([len(outside) if i == axis else 1 for i in range(x.ndim)])
            away = lax.broadcast_in_dim(outside.reshape(shape), laid.shape, tuple(range(x.ndim)))
            laid = lax.select(away, lax.full_like(laid, 0), laid)
        laid = lax.reshape(laid, (*sums.shape[:axis], m, width, *sums.shape[axis + 1 :]))
        sums = jnp.sum(laid, axis=axis + 1, dtype=sums.dtype)
    return cast(divide(sums, tuple(counts)), x.dtype)


def _max(operation: str, spatial: int, x: jax.Array, output_size: OutputSizes) -> jax.Array:
    numeric(operation, x.dtype)
    plan = _check.adaptive(operation, spatial, x.shape, output_size)
    laid = cast(x if plan.batched else lax.expand_dims(x, (0,)), accumulator(x.dtype))
    size = []
    for axis, m in enumerate(plan.output_size, 2):
        bounds = _check.bounds(laid.shape[axis], m)
        size.append(max(stop - start for start, stop in bounds))
        laid, _ = _side_by_side(laid, axis, bounds, size[-1])
    return lax.reshape(cast(greatest(laid, disjoint(tuple(size))), x.dtype), plan.shape)


def _side_by_side(
    x: jax.Array, axis: int, bounds: tuple[tuple[int, int], ...], width: int
) -> tuple[jax.Array, np.ndarray | None]:
    """Return windows of one width along an axis, one after the other, and which of their elements are surplus.

    A narrower window is filled up with its last element, after itself: it changes no maximum, nor which is first.
    """
    if len(bounds) * width == x.shape[axis]:
        return x, None
    steps = np.arange(width)
    starts, stops = np.asarray(bounds).T
    places = starts[:, None] + steps
    outside = places >= stops[:, None]
    index = np.minimum(places, stops[:, None] - 1).ravel().astype(int32)
    return take(x, index, axis), outside.ravel() if outside.any() else None


def take(x: jax.Array, index: np.ndarray, axis: int) -> jax.Array:
    """Return elements along an axis at indices known to be in range."""
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple([i for i in range(x.ndim) if i != axis]),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
    )
    sizes = tuple([1 if i == axis else n for i, n in enumerate(x.shape)])
    return lax.gather(x, index[:, None], numbers, slice_sizes=sizes, mode="promise_in_bounds")
