"""Blocks of images as columns, and columns added up into images, on raw arrays."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np
from jax import lax

from ..checks import fold as _check
from ..checks.spatial import Padding, Sizes, numeric
from ..raw._kinds import accumulator, cast

__all__ = ["fold", "unfold"]


def unfold(
    x: jax.Array, *, kernel_size: Sizes, dilation: Sizes = 1, padding: Padding = 0, stride: Sizes = 1
) -> jax.Array:
    """Return the blocks of images (B, C, H, W) as columns (B, C * kh * kw, L); padding is zero.

    Row ``(c * kh + i) * kw + j`` holds element (i, j) of channel c, column l block l in row-major order.
    """
    plan = _check.unfold(x.shape, kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)
    wide = cast(x if plan.batched else lax.expand_dims(x, (0,)), accumulator(x.dtype))
    columns = lax.pad(wide, np.zeros((), wide.dtype), [(0, 0, 0)] * 2 + [(*side, 0) for side in plan.padding])
    # One axis after the other, so that there are kh + kw slices and not kh * kw: (B, C, kh, kw, rows, columns).
    for axis in (0, 1):
        parts = [
            lax.expand_dims(lax.slice_in_dim(columns, first, end, plan.stride[axis], axis=2 * axis + 2), (2 + axis,))
            for first, end in _spans(plan, axis)
        ]
        columns = lax.concatenate(parts, 2 + axis)
    return cast(lax.reshape(columns, plan.shape), x.dtype)


def fold(
    x: jax.Array,
    *,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Padding = 0,
    stride: Sizes = 1,
) -> jax.Array:
    """Add columns (B, C * kh * kw, L) up into images (B, C, H, W): the transpose of `unfold`.

    Floats below 32 bits are added in float32 and rounded once.
    """
    numeric("fold", x.dtype)
    plan = _check.fold(
        x.shape,
        output_size=output_size,
        kernel_size=kernel_size,
        dilation=dilation,
        padding=padding,
        stride=stride,
    )
    batch, channels = (x.shape[0] if plan.batched else 1), plan.shape[-3]
    image = lax.reshape(cast(x, accumulator(x.dtype)), (batch, channels, *plan.kernel_size, *plan.counts))
    zero = np.zeros((), image.dtype)
    for axis in (1, 0):
        before, after = plan.padding[axis]
        size = before + plan.image[axis] + after
        total = None
        for tap, (first, end) in enumerate(_spans(plan, axis)):
            block = lax.index_in_dim(image, tap, 2 + axis, keepdims=False)
            spread = [(0, 0, 0)] * block.ndim
            spread[2 * axis + 2] = (first, size - end, plan.stride[axis] - 1)
            block = lax.pad(block, zero, spread)
            total = block if total is None else total + block
        assert total is not None
        image = lax.slice_in_dim(total, before, size - after, axis=2 * axis + 2)
    return cast(lax.reshape(image, plan.shape), x.dtype)


def _spans(plan: _check.Blocks, axis: int) -> Iterator[tuple[int, int]]:
    """Yield, for each element of a block along an axis, where it lies in the first block, and just after the last."""
    reach = (plan.counts[axis] - 1) * plan.stride[axis] + 1
    for tap in range(plan.kernel_size[axis]):
        yield tap * plan.dilation[axis], tap * plan.dilation[axis] + reach
