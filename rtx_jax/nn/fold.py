"""Blocks of images as columns, and columns added up into images."""

from __future__ import annotations

from .._array import Array, call1
from ..checks.spatial import Padding, Sizes, hashable
from ..core.op import Op
from ..ops.fold import fold as _raw_fold
from ..ops.fold import unfold as _raw_unfold

__all__ = ["fold", "unfold"]

_unfold = Op("unfold", _raw_unfold, ("kernel_size", "dilation", "padding", "stride"))
_fold = Op("fold", _raw_fold, ("output_size", "kernel_size", "dilation", "padding", "stride"))


def unfold(x: Array, /, kernel_size: Sizes, *, dilation: Sizes = 1, padding: Padding = 0, stride: Sizes = 1) -> Array:
    """Return the blocks of images as columns.

    Parameters
    ----------
    x
        Images (B, C, H, W), or (C, H, W) without a batch, of any dtype.
    kernel_size
        Of the block, (kh, kw) or one integer for both.
    dilation
        Steps from element to element of the block.
    padding
        Zeros around the images, as in `conv2d`.
    stride
        Steps from block to block.

    Returns
    -------
    Array
        Shape (B, C * kh * kw, L) of L blocks in row-major order. Row ``(c * kh + i) * kw + j`` holds element (i, j) of
        the block in channel c.

    Raises
    ------
    InvalidDimension
        `x` has another number of axes.
    InvalidArgument
        A parameter is out of range, or the block does not fit.

    Notes
    -----
    A convolution is the product of its kernels, reshaped to (O, C * kh * kw), with this.
    """
    params = {"kernel_size": kernel_size, "dilation": dilation, "padding": padding, "stride": stride}
    return call1(_unfold, x, tuple(hashable("unfold", name, value) for name, value in params.items()))


def fold(
    x: Array,
    /,
    output_size: Sizes,
    kernel_size: Sizes,
    *,
    dilation: Sizes = 1,
    padding: Padding = 0,
    stride: Sizes = 1,
) -> Array:
    """Add columns up into images: the transpose of `unfold`.

    Parameters
    ----------
    x
        Columns (B, C * kh * kw, L), or without the batch, in the order of `unfold`; numbers of at least 8 bits.
    output_size
        Of the images, (H, W) or one integer for both.
    kernel_size, dilation, padding, stride
        Of the blocks, as in `unfold`; what lies in the padding is dropped.

    Returns
    -------
    Array
        Shape (B, C, H, W); each element is the sum over the blocks that hold it. Floats below 32 bits are added in
        float32 and rounded once.

    Raises
    ------
    InvalidDimension
        `x` has another number of axes.
    InvalidArgument
        A parameter is out of range, or the block does not fit into the images.
    ShapeMismatch
        `x` has not the rows or columns of such images.
    UnsupportedDType
        `x` is bool, complex or below 8 bits.
    """
    params = {
        "output_size": output_size,
        "kernel_size": kernel_size,
        "dilation": dilation,
        "padding": padding,
        "stride": stride,
    }
    return call1(_fold, x, tuple(hashable("fold", name, value) for name, value in params.items()))
