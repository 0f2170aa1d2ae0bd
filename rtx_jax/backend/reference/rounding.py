"""Precision of the reference: widen the operands, compute, round once to the dtype of the result.

Arithmetic (``+ - * /`` and the square root) of types up to float32 is done in float64, whose 53 bits are more than
twice 24 plus 2, so that rounding the float64 result again gives the correctly rounded one (Figueroa 1995). Arithmetic
of float64 is the hardware's own, correctly rounded. Functions of float64 operands are computed in ``np.longdouble``,
which has 64 bits on x86 and 113 on some others; where it is no wider than float64, the result is the C library's.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

__all__ = ["exact", "integer_range", "is_float", "is_integer", "narrow", "scalar", "wide"]

_SMALL_INTEGERS = tuple(np.dtype(t) for t in (ml_dtypes.int2, ml_dtypes.int4, ml_dtypes.uint2, ml_dtypes.uint4))


def is_integer(dtype: np.dtype, /) -> bool:
    """Tell whether `dtype` is a signed or unsigned integer, of NumPy or below one byte."""
    return dtype.kind in "iu" or dtype in _SMALL_INTEGERS


def is_float(dtype: np.dtype, /) -> bool:
    """Tell whether `dtype` is a real floating type, those of ml_dtypes included."""
    return dtype.kind == "f" or (dtype.kind == "V" and dtype not in _SMALL_INTEGERS)


def exact(x: np.ndarray, /) -> np.ndarray:
    """Return `x` in the type of arithmetic: float64 for floating types, whole bytes for integers."""
    if is_float(x.dtype):
        return x.astype(np.float64)
    return x.astype(np.int64) if x.dtype in _SMALL_INTEGERS else x


def wide(x: np.ndarray, /) -> np.ndarray:
    """Return `x` in the type in which functions and sums of products are computed, wider than its own."""
    return x.astype(np.longdouble) if x.dtype == np.float64 else exact(x)


def integer_range(dtype: np.dtype, /) -> tuple[int, int]:
    """Return the least and the greatest value of an integer dtype."""
    info = ml_dtypes.iinfo(dtype)
    return int(info.min), int(info.max)


def narrow(values: np.ndarray, dtype: np.dtype, /) -> np.ndarray:
    """Round to `dtype`: to nearest, ties to even, once; subnormal results are kept.

    Parameters
    ----------
    values
        In the type of `exact` or `wide`.
    dtype
        The dtype of the result. Values beyond the largest finite number become what the type has for overflow:
        infinity, or NaN in the types without infinity. To an integer type fractions are cut off, values out of
        range become the nearest one in range, and NaN becomes 0.
    """
    values = np.asarray(values)
    if values.dtype == dtype:
        return values
    with np.errstate(all="ignore"):
        if is_integer(dtype) and values.dtype.kind == "f":
            return _to_integer(values, dtype)
        if dtype.itemsize < 4 and is_float(dtype) and values.dtype.kind == "f":
            return _to_odd_float32(values).astype(dtype)
        return values.astype(dtype)


def _to_odd_float32(values: np.ndarray) -> np.ndarray:
    """Return float32 values that round to every narrower type as `values` do.

    Casts to the types of ml_dtypes go through float32, which would round twice. Rounding to odd (Boldo and Melquiond
    2008) makes the second rounding right: an inexact result takes the neighbour whose last bit is 1.
    """
    near = np.asarray(values, np.float32)
    odd = near.view(np.uint32) & 1 == 1
    toward = np.where(near < values, np.float32(np.inf), np.float32(-np.inf))
    fix = (near != values) & ~odd & np.isfinite(near) & np.isfinite(values)
    return np.where(fix, np.nextafter(near, toward), near)


def _to_integer(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    low, high = integer_range(dtype)
    whole = np.trunc(np.where(np.isnan(values), 0, values))
    below, above = whole <= float(low), whole >= float(high)
    inside = np.where(below | above, 0, whole)
    # Unsigned and signed 64 bits differ: a cast from float must not pass through the other one.
    cast = inside.astype(np.uint64) if low == 0 else inside.astype(np.int64)
    return np.where(above, np.asarray(high, cast.dtype), np.where(below, np.asarray(low, cast.dtype), cast)).astype(
        dtype
    )


def scalar(value: float, dtype: np.dtype, /) -> np.ndarray:
    """Return a number as an element of `dtype`, in the type of arithmetic.

    The element type rounds it: beside a bfloat16 tensor, 0.1 is 0.10009765625.
    """
    return exact(narrow(np.asarray(value, np.float64), dtype)) if is_float(dtype) else np.asarray(value)
