"""Conversion between dtypes, and questions about dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from ..operands import dtype_named
from ..ulp import Values, is_floating, is_inexact

__all__ = ["astype", "finfo", "iinfo"]


def astype(x: Values, dtype: str, /) -> Values:
    """Convert; a float outside of an integer's range becomes its bound, NaN 0; only a nonzero number is True."""
    to = dtype_named(dtype)
    with np.errstate(all="ignore"):
        if to.kind == "b":
            return np.asarray(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) != 0)
        if to.kind in "iu" and is_inexact(x.dtype):
            return _saturated((x.real if x.dtype.kind == "c" else x).astype(np.float64), to)
        if is_floating(to) and x.dtype.kind == "c":
            x = x.real
        return x.astype(to)


def _saturated(x: Values, to: np.dtype) -> Values:
    info = np.iinfo(to)
    out = np.zeros(x.shape, to)
    for place in np.ndindex(x.shape):
        value = float(x[place])
        if value != value:
            continue
        out[place] = info.max if value >= info.max else info.min if value <= info.min else int(value)
    return out


def finfo(x: Values, /) -> list[object]:
    """Return bits, eps, max, min and smallest_normal of the dtype of an array."""
    dtype = np.dtype(f"f{x.dtype.itemsize // 2}") if x.dtype.kind == "c" else x.dtype
    info = ml_dtypes.finfo(dtype)
    return [int(info.bits), *(float(v) for v in (info.eps, info.max, info.min, info.smallest_normal))]


def iinfo(x: Values, /) -> list[object]:
    """Return bits, max and min of the dtype of an array."""
    info = np.iinfo(x.dtype)
    return [int(info.bits), int(info.max), int(info.min)]
