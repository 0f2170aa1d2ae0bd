"""Sums, means, variances: exactly rounded sums, and two passes for the variance."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..ulp import Values

__all__ = ["cumulative_prod", "cumulative_sum", "mean", "prod", "std", "sum", "var"]

Axis = int | tuple[int, ...] | None


def _lanes(x: Values, axis: Axis, keepdims: bool, rule: Callable[[list[float]], float]) -> Values:
    """Apply a rule to the numbers of each lane; complex ones by components."""
    if x.dtype.kind == "c":
        real, imag = _lanes(x.real, axis, keepdims, rule), _lanes(x.imag, axis, keepdims, rule)
        out = np.empty(real.shape, np.complex128)
        out.real, out.imag = real, imag
        return out
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = tuple(a % x.ndim for a in axes) if x.ndim else ()
    kept = [a for a in range(x.ndim) if a not in axes]
    rows = np.transpose(x, (*kept, *axes)).reshape([*(x.shape[a] for a in kept), math.prod(x.shape[a] for a in axes)])
    flat = rows.reshape(math.prod(rows.shape[:-1]), rows.shape[-1])
    values = np.array([rule(row.tolist()) for row in flat]).reshape(rows.shape[:-1])
    shape = [1 if a in axes else x.shape[a] for a in range(x.ndim)] if keepdims else rows.shape[:-1]
    return values.reshape(shape)


def _sum(row: list[float]) -> float:
    try:
        return math.fsum(row)
    except (OverflowError, ValueError):
        # fsum refuses infinities of both signs, and sums beyond the range on the way.
        with np.errstate(all="ignore"):
            return float(np.sum(np.array(row, np.longdouble)))


def _integers(x: Values) -> bool:
    return x.dtype.kind in "biu"


def sum(x: Values, /, *, axis: Axis, keepdims: bool) -> Values:
    """Sum, rounded once."""
    if _integers(x):
        return np.asarray(np.sum(x, axis=axis, keepdims=keepdims))
    return _lanes(x, axis, keepdims, _sum)


def mean(x: Values, /, *, axis: Axis, keepdims: bool) -> Values:
    """Mean; NaN of nothing."""
    return _lanes(x, axis, keepdims, lambda row: _sum(row) / len(row) if row else math.nan)


def var(x: Values, /, *, axis: Axis, keepdims: bool, correction: float) -> Values:
    """Variance about the mean; NaN without degrees of freedom."""

    def rule(row: list[float]) -> float:
        freedom = len(row) - correction
        if freedom <= 0 or not row:
            return math.nan
        centre = _sum(row) / len(row)
        return _sum([(v - centre) ** 2 for v in row]) / freedom

    return _lanes(x, axis, keepdims, rule)


def std(x: Values, /, *, axis: Axis, keepdims: bool, correction: float) -> Values:
    """Square root of the variance."""
    return np.asarray(np.sqrt(var(x, axis=axis, keepdims=keepdims, correction=correction)))


def prod(x: Values, /, *, axis: Axis, keepdims: bool) -> Values:
    """Product."""
    return np.asarray(np.prod(x, axis=axis, keepdims=keepdims))


def cumulative_sum(x: Values, /, *, axis: int, include_initial: bool) -> Values:
    """Sum of the elements up to each."""
    return np.asarray(np.cumulative_sum(x, axis=axis, include_initial=include_initial))


def cumulative_prod(x: Values, /, *, axis: int, include_initial: bool) -> Values:
    """Product of the elements up to each."""
    return np.asarray(np.cumulative_prod(x, axis=axis, include_initial=include_initial))
