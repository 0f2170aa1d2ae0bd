"""Resampling to another size, one axis after the other: the weights of every mode form one matrix for each axis."""

from __future__ import annotations

import math

import numpy as np

from ...checks import interpolate as check
from ...checks.elementwise import floating, numeric
from .rounding import narrow, wide

__all__ = ["interpolate"]

_CUBIC = -0.75  # the parameter of Keys' kernel (1981) that libraries of networks use


def interpolate(
    x: np.ndarray,
    /,
    *,
    size: int | tuple[int, ...] | None = None,
    scale_factor: float | tuple[float, ...] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool = False,
) -> np.ndarray:
    """Return `x` (B, C, ...) sampled at `size` places, or at ``floor(n * scale_factor)``.

    Sample i lies at ``i * step`` in ``"nearest"`` and with `align_corners` (then ``step = (n - 1) / (m - 1)``), and at
    ``(i + 1/2) * step - 1/2`` otherwise, where step is 1 over the scale factor, or n / m if sizes were given. The two
    nearest modes take integers too.
    """
    plan = check.interpolation(
        x.shape,
        size=size,
        scale_factor=scale_factor,
        mode=mode,
        align_corners=align_corners,
        recompute_scale_factor=recompute_scale_factor,
    )
    (numeric if plan.mode.startswith("nearest") else floating)("interpolate", x.dtype)
    out = wide(x)
    with np.errstate(all="ignore"):
        for axis, m in enumerate(plan.size):
            factor = None if plan.factors is None else plan.factors[axis]
            matrix = _weights(plan.mode, x.shape[axis + 2], m, factor, plan.align_corners)
            out = _along(out, axis + 2, matrix)
    return narrow(out, x.dtype)


def _along(x: np.ndarray, axis: int, matrix: np.ndarray) -> np.ndarray:
    """Apply a matrix (m, n) along an axis; where a weight is 0 the element does not count, even if it is NaN."""
    lanes = np.moveaxis(x, axis, -1)
    samples = [lanes[..., row != 0] @ row[row != 0].astype(x.dtype) for row in matrix]
    return np.moveaxis(np.stack(samples, -1), -1, axis)


def _weights(mode: str, n: int, m: int, factor: float | None, align_corners: bool) -> np.ndarray:
    """Return the weights (m, n) of the n elements in each of the m samples."""
    matrix = np.zeros((m, n))
    step = n / m if factor is None else 1 / factor
    if align_corners:
        step = (n - 1) / (m - 1) if m > 1 else 0.0
    for i, row in enumerate(matrix):
        if mode == "area":
            start, stop = i * n // m, -(-(i + 1) * n // m)
            row[start:stop] = 1 / (stop - start)
        elif mode.startswith("nearest"):
            half = mode == "nearest-exact"
            # Of sizes, in integers: a rounded quotient could fall below a whole number.
            nearest = (2 * i + half) * n // (2 * m) if factor is None else math.floor((i + half / 2) / factor)
            row[min(nearest, n - 1)] = 1
        else:
            place = i * step if align_corners else (i + 0.5) * step - 0.5
            if mode != "bicubic":
                place = max(place, 0.0)
            left = math.floor(place)
            taps = _cubic(place - left) if mode == "bicubic" else ((0, 1 - (place - left)), (1, place - left))
            for offset, weight in taps:
                row[min(max(left + offset, 0), n - 1)] += weight
    return matrix


def _cubic(t: float) -> tuple[tuple[int, float], ...]:
    """Return Keys' cubic weights of the elements at -1, 0, 1 and 2 for a sample at t in [0, 1)."""
    a = _CUBIC

    def near(d: float) -> float:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: float) -> float:
        return a * (((d - 5) * d + 8) * d - 4)

    return (-1, far(1 + t)), (0, near(t)), (1, near(1 - t)), (2, far(2 - t))
