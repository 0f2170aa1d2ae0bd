"""Blocks of an image as columns, and back."""

from __future__ import annotations

import itertools

import numpy as np

from ...checks import fold as check
from ...checks.spatial import Padding, Sizes, numeric
from .axes import on_last
from .rounding import narrow, wide

__all__ = ["fold", "unfold"]


def _taps(plan: check.Blocks) -> list[tuple[int, tuple[slice, slice]]]:
    """Return for each element of a block its number, and where it lies in the padded image in all blocks."""
    out = []
    for number, tap in enumerate(itertools.product(*map(range, plan.kernel_size))):
        rows, columns = (
            slice(k * d, k * d + (n - 1) * s + 1, s)
            for k, d, n, s in zip(tap, plan.dilation, plan.counts, plan.stride, strict=True)
        )
        out.append((number, (rows, columns)))
    return out


def unfold(
    x: np.ndarray,
    /,
    *,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Padding = 0,
    stride: Sizes = 1,
) -> np.ndarray:
    """Return the blocks of images (B, C, H, W) as columns (B, C * kh * kw, L); padding is 0."""
    numeric("unfold", x.dtype)
    plan = check.unfold(x.shape, kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)
    padded = np.pad(x, [(0, 0)] * (x.ndim - 2) + list(plan.padding))
    parts = [padded[on_last(place)].reshape(*x.shape[:-2], -1) for _, place in _taps(plan)]
    return np.stack(parts, -2).reshape(plan.shape)


def fold(
    x: np.ndarray,
    /,
    *,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Padding = 0,
    stride: Sizes = 1,
) -> np.ndarray:
    """Return images (B, C, H, W) in which the columns (B, C * kh * kw, L) are added up as blocks."""
    numeric("fold", x.dtype)
    plan = check.fold(
        x.shape, output_size=output_size, kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride
    )
    channels = plan.shape[:-2]
    blocks = wide(x).reshape(*channels, -1, *plan.counts)
    size = tuple(n + lo + hi for n, (lo, hi) in zip(plan.image, plan.padding, strict=True))
    sums = np.zeros((*channels, *size), blocks.dtype)
    with np.errstate(all="ignore"):
        for number, place in _taps(plan):
            sums[on_last(place)] += blocks[..., number, :, :]
    rows, columns = (slice(lo, lo + n) for n, (lo, _) in zip(plan.image, plan.padding, strict=True))
    return narrow(sums[..., rows, columns], x.dtype)
