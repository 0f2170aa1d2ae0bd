"""Blocks of images as columns, and columns added up into images, on raw arrays."""

from __future__ import annotations

import itertools
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
    padded = lax.pad(wide, np.zeros((), wide.dtype), [(0, 0, 0)] * 2 + [(*side, 0) for side in plan.padding])
    blocks = []
    for (top, left), (bottom, right) in _spans(plan):
        block = lax.slice(padded, (0, 0, top, left), (*padded.shape[:2], bottom, right), (1, 1, *plan.stride))
        blocks.append(lax.expand_dims(block, (2,)))
    return cast(lax.reshape(lax.concatenate(blocks, 2), plan.shape), x.dtype)


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
    number = plan.kernel_size[0] * plan.kernel_size[1]
    blocks = lax.reshape(cast(x, accumulator(x.dtype)), (batch, channels, number, *plan.counts))
    zero = np.zeros((), blocks.dtype)
    size = [n + lo + hi for n, (lo, hi) in zip(plan.image, plan.padding, strict=True)]
    image = lax.full((batch, channels, *size), 0, blocks.dtype)
    for position, ((top, left), (bottom, right)) in enumerate(_spans(plan)):
        block = lax.index_in_dim(blocks, position, 2, keepdims=False)
        spread = [(top, size[0] - bottom, plan.stride[0] - 1), (left, size[1] - right, plan.stride[1] - 1)]
        image = image + lax.pad(block, zero, [(0, 0, 0)] * 2 + spread)
    (top, bottom), (left, right) = plan.padding
    inside = lax.slice(image, (0, 0, top, left), (batch, channels, size[0] - bottom, size[1] - right))
    return cast(lax.reshape(inside, plan.shape), x.dtype)


def _spans(plan: _check.Blocks) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield, for each element of a block, where it lies in the first block and just after where in the last one."""
    (kh, kw), (dh, dw), (sh, sw), (rows, columns) = plan.kernel_size, plan.dilation, plan.stride, plan.counts
    for i, j in itertools.product(range(kh), range(kw)):
        top, left = i * dh, j * dw
        yield (top, left), (top + (rows - 1) * sh + 1, left + (columns - 1) * sw + 1)
