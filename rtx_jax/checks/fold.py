"""Checks of unfold and fold: blocks of an image as columns, and back."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import InvalidDimension, ShapeMismatch
from .spatial import Pairs, batched, pads, room, sizes, windows

__all__ = ["Blocks", "fold", "unfold"]


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of an image whose parameters are checked.

    Attributes
    ----------
    kernel_size, stride, dilation
        Of the block, for each of the two axes.
    padding
        Before and after each axis of the image.
    image
        Sizes of the image.
    counts
        How many blocks there are along each axis.
    batched
        Whether there is a batch axis.
    shape
        Of the result.
    """

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: Pairs
    dilation: tuple[int, ...]
    image: tuple[int, ...]
    counts: tuple[int, ...]
    batched: bool
    shape: tuple[int, ...]


def unfold(shape: tuple[int, ...], *, kernel_size: object, dilation: object, padding: object, stride: object) -> Blocks:
    """Check the blocks of images (B, C, H, W), which become columns (B, C * kh * kw, L).

    Raises
    ------
    InvalidDimension
        `x` has another number of axes.
    InvalidArgument
        A parameter is out of range, or no block fits.
    """
    has_batch = batched("unfold", shape, 2)
    kernel = sizes("unfold", "kernel_size", kernel_size, 2)
    strides = sizes("unfold", "stride", stride, 2)
    dilations = sizes("unfold", "dilation", dilation, 2)
    image = shape[-2:]
    pairs = pads("unfold", padding, image, kernel, strides, dilations)
    counts = windows("unfold", image, kernel, strides, dilations, pairs, "kernel_size")
    out = room("unfold", (*shape[:-3], shape[-3] * math.prod(kernel), math.prod(counts)))
    return Blocks(kernel, strides, pairs, dilations, image, counts, has_batch, out)


def fold(
    shape: tuple[int, ...],
    *,
    output_size: object,
    kernel_size: object,
    dilation: object,
    padding: object,
    stride: object,
) -> Blocks:
    """Check columns (B, C * kh * kw, L), which are added up into images (B, C, H, W).

    Raises
    ------
    InvalidDimension
        `x` has another number of axes.
    InvalidArgument
        A parameter is out of range, or no block fits into the images.
    ShapeMismatch
        The columns are not those of such images.
    """
    if len(shape) not in (2, 3):
        raise InvalidDimension(
            "fold",
            "x",
            got=f"shape {shape}",
            wanted="3 axes (B, C * kh * kw, L), or 2 without the batch",
            dim=len(shape),
            ndim=3,
        )
    image = sizes("fold", "output_size", output_size, 2)
    kernel = sizes("fold", "kernel_size", kernel_size, 2)
    strides = sizes("fold", "stride", stride, 2)
    dilations = sizes("fold", "dilation", dilation, 2)
    pairs = pads("fold", padding, image, kernel, strides, dilations)
    counts = windows("fold", image, kernel, strides, dilations, pairs, "kernel_size")
    rows, columns = shape[-2:]
    block, number = math.prod(kernel), math.prod(counts)
    if rows % block or columns != number:
        raise ShapeMismatch(
            "fold",
            "x",
            got=f"shape {shape} for images of {image} in blocks of {kernel}",
            wanted=f"a multiple of {block} rows (C * kh * kw) and {number} columns, one for each block",
            expected=(*shape[:-2], max(1, rows // block) * block, number),
            got_shape=shape,
        )
    out = room("fold", (*shape[:-2], rows // block, *image))
    return Blocks(kernel, strides, pairs, dilations, image, counts, len(shape) == 3, out)
