"""Statistical functions of the array API standard."""

from __future__ import annotations

import numpy as np

from .._array import Array, call1
from ..core.axes import as_axis, as_int
from ..core.dispatch import Op
from ..core.dtypes import DTypeLike, as_dtype
from ..raw import statistical as _raw
from ._results import float_or_none, sum_dtype

__all__ = ["cumulative_prod", "cumulative_sum", "max", "mean", "min", "prod", "std", "sum", "var"]

_sum = Op("sum", _raw.sum, ("axis", "dtype", "keepdims"))
_prod = Op("prod", _raw.prod, ("axis", "dtype", "keepdims"))
_max = Op("max", _raw.max, ("axis", "keepdims"))
_min = Op("min", _raw.min, ("axis", "keepdims"))
_mean = Op("mean", _raw.mean, ("axis", "dtype", "keepdims"))
_var = Op("var", _raw.var, ("axis", "correction", "dtype", "keepdims"))
_std = Op("std", _raw.std, ("axis", "correction", "dtype", "keepdims"))
_cumulative_sum = Op("cumulative_sum", _raw.cumulative_sum, ("axis", "dtype", "include_initial"))
_cumulative_prod = Op("cumulative_prod", _raw.cumulative_prod, ("axis", "dtype", "include_initial"))


def sum(
    x: Array, /, *, axis: int | tuple[int, ...] | None = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Array:
    """Add the elements of an array up.

    Parameters
    ----------
    x
        Array of any shape. Floats below 32 bits are added in float32 and rounded once.
    axis
        Axis or axes to sum over; all of them by default. The sum over no elements is 0.
    dtype
        The dtype to which `x` is cast first, and of the result. By default that of `x`, and for bools and integers
        narrower than the default integer the default integer, unsigned for unsigned ones.
    keepdims
        Keep the axes summed over, with size 1.

    Returns
    -------
    Array

    Raises
    ------
    InvalidDimension
        `x` has no such axis, or one is given twice.
    DTypeMismatch
        A real `dtype` for complex `x`.
    """
    if axis is not None and type(axis) is not int:
        axis = as_axis(axis, "sum")
    dtype = sum_dtype(x, "sum") if dtype is None else as_dtype(dtype, "sum")
    return call1(_sum, x, (axis, dtype, keepdims))


def prod(
    x: Array, /, *, axis: int | tuple[int, ...] | None = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Array:
    """Multiply the elements of an array.

    Parameters
    ----------
    x
        Array of any shape. Floats below 32 bits are multiplied in float32 and rounded once.
    axis
        Axis or axes to multiply over; all of them by default. The product of no elements is 1.
    dtype
        As for `sum`.
    keepdims
        Keep the axes multiplied over, with size 1.

    Returns
    -------
    Array

    Raises
    ------
    InvalidDimension
        `x` has no such axis, or one is given twice.
    DTypeMismatch
        A real `dtype` for complex `x`.
    """
    if axis is not None and type(axis) is not int:
        axis = as_axis(axis, "prod")
    dtype = sum_dtype(x, "prod") if dtype is None else as_dtype(dtype, "prod")
    return call1(_prod, x, (axis, dtype, keepdims))


def max(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """Return the greatest element; NaN if there is one.

    Parameters
    ----------
    x
        Array with at least one element along each axis that is reduced. Complex numbers compare by their real
        parts, then by their imaginary ones.
    axis
        Axis or axes to reduce; all of them by default.
    keepdims
        Keep the reduced axes, with size 1.

    Returns
    -------
    Array
        Of the dtype of `x`.

    Raises
    ------
    InvalidArgument
        There is no element to choose from.
    InvalidDimension
        `x` has no such axis, or one is given twice.

    Notes
    -----
    Elements that share the maximum share its gradient equally.
    """
    if axis is not None and type(axis) is not int:
        axis = as_axis(axis, "max")
    return call1(_max, x, (axis, keepdims))


def min(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """Return the least element; NaN if there is one.

    Parameters
    ----------
    x
        Array with at least one element along each axis that is reduced. Complex numbers compare by their real
        parts, then by their imaginary ones.
    axis
        Axis or axes to reduce; all of them by default.
    keepdims
        Keep the reduced axes, with size 1.

    Returns
    -------
    Array
        Of the dtype of `x`.

    Raises
    ------
    InvalidArgument
        There is no element to choose from.
    InvalidDimension
        `x` has no such axis, or one is given twice.

    Notes
    -----
    Elements that share the minimum share its gradient equally.
    """
    if axis is not None and type(axis) is not int:
        axis = as_axis(axis, "min")
    return call1(_min, x, (axis, keepdims))


def mean(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """Return the arithmetic mean; NaN where there are no elements.

    Parameters
    ----------
    x
        Array of any shape. Floats below 32 bits are averaged in float32 and rounded once.
    axis
        Axis or axes to average over; all of them by default.
    keepdims
        Keep the axes averaged over, with size 1.

    Returns
    -------
    Array
        Of the dtype of `x`; of the default float if that is not floating.

    Raises
    ------
    InvalidDimension
        `x` has no such axis, or one is given twice.
    """
    if axis is not None and type(axis) is not int:
        axis = as_axis(axis, "mean")
    return call1(_mean, x, (axis, float_or_none(x, "mean"), keepdims))


def var(
    x: Array, /, *, axis: int | tuple[int, ...] | None = None, correction: float = 0.0, keepdims: bool = False
) -> Array:
    """Return the variance: the mean squared distance from the mean.

    Parameters
    ----------
    x
        Array of any shape. Floats below 32 bits are computed in float32 and rounded once.
    axis
        Axis or axes to reduce; all of them by default.
    correction
        Taken off the number of elements M to give the divisor; 1 for the unbiased variance of a sample.
    keepdims
        Keep the reduced axes, with size 1.

    Returns
    -------
    Array
        NaN if ``M - correction`` is not positive. Of the dtype of `x`; real if that is complex, the default float if
        it is not floating.

    Raises
    ------
    InvalidDimension
        `x` has no such axis, or one is given twice.
    """
    if axis is not None and type(axis) is not int:
        axis = as_axis(axis, "var")
    if type(correction) is not float and type(correction) is not int:
        correction = float(correction)
    return call1(_var, x, (axis, correction, float_or_none(x, "var"), keepdims))


def std(
    x: Array, /, *, axis: int | tuple[int, ...] | None = None, correction: float = 0.0, keepdims: bool = False
) -> Array:
    """Return the standard deviation: the square root of the variance.

    Parameters
    ----------
    x
        Array of any shape. Floats below 32 bits are computed in float32 and rounded once.
    axis
        Axis or axes to reduce; all of them by default.
    correction
        Taken off the number of elements M to give the divisor; 1 for the deviation of a sample.
    keepdims
        Keep the reduced axes, with size 1.

    Returns
    -------
    Array
        NaN if ``M - correction`` is not positive. Of the dtype of `x`; real if that is complex, the default float if
        it is not floating.

    Raises
    ------
    InvalidDimension
        `x` has no such axis, or one is given twice.
    """
    if axis is not None and type(axis) is not int:
        axis = as_axis(axis, "std")
    if type(correction) is not float and type(correction) is not int:
        correction = float(correction)
    return call1(_std, x, (axis, correction, float_or_none(x, "std"), keepdims))


def cumulative_sum(
    x: Array, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Array:
    """Return the sums of the leading elements along an axis.

    Parameters
    ----------
    x
        Array; one without axes counts as a vector of one element. Floats below 32 bits are added in float32.
    axis
        The axis; may be left out for a vector.
    dtype
        As for `sum`.
    include_initial
        Begin with the sum of no elements, 0, so that the axis grows by one.

    Returns
    -------
    Array

    Raises
    ------
    InvalidDimension
        `x` has no such axis, or has several and none is given.
    DTypeMismatch
        A real `dtype` for complex `x`, or bool.
    """
    if axis is not None and type(axis) is not int:
        axis = as_int(axis, "cumulative_sum", "axis")
    resolved: np.dtype | None = sum_dtype(x, "cumulative_sum") if dtype is None else as_dtype(dtype, "cumulative_sum")
    return call1(_cumulative_sum, x, (axis, resolved, include_initial))


def cumulative_prod(
    x: Array, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Array:
    """Return the products of the leading elements along an axis.

    Parameters
    ----------
    x
        Array; one without axes counts as a vector of one element. Floats below 32 bits are multiplied in float32.
    axis
        The axis; may be left out for a vector.
    dtype
        As for `sum`.
    include_initial
        Begin with the product of no elements, 1, so that the axis grows by one.

    Returns
    -------
    Array

    Raises
    ------
    InvalidDimension
        `x` has no such axis, or has several and none is given.
    DTypeMismatch
        A real `dtype` for complex `x`, or bool.
    """
    if axis is not None and type(axis) is not int:
        axis = as_int(axis, "cumulative_prod", "axis")
    resolved: np.dtype | None = sum_dtype(x, "cumulative_prod") if dtype is None else as_dtype(dtype, "cumulative_prod")
    return call1(_cumulative_prod, x, (axis, resolved, include_initial))
