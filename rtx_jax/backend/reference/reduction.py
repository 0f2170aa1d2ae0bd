"""Reductions. Sums are those of real numbers, rounded (``math.fsum``); variances take two passes.

Without a dimension the result has shape ``(1,)``; with one, that dimension stays with size 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...checks.elementwise import floating, numeric
from ...checks.shape import dim_in, nonempty
from .rounding import exact, narrow

__all__ = [
    "lane_sum",
    "max",
    "max_dim",
    "mean",
    "mean_dim",
    "min",
    "min_dim",
    "sum",
    "sum_dim",
    "var",
    "var_dim",
]

_Reduction = Callable[[np.ndarray], np.ndarray]  # (lanes, n) to (lanes,)


def _exact_sum(lane: np.ndarray) -> float:
    """Sum float64 numbers with one rounding; infinities and NaN as in a plain sum."""
    try:
        return math.fsum(lane)
    except (ValueError, OverflowError):  # infinities of both signs; or a partial sum that overflows
        pass
    if not np.isfinite(lane).all():
        with np.errstate(invalid="ignore"):
            return float(np.sum(lane))
    try:
        return math.ldexp(math.fsum(np.ldexp(lane, -64)), 64)
    except OverflowError:
        return math.copysign(math.inf, math.fsum(np.ldexp(lane, -64)))


def lane_sum(values: np.ndarray, /) -> np.ndarray:
    """Return the sums along the last axis of float64 or integer `values`; of nothing it is 0."""
    if values.dtype.kind in "iu":
        whole: np.ndarray = np.sum(values, -1, dtype=values.dtype)
        return whole
    lanes = values.reshape(-1, values.shape[-1]) if values.size else np.zeros((math.prod(values.shape[:-1]), 0))
    return np.array([_exact_sum(lane) for lane in lanes], np.float64).reshape(values.shape[:-1])


def _over_all(x: np.ndarray, reduce: _Reduction) -> np.ndarray:
    return narrow(reduce(exact(x).reshape(1, -1)), x.dtype)


def _over_dim(name: str, x: np.ndarray, dim: int, reduce: _Reduction) -> np.ndarray:
    place = dim_in(name, dim, x.ndim)
    return np.expand_dims(narrow(reduce(np.moveaxis(exact(x), place, -1)), x.dtype), place)


def sum(x: np.ndarray, /) -> np.ndarray:
    """Return the sum of all elements; 0 for none. Integers wrap around."""
    numeric("sum", x.dtype)
    return _over_all(x, lane_sum)


def sum_dim(x: np.ndarray, /, *, dim: int) -> np.ndarray:
    """Return the sums along `dim`."""
    numeric("sum_dim", x.dtype)
    return _over_dim("sum_dim", x, dim, lane_sum)


def _mean(lanes: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        n = np.float64(lanes.shape[-1])
        total = lane_sum(lanes)
        overflowed = np.isinf(total) & np.isfinite(lanes).all(-1)
        if not overflowed.any():
            return np.asarray(total / n)
        # A sum of float64 can overflow where the mean does not.
        return np.where(overflowed, np.ldexp(lane_sum(np.ldexp(lanes, -64)) / n, 64), total / n)


def mean(x: np.ndarray, /) -> np.ndarray:
    """Return the mean of all elements; NaN for none."""
    floating("mean", x.dtype)
    return _over_all(x, _mean)


def mean_dim(x: np.ndarray, /, *, dim: int) -> np.ndarray:
    """Return the means along `dim`."""
    floating("mean_dim", x.dtype)
    return _over_dim("mean_dim", x, dim, _mean)


def _variance(correction: float) -> _Reduction:
    def reduce(lanes: np.ndarray) -> np.ndarray:
        freedom = lanes.shape[-1] - correction
        with np.errstate(all="ignore"):
            total = lane_sum((lanes - _mean(lanes)[..., None]) ** 2)
            return total / freedom if freedom > 0 else np.full(total.shape, np.nan)

    return reduce


def var(x: np.ndarray, /, *, correction: float = 0.0) -> np.ndarray:
    """Return the variance of all elements: squares over ``n - correction``, NaN where that is not positive.

    The mean is subtracted before the squares are summed.
    """
    floating("var", x.dtype)
    return _over_all(x, _variance(correction))


def var_dim(x: np.ndarray, /, *, dim: int, correction: float = 0.0) -> np.ndarray:
    """Return the variances along `dim`."""
    floating("var_dim", x.dtype)
    return _over_dim("var_dim", x, dim, _variance(correction))


def _extreme(name: str, x: np.ndarray, dim: int | None, function: np.ufunc) -> np.ndarray:
    numeric(name, x.dtype)
    place = None if dim is None else dim_in(name, dim, x.ndim)
    nonempty(name, x.shape, place)
    values = exact(x).reshape(-1) if place is None else exact(x)
    with np.errstate(invalid="ignore"):
        return narrow(function.reduce(values, 0 if place is None else place, keepdims=True), x.dtype)


def max(x: np.ndarray, /) -> np.ndarray:
    """Return the greatest element; NaN if there is one."""
    return _extreme("max", x, None, np.maximum)


def min(x: np.ndarray, /) -> np.ndarray:
    """Return the least element; NaN if there is one."""
    return _extreme("min", x, None, np.minimum)


def max_dim(x: np.ndarray, /, *, dim: int) -> np.ndarray:
    """Return the greatest elements along `dim`."""
    return _extreme("max_dim", x, dim, np.maximum)


def min_dim(x: np.ndarray, /, *, dim: int) -> np.ndarray:
    """Return the least elements along `dim`."""
    return _extreme("min_dim", x, dim, np.minimum)
