"""Searching functions of the array API standard."""

from __future__ import annotations

from typing import Literal

import numpy as np

from .._array import Array, call1, call2, calln, wrap_shared
from ..core.axes import as_axis, as_int
from ..core.dispatch import Op, lift, scalar_operand
from ..core.dtypes import default_int
from ..errors import InvalidDimension
from ..raw import searching as _raw
from ._concrete import concrete, from_host, host_view
from ._results import index_dtype

__all__ = ["argmax", "argmin", "count_nonzero", "nonzero", "searchsorted", "where"]

_argmax = Op("argmax", _raw.argmax, ("axis", "keepdims", "index_dtype"))
_argmin = Op("argmin", _raw.argmin, ("axis", "keepdims", "index_dtype"))
_count_nonzero = Op("count_nonzero", _raw.count_nonzero, ("axis", "keepdims", "index_dtype"))
_nonzero_padded = Op("nonzero", _raw.nonzero_padded, ("size", "index_dtype"))
_searchsorted = Op("searchsorted", _raw.searchsorted, ("side", "index_dtype"))
_where = Op("where", _raw.where)

_SCALARS = frozenset((bool, int, float, complex))


def argmax(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Return the index of the greatest element: the first of several, or the first NaN.

    Parameters
    ----------
    x
        Real array with at least one element along the axis.
    axis
        The axis to search along; by default the flattened array is searched.
    keepdims
        Keep the axis (all of them if none is given), with size 1.

    Returns
    -------
    Array
        Of the default integer dtype.

    Raises
    ------
    InvalidArgument
        There is no element to choose from.
    InvalidDimension
        `x` has no such axis.
    UnsupportedDType
        `x` is complex.
    """
    if axis is not None and type(axis) is not int:
        axis = as_int(axis, "argmax", "axis")
    return call1(_argmax, x, (axis, keepdims, index_dtype(x)))


def argmin(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Return the index of the least element: the first of several, or the first NaN.

    Parameters
    ----------
    x
        Real array with at least one element along the axis.
    axis
        The axis to search along; by default the flattened array is searched.
    keepdims
        Keep the axis (all of them if none is given), with size 1.

    Returns
    -------
    Array
        Of the default integer dtype.

    Raises
    ------
    InvalidArgument
        There is no element to choose from.
    InvalidDimension
        `x` has no such axis.
    UnsupportedDType
        `x` is complex.
    """
    if axis is not None and type(axis) is not int:
        axis = as_int(axis, "argmin", "axis")
    return call1(_argmin, x, (axis, keepdims, index_dtype(x)))


def count_nonzero(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """Count the elements that are not zero; NaN is not.

    Parameters
    ----------
    x
        Array of any shape.
    axis
        Axis or axes to count over; all of them by default.
    keepdims
        Keep these axes, with size 1.

    Returns
    -------
    Array
        Of the default integer dtype.

    Raises
    ------
    InvalidDimension
        `x` has no such axis, or one is given twice.
    """
    if axis is not None and type(axis) is not int:
        axis = as_axis(axis, "count_nonzero")
    return call1(_count_nonzero, x, (axis, keepdims, index_dtype(x)))


def nonzero(x: Array, /) -> tuple[Array, ...]:
    """Return the indices of the elements that are not zero, one array for each axis.

    Parameters
    ----------
    x
        Array with at least one axis.

    Returns
    -------
    tuple of Array
        In row-major order, of the default integer dtype.

    Raises
    ------
    InvalidDimension
        `x` has no axes.
    DataDependentShape
        While tracing: the number of indices depends on values.
    """
    data = concrete(x, "nonzero", "Use where, which keeps the shape, or call nonzero outside of the traced function.")
    if not data.ndim:
        raise InvalidDimension(
            "nonzero",
            "x",
            got="no axes",
            wanted="at least 1 axis",
            remedy="Use xp.reshape(x, (1,)).",
            dim=0,
            ndim=0,
        )
    dtype = default_int(data)
    values = host_view(data)
    if values is not None:
        return from_host((i.astype(dtype) for i in np.nonzero(values)), data)
    return _nonzero_on_device(wrap_shared(data), dtype)


def _nonzero_on_device(x: Array, dtype: np.dtype) -> tuple[Array, ...]:
    count = int(count_nonzero(x))
    # Compiled per power of two instead of per count.
    padded = calln(_nonzero_padded, (x,), (1 << max(count - 1, 0).bit_length(), dtype))
    return tuple(i[:count] for i in padded)  # type: ignore[attr-defined]


def searchsorted(
    x1: Array,
    x2: Array | int | float,
    /,
    *,
    side: Literal["left", "right"] = "left",
    sorter: Array | None = None,
) -> Array:
    """Return where elements go into a sorted vector so that it stays sorted.

    Parameters
    ----------
    x1
        Real vector in ascending order, NaNs last as `sort` leaves them.
    x2
        Real values of any shape, or one number.
    side
        ``"left"``: before elements that are equal; ``"right"``: behind them.
    sorter
        Integer vector of the indices that sort `x1`, if it is not sorted.

    Returns
    -------
    Array
        Indices from 0 to the size of `x1`, of the shape of `x2` and the default integer dtype.

    Raises
    ------
    InvalidDimension
        `x1` is not a vector.
    InvalidArgument
        Any other `side`.
    UnsupportedDType
        A complex operand.
    ShapeMismatch
        `sorter` has another shape than `x1`.
    DTypeMismatch
        `sorter` holds no integers.
    """
    if sorter is None:
        return call2(_searchsorted, x1, x2, (side, index_dtype(x1)))
    if type(x2) in _SCALARS:
        x2 = wrap_shared(scalar_operand(x2, lift(x1).dtype)[0])  # type: ignore[arg-type]
    return calln(_searchsorted, (x1, x2, sorter), (side, index_dtype(x1)))  # type: ignore[return-value]


def where(
    condition: Array, x1: Array | bool | int | float | complex, x2: Array | bool | int | float | complex, /
) -> Array:
    """Choose elements of one array where a condition holds, else of another.

    Parameters
    ----------
    condition
        Bools; other numbers count as True where they are not zero.
    x1, x2
        Values, arrays or scalars; a scalar takes the dtype of the array beside it.

    Returns
    -------
    Array
        Of the shape that the three broadcast to and the dtype that `x1` and `x2` promote to.

    Raises
    ------
    BroadcastError
        The shapes do not broadcast.

    Notes
    -----
    The gradient flows into both operands, as 0 where an element was not chosen; a branch that is NaN or infinite
    there spoils it, so guard the operand of the branch, too.
    """
    if type(x1) in _SCALARS:
        beside = lift(x2, None, "where", "x2").dtype
        x1 = wrap_shared(scalar_operand(x1, beside)[0])  # type: ignore[arg-type]
    elif type(x2) in _SCALARS:
        beside = x1.dtype if type(x1) is Array else lift(x1, None, "where", "x1").dtype
        x2 = wrap_shared(scalar_operand(x2, beside)[0])  # type: ignore[arg-type]
    return calln(_where, (condition, x1, x2))  # type: ignore[return-value]
