"""Resampling of images, time series and volumes to another size."""

from __future__ import annotations

from collections.abc import Sequence

from .._array import Array, call1
from ..checks.choices import flag
from ..checks.interpolate import factors
from ..checks.spatial import Sizes, hashable
from ..core.op import Op
from ..ops.interpolate import interpolate as _raw

__all__ = ["interpolate"]

_interpolate = Op("interpolate", _raw, ("size", "scale_factor", "mode", "align_corners", "recompute_scale_factor"))


def interpolate(
    x: Array,
    /,
    *,
    size: Sizes | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool = False,
) -> Array:
    """Resample the spatial axes of an array.

    Parameters
    ----------
    x
        Shape (B, C, W), (B, C, H, W) or (B, C, D, H, W); any dtype for the nearest modes, else real floating.
    size
        Of the result: one integer of at least 1, or one for each spatial axis. Either this or `scale_factor`.
    scale_factor
        How many elements of the result to one of `x`, more than 0: a number, or one for each spatial axis. The result
        has ``floor(n * scale_factor)`` elements.
    mode
        ``"nearest"`` (element ``floor(i * step)``), ``"nearest-exact"`` (the element that the middle of the sample lies
        in), ``"linear"`` of one, ``"bilinear"`` and ``"bicubic"`` of two, ``"trilinear"`` of three spatial axes, or
        ``"area"`` (the mean of the elements under the sample, `adaptive_avg_pool2d`). Cubic convolution has the
        coefficient -0.75 (Keys 1981).
    align_corners
        Let the outermost samples of both coincide: sample i lies at ``i * (n - 1) / (m - 1)``. Otherwise, and by
        default, elements are areas and it lies at ``(i + 0.5) * step - 0.5``. For the linear and cubic modes only.
    recompute_scale_factor
        Let `step` be n / m as with `size`, and not ``1 / scale_factor``, which differs where the size is rounded.

    Returns
    -------
    Array
        Shape (B, C, *size), dtype of `x`. Floats below 32 bits are computed in float32 and rounded once.

    Raises
    ------
    InvalidDimension
        The mode is not for this number of axes.
    InvalidArgument
        Not exactly one of `size` and `scale_factor` is given, or a parameter is out of range.
    ShapeMismatch
        `x` has no elements along a spatial axis.
    UnsupportedDType
        `x` is not real floating and the mode adds.

    Notes
    -----
    An element of weight zero has no part in a result: beside infinities and NaN the others stay what they are.

    Examples
    --------
    >>> import rtx_jax as xp
    >>> from rtx_jax import nn
    >>> x = xp.asarray([[[0.0, 10.0]]], dtype=xp.float32)
    >>> nn.interpolate(x, size=4, mode="linear")
    Array([[[ 0. ,  2.5,  7.5, 10. ]]], dtype=float32)
    >>> nn.interpolate(x, size=3, mode="linear", align_corners=True)
    Array([[[ 0.,  5., 10.]]], dtype=float32)
    """
    static = (
        hashable("interpolate", "size", size),
        None if scale_factor is None else factors(scale_factor, x.ndim - 2),
        mode.lower() if isinstance(mode, str) else str(mode),
        None if align_corners is None else flag("interpolate", "align_corners", align_corners),
        flag("interpolate", "recompute_scale_factor", recompute_scale_factor),
    )
    return call1(_interpolate, x, static)
