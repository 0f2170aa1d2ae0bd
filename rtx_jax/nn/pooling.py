"""Pools in one to three dimensions: the greatest element or the mean of windows.

Arrays are laid out as (B, C, ...), or (C, ...) without a batch. Floats below 32 bits are compared and added in float32
and rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping

from .._array import Array, call1
from ..checks.choices import flag
from ..checks.pooling import OutputSizes
from ..checks.spatial import Padding, Sizes, hashable
from ..core.op import Op
from ..ops import adaptive_pooling as _adaptive
from ..ops import pooling as _ops

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

_MAX = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
_AVG = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")

_max_pool1d = Op("max_pool1d", _ops.max_pool1d, _MAX)
_max_pool2d = Op("max_pool2d", _ops.max_pool2d, _MAX)
_max_pool3d = Op("max_pool3d", _ops.max_pool3d, _MAX)
_avg_pool1d = Op("avg_pool1d", _ops.avg_pool1d, _AVG)
_avg_pool2d = Op("avg_pool2d", _ops.avg_pool2d, _AVG)
_avg_pool3d = Op("avg_pool3d", _ops.avg_pool3d, _AVG)
_adaptive_avg_pool1d = Op("adaptive_avg_pool1d", _adaptive.adaptive_avg_pool1d, ("output_size",))
_adaptive_avg_pool2d = Op("adaptive_avg_pool2d", _adaptive.adaptive_avg_pool2d, ("output_size",))
_adaptive_avg_pool3d = Op("adaptive_avg_pool3d", _adaptive.adaptive_avg_pool3d, ("output_size",))
_adaptive_max_pool1d = Op("adaptive_max_pool1d", _adaptive.adaptive_max_pool1d, ("output_size",))
_adaptive_max_pool2d = Op("adaptive_max_pool2d", _adaptive.adaptive_max_pool2d, ("output_size",))
_adaptive_max_pool3d = Op("adaptive_max_pool3d", _adaptive.adaptive_max_pool3d, ("output_size",))


def max_pool1d(
    x: Array,
    /,
    kernel_size: Sizes,
    *,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Array:
    """Return the greatest element of each window of (B, C, W), or (C, W).

    Parameters, result and errors are those of `max_pool2d`, for one spatial axis.
    """
    params = {"kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation": dilation}
    return call1(_max_pool1d, x, (*_keys("max_pool1d", params), flag("max_pool1d", "ceil_mode", ceil_mode)))


def max_pool2d(
    x: Array,
    /,
    kernel_size: Sizes,
    *,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Array:
    """Return the greatest element of each window.

    Parameters
    ----------
    x
        Real numbers of at least 8 bits, shape (B, C, H, W), or (C, H, W) without a batch.
    kernel_size
        Of the window; one integer, or one for each spatial axis.
    stride
        Steps from window to window; `kernel_size` when left out.
    padding
        Around `x`, never chosen, 0 to half of the window: one integer, one for each spatial axis, or a pair
        (before, after) for each. ``"valid"`` is none; ``"same"`` makes ceil(size / stride) windows.
    dilation
        Steps from element to element of the window.
    ceil_mode
        Round the number of windows up. The last one may reach beyond `x` and its padding; one that would begin
        beyond `x` is dropped.

    Returns
    -------
    Array
        Shape (B, C, H', W') with ``H' = (H + before + after - dilation * (kh - 1) - 1) // stride + 1``. A window that
        holds NaN gives NaN.

    Raises
    ------
    InvalidDimension
        `x` has another number of axes.
    InvalidArgument
        A parameter is out of range, the window does not fit, the padding is more than half of it, or a window holds
        padding alone.
    UnsupportedDType
        `x` is bool, complex or below 8 bits.

    Notes
    -----
    The gradient goes to the first of equal elements in row-major order, and to the first NaN.

    Examples
    --------
    >>> import rtx_jax as xp
    >>> from rtx_jax import nn
    >>> image = xp.reshape(xp.arange(16.0, dtype=xp.float32), (1, 1, 4, 4))
    >>> nn.max_pool2d(image, 2)[0, 0]
    Array([[ 5.,  7.],
           [13., 15.]], dtype=float32)
    """
    params = {"kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation": dilation}
    return call1(_max_pool2d, x, (*_keys("max_pool2d", params), flag("max_pool2d", "ceil_mode", ceil_mode)))


def max_pool3d(
    x: Array,
    /,
    kernel_size: Sizes,
    *,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Array:
    """Return the greatest element of each window of (B, C, D, H, W), or (C, D, H, W).

    Parameters, result and errors are those of `max_pool2d`, for three spatial axes.
    """
    params = {"kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation": dilation}
    return call1(_max_pool3d, x, (*_keys("max_pool3d", params), flag("max_pool3d", "ceil_mode", ceil_mode)))


def avg_pool1d(
    x: Array,
    /,
    kernel_size: Sizes,
    *,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Array:
    """Return the mean of each window of (B, C, W), or (C, W).

    Parameters, result and errors are those of `avg_pool2d`, for one spatial axis.
    """
    params = {"kernel_size": kernel_size, "stride": stride, "padding": padding}
    return call1(
        _avg_pool1d,
        x,
        (
            *_keys("avg_pool1d", params),
            flag("avg_pool1d", "ceil_mode", ceil_mode),
            flag("avg_pool1d", "count_include_pad", count_include_pad),
        ),
    )


def avg_pool2d(
    x: Array,
    /,
    kernel_size: Sizes,
    *,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Array:
    """Return the mean of each window.

    Parameters
    ----------
    x
        Real floating, shape (B, C, H, W), or (C, H, W) without a batch.
    kernel_size
        Of the window; one integer, or one for each spatial axis.
    stride
        Steps from window to window; `kernel_size` when left out.
    padding
        Zeros around `x`, 0 to half of the window: one integer, one for each spatial axis, or a pair (before, after)
        for each. ``"valid"`` is none; ``"same"`` makes ceil(size / stride) windows.
    ceil_mode
        Round the number of windows up. The last one may reach beyond `x` and its padding; one that would begin
        beyond `x` is dropped.
    count_include_pad
        Divide by the size of the window with its padding; otherwise by the number of elements of `x` in it. What
        `ceil_mode` reaches beyond never counts.

    Returns
    -------
    Array
        Shape (B, C, H', W') with ``H' = (H + before + after - kh) // stride + 1``.

    Raises
    ------
    InvalidDimension
        `x` has another number of axes.
    InvalidArgument
        A parameter is out of range, the window does not fit, or the padding is more than half of it.
    UnsupportedDType
        `x` is not real floating.

    Examples
    --------
    >>> import rtx_jax as xp
    >>> from rtx_jax import nn
    >>> image = xp.reshape(xp.asarray([1.0, 2.0, 3.0, 4.0], dtype=xp.float32), (1, 1, 2, 2))
    >>> nn.avg_pool2d(image, 2, stride=1, padding=((0, 1), (0, 1)))[0, 0]
    Array([[2.5 , 1.5 ],
           [1.75, 1.  ]], dtype=float32)
    >>> nn.avg_pool2d(image, 2, stride=1, padding=((0, 1), (0, 1)), count_include_pad=False)[0, 0]
    Array([[2.5, 3. ],
           [3.5, 4. ]], dtype=float32)
    """
    params = {"kernel_size": kernel_size, "stride": stride, "padding": padding}
    return call1(
        _avg_pool2d,
        x,
        (
            *_keys("avg_pool2d", params),
            flag("avg_pool2d", "ceil_mode", ceil_mode),
            flag("avg_pool2d", "count_include_pad", count_include_pad),
        ),
    )


def avg_pool3d(
    x: Array,
    /,
    kernel_size: Sizes,
    *,
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Array:
    """Return the mean of each window of (B, C, D, H, W), or (C, D, H, W).

    Parameters, result and errors are those of `avg_pool2d`, for three spatial axes.
    """
    params = {"kernel_size": kernel_size, "stride": stride, "padding": padding}
    return call1(
        _avg_pool3d,
        x,
        (
            *_keys("avg_pool3d", params),
            flag("avg_pool3d", "ceil_mode", ceil_mode),
            flag("avg_pool3d", "count_include_pad", count_include_pad),
        ),
    )


def adaptive_avg_pool1d(x: Array, /, output_size: OutputSizes) -> Array:
    """Return the means of a given number of windows of (B, C, W), or (C, W).

    Parameters, result and errors are those of `adaptive_avg_pool2d`, for one spatial axis.
    """
    return call1(_adaptive_avg_pool1d, x, hashable("adaptive_avg_pool1d", "output_size", output_size))


def adaptive_avg_pool2d(x: Array, /, output_size: OutputSizes) -> Array:
    """Return the means of a given number of windows.

    Parameters
    ----------
    x
        Real floating, shape (B, C, H, W), or (C, H, W) without a batch.
    output_size
        Number of windows, 1 or more; one integer, or one for each spatial axis. None keeps the size of an axis.

    Returns
    -------
    Array
        Shape (B, C, *output_size). Window i of m over n elements holds those from ``floor(i * n / m)`` up to
        ``ceil((i + 1) * n / m)``, so windows may overlap and differ in size.

    Raises
    ------
    InvalidDimension
        `x` has another number of axes.
    ShapeMismatch
        `x` has no elements along a spatial axis.
    InvalidArgument
        A size is below 1, or there is another number of them.
    UnsupportedDType
        `x` is not real floating.
    """
    return call1(_adaptive_avg_pool2d, x, hashable("adaptive_avg_pool2d", "output_size", output_size))


def adaptive_avg_pool3d(x: Array, /, output_size: OutputSizes) -> Array:
    """Return the means of a given number of windows of (B, C, D, H, W), or (C, D, H, W).

    Parameters, result and errors are those of `adaptive_avg_pool2d`, for three spatial axes.
    """
    return call1(_adaptive_avg_pool3d, x, hashable("adaptive_avg_pool3d", "output_size", output_size))


def adaptive_max_pool1d(x: Array, /, output_size: OutputSizes) -> Array:
    """Return the greatest elements of a given number of windows of (B, C, W), or (C, W).

    Parameters, result and errors are those of `adaptive_max_pool2d`, for one spatial axis.
    """
    return call1(_adaptive_max_pool1d, x, hashable("adaptive_max_pool1d", "output_size", output_size))


def adaptive_max_pool2d(x: Array, /, output_size: OutputSizes) -> Array:
    """Return the greatest elements of a given number of windows.

    Parameters
    ----------
    x
        Real numbers of at least 8 bits, shape (B, C, H, W), or (C, H, W) without a batch.
    output_size
        As in `adaptive_avg_pool2d`, whose windows these are.

    Returns
    -------
    Array
        Shape (B, C, *output_size). NaN and gradients are those of `max_pool2d`.

    Raises
    ------
    InvalidDimension
        `x` has another number of axes.
    ShapeMismatch
        `x` has no elements along a spatial axis.
    InvalidArgument
        A size is below 1, or there is another number of them.
    UnsupportedDType
        `x` is bool, complex or below 8 bits.
    """
    return call1(_adaptive_max_pool2d, x, hashable("adaptive_max_pool2d", "output_size", output_size))


def adaptive_max_pool3d(x: Array, /, output_size: OutputSizes) -> Array:
    """Return the greatest elements of a given number of windows of (B, C, D, H, W), or (C, D, H, W).

    Parameters, result and errors are those of `adaptive_max_pool2d`, for three spatial axes.
    """
    return call1(_adaptive_max_pool3d, x, hashable("adaptive_max_pool3d", "output_size", output_size))


def _keys(operation: str, params: Mapping[str, object]) -> list[object]:
    return [value if type(value) is int else hashable(operation, name, value) for name, value in params.items()]
