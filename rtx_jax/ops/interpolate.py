"""Resampling of the spatial axes of raw arrays (B, C, ...), axis by axis.

Sample i of the result lies at ``(i + 0.5) * step - 0.5`` of the input, or at ``i * (n - 1) / (m - 1)`` with
`align_corners`, where `step` is n / m, or 1 / scale_factor where that was given. These places are computed in float64,
those of ``"nearest"`` exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import numpy as np
from jax import lax

from ..checks import interpolate as _check
from ..checks.elementwise import floating
from ..checks.spatial import Sizes
from ..core.dtypes import int32
from ..raw._kinds import accumulator, cast
from .adaptive_pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d, take

__all__ = ["interpolate"]

_A = -0.75
"""The coefficient of the cubic convolution (Keys 1981), as Torch, OpenCV and ONNX have it."""

_AREA = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}


def interpolate(
    x: jax.Array,
    *,
    size: Sizes | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool = False,
) -> jax.Array:
    """Resample `x` (B, C, ...) to `size`, or to ``floor(n * scale_factor)``."""
    plan = _check.interpolation(
        x.shape,
        size=size,
        scale_factor=scale_factor,
        mode=mode,
        align_corners=align_corners,
        recompute_scale_factor=recompute_scale_factor,
    )
    if plan.mode == "area":
        floating("interpolate", x.dtype)
        return _AREA[len(plan.size)](x, output_size=plan.size)
    if not plan.mode.startswith("nearest"):
        floating("interpolate", x.dtype)
    out = cast(x, accumulator(x.dtype))
    for axis, m in enumerate(plan.size, 2):
        n = x.shape[axis]
        factor = None if plan.factors is None else plan.factors[axis - 2]
        if plan.mode.startswith("nearest"):
            out = _pick(out, axis, _nearest(n, m, factor, exact=plan.mode == "nearest-exact"))
        else:
            places = _places(n, m, factor, plan.align_corners)
            taps = _cubic(places, n) if plan.mode == "bicubic" else _linear(places, n)
            out = _combine(out, axis, taps)
    return cast(out, x.dtype)


def _nearest(n: int, m: int, factor: float | None, *, exact: bool) -> np.ndarray:
    if factor is None:
        places = [(2 * i + 1) * n // (2 * m) if exact else i * n // m for i in range(m)]
    else:
        places = [math.floor((i + 0.5 if exact else i) / factor) for i in range(m)]
    index: np.ndarray = np.minimum(np.asarray(places), n - 1).astype(int32)
    return index


def _pick(x: jax.Array, axis: int, index: np.ndarray) -> jax.Array:
    n, m = x.shape[axis], len(index)
    if n == m and (index == np.arange(n)).all():
        return x
    if m % n == 0 and (index == np.arange(m) // (m // n)).all():
        # A whole factor: a broadcast, whose transpose is a sum and no scatter.
        shape = (*x.shape[: axis + 1], m // n, *x.shape[axis + 1 :])
        wide = lax.broadcast_in_dim(x, shape, tuple(i for i in range(x.ndim + 1) if i != axis + 1))
        return lax.reshape(wide, (*x.shape[:axis], m, *x.shape[axis + 1 :]))
    return take(x, index, axis)


def _places(n: int, m: int, factor: float | None, align_corners: bool) -> np.ndarray:
    """Return where in the input the samples of the result lie."""
    i = np.arange(m, dtype=np.float64)
    if align_corners:
        return i * ((n - 1) / (m - 1)) if m > 1 else i
    return (i + 0.5) * (n / m if factor is None else 1 / factor) - 0.5


def _linear(places: np.ndarray, n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the indices of the elements beside each place, and their weights."""
    places = np.clip(places, 0, n - 1)
    low = np.floor(places).astype(np.int64)
    part = places - low
    return [(low, 1 - part), (np.minimum(low + 1, n - 1), part)]


def _cubic(places: np.ndarray, n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the indices of the four elements about each place, those at the border repeated, and their weights."""
    low = np.floor(places).astype(np.int64)
    part = places - low
    taps: list[tuple[np.ndarray, np.ndarray]] = []
    for offset in (-1, 0, 1, 2):
        d = np.abs(part - offset)
        near = ((_A + 2) * d - (_A + 3)) * d * d + 1
        far = ((_A * d - 5 * _A) * d + 8 * _A) * d - 4 * _A
        weight = np.where(d <= 1, near, np.where(d < 2, far, 0.0))
        index = np.clip(low + offset, 0, n - 1)
        if taps:
            # At the border taps fall on one element, which counts once: an infinite one is not taken from itself.
            last_index, last_weight = taps[-1]
            weight = np.where(index == last_index, weight + last_weight, weight)
            taps[-1] = last_index, np.where(index == last_index, 0.0, last_weight)
        taps.append((index, weight))
    return taps


def _combine(x: jax.Array, axis: int, taps: list[tuple[np.ndarray, np.ndarray]]) -> jax.Array:
    """Add weighted elements along an axis; one of weight zero is left out, even if it is NaN or infinite."""
    shape = tuple([-1 if i == axis else 1 for i in range(x.ndim)])
    out = None
    for index, weight in taps:
        if not weight.any():
            continue
        element = take(x, index.astype(int32), axis)
        along = weight.astype(x.dtype).reshape(shape)
        part = element if (weight == 1).all() else element * along
        if not weight.all():
            absent = lax.broadcast_in_dim(along == 0, element.shape, tuple(range(x.ndim)))
            part = lax.select(absent, lax.full_like(part, 0), part)
        out = part if out is None else out + part
    assert out is not None
    return out
